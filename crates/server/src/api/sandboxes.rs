//! Handlers that run code once in a new sandbox, and that manage long-lived sandboxes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use assize_code::exec;
use assize_config::SandboxLimits;
use assize_sandbox::{
    FinishedProgram, FolderEntryKind, ProgramCommand, ProgramOutcome, Sandbox, SandboxError,
    SandboxKey, SandboxManager, SandboxRecord, SandboxSpec, WORKSPACE,
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

use super::files::attachment;
use super::request_parts::{RequestSettings, Upload, inputs};
use super::start_bodies::LanguageName;
use crate::App;
use crate::extract::{JsonBody, Path, Query, RawBody, object, objects};
use crate::problem::Problem;

/// Maximum lifetime of a long-lived sandbox, in seconds.
const MAX_TTL: u64 = 7 * 24 * 60 * 60;

/// Default lifetime of a long-lived sandbox, in seconds.
const DEFAULT_TTL: u64 = 60 * 60;

/// Error detail in the response to a request whose sandbox does not exist.
const UNKNOWN_SANDBOX: &str = "unknown sandbox: no sandbox has this name";

/// Maximum timeout that a request may set for a program in a long-lived sandbox.
const MAX_TIMEOUT: Duration = Duration::from_secs(864_000);

/// Request body with a program to run once in a new sandbox.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecBody {
    #[schema(min_length = 1)]
    code: String,
    #[serde(default)]
    language: LanguageName,
    /// Command-line arguments of the program
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Standard input of the program
    stdin: Option<String>,
    /// Input files, copied to the working folder of the program
    #[serde(default, deserialize_with = "objects")]
    #[schema(max_items = 200)]
    files: Vec<Upload>,
    /// Return the files that the program writes to its working folder
    #[serde(default)]
    keep_files: bool,
    image: Option<String>,
    #[serde(default, deserialize_with = "object")]
    settings: RequestSettings,
}

/// File that a program wrote to its working folder.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExecFile {
    name: String,
    base64: String,
}

/// Outcome of a program that ran in a sandbox.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExecResult {
    exit_code: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
    out_of_memory: bool,
    output_cut: bool,
    disk_full: bool,
    duration_ms: f64,
    /// Peak memory usage of the sandbox since the sandbox was created
    peak_memory_bytes: u64,
    stdout: String,
    stderr: String,
    /// Backend of the sandbox; in responses to `/api/exec`, followed by the reason why this backend was chosen
    isolation: String,
    files: Vec<ExecFile>,
    /// Files that the program wrote but that the response omits, each with the reason
    not_collected: Vec<String>,
}

impl ExecResult {
    fn new(finished: &FinishedProgram, isolation: String) -> ExecResult {
        let outcome: &ProgramOutcome = &finished.outcome;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ExecResult {
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
            not_collected: Vec::new(),
        }
    }
}

/// Run code in a new sandbox
///
/// The sandbox has no network access, contains only the files of the request, and has resource limits. The response is
/// sent when the program has ended.
#[utoipa::path(
    post, path = "/api/exec", tag = "sandboxes", request_body = ExecBody,
    responses((status = 200, description = "Outcome of the program, even if the program failed", body = ExecResult)),
)]
pub(crate) async fn run_once(
    State(app): State<App>,
    JsonBody { body, .. }: JsonBody<ExecBody>,
) -> Result<Json<ExecResult>, Problem> {
    if body.code.is_empty() {
        return Err(Problem::unprocessable("the field `code` is empty"));
    }
    app.check_start_limit()?;
    // The program counts against the same concurrency limit as runs.
    let _slot = app.supervisor.reserve_slot(None)?;
    let settings = body.settings.applied(&app.services.settings)?;
    let sandboxes = app.services.with_settings(settings).sandboxes();
    let ask = exec::CodeExecRequest {
        code: body.code,
        language: body.language.into(),
        arguments: body.arguments,
        env: body.env,
        inputs: inputs(body.files)?,
        packages: Vec::new(),
        image: body.image,
    };
    let ran = exec::run(ask, body.stdin, body.keep_files, &sandboxes).await?;
    let exec::CodeExecOutput { finished, isolation, files, not_collected } = ran;
    let left = |(name, bytes)| ExecFile { name, base64: BASE64_STANDARD.encode::<Vec<u8>>(bytes) };
    let files = files.into_iter().map(left).collect();
    Ok(Json(ExecResult { files, not_collected, ..ExecResult::new(&finished, isolation) }))
}

