//! A company's options on trial.

mod estimate;
pub(crate) mod ground;
mod plan;

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_consult::sources::Gathered;
use assize_consult::sources::edgar::day_of;
use assize_consult::{Chamber, ConsultState, Made, Manner, NotKept, Report, Shelf, graph};
use assize_gateway::{Estimate, Gateway};
use assize_graph::{Observer, Record, RunError, RunOptions};
use assize_negotiation::{InProcess, Models};
use assize_run::{Run, RunEvent, RunId, RunJournal, RunKind, Store};
use assize_sandbox::Manager;
use assize_types::text::grouped;
use assize_types::{Cancel, Failure, FailureKind, trail};
use async_trait::async_trait;
use serde_json::json;

use crate::account::Account;
use crate::choose::{self, Tape};
use crate::cluster::debates::Walls;
use crate::cluster::elsewhere::Seat;
use crate::ended::{self, Broke, Held};
use crate::kept::{self, Begin};
use crate::{Clerk, cluster, fork, reading};
use ground::Ground;

pub use plan::{Input, Plan};

/// Where what is known of a company comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceName {
    /// Filed with the SEC.
    Edgar,
    /// The user's own files.
    Files,
    /// Made up, and labelled so.
    Synthetic,
}

/// What can be asked for.
#[derive(Debug, Clone)]
pub struct Ask {
    /// A listed company; this or `name`.
    pub ticker: Option<String>,
    /// A private company.
    pub name: Option<String>,
    /// Made up, if none is named and there are no files.
    pub sources: Vec<SourceName>,
    /// What was read in the user's own files.
    pub files: Option<Gathered>,
    /// Who takes part, as a file says it.
    pub personas: Option<String>,
    pub rounds: u32,
    /// That each analyst proposes.
    pub moves: u32,
    pub blind_scores: bool,
    pub image: Option<String>,
    /// Other models of the same provider, by role.
    pub models: BTreeMap<String, String>,
}

/// A consultation that could begin: it is known who would be asked, and what that is likely to take.
#[derive(Debug)]
pub struct Ready {
    pub estimate: Option<Estimate>,
    /// How many calls have to be waited for, one after the other.
    pub in_a_row: u64,
    pub gateway: Arc<Gateway>,
    plan: Plan,
    input: Input,
    chamber: Chamber,
    inherited: Vec<Record>,
    store: Arc<dyn Store>,
    taped: Tape,
    account: Option<Arc<Account>>,
}

impl Ready {
    pub async fn make(
        plan: Plan,
        clerk: &Clerk,
        store: Arc<dyn Store>,
        tape: &Tape,
        parallel_moves: Option<u32>,
    ) -> Result<Ready, Failure> {
        let inherited = plan.inherited(&*store, &*clerk.listener).await?;
        let already = kept::spent(&store, plan.resumed.as_ref(), &inherited).await?;
        let account = already.account.clone();
        let roles = plan.roles()?;
        let (gateway, others) = choose::gateways(clerk, tape, already, &roles).await?;
        let gateway = Arc::new(gateway);
        let others: BTreeMap<String, Arc<Gateway>> =
            others.into_iter().map(|(role, other)| (role, Arc::new(other))).collect();
        let mut models = Models::new(gateway.clone());
        for (role, other) in &others {
            models = models.with(role, other.clone());
        }
        let mut input = plan.input(tape, &clerk.config, &gateway)?;
        refuse_too_much(&plan, &input)?;
        refuse_region(clerk, &input)?;
        let asked = parallel_moves.or(input.parallel_moves);
        input.parallel_moves = asked;
        let at_once = ground::at_once(asked, clerk, &gateway);
        let chamber = chamber(&plan, &input, models, at_once);
        let answered = estimate::taken_over(&inherited);
        let estimate = estimate::estimate(&chamber, &gateway, &others, answered);
        let in_a_row = estimate::in_a_row(&chamber);
        let taped = tape.clone();
        Ok(Ready {
            estimate,
            in_a_row,
            gateway,
            plan,
            input,
            chamber,
            inherited,
            store,
            taped,
            account,
        })
    }

    /// Whether nothing of it was ever begun.
    pub fn is_new(&self) -> bool {
        self.plan.resumed.is_none()
    }

