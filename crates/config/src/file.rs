//! Strict parsers for settings files (TOML) and `.env` files. Each parsed value has its line number.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use assize_types::{Failure, FailureKind};
use toml_edit::{Document, Item, TableLike, Value};

use crate::Provider;
use crate::kind::{PRICE_FIELDS, SettingKind, looks_like_api_key, most_similar};
use crate::setting::Setting;
use crate::table::all;

/// Maximum size of a settings file or `.env` file, in bytes.
const MAX_SIZE: u64 = 1024 * 1024;

/// One value in a settings file or `.env` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    pub key: String,
    pub value: String,
    pub line: usize,
}

/// Reads a text file of at most 1 MiB; `None` if the file does not exist.
pub fn read_text(path: &Path) -> Result<Option<String>, Failure> {
    let failed = |reason: String| {
        Failure::new(FailureKind::Settings, format!("cannot read `{}`: {reason}", path.display()))
    };
    // Only regular files are opened: opening a named pipe could block forever.
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        return Err(failed("not a regular file".to_owned()));
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error.to_string())),
    };
    let mut bytes = Vec::new();
    file.take(MAX_SIZE + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(failed("larger than 1 MiB".to_owned()));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| failed("not UTF-8 text".to_owned()))
}

/// Parses a settings file and validates each value against its setting.
pub fn parse(path: &Path, text: &str) -> Result<Vec<FileEntry>, Failure> {
    let document = Document::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        at(path, line, &format!("not valid TOML: {}", error.message().trim()))
    })?;
    let lines = text.match_indices('\n').map(|(offset, _)| offset).collect();
    let mut reader = Reader { path, lines, entries: Vec::new() };
    reader.table(document.as_table(), "")?;
    Ok(reader.entries)
}

struct Reader<'a> {
    path: &'a Path,
    /// Byte offset of the end of each line of the file.
    lines: Vec<usize>,
    entries: Vec<FileEntry>,
}

impl Reader<'_> {
    fn table(&mut self, table: &dyn TableLike, prefix: &str) -> Result<(), Failure> {
        for (name, item) in table.iter() {
            let key = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
            let span = table.key(name).and_then(toml_edit::Key::span).or_else(|| item.span());
            let line =
                span.map_or(1, |span| self.lines.partition_point(|end| *end < span.start) + 1);
            if is_secret_name(name) || looks_like_api_key(name) {
                return Err(secret_in_file_error(self.path, line, &key));
            }
            match item.as_table_like() {
                Some(inner) if self.is_section(&key) => self.table(inner, &key)?,
                _ => self.value(key, item, line)?,
            }
        }
        Ok(())
    }

    /// Whether `key` is the key of a table of settings, not of a single setting.
    fn is_section(&self, key: &str) -> bool {
        let below = format!("{key}.");
        let is_price = key == "prices" || (key.starts_with("prices.") && !self.is_price_field(key));
        is_price || all().iter().any(|setting| setting.key.name().starts_with(&below))
    }

    fn is_price_field(&self, key: &str) -> bool {
        let named = key.strip_prefix("prices.").and_then(|rest| rest.rsplit_once('.'));
        named.is_some_and(|(model, field)| !model.is_empty() && PRICE_FIELDS.contains(&field))
    }

    fn value(&mut self, key: String, item: &Item, line: usize) -> Result<(), Failure> {
        let price = SettingKind::Decimal(0.0, 1e6);
        let kind = if self.is_price_field(&key) {
            &price
        } else {
            match Setting::named(&key) {
                Some(setting) => &setting.kind,
                None if self.is_section(&key) && !key.starts_with("prices.") => {
                    let message =
                        format!("`{key}` is a group of settings; write it as a table: `[{key}]`");
                    return Err(at(self.path, line, &message));
                }
                None => return Err(self.unknown(&key, line)),
            }
        };
        let written = match item.as_value() {
            Some(Value::String(text)) if wants_text(kind) => text.value().clone(),
            Some(Value::Integer(number)) if !wants_text(kind) => number.value().to_string(),
            Some(Value::Float(number)) if !wants_text(kind) => number.value().to_string(),
            other => {
                let found = other.map_or("table", Value::type_name);
                let article = if found.starts_with(['a', 'i']) { "an" } else { "a" };
                let found = format!("{article} {found}");
                return Err(at(self.path, line, &format!("`{key}` must be {kind}, not {found}")));
            }
        };
        if looks_like_api_key(&written) {
            return Err(secret_in_file_error(self.path, line, &key));
        }
        if key.chars().any(char::is_control) {
            return Err(at(self.path, line, "the setting's name contains control characters"));
        }
        if let Some(complaint) = kind.validation_error(&written) {
            let failure = at(self.path, line, &format!("`{key}` {complaint}"));
            return Err(kind.did_you_mean(&written, failure));
        }
        self.entries.push(FileEntry { key, value: written, line });
        Ok(())
    }

    fn unknown(&self, key: &str, line: usize) -> Failure {
        let failure = at(self.path, line, &format!("unknown setting `{key}`"));
        let keys = all().iter().map(|setting| setting.key.name());
        let groups = keys.clone().filter_map(|key| key.split_once('.')).map(|(group, _)| group);
        if key.starts_with("prices.") {
            return failure.hint(format!("a price has the fields `{}`", PRICE_FIELDS.join("`, `")));
        }
        match most_similar(key, keys.chain(groups)) {
            Some(near) => failure.hint(format!("the nearest setting is `{near}`")),
            None => failure.hint("`assize config show` lists all settings"),
        }
    }
}

