//! A run that starts from an earlier one: what it takes over, and what is changed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use assize_debate::Personas;
use assize_graph::{Fork, Journal, Key, Record};
use assize_store::{Run, RunId, RunJournal, Store, StoreError};

use crate::args::ForkArgs;
use crate::failure::{Failure, FailureKind};
use crate::{input, terminal};

/// The longest words about somebody, in MiB.
const LONGEST: u64 = 1;

fn usage(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Usage, message)
}

/// Flags that mean nothing without a run to start from are refused, not forgotten.
pub(crate) fn refuse_idle_flags(args: &ForkArgs) -> Result<(), Failure> {
    let given = [("--at", args.at.is_some()), ("--set", !args.set.is_empty())];
    match given.into_iter().find(|(_, given)| *given && args.fork.is_none()) {
        Some((flag, _)) => Err(usage(format!("`{flag}` goes with `--fork RUN`"))),
        None => Ok(()),
    }
}

/// What some are told to be from now on, by `critic`, `D1` and so on.
pub(crate) fn told(
    args: &ForkArgs,
    personas: &Personas,
) -> Result<BTreeMap<String, String>, Failure> {
    let mut told = BTreeMap::new();
    for set in &args.set {
        let Some((who, words)) = set.split_once('=') else {
            return Err(usage(format!("`--set {set}` says nothing about anybody"))
                .hint("it is like `--set critic=\"You are …\"`, or `--set critic=@FILE`"));
        };
        if personas.persona(who).is_none() {
            let makers = personas.agents().into_keys().collect::<Vec<_>>().join(", ");
            return Err(usage(format!("nobody in a debate is `{who}`"))
                .hint(format!("there are: critic, {makers}")));
        }
        let words = match words.strip_prefix('@') {
            Some(path) => input::from_file("what somebody is told", LONGEST, Path::new(path))?,
            None => words.to_owned(),
        };
        if words.trim().is_empty() {
            return Err(usage(format!("`{who}` is told nothing")));
        }
        if told.insert(who.to_owned(), words).is_some() {
            return Err(usage(format!("`{who}` is told two things")));
        }
    }
    Ok(told)
}

/// The journal of a run, with what it may take over where it starts from another.
pub(crate) fn journal(
    run: &Run,
    own: &Arc<RunJournal>,
    inherited: Vec<Record>,
) -> Arc<dyn Journal> {
    match run.parent {
        Some(_) => Arc::new(Fork::new(own.clone(), inherited)),
        None => own.clone(),
    }
}

/// What a run may take over from the one that it is, or was, forked from.
pub(crate) async fn inherited(
    store: &dyn Store,
    resumed: Option<&Run>,
    parent: Option<&Run>,
    spared: impl Fn(&Key) -> bool,
) -> Result<Vec<Record>, Failure> {
    let parent: Option<&RunId> = match resumed {
        Some(run) => run.parent.as_ref(),
        None => parent.map(|run| &run.id),
    };
    let Some(parent) = parent else { return Ok(Vec::new()) };
    match store.records(parent).await {
        Ok(records) => Ok(records.into_iter().filter(|record| spared(&record.key)).collect()),
        Err(StoreError::NoSuchRun(_)) => {
            terminal::warn(&format!("`{parent}`, which this was forked from, is gone"));
            Ok(Vec::new())
        }
        Err(error) => Err(error.into()),
    }
}
