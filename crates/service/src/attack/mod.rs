//! Attacks on the sandboxes and the gate of this machine, as the settings have them.

pub mod scorecards;

use std::sync::Arc;

use assize_attack::{Attack, AttackError, GateError, GateOptions, Options};
use assize_code::Language;
use assize_config::{Isolation, Wanted};
use assize_sandbox::{Manager, SandboxError, Spec};
use assize_types::{Failure, FailureKind};

use crate::Services;

pub use assize_attack::{
    CaseKind, CaseOutcome, Finding, GateAttack, GateCase, GateClass, GateScorecard, Group, Outcome,
    Scorecard,
};

/// How many probes run at once.
const AT_ONCE: usize = 4;

/// An attack on sandboxes that is ready to run.
#[derive(Debug)]
pub struct SandboxAttack {
    attack: Attack,
    targets: Vec<Manager>,
    /// Isolations that cannot be had here, and why.
    pub skipped: Vec<(Isolation, String)>,
}

impl Services {
    /// Prepares an attack on sandboxes of these isolations, with the probes whose name contains `only`.
    pub async fn sandbox_attack(
        &self,
        wanted: Wanted,
        only: Option<String>,
    ) -> Result<SandboxAttack, Failure> {
        let wanted: Vec<Isolation> = match wanted {
            Wanted::Auto => Isolation::ALL.into(),
            Wanted::Exactly(isolation) => vec![isolation],
            Wanted::AtLeast(floor) => {
                Isolation::ALL.into_iter().filter(|each| *each >= floor).collect()
            }
        };
        let sandboxes = self.sandboxes();
        let (mut targets, mut skipped) = (Vec::new(), Vec::new());
        let is_only_one = wanted.len() == 1;
        for isolation in wanted {
            match self.target(isolation).await {
                Ok(manager) => targets.push(manager),
                // What was asked for by name is not left out.
                Err(error) if is_only_one => return Err(error.into()),
                Err(error) => skipped.push((isolation, error.to_string())),
            }
        }
        let python = sandboxes.interpreter(Language::Python).map_err(|why| {
            let message = format!("the probes are written in Python: {why}");
            Failure::new(FailureKind::Sandbox, message)
        })?;
        let options = Options { interpreter: python.program, only, at_once: AT_ONCE };
        let attack = Attack::new(options).await.map_err(|error| {
            let kind = match &error {
                AttackError::NoneCalled(_) => FailureKind::Usage,
                AttackError::Interpreter(_) | AttackError::Fixtures(_) => FailureKind::Environment,
            };
            Failure::from_error(kind, &error)
        })?;
        Ok(SandboxAttack { attack, targets, skipped })
    }

    /// A manager that can make sandboxes, shown by making one.
    async fn target(&self, isolation: Isolation) -> Result<Manager, SandboxError> {
        let sandboxes = self.sandboxes();
        let backend = sandboxes.backend(isolation)?;
        sandboxes.attempt(Arc::clone(&backend), Spec::default()).await?;
        sandboxes.open(backend).await
    }

    /// Prepares an attack on the gate, with the cases whose name contains `only`.
    pub async fn gate_attack(&self, only: Option<String>) -> Result<GateAttack, Failure> {
        // What forges test results says nothing where no sandbox can be made.
        let sandboxes = self.sandboxes();
        sandboxes.available().await?;
        let policy = assize_draft::policy(&self.settings)?;
        let verifier = assize_draft::verifier(&sandboxes);
        GateAttack::new(GateOptions { policy, verifier, only }).map_err(gate_failure)
    }
}

/// Why an attack on the gate could not be made.
pub fn gate_failure(error: GateError) -> Failure {
    match error {
        GateError::Draft(error) => error.into(),
        GateError::NoneCalled(_) => Failure::from_error(FailureKind::Usage, &error),
        GateError::Corpus(_) | GateError::Workspace(_) => {
            Failure::from_error(FailureKind::Environment, &error)
        }
    }
}

impl SandboxAttack {
    /// Isolations that are attacked, each with the number of its probes.
    pub fn targets(&self) -> impl Iterator<Item = (&Manager, Isolation, usize)> {
        self.targets.iter().map(|manager| {
            let isolation = manager.isolation();
            (manager, isolation, self.attack.probes(isolation))
        })
    }

    /// Attacks sandboxes of one isolation; `report` is told each finding as it comes.
    pub async fn run(&self, target: &Manager, report: impl FnMut(&Finding)) -> Scorecard {
        self.attack.run(target, report).await
    }
}
