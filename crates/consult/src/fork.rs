//! A consultation that goes another way than an earlier one, from a place on.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use assize_debate::{Change, Personas, Place};
use assize_graph::Key;
use assize_types::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a new run differs from the earlier one that it starts from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForkRequest {
    /// From where on everything is asked again.
    pub at: Option<At>,
    /// Personas that are told to be someone else from there on, by `critic`, `D1` and so on.
    pub told: BTreeMap<String, String>,
}

impl ForkRequest {
    /// Refuses a place in one move of several, for debates of one move.
    pub fn refuse_move(&self) -> Result<(), Failure> {
        match self.at.as_ref().is_some_and(|at| at.move_id.is_some()) {
            true => {
                let message = "a debate is about one move: name a round, such as `round-4`";
                Err(Failure::new(FailureKind::Usage, message))
            }
            false => Ok(()),
        }
    }
}

/// Refuses personas that no debate has, and empty texts.
pub(crate) fn check_told(
    told: &BTreeMap<String, String>,
    personas: &Personas,
) -> Result<(), Failure> {
    let usage = |message: String| Failure::new(FailureKind::Usage, message);
    for (who, words) in told {
        if personas.persona(who).is_none() {
            let makers = personas.agents().into_keys().collect::<Vec<_>>().join(", ");
            return Err(usage(format!("nobody in a debate is `{who}`"))
                .hint(format!("there are: critic, {makers}")));
        }
        if words.trim().is_empty() {
            return Err(usage(format!("`{who}` is told nothing")));
        }
    }
    Ok(())
}

/// A place in the debates: of one move or of all, from a round on.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub struct At {
    pub move_id: Option<String>,
    pub round: u32,
}

assize_types::serde_as_text!(At);

/// Text that names no place in a debate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown place `{0}`: expected `m3/round-4`, `m3` for the whole debate of m3, or `round-4` for every debate"
)]
pub struct NoPlace(String);

impl FromStr for At {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<At, NoPlace> {
        let number = |text: &str, prefix: &str| {
            let digits = text.strip_prefix(prefix)?;
            let plain =
                digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
            digits.parse::<u32>().ok().filter(|_| plain)
        };
        let id = |text: &str| number(text, "m").map(|number| format!("m{number}"));
        let round = |text: &str| number(text, "round-");
        let at = match text.split_once('/') {
            Some((one, rest)) => id(one).zip(round(rest)).map(|(one, round)| (Some(one), round)),
            None => {
                let every = round(text).or_else(|| number(text, ""));
                id(text).map(|one| (Some(one), 1)).or(every.map(|round| (None, round)))
            }
        };
        let (move_id, round) = at.ok_or_else(|| NoPlace(text.to_owned()))?;
        Ok(At { move_id, round })
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.move_id {
            Some(id) => write!(f, "{id}/round-{}", self.round),
            None => write!(f, "round-{}", self.round),
        }
    }
}

impl At {
    /// Whether the debate of this move goes another way.
    pub fn concerns(&self, move_id: &str) -> bool {
        self.move_id.as_deref().is_none_or(|id| id == move_id)
    }

    /// Whether what was answered under this key is not touched by it.
    pub fn spares(&self, key: &Key) -> bool {
        let place = key.segments().next().filter(|id| self.concerns(id)).zip(Place::of(key));
        place.is_none_or(|(_, place)| place.is_before(self.round))
    }
}

/// How a consultation differs from the one that it was forked from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ConsultFork")]
pub struct Turning {
    /// The run that it was forked from.
    pub from: String,
    pub at: At,
    /// What some who take part are told to be from there on, by `critic`, `D1` and so on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub personas: BTreeMap<String, String>,
}

impl Turning {
    pub(crate) fn change(&self, move_id: &str) -> Option<Change> {
        let change = || Change { from_round: self.at.round, personas: self.personas.clone() };
        self.at.concerns(move_id).then(change)
    }
}

impl fmt::Display for Turning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.at.move_id.as_deref().unwrap_or("every move");
        write!(f, "{what} was debated anew from round {} on", self.at.round)?;
        let others: Vec<&str> = self.personas.keys().map(String::as_str).collect();
        if !others.is_empty() {
            write!(f, ", with other words for {}", others.join(", "))?;
        }
        write!(f, "; all else was taken over from {}", self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        let at = |text: &str| text.parse::<At>();
        assert_eq!(at("m3/round-4"), Ok(At { move_id: Some("m3".into()), round: 4 }));
        assert_eq!(at("m15").unwrap().to_string(), "m15/round-1");
        assert_eq!(at("round-10").unwrap().to_string(), "round-10");
        for other in ["", "m0", "m3/", "m3/4", "m+3", "round-0", "i1/round-2", "m3/round-4/x", "M3"]
        {
            assert_eq!(at(other), Err(NoPlace(other.to_owned())));
        }
    }

    #[test]
    fn a_place_spares_what_comes_before_it_and_other_moves() {
        let spares =
            |at: &str, key: &str| at.parse::<At>().unwrap().spares(&Key::new(key).unwrap());
        for spared in [
            "F1/infer",
            "analyst_2/propose",
            "m3/i1/round-3/D1",
            "m3/i1/score-blind",
            "m4/i1/score",
        ] {
            assert!(spares("m3/round-4", spared), "{spared}");
        }
        for anew in ["m3/i1/round-4/critic", "m3/i2/round-10/D2", "m3/i1/score", "m3/i1/score-2"] {
            assert!(!spares("m3/round-4", anew), "{anew}");
        }
        assert!(!spares("round-4", "m9/i1/round-4/critic"));
        assert!(!spares("m3", "m3/round-1/critic"));
    }
}
