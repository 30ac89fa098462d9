//! What this machine offers, and why not the rest.

mod cluster;
mod report;
mod sandboxes;

use std::time::{Duration, Instant};

use assize_config::{Environment, Provider, REHEARSAL, Settings, Source};
use assize_gateway::choice::{self, Choice};
use assize_gateway::{Endpoint, HttpClient, probe};
use assize_sandbox::Sandboxes;
use assize_types::{Failure, FailureKind};

pub use cluster::{ClusterFound, ClusterState};
pub use report::DoctorReport;
pub use sandboxes::SandboxFindings;

/// Who takes longer to answer is as good as not there.
const PATIENCE: Duration = Duration::from_secs(8);

/// What was found out about one provider.
#[derive(Debug)]
pub struct Finding {
    pub endpoint: Endpoint,
    pub key_from: Source,
    pub state: State,
}

/// How it stands with a provider.
#[derive(Debug)]
pub enum State {
    Answers(Duration),
    Fails(String),
    NoKey,
    NotTried,
}

/// All that was found out.
#[derive(Debug)]
pub struct Examined {
    pub providers: Vec<Finding>,
    pub choice: Choice,
    /// The endpoint in use, with the context window that a local server reports.
    pub endpoint: Option<Endpoint>,
    /// Calls at once.
    pub concurrency: usize,
    pub sandboxes: SandboxFindings,
    /// If one is named.
    pub cluster: Option<ClusterFound>,
}

/// Who would be asked in a trial that began now.
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

/// Looks at everything; at what is elsewhere unless that is not wanted.
pub async fn examine(
    config: &Settings,
    around: &Environment,
    offline: bool,
) -> Result<Examined, Failure> {
    let client = HttpClient::new();
    let mut probes = tokio::task::JoinSet::new();
    for (index, provider) in Provider::ALL.into_iter().enumerate() {
        let endpoint = choice::endpoint(config, provider);
        let (_, key_from) = config.key(provider);
        let client = client.clone();
        probes.spawn(async move {
            let state = ask(&client, &endpoint, offline).await;
            (index, Finding { endpoint, key_from, state })
        });
    }
    let mut findings = probes.join_all().await;
    findings.sort_by_key(|(index, _)| *index);
    let providers: Vec<Finding> = findings.into_iter().map(|(_, finding)| finding).collect();
    let choice = choice(config, &providers, offline)?;
    let (endpoint, concurrency) = match &choice {
        Choice::Rehearsal { .. } => (None, 0),
        Choice::Provider { provider, .. } => {
            let (endpoint, limits) =
                choice::endpoint_in_use(config, &client, *provider, offline).await;
            (Some(endpoint), limits.concurrency)
        }
    };
    let sandboxes = sandboxes::examine(&Sandboxes::new(config, around)).await;
    let cluster = cluster::examine(config, around, offline).await;
    Ok(Examined { providers, choice, endpoint, concurrency, sandboxes, cluster })
}

impl Examined {
    /// What is used and does not work is a failure; what is not used is not.
    pub fn complain(&self, config: &Settings) -> Result<(), Failure> {
        config.refuse_withheld()?;
        self.sandboxes.complain(config)?;
        self.cluster.as_ref().map_or(Ok(()), ClusterFound::complain)?;
        complain(&self.providers, &self.choice)
    }
}

async fn ask(client: &HttpClient, endpoint: &Endpoint, offline: bool) -> State {
    if endpoint.provider.needs_key() && endpoint.key.is_none() {
        return State::NoKey;
    }
    if offline {
        return State::NotTried;
    }
    let start = Instant::now();
    match probe(client, endpoint, PATIENCE).await {
        Ok(()) => State::Answers(start.elapsed()),
        Err(error) => State::Fails(error.to_string()),
    }
}

/// The same choice as for a question, by what has been found out already.
fn choice(config: &Settings, findings: &[Finding], offline: bool) -> Result<Choice, Failure> {
    if let Some(choice) = choice::from_settings(config) {
        return Ok(choice);
    }
    let ollama = findings.iter().find(|finding| finding.endpoint.provider == Provider::Ollama);
    if ollama.is_some_and(|finding| matches!(finding.state, State::Answers(_))) {
        let why = "no key is at hand, and it answers".to_owned();
        return Ok(Choice::Provider { provider: Provider::Ollama, why });
    }
    let why = if offline {
        "no key is at hand, and Ollama was not looked for"
    } else {
        "no key is at hand, and no Ollama answers"
    };
    Ok(Choice::Rehearsal { why: why.to_owned() })
}

/// A provider that is used and does not work is a failure; one that is not used is not.
fn complain(findings: &[Finding], choice: &Choice) -> Result<(), Failure> {
    let Choice::Provider { provider, .. } = choice else {
        return Ok(());
    };
    let Some(finding) = findings.iter().find(|finding| finding.endpoint.provider == *provider)
    else {
        return Ok(());
    };
    match &finding.state {
        State::Fails(why) => Err(Failure::new(
            FailureKind::Environment,
            format!("{provider} is used, and fails: {why}"),
        )),
        State::NoKey => {
            Err(Failure::new(FailureKind::Settings, format!("{provider} is used, and has no key"))
                .hint(format!("set `{}`", finding.endpoint.key_source)))
        }
        State::Answers(_) | State::NotTried => Ok(()),
    }
}
