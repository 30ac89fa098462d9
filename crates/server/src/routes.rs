//! Router of the server: all routes, and the middleware that they share.

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures_util::FutureExt;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::{drafts, files, machine, resume_fork, runs, sandboxes, start, tokens};
use crate::problem::Problem;
use crate::{App, auth, document, events, headers, mcp, metrics, pages};

#[derive(OpenApi)]
#[openapi(
    version = "3.2.0",
    info(
        title = "Assize",
        description = "API of the assize server. Models propose programs and file changes; assize tests these \
                       proposals in a sandbox before they are applied. Clients send the token of `assize serve` as a \
                       bearer token with every request. Errors are problem details (RFC 9457).",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    components(schemas(Problem))
)]
struct Base;

/// Returns the routes that the OpenAPI document describes.
pub(crate) fn described() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Base::openapi())
        .routes(routes!(machine::health))
        .routes(routes!(machine::ready))
        .routes(routes!(metrics::metrics))
        .routes(routes!(runs::list, start::start))
        .routes(routes!(start::estimate))
        .routes(routes!(runs::show, runs::remove))
        .routes(routes!(runs::cancel))
        .routes(routes!(resume_fork::resume))
        .routes(routes!(resume_fork::fork))
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
        .routes(routes!(tokens::list, tokens::create))
        .routes(routes!(tokens::revoke))
}

pub(crate) fn router(app: &App) -> Router {
    let (router, _) = described().split_for_parts();
    let whole = Arc::new(document::document(&app.services.settings));
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
        .route("/enter", get(machine::sign_in))
        .route("/api/openapi.json", get(move || async move { Json(&*whole).into_response() }))
        .route("/api/docs", get(move || async move { Html(page.clone()) }))
        .fallback(pages::unknown_path)
        .method_not_allowed_fallback(async || {
            let detail = "this path does not support the HTTP method of the request";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
        })
        .layer(DefaultBodyLimit::max(app.max_request_size))
        .layer(from_fn(log_request))
        .layer(from_fn_with_state(app.clone(), auth::check))
        .layer(from_fn_with_state(app.clone(), headers::add))
        .with_state(app.clone())
}

/// Middleware that logs each request. The log contains no query strings, because they may contain a sign-in ticket.
async fn log_request(request: axum::extract::Request, next: axum::middleware::Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let begun = std::time::Instant::now();
    // If a handler panics, only this request fails.
    let answered = std::panic::AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let response = answered.unwrap_or_else(|_| {
        let detail = "internal error in assize: see the server's log";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, detail).into_response()
    });
    let (status, millis) = (response.status().as_u16(), begun.elapsed().as_secs_f64() * 1e3);
    tracing::info!(%method, path, status, millis, "request handled");
    response
}
