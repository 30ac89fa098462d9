//! Whether a probe got through, from what was seen of it.

use serde::Deserialize;

use crate::catalog::{Judge, Probe};
use crate::inside::TIGHT_OUTPUT;
use crate::place::{End, Failed, Ran};

/// How much later than its time an end may be told.
const LATE: std::time::Duration = std::time::Duration::from_millis(1500);

/// What is to be said about one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Reached(String),
    Stopped(String),
    Broke(String),
}

/// What a probe says at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Answer {
    reached: bool,
    detail: String,
    nonce: Option<String>,
    broke: Option<String>,
}

/// Where the last line begins that may be an answer.
fn answer_at(stdout: &[u8]) -> Option<usize> {
    let start = b"\n{\"";
    stdout.windows(start.len()).rposition(|piece| piece == start)
}

fn answer(stdout: &[u8]) -> Option<Answer> {
    let line = &stdout[answer_at(stdout)? + 1..];
    serde_json::from_slice(line.split(|byte| *byte == b'\n').next()?).ok()
}

/// What a program wrote before its answer.
pub(crate) fn before_answer(stdout: &[u8]) -> &[u8] {
    match answer_at(stdout) {
        Some(at) if answer(stdout).is_some() => &stdout[..at],
        _ => stdout,
    }
}

/// Judges a run. `proof` is the number that the probe has to bring, where it has to; `heard` says that its mark arrived
/// on the host.
pub(crate) fn judge(
    probe: &Probe,
    ran: &Result<Ran, Failed>,
    proof: Option<&str>,
    heard: bool,
) -> Verdict {
    let ran = match ran {
        Ok(ran) => ran,
        Err(Failed::Gone(why)) if matches!(probe.judge, Judge::Guest | Judge::Forged) => {
            return Verdict::Reached(format!("the guest is gone: {why}"));
        }
        Err(Failed::Start(why) | Failed::Gone(why)) => return Verdict::Broke(why.clone()),
    };
    let verdict = |reached: bool, detail: String| {
        if reached { Verdict::Reached(detail) } else { Verdict::Stopped(detail) }
    };
    let own = by_itself(ran, proof.filter(|_| probe.judge != Judge::Collected));
    match probe.judge {
        Judge::Itself | Judge::Guest => own,
        Judge::Heard => match own {
            Verdict::Broke(why) => Verdict::Broke(why),
            _ if heard => Verdict::Reached("it arrived on the host".to_owned()),
            Verdict::Reached(_) => Verdict::Stopped("nothing arrived on the host".to_owned()),
            Verdict::Stopped(detail) => Verdict::Stopped(detail),
        },
        Judge::Collected => match (own, proof) {
            (Verdict::Reached(_), Some(proof)) => {
                let mut pieces = ran.collected.windows(proof.len().max(1));
                let collected = ran.collected.len();
                match pieces.any(|piece| piece == proof.as_bytes()) {
                    true => Verdict::Reached("the host collected a file of its own".to_owned()),
                    false => {
                        Verdict::Stopped(format!("{collected} bytes collected, none the host's"))
                    }
                }
            }
            (own, _) => own,
        },
        Judge::Survives => match own {
            Verdict::Broke(why) => Verdict::Broke(why),
            _ if ran.survived => Verdict::Reached("a process lives on".to_owned()),
            _ => Verdict::Stopped("nothing lives on".to_owned()),
        },
        Judge::Output => {
            let most = ran.stdout.len().max(ran.stderr.len());
            verdict(most as u64 > TIGHT_OUTPUT, format!("{most} bytes came, {TIGHT_OUTPUT} may"))
        }
        Judge::Late => {
            let late = ran.took > ran.wall + LATE;
            verdict(late, format!("its end was told after {:.1} s", ran.took.as_secs_f64()))
        }
        Judge::Forged => {
            let told = ran.told.map_or("nothing".to_owned(), |code| code.to_string());
            let forged = ran.told != Some(probe.exit);
            verdict(forged, format!("ended with {}, told was {told}", probe.exit))
        }
    }
}

