//! How far a consultation is: lines that change in place on a terminal, plain lines elsewhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use assize_consult::{Part, Place};
use assize_run::{EffectStage, Event, Key, Layer, Ledger, RunEvent, Signal};

use crate::account::account;
use crate::terminal::{self, DIM, Manner, paint};

/// The most often that the view is drawn: more than a person sees is a burden for slow lines.
const BETWEEN: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Shown {
    layer: String,
    /// Those who are at work on it.
    agents: Vec<String>,
    /// Of the calls that were planned.
    done: u64,
    replayed: u64,
    /// What was asked again, and summaries.
    extra: u64,
    /// The last tenth of all calls that was told of in a line.
    tenth: u64,
    drawn: Option<Instant>,
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
                self.draw(&mut self.shown());
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
        let place = Place::of(key);
        let replayed = matches!(stage, EffectStage::Replayed | EffectStage::Inherited);
        match stage {
            EffectStage::Started | EffectStage::Failed => return,
            // The end of a debate is an effect, and no call.
            _ if key.segments().last().is_some_and(|last| last.starts_with("verdict-")) => return,
            _ if is_extra(key, place) => shown.extra += 1,
            _ => {
                shown.done += 1;
                shown.replayed += u64::from(replayed);
            }
        }
        let number = key.segments().next().and_then(|first| first.strip_prefix('m')?.parse().ok());
        if let (Some(number), Some(Place { part: Part::Answer, round: Some(round), .. })) =
            (number, place)
        {
            let debate = shown.debates.entry(number).or_default();
            debate.0 = debate.0.max(round);
        }
        match self.manner {
            Manner::Live => self.draw_soon(&mut shown),
            Manner::Lines => self.tell_tenths(&mut shown),
            Manner::Silent => {}
        }
    }

    /// In a pipe: a line for each tenth of the calls, while moves are debated.
    fn tell_tenths(&self, shown: &mut Shown) {
        let tenth = 10 * shown.done / self.calls.max(1);
        let rounds = shown.debates.values().filter(|(_, score)| score.is_none());
        let rounds: Vec<u32> = rounds.map(|(round, _)| *round).collect();
        let (Some(least), Some(most)) = (rounds.iter().min(), rounds.iter().max()) else { return };
        if tenth > shown.tenth && tenth < 10 {
            shown.tenth = tenth;
            let rounds = match least == most {
                true => format!("round {most} of {}", self.rounds),
                false => format!("rounds {least} to {most} of {}", self.rounds),
            };
            let line = format!("{rounds}{} · {}", self.left(shown), self.sum(shown));
            terminal::note(&paint(DIM, line));
        }
    }

    fn hear(&self, event: &Event) {
        let mut shown = self.shown();
        let line = match RunEvent::read(&event.name, &event.payload) {
            Some(RunEvent::LayerStart { layer, .. }) => {
                shown.layer = match layer {
                    Layer::Number(0) => "gathering what is known".to_owned(),
                    Layer::Number(1) => "inferring: F1 and F2".to_owned(),
                    Layer::Number(2) => "analysts propose moves".to_owned(),
                    _ => "debating the moves".to_owned(),
                };
                shown.agents.clear();
                Some(shown.layer.clone())
            }
            Some(RunEvent::AgentStart { agent_id, .. }) => {
                shown.agents.push(agent_id);
                None
            }
            Some(RunEvent::AgentComplete { agent_id, output, .. }) => {
                shown.agents.retain(|agent| *agent != agent_id);
                Some(match output.is_empty() {
                    true => format!("{agent_id} gave nothing that can be used"),
                    false => format!("{agent_id} wrote {}", output.join(", ")),
                })
            }
            Some(RunEvent::SandboxScored { move_id, score, .. }) => {
                let number = move_id.strip_prefix('m').and_then(|number| number.parse().ok());
                if let Some(number) = number {
                    let debate = shown.debates.entry(number).or_default();
                    debate.1 = Some(score.into());
                }
                Some(format!("{move_id} scored {score}"))
            }
            Some(RunEvent::Warning { message, .. }) => Some(format!("warning: {message}")),
            _ => None,
        };
        match (self.manner, line) {
            (Manner::Live, _) => self.draw_soon(&mut shown),
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

    /// Draws, unless that was just done.
    fn draw_soon(&self, shown: &mut Shown) {
        if shown.drawn.is_none_or(|drawn| drawn.elapsed() >= BETWEEN) {
            self.draw(shown);
        }
    }

    fn draw(&self, shown: &mut Shown) {
        shown.drawn = Some(Instant::now());
        let layer = match shown.agents.is_empty() {
            true => shown.layer.clone(),
            false => format!("{}: {}", shown.layer, shown.agents.join(", ")),
        };
        let mut lines = vec![self.heading.clone(), format!("  {layer}")];
        let cell = |(number, (round, score)): (&u32, &(u32, Option<u64>))| match score {
            Some(score) => format!("m{number:<3} {:<11}", format!("scored {score}")),
            None => format!("m{number:<3} {:<11}", format!("round {round}/{}", self.rounds)),
        };
        let debates: Vec<String> = shown.debates.iter().map(cell).collect();
        let in_a_line = (terminal::columns().saturating_sub(2) / 18).max(1);
        lines.extend(debates.chunks(in_a_line).map(|row| format!("  {}", row.join("  "))));
        let seconds = self.begun.elapsed().as_secs();
        let left = self.left(shown);
        // The figures that matter most are on lines of their own, which narrow terminals have room for.
        lines.push(paint(DIM, format!("  {seconds} s{left} · {}", self.counted(shown))));
        lines.push(paint(DIM, format!("  {}", account(&self.ledger.totals()))));
        terminal::draw(&lines);
    }

    /// How long it will still take, going by what it has taken so far.
    fn left(&self, shown: &Shown) -> String {
        let new = shown.done.saturating_sub(shown.replayed);
        match (new, self.calls.saturating_sub(shown.done)) {
            (20.., left @ 1..) => match self.begun.elapsed().as_secs() * left / new {
                seconds @ 0..120 => format!(" · about {seconds} s left"),
                seconds => format!(" · about {} min left", seconds.div_ceil(60)),
            },
            _ => String::new(),
        }
    }

    fn counted(&self, shown: &Shown) -> String {
        let replayed = match shown.replayed {
            0 => String::new(),
            count => format!(" ({count} from the journal)"),
        };
        let extra = match shown.extra {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        format!("{} of {} calls{replayed}{extra}", shown.done, self.calls)
    }

    fn sum(&self, shown: &Shown) -> String {
        format!("{} · {}", self.counted(shown), account(&self.ledger.totals()))
    }
}

/// Whether nobody had planned a call: it was asked again, or sums up.
fn is_extra(key: &Key, place: Option<Place>) -> bool {
    match place {
        Some(place) => {
            let again = key.as_str().contains("-anew-");
            again || matches!(place.part, Part::ScoreAgain | Part::Summary)
        }
        None => {
            let last = key.segments().last().unwrap_or_default();
            last.starts_with("infer-") || last.starts_with("propose-")
        }
    }
}
