//! Who speaks: one critic, and decision makers who answer for the move.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::state::LogName;

/// Everybody in a debate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Personas {
    /// Who the critic is and how it works, said to the critic.
    pub critic: String,
    /// In the order of their logs, `i1`, `i2` and so on; their ids are `D1`, `D2` and so on.
    pub decision_makers: Vec<Persona>,
}

/// A role of a debate, and the instructions for the model that plays it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Persona {
    pub name: String,
    /// The criteria of the role, and how it works.
    pub persona: String,
}

impl Persona {
    /// Reads personas from a text in which each stands below a line `== NAME`.
    pub fn read_all(text: &str) -> impl Iterator<Item = Persona> {
        let parts = text.split("== ").skip(1).filter_map(|one| one.split_once('\n'));
        parts.map(|(name, text)| Persona {
            name: name.to_owned(),
            persona: text.trim_end().to_owned(),
        })
    }
}

/// The critic and the decision makers of a debate for which no others are named.
const DEFAULTS: &str = include_str!("../data/personas.txt");

impl Personas {
    /// What somebody is told to be: `critic`, `D1` and so on.
    pub fn persona(&self, role: &str) -> Option<&str> {
        if role == "critic" {
            return Some(&self.critic);
        }
        let log = LogName::of_maker(role)?;
        self.decision_makers.get(log.index()).map(|maker| maker.persona.as_str())
    }

    /// What the decision makers are called, by their ids.
    pub fn agents(&self) -> BTreeMap<String, String> {
        let logs = LogName::first(self.decision_makers.len());
        logs.zip(&self.decision_makers)
            .map(|(log, maker)| (log.maker(), maker.name.clone()))
            .collect()
    }
}

impl Default for Personas {
    fn default() -> Personas {
        let mut all = Persona::read_all(DEFAULTS);
        let critic = all.next().map(|critic| critic.persona).unwrap_or_default();
        Personas { critic, decision_makers: all.collect() }
    }
}
