//! How answers look that other rooms write: described here for the OpenAPI document, and made nowhere. The fuzzer holds
//! what is answered against it.
#![expect(dead_code, reason = "described, and made elsewhere")]

use std::collections::BTreeMap;

use utoipa::ToSchema;

/// A draft that is being worked on, or waits.
#[derive(ToSchema)]
pub(crate) struct DraftInfo {
    /// In the drafts folder
    name: String,
    task: String,
    /// The file that it is a draft of
    path: String,
    /// The SHA-256 of that file when the draft was asked for; null for a new file
    before: Option<String>,
    /// Milliseconds since 1970
    since: u64,
    /// The submission that it waits in
    submission: Option<u64>,
}

/// Drafts that were handed in together.
#[derive(ToSchema)]
pub(crate) struct SubmissionInfo {
    id: u64,
    /// When it was handed in, in milliseconds since 1970
    at: u64,
    /// When it came to the stage where it is
    settled: u64,
    task: String,
    summary: String,
    worker: String,
    files: Vec<FileChange>,
    /// The SHA-256 of what the gate went by
    policy: String,
    #[schema(inline)]
    stage: StageName,
    /// Who decided
    by: Option<String>,
    reasons: Vec<ReasonInfo>,
    verified: Option<VerifiedInfo>,
    replaced: Vec<Replaced>,
    /// Whether its copies were put away, so that it cannot be shown or undone any more
    swept: bool,
}

/// A submission with what it changes.
#[derive(ToSchema)]
pub(crate) struct SubmissionView {
    #[serde(flatten)]
    submission: SubmissionInfo,
    diffs: Vec<FileDiff>,
}

#[derive(ToSchema)]
pub(crate) struct FileDiff {
    path: String,
    /// Unified; null once its copies were put away
    diff: Option<String>,
    /// What has become of the file since its draft was asked for, as a diff
    changed_meanwhile: Option<String>,
}

#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StageName {
    Submitted,
    Escalated,
    Accepting,
    Accepted,
    Rejected,
    Undoing,
    Undone,
}

#[derive(ToSchema)]
pub(crate) struct FileChange {
    path: String,
    draft: String,
    /// SHA-256; null for a new file
    before: Option<String>,
    after: String,
    draft_mode: u32,
    /// Lines
    added: u64,
    removed: u64,
}

/// Why it was decided so.
#[derive(ToSchema)]
pub(crate) struct ReasonInfo {
    /// escalate or reject
    effect: String,
    /// Such as `secret/github-token` or `scope`
    rule: String,
    file: String,
    line: Option<u64>,
    message: String,
    what_to_do: String,
}

/// How the project's own tests went.
#[derive(ToSchema)]
pub(crate) struct VerifiedInfo {
    command: String,
    passed: bool,
    outcome: String,
    /// The end of it
    output: String,
    isolation: String,
    seconds: u64,
}

#[derive(ToSchema)]
pub(crate) struct Replaced {
    path: String,
    before: Option<String>,
    after: Option<String>,
}

/// An entry of the log, chained to the one before.
#[derive(ToSchema)]
pub(crate) struct LogEntry {
    id: u64,
    at: u64,
    actor: String,
    action: String,
    /// The workspace
    subject: String,
    #[schema(value_type = Object)]
    detail: String,
    /// SHA-256
    previous: String,
    hash: String,
}

/// Whether a log is whole.
#[derive(ToSchema)]
pub(crate) struct Whole {
    /// Whether nothing in the log was changed, removed or moved
    intact: bool,
    /// What is wrong with it
    wrong: Vec<String>,
    /// In the store, of all workspaces
    entries: u64,
    of_workspace: u64,
    /// What the log comes to now; note it somewhere else to see later whether it is still in it
    head: Option<String>,
    /// Where the log in the workspace ended early and was completed from the store
    completed: Vec<Completed>,
}

#[derive(ToSchema)]
pub(crate) struct Completed {
    entry: u64,
    lines_there: u64,
    lines_added: u64,
}

/// What was put away.
#[derive(ToSchema)]
pub(crate) struct Cleared {
    submissions: u64,
    drafts: u64,
    copies: u64,
}

/// What this machine offers, and why not the rest.
#[derive(ToSchema)]
pub(crate) struct Examined {
    version: String,
    os: String,
    arch: String,
    providers: Vec<ProviderFound>,
    /// The provider that is asked, or `rehearsal`
    used: String,
    why: String,
    /// In which they are looked for
    order: Vec<String>,
    prices_as_of: String,
    /// Settings of a project that was not trusted
    #[schema(value_type = Vec<Object>)]
    withheld: Vec<String>,
    sandboxes: SandboxesFound,
    /// Null, if none is named
    cluster: Option<ClusterFound>,
}

