//! One move on trial.

mod estimate;
mod plan;

use std::sync::Arc;

use assize_debate::{
    Company, DebateState, MoveDocument, Options, Personas, Verdict, conversation_logs, graph,
    step_limit,
};
use assize_gateway::Gateway;
use assize_graph::{Observer, Record, RunOptions};
use assize_store::{Run, RunJournal, Store};
use assize_types::{Cancel, trail};
use serde_json::json;

use crate::choose::{self, Already, Tape};
use crate::cluster::elsewhere::{Seat, came_to};
use crate::ended::{self, Broke, Held};
use crate::failure::Failure;
use crate::kept::Begin;
use crate::{Clerk, cluster, fork, kept};

pub use estimate::estimate;
pub use plan::{Ask, Input, Plan};

/// The kind of such a run.
pub const KIND: &str = "debate";

/// One debate, in one of its lives.
#[derive(Debug)]
pub struct Trial {
    pub run: Run,
    pub input: Input,
    pub gateway: Arc<Gateway>,
    /// What was spent on it before.
    pub already: Already,
    held: Seat<Here>,
}

/// What it takes to hold it here.
#[derive(Debug)]
struct Here {
    content: String,
    journal: Arc<RunJournal>,
    /// What may be taken over from the run that it was forked from.
    inherited: Vec<Record>,
}

impl Trial {
    /// Chooses who is asked, and claims the run.
    pub async fn open(
        plan: Plan,
        clerk: &Clerk,
        store: Arc<dyn Store>,
        tape: &Tape,
    ) -> Result<Trial, Failure> {
        let inherited = plan.inherited(&*store, &*clerk.listener).await?;
        let already = match &plan.resumed {
            Some(run) => kept::spent(run, &store.records(&run.id).await?, &inherited),
            None => Already::default(),
        };
        let gateway = choose::gateway(clerk, tape, already).await?;
        let input = plan.input(tape, &clerk.config, &gateway)?;
        let begin = Begin {
            store,
            resumed: plan.resumed.clone(),
            take_over: plan.take_over,
            new: || plan.new_run(&input),
        };
        let (run, held) = match clerk.others() {
            Some(member) => {
                cluster::refuse_tape(tape)?;
                let (run, elsewhere) = kept::put(clerk, member, begin).await?;
                (run, Seat::Elsewhere(elsewhere))
            }
            None => {
                let (run, journal) = kept::begin(clerk, begin).await?;
                let content = plan.content.clone();
                (run, Seat::Here(Box::new(Here { content, journal, inherited })))
            }
        };
        Ok(Trial { run, input, gateway: Arc::new(gateway), already, held })
    }

    /// Runs it to its end, and writes that down.
    pub async fn hold(
        &mut self,
        observer: Option<Observer>,
        cancel: Cancel,
    ) -> Result<Held<Verdict>, Broke> {
        let here = match &mut self.held {
            Seat::Here(here) => here,
            Seat::Elsewhere(elsewhere) => {
                let run = elsewhere.follow(observer, &**self.gateway.ledger(), cancel).await?;
                let records = elsewhere.store.records(&run.id).await.map_err(Failure::from)?;
                let mut verdict: Verdict = came_to(&run)?;
                verdict.conversation_logs = conversation_logs(&records);
                return Ok(Held { came_to: verdict, kept: Ok(()) });
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
        let graph = graph(self.gateway.clone(), options)?;
        let content = here.content.clone();
        let document = MoveDocument { move_id: input.move_id.clone(), content };
        let company = Company { ticker: input.ticker.clone(), ..Company::default() };
        let state =
            DebateState::new(document, company, Arc::new(Personas::default()), input.rounds)
                .changed(input.changes.clone());
        let inherited = std::mem::take(&mut here.inherited);
        let options = RunOptions {
            journal: Some(fork::journal(&self.run, &here.journal, inherited)),
            observer,
            cancel,
            step_limit: step_limit(input.rounds),
            ..RunOptions::default()
        };
        let outcome = graph.run(state, options).await;
        trail::workflow_completed(outcome.is_ok(), 1);
        let verdict = match outcome {
            Ok(state) => Verdict::from(state),
            Err(error) => {
                let run = (KIND, &self.run.id);
                return Err(ended::broke(&here.journal, error, run, Vec::new()).await);
            }
        };
        let mut result = json!(verdict);
        if let Some(result) = result.as_object_mut() {
            // What was said is in the journal.
            result.remove("conversation_logs");
        }
        let kept = ended::done(&here.journal, result).await;
        Ok(Held { came_to: verdict, kept })
    }
}
