//! Chooses the provider by flag, setting, API key or running Ollama server, and creates gateways to the provider.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use assize_config::{GatewaySettings, Provider, ProviderName, REHEARSAL, SettingSource, Settings};
use assize_llm::{BudgetLedger, BudgetLimits, MemoryBudgetLedger};
use assize_types::text::replace_control_chars;
use assize_types::{Failure, FailureKind, Reporter};
use parking_lot::Mutex;

use crate::provider::display_name;
use crate::{
    CallEvent, Cassette, CassetteFilter, CassetteMode, Endpoint, Gateway, GatewayOptions,
    HttpClient, ModelFacts, PreparedAnswers, RateLimit, RateLimiter, RateLimits, Rehearsal,
    RetryPolicy, discover, probe,
};

/// Timeout of the check whether a local Ollama server is running.
const OLLAMA_TIMEOUT: Duration = Duration::from_secs(2);

/// Timeout of the queries for the context window and the parallel slots of a local server.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(2);

/// The chosen provider, and the reason for the choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderChoice {
    Provider { provider: Provider, why: String },
    Rehearsal { why: String },
}

/// Sources that determine the provider, in order of precedence. The first source that names a provider is used.
pub const PROVIDER_PRECEDENCE: [&str; 5] = [
    "--provider",
    "the setting `provider`",
    "an API key for anthropic, openai, google, groq or openrouter in that order",
    "a running Ollama server",
    "the rehearsal model",
];

/// Chooses a provider without network access. Returns `None` if the choice depends on whether an Ollama server answers.
pub fn from_settings(config: &Settings) -> Option<ProviderChoice> {
    if let Some(name) = *config.general.provider {
        let why = match config.general.provider.source() {
            SettingSource::Flag(flag) => format!("set by `{flag}`"),
            source => format!("set by {source}"),
        };
        return Some(match name {
            ProviderName::Rehearsal => ProviderChoice::Rehearsal { why },
            ProviderName::Provider(provider) => ProviderChoice::Provider { provider, why },
        });
    }
    let keyed = Provider::ALL.into_iter().filter(|provider| provider.needs_key());
    let mut keyed: Vec<(Provider, SettingSource)> = keyed
        .filter_map(|provider| match config.key(provider) {
            (Some(_), source) => Some((provider, source)),
            (None, _) => None,
        })
        .collect();
    // The user's keys precede those of an untrusted folder. The sort is stable, so the order of providers is unchanged.
    keyed.sort_by_key(|(_, source)| config.is_untrusted(source));
    keyed.into_iter().next().map(|(provider, source)| ProviderChoice::Provider {
        provider,
        why: format!("API key found ({source})"),
    })
}

/// Chooses a provider. If the settings do not determine it, checks whether a local Ollama server answers.
pub async fn choose(config: &Settings) -> Result<ProviderChoice, Failure> {
    if let Some(choice) = from_settings(config) {
        return Ok(choice);
    }
    let ollama = endpoint(config, Provider::Ollama);
    let answers = probe(&HttpClient::new(), &ollama, OLLAMA_TIMEOUT).await.is_ok();
    if answers {
        let why = format!("no API key found, and an Ollama server answers at {}", ollama.base_url);
        return Ok(ProviderChoice::Provider { provider: Provider::Ollama, why });
    }
    // The rehearsal model must not replace a model that the user chose.
    if let Some(model) = &*config.general.model {
        let source = config.general.model.source();
        let message = format!("no provider is configured for the model `{model}` ({source})");
        return Err(Failure::new(FailureKind::Settings, message).hint(
            "choose a provider with `--provider`, or set its API key; `assize doctor` shows the configuration",
        ));
    }
    let why = "no API key found, and no Ollama server answers".to_owned();
    Ok(ProviderChoice::Rehearsal { why })
}

