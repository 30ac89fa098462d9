//! Parts of request bodies that several routes share: settings that apply to one request, and uploaded files.

use std::path::Path;

use assize_code::InputFile;
use assize_code::check_names;
use assize_config::{SettingKey, Settings};
use assize_consult::sources::{GatheredData, files};
use assize_types::Failure;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::problem::Problem;

/// Settings that apply to this request only. A request can override defaults, but it can neither exceed a limit nor
/// weaken the isolation that the operator has set. The bounds in this schema are those that the server enforces.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RequestSettings {
    /// Provider: anthropic, openai, google, groq, openrouter, ollama, or rehearsal (offline, without a model)
    provider: Option<String>,
    model: Option<String>,
    temperature: Option<f64>,
    max_output_tokens: Option<u32>,
    /// Maximum cost of the run in dollars
    max_cost: Option<f64>,
    /// Maximum number of tokens that the run may use
    max_tokens: Option<u64>,
    /// Sandbox backend: auto, jail, docker, microvm, or at-least=NAME for NAME or a backend with stronger isolation
    isolation: Option<String>,
    /// Memory limit of the sandbox with a unit, such as 256M
    memory: Option<String>,
    cpus: Option<f64>,
    timeout_seconds: Option<f64>,
    processes: Option<u32>,
    /// Disk limit of the sandbox with a unit, such as 64M
    disk: Option<String>,
    /// Maximum size of standard output, and of standard error, with a unit such as 64K; longer output is truncated
    output: Option<String>,
}

/// Names of the fields of [`RequestSettings`], each with the setting that the field overrides.
pub(crate) const SETTINGS: [(&str, SettingKey); 13] = [
    ("provider", SettingKey::Provider),
    ("model", SettingKey::Model),
    ("temperature", SettingKey::Temperature),
    ("max_output_tokens", SettingKey::MaxOutputTokens),
    ("max_cost", SettingKey::BudgetMaxCost),
    ("max_tokens", SettingKey::BudgetMaxTokens),
    ("isolation", SettingKey::SandboxIsolation),
    ("memory", SettingKey::SandboxMemory),
    ("cpus", SettingKey::SandboxCpus),
    ("timeout_seconds", SettingKey::SandboxTimeout),
    ("processes", SettingKey::SandboxProcesses),
    ("disk", SettingKey::SandboxDisk),
    ("output", SettingKey::SandboxOutput),
];

impl RequestSettings {
    /// Returns the server's settings with the overrides from this request.
    pub(crate) fn applied(self, config: &Settings) -> Result<Settings, Failure> {
        let fields = serde_json::to_value(self).unwrap_or_default();
        let value = |(field, key): (&str, SettingKey)| match &fields[field] {
            Value::Null => None,
            Value::String(text) => Some((key, text.clone())),
            other => Some((key, other.to_string())),
        };
        config.with_request(&SETTINGS.into_iter().filter_map(value).collect::<Vec<_>>())
    }
}

/// Uploaded file. Its content is either text in `text` or arbitrary bytes in `base64`.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Upload {
    /// Relative path of the file, such as data/prices.csv
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    text: Option<String>,
    base64: Option<String>,
}

impl Upload {
    fn read(self) -> Result<(String, Vec<u8>), Problem> {
        let Upload { name, text, base64 } = self;
        let bytes = match (text, base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(encoded)) => {
                BASE64_STANDARD.decode(encoded.as_bytes()).map_err(|error| {
                    Problem::unprocessable(format!("the file `{name}` has invalid base64: {error}"))
                })?
            }
            _ => {
                let detail = format!("the file `{name}` must have either `text` or `base64`");
                return Err(Problem::unprocessable(detail));
            }
        };
        Ok((name, bytes))
    }
}

/// Maximum number of uploaded files in one request.
const MAX_UPLOADS: usize = 200;

fn check_count(uploads: &[Upload]) -> Result<(), Problem> {
    match uploads.len() {
        0..=MAX_UPLOADS => Ok(()),
        count => {
            let detail = format!("`files` has {count} files; at most {MAX_UPLOADS} are allowed");
            Err(Problem::unprocessable(detail))
        }
    }
}

/// Converts uploaded files to input files of a program.
pub(crate) fn inputs(uploads: Vec<Upload>) -> Result<Vec<InputFile>, Problem> {
    check_count(&uploads)?;
    let read =
        |upload: Upload| upload.read().map(|(name, bytes)| InputFile { name, bytes: bytes.into() });
    uploads.into_iter().map(read).collect()
}

/// Converts uploaded files to source documents of a consultation.
pub(crate) fn documents(uploads: Vec<Upload>) -> Result<GatheredData, Problem> {
    let failed = |error: std::io::Error| {
        Problem::from(Failure::from_error(assize_types::FailureKind::Environment, &error))
    };
    check_count(&uploads)?;
    check_names(uploads.iter().map(|upload| upload.name.as_str()))?;
    let folder = tempfile::tempdir().map_err(failed)?;
    for upload in uploads {
        let (name, bytes) = upload.read()?;
        let path = folder.path().join(&name);
        std::fs::create_dir_all(path.parent().unwrap_or(folder.path())).map_err(failed)?;
        let mut file = std::fs::File::create_new(&path).map_err(failed)?;
        std::io::Write::write_all(&mut file, &bytes).map_err(failed)?;
    }
    gathered(folder.path(), "`files`")
}

/// Reads the source documents in a folder. Error messages contain `name` instead of the path of the folder, because
/// clients must not see the path.
pub(crate) fn gathered(folder: &Path, name: &str) -> Result<GatheredData, Problem> {
    files::gather(folder).map_err(|error| match error {
        files::FilesError::NoUsableFile(_) => {
            let detail = format!("no readable documents in {name}");
            Problem::unprocessable(detail).hint("supported formats: Markdown, text, CSV and JSON")
        }
        error => Problem::from(Failure::from(error)),
    })
}
