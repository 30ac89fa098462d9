//! Typed answers: parses a model's answer in up to six steps and reports which step succeeded.
//!
//! 1. the provider enforced the schema → [`Provenance::Native`];
//! 2. the text is JSON that matches the schema → [`Provenance::Parsed`];
//! 3. it matches after repairs (fences, commas, quotes…) → [`Provenance::Repaired`];
//! 4. the model gets the error message, and its second answer matches → [`Provenance::Reasked`];
//! 5. the caller's own pattern finds the value in the text → [`Provenance::Extracted`];
//! 6. the caller's own default → [`Provenance::Defaulted`], which output must flag.
//!
//! The last two steps exist only if the caller supplies them. Without them, an answer that cannot be parsed is an
//! error: no value is ever invented.

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

/// A schema with its reader, which is more expensive to create than to use.
#[derive(Debug)]
pub struct TypedSchema {
    pub schema: Schema,
    /// `None` if the schema is invalid; tests cover the schemas of all types.
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
    /// All responses, in order: one, or two if the model was asked again.
    #[serde(skip)]
    pub responses: Vec<ModelResponse>,
}

/// How an answer was obtained: the step of parsing that succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    Native,
    Parsed,
    Repaired(Vec<Fix>),
    /// The second answer matched, after these repairs.
    Reasked(Vec<Fix>),
    /// Found by the caller's pattern in text that does not match the schema.
    Extracted,
    /// No answer could be parsed: this is the caller's default, not a model's answer.
    Defaulted,
}

impl Provenance {
    /// Whether the value must be flagged in output, because no model gave it in the requested form.
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
            Provenance::Reasked(fixes) if fixes.is_empty() => f.write_str("asked twice"),
            Provenance::Reasked(fixes) => write!(f, "asked twice, repaired ({})", list(fixes)),
            Provenance::Extracted => {
                f.write_str("extracted by pattern, NOT in the requested format")
            }
            Provenance::Defaulted => f.write_str("DEFAULT, not from the model"),
        }
    }
}

/// A repair that was needed to parse an answer.
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
            Fix::Thinking => "thinking before the JSON",
            Fix::InvisibleCharacters => "invisible characters",
            Fix::Comments => "comments",
            Fix::TrailingComma => "trailing comma",
            Fix::Quotes => "wrong quotes",
            Fix::UnquotedKey => "unquoted key",
            Fix::Literal => "literal of another language",
            Fix::NumberFormat => "number format",
            Fix::RawControlCharacters => "raw control characters",
            Fix::BadEscape => "bad escape",
            Fix::RepeatedKey => "repeated key",
            Fix::Retyped => "value of another type",
            Fix::KeySpelling => "key spelling",
        })
    }
}

/// Caller's function that finds a value in text that does not match the schema.
pub type Extract<'a, T> = &'a (dyn Fn(&str) -> Option<T> + Send + Sync);

/// A request for a typed answer, with the optional steps that its caller supplies.
pub struct JsonRequest<'a, T> {
    request: ModelRequest,
    reader: Option<&'a AnswerReader>,
    extract: Option<Extract<'a, T>>,
    default: Option<T>,
}

impl<'a, T: JsonSchema> JsonRequest<'a, T> {
    /// Requests a `T`. If the request already has a schema, that is used.
    pub fn new(mut request: ModelRequest) -> JsonRequest<'a, T> {
        request.schema.get_or_insert_with(Schema::of::<T>);
        JsonRequest { request, reader: None, extract: None, default: None }
    }

    /// Uses an existing reader of the request's schema, as a reader is more expensive to create than to use.
    pub fn read_by(mut self, reader: &'a AnswerReader) -> Self {
        self.reader = Some(reader);
        self
    }

    /// If no answer can be parsed, lets `extract` find the value in the text.
    pub fn extract(mut self, extract: Extract<'a, T>) -> Self {
        self.extract = Some(extract);
        self
    }

    /// If all else fails, returns `default`, flagged as [`Provenance::Defaulted`].
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
    #[error("the answer could not be read ({reason}), and asking again failed: {error}")]
    SecondCall { reason: AnswerParseError, error: ModelError, responses: Vec<ModelResponse> },
    #[error("the model declined to answer")]
    Refused { responses: Vec<ModelResponse> },
    #[error("the model's answer does not match the schema, twice: {reason}")]
    Unreadable { reason: AnswerParseError, responses: Vec<ModelResponse> },
    #[error("the answer was cut off at {limit} output tokens, twice")]
    CutOff { limit: u32, responses: Vec<ModelResponse> },
    #[error("the schema is not a valid JSON schema")]
    Schema,
}

impl AnswerError {
    /// The error of the failed call, if a call failed.
    pub fn model_error(&self) -> Option<&ModelError> {
        match self {
            AnswerError::Model(error) | AnswerError::SecondCall { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Responses that were received and paid for although no value was obtained.
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

/// Typed answers for every [`Model`].
#[async_trait]
pub trait ModelExt: Model {
    /// Requests a value of type `T`, by the steps in the module's documentation.
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
                .map_err(|error| AnswerParseError::DoesNotFit(error.to_string()))?;
            Ok((typed, fixes))
        };
        let error = match ask_up_to_twice(self, &request, call, &read).await {
            Ok(answer) => return Ok(answer),
            Err(AnswerError::Model(error)) => return Err(error.into()),
            Err(error) if error.model_error().is_some_and(|error| error.kind().is_final()) => {
                return Err(error);
            }
            Err(error) => error,
        };
        let responses = error.responses().to_vec();
        // The second answer comes first: the model gave it knowing the error of the first.
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

/// Requests any JSON that matches the request's schema, by steps 1 to 4.
pub async fn generate_value<M: Model + ?Sized>(
    model: &M,
    request: &ModelRequest,
    call: CallOptions<'_>,
) -> Result<TypedAnswer<Value>, AnswerError> {
    let schema = request.schema.as_ref().ok_or(AnswerError::Schema)?;
    let reader = AnswerReader::new(schema).ok_or(AnswerError::Schema)?;
    ask_up_to_twice(model, request, call, &|response| read_response(&reader, response)).await
}

type ReadFn<'r, T> =
    &'r (dyn Fn(&ModelResponse) -> Result<(T, Vec<Fix>), AnswerParseError> + Send + Sync);

fn read_response(
    reader: &AnswerReader,
    response: &ModelResponse,
) -> Result<(Value, Vec<Fix>), AnswerParseError> {
    match response.stop {
        StopReason::MaxTokens => reader.read_cut(&response.text),
        _ => reader.read(&response.text),
    }
}

async fn ask_up_to_twice<M: Model + ?Sized, T>(
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
    let again = ask_again(request, &first, &reason);
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

/// The request extended by the model's first answer and the error in it.
fn ask_again(
    request: &ModelRequest,
    first: &ModelResponse,
    reason: &AnswerParseError,
) -> ModelRequest {
    /// Maximum length of the first answer that is sent back, because it may have megabytes.
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
                &format!("the answer could not be read ({reason}), and asking again failed"),
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