/// Creates the endpoint of a provider from the settings.
pub fn endpoint(config: &Settings, provider: Provider) -> Endpoint {
    let (key, source) = config.key(provider);
    let own = config.provider_settings(provider);
    Endpoint {
        provider,
        model: own.model.to_string(),
        base_url: own.base_url.to_string(),
        key,
        key_source: match source {
            SettingSource::Environment(variable) => variable,
            other => other.to_string(),
        },
        context_window: *own.context_window,
    }
}

/// Whether model calls are recorded to a cassette, replayed from a cassette, or neither.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CassetteChoice {
    #[default]
    None,
    /// Every call is recorded to this file. Requests that are already recorded are not sent again.
    Record(PathBuf),
    /// All answers are replayed from this file.
    Replay(PathBuf),
}

impl CassetteChoice {
    /// Whether all answers are replayed from a cassette. The provider and model of a replayed answer are those of the
    /// recording.
    pub fn replays(&self) -> bool {
        matches!(self, CassetteChoice::Replay(_))
    }
}

/// Returns the budget limits from the settings.
pub fn budget_limits(config: &Settings) -> BudgetLimits {
    BudgetLimits { cost: *config.budget.max_cost, tokens: *config.budget.max_tokens }
}

/// Creates gateways to the models that the settings choose.
#[derive(Clone)]
pub struct Providers {
    pub settings: Arc<Settings>,
    pub cassette: CassetteChoice,
    pub reporter: Arc<dyn Reporter>,
    pub rate_limiters: RateLimiters,
    /// Prepared answers of the rehearsal model; `None` if the rehearsal model generates all its answers.
    pub prepared_answers: Option<PreparedAnswers>,
    /// Whether calls are only estimated and not sent, so that no API key is needed.
    pub estimate_only: bool,
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Providers").field("cassette", &self.cassette).finish_non_exhaustive()
    }
}

impl Providers {
    /// Creates the gateway to the model that the settings choose.
    pub async fn gateway(&self, ledger: Arc<dyn BudgetLedger>) -> Result<Gateway, Failure> {
        self.gateways(ledger, &BTreeMap::new()).await.map(|(gateway, _)| gateway)
    }

    /// Creates a gateway for calls that do not belong to a run. These calls share a new budget, whose limits come
    /// from the settings.
    pub async fn gateway_outside_runs(&self) -> Result<Gateway, Failure> {
        self.gateway(Arc::new(MemoryBudgetLedger::new(budget_limits(&self.settings)))).await
    }

    /// Creates the gateway to the model that the settings choose, and one gateway for each role in `roles`, which maps
    /// the name of a role to the name of its model. All gateways use the chosen provider, and share one ledger and one
    /// rate limiter.
    pub async fn gateways(
        &self,
        ledger: Arc<dyn BudgetLedger>,
        roles: &BTreeMap<String, String>,
    ) -> Result<(Gateway, BTreeMap<String, Gateway>), Failure> {
        let settings = &self.settings;
        settings.reject_untrusted_values()?;
        let mut options = self.options(ledger);
        if let CassetteChoice::Replay(path) = &self.cassette {
            let cassette = Arc::new(Cassette::open(path, CassetteMode::Replay)?);
            let provider = settings.general.provider.requested().copied().flatten();
            let to = |model: Option<String>| {
                let asked =
                    CassetteFilter { provider: provider.map(|name| name.to_string()), model };
                Gateway::to_cassette(cassette.clone(), asked, options.clone())
            };
            let others = roles.iter().map(|(role, model)| (role.clone(), to(Some(model.clone()))));
            let model = settings.general.model.requested().cloned().flatten();
            return Ok((to(model), others.collect()));
        }
        if let CassetteChoice::Record(path) = &self.cassette {
            options.cassette = Some(Arc::new(Cassette::open(path, CassetteMode::Record)?));
        }
        if let Some(warning) = settings.warn_of_ignored_choice() {
            self.reporter.warn(&warning);
        }
        match choose(settings).await? {
            ProviderChoice::Rehearsal { .. } => {
                // The rehearsal model needs no rate limits, so the concurrency limit is high.
                options.rate_limiter =
                    RateLimiter::new(RateLimits { concurrency: 1000, ..RateLimits::default() });
                if let Some((role, model)) = roles.first_key_value() {
                    let message =
                        format!("no provider is configured for the model `{model}` of {role}");
                    return Err(Failure::new(FailureKind::Settings, message)
                        .hint("choose a provider with `--provider`, or set its API key"));
                }
                Ok((Gateway::to_rehearsal(rehearsal(settings), options), BTreeMap::new()))
            }
            ProviderChoice::Provider { provider, .. } => {
                self.to_provider(provider, options, roles).await
            }
        }
    }

