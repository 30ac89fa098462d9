//! What was found, and the card it is written on.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::catalog::Group;

/// What became of a probe in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It did not get through.
    Blocked,
    /// It got through.
    Escaped,
    /// It does not get through outside either, or nobody promised that it would not.
    NotApplicable,
    /// The trial itself failed; that says nothing about the sandbox, and is not counted for it.
    Broke,
}

/// What became of the same probe outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    Reached,
    NotReached {
        why: String,
    },
    /// It is about what is only there inside.
    OnlyInside,
}

/// One probe against one backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub name: String,
    pub group: Group,
    /// What it tries, in one sentence.
    pub what: String,
    pub backend: String,
    pub outcome: Outcome,
    pub control: Control,
    /// What was seen, in a few words.
    pub detail: String,
    /// Whether it is no more than a system call that should be refused.
    pub syscall: bool,
}

/// How many of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    pub blocked: usize,
    pub escaped: usize,
    pub not_applicable: usize,
    pub broke: usize,
}

impl Count {
    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Blocked => self.blocked += 1,
            Outcome::Escaped => self.escaped += 1,
            Outcome::NotApplicable => self.not_applicable += 1,
            Outcome::Broke => self.broke += 1,
        }
    }

    /// Those that say something about the sandbox.
    pub fn applicable(&self) -> usize {
        self.blocked + self.escaped
    }
}

/// All that was found about one backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scorecard {
    pub backend: String,
    /// By name.
    pub findings: Vec<Finding>,
    pub took: Duration,
}

impl Scorecard {
    pub(crate) fn new(backend: String, mut findings: Vec<Finding>, took: Duration) -> Scorecard {
        findings.sort_by(|one, two| (one.group, &one.name).cmp(&(two.group, &two.name)));
        Scorecard { backend, findings, took }
    }

    pub fn count(&self) -> Count {
        let mut count = Count::default();
        self.findings.iter().for_each(|finding| count.add(finding.outcome));
        count
    }

    pub fn by_group(&self) -> BTreeMap<Group, Count> {
        let mut counts: BTreeMap<Group, Count> = BTreeMap::new();
        for finding in &self.findings {
            counts.entry(finding.group).or_default().add(finding.outcome);
        }
        counts
    }

    /// The findings that came to this end.
    pub fn with(&self, outcome: Outcome) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.outcome == outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(name: &str, group: Group, outcome: Outcome) -> Finding {
        Finding {
            name: name.to_owned(),
            group,
            what: "tries".to_owned(),
            backend: "jail".to_owned(),
            outcome,
            control: Control::Reached,
            detail: String::new(),
            syscall: false,
        }
    }

    #[test]
    fn what_broke_or_does_not_apply_is_not_counted_for_the_sandbox() {
        let findings = vec![
            finding("network/tcp", Group::Network, Outcome::NotApplicable),
            finding("files/b", Group::Files, Outcome::Escaped),
            finding("files/a", Group::Files, Outcome::Blocked),
            finding("files/c", Group::Files, Outcome::Broke),
        ];
        let card = Scorecard::new("jail".to_owned(), findings, Duration::from_secs(1));
        assert_eq!(card.count(), Count { blocked: 1, escaped: 1, not_applicable: 1, broke: 1 });
        assert_eq!(card.count().applicable(), 2);
        assert_eq!(card.by_group()[&Group::Network].applicable(), 0);
        assert_eq!(
            card.with(Outcome::Escaped).map(|finding| finding.name.as_str()).collect::<Vec<_>>(),
            ["files/b"]
        );
        assert_eq!(card.findings[0].name, "files/a");
        let text = serde_json::to_string(&card).unwrap();
        assert!(text.contains(r#""outcome":"not_applicable""#), "{text}");
        assert_eq!(serde_json::from_str::<Scorecard>(&text).unwrap(), card);
    }
}
