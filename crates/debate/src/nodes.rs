//! What happens in each node.

use std::borrow::Cow;
use std::sync::Arc;

use assize_graph::{Context, Event, NodeError};
use assize_llm::{Answer, AnswerError, JsonAsk, Model, ModelError, Provenance, Request, Stop};
use assize_run::{Asking, RoundStatus, RunEvent, declined};
use assize_types::text::shorten;
use futures_util::future::{join, join_all};
use serde_json::json;

use crate::Options;
use crate::place::{BLIND, Round, ends_the_run, is_overflow};
use crate::prompt::{Words, likely_tokens, turn};
use crate::score::ScoreCard;
use crate::state::{ConversationEntry, DebateState, JudgeScore, LogName, Summary, Update, said};

type Updates = Result<Vec<Update>, NodeError>;

/// How much of a context window may be used before older rounds are summed up.
const FULLEST: (u64, u64) = (3, 4);

/// Rounds at the end of a conversation that are always shown as they were.
const KEPT_ROUNDS: u32 = 3;

/// The parts of a debate that all nodes share.
pub(crate) struct Room {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) options: Options,
}

/// There is no conversation for this node to speak in.
#[derive(Debug, thiserror::Error)]
#[error("it was not told which conversation it is in")]
struct NoLog;

fn log_of(context: &Context<DebateState>) -> Result<LogName, NoLog> {
    context.item().copied().ok_or(NoLog)
}

impl Room {
    fn words<'a>(&'a self, context: &'a Context<DebateState>) -> Words<'a> {
        Words { state: context.state(), options: &self.options }
    }

    /// The critic reads the move and says what all three decision makers will answer.
    pub(crate) async fn critic_round_1(self: Arc<Self>, context: Context<DebateState>) -> Updates {
        let tell = || Some(event(context.state(), None, 1, RoundStatus::CriticResponded, None));
        let asking =
            Asking::new(&context, &*self.model, "round-1/critic").telling(tell).insisting();
        // Without these words there is nothing to debate: any failure ends the run, and can be
        // tried again.
        let request = self.words(&context).opening();
        let blind = self.options.blind_scores;
        let logs = context.state().log_names().filter(|_| blind);
        let blind = join_all(logs.map(|log| self.judge_blind(&context, log)));
        let (response, blind) = join(asking.answer(&request), blind).await;
        let entry = said("critic".into(), 1, &response??);
        let turn = turn(&entry);
        let mut updates = vec![Update::Spent(asking.spent())];
        updates.extend(context.state().log_names().map(|log| Update::Said {
            log,
            entry: entry.clone(),
            turn: turn.clone(),
        }));
        for judged in blind {
            updates.extend(judged?);
        }
        Ok(updates)
    }