    async fn to_provider(
        &self,
        provider: Provider,
        mut options: GatewayOptions,
        roles: &BTreeMap<String, String>,
    ) -> Result<(Gateway, BTreeMap<String, Gateway>), Failure> {
        let settings = &self.settings;
        let endpoint = endpoint(settings, provider);
        if provider.needs_key() && endpoint.key.is_none() && !self.estimate_only {
            let message = format!("no API key for {provider}");
            return Err(Failure::new(FailureKind::Settings, message).hint(format!(
                "set `{}` in the environment or in `.env`; or use the offline rehearsal model: \
                 `--provider {REHEARSAL}`",
                endpoint.key_source
            )));
        }
        if let Some(warning) = settings.warn_of_untrusted_key(provider) {
            self.reporter.warn(&warning);
        }
        let client = HttpClient::new();
        let (endpoint, limits) = endpoint_in_use(settings, &client, provider, false).await;
        options.rate_limiter = self.rate_limiters.of(provider, limits);
        let mut others = BTreeMap::new();
        for (role, model) in roles {
            let set = *settings.provider_settings(provider).context_window;
            let mut endpoint =
                Endpoint { model: model.clone(), context_window: set, ..endpoint.clone() };
            query_local_server(&client, &mut endpoint).await;
            let options = GatewayOptions { price: settings.price(model)?, ..options.clone() };
            others.insert(role.clone(), Gateway::to_provider(&client, endpoint, options));
        }
        options.price = settings.price(&endpoint.model)?;
        Ok((Gateway::to_provider(&client, endpoint, options), others))
    }

    fn options(&self, ledger: Arc<dyn BudgetLedger>) -> GatewayOptions {
        let reporter = self.reporter.clone();
        let GatewaySettings { retries, timeout_seconds: timeout, deadline_seconds: deadline } =
            &self.settings.gateway;
        GatewayOptions {
            retry: RetryPolicy {
                retries: **retries,
                attempt_timeout: **timeout,
                local_start_timeout: if timeout.is_set() { **timeout } else { **deadline },
                deadline: **deadline,
                ..RetryPolicy::default()
            },
            ledger,
            observer: Some(Arc::new(move |event: &CallEvent| report(&*reporter, event))),
            prepared_answers: self.prepared_answers.clone(),
            ..GatewayOptions::default()
        }
    }

    /// Returns an error if a cassette is set. Called before a run is queued for the workers of a cluster, because a
    /// cassette is a file on this machine, which workers cannot access.
    pub fn reject_cassette(&self) -> Result<(), Failure> {
        match self.cassette {
            CassetteChoice::None => Ok(()),
            CassetteChoice::Record(_) | CassetteChoice::Replay(_) => {
                let message = "the model calls of a cluster run cannot be recorded or replayed";
                let failure = Failure::new(FailureKind::Usage, message);
                Err(failure.hint("start the run on this machine, without `--cluster`"))
            }
        }
    }

    /// Checks that a run is resumed with the provider and model it was started with. `before` is the provider and model
    /// at the start of the run, and `gateway` uses the provider and model that are configured now.
    pub fn check_same_model(
        &self,
        run: &str,
        before: (&str, &str),
        gateway: &Gateway,
    ) -> Result<(), Failure> {
        let now = gateway.name();
        // Replayed answers have the provider and model of the recording, so a cassette is always accepted.
        if self.cassette.replays() || before == now {
            return Ok(());
        }
        let message = format!(
            "{run} was started with {}, but {} is configured now",
            display_name(before.0, before.1),
            gateway.display_name()
        );
        let hint = format!("resume with `--provider {} --model {}`", before.0, before.1);
        Err(Failure::new(FailureKind::Settings, message).hint(hint))
    }
}

