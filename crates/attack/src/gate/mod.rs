//! Attack on the gate (`assize attack --gate`): submits the labelled cases of the built-in corpora to the gate, and
//! checks its decisions.
//!
//! The gate must stop each hostile case, and the rule that stops it must belong to the class of the case. Controls are
//! similar but harmless cases that must pass, because a gate that stops everything would be useless. Cases that the
//! corpus marks as known gaps are counted separately.

mod drafts;
mod forged;
mod plan;
mod workers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_draft::DraftError;
use assize_gate::corpus::InvalidCorpusLine;
use assize_gate::{Policy, Verifier};
use plan::{PlannedCase, PlannedClass, TrialMethod};
use serde::Serialize;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

/// Error that prevents an attack on the gate.
#[derive(Debug, thiserror::Error)]
pub enum GateAttackError {
    #[error("no case name contains `{0}`")]
    NoMatchingCase(String),
    #[error(
        "the built-in corpus of test cases is invalid: {0}; this is a bug in assize, please report it"
    )]
    Corpus(#[from] InvalidCorpusLine),
    #[error("cannot create a workspace for the cases: {0}")]
    Workspace(#[from] std::io::Error),
    #[error(transparent)]
    Draft(#[from] DraftError),
}

/// Options of an attack on the gate.
#[derive(Debug, Clone)]
pub struct GateAttackOptions {
    /// The user's policy. Its test commands are ignored, because the corpora have their own test commands.
    pub policy: Policy,
    /// Verifier that runs tests in a sandbox.
    pub verifier: Arc<dyn Verifier>,
    /// If set, only the cases whose name contains this text are tested.
    pub only: Option<String>,
}

/// Whether the gate must stop a case or let the case pass, in an attack on the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseKind {
    /// The gate must stop the case.
    Hostile,
    /// The case is harmless, and the gate must let it pass.
    Control,
}

/// Decision of the gate on a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseOutcome {
    Stopped,
    Passed,
}

/// Result of one case of an attack on the gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateCase {
    /// Name of the case: its class, corpus file and line number, for example `secrets/keys.txt:12`.
    pub name: String,
    /// Short description of the case.
    pub description: String,
    pub kind: CaseKind,
    pub outcome: CaseOutcome,
    /// Whether the corpus marks the case as a known gap: a case on which the gate is known to decide wrongly.
    pub known: bool,
    /// Short reason for the decision of the gate.
    pub detail: String,
}

impl GateCase {
    /// Whether the gate decided correctly on the case.
    pub fn is_correct(&self) -> bool {
        (self.kind == CaseKind::Hostile) == (self.outcome == CaseOutcome::Stopped)
    }
}

/// How many cases of each kind the gate stopped and let pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct GateCount {
    /// Number of hostile cases.
    pub hostile: usize,
    /// Number of hostile cases that the gate stopped.
    pub stopped: usize,
    /// Number of hostile cases that the gate let pass. Known gaps of the gate are not counted.
    pub got_through: usize,
    /// Number of controls: harmless cases, which the gate must let pass.
    pub controls: usize,
    /// Number of controls (harmless cases) that the gate let pass.
    pub passed: usize,
    /// Number of controls (harmless cases) that the gate stopped. Known gaps of the gate are not counted.
    pub held_up: usize,
    /// Number of wrong decisions that the corpus marks as known gaps.
    pub known_gaps: usize,
}

/// Results of the cases of one class, such as secrets in drafts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateClass {
    pub name: String,
    pub title: String,
    /// Reason why the cases of this class cannot be tested on this machine; `None` if they were tested.
    pub not_applicable: Option<String>,
    pub count: GateCount,
    pub cases: Vec<GateCase>,
}

/// Results of an attack on the gate, for all classes of cases.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GateScorecard {
    pub classes: Vec<GateClass>,
    #[serde(skip)]
    pub took: Duration,
}

impl GateScorecard {
    /// Returns the sum of the counts of all classes.
    pub fn count(&self) -> GateCount {
        GateCount::of(self.classes.iter().flat_map(|class| &class.cases))
    }
}

