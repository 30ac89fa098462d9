//! What the gate goes by: the settings, and the contract of the task where there is one.

use std::sync::LazyLock;

use assize_config::Review;
use assize_types::Fingerprint;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::{Contract, Verify};
use crate::file_rules;

/// All that the gate goes by. Its fingerprint stands beside every decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// The most lines that a draft may add and remove.
    pub max_lines: usize,
    /// The most files of one task.
    pub max_files: usize,
    /// The largest share of a file's lines that may be removed or replaced.
    pub max_deletion: f64,
    /// The largest file and draft, in bytes.
    pub max_bytes: u64,
    pub review: Review,
    /// Files that workers may read although they look as if they held secrets.
    pub readable: Vec<String>,
    /// Files that a person looks after, besides those that everybody has.
    pub protected: Vec<String>,
    /// What may be drafted; everything, where nothing is said.
    pub allowed: Option<Vec<String>>,
    /// The only task there is.
    pub task: Option<String>,
    /// What must pass: what the settings ask for, and what the contract does.
    pub verify: Vec<Verify>,
    /// What a verification may have.
    pub verify_most: VerifyMost,
}

/// The most that a verification may ask for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyMost {
    pub memory_mb: u64,
    pub seconds: u64,
    /// Folders of this machine that it may see.
    pub layers: Vec<String>,
    /// The virtual environment that it uses where it names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
}

impl Default for VerifyMost {
    fn default() -> VerifyMost {
        VerifyMost { memory_mb: 2048, seconds: 600, layers: Vec::new(), python: None }
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            max_lines: 500,
            max_files: 20,
            max_deletion: 0.5,
            max_bytes: 1 << 20,
            review: Review::default(),
            readable: Vec::new(),
            protected: Vec::new(),
            allowed: None,
            task: None,
            verify: Vec::new(),
            verify_most: VerifyMost::default(),
        }
    }
}

impl Policy {
    /// With the contract's limits, where these are tighter, and with what only a contract says.
    #[must_use]
    pub fn under(&self, contract: Option<Contract>) -> Policy {
        let mut policy = self.clone();
        let Some(contract) = contract else { return policy };
        let limits = contract.limits;
        policy.max_lines = limits.max_lines.map_or(policy.max_lines, |m| m.min(policy.max_lines));
        policy.max_files = limits.max_files.map_or(policy.max_files, |m| m.min(policy.max_files));
        policy.max_bytes = limits.max_bytes.map_or(policy.max_bytes, |m| m.min(policy.max_bytes));
        policy.max_deletion =
            limits.max_deletion.map_or(policy.max_deletion, |m| m.min(policy.max_deletion));
        policy.allowed = contract.allowed_paths;
        policy.task = contract.task_id;
        policy.verify.extend(contract.verify);
        policy
    }

    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self.to_bytes())
    }

    /// All of it as JSON, with what is built in.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut whole = serde_json::json!(self);
        whole["built_in"] = serde_json::json!(*BUILT_IN);
        serde_json::to_vec(&whole).unwrap_or_default()
    }
}

/// What stands for all rules that no setting changes.
static BUILT_IN: LazyLock<Fingerprint> = LazyLock::new(|| {
    let rules = crate::secrets::patterns().collect::<Vec<_>>();
    Fingerprint::of(
        serde_json::json!([file_rules::DATA, rules, env!("CARGO_PKG_VERSION")]).to_string(),
    )
});

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use assize_workspace::Inside;

    #[test]
    fn a_contract_only_tightens() {
        let contract = |text: &str| Some(Contract::parse(text.as_bytes()).unwrap());
        let policy = Policy::default();
        let tighter = policy.under(contract(r#"{"version": 1, "limits": {"max_lines": 5}}"#));
        assert_eq!((tighter.max_lines, tighter.max_files), (5, 20));
        assert_ne!(tighter.fingerprint(), policy.fingerprint());
        let own = Policy { verify: vec![Verify::command("mine")], ..Policy::default() };
        let both = own.under(contract(r#"{"version": 1, "verify": {"command": "true"}}"#));
        let commands: Vec<&str> = both.verify.iter().map(|v| v.command.as_str()).collect();
        assert_eq!(commands, ["mine", "true"]);
        let looser = policy.under(contract(r#"{"version": 1, "limits": {"max_lines": 5000}}"#));
        assert_eq!(looser.max_lines, 500);
        let narrow = policy.under(contract(r#"{"version": 1, "allowed_paths": ["src/"]}"#));
        let places = narrow.places().unwrap();
        let is_allowed = |path| places.is_allowed(&Inside::read(path, Path::new("/")).unwrap());
        assert!(is_allowed("src/a") && !is_allowed("SRC/a"));
        assert_eq!(policy.under(None), policy);
    }
}
