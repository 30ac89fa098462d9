//! Sandboxes: code that is run in a fresh one, and those that stay for a while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use assize_code::exec;
use assize_config::Limits;
use assize_sandbox::{
    Command, EntryKind, Finished, Key, Manager, Outcome, Record, Sandbox, SandboxError, Spec,
    WORKSPACE,
};
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::asks::LanguageName;
use super::files::attachment;
use super::wishes::{Upload, Wishes, inputs};
use crate::App;
use crate::extract::{Path, Query, Raw, Sent, object, objects};
use crate::problem::Problem;

/// The longest that a sandbox stays, and how long it does unless somebody says, in seconds.
const LONGEST: u64 = 7 * 24 * 60 * 60;
const USUAL: u64 = 60 * 60;

/// The longest time limit of a program in any sandbox.
const LONGEST_PROGRAM: Duration = Duration::from_secs(864_000);

/// Code that is to be run once.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exec {
    #[schema(min_length = 1)]
    code: String,
    #[serde(default)]
    language: LanguageName,
    /// What is passed on to it
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// What it reads from its standard input
    stdin: Option<String>,
    /// Files that it finds in its working folder
    #[serde(default, deserialize_with = "objects")]
    #[schema(max_items = 200)]
    files: Vec<Upload>,
    /// Send back the files that it leaves
    #[serde(default)]
    keep_files: bool,
    image: Option<String>,
    #[serde(default, deserialize_with = "object")]
    settings: Wishes,
}

/// A file that a program left.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Left {
    name: String,
    base64: String,
}

/// How a program went.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Ran {
    exit_code: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
    out_of_memory: bool,
    output_cut: bool,
    disk_full: bool,
    duration_ms: f64,
    /// Of the sandbox, in all its life so far
    peak_memory_bytes: u64,
    stdout: String,
    stderr: String,
    /// Which walls stood around it, and why those
    isolation: String,
    files: Vec<Left>,
    /// What it left and was not taken, and why
    not_taken: Vec<String>,
}

impl Ran {
    fn new(finished: &Finished, isolation: String) -> Ran {
        let outcome: &Outcome = &finished.outcome;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran {
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            timed_out: outcome.timed_out,
            out_of_memory: outcome.out_of_memory,
            output_cut: outcome.output_cut,
            disk_full: outcome.disk_full,
            duration_ms: outcome.duration.as_secs_f64() * 1e3,
            peak_memory_bytes: outcome.peak_memory,
            stdout: text(&finished.stdout),
            stderr: text(&finished.stderr),
            isolation,
            files: Vec::new(),
            not_taken: Vec::new(),
        }
    }
}

/// Run code in a fresh sandbox
///
/// No network, no files but those that are sent along, limits on everything. The answer comes when it is over.
#[utoipa::path(
    post, path = "/api/exec", tag = "sandboxes", request_body = Exec,
    responses((status = 200, description = "How it went, well or not", body = Ran)),
)]
pub(crate) async fn run_once(
    State(app): State<App>,
    Sent { body, .. }: Sent<Exec>,
) -> Result<Json<Ran>, Problem> {
    if body.code.is_empty() {
        return Err(Problem::unusable("there is no code"));
    }
    app.pace()?;
    // As many at once as there may be trials.
    let _place = app.docket.place(None)?;
    let settings = body.settings.applied(&app.services.settings)?;
    let sandboxes = app.services.with_settings(settings).sandboxes();
    let ask = exec::Ask {
        code: body.code,
        language: body.language.into(),
        arguments: body.arguments,
        env: body.env,
        inputs: inputs(body.files)?,
        packages: Vec::new(),
        image: body.image,
    };
    let ran = exec::run(ask, body.stdin, body.keep_files, &sandboxes).await?;
    let exec::Ran { finished, isolation, files, not_taken } = ran;
    let left = |(name, bytes)| Left { name, base64: BASE64_STANDARD.encode::<Vec<u8>>(bytes) };
    let files = files.into_iter().map(left).collect();
    Ok(Json(Ran { files, not_taken, ..Ran::new(&finished, isolation) }))
}

