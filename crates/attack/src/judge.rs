//! Decides from the observed result of a run whether a probe succeeded.

use serde::Deserialize;

use crate::catalog::{Probe, SuccessCriterion};
use crate::sandbox_target::TIGHT_OUTPUT;
use crate::target::{ProbeEnd, ProbeResult, ProbeRunError};

/// Maximum delay from the timeout of a run to the end of the run. If the delay is longer, the probe has evaded the
/// timeout. The delay is long enough for a machine whose processors are busy with other work.
pub(crate) const LATE: std::time::Duration = std::time::Duration::from_millis(3500);

/// Verdict on one run of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProbeVerdict {
    Succeeded(String),
    Stopped(String),
    Failed(String),
}

/// Answer of a probe: the line of JSON that the probe prints before it exits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Answer {
    reached: bool,
    detail: String,
    nonce: Option<String>,
    broke: Option<String>,
}

/// Byte offset of the line break before the probe's answer, which is the last output line that begins with `{"`.
fn answer_at(stdout: &[u8]) -> Option<usize> {
    let start = b"\n{\"";
    stdout.windows(start.len()).rposition(|piece| piece == start)
}

fn answer(stdout: &[u8]) -> Option<Answer> {
    let line = &stdout[answer_at(stdout)? + 1..];
    serde_json::from_slice(line.split(|byte| *byte == b'\n').next()?).ok()
}

/// Returns what a probe printed before its answer.
pub(crate) fn before_answer(stdout: &[u8]) -> &[u8] {
    match answer_at(stdout) {
        Some(at) if answer(stdout).is_some() => &stdout[..at],
        _ => stdout,
    }
}

/// Decides whether a probe succeeded in a run. `proof` is the secret that the probe must report, if any. `arrived` is
/// whether the mark of the probe, a random text, arrived on the host.
pub(crate) fn judge(
    probe: &Probe,
    ran: &Result<ProbeResult, ProbeRunError>,
    proof: Option<&str>,
    arrived: bool,
) -> ProbeVerdict {
    let ran = match ran {
        Ok(ran) => ran,
        Err(ProbeRunError::SandboxFailed(why))
            if matches!(probe.judge, SuccessCriterion::Guest | SuccessCriterion::Forged) =>
        {
            return ProbeVerdict::Succeeded(format!("the guest agent no longer runs: {why}"));
        }
        Err(ProbeRunError::Start(why) | ProbeRunError::SandboxFailed(why)) => {
            return ProbeVerdict::Failed(why.clone());
        }
    };
    let verdict = |reached: bool, detail: String| {
        if reached { ProbeVerdict::Succeeded(detail) } else { ProbeVerdict::Stopped(detail) }
    };
    let own = by_answer(ran, proof.filter(|_| probe.judge != SuccessCriterion::Collected));
    match probe.judge {
        SuccessCriterion::Itself | SuccessCriterion::Guest => own,
        SuccessCriterion::Heard => match own {
            ProbeVerdict::Failed(why) => ProbeVerdict::Failed(why),
            _ if arrived => ProbeVerdict::Succeeded(
                "the random text that the probe sent arrived on the host".to_owned(),
            ),
            ProbeVerdict::Succeeded(_) => ProbeVerdict::Stopped(
                "the random text that the probe sent did not arrive on the host".to_owned(),
            ),
            ProbeVerdict::Stopped(detail) => ProbeVerdict::Stopped(detail),
        },
        SuccessCriterion::Collected => match (own, proof) {
            (ProbeVerdict::Succeeded(_), Some(proof)) => {
                let mut pieces = ran.collected.windows(proof.len().max(1));
                let collected = ran.collected.len();
                match pieces.any(|piece| piece == proof.as_bytes()) {
                    true => ProbeVerdict::Succeeded(
                        "the collected files contain data of a host file".to_owned(),
                    ),
                    false => ProbeVerdict::Stopped(format!(
                        "the collected files ({collected} B) contain no data of host files"
                    )),
                }
            }
            (own, _) => own,
        },
        SuccessCriterion::Survives => match own {
            ProbeVerdict::Failed(why) => ProbeVerdict::Failed(why),
            _ if ran.survived => {
                ProbeVerdict::Succeeded("a process of the probe outlived the run".to_owned())
            }
            _ => ProbeVerdict::Stopped("no process of the probe outlived the run".to_owned()),
        },
        SuccessCriterion::Output => {
            let size = ran.stdout.len().max(ran.stderr.len());
            let detail = format!("the output has {size} B (limit: {TIGHT_OUTPUT} B)");
            verdict(size as u64 > TIGHT_OUTPUT, detail)
        }
        SuccessCriterion::Late => {
            let late = ran.took > ran.timeout + LATE;
            verdict(late, format!("the run ended after {:.1} s", ran.took.as_secs_f64()))
        }
        SuccessCriterion::Forged => {
            let reported =
                ran.reported_exit_code.map_or("none".to_owned(), |code| code.to_string());
            let forged = ran.reported_exit_code != Some(probe.exit);
            let detail = format!("real exit code: {}, reported exit code: {reported}", probe.exit);
            verdict(forged, detail)
        }
    }
}

