//! Progress of `assize run`.

use assize_run::{EffectStage, Signal};

/// Activity that a signal announces; `None` if it announces none.
pub(super) fn doing(signal: &Signal<'_>, attempts: u32) -> Option<String> {
    let Signal::Effect { key, stage: EffectStage::Started } = signal else { return None };
    let key = key.to_string();
    let (attempt, part) = key.strip_prefix("attempt-")?.split_once('/')?;
    // With several candidates, the one that started something last.
    let (which, what) = part.rsplit_once('/').unwrap_or(("", part));
    let doing = match what {
        "race" | "commit" => return None,
        "generate" => "writing the program",
        "execute" => "running it",
        "critique" => "asking the critic",
        _ => "asking again, because the answer could not be parsed",
    };
    let which = which.strip_prefix("candidate-").map(|number| format!(" · program {number}"));
    let which = which.unwrap_or_default();
    Some(format!("attempt {attempt} of {attempts}{which} · {doing}"))
}
