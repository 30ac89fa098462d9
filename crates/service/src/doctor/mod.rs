//! Checks which providers, sandbox backends and cluster this machine can use. `assize doctor` prints the report as
//! text, or as JSON with `--json`. The HTTP API returns the same report.

mod cluster;
mod sandboxes;

use std::time::{Duration, Instant};

use assize_config::{ApiKey, Price, Provider, REHEARSAL, Settings};
use assize_gateway::choice::{self, PROVIDER_PRECEDENCE, ProviderChoice};
use assize_gateway::{Endpoint, HttpClient, ModelFacts, PRICES_AS_OF, probe};
use assize_types::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Services;

pub use cluster::{ClusterReport, ClusterReportState};
pub use sandboxes::{BackendReport, SandboxesReport};

/// Timeout of the check of a provider or of the cluster. A server that takes longer to reply counts as unreachable.
const PROBE_TIMEOUT: Duration = Duration::from_secs(8);

/// Report on the providers, the sandbox backends and the cluster that this machine can use.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DoctorReport {
    pub version: &'static str,
    pub os: &'static str,
    pub arch: &'static str,
    pub providers: Vec<ProviderReport>,
    /// Name of the provider that new runs use, or `rehearsal` if they use the offline rehearsal model.
    pub used: &'static str,
    /// Why new runs use this provider.
    pub why: String,
    /// Model that new runs use; `None` for the rehearsal model.
    #[serde(skip)]
    pub model: Option<ModelInUse>,
    /// Order in which providers are tried if no provider is set in the settings.
    pub order: [&'static str; 5],
    /// Date of the built-in price table.
    pub prices_as_of: &'static str,
    /// Settings that are not applied, because they come from a project folder that is not trusted.
    pub withheld: Vec<WithheldSetting>,
    pub sandboxes: SandboxesReport,
    /// Report on the cluster; null if no cluster is configured.
    pub cluster: Option<ClusterReport>,
}

/// Result of the checks on one provider.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProviderReport {
    pub provider: &'static str,
    pub model: String,
    pub base_url: String,
    /// Whether `base_url` is the official address of the provider.
    #[serde(skip)]
    pub is_official: bool,
    pub key: Option<MaskedKey>,
    #[serde(skip)]
    pub key_source: String,
    pub state: ProviderState,
    pub detail: Option<String>,
}

/// API key with most characters masked, and the source that it was read from.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MaskedKey {
    pub masked: String,
    pub from: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderState {
    Answers,
    Fails,
    NoKey,
    NotTried,
}

/// Model that new runs use, with its properties.
#[derive(Debug)]
pub struct ModelInUse {
    pub name: String,
    pub context_window: u64,
    pub price: Option<Price>,
    /// Whether the model runs on the user's own server.
    pub is_local: bool,
    /// Maximum number of concurrent model calls.
    pub concurrency: usize,
}

/// Setting from a project folder that is not trusted. If `ignored` is true, commands ignore the setting; otherwise
/// commands fail because of the setting.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WithheldSetting {
    pub key: String,
    pub from: String,
    pub ignored: bool,
    pub why: &'static str,
}

/// Provider and model that a new run would use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelChoice {
    /// Name of the provider, or `rehearsal`.
    pub provider: &'static str,
    pub model: Option<String>,
    /// Why a new run would use this provider.
    pub why: String,
}

/// Returns the provider and the model that a new run would use.
pub async fn model_choice(config: &Settings) -> Result<ModelChoice, Failure> {
    Ok(ModelChoice::new(config, choice::choose(config).await?))
}

/// Like [`model_choice`], but without network access. Returns `None` if the choice depends on whether an Ollama server
/// answers.
pub fn configured_model(config: &Settings) -> Option<ModelChoice> {
    choice::from_settings(config).map(|choice| ModelChoice::new(config, choice))
}

impl ModelChoice {
    fn new(config: &Settings, choice: ProviderChoice) -> ModelChoice {
        match choice {
            ProviderChoice::Rehearsal { why } => {
                ModelChoice { provider: REHEARSAL, model: None, why }
            }
            ProviderChoice::Provider { provider, why } => {
                let own = || choice::endpoint(config, provider).model;
                let model = (*config.general.model).clone().unwrap_or_else(own);
                ModelChoice { provider: provider.name(), model: Some(model), why }
            }
        }
    }
}

/// Whether the configured address of a provider is a server that the user runs, such as a local Ollama.
pub fn is_local(config: &Settings, provider: Provider) -> bool {
    choice::endpoint(config, provider).is_local_server()
}

/// Checks with a free request whether a provider accepts an API key, and returns how long the provider took to answer.
/// `key` is the API key to check; `None` checks the key from the settings.
pub async fn check_provider(
    config: &Settings,
    provider: Provider,
    key: Option<ApiKey>,
) -> Result<Duration, Failure> {
    let mut endpoint = choice::endpoint(config, provider);
    endpoint.key = key.or(endpoint.key);
    let start = Instant::now();
    match probe(&HttpClient::new(), &endpoint, PROBE_TIMEOUT).await {
        Ok(()) => Ok(start.elapsed()),
        Err(error) => Err(error.into()),
    }
}

