//! Choice of models: the provider by flag, setting, key or presence, and the gateway to it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use assize_config::{GatewaySettings, Provider, ProviderName, REHEARSAL, Settings, Source};
use assize_llm::{Caps, Ledger, MemoryLedger};
use assize_types::text::harmless;
use assize_types::{Failure, FailureKind, Reporter};
use parking_lot::Mutex;

use crate::{
    Asked, Cassette, CassetteMode, Endpoint, Event, Gateway, HttpClient, Limits, ModelFacts,
    Options, Pace, Pacer, Rehearsal, RetryPolicy, Script, discover, probe,
};

/// How long a local Ollama may take to say that it is there.
const OLLAMA_PATIENCE: Duration = Duration::from_secs(2);

/// How long a local server may take to describe itself.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(2);

/// Who is asked, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    Provider { provider: Provider, why: String },
    Rehearsal { why: String },
}

/// Steps by which a provider is chosen, in order: the first that names one decides.
pub const ORDER: [&str; 5] = [
    "--provider",
    "the setting `provider`",
    "a key for anthropic, openai, google, groq or openrouter in that order",
    "an Ollama that answers",
    "the rehearsal model",
];

/// Chooses by what is known without asking anyone; `None` if it depends on whether Ollama answers.
pub fn from_settings(config: &Settings) -> Option<Choice> {
    if let Some(name) = *config.general.provider {
        let why = match config.general.provider.source() {
            Source::Flag(flag) => format!("asked for by `{flag}`"),
            source => format!("set by {source}"),
        };
        return Some(match name {
            ProviderName::Rehearsal => Choice::Rehearsal { why },
            ProviderName::Provider(provider) => Choice::Provider { provider, why },
        });
    }
    let keyed = Provider::ALL.into_iter().filter(|provider| provider.needs_key());
    let mut keyed: Vec<(Provider, Source)> = keyed
        .filter_map(|provider| match config.key(provider) {
            (Some(_), source) => Some((provider, source)),
            (None, _) => None,
        })
        .collect();
    // The sort is stable: keys of the user go first, in their order.
    keyed.sort_by_key(|(_, source)| config.is_foreign(source));
    keyed.into_iter().next().map(|(provider, source)| Choice::Provider {
        provider,
        why: format!("its key is at hand ({source})"),
    })
}

/// Chooses, asking for a local Ollama if it comes to that.
pub async fn choose(config: &Settings) -> Result<Choice, Failure> {
    if let Some(choice) = from_settings(config) {
        return Ok(choice);
    }
    let ollama = endpoint(config, Provider::Ollama);
    let answers = probe(&HttpClient::new(), &ollama, OLLAMA_PATIENCE).await.is_ok();
    if answers {
        let why = format!("no key is at hand, and it answers at {}", ollama.base_url);
        return Ok(Choice::Provider { provider: Provider::Ollama, why });
    }
    // Whoever names a model wants that one.
    if let Some(model) = &*config.general.model {
        let source = config.general.model.source();
        let message = format!("there is no provider to ask for the model `{model}` ({source})");
        return Err(Failure::new(FailureKind::Settings, message).hint(
            "name one with `--provider`, or set its key; `assize doctor` shows what is configured",
        ));
    }
    Ok(Choice::Rehearsal { why: "no key is at hand, and no Ollama answers".to_owned() })
}

/// Where and as what a provider is asked, by the settings.
pub fn endpoint(config: &Settings, provider: Provider) -> Endpoint {
    let (key, source) = config.key(provider);
    let own = config.provider_settings(provider);
    Endpoint {
        provider,
        model: own.model.to_string(),
        base_url: own.base_url.to_string(),
        key,
        key_source: match source {
            Source::Environment(variable) => variable,
            other => other.to_string(),
        },
        context_window: *own.context_window,
    }
}

/// Calls on a tape, instead of or besides asking anyone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Tape {
    #[default]
    None,
    /// Every call is recorded; what is on it already is not asked again.
    Record(PathBuf),
    /// It alone answers.
    Replay(PathBuf),
}

impl Tape {
    /// Whether answers come in whoever's name they were recorded.
    pub fn replays(&self) -> bool {
        matches!(self, Tape::Replay(_))
    }
}

/// What may be spent, by the settings.
pub fn caps(config: &Settings) -> Caps {
    Caps { cost: *config.budget.max_cost, tokens: *config.budget.max_tokens }
}

/// The models of a process: chosen by the settings, and reached through gateways.
#[derive(Clone)]
pub struct Providers {
    pub settings: Arc<Settings>,
    pub tape: Tape,
    pub reporter: Arc<dyn Reporter>,
    pub pacers: Pacers,
    /// What the rehearsal model knows by heart.
    pub script: Option<Script>,
    /// Nothing is sent, only estimated: no key is needed.
    pub estimate_only: bool,
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Providers").field("tape", &self.tape).finish_non_exhaustive()
    }
}