/// A sandbox that stays for a while.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SandboxInfo {
    name: String,
    /// The run that it belongs to, if it does
    run: Option<String>,
    isolation: String,
    /// Seconds since 1970
    made: u64,
    /// Seconds since 1970
    expires: u64,
    labels: BTreeMap<String, String>,
    image: Option<String>,
    region: Option<String>,
    memory_bytes: u64,
    /// The process that holds it
    pid: u32,
}

impl From<Record> for SandboxInfo {
    fn from(record: Record) -> SandboxInfo {
        SandboxInfo {
            name: record.key.name,
            run: record.key.run,
            isolation: record.isolation.to_string(),
            made: record.made,
            expires: record.expires,
            labels: record.spec.labels,
            image: record.spec.image,
            region: record.spec.region,
            memory_bytes: record.spec.limits.memory,
            pid: record.pid,
        }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Sandboxes {
    sandboxes: Vec<SandboxInfo>,
}

impl App {
    /// Whoever makes sandboxes for themselves here, and reaches those of others.
    async fn sandboxes(&self) -> Result<Arc<Manager>, Problem> {
        let backend = self.backends.get(&self.services.sandboxes()).await?;
        Ok(backend.manager.clone())
    }
}

/// The sandbox that is meant, of a run or of its own.
fn key(run: Option<&str>, name: &str) -> Result<Key, Problem> {
    Key::new(run, name).map_err(|_| Problem::not_found("there is no such sandbox"))
}

async fn found(app: &App, of: &Of, name: &str) -> Result<Sandbox, Problem> {
    let sandbox = app.sandboxes().await?.get(&key(of.run.as_deref(), name)?).await?;
    sandbox.ok_or_else(|| Problem::not_found("there is no such sandbox"))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Of {
    /// The run that it belongs to, if it does
    run: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct With {
    /// Only those with these labels, such as `team=red`, with commas between them
    #[param(pattern = "^[^,=]*=[^,]*(,[^,=]*=[^,]*)*$")]
    labels: Option<String>,
}

/// List sandboxes
#[utoipa::path(
    get, path = "/api/sandboxes", tag = "sandboxes", operation_id = "list_sandboxes", params(With),
    responses((status = 200, description = "All of this user on this machine", body = Sandboxes)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    Query(with): Query<With>,
) -> Result<Json<Sandboxes>, Problem> {
    let wrong = || Problem::new(StatusCode::BAD_REQUEST, "a label is `NAME=VALUE`");
    let mut labels = BTreeMap::new();
    for label in with.labels.iter().flat_map(|labels| labels.split(',')) {
        let (name, value) = label.split_once('=').ok_or_else(wrong)?;
        labels.insert(name.trim().to_owned(), value.trim().to_owned());
    }
    let records = app.sandboxes().await?.list(&labels)?;
    Ok(Json(Sandboxes { sandboxes: records.into_iter().map(SandboxInfo::from).collect() }))
}

/// A sandbox that is to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Create {
    /// Lower-case letters, digits and `-`
    #[schema(min_length = 1, max_length = 63, pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    region: Option<String>,
    image: Option<String>,
    /// Seconds that it stays; an hour, if nothing
    #[schema(minimum = 1, maximum = 604_800)]
    ttl_seconds: Option<u64>,
    #[serde(default, deserialize_with = "object")]
    settings: Wishes,
}

/// Make a sandbox that stays for a while
///
/// It lives until its time is up, somebody removes it, or the server ends. If there is one like that already, it is
/// left as it is.
#[utoipa::path(
    post, path = "/api/sandboxes", tag = "sandboxes", request_body = Create,
    responses((status = 201, description = "It is there", body = SandboxInfo),
              (status = 200, description = "It was there", body = SandboxInfo)),
)]
pub(crate) async fn create(
    State(app): State<App>,
    Sent { body, .. }: Sent<Create>,
) -> Result<Response<Body>, Problem> {
    app.pace()?;
    let config = body.settings.applied(&app.services.settings)?;
    if config.sandbox.isolation.requested().is_some() {
        let detail = "the walls of sandboxes that stay are those of the server";
        return Err(Problem::unusable(detail).hint("leave `isolation` out"));
    }
    let ttl = body.ttl_seconds.unwrap_or(USUAL);
    if !(1..=LONGEST).contains(&ttl) {
        return Err(Problem::unusable(format!("`ttl_seconds` is from 1 to {LONGEST}")));
    }
    let spec = Spec {
        labels: body.labels,
        region: body.region,
        time_to_live: Some(Duration::from_secs(ttl)),
        ..app.services.with_settings(config).sandboxes().spec(body.image)?
    };
    let key = Key::new(None, &body.name)?;
    let manager = app.sandboxes().await?;
    let there = record(&manager, &key)?.is_some();
    let pool = if there { None } else { app.backends.pools().for_request(&manager, &spec) };
    if !there && pool.is_none() {
        app.backends.pools().count_miss(manager.isolation());
    }
    manager.create_from(&key, spec, pool).await?;
    let gone = || Problem::conflict("it was removed at once");
    let made = SandboxInfo::from(record(&manager, &key)?.ok_or_else(gone)?);
    let status = if there { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(made)).into_response())
}

