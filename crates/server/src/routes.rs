//! Every route there is, and what all of them have in common.

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures_util::FutureExt;
use serde_json::{Value, json};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::{again, drafts, files, machine, runs, sandboxes, start};
use crate::problem::Problem;
use crate::{App, auth, events, headers, mcp, metrics, pages};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Assize",
        description = "Puts what models propose on trial, in a sandbox. Programs send the token of `assize serve` as a \
                       bearer token with every request; what goes wrong is answered by problem details (RFC 9457).",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    components(schemas(Problem))
)]
struct Base;

fn described() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Base::openapi())
        .routes(routes!(machine::health))
        .routes(routes!(machine::ready))
        .routes(routes!(metrics::metrics))
        .routes(routes!(runs::list, start::start))
        .routes(routes!(start::estimate))
        .routes(routes!(runs::show, runs::remove))
        .routes(routes!(runs::cancel))
        .routes(routes!(again::resume))
        .routes(routes!(again::fork))
        .routes(routes!(runs::export))
        .routes(routes!(runs::transcripts))
        .routes(routes!(runs::scores))
        .routes(routes!(files::documents))
        .routes(routes!(files::document))
        .routes(routes!(files::artifacts))
        .routes(routes!(files::artifact))
        .routes(routes!(events::of_run))
        .routes(routes!(events::of_runs))
        .routes(routes!(machine::sessions))
        .routes(routes!(machine::session_file))
        .routes(routes!(machine::remove_session))
        .routes(routes!(machine::personas))
        .routes(routes!(drafts::workspaces))
        .routes(routes!(drafts::switch))
        .routes(routes!(drafts::open_drafts))
        .routes(routes!(drafts::draft))
        .routes(routes!(drafts::submissions))
        .routes(routes!(drafts::submission))
        .routes(routes!(drafts::accept))
        .routes(routes!(drafts::reject))
        .routes(routes!(drafts::undo))
        .routes(routes!(drafts::audit))
        .routes(routes!(drafts::verify))
        .routes(routes!(drafts::events))
        .routes(routes!(drafts::clean))
        .routes(routes!(sandboxes::run_once))
        .routes(routes!(sandboxes::list, sandboxes::create))
        .routes(routes!(sandboxes::show, sandboxes::remove))
        .routes(routes!(sandboxes::run))
        .routes(routes!(sandboxes::folder))
        .routes(routes!(sandboxes::read, sandboxes::write))
        .routes(routes!(machine::examine))
        .routes(routes!(machine::version))
        .routes(routes!(machine::about))
        .routes(routes!(machine::cluster))
        .routes(routes!(machine::attacks))
        .routes(routes!(machine::link))
        .routes(routes!(machine::token))
}

