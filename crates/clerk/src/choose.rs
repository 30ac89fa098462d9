//! Who is asked: the provider, by flag, setting, key or presence, and the gateway to it.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use assize_config::{GatewaySettings, Provider, ProviderName, REHEARSAL, Settings, Source};
use assize_draft::work::rehearsal::Line;
use assize_gateway::{
    Asked, Caps, Cassette, CassetteMode, Endpoint, Event, Gateway, HttpClient, Limits,
    MemoryLedger, ModelFacts, Options, Pace, Pacer, Recital, Rehearsal, RetryPolicy, discover,
    probe,
};
use assize_llm::ModelError;
use assize_types::text::harmless;
use assize_types::{Failure, FailureKind, Money};

use crate::account::{Account, KeptLedger};
use crate::cluster::limits::FarPacer;
use crate::{Clerk, Listener};

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

/// What was spent on a run before, which counts against what may be.
#[derive(Debug, Clone, Default)]
pub struct Already {
    pub cost: Money,
    pub tokens: u64,
    /// What might be spent when it began, which holds unless something else is said now.
    pub caps: Caps,
    /// Where calls of the run are noted; `None` for calls of no run.
    pub(crate) account: Option<Arc<Account>>,
}

/// What may be spent, by the settings.
pub fn caps(config: &Settings) -> Caps {
    Caps { cost: *config.budget.max_cost, tokens: *config.budget.max_tokens }
}

/// The gateway that the settings and flags ask for.
pub async fn gateway(clerk: &Clerk, tape: &Tape, already: Already) -> Result<Gateway, Failure> {
    let others = BTreeMap::new();
    gateways(clerk, tape, already, &others).await.map(|(gateway, _)| gateway)
}

/// The same, and one to another model of the same provider for each of some roles. All share one account
/// and one pace.
pub async fn gateways(
    clerk: &Clerk,
    tape: &Tape,
    already: Already,
    roles: &BTreeMap<String, String>,
) -> Result<(Gateway, BTreeMap<String, Gateway>), Failure> {
    let config = &clerk.config;
    config.refuse_withheld()?;
    let mut options = options(clerk, already)?;
    if let Tape::Replay(path) = tape {
        let cassette = Arc::new(Cassette::open(path, CassetteMode::Replay)?);
        let provider = config.general.provider.requested().copied().flatten();
        let to = |model: Option<String>| {
            let asked = Asked { provider: provider.map(|name| name.to_string()), model };
            Gateway::to_cassette(cassette.clone(), asked, options.clone())
        };
        let others = roles.iter().map(|(role, model)| (role.clone(), to(Some(model.clone()))));
        return Ok((to(config.general.model.requested().cloned().flatten()), others.collect()));
    }
    if let Tape::Record(path) = tape {
        options.cassette = Some(Arc::new(Cassette::open(path, CassetteMode::Record)?));
    }
    if let Some(warning) = config.warn_of_ignored_choice() {
        clerk.listener.warn(&warning);
    }
    match choose(config).await? {
        Choice::Rehearsal { .. } => {
            // Nobody has to be spared.
            options.pacer = Pacer::new(Limits { concurrency: 1000, ..Limits::default() });
            if let Some((role, model)) = roles.first_key_value() {
                let message =
                    format!("there is no provider to ask for the model `{model}` of {role}");
                return Err(Failure::new(FailureKind::Settings, message)
                    .hint("name one with `--provider`, or set its key"));
            }
            Ok((Gateway::to_rehearsal(rehearsal(config), options), BTreeMap::new()))
        }
        Choice::Provider { provider, .. } => {
            let endpoint = endpoint(config, provider);
            if provider.needs_key() && endpoint.key.is_none() && !clerk.estimate_only {
                let message = format!("no key for {provider}");
                return Err(Failure::new(FailureKind::Settings, message).hint(format!(
                    "set `{}` in the environment or in `.env`; or try it without a model: \
                     `--provider {REHEARSAL}`",
                    endpoint.key_source
                )));
            }
            if let Some(warning) = config.warn_of_foreign_key(provider) {
                clerk.listener.warn(&warning);
            }
            let client = HttpClient::new();
            let (endpoint, limits) = endpoint_in_use(config, &client, provider, false).await;
            options.pacer = clerk.paces.of(clerk, provider, limits);
            let mut others = BTreeMap::new();
            for (role, model) in roles {
                let set = *config.provider_settings(provider).context_window;
                let mut endpoint =
                    Endpoint { model: model.clone(), context_window: set, ..endpoint.clone() };
                learn(&client, &mut endpoint).await;
                let options = Options { price: config.price(model)?, ..options.clone() };
                others.insert(role.clone(), Gateway::to_provider(&client, endpoint, options));
            }
            options.price = config.price(&endpoint.model)?;
            Ok((Gateway::to_provider(&client, endpoint, options), others))
        }
    }
}

