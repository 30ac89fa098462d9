//! What `assize doctor` found out, in the shape that `--json` prints and the API answers.

use std::collections::BTreeMap;

use assize_config::{Isolation, REHEARSAL, Settings};
use assize_gateway::PRICES_AS_OF;
use assize_gateway::choice::{Choice, ORDER};
use assize_sandbox::{Enforcement, SandboxError};
use schemars::JsonSchema;
use serde::Serialize;

use super::{ClusterFound, ClusterState, Examined, Finding, SandboxFindings, State, sandboxes};

/// Report on the providers, sandboxes and the cluster of this machine.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DoctorReport {
    version: &'static str,
    os: &'static str,
    arch: &'static str,
    providers: Vec<ProviderReport>,
    /// The provider that is asked, or `rehearsal`.
    used: &'static str,
    why: String,
    /// Order in which providers are looked for.
    order: [&'static str; 5],
    prices_as_of: &'static str,
    /// Settings of a project that is not trusted.
    withheld: Vec<WithheldSetting>,
    sandboxes: SandboxesReport,
    /// Null if no cluster is configured.
    cluster: Option<ClusterReport>,
}

/// State of one provider.
#[derive(Debug, Serialize, JsonSchema)]
struct ProviderReport {
    provider: &'static str,
    model: String,
    base_url: String,
    key: Option<MaskedKey>,
    state: ProviderState,
    detail: Option<String>,
}

/// API key without its secret part, and the source of it.
#[derive(Debug, Serialize, JsonSchema)]
struct MaskedKey {
    masked: String,
    from: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ProviderState {
    Answers,
    Fails,
    NoKey,
    NotTried,
}

/// Setting that is ignored or stops commands, because its folder is not trusted.
#[derive(Debug, Serialize, JsonSchema)]
struct WithheldSetting {
    key: String,
    from: String,
    ignored: bool,
    why: &'static str,
}

/// State of every sandbox backend, and which one is used.
#[derive(Debug, Serialize, JsonSchema)]
struct SandboxesReport {
    backends: Vec<BackendReport>,
    /// Paths by language; null where no interpreter is found.
    interpreters: BTreeMap<&'static str, Option<String>>,
    /// Backend for code.
    used: Option<Isolation>,
    why: String,
    /// Backend for debates.
    used_for_debates: Option<Isolation>,
    why_for_debates: String,
}

/// State of one sandbox backend.
#[derive(Debug, Serialize, JsonSchema)]
struct BackendReport {
    isolation: Isolation,
    available: bool,
    made_in_ms: Option<f64>,
    why_not: Option<String>,
    hint: Option<String>,
    /// How it is run, where that makes a difference.
    how: Option<String>,
    /// How each limit is enforced.
    enforcement: Option<Enforcement>,
}

/// State of the cluster that the settings name.
#[derive(Debug, Serialize, JsonSchema)]
struct ClusterReport {
    servers: String,
    state: ClusterReportState,
    detail: Option<String>,
    /// Workers that take jobs, and their sandboxes in total.
    workers: Option<usize>,
    slots: Option<u32>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ClusterReportState {
    Answers,
    Fails,
    NotTried,
}

impl Examined {
    /// The report on what was found out under these settings.
    pub fn report(&self, config: &Settings) -> DoctorReport {
        let (used, why) = match &self.choice {
            Choice::Provider { provider, why } => (provider.name(), why),
            Choice::Rehearsal { why } => (REHEARSAL, why),
        };
        let withheld = config.origin.withheld.iter().map(|withheld| WithheldSetting {
            key: withheld.key.clone(),
            from: withheld.source.to_string(),
            ignored: withheld.ignored,
            why: config.origin.trust.why_not(),
        });
        DoctorReport {
            version: env!("CARGO_PKG_VERSION"),
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            providers: self.providers.iter().map(ProviderReport::from).collect(),
            used,
            why: why.clone(),
            order: ORDER,
            prices_as_of: PRICES_AS_OF,
            withheld: withheld.collect(),
            sandboxes: SandboxesReport::from(&self.sandboxes),
            cluster: self.cluster.as_ref().map(ClusterReport::from),
        }
    }
}

impl From<&Finding> for ProviderReport {
    fn from(Finding { endpoint, key_from, state }: &Finding) -> ProviderReport {
        let (state, detail) = match state {
            State::Answers(time) => {
                (ProviderState::Answers, Some(format!("{} ms", time.as_millis())))
            }
            State::Fails(why) => (ProviderState::Fails, Some(why.clone())),
            State::NoKey => (ProviderState::NoKey, Some(format!("set {}", endpoint.key_source))),
            State::NotTried => (ProviderState::NotTried, None),
        };
        let key = endpoint.key.as_ref();
        ProviderReport {
            provider: endpoint.provider.name(),
            model: endpoint.model.clone(),
            base_url: endpoint.base_url.clone(),
            key: key.map(|key| MaskedKey { masked: key.masked(), from: key_from.to_string() }),
            state,
            detail,
        }
    }
}

impl From<&SandboxFindings> for SandboxesReport {
    fn from(found: &SandboxFindings) -> SandboxesReport {
        let interpreters = found.interpreters.iter();
        let chosen = |used: &Result<(Isolation, String), String>| match used {
            Ok((isolation, why)) => (Some(*isolation), why.clone()),
            Err(why) => (None, why.clone()),
        };
        let (used, why) = chosen(&found.used);
        let (used_for_debates, why_for_debates) = chosen(&found.used_for_debates);
        SandboxesReport {
            backends: found.backends.iter().map(BackendReport::from).collect(),
            interpreters: interpreters
                .map(|(language, found)| (language.name(), found.as_ref().ok().cloned()))
                .collect(),
            used,
            why,
            used_for_debates,
            why_for_debates,
        }
    }
}

impl From<&sandboxes::Finding> for BackendReport {
    fn from(finding: &sandboxes::Finding) -> BackendReport {
        let (took, error) = (finding.tried.as_ref().ok(), finding.tried.as_ref().err());
        BackendReport {
            isolation: finding.isolation,
            available: took.is_some(),
            made_in_ms: took.map(|took| took.as_secs_f64() * 1e3),
            why_not: error.map(ToString::to_string),
            hint: error.and_then(SandboxError::hint).map(str::to_owned),
            how: finding.how.clone(),
            enforcement: finding.enforcement.clone(),
        }
    }
}

impl From<&ClusterFound> for ClusterReport {
    fn from(found: &ClusterFound) -> ClusterReport {
        let (state, detail, size) = match &found.state {
            ClusterState::Answers { took, workers, slots } => {
                let detail = format!("{} ms", took.as_millis());
                (ClusterReportState::Answers, Some(detail), Some((*workers, *slots)))
            }
            ClusterState::Fails(why) => {
                (ClusterReportState::Fails, Some(why.message().to_owned()), None)
            }
            ClusterState::NotTried => (ClusterReportState::NotTried, None, None),
        };
        let (workers, slots) = size.unzip();
        ClusterReport { servers: found.servers.clone(), state, detail, workers, slots }
    }
}