#[derive(ToSchema)]
pub(crate) struct ClusterFound {
    servers: String,
    /// answers, fails or not_tried
    state: String,
    detail: Option<String>,
    /// How many take work, with how many sandboxes in all
    workers: Option<usize>,
    slots: Option<u32>,
}

#[derive(ToSchema)]
pub(crate) struct ProviderFound {
    provider: String,
    model: String,
    base_url: String,
    /// Masked, and where it comes from
    #[schema(value_type = Option<Object>)]
    key: Option<String>,
    /// answers, fails, no_key or not_tried
    state: String,
    detail: Option<String>,
}

#[derive(ToSchema)]
pub(crate) struct SandboxesFound {
    backends: Vec<BackendFound>,
    /// By language; null where there is none
    #[schema(value_type = Object)]
    interpreters: BTreeMap<String, String>,
    used: Option<String>,
    why: String,
}

#[derive(ToSchema)]
pub(crate) struct BackendFound {
    isolation: String,
    available: bool,
    made_in_ms: Option<f64>,
    why_not: Option<String>,
    hint: Option<String>,
    /// What each limit rests on
    #[schema(value_type = Option<Object>)]
    enforcement: Option<String>,
}

/// How a cluster is
#[derive(ToSchema)]
pub(crate) struct ClusterInfo {
    nodes: Vec<NodeInfo>,
    /// Sandboxes that all workers can have at once, and have
    slots: u32,
    busy: u32,
    /// Runs that somebody holds, and that wait for somebody
    running: usize,
    waiting: usize,
    queue: Vec<WorkThatWaits>,
    streams: Vec<StreamInfo>,
    stuck: Vec<StuckWork>,
    /// Messages that no worker can run, the newest first
    dead_letters: Vec<DeadLetterInfo>,
}

/// A message that was removed from the queue because no worker can run it
#[derive(ToSchema)]
pub(crate) struct DeadLetterInfo {
    subject: String,
    reason: String,
    /// The beginning of the payload, as text
    payload: String,
    /// Bytes of the whole payload
    payload_bytes: usize,
    /// How often it had been delivered
    deliveries: u64,
    /// When it was moved to the list, in milliseconds since 1970
    time: u64,
}

#[derive(ToSchema)]
pub(crate) struct NodeInfo {
    id: String,
    /// server or worker
    role: String,
    version: String,
    /// The version of what is said among nodes
    speaks: u32,
    host: String,
    pid: u32,
    /// Milliseconds since 1970
    since: u64,
    slots: u32,
    busy: u32,
    /// The providers whose limits it keeps for all
    keeps: Vec<String>,
    /// The runs that it holds
    holds: Vec<String>,
    abilities: NodeAbilities,
}

#[derive(ToSchema)]
pub(crate) struct NodeAbilities {
    isolations: Vec<String>,
    /// In megabytes, for one piece of work
    memory: u64,
    labels: BTreeMap<String, String>,
    region: Option<String>,
}

/// Work with the same needs
#[derive(ToSchema)]
pub(crate) struct WorkThatWaits {
    #[schema(value_type = Object)]
    needs: String,
    waiting: u64,
    under_way: u64,
    /// Of those under way, how many came back at least once
    again: u64,
    /// How many workers can do it
    workers: usize,
}

#[derive(ToSchema)]
pub(crate) struct StreamInfo {
    name: String,
    messages: u64,
    bytes: u64,
    leader: Option<String>,
    copies: Vec<StreamCopy>,
    /// Seconds since the oldest message was written
    oldest: Option<u64>,
}

#[derive(ToSchema)]
pub(crate) struct StreamCopy {
    server: String,
    current: bool,
    offline: bool,
    /// In messages
    behind: u64,
}

#[derive(ToSchema)]
pub(crate) struct StuckWork {
    /// A run, or pieces of work
    what: String,
    why: String,
}

/// An attack with all probes on one kind of sandbox
#[derive(ToSchema)]
pub(crate) struct AttackInfo {
    isolation: String,
    /// Of the program that attacked
    version: String,
    /// Milliseconds since 1970
    at: u64,
    seconds: f64,
    groups: Vec<AttackGroup>,
    /// Whatever got out
    escaped: Vec<EscapedProbe>,
}

#[derive(ToSchema)]
pub(crate) struct AttackGroup {
    title: String,
    blocked: usize,
    escaped: usize,
    not_applicable: usize,
    /// Which say nothing, as the trial itself failed
    broke: usize,
}

#[derive(ToSchema)]
pub(crate) struct EscapedProbe {
    name: String,
    what: String,
    detail: String,
}