    /// What it is likely to take, where that is more than may be spent unasked. A run that goes on was asked about.
    pub fn to_be_asked_about(&self, clerk: &Clerk) -> Option<&Estimate> {
        let estimate = self.estimate.as_ref().filter(|_| self.is_new())?;
        let most = *clerk.config.consult.ask_above;
        let within = estimate.cost.known().is_some_and(|cost| cost <= most);
        // What cannot be passed need not be asked about.
        let capped = choose::caps(&clerk.config).cost.is_some_and(|cap| cap <= most);
        (!within && !capped).then_some(estimate)
    }

    /// Finds where debates can be held, and claims the run.
    pub async fn open(self, clerk: &Clerk, allow_in_process: bool) -> Result<Trial, Failure> {
        let Ready { gateway, plan, input, mut chamber, inherited, store, taped, account, .. } =
            self;
        let begin = Begin {
            store: store.clone(),
            resumed: plan.resumed.clone(),
            take_over: plan.take_over,
            account,
            new: || plan.new_run(&input),
        };
        let (calls, rounds) = (chamber.calls(), chamber.rounds);
        let (run, why, held) = match clerk.others() {
            Some(member) => {
                cluster::refuse_tape(&taped)?;
                let (run, elsewhere) = kept::put(clerk, member, begin).await?;
                (run, cluster::HELD.to_owned(), Seat::Elsewhere(elsewhere))
            }
            None => {
                let ground = Ground::find(clerk, &input.spec(), allow_in_process).await?;
                let (run, journal) = kept::begin(clerk, begin).await?;
                let held = ground.of_run(input.spec(), &run, journal.life());
                let (why, manager, walls) = (held.why, held.manager, held.walls);
                chamber.debates = held.debates;
                let banner = if gateway.is_rehearsal() { assize_consult::REHEARSED } else { "" };
                let (kept_by, run_id) = (store.clone(), run.id.clone());
                chamber.shelf = Some(Arc::new(WithTheRun { store: kept_by, run: run_id, banner }));
                let chamber = Arc::new(chamber);
                let here = Here { chamber, manager, walls, journal, inherited };
                (run, why, Seat::Here(Box::new(here)))
            }
        };
        Ok(Trial { run, input, gateway, why, calls, rounds, store, held })
    }
}

/// Where the documents of a consultation are, among its artifacts, as long as it is not over.
pub const DOCUMENTS: &str = "documents/";

/// Keeps documents with the run as they are written.
#[derive(Debug)]
struct WithTheRun {
    store: Arc<dyn Store>,
    run: RunId,
    /// What stands over every page, as it will in the end.
    banner: &'static str,
}

#[async_trait]
impl Shelf for WithTheRun {
    async fn put(&self, name: &str, text: &str) -> Result<(), NotKept> {
        let text = match name {
            _ if self.banner.is_empty() => text.to_owned(),
            // What was filed, or is the user's own, is no text of a model.
            "financial_data_raw.md" | "news_data_raw.md" => {
                assize_consult::label_made_up_parts(text)
            }
            _ => format!("{}{text}", self.banner),
        };
        let bytes = text.into_bytes();
        let kept = format!("{DOCUMENTS}{name}");
        let kept = self.store.put_artifact(&self.run, &kept, bytes).await;
        kept.map(drop).map_err(|error| NotKept { name: name.to_owned(), why: error.to_string() })
    }
}

/// One consultation, in one of its lives.
#[derive(Debug)]
pub struct Trial {
    pub run: Run,
    pub input: Input,
    pub gateway: Arc<Gateway>,
    /// Where debates are held, and why there.
    pub why: String,
    /// How many calls it takes in all.
    pub calls: u64,
    pub rounds: u32,
    pub store: Arc<dyn Store>,
    held: Seat<Here>,
}

/// What it takes to hold it here.
#[derive(Debug)]
struct Here {
    chamber: Arc<Chamber>,
    /// Who makes the sandboxes of its debates.
    manager: Option<Arc<Manager>>,
    /// Behind which walls they were held, where that is known afterwards.
    walls: Option<Arc<Walls>>,
    journal: Arc<RunJournal>,
    /// What may be taken over from the run that it was forked from.
    inherited: Vec<Record>,
}