fn wants_text(kind: &SettingKind) -> bool {
    !matches!(kind, SettingKind::Whole(..) | SettingKind::Decimal(..))
}

fn line_of(text: &str, offset: usize) -> usize {
    text[..offset.min(text.len())].matches('\n').count() + 1
}

fn at(path: &Path, line: usize, message: &str) -> Failure {
    Failure::new(FailureKind::Settings, format!("{}:{line}: {message}", path.display()))
}

/// Whether the name suggests that the setting contains a secret, such as `api_key`.
pub fn is_secret_name(name: &str) -> bool {
    let plain: String = name.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    matches!(plain.as_str(), "key" | "apikey" | "secret" | "secretkey" | "password" | "accesstoken")
}

/// Returns the key of a setting for an error message, or `…` if the key looks like a secret.
fn shown(key: &str) -> &str {
    if key.split('.').any(looks_like_api_key) { "…" } else { key }
}

/// Error for a settings file that contains an API key or another secret.
fn secret_in_file_error(path: &Path, line: usize, key: &str) -> Failure {
    let provider = key.split('.').next().unwrap_or_default();
    let variable = provider.parse::<Provider>().map_or("ANTHROPIC_API_KEY", Provider::key_variable);
    let shown = shown(key);
    let message =
        format!("`{shown}` contains a secret key, which is not allowed in a settings file");
    at(path, line, &message).hint(format!(
        "put the key into the environment (`export {variable}=…`) or into a `.env` file that is not \
         committed; to use another variable, set `{}.key_env` to its name",
        if provider == key { "anthropic" } else { provider }
    ))
}

/// Parses the variables of a `.env` file. Values are not expanded, and nothing is executed. Malformed lines are
/// skipped, with one exception: an unclosed quote is an error if `is_ours` returns true for the name of the variable.
/// `is_ours` returns true for the names of variables that assize can read settings or API keys from.
pub fn parse_env(
    path: &Path,
    text: &str,
    is_ours: &dyn Fn(&str) -> bool,
) -> Result<Vec<FileEntry>, Failure> {
    let mut entries = Vec::new();
    let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else { continue };
        let (name, value) = (name.trim(), value.trim());
        if line.starts_with('#') {
            continue;
        }
        let value = match value.chars().next().filter(|c| matches!(c, '"' | '\'')) {
            None => {
                Some(value.split_once(" #").map_or(value, |(value, _)| value.trim_end()).to_owned())
            }
            Some(quote) => {
                let mut rest = value[1..].to_owned();
                let next_line = lines.clone();
                // A quoted value can span several lines, up to its closing quote.
                while !rest.contains(quote) {
                    match lines.next() {
                        Some((_, more)) => rest = format!("{rest}\n{more}"),
                        None => {
                            // The quote is never closed: only this line is malformed.
                            lines = next_line;
                            break;
                        }
                    }
                }
                rest.split_once(quote).map(|(inner, _)| inner.to_owned())
            }
        };
        match value {
            Some(value) => entries.push(FileEntry { key: name.to_owned(), value, line: index + 1 }),
            None if is_ours(name) => return Err(at(path, index + 1, "unclosed quote")),
            None => {}
        }
    }
    Ok(entries)
}

