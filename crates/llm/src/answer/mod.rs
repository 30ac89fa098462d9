//! Typed answers: parses a model's answer in up to six steps and reports which step succeeded.
//!
//! 1. the provider enforced the schema → [`Provenance::Native`];
//! 2. the text is JSON that matches the schema → [`Provenance::Parsed`];
//! 3. the text matches the schema after repairs (code fences, commas, quotes…) → [`Provenance::Repaired`];
//! 4. the model receives the error message, and its second answer matches → [`Provenance::Reasked`];
//! 5. a function of the caller finds the value in the text → [`Provenance::Extracted`];
//! 6. the caller's default value is used → [`Provenance::Defaulted`], which output must flag.
//!
//! Steps 5 and 6 exist only if the caller supplies the function or the default value. Without them, an answer that
//! cannot be parsed is an error: no value is ever invented.

mod conform;
mod lenient;
mod read;

use assize_types::{Failure, FailureKind, text::head};
use std::fmt;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use read::{AnswerParseError, AnswerReader};

use crate::error::ModelError;
use crate::model::{CallOptions, Model};
use crate::prompt::TranscriptTurn;
use crate::request::{ModelRequest, Schema};
use crate::response::{ModelResponse, StopReason};

/// A schema, and the reader that parses answers to requests with this schema. The reader is reused, because creating a
/// reader is expensive.
#[derive(Debug)]
pub struct TypedSchema {
    pub schema: Schema,
    /// Reader for answers to this schema; `None` if the schema is invalid.
    pub reader: Option<AnswerReader>,
}

impl TypedSchema {
    pub fn of<T: JsonSchema>() -> TypedSchema {
        let schema = Schema::of::<T>();
        let reader = AnswerReader::new(&schema);
        TypedSchema { schema, reader }
    }
}

/// A typed answer and how it was obtained.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TypedAnswer<T> {
    pub value: T,
    pub provenance: Provenance,
    /// All responses of the model, in order: one, or two if a second request was needed.
    #[serde(skip)]
    pub responses: Vec<ModelResponse>,
}

/// How a typed answer was obtained: the parsing step that succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    Native,
    Parsed,
    Repaired(Vec<Fix>),
    /// The first answer could not be parsed. The second answer matches the schema after these repairs.
    Reasked(Vec<Fix>),
    /// A function of the caller found the value in an answer that does not match the schema.
    Extracted,
    /// No answer could be parsed. The value is the caller's default, not the model's answer.
    Defaulted,
}

impl Provenance {
    /// Whether output must flag the value, because the model did not return it in the requested format.
    pub fn is_doubtful(&self) -> bool {
        matches!(self, Provenance::Extracted | Provenance::Defaulted)
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |fixes: &[Fix]| fixes.iter().map(Fix::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Provenance::Native => f.write_str("native schema"),
            Provenance::Parsed => f.write_str("parsed"),
            Provenance::Repaired(fixes) => write!(f, "repaired ({})", list(fixes)),
            Provenance::Reasked(fixes) if fixes.is_empty() => {
                f.write_str("parsed from the second answer")
            }
            Provenance::Reasked(fixes) => {
                write!(f, "parsed from the second answer, repaired ({})", list(fixes))
            }
            Provenance::Extracted => {
                f.write_str("NOT in the requested format; values extracted by pattern")
            }
            Provenance::Defaulted => f.write_str("DEFAULT VALUE, not from the model"),
        }
    }
}

/// A repair that was needed to parse a model's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fix {
    CodeFence,
    SurroundingText,
    Thinking,
    InvisibleCharacters,
    Comments,
    TrailingComma,
    Quotes,
    UnquotedKey,
    Literal,
    NumberFormat,
    RawControlCharacters,
    BadEscape,
    RepeatedKey,
    Retyped,
    KeySpelling,
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fix::CodeFence => "code fence",
            Fix::SurroundingText => "text around the JSON",
            Fix::Thinking => "reasoning before the JSON",
            Fix::InvisibleCharacters => "invisible characters",
            Fix::Comments => "comments",
            Fix::TrailingComma => "trailing comma",
            Fix::Quotes => "wrong quotes",
            Fix::UnquotedKey => "unquoted key",
            Fix::Literal => "non-JSON literal",
            Fix::NumberFormat => "non-JSON number format",
            Fix::RawControlCharacters => "unescaped control characters",
            Fix::BadEscape => "invalid escape sequence",
            Fix::RepeatedKey => "repeated key",
            Fix::Retyped => "value converted to another type",
            Fix::KeySpelling => "misspelled key",
        })
    }
}

/// Function, supplied by the caller, that searches the text of an answer for the value. The function is used if no
/// answer matches the schema.
pub type Extract<'a, T> = &'a (dyn Fn(&str) -> Option<T> + Send + Sync);