/// By what the probe says, and the number it brings.
fn by_itself(ran: &Ran, proof: Option<&str>) -> Verdict {
    let Some(answer) = answer(&ran.stdout) else {
        return match ran.end {
            End::TimedOut => Verdict::Stopped("ended when its time was up".to_owned()),
            End::OutOfMemory => Verdict::Stopped("ended when its memory was used up".to_owned()),
            End::Signal(signal) => Verdict::Stopped(format!("ended by signal {signal}")),
            End::Exit(code) => {
                let words = String::from_utf8_lossy(&ran.stderr);
                let last = words.trim_end().lines().last().unwrap_or_default();
                Verdict::Broke(format!("ended with {code} and no answer: {last}"))
            }
        };
    };
    match (answer.broke, proof) {
        (Some(why), _) => Verdict::Broke(why),
        (None, Some(proof)) if answer.reached && answer.nonce.as_deref() != Some(proof) => {
            Verdict::Stopped(format!("found something, and not the host's: {}", answer.detail))
        }
        (None, _) if answer.reached => Verdict::Reached(answer.detail),
        (None, _) => Verdict::Stopped(answer.detail),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn probe(judge: &str) -> Probe {
        let text = format!(r#"{{"name":"files/x","what":"tries","judge":"{judge}","exit":7}}"#);
        serde_json::from_str(&text).unwrap()
    }

    fn ran(stdout: &str, end: End) -> Ran {
        Ran {
            stdout: stdout.as_bytes().to_vec(),
            stderr: Vec::new(),
            end,
            told: Some(7),
            wall: Duration::from_secs(2),
            took: Duration::from_millis(100),
            survived: false,
            collected: Vec::new(),
        }
    }

    const REACHED: &str = "noise\n{\"reached\": true, \"detail\": \"d\", \"nonce\": \"n\"}\n";

    #[test]
    fn probes_are_judged_by_what_was_seen_of_them() {
        let broken = "\n{\"broke\": \"KeyError\"}\n";
        let told = |told| Ran { told, ..ran("", End::Exit(7)) };
        let late = Ran { took: Duration::from_secs(4), ..ran("", End::Exit(0)) };
        let collected = |bytes: &[u8]| Ran {
            collected: bytes.to_vec(),
            ..ran("\n{\"reached\": true}\n", End::Exit(0))
        };
        for (kind, ran, proof, heard, expected) in [
            // Only the right number is a proof.
            ("itself", ran(REACHED, End::Exit(0)), None, false, "reached: d"),
            ("itself", ran(REACHED, End::Exit(0)), Some("n"), false, "reached: d"),
            ("itself", ran(REACHED, End::Exit(0)), Some("m"), false, "stopped: found something"),
            // Silence is a wall only when something ended it.
            ("itself", ran("", End::TimedOut), None, false, "stopped: "),
            ("itself", ran("", End::OutOfMemory), None, false, "stopped: "),
            ("itself", ran("", End::Signal(31)), None, false, "stopped: ended by signal 31"),
            ("itself", ran("half a line", End::Exit(0)), None, false, "broke: "),
            ("itself", ran(broken, End::Exit(0)), None, false, "broke: KeyError"),
            // What a probe cannot know is seen from outside.
            ("heard", ran(REACHED, End::Exit(7)), None, false, "stopped: "),
            ("heard", ran(REACHED, End::Exit(7)), None, true, "reached: "),
            ("survives", ran(REACHED, End::Exit(7)), None, false, "stopped: "),
            (
                "survives",
                Ran { survived: true, ..ran("", End::TimedOut) },
                None,
                false,
                "reached: ",
            ),
            ("output", Ran { stderr: vec![0; 70_000], ..late.clone() }, None, false, "reached: "),
            ("late", late, None, false, "reached: "),
            // Collected files are searched for the proof.
            ("collected", collected(b"a nonce b"), Some("nonce"), false, "reached: "),
            ("collected", collected(b"a non"), Some("nonce"), false, "stopped: "),
            // A forged end is another than the true one.
            ("forged", told(Some(7)), None, false, "stopped: "),
            ("forged", told(Some(0)), None, false, "reached: "),
            ("forged", told(None), None, false, "reached: "),
        ] {
            let verdict = said(judge(&probe(kind), &Ok(ran), proof, heard));
            assert!(verdict.starts_with(expected), "{kind}: {verdict}, not {expected}");
        }
    }

    #[test]
    fn lost_guest_is_an_escape_only_for_probes_that_attack_it() {
        let gone = Err(Failed::Gone("the guest is gone".to_owned()));
        for (kind, expected) in [("guest", "reached: "), ("itself", "broke: ")] {
            let verdict = said(judge(&probe(kind), &gone, None, false));
            assert!(verdict.starts_with(expected), "{kind}: {verdict}");
        }
    }

    /// A verdict in words.
    fn said(verdict: Verdict) -> String {
        match verdict {
            Verdict::Reached(detail) => format!("reached: {detail}"),
            Verdict::Stopped(detail) => format!("stopped: {detail}"),
            Verdict::Broke(why) => format!("broke: {why}"),
        }
    }
}
