//! What the journal of a run knows of its attempts, also where the run never came to its end.

use assize_graph::{Outcome, Record};
use assize_llm::Response;
use serde::de::DeserializeOwned;

use crate::answer::{self, CODE, CRITIQUE, Critique, GeneratedCode, Shape};
use crate::execution::Execution;
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
        let current = history.iter_mut().find(|attempt| attempt.attempt == number);
        // What was asked for a second time is numbered.
        match (part.split('-').next(), current) {
            (Some("generate"), current) => {
                let Ok(response) = serde_json::from_str::<Response>(text) else { continue };
                let attempt = match read::<GeneratedCode>(&CODE, &response) {
                    Some(generated) => Attempt::proposed(number, generated),
                    None => Attempt::without_shape(number, answer::in_fences(&response.text)),
                };
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
            (Some("critique"), Some(current)) => {
                let response = serde_json::from_str::<Response>(text).ok();
                current.critique = response.and_then(|one| read::<Critique>(&CRITIQUE, &one));
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
