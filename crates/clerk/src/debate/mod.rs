//! One move on trial.

mod estimate;
mod plan;

use std::sync::Arc;

use assize_debate::{
    Company, DebateState, MoveDocument, Options, Personas, Verdict, graph, step_limit,
};
use assize_gateway::Gateway;
use assize_graph::{Observer, Record, RunOptions};
use assize_store::{Run, RunJournal, Store};
use assize_types::{Cancel, trail};
use serde_json::json;

use crate::choose::{self, Already, Tape};
use crate::ended::{self, Broke, Held};
use crate::failure::Failure;
use crate::{Clerk, fork, kept};

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
        let new_run = || plan.new_run(&input);
        let resumed = plan.resumed.clone();
        let begun = kept::begin(store, resumed, plan.take_over, clerk, new_run);
        let (run, journal) = begun.await?;
        let (gateway, journal, content) = (Arc::new(gateway), Arc::new(journal), plan.content);
        Ok(Trial { run, input, gateway, already, content, journal, inherited })
    }

    /// Runs it to its end, and writes that down.
    pub async fn hold(
        &mut self,
        observer: Option<Observer>,
        cancel: Cancel,
    ) -> Result<Held<Verdict>, Broke> {
        trail::workflow_started(&self.run.title, self.gateway.name().0);
        let input = &self.input;
        let options = Options {
            temperature: input.temperature as f32,
            max_tokens: input.max_output_tokens,
            context_window: input.context_window,
            blind_scores: false,
        };
        let graph = graph(self.gateway.clone(), options)?;
        let content = self.content.clone();
        let document = MoveDocument { move_id: input.move_id.clone(), content };
        let company = Company { ticker: input.ticker.clone(), ..Company::default() };
        let state =
            DebateState::new(document, company, Arc::new(Personas::default()), input.rounds)
                .changed(input.changes.clone());
        let inherited = std::mem::take(&mut self.inherited);
        let options = RunOptions {
            journal: Some(fork::journal(&self.run, &self.journal, inherited)),
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
                return Err(ended::broke(&self.journal, error, run, Vec::new()).await);
            }
        };
        let mut result = json!(verdict);
        if let Some(result) = result.as_object_mut() {
            // What was said is in the journal.
            result.remove("conversation_logs");
        }
        let kept = ended::done(&self.journal, result).await;
        Ok(Held { came_to: verdict, kept })
    }
}