/// Description of a long-lived sandbox.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SandboxInfo {
    name: String,
    /// Id of the run that the sandbox belongs to; null if the sandbox was created through the API
    run: Option<String>,
    isolation: String,
    /// Time of creation, in seconds since 1970
    created: u64,
    /// Time at which the sandbox is removed, in seconds since 1970
    expires: u64,
    labels: BTreeMap<String, String>,
    image: Option<String>,
    region: Option<String>,
    memory_bytes: u64,
    /// Process id of the process that owns the sandbox
    pid: u32,
}

impl From<SandboxRecord> for SandboxInfo {
    fn from(record: SandboxRecord) -> SandboxInfo {
        SandboxInfo {
            name: record.key.name,
            run: record.key.run,
            isolation: record.isolation.to_string(),
            created: record.created,
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
pub(crate) struct SandboxList {
    sandboxes: Vec<SandboxInfo>,
}

impl App {
    /// Returns the sandbox manager of the default backend. The manager can also access sandboxes of other processes.
    async fn sandboxes(&self) -> Result<Arc<SandboxManager>, Problem> {
        let backend = self.backends.get(&self.services.sandboxes()).await?;
        Ok(backend.manager.clone())
    }
}

/// Builds the key of a sandbox from its name and, if the sandbox belongs to a run, the id of this run.
fn key(run: Option<&str>, name: &str) -> Result<SandboxKey, Problem> {
    SandboxKey::new(run, name).map_err(|_| Problem::not_found(UNKNOWN_SANDBOX))
}

async fn found(app: &App, of: &SandboxQuery, name: &str) -> Result<Sandbox, Problem> {
    let sandbox = app.sandboxes().await?.get(&key(of.run.as_deref(), name)?).await?;
    sandbox.ok_or_else(|| Problem::not_found(UNKNOWN_SANDBOX))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SandboxQuery {
    /// Id of the run that the sandbox belongs to, if any
    run: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LabelQuery {
    /// Return only sandboxes that have all labels in this comma-separated list, such as `team=red,env=test`
    #[param(pattern = "^[^,=]*=[^,]*(,[^,=]*=[^,]*)*$")]
    labels: Option<String>,
}

/// List sandboxes
#[utoipa::path(
    get, path = "/api/sandboxes", tag = "sandboxes", operation_id = "list_sandboxes", params(LabelQuery),
    responses((status = 200, description = "Long-lived sandboxes on the server's machine that belong to the user account of the server", body = SandboxList)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    Query(with): Query<LabelQuery>,
) -> Result<Json<SandboxList>, Problem> {
    let detail = "invalid `labels`: expected NAME=VALUE, separated by commas";
    let invalid = || Problem::new(StatusCode::BAD_REQUEST, detail);
    let mut labels = BTreeMap::new();
    for label in with.labels.iter().flat_map(|labels| labels.split(',')) {
        let (name, value) = label.split_once('=').ok_or_else(invalid)?;
        labels.insert(name.trim().to_owned(), value.trim().to_owned());
    }
    let records = app.sandboxes().await?.list(&labels)?;
    Ok(Json(SandboxList { sandboxes: records.into_iter().map(SandboxInfo::from).collect() }))
}

/// Request body that creates a long-lived sandbox.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateSandbox {
    /// Name of the sandbox: lower-case letters, digits and `-`
    #[schema(min_length = 1, max_length = 63, pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")]
    name: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    region: Option<String>,
    image: Option<String>,
    /// Lifetime of the sandbox in seconds; default: one hour
    #[schema(minimum = 1, maximum = 604_800)]
    ttl_seconds: Option<u64>,
    #[serde(default, deserialize_with = "object")]
    settings: RequestSettings,
}

/// Create a long-lived sandbox
///
/// The sandbox exists until it expires or is removed, or until the server ends. If a sandbox with the same name and the
/// same properties exists, the request returns that sandbox unchanged.
#[utoipa::path(
    post, path = "/api/sandboxes", tag = "sandboxes", request_body = CreateSandbox,
    responses((status = 201, description = "The sandbox was created", body = SandboxInfo),
              (status = 200, description = "A sandbox with this name and these properties already existed", body = SandboxInfo)),
)]
pub(crate) async fn create(
    State(app): State<App>,
    JsonBody { body, .. }: JsonBody<CreateSandbox>,
) -> Result<Response<Body>, Problem> {
    app.check_start_limit()?;
    let config = body.settings.applied(&app.services.settings)?;
    if config.sandbox.isolation.requested().is_some() {
        let detail = "the setting `isolation` is not supported for long-lived sandboxes: they use \
                      the default backend of the server";
        return Err(Problem::unprocessable(detail).hint("omit the setting `isolation`"));
    }
    let ttl = body.ttl_seconds.unwrap_or(DEFAULT_TTL);
    if !(1..=MAX_TTL).contains(&ttl) {
        let detail = format!("`ttl_seconds` must be between 1 and {MAX_TTL}");
        return Err(Problem::unprocessable(detail));
    }
    let spec = SandboxSpec {
        labels: body.labels,
        region: body.region,
        time_to_live: Some(Duration::from_secs(ttl)),
        ..app.services.with_settings(config).sandboxes().spec(body.image)?
    };
    let key = SandboxKey::new(None, &body.name)?;
    let manager = app.sandboxes().await?;
    let exists = record(&manager, &key)?.is_some();
    let pool = if exists { None } else { app.backends.pools().for_request(&manager, &spec) };
    if !exists && pool.is_none() {
        app.backends.pools().count_miss(manager.isolation());
    }
    let (_, is_new) = manager.create_from(&key, spec, pool).await?;
    let removed = || Problem::conflict("the sandbox was removed while it was being created");
    let created = SandboxInfo::from(record(&manager, &key)?.ok_or_else(removed)?);
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(created)).into_response())
}

