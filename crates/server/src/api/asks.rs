//! What can be sent to begin a trial, and what the jobs are planned with then.

use std::collections::BTreeMap;

use assize_code::{CodeAsk, EvalAsk, Language};
use assize_config::{SettingKey, Settings};
use assize_consult::{ConsultAsk, DebateAsk, SourceName};
use assize_draft::work::{Mode, WorkAsk};
use assize_types::Failure;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;
use utoipa::openapi::Ref;

use super::wishes::{Upload, Wishes, documents, gathered, inputs};
use crate::App;
use crate::extract::{fields, object, objects};
use crate::problem::Problem;

/// A trial that is to begin.
#[derive(Debug, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Start {
    /// Have a program written for a task, and run it in a sandbox until it succeeds
    Run(RunStart),
    /// Put a company's options on trial
    Consult(ConsultStart),
    /// Put one move on trial
    Debate(DebateStart),
    /// Have a model change files of a workspace, through drafts and the gate
    Work(WorkStart),
    /// See how good a model is at problems whose answers are known
    Eval(EvalStart),
}

// By hand, as what is wrong would lose its place otherwise.
impl<'de> Deserialize<'de> for Start {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Start, D::Error> {
        let mut all = serde_json::Map::deserialize(from)?;
        let kind = all.remove("kind").unwrap_or_default();
        Ok(match kind.as_str() {
            Some("run") => Start::Run(fields(all)?),
            Some("consult") => Start::Consult(fields(all)?),
            Some("debate") => Start::Debate(fields(all)?),
            Some("work") => Start::Work(fields(all)?),
            Some("eval") => Start::Eval(fields(all)?),
            _ => return Err(D::Error::custom("`kind` is run, consult, debate, work or eval")),
        })
    }
}