impl Services {
    /// Checks the providers, the sandbox backends and the cluster. With `offline`, no network requests are sent.
    pub async fn examine(&self, offline: bool) -> Result<DoctorReport, Failure> {
        let config = &*self.settings;
        let client = HttpClient::new();
        let mut probes = tokio::task::JoinSet::new();
        for (index, provider) in Provider::ALL.into_iter().enumerate() {
            let endpoint = choice::endpoint(config, provider);
            let from = config.key(provider).1.to_string();
            let client = client.clone();
            probes.spawn(async move {
                (index, ProviderReport::new(&client, endpoint, from, offline).await)
            });
        }
        let mut providers = probes.join_all().await;
        providers.sort_by_key(|(index, _)| *index);
        let providers: Vec<ProviderReport> =
            providers.into_iter().map(|(_, report)| report).collect();
        let (used, why, model) = match chosen(config, &providers, offline) {
            ProviderChoice::Rehearsal { why } => (REHEARSAL, why, None),
            ProviderChoice::Provider { provider, why } => {
                let (endpoint, limits) =
                    choice::endpoint_in_use(config, &client, provider, offline).await;
                let facts = ModelFacts::of(&endpoint);
                let model = ModelInUse {
                    name: endpoint.model,
                    context_window: facts.context_window,
                    price: facts.price,
                    is_local: facts.local,
                    concurrency: limits.concurrency,
                };
                (provider.name(), why, Some(model))
            }
        };
        let withheld = config.origin.untrusted_values.iter().map(|withheld| WithheldSetting {
            key: withheld.key.clone(),
            from: withheld.source.to_string(),
            ignored: withheld.ignored,
            why: config.origin.trust.explanation(),
        });
        Ok(DoctorReport {
            version: env!("CARGO_PKG_VERSION"),
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            providers,
            used,
            why,
            model,
            order: PROVIDER_PRECEDENCE,
            prices_as_of: PRICES_AS_OF,
            withheld: withheld.collect(),
            sandboxes: SandboxesReport::new(&self.sandboxes()).await,
            cluster: ClusterReport::new(config, &self.environment, offline).await,
        })
    }
}

/// Chooses the provider in the same way as for a model call, but from the results of the checks, so that no provider is
/// checked twice.
fn chosen(config: &Settings, providers: &[ProviderReport], offline: bool) -> ProviderChoice {
    if let Some(choice) = choice::from_settings(config) {
        return choice;
    }
    let ollama = providers.iter().find(|report| report.provider == Provider::Ollama.name());
    if ollama.is_some_and(|report| report.state == ProviderState::Answers) {
        let why = "no API key found, and an Ollama server answers".to_owned();
        return ProviderChoice::Provider { provider: Provider::Ollama, why };
    }
    let why = if offline {
        "no API key found, and Ollama was not checked"
    } else {
        "no API key found, and no Ollama server answers"
    };
    ProviderChoice::Rehearsal { why: why.to_owned() }
}

impl ProviderReport {
    async fn new(
        client: &HttpClient,
        endpoint: Endpoint,
        key_from: String,
        offline: bool,
    ) -> ProviderReport {
        let start = Instant::now();
        let (state, detail) = if endpoint.provider.needs_key() && endpoint.key.is_none() {
            (ProviderState::NoKey, Some(format!("set {}", endpoint.key_source)))
        } else if offline {
            (ProviderState::NotTried, None)
        } else {
            match probe(client, &endpoint, PROBE_TIMEOUT).await {
                Ok(()) => {
                    let took = start.elapsed().as_millis();
                    (ProviderState::Answers, Some(format!("{took} ms")))
                }
                Err(error) => (ProviderState::Fails, Some(error.to_string())),
            }
        };
        let key = endpoint.key.as_ref();
        ProviderReport {
            provider: endpoint.provider.name(),
            is_official: endpoint.is_official(),
            key: key.map(|key| MaskedKey { masked: key.masked(), from: key_from }),
            model: endpoint.model,
            base_url: endpoint.base_url,
            key_source: endpoint.key_source,
            state,
            detail,
        }
    }
}

impl DoctorReport {
    /// Fails if the provider or the cluster that new runs use does not work, or if the settings name a sandbox backend
    /// that does not work. Failed checks on other providers and backends are ignored.
    pub fn check(&self, config: &Settings) -> Result<(), Failure> {
        config.reject_untrusted_values()?;
        self.sandboxes.check(config)?;
        self.cluster.as_ref().map_or(Ok(()), ClusterReport::check)?;
        let used = self.providers.iter().find(|report| report.provider == self.used);
        let Some(ProviderReport { provider, state, detail, key_source, .. }) = used else {
            return Ok(());
        };
        match state {
            ProviderState::Fails => {
                let why = detail.as_deref().unwrap_or_default();
                let message =
                    format!("the check of the provider in use, {provider}, failed: {why}");
                Err(Failure::new(FailureKind::Environment, message))
            }
            ProviderState::NoKey => {
                let message = format!("the provider in use, {provider}, has no API key");
                let hint = format!("set `{key_source}` to your {provider} API key");
                Err(Failure::new(FailureKind::Settings, message).hint(hint))
            }
            ProviderState::Answers | ProviderState::NotTried => Ok(()),
        }
    }
}