impl Providers {
    /// The gateway to the model that the settings ask for.
    pub async fn gateway(&self, ledger: Arc<dyn Ledger>) -> Result<Gateway, Failure> {
        self.gateways(ledger, &BTreeMap::new()).await.map(|(gateway, _)| gateway)
    }

    /// The gateway for calls of no run: the budget of the settings is theirs alone.
    pub async fn gateway_of_no_run(&self) -> Result<Gateway, Failure> {
        self.gateway(Arc::new(MemoryLedger::new(caps(&self.settings)))).await
    }

    /// The same, and one to another model of the same provider for each of some roles. All share one ledger and one
    /// pacer.
    pub async fn gateways(
        &self,
        ledger: Arc<dyn Ledger>,
        roles: &BTreeMap<String, String>,
    ) -> Result<(Gateway, BTreeMap<String, Gateway>), Failure> {
        let settings = &self.settings;
        settings.refuse_withheld()?;
        let mut options = self.options(ledger);
        if let Tape::Replay(path) = &self.tape {
            let cassette = Arc::new(Cassette::open(path, CassetteMode::Replay)?);
            let provider = settings.general.provider.requested().copied().flatten();
            let to = |model: Option<String>| {
                let asked = Asked { provider: provider.map(|name| name.to_string()), model };
                Gateway::to_cassette(cassette.clone(), asked, options.clone())
            };
            let others = roles.iter().map(|(role, model)| (role.clone(), to(Some(model.clone()))));
            let model = settings.general.model.requested().cloned().flatten();
            return Ok((to(model), others.collect()));
        }
        if let Tape::Record(path) = &self.tape {
            options.cassette = Some(Arc::new(Cassette::open(path, CassetteMode::Record)?));
        }
        if let Some(warning) = settings.warn_of_ignored_choice() {
            self.reporter.warn(&warning);
        }
        match choose(settings).await? {
            Choice::Rehearsal { .. } => {
                // Nobody has to be spared.
                options.pacer = Pacer::new(Limits { concurrency: 1000, ..Limits::default() });
                if let Some((role, model)) = roles.first_key_value() {
                    let message =
                        format!("there is no provider to ask for the model `{model}` of {role}");
                    return Err(Failure::new(FailureKind::Settings, message)
                        .hint("name one with `--provider`, or set its key"));
                }
                Ok((Gateway::to_rehearsal(rehearsal(settings), options), BTreeMap::new()))
            }
            Choice::Provider { provider, .. } => self.to_provider(provider, options, roles).await,
        }
    }

    async fn to_provider(
        &self,
        provider: Provider,
        mut options: Options,
        roles: &BTreeMap<String, String>,
    ) -> Result<(Gateway, BTreeMap<String, Gateway>), Failure> {
        let settings = &self.settings;
        let endpoint = endpoint(settings, provider);
        if provider.needs_key() && endpoint.key.is_none() && !self.estimate_only {
            let message = format!("no key for {provider}");
            return Err(Failure::new(FailureKind::Settings, message).hint(format!(
                "set `{}` in the environment or in `.env`; or try it without a model: \
                 `--provider {REHEARSAL}`",
                endpoint.key_source
            )));
        }
        if let Some(warning) = settings.warn_of_foreign_key(provider) {
            self.reporter.warn(&warning);
        }
        let client = HttpClient::new();
        let (endpoint, limits) = endpoint_in_use(settings, &client, provider, false).await;
        options.pacer = self.pacers.of(provider, limits);
        let mut others = BTreeMap::new();
        for (role, model) in roles {
            let set = *settings.provider_settings(provider).context_window;
            let mut endpoint =
                Endpoint { model: model.clone(), context_window: set, ..endpoint.clone() };
            learn(&client, &mut endpoint).await;
            let options = Options { price: settings.price(model)?, ..options.clone() };
            others.insert(role.clone(), Gateway::to_provider(&client, endpoint, options));
        }
        options.price = settings.price(&endpoint.model)?;
        Ok((Gateway::to_provider(&client, endpoint, options), others))
    }

    fn options(&self, ledger: Arc<dyn Ledger>) -> Options {
        let reporter = self.reporter.clone();
        let GatewaySettings { retries, timeout_seconds: timeout, deadline_seconds: deadline } =
            &self.settings.gateway;
        Options {
            retry: RetryPolicy {
                retries: **retries,
                attempt_timeout: **timeout,
                local_start_timeout: if timeout.is_set() { **timeout } else { **deadline },
                deadline: **deadline,
                ..RetryPolicy::default()
            },
            ledger,
            observer: Some(Arc::new(move |event: &Event| tell(&*reporter, event))),
            script: self.script.clone(),
            ..Options::default()
        }
    }

