//! Nodes of the debate graph.

use std::borrow::Cow;
use std::sync::Arc;

use assize_graph::{Context, GraphEvent, NodeError};
use assize_llm::{
    AnswerError, JsonRequest, Model, ModelError, ModelRequest, Provenance, StopReason, TypedAnswer,
};
use assize_run::{JournaledModel, RoundStatus, RunEvent, refusal_error};
use assize_types::text::shorten;
use futures_util::future::{join, join_all};
use serde_json::json;

use crate::DebateOptions;
use crate::call_position::{BLIND, RoundEvents, ends_the_run, is_overflow};
use crate::prompt::{DebatePrompts, likely_tokens, turn};
use crate::score::ScoreCard;
use crate::state::{
    ConversationEntry, DebateState, DebateUpdate, JudgeScore, LogName, RoundSummary,
    entry_from_response,
};

type Updates = Result<Vec<DebateUpdate>, NodeError>;

/// Maximum fraction of the context window that a request fills, as numerator and denominator. If a request would fill
/// more, its older rounds are summarized.
const MAX_WINDOW_USE: (u64, u64) = (3, 4);

/// Number of rounds at the end of a conversation that are not summarized.
const UNSUMMARIZED_ROUNDS: u32 = 3;

/// The model and its parameters, shared by all nodes of a debate.
pub(crate) struct DebateNodes {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) options: DebateOptions,
}

/// Error: a node that needs a conversation runs in a part of the graph that belongs to no conversation.
#[derive(Debug, thiserror::Error)]
#[error("a node of the debate graph runs outside a conversation")]
struct NoLog;

fn log_of(context: &Context<DebateState>) -> Result<LogName, NoLog> {
    context.item().copied().ok_or(NoLog)
}

impl DebateNodes {
    fn prompts<'a>(&'a self, context: &'a Context<DebateState>) -> DebatePrompts<'a> {
        DebatePrompts { state: context.state(), options: &self.options }
    }

    /// Node that requests the opening critique, which every decision maker answers. It also requests the blind scores.
    pub(crate) async fn critic_round_1(self: Arc<Self>, context: Context<DebateState>) -> Updates {
        let tell = || Some(event(context.state(), None, 1, RoundStatus::CriticResponded, None));
        let asking = JournaledModel::new(&context, &*self.model, "round-1/critic")
            .with_event(tell)
            .refusal_is_failure();
        // The debate needs an opening critique, so any failure of this call ends the run. The run can be resumed.
        let request = self.prompts(&context).opening();
        let blind = self.options.blind_scores;
        let logs = context.state().log_names().filter(|_| blind);
        let blind = join_all(logs.map(|log| self.judge_blind(&context, log)));
        let (response, blind) = join(asking.request_answer(&request), blind).await;
        let entry = entry_from_response("critic".into(), 1, &response??);
        let turn = turn(&entry);
        let mut updates = vec![DebateUpdate::Spent(asking.spent())];
        updates.extend(context.state().log_names().map(|log| DebateUpdate::EntryAdded {
            log,
            entry: entry.clone(),
            turn: turn.clone(),
        }));
        for judged in blind {
            updates.extend(judged?);
        }
        Ok(updates)
    }

