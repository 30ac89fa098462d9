//! Audit log: actor, action and subject of every change. Each entry contains the hash of the previous
//! entry, so that a changed or removed entry is detected.

use assize_types::Fingerprint;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Content of an audit entry that is not written yet. The store adds the id, the time and the hashes.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAuditEntry {
    pub actor: String,
    pub action: String,
    pub subject: String,
    pub detail: Value,
}

/// Filter for reading the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditQuery {
    /// Return only audit entries about this subject; `None` for all subjects.
    pub subject: Option<String>,
    /// Return only audit entries with an id above this number.
    pub after: u64,
    /// Maximum number of audit entries to return; 0 for no limit.
    pub limit: usize,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    pub id: u64,
    pub at: u64,
    pub actor: String,
    pub action: String,
    pub subject: String,
    pub detail: Value,
    /// Hash of the previous audit entry; all zeros for the first entry of the log.
    pub previous: Fingerprint,
    pub hash: Fingerprint,
}

/// Result of verifying the whole audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditVerdict {
    Intact {
        entries: u64,
    },
    /// The audit entry with the id `at` was changed, is missing, or does not follow the previous entry.
    Broken {
        at: u64,
    },
}

impl AuditEntry {
    /// Creates an audit entry that contains its own hash and `previous`, the hash of the previous entry.
    pub fn chained(id: u64, at: u64, entry: NewAuditEntry, previous: Fingerprint) -> AuditEntry {
        let NewAuditEntry { actor, action, subject, detail } = entry;
        let hash = Fingerprint::NONE;
        let mut entry = AuditEntry { id, at, actor, action, subject, detail, previous, hash };
        entry.hash = entry.expected_hash();
        entry
    }

    /// Computes the hash that an unchanged audit entry with this content must have.
    fn expected_hash(&self) -> Fingerprint {
        let text = json!([
            self.id,
            self.at,
            self.actor,
            self.action,
            self.subject,
            self.detail,
            self.previous
        ]);
        Fingerprint::of(text.to_string())
    }
}

impl AuditVerdict {
    /// Verifies a whole audit log, given with the oldest entry first. `head` is the id of the last entry, and must be
    /// read before `log` is read. Entries that were added between the two reads are accepted.
    pub fn of(log: &[AuditEntry], head: u64) -> AuditVerdict {
        let mut previous = (0, Fingerprint::NONE);
        for entry in log {
            if entry.id != previous.0 + 1 {
                return AuditVerdict::Broken { at: previous.0 + 1 };
            }
            if entry.previous != previous.1 || entry.hash != entry.expected_hash() {
                return AuditVerdict::Broken { at: entry.id };
            }
            previous = (entry.id, entry.hash);
        }
        match log.last().map_or(0, |last| last.id) {
            last if last >= head => AuditVerdict::Intact { entries: log.len() as u64 },
            last => AuditVerdict::Broken { at: last + 1 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_log_with_changed_missing_swapped_or_truncated_entries_is_reported_as_broken() {
        let mut log: Vec<AuditEntry> = Vec::new();
        for id in 1..=4 {
            let previous = log.last().map_or(Fingerprint::NONE, |entry| entry.hash);
            let entry = NewAuditEntry {
                actor: "ann".into(),
                action: "accept".into(),
                subject: format!("draft {id}"),
                detail: json!({"lines": id}),
            };
            log.push(AuditEntry::chained(id, 1000 + id, entry, previous));
        }
        assert_eq!(AuditVerdict::of(&log, 4), AuditVerdict::Intact { entries: 4 });
        assert_eq!(AuditVerdict::of(&log, 3), AuditVerdict::Intact { entries: 4 });
        assert_eq!(AuditVerdict::of(&log[..3], 4), AuditVerdict::Broken { at: 4 });
        assert_eq!(AuditVerdict::of(&[], 4), AuditVerdict::Broken { at: 1 });
        let mut changed = log.clone();
        changed[1].detail = json!({"lines": 200});
        assert_eq!(AuditVerdict::of(&changed, 4), AuditVerdict::Broken { at: 2 });
        let mut missing = log.clone();
        missing.remove(2);
        assert_eq!(AuditVerdict::of(&missing, 4), AuditVerdict::Broken { at: 3 });
        let mut swapped = log.clone();
        swapped.swap(0, 1);
        assert_eq!(AuditVerdict::of(&swapped, 4), AuditVerdict::Broken { at: 1 });
    }
}
