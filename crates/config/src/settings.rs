//! Every setting there is: its key, what values it takes, where else it can be set, and whether a
//! folder that is not trusted may set it.

use std::fmt;

use url::Url;

use crate::{Address, Provider, Review, Wanted};

/// One setting.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Dotted, as in the file: `anthropic.model`.
    pub key: String,
    pub kind: Kind,
    pub default: Option<String>,
    /// The environment variable beside `ASSIZE_…` that by convention sets it, too.
    pub convention: Option<&'static str>,
    pub guard: Guard,
    pub about: &'static str,
}

/// What values a setting takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    Text,
    Choice(Vec<&'static str>),
    Whole {
        least: u64,
        most: u64,
    },
    Decimal {
        least: f64,
        most: f64,
    },
    /// Bytes, with a unit: `256M`.
    Size {
        least: u64,
        most: u64,
    },
    Url,
    /// The name of an environment variable.
    Variable,
    /// A backend of sandboxes, or a floor: `jail`, `at-least=docker`.
    Isolation,
    /// The NATS servers of a cluster.
    Servers,
}

/// The bytes that are meant by `512K`, `256M` or `1G`, with or without a `B` after it.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.strip_suffix(['B', 'b']).unwrap_or(text);
    let split = text.len().checked_sub(1).filter(|split| text.is_char_boundary(*split))?;
    let (number, unit) = text.split_at(split);
    let shift = match unit {
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Bytes as people read them, in the unit that has no rest.
pub fn show_size(bytes: u64) -> String {
    let unit = [(30, "G"), (20, "M"), (10, "K")]
        .into_iter()
        .find(|(shift, _)| bytes >= 1 << shift && bytes.is_multiple_of(1 << shift));
    match unit {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => format!("{bytes} bytes"),
    }
}

/// Who may set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// Anyone.
    Open,
    /// Anyone, as long as it brings a limit down.
    Tighten,
    /// The user, and folders that the user trusts: it says where keys and prompts go, or how much
    /// may be spent.
    Trusted,
    /// The same, for the choice of provider and model: what another folder sets is ignored with a warning.
    Choice,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Text => f.write_str("a text"),
            Kind::Choice(choices) => write!(f, "one of `{}`", choices.join("`, `")),
            Kind::Whole { least, most: u64::MAX } => {
                write!(f, "a whole number of at least {least}")
            }
            Kind::Whole { least, most } => write!(f, "a whole number from {least} to {most}"),
            Kind::Decimal { least, most } => write!(f, "a number from {least} to {most}"),
            Kind::Size { least, most } => {
                write!(f, "a size from {} to {}", show_size(*least), show_size(*most))
            }
            Kind::Url => {
                f.write_str("an address such as `https://host/path`, without a password or a query")
            }
            Kind::Variable => f.write_str("the name of an environment variable"),
            Kind::Isolation => f.write_str("jail, docker, microvm, at-least=NAME or auto"),
            Kind::Servers => f.write_str("servers such as `nats://one,two:4223,three`"),
        }
    }
}

impl Kind {
    /// What is wrong with a value, without repeating what should not be shown.
    pub fn complaint(&self, value: &str) -> Option<String> {
        if looks_like_a_key(value) {
            return Some("holds a key, and is no place for one".to_owned());
        }
        if value.chars().any(char::is_control) {
            return Some("has control characters in it".to_owned());
        }
        if self.accepts(value) {
            return None;
        }
        // A wrong address may have a password in it.
        Some(match self {
            Kind::Url | Kind::Variable | Kind::Servers => format!("wants {self}"),
            _ => format!("wants {self}, not `{value}`"),
        })
    }

    /// How much a value means, where it means an amount.
    pub fn amount(&self, value: &str) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "only compared")]
            Kind::Size { .. } => parse_size(value).map(|bytes| bytes as f64),
            Kind::Whole { .. } | Kind::Decimal { .. } => value.parse().ok(),
            _ => None,
        }
    }

    /// Whether a value, written as text, is of this kind.
    fn accepts(&self, value: &str) -> bool {
        match self {
            Kind::Text => !value.is_empty(),
            Kind::Choice(choices) => choices.contains(&value),
            Kind::Whole { least, most } => {
                value.parse::<u64>().is_ok_and(|number| (*least..=*most).contains(&number))
            }
            Kind::Decimal { least, most } => {
                value.parse::<f64>().is_ok_and(|number| (*least..=*most).contains(&number))
            }
            Kind::Size { least, most } => {
                parse_size(value).is_some_and(|bytes| (*least..=*most).contains(&bytes))
            }
            Kind::Url => {
                let rest = value.strip_prefix("https://").or_else(|| value.strip_prefix("http://"));
                let bare = |rest: &str| {
                    !rest.contains(['?', '#', '@']) && !rest.contains(char::is_whitespace)
                };
                let there = |rest: &str| !rest.is_empty() && !rest.starts_with('/') && bare(rest);
                rest.is_some_and(there)
                    && Url::parse(value).is_ok_and(|url| url.host_str().is_some())
            }
            Kind::Variable => {
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
                value.chars().all(plain)
                    && value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            }
            Kind::Isolation => value.parse::<Wanted>().is_ok(),
            Kind::Servers => value.parse::<Address>().is_ok(),
        }
    }
}

