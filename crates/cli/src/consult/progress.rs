//! Progress of a consultation: its layer, its agents and its debates.

use std::collections::BTreeMap;

use assize_consult::{Part, Place};
use assize_run::{EffectStage, Event, Key, Layer, RunEvent, Signal};

use crate::progress::{Consumption, View};
use crate::terminal::{self, DIM, paint};

/// View of a consultation.
#[derive(Default)]
pub(super) struct Consultation {
    calls: u64,
    rounds: u32,
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
    /// The round of each debate, and its score once there is one.
    debates: BTreeMap<u32, (u32, Option<u64>)>,
}

impl Consultation {
    pub(super) fn new(calls: u64, rounds: u32) -> Consultation {
        Consultation { calls, rounds, ..Consultation::default() }
    }

    /// Notes a signal; gives the line that says what it is about, if one does.
    pub(super) fn see(&mut self, signal: &Signal<'_>, so_far: &Consumption) -> Option<String> {
        let line = match signal {
            Signal::Effect { key, stage } => self.count(key, *stage, so_far.seconds),
            Signal::Event { event, .. } => self.hear(event),
            _ => None,
        }?;
        let line = format!("{line} · {} · {}", self.counted(), so_far.spent);
        Some(paint(DIM, terminal::harmless(&line)))
    }

    fn count(&mut self, key: &Key, stage: EffectStage, seconds: u64) -> Option<String> {
        let place = Place::of(key);
        let replayed = matches!(stage, EffectStage::Replayed | EffectStage::Inherited);
        match stage {
            EffectStage::Started | EffectStage::Failed => return None,
            // The end of a debate is an effect, and no call.
            _ if key.segments().last().is_some_and(|last| last.starts_with("verdict-")) => {
                return None;
            }
            _ if is_extra(key, place) => self.extra += 1,
            _ => {
                self.done += 1;
                self.replayed += u64::from(replayed);
            }
        }
        let number = key.segments().next().and_then(|first| first.strip_prefix('m')?.parse().ok());
        if let (Some(number), Some(Place { part: Part::Answer, round: Some(round), .. })) =
            (number, place)
        {
            let debate = self.debates.entry(number).or_default();
            debate.0 = debate.0.max(round);
        }
        self.tell_tenths(seconds)
    }

    /// A line for each tenth of the calls, while moves are debated.
    fn tell_tenths(&mut self, seconds: u64) -> Option<String> {
        let tenth = 10 * self.done / self.calls.max(1);
        let rounds = self.debates.values().filter(|(_, score)| score.is_none());
        let rounds = rounds.map(|(round, _)| *round);
        let (least, most) = (rounds.clone().min()?, rounds.max()?);
        (tenth > self.tenth && tenth < 10).then(|| {
            self.tenth = tenth;
            let rounds = match least == most {
                true => format!("round {most} of {}", self.rounds),
                false => format!("rounds {least} to {most} of {}", self.rounds),
            };
            format!("{rounds}{}", self.left(seconds))
        })
    }

    fn hear(&mut self, event: &Event) -> Option<String> {
        match RunEvent::read(&event.name, &event.payload)? {
            RunEvent::LayerStart { layer, .. } => {
                self.layer = match layer {
                    Layer::Number(0) => "gathering what is known".to_owned(),
                    Layer::Number(1) => "inferring: F1 and F2".to_owned(),
                    Layer::Number(2) => "analysts propose moves".to_owned(),
                    _ => "debating the moves".to_owned(),
                };
                self.agents.clear();
                Some(self.layer.clone())
            }
            RunEvent::AgentStart { agent_id, .. } => {
                self.agents.push(agent_id);
                None
            }
            RunEvent::AgentComplete { agent_id, output, .. } => {
                self.agents.retain(|agent| *agent != agent_id);
                Some(match output.is_empty() {
                    true => format!("{agent_id} gave nothing that can be used"),
                    false => format!("{agent_id} wrote {}", output.join(", ")),
                })
            }
            RunEvent::SandboxScored { move_id, score, .. } => {
                let number = move_id.strip_prefix('m').and_then(|number| number.parse().ok());
                if let Some(number) = number {
                    self.debates.entry(number).or_default().1 = Some(score.into());
                }
                Some(format!("{move_id} scored {score}"))
            }
            RunEvent::Warning { message, .. } => Some(format!("warning: {message}")),
            _ => None,
        }
    }

    /// How long it will still take, going by what it has taken so far.
    fn left(&self, seconds: u64) -> String {
        let new = self.done.saturating_sub(self.replayed);
        match (new, self.calls.saturating_sub(self.done)) {
            (20.., left @ 1..) => match seconds * left / new {
                seconds @ 0..120 => format!(" · about {seconds} s left"),
                seconds => format!(" · about {} min left", seconds.div_ceil(60)),
            },
            _ => String::new(),
        }
    }

    fn counted(&self) -> String {
        let replayed = match self.replayed {
            0 => String::new(),
            count => format!(" ({count} from the journal)"),
        };
        let extra = match self.extra {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        format!("{} of {} calls{replayed}{extra}", self.done, self.calls)
    }
}

impl View for Consultation {
    fn lines(&self, Consumption { seconds, spent }: &Consumption) -> Vec<String> {
        let layer = match self.agents.is_empty() {
            true => self.layer.clone(),
            false => format!("{}: {}", self.layer, self.agents.join(", ")),
        };
        let mut lines = vec![format!("  {layer}")];
        let cell = |(number, (round, score)): (&u32, &(u32, Option<u64>))| match score {
            Some(score) => format!("m{number:<3} {:<11}", format!("scored {score}")),
            None => format!("m{number:<3} {:<11}", format!("round {round}/{}", self.rounds)),
        };
        let debates: Vec<String> = self.debates.iter().map(cell).collect();
        let in_a_line = (terminal::columns().saturating_sub(2) / 18).max(1);
        lines.extend(debates.chunks(in_a_line).map(|row| format!("  {}", row.join("  "))));
        // The figures that matter most are on lines of their own, which narrow terminals have room for.
        let left = self.left(*seconds);
        lines.push(paint(DIM, format!("  {seconds} s{left} · {}", self.counted())));
        lines.push(paint(DIM, format!("  {spent}")));
        lines
    }
}

/// Whether a call was not planned: it was asked again, or sums up.
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
