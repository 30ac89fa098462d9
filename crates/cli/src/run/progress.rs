//! Progress of `assize run`: the current activity.

use assize_run::{EffectStage, Signal};

/// Describes the activity that a progress signal of the run announces, such as `running the program`; `None` if the
/// signal announces no activity.
pub(super) fn activity_of(signal: &Signal<'_>, attempts: u32) -> Option<String> {
    let Signal::Effect { key, stage: EffectStage::Started } = signal else { return None };
    activity_of_effect(key.as_str(), attempts)
}

/// Describes the activity of the effect with this key; `None` if the effect is not part of an attempt.
pub(crate) fn activity_of_effect(key: &str, attempts: u32) -> Option<String> {
    let (attempt, part) = key.strip_prefix("attempt-")?.split_once('/')?;
    // If several candidates run in parallel, the activity of the candidate that sent the signal is shown.
    let (which, what) = part.rsplit_once('/').unwrap_or(("", part));
    let doing = match what {
        "race" | "commit" => return None,
        "generate" => "writing the program",
        "execute" => "running the program",
        "critique" => "requesting a critique",
        _ => "repeating the request, because the answer could not be parsed",
    };
    let which = which.strip_prefix("candidate-").map(|number| format!(" · program {number}"));
    let which = which.unwrap_or_default();
    Some(format!("attempt {attempt} of {attempts}{which} · {doing}"))
}
