//! `assize config set` and `assize config unset`: edit the user's settings file and preserve its comments.

use assize_config::file::{is_secret_name, parse};
use assize_config::{
    Environment, PRICE_FIELDS, Setting, SettingKind, SettingSource, Settings, looks_like_api_key,
    most_similar,
};
use assize_types::{Failure, FailureKind};
use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

use crate::file_edit::{EditedFile, FileEdit};
use crate::terminal::{note, replace_control_chars, warn};

/// Sets a setting in the user's settings file.
pub(crate) fn set(key: &str, text: &str, environment: &Environment) -> Result<(), Failure> {
    let (names, kind) = find(key)?;
    if looks_like_api_key(text) {
        return Err(secret_key_error(key));
    }
    if let Some(complaint) = kind.validation_error(text) {
        return Err(kind.did_you_mean(text, usage(format!("`{key}` {complaint}"))));
    }
    let value = as_toml(key, &kind, text)?;
    edit(environment, |document| {
        insert(document.as_table_mut(), &names, value).then_some(true).ok_or_else(|| {
            usage(format!(
                "cannot set `{key}`: in the settings file, a name before the last dot of this key is not a table"
            ))
        })
    })?;
    note(&replace_control_chars(&format!("set `{key}` in `{}`", environment.user_file.display())));
    // A source with a higher precedence, such as an environment variable, may override the settings file.
    let config = match Settings::load(environment, &[]) {
        Ok(config) => config,
        // The settings cannot be loaded, because another value in the file is invalid.
        Err(failure) => {
            warn(failure.message());
            return Ok(());
        }
    };
    let source = config.origin.source(key);
    if let Some(source) = source.filter(|source| !matches!(source, SettingSource::User { .. })) {
        warn(&format!(
            "the new value of `{key}` has no effect: another source ({source}) overrides it"
        ));
    }
    Ok(())
}

/// Removes a setting from the user's settings file.
pub(crate) fn unset(key: &str, environment: &Environment) -> Result<(), Failure> {
    let known = find(key);
    if !environment.user_file.exists() {
        known.as_ref().map_err(Clone::clone)?;
    }
    let names = match &known {
        Ok((names, _)) => names.clone(),
        Err(_) => key.split('.').map(str::to_owned).collect(),
    };
    let removed = edit(environment, |document| Ok(remove(document.as_table_mut(), &names)))?;
    if !removed {
        // An unknown setting is an error, unless the file contained it and it was removed.
        known?;
    }
    let path = environment.user_file.display();
    note(&replace_control_chars(&match removed {
        true => format!("removed `{key}` from `{path}`"),
        false => format!("`{key}` is not set in `{path}`"),
    }));
    Ok(())
}

fn usage(message: String) -> Failure {
    Failure::new(FailureKind::Usage, message)
}

/// Error for a setting that would store a secret key, judging by its name or value.
fn secret_key_error(key: &str) -> Failure {
    let shown = if key.split('.').any(looks_like_api_key) { "…" } else { key };
    let message =
        format!("`{shown}` would contain a secret key, which is not allowed in a settings file");
    usage(message).hint(
        "put the key into the environment (such as `export ANTHROPIC_API_KEY=…`) or into a `.env` file that is not \
         committed",
    )
}

/// Returns where a setting is stored in the settings file (names of the tables, then of the field), and the kind of its
/// value.
fn find(key: &str) -> Result<(Vec<String>, SettingKind), Failure> {
    if key.split('.').any(|name| is_secret_name(name) || looks_like_api_key(name)) {
        return Err(secret_key_error(key));
    }
    if let Some(setting) = Setting::named(key) {
        return Ok((key.split('.').map(str::to_owned).collect(), setting.kind));
    }
    if let Some(price) = key.strip_prefix("prices.") {
        let split = price.rsplit_once('.').map(|(model, field)| (unquoted(model), field));
        let named = split.filter(|(model, field)| {
            !model.is_empty()
                && !model.chars().any(|char| char.is_control() || "\"'".contains(char))
                && PRICE_FIELDS.contains(field)
        });
        return match named {
            Some((model, field)) => {
                let names = ["prices", model, field].map(str::to_owned).into();
                Ok((names, SettingKind::Decimal(0.0, 1e6)))
            }
            None => Err(usage(format!("unknown setting `{key}`")).hint(format!(
                "the key of a price is `prices.MODEL.FIELD`, where FIELD is one of `{}`",
                PRICE_FIELDS.join("`, `")
            ))),
        };
    }
    let failure = usage(format!("unknown setting `{key}`"));
    Err(match most_similar(key, assize_config::all().iter().map(|setting| setting.key.name())) {
        Some(near) => failure.hint(format!("the nearest setting is `{near}`")),
        None => failure.hint("`assize config show` lists all settings"),
    })
}

/// Removes the TOML quotes around a name.
fn unquoted(name: &str) -> &str {
    let within = |quote| name.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    within('"').or_else(|| within('\'')).unwrap_or(name)
}

