//! Trials are begun, taken up again, and started from earlier ones.

use std::collections::BTreeMap;

use assize_clerk::choose::Tape;
use assize_clerk::consult::SourceName;
use assize_clerk::kept::Holder;
use assize_clerk::trial::{Trial, as_before, take_up};
use assize_clerk::{Clerk, ForkOf, GoOn, code, consult, debate, eval, work};
use assize_consult::At;
use assize_draft::work::Mode;
use assize_gateway::Estimate;
use assize_sandbox::Language;
use assize_store::{Once, Run, RunStatus};
use axum::Json;
use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::runs::RunView;
use super::wishes::{Upload, Wishes, documents, gathered, inputs};
use crate::App;
use crate::docket::allowed;
use crate::extract::{Path, Sent, object, objects};
use crate::problem::Problem;

/// A trial that is to begin.
#[derive(Debug, Deserialize, ToSchema)]
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
    #[schema(minimum = 1, maximum = 20)]
    max_attempts: u32,
    /// Programs that are written and run side by side in each attempt
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 16)]
    candidates: u32,
    /// Tests that the program must pass, as source text
    tests: Option<String>,
    /// What its output must contain; between slashes, a pattern that it must fit
    expect: Option<String>,
    /// Files that it finds in its working folder
    #[serde(default, deserialize_with = "objects")]
    files: Vec<Upload>,
    /// Keep the working files under this name
    session: Option<String>,
    /// The image of its container
    image: Option<String>,
    #[serde(default, deserialize_with = "object")]
    settings: Wishes,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
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
    assize_debate::ROUNDS
}

fn moves() -> u32 {
    u32::try_from(assize_consult::MOVES).unwrap_or(3)
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConsultStart {
    /// The company, by the ticker under which its shares are traded
    #[schema(min_length = 1)]
    ticker: String,
    /// What is known of it; made up, if nothing is named and no files are sent
    #[serde(default)]
    sources: Vec<SourceWord>,
    /// Documents about it
    #[serde(default, deserialize_with = "objects")]
    files: Vec<Upload>,
    /// A folder with documents about it that whoever runs the server has allowed, by its name
    root: Option<String>,
    /// Who takes part, as `assize consult --export-personas` prints it
    personas: Option<String>,
    #[serde(default = "rounds")]
    #[schema(minimum = 1, maximum = 50)]
    rounds: u32,
    /// That each analyst proposes
    #[serde(default = "moves")]
    #[schema(minimum = 1, maximum = 10)]
    moves: u32,
    #[serde(default)]
    blind_scores: bool,
    /// Debates that are held at once
    #[schema(minimum = 1, maximum = 100)]
    parallel_moves: Option<u32>,
    /// Other models for some roles, such as critic or D1
    #[serde(default)]
    models: BTreeMap<String, String>,
    image: Option<String>,
    /// Spend more than may be spent unasked
    #[serde(default)]
    yes: bool,
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
    mode: ModeName,
    /// Files that are shown to a model without tools
    #[serde(default)]
    files: Vec<String>,
    #[serde(default = "max_steps")]
    #[schema(minimum = 1, maximum = 500)]
    max_steps: u32,
    #[serde(default = "max_rejections")]
    #[schema(minimum = 1, maximum = 100)]
    max_rejections: u32,
    #[serde(default, deserialize_with = "object")]
    settings: Wishes,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ModeName {
    #[default]
    Tools,
    Text,
    Auto,
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
    #[schema(minimum = 1, maximum = 100)]
    samples: u32,
    #[serde(default = "max_attempts")]
    #[schema(minimum = 1, maximum = 20)]
    max_attempts: u32,
    #[schema(minimum = 1, maximum = 64)]
    parallel: Option<u32>,
    image: Option<String>,
    #[serde(default, deserialize_with = "object")]
    settings: Wishes,
}

/// What a trial is likely to take.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Likely {
    calls: u64,
    /// Calls that have to be waited for, one after the other
    calls_in_a_row: u64,
    input_tokens: u64,
    output_tokens: u64,
    /// In dollars; null where the price is not known
    cost_usd: Option<f64>,
    /// The same, where the provider caches prompts
    cost_cached_usd: Option<f64>,
    rehearsal: bool,
}

impl Likely {
    fn new(estimate: &Estimate, calls_in_a_row: u64, rehearsal: bool) -> Likely {
        let dollars = |cost: assize_types::Cost| cost.known().map(|money| money.dollars());
        Likely {
            calls: estimate.calls,
            calls_in_a_row,
            input_tokens: estimate.input_tokens,
            output_tokens: estimate.output_tokens,
            cost_usd: dollars(estimate.cost),
            cost_cached_usd: dollars(estimate.cached),
            rehearsal,
        }
    }
}

/// Refuses a number that is out of bounds; the schema says which.
fn within(name: &str, number: u32, most: u32) -> Result<u32, Problem> {
    match (1..=most).contains(&number) {
        true => Ok(number),
        false => Err(Problem::unusable(format!("`{name}` is from 1 to {most}, not {number}"))),
    }
}

/// Begin a trial
///
/// The run is kept and under way when the answer comes; `/api/runs/{id}/events` follows it. With an `Idempotency-Key`
/// the same request can be sent again, and begins nothing twice: the answer is then the run of the first time, with
/// status 200.
#[utoipa::path(
    post, path = "/api/runs", tag = "runs", request_body = Start,
    params(("Idempotency-Key" = Option<String>, Header, description = "A text that is used for nothing else", max_length = 200)),
    responses((status = 201, description = "It has begun", body = RunView, headers(("Location" = String, description = "The run"))),
              (status = 200, description = "It was begun before", body = RunView)),
)]
pub(crate) async fn start(
    State(app): State<App>,
    headers: HeaderMap,
    Sent { body, fingerprint }: Sent<Start>,
) -> Result<Response, Problem> {
    let once = once(&headers, fingerprint)?;
    let own = app.clone();
    app.begin(once, move |clerk| async move { open(&own, body, clerk).await }).await
}