/// Decides from the probe's own answer whether the probe succeeded. If a proof is required, the answer must contain it.
fn by_answer(ran: &ProbeResult, proof: Option<&str>) -> ProbeVerdict {
    let Some(answer) = answer(&ran.stdout) else {
        return match ran.end {
            ProbeEnd::TimedOut => ProbeVerdict::Stopped("the probe timed out".to_owned()),
            ProbeEnd::OutOfMemory => {
                ProbeVerdict::Stopped("the probe exceeded its memory limit".to_owned())
            }
            ProbeEnd::Signal(signal) => {
                ProbeVerdict::Stopped(format!("the probe was killed by signal {signal}"))
            }
            ProbeEnd::Exit(code) => {
                let stderr = String::from_utf8_lossy(&ran.stderr);
                let last = stderr.trim_end().lines().last().unwrap_or_default();
                ProbeVerdict::Failed(format!(
                    "the probe exited with code {code} without an answer: {last}"
                ))
            }
        };
    };
    match (answer.broke, proof) {
        (Some(why), _) => ProbeVerdict::Failed(why),
        (None, Some(proof)) if answer.reached && answer.nonce.as_deref() != Some(proof) => {
            let detail = format!(
                "the probe reported success without the expected secret: {}",
                answer.detail
            );
            ProbeVerdict::Stopped(detail)
        }
        (None, _) if answer.reached => ProbeVerdict::Succeeded(answer.detail),
        (None, _) => ProbeVerdict::Stopped(answer.detail),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn probe(judge: &str) -> Probe {
        let text =
            format!(r#"{{"name":"files/x","description":"tries","judge":"{judge}","exit":7}}"#);
        serde_json::from_str(&text).unwrap()
    }

    fn ran(stdout: &str, end: ProbeEnd) -> ProbeResult {
        ProbeResult {
            stdout: stdout.as_bytes().to_vec(),
            stderr: Vec::new(),
            end,
            reported_exit_code: Some(7),
            timeout: Duration::from_secs(2),
            took: Duration::from_millis(100),
            survived: false,
            collected: Vec::new(),
        }
    }

    const REACHED: &str = "noise\n{\"reached\": true, \"detail\": \"d\", \"nonce\": \"n\"}\n";

    #[test]
    fn probe_verdict_depends_on_the_success_criterion_and_the_observed_run() {
        let broken = "\n{\"broke\": \"KeyError\"}\n";
        let reported =
            |code| ProbeResult { reported_exit_code: code, ..ran("", ProbeEnd::Exit(7)) };
        let late = ProbeResult { took: Duration::from_secs(6), ..ran("", ProbeEnd::Exit(0)) };
        let collected = |bytes: &[u8]| ProbeResult {
            collected: bytes.to_vec(),
            ..ran("\n{\"reached\": true}\n", ProbeEnd::Exit(0))
        };
        for (kind, ran, proof, arrived, expected) in [
            // Only the expected nonce is accepted as a proof.
            ("itself", ran(REACHED, ProbeEnd::Exit(0)), None, false, "reached: d"),
            ("itself", ran(REACHED, ProbeEnd::Exit(0)), Some("n"), false, "reached: d"),
            (
                "itself",
                ran(REACHED, ProbeEnd::Exit(0)),
                Some("m"),
                false,
                "stopped: the probe reported success without the expected secret",
            ),
            // A run without an answer counts as stopped only if the program was killed.
            ("itself", ran("", ProbeEnd::TimedOut), None, false, "stopped: "),
            ("itself", ran("", ProbeEnd::OutOfMemory), None, false, "stopped: "),
            (
                "itself",
                ran("", ProbeEnd::Signal(31)),
                None,
                false,
                "stopped: the probe was killed by signal 31",
            ),
            ("itself", ran("half a line", ProbeEnd::Exit(0)), None, false, "broke: "),
            ("itself", ran(broken, ProbeEnd::Exit(0)), None, false, "broke: KeyError"),
            // These criteria use observations from outside of the program.
            ("heard", ran(REACHED, ProbeEnd::Exit(7)), None, false, "stopped: "),
            ("heard", ran(REACHED, ProbeEnd::Exit(7)), None, true, "reached: "),
            ("survives", ran(REACHED, ProbeEnd::Exit(7)), None, false, "stopped: "),
            (
                "survives",
                ProbeResult { survived: true, ..ran("", ProbeEnd::TimedOut) },
                None,
                false,
                "reached: ",
            ),
            (
                "output",
                ProbeResult { stderr: vec![0; 70_000], ..late.clone() },
                None,
                false,
                "reached: ",
            ),
            ("late", late, None, false, "reached: "),
            // The collected files must contain the proof.
            ("collected", collected(b"a nonce b"), Some("nonce"), false, "reached: "),
            ("collected", collected(b"a non"), Some("nonce"), false, "stopped: "),
            // A forged exit code differs from the real exit code 7.
            ("forged", reported(Some(7)), None, false, "stopped: "),
            ("forged", reported(Some(0)), None, false, "reached: "),
            ("forged", reported(None), None, false, "reached: "),
        ] {
            let verdict = to_text(judge(&probe(kind), &Ok(ran), proof, arrived));
            assert!(
                verdict.starts_with(expected),
                "verdict for `{kind}`: {verdict}; expected: {expected}"
            );
        }
    }

    #[test]
    fn lost_guest_agent_is_an_escape_only_for_probes_that_attack_the_agent() {
        let gone = Err(ProbeRunError::SandboxFailed("connection lost".to_owned()));
        for (kind, expected) in [("guest", "reached: "), ("itself", "broke: ")] {
            let verdict = to_text(judge(&probe(kind), &gone, None, false));
            assert!(verdict.starts_with(expected), "{kind}: {verdict}");
        }
    }

    /// Formats a verdict as text.
    fn to_text(verdict: ProbeVerdict) -> String {
        match verdict {
            ProbeVerdict::Succeeded(detail) => format!("reached: {detail}"),
            ProbeVerdict::Stopped(detail) => format!("stopped: {detail}"),
            ProbeVerdict::Failed(why) => format!("broke: {why}"),
        }
    }
}
