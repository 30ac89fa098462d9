//! What a worker is doing: a line that changes in place on a terminal, plain lines elsewhere.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use assize_draft::tools;
use assize_gateway::Ledger;
use assize_graph::{EffectStage, Signal};

use assize_types::text::one_line;

use crate::account::account;
use crate::terminal::{self, DIM, Manner, harmless, paint};

/// Follows a worker and shows what it does.
pub(super) struct Progress {
    heading: String,
    ledger: Arc<dyn Ledger>,
    begun: Instant,
    manner: Manner,
    doing: Mutex<String>,
}

impl Progress {
    pub(super) fn new(heading: String, ledger: Arc<dyn Ledger>, quiet: bool) -> Progress {
        let manner = Manner::begin(quiet, &heading);
        let doing = Mutex::new("getting ready".to_owned());
        Progress { heading, ledger, begun: Instant::now(), manner, doing }
    }

    /// Keeps the seconds going for as long as it is awaited.
    pub(super) async fn tick(&self) {
        loop {
            if self.manner == Manner::Live {
                self.draw(&self.doing());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    pub(super) fn see(&self, signal: &Signal<'_>) {
        match signal {
            Signal::Effect { key, stage: EffectStage::Started } => {
                let key = key.to_string();
                let Some((step, what)) = key.strip_prefix("step-").and_then(|k| k.split_once('/'))
                else {
                    return;
                };
                // Where lines stay, what it does next says enough.
                if what.starts_with("think") && self.manner == Manner::Live {
                    self.say(format!("step {step} · thinking"));
                }
            }
            Signal::Event { event, .. } => {
                let word = |name: &str| event.payload[name].as_str().unwrap_or_default();
                let told = match event.name.as_str() {
                    "tool_called" => {
                        let refused =
                            if event.payload["failed"] == true { ": refused" } else { "" };
                        format!(
                            "step {} · {}{refused}",
                            event.payload["step"],
                            done(word("tool"), word("path"))
                        )
                    }
                    "DRAFT_ACCEPTED" | "DRAFT_REJECTED" | "DRAFT_ESCALATED" => {
                        let first = event.payload["reasons"][0]["message"].as_str();
                        let why = first.and_then(|why| why.lines().next()).unwrap_or_default();
                        let verdict = event.name["DRAFT_".len()..].to_lowercase();
                        match why {
                            "" => verdict,
                            why => format!("{verdict}: {why}"),
                        }
                    }
                    "mode_changed" => format!("going on without tools: {}", word("why")),
                    _ => return,
                };
                self.say(told);
            }
            _ => {}
        }
    }

    fn say(&self, doing: String) {
        let doing = harmless(&one_line(doing.trim()));
        match self.manner {
            Manner::Live => self.draw(&doing),
            Manner::Lines => terminal::note(&paint(DIM, &doing)),
            Manner::Silent => {}
        }
        *self.doing() = doing;
    }

    fn doing(&self) -> MutexGuard<'_, String> {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self, doing: &str) {
        let seconds = self.begun.elapsed().as_secs();
        let spent = account(&self.ledger.totals());
        let line = format!("  {doing} · {seconds} s · {spent}");
        terminal::draw(&[self.heading.clone(), paint(DIM, line)]);
    }
}

/// What a tool does, in words.
fn done(tool: &str, path: &str) -> String {
    match tool {
        "list_files" => "looks at the files".to_owned(),
        "read_file" => format!("reads {path}"),
        tools::REQUEST => format!("asks for a draft of {path}"),
        tools::READ => "reads its draft".to_owned(),
        tools::WRITE => "writes its draft".to_owned(),
        tools::SUBMIT => "hands it in".to_owned(),
        other => format!("calls {other}"),
    }
}
