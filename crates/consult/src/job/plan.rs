//! Plan of a consultation: a new one, a resumed run, or a fork.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_config::{Environment, Settings};
use assize_gateway::{Gateway, Providers};
use assize_run::{NewRun, Run, RunId, RunKind, RunOrigin, Store};
use assize_sandbox::{RunSettings, SandboxFactory, SandboxSpec};
use assize_types::text::{checked, harmless};
use assize_types::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{ConsultRequest, DataSource};
use crate::fork::{ForkRequest, check_told};
use crate::sources::GatheredData;
use crate::sources::edgar::{Edgar, EdgarError, day_of};
use crate::{ConsultCompany, ConsultFork, ConsultPersonas};

/// Maximum size of a personas file, in MiB.
const MAX_PERSONAS: u64 = 1;

/// Artifact names.
const GATHERED: &str = "gathered.json";
const PERSONAS: &str = "personas.toml";

/// Input stored with a run, to resume or fork it. Large parts are stored as artifacts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConsultInput {
    pub company: ConsultCompany,
    /// Whether synthetic data was requested in addition to the sources.
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
    /// Other models of the same provider, by role.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, String>,
    /// Changes against the runs it was forked from, the earliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turnings: Vec<ConsultFork>,
    /// Models that gave the reused answers, if they differ from the current ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_before_by: Option<String>,
}

impl ConsultInput {
    /// Spec of the sandboxes for its debates.
    pub(super) fn spec(&self) -> SandboxSpec {
        SandboxSpec { region: self.region.clone(), ..self.settings.spec() }
    }
}

/// A consultation about to start or resume.
#[derive(Debug)]
pub struct ConsultPlan {
    pub(super) gathered: Arc<GatheredData>,
    pub(super) personas: ConsultPersonas,
    company: ConsultCompany,
    /// Current request; for a stored run it only has other models for some roles.
    ask: ConsultRequest,
    before: Option<ConsultInput>,
    /// How a fork differs from its parent run.
    turning: Option<ConsultFork>,
    /// Maximum number of concurrent debates, if set by the user.
    pub parallel_moves: Option<u32>,
    /// Whether debates may run without a sandbox.
    pub allow_in_process: bool,
}

/// The requested company: listed, by its ticker, or private, by its name.
fn company(ask: &ConsultRequest) -> Result<ConsultCompany, Failure> {
    let usage = |message: &str| Failure::new(FailureKind::Usage, message);
    match (&ask.ticker, &ask.name) {
        (Some(ticker), None) => Ok(ConsultCompany::listed(ticker.parse()?)),
        (None, Some(_)) if ask.sources.contains(&DataSource::Edgar) => Err(usage(
            "a private company files nothing with the SEC, so the source `edgar` has nothing on it",
        )
        .hint("give a ticker, or use your own files: `--data FOLDER`")),
        (None, Some(name)) => Ok(ConsultCompany::private(name.parse()?)),
        (Some(_), Some(_)) => Err(usage("both a ticker and a name given").hint("give one of them")),
        (None, None) => Err(usage("no company given")
            .hint("give a ticker, or the name of a private company with `--name`")),
    }
}

impl ConsultPlan {
    /// Plans a new consultation. Queries the sources, but no model.
    pub async fn fresh(
        mut ask: ConsultRequest,
        settings: &Settings,
        environment: &Environment,
    ) -> Result<ConsultPlan, Failure> {
        let company = company(&ask)?;
        let personas = match &ask.personas {
            Some(file) => {
                ConsultPersonas::read(&checked("the personas file", MAX_PERSONAS, file)?)?
            }
            None => ConsultPersonas::default(),
        };
        let wants = |name: DataSource| ask.sources.contains(&name);
        if wants(DataSource::Files) && ask.files.is_none() {
            return Err(Failure::new(FailureKind::Usage, "the source `files` needs files"));
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
            // Without a contact the SEC must not be queried, so the company stays unverified.
            Err(EdgarError::NoContact { .. }) => None,
            Err(error) => {
                gathered.notes.push(format!("company name not verified: {error}"));
                None
            }
        };
        if let Some(company) = known.as_ref().filter(|_| wants(DataSource::Edgar)) {
            gathered = gathered.and(edgar.gather(company).await?);
            if ask.files.is_none() && !wants(DataSource::Synthetic) {
                let note = "news is limited to the titles of filings; `--data` adds your own files";
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
            ask,
            before: None,
            turning: None,
            parallel_moves: None,
            allow_in_process: false,
        })
    }

    /// Plans a fork.
    pub async fn forked(
        run: &Run,
        from: &ForkRequest,
        models: BTreeMap<String, String>,
        store: &dyn Store,
    ) -> Result<ConsultPlan, Failure> {
        let mut plan = ConsultPlan::restored(run, models, store).await?;
        plan.turning = turning(from, run, &plan, store).await?;
        Ok(plan)
    }

