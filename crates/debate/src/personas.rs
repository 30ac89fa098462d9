//! Personas of a debate: one critic, and decision makers that defend the move.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::state::LogName;

/// All personas of a debate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DebatePersonas {
    /// Persona of the critic: instructions for the model that plays this role.
    pub critic: String,
    /// Decision makers, in the order of their conversations `i1`, `i2` and so on. Their ids are `D1`, `D2` and so on.
    pub decision_makers: Vec<Persona>,
}

/// Name of a role, and instructions for the model that plays the role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Persona {
    pub name: String,
    /// Instructions for the model: the criteria and the working method of the role.
    pub persona: String,
}

impl Persona {
    /// Parses several personas from a text. Each persona starts with a line `== NAME`.
    pub fn read_all(text: &str) -> impl Iterator<Item = Persona> {
        let parts = text.split("== ").skip(1).filter_map(|part| part.split_once('\n'));
        parts.map(|(name, text)| Persona {
            name: name.to_owned(),
            persona: text.trim_end().to_owned(),
        })
    }
}

/// Default personas: the critic, then the decision makers.
const DEFAULTS: &str = include_str!("../data/personas.txt");

impl DebatePersonas {
    /// Persona of a role: `critic`, `D1` and so on.
    pub fn persona(&self, role: &str) -> Option<&str> {
        if role == "critic" {
            return Some(&self.critic);
        }
        let log = LogName::of_maker(role)?;
        self.decision_makers.get(log.index()).map(|maker| maker.persona.as_str())
    }

    /// Names of the decision makers by id.
    pub fn agents(&self) -> BTreeMap<String, String> {
        let logs = LogName::first(self.decision_makers.len());
        logs.zip(&self.decision_makers)
            .map(|(log, maker)| (log.decision_maker_id(), maker.name.clone()))
            .collect()
    }
}

impl Default for DebatePersonas {
    fn default() -> DebatePersonas {
        let mut all = Persona::read_all(DEFAULTS);
        let critic = all.next().map(|critic| critic.persona).unwrap_or_default();
        DebatePersonas { critic, decision_makers: all.collect() }
    }
}
