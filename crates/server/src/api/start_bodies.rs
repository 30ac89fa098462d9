//! Request bodies that start a run. Each is converted to the request type of the job that executes the run.

use std::collections::BTreeMap;

use assize_code::{CodeRequest, EvalRequest, Language};
use assize_config::{SettingKey, Settings};
use assize_consult::{ConsultRequest, DataSource, DebateRequest};
use assize_draft::work::{WorkMode, WorkOptions};
use assize_types::Failure;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;
use utoipa::openapi::Ref;

use super::request_parts::{RequestSettings, Upload, documents, gathered, inputs};
use crate::App;
use crate::extract::{fields, object, objects};
use crate::problem::Problem;

/// Request body that starts a run. The field `kind` selects the kind of run.
#[derive(Debug, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum StartBody {
    /// Have a model write a program, run it in a sandbox, fix and retry
    Run(RunStart),
    /// Propose strategic moves for a company, debate them and rank them
    Consult(ConsultStart),
    /// Debate one strategic move of a company and score it
    Debate(DebateStart),
    /// Have a model change files of a workspace, through drafts and the gate
    Work(WorkStart),
    /// Evaluate a model on problems with known solutions
    Eval(EvalStart),
}

// Written by hand: the deserializer that serde derives for a tagged enum loses the JSON path of an invalid value.
impl<'de> Deserialize<'de> for StartBody {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<StartBody, D::Error> {
        let mut all = serde_json::Map::deserialize(from)?;
        let kind = all.remove("kind").unwrap_or_default();
        Ok(match kind.as_str() {
            Some("run") => StartBody::Run(fields(all)?),
            Some("consult") => StartBody::Consult(fields(all)?),
            Some("debate") => StartBody::Debate(fields(all)?),
            Some("work") => StartBody::Work(fields(all)?),
            Some("eval") => StartBody::Eval(fields(all)?),
            _ => return Err(D::Error::custom("`kind` must be run, consult, debate, work or eval")),
        })
    }
}

