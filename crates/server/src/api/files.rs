//! Documents and files of a run. Models and programs wrote them: a browser may keep them, and show nothing but pictures.

use assize_code::{INPUTS, left};
use assize_consult::{DOCUMENTS, consulted};
use assize_run::{ArtifactUse, Run, RunKind};
use assize_service::reading;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::App;
use crate::extract::Path;
use crate::headers::SANDBOX;
use crate::problem::Problem;

/// Something that can be fetched.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FileInfo {
    pub(super) name: String,
    pub(super) bytes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Files {
    files: Vec<FileInfo>,
}

/// Files that a program left, and those that it was given.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Artifacts {
    /// What was sent along
    given: Vec<FileInfo>,
    /// What its last program left
    left: Vec<FileInfo>,
    /// What else is kept with the run, such as its task, and what programs left, attempt by attempt
    kept: Vec<FileInfo>,
}

/// The type of a file by its name: text, and pictures made of dots. Whatever could be run as a page is bytes.
fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default().to_ascii_lowercase().as_str() {
        "md" => "text/markdown; charset=utf-8",
        "txt" | "csv" | "py" | "js" | "sh" | "toml" | "log" => "text/plain; charset=utf-8",
        "json" => "application/json",
        "html" => "text/html; charset=utf-8",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        _ => "application/octet-stream",
    }
}

/// Whether bytes are the picture that their name says.
fn is_picture(kind: &str, bytes: &[u8]) -> bool {
    match kind {
        "image/png" => bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
        "image/jpeg" => bytes.starts_with(b"\xff\xd8\xff"),
        "image/gif" => bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a"),
        "image/webp" => bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP"),
        _ => false,
    }
}

/// A file that is not ours: to be kept, and where it is a picture to be shown.
pub(crate) fn attachment(name: &str, bytes: Vec<u8>) -> Response<Body> {
    let kind = kind(name);
    let kind = match kind.starts_with("image/") && !is_picture(kind, &bytes) {
        true => "application/octet-stream",
        false => kind,
    };
    let how = if kind.starts_with("image/") { "inline" } else { "attachment" };
    let short = name.rsplit('/').next().unwrap_or(name);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let ascii: String = short.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    let mut coded = String::new();
    for byte in short.bytes() {
        match char::from(byte) {
            c if plain(c) => coded.push(c),
            _ => coded.push_str(&format!("%{byte:02X}")),
        }
    }
    let named = format!("{how}; filename=\"{ascii}\"; filename*=UTF-8''{coded}");
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    // Of plain letters alone.
    let named = HeaderValue::from_str(&named).unwrap_or(HeaderValue::from_static("attachment"));
    headers.insert(CONTENT_DISPOSITION, named);
    response
}

/// The documents of a consultation, by name.
async fn documents_of(app: &App, run: &Run) -> Result<Vec<(String, Vec<u8>)>, Problem> {
    if run.kind != RunKind::Consult {
        return Err(Problem::not_found(format!("`{}` writes no documents", run.id)));
    }
    let records = app.store.records(&run.id).await?;
    match consulted(run, &records)? {
        Some(report) => {
            let told = reading::status_updates(&*app.store, run).await?;
            Ok(assize_consult::documents(&report, &told))
        }
        None => {
            // What was written so far.
            let mut written = Vec::new();
            for one in app.store.artifacts(&run.id).await? {
                if let Some(name) = one.name.strip_prefix(DOCUMENTS) {
                    written.push((name.to_owned(), app.store.artifact(one.id).await?));
                }
            }
            Ok(written)
        }
    }
}