fn record(manager: &SandboxManager, key: &SandboxKey) -> Result<Option<SandboxRecord>, Problem> {
    let mut records = manager.list(&BTreeMap::new())?.into_iter();
    Ok(records.find(|record| record.key == *key))
}

/// Show a sandbox
#[utoipa::path(
    get, path = "/api/sandboxes/{sandbox}", tag = "sandboxes", operation_id = "show_sandbox",
    params(("sandbox" = String, Path, description = "Name of the sandbox"), SandboxQuery),
    responses((status = 200, description = "Properties of the sandbox", body = SandboxInfo)),
)]
pub(crate) async fn show(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(of): Query<SandboxQuery>,
) -> Result<Json<SandboxInfo>, Problem> {
    let found = record(&*app.sandboxes().await?, &key(of.run.as_deref(), &name)?)?;
    let found = found.ok_or_else(|| Problem::not_found(UNKNOWN_SANDBOX))?;
    Ok(Json(found.into()))
}

/// Remove a sandbox
#[utoipa::path(
    delete, path = "/api/sandboxes/{sandbox}", tag = "sandboxes", operation_id = "remove_sandbox",
    params(("sandbox" = String, Path, description = "Name of the sandbox"), SandboxQuery),
    responses((status = 204, description = "The sandbox was removed")),
)]
pub(crate) async fn remove(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(of): Query<SandboxQuery>,
) -> Result<StatusCode, Problem> {
    match app.sandboxes().await?.delete(&key(of.run.as_deref(), &name)?).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Problem::not_found(UNKNOWN_SANDBOX)),
    }
}

/// Request body with a program to run in a long-lived sandbox.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunProgram {
    /// Name or path of the program, followed by its arguments
    #[schema(min_items = 1)]
    program: Vec<String>,
    /// Folder in which the program starts: absolute, or relative to the working folder of the sandbox; default: the
    /// working folder
    cwd: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    stdin: Option<String>,
    /// Timeout of the program; maximum and default: the timeout of the sandbox
    #[schema(exclusive_minimum = 0, maximum = 864_000)]
    timeout_seconds: Option<f64>,
}

