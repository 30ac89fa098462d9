//! Requests to a model (prompt, tools, schema and parameters) and their fingerprints.

use std::fmt;
use std::sync::Arc;

use assize_types::Fingerprint;
use parking_lot::Mutex;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::prompt::{Block, Prompt, TranscriptTurn};

/// One request to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    pub prompt: Prompt,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolDefinition>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
    pub temperature: f32,
    /// Maximum number of output tokens.
    pub max_tokens: u32,
    /// Number of the sample, to request several answers to one prompt. Requests with equal prompts but different sample
    /// numbers are different requests.
    pub sample: u32,
}

impl ModelRequest {
    pub const TEMPERATURE: f32 = 0.7;
    pub const MAX_TOKENS: u32 = 4096;

    pub fn new(prompt: Prompt) -> ModelRequest {
        ModelRequest {
            prompt,
            tools: Vec::new(),
            schema: None,
            temperature: ModelRequest::TEMPERATURE,
            max_tokens: ModelRequest::MAX_TOKENS,
            sample: 0,
        }
    }

    pub fn question(text: impl Into<String>) -> ModelRequest {
        ModelRequest::new(Prompt::question(text))
    }

    /// Hash that identifies the request. Equal requests have equal fingerprints on every machine.
    pub fn fingerprint(&self) -> Fingerprint {
        PrefixHasher::default().fingerprint(self)
    }
}

/// Computes fingerprints of requests. If consecutive requests share blocks and turns, their common prefix is hashed
/// only once.
///
/// Clones of a hasher share the hashed prefix. A request that does not start with this prefix is hashed completely.
#[derive(Clone, Default)]
pub struct PrefixHasher(Arc<Mutex<HashedPrefix>>);

/// State of the hash function after hashing the blocks and turns of the last request in their JSON form.
#[derive(Default)]
struct HashedPrefix {
    hasher: Sha256,
    blocks: Vec<Block>,
    turns: Vec<TranscriptTurn>,
}

/// The fields that follow the prompt when a request is serialized as JSON.
#[derive(Serialize)]
struct AfterPrompt<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a [ToolDefinition]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<&'a Schema>,
    temperature: f32,
    max_tokens: u32,
    sample: u32,
}

impl PrefixHasher {
    /// SHA-256 of the request, serialized as JSON.
    pub fn fingerprint(&self, request: &ModelRequest) -> Fingerprint {
        let ModelRequest { prompt, tools, schema, temperature, max_tokens, sample } = request;
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
        // Serializing plain data cannot fail.
        let rest = serde_json::to_string(&rest).unwrap_or_default();
        hasher.update("},");
        hasher.update(rest.trim_start_matches('{'));
        Fingerprint::from_bytes(hasher.finalize().into())
    }
}

impl HashedPrefix {
    /// Hashes the turns of the prompt that follow the hashed prefix. If the prompt does not start with that prefix,
    /// hashes all blocks and turns of the prompt.
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
                (TranscriptTurn::User { text: a }, TranscriptTurn::User { text: b }) => {
                    is_same(a, b)
                }
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

/// Whether two texts are equal. Equal texts nearly always share one allocation, so pointers are compared first.
fn is_same(a: &Arc<str>, b: &Arc<str>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

fn hash_json(hasher: &mut Sha256, value: &(impl Serialize + ?Sized)) {
    // Serializing plain data into a hasher cannot fail; if it did, the hash of the bytes written so far would still be
    // deterministic.
    let _ = serde_json::to_writer(HashWriter(hasher), value);
}

impl fmt::Debug for PrefixHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefixHasher").finish_non_exhaustive()
    }
}

/// All hashers are equal: the hashed prefix is only a cache and does not affect any fingerprint.
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
pub struct ToolDefinition {
    pub name: String,
    pub description: String,
    /// A JSON schema whose root is an object.
    pub parameters: Value,
}