/// A request for a typed answer, with the optional extraction function and default value of the caller.
pub struct JsonRequest<'a, T> {
    request: ModelRequest,
    reader: Option<&'a AnswerReader>,
    extract: Option<Extract<'a, T>>,
    default: Option<T>,
}

impl<'a, T: JsonSchema> JsonRequest<'a, T> {
    /// Creates a request for a value of type `T`. If `request` has no schema, the schema of `T` is added to it.
    pub fn new(mut request: ModelRequest) -> JsonRequest<'a, T> {
        request.schema.get_or_insert_with(Schema::of::<T>);
        JsonRequest { request, reader: None, extract: None, default: None }
    }

    /// Uses an existing reader for the request's schema, because creating a reader is expensive.
    pub fn with_reader(mut self, reader: &'a AnswerReader) -> Self {
        self.reader = Some(reader);
        self
    }

    /// Sets a function that searches the text of the model's answers for the value if no answer can be parsed.
    pub fn extract(mut self, extract: Extract<'a, T>) -> Self {
        self.extract = Some(extract);
        self
    }

    /// Sets the value that is returned, flagged as [`Provenance::Defaulted`], if all other steps fail.
    pub fn or_default(mut self, default: T) -> Self {
        self.default = Some(default);
        self
    }
}

impl<T> fmt::Debug for JsonRequest<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonAsk")
            .field("request", &self.request)
            .field("extract", &self.extract.is_some())
            .field("default", &self.default.is_some())
            .finish()
    }
}

/// Error of a request for a typed answer.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The first answer could not be parsed, and the second call failed.
    #[error(
        "the model's answer could not be parsed ({reason}), and the second request failed: {error}"
    )]
    SecondCall { reason: AnswerParseError, error: ModelError, responses: Vec<ModelResponse> },
    #[error("the model declined to answer")]
    Refused { responses: Vec<ModelResponse> },
    #[error(
        "neither of the model's two answers could be parsed; error in the second answer: {reason}"
    )]
    Unreadable { reason: AnswerParseError, responses: Vec<ModelResponse> },
    #[error("both answers of the model were cut off at {limit} output tokens")]
    CutOff { limit: u32, responses: Vec<ModelResponse> },
    #[error("the schema is not a valid JSON schema")]
    Schema,
}

