//! How far a debate is: lines that change in place on a terminal, plain lines elsewhere.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use assize_consult::{DebatePersonas, LogName, Part, Place, calls};
use assize_run::{EffectStage, Ledger, Signal};

use crate::account::account;
use crate::terminal::{self, DIM, Manner, paint};

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

struct Shown {
    /// One for each decision maker.
    lanes: Vec<Lane>,
    answered: u64,
    replayed: u64,
    /// The last round that was told in plain lines.
    told: u32,
}

/// Follows a debate and shows how far it is.
pub(crate) struct Progress {
    title: String,
    rounds: u32,
    personas: Arc<DebatePersonas>,
    ledger: Arc<dyn Ledger>,
    begun: Instant,
    manner: Manner,
    shown: Mutex<Shown>,
}

impl Progress {
    pub(crate) fn new(
        title: String,
        rounds: u32,
        personas: Arc<DebatePersonas>,
        ledger: Arc<dyn Ledger>,
        manner: Manner,
    ) -> Progress {
        let lanes = vec![Lane::default(); personas.decision_makers.len()];
        let shown = Mutex::new(Shown { lanes, answered: 0, replayed: 0, told: 0 });
        Progress { title, rounds, personas, ledger, begun: Instant::now(), manner, shown }
    }

    /// Keeps the seconds going for as long as it is awaited.
    pub(crate) async fn tick(&self) {
        loop {
            if self.manner == Manner::Live {
                self.draw(&self.shown());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    pub(crate) fn see(&self, signal: &Signal<'_>) {
        let Signal::Effect { key, stage } = signal else { return };
        let Some(place) = Place::of(key) else { return };
        let mut shown = self.shown();
        match stage {
            EffectStage::Started | EffectStage::Failed => {}
            EffectStage::Recorded => shown.answered += 1,
            EffectStage::Replayed | EffectStage::Inherited => shown.replayed += 1,
        }
        let logs = LogName::first(shown.lanes.len());
        for log in logs.filter(|log| place.log.is_none_or(|own| own == *log)) {
            let lane = &mut shown.lanes[log.index()];
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
        match self.manner {
            Manner::Live => self.draw(&shown),
            Manner::Lines => self.tell(&mut shown),
            Manner::Silent => {}
        }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line when all conversations that go on are through a round.
    fn tell(&self, shown: &mut Shown) {
        let going = shown.lanes.iter().filter(|lane| !lane.failed);
        let through = going.map(|lane| lane.rounds).min().unwrap_or_default();
        if through > shown.told {
            shown.told = through;
            terminal::note(&format!("round {through} of {} · {}", self.rounds, self.sum(shown)));
        }
    }

    fn draw(&self, shown: &Shown) {
        let mut lines = vec![self.title.clone()];
        let makers = &self.personas.decision_makers;
        for (log, maker) in LogName::first(makers.len()).zip(makers) {
            let (lane, id) = (shown.lanes[log.index()], log.maker());
            let state = match lane.waits_for {
                _ if lane.scored => "scored".to_owned(),
                None if lane.failed => "ended early".to_owned(),
                Some(Part::Critic) => "critic speaks".to_owned(),
                Some(Part::Answer) => format!("{id} answers"),
                Some(Part::Score | Part::ScoreAgain) => format!("{id} scores"),
                Some(Part::Summary) => "summing up".to_owned(),
                None => String::new(),
            };
            lines.push(format!(
                "  {log} {:<26} {} {:>3} of {}  {}",
                terminal::harmless(&maker.name),
                bar(lane.rounds, self.rounds),
                lane.rounds,
                self.rounds,
                paint(DIM, state)
            ));
        }
        let seconds = self.begun.elapsed().as_secs();
        lines.push(paint(DIM, format!("  {seconds} s · {}", self.sum(shown))));
        terminal::draw(&lines);
    }

    fn sum(&self, shown: &Shown) -> String {
        let total = calls(self.rounds, self.personas.decision_makers.len());
        let done = shown.answered + shown.replayed;
        let replayed = match shown.replayed {
            0 => String::new(),
            count => format!(" ({count} from the journal)"),
        };
        format!("{done} of {total} calls{replayed} · {}", account(&self.ledger.totals()))
    }
}

fn bar(done: u32, of: u32) -> String {
    const WIDTH: u32 = 16;
    let full = (WIDTH * done.min(of)).checked_div(of).unwrap_or(WIDTH);
    (0..WIDTH).map(|place| if place < full { '━' } else { '╌' }).collect()
}
