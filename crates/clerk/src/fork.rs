//! A run that starts from an earlier one: what it takes over, and what is changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_debate::Personas;
use assize_graph::{Fork, Journal, Key, Record};
use assize_run::{Run, RunId, RunJournal, Store, StoreError};
use assize_types::{Failure, FailureKind};

use crate::Listener;

fn usage(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Usage, message)
}

/// Refuses what nobody in a debate can be told to be.
pub fn check_told(told: &BTreeMap<String, String>, personas: &Personas) -> Result<(), Failure> {
    for (who, words) in told {
        if personas.persona(who).is_none() {
            let makers = personas.agents().into_keys().collect::<Vec<_>>().join(", ");
            return Err(usage(format!("nobody in a debate is `{who}`"))
                .hint(format!("there are: critic, {makers}")));
        }
        if words.trim().is_empty() {
            return Err(usage(format!("`{who}` is told nothing")));
        }
    }
    Ok(())
}

/// The journal of a run, with what it may take over where it starts from another.
pub fn journal(run: &Run, own: &Arc<RunJournal>, inherited: Vec<Record>) -> Arc<dyn Journal> {
    match run.parent {
        Some(_) => Arc::new(Fork::new(own.clone(), inherited)),
        None => own.clone(),
    }
}

/// What a run may take over from the one that it is, or was, forked from.
pub async fn inherited(
    store: &dyn Store,
    resumed: Option<&Run>,
    parent: Option<&Run>,
    spared: impl Fn(&Key) -> bool,
    listener: &dyn Listener,
) -> Result<Vec<Record>, Failure> {
    let parent: Option<&RunId> = match resumed {
        Some(run) => run.parent.as_ref(),
        None => parent.map(|run| &run.id),
    };
    let Some(parent) = parent else { return Ok(Vec::new()) };
    match store.records(parent).await {
        Ok(records) => Ok(records.into_iter().filter(|record| spared(&record.key)).collect()),
        Err(StoreError::NoSuchRun(_)) => {
            listener.warn(&format!("`{parent}`, which this was forked from, is gone"));
            Ok(Vec::new())
        }
        Err(error) => Err(error.into()),
    }
}