impl Start {
    /// The settings with what is asked for besides in them.
    pub(super) fn applied(&self, config: &Settings) -> Result<Settings, Failure> {
        let wishes = match self {
            Start::Run(start) => &start.settings,
            Start::Consult(start) => &start.settings,
            Start::Debate(start) => &start.settings,
            Start::Work(start) => &start.settings,
            Start::Eval(start) => &start.settings,
        };
        let config = wishes.clone().applied(config)?;
        let Start::Work(WorkStart { review, verify, .. }) = self else { return Ok(config) };
        let gate = [(SettingKey::DraftReview, review), (SettingKey::DraftVerify, verify)];
        let gate = gate.into_iter().filter_map(|(key, wish)| Some((key, wish.clone()?)));
        config.with_request(&gate.collect::<Vec<_>>())
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunStart {
    /// The task, in plain words
    #[schema(min_length = 1)]
    task: String,
    /// python, bash or javascript
    #[serde(default)]
    language: LanguageName,
    #[serde(default = "max_attempts")]
    #[schema(minimum = 1, maximum = 20, default = max_attempts)]
    max_attempts: u32,
    /// Programs that are written and run side by side in each attempt
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 16, default = one)]
    candidates: u32,
    /// Tests that the program must pass, as source text
    tests: Option<String>,
    /// What its output must contain; between slashes, a pattern that it must fit
    expect: Option<String>,
    /// Files that it finds in its working folder
    #[serde(default, deserialize_with = "objects")]
    #[schema(max_items = 200)]
    files: Vec<Upload>,
    /// Keep the working files under this name
    session: Option<String>,
    /// The image of its container
    image: Option<String>,
    #[serde(default, deserialize_with = "object")]
    settings: Wishes,
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
    /// A listed company, by the ticker under which its shares are traded; this or `name`
    #[schema(min_length = 1)]
    ticker: Option<String>,
    /// A private company, by its name; this or `ticker`
    #[schema(min_length = 1, max_length = 80)]
    name: Option<String>,
    /// What is known of it; made up, if nothing is named and no files are sent
    #[serde(default)]
    sources: Vec<SourceWord>,
    /// Documents about it
    #[serde(default, deserialize_with = "objects")]
    #[schema(max_items = 200)]
    files: Vec<Upload>,
    /// A folder with documents about it that whoever runs the server has allowed, by its name
    root: Option<String>,
    /// Who takes part, as `assize consult --export-personas` prints it
    personas: Option<String>,
    #[serde(default = "rounds")]
    #[schema(minimum = 1, maximum = 50, default = rounds)]
    rounds: u32,
    /// That each analyst proposes
    #[serde(default = "moves")]
    #[schema(minimum = 1, maximum = 10, default = moves)]
    moves: u32,
    #[serde(default)]
    blind_scores: bool,
    /// Debates that are held at once
    #[schema(minimum = 1, maximum = 100)]
    pub(super) parallel_moves: Option<u32>,
    /// Other models for some roles, such as critic or D1
    #[serde(default)]
    models: BTreeMap<String, String>,
    image: Option<String>,
    /// Spend more than may be spent unasked
    #[serde(default)]
    pub(super) yes: bool,
    #[serde(default, deserialize_with = "object")]
    settings: Wishes,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SourceWord {
    Edgar,
    Files,
    Synthetic,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DebateStart {
    /// The move, in Markdown or as plain text
    #[schema(min_length = 1)]
    document: String,
    ticker: Option<String>,
    #[schema(minimum = 1, maximum = 50)]
    rounds: Option<u32>,
    /// The image of its sandbox
    image: Option<String>,
    #[serde(default, deserialize_with = "object")]
    settings: Wishes,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkStart {
    /// The workspace, by the name under which whoever runs the server has allowed it
    workspace: String,
    /// What is to be done; what the workspace's contract says, if nothing
    task: Option<String>,
    task_id: Option<String>,
    #[serde(default)]
    #[schema(schema_with = work_mode)]
    mode: Mode,
    /// Files that are shown to a model without tools
    #[serde(default)]
    files: Vec<String>,
    #[serde(default = "max_steps")]
    #[schema(minimum = 1, maximum = 500, default = max_steps)]
    max_steps: u32,
    #[serde(default = "max_rejections")]
    #[schema(minimum = 1, maximum = 100, default = max_rejections)]
    max_rejections: u32,
    /// When a person looks before a draft is applied: always, escalated or never
    #[schema(pattern = "^(always|escalated|never)$")]
    review: Option<String>,
    /// A command that must pass before a draft is accepted, run in a sandbox on a copy of the workspace
    verify: Option<String>,
    #[serde(default, deserialize_with = "object")]
    settings: Wishes,
}

fn work_mode() -> Ref {
    Ref::from_schema_name(Mode::schema_name())
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
    /// What the problems are called
    name: String,
    /// The problems, one JSON object in each line: task_id, prompt, entry_point, test, canonical_solution
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
    settings: Wishes,
}

/// Refuses a number that is out of bounds; the schema says which.
pub(crate) fn within(name: &str, number: u32, most: u32) -> Result<u32, Problem> {
    match (1..=most).contains(&number) {
        true => Ok(number),
        false => Err(Problem::unusable(format!("`{name}` is from 1 to {most}, not {number}"))),
    }
}

pub(super) fn code_ask(start: RunStart) -> Result<CodeAsk, Problem> {
    Ok(CodeAsk {
        language: start.language.into(),
        max_attempts: within("max_attempts", start.max_attempts, 20)?,
        candidates: within("candidates", start.candidates, 16)?,
        tests: start.tests,
        expect: start.expect,
        inputs: inputs(start.files)?,
        session: start.session,
        image: start.image,
        ..CodeAsk::new(start.task)
    })
}

pub(super) async fn consult_ask(app: &App, start: ConsultStart) -> Result<ConsultAsk, Problem> {
    let root = start.root.map(|name| app.root(&name).map(|folder| (folder.to_owned(), name)));
    let (root, uploads) = (root.transpose()?, start.files);
    let files = tokio::task::spawn_blocking(move || match (root, uploads.is_empty()) {
        (Some(_), false) => Err(Problem::unusable("name a root or send files, not both")),
        (Some((folder, name)), true) => gathered(&folder, &format!("`{name}`")).map(Some),
        (None, false) => documents(uploads).map(Some),
        (None, true) => Ok(None),
    });
    let source = |word: &SourceWord| match word {
        SourceWord::Edgar => SourceName::Edgar,
        SourceWord::Files => SourceName::Files,
        SourceWord::Synthetic => SourceName::Synthetic,
    };
    Ok(ConsultAsk {
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

pub(super) fn debate_ask(start: DebateStart) -> Result<DebateAsk, Problem> {
    let rounds = start.rounds.map(|rounds| within("rounds", rounds, 50)).transpose()?;
    let ticker = start.ticker.map(|ticker| ticker.parse::<assize_consult::Ticker>()).transpose();
    let ticker = ticker.map_err(|error| Problem::unusable(error.to_string()))?;
    let ticker = ticker.map(|ticker| ticker.to_string());
    Ok(DebateAsk { document: Some(start.document), ticker, rounds, image: start.image })
}

pub(super) fn work_ask(app: &App, start: WorkStart) -> Result<WorkAsk, Problem> {
    Ok(WorkAsk {
        workspace: app.root(&start.workspace)?.to_owned(),
        task: start.task,
        task_id: start.task_id,
        mode: start.mode,
        files: start.files,
        max_steps: within("max_steps", start.max_steps, 500)?,
        max_rejections: within("max_rejections", start.max_rejections, 100)?,
    })
}

pub(super) fn eval_ask(start: EvalStart) -> Result<EvalAsk, Problem> {
    Ok(EvalAsk {
        name: start.name,
        problems: assize_code::read_problems(&start.problems)?,
        samples: within("samples", start.samples, 100)?,
        max_attempts: within("max_attempts", start.max_attempts, 20)?,
        image: start.image,
    })
}
