//! What is read in a request; what cannot be read is a problem in our own words.

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

/// A part of the address.
#[derive(Debug)]
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Problem> {
        let read = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        read.map(|axum::extract::Path(read)| Path(read)).map_err(|error: PathRejection| {
            // A name that cannot be read is the name of nothing.
            Problem::not_found(error.body_text())
        })
    }
}

/// What stands behind the question mark.
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

/// How long it may take until all of a request is there.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The bytes that were sent.
#[derive(Debug)]
pub(crate) struct Raw(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Raw, Problem> {
        let length = header(&request, CONTENT_LENGTH);
        let read = tokio::time::timeout(PATIENCE, Bytes::from_request(request, state)).await;
        let late =
            |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "the rest of the request never came");
        read.map_err(late)?.map(Raw).map_err(|error| {
            let too_large = error.status() == StatusCode::PAYLOAD_TOO_LARGE;
            let detail = match length.filter(|_| too_large) {
                Some(length) => format!("{length} bytes are more than this server takes at once"),
                None => error.body_text(),
            };
            Problem::new(error.status(), detail)
        })
    }
}

/// What was sent, with the fingerprint of every byte of it.
#[derive(Debug)]
pub(crate) struct Sent<T> {
    pub(crate) body: T,
    pub(crate) fingerprint: Fingerprint,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Sent<T>, Problem> {
        let path = request.uri().path().to_owned();
        let kind = header(&request, CONTENT_TYPE);
        let Raw(bytes) = Raw::from_request(request, state).await?;
        let fingerprint = Fingerprint::of(format!("{path}\n{}", Fingerprint::of(&bytes)));
        // What needs nothing said can be asked for without a word.
        let bytes = if bytes.is_empty() { Bytes::from_static(b"{}") } else { check(kind, bytes)? };
        if bytes.trim_ascii_start().first().is_some_and(|first| *first == b'[') {
            return Err(Problem::unusable("what was sent is a list, and no object"));
        }
        Ok(Sent { body: read(&bytes)?, fingerprint })
    }
}

/// What JSON says; what is wrong with it is said with its place.
fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let hint = "/api/openapi.json says what can be sent";
    let Json(json) = serde_json::from_slice(bytes).map_err(|error| {
        let status = match error.classify() {
            Category::Data => StatusCode::UNPROCESSABLE_ENTITY,
            Category::Syntax | Category::Eof | Category::Io => StatusCode::BAD_REQUEST,
        };
        Problem::new(status, error.to_string()).hint(hint)
    })?;
    serde_path_to_error::deserialize(json)
        .map_err(|error| Problem::unusable(placed(&error)).hint(hint))
}

/// What is wrong, and where, if that is known.
fn placed(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let (path, what) = (error.path().to_string(), error.inner());
    match path.as_str() {
        "" | "." | "?" => what.to_string(),
        path => format!("`{path}`: {what}"),
    }
}

/// Reads the fields of an object.
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

/// Only what says that it is JSON: a form on a page of somebody else cannot say so.
fn check(kind: Option<String>, bytes: Bytes) -> Result<Bytes, Problem> {
    let kind = kind.unwrap_or_default().to_ascii_lowercase();
    match kind.split(';').next().unwrap_or_default().trim() {
        "application/json" => Ok(bytes),
        _ => {
            let detail = "what was sent does not say that it is JSON";
            let problem = Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail);
            Err(problem.hint("send `Content-Type: application/json`"))
        }
    }
}

/// Reads an object that is written as one: a list of its values, in order, would be taken for it otherwise.
pub(crate) fn object<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    fields(serde_json::Map::deserialize(from)?)
}

/// Reads a list of such objects.
pub(crate) fn objects<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let all: Vec<serde_json::Map<String, Value>> = Vec::deserialize(from)?;
    all.into_iter().map(fields).collect()
}