    /// Requests the scores that a decision maker gives before the debate (blind scores).
    async fn judge_blind(&self, context: &Context<DebateState>, log: LogName) -> Updates {
        let asking = JournaledModel::new(context, &*self.model, format!("{log}/{BLIND}"));
        let score = match scores(&asking, self.prompts(context).blind_scoring(log)).await? {
            Ok(score) => score,
            // Blind scores only show what the debate changes. If their call fails, the debate continues without them.
            Err(error) if permanent_error(&error).is_some() => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        Ok(vec![DebateUpdate::Spent(asking.spent()), DebateUpdate::BlindScored { log, score }])
    }

    /// Node that requests a decision maker's answer to the critic.
    pub(crate) async fn dm_respond(self: Arc<Self>, context: Context<DebateState>) -> Updates {
        let log = log_of(&context)?;
        let round = context.state().round_of(log);
        let speech = Speech {
            role: log.decision_maker_id().into(),
            status: RoundStatus::DmResponded,
            log,
            round,
        };
        self.add_entry(&context, speech, |words, summary| words.response(log, summary)).await
    }

    /// Node that requests the critic's critique of the decision maker's last answer.
    pub(crate) async fn critic_individual(
        self: Arc<Self>,
        context: Context<DebateState>,
    ) -> Updates {
        let log = log_of(&context)?;
        let round = context.state().round_of(log) + 1;
        let speech =
            Speech { role: "critic".into(), status: RoundStatus::CriticResponded, log, round };
        self.add_entry(&context, speech, |words, summary| words.critique(log, round, summary)).await
    }

    /// Node that requests the scores of all decision makers.
    pub(crate) async fn score_move(self: Arc<Self>, context: Context<DebateState>) -> Updates {
        // Wait for all judges even if one call fails, because the scores of the others are paid for and recorded.
        let logs = context.state().log_names();
        let judged = join_all(logs.map(|log| self.judge(&context, log))).await;
        let mut updates = Vec::new();
        for judged in judged {
            updates.extend(judged?);
        }
        let scores = updates.iter().filter_map(|update| match update {
            DebateUpdate::Scored { log, score } => Some((log.decision_maker_id(), &score.card)),
            _ => None,
        });
        let mut total = 0;
        let mut breakdown = serde_json::Map::new();
        for (id, card) in scores {
            total += card.total();
            breakdown.insert(id, json!(card));
        }
        context.emit(RunEvent::SandboxScored {
            move_id: context.state().move_document.move_id.clone(),
            score: total,
            breakdown,
            partial: false,
            neutral: Vec::new(),
        });
        Ok(updates)
    }

    async fn judge(&self, context: &Context<DebateState>, log: LogName) -> Updates {
        let words = self.prompts(context);
        // A resumed run may continue a partial conversation. The scores of a partial conversation have a separate
        // key, so that they are not replayed for the longer conversation.
        let conversation = match context.state().partial.contains_key(&log) {
            true => format!("{log}/after-{}", context.state().log(log).len()),
            false => log.to_string(),
        };
        let key = |what: &str| format!("{conversation}/{what}");
        let summary_key = || key("score-summary");
        let (summary, mut updates) = self
            .summary_to_fit(context, log, summary_key, |summary| words.scoring(log, summary))
            .await?;
        let hasher = &context.state().hashers[log.index()];
        let mut asking = JournaledModel::new(context, &*self.model, key("score")).hashed_by(hasher);
        let mut answer = scores(&asking, words.scoring(log, summary.as_ref())).await?;
        if let Err(AnswerError::Model(error)) = &answer
            && let Some((shorter, more)) = self
                .after_overflow(&asking, error, log, summary.as_ref(), &key("score-summary-2"))
                .await?
        {
            asking = JournaledModel::new(context, &*self.model, key("score-shorter"));
            answer = scores(&asking, words.scoring(log, Some(&shorter))).await?;
            updates.extend(more);
        }
        let score = match answer {
            Ok(score) => score,
            Err(error) => match permanent_error(&error) {
                Some(failed) => JudgeScore {
                    card: ScoreCard::for_failed_call(),
                    provenance: Provenance::Defaulted,
                    assumed: Vec::new(),
                    failed: Some(failed.message().to_owned()),
                },
                None => return Err(error.into()),
            },
        };
        updates.push(DebateUpdate::Spent(asking.spent()));
        updates.push(DebateUpdate::Scored { log, score });
        Ok(updates)
    }

    /// Requests one entry from the model and adds it to a conversation. If the call fails permanently, the conversation
    /// ends; for some errors (see [`ends_the_run`]), the whole run ends.
    async fn add_entry(
        &self,
        context: &Context<DebateState>,
        speech: Speech,
        request: impl Fn(DebatePrompts<'_>, Option<&RoundSummary>) -> ModelRequest,
    ) -> Updates {
        let Speech { role, status, log, round } = speech;
        let words = self.prompts(context);
        let key = |what: &str| format!("round-{round}/{what}");
        let summary_key = || key("summary");
        let (summary, mut updates) = self
            .summary_to_fit(context, log, summary_key, |summary| request(words, summary))
            .await?;
        let tell = || Some(event(context.state(), Some(log), round, status, None));
        let hasher = &context.state().hashers[log.index()];
        let mut asking = JournaledModel::new(context, &*self.model, key(&role))
            .with_event(tell)
            .hashed_by(hasher);
        let mut answer = asking.request_answer(&request(words, summary.as_ref())).await?;
        if let Err(error) = &answer
            && let Some((shorter, more)) = self
                .after_overflow(&asking, error, log, summary.as_ref(), &key("summary-2"))
                .await?
        {
            let shorter_key = key(&format!("{role}-shorter"));
            asking = JournaledModel::new(context, &*self.model, shorter_key).with_event(tell);
            answer = asking.request_answer(&request(words, Some(&shorter))).await?;
            updates.extend(more);
        }
        let error = match answer {
            Ok(response) if response.stop == StopReason::Refused => refusal_error(),
            Ok(response) => {
                updates.push(DebateUpdate::Spent(asking.spent()));
                let entry = entry_from_response(role, round, &response);
                updates.push(DebateUpdate::EntryAdded { log, turn: turn(&entry), entry });
                return Ok(updates);
            }
            Err(error) if !ends_the_run(&error) => error,
            Err(error) => return Err(error.into()),
        };
        // The failure is not journaled, so that a resumed run makes the call again.
        let error = error.message().to_owned();
        let status = RoundStatus::Failed;
        context.emit(event(context.state(), Some(log), round, status, Some(error.clone())));
        updates.push(DebateUpdate::Spent(asking.spent()));
        updates.push(DebateUpdate::ConversationEnded { log, error });
        Ok(updates)
    }

    /// Returns a summary of older rounds, if the request has to contain one. If the request with the known summary is
    /// too long for the context window, the model generates a new summary, which covers more rounds.
    async fn summary_to_fit(
        &self,
        context: &Context<DebateState>,
        log: LogName,
        key: impl FnOnce() -> String,
        request: impl Fn(Option<&RoundSummary>) -> ModelRequest,
    ) -> Result<(Option<RoundSummary>, Vec<DebateUpdate>), NodeError> {
        let known = context.state().summaries.get(&log).cloned();
        let Some(window) = self.options.context_window else { return Ok((known, Vec::new())) };
        let tokens = likely_tokens(&request(known.as_ref())) + u64::from(self.options.max_tokens);
        if tokens <= window * MAX_WINDOW_USE.0 / MAX_WINDOW_USE.1 {
            return Ok((known, Vec::new()));
        }
        let Some(up_to_round) = summarizable(context.state(), log, known.as_ref()) else {
            return Ok((known, Vec::new()));
        };
        // The future is boxed, because it is large and rarely needed. Otherwise it would enlarge the future of every
        // node.
        let (summary, updates) =
            Box::pin(self.summarize(context, log, up_to_round, &key())).await?;
        Ok((Some(summary), updates))
    }

    /// If a request exceeded the context window, returns a summary of older rounds for a second, shorter request.
    /// Returns `None` for other errors, or if there are no rounds to summarize.
    ///
    /// Requests can exceed the context window, because the estimate of [`likely_tokens`] may be too low.
    async fn after_overflow(
        &self,
        asking: &JournaledModel<'_, DebateState>,
        error: &ModelError,
        log: LogName,
        known: Option<&RoundSummary>,
        key: &str,
    ) -> Result<Option<(RoundSummary, Vec<DebateUpdate>)>, NodeError> {
        let context = asking.context();
        match summarizable(context.state(), log, known).filter(|_| is_overflow(error)) {
            None => Ok(None),
            Some(up_to_round) => {
                asking.record_failure().await?;
                Box::pin(self.summarize(context, log, up_to_round, key)).await.map(Some)
            }
        }
    }

    /// Has the model summarize rounds 2 to `up_to_round`. If the model call fails, uses the first line of each entry
    /// instead.
    async fn summarize(
        &self,
        context: &Context<DebateState>,
        log: LogName,
        up_to_round: u32,
        key: &str,
    ) -> Result<(RoundSummary, Vec<DebateUpdate>), NodeError> {
        let asking = JournaledModel::new(context, &*self.model, key).extra();
        let text =
            match asking.request_answer(&self.prompts(context).summing_up(log, up_to_round)).await?
            {
                Ok(response) if response.stop != StopReason::Refused => Some(response.text),
                Ok(_) => None,
                Err(error) if !ends_the_run(&error) => {
                    asking.record_failure().await?;
                    None
                }
                Err(error) => return Err(error.into()),
            };
        let extracted = text.is_none();
        let text = text.unwrap_or_else(|| first_lines(context.state().log(log), up_to_round));
        let summary = RoundSummary { up_to_round, text, extracted };
        let update = DebateUpdate::Summarised { log, summary: summary.clone() };
        Ok((summary, vec![DebateUpdate::Spent(asking.spent()), update]))
    }
}

/// Last round that a new summary can cover; `None` if the conversation is too short for a summary, or if the known
/// summary already covers this round.
fn summarizable(state: &DebateState, log: LogName, known: Option<&RoundSummary>) -> Option<u32> {
    let up_to_round = state.round_of(log).saturating_sub(UNSUMMARIZED_ROUNDS);
    let done = known.map_or(1, |summary| summary.up_to_round);
    (up_to_round > done).then_some(up_to_round)
}

/// Role, conversation and round of an entry that is to be generated.
struct Speech {
    role: Cow<'static, str>,
    status: RoundStatus,
    log: LogName,
    round: u32,
}

/// Builds the event about one model call that has added an entry to a conversation or has failed. The call belongs to
/// the conversation `log`, or to all conversations if `log` is `None`.
fn event(
    state: &DebateState,
    log: Option<LogName>,
    round: u32,
    status: RoundStatus,
    error: Option<String>,
) -> GraphEvent {
    RoundEvents { move_id: &state.move_document.move_id, rounds: state.max_rounds }
        .event(log, round, status, error)
}

/// Requests scores and parses them. If the answer is not the requested JSON, extracts the scores by pattern.
async fn scores(
    asking: &JournaledModel<'_, DebateState>,
    request: ModelRequest,
) -> Result<Result<JudgeScore, AnswerError>, NodeError> {
    let reader = ScoreCard::reader().ok_or(AnswerError::Schema)?;
    let ask = JsonRequest::new(request)
        .with_reader(reader)
        .extract(&ScoreCard::find)
        .or_default(ScoreCard::neutral());
    Ok(asking.request_json(ask).await?.map(|TypedAnswer { value: card, provenance, responses }| {
        if provenance != Provenance::Defaulted {
            return JudgeScore { card, provenance, assumed: Vec::new(), failed: None };
        }
        let texts = responses.iter().rev().map(|response| response.text.as_str());
        match ScoreCard::find_some(texts) {
            Some((card, assumed)) => {
                JudgeScore { card, provenance: Provenance::Extracted, assumed, failed: None }
            }
            None => {
                let failed = asking.failure();
                let card = if failed.is_some() { ScoreCard::for_failed_call() } else { card };
                JudgeScore { card, provenance, assumed: Vec::new(), failed }
            }
        }
    }))
}

/// Returns the model error of a call that failed permanently, if the debate can continue without the answer.
fn permanent_error(error: &AnswerError) -> Option<&ModelError> {
    error.model_error().filter(|error| !ends_the_run(error))
}

/// Returns the shortened first line of each entry in rounds 2 to `up_to_round`.
fn first_lines(log: &[ConversationEntry], up_to_round: u32) -> String {
    const CHARACTERS: usize = 160;
    let lines = log.iter().filter(|entry| (2..=up_to_round).contains(&entry.round)).map(|entry| {
        let words = shorten(entry.content.lines().next().unwrap_or_default(), CHARACTERS);
        format!("Round {}, {}: {words}", entry.round, entry.role)
    });
    lines.collect::<Vec<_>>().join("\n")
}
