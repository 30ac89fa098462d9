//! Forks of a consultation: which debates are repeated from which round, and with which personas.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use assize_debate::{CallPosition, DebatePersonas, PersonaChange};
use assize_graph::EffectKey;
use assize_types::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Request for a fork: how the new run differs from its parent run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForkRequest {
    /// Point from which the fork repeats all model calls; with `None`, the fork reuses all recorded answers.
    pub at: Option<ForkPoint>,
    /// New personas from the fork point on, by role: `critic`, `D1` and so on.
    pub new_personas: BTreeMap<String, String>,
}

impl ForkRequest {
    /// Rejects a fork point that contains a move id. This check is for forks of single debates, which are about one
    /// move.
    pub fn refuse_move(&self) -> Result<(), Failure> {
        match self.at.as_ref().is_some_and(|at| at.move_id.is_some()) {
            true => {
                let message = "invalid fork point: a debate is about one move, so give only a round, such as `round-4`";
                Err(Failure::new(FailureKind::Usage, message))
            }
            false => Ok(()),
        }
    }
}

/// Rejects new personas that are empty or belong to unknown roles.
pub(crate) fn check_new_personas(
    new_personas: &BTreeMap<String, String>,
    personas: &DebatePersonas,
) -> Result<(), Failure> {
    let usage = |message: String| Failure::new(FailureKind::Usage, message);
    for (who, persona) in new_personas {
        if personas.persona(who).is_none() {
            let makers = personas.agents().into_keys().collect::<Vec<_>>().join(", ");
            return Err(usage(format!("unknown role `{who}`"))
                .hint(format!("known roles: critic, {makers}")));
        }
        if persona.trim().is_empty() {
            return Err(usage(format!("the persona of `{who}` is empty")));
        }
    }
    Ok(())
}

/// Fork point: a round, either in the debate of one move or in the debates of all moves.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(with = "String")]
pub struct ForkPoint {
    pub move_id: Option<String>,
    pub round: u32,
}

assize_types::serde_as_text!(ForkPoint);

/// Error for text that is not a fork point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid fork point `{0}`: expected `m3/round-4`, `m3` for the whole debate of m3, or `round-4` for every debate"
)]
pub struct InvalidForkPoint(String);

impl FromStr for ForkPoint {
    type Err = InvalidForkPoint;

    fn from_str(text: &str) -> Result<ForkPoint, InvalidForkPoint> {
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
        let (move_id, round) = at.ok_or_else(|| InvalidForkPoint(text.to_owned()))?;
        Ok(ForkPoint { move_id, round })
    }
}

impl fmt::Display for ForkPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.move_id {
            Some(id) => write!(f, "{id}/round-{}", self.round),
            None => write!(f, "round-{}", self.round),
        }
    }
}

impl ForkPoint {
    /// Whether the fork changes the debate of this move.
    pub fn applies_to_move(&self, move_id: &str) -> bool {
        self.move_id.as_deref().is_none_or(|id| id == move_id)
    }

    /// Whether the fork reuses the recorded outcome of the effect with this key.
    pub fn reuses_call(&self, key: &EffectKey) -> bool {
        let place =
            key.segments().next().filter(|id| self.applies_to_move(id)).zip(CallPosition::of(key));
        place.is_none_or(|(_, place)| place.is_before(self.round))
    }
}

/// How a fork of a consultation differs from its parent run: the fork point and the new personas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConsultFork {
    /// Id of the parent run.
    pub from: String,
    pub at: ForkPoint,
    /// New personas from the fork point on, by role: `critic`, `D1` and so on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub personas: BTreeMap<String, String>,
}

impl ConsultFork {
    pub(crate) fn change(&self, move_id: &str) -> Option<PersonaChange> {
        let change =
            || PersonaChange { from_round: self.at.round, personas: self.personas.clone() };
        self.at.applies_to_move(move_id).then(change)
    }
}

impl fmt::Display for ConsultFork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.at.move_id.as_deref().unwrap_or("every move");
        write!(f, "{what} debated again from round {} on", self.at.round)?;
        let others: Vec<&str> = self.personas.keys().map(String::as_str).collect();
        if !others.is_empty() {
            write!(f, ", with new personas for {}", others.join(", "))?;
        }
        write!(f, "; everything else reused from {}", self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fork_point_is_parsed() {
        let at = |text: &str| text.parse::<ForkPoint>();
        assert_eq!(at("m3/round-4"), Ok(ForkPoint { move_id: Some("m3".into()), round: 4 }));
        assert_eq!(at("m15").unwrap().to_string(), "m15/round-1");
        assert_eq!(at("round-10").unwrap().to_string(), "round-10");
        for other in ["", "m0", "m3/", "m3/4", "m+3", "round-0", "i1/round-2", "m3/round-4/x", "M3"]
        {
            assert_eq!(at(other), Err(InvalidForkPoint(other.to_owned())));
        }
    }

    #[test]
    fn fork_reuses_calls_of_earlier_rounds_and_other_moves() {
        let spares = |at: &str, key: &str| {
            at.parse::<ForkPoint>().unwrap().reuses_call(&EffectKey::new(key).unwrap())
        };
        for reused in [
            "F1/infer",
            "analyst_2/propose",
            "m3/i1/round-3/D1",
            "m3/i1/score-blind",
            "m4/i1/score",
        ] {
            assert!(spares("m3/round-4", reused), "{reused}");
        }
        for redone in ["m3/i1/round-4/critic", "m3/i2/round-10/D2", "m3/i1/score", "m3/i1/score-2"]
        {
            assert!(!spares("m3/round-4", redone), "{redone}");
        }
        assert!(!spares("round-4", "m9/i1/round-4/critic"));
        assert!(!spares("m3", "m3/round-1/critic"));
    }
}
