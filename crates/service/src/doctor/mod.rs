//! What this machine offers, and why not the rest: one report, which `--json` prints, the API answers and the command
//! line shows as text.

mod cluster;
mod sandboxes;

use std::time::{Duration, Instant};

use assize_config::{Price, Provider, REHEARSAL, Settings};
use assize_gateway::choice::{self, Choice, ORDER};
use assize_gateway::{Endpoint, HttpClient, ModelFacts, PRICES_AS_OF, probe};
use assize_types::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Services;

pub use cluster::{ClusterReport, ClusterReportState};
pub use sandboxes::{BackendReport, SandboxesReport};

/// A server that takes longer to answer counts as unreachable.
const PATIENCE: Duration = Duration::from_secs(8);

/// Report on the providers, sandboxes and the cluster of this machine.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DoctorReport {
    pub version: &'static str,
    pub os: &'static str,
    pub arch: &'static str,
    pub providers: Vec<ProviderReport>,
    /// The provider that is asked, or `rehearsal`.
    pub used: &'static str,
    pub why: String,
    /// The model in use; none for the rehearsal model.
    #[serde(skip)]
    pub model: Option<ModelInUse>,
    /// Order in which providers are looked for.
    pub order: [&'static str; 5],
    pub prices_as_of: &'static str,
    /// Settings of a project that is not trusted.
    pub withheld: Vec<WithheldSetting>,
    pub sandboxes: SandboxesReport,
    /// Null if no cluster is configured.
    pub cluster: Option<ClusterReport>,
}

/// State of one provider.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProviderReport {
    pub provider: &'static str,
    pub model: String,
    pub base_url: String,
    /// Whether that is the provider's own address.
    #[serde(skip)]
    pub is_official: bool,
    pub key: Option<MaskedKey>,
    #[serde(skip)]
    pub key_source: String,
    pub state: ProviderState,
    pub detail: Option<String>,
}

/// API key without its secret part, and the source of it.
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

/// The model that answers, with what is known of it.
#[derive(Debug)]
pub struct ModelInUse {
    pub name: String,
    pub context_window: u64,
    pub price: Option<Price>,
    /// Whether the user's own server answers.
    pub is_local: bool,
    /// Calls at once.
    pub concurrency: usize,
}

/// Setting that is ignored or stops commands, because its folder is not trusted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WithheldSetting {
    pub key: String,
    pub from: String,
    pub ignored: bool,
    pub why: &'static str,
}

/// The provider and model of a run that is started now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InUse {
    /// A provider, or `rehearsal`.
    pub provider: &'static str,
    pub model: Option<String>,
    pub why: String,
}

/// Looks at what is used, and at nothing else.
pub async fn in_use(config: &Settings) -> Result<InUse, Failure> {
    Ok(match choice::choose(config).await? {
        Choice::Rehearsal { why } => InUse { provider: REHEARSAL, model: None, why },
        Choice::Provider { provider, why } => {
            let own = || choice::endpoint(config, provider).model;
            let model = (*config.general.model).clone().unwrap_or_else(own);
            InUse { provider: provider.name(), model: Some(model), why }
        }
    })
}

/// Whether the user's own server answers for a provider.
pub fn is_local(config: &Settings, provider: Provider) -> bool {
    choice::endpoint(config, provider).is_local_server()
}

impl Services {
    /// Looks at everything; nothing remote is tried if `offline`.
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
            Choice::Rehearsal { why } => (REHEARSAL, why, None),
            Choice::Provider { provider, why } => {
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
        let withheld = config.origin.withheld.iter().map(|withheld| WithheldSetting {
            key: withheld.key.clone(),
            from: withheld.source.to_string(),
            ignored: withheld.ignored,
            why: config.origin.trust.why_not(),
        });
        Ok(DoctorReport {
            version: env!("CARGO_PKG_VERSION"),
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            providers,
            used,
            why,
            model,
            order: ORDER,
            prices_as_of: PRICES_AS_OF,
            withheld: withheld.collect(),
            sandboxes: SandboxesReport::new(&self.sandboxes()).await,
            cluster: ClusterReport::new(config, &self.environment, offline).await,
        })
    }
}

/// The same choice as for a call, by what has been found out already.
fn chosen(config: &Settings, providers: &[ProviderReport], offline: bool) -> Choice {
    if let Some(choice) = choice::from_settings(config) {
        return choice;
    }
    let ollama = providers.iter().find(|report| report.provider == Provider::Ollama.name());
    if ollama.is_some_and(|report| report.state == ProviderState::Answers) {
        let why = "no key is at hand, and it answers".to_owned();
        return Choice::Provider { provider: Provider::Ollama, why };
    }
    let why = if offline {
        "no key is at hand, and Ollama was not looked for"
    } else {
        "no key is at hand, and no Ollama answers"
    };
    Choice::Rehearsal { why: why.to_owned() }
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
            match probe(client, &endpoint, PATIENCE).await {
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
    /// Fails if what is used does not work. What is not used may fail.
    pub fn complain(&self, config: &Settings) -> Result<(), Failure> {
        config.refuse_withheld()?;
        self.sandboxes.complain(config)?;
        self.cluster.as_ref().map_or(Ok(()), ClusterReport::complain)?;
        let used = self.providers.iter().find(|report| report.provider == self.used);
        let Some(ProviderReport { provider, state, detail, key_source, .. }) = used else {
            return Ok(());
        };
        match state {
            ProviderState::Fails => {
                let why = detail.as_deref().unwrap_or_default();
                let message = format!("{provider} is used, and fails: {why}");
                Err(Failure::new(FailureKind::Environment, message))
            }
            ProviderState::NoKey => {
                let message = format!("{provider} is used, and has no key");
                let hint = format!("set `{key_source}`");
                Err(Failure::new(FailureKind::Settings, message).hint(hint))
            }
            ProviderState::Answers | ProviderState::NotTried => Ok(()),
        }
    }
}
