//! Progress of a debate: a bar for each conversation.

use assize_consult::{DebatePersonas, LogName, Part, Persona, Place, calls};
use assize_run::{EffectStage, Signal};

use crate::progress::{Consumption, View};
use crate::terminal::{DIM, harmless, paint};

/// What is shown of one conversation.
#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    /// Rounds in which both have spoken.
    rounds: u32,
    /// Who is being waited for.
    waits_for: Option<Part>,
    /// A call failed, and nothing has come after it.
    failed: bool,
    scored: bool,
}

/// View of a debate.
pub(super) struct Debate {
    rounds: u32,
    personas: DebatePersonas,
    /// One for each decision maker.
    lanes: Vec<Lane>,
    answered: u64,
    replayed: u64,
    /// The last round that was told in plain lines.
    told: u32,
}

impl Debate {
    pub(super) fn new(rounds: u32, personas: DebatePersonas) -> Debate {
        let lanes = vec![Lane::default(); personas.decision_makers.len()];
        Debate { rounds, personas, lanes, answered: 0, replayed: 0, told: 0 }
    }

    /// Notes a signal; gives a line when all conversations that go on are through a round.
    pub(super) fn see(&mut self, signal: &Signal<'_>, so_far: &Consumption) -> Option<String> {
        let Signal::Effect { key, stage } = signal else { return None };
        let place = Place::of(key)?;
        match stage {
            EffectStage::Started | EffectStage::Failed => {}
            EffectStage::Recorded => self.answered += 1,
            EffectStage::Replayed | EffectStage::Inherited => self.replayed += 1,
        }
        let logs = LogName::first(self.lanes.len());
        for log in logs.filter(|log| place.log.is_none_or(|own| own == *log)) {
            let lane = &mut self.lanes[log.index()];
            lane.waits_for = (*stage == EffectStage::Started).then_some(place.part);
            // What a judge says comes whether or not the conversation went on.
            if !matches!(place.part, Part::Score | Part::ScoreAgain) {
                lane.failed = *stage == EffectStage::Failed;
            }
            if matches!(stage, EffectStage::Started | EffectStage::Failed) {
                continue;
            }
            match (place.part, place.round) {
                (Part::Answer, Some(round)) => lane.rounds = round,
                (Part::Score | Part::ScoreAgain, _) => lane.scored = true,
                _ => {}
            }
        }
        let going = self.lanes.iter().filter(|lane| !lane.failed);
        let through = going.map(|lane| lane.rounds).min().unwrap_or_default();
        (through > self.told).then(|| {
            self.told = through;
            format!("round {through} of {} · {} · {}", self.rounds, self.counted(), so_far.spent)
        })
    }

    fn counted(&self) -> String {
        let total = calls(self.rounds, self.lanes.len());
        let done = self.answered + self.replayed;
        let replayed = match self.replayed {
            0 => String::new(),
            count => format!(" ({count} from the journal)"),
        };
        format!("{done} of {total} calls{replayed}")
    }
}

impl View for Debate {
    fn lines(&self, Consumption { seconds, spent }: &Consumption) -> Vec<String> {
        let makers = &self.personas.decision_makers;
        let line = |(log, maker): (LogName, &Persona)| {
            let (lane, id) = (self.lanes[log.index()], log.maker());
            let state = match lane.waits_for {
                _ if lane.scored => "scored".to_owned(),
                None if lane.failed => "ended early".to_owned(),
                Some(Part::Critic) => "critic speaks".to_owned(),
                Some(Part::Answer) => format!("{id} answers"),
                Some(Part::Score | Part::ScoreAgain) => format!("{id} scores"),
                Some(Part::Summary) => "summing up".to_owned(),
                None => String::new(),
            };
            format!(
                "  {log} {:<26} {} {:>3} of {}  {}",
                harmless(&maker.name),
                bar(lane.rounds, self.rounds),
                lane.rounds,
                self.rounds,
                paint(DIM, state)
            )
        };
        let mut lines: Vec<String> = LogName::first(makers.len()).zip(makers).map(line).collect();
        lines.push(paint(DIM, format!("  {seconds} s · {} · {spent}", self.counted())));
        lines
    }
}

fn bar(done: u32, of: u32) -> String {
    const WIDTH: u32 = 16;
    let full = (WIDTH * done.min(of)).checked_div(of).unwrap_or(WIDTH);
    (0..WIDTH).map(|place| if place < full { '━' } else { '╌' }).collect()
}
