//! One move on trial.

mod estimate;
mod plan;

use std::sync::Arc;

use assize_consult::{Flag, FlagKind};
use assize_debate::{Company, Job, MoveDocument, Options, Personas, Verdict, conversation_logs};
use assize_gateway::Gateway;
use assize_graph::{Observer, Record, RunOptions};
use assize_negotiation::{DebateOutcome, Debates, Models, SingleDebate, single_debate};
use assize_run::{Run, RunJournal, RunKind, Store};
use assize_sandbox::Manager;
use assize_types::{Cancel, Failure, FailureKind, trail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::choose::{self, Already, Tape};
use crate::cluster::debates::Walls;
use crate::cluster::elsewhere::Seat;
use crate::consult::ground::Ground;
use crate::ended::{self, Broke, Held};
use crate::kept::{self, Begin};
use crate::{Clerk, cluster, fork, reading};

pub use estimate::estimate;
pub use plan::{Ask, Input, Plan};

/// What a debate came to, and behind which boundary it ran.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DebateReport {
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Where it ran.
    #[serde(default)]
    pub isolation: String,
    /// What a reader must know besides the verdict.
    #[serde(default)]
    pub flags: Vec<Flag>,
}

/// One debate, in one of its lives.
#[derive(Debug)]
pub struct Trial {
    pub run: Run,
    pub input: Input,
    pub gateway: Arc<Gateway>,
    /// Where it runs, and why there.
    pub why: String,
    /// What was spent on it before.
    pub already: Already,
    held: Seat<Here>,
}

/// What it takes to hold it here.
struct Here {
    content: String,
    debates: Arc<dyn Debates>,
    /// Makes its sandbox; closed in the end.
    manager: Option<Arc<Manager>>,
    /// The backends of the workers that held it, known afterwards.
    walls: Option<Arc<Walls>>,
    journal: Arc<RunJournal>,
    /// What may be taken over from the run that it was forked from.
    inherited: Vec<Record>,
}

impl std::fmt::Debug for Here {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Here").finish_non_exhaustive()
    }
}

impl Trial {
    /// Chooses who is asked, and claims the run.
    pub async fn open(
        plan: Plan,
        clerk: &Clerk,
        store: Arc<dyn Store>,
        tape: &Tape,
        allow_in_process: bool,
    ) -> Result<Trial, Failure> {
        let inherited = plan.inherited(&*store, &*clerk.listener).await?;
        let already = kept::spent(&store, plan.resumed.as_ref(), &inherited).await?;
        let gateway = choose::gateway(clerk, tape, already.clone()).await?;
        let input = plan.input(tape, &clerk.config, &gateway)?;
        let begin = Begin {
            store,
            resumed: plan.resumed.clone(),
            take_over: plan.take_over,
            account: already.account.clone(),
            new: || plan.new_run(&input),
        };
        let (run, why, held) = match clerk.others() {
            Some(member) => {
                cluster::refuse_tape(tape)?;
                let (run, elsewhere) = kept::put(clerk, member, begin).await?;
                (run, cluster::HELD.to_owned(), Seat::Elsewhere(elsewhere))
            }
            None => {
                let ground = Ground::find(clerk, &input.spec(), allow_in_process).await?;
                let (run, journal) = kept::begin(clerk, begin).await?;
                let place = ground.of_run(input.spec(), &run, journal.life());
                let (debates, manager, walls) = (place.debates, place.manager, place.walls);
                let content = plan.content.clone();
                let here = Here { content, debates, manager, walls, journal, inherited };
                (run, place.why, Seat::Here(Box::new(here)))
            }
        };
        Ok(Trial { run, input, gateway: Arc::new(gateway), why, already, held })
    }

    /// Runs it to its end, and writes that down.
    pub async fn hold(
        &mut self,
        observer: Option<Observer>,
        cancel: Cancel,
    ) -> Result<Held<DebateReport>, Broke> {
        let here = match &mut self.held {
            Seat::Here(here) => here,
            Seat::Elsewhere(elsewhere) => {
                let run = elsewhere.follow(observer, &**self.gateway.ledger(), cancel).await?;
                let records = elsewhere.store.records(&run.id).await.map_err(Failure::from)?;
                let mut result = run.result.clone().unwrap_or_default();
                result["conversation_logs"] = json!(conversation_logs(&records));
                let report: DebateReport = reading::result(result)?;
                self.why.clone_from(&report.isolation);
                return Ok(Held { came_to: report, kept: Ok(()) });
            }
        };
        trail::workflow_started(&self.run.title, self.gateway.name().0);
        let input = &self.input;
        let options = Options {
            temperature: input.temperature as f32,
            max_tokens: input.max_output_tokens,
            context_window: input.context_window,
            blind_scores: false,
        };
        let job = Job {
            move_document: MoveDocument {
                move_id: input.move_id.clone(),
                content: here.content.clone(),
            },
            company: Company { ticker: input.ticker.clone(), ..Company::default() },
            personas: Personas::default(),
            max_rounds: input.rounds,
            options,
            changes: input.changes.clone(),
        };
        let graph = single_debate(job, Models::new(self.gateway.clone()), here.debates.clone())?;
        let inherited = std::mem::take(&mut here.inherited);
        let journal = Some(fork::journal(&self.run, &here.journal, inherited));
        let options = RunOptions { journal, observer, cancel, ..RunOptions::default() };
        let outcome = graph.run(SingleDebate::default(), options).await;
        if let Some(manager) = &here.manager {
            // Nothing of its sandbox is left, however it ended.
            manager.close().await;
        }
        if let Some(walls) = &here.walls {
            self.why = format!("the cluster: {}", walls.words());
        }
        trail::workflow_completed(outcome.is_ok(), 1);
        let lost = || Failure::new(FailureKind::Internal, "the debate has no verdict");
        let outcome = match outcome {
            Ok(state) => state.outcome.ok_or_else(lost)?,
            Err(error) => {
                let run = (RunKind::Debate, &self.run.id);
                return Err(ended::broke(&here.journal, error, run, Vec::new()).await);
            }
        };
        let report = report(Arc::unwrap_or_clone(outcome), self.why.clone());
        let mut result = json!(report);
        if let Some(result) = result.as_object_mut() {
            // What was said is in the journal.
            result.remove("conversation_logs");
        }
        let kept = ended::done(&here.journal, result).await;
        Ok(Held { came_to: report, kept })
    }
}

/// The verdict, with what must be known of how it came about.
fn report(outcome: DebateOutcome, isolation: String) -> DebateReport {
    let DebateOutcome { verdict, not_isolated, weaker, .. } = outcome;
    let flag = |kind, message| Flag { kind, move_id: None, message };
    let flags = (not_isolated.map(|message| flag(FlagKind::NoIsolation, message)).into_iter())
        .chain(weaker.map(|message| flag(FlagKind::WeakerIsolation, message)))
        .collect();
    DebateReport { verdict, isolation, flags }
}
