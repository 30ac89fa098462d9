//! Plan of a consultation: a company with what is known of it, a run that is resumed, or a fork.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_config::{Environment, Settings};
use assize_gateway::{Gateway, Providers};
use assize_run::{NewRun, Origin, Run, RunId, RunKind, Store};
use assize_sandbox::{RunSettings, Sandboxes, Spec};
use assize_types::text::{checked, harmless};
use assize_types::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{ConsultAsk, SourceName};
use crate::fork::{ForkRequest, check_told};
use crate::sources::Gathered;
use crate::sources::edgar::{Edgar, EdgarError, day_of};
use crate::{Company, Personas, Turning};

/// The longest file of personas, in MiB.
const LONGEST: u64 = 1;

/// The names of what is kept beside a run.
const GATHERED: &str = "gathered.json";
const PERSONAS: &str = "personas.toml";

/// What a run needs to be run again; what is large is kept beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConsultInput {
    pub company: Company,
    /// Whether more was to be made up, besides what is known.
    pub synthetic: bool,
    pub rounds: u32,
    pub moves: u32,
    #[serde(default)]
    pub blind_scores: bool,
    pub region: Option<String>,
    /// How many debates are held at once, where somebody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_moves: Option<u32>,
    pub context_window: Option<u64>,
    #[serde(flatten)]
    pub settings: RunSettings,
    /// Other models of the same provider, by role.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, String>,
    /// How it differs from the runs that it was forked from, the earliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turnings: Vec<Turning>,
    /// Who answered what was taken over, if it was someone else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_before_by: Option<String>,
}

impl ConsultInput {
    /// The sandboxes that its debates run in.
    pub(super) fn spec(&self) -> Spec {
        Spec { region: self.region.clone(), ..self.settings.spec() }
    }
}

/// A consultation that is about to begin, or to go on.
#[derive(Debug)]
pub struct ConsultPlan {
    pub(super) gathered: Arc<Gathered>,
    pub(super) personas: Personas,
    company: Company,
    /// What is asked for now; of a stored run only other models for some roles.
    ask: ConsultAsk,
    before: Option<ConsultInput>,
    /// How a fork differs from the run that it starts from.
    turning: Option<Turning>,
    /// How many debates run at once, if the user says.
    pub parallel_moves: Option<u32>,
    /// Whether debates may run without a sandbox.
    pub allow_in_process: bool,
}

/// The company that is asked about: by its ticker, or a private one by its name.
fn company(ask: &ConsultAsk) -> Result<Company, Failure> {
    let usage = |message: &str| Failure::new(FailureKind::Usage, message);
    match (&ask.ticker, &ask.name) {
        (Some(ticker), None) => Ok(Company::listed(ticker.parse()?)),
        (None, Some(_)) if ask.sources.contains(&SourceName::Edgar) => Err(usage(
            "a private company files nothing with the SEC, so the source `edgar` has nothing on it",
        )
        .hint("give a ticker, or use your own files: `--data FOLDER`")),
        (None, Some(name)) => Ok(Company::private(name.parse()?)),
        (Some(_), Some(_)) => Err(usage("a ticker and a name are given").hint("give one of them")),
        (None, None) => Err(usage("no company is named")
            .hint("give a ticker, or the name of a private company with `--name`")),
    }
}