/// The beginnings of the keys that our providers and others give out.
pub fn looks_like_a_key(value: &str) -> bool {
    const STARTS: [&str; 5] = ["sk-", "gsk_", "AIza", "ghp_", "xai-"];
    value.len() >= 16 && STARTS.iter().any(|start| value.starts_with(start))
}

impl Setting {
    /// The environment variables that set it, in order.
    pub fn variables(&self) -> Vec<String> {
        let own = format!("ASSIZE_{}", self.key.replace('.', "_").to_uppercase());
        [Some(own), self.convention.map(str::to_owned)].into_iter().flatten().collect()
    }

    /// The setting that is the ceiling of what requests can ask for, where the operator has not set this one.
    pub fn ceiling(&self) -> Option<&'static str> {
        match self.key.as_str() {
            "sandbox.memory" => Some("serve.max_memory"),
            "sandbox.disk" => Some("serve.max_disk"),
            "sandbox.timeout_seconds" => Some("serve.max_timeout_seconds"),
            _ => None,
        }
    }

    /// Why nobody may ask for this where that is set.
    pub(super) fn refuses(&self, set: &str, wanted: &str) -> Option<String> {
        if self.key == "sandbox.isolation" {
            let floor = |text: &str| text.parse::<Wanted>().ok().map(Wanted::floor);
            let weaker = floor(wanted) < floor(set);
            return weaker.then(|| format!("has to be as strong as {set} here"));
        }
        // What the gate asks for is never less: a person can look where none would have had to, and that is all.
        if matches!(self.key.as_str(), "draft.review" | "draft.verify") {
            let more = self.key == "draft.review" && (set, wanted) == ("escalated", "always");
            return (wanted != set && !more).then(|| format!("is {set} here"));
        }
        let (most, amount) = (self.kind.amount(set)?, self.kind.amount(wanted)?);
        (self.guard != Guard::Open && amount > most).then(|| format!("can be {set} at most here"))
    }

    fn tighten(mut self) -> Setting {
        self.guard = Guard::Tighten;
        self
    }

    fn new(key: impl Into<String>, kind: Kind, about: &'static str) -> Setting {
        Setting {
            key: key.into(),
            kind,
            default: None,
            convention: None,
            guard: Guard::Open,
            about,
        }
    }

    fn default(mut self, value: impl Into<String>) -> Setting {
        self.default = Some(value.into());
        self
    }

    fn trusted(mut self) -> Setting {
        self.guard = Guard::Trusted;
        self
    }

    fn choice(mut self) -> Setting {
        self.guard = Guard::Choice;
        self
    }

    fn convention(mut self, variable: &'static str) -> Setting {
        self.convention = Some(variable);
        self
    }
}

/// The name of the rehearsal model where a provider is named.
pub const REHEARSAL: &str = "rehearsal";

/// What programs may ask for unless the settings say otherwise: computing, drawing and reading files,
/// and nothing that needs a network.
pub const ALLOWED_PACKAGES: &str = "numpy pandas matplotlib scipy sympy scikit-learn statsmodels seaborn networkx \
    pillow mpmath polars pyarrow openpyxl tabulate python-dateutil pytz pyyaml lxml beautifulsoup4 regex \
    six attrs more-itertools sortedcontainers markupsafe jinja2 pydantic shapely tqdm rich";