/// Converts a validated value to TOML.
fn as_toml(key: &str, kind: &SettingKind, text: &str) -> Result<Value, Failure> {
    Ok(match kind {
        SettingKind::Whole(..) => {
            let number: i64 = text.parse().map_err(|_| {
                usage(format!(
                    "`{key}` must be a whole number of at most {} in a settings file",
                    i64::MAX
                ))
            })?;
            number.into()
        }
        SettingKind::Decimal(..) => match (text.parse::<i64>(), text.parse::<f64>()) {
            (Ok(whole), _) => whole.into(),
            (_, Ok(decimal)) => decimal.into(),
            _ => return Err(usage(format!("`{key}` must be {kind}"))),
        },
        _ => text.into(),
    })
}

/// Sets a value in nested tables. `names` contains the names of the tables, from the outermost to the innermost, and
/// then of the field. Returns false if the file has a value of another type in place of one of these tables.
fn insert(table: &mut dyn TableLike, names: &[String], value: Value) -> bool {
    match names {
        [] => false,
        [name] => {
            match table.get_mut(name).and_then(Item::as_value_mut) {
                // The comment after the old value is preserved.
                Some(old) => {
                    let decor = old.decor().clone();
                    *old = value;
                    *old.decor_mut() = decor;
                }
                None => drop(table.insert(name, Item::Value(value))),
            }
            true
        }
        [name, rest @ ..] => {
            let inner = table.entry(name).or_insert_with(|| {
                let mut table = Table::new();
                // An implicit table gets no `[heading]` if it contains only other tables.
                table.set_implicit(true);
                Item::Table(table)
            });
            inner.as_table_like_mut().is_some_and(|inner| insert(inner, rest, value))
        }
    }
}

/// Removes a value from nested tables. `names` contains the names of the tables, from the outermost to the innermost,
/// and then of the field. Returns false if the value does not exist.
fn remove(table: &mut dyn TableLike, names: &[String]) -> bool {
    match names {
        [] => false,
        [name] => table.remove(name).is_some(),
        [name, rest @ ..] => {
            let inner = table.get_mut(name).and_then(Item::as_table_like_mut);
            inner.is_some_and(|inner| remove(inner, rest))
        }
    }
}

/// Edits the user's settings file atomically. Returns false if `change` changed nothing.
fn edit(
    environment: &Environment,
    change: impl FnOnce(&mut DocumentMut) -> Result<bool, Failure>,
) -> Result<bool, Failure> {
    let path = &environment.user_file;
    let edited = EditedFile { path, new_mode: 0o600, backup: false }.replace(|old| {
        let mut document: DocumentMut = old.parse().map_err(|error: toml_edit::TomlError| {
            let message =
                format!("`{}` is not valid TOML: {}", path.display(), error.message().trim());
            Failure::new(FailureKind::Settings, message)
        })?;
        if !change(&mut document)? {
            return Ok(None);
        }
        let new = document.to_string();
        match parse(path, &new) {
            Err(failure) if parse(path, old).is_ok() => Err(failure),
            // The file was invalid before this edit. The edit is allowed, because it may repair one of several values.
            _ => Ok(Some(new)),
        }
    })?;
    Ok(edited != FileEdit::Unchanged)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn changed(text: &str, key: &str, value: &str) -> String {
        let (names, kind) = find(key).unwrap();
        let mut document: DocumentMut = text.parse().unwrap();
        assert!(insert(document.as_table_mut(), &names, as_toml(key, &kind, value).unwrap()));
        let text = document.to_string();
        parse(Path::new("config.toml"), &text).unwrap();
        text
    }

    #[test]
    fn config_set_preserves_comments_and_the_order_of_settings() {
        let text = "# mine\nprovider = \"groq\" # for now\n\n[gateway] # calls\nretries = 3\n";
        let text = changed(text, "provider", "anthropic");
        let text = changed(&text, "gateway.retries", "5");
        let text = changed(&text, "prices.my.model.input", "0.5");
        let text = changed(&text, "prices.\"my.model\".output", "2");
        let text = changed(&text, "sandbox.memory", "512M");
        insta::assert_snapshot!(text, @r#"
        # mine
        provider = "anthropic" # for now

        [gateway] # calls
        retries = 5

        [prices."my.model"]
        input = 0.5
        output = 2

        [sandbox]
        memory = "512M"
        "#);
    }

    #[test]
    fn config_set_and_config_unset_can_edit_inline_tables() {
        let text = changed("gateway = { retries = 3 }\n", "gateway.timeout_seconds", "60");
        assert_eq!(text, "gateway = { retries = 3 , timeout_seconds = 60 }\n");
        let mut document: DocumentMut = text.parse().unwrap();
        let names = ["gateway", "retries"].map(str::to_owned);
        assert!(remove(document.as_table_mut(), &names));
        assert!(!remove(document.as_table_mut(), &names));
        let gateway = document["gateway"].as_inline_table().unwrap();
        assert_eq!(gateway.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["timeout_seconds"]);
    }
}
