//! The gate's policy: the settings for drafts, combined with the contract of the task.

use std::sync::LazyLock;

use assize_config::Review;
use assize_types::Fingerprint;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::{Contract, VerifyCommand};
use crate::{file_rules, machine_paths};

/// Policy of the gate: limits and rules for the gate's decisions. Each decision records the policy's fingerprint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// Maximum number of lines that a draft may add and remove, counted together.
    pub max_lines: usize,
    /// Maximum number of files that one task may change.
    pub max_files: usize,
    /// Maximum share of a file's lines that a draft may remove or replace, from 0 to 1.
    pub max_deletion: f64,
    /// Maximum size of a file and of a draft, in bytes.
    pub max_bytes: u64,
    pub review: Review,
    /// Patterns of files that agents may read although their names suggest secrets.
    pub readable: Vec<String>,
    /// Patterns of files whose changes always need a reviewer, in addition to the built-in patterns.
    pub protected: Vec<String>,
    /// Patterns of files that the task may change; all files if absent.
    pub allowed: Option<Vec<String>>,
    /// Id of the only task that may change files; any task if absent.
    pub task: Option<String>,
    /// Verification commands that must succeed: the command of the settings and the command of the contract.
    pub verify: Vec<VerifyCommand>,
    /// Limits that apply to every verification command.
    pub verify_most: VerifyLimits,
}

/// Limits that the settings set for verification commands: memory, time, and host folders that may be mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyLimits {
    pub memory_mb: u64,
    pub seconds: u64,
    /// Host folders that may be mounted into the sandbox of a verification command.
    pub layers: Vec<String>,
    /// Python virtual environment for verification commands that do not specify one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
}

impl Default for VerifyLimits {
    fn default() -> VerifyLimits {
        VerifyLimits { memory_mb: 2048, seconds: 600, layers: Vec::new(), python: None }
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
            verify_most: VerifyLimits::default(),
        }
    }
}

impl Policy {
    /// Combines the policy of the settings with a task contract. The lower value of each limit applies. The task, the
    /// allowed paths and the additional verification command are those of the contract.
    #[must_use]
    pub fn with_contract(&self, contract: Option<Contract>) -> Policy {
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

    /// Serializes the policy to JSON, together with a fingerprint of the built-in rules.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut whole = serde_json::json!(self);
        whole["built_in"] = serde_json::json!(*BUILT_IN);
        serde_json::to_vec(&whole).unwrap_or_default()
    }
}

/// Fingerprint of all built-in rules. It does not depend on the settings.
static BUILT_IN: LazyLock<Fingerprint> = LazyLock::new(|| {
    let rules = crate::secrets::patterns().collect::<Vec<_>>();
    let data = [file_rules::DATA, machine_paths::DATA];
    // The checks that are written in Rust have no data to hash, so the version of the crate represents them.
    Fingerprint::of(serde_json::json!([data, rules, env!("CARGO_PKG_VERSION")]).to_string())
});

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use assize_workspace::WorkspacePath;

    #[test]
    fn task_contract_tightens_the_policy_but_never_loosens_it() {
        let contract = |text: &str| Some(Contract::parse(text.as_bytes()).unwrap());
        let policy = Policy::default();
        let tighter =
            policy.with_contract(contract(r#"{"version": 1, "limits": {"max_lines": 5}}"#));
        assert_eq!((tighter.max_lines, tighter.max_files), (5, 20));
        assert_ne!(tighter.fingerprint(), policy.fingerprint());
        let own = Policy { verify: vec![VerifyCommand::command("mine")], ..Policy::default() };
        let both = own.with_contract(contract(r#"{"version": 1, "verify": {"command": "true"}}"#));
        let commands: Vec<&str> = both.verify.iter().map(|v| v.command.as_str()).collect();
        assert_eq!(commands, ["mine", "true"]);
        let looser =
            policy.with_contract(contract(r#"{"version": 1, "limits": {"max_lines": 5000}}"#));
        assert_eq!(looser.max_lines, 500);
        let narrow = policy.with_contract(contract(r#"{"version": 1, "allowed_paths": ["src/"]}"#));
        let places = narrow.path_rules().unwrap();
        let is_allowed =
            |path| places.is_allowed(&WorkspacePath::parse(path, Path::new("/")).unwrap());
        assert!(is_allowed("src/a") && !is_allowed("SRC/a"));
        assert_eq!(policy.with_contract(None), policy);
    }
}