/// What a request was asked for under.
fn once(headers: &HeaderMap, request: assize_types::Fingerprint) -> Result<Option<Once>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let key = key.to_str().ok().map(str::trim).filter(|key| !key.is_empty() && key.len() <= 200);
    let bad = "`Idempotency-Key` is 1 to 200 letters, digits and signs";
    let key = key.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, bad))?.to_owned();
    Ok(Some(Once { key, request }))
}

impl App {
    /// Begins a trial, if there is a place for one.
    async fn begin<F>(
        &self,
        once: Option<Once>,
        open: impl FnOnce(Clerk) -> F,
    ) -> Result<Response, Problem>
    where
        F: Future<Output = Result<Box<dyn Trial>, Problem>> + Send + 'static,
    {
        if let Some(run) = self.asked_before(once.as_ref()).await? {
            return Ok(Json(RunView::new(self, &run)).into_response());
        }
        self.pace()?;
        let place = self.docket.place()?;
        let clerk = Clerk { once: once.clone(), ..self.clerk.clone() };
        let (docket, opening) = (self.docket.clone(), open(clerk));
        // Whoever asked may hang up: what was begun is held all the same.
        let begun = self.docket.spawn(async move {
            let trial = opening.await?;
            Ok::<_, Problem>(docket.enter(trial, place))
        });
        let fault = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "a fault in assize");
        match begun.await.map_err(fault)? {
            Ok(run) => {
                let at = [(LOCATION, format!("/api/runs/{}", run.id))];
                Ok((StatusCode::CREATED, at, Json(RunView::new(self, &run))).into_response())
            }
            // Somebody may have been faster with the same.
            Err(problem) => match self.asked_before(once.as_ref()).await? {
                Some(run) => Ok(Json(RunView::new(self, &run)).into_response()),
                None => Err(problem),
            },
        }
    }

    /// The run that the same was asked for with before.
    async fn asked_before(&self, once: Option<&Once>) -> Result<Option<Run>, Problem> {
        let Some(once) = once else { return Ok(None) };
        match self.store.asked_before(once).await? {
            None => Ok(None),
            Some((run, true)) => Ok(Some(self.store.run(&run).await?)),
            Some((run, false)) => {
                let detail =
                    format!("`{run}` was asked for under this `Idempotency-Key`, in other words");
                Err(Problem::unusable(detail).hint("use another key"))
            }
        }
    }
}

