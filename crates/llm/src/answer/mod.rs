//! Typed answers, by a ladder that says on which rung each one stood.
//!
//! 1. the provider held the model to the schema itself → [`Provenance::Native`];
//! 2. the text is JSON and fits → [`Provenance::Parsed`];
//! 3. it fits once mended (fences, commas, quotes…) → [`Provenance::Repaired`];
//! 4. the model was told what was wrong and its second answer fits → [`Provenance::Reasked`];
//! 5. the caller's own pattern found the value in the text → [`Provenance::Extracted`];
//! 6. the caller's own default → [`Provenance::Defaulted`], which is loud.
//!
//! The last two rungs exist only where the caller supplies them. Without them a value that cannot
//! be read is an error: nothing is ever made up.

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

pub use read::{AnswerReader, Unreadable};

use crate::error::ModelError;
use crate::model::{Call, Model};
use crate::prompt::Turn;
use crate::request::{Request, Schema};
use crate::response::{Response, Stop};

/// A schema, and what reads answers by it: making one costs more than using it.
#[derive(Debug)]
pub struct Shape {
    pub schema: Schema,
    /// `None` if the schema is not one, which a test would show.
    pub reader: Option<AnswerReader>,
}

impl Shape {
    pub fn of<T: JsonSchema>() -> Shape {
        let schema = Schema::of::<T>();
        let reader = AnswerReader::new(&schema);
        Shape { schema, reader }
    }
}

/// A typed answer and where it came from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer<T> {
    pub value: T,
    pub provenance: Provenance,
    /// Every response that was needed, in order: one, or two if the model was asked again.
    #[serde(skip)]
    pub responses: Vec<Response>,
}

/// The rung of the ladder that an answer stood on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    Native,
    Parsed,
    Repaired(Vec<Fix>),
    /// The second answer fitted, after these fixes.
    Reasked(Vec<Fix>),
    /// Found by the caller's pattern in text that was not what was asked for.
    Extracted,
    /// Nothing could be read: this is the caller's default, and no model said it.
    Defaulted,
}

impl Provenance {
    /// Whether no model gave this value in so many words, so that it must be shown with a flag.
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
            Provenance::Extracted => f.write_str("extracted by pattern, NOT as asked"),
            Provenance::Defaulted => f.write_str("DEFAULT, no model said this"),
        }
    }
}

/// Something that had to be mended before an answer could be read.
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
            Fix::SurroundingText => "text around it",
            Fix::Thinking => "thinking before it",
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

/// Looks for a value in text that is not what was asked for.
pub type Extract<'a, T> = &'a (dyn Fn(&str) -> Option<T> + Send + Sync);

/// A request for a typed answer, with the rungs that only its caller can supply.
pub struct JsonAsk<'a, T> {
    request: Request,
    reader: Option<&'a AnswerReader>,
    extract: Option<Extract<'a, T>>,
    default: Option<T>,
}

impl<'a, T: JsonSchema> JsonAsk<'a, T> {
    /// Asks `request` for a `T`. A schema that the request already carries stays.
    pub fn new(mut request: Request) -> JsonAsk<'a, T> {
        request.schema.get_or_insert_with(Schema::of::<T>);
        JsonAsk { request, reader: None, extract: None, default: None }
    }

    /// Reads answers with a reader that was made before, of the request's own schema: making one
    /// costs more than using it.
    pub fn read_by(mut self, reader: &'a AnswerReader) -> Self {
        self.reader = Some(reader);
        self
    }

    /// Where nothing could be read, lets `extract` look for the value in the text.
    pub fn extract(mut self, extract: Extract<'a, T>) -> Self {
        self.extract = Some(extract);
        self
    }

    /// Where nothing else helped, answers with `default`, flagged as such.
    pub fn or_default(mut self, default: T) -> Self {
        self.default = Some(default);
        self
    }
}

impl<T> fmt::Debug for JsonAsk<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonAsk")
            .field("request", &self.request)
            .field("extract", &self.extract.is_some())
            .field("default", &self.default.is_some())
            .finish()
    }
}

/// Why there is no typed answer.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The first answer could not be read, and the second question was not answered.
    #[error("the answer could not be read ({reason}), and asking again failed: {error}")]
    SecondCall { reason: Unreadable, error: ModelError, responses: Vec<Response> },
    #[error("the model declined to answer")]
    Refused { responses: Vec<Response> },
    #[error("the model's answer does not have the asked shape, twice: {reason}")]
    Unreadable { reason: Unreadable, responses: Vec<Response> },
    #[error("the answer was cut off at {limit} output tokens, twice")]
    CutOff { limit: u32, responses: Vec<Response> },
    #[error("the schema is not a valid JSON schema")]
    Schema,
}

impl AnswerError {
    /// The call that failed, if it was one that did.
    pub fn model_error(&self) -> Option<&ModelError> {
        match self {
            AnswerError::Model(error) | AnswerError::SecondCall { error, .. } => Some(error),
            _ => None,
        }
    }

