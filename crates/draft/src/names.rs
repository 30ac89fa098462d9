//! Names of draft files.

use std::path::{Component, Path};

use assize_gate::TaskId;
use assize_types::Fingerprint;
use assize_workspace::{DRAFTS, HANDOFF, TEMP_FILE_PREFIX, WorkspacePath};

use crate::state::DraftState;

/// Maximum length in bytes of a draft name that contains the complete file name. If the draft name would be longer, it
/// contains only the start of the file name.
const MAX_NAME: usize = 200;

/// Returns the path of a draft as shown to agents: relative to the workspace.
pub(crate) fn draft_path(name: &str) -> String {
    format!("{HANDOFF}/{DRAFTS}/{name}")
}

/// Parses the path of a draft (absolute, relative to the workspace, or only the name); returns the name of the draft.
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

/// Returns an unused draft name: `{file name}.{task}.draft`. If that name is used or too long, the draft name also
/// contains a hash of the file's path.
pub(crate) fn free_name(state: &DraftState, path: &WorkspacePath, task: &TaskId) -> String {
    let taken = |name: &str| {
        let name = name.to_lowercase();
        state.drafts.keys().any(|other| other.to_lowercase() == name)
    };
    // A draft whose name starts with `TEMP_FILE_PREFIX` would be mistaken for an unfinished temporary file.
    let start = if path.name().starts_with(TEMP_FILE_PREFIX) { "_" } else { "" };
    let plain = format!("{start}{}.{task}.draft", path.name());
    if plain.len() <= MAX_NAME && !taken(&plain) {
        return plain;
    }
    let hash = Fingerprint::of(path.to_string()).to_string();
    let cut: String = path.name().chars().take(40).collect();
    let named = |digits: usize| format!("{start}{cut}.{task}.{}.draft", &hash[..digits]);
    // The same draft name may exist for a file of another task, so try longer prefixes of the hash.
    (8..=hash.len()).map(named).find(|name| !taken(name)).unwrap_or_else(|| named(hash.len()))
}
