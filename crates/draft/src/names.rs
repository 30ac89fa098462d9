//! Names of draft files.

use std::path::{Component, Path};

use assize_gate::TaskId;
use assize_types::Fingerprint;
use assize_workspace::{DRAFTS, HANDOFF, UNFINISHED, WorkspacePath};

use crate::state::DraftState;

/// Maximum length of a draft name that contains the whole name of its file.
const MAX_NAME: usize = 200;

/// Path of a draft as shown to agents.
pub(crate) fn draft_path(name: &str) -> String {
    format!("{HANDOFF}/{DRAFTS}/{name}")
}

/// Parses a draft path: absolute, relative to the workspace, or only the name.
pub(crate) fn draft_name(text: &str, roots: &[&Path]) -> Option<String> {
    let path = Path::new(text);
    let below = match path.is_absolute() {
        true => roots.iter().find_map(|root| path.strip_prefix(root).ok())?,
        false => path,
    };
    let mut parts = Vec::new();
    for part in below.components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            _ => return None,
        }
    }
    let name = match (parts.as_slice(), path.is_absolute()) {
        ([HANDOFF, DRAFTS, name], _) | ([name], false) => *name,
        _ => return None,
    };
    (name.ends_with(".draft") && name.len() <= 255).then(|| name.to_owned())
}

/// Returns an unused draft name: `{file name}.{task}.draft`, or with a hash of the path.
pub(crate) fn free_name(state: &DraftState, path: &WorkspacePath, task: &TaskId) -> String {
    let taken = |name: &str| {
        let name = name.to_lowercase();
        state.drafts.keys().any(|other| other.to_lowercase() == name)
    };
    // Otherwise the draft would be mistaken for an unfinished file.
    let start = if path.name().starts_with(UNFINISHED) { "_" } else { "" };
    let plain = format!("{start}{}.{task}.draft", path.name());
    if plain.len() <= MAX_NAME && !taken(&plain) {
        return plain;
    }
    let hash = Fingerprint::of(path.to_string()).to_string();
    let cut: String = path.name().chars().take(40).collect();
    let named = |digits: usize| format!("{start}{cut}.{task}.{}.draft", &hash[..digits]);
    // Another task's name may produce the same draft name.
    (8..=hash.len()).map(named).find(|name| !taken(name)).unwrap_or_else(|| named(hash.len()))
}
