//! Whether a probe got through, from what was seen of it.

use serde::Deserialize;

use crate::catalog::{Judge, Probe};
use crate::inside::TIGHT_OUTPUT;
use crate::place::{End, Failed, Ran, Told};

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

/// What the judges know that the probe does not.
pub(crate) struct Evidence<'a> {
    /// The number that the probe has to bring, where it has to.
    pub(crate) proof: Option<&'a str>,
    /// Its mark arrived on the host.
    pub(crate) heard: bool,
}

pub(crate) fn judge(probe: &Probe, ran: &Result<Ran, Failed>, evidence: &Evidence<'_>) -> Verdict {
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
    let proof = evidence.proof.filter(|_| probe.judge != Judge::Collected);
    let own = by_itself(ran, proof);
    match probe.judge {
        Judge::Itself | Judge::Guest => own,
        Judge::Heard => match own {
            Verdict::Broke(why) => Verdict::Broke(why),
            _ if evidence.heard => Verdict::Reached("it arrived on the host".to_owned()),
            Verdict::Reached(_) => Verdict::Stopped("nothing arrived on the host".to_owned()),
            Verdict::Stopped(detail) => Verdict::Stopped(detail),
        },
        Judge::Collected => match (own, evidence.proof) {
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
        Judge::Forged => match ran.told {
            Told::Exit(code) => {
                verdict(code != probe.exit, format!("ended with {}, told was {code}", probe.exit))
            }
            Told::Nothing => {
                Verdict::Reached(format!("ended with {}, told was nothing", probe.exit))
            }
        },
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
            told: Told::Exit(7),
            wall: Duration::from_secs(2),
            took: Duration::from_millis(100),
            survived: false,
            collected: Vec::new(),
        }
    }

    fn decide(kind: &str, ran: Ran, proof: Option<&str>, heard: bool) -> Verdict {
        judge(&probe(kind), &Ok(ran), &Evidence { proof, heard })
    }

    const REACHED: &str = "noise\n{\"reached\": true, \"detail\": \"d\", \"nonce\": \"n\"}\n";

    #[test]
    fn only_the_right_number_is_a_proof() {
        let reached = Verdict::Reached("d".to_owned());
        assert_eq!(decide("itself", ran(REACHED, End::Exit(0)), None, false), reached);
        assert_eq!(decide("itself", ran(REACHED, End::Exit(0)), Some("n"), false), reached);
        let other = decide("itself", ran(REACHED, End::Exit(0)), Some("m"), false);
        assert!(matches!(other, Verdict::Stopped(_)), "{other:?}");
    }

    #[test]
    fn silence_is_a_wall_only_when_something_ended_it() {
        for end in [End::TimedOut, End::OutOfMemory, End::Signal(31)] {
            let silent = decide("itself", ran("", end), None, false);
            assert!(matches!(silent, Verdict::Stopped(_)), "{silent:?}");
        }
        let silent = decide("itself", ran("half a line", End::Exit(0)), None, false);
        assert!(matches!(silent, Verdict::Broke(_)), "{silent:?}");
        let wrong =
            decide("itself", ran("\n{\"broke\": \"KeyError\"}\n", End::Exit(0)), None, false);
        assert_eq!(wrong, Verdict::Broke("KeyError".to_owned()));
    }

    #[test]
    fn what_a_probe_cannot_know_is_seen_from_outside() {
        let here = |kind, heard| decide(kind, ran(REACHED, End::Exit(7)), None, heard);
        assert!(matches!(here("heard", false), Verdict::Stopped(_)));
        assert!(matches!(here("heard", true), Verdict::Reached(_)));
        assert!(matches!(here("survives", false), Verdict::Stopped(_)));
        let left = Ran { survived: true, ..ran("", End::TimedOut) };
        assert!(matches!(decide("survives", left, None, false), Verdict::Reached(_)));
        let loud = Ran { stderr: vec![0; 70_000], ..ran("", End::Exit(0)) };
        assert!(matches!(decide("output", loud, None, false), Verdict::Reached(_)));
        let late = Ran { took: Duration::from_secs(4), ..ran("", End::Exit(0)) };
        assert!(matches!(decide("late", late, None, false), Verdict::Reached(_)));
    }

    #[test]
    fn collected_files_are_searched_for_the_proof() {
        let said = "\n{\"reached\": true}\n";
        let collected = |bytes: &[u8]| Ran { collected: bytes.to_vec(), ..ran(said, End::Exit(0)) };
        let escaped = decide("collected", collected(b"a nonce b"), Some("nonce"), false);
        assert!(matches!(escaped, Verdict::Reached(_)), "{escaped:?}");
        let stopped = decide("collected", collected(b"a non"), Some("nonce"), false);
        assert!(matches!(stopped, Verdict::Stopped(_)), "{stopped:?}");
    }

    #[test]
    fn a_forged_end_is_another_than_the_true_one() {
        let told = |told| decide("forged", Ran { told, ..ran("", End::Exit(7)) }, None, false);
        assert!(matches!(told(Told::Exit(7)), Verdict::Stopped(_)));
        assert!(matches!(told(Told::Exit(0)), Verdict::Reached(_)));
        assert!(matches!(told(Told::Nothing), Verdict::Reached(_)));
        let gone = Err(Failed::Gone("the guest is gone".to_owned()));
        let evidence = Evidence { proof: None, heard: false };
        assert!(matches!(judge(&probe("guest"), &gone, &evidence), Verdict::Reached(_)));
        assert!(matches!(judge(&probe("itself"), &gone, &evidence), Verdict::Broke(_)));
    }
}
