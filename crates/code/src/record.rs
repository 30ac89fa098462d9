//! Reconstructs the attempts of a code run from its journal, even if the run has not finished.

use assize_graph::{EffectOutcome, EffectRecord};
use assize_llm::answer::TypedSchema;
use assize_llm::{CallTotals, ModelResponse};
use serde::de::DeserializeOwned;

use crate::answer::{self, CODE, CRITIQUE, Critique, GeneratedCode};
use crate::execution::{CodeExecution, OutputFile};
use crate::state::Attempt;

/// Reconstructs all attempts of a code run, including incomplete ones, from its journal records.
pub fn history(records: &[EffectRecord]) -> Vec<Attempt> {
    let mut history: Vec<Attempt> = Vec::new();
    for record in records {
        let EffectOutcome::Done(text) = &record.outcome else { continue };
        let key = record.key.to_string();
        let place = key.strip_prefix("attempt-").and_then(|key| key.split_once('/'));
        let Some((number, part)) = place else { continue };
        let Ok(number) = number.parse::<u32>() else { continue };
        let (candidate, part) =
            match part.strip_prefix("candidate-").and_then(|p| p.split_once('/')) {
                Some((candidate, part)) => (candidate.parse::<u32>().ok(), part),
                None => (None, part),
            };
        let is_same = |one: &&mut Attempt| (one.attempt, one.candidate) == (number, candidate);
        let current = history.iter_mut().find(is_same);
        // The key of a repeated model request ends with `-` and a number.
        match (part.split('-').next(), current) {
            (Some("generate"), current) => {
                let Ok(response) = serde_json::from_str::<ModelResponse>(text) else { continue };
                let attempt = match read::<GeneratedCode>(&CODE, &response) {
                    Some(generated) => Attempt::proposed(number, generated),
                    None => {
                        let code = answer::in_fences(&response.text);
                        Attempt::from_text(number, code, &response.text)
                    }
                };
                let attempt = Attempt { candidate, ..attempt };
                match current {
                    Some(earlier) => *earlier = attempt,
                    None => history.push(attempt),
                }
            }
            (Some("execute"), Some(current)) => {
                let Ok(execution) = serde_json::from_str::<CodeExecution>(text) else { continue };
                current.error = execution.failure.clone();
                current.execution = Some(execution);
            }
            (Some("race"), _) => {
                let tried = serde_json::from_str::<Vec<(Attempt, CallTotals)>>(text);
                let Ok(tried) = tried else { continue };
                history.retain(|one| one.attempt != number);
                history.extend(tried.into_iter().map(|(attempt, _)| attempt));
            }
            (Some("critique"), _) => {
                let response = serde_json::from_str::<ModelResponse>(text).ok();
                // The critic reviews the last candidate program of the attempt.
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

fn read<T: DeserializeOwned>(shape: &TypedSchema, response: &ModelResponse) -> Option<T> {
    let (value, _) = shape.reader.as_ref()?.read(&response.text).ok()?;
    serde_json::from_value(value).ok()
}

/// Returns the files of the last attempt whose program created files.
pub fn output_files(history: &[Attempt]) -> Vec<OutputFile> {
    let executions = history.iter().filter_map(|attempt| attempt.execution.as_ref());
    let left = executions.map(|execution| &execution.files).rfind(|files| !files.is_empty());
    left.cloned().unwrap_or_default()
}