async fn open(app: &App, start: Start, mut clerk: Clerk) -> Result<Box<dyn Trial>, Problem> {
    let store = app.store.clone();
    let tape = &Tape::None;
    Ok(match start {
        Start::Run(start) => {
            clerk.config = start.settings.clone().applied(&clerk.config)?;
            let plan = code::Plan::fresh(code_ask(start)?, &clerk.config)?;
            Box::new(code::Trial::open(plan, &clerk, store, tape).await?)
        }
        Start::Consult(start) => {
            clerk.config = start.settings.clone().applied(&clerk.config)?;
            let (yes, parallel) = (start.yes, start.parallel_moves);
            let parallel = parallel.map(|n| within("parallel_moves", n, 100)).transpose()?;
            let plan = consult::Plan::fresh(consult_ask(app, start).await?, &clerk).await?;
            let ready = consult::Ready::make(plan, &clerk, store, tape, parallel).await?;
            refuse_dear(&ready, &clerk, yes)?;
            Box::new(ready.open(&clerk, false).await?)
        }
        Start::Debate(start) => {
            clerk.config = start.settings.clone().applied(&clerk.config)?;
            let plan = debate::Plan::fresh(&debate_ask(start)?)?;
            Box::new(debate::Trial::open(plan, &clerk, store, tape).await?)
        }
        Start::Work(start) => {
            clerk.config = start.settings.clone().applied(&clerk.config)?;
            let plan = work::Plan::fresh(work_ask(app, start)?)?;
            Box::new(work::Trial::open(plan, &clerk, store, tape).await?)
        }
        Start::Eval(start) => {
            clerk.config = start.settings.clone().applied(&clerk.config)?;
            let parallel = start.parallel.unwrap_or(assize_clerk::trial::PARALLEL);
            let parallel = within("parallel", parallel, 64)?;
            let ask = eval::Ask {
                name: start.name,
                problems: eval::read(&start.problems)?,
                samples: within("samples", start.samples, 100)?,
                max_attempts: within("max_attempts", start.max_attempts, 20)?,
                image: start.image,
            };
            let plan = eval::Plan::fresh(ask);
            Box::new(eval::Trial::open(plan, &clerk, store, tape, parallel).await?)
        }
    })
}

fn code_ask(start: RunStart) -> Result<code::Ask, Problem> {
    Ok(code::Ask {
        language: start.language.into(),
        max_attempts: within("max_attempts", start.max_attempts, 20)?,
        candidates: within("candidates", start.candidates, 16)?,
        tests: start.tests,
        expect: start.expect,
        inputs: inputs(start.files)?,
        session: start.session,
        image: start.image,
        ..code::Ask::new(start.task)
    })
}

async fn consult_ask(app: &App, start: ConsultStart) -> Result<consult::Ask, Problem> {
    let root = start.root.map(|name| app.root(&name).map(|folder| (folder.to_owned(), name)));
    let (root, uploads) = (root.transpose()?, start.files);
    let files = tokio::task::spawn_blocking(move || match (root, uploads.is_empty()) {
        (Some(_), false) => Err(Problem::unusable("name a root or send files, not both")),
        (Some((folder, name)), true) => gathered(&folder, &format!("`{name}`")).map(Some),
        (None, false) => documents(uploads).map(Some),
        (None, true) => Ok(None),
    });
    let broke = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the files could not be read");
    let source = |word: &SourceWord| match word {
        SourceWord::Edgar => SourceName::Edgar,
        SourceWord::Files => SourceName::Files,
        SourceWord::Synthetic => SourceName::Synthetic,
    };
    Ok(consult::Ask {
        ticker: start.ticker,
        sources: start.sources.iter().map(source).collect(),
        files: files.await.map_err(broke)??,
        personas: start.personas,
        rounds: within("rounds", start.rounds, 50)?,
        moves: within("moves", start.moves, 10)?,
        blind_scores: start.blind_scores,
        image: start.image,
        models: start.models,
    })
}

