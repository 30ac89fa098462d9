//! HTML pages: the web page built from `ui/`, and pages without scripts such as the API reference.

use std::fmt::Write as _;

use askama::Template;
use axum::body::Body;
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{Html, IntoResponse, Response};
use serde_json::Value;

use crate::problem::Problem;

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Escapes a description for HTML, with text between backticks as `<code>`.
fn description_html(text: &Value) -> String {
    let parts = text.as_str().unwrap_or_default().split('`').enumerate();
    let part = |(index, part): (usize, &str)| match index % 2 {
        0 => escaped(part),
        _ => format!("<code>{}</code>", escaped(part)),
    };
    parts.map(part).collect()
}

/// Tags that group the routes, in the order in which the API reference shows the groups.
pub(crate) const TAGS: [&str; 6] = ["runs", "events", "files", "drafts", "sandboxes", "machine"];

/// Template of a page with a heading and a body.
#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    title: &'a str,
    /// HTML of the page's body. The template does not escape it, so untrusted text in it must already be escaped.
    body: &'a str,
}

/// Template of the start page of a binary that was built without the web page.
#[derive(Template)]
#[template(path = "missing.html")]
struct Missing {
    title: &'static str,
    why: String,
}

/// Template of the API reference.
#[derive(Template)]
#[template(path = "docs.html")]
struct Docs<'a> {
    title: &'static str,
    document: &'a Value,
}

/// Template of the table with the fields of a schema.
#[derive(Template)]
#[template(path = "shape.html")]
struct Shape<'a> {
    schema: &'a Value,
}

fn rendered(template: &impl Template) -> String {
    let rendered = template.render();
    rendered.unwrap_or_else(|error| unreachable!("writing to a string cannot fail: {error}"))
}

/// Renders a page with a heading and trusted HTML below it.
pub(crate) fn page(title: &str, body: &str) -> Html<String> {
    Html(rendered(&Page { title, body }))
}

/// Serves the web page, or a simple page with links if the binary was built without the web page.
pub(crate) async fn index(headers: HeaderMap) -> Response {
    if let Some(file) = crate::embedded_files::file("index.html") {
        return file_response(file, &headers);
    }
    let why = escaped(crate::embedded_files::page_missing().unwrap_or_default());
    Html(rendered(&Missing { title: "Assize", why })).into_response()
}

/// Serves a file of the web page. Browsers may cache files in `assets/` for a year, because their names contain a hash
/// of the content.
pub(crate) async fn asset(uri: Uri, headers: HeaderMap) -> Response {
    let name = uri.path().trim_start_matches('/');
    let Some(file) = crate::embedded_files::file(name) else {
        return Problem::not_found("the web page has no file of this name").into_response();
    };
    let mut response = file_response(file, &headers);
    let caching = if name.starts_with("assets/") {
        "private, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    response
}

/// Response with a file of the web page, compressed if the client accepts gzip.
fn file_response(file: crate::embedded_files::EmbeddedFile, headers: &HeaderMap) -> Response {
    let accepted =
        headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let gzip = accepted.split(',').any(|one| one.trim().split(';').next() == Some("gzip"));
    let mut response = Response::new(match gzip {
        true => Body::from(file.compressed),
        false => Body::from(file.content()),
    });
    let own = response.headers_mut();
    own.insert(CONTENT_TYPE, HeaderValue::from_static(file.kind));
    own.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if gzip {
        own.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

pub(crate) async fn style() -> Response {
    let style = include_str!("plain.css");
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], style).into_response()
}

/// Whether a request probably comes from a person with a browser: its path is outside the API, and it accepts HTML.
pub(crate) fn is_for_people(path: &str, headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|kinds| kinds.to_str().ok()).unwrap_or_default();
    accepted.contains("text/html") && !path.starts_with("/api/")
}

/// Responds to an unknown path with 404. A browser receives the web page, which shows the error; other clients receive
/// a problem.
pub(crate) async fn unknown_path(uri: Uri, headers: HeaderMap) -> Response {
    match crate::embedded_files::file("index.html") {
        Some(file) if is_for_people(uri.path(), &headers) => {
            (StatusCode::NOT_FOUND, file_response(file, &headers)).into_response()
        }
        _ => Problem::not_found("unknown path: the server has no route for it").into_response(),
    }
}

/// Renders the API reference from the OpenAPI document.
pub(crate) fn description(document: &Value) -> String {
    rendered(&Docs { title: "API reference", document })
}

/// Returns the operations with a tag from the OpenAPI document: path, method and operation object of each.
fn operations<'d>(document: &'d Value, tag: &str) -> Vec<(&'d str, &'d str, &'d Value)> {
    let paths = fields(&document["paths"]).into_iter();
    let all = paths.flat_map(|(path, methods)| {
        fields(methods).into_iter().map(move |(method, operation)| (path, method, operation))
    });
    all.filter(|(.., operation)| operation["tags"][0] == tag).collect()
}

/// Returns the fields of a JSON object; none if the value is not an object.
fn fields(object: &Value) -> Vec<(&str, &Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.map(|(name, value)| (name.as_str(), value)).collect()
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the subschemas that a schema combines with `oneOf`, `anyOf` or `allOf`.
fn parts(schema: &Value) -> impl Iterator<Item = &Value> {
    ["oneOf", "anyOf", "allOf"].into_iter().flat_map(|key| items(&schema[key]))
}

/// Whether an object schema requires a field.
fn requires(schema: &Value, name: &str) -> bool {
    items(&schema["required"]).iter().any(|required| required == name)
}

/// Returns HTML that describes the content of a request or response: a link to its schema, or its media type.
fn shape_of(content: &Value) -> Option<String> {
    let (kind, content) = content.as_object()?.iter().next()?;
    Some(match content["schema"]["$ref"].as_str() {
        Some(_) => kind_of(&content["schema"]),
        None => format!("<code>{}</code>", escaped(kind)),
    })
}

fn shape(schema: &Value) -> String {
    rendered(&Shape { schema })
}

/// Returns a short HTML description of the values that a schema accepts, such as `list of string`.
fn kind_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
        return format!("<a href=\"#{0}\"><code>{0}</code></a>", escaped(name));
    }
    let value = |value: &Value| match value.as_str() {
        Some(text) => format!("<code>{}</code>", escaped(text)),
        None => escaped(&value.to_string()),
    };
    if !schema["const"].is_null() {
        return value(&schema["const"]);
    }
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().map(value).collect::<Vec<_>>().join(", ");
    }
    if let Some(choices) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
        return choices.iter().map(kind_of).collect::<Vec<_>>().join(" or ");
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let kind = |kind: &str| match kind {
        "array" => format!("list of {}", kind_of(&schema["items"])),
        "object" if schema["additionalProperties"].is_object() => {
            format!("object with values of type {}", kind_of(&schema["additionalProperties"]))
        }
        other => escaped(other),
    };
    let mut text = kinds.into_iter().map(kind).collect::<Vec<_>>().join(" or ");
    for (key, word) in [("minimum", "from"), ("maximum", "up to"), ("default", "default")] {
        if !schema[key].is_null() {
            let _ = write!(text, ", {word} {}", escaped(&schema[key].to_string()));
        }
    }
    if text.is_empty() { "anything".to_owned() } else { text }
}
