//! Progress of a consultation: the current stage (called layer), the active agents, and the debates.

use std::collections::BTreeMap;

use assize_consult::{CallPosition, CallPurpose};
use assize_run::{ConsultLayer, EffectKey, EffectStage, GraphEvent, RunEvent, Signal};

use crate::progress::{ProgressView, RunUsage};
use crate::terminal::{self, DIM, paint};

/// Progress view of a consultation.
#[derive(Default)]
pub(super) struct Consultation {
    /// Number of planned calls.
    calls: u64,
    /// Number of rounds of each debate.
    rounds: u32,
    /// Description of the current layer, a stage of the consultation such as `debating the moves`.
    layer: String,
    /// Ids of the agents that are working at the moment, such as the analysts.
    agents: Vec<String>,
    /// Number of planned calls that have finished.
    done: u64,
    /// Number of planned calls whose answers came from the journal.
    replayed: u64,
    /// Number of finished calls that were not planned: retries and summaries.
    extra: u64,
    /// Finished tenths of the planned calls (3 means 30 %) at the time of the last line from `report_tenth`.
    tenth: u64,
    /// Current round of each debate, and the score of its business move (`None` until the judges have scored). The map
    /// key is the number in the id of the business move, such as 3 for `m3`.
    debates: BTreeMap<u32, (u32, Option<u64>)>,
}

impl Consultation {
    pub(super) fn new(calls: u64, rounds: u32) -> Consultation {
        Consultation { calls, rounds, ..Consultation::default() }
    }

    /// Updates the view with a progress signal of the run, such as a finished call. Returns a line to print if the
    /// signal is important enough.
    pub(super) fn on_signal(&mut self, signal: &Signal<'_>, so_far: &RunUsage) -> Option<String> {
        let line = match signal {
            Signal::Effect { key, stage } => self.count(key, *stage, so_far.seconds),
            Signal::Event { event, .. } => self.on_event(event),
            _ => None,
        }?;
        let line = format!("{line} · {} · {}", self.call_counts(), so_far.spent);
        Some(paint(DIM, terminal::replace_control_chars(&line)))
    }

    /// Counts a finished model call. Returns the progress line of `report_tenth`, if there is one.
    fn count(&mut self, key: &EffectKey, stage: EffectStage, seconds: u64) -> Option<String> {
        let place = CallPosition::of(key);
        let replayed = matches!(stage, EffectStage::Replayed | EffectStage::Inherited);
        match stage {
            EffectStage::Started | EffectStage::Failed => return None,
            // The verdict of a debate is also an effect, but not a model call.
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
        if let (
            Some(number),
            Some(CallPosition { purpose: CallPurpose::Answer, round: Some(round), .. }),
        ) = (number, place)
        {
            let debate = self.debates.entry(number).or_default();
            debate.0 = debate.0.max(round);
        }
        self.report_tenth(seconds)
    }

    /// During the debates, returns a progress line whenever another tenth of the planned calls has finished.
    fn report_tenth(&mut self, seconds: u64) -> Option<String> {
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
            format!("{rounds}{}", self.remaining_time(seconds))
        })
    }

    fn on_event(&mut self, event: &GraphEvent) -> Option<String> {
        match RunEvent::read(&event.name, &event.payload)? {
            RunEvent::LayerStart { layer, .. } => {
                self.layer = match layer {
                    ConsultLayer::Number(0) => "gathering data".to_owned(),
                    ConsultLayer::Number(1) => {
                        "drawing the inferences F1 (finances) and F2 (trends) from the data"
                            .to_owned()
                    }
                    ConsultLayer::Number(2) => "analysts propose moves".to_owned(),
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
                    true => format!("{agent_id} gave no usable answer"),
                    false => format!("{agent_id} wrote {}", output.join(", ")),
                })
            }
            RunEvent::SandboxScored { move_id, score, .. } => {
                let number = move_id.strip_prefix('m').and_then(|number| number.parse().ok());
                if let Some(number) = number {
                    self.debates.entry(number).or_default().1 = Some(score.into());
                }
                Some(format!("the move {move_id} scored {score}"))
            }
            RunEvent::Warning { message, .. } => Some(format!("warning: {message}")),
            _ => None,
        }
    }

    /// Formats the estimated remaining time, which is derived from the average time per call so far.
    fn remaining_time(&self, seconds: u64) -> String {
        let new = self.done.saturating_sub(self.replayed);
        match (new, self.calls.saturating_sub(self.done)) {
            (20.., left @ 1..) => match seconds * left / new {
                seconds @ 0..120 => format!(" · about {seconds} s left"),
                seconds => format!(" · about {} min left", seconds.div_ceil(60)),
            },
            _ => String::new(),
        }
    }

    /// Formats the numbers of finished and planned calls.
    fn call_counts(&self) -> String {
        let replayed = match self.replayed {
            0 => String::new(),
            count => format!(" ({count} from the journal)"),
        };
        let extra = match self.extra {
            0 => String::new(),
            count => format!(" and {count} extra"),
        };
        format!("{} of {} calls{replayed}{extra}", self.done, self.calls)
    }
}

impl ProgressView for Consultation {
    fn lines(&self, RunUsage { seconds, spent }: &RunUsage) -> Vec<String> {
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
        // Time and cost are on separate lines, so that they fit into narrow terminals.
        let left = self.remaining_time(*seconds);
        lines.push(paint(DIM, format!("  {seconds} s{left} · {}", self.call_counts())));
        lines.push(paint(DIM, format!("  {spent}")));
        lines
    }
}

/// Whether a call was not planned: a retry or a summary.
fn is_extra(key: &EffectKey, place: Option<CallPosition>) -> bool {
    match place {
        Some(place) => {
            let again = key.as_str().contains("-anew-");
            again || matches!(place.purpose, CallPurpose::ScoreAgain | CallPurpose::Summary)
        }
        None => {
            let last = key.segments().last().unwrap_or_default();
            last.starts_with("infer-") || last.starts_with("propose-")
        }
    }
}
