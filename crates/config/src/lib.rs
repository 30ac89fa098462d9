//! Where every setting comes from: flags, environment, the project's files, the user's, defaults.

pub mod file;
mod isolation;
mod limits;
mod price;
mod provider;
mod review;
mod servers;
pub mod settings;
pub mod trust;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use assize_types::{Failure, FailureKind};

use self::file::{Entry, parse, parse_env, read_text, short};
use self::settings::{Guard, PRICE_FIELDS, Setting, parse_size};
use self::trust::{Trust, TrustStore};

pub use isolation::{Isolation, UnknownIsolation, Wanted};
pub use limits::{LEAST_MEMORY, Limits};
pub use price::{Price, Rates};
pub use provider::{Provider, Secret, UnknownProvider};
pub use review::Review;
pub use servers::{Address, BadAddress};

/// Where assize looks for what it is told: handed in, so that nothing below reads the process.
#[derive(Debug, Clone)]
pub struct Environment {
    pub environment: BTreeMap<String, String>,
    pub working_folder: PathBuf,
    pub home: PathBuf,
    /// The user's settings file.
    pub user_file: PathBuf,
    /// Where trust is kept.
    pub state_folder: PathBuf,
    /// Where what can be made again is kept.
    pub cache_folder: PathBuf,
    /// Who is told why something takes a while that seldom does.
    pub say: fn(&str),
}

impl Environment {
    /// Environment with these variables and all files in one folder.
    pub fn in_folder(folder: &Path, environment: BTreeMap<String, String>) -> Environment {
        Environment {
            environment,
            working_folder: folder.to_owned(),
            home: folder.to_owned(),
            user_file: folder.join("settings.toml"),
            state_folder: folder.join("state"),
            cache_folder: folder.join("cache"),
            say: |_| {},
        }
    }
}

/// Where a value was set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Flag(&'static str),
    /// Whoever asked for this one trial.
    Request,
    Environment(String),
    EnvFile {
        path: PathBuf,
        variable: String,
    },
    Project {
        path: PathBuf,
        line: usize,
    },
    User {
        path: PathBuf,
        line: usize,
    },
    Default,
}

impl Source {
    /// Whether the project's folder says so, and not the user.
    fn is_the_folders(&self) -> bool {
        matches!(self, Source::Project { .. } | Source::EnvFile { .. })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Flag(flag) => write!(f, "{flag}"),
            Source::Request => f.write_str("the request"),
            Source::Environment(variable) => write!(f, "environment, {variable}"),
            Source::EnvFile { path, variable } => write!(f, "{}, {variable}", path.display()),
            Source::Project { path, line } | Source::User { path, line } => {
                write!(f, "{}:{line}", path.display())
            }
            Source::Default => f.write_str("default"),
        }
    }
}

/// A value that is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value {
    pub text: String,
    pub source: Source,
}

/// A value that a folder sets and may not, as long as it is not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withheld {
    pub key: String,
    pub source: Source,
    /// Whether commands go on without it, with a warning. Others stop.
    pub ignored: bool,
}

/// All settings that are in force.
#[derive(Debug, Clone)]
pub struct Settings {
    pub settings: Vec<Setting>,
    values: BTreeMap<String, Value>,
    pub withheld: Vec<Withheld>,
    /// What the folder's files set that takes trust, whether or not something else overrides it now.
    pub sensitive: Vec<(String, String)>,
    /// Of the folder's files, as they were read.
    pub fingerprint: String,
    /// The folder whose `assize.toml` and `.env` count.
    pub project_folder: PathBuf,
    pub project_file: Option<PathBuf>,
    pub user_file: (PathBuf, bool),
    pub trust: Trust,
    /// Things to tell the user that are no reason to stop.
    pub warnings: Vec<String>,
    environment: BTreeMap<String, String>,
    env_file: Vec<Entry>,
    env_path: PathBuf,
}