fn options(clerk: &Clerk, already: Already) -> Result<Options, Failure> {
    let (config, listener) = (&clerk.config, clerk.listener.clone());
    let GatewaySettings { retries, timeout_seconds: timeout, deadline_seconds: deadline } =
        &config.gateway;
    let (now, before) = (caps(config), already.caps);
    let caps = Caps {
        cost: now.cost.or(before.cost).map(|most| most.saturating_sub(already.cost)),
        tokens: now.tokens.or(before.tokens).map(|most| most.saturating_sub(already.tokens)),
    };
    Ok(Options {
        retry: RetryPolicy {
            retries: **retries,
            attempt_timeout: **timeout,
            local_start_timeout: if timeout.is_set() { **timeout } else { **deadline },
            deadline: **deadline,
            ..RetryPolicy::default()
        },
        ledger: match already.account {
            Some(account) => Arc::new(KeptLedger::new(caps, account)),
            None => Arc::new(MemoryLedger::new(caps)),
        },
        observer: Some(Arc::new(move |event: &Event| tell(&*listener, event))),
        script: Some(Arc::new(|request| {
            let words = |known: Result<String, ModelError>| known.map(Recital::from);
            assize_code::rehearsal::answer(request)
                .or_else(|| assize_consult::rehearsal::answer(request))
                .map(words)
                .or_else(|| assize_draft::work::rehearsal::answer(request).map(recited))
        })),
        ..Options::default()
    })
}

/// What a worker does by heart.
fn recited(known: Result<Line, ModelError>) -> Result<Recital, ModelError> {
    known.map(|line| match line {
        Line::Words(text) => text.into(),
        Line::Call(name, arguments) => {
            Recital { text: String::new(), calls: vec![(name.to_owned(), arguments)] }
        }
    })
}

/// The endpoint that is asked, and its limits: by the settings, and by what a local server reports.
pub(crate) async fn endpoint_in_use(
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

/// Who paces the calls to each provider: one for all trials of a process, or of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Paces(Arc<Mutex<Known>>);

type Known = HashMap<(Provider, Limits), Arc<dyn Pace>>;

impl Paces {
    fn of(&self, clerk: &Clerk, provider: Provider, limits: Limits) -> Arc<dyn Pace> {
        let mut paces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || -> Arc<dyn Pace> {
            match &clerk.member {
                Some(member) => Arc::new(FarPacer::new(member, provider, limits.concurrency)),
                None => Pacer::new(limits),
            }
        };
        paces.entry((provider, limits)).or_insert_with(make).clone()
    }
}

/// Tells whoever waits what they wait for.
fn tell(listener: &dyn Listener, event: &Event) {
    match event {
        Event::Retry { reason, wait, .. } => {
            let reason = harmless(reason);
            listener.note(&format!("{reason}; trying again in {:.1} s", wait.as_secs_f64()));
        }
        Event::Paced { wait } if wait.as_secs() >= 1 => {
            let seconds = wait.as_secs();
            listener.note(&format!("waiting {seconds} s to stay within the provider's limits"));
        }
        Event::Paced { .. } => {}
    }
}
