//! Attack on the gate: tries the labelled corpora against it.
//!
//! The gate must stop hostile cases by a rule of their class. Controls are similar but harmless cases that must pass:
//! stopping everything would prove nothing. Cases that the corpus marks as known gaps are counted separately.

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
    NoneCalled(String),
    #[error("invalid corpus: {0}; this is a bug in assize, please report it")]
    Corpus(#[from] InvalidCorpusLine),
    #[error("cannot create a workspace for the cases: {0}")]
    Workspace(#[from] std::io::Error),
    #[error(transparent)]
    Draft(#[from] DraftError),
}

/// Options of an attack on the gate.
#[derive(Debug, Clone)]
pub struct GateAttackOptions {
    /// The user's policy. Its test commands are ignored, because the corpora have their own.
    pub policy: Policy,
    /// Runs tests in a sandbox.
    pub verifier: Arc<dyn Verifier>,
    /// Runs only the cases whose name contains this text.
    pub only: Option<String>,
}

/// Kind of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseKind {
    /// The gate must stop it.
    Hostile,
    /// Harmless; the gate must let it pass.
    Control,
}

/// The gate's reaction to a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseOutcome {
    Stopped,
    Passed,
}

/// Result of one case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateCase {
    /// Corpus list and line, for example `secrets/keys.txt:12`.
    pub name: String,
    /// Description, in a few words.
    pub what: String,
    pub kind: CaseKind,
    pub outcome: CaseOutcome,
    /// Whether the corpus marks the case as a known gap of the gate.
    pub known: bool,
    /// The gate's reason, in a few words.
    pub detail: String,
}

impl GateCase {
    /// Whether the gate decided correctly.
    pub fn is_right(&self) -> bool {
        (self.kind == CaseKind::Hostile) == (self.outcome == CaseOutcome::Stopped)
    }
}

/// Number of cases by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct GateCount {
    pub hostile: usize,
    /// Hostile cases that were stopped.
    pub stopped: usize,
    /// Hostile cases that passed, without known gaps.
    pub got_through: usize,
    pub controls: usize,
    /// Controls that passed.
    pub passed: usize,
    /// Controls that were stopped, without known gaps.
    pub held_up: usize,
    /// Wrong decisions that the corpus marks as known.
    pub known_gaps: usize,
}

/// Results of a class of cases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateClass {
    pub name: String,
    pub title: String,
    /// Why the class cannot be tried on this machine.
    pub not_applicable: Option<String>,
    pub count: GateCount,
    pub cases: Vec<GateCase>,
}

/// All results about the gate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GateScorecard {
    pub classes: Vec<GateClass>,
    #[serde(skip)]
    pub took: Duration,
}

impl GateScorecard {
    /// Counts over all classes.
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
        let is_new = |case: &GateCase| !case.is_right() && !case.known;
        GateCount {
            hostile: count(hostile, |_| true),
            stopped: count(hostile, GateCase::is_right),
            got_through: count(hostile, is_new),
            controls: count(control, |_| true),
            passed: count(control, GateCase::is_right),
            held_up: count(control, is_new),
            known_gaps: cases.clone().filter(|case| !case.is_right() && case.known).count(),
        }
    }
}

/// Attack on the gate with the cases of all corpora.
#[derive(Debug)]
pub struct GateAttack {
    classes: Vec<PlannedClass>,
    options: GateAttackOptions,
}

impl GateAttack {
    /// Plans all cases, or those whose name contains [`GateAttackOptions::only`].
    pub fn new(mut options: GateAttackOptions) -> Result<GateAttack, GateAttackError> {
        let mut classes = plan::classes()?;
        if let Some(only) = &options.only {
            for class in &mut classes {
                class.cases.retain(|case| case.name.contains(only.as_str()));
            }
            classes.retain(|class| !class.cases.is_empty());
            if classes.is_empty() {
                return Err(GateAttackError::NoneCalled(only.clone()));
            }
        }
        options.policy.verify.clear();
        Ok(GateAttack { classes, options })
    }

    /// Number of planned cases.
    pub fn cases(&self) -> usize {
        self.classes.iter().map(|class| class.cases.len()).sum()
    }

    /// Tries all cases. Calls `report` with the name of each case before trying it.
    pub async fn run(
        &self,
        mut report: impl FnMut(&str),
    ) -> Result<GateScorecard, GateAttackError> {
        let began = Instant::now();
        let mut classes = Vec::new();
        for class in &self.classes {
            // Refused paths in these temporary workspaces must not appear in the user's log.
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
        match &class.way {
            TrialMethod::Draft { counts } => drafts::try_all(&class.cases, *counts, policy, report),
            TrialMethod::Request => workers::try_all(&class.cases, policy, report).await,
            TrialMethod::Tests { runner } => {
                forged::try_all(runner, &class.cases, &self.options, report).await
            }
        }
    }
}

/// Result of a class.
enum ClassResult {
    Cases(Vec<GateCase>),
    /// Why the class cannot be tried on this machine.
    NotApplicable(String),
}

impl PlannedCase {
    /// Result of the case. `stopped` is the gate's reason, if it stopped the case.
    fn tried(&self, stopped: Option<String>) -> GateCase {
        GateCase {
            name: self.name.clone(),
            what: self.what.clone(),
            kind: self.kind,
            outcome: if stopped.is_some() { CaseOutcome::Stopped } else { CaseOutcome::Passed },
            known: self.known,
            detail: stopped.unwrap_or_else(|| "no rule applied".to_owned()),
        }
    }
}
