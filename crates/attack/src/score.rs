//! Findings of an attack, and the scorecard that counts them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::catalog::ProbeGroup;

/// Outcome of one probe in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeOutcome {
    /// The sandbox stopped the probe.
    Blocked,
    /// The probe succeeded, so the sandbox failed to stop it.
    Escaped,
    /// The probe does not succeed on the host either, or the backend does not guarantee the limit that the probe
    /// exceeded.
    NotApplicable,
    /// The probe or the sandbox failed with an error. The result shows nothing about the isolation and does not count.
    Failed,
}

/// Outcome of the control: the same probe on the host, without isolation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlOutcome {
    /// The probe succeeded on the host, so the probe can detect missing isolation.
    Reached,
    /// The probe failed on the host, so it cannot show on this machine whether a sandbox isolates.
    NotReached { why: String },
    /// The probe does not run on the host, because the target that it attacks exists only in a sandbox.
    OnlyInside,
}

/// Result of one probe against one backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeFinding {
    pub name: String,
    pub group: ProbeGroup,
    /// Description of what the probe tries to do.
    pub description: String,
    pub backend: String,
    pub outcome: ProbeOutcome,
    pub control: ControlOutcome,
    /// Short description of the observation that led to the outcome.
    pub detail: String,
    /// Whether the probe makes a single system call, which the sandbox should reject.
    pub syscall: bool,
}

/// Number of findings with each outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeCount {
    pub blocked: usize,
    pub escaped: usize,
    pub not_applicable: usize,
    pub failed: usize,
}

impl ProbeCount {
    fn add(&mut self, outcome: ProbeOutcome) {
        match outcome {
            ProbeOutcome::Blocked => self.blocked += 1,
            ProbeOutcome::Escaped => self.escaped += 1,
            ProbeOutcome::NotApplicable => self.not_applicable += 1,
            ProbeOutcome::Failed => self.failed += 1,
        }
    }

    /// Number of findings that count for the score: those with the outcome blocked or escaped.
    pub fn applicable(&self) -> usize {
        self.blocked + self.escaped
    }
}

/// All findings about one backend.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttackScorecard {
    pub backend: String,
    /// Findings, sorted by group and name.
    pub findings: Vec<ProbeFinding>,
    pub took: Duration,
}

impl AttackScorecard {
    pub(crate) fn new(
        backend: String,
        mut findings: Vec<ProbeFinding>,
        took: Duration,
    ) -> AttackScorecard {
        findings.sort_by(|one, two| (one.group, &one.name).cmp(&(two.group, &two.name)));
        AttackScorecard { backend, findings, took }
    }

    pub fn count(&self) -> ProbeCount {
        let mut count = ProbeCount::default();
        self.findings.iter().for_each(|finding| count.add(finding.outcome));
        count
    }

    pub fn by_group(&self) -> BTreeMap<ProbeGroup, ProbeCount> {
        let mut counts: BTreeMap<ProbeGroup, ProbeCount> = BTreeMap::new();
        for finding in &self.findings {
            counts.entry(finding.group).or_default().add(finding.outcome);
        }
        counts
    }

    /// Returns the findings with this outcome.
    pub fn with(&self, outcome: ProbeOutcome) -> impl Iterator<Item = &ProbeFinding> {
        self.findings.iter().filter(move |finding| finding.outcome == outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(name: &str, group: ProbeGroup, outcome: ProbeOutcome) -> ProbeFinding {
        ProbeFinding {
            name: name.to_owned(),
            group,
            description: "tries".to_owned(),
            backend: "jail".to_owned(),
            outcome,
            control: ControlOutcome::Reached,
            detail: String::new(),
            syscall: false,
        }
    }

    #[test]
    fn scorecard_does_not_count_failed_and_not_applicable_findings() {
        let findings = vec![
            finding("network/tcp", ProbeGroup::Network, ProbeOutcome::NotApplicable),
            finding("files/b", ProbeGroup::Files, ProbeOutcome::Escaped),
            finding("files/a", ProbeGroup::Files, ProbeOutcome::Blocked),
            finding("files/c", ProbeGroup::Files, ProbeOutcome::Failed),
        ];
        let card = AttackScorecard::new("jail".to_owned(), findings, Duration::from_secs(1));
        assert_eq!(
            card.count(),
            ProbeCount { blocked: 1, escaped: 1, not_applicable: 1, failed: 1 }
        );
        assert_eq!(card.count().applicable(), 2);
        assert_eq!(card.by_group()[&ProbeGroup::Network].applicable(), 0);
        assert_eq!(
            card.with(ProbeOutcome::Escaped)
                .map(|finding| finding.name.as_str())
                .collect::<Vec<_>>(),
            ["files/b"]
        );
        assert_eq!(card.findings[0].name, "files/a");
        let text = serde_json::to_string(&card).unwrap();
        assert!(text.contains(r#""outcome":"not_applicable""#), "{text}");
        assert_eq!(serde_json::from_str::<AttackScorecard>(&text).unwrap(), card);
    }
}
