//! What a worker knows, and what it came to.

use std::sync::Arc;

use assize_gate::Reason;
use assize_graph::State;
use assize_llm::{Spent, Stop, ToolCall, Turn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::input::{Mode, Work};

/// A submission as the worker heard of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WorkSubmission")]
pub struct Handed {
    /// Its number in the workspace.
    pub submission: u64,
    /// `accepted`, `rejected`, `escalated` or `pending`.
    pub verdict: String,
    pub files: Vec<String>,
    pub reasons: Vec<Reason>,
}

/// Files as a worker without tools is shown them, by path; `None` for a file that does not exist.
pub(crate) type ShownFiles = Arc<Vec<(String, Option<String>)>>;

/// Where a worker is.
#[derive(Debug, Clone)]
pub struct WorkState {
    pub work: Arc<Work>,
    /// How it works now.
    pub mode: Mode,
    /// `None` until they are read.
    pub files: Option<ShownFiles>,
    pub transcript: Vec<Turn>,
    pub steps: u32,
    pub handed: Vec<Handed>,
    /// It was reminded that nothing was handed in.
    pub reminded: bool,
    /// How many of its answers were cut off.
    pub cut_off: u32,
    pub spent: Spent,
    /// The last answer.
    pub said: Said,
    /// There is nothing more to come.
    pub done: bool,
}

/// What a model said in one step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said {
    pub text: String,
    pub calls: Vec<ToolCall>,
    pub stop: Stop,
}

/// What comes after what was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Think,
    /// It goes on without tools, and must be shown files first.
    Look,
    Finish,
}

impl WorkState {
    pub fn new(work: Work) -> WorkState {
        WorkState {
            mode: work.mode,
            work: Arc::new(work),
            files: None,
            transcript: Vec::new(),
            steps: 0,
            handed: Vec::new(),
            reminded: false,
            cut_off: 0,
            spent: Spent::default(),
            said: Said::default(),
            done: false,
        }
    }

    fn rejections(&self) -> u32 {
        let rejected = self.handed.iter().filter(|handed| handed.verdict == "rejected");
        u32::try_from(rejected.count()).unwrap_or(u32::MAX)
    }

    /// Whether it has used up what it may.
    pub(crate) fn is_spent(&self) -> bool {
        self.steps >= self.work.max_steps || self.rejections() >= self.work.max_rejections
    }

    pub(crate) fn next(&self) -> Next {
        match self.mode {
            _ if self.done || self.is_spent() => Next::Finish,
            Mode::Text if self.files.is_none() => Next::Look,
            _ => Next::Think,
        }
    }
}

/// How it changes.
#[derive(Debug, Clone)]
pub enum Update {
    Looked(ShownFiles),
    Said(Said),
    Turns(Vec<Turn>),
    Handed(Handed),
    Spent(Spent),
    /// Its answer was cut off.
    CutOff,
    /// It goes on without tools.
    FellBack,
    Reminded,
    Done,
}

impl State for WorkState {
    type Update = Update;
    type Item = ();

    fn apply(&mut self, update: Update) {
        match update {
            Update::Looked(files) => self.files = Some(files),
            Update::Said(said) => {
                self.steps += 1;
                self.said = said;
            }
            Update::Turns(turns) => self.transcript.extend(turns),
            Update::Handed(handed) => {
                // Asked again, it is the same.
                self.handed.retain(|one| one.submission != handed.submission);
                self.handed.push(handed);
            }
            Update::Spent(spent) => self.spent = self.spent.plus(spent),
            Update::FellBack => {
                self.mode = Mode::Text;
                self.transcript.clear();
                self.reminded = false;
            }
            Update::Reminded => self.reminded = true,
            Update::CutOff => self.cut_off += 1,
            Update::Done => self.done = true,
        }
    }
}

/// What a worker came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkOutcome {
    /// All that it handed in last was accepted.
    Accepted,
    /// A person must decide on something.
    Escalated,
    /// It is being verified still.
    Pending,
    /// What it handed in last was rejected.
    Rejected,
    /// It handed nothing in.
    Nothing,
}

/// The whole of it, as it is kept and shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WorkReport")]
pub struct Worked {
    pub outcome: WorkOutcome,
    pub task_id: String,
    pub submissions: Vec<Handed>,
    pub steps: u32,
    /// It stopped because it may do no more.
    pub limit_reached: bool,
    /// How it worked in the end.
    pub mode: Mode,
    /// Its last words.
    pub said: String,
    pub spent: Spent,
}

impl From<&WorkState> for Worked {
    fn from(state: &WorkState) -> Worked {
        // What was handed in again counts as it went last.
        let mut last: std::collections::BTreeMap<&str, &str> = std::collections::BTreeMap::new();
        for handed in &state.handed {
            for file in &handed.files {
                last.insert(file, &handed.verdict);
            }
        }
        // What was taken back again is not there.
        let any = |verdict: &str| last.values().any(|v| *v == verdict);
        let outcome = match () {
            () if state.handed.is_empty() => WorkOutcome::Nothing,
            () if any("rejected") || any("undone") => WorkOutcome::Rejected,
            () if any("escalated") => WorkOutcome::Escalated,
            () if any("pending") => WorkOutcome::Pending,
            () => WorkOutcome::Accepted,
        };
        Worked {
            outcome,
            task_id: state.work.task_id.to_string(),
            submissions: state.handed.clone(),
            steps: state.steps,
            limit_reached: !state.done && state.is_spent(),
            mode: state.mode,
            said: state.said.text.clone(),
            spent: state.spent,
        }
    }
}
