//! What the journal of a run knows of its attempts, also where the run never came to its end.

use assize_graph::{Outcome, Record};
use assize_llm::answer::Shape;
use assize_llm::{Response, Spent};
use serde::de::DeserializeOwned;

use crate::answer::{self, CODE, CRITIQUE, Critique, GeneratedCode};
use crate::execution::{Execution, LeftFile};
use crate::state::Attempt;

/// Every attempt as far as it got, out of the records of a run.
pub fn history(records: &[Record]) -> Vec<Attempt> {
    let mut history: Vec<Attempt> = Vec::new();
    for record in records {
        let Outcome::Done(text) = &record.outcome else { continue };
        let key = record.key.to_string();
        let place = key.strip_prefix("attempt-").and_then(|key| key.split_once('/'));
        let Some((number, part)) = place else { continue };
        let Ok(number) = number.parse::<u32>() else { continue };
        let (candidate, part) =
            match part.strip_prefix("candidate-").and_then(|p| p.split_once('/')) {
                Some((candidate, part)) => (candidate.parse::<u32>().ok(), part),
                None => (None, part),
            };
        let is_meant = |one: &&mut Attempt| (one.attempt, one.candidate) == (number, candidate);
        let current = history.iter_mut().find(is_meant);
        // What was asked for a second time is numbered.
        match (part.split('-').next(), current) {
            (Some("generate"), current) => {
                let Ok(response) = serde_json::from_str::<Response>(text) else { continue };
                let attempt = match read::<GeneratedCode>(&CODE, &response) {
                    Some(generated) => Attempt::proposed(number, generated),
                    None => {
                        let code = answer::in_fences(&response.text);
                        Attempt::without_shape(number, code, &response.text)
                    }
                };
                let attempt = Attempt { candidate, ..attempt };
                match current {
                    Some(earlier) => *earlier = attempt,
                    None => history.push(attempt),
                }
            }
            (Some("execute"), Some(current)) => {
                let Ok(execution) = serde_json::from_str::<Execution>(text) else { continue };
                current.error = execution.failure.clone();
                current.execution = Some(execution);
            }
            (Some("race"), _) => {
                let tried = serde_json::from_str::<Vec<(Attempt, Spent)>>(text);
                let Ok(tried) = tried else { continue };
                history.retain(|one| one.attempt != number);
                history.extend(tried.into_iter().map(|(attempt, _)| attempt));
            }
            (Some("critique"), _) => {
                let response = serde_json::from_str::<Response>(text).ok();
                // Of several, the last was criticised.
                let last = history.iter_mut().rev().find(|one| one.attempt == number);
                if let Some(last) = last {
                    last.critique = response.and_then(|one| read::<Critique>(&CRITIQUE, &one));
                }
            }
            _ => {}
        }
    }
    history
}

fn read<T: DeserializeOwned>(shape: &Shape, response: &Response) -> Option<T> {
    let (value, _) = shape.reader.as_ref()?.read(&response.text).ok()?;
    serde_json::from_value(value).ok()
}

/// The files that the program of a run left: of the last that left any, which is the one that succeeded, or of a
/// session the last.
pub fn left(history: &[Attempt]) -> Vec<LeftFile> {
    let executions = history.iter().filter_map(|attempt| attempt.execution.as_ref());
    let left = executions.map(|execution| &execution.files).rfind(|files| !files.is_empty());
    left.cloned().unwrap_or_default()
}