fn record(manager: &Manager, key: &Key) -> Result<Option<Record>, Problem> {
    let mut records = manager.list(&BTreeMap::new())?.into_iter();
    Ok(records.find(|record| record.key == *key))
}

/// Show a sandbox
#[utoipa::path(
    get, path = "/api/sandboxes/{sandbox}", tag = "sandboxes", operation_id = "show_sandbox",
    params(("sandbox" = String, Path, description = "The sandbox"), Of),
    responses((status = 200, description = "It is there", body = SandboxInfo)),
)]
pub(crate) async fn show(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(of): Query<Of>,
) -> Result<Json<SandboxInfo>, Problem> {
    let found = record(&*app.sandboxes().await?, &key(of.run.as_deref(), &name)?)?;
    let found = found.ok_or_else(|| Problem::not_found("there is no such sandbox"))?;
    Ok(Json(found.into()))
}

/// Remove a sandbox
#[utoipa::path(
    delete, path = "/api/sandboxes/{sandbox}", tag = "sandboxes", operation_id = "remove_sandbox",
    params(("sandbox" = String, Path, description = "The sandbox"), Of),
    responses((status = 204, description = "It is gone")),
)]
pub(crate) async fn remove(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(of): Query<Of>,
) -> Result<StatusCode, Problem> {
    match app.sandboxes().await?.delete(&key(of.run.as_deref(), &name)?).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Problem::not_found("there is no such sandbox")),
    }
}

/// A program that is to be run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    /// The program and what is passed on to it
    #[schema(min_items = 1)]
    program: Vec<String>,
    /// The folder that it starts in, below the working folder unless it is a whole path; the working folder, if nothing
    cwd: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    stdin: Option<String>,
    /// No more than the sandbox allows, which is what it gets if nothing is said
    #[schema(exclusive_minimum = 0, maximum = 864_000)]
    timeout_seconds: Option<f64>,
}

