//! Plans a consultation: a new run, a resumed run or a fork.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_config::{Environment, Settings};
use assize_gateway::{Gateway, Providers};
use assize_run::{NewRun, Run, RunId, RunKind, RunOrigin, Store};
use assize_sandbox::{RunSettings, SandboxFactory, SandboxSpec};
use assize_types::text::{replace_control_chars, validated_text};
use assize_types::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{ConsultRequest, DataSource};
use crate::fork::{ForkRequest, check_new_personas};
use crate::sources::GatheredData;
use crate::sources::edgar::{Edgar, EdgarError, day_of};
use crate::{ConsultCompany, ConsultFork, ConsultPersonas};

/// Maximum size of a personas file, in MiB.
const MAX_PERSONAS: u64 = 1;

/// Name of the artifact with the gathered company data.
const GATHERED: &str = "gathered.json";

/// Name of the artifact with the personas.
const PERSONAS: &str = "personas.toml";

/// Stored input of a consultation, from which its run can be resumed or forked. Large parts are stored as artifacts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConsultInput {
    pub company: ConsultCompany,
    /// Whether the user requested synthetic data, which a model makes up.
    pub synthetic: bool,
    pub rounds: u32,
    pub moves: u32,
    #[serde(default)]
    pub blind_scores: bool,
    pub region: Option<String>,
    /// Maximum number of concurrent debates, if set by the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_moves: Option<u32>,
    pub context_window: Option<u64>,
    #[serde(flatten)]
    pub settings: RunSettings,
    /// Models of roles that do not use the default model, by role. All models belong to the same provider.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, String>,
    /// Forks that led to this run, the earliest first: how each differs from its parent run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forks: Vec<ConsultFork>,
    /// Provider and model of the answers that a fork reuses; null if they are the provider and model of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused_model: Option<String>,
}

impl ConsultInput {
    /// Spec of the sandboxes in which the debates of this consultation run.
    pub(super) fn spec(&self) -> SandboxSpec {
        SandboxSpec { region: self.region.clone(), ..self.settings.spec() }
    }
}

/// Plan of a consultation that is about to start or resume.
#[derive(Debug)]
pub struct ConsultPlan {
    pub(super) gathered: Arc<GatheredData>,
    pub(super) personas: ConsultPersonas,
    company: ConsultCompany,
    /// Request of the user. For a resumed or forked run, only the field `models` is set.
    request: ConsultRequest,
    /// Stored input of the run that is resumed or forked.
    stored_input: Option<ConsultInput>,
    /// How a new fork differs from its parent run; `None` if no fork is planned, or a fork without a fork point.
    fork: Option<ConsultFork>,
    /// Maximum number of concurrent debates, if set by the user.
    pub parallel_moves: Option<u32>,
    /// Whether debates are allowed to run without a sandbox.
    pub allow_in_process: bool,
}

/// Returns the requested company: a listed company by its ticker, or a private company by its name.
fn company(ask: &ConsultRequest) -> Result<ConsultCompany, Failure> {
    let usage = |message: &str| Failure::new(FailureKind::Usage, message);
    match (&ask.ticker, &ask.name) {
        (Some(ticker), None) => Ok(ConsultCompany::listed(ticker.parse()?)),
        (None, Some(_)) if ask.sources.contains(&DataSource::Edgar) => Err(usage(
            "the source `edgar` has no data on a private company, which files nothing with the SEC",
        )
        .hint("give a ticker, or use your own files: `--data FOLDER`")),
        (None, Some(name)) => Ok(ConsultCompany::private(name.parse()?)),
        (Some(_), Some(_)) => Err(usage("both a ticker and a company name given")
            .hint("give either a ticker or a company name")),
        (None, None) => Err(usage("no company given")
            .hint("give a ticker, or the name of a private company with `--name`")),
    }
}

impl ConsultPlan {
    /// Plans a new consultation. Planning queries the data sources, but calls no model.
    pub async fn fresh(
        mut ask: ConsultRequest,
        settings: &Settings,
        environment: &Environment,
    ) -> Result<ConsultPlan, Failure> {
        let company = company(&ask)?;
        let personas = match &ask.personas {
            Some(file) => {
                ConsultPersonas::read(&validated_text("the personas file", MAX_PERSONAS, file)?)?
            }
            None => ConsultPersonas::default(),
        };
        let wants = |name: DataSource| ask.sources.contains(&name);
        if wants(DataSource::Files) && ask.files.is_none() {
            let message = "the source `files` is requested, but no files are given";
            return Err(Failure::new(FailureKind::Usage, message));
        }
        let edgar = edgar(settings, environment);
        let mut gathered = GatheredData::default();
        let known = match &company.ticker {
            Some(ticker) => edgar.resolve(ticker).await.map(Some),
            None => Ok(None),
        };
        let known = match known {
            Ok(known) => known,
            Err(error @ EdgarError::Unknown { .. }) => return Err(error.into()),
            Err(error) if wants(DataSource::Edgar) => return Err(error.into()),
            // The SEC must not be queried without a contact, so the company name stays unverified.
            Err(EdgarError::NoContact { .. }) => None,
            Err(error) => {
                gathered.notes.push(format!("company name not verified: {error}"));
                None
            }
        };
        if let Some(company) = known.as_ref().filter(|_| wants(DataSource::Edgar)) {
            gathered = gathered.and(edgar.gather(company).await?);
            if ask.files.is_none() && !wants(DataSource::Synthetic) {
                let note = "the only news on the company is a list of SEC filings; add your own files with `--data`";
                gathered.notes.push(note.to_owned());
            }
        }
        if let Some(files) = ask.files.take() {
            gathered = gathered.and(files);
        }
        let name = company.name.or(known.map(|company| company.name));
        let company = ConsultCompany { ticker: company.ticker, name };
        Ok(ConsultPlan {
            gathered: Arc::new(gathered),
            personas,
            company,
            request: ask,
            stored_input: None,
            fork: None,
            parallel_moves: None,
            allow_in_process: false,
        })
    }