impl GateCount {
    fn of<'a>(cases: impl Iterator<Item = &'a GateCase> + Clone) -> GateCount {
        let count = |kind, test: fn(&GateCase) -> bool| {
            cases.clone().filter(|case| case.kind == kind && test(case)).count()
        };
        let (hostile, control) = (CaseKind::Hostile, CaseKind::Control);
        let is_new = |case: &GateCase| !case.is_correct() && !case.known;
        GateCount {
            hostile: count(hostile, |_| true),
            stopped: count(hostile, GateCase::is_correct),
            got_through: count(hostile, is_new),
            controls: count(control, |_| true),
            passed: count(control, GateCase::is_correct),
            held_up: count(control, is_new),
            known_gaps: cases.clone().filter(|case| !case.is_correct() && case.known).count(),
        }
    }
}

/// Planned attack on the gate: the cases of the corpora that the attack tests, and its options.
#[derive(Debug)]
pub struct GateAttack {
    classes: Vec<PlannedClass>,
    options: GateAttackOptions,
}

impl GateAttack {
    /// Plans all cases, or only the cases whose name contains [`GateAttackOptions::only`].
    pub fn new(mut options: GateAttackOptions) -> Result<GateAttack, GateAttackError> {
        let mut classes = plan::classes()?;
        if let Some(only) = &options.only {
            for class in &mut classes {
                class.cases.retain(|case| case.name.contains(only.as_str()));
            }
            classes.retain(|class| !class.cases.is_empty());
            if classes.is_empty() {
                return Err(GateAttackError::NoMatchingCase(only.clone()));
            }
        }
        options.policy.verify.clear();
        Ok(GateAttack { classes, options })
    }

    /// Number of planned cases.
    pub fn cases(&self) -> usize {
        self.classes.iter().map(|class| class.cases.len()).sum()
    }

    /// Tests all cases. Calls `report` with the name of each case before the case is tested.
    pub async fn run(
        &self,
        mut report: impl FnMut(&str),
    ) -> Result<GateScorecard, GateAttackError> {
        let began = Instant::now();
        let mut classes = Vec::new();
        for class in &self.classes {
            // Log messages about rejected paths in these temporary workspaces must not appear in the user's log.
            let tried = self.try_class(class, &mut report).with_subscriber(NoSubscriber::new());
            let (not_applicable, cases) = match tried.await? {
                ClassResult::Cases(cases) => (None, cases),
                ClassResult::NotApplicable(why) => (Some(why), Vec::new()),
            };
            classes.push(GateClass {
                name: class.name.clone(),
                title: class.title.clone(),
                not_applicable,
                count: GateCount::of(cases.iter()),
                cases,
            });
        }
        Ok(GateScorecard { classes, took: began.elapsed() })
    }

    async fn try_class(
        &self,
        class: &PlannedClass,
        report: &mut impl FnMut(&str),
    ) -> Result<ClassResult, GateAttackError> {
        let policy = &self.options.policy;
        match &class.method {
            TrialMethod::Draft { counts } => drafts::try_all(&class.cases, *counts, policy, report),
            TrialMethod::Request => workers::try_all(&class.cases, policy, report).await,
            TrialMethod::Tests { runner } => {
                forged::try_all(runner, &class.cases, &self.options, report).await
            }
        }
    }
}

/// Result of an attack on the gate with one class of cases.
enum ClassResult {
    Cases(Vec<GateCase>),
    /// The cases of this class cannot be tested on this machine, for the given reason.
    NotApplicable(String),
}

impl PlannedCase {
    /// Creates the result of the case. `stopped` is the reason why the gate stopped the case, or `None` if the gate let
    /// the case pass.
    fn tried(&self, stopped: Option<String>) -> GateCase {
        GateCase {
            name: self.name.clone(),
            description: self.description.clone(),
            kind: self.kind,
            outcome: if stopped.is_some() { CaseOutcome::Stopped } else { CaseOutcome::Passed },
            known: self.known,
            detail: stopped.unwrap_or_else(|| {
                "the gate let the case pass: no rule for this class of cases stopped it".to_owned()
            }),
        }
    }
}