/// Run a program in a sandbox
#[utoipa::path(
    post, path = "/api/sandboxes/{sandbox}/exec", tag = "sandboxes", request_body = Program,
    params(("sandbox" = String, Path, description = "The sandbox"), Of),
    responses((status = 200, description = "How it went, well or not", body = Ran)),
)]
pub(crate) async fn run(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(of): Query<Of>,
    Sent { body, .. }: Sent<Program>,
) -> Result<Json<Ran>, Problem> {
    let _place = app.docket.place(None)?;
    let sandbox = found(&app, &of, &name).await?;
    let mut words = body.program.into_iter();
    let program = words.next().ok_or_else(|| Problem::unusable("there is no program"))?;
    let mut command = Command::new(program).args(words).stdin(body.stdin.is_some());
    command.cwd = body.cwd.as_deref().map(whole).transpose()?;
    command.env.extend(body.env);
    let most = sandbox.spec().limits.wall;
    let wall = |seconds| match Duration::try_from_secs_f64(seconds) {
        Ok(wall) if !wall.is_zero() && wall <= most => Ok(wall),
        Ok(wall) if !wall.is_zero() && wall <= LONGEST_PROGRAM => {
            let most = most.as_secs_f64();
            Err(Problem::conflict(format!("`timeout_seconds` is {most} at most in this sandbox")))
        }
        _ => Err(Problem::unusable("`timeout_seconds` is above 0 and 864000 at most")),
    };
    command.wall = body.timeout_seconds.map(wall).transpose()?;
    let running = sandbox.exec(command).await?;
    if let Some(text) = body.stdin {
        running.feed(std::io::Cursor::new(text));
    }
    let finished = running.finish().await?;
    Ok(Json(Ran::new(&finished, sandbox.isolation().to_string())))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FileOf {
    /// Below the working folder, unless it is a whole path
    #[param(min_length = 1)]
    path: String,
    /// The run that the sandbox belongs to, if it does
    run: Option<String>,
}

/// A path in a sandbox, as a whole one.
fn whole(path: &str) -> Result<String, Problem> {
    if path.is_empty() || path.contains('\0') {
        return Err(Problem::unusable("that is no path"));
    }
    Ok(match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("{WORKSPACE}/{path}"),
    })
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FolderOf {
    /// Below the working folder, unless it is a whole path; the working folder, if nothing
    #[param(min_length = 1)]
    path: Option<String>,
    /// The run that the sandbox belongs to, if it does
    run: Option<String>,
}

/// Something in a folder of a sandbox.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InFolder {
    name: String,
    /// file, folder, link or other
    kind: &'static str,
    bytes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Folder {
    entries: Vec<InFolder>,
}

/// List a folder in a sandbox
#[utoipa::path(
    get, path = "/api/sandboxes/{sandbox}/folder", tag = "sandboxes",
    params(("sandbox" = String, Path, description = "The sandbox"), FolderOf),
    responses((status = 200, description = "What is in it, and not in folders below it", body = Folder)),
)]
pub(crate) async fn folder(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(folder): Query<FolderOf>,
) -> Result<Json<Folder>, Problem> {
    let path = folder.path.as_deref().map_or(Ok(WORKSPACE.to_owned()), whole)?;
    let sandbox = found(&app, &Of { run: folder.run }, &name).await?;
    let mut entries = sandbox.list(&path).await.map_err(of_file)?;
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    let entries = entries.into_iter().map(|entry| InFolder {
        name: entry.name,
        kind: match entry.kind {
            EntryKind::File => "file",
            EntryKind::Folder => "folder",
            EntryKind::Link => "link",
            EntryKind::Other => "other",
        },
        bytes: entry.size,
    });
    Ok(Json(Folder { entries: entries.collect() }))
}

/// Fetch a file from a sandbox
#[utoipa::path(
    get, path = "/api/sandboxes/{sandbox}/files", tag = "sandboxes",
    params(("sandbox" = String, Path, description = "The sandbox"), FileOf),
    responses((status = 200, description = "As a file, of a type by its name", content_type = "*/*", body = Vec<u8>)),
)]
pub(crate) async fn read(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(file): Query<FileOf>,
) -> Result<Response<Body>, Problem> {
    let path = whole(&file.path)?;
    let sandbox = found(&app, &Of { run: file.run }, &name).await?;
    let Limits { disk, .. } = sandbox.spec().limits;
    let bytes = sandbox.read(&path, disk).await.map_err(of_file)?;
    Ok(attachment(&path, bytes))
}

/// Put a file into a sandbox
#[utoipa::path(
    put, path = "/api/sandboxes/{sandbox}/files", tag = "sandboxes",
    params(("sandbox" = String, Path, description = "The sandbox"), FileOf),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 204, description = "It is there")),
)]
pub(crate) async fn write(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(file): Query<FileOf>,
    Raw(bytes): Raw,
) -> Result<StatusCode, Problem> {
    let path = whole(&file.path)?;
    let sandbox = found(&app, &Of { run: file.run }, &name).await?;
    sandbox.write(&path, &bytes).await.map_err(of_file)?;
    Ok(StatusCode::NO_CONTENT)
}

/// What it means that a file cannot be read or written.
fn of_file(error: SandboxError) -> Problem {
    use assize_sandbox::Cause;
    match error.cause() {
        Some(Cause::NotFound) => Problem::not_found(error.to_string()),
        Some(_) => Problem::unusable(error.to_string()),
        None => error.into(),
    }
}