    /// Plans a fork of a stored consultation.
    pub async fn forked(
        run: &Run,
        from: &ForkRequest,
        models: BTreeMap<String, String>,
        store: &dyn Store,
    ) -> Result<ConsultPlan, Failure> {
        let mut plan = ConsultPlan::restored(run, models, store).await?;
        plan.fork = fork_change(from, run, &plan, store).await?;
        Ok(plan)
    }

    /// Plans to resume a stored consultation.
    pub async fn restored(
        run: &Run,
        models: BTreeMap<String, String>,
        store: &dyn Store,
    ) -> Result<ConsultPlan, Failure> {
        let lost = |what: &str| {
            let message = format!("cannot read {what} of run `{}`", run.id);
            Failure::new(FailureKind::Environment, message)
                .hint("start a new run: `assize consult`")
        };
        let before: ConsultInput =
            serde_json::from_value(run.input.clone()).map_err(|_| lost("the settings"))?;
        let (mut gathered, mut personas) = (None, None);
        for artifact in store.artifacts(&run.id).await? {
            match artifact.name.as_str() {
                GATHERED => {
                    let bytes = store.artifact(artifact.id).await?;
                    gathered = serde_json::from_slice(&bytes).ok();
                }
                PERSONAS => {
                    let bytes = store.artifact(artifact.id).await?;
                    personas = ConsultPersonas::read(&String::from_utf8_lossy(&bytes)).ok();
                }
                _ => {}
            }
        }
        let personas = personas.ok_or_else(|| lost("the personas"))?;
        Ok(ConsultPlan {
            gathered: Arc::new(gathered.ok_or_else(|| lost("the gathered data"))?),
            personas,
            company: before.company.clone(),
            request: ConsultRequest { models, ..ConsultRequest::default() },
            stored_input: Some(before),
            fork: None,
            parallel_moves: None,
            allow_in_process: false,
        })
    }

    /// How the fork that this plan starts or resumes differs from its parent run; `None` if there is no fork point.
    pub(super) fn fork_change(&self, origin: &RunOrigin) -> Option<&ConsultFork> {
        let of_resumed = || {
            // The last change belongs to the resumed run if it names the same parent. A fork that only retries failed
            // calls has no change of its own.
            let run = origin.resumed()?;
            let last = self.stored_input.as_ref()?.forks.last()?;
            (run.parent.as_ref().map(RunId::as_str) == Some(last.from.as_str())).then_some(last)
        };
        self.fork.as_ref().or_else(of_resumed)
    }

    /// Input of the run. A resumed run uses its stored input. A fork uses the input of its parent run with the
    /// requested changes.
    pub(super) fn input(
        &self,
        origin: &RunOrigin,
        providers: &Providers,
        sandboxes: &SandboxFactory,
        gateway: &Gateway,
    ) -> Result<ConsultInput, Failure> {
        if let (Some(run), Some(before)) = (origin.resumed(), &self.stored_input) {
            let run = format!("run `{}`", run.id);
            providers.check_same_model(&run, before.settings.model(), gateway)?;
            return Ok(before.clone());
        }
        if let (Some(parent), Some(before)) = (origin.parent(), &self.stored_input) {
            return self.forked_input(origin, parent, before, providers, gateway);
        }
        let config = &providers.settings;
        let sandbox = (super::placement::limits(sandboxes)?, self.request.image.clone());
        Ok(ConsultInput {
            company: self.company.clone(),
            synthetic: self.request.sources.contains(&DataSource::Synthetic),
            rounds: self.request.rounds,
            moves: self.request.moves,
            blind_scores: self.request.blind_scores,
            region: (*config.consult.region).clone(),
            parallel_moves: None,
            context_window: gateway.facts().map(|facts| facts.context_window),
            settings: RunSettings::new(config, sandbox, gateway.name()),
            models: self.request.models.clone(),
            forks: Vec::new(),
            reused_model: None,
        })
    }

