//! What happens in each node.

use std::sync::Arc;

use assize_calls::Asking;
use assize_graph::{Context, EffectError, Event, NodeError};
use assize_llm::{AnswerError, JsonAsk};
use assize_types::{Fingerprint, trail};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::answer::{self, CODE, CRITIQUE, Critique, GeneratedCode};
use crate::court::{Court, Facts, Trouble, fingerprint};
use crate::execution::Execution;
use crate::prompt::Words;
use crate::state::{Attempt, CodeState, Update};

type Updates = Result<Vec<Update>, NodeError>;

/// An execution that could not be had, as it would be written down.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
struct NotRun(String);

impl Court {
    fn words<'a>(&'a self, state: &'a CodeState, facts: &'a Facts) -> Words<'a> {
        Words { state, facts, options: &self.options }
    }

    /// The model writes a program.
    pub(crate) async fn generate(self: Arc<Self>, context: Context<CodeState>) -> Updates {
        let state = context.state();
        let number = state.attempt() + 1;
        let mut updates = Vec::new();
        let facts = match &state.facts {
            Some(facts) => Arc::clone(facts),
            None => {
                let facts = Arc::new(self.look_around(&context).await?);
                updates.push(Update::LookedAround(Arc::clone(&facts)));
                facts
            }
        };
        let key = format!("attempt-{number}/generate");
        let asking = Asking::new(&context, &*self.model, key);
        let reader = CODE.reader.as_ref().ok_or(AnswerError::Schema)?;
        let ask = JsonAsk::<GeneratedCode>::new(self.words(state, &facts).generation());
        let attempt = match asking.value(ask.read_by(reader)).await? {
            Ok(answer) => Attempt::proposed(number, answer.value),
            Err(
                AnswerError::Unreadable { responses, .. } | AnswerError::CutOff { responses, .. },
            ) => {
                let found = responses.iter().rev().find_map(|one| answer::in_fences(&one.text));
                Attempt::without_shape(number, found)
            }
            // A provider that fails ends the run, which can go on later; so does a model that declines.
            Err(error) => return Err(error.into()),
        };
        asking.go_on().await?;
        if let Some(code) = &attempt.code {
            let confidence = attempt.confidence.unwrap_or_default();
            trail::code_generated(&state.task.task, code, confidence, "");
        }
        context.emit(Event::new(
            "code_generated",
            json!({
                "attempt": number, "code_lines": attempt.code.as_ref().map(|code| code.lines().count()),
                "confidence": attempt.confidence, "dependencies": attempt.dependencies,
                "error": attempt.error.as_ref().map(ToString::to_string),
            }),
        ));
        updates.push(Update::Spent(asking.spent()));
        updates.push(Update::Generated(Box::new(attempt)));
        Ok(updates)
    }

    /// What there is in the sandbox, found out once in the life of the run.
    async fn look_around(&self, context: &Context<CodeState>) -> Result<Facts, NodeError> {
        let language = context.state().task.language;
        let look = async { self.facts(language).await.map_err(Trouble::from) };
        once(context, "sandbox", Fingerprint::NONE, look, |_| Vec::new()).await
    }

    /// The program runs in a sandbox of its own.
    pub(crate) async fn execute(self: Arc<Self>, context: Context<CodeState>) -> Updates {
        let state = context.state();
        let number = state.attempt();
        let code = state.history.last().and_then(|attempt| attempt.code.as_deref());
        let code = code.unwrap_or_default();
        context.emit(Event::new("execution_started", json!({"attempt": number})));
        let request = fingerprint(&state.task, code, &self.options.spec);
        let tell = |execution: &Execution| {
            let Execution { outcome, failure, .. } = execution;
            let payload = json!({
                "attempt": number, "success": failure.is_none(), "exit_code": outcome.exit_code,
                "signal": outcome.signal, "timed_out": outcome.timed_out,
                "out_of_memory": outcome.out_of_memory, "duration_ms": json!(outcome)["duration_ms"],
                "error": failure.as_ref().map(ToString::to_string),
            });
            vec![Event::new("execution_complete", payload)]
        };
        let key = format!("attempt-{number}/execute");
        let run = self.run(&state.task, number, code);
        let execution = once(&context, &key, request, run, tell).await?;
        Ok(vec![Update::Executed(Box::new(execution))])
    }

    /// The critic says why it failed.
    pub(crate) async fn critique(self: Arc<Self>, context: Context<CodeState>) -> Updates {
        let state = context.state();
        let number = state.attempt();
        let Some(facts) = &state.facts else { return Ok(Vec::new()) };
        let key = format!("attempt-{number}/critique");
        let asking = Asking::new(&context, &*self.model, key);
        let reader = CRITIQUE.reader.as_ref().ok_or(AnswerError::Schema)?;
        let ask = JsonAsk::<Critique>::new(self.words(state, facts).criticism());
        let critique = match asking.value(ask.read_by(reader)).await? {
            Ok(answer) => Some(answer.value),
            // What happened is known all the same, and is what the next attempt needs most.
            Err(
                AnswerError::Unreadable { .. }
                | AnswerError::CutOff { .. }
                | AnswerError::Refused { .. },
            ) => None,
            Err(error) => return Err(error.into()),
        };
        asking.go_on().await?;
        let payload = json!({"attempt": number, "critique": critique});
        context.emit(Event::new("code_criticised", payload));
        let mut updates = vec![Update::Spent(asking.spent())];
        updates.extend(critique.map(Update::Criticised));
        Ok(updates)
    }
}

/// Says what it came to.
pub(crate) async fn finalize(context: Context<CodeState>) -> Updates {
    let state = context.state();
    let payload = json!({"success": state.succeeded(), "attempts": state.attempt()});
    context.emit(Event::new("code_finished", payload));
    Ok(Vec::new())
}

/// Does something in a sandbox once in the life of the run.
async fn once<T: Serialize + serde::de::DeserializeOwned>(
    context: &Context<CodeState>,
    key: &str,
    request: Fingerprint,
    act: impl Future<Output = Result<T, Trouble>>,
    tell: impl FnOnce(&T) -> Vec<Event>,
) -> Result<T, NodeError> {
    let mut original = None;
    let act = async {
        act.await.map_err(|trouble| {
            let words = NotRun(trouble.to_string());
            original = Some(trouble);
            words
        })
    };
    match context.effect(key, || request, act, tell).await {
        Ok(value) => Ok(value),
        Err(EffectError::Stop(error)) => Err(NodeError::Stop(error)),
        // It is not written down: the next life of the run tries again.
        Err(EffectError::Failed(failed)) => Err(match original {
            Some(trouble) => trouble.into(),
            None => failed.error.into(),
        }),
    }
}