    /// What a decision maker thinks of the move before anybody has said anything about it.
    async fn judge_blind(&self, context: &Context<DebateState>, log: LogName) -> Updates {
        let asking = Asking::new(context, &*self.model, format!("{log}/{BLIND}"));
        let score = match scores(&asking, self.words(context).blind_scoring(log)).await? {
            Ok(score) => score,
            // It was only to show what the debate changes.
            Err(error) if failed_for_good(&error).is_some() => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        Ok(vec![Update::Spent(asking.spent()), Update::BlindScored { log, score }])
    }

    /// A decision maker answers the critic.
    pub(crate) async fn dm_respond(self: Arc<Self>, context: Context<DebateState>) -> Updates {
        let log = log_of(&context)?;
        let round = context.state().round_of(log);
        let speech =
            Speech { role: log.maker().into(), status: RoundStatus::DmResponded, log, round };
        self.speak(&context, speech, |words, summary| words.response(log, summary)).await
    }

    /// The critic takes one decision maker's answer up.
    pub(crate) async fn critic_individual(
        self: Arc<Self>,
        context: Context<DebateState>,
    ) -> Updates {
        let log = log_of(&context)?;
        let round = context.state().round_of(log) + 1;
        let speech =
            Speech { role: "critic".into(), status: RoundStatus::CriticResponded, log, round };
        self.speak(&context, speech, |words, summary| words.critique(log, round, summary)).await
    }

    /// Each decision maker scores the move.
    pub(crate) async fn score_move(self: Arc<Self>, context: Context<DebateState>) -> Updates {
        // All of them are heard out even if one fails: the others' scores are paid for and kept.
        let logs = context.state().log_names();
        let judged = join_all(logs.map(|log| self.judge(&context, log))).await;
        let mut updates = Vec::new();
        for judged in judged {
            updates.extend(judged?);
        }
        let scores = updates.iter().filter_map(|update| match update {
            Update::Scored { log, score } => Some((log.maker(), &score.card)),
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
        let words = self.words(context);
        // A conversation that ended early may get further when the run is resumed: scores of what there is now are
        // not scores of that.
        let heard = match context.state().partial.contains_key(&log) {
            true => format!("{log}/after-{}", context.state().log(log).len()),
            false => log.to_string(),
        };
        let key = |what: &str| format!("{heard}/{what}");
        let summary_key = || key("score-summary");
        let (summary, mut updates) =
            self.fitting(context, log, summary_key, |summary| words.scoring(log, summary)).await?;
        let hasher = &context.state().hashers[log.index()];
        let mut asking = Asking::new(context, &*self.model, key("score")).hashed_by(hasher);
        let mut answer = scores(&asking, words.scoring(log, summary.as_ref())).await?;
        if let Err(AnswerError::Model(error)) = &answer
            && let Some((shorter, more)) = self
                .after_overflow(&asking, error, log, summary.as_ref(), &key("score-summary-2"))
                .await?
        {
            asking = Asking::new(context, &*self.model, key("score-shorter"));
            answer = scores(&asking, words.scoring(log, Some(&shorter))).await?;
            updates.extend(more);
        }
        let score = match answer {
            Ok(score) => score,
            Err(error) => match failed_for_good(&error) {
                Some(failed) => JudgeScore {
                    card: ScoreCard::unasked(),
                    provenance: Provenance::Defaulted,
                    assumed: Vec::new(),
                    failed: Some(failed.message().to_owned()),
                },
                None => return Err(error.into()),
            },
        };
        updates.push(Update::Spent(asking.spent()));
        updates.push(Update::Scored { log, score });
        Ok(updates)
    }

    /// Lets someone speak in one conversation, or ends it where nobody can.
    async fn speak(
        &self,
        context: &Context<DebateState>,
        speech: Speech,
        request: impl Fn(Words<'_>, Option<&Summary>) -> Request,
    ) -> Updates {
        let Speech { role, status, log, round } = speech;
        let words = self.words(context);
        let key = |what: &str| format!("round-{round}/{what}");
        let summary_key = || key("summary");
        let (summary, mut updates) =
            self.fitting(context, log, summary_key, |summary| request(words, summary)).await?;
        let tell = || Some(event(context.state(), Some(log), round, status, None));
        let hasher = &context.state().hashers[log.index()];
        let mut asking =
            Asking::new(context, &*self.model, key(&role)).telling(tell).hashed_by(hasher);
        let mut answer = asking.answer(&request(words, summary.as_ref())).await?;
        if let Err(error) = &answer
            && let Some((shorter, more)) = self
                .after_overflow(&asking, error, log, summary.as_ref(), &key("summary-2"))
                .await?
        {
            let shorter_key = key(&format!("{role}-shorter"));
            asking = Asking::new(context, &*self.model, shorter_key).telling(tell);
            answer = asking.answer(&request(words, Some(&shorter))).await?;
            updates.extend(more);
        }
        let error = match answer {
            Ok(response) if response.stop == Stop::Refused => declined(),
            Ok(response) => {
                updates.push(Update::Spent(asking.spent()));
                let entry = said(role, round, &response);
                updates.push(Update::Said { log, turn: turn(&entry), entry });
                return Ok(updates);
            }
            Err(error) if !ends_the_run(&error) => error,
            Err(error) => return Err(error.into()),
        };
        // The failure is not journalled: a run that is resumed makes the call again.
        let error = error.message().to_owned();
        let status = RoundStatus::Failed;
        context.emit(event(context.state(), Some(log), round, status, Some(error.clone())));
        updates.push(Update::Spent(asking.spent()));
        updates.push(Update::Stopped { log, error });
        Ok(updates)
    }

    /// The summary with which a request fits the context window; a new one if it takes one.
    async fn fitting(
        &self,
        context: &Context<DebateState>,
        log: LogName,
        key: impl FnOnce() -> String,
        request: impl Fn(Option<&Summary>) -> Request,
    ) -> Result<(Option<Summary>, Vec<Update>), NodeError> {
        let known = context.state().summaries.get(&log).cloned();
        let Some(window) = self.options.context_window else { return Ok((known, Vec::new())) };
        let tokens = likely_tokens(&request(known.as_ref())) + u64::from(self.options.max_tokens);
        if tokens <= window * FULLEST.0 / FULLEST.1 {
            return Ok((known, Vec::new()));
        }
        let Some(up_to_round) = can_be_summed_up(context.state(), log, known.as_ref()) else {
            return Ok((known, Vec::new()));
        };
        // Rare, and too large to be part of every node's future.
        let (summary, updates) = Box::pin(self.sum_up(context, log, up_to_round, &key())).await?;
        Ok((Some(summary), updates))
    }

    /// The provider knows best how much fits. Where it says that this was too much, and something
    /// can be summed up: the summary to ask once more with.
    async fn after_overflow(
        &self,
        asking: &Asking<'_, DebateState>,
        error: &ModelError,
        log: LogName,
        known: Option<&Summary>,
        key: &str,
    ) -> Result<Option<(Summary, Vec<Update>)>, NodeError> {
        let context = asking.context();
        match can_be_summed_up(context.state(), log, known).filter(|_| is_overflow(error)) {
            None => Ok(None),
            Some(up_to_round) => {
                asking.go_on().await?;
                Box::pin(self.sum_up(context, log, up_to_round, key)).await.map(Some)
            }
        }
    }

    /// Has rounds summed up by the model; where it cannot, their opening words have to do.
    async fn sum_up(
        &self,
        context: &Context<DebateState>,
        log: LogName,
        up_to_round: u32,
        key: &str,
    ) -> Result<(Summary, Vec<Update>), NodeError> {
        let asking = Asking::new(context, &*self.model, key).extra();
        let text = match asking.answer(&self.words(context).summing_up(log, up_to_round)).await? {
            Ok(response) if response.stop != Stop::Refused => Some(response.text),
            Ok(_) => None,
            Err(error) if !ends_the_run(&error) => {
                asking.go_on().await?;
                None
            }
            Err(error) => return Err(error.into()),
        };
        let extracted = text.is_none();
        let text = text.unwrap_or_else(|| openings(context.state().log(log), up_to_round));
        let summary = Summary { up_to_round, text, extracted };
        let update = Update::Summarised { log, summary: summary.clone() };
        Ok((summary, vec![Update::Spent(asking.spent()), update]))
    }
}

/// The last round that can be summed up, if there is any that is not yet.
fn can_be_summed_up(state: &DebateState, log: LogName, known: Option<&Summary>) -> Option<u32> {
    let up_to_round = state.round_of(log).saturating_sub(KEPT_ROUNDS);
    let done = known.map_or(1, |summary| summary.up_to_round);
    (up_to_round > done).then_some(up_to_round)
}

/// Who is to speak, and where.
struct Speech {
    role: Cow<'static, str>,
    status: RoundStatus,
    log: LogName,
    round: u32,
}

/// The event of something that has happened in a round, in one conversation or in all.
fn event(
    state: &DebateState,
    log: Option<LogName>,
    round: u32,
    status: RoundStatus,
    error: Option<String>,
) -> Event {
    Round { move_id: &state.move_document.move_id, rounds: state.max_rounds }
        .event(log, round, status, error)
}

/// Asks for scores, and looks for them in whatever is answered.
async fn scores(
    asking: &Asking<'_, DebateState>,
    request: Request,
) -> Result<Result<JudgeScore, AnswerError>, NodeError> {
    let reader = ScoreCard::reader().ok_or(AnswerError::Schema)?;
    let ask = JsonAsk::new(request)
        .read_by(reader)
        .extract(&ScoreCard::find)
        .or_default(ScoreCard::neutral());
    Ok(asking.value(ask).await?.map(|Answer { value: card, provenance, responses }| {
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
                let card = if failed.is_some() { ScoreCard::unasked() } else { card };
                JudgeScore { card, provenance, assumed: Vec::new(), failed }
            }
        }
    }))
}

/// The call that failed for good, where that is why there is no answer and the run can go on without one.
fn failed_for_good(error: &AnswerError) -> Option<&ModelError> {
    error.model_error().filter(|error| !ends_the_run(error))
}

/// The opening words of what was said in these rounds.
fn openings(log: &[ConversationEntry], up_to_round: u32) -> String {
    const CHARACTERS: usize = 160;
    let lines = log.iter().filter(|entry| (2..=up_to_round).contains(&entry.round)).map(|entry| {
        let words = shorten(entry.content.lines().next().unwrap_or_default(), CHARACTERS);
        format!("Round {}, {}: {words}", entry.round, entry.role)
    });
    lines.collect::<Vec<_>>().join("\n")
}
