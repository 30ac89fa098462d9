//! How far a trial of code is.

use assize_run::{EffectStage, Signal};

/// What a signal says is being done now, of so many attempts; `None` if it says nothing about that.
pub(super) fn doing(signal: &Signal<'_>, attempts: u32) -> Option<String> {
    let Signal::Effect { key, stage: EffectStage::Started } = signal else { return None };
    let key = key.to_string();
    let (attempt, part) = key.strip_prefix("attempt-")?.split_once('/')?;
    // Of several side by side, the last that anything was begun for.
    let (which, what) = part.rsplit_once('/').unwrap_or(("", part));
    let doing = match what {
        "race" | "commit" => return None,
        "generate" => "writing the program",
        "execute" => "running it",
        "critique" => "asking the critic",
        _ => "asking once more, as the answer could not be read",
    };
    let which = which.strip_prefix("candidate-").map(|number| format!(" · program {number}"));
    let which = which.unwrap_or_default();
    Some(format!("attempt {attempt} of {attempts}{which} · {doing}"))
}
