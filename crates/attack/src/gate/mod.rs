//! The gate of drafts on trial: its labelled corpora, tried against the gate itself.
//!
//! Hostile cases must be stopped, by a rule of their class. The controls are harmless cases that come close, and must
//! pass: a gate that stops everything shows nothing. Cases that the corpus marks as known are counted apart.

mod drafts;
mod forged;
mod plan;
mod workers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_draft::DraftError;
use assize_gate::corpus::BadLine;
use assize_gate::{Policy, Verifier};
use plan::{Planned, PlannedClass, Way};
use serde::Serialize;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

/// A trial of the gate that could not be held.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    #[error("no case is called `{0}`")]
    NoneCalled(String),
    #[error("the corpus is broken: {0}; this is a bug in assize, please report it")]
    Corpus(#[from] BadLine),
    #[error("cannot make a workspace for the cases: {0}")]
    Workspace(#[from] std::io::Error),
    #[error(transparent)]
    Draft(#[from] DraftError),
}

/// What the corpora are tried with.
#[derive(Debug, Clone)]
pub struct GateOptions {
    /// What the gate goes by, as the settings have it. Test commands of the settings are left out: the corpora bring
    /// their own.
    pub policy: Policy,
    /// Runs tests in a sandbox.
    pub verifier: Arc<dyn Verifier>,
    /// Only those cases in whose name this occurs.
    pub only: Option<String>,
}

/// What a case is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseKind {
    /// The gate must stop it.
    Hostile,
    /// It is harmless, and must pass.
    Control,
}

/// What the gate did with a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseOutcome {
    Stopped,
    Passed,
}

/// One case, tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateCase {
    /// Such as `secrets/keys.txt:12`.
    pub name: String,
    /// What it is, in a few words.
    pub what: String,
    pub kind: CaseKind,
    pub outcome: CaseOutcome,
    /// The corpus says that the gate is wrong about it.
    pub known: bool,
    /// What was seen, in a few words.
    pub detail: String,
}

impl GateCase {
    /// Whether the gate did what it should.
    pub fn is_right(&self) -> bool {
        (self.kind == CaseKind::Hostile) == (self.outcome == CaseOutcome::Stopped)
    }
}

/// How many of each in a class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct GateCount {
    pub hostile: usize,
    /// Hostile cases that were stopped.
    pub stopped: usize,
    /// Hostile cases that were not, but for known ones.
    pub got_through: usize,
    pub controls: usize,
    /// Controls that passed.
    pub passed: usize,
    /// Controls that were stopped, but for known ones.
    pub held_up: usize,
    /// Cases that the gate is wrong about, as the corpus says.
    pub known_gaps: usize,
}

/// A class of cases, tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateClass {
    pub name: String,
    pub title: String,
    /// Why none of its cases could be tried here.
    pub not_applicable: Option<String>,
    pub count: GateCount,
    pub cases: Vec<GateCase>,
}

/// All that was found about the gate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GateScorecard {
    pub classes: Vec<GateClass>,
    #[serde(skip)]
    pub took: Duration,
}

impl GateScorecard {
    /// The counts of all classes together.
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

/// The cases of all corpora, to be tried.
#[derive(Debug)]
pub struct GateAttack {
    classes: Vec<PlannedClass>,
    options: GateOptions,
}

impl GateAttack {
    /// Plans all cases, or those whose name contains [`GateOptions::only`].
    pub fn new(mut options: GateOptions) -> Result<GateAttack, GateError> {
        let mut classes = plan::classes()?;
        if let Some(only) = &options.only {
            for class in &mut classes {
                class.cases.retain(|case| case.name.contains(only.as_str()));
            }
            classes.retain(|class| !class.cases.is_empty());
            if classes.is_empty() {
                return Err(GateError::NoneCalled(only.clone()));
            }
        }
        options.policy.verify.clear();
        Ok(GateAttack { classes, options })
    }

    /// How many cases there are.
    pub fn cases(&self) -> usize {
        self.classes.iter().map(|class| class.cases.len()).sum()
    }

    /// Tries all cases, and reports the name of each before it is tried.
    pub async fn run(&self, mut report: impl FnMut(&str)) -> Result<GateScorecard, GateError> {
        let began = Instant::now();
        let mut classes = Vec::new();
        for class in &self.classes {
            // What the desk logs of refused paths is no event of a real workspace.
            let tried = self.try_class(class, &mut report).with_subscriber(NoSubscriber::new());
            let (not_applicable, cases) = match tried.await? {
                Tried::Cases(cases) => (None, cases),
                Tried::NotApplicable(why) => (Some(why), Vec::new()),
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
    ) -> Result<Tried, GateError> {
        let policy = &self.options.policy;
        match &class.way {
            Way::Draft { counts } => drafts::try_all(&class.cases, *counts, policy, report),
            Way::Request => workers::try_all(&class.cases, policy, report).await,
            Way::Tests { runner } => {
                forged::try_all(runner, &class.cases, &self.options, report).await
            }
        }
    }
}

/// What became of a class.
enum Tried {
    Cases(Vec<GateCase>),
    /// It cannot be tried here, for this reason.
    NotApplicable(String),
}

impl Planned {
    /// The case as it was tried: stopped with a reason, or not.
    fn tried(&self, stopped: Option<String>) -> GateCase {
        GateCase {
            name: self.name.clone(),
            what: self.what.clone(),
            kind: self.kind,
            outcome: if stopped.is_some() { CaseOutcome::Stopped } else { CaseOutcome::Passed },
            known: self.known,
            detail: stopped.unwrap_or_else(|| "nothing spoke against it".to_owned()),
        }
    }
}
