//! Scorecards of the last attack on each sandbox backend, stored in the user's state folder.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use assize_config::Environment;
use assize_types::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Result of running all attack probes in the sandboxes of one backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scorecard {
    pub isolation: String,
    /// Version of assize that ran the attack.
    pub version: String,
    /// Time of the attack, in milliseconds since 1970.
    pub at: u64,
    /// Duration of the attack in seconds.
    pub seconds: f64,
    pub groups: Vec<ProbeGroupCounts>,
    /// Probes that escaped from the sandbox.
    pub escaped: Vec<EscapedProbe>,
}

/// How many probes of one group had each outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AttackGroup")]
pub struct ProbeGroupCounts {
    pub title: String,
    pub blocked: usize,
    pub escaped: usize,
    pub not_applicable: usize,
    /// Number of probes without a result, because the probe or the sandbox failed with an error.
    pub failed: usize,
}

/// A probe that escaped from the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EscapedProbe {
    pub name: String,
    pub description: String,
    pub detail: String,
}

impl From<&assize_attack::AttackScorecard> for Scorecard {
    fn from(card: &assize_attack::AttackScorecard) -> Scorecard {
        let groups = card.by_group();
        let groups = groups.iter().map(|(group, count)| ProbeGroupCounts {
            title: group.title().to_owned(),
            blocked: count.blocked,
            escaped: count.escaped,
            not_applicable: count.not_applicable,
            failed: count.failed,
        });
        let escaped = card.with(assize_attack::ProbeOutcome::Escaped).map(|one| EscapedProbe {
            name: one.name.clone(),
            description: one.description.clone(),
            detail: one.detail.clone(),
        });
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Scorecard {
            isolation: card.backend.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at: since_1970.as_millis() as u64,
            seconds: card.took.as_secs_f64(),
            groups: groups.collect(),
            escaped: escaped.collect(),
        }
    }
}

type Cards = BTreeMap<String, Scorecard>;

fn path(around: &Environment) -> PathBuf {
    around.state_folder.join("attacks.json")
}

/// Reads the last scorecard of each sandbox backend.
pub fn load(around: &Environment) -> Result<Vec<Scorecard>, Failure> {
    let path = path(around);
    let failed = |why: String| {
        let path = path.display();
        let message =
            format!("cannot read the scorecards of the last attacks from `{path}`: {why}");
        Failure::new(FailureKind::Environment, message)
            .hint("remove the file and attack again with `assize attack`")
    };
    match std::fs::read(&path) {
        Ok(bytes) => {
            let cards: Cards =
                serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))?;
            Ok(cards.into_values().collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Stores a scorecard, and replaces the last scorecard of the same sandbox backend.
pub fn save(around: &Environment, card: Scorecard) -> Result<(), Failure> {
    let path = path(around);
    // If the file is damaged, it is overwritten.
    let cards = load(around).unwrap_or_default();
    let mut cards: Cards = cards.into_iter().map(|card| (card.isolation.clone(), card)).collect();
    cards.insert(card.isolation.clone(), card);
    let write = || {
        std::fs::create_dir_all(&around.state_folder)?;
        let mut file = tempfile::NamedTempFile::new_in(&around.state_folder)?;
        serde_json::to_writer_pretty(&mut file, &cards)?;
        file.persist(&path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(|error: io::Error| {
        let path = path.display();
        let message = format!("cannot store the scorecard of the attack in `{path}`: {error}");
        Failure::new(FailureKind::Environment, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(isolation: &str, blocked: usize) -> Scorecard {
        let group = ProbeGroupCounts {
            title: "Files".to_owned(),
            blocked,
            escaped: 0,
            not_applicable: 0,
            failed: 0,
        };
        Scorecard {
            isolation: isolation.to_owned(),
            version: "1".to_owned(),
            at: 5,
            seconds: 1.5,
            groups: vec![group],
            escaped: Vec::new(),
        }
    }

    #[test]
    fn scorecard_file_contains_the_last_scorecard_of_each_isolation() {
        let folder = tempfile::tempdir().unwrap();
        let around = Environment::in_folder(folder.path(), BTreeMap::new());
        assert_eq!(load(&around).unwrap(), []);
        for card in [card("jail", 1), card("docker", 2), card("jail", 3)] {
            save(&around, card).unwrap();
        }
        assert_eq!(load(&around).unwrap(), [card("docker", 2), card("jail", 3)]);
        // Reading a damaged file is an error, and storing the next scorecard overwrites the file.
        std::fs::write(path(&around), "{").unwrap();
        assert!(load(&around).unwrap_err().message().contains("attacks.json"));
        save(&around, card("jail", 4)).unwrap();
        assert_eq!(load(&around).unwrap(), [card("jail", 4)]);
    }
}