    /// Plans the continuation of a stored run.
    pub async fn restored(
        run: &Run,
        models: BTreeMap<String, String>,
        store: &dyn Store,
    ) -> Result<ConsultPlan, Failure> {
        let lost = |what: &str| {
            let message = format!("cannot read {what} of `{}`", run.id);
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
            ask: ConsultRequest { models, ..ConsultRequest::default() },
            before: Some(before),
            turning: None,
            parallel_moves: None,
            allow_in_process: false,
        })
    }

    /// How a fork differs from its parent run, also if the fork is resumed.
    pub(super) fn turning(&self, origin: &RunOrigin) -> Option<&ConsultFork> {
        let of_resumed = || {
            // The last change belongs to this run, unless this fork only retries failed calls.
            let run = origin.resumed()?;
            let last = self.before.as_ref()?.turnings.last()?;
            (run.parent.as_ref().map(RunId::as_str) == Some(last.from.as_str())).then_some(last)
        };
        self.turning.as_ref().or_else(of_resumed)
    }

    /// Input of the run: that of the earlier run, if there is one.
    pub(super) fn input(
        &self,
        origin: &RunOrigin,
        providers: &Providers,
        sandboxes: &SandboxFactory,
        gateway: &Gateway,
    ) -> Result<ConsultInput, Failure> {
        if let (Some(run), Some(before)) = (origin.resumed(), &self.before) {
            let run = format!("`{}`", run.id);
            providers.refuse_another_model(&run, before.settings.model(), gateway)?;
            return Ok(before.clone());
        }
        if let (Some(parent), Some(before)) = (origin.parent(), &self.before) {
            return self.changed(origin, parent, before, providers, gateway);
        }
        let config = &providers.settings;
        let sandbox = (super::ground::limits(sandboxes)?, self.ask.image.clone());
        Ok(ConsultInput {
            company: self.company.clone(),
            synthetic: self.ask.sources.contains(&DataSource::Synthetic),
            rounds: self.ask.rounds,
            moves: self.ask.moves,
            blind_scores: self.ask.blind_scores,
            region: (*config.consult.region).clone(),
            parallel_moves: None,
            context_window: gateway.facts().map(|facts| facts.context_window),
            settings: RunSettings::new(config, sandbox, gateway.name()),
            models: self.ask.models.clone(),
            turnings: Vec::new(),
            answered_before_by: None,
        })
    }

    /// Input of a fork: that of the parent run with the changes.
    fn changed(
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
        // A cassette replays answers of any model.
        let same = providers.tape.replays()
            || (before.settings.model() == (provider, model) && before.models == models);
        if !same && self.turning.is_none() {
            let message = format!(
                "`{}` was answered by {models_before}, but other models are configured now",
                parent.id
            );
            let hint = format!(
                "choose the fork point, such as `--at m3/round-4`, or `--at round-1` for all debates: \
                 `assize runs fork {} --at round-1`",
                parent.id
            );
            return Err(Failure::new(FailureKind::Settings, message).hint(hint));
        }
        let mut turnings = before.turnings.clone();
        turnings.extend(self.turning.clone());
        let (provider, model) = (provider.to_owned(), model.to_owned());
        Ok(ConsultInput {
            context_window: gateway.facts().map(|facts| facts.context_window),
            settings: RunSettings { provider, model, ..before.settings.clone() },
            models,
            turnings,
            answered_before_by: (!same)
                .then_some(models_before)
                .or(before.answered_before_by.clone()),
            ..before.clone()
        })
    }

    /// Models of single roles: those of the earlier run, if there is one.
    pub(super) fn roles(&self, origin: &RunOrigin) -> Result<BTreeMap<String, String>, Failure> {
        let asked = self.ask.models.clone();
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
        match &self.before {
            Some(before) if origin.parent().is_some() => {
                let mut models = before.models.clone();
                models.extend(asked);
                Ok(models)
            }
            Some(before) if !asked.is_empty() && before.models != asked => {
                let message = "a resumed run cannot change its models";
                Err(Failure::new(FailureKind::Usage, message))
            }
            Some(before) => Ok(before.models.clone()),
            None => Ok(asked),
        }
    }

    pub(super) fn new_run(&self, input: &ConsultInput) -> NewRun {
        NewRun {
            kind: RunKind::Consult,
            title: harmless(&self.company.called()),
            parent: None,
            input: json!(input),
            artifacts: vec![
                (GATHERED.to_owned(), json!(*self.gathered).to_string().into_bytes()),
                (PERSONAS.to_owned(), self.personas.to_file().into_bytes()),
            ],
            once: None,
        }
    }
}

/// The change that a fork request describes.
async fn turning(
    from: &ForkRequest,
    run: &Run,
    plan: &ConsultPlan,
    store: &dyn Store,
) -> Result<Option<ConsultFork>, Failure> {
    let Some(at) = &from.at else { return Ok(None) };
    let records = store.records(&run.id).await?;
    let debated = |id: &str| records.iter().any(|record| record.key.segments().next() == Some(id));
    if let Some(id) = at.move_id.as_deref().filter(|id| !debated(id)) {
        let message = format!("no move `{id}` was debated in `{}`", run.id);
        return Err(Failure::new(FailureKind::Usage, message));
    }
    let rounds = plan.before.as_ref().map_or(0, |before| before.rounds);
    if at.round > rounds {
        let message = format!("there is no round {} in debates of {rounds} rounds", at.round);
        return Err(Failure::new(FailureKind::Usage, message));
    }
    check_told(&from.told, &plan.personas.of_debate())?;
    let personas = from.told.clone();
    Ok(Some(ConsultFork { from: run.id.to_string(), at: at.clone(), personas }))
}

/// Seconds since 1970-01-01.
pub(super) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// EDGAR client, from the settings.
fn edgar(config: &Settings, environment: &Environment) -> Edgar {
    let folder = match &*config.edgar.folder {
        Some(path) => environment.typed(path.as_ref()),
        None => environment.cache_folder.join("edgar"),
    };
    Edgar {
        base_url: (*config.edgar.base_url).clone(),
        contact: (*config.edgar.contact).clone(),
        folder,
        today: day_of(now()),
    }
}