impl AnswerError {
    /// The error of the failed model call, or `None` if no call failed.
    pub fn model_error(&self) -> Option<&ModelError> {
        match self {
            AnswerError::Model(error) | AnswerError::SecondCall { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Responses that were received before the error occurred. The provider may have charged for these responses.
    pub fn responses(&self) -> &[ModelResponse] {
        match self {
            AnswerError::Refused { responses }
            | AnswerError::SecondCall { responses, .. }
            | AnswerError::Unreadable { responses, .. }
            | AnswerError::CutOff { responses, .. } => responses,
            AnswerError::Model(_) | AnswerError::Schema => &[],
        }
    }
}

/// Requests for typed answers, as an extension of every [`Model`].
#[async_trait]
pub trait ModelExt: Model {
    /// Requests a value of type `T` and parses the answer by the steps in the module's documentation.
    async fn generate_json<T>(
        &self,
        ask: JsonRequest<'_, T>,
        call: CallOptions<'_>,
    ) -> Result<TypedAnswer<T>, AnswerError>
    where
        T: DeserializeOwned + JsonSchema + Send + Sync,
    {
        let JsonRequest { request, reader, extract, default } = ask;
        let schema = request.schema.as_ref().ok_or(AnswerError::Schema)?;
        let new_reader = match reader {
            Some(_) => None,
            None => Some(AnswerReader::new(schema).ok_or(AnswerError::Schema)?),
        };
        let reader = reader.or(new_reader.as_ref()).ok_or(AnswerError::Schema)?;
        let read = |response: &ModelResponse| {
            let (value, fixes) = read_response(reader, response)?;
            let typed = serde_json::from_value(value)
                .map_err(|error| AnswerParseError::SchemaMismatch(error.to_string()))?;
            Ok((typed, fixes))
        };
        let error = match generate_up_to_twice(self, &request, call, &read).await {
            Ok(answer) => return Ok(answer),
            Err(AnswerError::Model(error)) => return Err(error.into()),
            Err(error) if error.model_error().is_some_and(|error| error.kind().is_final()) => {
                return Err(error);
            }
            Err(error) => error,
        };
        let responses = error.responses().to_vec();
        // The second answer is searched first, because the model wrote it after receiving the error of its first
        // answer.
        if let Some(value) = extract
            .and_then(|find| responses.iter().rev().find_map(|response| find(&response.text)))
        {
            return Ok(TypedAnswer { value, provenance: Provenance::Extracted, responses });
        }
        match default {
            Some(value) => Ok(TypedAnswer { value, provenance: Provenance::Defaulted, responses }),
            None => Err(error),
        }
    }
}

impl<M: Model + ?Sized> ModelExt for M {}

/// Requests a JSON value that matches the request's schema, by steps 1 to 4 of the module's documentation.
pub async fn generate_value<M: Model + ?Sized>(
    model: &M,
    request: &ModelRequest,
    call: CallOptions<'_>,
) -> Result<TypedAnswer<Value>, AnswerError> {
    let schema = request.schema.as_ref().ok_or(AnswerError::Schema)?;
    let reader = AnswerReader::new(schema).ok_or(AnswerError::Schema)?;
    generate_up_to_twice(model, request, call, &|response| read_response(&reader, response)).await
}

type ReadFn<'r, T> =
    &'r (dyn Fn(&ModelResponse) -> Result<(T, Vec<Fix>), AnswerParseError> + Send + Sync);

fn read_response(
    reader: &AnswerReader,
    response: &ModelResponse,
) -> Result<(Value, Vec<Fix>), AnswerParseError> {
    match response.stop {
        StopReason::MaxTokens => reader.read_truncated(&response.text),
        _ => reader.read(&response.text),
    }
}

async fn generate_up_to_twice<M: Model + ?Sized, T>(
    model: &M,
    request: &ModelRequest,
    call: CallOptions<'_>,
    read: ReadFn<'_, T>,
) -> Result<TypedAnswer<T>, AnswerError> {
    let first = model.generate(request, call.clone()).await?;
    if first.stop == StopReason::Refused {
        return Err(AnswerError::Refused { responses: vec![first] });
    }
    let reason = match read(&first) {
        Ok((value, fixes)) => {
            let provenance = match (first.schema_enforced, fixes.is_empty()) {
                (true, true) => Provenance::Native,
                (false, true) => Provenance::Parsed,
                (_, false) => Provenance::Repaired(fixes),
            };
            return Ok(TypedAnswer { value, provenance, responses: vec![first] });
        }
        Err(reason) => reason,
    };
    let again = second_request(request, &first, &reason);
    let second = match model.generate(&again, call).await {
        Ok(second) => second,
        Err(error) => {
            return Err(AnswerError::SecondCall { reason, error, responses: vec![first] });
        }
    };
    let cut = first.stop == StopReason::MaxTokens && second.stop == StopReason::MaxTokens;
    match read(&second) {
        _ if second.stop == StopReason::Refused => {
            Err(AnswerError::Refused { responses: vec![first, second] })
        }
        Ok((value, fixes)) => Ok(TypedAnswer {
            value,
            provenance: Provenance::Reasked(fixes),
            responses: vec![first, second],
        }),
        Err(_) if cut => {
            Err(AnswerError::CutOff { limit: request.max_tokens, responses: vec![first, second] })
        }
        Err(reason) => Err(AnswerError::Unreadable { reason, responses: vec![first, second] }),
    }
}

/// Returns the second request: the first request, followed by the model's first answer and the error in that answer.
fn second_request(
    request: &ModelRequest,
    first: &ModelResponse,
    reason: &AnswerParseError,
) -> ModelRequest {
    /// Maximum number of characters of the first answer that the second request quotes.
    const MAX_QUOTED: usize = 4000;
    let mut again = request.clone();
    again
        .prompt
        .transcript
        .push(TranscriptTurn::User { text: std::mem::take(&mut again.prompt.tail).into() });
    let quoted = head(&first.text, MAX_QUOTED);
    if !quoted.trim().is_empty() {
        again
            .prompt
            .transcript
            .push(TranscriptTurn::Assistant { text: quoted.to_owned(), calls: vec![] });
    }
    let shorter = if first.stop == StopReason::MaxTokens {
        " It was cut off because it was too long: keep every text in it short."
    } else {
        ""
    };
    again.prompt.tail = format!(
        "That answer cannot be used: {reason}.{shorter} Give the whole answer again, as one JSON \
         object of the shape asked for, with nothing before or after it."
    );
    again
}

impl From<AnswerError> for Failure {
    fn from(error: AnswerError) -> Failure {
        match error {
            AnswerError::Model(error) => error.into(),
            AnswerError::SecondCall { reason, error, .. } => Failure::from(error.context(
                &format!(
                    "the model's answer could not be parsed ({reason}), and the second request failed"
                ),
            )),
            AnswerError::Schema => Failure::new(FailureKind::Usage, error.to_string()),
            AnswerError::CutOff { .. } => Failure::new(FailureKind::Verdict, error.to_string())
                .hint("allow longer answers with `--max-output-tokens`"),
            AnswerError::Refused { .. } | AnswerError::Unreadable { .. } => {
                Failure::new(FailureKind::Verdict, error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;
