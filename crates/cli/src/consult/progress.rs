//! How far a consultation is: lines that change in place on a terminal, plain lines elsewhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use assize_debate::{Part, Place};
use assize_gateway::Ledger;
use assize_graph::{EffectStage, Event, Key, Signal};

use crate::account::account;
use crate::terminal::{self, DIM, Manner, paint};

/// How many debates are shown in one line.
const IN_A_LINE: usize = 5;

#[derive(Default)]
struct Shown {
    layer: String,
    done: u64,
    replayed: u64,
    /// The round of each debate, and its score once there is one.
    debates: BTreeMap<u32, (u32, Option<u64>)>,
}

/// Follows a consultation and shows how far it is.
pub(super) struct Progress {
    heading: String,
    calls: u64,
    rounds: u32,
    ledger: Arc<dyn Ledger>,
    begun: Instant,
    manner: Manner,
    shown: Mutex<Shown>,
}

impl Progress {
    pub(super) fn new(
        heading: String,
        calls: u64,
        rounds: u32,
        ledger: Arc<dyn Ledger>,
        quiet: bool,
    ) -> Progress {
        let manner = Manner::begin(quiet, &heading);
        let (begun, shown) = (Instant::now(), Mutex::default());
        Progress { heading, calls, rounds, ledger, begun, manner, shown }
    }

    /// Keeps the seconds going for as long as it is awaited.
    pub(super) async fn tick(&self) {
        loop {
            if self.manner == Manner::Live {
                self.draw(&self.shown());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    pub(super) fn see(&self, signal: &Signal<'_>) {
        match signal {
            Signal::Effect { key, stage } => self.count(key, *stage),
            Signal::Event { event, .. } => self.hear(event),
            _ => {}
        }
    }

    fn count(&self, key: &Key, stage: EffectStage) {
        let mut shown = self.shown();
        match stage {
            EffectStage::Started | EffectStage::Failed => return,
            EffectStage::Recorded => shown.done += 1,
            EffectStage::Replayed | EffectStage::Inherited => {
                shown.done += 1;
                shown.replayed += 1;
            }
        }
        let number = key.segments().next().and_then(|first| first.strip_prefix('m')?.parse().ok());
        let place = Place::of(key);
        if let (Some(number), Some(Place { part: Part::Answer, round: Some(round), .. })) =
            (number, place)
        {
            let debate = shown.debates.entry(number).or_default();
            debate.0 = debate.0.max(round);
        }
        if self.manner == Manner::Live {
            self.draw(&shown);
        }
    }

    fn hear(&self, event: &Event) {
        let payload = &event.payload;
        let mut shown = self.shown();
        let line = match event.name.as_str() {
            "layer_start" => {
                shown.layer = match payload["layer"].as_u64() {
                    Some(0) => "gathering what is known".to_owned(),
                    Some(1) => "inferring: F1 and F2".to_owned(),
                    Some(2) => "analysts propose moves".to_owned(),
                    _ => "debating the moves".to_owned(),
                };
                Some(shown.layer.clone())
            }
            "sandbox_scored" => {
                let id = payload["move"].as_str().unwrap_or_default();
                let number = id.strip_prefix('m').and_then(|number| number.parse().ok());
                let score = payload["score"].as_u64();
                if let Some(number) = number {
                    let debate = shown.debates.entry(number).or_default();
                    debate.1 = score;
                }
                Some(format!("{id} scored {}", score.unwrap_or_default()))
            }
            "warning" => {
                Some(format!("warning: {}", payload["message"].as_str().unwrap_or_default()))
            }
            _ => None,
        };
        match (self.manner, line) {
            (Manner::Live, _) => self.draw(&shown),
            (Manner::Lines, Some(line)) => {
                let line = terminal::harmless(&format!("{line} · {}", self.sum(&shown)));
                terminal::note(&paint(DIM, line));
            }
            _ => {}
        }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self, shown: &Shown) {
        let mut lines = vec![self.heading.clone(), format!("  {}", shown.layer)];
        let debates: Vec<String> = shown
            .debates
            .iter()
            .map(|(number, (round, score))| match score {
                Some(score) => format!("m{number:<2} scored {score:>3}"),
                None => format!("m{number:<2} round {round:>2}/{}", self.rounds),
            })
            .collect();
        lines.extend(debates.chunks(IN_A_LINE).map(|row| format!("  {}", row.join("   "))));
        let seconds = self.begun.elapsed().as_secs();
        let new = shown.done - shown.replayed;
        let left = match (new, self.calls.saturating_sub(shown.done)) {
            (20.., left @ 1..) => {
                format!(" · about {} s left", self.begun.elapsed().as_secs() * left / new)
            }
            _ => String::new(),
        };
        lines.push(paint(DIM, format!("  {seconds} s{left} · {}", self.sum(shown))));
        terminal::draw(&lines);
    }

    fn sum(&self, shown: &Shown) -> String {
        let replayed = match shown.replayed {
            0 => String::new(),
            count => format!(" ({count} from the journal)"),
        };
        format!(
            "{} of {} calls{replayed} · {}",
            shown.done,
            self.calls,
            account(&self.ledger.totals())
        )
    }
}
