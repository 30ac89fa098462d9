//! A request: the prompt, and how it is to be answered.

use std::fmt;
use std::sync::Arc;

use assize_types::Fingerprint;
use parking_lot::Mutex;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::prompt::{Block, Prompt, Turn};

/// One question to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    pub prompt: Prompt,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
    pub temperature: f32,
    /// The most output tokens that may be written.
    pub max_tokens: u32,
    /// Tells equal questions apart: three samples of one prompt are three requests.
    pub sample: u32,
}

impl Request {
    pub const TEMPERATURE: f32 = 0.7;
    pub const MAX_TOKENS: u32 = 4096;

    pub fn new(prompt: Prompt) -> Request {
        Request {
            prompt,
            tools: Vec::new(),
            schema: None,
            temperature: Request::TEMPERATURE,
            max_tokens: Request::MAX_TOKENS,
            sample: 0,
        }
    }

    pub fn question(text: impl Into<String>) -> Request {
        Request::new(Prompt::question(text))
    }

    /// What identifies this request: equal requests have equal fingerprints, on every machine.
    pub fn fingerprint(&self) -> Fingerprint {
        PrefixHasher::default().fingerprint(self)
    }
}

/// Computes fingerprints of requests that share their blocks and turns, and hashes what they share once.
///
/// Clones share what was hashed. Any request may come next: what differs is hashed anew.
#[derive(Clone, Default)]
pub struct PrefixHasher(Arc<Mutex<HashedPrefix>>);

/// Beginning of a request as JSON, up to the last of its turns.
#[derive(Default)]
struct HashedPrefix {
    hasher: Sha256,
    blocks: Vec<Block>,
    turns: Vec<Turn>,
}

/// What follows the prompt in a request as JSON.
#[derive(Serialize)]
struct AfterPrompt<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a [Tool]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<&'a Schema>,
    temperature: f32,
    max_tokens: u32,
    sample: u32,
}

impl PrefixHasher {
    /// The SHA-256 of the request as JSON.
    pub fn fingerprint(&self, request: &Request) -> Fingerprint {
        let Request { prompt, tools, schema, temperature, max_tokens, sample } = request;
        let mut prefix = self.0.lock();
        prefix.extend(prompt);
        let mut hasher = prefix.hasher.clone();
        drop(prefix);
        hasher.update(r#"],"tail":"#);
        hash_json(&mut hasher, &prompt.tail);
        let rest = AfterPrompt {
            tools: (!tools.is_empty()).then_some(tools),
            schema: schema.as_ref(),
            temperature: *temperature,
            max_tokens: *max_tokens,
            sample: *sample,
        };
        // Plain data: it can always be written.
        let rest = serde_json::to_string(&rest).unwrap_or_default();
        hasher.update("},");
        hasher.update(rest.trim_start_matches('{'));
        Fingerprint::from_bytes(hasher.finalize().into())
    }
}

impl HashedPrefix {
    /// Hashes the turns that are new, or everything if the prompt begins differently.
    fn extend(&mut self, Prompt { blocks, transcript, .. }: &Prompt) {
        let known = self.turns.len();
        let is_prefix = known > 0
            && known <= transcript.len()
            && self.blocks.len() == blocks.len()
            && self
                .blocks
                .iter()
                .zip(blocks)
                .all(|(a, b)| a.name == b.name && is_same(&a.text, &b.text))
            && self.turns.iter().zip(transcript).all(|(a, b)| match (a, b) {
                (Turn::User { text: a }, Turn::User { text: b }) => is_same(a, b),
                (a, b) => a == b,
            });
        if !is_prefix {
            *self = HashedPrefix { blocks: blocks.clone(), ..HashedPrefix::default() };
            self.hasher.update(r#"{"prompt":{"blocks":"#);
            hash_json(&mut self.hasher, blocks);
            self.hasher.update(r#","transcript":["#);
        }
        for turn in &transcript[self.turns.len()..] {
            if !self.turns.is_empty() {
                self.hasher.update(",");
            }
            hash_json(&mut self.hasher, turn);
            self.turns.push(turn.clone());
        }
    }
}

/// Whether two texts are equal. Where they are, they are nearly always one.
fn is_same(a: &Arc<str>, b: &Arc<str>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

fn hash_json(hasher: &mut Sha256, value: &(impl Serialize + ?Sized)) {
    // Serialising plain data into a hasher cannot fail; were it to, the hash of what was written so far would still be
    // deterministic.
    let _ = serde_json::to_writer(HashWriter(hasher), value);
}

impl fmt::Debug for PrefixHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefixHasher").finish_non_exhaustive()
    }
}

/// Always equal: what was hashed before changes no fingerprint.
impl PartialEq for PrefixHasher {
    fn eq(&self, _: &PrefixHasher) -> bool {
        true
    }
}

struct HashWriter<'a>(&'a mut Sha256);

impl std::io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A tool that the model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    pub name: String,
    pub description: String,
    /// A JSON schema whose root is an object.
    pub parameters: Value,
}

