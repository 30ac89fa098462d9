//! What drafts are called, and which one is meant.

use std::path::{Component, Path};

use assize_gate::TaskId;
use assize_types::Fingerprint;
use assize_workspace::{DRAFTS, HANDOFF, Inside, UNFINISHED};

use crate::state::DraftState;

/// The longest name of a draft that has the whole name of its file in it.
const LONGEST: usize = 200;

/// A draft's path as workers see it.
pub(crate) fn draft_path(name: &str) -> String {
    format!("{HANDOFF}/{DRAFTS}/{name}")
}

/// The name of the draft that is meant by a path: full, from the workspace's folder, or the name alone.
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

/// A name for a draft that no other has: `{name of the file}.{task}.draft`, or with a hash of its path.
pub(crate) fn free_name(state: &DraftState, path: &Inside, task: &TaskId) -> String {
    let taken = |name: &str| {
        let name = name.to_lowercase();
        state.drafts.keys().any(|other| other.to_lowercase() == name)
    };
    // What begins like an unfinished file would be taken for one.
    let start = if path.name().starts_with(UNFINISHED) { "_" } else { "" };
    let plain = format!("{start}{}.{task}.draft", path.name());
    if plain.len() <= LONGEST && !taken(&plain) {
        return plain;
    }
    let hash = Fingerprint::of(path.to_string()).to_string();
    let cut: String = path.name().chars().take(40).collect();
    let named = |digits: usize| format!("{start}{cut}.{task}.{}.draft", &hash[..digits]);
    // Somebody may have called a task like that.
    (8..=hash.len()).map(named).find(|name| !taken(name)).unwrap_or_else(|| named(hash.len()))
}
