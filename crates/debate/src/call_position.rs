//! Parses the position of a model call in a debate from its key, and rebuilds conversations from journal records.

use std::collections::BTreeMap;

use assize_graph::{EffectKey, EffectRecord, GraphEvent};
use assize_llm::{ErrorKind, ModelError, ModelResponse, StopReason};
use assize_run::{RoundStatus, RoundStep, RunEvent, model_response};

use crate::state::{ConversationEntry, LogName, entry_from_response};

/// Position of a model call in a debate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallPosition {
    /// Conversation of the call; `None` for the opening critique, which belongs to all conversations.
    pub log: Option<LogName>,
    /// Round of the call; `None` for the final scores.
    pub round: Option<u32>,
    pub purpose: CallPurpose,
}

/// Key segment of calls for the scores before the debate (blind scores).
pub(crate) const BLIND: &str = "score-blind";

/// Whether a failed call with this error always ends the whole run. This is the case for a wrong API key, an exhausted
/// budget or account, a cancellation, a call that could not be recorded or replayed, and an internal error. With any
/// other error, a call that fails permanently (after all retries) affects only one conversation, unless it is the call
/// for the opening critique; see the table in `docs/explanation/durability.md`.
pub fn ends_the_run(error: &ModelError) -> bool {
    use ErrorKind::{
        Budget, Cancelled, Forbidden, Internal, NotNoted, NotRecorded, SpendLimit, Unauthorized,
    };
    matches!(
        error.kind(),
        Unauthorized
            | Forbidden
            | Budget
            | SpendLimit
            | Cancelled
            | NotRecorded
            | NotNoted
            | Internal
    )
}

pub(crate) fn is_overflow(error: &ModelError) -> bool {
    matches!(error.kind(), ErrorKind::ContextOverflow | ErrorKind::TooLarge)
}

/// Purpose of a model call in a debate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPurpose {
    Critic,
    /// Request for an answer of the conversation's decision maker.
    Answer,
    Score,
    /// Second request for scores, made because the answer to the first request could not be parsed.
    ScoreAgain,
    Summary,
}

impl CallPosition {
    /// Parses a key such as `i1/round-4/critic`; `None` if the key does not belong to a model call.
    pub fn of(key: &EffectKey) -> Option<CallPosition> {
        let mut place = CallPosition { log: None, round: None, purpose: CallPurpose::Critic };
        let mut part = None;
        for segment in key.segments() {
            let log = segment.parse::<LogName>().ok();
            let round = segment.strip_prefix("round-").and_then(|round| round.parse().ok());
            match (log, round) {
                (Some(log), _) => place.log = Some(log),
                (_, Some(round)) => place.round = Some(round),
                _ => part = Some(segment),
            }
        }
        // Keys of second requests have a number or `shorter` after the name.
        let part = part?;
        let first = part.strip_suffix("-2").unwrap_or(part);
        // Blind scores are given before the first entry and count as round 1.
        if first == BLIND {
            place.round = Some(1);
        }
        place.purpose = match part.split('-').next()? {
            _ if part.contains("summary") => CallPurpose::Summary,
            "critic" => CallPurpose::Critic,
            "score" if part != first => CallPurpose::ScoreAgain,
            "score" => CallPurpose::Score,
            id if place.log.is_some_and(|log| log.decision_maker_id() == id) => CallPurpose::Answer,
            _ => return None,
        };
        Some(place)
    }

    /// Whether later prompts depend on the failure of this call, so that the failure must be journaled. This applies to
    /// a failed summary, which is replaced by other text, and to a prompt that was too long, which is shortened.
    pub fn must_journal_failure(self, error: &ModelError) -> bool {
        self.purpose == CallPurpose::Summary || is_overflow(error)
    }

    /// Whether the failure of this call alone makes the verdict partial or a score neutral. Some failures have no such
    /// effect: a prompt that was too long can be sent again in a shorter form, and if a second request for scores
    /// fails, scores may still be found in the first answer.
    pub fn affects_the_verdict(self, error: &ModelError) -> bool {
        match self.purpose {
            // Blind scores, which have a round, serve only for comparison.
            CallPurpose::Score => self.round.is_none() && !is_overflow(error),
            CallPurpose::Critic | CallPurpose::Answer => !is_overflow(error),
            CallPurpose::ScoreAgain | CallPurpose::Summary => false,
        }
    }

    /// Whether the call belongs to a round before `round`. A fork that starts at `round` reuses the answers to such
    /// calls.
    pub fn is_before(self, round: u32) -> bool {
        self.round.is_some_and(|number| number < round)
    }
}

/// Builds the round events of one debate.
#[derive(Debug, Clone, Copy)]
pub struct RoundEvents<'a> {
    pub move_id: &'a str,
    /// Total number of rounds.
    pub rounds: u32,
}

impl RoundEvents<'_> {
    /// Builds the event about one model call that has added an entry to a conversation or has failed. The call belongs
    /// to the conversation `log`, or to all conversations if `log` is `None`. The field `next` of the event is the next
    /// step of the conversation.
    pub fn event(
        self,
        log: Option<LogName>,
        round: u32,
        status: RoundStatus,
        error: Option<String>,
    ) -> GraphEvent {
        let next = match status {
            RoundStatus::CriticResponded => RoundStep::DmResponding,
            RoundStatus::DmResponded if round < self.rounds => RoundStep::CriticResponding,
            RoundStatus::DmResponded | RoundStatus::Failed => RoundStep::Scoring,
        };
        let (move_id, log) = (self.move_id.to_owned(), log.map(|log| log.to_string()));
        RunEvent::SandboxRound { move_id, round, status, next, log, error }.into()
    }
}