/// The shape that an answer must have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    /// Letters, digits, `_` and `-`: providers allow no more.
    pub name: String,
    pub value: Value,
    pub delivery: Delivery,
}

/// How the model learns of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Through the provider's own schema parameter where the model has one, else in the prompt.
    Native,
    /// In the prompt alone. A native schema would change the start of what the provider caches, so
    /// a single typed question at the end of a long untyped conversation is cheaper this way.
    Prompt,
}

/// What is wrong with a schema that a user wrote.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error("the schema must be a JSON object")]
    NotAnObject,
    #[error("the schema's root must be `\"type\": \"object\"`; wrap the value in an object")]
    RootNotAnObject,
    #[error("not a valid JSON schema: {0}")]
    Invalid(String),
}

impl Schema {
    /// The schema of a Rust type, with nothing left to look up by reference.
    pub fn of<T: JsonSchema>() -> Schema {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
        let name = T::schema_name()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
            .collect();
        let value = settings.into_generator().into_root_schema_for::<T>().to_value();
        Schema { name, value, delivery: Delivery::Native }
    }

    /// A schema that somebody wrote, checked.
    pub fn from_value(name: &str, value: Value) -> Result<Schema, SchemaError> {
        let object = value.as_object().ok_or(SchemaError::NotAnObject)?;
        if object.get("type").and_then(Value::as_str) != Some("object") {
            return Err(SchemaError::RootNotAnObject);
        }
        jsonschema::validator_for(&value)
            .map_err(|error| SchemaError::Invalid(error.to_string()))?;
        Ok(Schema { name: name.to_owned(), value, delivery: Delivery::Native })
    }

    /// The words that ask for this shape where the provider has no way to enforce it.
    pub fn instruction(&self) -> String {
        format!(
            "Answer with one JSON object and nothing else: no code fence, no words before or after \
             it. It must satisfy this JSON schema:\n{}",
            self.value
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fingerprint_tells_samples_apart_and_nothing_else() {
        let request = Request::question("why");
        let mut sampled = request.clone();
        sampled.sample = 1;
        assert_eq!(request.fingerprint(), Request::question("why").fingerprint());
        assert_ne!(request.fingerprint(), sampled.fingerprint());
    }

    #[test]
    fn the_fingerprint_is_the_same_on_every_machine_and_version() {
        // A change here makes every recorded cassette and journal unreadable: bump their version.
        assert_eq!(
            Request::question("why").fingerprint().to_string(),
            "9691232ab71cbb914f1367ce4d16dc426391b8777e6f6c9aeec52943d86a80fd"
        );
    }

    #[test]
    fn shared_prefix_does_not_change_a_fingerprint() {
        let said = |text: &str| Turn::User { text: text.into() };
        let tool =
            Tool { name: "t".to_owned(), description: String::new(), parameters: Value::Null };
        let mut request = Request::question("a \"question\"");
        let hasher = PrefixHasher::default();
        let check = |request: &Request| {
            let plain = Fingerprint::of(serde_json::to_string(request).unwrap());
            assert_eq!(hasher.fingerprint(request), plain);
            assert_eq!(request.fingerprint(), plain);
        };
        check(&request);
        request.prompt = request.prompt.block("rules", "Be \u{1} brief.").block("move", "Do it.");
        check(&request);
        for text in ["one", "two\n", "three"] {
            request.prompt.transcript.push(said(text));
            request.prompt.tail = format!("after {text}");
            check(&request);
        }
        request.prompt.transcript[1] = Turn::Assistant { text: "no".to_owned(), calls: vec![] };
        check(&request);
        request.prompt.transcript.truncate(2);
        check(&request);
        request.prompt.blocks[0].text = "Be long.".into();
        request.schema = Some(Schema::of::<String>());
        check(&request);
        request.tools.push(tool);
        check(&request);
        request.prompt.blocks.clear();
        check(&request);
    }

    #[test]
    fn a_schema_keeps_the_order_of_its_fields() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is looked at")]
        struct Verdict {
            reasoning: String,
            impact: u8,
        }
        let schema = Schema::of::<Verdict>();
        let fields: Vec<&String> = schema.value["properties"].as_object().unwrap().keys().collect();
        assert_eq!(schema.name, "Verdict");
        assert_eq!(fields, ["reasoning", "impact"]);
    }

    #[test]
    fn schemas_of_users_are_checked() {
        let bad = |value: Value| Schema::from_value("s", value).unwrap_err().to_string();
        assert_eq!(bad(serde_json::json!([])), "the schema must be a JSON object");
        assert!(bad(serde_json::json!({"type": "integer"})).contains("wrap the value"));
        assert!(
            bad(serde_json::json!({"type": "object", "properties": 3}))
                .contains("not a valid JSON")
        );
    }
}
