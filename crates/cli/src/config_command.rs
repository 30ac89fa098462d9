//! `assize config`: shows settings and their sources, and manages trust in folders.

use std::path::PathBuf;

use assize_config::trust::TrustStore;
use assize_config::{Environment, SettingKey, SettingSource, Settings};
use assize_types::{Failure, FailureKind};
use serde_json::{Map, Value as Json, json};

use crate::args::{ConfigCommand, SettingsFilter};
use crate::terminal::{DIM, WARN, note, out_json, out_line, paint, replace_control_chars};

pub(crate) fn run(
    command: ConfigCommand,
    config: &Settings,
    environment: &Environment,
) -> Result<(), Failure> {
    match command {
        ConfigCommand::Show { json, only } => {
            let rows = rows(config, only);
            if json { show_json(config, &rows) } else { show_text(config, &rows) }
        }
        ConfigCommand::Set { .. } | ConfigCommand::Unset { .. } => {
            unreachable!("`config set` and `config unset` run before the settings are loaded")
        }
        ConfigCommand::Trust { folder } => {
            let inside =
                Environment { working_folder: resolve(folder, config)?, ..environment.clone() };
            // The files are read once, so that exactly the settings shown here are trusted.
            let trusted = Settings::load(&inside, &[])?;
            for (key, value) in &trusted.origin.sensitive {
                note(&replace_control_chars(&format!("  {key} = {value}")));
            }
            let folder = &trusted.origin.project_folder;
            TrustStore::open(&environment.state_folder)?
                .trust(folder, &trusted.origin.fingerprint)?;
            note(&replace_control_chars(&format!("trusted: {}", folder.display())));
            note(&paint(
                DIM,
                "trust applies to the current assize.toml and .env; after a change, trust the folder again",
            ));
            Ok(())
        }
        ConfigCommand::Distrust { folder } => {
            let folder = resolve(folder, config)?;
            let was = TrustStore::open(&environment.state_folder)?.revoke(&folder)?;
            let state = if was {
                "this folder is no longer trusted"
            } else {
                "this folder was not in the list of trusted folders"
            };
            note(&replace_control_chars(&format!("{state}: {}", folder.display())));
            Ok(())
        }
    }
}

/// Returns the absolute path of `folder`, or of the project folder if `folder` is `None`.
fn resolve(folder: Option<PathBuf>, config: &Settings) -> Result<PathBuf, Failure> {
    let folder = folder.unwrap_or_else(|| config.origin.project_folder.clone());
    let resolved = folder.canonicalize().ok().filter(|folder| folder.is_dir());
    resolved.ok_or_else(|| {
        Failure::new(FailureKind::Usage, format!("`{}` is not a folder", folder.display()))
    })
}

/// Row of `assize config show`.
struct Row {
    key: String,
    value: Option<String>,
    source: Option<SettingSource>,
    about: &'static str,
}

/// Returns the rows of all settings, API keys and prices that `only` selects.
fn rows(config: &Settings, only: SettingsFilter) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for setting in assize_config::all() {
        let written = config.text_of(setting.key);
        let written = written.filter(|w| w.is_set() || !is_set_by_server(config, setting.key));
        rows.push(Row {
            key: setting.key.to_string(),
            value: written.map(|written| written.to_string()),
            source: written.map(|written| written.source().clone()),
            about: setting.description,
        });
        if let SettingKey::ProviderKeyEnv(provider) = setting.key {
            let (key, source) = config.key(provider);
            rows.push(Row {
                key: format!("{provider}.key"),
                source: key.is_some().then_some(source),
                value: key.map(|key| key.masked()),
                about: "API key of this provider",
            });
        }
    }
    rows.extend(config.model_prices().map(|(key, written)| Row {
        key: key.clone(),
        value: Some(written.to_string()),
        source: Some(written.source().clone()),
        about: "price in dollars per million tokens",
    }));
    rows.retain(|row| {
        only == SettingsFilter::All
            || row.source.as_ref().is_some_and(|source| *source != SettingSource::Default)
    });
    rows
}

/// Whether a local model server determines the default of a setting.
fn is_set_by_server(config: &Settings, key: SettingKey) -> bool {
    let of = |provider| assize_service::doctor::is_local(config, provider);
    matches!(key, SettingKey::ProviderConcurrency(provider) if of(provider))
}

fn show_text(config: &Settings, rows: &[Row]) -> Result<(), Failure> {
    let width = rows.iter().map(|row| row.key.len()).max().unwrap_or(0);
    for row in rows {
        let line = match (&row.value, &row.source) {
            (Some(value), Some(source)) => {
                format!(
                    "{:<width$}  {}  {}",
                    row.key,
                    replace_control_chars(value),
                    paint(DIM, replace_control_chars(&format!("({source})")))
                )
            }
            _ => paint(DIM, format!("{:<width$}  not set: {}", row.key, row.about)),
        };
        out_line(&line)?;
    }
    for withheld in &config.origin.untrusted_values {
        let effect = if withheld.ignored { "ignored" } else { "no effect" };
        let why = config.origin.trust.explanation();
        out_line(&paint(
            WARN,
            format!(
                "{:<width$}  {effect}: {why}; `assize config trust` allows the setting  ({})",
                withheld.key, withheld.source
            ),
        ))?;
    }
    Ok(())
}

fn show_json(config: &Settings, rows: &[Row]) -> Result<(), Failure> {
    let settings: Map<String, Json> = rows
        .iter()
        .map(|row| {
            let source = row.source.as_ref().map(SettingSource::to_string);
            (row.key.clone(), json!({"value": row.value, "source": source}))
        })
        .collect();
    let withheld: Vec<Json> = config
        .origin
        .untrusted_values
        .iter()
        .map(|withheld| {
            json!({
                "key": withheld.key, "source": withheld.source.to_string(), "ignored": withheld.ignored,
                "why": config.origin.trust.explanation(),
            })
        })
        .collect();
    out_json(&json!({"settings": settings, "withheld": withheld}))
}