/// Returns the endpoint and the rate limits of a provider from the settings. Unless `offline` is set, a local server is
/// also queried for its context window and its number of parallel requests.
pub async fn endpoint_in_use(
    config: &Settings,
    client: &HttpClient,
    provider: Provider,
    offline: bool,
) -> (Endpoint, RateLimits) {
    let mut endpoint = endpoint(config, provider);
    if let Some(model) = &*config.general.model {
        endpoint.model.clone_from(model);
    }
    let limits = limits(config, provider);
    let slots = if offline { None } else { query_local_server(client, &mut endpoint).await };
    let is_set = config.provider_settings(provider).concurrency.is_set();
    let limits = match slots.filter(|_| !is_set) {
        Some(concurrency) => RateLimits { concurrency, ..limits },
        None => limits,
    };
    (endpoint, limits)
}

/// Queries a local server. Sets the context window of the endpoint unless the settings contain one, and returns the
/// number of requests that the server answers in parallel.
async fn query_local_server(client: &HttpClient, endpoint: &mut Endpoint) -> Option<usize> {
    if !ModelFacts::of(endpoint).local {
        return None;
    }
    let found = discover(client, endpoint, DISCOVERY_TIMEOUT).await;
    endpoint.context_window = endpoint.context_window.or(found.context_window);
    found.slots
}

/// Returns the rate limits of a provider from the settings. By default, a local Ollama server receives one request at a
/// time.
fn limits(config: &Settings, provider: Provider) -> RateLimits {
    let own = config.provider_settings(provider);
    let one_by_one = provider == Provider::Ollama
        && !own.concurrency.is_set()
        && endpoint(config, provider).is_local_server();
    RateLimits {
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

/// Function that creates a rate limiter for a provider with the given limits.
pub type MakeRateLimiter = Arc<dyn Fn(Provider, RateLimits) -> Arc<dyn RateLimit> + Send + Sync>;

type KnownRateLimiters = HashMap<(Provider, RateLimits), Arc<dyn RateLimit>>;

/// Rate limiters, one for each combination of provider and limits. All runs of a process or of a cluster share them.
#[derive(Clone)]
pub struct RateLimiters {
    known: Arc<Mutex<KnownRateLimiters>>,
    make: MakeRateLimiter,
}

impl fmt::Debug for RateLimiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiters").finish_non_exhaustive()
    }
}

impl Default for RateLimiters {
    fn default() -> RateLimiters {
        RateLimiters::new(Arc::new(|_, limits| RateLimiter::new(limits)))
    }
}

impl RateLimiters {
    pub fn new(make: MakeRateLimiter) -> RateLimiters {
        RateLimiters { known: Arc::default(), make }
    }

    fn of(&self, provider: Provider, limits: RateLimits) -> Arc<dyn RateLimit> {
        let mut known = self.known.lock();
        known.entry((provider, limits)).or_insert_with(|| (self.make)(provider, limits)).clone()
    }
}

/// Shows the user each retry, and each wait of at least one second for a rate limit.
fn report(reporter: &dyn Reporter, event: &CallEvent) {
    match event {
        CallEvent::Retry { reason, wait, .. } => {
            let reason = replace_control_chars(reason);
            reporter.note(&format!("{reason}; retrying in {:.1} s", wait.as_secs_f64()));
        }
        CallEvent::RateLimited { wait } if wait.as_secs() >= 1 => {
            let seconds = wait.as_secs();
            reporter.note(&format!("waiting {seconds} s for the provider's rate limit"));
        }
        CallEvent::RateLimited { .. } => {}
    }
}