impl StartBody {
    /// Returns the server's settings with the overrides from this request.
    pub(super) fn applied(&self, config: &Settings) -> Result<Settings, Failure> {
        let overrides = match self {
            StartBody::Run(start) => &start.settings,
            StartBody::Consult(start) => &start.settings,
            StartBody::Debate(start) => &start.settings,
            StartBody::Work(start) => &start.settings,
            StartBody::Eval(start) => &start.settings,
        };
        let config = overrides.clone().applied(config)?;
        let StartBody::Work(WorkStart { review, verify, .. }) = self else { return Ok(config) };
        let gate = [(SettingKey::DraftReview, review), (SettingKey::DraftVerify, verify)];
        let gate = gate.into_iter().filter_map(|(key, value)| Some((key, value.clone()?)));
        config.with_request(&gate.collect::<Vec<_>>())
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunStart {
    /// Task of the program, in natural language
    #[schema(min_length = 1)]
    task: String,
    /// Language of the program: python, bash or javascript
    #[serde(default)]
    language: LanguageName,
    #[serde(default = "max_attempts")]
    #[schema(minimum = 1, maximum = 20, default = max_attempts)]
    max_attempts: u32,
    /// Number of programs that are written and run in parallel in each attempt
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 16, default = one)]
    candidates: u32,
    /// Tests that the program must pass, as source text
    tests: Option<String>,
    /// Text that the output of the program must contain. A value between slashes is a regular expression that the
    /// output must match
    expect: Option<String>,
    /// Input files, copied to the working folder of the program
    #[serde(default, deserialize_with = "objects")]
    #[schema(max_items = 200)]
    files: Vec<Upload>,
    /// Name of a session: runs of the same session share their working files
    session: Option<String>,
    /// Container image of the sandbox
    image: Option<String>,
    #[serde(default, deserialize_with = "object")]
    settings: RequestSettings,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LanguageName {
    #[default]
    Python,
    Bash,
    JavaScript,
}

impl From<LanguageName> for Language {
    fn from(name: LanguageName) -> Language {
        match name {
            LanguageName::Python => Language::Python,
            LanguageName::Bash => Language::Bash,
            LanguageName::JavaScript => Language::JavaScript,
        }
    }
}

fn max_attempts() -> u32 {
    assize_code::MAX_ATTEMPTS
}

fn one() -> u32 {
    1
}

fn rounds() -> u32 {
    assize_consult::ROUNDS
}

fn moves() -> u32 {
    u32::try_from(assize_consult::MOVES).unwrap_or(3)
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConsultStart {
    /// Ticker symbol of a listed company; a request has either `ticker` or `name`
    #[schema(min_length = 1)]
    ticker: Option<String>,
    /// Name of a private company; a request has either `name` or `ticker`
    #[schema(min_length = 1, max_length = 80)]
    name: Option<String>,
    /// Sources of data about the company. If `sources`, `files` and `root` are all omitted, the model generates
    /// synthetic data
    #[serde(default)]
    sources: Vec<SourceKind>,
    /// Documents about the company
    #[serde(default, deserialize_with = "objects")]
    #[schema(max_items = 200)]
    files: Vec<Upload>,
    /// Name of a folder on the server (`assize serve --root`) that contains documents about the company
    root: Option<String>,
    /// Personas of the roles, in the TOML format that `assize consult --export-personas` writes
    personas: Option<String>,
    #[serde(default = "rounds")]
    #[schema(minimum = 1, maximum = 50, default = rounds)]
    rounds: u32,
    /// Number of business moves that each analyst proposes
    #[serde(default = "moves")]
    #[schema(minimum = 1, maximum = 10, default = moves)]
    moves: u32,
    #[serde(default)]
    blind_scores: bool,
    /// Maximum number of proposed business moves that are debated concurrently
    #[schema(minimum = 1, maximum = 100)]
    pub(super) parallel_moves: Option<u32>,
    /// Models that replace the default model, by role such as `critic` or `D1`
    #[serde(default)]
    models: BTreeMap<String, String>,
    image: Option<String>,
    /// Start the consultation even if its estimated cost exceeds the setting `consult.confirm_above`
    #[serde(default)]
    pub(super) yes: bool,
    #[serde(default, deserialize_with = "object")]
    settings: RequestSettings,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SourceKind {
    Edgar,
    Files,
    Synthetic,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DebateStart {
    /// Text of the proposed business move to debate, in Markdown or as plain text
    #[schema(min_length = 1)]
    document: String,
    ticker: Option<String>,
    #[schema(minimum = 1, maximum = 50)]
    rounds: Option<u32>,
    /// Container image of the sandbox
    image: Option<String>,
    #[serde(default, deserialize_with = "object")]
    settings: RequestSettings,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkStart {
    /// Name of the workspace, as defined with `assize serve --root`
    workspace: String,
    /// Task for the model, in natural language; default: the task in the file `_handoff/TASK_CONTRACT.json` of the
    /// workspace
    task: Option<String>,
    task_id: Option<String>,
    #[serde(default)]
    #[schema(schema_with = work_mode)]
    mode: WorkMode,
    /// Paths of files whose content is included in the prompt of a model that does not support tools
    #[serde(default)]
    files: Vec<String>,
    #[serde(default = "max_steps")]
    #[schema(minimum = 1, maximum = 500, default = max_steps)]
    max_steps: u32,
    #[serde(default = "max_rejections")]
    #[schema(minimum = 1, maximum = 100, default = max_rejections)]
    max_rejections: u32,
    /// When a reviewer must approve a draft before the draft is applied: for all drafts (`always`), only for escalated
    /// drafts (`escalated`), or never (`never`)
    #[schema(pattern = "^(always|escalated|never)$")]
    review: Option<String>,
    /// Command that must succeed before a draft is accepted. The command runs in a sandbox on a copy of the workspace
    verify: Option<String>,
    #[serde(default, deserialize_with = "object")]
    settings: RequestSettings,
}

fn work_mode() -> Ref {
    Ref::from_schema_name(WorkMode::schema_name())
}

fn max_steps() -> u32 {
    assize_draft::work::MAX_STEPS
}

fn max_rejections() -> u32 {
    assize_draft::work::MAX_REJECTIONS
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EvalStart {
    /// Name of the problem set
    name: String,
    /// Problems of the set, one JSON object per line with the fields task_id, prompt, entry_point, test and
    /// canonical_solution
    problems: String,
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 100, default = one)]
    samples: u32,
    #[serde(default = "max_attempts")]
    #[schema(minimum = 1, maximum = 20, default = max_attempts)]
    max_attempts: u32,
    #[schema(minimum = 1, maximum = 64)]
    pub(super) parallel: Option<u32>,
    image: Option<String>,
    #[serde(default, deserialize_with = "object")]
    settings: RequestSettings,
}

/// Checks that the number in the request field `name` is between 1 and `max`. The schema of the field has the same
/// bounds.
pub(crate) fn within(name: &str, number: u32, max: u32) -> Result<u32, Problem> {
    let detail = || format!("`{name}` must be between 1 and {max}, not {number}");
    match (1..=max).contains(&number) {
        true => Ok(number),
        false => Err(Problem::unprocessable(detail())),
    }
}

pub(super) fn code_request(start: RunStart) -> Result<CodeRequest, Problem> {
    Ok(CodeRequest {
        language: start.language.into(),
        max_attempts: within("max_attempts", start.max_attempts, 20)?,
        candidates: within("candidates", start.candidates, 16)?,
        tests: start.tests,
        expect: start.expect,
        inputs: inputs(start.files)?,
        session: start.session,
        image: start.image,
        ..CodeRequest::new(start.task)
    })
}

pub(super) async fn consult_request(
    app: &App,
    start: ConsultStart,
) -> Result<ConsultRequest, Problem> {
    let root = start.root.map(|name| app.root(&name).map(|folder| (folder.to_owned(), name)));
    let (root, uploads) = (root.transpose()?, start.files);
    let files = tokio::task::spawn_blocking(move || match (root, uploads.is_empty()) {
        (Some(_), false) => {
            Err(Problem::unprocessable("a request cannot have both `root` and `files`"))
        }
        (Some((folder, name)), true) => gathered(&folder, &format!("`{name}`")).map(Some),
        (None, false) => documents(uploads).map(Some),
        (None, true) => Ok(None),
    });
    let source = |word: &SourceKind| match word {
        SourceKind::Edgar => DataSource::Edgar,
        SourceKind::Files => DataSource::Files,
        SourceKind::Synthetic => DataSource::Synthetic,
    };
    Ok(ConsultRequest {
        ticker: start.ticker,
        name: start.name,
        sources: start.sources.iter().map(source).collect(),
        files: files.await??,
        personas: start.personas,
        rounds: within("rounds", start.rounds, 50)?,
        moves: within("moves", start.moves, 10)?,
        blind_scores: start.blind_scores,
        image: start.image,
        models: start.models,
    })
}

pub(super) fn debate_request(start: DebateStart) -> Result<DebateRequest, Problem> {
    let rounds = start.rounds.map(|rounds| within("rounds", rounds, 50)).transpose()?;
    let ticker = start.ticker.map(|ticker| ticker.parse::<assize_consult::Ticker>()).transpose();
    let ticker = ticker.map_err(|error| Problem::unprocessable(error.to_string()))?;
    let ticker = ticker.map(|ticker| ticker.to_string());
    Ok(DebateRequest { document: Some(start.document), ticker, rounds, image: start.image })
}

pub(super) fn work_options(app: &App, start: WorkStart) -> Result<WorkOptions, Problem> {
    Ok(WorkOptions {
        workspace: app.root(&start.workspace)?.to_owned(),
        task: start.task,
        task_id: start.task_id,
        mode: start.mode,
        files: start.files,
        max_steps: within("max_steps", start.max_steps, 500)?,
        max_rejections: within("max_rejections", start.max_rejections, 100)?,
    })
}

pub(super) fn eval_request(start: EvalStart) -> Result<EvalRequest, Problem> {
    Ok(EvalRequest {
        name: start.name,
        problems: assize_code::read_problems(&start.problems)?,
        samples: within("samples", start.samples, 100)?,
        max_attempts: within("max_attempts", start.max_attempts, 20)?,
        image: start.image,
    })
}