/// Returns `path` relative to `folder` if `path` is inside `folder`, else `path` unchanged.
pub fn relative_to(path: &Path, folder: &Path) -> PathBuf {
    path.strip_prefix(folder).map_or_else(|_| path.to_owned(), Path::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn complaint(text: &str) -> String {
        parse(Path::new("assize.toml"), text).unwrap_err().render()
    }

    #[test]
    fn settings_file_values_are_parsed_with_their_line_numbers() {
        let text = "# mine\nprovider = \"groq\"\n\n[groq]\nmodel = \"m\"\nconcurrency = 4\n\n[prices.\"my.model\"]\ninput = 1\noutput = 2.5\n";
        let entries = parse(Path::new("assize.toml"), text).unwrap();
        let entries: Vec<_> =
            entries.iter().map(|e| (e.key.as_str(), e.value.as_str(), e.line)).collect();
        assert_eq!(
            entries,
            [
                ("provider", "groq", 2),
                ("groq.model", "m", 5),
                ("groq.concurrency", "4", 6),
                ("prices.my.model.input", "1", 9),
                ("prices.my.model.output", "2.5", 10)
            ]
        );
    }

    #[test]
    fn invalid_settings_are_reported_with_line_and_hint() {
        let errors: Vec<String> = [
            "provider = \"anthropc\"",
            "\n\nprovidr = \"groq\"",
            "[anthropic]\nmodle = \"x\"",
            "[gateway]\nretries = \"3\"",
            "[gateway]\nretries = 99",
            "temperature = 3.5",
            "[ollama]\nbase_url = \"localhost:11434\"",
            "colour = 1",
            "gateway = 3",
            "provider = ",
            "[prices.x]\ncost = 1",
            "[prices]\ninput = 1",
            "[openai]\napi_key = \"sk-abcdefghijklmnop\"",
            "model = \"sk-abcdefghijklmnop\"",
            "[[anthropic]]\nmodel = \"x\"",
            "[opnai]\nmodel = \"x\"",
        ]
        .map(complaint)
        .to_vec();
        insta::assert_snapshot!(errors.join("\n\n"), @r"
        assize.toml:1: `provider` must be one of `anthropic`, `openai`, `google`, `groq`, `openrouter`, `ollama`, `rehearsal`, not `anthropc`

        hint: did you mean `anthropic`?

        assize.toml:3: unknown setting `providr`

        hint: the nearest setting is `provider`

        assize.toml:2: unknown setting `anthropic.modle`

        hint: the nearest setting is `anthropic.model`

        assize.toml:2: `gateway.retries` must be a whole number from 0 to 20, not a string

        assize.toml:2: `gateway.retries` must be a whole number from 0 to 20, not `99`

        assize.toml:1: `temperature` must be a number from 0 to 2, not `3.5`

        assize.toml:2: `ollama.base_url` must be a URL such as `https://host/path`, without a password or a query

        assize.toml:1: unknown setting `colour`

        hint: `assize config show` lists all settings

        assize.toml:1: `gateway` is a group of settings; write it as a table: `[gateway]`

        assize.toml:1: not valid TOML: string values must be quoted, expected literal string

        assize.toml:2: unknown setting `prices.x.cost`

        hint: a price has the fields `input`, `cached_input`, `cache_write`, `output`

        assize.toml:2: unknown setting `prices.input`

        hint: a price has the fields `input`, `cached_input`, `cache_write`, `output`

        assize.toml:2: `openai.api_key` contains a secret key, which is not allowed in a settings file

        hint: put the key into the environment (`export OPENAI_API_KEY=…`) or into a `.env` file that is not committed; to use another variable, set `openai.key_env` to its name

        assize.toml:1: `model` contains a secret key, which is not allowed in a settings file

        hint: put the key into the environment (`export ANTHROPIC_API_KEY=…`) or into a `.env` file that is not committed; to use another variable, set `anthropic.key_env` to its name

        assize.toml:1: `anthropic` is a group of settings; write it as a table: `[anthropic]`

        assize.toml:1: unknown setting `opnai`

        hint: the nearest setting is `openai`
        ");
    }

    #[test]
    fn env_file_values_are_not_expanded() {
        let text = "# keys\nexport A=1\nB = \"two words\" # not here\nC='$(rm -rf /) ${HOME}'\nD=x # comment\nE=\n\nOTHER=\"a\nA=inside\n\"\nnonsense\nF=last\n";
        let ours = |name: &str| name.len() == 1;
        let entries = parse_env(Path::new(".env"), text, &ours).unwrap();
        let values: Vec<_> =
            entries.iter().map(|e| (e.key.as_str(), e.value.as_str(), e.line)).collect();
        assert_eq!(
            values,
            [
                ("A", "1", 2),
                ("B", "two words", 3),
                ("C", "$(rm -rf /) ${HOME}", 4),
                ("D", "x", 5),
                ("E", "", 6),
                ("OTHER", "a\nA=inside\n", 8),
                ("F", "last", 12)
            ]
        );
        let open = |text: &str| parse_env(Path::new(".env"), text, &ours);
        assert_eq!(open("A=\"open").unwrap_err().render(), ".env:1: unclosed quote");
        assert!(open("THEIRS=\"open").unwrap().is_empty());
        let after = open("THEIRS=\"open\nA=1").unwrap();
        assert_eq!((after[0].key.as_str(), after[0].line, after.len()), ("A", 2, 1));
    }

    proptest! {
        #[test]
        fn settings_and_env_parsers_do_not_panic_on_arbitrary_text(text in "(?s).{0,200}") {
            let _ = parse(Path::new("assize.toml"), &text);
            let _ = parse_env(Path::new(".env"), &text, &|_| true);
        }

        #[test]
        fn settings_parser_does_not_panic_on_arbitrary_toml(
            lines in prop::collection::vec("(\\[?\\[?(prices|groq|gateway|a)(\\.\"?[a-z.]{0,5}\"?)?\\]?\\]?|(model|input|retries|x\\.y) = (\"[a-z]{0,3}\"|[0-9]{1,3}|\\{a = 1\\}|\\[1\\]|true))", 0..8)
        ) {
            let _ = parse(Path::new("assize.toml"), &lines.join("\n"));
        }
    }
}
