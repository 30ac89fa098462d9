//! The audit log: who did what to what, each entry chained to the one before by a hash, so that
//! nothing can be changed or taken out of the middle without it showing.

use assize_types::Fingerprint;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// An entry that is to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAuditEntry {
    pub actor: String,
    pub action: String,
    pub subject: String,
    pub detail: Value,
}

/// Which entries are wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditQuery {
    /// About this, or about all.
    pub subject: Option<String>,
    /// With ids above this one.
    pub after: u64,
    /// At most so many; 0 for all of them.
    pub limit: usize,
}

/// An entry as it was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    pub id: u64,
    pub at: u64,
    pub actor: String,
    pub action: String,
    pub subject: String,
    pub detail: Value,
    /// The hash of the entry before; all zeros for the first.
    pub previous: Fingerprint,
    pub hash: Fingerprint,
}

/// What a look at the whole log came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditVerdict {
    Intact {
        entries: u64,
    },
    /// This entry is not what it was, is missing, or does not follow the one before it.
    Broken {
        at: u64,
    },
}

impl AuditEntry {
    pub fn chained(id: u64, at: u64, entry: NewAuditEntry, previous: Fingerprint) -> AuditEntry {
        let NewAuditEntry { actor, action, subject, detail } = entry;
        let hash = Fingerprint::NONE;
        let mut entry = AuditEntry { id, at, actor, action, subject, detail, previous, hash };
        entry.hash = entry.expected_hash();
        entry
    }

    /// The hash that an entry with these words should have.
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
    /// Looks at a whole log, oldest entry first, whose last entry had this id before it was read; entries may have been
    /// added since.
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
    fn a_changed_a_missing_a_swapped_and_a_cut_off_entry_all_show() {
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
