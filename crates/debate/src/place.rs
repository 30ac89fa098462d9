//! Where in a debate a key belongs, and what can be read from the keys alone.

use std::collections::BTreeMap;

use assize_graph::{Event, Key, Record};
use assize_llm::{ErrorKind, ModelError, Response, Stop};
use assize_run::{RoundStatus, RoundStep, RunEvent, answer};

use crate::state::{ConversationEntry, LogName, said};

/// Where in a debate an effect belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The conversation; none for the first critique, which is for all.
    pub log: Option<LogName>,
    /// The round; none for scores.
    pub round: Option<u32>,
    pub part: Part,
}

/// The name of the scores that are given before the debate.
pub(crate) const BLIND: &str = "score-blind";

/// Whether a failed call ends the whole run: a wrong key, an exhausted budget or account, a cancellation, or a fault
/// on this side of the wire. Every other call that failed for good, its retries included, ends one conversation.
/// `docs/failures.md` has the table.
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

/// What an effect is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Critic,
    /// The decision maker of the conversation.
    Answer,
    Score,
    /// Once more, since the first answer could not be read.
    ScoreAgain,
    Summary,
}

impl Place {
    /// The place of a key such as `i1/round-4/critic`; none for what is no call to the model.
    pub fn of(key: &Key) -> Option<Place> {
        let mut place = Place { log: None, round: None, part: Part::Critic };
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
        // Second questions carry a number or `shorter` behind their name.
        let name = part?.split('-').next()?;
        place.part = match name {
            _ if part?.contains("summary") => Part::Summary,
            "critic" => Part::Critic,
            // Before anybody speaks, which is when the first round begins.
            "score" if part? == BLIND => {
                place.round = Some(1);
                Part::Score
            }
            "score" if part?.ends_with("-2") => Part::ScoreAgain,
            "score" => Part::Score,
            id if place.log.is_some_and(|log| log.maker() == id) => Part::Answer,
            _ => return None,
        };
        Some(place)
    }

    /// Whether later prompts of the conversation depend on this call having failed, so that the failure must be
    /// journalled: a missing summary is replaced, and a prompt that was too long is shortened.
    pub fn is_built_upon(self, error: &ModelError) -> bool {
        self.part == Part::Summary || is_overflow(error)
    }

    /// Whether the failure of this call alone makes the verdict partial or a score neutral. One that was too long may
    /// still be asked in a shorter form, and a score that is asked for again may be found in the first answer.
    pub fn affects_the_verdict(self, error: &ModelError) -> bool {
        match self.part {
            // Blind scores have a round, and are only there to compare with.
            Part::Score => self.round.is_none() && !is_overflow(error),
            Part::Critic | Part::Answer => !is_overflow(error),
            Part::ScoreAgain | Part::Summary => false,
        }
    }

    /// Whether it belongs to a round before this one, so that a fork from there may take its answer
    /// over.
    pub fn is_before(self, round: u32) -> bool {
        self.round.is_some_and(|number| number < round)
    }
}

/// Tells of the rounds of one debate.
#[derive(Debug, Clone, Copy)]
pub struct Round<'a> {
    pub move_id: &'a str,
    /// How many there are.
    pub rounds: u32,
}

impl Round<'_> {
    /// Somebody has spoken, in one conversation or in all; `next` is what happens there from now on.
    pub fn event(
        self,
        log: Option<LogName>,
        round: u32,
        status: RoundStatus,
        error: Option<String>,
    ) -> Event {
        let next = match status {
            RoundStatus::CriticResponded => RoundStep::DmResponding,
            RoundStatus::DmResponded if round < self.rounds => RoundStep::CriticResponding,
            RoundStatus::DmResponded | RoundStatus::Failed => RoundStep::Scoring,
        };
        let (move_id, log) = (self.move_id.to_owned(), log.map(|log| log.to_string()));
        RunEvent::SandboxRound { move_id, round, status, next, log, error }.into()
    }
}

/// What was said, answer by answer as they come.
#[derive(Debug, Clone, Default)]
pub struct Minutes {
    /// The opening, which is in every log.
    opening: Option<ConversationEntry>,
    logs: BTreeMap<LogName, Vec<ConversationEntry>>,
}

