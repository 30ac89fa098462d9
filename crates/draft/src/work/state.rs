//! State of the agent's graph, and the report of the agent's run.

use std::sync::Arc;

use assize_gate::Reason;
use assize_graph::State;
use assize_llm::{CallTotals, StopReason, ToolCall, TranscriptTurn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::input::{WorkMode, WorkTask};

/// A submission and its status, as reported to the agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WorkSubmission")]
pub struct ReportedSubmission {
    /// Number of the submission in its workspace.
    pub submission: u64,
    /// Status of the submission: `accepted`, `rejected`, `escalated`, `pending` or `undone`.
    pub verdict: String,
    pub files: Vec<String>,
    pub reasons: Vec<Reason>,
}

/// Paths and contents of the files shown to a model without tools; `None` for a file that does not exist.
pub(crate) type ShownFiles = Arc<Vec<(String, Option<String>)>>;

/// State of the agent in one run.
#[derive(Debug, Clone)]
pub struct WorkState {
    pub work: Arc<WorkTask>,
    /// Current mode: tools or text.
    pub mode: WorkMode,
    /// Files shown in text mode; `None` until they are read.
    pub files: Option<ShownFiles>,
    /// Conversation with the model so far.
    pub transcript: Vec<TranscriptTurn>,
    /// Number of model calls so far.
    pub steps: u32,
    /// Submissions so far.
    pub submissions: Vec<ReportedSubmission>,
    /// Whether the model was reminded to submit its changes.
    pub reminded: bool,
    /// Number of truncated answers so far.
    pub truncated_answers: u32,
    /// Tokens and cost of all model calls so far.
    pub spent: CallTotals,
    /// The last answer of the model.
    pub last_answer: ModelAnswer,
    /// Whether the agent has finished.
    pub done: bool,
}

/// A model's answer in one step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelAnswer {
    pub text: String,
    pub calls: Vec<ToolCall>,
    pub stop: StopReason,
}

/// The node of the agent's graph that runs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextNode {
    /// The node that requests the next step from the model.
    CallModel,
    /// The node that reads the files for a model that continues without tools.
    ReadFiles,
    /// The node that ends the run.
    Finish,
}

impl WorkState {
    pub fn new(work: WorkTask) -> WorkState {
        WorkState {
            mode: work.mode,
            work: Arc::new(work),
            files: None,
            transcript: Vec::new(),
            steps: 0,
            submissions: Vec::new(),
            reminded: false,
            truncated_answers: 0,
            spent: CallTotals::default(),
            last_answer: ModelAnswer::default(),
            done: false,
        }
    }

    fn rejections(&self) -> u32 {
        let rejected = self.submissions.iter().filter(|handed| handed.verdict == "rejected");
        u32::try_from(rejected.count()).unwrap_or(u32::MAX)
    }

    /// Whether the limit on model calls or on rejected submissions is reached.
    pub(crate) fn is_limit_reached(&self) -> bool {
        self.steps >= self.work.max_steps || self.rejections() >= self.work.max_rejections
    }

    pub(crate) fn next(&self) -> NextNode {
        match self.mode {
            _ if self.done || self.is_limit_reached() => NextNode::Finish,
            WorkMode::Text if self.files.is_none() => NextNode::ReadFiles,
            _ => NextNode::CallModel,
        }
    }
}

/// An update of the agent's state.
#[derive(Debug, Clone)]
pub enum WorkUpdate {
    /// The files for text mode were read.
    FilesRead(ShownFiles),
    /// The model answered.
    Answered(ModelAnswer),
    /// These turns are appended to the conversation.
    Turns(Vec<TranscriptTurn>),
    /// The agent submitted changes.
    Submitted(ReportedSubmission),
    /// A model call used these tokens at this cost; both are added to the total.
    Spent(CallTotals),
    /// The answer was truncated.
    Truncated,
    /// The agent changed from tools to text mode.
    ChangedToText,
    /// The model was reminded to submit its changes.
    Reminded,
    /// The agent has finished.
    Done,
}

impl State for WorkState {
    type Update = WorkUpdate;
    type Item = ();

    fn apply(&mut self, update: WorkUpdate) {
        match update {
            WorkUpdate::FilesRead(files) => self.files = Some(files),
            WorkUpdate::Answered(answer) => {
                self.steps += 1;
                self.last_answer = answer;
            }
            WorkUpdate::Turns(turns) => self.transcript.extend(turns),
            WorkUpdate::Submitted(handed) => {
                // A repeated submit call reports the same submission again, so the newer report replaces the older.
                self.submissions.retain(|one| one.submission != handed.submission);
                self.submissions.push(handed);
            }
            WorkUpdate::Spent(spent) => self.spent = self.spent.plus(spent),
            WorkUpdate::ChangedToText => {
                self.mode = WorkMode::Text;
                self.transcript.clear();
                self.reminded = false;
            }
            WorkUpdate::Reminded => self.reminded = true,
            WorkUpdate::Truncated => self.truncated_answers += 1,
            WorkUpdate::Done => self.done = true,
        }
    }
}

/// Outcome of a run in which a model edits files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkOutcome {
    /// The last submission of every file was accepted.
    Accepted,
    /// A reviewer must decide on the last submission of at least one file.
    Escalated,
    /// The last submission of at least one file is still being verified.
    Pending,
    /// The last submission of at least one file was rejected or undone.
    Rejected,
    /// Nothing was submitted.
    Nothing,
}

/// Stored report of a run in which a model edits files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkReport {
    pub outcome: WorkOutcome,
    pub task_id: String,
    pub submissions: Vec<ReportedSubmission>,
    /// Number of model calls.
    pub steps: u32,
    /// Whether the run ended at the limit on model calls or on rejected submissions.
    pub limit_reached: bool,
    /// Mode of the agent when the run ended.
    pub mode: WorkMode,
    /// Text of the model's last answer.
    pub answer: String,
    /// Tokens and cost of all model calls.
    pub spent: CallTotals,
}

impl From<&WorkState> for WorkReport {
    fn from(state: &WorkState) -> WorkReport {
        // Only the last verdict on each file determines the outcome.
        let mut last: std::collections::BTreeMap<&str, &str> = std::collections::BTreeMap::new();
        for handed in &state.submissions {
            for file in &handed.files {
                last.insert(file, &handed.verdict);
            }
        }
        // An undone change counts as rejected, because the file does not contain it any more.
        let any = |verdict: &str| last.values().any(|v| *v == verdict);
        let outcome = match () {
            () if state.submissions.is_empty() => WorkOutcome::Nothing,
            () if any("rejected") || any("undone") => WorkOutcome::Rejected,
            () if any("escalated") => WorkOutcome::Escalated,
            () if any("pending") => WorkOutcome::Pending,
            () => WorkOutcome::Accepted,
        };
        WorkReport {
            outcome,
            task_id: state.work.task_id.to_string(),
            submissions: state.submissions.clone(),
            steps: state.steps,
            limit_reached: !state.done && state.is_limit_reached(),
            mode: state.mode,
            answer: state.last_answer.text.clone(),
            spent: state.spent,
        }
    }
}
