//! The page that is built of `ui/`, and those that need no script, such as the description of the API.

use std::fmt::Write as _;

use axum::body::Body;
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{Html, IntoResponse, Response};
use serde_json::Value;

use crate::problem::Problem;

/// Text that is no markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Words of ours, with what stands between backticks set apart.
fn worded(text: &Value) -> String {
    let parts = text.as_str().unwrap_or_default().split('`').enumerate();
    let part = |(index, part): (usize, &str)| match index % 2 {
        0 => escaped(part),
        _ => format!("<code>{}</code>", escaped(part)),
    };
    parts.map(part).collect()
}

/// What routes are about, in the order in which they are shown.
pub(crate) const TAGS: [&str; 6] = ["runs", "events", "files", "drafts", "sandboxes", "machine"];

/// A page with a heading.
pub(crate) fn page(title: &str, body: &str) -> Html<String> {
    Html(format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{title} · Assize</title>\n\
         <link rel=\"icon\" href=\"/icon.svg\" type=\"image/svg+xml\">\n\
         <link rel=\"stylesheet\" href=\"/assets/plain.css\">\n<main>\n<h1>{title}</h1>\n{body}\n</main>\n</html>\n"
    ))
}

/// The page; or where it is not part of this program, why, and what is there instead.
pub(crate) async fn index(headers: HeaderMap) -> Response {
    if let Some(file) = crate::page::file("index.html") {
        return sent(file, &headers);
    }
    let why = escaped(crate::page::page_missing().unwrap_or_default());
    let note = format!(
        "<p>This program was built without its page: {why}. Build it where npm is (Node.js 20.19 or newer), and \
         it has one.</p>"
    );
    let links = "<ul>\n\
         <li><a href=\"/api/docs\">What can be asked for</a> (<a href=\"/api/openapi.json\">OpenAPI</a>)</li>\n\
         <li><a href=\"/api/runs\">Runs</a></li>\n<li><a href=\"/api/workspaces\">Workspaces</a></li>\n\
         <li><a href=\"/api/sandboxes\">Sandboxes</a></li>\n<li><a href=\"/api/doctor\">This machine</a></li>\n\
         <li><a href=\"/metrics\">Figures</a></li>\n</ul>";
    page("Assize", &format!("{note}\n{links}")).into_response()
}

/// A file of the page, by its name; what has a hash in its name never changes.
pub(crate) async fn asset(uri: Uri, headers: HeaderMap) -> Response {
    let name = uri.path().trim_start_matches('/');
    let Some(file) = crate::page::file(name) else {
        return Problem::not_found("there is nothing at this address").into_response();
    };
    let mut response = sent(file, &headers);
    let kept = if name.starts_with("assets/") {
        "private, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(kept));
    response
}

/// A file of the page, packed for those who can unpack it.
fn sent(file: crate::page::File, headers: &HeaderMap) -> Response {
    let takes =
        headers.get(ACCEPT_ENCODING).and_then(|takes| takes.to_str().ok()).unwrap_or_default();
    let packs = takes.split(',').any(|one| one.trim().split(';').next() == Some("gzip"));
    let mut response = Response::new(Body::from(if packs { file.packed } else { file.bytes }));
    let own = response.headers_mut();
    own.insert(CONTENT_TYPE, HeaderValue::from_static(file.kind));
    own.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if packs {
        own.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

pub(crate) async fn style() -> Response {
    let style = include_str!("plain.css");
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], style).into_response()
}

/// Whether somebody looks who reads pages, and not a program.
pub(crate) fn is_for_people(path: &str, headers: &HeaderMap) -> bool {
    let wanted = headers.get(ACCEPT).and_then(|kinds| kinds.to_str().ok()).unwrap_or_default();
    wanted.contains("text/html") && !path.starts_with("/api/")
}

/// There is nothing at this address: a browser is told so by the page, which shows the way back.
pub(crate) async fn nowhere(uri: Uri, headers: HeaderMap) -> Response {
    match crate::page::file("index.html") {
        Some(file) if is_for_people(uri.path(), &headers) => {
            (StatusCode::NOT_FOUND, sent(file, &headers)).into_response()
        }
        _ => Problem::not_found("there is nothing at this address").into_response(),
    }
}

/// The description of the API, as people read it.
pub(crate) fn description(document: &Value) -> String {
    let mut body = String::new();
    let _ = writeln!(body, "<p>{}</p>", worded(&document["info"]["description"]));
    let operations = operations(document);
    for tag in TAGS {
        let _ = writeln!(body, "<h2>{tag}</h2>");
        for (path, method, operation) in &operations {
            if operation["tags"][0] == tag {
                describe(&mut body, path, method, operation);
            }
        }
    }
    let _ = writeln!(body, "<h2>shapes</h2>");
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        let name = escaped(name);
        // Whoever follows a link to what is within finds it opened.
        let _ = writeln!(
            body,
            "<details><summary><code>{name}</code></summary><div id=\"{name}\">{}</div></details>",
            shape(schema)
        );
    }
    page("What can be asked for", &body).0
}

fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            all.push((path.as_str(), method.as_str(), operation));
        }
    }
    all
}

fn describe(body: &mut String, path: &str, method: &str, operation: &Value) {
    let _ = writeln!(
        body,
        "<details><summary><b class=\"{method}\">{}</b> <code>{}</code> {}</summary>",
        method.to_uppercase(),
        escaped(path),
        worded(&operation["summary"])
    );
    let more = worded(&operation["description"]);
    if !more.is_empty() {
        let _ = writeln!(body, "<p>{more}</p>");
    }
    let parameters: Vec<&Value> =
        operation["parameters"].as_array().into_iter().flatten().collect();
    if !parameters.is_empty() {
        let _ = writeln!(body, "<table>");
        for one in parameters {
            let needed = if one["required"] == true { ", needed" } else { "" };
            let _ = writeln!(
                body,
                "<tr><td><code>{}</code><td>{}{needed}<td>{}<td>{}",
                worded(&one["name"]),
                worded(&one["in"]),
                kind_of(&one["schema"]),
                worded(&one["description"])
            );
        }
        let _ = writeln!(body, "</table>");
    }
    if let Some(shape) = shape_of(&operation["requestBody"]["content"]) {
        let _ = writeln!(body, "<p>takes {shape}</p>");
    }
    let _ = writeln!(body, "<table>");
    for (status, answer) in operation["responses"].as_object().into_iter().flatten() {
        let shape = shape_of(&answer["content"]).unwrap_or_default();
        let _ = writeln!(
            body,
            "<tr><td>{}<td>{}<td>{shape}",
            escaped(status),
            worded(&answer["description"])
        );
    }
    let _ = writeln!(body, "</table></details>");
}

/// A link to a shape, or the type of what is sent.
fn shape_of(content: &Value) -> Option<String> {
    let (kind, content) = content.as_object()?.iter().next()?;
    Some(match content["schema"]["$ref"].as_str() {
        Some(_) => kind_of(&content["schema"]),
        None => format!("<code>{}</code>", escaped(kind)),
    })
}

/// What can be in a shape, field by field.
fn shape(schema: &Value) -> String {
    let mut body = String::new();
    if schema["description"].is_string() {
        let _ = writeln!(body, "<p>{}</p>", worded(&schema["description"]));
    }
    // One of these, or all of these.
    let keys = ["oneOf", "anyOf", "allOf"];
    for part in keys.iter().flat_map(|key| schema[*key].as_array().into_iter().flatten()) {
        let _ = match part["$ref"].is_string() {
            true => writeln!(body, "<p>all of {}</p>", kind_of(part)),
            false => writeln!(body, "{}", shape(part)),
        };
    }
    let fields: Vec<(&String, &Value)> =
        schema["properties"].as_object().into_iter().flatten().collect();
    if !fields.is_empty() {
        let _ = writeln!(body, "<table>");
        let required = schema["required"].as_array();
        for (name, field) in fields {
            let needed = required.is_some_and(|all| all.iter().any(|one| one == name));
            let _ = writeln!(
                body,
                "<tr><td><code>{}</code>{}<td>{}<td>{}",
                escaped(name),
                if needed { "" } else { " (optional)" },
                kind_of(field),
                worded(&field["description"])
            );
        }
        let _ = writeln!(body, "</table>");
    }
    if !schema["enum"].is_null() || !schema["const"].is_null() {
        let _ = writeln!(body, "<p>{}</p>", kind_of(schema));
    }
    body
}

/// Which values there can be, in a few words.
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
            format!("object, by name: {}", kind_of(&schema["additionalProperties"]))
        }
        other => escaped(other),
    };
    let mut text = kinds.into_iter().map(kind).collect::<Vec<_>>().join(" or ");
    for (key, word) in [("minimum", "from"), ("maximum", "up to"), ("default", "unless said:")] {
        if !schema[key].is_null() {
            let _ = write!(text, ", {word} {}", escaped(&schema[key].to_string()));
        }
    }
    if text.is_empty() { "anything".to_owned() } else { text }
}
