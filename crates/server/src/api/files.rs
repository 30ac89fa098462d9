//! Handlers for the documents and files of a run. The files are untrusted: a browser displays only images inline, and
//! downloads all other files.

use assize_code::INPUTS;
use assize_consult::DOCUMENTS;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, Response};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use schemars::JsonSchema;
use serde::Serialize;

use crate::extract::Path;
use crate::headers::UNTRUSTED_POLICY;
use crate::kinds::ConsultDocument;
use crate::problem::Problem;
use crate::{App, kinds};

/// Name and size of a file.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FileInfo {
    pub(super) name: String,
    pub(super) bytes: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FileList {
    files: Vec<FileInfo>,
}

/// Files of a run, grouped by their origin.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Artifacts {
    /// Input files of the run
    inputs: Vec<FileInfo>,
    /// Files that the last program of the run wrote
    outputs: Vec<FileInfo>,
    /// Other stored files of the run, such as the task and the files that the programs of each attempt wrote
    other: Vec<FileInfo>,
}

/// Media type of a file, from the extension of its name. Only text and raster images have a specific type. An SVG image
/// can contain scripts, so its type is `application/octet-stream`.
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

/// Media type of a raster image, from its first bytes; `None` for any other content.
pub(crate) fn image_media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Characters of a file name that are percent-encoded: all but letters, digits and `.-_`.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_');

/// Builds the response for an untrusted file: an image is displayed inline, any other file is downloaded.
pub(crate) fn attachment(name: &str, bytes: Vec<u8>) -> Response<Body> {
    let kind = kind(name);
    // A file is sent as an image only if its content has the image format that its name indicates.
    let kind = match kind.starts_with("image/") && image_media_type(&bytes) != Some(kind) {
        true => "application/octet-stream",
        false => kind,
    };
    let how = if kind.starts_with("image/") { "inline" } else { "attachment" };
    let short = name.rsplit('/').next().unwrap_or(name);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let ascii: String = short.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    let coded = utf8_percent_encode(short, ESCAPED);
    let named = format!("{how}; filename=\"{ascii}\"; filename*=UTF-8''{coded}");
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(UNTRUSTED_POLICY));
    // The conversion cannot fail: the header value contains only printable ASCII.
    let named = HeaderValue::from_str(&named).unwrap_or(HeaderValue::from_static("attachment"));
    headers.insert(CONTENT_DISPOSITION, named);
    response
}

/// List the documents of a consultation
#[utoipa::path(
    get, path = "/api/runs/{id}/documents", tag = "files", params(("id" = String, Path, description = "Id of the run")),
    responses((status = 200, description = "Documents written so far", body = FileList)),
)]
pub(crate) async fn documents(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<FileList>, Problem> {
    let run = app.run(&id).await?;
    let files = kinds::documents(&app, &run).await?.into_iter();
    let files = files.map(|(name, document)| match document {
        ConsultDocument::Rendered(bytes) => FileInfo { name, bytes: bytes.len() as u64 },
        ConsultDocument::Stored(_, bytes) => FileInfo { name, bytes },
    });
    Ok(Json(FileList { files: files.collect() }))
}

/// Fetch a document of a consultation
///
/// Documents have names such as `F1.md`, `m7.md` and `report.html`.
#[utoipa::path(
    get, path = "/api/runs/{id}/documents/{*document}", tag = "files",
    params(("id" = String, Path, description = "Id of the run"), ("document" = String, Path, description = "Name of the document")),
    responses((status = 200, description = "Content of the file, with a media type that depends on the file name", content_type = "*/*", body = Vec<u8>)),
)]
pub(crate) async fn document(
    State(app): State<App>,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response<Body>, Problem> {
    let run = app.run(&id).await?;
    // A client may omit `moves/`, the folder that contains the documents of the moves.
    let in_moves = format!("moves/{name}");
    let mut documents = kinds::documents(&app, &run).await?.into_iter();
    let found = documents.find(|(known, _)| *known == name || *known == in_moves);
    let missing =
        || Problem::not_found("the run has no document of this name, or has not written it yet");
    let found = found.ok_or_else(missing)?;
    let bytes = match found.1 {
        ConsultDocument::Rendered(bytes) => bytes,
        ConsultDocument::Stored(id, _) => app.store.artifact(id).await?,
    };
    Ok(attachment(&found.0, bytes))
}

/// List the files of a run
#[utoipa::path(
    get, path = "/api/runs/{id}/artifacts", tag = "files", params(("id" = String, Path, description = "Id of the run")),
    responses((status = 200, description = "Files of the run, grouped by origin", body = Artifacts)),
)]
pub(crate) async fn artifacts(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Artifacts>, Problem> {
    let run = app.run(&id).await?;
    let (mut inputs, mut other) = (Vec::new(), Vec::new());
    let all = app.store.artifacts(&run.id).await?.into_iter();
    for one in all.filter(|one| !one.name.starts_with(DOCUMENTS)) {
        match one.name.strip_prefix(INPUTS) {
            Some(name) => inputs.push(FileInfo { name: name.to_owned(), bytes: one.bytes }),
            None => other.push(FileInfo { name: one.name, bytes: one.bytes }),
        }
    }
    let outputs = kinds::output_files(&app, &run).await?.into_iter();
    let outputs = outputs.map(|file| FileInfo { name: file.name, bytes: file.bytes });
    Ok(Json(Artifacts { inputs, outputs: outputs.collect(), other }))
}

/// Fetch a file of a run
///
/// Looks for a file of this name among the files that the last program wrote, then among the input files, and then
/// among the other stored files.
#[utoipa::path(
    get, path = "/api/runs/{id}/artifacts/{*artifact}", tag = "files",
    params(("id" = String, Path, description = "Id of the run"), ("artifact" = String, Path, description = "Name of the file")),
    responses((status = 200, description = "Content of the file, with a media type that depends on the file name", content_type = "*/*", body = Vec<u8>)),
)]
pub(crate) async fn artifact(
    State(app): State<App>,
    Path((id, name)): Path<(String, String)>,
) -> Result<Response<Body>, Problem> {
    let run = app.run(&id).await?;
    let mut outputs = kinds::output_files(&app, &run).await?.into_iter();
    let outputs = outputs.find(|file| file.name == name);
    let id = match outputs.map(|file| file.sha256) {
        Some(id) => id,
        None => {
            let all = app.store.artifacts(&run.id).await?;
            let input = all.iter().find(|one| one.name.strip_prefix(INPUTS) == Some(&name));
            let found = input.or_else(|| all.iter().find(|one| one.name == name));
            found.ok_or_else(|| Problem::not_found("the run has no file of this name"))?.id
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
        assert_eq!(text(CONTENT_SECURITY_POLICY), UNTRUSTED_POLICY);
        (text(CONTENT_TYPE), text(CONTENT_DISPOSITION))
    }

    #[test]
    fn only_raster_images_are_displayed_inline() {
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
    fn file_name_in_content_disposition_cannot_inject_headers() {
        let (_, how) = headers("a\"; filename=evil.exe\r\nX: y/ü\u{202e}.txt", b"");
        assert_eq!(how, "attachment; filename=\"__.txt\"; filename*=UTF-8''%C3%BC%E2%80%AE.txt");
    }
}