impl Minutes {
    /// The minutes of a debate with so many decision makers.
    pub fn of(makers: usize) -> Minutes {
        let logs = LogName::first(makers).map(|log| (log, Vec::new())).collect();
        Minutes { opening: None, logs }
    }

    /// Notes an answer, and says which logs have changed.
    pub fn note(&mut self, key: &Key, response: &Response) -> Vec<LogName> {
        let Some(Place { log, round: Some(round), part }) = Place::of(key) else {
            return Vec::new();
        };
        if response.stop == Stop::Refused {
            return Vec::new();
        }
        match (part, log) {
            (Part::Critic, None) => {
                self.opening = Some(said("critic".into(), round, response));
                self.logs.keys().copied().collect()
            }
            (Part::Critic | Part::Answer, Some(log)) => {
                let role = if part == Part::Critic { "critic".into() } else { log.maker().into() };
                let entries = self.logs.entry(log).or_default();
                entries.push(said(role, round, response));
                entries.sort_by_key(|entry| (entry.round, entry.role != "critic"));
                vec![log]
            }
            _ => Vec::new(),
        }
    }

    /// One conversation, so far.
    pub fn log(&self, log: LogName) -> Vec<ConversationEntry> {
        let own = self.logs.get(&log).into_iter().flatten();
        self.opening.iter().chain(own).cloned().collect()
    }

    /// Those that are known: all of a debate whose decision makers are, else those in which somebody has
    /// answered.
    pub fn names(&self) -> impl Iterator<Item = LogName> {
        self.logs.keys().copied()
    }
}

/// What has been said so far, read from the records of a debate that may not be over.
pub fn conversation_logs(records: &[Record]) -> BTreeMap<LogName, Vec<ConversationEntry>> {
    let mut minutes = Minutes::default();
    for record in records {
        if let Some(response) = answer(record) {
            minutes.note(&record.key, &response);
        }
    }
    minutes.names().map(|log| (log, minutes.log(log))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(key: &str) -> Option<Place> {
        Place::of(&Key::new(key).unwrap())
    }

    #[test]
    fn keys_say_where_they_belong() {
        let at = |log, round, part| Some(Place { log, round, part });
        assert_eq!(place("round-1/critic"), at(None, Some(1), Part::Critic));
        assert_eq!(place("m3/i1/round-4/critic"), at(Some(LogName::I1), Some(4), Part::Critic));
        assert_eq!(place("i2/round-10/D2"), at(Some(LogName::I2), Some(10), Part::Answer));
        assert_eq!(place("i2/round-9/D2-shorter"), at(Some(LogName::I2), Some(9), Part::Answer));
        assert_eq!(place("i3/score"), at(Some(LogName::I3), None, Part::Score));
        assert_eq!(place("i3/score-blind"), at(Some(LogName::I3), Some(1), Part::Score));
        assert_eq!(place("i3/score-2"), at(Some(LogName::I3), None, Part::ScoreAgain));
        assert_eq!(place("i3/after-2/score"), at(Some(LogName::I3), None, Part::Score));
        assert_eq!(place("i3/after-2/score-2"), at(Some(LogName::I3), None, Part::ScoreAgain));
        assert_eq!(place("i3/score-summary"), at(Some(LogName::I3), None, Part::Summary));
        assert_eq!(place("i1/round-7/summary-2"), at(Some(LogName::I1), Some(7), Part::Summary));
        for other in ["graph", "score_move.1/events", "i1/dm_respond.3/events"] {
            assert_eq!(place(other), None, "{other}");
        }
    }

    #[test]
    fn rounds_before_a_fork_are_told_by_their_keys() {
        let before = |key: &str, round| place(key).is_some_and(|place| place.is_before(round));
        assert!(before("round-1/critic", 2));
        assert!(before("m3/i1/round-4/critic", 5));
        assert!(!before("m3/i1/round-4/critic", 4));
        assert!(!before("i1/round-10/D1", 4));
        assert!(!before("i1/score", 4));
        assert!(!before("score_move.1/events", 99));
    }
}