fn debate_ask(start: DebateStart) -> Result<debate::Ask, Problem> {
    let rounds = start.rounds.map(|rounds| within("rounds", rounds, 50)).transpose()?;
    let ticker = start.ticker.map(|ticker| ticker.parse::<assize_consult::Ticker>()).transpose();
    let ticker = ticker.map_err(|error| Problem::unusable(error.to_string()))?;
    let ticker = ticker.map(|ticker| ticker.to_string());
    Ok(debate::Ask { document: Some(start.document), ticker, rounds })
}

fn work_ask(app: &App, start: WorkStart) -> Result<work::Ask, Problem> {
    Ok(work::Ask {
        workspace: app.root(&start.workspace)?.to_owned(),
        task: start.task,
        task_id: start.task_id,
        mode: match start.mode {
            ModeName::Tools => Mode::Tools,
            ModeName::Text => Mode::Text,
            ModeName::Auto => Mode::Auto,
        },
        files: start.files,
        max_steps: within("max_steps", start.max_steps, 500)?,
        max_rejections: within("max_rejections", start.max_rejections, 100)?,
    })
}

/// Refuses what costs more than may be spent unasked.
fn refuse_dear(ready: &consult::Ready, clerk: &Clerk, yes: bool) -> Result<(), Problem> {
    let Some(estimate) = ready.to_be_asked_about(clerk).filter(|_| !yes) else { return Ok(()) };
    let Estimate { calls, cost, .. } = estimate;
    let detail = format!(
        "this would take {calls} calls, at about {cost}, which is more than may be spent unasked"
    );
    let hint = "say so with `\"yes\": true`, or set a `max_cost`";
    Err(Problem::new(StatusCode::PAYMENT_REQUIRED, detail).hint(hint))
}

/// Say what a trial would take
///
/// Nobody is asked but the sources of a consultation, and nothing is kept.
#[utoipa::path(
    post, path = "/api/estimates", tag = "runs", request_body = Start,
    responses((status = 200, description = "What it is likely to take", body = Likely)),
)]
pub(crate) async fn estimate(
    State(app): State<App>,
    Sent { body, .. }: Sent<Start>,
) -> Result<Json<Likely>, Problem> {
    app.pace()?;
    let mut clerk = app.clerk.clone();
    let nothing = || Problem::conflict("nothing is known of who would be asked");
    let likely = match body {
        Start::Consult(start) => {
            clerk.config = start.settings.clone().applied(&clerk.config)?;
            let parallel = start.parallel_moves;
            parallel.map(|n| within("parallel_moves", n, 100)).transpose()?;
            let plan = consult::Plan::fresh(consult_ask(&app, start).await?, &clerk).await?;
            let ready =
                consult::Ready::make(plan, &clerk, app.store.clone(), &Tape::None, None).await?;
            let estimate = ready.estimate.as_ref().ok_or_else(nothing)?;
            Likely::new(estimate, ready.in_a_row, ready.gateway.is_rehearsal())
        }
        Start::Debate(start) => {
            clerk.config = start.settings.clone().applied(&clerk.config)?;
            let ask = debate_ask(start)?;
            let plan = debate::Plan::fresh(&ask)?;
            let already = assize_clerk::choose::Already::default();
            let gateway = assize_clerk::choose::gateway(&clerk, &Tape::None, already).await?;
            let likely = debate::estimate(&gateway, &plan.content, ask.rounds);
            let (estimate, in_a_row) = likely.ok_or_else(nothing)?;
            Likely::new(&estimate, in_a_row, gateway.is_rehearsal())
        }
        Start::Run(_) | Start::Work(_) | Start::Eval(_) => {
            let detail = "how often it is tried cannot be known before";
            return Err(Problem::unusable(detail).hint("set a `max_cost`"));
        }
    };
    Ok(Json(likely))
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Resume {
    /// Even if another process works on it, or may
    take_over: bool,
    #[serde(deserialize_with = "object")]
    settings: Wishes,
}

/// Go on with a run that was stopped
///
/// What was answered is not asked again.
#[utoipa::path(
    post, path = "/api/runs/{id}/resume", tag = "runs", request_body = Option<Resume>,
    params(("id" = String, Path, description = "The run")),
    responses((status = 201, description = "It goes on", body = RunView)),
)]
pub(crate) async fn resume(
    State(app): State<App>,
    Path(id): Path<String>,
    Sent { body, .. }: Sent<Resume>,
) -> Result<Response, Problem> {
    let run = app.run(&id).await?;
    app.refuse_held(&run, body.take_over)?;
    let roots: Vec<&std::path::Path> = app.desks.folders().collect();
    allowed(&run, &roots).map_err(|why| Problem::new(StatusCode::FORBIDDEN, why))?;
    if run.status == RunStatus::Done {
        return Err(Problem::conflict(format!("`{}` is done", run.id)));
    }
    // What is ours and on no docket was lost by a fault.
    let lost = Holder::of(&run).is_some_and(|holder| holder.is_this_process());
    let store = app.store.clone();
    app.begin(None, move |mut clerk| async move {
        clerk.config = body.settings.applied(&clerk.config)?;
        let again = GoOn { run: run.id.to_string(), take_over: body.take_over || lost };
        Ok(take_up(&again, &clerk, store).await?)
    })
    .await
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Fork {
    /// From where on everything is asked again: a round, such as `round-4`; in a consultation also of one move, such as
    /// `m3/round-4`. Without it only what is asked in other words, or failed
    at: Option<String>,
    /// What some are told to be from there on, by `critic`, `D1` and so on
    told: BTreeMap<String, String>,
    /// Of a debate: another wording of the move
    document: Option<String>,
    /// Of a debate: other rounds
    #[schema(minimum = 1, maximum = 50)]
    rounds: Option<u32>,
    /// Of a consultation: other models for some roles
    models: BTreeMap<String, String>,
    /// Spend more than may be spent unasked
    yes: bool,
    #[serde(deserialize_with = "object")]
    settings: Wishes,
}

/// Start from an earlier run
///
/// A new run that takes over what was answered there, and asks only what differs. Debates and consultations can be
/// forked.
#[utoipa::path(
    post, path = "/api/runs/{id}/fork", tag = "runs", request_body = Option<Fork>,
    params(("id" = String, Path, description = "The run"),
           ("Idempotency-Key" = Option<String>, Header, description = "A text that is used for nothing else", max_length = 200)),
    responses((status = 201, description = "It has begun", body = RunView),
              (status = 200, description = "It was begun before", body = RunView)),
)]
pub(crate) async fn fork(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Sent { body, fingerprint }: Sent<Fork>,
) -> Result<Response, Problem> {
    let run = app.run(&id).await?;
    let once = once(&headers, fingerprint)?;
    let own = app.clone();
    app.begin(once, move |clerk| async move { open_fork(&own, &run, body, clerk).await }).await
}