/// List the documents of a consultation
#[utoipa::path(
    get, path = "/api/runs/{id}/documents", tag = "files", params(("id" = String, Path, description = "The run")),
    responses((status = 200, description = "Those that there are", body = Files)),
)]
pub(crate) async fn documents(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Files>, Problem> {
    let run = app.run(&id).await?;
    let files = documents_of(&app, &run).await?.into_iter();
    let files = files.map(|(name, bytes)| FileInfo { name, bytes: bytes.len() as u64 }).collect();
    Ok(Json(Files { files }))
}

/// Fetch a document of a consultation
///
/// By its name: `F1.md`, `m7.md`, `report.html` and so on.
#[utoipa::path(
    get, path = "/api/runs/{id}/documents/{*document}", tag = "files",
    params(("id" = String, Path, description = "The run"), ("document" = String, Path, description = "The document")),
    responses((status = 200, description = "As a file, of a type by its name", content_type = "*/*", body = Vec<u8>)),
)]
pub(crate) async fn document(
    State(app): State<App>,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response<Body>, Problem> {
    let run = app.run(&id).await?;
    // A move is known by its own name, wherever it is kept.
    let moved = format!("moves/{name}");
    let is_it = |known: &str| known == name || known == moved;
    if run.kind == RunKind::Consult && run.result.is_none() {
        // Only the one: it may be asked for often while the others are being written.
        let all = app.store.artifacts(&run.id).await?;
        let kept = |one: &&ArtifactUse| one.name.strip_prefix(DOCUMENTS).is_some_and(is_it);
        let found = all.iter().find(kept);
        let found =
            found.ok_or_else(|| Problem::not_found("there is no such document, or not yet"))?;
        return Ok(attachment(&found.name, app.store.artifact(found.id).await?));
    }
    let documents = documents_of(&app, &run).await?;
    let found = documents.into_iter().find(|(known, _)| is_it(known));
    match found {
        Some((name, bytes)) => Ok(attachment(&name, bytes)),
        None => Err(Problem::not_found("there is no such document, or not yet")),
    }
}

/// List the files of a run
#[utoipa::path(
    get, path = "/api/runs/{id}/artifacts", tag = "files", params(("id" = String, Path, description = "The run")),
    responses((status = 200, description = "By whose they are", body = Artifacts)),
)]
pub(crate) async fn artifacts(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Artifacts>, Problem> {
    let run = app.run(&id).await?;
    let (mut given, mut kept) = (Vec::new(), Vec::new());
    let all = app.store.artifacts(&run.id).await?.into_iter();
    for one in all.filter(|one| !one.name.starts_with(DOCUMENTS)) {
        match one.name.strip_prefix(INPUTS) {
            Some(name) => given.push(FileInfo { name: name.to_owned(), bytes: one.bytes }),
            None => kept.push(FileInfo { name: one.name, bytes: one.bytes }),
        }
    }
    let history = assize_code::history(&app.store.records(&run.id).await?);
    let left = if run.kind == RunKind::Code { left(&history) } else { Vec::new() };
    let left = left.into_iter().map(|file| FileInfo { name: file.name, bytes: file.bytes });
    Ok(Json(Artifacts { given, left: left.collect(), kept }))
}

/// Fetch a file of a run
///
/// One that its last program left, or else one that was sent along, or else one that is kept with it.
#[utoipa::path(
    get, path = "/api/runs/{id}/artifacts/{*artifact}", tag = "files",
    params(("id" = String, Path, description = "The run"), ("artifact" = String, Path, description = "The file")),
    responses((status = 200, description = "As a file, of a type by its name", content_type = "*/*", body = Vec<u8>)),
)]
pub(crate) async fn artifact(
    State(app): State<App>,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response<Body>, Problem> {
    let run = app.run(&id).await?;
    let history = assize_code::history(&app.store.records(&run.id).await?);
    let left = if run.kind == RunKind::Code { left(&history) } else { Vec::new() };
    let left = left.into_iter().find(|file| file.name == name);
    let id = match left.map(|file| file.sha256) {
        Some(id) => id,
        None => {
            let all = app.store.artifacts(&run.id).await?;
            let sent = all.iter().find(|one| one.name.strip_prefix(INPUTS) == Some(&name));
            let found = sent.or_else(|| all.iter().find(|one| one.name == name));
            found.ok_or_else(|| Problem::not_found("there is no such file"))?.id
        }
    };
    Ok(attachment(&name, app.store.artifact(id).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &str, bytes: &[u8]) -> (String, String) {
        let response = attachment(name, bytes.to_vec());
        let text = |name| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(text(CONTENT_SECURITY_POLICY), SANDBOX);
        (text(CONTENT_TYPE), text(CONTENT_DISPOSITION))
    }

    #[test]
    fn only_pictures_made_of_dots_are_shown() {
        let (kind, how) = headers("out/plot.png", b"\x89PNG\r\n\x1a\nrest");
        assert_eq!((kind.as_str(), how.starts_with("inline; ")), ("image/png", true), "{how}");
        for (name, bytes, kind) in [
            ("plot.png", b"<script>".as_slice(), "application/octet-stream"),
            ("plot.svg", b"<svg onload=x>", "application/octet-stream"),
            ("page.html", b"<script>", "text/html; charset=utf-8"),
            ("F1.md", b"# F1", "text/markdown; charset=utf-8"),
        ] {
            let (found, how) = headers(name, bytes);
            assert_eq!(found, kind, "{name}");
            assert!(how.starts_with("attachment; "), "{name}: {how}");
        }
    }

    #[test]
    fn no_name_breaks_out_of_its_header() {
        let (_, how) = headers("a\"; filename=evil.exe\r\nX: y/ü\u{202e}.txt", b"");
        assert_eq!(how, "attachment; filename=\"__.txt\"; filename*=UTF-8''%C3%BC%E2%80%AE.txt");
    }
}
