//! Nodes of the code graph: generate, execute, critique and finalize.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use assize_graph::{Context, EffectError, GraphEvent, NodeError};
use assize_llm::{AnswerError, CallTotals, ErrorKind, JsonRequest, ModelResponse};
use assize_run::{JournaledModel, ProgramId, RunEvent};
use assize_sandbox::Language;
use assize_types::{Fingerprint, workflow_log};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::answer::{self, CODE, CRITIQUE, Critique, GeneratedCode};
use crate::execution::{CodeExecution, CodeFailure};
use crate::packages::PythonVersion;
use crate::prompt::CodePrompts;
use crate::runner::{CodeProgram, CodeRunner, CodeRunnerError, SandboxFacts, fingerprint};
use crate::state::{Attempt, CodeState, CodeUpdate};

type Updates = Result<Vec<CodeUpdate>, NodeError>;

/// Error message of an effect that failed. Unlike the error itself, the message can be stored in the journal.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
struct NotRun(String);

impl CodeRunner {
    fn prompts<'a>(&'a self, state: &'a CodeState, facts: &'a SandboxFacts) -> CodePrompts<'a> {
        CodePrompts { state, facts, options: &self.options, packages: self.packages.as_ref() }
    }

    /// Graph node: the model writes a program. With several candidates, the model writes several programs, and this
    /// node also runs them in parallel.
    pub(crate) async fn generate(self: Arc<Self>, context: Context<CodeState>) -> Updates {
        let state = context.state();
        let number = state.attempt() + 1;
        let mut updates = Vec::new();
        let facts = match &state.facts {
            Some(facts) => Arc::clone(facts),
            None => {
                let facts = Arc::new(self.detect_sandbox(&context).await?);
                updates.push(CodeUpdate::SandboxDetected(Arc::clone(&facts)));
                facts
            }
        };
        let proposals = match state.task.candidates {
            0 | 1 => {
                let place = ProgramId { attempt: number, candidate: None };
                vec![self.propose(&context, &facts, place).await?]
            }
            several => {
                let tried = self.run_candidates(&context, &facts, number, several).await?;
                if let Some(execution) = tried.last().and_then(|(last, _)| last.execution.as_ref())
                {
                    self.commit(&context, number, execution).await?;
                }
                tried
            }
        };
        for (attempt, spent) in proposals {
            let unread = attempt.error.as_ref().filter(|_| attempt.code.is_none());
            context.emit(RunEvent::CodeGenerated {
                attempt: number,
                candidate: attempt.candidate,
                code_lines: attempt.code.as_ref().map(|code| code.lines().count()),
                confidence: attempt.confidence,
                dependencies: attempt.dependencies.clone(),
                error: unread.map(ToString::to_string),
            });
            updates.push(CodeUpdate::Spent(spent));
            updates.push(CodeUpdate::Generated(Box::new(attempt)));
        }
        Ok(updates)
    }

    /// Requests one program from the model.
    async fn propose(
        &self,
        context: &Context<CodeState>,
        facts: &SandboxFacts,
        place: ProgramId,
    ) -> Result<(Attempt, CallTotals), NodeError> {
        let asking = JournaledModel::new(context, &*self.model, format!("{place}/generate"));
        let reader = CODE.reader.as_ref().ok_or(AnswerError::Schema)?;
        let mut request = self.prompts(context.state(), facts).generation();
        // The sample number makes the otherwise equal requests of different samples and candidates distinct.
        request.sample = context.state().task.sample * 100 + place.candidate.unwrap_or(0);
        let ask = JsonRequest::<GeneratedCode>::new(request);
        let attempt = match asking.request_json(ask.with_reader(reader)).await? {
            Ok(answer) => Attempt::proposed(place.attempt, answer.value),
            Err(
                AnswerError::Unreadable { responses, .. } | AnswerError::CutOff { responses, .. },
            ) => self.attempt_from_text(context.state(), facts, place, &responses),
            // The first answer was invalid, and the second request, which includes it, exceeds the context window.
            Err(AnswerError::SecondCall { error, responses, .. })
                if error.kind() == ErrorKind::ContextOverflow =>
            {
                self.attempt_from_text(context.state(), facts, place, &responses)
            }
            Err(AnswerError::Refused { .. }) => Attempt {
                error: Some(CodeFailure::Declined),
                ..Attempt::from_text(place.attempt, None, "")
            },
            // A provider error stops the run, and the user can resume it later.
            Err(error) => return Err(error.into()),
        };
        asking.record_failure().await?;
        if let Some(code) = &attempt.code {
            let confidence = attempt.confidence.unwrap_or_default();
            workflow_log::code_generated(
                &context.state().task.task,
                code,
                confidence,
                &self.provider,
            );
        }
        Ok((Attempt { candidate: place.candidate, ..attempt }, asking.spent()))
    }

    /// Creates an attempt from model answers that do not match the schema. The program is the longest code block of the
    /// latest answer that has code blocks. If no answer has a code block, the attempt has no program.
    fn attempt_from_text(
        &self,
        state: &CodeState,
        facts: &SandboxFacts,
        place: ProgramId,
        responses: &[ModelResponse],
    ) -> Attempt {
        let found = responses.iter().rev().find_map(|one| answer::in_fences(&one.text));
        let text = responses.last().map_or("", |last| &last.text);
        let imported = match (&found, &self.packages, PythonVersion::of(&facts.version)) {
            (Some(code), Some(packages), Some(python))
                if state.task.language == Language::Python =>
            {
                packages.imported_by(code, &python)
            }
            _ => Vec::new(),
        };
        Attempt { dependencies: imported, ..Attempt::from_text(place.attempt, found, text) }
    }

    /// Generates and runs several candidate programs in parallel. When one candidate succeeds, the others are
    /// cancelled. The last element of the result is the successful candidate. If no candidate succeeded, the candidates
    /// that were run come after the candidates that were not, because the critic reviews the last element.
    async fn run_candidates(
        &self,
        context: &Context<CodeState>,
        facts: &SandboxFacts,
        number: u32,
        several: u32,
    ) -> Result<Vec<(Attempt, CallTotals)>, NodeError> {
        let tried: Mutex<BTreeMap<u32, (Attempt, CallTotals)>> = Mutex::default();
        let record = &|candidate: u32, attempt: &Attempt, spent: CallTotals| {
            let mut tried = tried.lock().unwrap_or_else(PoisonError::into_inner);
            tried.insert(candidate, (attempt.clone(), spent));
        };
        let run = |candidate: u32| async move {
            let place = ProgramId { attempt: number, candidate: Some(candidate) };
            let (mut attempt, spent) = self.propose(context, facts, place).await?;
            record(candidate, &attempt, spent);
            if let Some(code) = &attempt.code {
                let program = CodeProgram { code, dependencies: &attempt.dependencies, facts };
                let execution = self.run_program(context, program, place).await?;
                attempt.error = execution.failure.clone();
                attempt.execution = Some(execution);
                record(candidate, &attempt, spent);
            }
            Ok::<_, NodeError>(attempt.succeeded())
        };
        let mut stopped = None;
        let race = async {
            let mut running: FuturesUnordered<_> = (1..=several).map(run).collect();
            let mut success = false;
            while let Some(done) = running.next().await {
                match done {
                    Ok(succeeded) => success = succeeded,
                    // Continue, because the other candidates may still succeed.
                    Err(error) => drop(stopped.get_or_insert(error)),
                }
                if success {
                    break;
                }
            }
            drop(running);
            if !success && stopped.is_some() {
                return Err(NotRun("a candidate program could not be run".to_owned()));
            }
            let tried = std::mem::take(&mut *tried.lock().unwrap_or_else(PoisonError::into_inner));
            let mut tried: Vec<_> = tried.into_values().collect();
            tried.sort_by_key(|(attempt, _)| (attempt.succeeded(), attempt.execution.is_some()));
            Ok(tried)
        };
        // The result is an effect, so that a resumed run has the same successful candidate.
        let key = format!("attempt-{number}/race");
        match context.effect(&key, || Fingerprint::NONE, race, |_| Vec::new()).await {
            Ok(tried) => Ok(tried),
            Err(EffectError::Stop(error)) => Err(NodeError::Stop(error)),
            Err(EffectError::Failed(failed)) => Err(stopped.unwrap_or_else(|| failed.error.into())),
        }
    }

    /// Detects the interpreter, the packages and the session files that programs can use in the sandbox. The detection
    /// is an effect, so a resumed run does not repeat it.
    async fn detect_sandbox(
        &self,
        context: &Context<CodeState>,
    ) -> Result<SandboxFacts, NodeError> {
        let language = context.state().task.language;
        let look = async {
            let facts = self.facts(language).await?;
            Ok(SandboxFacts { files: self.session_file_names()?, ..facts })
        };
        journaled(context, "sandbox", Fingerprint::NONE, look, |_| Vec::new()).await
    }

    /// Graph node: runs the program of the last attempt in a new sandbox.
    pub(crate) async fn execute(self: Arc<Self>, context: Context<CodeState>) -> Updates {
        let state = context.state();
        let (Some(last), Some(facts)) = (state.history.last(), &state.facts) else {
            return Ok(Vec::new());
        };
        let code = last.code.as_deref().unwrap_or_default();
        let program = CodeProgram { code, dependencies: &last.dependencies, facts };
        let place = ProgramId { attempt: state.attempt(), candidate: None };
        let execution = self.run_program(&context, program, place).await?;
        self.commit(&context, place.attempt, &execution).await?;
        Ok(vec![CodeUpdate::Executed(Box::new(execution))])
    }

    async fn run_program(
        &self,
        context: &Context<CodeState>,
        program: CodeProgram<'_>,
        place: ProgramId,
    ) -> Result<CodeExecution, NodeError> {
        let task = &context.state().task;
        let ProgramId { attempt, candidate } = place;
        context.emit(RunEvent::ExecutionStarted { attempt, candidate });
        let request = fingerprint(task, program, &self.options.spec);
        let events = |execution: &CodeExecution| {
            let CodeExecution { outcome, failure, .. } = execution;
            let complete = RunEvent::ExecutionComplete {
                attempt,
                candidate,
                success: failure.is_none(),
                exit_code: outcome.exit_code,
                signal: outcome.signal,
                timed_out: outcome.timed_out,
                out_of_memory: outcome.out_of_memory,
                duration_ms: outcome.duration_ms(),
                error: failure.as_ref().map(ToString::to_string),
            };
            vec![complete.into()]
        };
        let run = self.run(task, place, program);
        journaled(context, &format!("{place}/execute"), request, run, events).await
    }

    /// Saves the files of an execution to the session. Saving is an effect, so a resumed run does not repeat it.
    async fn commit(
        &self,
        context: &Context<CodeState>,
        number: u32,
        execution: &CodeExecution,
    ) -> Result<(), NodeError> {
        let was_run = execution.failure.as_ref().is_none_or(CodeFailure::was_run);
        if self.session.is_none() || !was_run {
            return Ok(());
        }
        let key = format!("attempt-{number}/commit");
        journaled(context, &key, Fingerprint::NONE, self.save_to_session(execution), |_| Vec::new())
            .await
    }

    /// Graph node: the critic (a model call) explains why the last attempt failed.
    pub(crate) async fn critique(self: Arc<Self>, context: Context<CodeState>) -> Updates {
        let state = context.state();
        let number = state.attempt();
        let Some(facts) = &state.facts else { return Ok(Vec::new()) };
        let key = format!("attempt-{number}/critique");
        let asking = JournaledModel::new(&context, &*self.model, key);
        let reader = CRITIQUE.reader.as_ref().ok_or(AnswerError::Schema)?;
        let ask = JsonRequest::<Critique>::new(self.prompts(state, facts).criticism());
        let critique = match asking.request_json(ask.with_reader(reader)).await? {
            Ok(answer) => Some(answer.value),
            // Continue without a critique, because the next attempt mainly needs the error message.
            Err(
                AnswerError::Unreadable { .. }
                | AnswerError::CutOff { .. }
                | AnswerError::Refused { .. },
            ) => None,
            Err(AnswerError::SecondCall { error, .. })
                if error.kind() == ErrorKind::ContextOverflow =>
            {
                None
            }
            Err(error) => return Err(error.into()),
        };
        asking.record_failure().await?;
        context.emit(RunEvent::CodeCriticised {
            attempt: number,
            critique: critique.as_ref().map(|critique| json!(critique)),
        });
        let mut updates = vec![CodeUpdate::Spent(asking.spent())];
        updates.extend(critique.map(CodeUpdate::Criticised));
        Ok(updates)
    }
}