impl ConsultPlan {
    /// A new consultation. Nobody is asked but the sources.
    pub async fn fresh(
        mut ask: ConsultAsk,
        settings: &Settings,
        environment: &Environment,
    ) -> Result<ConsultPlan, Failure> {
        let company = company(&ask)?;
        let personas = match &ask.personas {
            Some(file) => Personas::read(&checked("the file of personas", LONGEST, file)?)?,
            None => Personas::default(),
        };
        let wants = |name: SourceName| ask.sources.contains(&name);
        if wants(SourceName::Files) && ask.files.is_none() {
            return Err(Failure::new(FailureKind::Usage, "the source `files` needs files"));
        }
        let edgar = edgar(settings, environment);
        let mut gathered = Gathered::default();
        let known = match &company.ticker {
            Some(ticker) => edgar.resolve(ticker).await.map(Some),
            None => Ok(None),
        };
        let known = match known {
            Ok(known) => known,
            Err(error @ EdgarError::Unknown { .. }) => return Err(error.into()),
            Err(error) if wants(SourceName::Edgar) => return Err(error.into()),
            // Nobody was to be asked, so it does without.
            Err(EdgarError::NoContact { .. }) => None,
            Err(error) => {
                gathered.notes.push(format!("nobody could be asked which company it is: {error}"));
                None
            }
        };
        if let Some(company) = known.as_ref().filter(|_| wants(SourceName::Edgar)) {
            gathered = gathered.and(edgar.gather(company).await?);
            if ask.files.is_none() && !wants(SourceName::Synthetic) {
                let note =
                    "of news only the titles of filings are known; `--data` adds what you have";
                gathered.notes.push(note.to_owned());
            }
        }
        if let Some(files) = ask.files.take() {
            gathered = gathered.and(files);
        }
        let name = company.name.or(known.map(|company| company.name));
        let company = Company { ticker: company.ticker, name };
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

    /// The plan of a fork.
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

    /// The plan of a stored run.
    pub async fn restored(
        run: &Run,
        models: BTreeMap<String, String>,
        store: &dyn Store,
    ) -> Result<ConsultPlan, Failure> {
        let lost = |what: &str| {
            let message = format!("{what} of `{}` cannot be read", run.id);
            Failure::new(FailureKind::Environment, message).hint("start it again: `assize consult`")
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
                    personas = Personas::read(&String::from_utf8_lossy(&bytes)).ok();
                }
                _ => {}
            }
        }
        let personas = personas.ok_or_else(|| lost("the personas"))?;
        Ok(ConsultPlan {
            gathered: Arc::new(gathered.ok_or_else(|| {
                Failure::new(FailureKind::Environment, "what was gathered cannot be read")
            })?),
            personas,
            company: before.company.clone(),
            ask: ConsultAsk { models, ..ConsultAsk::default() },
            before: Some(before),
            turning: None,
            parallel_moves: None,
            allow_in_process: false,
        })
    }

    /// How a fork differs from the run that it starts from, also when it is resumed.
    pub(super) fn turning(&self, origin: &Origin) -> Option<&Turning> {
        let of_resumed = || {
            // The last one is its own, unless it only tries again what had failed.
            let run = origin.resumed()?;
            let last = self.before.as_ref()?.turnings.last()?;
            (run.parent.as_ref().map(RunId::as_str) == Some(last.from.as_str())).then_some(last)
        };
        self.turning.as_ref().or_else(of_resumed)
    }

    /// What the run is to be run with: as before, where there was a before.
    pub(super) fn input(
        &self,
        origin: &Origin,
        providers: &Providers,
        sandboxes: &Sandboxes,
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
            synthetic: self.ask.sources.contains(&SourceName::Synthetic),
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

    /// What a fork is run with: as before, but for what differs.
    fn changed(
        &self,
        origin: &Origin,
        parent: &Run,
        before: &ConsultInput,
        providers: &Providers,
        gateway: &Gateway,
    ) -> Result<ConsultInput, Failure> {
        let (provider, model) = gateway.name();
        let models = self.roles(origin)?;
        let who = format!("{} {}", before.settings.provider, before.settings.model);
        // A cassette answers in whoever's name it was recorded.
        let same = providers.tape.replays()
            || (before.settings.model() == (provider, model) && before.models == models);
        if !same && self.turning.is_none() {
            let message =
                format!("`{}` was answered by {who}, and others would answer now", parent.id);
            let hint = format!(
                "say from where on, such as `--at m3/round-4`, or `--at round-1` for all debates: \
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
            answered_before_by: (!same).then_some(who).or(before.answered_before_by.clone()),
            ..before.clone()
        })
    }

    /// The models that answer for one role each: those of before, where there was a before.
    pub(super) fn roles(&self, origin: &Origin) -> Result<BTreeMap<String, String>, Failure> {
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
            let message = format!("nobody in this consultation is `{role}`");
            return Err(Failure::new(FailureKind::Usage, message));
        }
        match &self.before {
            Some(before) if origin.parent().is_some() => {
                let mut models = before.models.clone();
                models.extend(asked);
                Ok(models)
            }
            Some(before) if !asked.is_empty() && before.models != asked => {
                let message = "which model answers for whom cannot change in a run that goes on";
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

/// How a fork differs from what it starts from.
async fn turning(
    from: &ForkRequest,
    run: &Run,
    plan: &ConsultPlan,
    store: &dyn Store,
) -> Result<Option<Turning>, Failure> {
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
    Ok(Some(Turning { from: run.id.to_string(), at: at.clone(), personas }))
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// How the SEC is asked, by the settings.
fn edgar(config: &Settings, around: &Environment) -> Edgar {
    let folder = match &*config.edgar.folder {
        Some(path) => around.typed(path.as_ref()),
        None => around.cache_folder.join("edgar"),
    };
    Edgar {
        base_url: (*config.edgar.base_url).clone(),
        contact: (*config.edgar.contact).clone(),
        folder,
        today: day_of(now()),
    }
}
