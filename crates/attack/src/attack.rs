//! Runs the probes of `assize attack`. Each probe first runs on the host without isolation; this run is its *control*.
//! If the control succeeds, the probe also runs in a sandbox, where success is an escape.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use assize_config::Isolation;
use assize_sandbox::SandboxManager;
use futures_util::StreamExt;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::catalog::{self, Probe, ProbeLimits, SuccessCriterion};
use crate::fixtures::Fixtures;
use crate::host_target::{HostTarget, NONCE};
use crate::judge::{LATE, ProbeVerdict, judge};
use crate::marked_processes;
use crate::sandbox_target::{SandboxTarget, TIGHT_WALL};
use crate::score::{AttackScorecard, ControlOutcome, ProbeFinding, ProbeOutcome};
use crate::target::{AttackTarget, ProbeRun};

/// Maximum time to wait until the mark of a probe, a random text that the probe sends, arrives on the host.
const MARK_TIMEOUT: Duration = Duration::from_millis(300);

/// Error that prevents an attack on the sandboxes.
#[derive(Debug, thiserror::Error)]
pub enum AttackError {
    #[error("the Python interpreter cannot run the probes: {0}")]
    Interpreter(String),
    #[error("cannot create the fixtures of the probes: {0}")]
    Fixtures(String),
    #[error("no probe name contains `{0}`")]
    NoMatchingProbe(String),
}

#[derive(Debug, Clone)]
pub struct AttackOptions {
    /// Python interpreter of the host. It lists the probes and runs them on the host, without isolation.
    pub interpreter: PathBuf,
    /// If set, only the probes whose name contains this text run.
    pub only: Option<String>,
    /// Maximum number of probes that run concurrently.
    pub concurrency: usize,
}

/// Probes of `assize attack`, with their fixtures on the host. The control of a probe, its run on the host without
/// isolation, runs only once, even if several backends are attacked.
#[derive(Debug)]
pub struct Attack {
    probes: Vec<Probe>,
    fixtures: Fixtures,
    host: HostTarget,
    controls: Mutex<HashMap<String, ControlOutcome>>,
    at_once: usize,
}

impl Attack {
    /// Prepares an attack and creates the fixtures of the probes. Dropping the attack removes the fixtures.
    pub async fn new(options: AttackOptions) -> Result<Attack, AttackError> {
        let mut probes = catalog::list(&options.interpreter).await?;
        if let Some(only) = &options.only {
            probes.retain(|probe| probe.name.contains(only.as_str()));
            if probes.is_empty() {
                return Err(AttackError::NoMatchingProbe(only.clone()));
            }
        }
        // The slow probes start first.
        probes.sort_by_key(|probe| {
            (probe.limits == ProbeLimits::Usual, probe.judge != SuccessCriterion::Late)
        });
        let interpreter = options.interpreter.clone();
        let made = tokio::task::spawn_blocking(move || Fixtures::make(&interpreter)).await;
        let mut fixtures = made.map_err(|error| AttackError::Fixtures(error.to_string()))??;
        let inherited = new_nonce();
        fixtures.nonces.insert("inherited".to_owned(), inherited.clone());
        let home =
            fixtures.probe_input.get("home").and_then(Value::as_str).unwrap_or("/").to_owned();
        let (interpreter, work) = (options.interpreter, fixtures.work());
        let host = HostTarget { interpreter, work, home, inherited };
        let at_once = options.concurrency.max(1);
        Ok(Attack { probes, fixtures, host, controls: Mutex::default(), at_once })
    }

    /// Number of probes that apply to a backend.
    pub fn probes(&self, isolation: Isolation) -> usize {
        self.probes
            .iter()
            .filter(|probe| applies_to(probe, isolation == Isolation::Microvm))
            .count()
    }

    /// The folder on the host that contains the fixtures.
    pub fn folder(&self) -> &Path {
        self.fixtures.folder()
    }

    /// Runs the probes in sandboxes that `manager` creates. Calls `report` with each finding as soon as its probe has
    /// finished.
    pub async fn run(
        &self,
        manager: &SandboxManager,
        report: impl FnMut(&ProbeFinding),
    ) -> AttackScorecard {
        self.run_in(&SandboxTarget(manager), report).await
    }

    /// Runs the probes on the host as if the host were a sandbox, to test whether the probes detect missing isolation:
    /// every probe whose control succeeds must be reported as an escape.
    pub async fn run_without_isolation(
        &self,
        report: impl FnMut(&ProbeFinding),
    ) -> AttackScorecard {
        self.run_in(&self.host, report).await
    }

    async fn run_in(
        &self,
        place: &dyn AttackTarget,
        mut report: impl FnMut(&ProbeFinding),
    ) -> AttackScorecard {
        let began = Instant::now();
        let mut findings = Vec::with_capacity(self.probes.len());
        let fitting = self.probes.iter().filter(|probe| applies_to(probe, place.is_microvm()));
        let mut running = futures_util::stream::iter(fitting)
            .map(|probe| self.run_probe(probe, place))
            .buffer_unordered(self.at_once);
        while let Some(finding) = running.next().await {
            report(&finding);
            findings.push(finding);
        }
        drop(running);
        AttackScorecard::new(place.name(), findings, began.elapsed())
    }

