//! Prepares and runs attacks (`assize attack`) on the sandboxes of this machine and on the gate, with the current
//! settings.

pub mod scorecards;

use std::sync::Arc;

use assize_attack::{Attack, AttackError, AttackOptions, GateAttackError, GateAttackOptions};
use assize_code::Language;
use assize_config::{Isolation, RequestedIsolation};
use assize_sandbox::{SandboxError, SandboxManager, SandboxSpec};
use assize_types::{Failure, FailureKind};

use crate::Services;

pub use assize_attack::{
    AttackScorecard, CaseKind, CaseOutcome, GateAttack, GateCase, GateClass, GateScorecard,
    ProbeFinding, ProbeGroup, ProbeOutcome,
};

/// Maximum number of probes that run at once.
const PARALLEL_PROBES: usize = 4;

/// A prepared attack on the sandboxes of one or more backends.
#[derive(Debug)]
pub struct SandboxAttack {
    attack: Attack,
    targets: Vec<SandboxManager>,
    /// Isolations that are not available on this machine, each with the reason.
    pub skipped: Vec<(Isolation, String)>,
}

impl Services {
    /// Prepares an attack on the sandboxes of the isolations in `wanted`. If `only` is set, uses only the probes whose
    /// name contains this text.
    pub async fn sandbox_attack(
        &self,
        wanted: RequestedIsolation,
        only: Option<String>,
    ) -> Result<SandboxAttack, Failure> {
        let wanted: Vec<Isolation> = match wanted {
            RequestedIsolation::Auto => Isolation::ALL.into(),
            RequestedIsolation::Exactly(isolation) => vec![isolation],
            RequestedIsolation::AtLeast(floor) => {
                Isolation::ALL.into_iter().filter(|each| *each >= floor).collect()
            }
        };
        let sandboxes = self.sandboxes();
        let (mut targets, mut skipped) = (Vec::new(), Vec::new());
        let is_only_one = wanted.len() == 1;
        for isolation in wanted {
            match self.target(isolation).await {
                Ok(manager) => targets.push(manager),
                // If the user named one isolation and it is unavailable, that is an error.
                Err(error) if is_only_one => return Err(error.into()),
                Err(error) => skipped.push((isolation, error.to_string())),
            }
        }
        let python = sandboxes.interpreter(Language::Python).map_err(|why| {
            let message = format!("cannot attack the sandboxes: the probes need Python: {why}");
            Failure::new(FailureKind::Sandbox, message)
        })?;
        let options =
            AttackOptions { interpreter: python.program, only, concurrency: PARALLEL_PROBES };
        let attack = Attack::new(options).await.map_err(|error| {
            let kind = match &error {
                AttackError::NoMatchingProbe(_) => FailureKind::Usage,
                AttackError::Interpreter(_) | AttackError::Fixtures(_) => FailureKind::Environment,
            };
            Failure::from_error(kind, &error)
        })?;
        Ok(SandboxAttack { attack, targets, skipped })
    }

    /// Creates the sandbox manager of an isolation. Also creates one sandbox, to check that the backend works.
    async fn target(&self, isolation: Isolation) -> Result<SandboxManager, SandboxError> {
        let sandboxes = self.sandboxes();
        let backend = sandboxes.backend(isolation)?;
        sandboxes.test_backend(Arc::clone(&backend), SandboxSpec::default()).await?;
        sandboxes.open(backend).await
    }

    /// Prepares an attack on the gate. If `only` is set, uses only the test cases whose name contains this text.
    pub async fn gate_attack(&self, only: Option<String>) -> Result<GateAttack, Failure> {
        // The cases that forge test results are meaningful only if the gate can run tests in a sandbox.
        let sandboxes = self.sandboxes();
        sandboxes.available().await?;
        let policy = assize_draft::policy(&self.settings)?;
        let verifier = assize_draft::verifier(&sandboxes);
        GateAttack::new(GateAttackOptions { policy, verifier, only }).map_err(gate_failure)
    }
}

/// Converts an error of an attack on the gate to a failure.
pub fn gate_failure(error: GateAttackError) -> Failure {
    match error {
        GateAttackError::Draft(error) => error.into(),
        GateAttackError::NoMatchingCase(_) => Failure::from_error(FailureKind::Usage, &error),
        GateAttackError::Corpus(_) | GateAttackError::Workspace(_) => {
            Failure::from_error(FailureKind::Environment, &error)
        }
    }
}

impl SandboxAttack {
    /// Returns the sandbox managers to attack, each with its isolation and the number of probes.
    pub fn targets(&self) -> impl Iterator<Item = (&SandboxManager, Isolation, usize)> {
        self.targets.iter().map(|manager| {
            let isolation = manager.isolation();
            (manager, isolation, self.attack.probes(isolation))
        })
    }

    /// Attacks the sandboxes of one backend, and calls `report` with the result of each probe.
    pub async fn run(
        &self,
        target: &SandboxManager,
        report: impl FnMut(&ProbeFinding),
    ) -> AttackScorecard {
        self.attack.run(target, report).await
    }
}