impl Trial {
    /// Runs it to its end, and writes that down.
    pub async fn hold(
        &mut self,
        observer: Option<Observer>,
        cancel: Cancel,
    ) -> Result<Held<Report>, Broke> {
        let here = match &mut self.held {
            Seat::Here(here) => here,
            Seat::Elsewhere(elsewhere) => {
                let run = elsewhere.follow(observer, &**self.gateway.ledger(), cancel).await?;
                let records = self.store.records(&run.id).await.map_err(Failure::from)?;
                let lost = || Failure::new(FailureKind::Environment, "it has no report");
                let report = reading::consulted(&run, &records)?.ok_or_else(lost)?;
                if let Some(made) = &report.made {
                    self.why.clone_from(&made.isolation);
                }
                return Ok(Held { came_to: report, kept: Ok(()) });
            }
        };
        trail::workflow_started(&self.run.title, self.gateway.name().0);
        let graph = graph(here.chamber.clone())?;
        let inherited = std::mem::take(&mut here.inherited);
        let journal = Some(fork::journal(&self.run, &here.journal, inherited));
        let options = RunOptions { journal, observer, cancel, ..RunOptions::default() };
        let outcome = graph.run(ConsultState::new(self.input.company.clone()), options).await;
        if let Some(manager) = &here.manager {
            // Nothing of theirs is left, however it ended.
            manager.close().await;
        }
        trail::workflow_completed(outcome.is_ok(), 1);
        match outcome {
            Ok(state) => {
                let journal = here.journal.clone();
                if let Some(walls) = &here.walls {
                    self.why = format!("the cluster: {}", walls.words());
                }
                Ok(self.finish(Report::from(&state), &journal).await)
            }
            Err(error) => {
                let told = match &error {
                    RunError::Cancelled { reason } => {
                        RunEvent::PipelineCancelled { reason: reason.to_string() }
                    }
                    error => RunEvent::PipelineFailed { error: error.to_string() },
                };
                Err(ended::broke(
                    &here.journal,
                    error,
                    (RunKind::Consult, &self.run.id),
                    vec![told.into()],
                )
                .await)
            }
        }
    }

    async fn finish(&self, mut report: Report, journal: &RunJournal) -> Held<Report> {
        report.made = Some(Made {
            run: self.run.id.to_string(),
            on: day_of(plan::now()).to_string(),
            provider: self.input.provider.clone(),
            model: self.input.model.clone(),
            models: self.input.models.clone(),
            isolation: self.why.clone(),
        });
        let mut result = json!(report);
        for verdict in result["policy_scores"].as_array_mut().into_iter().flatten() {
            if let Some(verdict) = verdict.as_object_mut() {
                // What was said is in the journal.
                verdict.remove("conversation_logs");
            }
        }
        let kept = ended::done(journal, result).await;
        Held { came_to: report, kept }
    }
}

/// Refuses a region where there is no cluster: this machine is the only place there is.
fn refuse_region(clerk: &Clerk, input: &Input) -> Result<(), Failure> {
    let (Some(region), None) = (&input.region, &clerk.member) else { return Ok(()) };
    let message = format!("`consult.region` is `{region}`, which needs a cluster");
    let hint = "name its servers with `--cluster nats://a,b,c`, or remove the setting";
    Err(Failure::new(FailureKind::Settings, message).hint(hint))
}

/// Refuses what would not fit the model that has to read all of it.
fn refuse_too_much(plan: &Plan, input: &Input) -> Result<(), Failure> {
    let Some(window) = input.context_window else { return Ok(()) };
    let known = plan.gathered.likely_tokens();
    let most = window.saturating_sub(u64::from(input.max_output_tokens)) * 3 / 4;
    if known <= most {
        return Ok(());
    }
    let message = format!(
        "what is known of the company takes about {} tokens, too many for a model that holds {}",
        grouped(known),
        grouped(window)
    );
    let hint = "give it less of what you have, or name a model that holds more";
    Err(Failure::new(FailureKind::Usage, message).hint(hint))
}

/// Everything but where debates are held.
fn chamber(plan: &Plan, input: &Input, models: Models, at_once: usize) -> Chamber {
    let (temperature, max_tokens) = (input.temperature as f32, input.max_output_tokens);
    Chamber {
        models,
        manner: Manner { temperature, max_tokens },
        personas: plan.personas.clone(),
        moves: input.moves as usize,
        rounds: input.rounds,
        at_once,
        debate_options: assize_debate::Options {
            temperature,
            max_tokens,
            context_window: input.context_window,
            blind_scores: input.blind_scores,
        },
        gathered: plan.gathered.clone(),
        synthetic: input.synthetic,
        debates: Arc::new(InProcess::default()),
        turnings: input.turnings.clone(),
        shelf: None,
    }
}