    /// What was answered and paid for all the same.
    pub fn responses(&self) -> &[Response] {
        match self {
            AnswerError::Refused { responses }
            | AnswerError::SecondCall { responses, .. }
            | AnswerError::Unreadable { responses, .. }
            | AnswerError::CutOff { responses, .. } => responses,
            AnswerError::Model(_) | AnswerError::Schema => &[],
        }
    }
}

/// What every model can do besides, by way of [`Model::generate`].
#[async_trait]
pub trait ModelExt: Model {
    /// Asks for a value of type `T`; the module's ladder says how far it goes to get one.
    async fn generate_json<T>(
        &self,
        ask: JsonAsk<'_, T>,
        call: Call<'_>,
    ) -> Result<Answer<T>, AnswerError>
    where
        T: DeserializeOwned + JsonSchema + Send + Sync,
    {
        let JsonAsk { request, reader, extract, default } = ask;
        let schema = request.schema.as_ref().ok_or(AnswerError::Schema)?;
        let made = match reader {
            Some(_) => None,
            None => Some(AnswerReader::new(schema).ok_or(AnswerError::Schema)?),
        };
        let reader = reader.or(made.as_ref()).ok_or(AnswerError::Schema)?;
        let read = |response: &Response| {
            let (value, fixes) = read_response(reader, response)?;
            let typed = serde_json::from_value(value)
                .map_err(|error| Unreadable::DoesNotFit(error.to_string()))?;
            Ok((typed, fixes))
        };
        let error = match climb(self, &request, call, &read).await {
            Ok(answer) => return Ok(answer),
            Err(AnswerError::Model(error)) => return Err(error.into()),
            Err(error) if error.model_error().is_some_and(|error| error.kind().is_final()) => {
                return Err(error);
            }
            Err(error) => error,
        };
        let responses = error.responses().to_vec();
        // The later answer is the better informed one.
        if let Some(value) = extract
            .and_then(|find| responses.iter().rev().find_map(|response| find(&response.text)))
        {
            return Ok(Answer { value, provenance: Provenance::Extracted, responses });
        }
        match default {
            Some(value) => Ok(Answer { value, provenance: Provenance::Defaulted, responses }),
            None => Err(error),
        }
    }
}

impl<M: Model + ?Sized> ModelExt for M {}

/// Asks for any JSON that fits the request's schema; the first four rungs.
pub async fn generate_value<M: Model + ?Sized>(
    model: &M,
    request: &Request,
    call: Call<'_>,
) -> Result<Answer<Value>, AnswerError> {
    let schema = request.schema.as_ref().ok_or(AnswerError::Schema)?;
    let reader = AnswerReader::new(schema).ok_or(AnswerError::Schema)?;
    climb(model, request, call, &|response| read_response(&reader, response)).await
}

type ReadFn<'r, T> = &'r (dyn Fn(&Response) -> Result<(T, Vec<Fix>), Unreadable> + Send + Sync);

fn read_response(
    reader: &AnswerReader,
    response: &Response,
) -> Result<(Value, Vec<Fix>), Unreadable> {
    match response.stop {
        Stop::MaxTokens => reader.read_cut(&response.text),
        _ => reader.read(&response.text),
    }
}

async fn climb<M: Model + ?Sized, T>(
    model: &M,
    request: &Request,
    call: Call<'_>,
    read: ReadFn<'_, T>,
) -> Result<Answer<T>, AnswerError> {
    let first = model.generate(request, call.clone()).await?;
    if first.stop == Stop::Refused {
        return Err(AnswerError::Refused { responses: vec![first] });
    }
    let reason = match read(&first) {
        Ok((value, fixes)) => {
            let provenance = match (first.schema_enforced, fixes.is_empty()) {
                (true, true) => Provenance::Native,
                (false, true) => Provenance::Parsed,
                (_, false) => Provenance::Repaired(fixes),
            };
            return Ok(Answer { value, provenance, responses: vec![first] });
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
    let cut = first.stop == Stop::MaxTokens && second.stop == Stop::MaxTokens;
    match read(&second) {
        _ if second.stop == Stop::Refused => {
            Err(AnswerError::Refused { responses: vec![first, second] })
        }
        Ok((value, fixes)) => Ok(Answer {
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

/// The same conversation, one turn on: what the model said, and what was wrong with it.
fn ask_again(request: &Request, first: &Response, reason: &Unreadable) -> Request {
    /// A bad answer of megabytes is not sent back whole.
    const SHOWN: usize = 4000;
    let mut again = request.clone();
    again
        .prompt
        .transcript
        .push(Turn::User { text: std::mem::take(&mut again.prompt.tail).into() });
    let said = head(&first.text, SHOWN);
    if !said.trim().is_empty() {
        again.prompt.transcript.push(Turn::Assistant { text: said.to_owned(), calls: vec![] });
    }
    let shorter = if first.stop == Stop::MaxTokens {
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