/// JSON schema that an answer must match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    /// Name of the schema. Providers allow only letters, digits, `_` and `-` in it.
    pub name: String,
    pub value: Value,
    pub delivery: SchemaDelivery,
}

/// How the schema is sent to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaDelivery {
    /// The schema is sent in the provider's schema parameter if the model supports schemas, else in the prompt.
    Native,
    /// The schema is sent only in the prompt. A native schema would change the start of the cached prefix. So this
    /// delivery is cheaper for one typed question at the end of a long untyped conversation.
    Prompt,
}

/// Error in a schema written by a user.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error("the schema must be a JSON object")]
    NotAnObject,
    #[error("the schema's root must be `\"type\": \"object\"`; wrap the value in an object")]
    RootNotAnObject,
    #[error("the schema is not a valid JSON schema: {0}")]
    Invalid(String),
}

impl Schema {
    /// The schema of a Rust type, with all references inlined.
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
        Schema { name, value, delivery: SchemaDelivery::Native }
    }

    /// Validates a schema written by a user.
    pub fn from_value(name: &str, value: Value) -> Result<Schema, SchemaError> {
        let object = value.as_object().ok_or(SchemaError::NotAnObject)?;
        if object.get("type").and_then(Value::as_str) != Some("object") {
            return Err(SchemaError::RootNotAnObject);
        }
        jsonschema::validator_for(&value)
            .map_err(|error| SchemaError::Invalid(error.to_string()))?;
        Ok(Schema { name: name.to_owned(), value, delivery: SchemaDelivery::Native })
    }

    /// Prompt text that requests an answer which matches this schema, for providers that cannot enforce the schema.
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
    fn fingerprint_depends_on_the_prompt_and_the_sample_number() {
        let request = ModelRequest::question("why");
        let mut sampled = request.clone();
        sampled.sample = 1;
        assert_eq!(request.fingerprint(), ModelRequest::question("why").fingerprint());
        assert_ne!(request.fingerprint(), sampled.fingerprint());
    }

    #[test]
    fn fingerprint_is_stable_across_machines_and_versions() {
        // If this fingerprint changes, existing cassettes and journals cannot be replayed: raise their format versions.
        assert_eq!(
            ModelRequest::question("why").fingerprint().to_string(),
            "9691232ab71cbb914f1367ce4d16dc426391b8777e6f6c9aeec52943d86a80fd"
        );
    }

    #[test]
    fn prefix_hasher_gives_the_same_fingerprint_as_hashing_the_whole_request() {
        let turn = |text: &str| TranscriptTurn::User { text: text.into() };
        let tool = ToolDefinition {
            name: "t".to_owned(),
            description: String::new(),
            parameters: Value::Null,
        };
        let mut request = ModelRequest::question("a \"question\"");
        let hasher = PrefixHasher::default();
        let check = |request: &ModelRequest| {
            let plain = Fingerprint::of(serde_json::to_string(request).unwrap());
            assert_eq!(hasher.fingerprint(request), plain);
            assert_eq!(request.fingerprint(), plain);
        };
        check(&request);
        request.prompt = request.prompt.block("rules", "Be \u{1} brief.").block("move", "Do it.");
        check(&request);
        for text in ["one", "two\n", "three"] {
            request.prompt.transcript.push(turn(text));
            request.prompt.tail = format!("after {text}");
            check(&request);
        }
        request.prompt.transcript[1] =
            TranscriptTurn::Assistant { text: "no".to_owned(), calls: vec![] };
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
    fn schema_of_a_type_keeps_the_order_of_its_fields() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only the schema of this struct is used")]
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
    fn invalid_user_schemas_are_rejected() {
        let bad = |value: Value| Schema::from_value("s", value).unwrap_err().to_string();
        assert_eq!(bad(serde_json::json!([])), "the schema must be a JSON object");
        assert!(bad(serde_json::json!({"type": "integer"})).contains("wrap the value"));
        assert!(
            bad(serde_json::json!({"type": "object", "properties": 3}))
                .contains("not a valid JSON")
        );
    }
}