    /// Input of a fork: the input of the parent run with the requested changes.
    fn forked_input(
        &self,
        origin: &RunOrigin,
        parent: &Run,
        before: &ConsultInput,
        providers: &Providers,
        gateway: &Gateway,
    ) -> Result<ConsultInput, Failure> {
        let (provider, model) = gateway.name();
        let models = self.roles(origin)?;
        let models_before = format!("{} {}", before.settings.provider, before.settings.model);
        // A cassette can replay answers of any model.
        let same = providers.cassette.replays()
            || (before.settings.model() == (provider, model) && before.models == models);
        if !same && self.fork.is_none() {
            let message = format!(
                "the answers of run `{}` are from {models_before}, but other models are configured now",
                parent.id
            );
            let hint = format!(
                "choose the point from which the configured models answer, such as `--at m3/round-4`; \
                 to repeat all debates: `assize runs fork {} --at round-1`",
                parent.id
            );
            return Err(Failure::new(FailureKind::Settings, message).hint(hint));
        }
        let mut forks = before.forks.clone();
        forks.extend(self.fork.clone());
        let (provider, model) = (provider.to_owned(), model.to_owned());
        Ok(ConsultInput {
            context_window: gateway.facts().map(|facts| facts.context_window),
            settings: RunSettings { provider, model, ..before.settings.clone() },
            models,
            forks,
            reused_model: (!same).then_some(models_before).or(before.reused_model.clone()),
            ..before.clone()
        })
    }

    /// Models of roles that do not use the default model. A resumed run keeps its models. A fork can replace models of
    /// its parent run.
    pub(super) fn roles(&self, origin: &RunOrigin) -> Result<BTreeMap<String, String>, Failure> {
        let asked = self.request.models.clone();
        let known = |role: &str| {
            let among = |prefix: &str, count: usize| {
                let number = role.strip_prefix(prefix).and_then(|rest| rest.parse::<usize>().ok());
                number.is_some_and(|number| (1..=count).contains(&number))
            };
            ["synthesizer", "financial", "trend", "critic"].contains(&role)
                || among("D", self.personas.decision_makers.len())
                || among("analyst_", self.personas.analysts.len())
        };
        if let Some(role) = asked.keys().find(|role| !known(role)) {
            let message = format!("unknown role `{role}` in this consultation");
            return Err(Failure::new(FailureKind::Usage, message));
        }
        match &self.stored_input {
            Some(before) if origin.parent().is_some() => {
                let mut models = before.models.clone();
                models.extend(asked);
                Ok(models)
            }
            Some(before) if !asked.is_empty() && before.models != asked => {
                let message = "the requested models are not the models of the run, and a resumed run cannot change its \
                     models";
                Err(Failure::new(FailureKind::Usage, message))
            }
            Some(before) => Ok(before.models.clone()),
            None => Ok(asked),
        }
    }

    pub(super) fn new_run(&self, input: &ConsultInput) -> NewRun {
        NewRun {
            kind: RunKind::Consult,
            title: replace_control_chars(&self.company.display_name()),
            parent: None,
            input: json!(input),
            artifacts: vec![
                (GATHERED.to_owned(), json!(*self.gathered).to_string().into_bytes()),
                (PERSONAS.to_owned(), self.personas.to_file().into_bytes()),
            ],
            idempotency_key: None,
        }
    }
}

/// Returns how the requested fork differs from its parent run; `None` if the request has no fork point.
async fn fork_change(
    from: &ForkRequest,
    run: &Run,
    plan: &ConsultPlan,
    store: &dyn Store,
) -> Result<Option<ConsultFork>, Failure> {
    let Some(at) = &from.at else { return Ok(None) };
    let records = store.records(&run.id).await?;
    let debated = |id: &str| records.iter().any(|record| record.key.segments().next() == Some(id));
    if let Some(id) = at.move_id.as_deref().filter(|id| !debated(id)) {
        let message = format!("move `{id}` was not debated in run `{}`", run.id);
        return Err(Failure::new(FailureKind::Usage, message));
    }
    let rounds = plan.stored_input.as_ref().map_or(0, |before| before.rounds);
    if at.round > rounds {
        let message = format!(
            "round {} does not exist: the number of rounds in this run is {rounds}",
            at.round
        );
        return Err(Failure::new(FailureKind::Usage, message));
    }
    check_new_personas(&from.new_personas, &plan.personas.of_debate())?;
    let personas = from.new_personas.clone();
    Ok(Some(ConsultFork { from: run.id.to_string(), at: at.clone(), personas }))
}

/// Current time, in seconds since 1970-01-01.
pub(super) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Creates an EDGAR client from the settings.
fn edgar(config: &Settings, environment: &Environment) -> Edgar {
    let folder = match &*config.edgar.folder {
        Some(path) => environment.resolve_path(path.as_ref()),
        None => environment.cache_folder.join("edgar"),
    };
    Edgar {
        base_url: (*config.edgar.base_url).clone(),
        contact: (*config.edgar.contact).clone(),
        folder,
        today: day_of(now()),
    }
}