    /// Refuses a tape for a run that a worker of the cluster executes: the file is here.
    pub fn refuse_tape(&self) -> Result<(), Failure> {
        match self.tape {
            Tape::None => Ok(()),
            Tape::Record(_) | Tape::Replay(_) => {
                let message =
                    "calls are recorded and replayed on one machine, and not in a cluster";
                let failure = Failure::new(FailureKind::Usage, message);
                Err(failure.hint("do it here, without `--cluster`"))
            }
        }
    }

    /// Refuses to resume a run that was started with another model.
    pub fn refuse_another_model(
        &self,
        run: &str,
        before: (&str, &str),
        gateway: &Gateway,
    ) -> Result<(), Failure> {
        let now = gateway.name();
        // A cassette answers under the names that were recorded.
        if self.tape.replays() || before == now {
            return Ok(());
        }
        let message = format!(
            "{run} was begun with {} {}, and {} {} would answer now",
            before.0, before.1, now.0, now.1
        );
        let hint = format!("go on with `--provider {} --model {}`", before.0, before.1);
        Err(Failure::new(FailureKind::Settings, message).hint(hint))
    }
}

/// The endpoint that is asked, and its limits: by the settings, and by what a local server reports.
pub async fn endpoint_in_use(
    config: &Settings,
    client: &HttpClient,
    provider: Provider,
    offline: bool,
) -> (Endpoint, Limits) {
    let mut endpoint = endpoint(config, provider);
    if let Some(model) = &*config.general.model {
        endpoint.model.clone_from(model);
    }
    let limits = limits(config, provider);
    let slots = if offline { None } else { learn(client, &mut endpoint).await };
    let is_set = config.provider_settings(provider).concurrency.is_set();
    let limits = match slots.filter(|_| !is_set) {
        Some(concurrency) => Limits { concurrency, ..limits },
        None => limits,
    };
    (endpoint, limits)
}

/// Asks a local server for the context window of the endpoint's model, unless the settings name it, and for the
/// number of requests that it answers in parallel.
async fn learn(client: &HttpClient, endpoint: &mut Endpoint) -> Option<usize> {
    if !ModelFacts::of(endpoint).local {
        return None;
    }
    let found = discover(client, endpoint, DISCOVERY_TIMEOUT).await;
    endpoint.context_window = endpoint.context_window.or(found.context_window);
    found.slots
}

/// How many calls a provider is asked at once and in a minute, by the settings. A local Ollama answers one
/// request at a time.
fn limits(config: &Settings, provider: Provider) -> Limits {
    let own = config.provider_settings(provider);
    let one_by_one = provider == Provider::Ollama
        && !own.concurrency.is_set()
        && endpoint(config, provider).is_local_server();
    Limits {
        concurrency: if one_by_one { 1 } else { *own.concurrency },
        requests_per_minute: *own.requests_per_minute,
        tokens_per_minute: *own.tokens_per_minute,
    }
}

fn rehearsal(config: &Settings) -> Rehearsal {
    Rehearsal {
        seed: *config.rehearsal.seed,
        latency: Duration::from_millis(*config.rehearsal.latency_ms),
        fault_rate: *config.rehearsal.fault_rate,
    }
}

/// Makes the pacer of a provider that keeps these limits.
pub type MakePacer = Arc<dyn Fn(Provider, Limits) -> Arc<dyn Pace> + Send + Sync>;

type KnownPacers = HashMap<(Provider, Limits), Arc<dyn Pace>>;

/// Pacers of the calls to each provider: one for all runs of a process, or of a cluster.
#[derive(Clone)]
pub struct Pacers {
    known: Arc<Mutex<KnownPacers>>,
    make: MakePacer,
}

impl fmt::Debug for Pacers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pacers").finish_non_exhaustive()
    }
}

impl Default for Pacers {
    fn default() -> Pacers {
        Pacers::new(Arc::new(|_, limits| Pacer::new(limits)))
    }
}

impl Pacers {
    pub fn new(make: MakePacer) -> Pacers {
        Pacers { known: Arc::default(), make }
    }

    fn of(&self, provider: Provider, limits: Limits) -> Arc<dyn Pace> {
        let mut known = self.known.lock();
        known.entry((provider, limits)).or_insert_with(|| (self.make)(provider, limits)).clone()
    }
}

/// Tells whoever waits what they wait for.
fn tell(reporter: &dyn Reporter, event: &Event) {
    match event {
        Event::Retry { reason, wait, .. } => {
            let reason = harmless(reason);
            reporter.note(&format!("{reason}; trying again in {:.1} s", wait.as_secs_f64()));
        }
        Event::Paced { wait } if wait.as_secs() >= 1 => {
            let seconds = wait.as_secs();
            reporter.note(&format!("waiting {seconds} s to stay within the provider's limits"));
        }
        Event::Paced { .. } => {}
    }
}
