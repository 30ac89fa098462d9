//! Progress of a debate: a progress bar for each conversation.

use assize_consult::{CallPosition, CallPurpose, DebatePersonas, LogName, Persona, calls};
use assize_run::{EffectStage, Signal};

use crate::progress::{ProgressView, RunUsage};
use crate::terminal::{DIM, paint, replace_control_chars};

/// Progress of the conversation between the critic and one decision maker.
#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    /// Number of the last round in which the decision maker has answered.
    rounds: u32,
    /// Purpose of the call that is in progress.
    in_progress: Option<CallPurpose>,
    /// Whether the last call of the conversation failed.
    failed: bool,
    /// Whether the decision maker has scored the business move.
    scored: bool,
}

/// Progress view of a debate.
pub(super) struct Debate {
    /// Number of rounds of the debate.
    rounds: u32,
    personas: DebatePersonas,
    /// Progress of each conversation, in the order of the decision makers.
    conversations: Vec<Lane>,
    /// Number of calls that a model has answered in this process.
    answered: u64,
    /// Number of calls whose answers came from the journal.
    replayed: u64,
    /// Last finished round for which a progress line was returned.
    reported: u32,
}

impl Debate {
    pub(super) fn new(rounds: u32, personas: DebatePersonas) -> Debate {
        let conversations = vec![Lane::default(); personas.decision_makers.len()];
        Debate { rounds, personas, conversations, answered: 0, replayed: 0, reported: 0 }
    }

    /// Updates the view with a progress signal of the run, such as a finished call. Returns a line when all active
    /// conversations have finished a round.
    pub(super) fn on_signal(&mut self, signal: &Signal<'_>, so_far: &RunUsage) -> Option<String> {
        let Signal::Effect { key, stage } = signal else { return None };
        let place = CallPosition::of(key)?;
        match stage {
            EffectStage::Started | EffectStage::Failed => {}
            EffectStage::Recorded => self.answered += 1,
            EffectStage::Replayed | EffectStage::Inherited => self.replayed += 1,
        }
        let logs = LogName::first(self.conversations.len());
        for log in logs.filter(|log| place.log.is_none_or(|own| own == *log)) {
            let lane = &mut self.conversations[log.index()];
            lane.in_progress = (*stage == EffectStage::Started).then_some(place.purpose);
            // A score does not change `failed`, because a judge scores even if the conversation ended early.
            if !matches!(place.purpose, CallPurpose::Score | CallPurpose::ScoreAgain) {
                lane.failed = *stage == EffectStage::Failed;
            }
            if matches!(stage, EffectStage::Started | EffectStage::Failed) {
                continue;
            }
            match (place.purpose, place.round) {
                (CallPurpose::Answer, Some(round)) => lane.rounds = round,
                (CallPurpose::Score | CallPurpose::ScoreAgain, _) => lane.scored = true,
                _ => {}
            }
        }
        let active = self.conversations.iter().filter(|lane| !lane.failed);
        let finished = active.map(|lane| lane.rounds).min().unwrap_or_default();
        (finished > self.reported).then(|| {
            self.reported = finished;
            format!(
                "round {finished} of {} · {} · {}",
                self.rounds,
                self.call_counts(),
                so_far.spent
            )
        })
    }

    /// Formats the numbers of finished and planned calls.
    fn call_counts(&self) -> String {
        let total = calls(self.rounds, self.conversations.len());
        let done = self.answered + self.replayed;
        let replayed = match self.replayed {
            0 => String::new(),
            count => format!(" ({count} from the journal)"),
        };
        format!("{done} of {total} calls{replayed}")
    }
}

impl ProgressView for Debate {
    fn lines(&self, RunUsage { seconds, spent }: &RunUsage) -> Vec<String> {
        let makers = &self.personas.decision_makers;
        let line = |(log, maker): (LogName, &Persona)| {
            let (lane, id) = (self.conversations[log.index()], log.decision_maker_id());
            let state = match lane.in_progress {
                _ if lane.scored => "scored".to_owned(),
                None if lane.failed => "ended early".to_owned(),
                Some(CallPurpose::Critic) => "critic speaks".to_owned(),
                Some(CallPurpose::Answer) => format!("{id} answers"),
                Some(CallPurpose::Score | CallPurpose::ScoreAgain) => format!("{id} scores"),
                Some(CallPurpose::Summary) => "summarizing earlier rounds".to_owned(),
                None => String::new(),
            };
            format!(
                "  {log} {:<26} {} {:>3} of {}  {}",
                replace_control_chars(&maker.name),
                bar(lane.rounds, self.rounds),
                lane.rounds,
                self.rounds,
                paint(DIM, state)
            )
        };
        let mut lines: Vec<String> = LogName::first(makers.len()).zip(makers).map(line).collect();
        lines.push(paint(DIM, format!("  {seconds} s · {} · {spent}", self.call_counts())));
        lines
    }
}

fn bar(done: u32, of: u32) -> String {
    const WIDTH: u32 = 16;
    let full = (WIDTH * done.min(of)).checked_div(of).unwrap_or(WIDTH);
    (0..WIDTH).map(|place| if place < full { '━' } else { '╌' }).collect()
}