async fn open_fork(
    app: &App,
    run: &Run,
    body: Fork,
    mut clerk: Clerk,
) -> Result<Box<dyn Trial>, Problem> {
    let at = body.at.map(|at| at.parse::<At>()).transpose();
    let at = at.map_err(|error| Problem::unusable(error.to_string()))?;
    if at.is_none() && !body.told.is_empty() {
        return Err(Problem::unusable("`told` goes with `at`"));
    }
    clerk.config = as_before(&body.settings.applied(&clerk.config)?, run)?;
    let from = ForkOf { run: run.id.to_string(), at, told: body.told };
    let (store, tape) = (app.store.clone(), &Tape::None);
    Ok(match run.kind.as_str() {
        debate::KIND => {
            let rounds = body.rounds.map(|rounds| within("rounds", rounds, 50)).transpose()?;
            let ask = debate::Ask { document: body.document, ticker: None, rounds };
            let plan = debate::Plan::forked(&from, &ask, &*store).await?;
            Box::new(debate::Trial::open(plan, &clerk, store, tape).await?)
        }
        consult::KIND => {
            if body.document.is_some() || body.rounds.is_some() {
                let detail = "`document` and `rounds` can be changed in a debate alone";
                return Err(Problem::unusable(detail));
            }
            let plan = consult::Plan::forked(&from, body.models, &*store).await?;
            let ready = consult::Ready::make(plan, &clerk, store, tape, None).await?;
            refuse_dear(&ready, &clerk, body.yes)?;
            Box::new(ready.open(&clerk, false).await?)
        }
        other => {
            let detail = format!("a run of the kind `{other}` cannot be forked");
            return Err(Problem::unusable(detail).hint("debates and consultations can be"));
        }
    })
}