/// All settings, in the order in which they are shown.
pub fn all() -> Vec<Setting> {
    let whole = |least, most| Kind::Whole { least, most };
    let decimal = |least, most| Kind::Decimal { least, most };
    let size = |least, most| Kind::Size { least, most };
    let providers: Vec<&str> = Provider::ALL.iter().map(|p| p.name()).chain([REHEARSAL]).collect();
    let mut settings = vec![
        Setting::new(
            "provider",
            Kind::Choice(providers),
            "who is asked; chosen by the keys at hand if not set",
        )
        .choice(),
        Setting::new("model", Kind::Text, "the model of the provider that is used").choice(),
        Setting::new("temperature", decimal(0.0, 2.0), "how freely a model answers").default("0.7"),
        Setting::new("max_output_tokens", whole(1, 1_000_000), "the longest answer")
            .default("4096")
            .tighten(),
        Setting::new("budget.max_cost", decimal(0.0, 1e9), "the most dollars a run may cost")
            .trusted(),
        Setting::new("budget.max_tokens", whole(1, u64::MAX), "the most tokens a run may take")
            .trusted(),
        Setting::new("gateway.retries", whole(0, 20), "how often a failed call is repeated")
            .default("3")
            .tighten(),
        Setting::new(
            "gateway.timeout_seconds",
            whole(1, 86_400),
            "how long one attempt may take; of a stream, how long it may be silent",
        )
        .default("120")
        .trusted(),
        Setting::new(
            "gateway.deadline_seconds",
            whole(1, 864_000),
            "how long a call may take, repetitions included; an answer still coming in is not ended",
        )
        .default("600")
        .tighten(),
        Setting::new(
            "store.path",
            Kind::Text,
            "the file that keeps runs; `store.db` in your state folder if not set",
        )
        .trusted(),
        Setting::new(
            "store.durability",
            Kind::Choice(vec!["process-crash", "power-loss"]),
            "what a finished call survives: a crash or kill of assize; or a power cut, too, which \
             waits for the disk at every step",
        )
        .default("process-crash")
        .trusted(),
        Setting::new(
            "sandbox.isolation",
            Kind::Isolation,
            "the walls around code: jail, docker, microvm, at-least=NAME or auto",
        )
        .default("auto")
        .trusted(),
        Setting::new("sandbox.memory", size(16 << 20, 1 << 40), "memory of a sandbox")
            .default("256M")
            .tighten(),
        Setting::new("sandbox.cpus", decimal(0.01, 1024.0), "processors of a sandbox")
            .default("0.5")
            .tighten(),
        Setting::new("sandbox.timeout_seconds", decimal(0.001, 864_000.0), "how long code may run")
            .default("30")
            .tighten(),
        Setting::new("sandbox.processes", whole(2, 100_000), "processes and threads of a sandbox")
            .default("128")
            .tighten(),
        Setting::new("sandbox.output", size(1 << 10, 1 << 40), "what is kept of each output")
            .default("8M")
            .tighten(),
        Setting::new("sandbox.disk", size(64 << 10, 1 << 40), "files that code can write")
            .default("64M")
            .tighten(),
        Setting::new("sandbox.pool", whole(0, 1000), "idle sandboxes that a warm pool keeps")
            .default("5")
            .tighten(),
        Setting::new(
            "sandbox.pool_idle_seconds",
            whole(1, 864_000),
            "a warm pool without requests for so long ends its idle sandboxes",
        )
        .default("300")
        .tighten(),
        Setting::new(
            "docker.host",
            Kind::Text,
            "the socket of Docker or Podman, or `tcp://…`; the usual ones if not set",
        )
        .convention("DOCKER_HOST")
        .trusted(),
        Setting::new(
            "sandbox.python",
            Kind::Text,
            "the Python of a jail; the first in PATH if not set",
        )
        .trusted(),
        Setting::new(
            "sandbox.bash",
            Kind::Text,
            "the Bash of a jail; the first in PATH if not set",
        )
        .trusted(),
        Setting::new(
            "sandbox.node",
            Kind::Text,
            "the Node.js of a jail; the first in PATH if not set",
        )
        .trusted(),
        Setting::new(
            "packages.allow",
            Kind::Text,
            "packages that generated programs may ask for, by name; `+NAME` adds to these, `none` allows none",
        )
        .default(ALLOWED_PACKAGES)
        .trusted(),
        Setting::new(
            "packages.wheels",
            Kind::Text,
            "a folder of wheels that they are taken from; the index that pip knows if not set",
        )
        .trusted(),
        Setting::new(
            "packages.pip",
            Kind::Text,
            "what fetches them, such as `/usr/bin/python3 -m pip`; the pip of the jail's Python if not set",
        )
        .trusted(),
        Setting::new(
            "edgar.contact",
            Kind::Text,
            "who asks the SEC, by name and address, as it wants to know; nobody asks if not set",
        )
        .trusted(),
        Setting::new("edgar.base_url", Kind::Url, "a server in place of the SEC's own").trusted(),
        Setting::new(
            "edgar.folder",
            Kind::Text,
            "where the SEC's answers are kept, or were put; the cache folder if not set",
        )
        .trusted(),
        Setting::new("consult.memory", size(16 << 20, 1 << 40), "memory of the sandbox of a debate")
            .default("2048M")
            .tighten(),
        Setting::new("consult.region", Kind::Text, "region of the workers that run debates (needs a cluster)"),
        Setting::new(
            "consult.ask_above",
            decimal(0.0, 1e9),
            "dollars that a consultation may take without being asked about",
        )
        .default("1")
        .trusted(),
        Setting::new(
            "draft.review",
            Kind::Choice(Review::NAMES.to_vec()),
            "when a person looks before a draft is applied; `never` rejects what the gate doubts",
        )
        .default("escalated")
        .trusted(),
        Setting::new("draft.max_lines", whole(1, 1_000_000), "lines that a draft may add and remove")
            .default("500")
            .tighten(),
        Setting::new("draft.max_files", whole(1, 10_000), "files that a task may change")
            .default("20")
            .tighten(),
        Setting::new(
            "draft.max_deletion",
            decimal(0.0, 1.0),
            "the share of a file that may go with nothing in its place",
        )
        .default("0.5")
        .tighten(),
        Setting::new("draft.max_bytes", size(1 << 10, 1 << 26), "the largest file and draft")
            .default("1M")
            .tighten(),
        Setting::new(
            "draft.readable",
            Kind::Text,
            "files that workers may read although they look like secrets, such as `.env.example, certs/*.pem`",
        )
        .trusted(),
        Setting::new(
            "draft.protected",
            Kind::Text,
            "files that only a person may let be changed, besides hooks, CI, lock files and the like",
        )
        .trusted(),
        Setting::new(
            "serve.starts_per_minute",
            whole(1, 1_000_000),
            "trials that can be begun in a minute at the server's door",
        )
        .default("60")
        .trusted(),
        Setting::new("serve.most_running", whole(1, 10_000), "trials that the server holds at once")
            .default("16")
            .trusted(),
        Setting::new(
            "serve.max_memory",
            size(16 << 20, 1 << 40),
            "the most memory that a request can ask for, where `sandbox.memory` is not set",
        )
        .default("4G")
        .trusted(),
        Setting::new(
            "serve.max_disk",
            size(64 << 10, 1 << 40),
            "the most disk space that a request can ask for, where `sandbox.disk` is not set",
        )
        .default("4G")
        .trusted(),
        Setting::new(
            "serve.max_timeout_seconds",
            decimal(0.001, 864_000.0),
            "the longest time limit that a request can ask for, where `sandbox.timeout_seconds` is not set",
        )
        .default("3600")
        .trusted(),
        Setting::new("serve.longest_request", size(1 << 10, 1 << 30), "the most that is read of one request")
            .default("32M")
            .trusted(),
        Setting::new(
            "cluster.servers",
            Kind::Servers,
            "the NATS servers that keep runs and work for all machines, such as `nats://a,b,c`; without them all \
             is done here",
        )
        .trusted(),
        Setting::new("cluster.name", Kind::Text, "what the cluster is called on its servers")
            .default("assize")
            .trusted(),
        Setting::new(
            "cluster.replicas",
            whole(1, 5),
            "on how many servers everything is kept; 3 where three or more are named, else 1",
        )
        .trusted(),
        Setting::new(
            "cluster.lease_seconds",
            whole(2, 600),
            "seconds of silence after which a worker loses its jobs; the same on all nodes",
        )
        .default("6")
        .trusted(),
        Setting::new(
            "cluster.needs",
            Kind::Text,
            "labels that a worker must have to do what is asked for here, such as `disk=fast, site=north`",
        )
        .trusted(),
        Setting::new("cluster.credentials_file", Kind::Text, "a file of NATS credentials").trusted(),
        Setting::new("cluster.user", Kind::Text, "who we are to the servers").trusted(),
        Setting::new("cluster.password_env", Kind::Variable, "the environment variable with the password")
            .default("NATS_PASSWORD")
            .trusted(),
        Setting::new("cluster.token_env", Kind::Variable, "the environment variable with a token, in place of both")
            .default("NATS_TOKEN")
            .trusted(),
        Setting::new("cluster.ca_file", Kind::Text, "who vouches for the servers, in PEM").trusted(),
        Setting::new("cluster.cert_file", Kind::Text, "our own certificate, in PEM").trusted(),
        Setting::new("cluster.cert_key_file", Kind::Text, "and its key").trusted(),
        Setting::new("draft.keep_days", whole(1, 36_500), "how long what is settled can be undone")
            .default("30")
            .trusted(),
        Setting::new(
            "draft.verify",
            Kind::Text,
            "a command that must pass before a draft is accepted, in a sandbox",
        )
        .trusted(),
        Setting::new("draft.verify_memory", size(16 << 20, 1 << 40), "memory that it may ask for")
            .default("2G")
            .tighten(),
        Setting::new("draft.verify_seconds", whole(1, 86_400), "seconds that it may ask for")
            .default("600")
            .tighten(),
        Setting::new(
            "draft.verify_python",
            Kind::Text,
            "virtual environment for the verification, such as .venv (default: the active one)",
        )
        .trusted(),
        Setting::new(
            "draft.verify_layers",
            Kind::Text,
            "folders of this machine that it may see, such as a toolchain",
        )
        .trusted(),
        Setting::new("rehearsal.seed", whole(0, u64::MAX), "another seed gives other answers")
            .default("0"),
        Setting::new("rehearsal.latency_ms", whole(0, 600_000), "how long an answer takes")
            .default("0"),
        Setting::new(
            "rehearsal.fault_rate",
            decimal(0.0, 1.0),
            "which share of the attempts fails",
        )
        .default("0"),
        Setting::new(
            "log.level",
            Kind::Choice(vec!["error", "warn", "info", "debug", "trace"]),
            "what is logged; `trace` shows prompts",
        )
        .default("warn")
        .trusted(),
        Setting::new("log.format", Kind::Choice(vec!["text", "json"]), "how it is logged")
            .default("text"),
    ];
    for provider in Provider::ALL {
        let key = |name: &str| format!("{provider}.{name}");
        settings.extend([
            Setting::new(key("model"), Kind::Text, "the model")
                .default(provider.default_model())
                .choice(),
            Setting::new(key("base_url"), Kind::Url, "the address")
                .default(provider.default_base_url())
                .convention(provider.base_url_variable())
                .trusted(),
            Setting::new(
                key("key_env"),
                Kind::Variable,
                "the environment variable that holds the key",
            )
            .default(provider.key_variable())
            .trusted(),
            Setting::new(
                key("context_window"),
                whole(1024, 100_000_000),
                "context window in tokens; known for most models, and reported by most local servers",
            ),
            Setting::new(
                key("concurrency"),
                whole(1, 10_000),
                "calls at once; on a local server by default what it offers (Ollama: 1)",
            )
                .default("16")
                .tighten(),
            Setting::new(key("requests_per_minute"), whole(1, u64::MAX), "calls a minute")
                .tighten(),
            Setting::new(key("tokens_per_minute"), whole(1, u64::MAX), "tokens a minute").tighten(),
        ]);
    }
    settings
}