impl Settings {
    /// Gathers all settings; `flags` are those of the command line, by key.
    pub fn load(
        around: &Environment,
        flags: &[(String, &'static str, String)],
    ) -> Result<Settings, Failure> {
        let settings = settings::all();
        let project_folder = find_project(around);
        let project_path = project_folder.join("assize.toml");
        let env_path = project_folder.join(".env");
        let project_text = read_text(&project_path)?;
        // A folder of that name is somebody's virtual environment, and no business of ours.
        let env_text = if env_path.is_file() { read_text(&env_path)? } else { None };
        let user_text = read_text(&around.user_file)?;
        let fingerprint = trust::fingerprint([project_text.as_deref(), env_text.as_deref()]);
        let trust = TrustStore::open(&around.state_folder)?.of(&project_folder, &fingerprint);
        let show = |path: &Path| short(path, &around.working_folder);

        let mut config = Settings {
            values: BTreeMap::new(),
            withheld: Vec::new(),
            sensitive: Vec::new(),
            fingerprint,
            project_file: project_text.is_some().then(|| show(&project_path)),
            user_file: (around.user_file.clone(), user_text.is_some()),
            trust,
            warnings: Vec::new(),
            environment: around.environment.clone(),
            env_file: Vec::new(),
            env_path: show(&env_path),
            project_folder,
            settings,
        };
        if let Some(text) = env_text {
            config.env_file = config.read_env_file(&text)?;
        }
        config.warn_of_unknown_variables();
        // From the weakest to the strongest: later ones win.
        for setting in &config.settings {
            if let Some(default) = &setting.default {
                let value = Value { text: default.clone(), source: Source::Default };
                config.values.insert(setting.key.clone(), value);
            }
        }
        if let Some(text) = user_text {
            let path = around.user_file.clone();
            for Entry { key, value, line } in parse(&path, &text, &config.settings)? {
                config.set(key, value, Source::User { path: path.clone(), line });
            }
        }
        if let Some(text) = project_text {
            let path = show(&project_path);
            for Entry { key, value, line } in parse(&path, &text, &config.settings)? {
                config.set_guarded(key, value, Source::Project { path: path.clone(), line });
            }
        }
        config.take_variables()?;
        for (key, flag, value) in flags {
            config.set(key.clone(), value.clone(), Source::Flag(flag));
        }
        Ok(config)
    }

    /// These settings, but for what is asked for one trial. What the operator has set is a ceiling for amounts, and
    /// walls can only be made stronger; what is only a default can be changed.
    pub fn asked_for(&self, wanted: &[(&str, String)]) -> Result<Settings, Failure> {
        let mut config = self.clone();
        for (key, value) in wanted {
            let refused = |why: String| Failure::new(FailureKind::Usage, format!("`{key}` {why}"));
            let setting = self.settings.iter().find(|setting| setting.key == *key);
            let setting = setting.ok_or_else(|| refused("is no setting".to_owned()))?;
            // A provider's name has its own answer, with the nearest one.
            if let Some(complaint) = setting.kind.complaint(value) {
                return Err(refused(complaint));
            }
            let set = self.get(key).filter(|value| value.source != Source::Default);
            let ceiling = setting.ceiling().filter(|_| set.is_none());
            if let Some(why) = set.and_then(|set| setting.refuses(&set.text, value)) {
                return Err(refused(why).hint("whoever runs the server has set it"));
            }
            if let Some((ceiling, most)) = ceiling.and_then(|key| Some((key, self.text(key)?)))
                && let Some(why) = setting.refuses(most, value)
            {
                let hint = format!("the setting `{ceiling}` is the ceiling of requests");
                return Err(refused(why).hint(hint));
            }
            config.set((*key).to_owned(), value.clone(), Source::Request);
        }
        // A default above the ceiling is no way around it.
        for setting in &self.settings {
            let value = config.get(&setting.key).filter(|value| value.source == Source::Default);
            let most = setting.ceiling().and_then(|key| self.text(key));
            if let Some((value, most)) = value.zip(most)
                && setting.refuses(most, &value.text).is_some()
            {
                config.set(setting.key.clone(), most.to_owned(), Source::Default);
            }
        }
        Ok(config)
    }

    /// What was asked for by whoever began this trial, and not by a file or a default.
    pub fn asked(&self, key: &str) -> Option<&str> {
        let value = self.get(key)?;
        let asked = matches!(value.source, Source::Flag(_) | Source::Request);
        asked.then_some(value.text.as_str())
    }

    fn set(&mut self, key: String, mut text: String, source: Source) {
        if key.ends_with(".base_url") {
            text.truncate(text.trim_end_matches('/').len());
        }
        self.values.insert(key, Value { text, source });
    }

    /// Sets a value that the project asks for, unless it may not.
    fn set_guarded(&mut self, key: String, text: String, source: Source) {
        let guard = self.guard(&key);
        let may = match guard {
            Guard::Open => true,
            Guard::Tighten => self.tightens(&key, &text),
            Guard::Trusted | Guard::Choice => false,
        };
        if !may {
            self.sensitive.push((key.clone(), text.clone()));
        }
        // What is so anyway needs nobody's leave, and stays whose it was.
        if self.text(&key) == Some(text.as_str()) {
            return;
        }
        if may || self.trust == Trust::Given {
            self.set(key, text, source);
        } else {
            self.withheld.push(Withheld { key, source, ignored: guard == Guard::Choice });
        }
    }

    /// A wrong price would loosen the budget.
    fn guard(&self, key: &str) -> Guard {
        self.settings.iter().find(|setting| setting.key == key).map_or(Guard::Trusted, |s| s.guard)
    }

    /// Whether a limit stays where it is or comes down.
    fn tightens(&self, key: &str, text: &str) -> bool {
        let Some(setting) = self.settings.iter().find(|setting| setting.key == key) else {
            return false;
        };
        let amount = |text: &str| setting.kind.amount(text);
        match (self.text(key).and_then(amount), amount(text)) {
            (Some(now), Some(new)) => new <= now,
            (None, Some(_)) => true,
            _ => false,
        }
    }

    /// Values from `.env` and from the environment, which wins over it; a setting's own variable
    /// wins over the one that others use too.
    fn take_variables(&mut self) -> Result<(), Failure> {
        let own_last = |setting: &Setting| {
            let names = setting.variables().into_iter().rev();
            names.map(|name| (setting.clone(), name)).collect::<Vec<_>>()
        };
        let variables: Vec<(Setting, String)> = self.settings.iter().flat_map(own_last).collect();
        for (setting, variable) in variables.clone() {
            let entry = self.env_file.iter().rfind(|entry| entry.key == variable);
            if let Some(value) = entry.map(|entry| entry.value.clone()) {
                let source = Source::EnvFile { path: self.env_path.clone(), variable };
                if let Some(value) = checked(&setting, value, &source)? {
                    self.set_guarded(setting.key, value, source);
                }
            }
        }
        for (setting, variable) in variables {
            if let Some(value) = self.environment.get(&variable).cloned() {
                let source = Source::Environment(variable);
                if let Some(value) = checked(&setting, value, &source)? {
                    self.set(setting.key, value, source);
                }
            }
        }
        Ok(())
    }

    /// The variables of `.env`. Where one that may be meant for us is written wrongly, it is told; what
    /// is wrong with the others is not our business.
    fn read_env_file(&self, text: &str) -> Result<Vec<Entry>, Failure> {
        let known: Vec<String> = self.settings.iter().flat_map(Setting::variables).collect();
        let is_ours = |name: &str| {
            name.starts_with("ASSIZE_")
                || name.ends_with("KEY")
                || known.iter().any(|variable| variable == name)
        };
        parse_env(&self.env_path, text, &is_ours)
    }

    fn warn_of_unknown_variables(&mut self) {
        let known: Vec<String> = self.settings.iter().flat_map(Setting::variables).collect();
        let names: Vec<&str> = known.iter().map(String::as_str).collect();
        let variables = self.environment.keys().chain(self.env_file.iter().map(|entry| &entry.key));
        let unknown =
            variables.filter(|v| v.starts_with("ASSIZE_") && !names.contains(&v.as_str()));
        /// A hostile `.env` could name thousands.
        const MOST: usize = 5;
        self.warnings = unknown
            .take(MOST)
            .map(|variable| {
                let provider = Provider::ALL.into_iter().find(|provider| {
                    variable.starts_with(&format!("ASSIZE_{}", provider.name().to_uppercase()))
                });
                match (provider, settings::nearest(variable, names.iter().copied())) {
                    (Some(provider), _) if variable.ends_with("KEY") => {
                        let right = provider.key_variable();
                        format!("`{variable}` sets nothing; the key belongs into `{right}`")
                    }
                    (_, Some(near)) => format!("`{variable}` sets nothing; did you mean `{near}`?"),
                    (_, None) => format!("`{variable}` sets nothing"),
                }
            })
            .collect();
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).map(|value| value.text.as_str())
    }

    /// A whole number; every value was checked when it was read.
    pub fn whole(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse().ok()
    }

    /// A size, in bytes.
    pub fn size(&self, key: &str) -> Option<u64> {
        self.text(key).and_then(parse_size)
    }

    pub fn decimal(&self, key: &str) -> Option<f64> {
        self.text(key)?.parse().ok()
    }

    /// The key of a provider, and where it is or should be.
    pub fn key(&self, provider: Provider) -> (Option<Secret>, Source) {
        let variable =
            self.text(&format!("{provider}.key_env")).unwrap_or(provider.key_variable()).to_owned();
        let from_file = self.env_file.iter().rfind(|entry| entry.key == variable);
        match (self.environment.get(&variable).filter(|key| !key.is_empty()), from_file) {
            (Some(key), _) => (Some(Secret::new(key.trim())), Source::Environment(variable)),
            (None, Some(entry)) if !entry.value.is_empty() => {
                let source = Source::EnvFile { path: self.env_path.clone(), variable };
                (Some(Secret::new(entry.value.trim())), source)
            }
            _ => (None, Source::Environment(variable)),
        }
    }

    /// Whether a value was set by a folder that is not trusted.
    pub fn is_foreign(&self, source: &Source) -> bool {
        self.trust != Trust::Given && source.is_the_folders()
    }

    /// Warning that the key of a provider comes from a folder that is not trusted.
    pub fn warn_of_foreign_key(&self, provider: Provider) -> Option<String> {
        let (_, key) = self.key(provider);
        self.is_foreign(&key).then(|| {
            format!(
                "asking {provider}: the key is from {key}, in a folder that is not trusted (`assize config trust` \
                 says that it is)"
            )
        })
    }

    /// Warning that a folder which is not trusted chooses a provider or a model, in vain; unless the user has chosen
    /// for this command.
    pub fn warn_of_ignored_choice(&self) -> Option<String> {
        let chosen = |key: &str| {
            let source = self.get(key).map(|value| &value.source);
            matches!(source, Some(Source::Flag(_) | Source::Request | Source::Environment(_)))
        };
        let in_force = |key: &str| chosen(key) || (key.ends_with(".model") && chosen("model"));
        let ignored = self.withheld.iter().filter(|one| one.ignored && !in_force(&one.key));
        let ignored: Vec<String> =
            ignored.map(|one| format!("`{}` ({})", one.key, one.source)).collect();
        let is = match ignored.len() {
            0 => return None,
            1 => "is",
            _ => "are",
        };
        Some(format!(
            "{} {is} ignored: {}; choose with `--provider` and `--model`, or read the file and allow it with \
             `assize config trust`",
            ignored.join(", "),
            self.trust.why_not()
        ))
    }

    /// What the user says a model costs.
    pub fn price(&self, model: &str) -> Result<Option<Price>, Failure> {
        let field = |name: &str| self.decimal(&format!("prices.{model}.{name}"));
        let [input, cached, write, output] = PRICE_FIELDS.map(field);
        match (input, output) {
            (None, None) => Ok(None),
            (Some(input), Some(output)) => {
                Ok(Price::flat(input, cached.unwrap_or(input), write.unwrap_or(input), output))
            }
            _ => Err(Failure::new(
                FailureKind::Settings,
                format!("the price of `{model}` needs both `input` and `output`"),
            )),
        }
    }

    /// Values of keys that only the user's files name, such as prices.
    pub fn extra(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.values.iter().filter(|(key, _)| key.starts_with("prices."))
    }

    /// Stops where the project asks for something that it may not have: to go on without it could
    /// do something else than its author, or its user, had in mind.
    pub fn refuse_withheld(&self) -> Result<(), Failure> {
        let mut stopping = self.withheld.iter().filter(|withheld| !withheld.ignored);
        let Some(first) = stopping.next() else {
            return Ok(());
        };
        let more = match stopping.count() {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let why = self.trust.why_not();
        let message = format!("{}: `{}`{more} is set, and {why}", first.source, first.key);
        Err(Failure::new(FailureKind::Settings, message).hint(
            "such settings say where your keys and prompts go, what may be spent, or what may be done to your \
             files: read the file, then allow them with `assize config trust`",
        ))
    }
}

/// The value of a variable for a setting; `None` if it is empty, which is as good as not set.
fn checked(setting: &Setting, value: String, source: &Source) -> Result<Option<String>, Failure> {
    if value.is_empty() {
        return Ok(None);
    }
    let value = if setting.key == "ollama.base_url" { ollama_address(&value) } else { value };
    match setting.kind.complaint(&value) {
        Some(complaint) => {
            Err(Failure::new(FailureKind::Settings, format!("{source}: {complaint}")))
        }
        None => Ok(Some(value)),
    }
}

/// The folder of the nearest `assize.toml`, from the working folder up to the repository's root or
/// the user's home; the working folder if there is none.
fn find_project(around: &Environment) -> PathBuf {
    for folder in around.working_folder.ancestors() {
        if folder.join("assize.toml").exists() {
            return folder.to_owned();
        }
        if folder.join(".git").exists() || folder == around.home {
            break;
        }
    }
    around.working_folder.clone()
}

/// Ollama's own variable may hold a host, a port, or both, without a scheme; and the address that
/// it listens on, which is not always one that can be called.
fn ollama_address(value: &str) -> String {
    let (scheme, rest) = value.split_once("://").unwrap_or(("http", value));
    let rest = rest.trim_end_matches('/');
    let rest = if rest.starts_with(':') { format!("127.0.0.1{rest}") } else { rest.to_owned() };
    let has_port = rest.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty()
            && port.parse::<u16>().is_ok()
            && (!host.contains(':') || host.ends_with(']'))
    });
    let rest = if has_port || scheme != "http" || rest.contains('/') {
        rest
    } else {
        format!("{rest}:11434")
    };
    let rest = rest.replacen("0.0.0.0", "127.0.0.1", 1);
    format!("{scheme}://{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ollamas_own_variable_is_read_in_every_form() {
        for (written, address) in [
            ("127.0.0.1", "http://127.0.0.1:11434"),
            ("0.0.0.0:8000", "http://127.0.0.1:8000"),
            (":9000", "http://127.0.0.1:9000"),
            ("http://box:11434/", "http://box:11434"),
            ("https://ollama.example", "https://ollama.example"),
            ("[::1]:1234", "http://[::1]:1234"),
            ("http://box/ollama", "http://box/ollama"),
        ] {
            assert_eq!(ollama_address(written), address, "{written}");
        }
    }
}
