//! What happens in each node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use assize_graph::{Context, EffectError, Event, NodeError};
use assize_llm::{AnswerError, ErrorKind, JsonAsk, Response, Spent};
use assize_run::{Asking, ProgramId, RunEvent};
use assize_sandbox::Language;
use assize_types::{Fingerprint, trail};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::answer::{self, CODE, CRITIQUE, Critique, GeneratedCode};
use crate::court::{Court, Facts, Program, Trouble, fingerprint};
use crate::execution::{CodeFailure, Execution};
use crate::packages::Python;
use crate::prompt::Words;
use crate::state::{Attempt, CodeState, Update};

type Updates = Result<Vec<Update>, NodeError>;

/// An execution that could not be had, as it would be written down.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
struct NotRun(String);

impl Court {
    fn words<'a>(&'a self, state: &'a CodeState, facts: &'a Facts) -> Words<'a> {
        Words { state, facts, options: &self.options, packages: self.packages.as_ref() }
    }

    /// The model writes a program; or several side by side, which are run at once.
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
        let proposals = match state.task.candidates {
            0 | 1 => {
                let place = ProgramId { attempt: number, candidate: None };
                vec![self.propose(&context, &facts, place).await?]
            }
            several => {
                let tried = self.race(&context, &facts, number, several).await?;
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
            updates.push(Update::Spent(spent));
            updates.push(Update::Generated(Box::new(attempt)));
        }
        Ok(updates)
    }

    /// Asks for one program.
    async fn propose(
        &self,
        context: &Context<CodeState>,
        facts: &Facts,
        place: ProgramId,
    ) -> Result<(Attempt, Spent), NodeError> {
        let asking = Asking::new(context, &*self.model, format!("{place}/generate"));
        let reader = CODE.reader.as_ref().ok_or(AnswerError::Schema)?;
        let mut request = self.words(context.state(), facts).generation();
        // Equal questions are told apart.
        request.sample = context.state().task.sample * 100 + place.candidate.unwrap_or(0);
        let ask = JsonAsk::<GeneratedCode>::new(request);
        let attempt = match asking.value(ask.read_by(reader)).await? {
            Ok(answer) => Attempt::proposed(place.attempt, answer.value),
            Err(
                AnswerError::Unreadable { responses, .. } | AnswerError::CutOff { responses, .. },
            ) => self.without_shape(context.state(), facts, place, &responses),
            // The first answer could not be read, and with it in the prompt there is no room for a second.
            Err(AnswerError::SecondCall { error, responses, .. })
                if error.kind() == ErrorKind::ContextOverflow =>
            {
                self.without_shape(context.state(), facts, place, &responses)
            }
            Err(AnswerError::Refused { .. }) => Attempt {
                error: Some(CodeFailure::Declined),
                ..Attempt::without_shape(place.attempt, None, "")
            },
            // A provider that fails ends the run, which can go on later.
            Err(error) => return Err(error.into()),
        };
        asking.go_on().await?;
        if let Some(code) = &attempt.code {
            let confidence = attempt.confidence.unwrap_or_default();
            trail::code_generated(&context.state().task.task, code, confidence, &self.provider);
        }
        Ok((Attempt { candidate: place.candidate, ..attempt }, asking.spent()))
    }

    /// An attempt with the program that stands in an answer of another shape, if one does.
    fn without_shape(
        &self,
        state: &CodeState,
        facts: &Facts,
        place: ProgramId,
        responses: &[Response],
    ) -> Attempt {
        let found = responses.iter().rev().find_map(|one| answer::in_fences(&one.text));
        let said = responses.last().map_or("", |last| &last.text);
        let imported = match (&found, &self.packages, Python::of(&facts.version)) {
            (Some(code), Some(packages), Some(python))
                if state.task.language == Language::Python =>
            {
                packages.imported_by(code, &python)
            }
            _ => Vec::new(),
        };
        Attempt { dependencies: imported, ..Attempt::without_shape(place.attempt, found, said) }
    }

    /// Has several programs written and run side by side. The first that succeeds is the last of what
    /// comes back, and the others are given up as far as they are; if none does, the last is one that
    /// was run, since that is the one that is criticised.
    async fn race(
        &self,
        context: &Context<CodeState>,
        facts: &Facts,
        number: u32,
        several: u32,
    ) -> Result<Vec<(Attempt, Spent)>, NodeError> {
        let tried: Mutex<BTreeMap<u32, (Attempt, Spent)>> = Mutex::default();
        let note = &|candidate: u32, attempt: &Attempt, spent: Spent| {
            let mut tried = tried.lock().unwrap_or_else(PoisonError::into_inner);
            tried.insert(candidate, (attempt.clone(), spent));
        };
        let run = |candidate: u32| async move {
            let place = ProgramId { attempt: number, candidate: Some(candidate) };
            let (mut attempt, spent) = self.propose(context, facts, place).await?;
            note(candidate, &attempt, spent);
            if let Some(code) = &attempt.code {
                let program = Program { code, dependencies: &attempt.dependencies, facts };
                let execution = self.try_code(context, program, place).await?;
                attempt.error = execution.failure.clone();
                attempt.execution = Some(execution);
                note(candidate, &attempt, spent);
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
                    // The others may succeed all the same.
                    Err(error) => drop(stopped.get_or_insert(error)),
                }
                if success {
                    break;
                }
            }
            drop(running);
            if !success && stopped.is_some() {
                return Err(NotRun("one of several programs could not be tried".to_owned()));
            }
            let tried = std::mem::take(&mut *tried.lock().unwrap_or_else(PoisonError::into_inner));
            let mut tried: Vec<_> = tried.into_values().collect();
            tried.sort_by_key(|(attempt, _)| (attempt.succeeded(), attempt.execution.is_some()));
            Ok(tried)
        };
        // How it went is written down, so that the same one wins when the run is taken up again.
        let key = format!("attempt-{number}/race");
        match context.effect(&key, || Fingerprint::NONE, race, |_| Vec::new()).await {
            Ok(tried) => Ok(tried),
            Err(EffectError::Stop(error)) => Err(NodeError::Stop(error)),
            Err(EffectError::Failed(failed)) => Err(stopped.unwrap_or_else(|| failed.error.into())),
        }
    }

    /// What there is in the sandbox, found out once in the life of the run.
    async fn look_around(&self, context: &Context<CodeState>) -> Result<Facts, NodeError> {
        let language = context.state().task.language;
        let look = async {
            let facts = self.facts(language).await?;
            Ok(Facts { files: self.carried()?, ..facts })
        };
        once(context, "sandbox", Fingerprint::NONE, look, |_| Vec::new()).await
    }

    /// The program runs in a sandbox of its own.
    pub(crate) async fn execute(self: Arc<Self>, context: Context<CodeState>) -> Updates {
        let state = context.state();
        let (Some(last), Some(facts)) = (state.history.last(), &state.facts) else {
            return Ok(Vec::new());
        };
        let code = last.code.as_deref().unwrap_or_default();
        let program = Program { code, dependencies: &last.dependencies, facts };
        let place = ProgramId { attempt: state.attempt(), candidate: None };
        let execution = self.try_code(&context, program, place).await?;
        self.commit(&context, place.attempt, &execution).await?;
        Ok(vec![Update::Executed(Box::new(execution))])
    }

    async fn try_code(
        &self,
        context: &Context<CodeState>,
        program: Program<'_>,
        place: ProgramId,
    ) -> Result<Execution, NodeError> {
        let task = &context.state().task;
        let ProgramId { attempt, candidate } = place;
        context.emit(RunEvent::ExecutionStarted { attempt, candidate });
        let request = fingerprint(task, program, &self.options.spec);
        let tell = |execution: &Execution| {
            let Execution { outcome, failure, .. } = execution;
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
        once(context, &format!("{place}/execute"), request, run, tell).await
    }

    /// Hands the files of an execution on, once in the life of the run.
    async fn commit(
        &self,
        context: &Context<CodeState>,
        number: u32,
        execution: &Execution,
    ) -> Result<(), NodeError> {
        let was_run = execution.failure.as_ref().is_none_or(CodeFailure::was_run);
        if self.session.is_none() || !was_run {
            return Ok(());
        }
        let key = format!("attempt-{number}/commit");
        once(context, &key, Fingerprint::NONE, self.hand_on(execution), |_| Vec::new()).await
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
            Err(AnswerError::SecondCall { error, .. })
                if error.kind() == ErrorKind::ContextOverflow =>
            {
                None
            }
            Err(error) => return Err(error.into()),
        };
        asking.go_on().await?;
        context.emit(RunEvent::CodeCriticised {
            attempt: number,
            critique: critique.as_ref().map(|critique| json!(critique)),
        });
        let mut updates = vec![Update::Spent(asking.spent())];
        updates.extend(critique.map(Update::Criticised));
        Ok(updates)
    }
}

/// Says what it came to.
pub(crate) async fn finalize(context: Context<CodeState>) -> Updates {
    let state = context.state();
    let (success, attempts) = (state.succeeded(), state.attempt());
    context.emit(RunEvent::CodeFinished { success, attempts });
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