/// The fields of a price, in dollars for a million tokens: `[prices."my-model"]`.
pub const PRICE_FIELDS: [&str; 4] = ["input", "cached_input", "cache_write", "output"];

/// The known key that is nearest to a wrong one, if any is near.
pub fn nearest<'k>(wrong: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // Nobody mistypes that much, and the comparison would take its time.
    if wrong.len() > 80 {
        return None;
    }
    known
        .into_iter()
        .map(|key| (strsim::damerau_levenshtein(wrong, key), key))
        .min()
        .filter(|(distance, key)| *distance <= 2.max(key.len() / 3))
        .map(|(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_variables_are_unique_and_defaults_valid() {
        let settings = all();
        let mut names: Vec<String> = settings.iter().map(|s| s.key.clone()).collect();
        names.extend(settings.iter().flat_map(Setting::variables));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for setting in settings {
            assert!(
                setting.default.iter().all(|value| setting.kind.complaint(value).is_none()),
                "{}",
                setting.key
            );
        }
    }

    #[test]
    fn sizes_have_a_unit() {
        let sizes = ["256M", "1GB", "64k", "0K"].map(parse_size);
        assert_eq!(sizes, [Some(256 << 20), Some(1 << 30), Some(64 << 10), Some(0)]);
        for wrong in ["", "M", "12", "1.5G", "-1M", "1T", "99999999999999G", "ä", "1é"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
        assert_eq!(
            [256 << 20, 1 << 30, 1500, 65 << 10].map(show_size),
            ["256M", "1G", "1500 bytes", "65K"]
        );
    }

    #[test]
    fn a_near_miss_is_recognised() {
        let keys = ["anthropic.model", "anthropic.base_url", "model"];
        assert_eq!(nearest("antropic.modle", keys), Some("anthropic.model"));
        assert_eq!(nearest("modle", keys), Some("model"));
        assert_eq!(nearest("colour", keys), None);
    }
}
