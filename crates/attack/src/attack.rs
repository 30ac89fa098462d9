//! The attack: every probe outside, and where it gets through there, inside.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use assize_config::Isolation;
use assize_sandbox::Manager;
use futures_util::StreamExt;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::catalog::{self, Judge, Probe, Room};
use crate::fixtures::Fixtures;
use crate::host::{Host, NONCE};
use crate::inside::{Inside, TIGHT_WALL};
use crate::judge::{Verdict, judge};
use crate::marked;
use crate::place::{Place, Run};
use crate::score::{Control, Finding, Outcome, Scorecard};

/// How long something sent to the host may take to be noted there.
const ON_ITS_WAY: Duration = Duration::from_millis(300);

/// An attack that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AttackError {
    #[error("the interpreter cannot run the probes: {0}")]
    Interpreter(String),
    #[error("cannot make what the probes look for: {0}")]
    Fixtures(String),
    #[error("no probe is called `{0}`")]
    NoneCalled(String),
}

#[derive(Debug, Clone)]
pub struct Options {
    /// The Python of this machine, for the controls.
    pub interpreter: PathBuf,
    /// Only those probes in whose name this occurs.
    pub only: Option<String>,
    /// How many probes run at once.
    pub at_once: usize,
}

/// Probes and all they need. Controls are run once, however many backends are attacked.
#[derive(Debug)]
pub struct Attack {
    probes: Vec<Probe>,
    fixtures: Fixtures,
    host: Host,
    controls: Mutex<HashMap<String, Control>>,
    at_once: usize,
}

impl Attack {
    /// Makes everything that the probes look for. It is removed when the attack is dropped.
    pub async fn new(options: Options) -> Result<Attack, AttackError> {
        let mut probes = catalog::list(&options.interpreter).await?;
        if let Some(only) = &options.only {
            probes.retain(|probe| probe.name.contains(only.as_str()));
            if probes.is_empty() {
                return Err(AttackError::NoneCalled(only.clone()));
            }
        }
        // Those that take long begin first.
        probes.sort_by_key(|probe| (probe.room == Room::Usual, probe.judge != Judge::Late));
        let interpreter = options.interpreter.clone();
        let made = tokio::task::spawn_blocking(move || Fixtures::make(&interpreter)).await;
        let mut fixtures = made.map_err(|error| AttackError::Fixtures(error.to_string()))??;
        let inherited = number();
        fixtures.nonces.insert("inherited".to_owned(), inherited.clone());
        let home = fixtures.given.get("home").and_then(Value::as_str).unwrap_or("/").to_owned();
        let (interpreter, work) = (options.interpreter, fixtures.work());
        let host = Host { interpreter, work, home, inherited };
        let at_once = options.at_once.max(1);
        Ok(Attack { probes, fixtures, host, controls: Mutex::default(), at_once })
    }

    /// How many probes there are for such sandboxes.
    pub fn probes(&self, isolation: Isolation) -> usize {
        self.probes.iter().filter(|probe| fits(probe, isolation == Isolation::Microvm)).count()
    }

    /// The folder on the host in which everything is that probes look for.
    pub fn folder(&self) -> &Path {
        self.fixtures.folder()
    }

    /// Attacks sandboxes, and tells each finding as it comes.
    pub async fn run(&self, manager: &Manager, report: impl FnMut(&Finding)) -> Scorecard {
        self.run_in(&Inside(manager), report).await
    }

    /// Attacks no walls at all, as if the host were a sandbox: whoever gets through as a control gets
    /// through here too. It shows that probes can fail.
    pub async fn run_without_walls(&self, report: impl FnMut(&Finding)) -> Scorecard {
        self.run_in(&self.host, report).await
    }

    async fn run_in(&self, place: &dyn Place, mut report: impl FnMut(&Finding)) -> Scorecard {
        let began = Instant::now();
        let mut findings = Vec::with_capacity(self.probes.len());
        let fitting = self.probes.iter().filter(|probe| fits(probe, place.is_machine()));
        let mut under_way = futures_util::stream::iter(fitting)
            .map(|probe| self.try_one(probe, place))
            .buffer_unordered(self.at_once);
        while let Some(finding) = under_way.next().await {
            report(&finding);
            findings.push(finding);
        }
        drop(under_way);
        Scorecard::new(place.name(), findings, began.elapsed())
    }

