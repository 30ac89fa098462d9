//! Request parts that several routes share: settings for one run, and uploaded files.

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

/// Settings for this request only. A request cannot exceed the amounts, nor weaken the isolation, that the operator has
/// set; it can override defaults. The schema has the bounds that are in force.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RequestSettings {
    /// anthropic, openai, google, groq, openrouter, ollama, or rehearsal (offline, no model)
    provider: Option<String>,
    model: Option<String>,
    temperature: Option<f64>,
    max_output_tokens: Option<u32>,
    /// In dollars
    max_cost: Option<f64>,
    max_tokens: Option<u64>,
    /// auto, jail, docker, microvm or at-least=NAME
    isolation: Option<String>,
    /// With a unit, such as 256M
    memory: Option<String>,
    cpus: Option<f64>,
    timeout_seconds: Option<f64>,
    processes: Option<u32>,
    /// With a unit, such as 64M
    disk: Option<String>,
    /// Bytes kept of standard output and of standard error, with a unit
    output: Option<String>,
}

/// Fields of [`RequestSettings`], each with the setting that it overrides.
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
    /// Settings of the server with the overrides of the request.
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

/// Uploaded file: as `text`, or any bytes as `base64`.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Upload {
    /// Relative path, such as data/prices.csv
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
            (None, Some(encoded)) => BASE64_STANDARD
                .decode(encoded.as_bytes())
                .map_err(|error| Problem::unusable(format!("`{name}`: invalid base64: {error}")))?,
            _ => {
                let detail = format!("`{name}` must have either `text` or `base64`");
                return Err(Problem::unusable(detail));
            }
        };
        Ok((name, bytes))
    }
}

/// Maximum number of files in one request.
const MAX_UPLOADS: usize = 200;

fn check_count(uploads: &[Upload]) -> Result<(), Problem> {
    match uploads.len() {
        0..=MAX_UPLOADS => Ok(()),
        count => {
            let detail = format!("`files` has {count} files, at most {MAX_UPLOADS} are allowed");
            Err(Problem::unusable(detail))
        }
    }
}

/// Uploaded files as input files of a program.
pub(crate) fn inputs(uploads: Vec<Upload>) -> Result<Vec<InputFile>, Problem> {
    check_count(&uploads)?;
    let read =
        |upload: Upload| upload.read().map(|(name, bytes)| InputFile { name, bytes: bytes.into() });
    uploads.into_iter().map(read).collect()
}

/// Uploaded files as source documents of a consultation.
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

/// Reads the source documents in a folder. Errors call the folder `name`, as clients must not see its path.
pub(crate) fn gathered(folder: &Path, name: &str) -> Result<GatheredData, Problem> {
    files::gather(folder).map_err(|error| match error {
        files::FilesError::Nothing(_) => {
            let detail = format!("no readable documents in {name}");
            Problem::unusable(detail).hint("supported formats: Markdown, text, CSV and JSON")
        }
        error => Problem::from(Failure::from(error)),
    })
}