/// Conversations of a debate, to which model answers are added one by one.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    /// The opening critique, first entry of every conversation.
    opening: Option<ConversationEntry>,
    logs: BTreeMap<LogName, Vec<ConversationEntry>>,
}

impl Transcript {
    /// Creates the empty conversations of a debate with `makers` decision makers.
    pub fn of(makers: usize) -> Transcript {
        let logs = LogName::first(makers).map(|log| (log, Vec::new())).collect();
        Transcript { opening: None, logs }
    }

    /// Adds a model answer to the conversations it belongs to. Returns the names of the conversations that changed.
    pub fn add_answer(&mut self, key: &EffectKey, response: &ModelResponse) -> Vec<LogName> {
        let Some(CallPosition { log, round: Some(round), purpose: part }) = CallPosition::of(key)
        else {
            return Vec::new();
        };
        if response.stop == StopReason::Refused {
            return Vec::new();
        }
        match (part, log) {
            (CallPurpose::Critic, None) => {
                self.opening = Some(entry_from_response("critic".into(), round, response));
                self.logs.keys().copied().collect()
            }
            (CallPurpose::Critic | CallPurpose::Answer, Some(log)) => {
                let role = if part == CallPurpose::Critic {
                    "critic".into()
                } else {
                    log.decision_maker_id().into()
                };
                let entries = self.logs.entry(log).or_default();
                entries.push(entry_from_response(role, round, response));
                entries.sort_by_key(|entry| (entry.round, entry.role != "critic"));
                vec![log]
            }
            _ => Vec::new(),
        }
    }

    /// Entries that one conversation has so far.
    pub fn log(&self, log: LogName) -> Vec<ConversationEntry> {
        let own = self.logs.get(&log).into_iter().flatten();
        self.opening.iter().chain(own).cloned().collect()
    }

    /// Names of the known conversations: those that [`Transcript::of`] created, and others that have received an
    /// answer.
    pub fn names(&self) -> impl Iterator<Item = LogName> {
        self.logs.keys().copied()
    }
}

/// Rebuilds the conversations from the journal records of a debate, which may still be running.
pub fn conversation_logs(records: &[EffectRecord]) -> BTreeMap<LogName, Vec<ConversationEntry>> {
    let mut minutes = Transcript::default();
    for record in records {
        if let Some(response) = model_response(record) {
            minutes.add_answer(&record.key, &response);
        }
    }
    minutes.names().map(|log| (log, minutes.log(log))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(key: &str) -> Option<CallPosition> {
        CallPosition::of(&EffectKey::new(key).unwrap())
    }

    #[test]
    fn call_position_is_parsed_from_its_key() {
        let at = |log, round, part| Some(CallPosition { log, round, purpose: part });
        assert_eq!(place("round-1/critic"), at(None, Some(1), CallPurpose::Critic));
        assert_eq!(
            place("m3/i1/round-4/critic"),
            at(Some(LogName::I1), Some(4), CallPurpose::Critic)
        );
        assert_eq!(place("i2/round-10/D2"), at(Some(LogName::I2), Some(10), CallPurpose::Answer));
        assert_eq!(
            place("i2/round-9/D2-shorter"),
            at(Some(LogName::I2), Some(9), CallPurpose::Answer)
        );
        assert_eq!(place("i3/score"), at(Some(LogName::I3), None, CallPurpose::Score));
        assert_eq!(place("i3/score-blind"), at(Some(LogName::I3), Some(1), CallPurpose::Score));
        assert_eq!(
            place("i3/score-blind-2"),
            at(Some(LogName::I3), Some(1), CallPurpose::ScoreAgain)
        );
        assert_eq!(place("i3/score-2"), at(Some(LogName::I3), None, CallPurpose::ScoreAgain));
        assert_eq!(place("i3/after-2/score"), at(Some(LogName::I3), None, CallPurpose::Score));
        assert_eq!(
            place("i3/after-2/score-2"),
            at(Some(LogName::I3), None, CallPurpose::ScoreAgain)
        );
        assert_eq!(place("i3/score-summary"), at(Some(LogName::I3), None, CallPurpose::Summary));
        assert_eq!(
            place("i1/round-7/summary-2"),
            at(Some(LogName::I1), Some(7), CallPurpose::Summary)
        );
        for other in ["graph", "score_move.1/events", "i1/dm_respond.3/events"] {
            assert_eq!(place(other), None, "{other}");
        }
    }

    #[test]
    fn call_is_before_a_round_only_if_its_own_round_is_earlier() {
        let before = |key: &str, round| place(key).is_some_and(|place| place.is_before(round));
        assert!(before("round-1/critic", 2));
        assert!(before("m3/i1/round-4/critic", 5));
        assert!(!before("m3/i1/round-4/critic", 4));
        assert!(!before("i1/round-10/D1", 4));
        assert!(!before("i1/score", 4));
        assert!(!before("score_move.1/events", 99));
    }
}