/// The OpenAPI document.
pub fn document() -> Value {
    let (_, document) = described().split_for_parts();
    let mut document = json!(document);
    // What may go over several folders is one name there.
    if let Some(paths) = document["paths"].as_object_mut() {
        *paths = std::mem::take(paths)
            .into_iter()
            .map(|(path, methods)| (path.replace("{*", "{"), methods))
            .collect();
    }
    let problem = json!({
        "description": "It was not done, and why",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    });
    let mut operations: Vec<&mut Value> = Vec::new();
    for methods in
        document["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut())
    {
        operations.extend(methods.as_object_mut().into_iter().flat_map(|all| all.values_mut()));
    }
    // Any of them can go wrong, in the same way.
    for operation in operations {
        operation["responses"]["default"] = problem.clone();
        if let Some(body) = operation.pointer_mut("/requestBody/content/application~1json/schema") {
            or_nothing(body);
        }
        if let Some(file) = operation.pointer_mut("/responses/200/content/*~1*") {
            // Whatever it is.
            file["schema"] = json!({});
        }
    }
    describe_starts(&mut document["components"]["schemas"]);
    unsigned(&mut document);
    document["components"]["securitySchemes"] =
        json!({"token": {"type": "http", "scheme": "bearer"}});
    document["security"] = json!([{"token": []}]);
    document
}

/// What need not be sent is left out altogether, and never null.
fn or_nothing(schema: &mut Value) {
    let choices = schema["oneOf"].as_array().cloned().unwrap_or_default();
    let mut others = choices.into_iter().filter(|choice| choice["type"] != "null");
    if let (Some(only), None) = (others.next(), others.next()) {
        *schema = only;
    }
}

/// Our whole numbers have no sign, and so one bit more than the format says that they would have.
fn unsigned(part: &mut Value) {
    match part {
        Value::Object(fields) => {
            if fields.get("format").is_some_and(|format| format == "int64" || format == "int32") {
                fields.remove("format");
            }
            fields.values_mut().for_each(unsigned);
        }
        Value::Array(parts) => parts.iter_mut().for_each(unsigned),
        _ => {}
    }
}

/// A trial that is to begin says its kind among its other fields, and has no others: which cannot be said by putting
/// one description on top of another.
fn describe_starts(schemas: &mut Value) {
    let known = schemas.clone();
    for branch in schemas["Start"]["oneOf"].as_array_mut().into_iter().flatten() {
        let parts = branch["allOf"].as_array().cloned().unwrap_or_default();
        let named = parts.iter().find_map(|part| part["$ref"].as_str()?.rsplit('/').next());
        let kind = parts.iter().find(|part| !part["properties"]["kind"].is_null());
        let (Some(named), Some(kind)) = (named, kind) else { continue };
        let mut whole = known[named].clone();
        whole["properties"]["kind"] = kind["properties"]["kind"].clone();
        if let Some(required) = whole["required"].as_array_mut() {
            required.push(json!("kind"));
        }
        whole["description"] = branch["description"].clone();
        *branch = whole;
    }
}

pub(crate) fn router(app: &App) -> Router {
    let (router, _) = described().split_for_parts();
    let whole = Arc::new(document());
    let page = pages::description(&whole);
    router
        .merge(mcp::routes(app))
        .route("/", get(pages::index))
        .route("/runs/{*place}", get(pages::index))
        .route("/drafts", get(pages::index))
        .route("/drafts/{*place}", get(pages::index))
        .route("/system", get(pages::index))
        .route("/icon.svg", get(pages::asset))
        .route("/assets/{*name}", get(pages::asset))
        .route("/assets/plain.css", get(pages::style))
        .route("/enter", get(machine::enter))
        .route("/api/openapi.json", get(move || async move { Json(&*whole).into_response() }))
        .route("/api/docs", get(move || async move { Html(page.clone()) }))
        .fallback(pages::nowhere)
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this address knows other methods")
        })
        .layer(DefaultBodyLimit::max(app.longest_request))
        .layer(from_fn(tell))
        .layer(from_fn_with_state(app.clone(), auth::check))
        .layer(from_fn_with_state(app.clone(), headers::add))
        .with_state(app.clone())
}

/// Writes down what was asked for: never what stands behind the question mark, which may let somebody in.
async fn tell(request: axum::extract::Request, next: axum::middleware::Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let begun = std::time::Instant::now();
    // A fault of ours costs the one request.
    let answered = std::panic::AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let response = answered.unwrap_or_else(|_| {
        let detail = "a fault in assize; its log says more";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail).into_response()
    });
    let (status, millis) = (response.status().as_u16(), begun.elapsed().as_secs_f64() * 1e3);
    tracing::info!(%method, path, status, millis, "request");
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_document_says_one_thing_of_each_route() {
        let document = document();
        let mut ids = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                assert!(ids.insert(id.to_owned()), "{id} is there twice");
                assert!(operation["summary"].is_string(), "{method} {path}");
                let tag = operation["tags"][0].as_str().unwrap();
                assert!(pages::TAGS.contains(&tag), "{tag} is shown nowhere");
                assert!(operation["responses"]["default"].is_object(), "{method} {path}");
            }
        }
        let kinds = document["components"]["schemas"]["Start"]["oneOf"].as_array().unwrap();
        assert_eq!(kinds.len(), 5);
        assert!(
            kinds.iter().all(|kind| kind["additionalProperties"] == false
                && !kind["properties"]["kind"].is_null())
        );
    }
}
