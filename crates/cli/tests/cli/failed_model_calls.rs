//! Tests of model calls that fail after all retries, with the built binary. Each test covers one rule of
//! `docs/explanation/durability.md`, and checks the effect that users of the command line see.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use assize_testkit::{FakeKind, FakeProvider, FakeReply};
use serde_json::Value;

use crate::consult::{json_output, provider_reply, write_single_analyst_personas};
use crate::debate::{MOVE, debate_answer, id_of, is_scoring, only_run};
use crate::run::with_provider;
use crate::{CommandOutput, Home};

fn rate_limited() -> FakeReply {
    FakeReply::Status(429, vec![("retry-after", "3600".to_owned())], "{}".to_owned())
}

/// One analyst proposes five business moves. In the debate of move m1, all replies of decision maker D2 are
/// rate-limited. In the debate of move m2, the scoring call of decision maker D3 fails with a server error.
#[test]
fn lasting_rate_limit_makes_a_move_partial_without_failing_the_consultation() {
    let fake = FakeProvider::with_responder(FakeKind::Anthropic, |_, request| {
        let text = request.body.to_string();
        let last = text.rfind("You are ").map_or(text.as_str(), |at| &text[at..]);
        let scoring = text.contains("The hearing is over");
        if text.contains("The move, m1,") && last.starts_with("You are D2,") && !scoring {
            return rate_limited();
        }
        if text.contains("The move, m2,") && last.starts_with("You are D3,") && scoring {
            return FakeReply::status(500);
        }
        match text.contains("propose exactly") {
            true => five_moves(),
            false => provider_reply(request),
        }
    });
    let home = with_provider(FakeKind::Anthropic, &fake).set("ASSIZE_GATEWAY_RETRIES", "0");
    write_single_analyst_personas(&home);
    let args = ["consult", "CRST", "--personas", "people.toml", "--rounds", "2", "--yes"];
    let CommandOutput { code, out, err } =
        home.run(&[&args[..], &["--moves", "5", "--out", "report"]].concat());
    assert_eq!(code, 0, "{err}");
    let line = |id: &str| out.lines().find(|line| line.contains(id)).unwrap().to_owned();
    assert!(line(" m1 ").contains("partial"), "{out}");
    assert!(line(" m2 ").contains("assumed scores"), "{out}");
    let whole = fs::read_to_string(home.work_folder().join("report/report.json")).unwrap();
    let whole: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(whole["policy_scores"][0]["partial"]["i2"]["completed_rounds"], 0);
    let neutral = &whole["policy_scores"][1]["scores_by_agent"]["D3"];
    assert_eq!((&neutral["impact"], &neutral["provenance"]), (&5.into(), &"defaulted".into()));
    assert!(neutral["failed"].is_string(), "{neutral}");
    let flags = whole["flags"].to_string();
    assert!(flags.contains("i2 ended after 0 of 2 rounds"), "{flags}");
    assert!(flags.contains("the scores of D3: NEUTRAL (5 for each metric)"), "{flags}");
    for name in ["report.md", "report.html"] {
        let page = fs::read_to_string(home.work_folder().join("report").join(name)).unwrap();
        assert!(page.contains("partial") && page.contains("assumed scores"), "{name}");
    }
}

fn five_moves() -> FakeReply {
    let one = |number: u32| {
        serde_json::json!({
            "title": format!("Open shop {number}"), "thesis": "It grows.", "actions": ["Rent"],
            "cost": "some", "timeline": "a year", "risks": ["none"], "citations": ["F1.1"],
        })
    };
    FakeReply::text(serde_json::json!({"moves": (1..=5).map(one).collect::<Vec<_>>()}).to_string())
}

/// Every call that replies to the critic fails, so there is no verdict. Resuming the debate repeats only the failed
/// calls.
#[test]
fn debate_without_a_completed_round_fails_and_can_be_resumed() {
    let full = Arc::new(AtomicBool::new(true));
    let is_full = full.clone();
    let fake =
        FakeProvider::with_responder(FakeKind::Anthropic, move |number, request| {
            match number > 0 && !is_scoring(request) && is_full.load(Ordering::SeqCst) {
                true => rate_limited(),
                false => debate_answer(number, request),
            }
        });
    let home: Home = with_provider(FakeKind::Anthropic, &fake);
    home.write("MOVE.md", MOVE);
    let CommandOutput { code, out, err } = home.run(&["debate", "MOVE.md", "--rounds", "2"]);
    assert_eq!((code, out.as_str()), (4, ""), "{err}");
    assert!(err.contains("no conversation completed a round, so there is no verdict"), "{err}");
    let run = only_run(&home);
    assert_eq!(run["status"], "failed");
    let events = json_output(&home, &["runs", "show", &id_of(&run), "--events", "--json"]);
    assert!(!events["events"].to_string().contains("sandbox_scored"), "{events}");
    full.store(false, Ordering::SeqCst);
    let before = fake.captured_requests().len();
    let CommandOutput { code, out, err } = home.run(&["debate", "--resume", &id_of(&run)]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("90 of 120") && !out.contains("PARTIAL"), "{out}");
    // Only the opening was answered before the failure. The resumed debate makes all other calls.
    assert_eq!(fake.captured_requests().len() - before, 13 - 1);
}
