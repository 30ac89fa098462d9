//! Extractors of the path, the query and the body of a request. Their errors are problem details (RFC 9457).

use std::time::Duration;

use assize_types::Fingerprint;
use axum::body::Bytes;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::error::Category;

use crate::json::Json;
use crate::problem::Problem;

/// Path parameters of a request.
#[derive(Debug)]
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Problem> {
        let read = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        read.map(|axum::extract::Path(read)| Path(read)).map_err(|error: PathRejection| {
            // A path parameter that cannot be decoded cannot be the name of an existing resource.
            Problem::not_found(error.body_text())
        })
    }
}

/// Query parameters of a request.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Query<T>, Problem> {
        let read = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        read.map(|axum::extract::Query(read)| Query(read)).map_err(|error: QueryRejection| {
            Problem::new(StatusCode::BAD_REQUEST, error.body_text())
        })
    }
}

/// Maximum time that a client may take to send a request body.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Request body as bytes.
#[derive(Debug)]
pub(crate) struct RawBody(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for RawBody {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<RawBody, Problem> {
        let length = header(&request, CONTENT_LENGTH);
        let read = tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, state)).await;
        let timed_out = |_| {
            Problem::new(StatusCode::REQUEST_TIMEOUT, "timed out while reading the request body")
        };
        read.map_err(timed_out)?.map(RawBody).map_err(|error| {
            let too_large = error.status() == StatusCode::PAYLOAD_TOO_LARGE;
            let detail = match length.filter(|_| too_large) {
                Some(length) => format!(
                    "the request body is too large: {length} bytes exceed this server's limit"
                ),
                None => error.body_text(),
            };
            Problem::new(error.status(), detail)
        })
    }
}

/// Request body parsed from JSON, with the fingerprint of the request: a hash of its path and body.
#[derive(Debug)]
pub(crate) struct JsonBody<T> {
    pub(crate) body: T,
    pub(crate) fingerprint: Fingerprint,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<JsonBody<T>, Problem> {
        let path = request.uri().path().to_owned();
        let kind = header(&request, CONTENT_TYPE);
        let RawBody(bytes) = RawBody::from_request(request, state).await?;
        let fingerprint = Fingerprint::of(format!("{path}\n{}", Fingerprint::of(&bytes)));
        // An empty body is treated as a JSON object without fields.
        let bytes = if bytes.is_empty() { Bytes::from_static(b"{}") } else { check(kind, bytes)? };
        if bytes.trim_ascii_start().first().is_some_and(|first| *first == b'[') {
            return Err(Problem::unprocessable(
                "the request body must be a JSON object, not a list",
            ));
        }
        Ok(JsonBody { body: read(&bytes)?, fingerprint })
    }
}

/// Parses a request body from JSON. Error messages contain the path of the invalid value.
fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let hint = "the schema of the request is in /api/openapi.json";
    let Json(json) = serde_json::from_slice(bytes).map_err(|error| {
        let status = match error.classify() {
            Category::Data => StatusCode::UNPROCESSABLE_ENTITY,
            Category::Syntax | Category::Eof | Category::Io => StatusCode::BAD_REQUEST,
        };
        Problem::new(status, error.to_string()).hint(hint)
    })?;
    serde_path_to_error::deserialize(json)
        .map_err(|error| Problem::unprocessable(placed(&error)).hint(hint))
}

/// Formats a deserialization error with the path of the invalid value, if the path is known.
fn placed(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let (path, what) = (error.path().to_string(), error.inner());
    match path.as_str() {
        "" | "." | "?" => what.to_string(),
        path => format!("`{path}`: {what}"),
    }
}

/// Deserializes a value from the fields of a JSON object. Error messages contain the path of the invalid value.
pub(crate) fn fields<T, E>(fields: serde_json::Map<String, Value>) -> Result<T, E>
where
    T: DeserializeOwned,
    E: serde::de::Error,
{
    serde_path_to_error::deserialize(Value::Object(fields))
        .map_err(|error| E::custom(placed(&error)))
}

fn header(request: &Request, name: HeaderName) -> Option<String> {
    request.headers().get(name)?.to_str().ok().map(str::to_owned)
}

/// Checks that the content type is `application/json`. A form on another site cannot send this content type.
fn check(kind: Option<String>, bytes: Bytes) -> Result<Bytes, Problem> {
    let kind = kind.unwrap_or_default().to_ascii_lowercase();
    match kind.split(';').next().unwrap_or_default().trim() {
        "application/json" => Ok(bytes),
        _ => {
            let detail = "the content type of the request is not `application/json`";
            let problem = Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail);
            Err(problem.hint("send `Content-Type: application/json`"))
        }
    }
}

/// Deserializes a struct from a JSON object. A derived deserializer would also accept a list with the values of the
/// fields in order, which this function rejects.
pub(crate) fn object<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    fields(serde_json::Map::deserialize(from)?)
}

/// Deserializes a list of structs, each from a JSON object as in [`object`].
pub(crate) fn objects<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let all: Vec<serde_json::Map<String, Value>> = Vec::deserialize(from)?;
    all.into_iter().map(fields).collect()
}