    async fn run_probe(&self, probe: &Probe, place: &dyn AttackTarget) -> ProbeFinding {
        let control =
            if probe.machine { ControlOutcome::OnlyInside } else { self.control(probe).await };
        let (outcome, detail) = match &control {
            ControlOutcome::NotReached { why } => (ProbeOutcome::NotApplicable, why.clone()),
            ControlOutcome::Reached | ControlOutcome::OnlyInside => {
                match self.verdict(probe, place).await {
                    ProbeVerdict::Stopped(detail) => (ProbeOutcome::Blocked, detail),
                    ProbeVerdict::Failed(detail) => (ProbeOutcome::Failed, detail),
                    ProbeVerdict::Succeeded(detail) => {
                        match probe.promise.and_then(|promise| place.best_effort(promise)) {
                            None => (ProbeOutcome::Escaped, detail),
                            Some(by) => {
                                let detail = format!(
                                    "the backend does not guarantee the limit that the probe exceeded: {by}"
                                );
                                (ProbeOutcome::NotApplicable, detail)
                            }
                        }
                    }
                }
            }
        };
        ProbeFinding {
            name: probe.name.clone(),
            group: probe.group,
            description: probe.description.clone(),
            backend: place.name(),
            outcome,
            control,
            detail,
            syscall: probe.syscall,
        }
    }

    /// Returns the outcome of a probe's control: the same probe on the host, without isolation. The first call for a
    /// probe runs the control. Later calls return the stored outcome.
    async fn control(&self, probe: &Probe) -> ControlOutcome {
        if let Some(known) = self.controls.lock().await.get(&probe.name) {
            return known.clone();
        }
        let control = match self.verdict(probe, &self.host).await {
            ProbeVerdict::Succeeded(_) => ControlOutcome::Reached,
            ProbeVerdict::Stopped(why) | ProbeVerdict::Failed(why) => {
                ControlOutcome::NotReached { why }
            }
        };
        self.controls.lock().await.insert(probe.name.clone(), control.clone());
        control
    }

    /// Runs the steps of a probe until a step does not succeed, and returns the verdict on the last step that ran.
    async fn verdict(&self, probe: &Probe, place: &dyn AttackTarget) -> ProbeVerdict {
        let first_mark = new_nonce();
        // The names of the files and sockets that a probe creates contain the tag, so that leftovers can be found.
        let tag = format!("{}-{}", &new_nonce()[..16], self.fixtures.name());
        let mut last = ProbeVerdict::Failed("the probe has no steps".to_owned());
        for step in 1..=probe.steps {
            // Only the first step receives the mark that later steps have to find.
            let mark = if step == 1 { first_mark.clone() } else { new_nonce() };
            let given = self.probe_input(place, &mark, &tag, step).to_string();
            let run = ProbeRun {
                probe,
                code: probe.group.code(),
                input: given,
                mark: mark.clone(),
                tag: tag.clone(),
            };
            let ran = place.run(&run).await;
            let arrived = probe.judge == SuccessCriterion::Heard && self.mark_arrives(&mark).await;
            let proof = match probe.proof.as_deref() {
                Some("mark") if step == 1 => None,
                Some("mark") => Some(first_mark.as_str()),
                Some(name) => self.fixtures.nonces.get(name).map(String::as_str).or(Some("")),
                None => None,
            };
            last = judge(probe, &ran, proof, arrived);
            if !matches!(last, ProbeVerdict::Succeeded(_)) {
                break;
            }
        }
        if place.guest_pid().is_none() {
            marked_processes::kill_all(&first_mark);
            remove_leftovers(&tag);
        }
        last
    }

    /// Returns the input that a probe receives for one of its steps, as JSON.
    fn probe_input(&self, place: &dyn AttackTarget, mark: &str, tag: &str, step: u8) -> Value {
        let mut given = self.fixtures.probe_input.clone();
        let (guest, spare) = match place.guest_pid() {
            Some(guest) => (Value::from(guest), Value::from(vec![guest; 5])),
            None => (self.fixtures.victim().into(), self.fixtures.spares().into()),
        };
        for (name, value) in [
            ("guest", guest),
            ("spare", spare),
            ("mark", mark.into()),
            ("tag", tag.into()),
            ("step", step.into()),
            // Number of seconds after which a program in a sandbox with tight limits must have timed out.
            (
                "past",
                (TIGHT_WALL * place.timeout_factor() + Duration::from_secs(1)).as_secs().into(),
            ),
            // Number of seconds that a probe keeps a run busy, to delay its end beyond what is tolerated.
            (
                "late",
                (TIGHT_WALL * place.timeout_factor() + LATE + Duration::from_millis(1500))
                    .as_secs()
                    .into(),
            ),
        ] {
            given.insert(name.to_owned(), value);
        }
        Value::Object(given)
    }

    async fn mark_arrives(&self, mark: &str) -> bool {
        let began = Instant::now();
        loop {
            if self.fixtures.mark_arrived(mark) {
                return true;
            }
            if began.elapsed() > MARK_TIMEOUT {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Whether a probe applies to a backend. Some probes apply only to microVMs.
fn applies_to(probe: &Probe, machine: bool) -> bool {
    machine || !probe.machine
}

/// Removes the files of a probe from the host. The last step of the probe normally removes them, but that step does not
/// run if an earlier step fails.
fn remove_leftovers(tag: &str) {
    for folder in ["/tmp", "/var/tmp", "/dev/shm"] {
        let _ = std::fs::remove_file(format!("{folder}/assize-left-{tag}"));
    }
}

/// Returns a random text of 32 hexadecimal digits, which is practically unique.
fn new_nonce() -> String {
    format!("{:0width$x}", fastrand::u128(..), width = NONCE)
}