    async fn try_one(&self, probe: &Probe, place: &dyn Place) -> Finding {
        let control = if probe.machine { Control::OnlyInside } else { self.control(probe).await };
        let (outcome, detail) = match &control {
            Control::NotReached { why } => (Outcome::NotApplicable, why.clone()),
            Control::Reached | Control::OnlyInside => match self.verdict(probe, place).await {
                Verdict::Stopped(detail) => (Outcome::Blocked, detail),
                Verdict::Broke(detail) => (Outcome::Broke, detail),
                Verdict::Reached(detail) => {
                    match probe.promise.and_then(|one| place.best_effort(one)) {
                        None => (Outcome::Escaped, detail),
                        Some(by) => (Outcome::NotApplicable, format!("nobody promised: {by}")),
                    }
                }
            },
        };
        Finding {
            name: probe.name.clone(),
            group: probe.group,
            what: probe.what.clone(),
            backend: place.name(),
            outcome,
            control,
            detail,
            syscall: probe.syscall,
        }
    }

    /// What became of a probe outside, now or when it was first asked.
    async fn control(&self, probe: &Probe) -> Control {
        if let Some(known) = self.controls.lock().await.get(&probe.name) {
            return known.clone();
        }
        let control = match self.verdict(probe, &self.host).await {
            Verdict::Reached(_) => Control::Reached,
            Verdict::Stopped(why) | Verdict::Broke(why) => Control::NotReached { why },
        };
        self.controls.lock().await.insert(probe.name.clone(), control.clone());
        control
    }

    /// Runs all steps of a probe, and judges the last.
    async fn verdict(&self, probe: &Probe, place: &dyn Place) -> Verdict {
        let first_mark = number();
        // Whatever is called by it is ours, also for whoever looks for what we left.
        let tag = format!("{}-{}", &number()[..16], self.fixtures.name());
        let mut last = Verdict::Broke("it has no steps".to_owned());
        for step in 1..=probe.steps {
            // Only the first step knows what the others have to bring.
            let mark = if step == 1 { first_mark.clone() } else { number() };
            let given = self.given(place, &mark, &tag, step).to_string();
            let run = Run {
                probe,
                code: probe.group.code(),
                given,
                mark: mark.clone(),
                tag: tag.clone(),
            };
            let ran = place.run(&run).await;
            let heard = probe.judge == Judge::Heard && self.heard(&mark).await;
            let proof = match probe.proof.as_deref() {
                Some("mark") if step == 1 => None,
                Some("mark") => Some(first_mark.as_str()),
                Some(name) => self.fixtures.nonces.get(name).map(String::as_str).or(Some("")),
                None => None,
            };
            last = judge(probe, &ran, proof, heard);
            if !matches!(last, Verdict::Reached(_)) {
                break;
            }
        }
        if place.guest().is_none() {
            marked::end(&first_mark);
            clear(&tag);
        }
        last
    }

    /// What a probe is told.
    fn given(&self, place: &dyn Place, mark: &str, tag: &str, step: u8) -> Value {
        let mut given = self.fixtures.given.clone();
        let (guest, spare) = match place.guest() {
            Some(guest) => (Value::from(guest), Value::from(vec![guest; 5])),
            None => (self.fixtures.victim().into(), self.fixtures.spares().into()),
        };
        for (name, value) in [
            ("guest", guest),
            ("spare", spare),
            ("mark", mark.into()),
            ("tag", tag.into()),
            ("step", step.into()),
            // Seconds after which the time of one in a tight sandbox is up.
            ("past", (TIGHT_WALL * place.slower() + Duration::from_secs(1)).as_secs().into()),
        ] {
            given.insert(name.to_owned(), value);
        }
        Value::Object(given)
    }

    async fn heard(&self, mark: &str) -> bool {
        let began = Instant::now();
        loop {
            if self.fixtures.heard(mark) {
                return true;
            }
            if began.elapsed() > ON_ITS_WAY {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Whether a probe has anything to say about such a place.
fn fits(probe: &Probe, machine: bool) -> bool {
    machine || !probe.machine
}

/// Removes what a probe left outside, should its last step not have done so.
fn clear(tag: &str) {
    for folder in ["/tmp", "/var/tmp", "/dev/shm"] {
        let _ = std::fs::remove_file(format!("{folder}/assize-left-{tag}"));
    }
}

/// A number that is nowhere else.
fn number() -> String {
    format!("{:0width$x}", fastrand::u128(..), width = NONCE)
}