/// Graph node: emits the event with the result of the code run.
pub(crate) async fn finalize(context: Context<CodeState>) -> Updates {
    let state = context.state();
    let (success, attempts) = (state.succeeded(), state.attempt());
    context.emit(RunEvent::CodeFinished { success, attempts });
    Ok(Vec::new())
}

/// Runs a future as an effect: the journal records its result, and a resumed run replays the result.
async fn journaled<T: Serialize + serde::de::DeserializeOwned>(
    context: &Context<CodeState>,
    key: &str,
    request: Fingerprint,
    act: impl Future<Output = Result<T, CodeRunnerError>>,
    events: impl FnOnce(&T) -> Vec<GraphEvent>,
) -> Result<T, NodeError> {
    let mut original = None;
    let act = async {
        act.await.map_err(|trouble| {
            let message = NotRun(trouble.to_string());
            original = Some(trouble);
            message
        })
    };
    match context.effect(key, || request, act, events).await {
        Ok(value) => Ok(value),
        Err(EffectError::Stop(error)) => Err(NodeError::Stop(error)),
        // Failures are not recorded, so a resumed run executes the effect again.
        Err(EffectError::Failed(failed)) => Err(match original {
            Some(trouble) => trouble.into(),
            None => failed.error.into(),
        }),
    }
}