/// Run a program in a sandbox
#[utoipa::path(
    post, path = "/api/sandboxes/{sandbox}/exec", tag = "sandboxes", request_body = RunProgram,
    params(("sandbox" = String, Path, description = "Name of the sandbox"), SandboxQuery),
    responses((status = 200, description = "Outcome of the program, even if the program failed", body = ExecResult)),
)]
pub(crate) async fn run(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(of): Query<SandboxQuery>,
    JsonBody { body, .. }: JsonBody<RunProgram>,
) -> Result<Json<ExecResult>, Problem> {
    let _slot = app.supervisor.reserve_slot(None)?;
    let sandbox = found(&app, &of, &name).await?;
    let mut words = body.program.into_iter();
    let empty = || Problem::unprocessable("the field `program` is empty");
    let program = words.next().ok_or_else(empty)?;
    let mut command = ProgramCommand::new(program).args(words).stdin(body.stdin.is_some());
    command.cwd = body.cwd.as_deref().map(absolute).transpose()?;
    command.env.extend(body.env);
    let limit = sandbox.spec().limits.wall;
    let wall = |seconds| match Duration::try_from_secs_f64(seconds) {
        Ok(wall) if !wall.is_zero() && wall <= limit => Ok(wall),
        Ok(wall) if !wall.is_zero() && wall <= MAX_TIMEOUT => {
            let limit = limit.as_secs_f64();
            let detail = format!("`timeout_seconds` must be at most {limit} in this sandbox");
            Err(Problem::conflict(detail))
        }
        _ => Err(Problem::unprocessable("`timeout_seconds` must be above 0 and at most 864000")),
    };
    command.time_limit = body.timeout_seconds.map(wall).transpose()?;
    let running = sandbox.exec(command).await?;
    if let Some(text) = body.stdin {
        running.feed(std::io::Cursor::new(text));
    }
    let finished = running.finish().await?;
    Ok(Json(ExecResult::new(&finished, sandbox.isolation().to_string())))
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FileQuery {
    /// Path of the file: absolute, or relative to the working folder of the sandbox
    #[param(min_length = 1)]
    path: String,
    /// Id of the run that the sandbox belongs to, if any
    run: Option<String>,
}

/// Converts a path in a sandbox to an absolute path; a relative path starts at the working folder.
fn absolute(path: &str) -> Result<String, Problem> {
    if path.is_empty() || path.contains('\0') {
        return Err(Problem::unprocessable("invalid path: empty, or contains a NUL byte"));
    }
    Ok(match path.starts_with('/') {
        true => path.to_owned(),
        false => format!("{WORKSPACE}/{path}"),
    })
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FolderQuery {
    /// Path of the folder: absolute, or relative to the working folder of the sandbox; default: the working folder
    #[param(min_length = 1)]
    path: Option<String>,
    /// Id of the run that the sandbox belongs to, if any
    run: Option<String>,
}

/// Entry of a folder in a sandbox.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FolderItem {
    name: String,
    /// Type of the entry: file, folder, link or other
    kind: &'static str,
    bytes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FolderListing {
    entries: Vec<FolderItem>,
}

/// List a folder in a sandbox
#[utoipa::path(
    get, path = "/api/sandboxes/{sandbox}/folder", tag = "sandboxes",
    params(("sandbox" = String, Path, description = "Name of the sandbox"), FolderQuery),
    responses((status = 200, description = "Entries of the folder, without the entries of its subfolders", body = FolderListing)),
)]
pub(crate) async fn folder(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(folder): Query<FolderQuery>,
) -> Result<Json<FolderListing>, Problem> {
    let path = folder.path.as_deref().map_or(Ok(WORKSPACE.to_owned()), absolute)?;
    let sandbox = found(&app, &SandboxQuery { run: folder.run }, &name).await?;
    let mut entries = sandbox.list(&path).await.map_err(of_file)?;
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    let entries = entries.into_iter().map(|entry| FolderItem {
        name: entry.name,
        kind: match entry.kind {
            FolderEntryKind::File => "file",
            FolderEntryKind::Folder => "folder",
            FolderEntryKind::Link => "link",
            FolderEntryKind::Other => "other",
        },
        bytes: entry.size,
    });
    Ok(Json(FolderListing { entries: entries.collect() }))
}

/// Fetch a file from a sandbox
#[utoipa::path(
    get, path = "/api/sandboxes/{sandbox}/files", tag = "sandboxes",
    params(("sandbox" = String, Path, description = "Name of the sandbox"), FileQuery),
    responses((status = 200, description = "Content of the file, with a media type that depends on the file name", content_type = "*/*", body = Vec<u8>)),
)]
pub(crate) async fn read(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(file): Query<FileQuery>,
) -> Result<Response<Body>, Problem> {
    let path = absolute(&file.path)?;
    let sandbox = found(&app, &SandboxQuery { run: file.run }, &name).await?;
    let SandboxLimits { disk, .. } = sandbox.spec().limits;
    let bytes = sandbox.read(&path, disk).await.map_err(of_file)?;
    Ok(attachment(&path, bytes))
}

/// Write a file in a sandbox
#[utoipa::path(
    put, path = "/api/sandboxes/{sandbox}/files", tag = "sandboxes",
    params(("sandbox" = String, Path, description = "Name of the sandbox"), FileQuery),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 204, description = "The file was written")),
)]
pub(crate) async fn write(
    State(app): State<App>,
    Path(name): Path<String>,
    Query(file): Query<FileQuery>,
    RawBody(bytes): RawBody,
) -> Result<StatusCode, Problem> {
    let path = absolute(&file.path)?;
    let sandbox = found(&app, &SandboxQuery { run: file.run }, &name).await?;
    sandbox.write(&path, &bytes).await.map_err(of_file)?;
    Ok(StatusCode::NO_CONTENT)
}

/// Converts an error of a file operation in a sandbox to a problem.
fn of_file(error: SandboxError) -> Problem {
    use assize_sandbox::GuestFailureCause;
    match error.cause() {
        Some(GuestFailureCause::NotFound) => Problem::not_found(error.to_string()),
        Some(_) => Problem::unprocessable(error.to_string()),
        None => error.into(),
    }
}
