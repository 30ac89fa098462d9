//! Tests of consultations in which model calls fail.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use assize_consult::{ConsultCompany, ConsultContext, ConsultState, FlagKind, graph};
use assize_graph::{Journal, MemoryJournal, RunError, RunOptions};
use assize_llm::{ErrorKind, ModelError};
use assize_types::Fingerprint;

use crate::script::{Part, Script, consult_context};

async fn consult(
    context: ConsultContext,
    journal: Option<Arc<dyn Journal>>,
) -> Result<ConsultState, RunError> {
    let company = ConsultCompany {
        ticker: Some("CRST".parse().unwrap()),
        name: Some("Crust Inc.".to_owned()),
    };
    let options = RunOptions { journal, ..RunOptions::default() };
    graph(Arc::new(context)).unwrap().run(ConsultState::new(company), options).await
}

fn count(state: &ConsultState, kind: FlagKind) -> usize {
    state.flags.iter().filter(|flag| flag.kind == kind).count()
}

/// Whether a call belongs to the debate of one of the first `count` moves.
fn call_is_of_first(asked: &crate::script::Asked, count: usize) -> bool {
    is_of_first(&asked.key, count)
}

/// In the debates of 7 of 15 moves, some calls that request an entry of the critic or of a decision maker fail
/// permanently. These moves are scored, and their debates are marked as partial.
#[tokio::test]
async fn debates_with_failed_calls_are_partial_and_their_moves_are_ranked() {
    let model = Script::saying(|asked| {
        let unlucky = Fingerprint::of(&asked.key).seed().is_multiple_of(3);
        match &asked.part {
            // The opening critique must succeed, because a debate cannot continue without it.
            Part::Speech(..)
                if unlucky
                    && call_is_of_first(asked, 7)
                    && !asked.key.ends_with("round-1/critic") =>
            {
                Some(Err(ModelError::new(ErrorKind::RateLimited, "too many requests")))
            }
            _ => None,
        }
    });
    let journal = Arc::new(MemoryJournal::new());
    let state = consult(consult_context(&model, 10, 15), Some(journal.clone())).await.unwrap();
    assert_eq!(state.policy_scores.len(), 15);
    let partial: usize = state.policy_scores.iter().map(|verdict| verdict.partial.len()).sum();
    assert!(partial > 10, "{partial}");
    assert_eq!(count(&state, FlagKind::Partial), partial);
    assert_eq!(state.ranked.as_ref().unwrap().recommended_moves.len(), 3);
    let events = journal.events();
    let failed = events.iter().filter(|event| event.payload["status"] == "failed").count();
    assert_eq!(failed, partial);
    let marked = events.iter().filter(|event| event.payload["partial"] == true).count();
    assert_eq!(marked, 7, "the scores of each partial debate are marked");
}

/// If the call of a judge fails permanently, the scores of this judge are neutral and marked as neutral.
#[tokio::test]
async fn scores_of_a_judge_whose_call_fails_are_neutral_and_flagged() {
    let model = Script::saying(|asked| match asked.key.as_str() {
        "m2/i3/score" => Some(Err(ModelError::new(ErrorKind::Unreachable, "no answer"))),
        _ => None,
    });
    let journal = Arc::new(MemoryJournal::new());
    let state = consult(consult_context(&model, 1, 15), Some(journal.clone())).await.unwrap();
    assert_eq!(state.policy_scores[1].scores_by_agent["D3"].card.scores(), [5; 4]);
    let flags: Vec<&str> = (state.flags.iter())
        .filter(|flag| flag.kind == FlagKind::Assumed && flag.move_id.as_deref() == Some("m2"))
        .map(|flag| flag.message.as_str())
        .collect();
    assert_eq!(
        flags,
        ["the scores of D3: NEUTRAL (5 for each metric), because the judge's call failed: \
          no answer"]
    );
    let marked = journal.events().into_iter().find(|event| event.payload["neutral"].is_array());
    assert_eq!(marked.unwrap().payload["neutral"], serde_json::json!(["D3"]));
}

/// Failed calls affect 8 of 15 moves, which is more than half: the run fails without a report. A resumed run repeats
/// only the failed calls.
#[tokio::test]
async fn run_fails_if_failed_calls_affect_most_moves_and_resume_repeats_only_failed_calls() {
    for (count, part) in [(8, "/i1/round-2/D1"), (8, "/i2/score"), (8, "/round-1/critic")] {
        let journal = Arc::new(MemoryJournal::new());
        let failing = Script::saying(move |asked| {
            let failing = call_is_of_first(asked, count) && asked.key.ends_with(part);
            failing.then(|| Err(ModelError::new(ErrorKind::RateLimited, "HTTP 429")))
        });
        let error =
            consult(consult_context(&failing, 3, 15), Some(journal.clone())).await.unwrap_err();
        let RunError::Node { source, .. } = error else { panic!("{error}") };
        let most = source.downcast_ref::<assize_consult::TooManyMovesAffected>().unwrap();
        assert_eq!((most.affected, most.total, most.error.as_str()), (8, 15, "HTTP 429"), "{part}");
        let healthy = Script::usual();
        let state = consult(consult_context(&healthy, 3, 15), Some(journal)).await.unwrap();
        assert_eq!(count_kind(&state), (0, 0), "{part}");
        assert_eq!(state.policy_scores.len(), 15);
        let answered: BTreeSet<String> = keys(&failing)
            .into_iter()
            .filter(|key| !(is_of_first(key, count) && key.ends_with(part)))
            .collect();
        let again: Vec<String> = keys(&healthy).intersection(&answered).cloned().collect();
        assert_eq!(again, [] as [String; 0], "{part}");
    }
}

/// Failed calls affect 7 of 15 moves, which is just below half of the moves: the run has a report.
#[tokio::test]
async fn run_has_a_report_if_failed_calls_affect_under_half_of_its_moves() {
    let model = Script::saying(|asked| {
        let failing = call_is_of_first(asked, 7) && asked.key.ends_with("/i2/score");
        failing.then(|| Err(ModelError::new(ErrorKind::Server, "simulated error")))
    });
    let state = consult(consult_context(&model, 1, 15), None).await.unwrap();
    assert_eq!(state.ranked.unwrap().recommended_moves.len(), 3);
}

/// The calls of three of five analysts fail, so 9 of 15 moves are never proposed: the run fails.
#[tokio::test]
async fn unproposed_moves_count_as_affected_by_failed_calls() {
    let journal = Arc::new(MemoryJournal::new());
    let failing = Script::saying(|asked| match &asked.part {
        Part::Proposal(..3, _) => Some(Err(ModelError::new(ErrorKind::Unreachable, "refused"))),
        _ => None,
    });
    let error = consult(consult_context(&failing, 1, 15), Some(journal.clone())).await.unwrap_err();
    assert!(error.to_string().contains("failed calls affect 9 of 15 moves"), "{error}");
    let healthy = Script::usual();
    let state = consult(consult_context(&healthy, 1, 15), Some(journal)).await.unwrap();
    assert_eq!(state.policy_scores.len(), 15);
}

fn is_of_first(key: &str, count: usize) -> bool {
    (1..=count).any(|number| key.starts_with(&format!("m{number}/")))
}

fn count_kind(state: &ConsultState) -> (usize, usize) {
    (count(state, FlagKind::Partial), count(state, FlagKind::Assumed))
}

fn keys(model: &Script) -> BTreeSet<String> {
    model.asked.lock().unwrap().iter().map(|asked| asked.key.clone()).collect()
}

#[tokio::test]
async fn run_resumes_after_a_provider_outage_without_repeating_calls() {
    let journal = Arc::new(MemoryJournal::new());
    let made = AtomicUsize::new(0);
    let dying = Script::saying(move |_| match made.fetch_add(1, Ordering::SeqCst) {
        ..400 => None,
        _ => Some(Err(ModelError::new(ErrorKind::Unreachable, "no answer"))),
    });
    let error = consult(consult_context(&dying, 10, 15), Some(journal.clone())).await.unwrap_err();
    assert!(error.to_string().contains("no answer"), "{error}");
    let back = Script::usual();
    let state = consult(consult_context(&back, 10, 15), Some(journal)).await.unwrap();
    assert_eq!(state.spent.calls, 924);
    assert_eq!(back.calls(), 924 - 400, "no answered call is repeated");
    // The scores of partial conversations were requested under separate keys.
    let whole = |key: &String| !key.contains("/after-");
    let all: BTreeSet<String> =
        keys(&dying).union(&keys(&back)).filter(|key| whole(key)).cloned().collect();
    assert_eq!(all.len(), 924);
}

#[tokio::test]
async fn unparsable_scores_are_neutral_and_flagged() {
    let model = Script::saying(|asked| match &asked.part {
        Part::Score(..) => Some(Ok("It depends.".to_owned())),
        _ => None,
    });
    let state = consult(consult_context(&model, 1, 15), None).await.unwrap();
    assert!(state.policy_scores.iter().all(|verdict| verdict.total_score == 60));
    // There is one flag for each judge of each move, and one for the whole report.
    assert_eq!(count(&state, FlagKind::Assumed), 45 + 1);
    // All total scores are equal, so the moves keep their order.
    assert_eq!(count(&state, FlagKind::Tie), 1 + 3);
    assert_eq!(state.ranked.unwrap().recommended_moves, ["m1", "m2", "m3"]);
}

/// An out-of-range score is requested again, never clamped.
#[tokio::test]
async fn out_of_range_score_is_requested_again() {
    let wrong = r#"{"reasoning": "Great.", "impact": 11, "feasibility": 5, "risk_adjusted_return": 5, "strategic_alignment": 5}"#;
    let model = Script::saying(move |asked| match &asked.part {
        Part::Score(who, of) if who == "D1" && of == "m1" && asked.key.ends_with("/score") => {
            Some(Ok(wrong.to_owned()))
        }
        _ => None,
    });
    let state = consult(consult_context(&model, 1, 15), None).await.unwrap();
    let keys: Vec<String> =
        model.asked.lock().unwrap().iter().map(|asked| asked.key.clone()).collect();
    assert!(keys.contains(&"m1/i1/score-2".to_owned()), "{keys:?}");
    assert_eq!(state.policy_scores[0].scores_by_agent["D1"].card.impact, 2);
    assert_eq!(count(&state, FlagKind::Repaired), 0);
}

/// If all calls of a layer (a stage of the consultation) fail or return unusable answers, the run ends, and a resumed
/// run repeats these calls.
#[tokio::test]
async fn calls_of_a_failed_consultation_layer_are_repeated_on_resume() {
    let broken = || Some(Err(ModelError::new(ErrorKind::Server, "simulated error")));
    let garbage = || Some(Ok("I would rather not.".to_owned()));
    type Lines = fn(&crate::script::Asked) -> bool;
    let cases: [(Lines, bool, &str); 4] = [
        (|asked| asked.key.ends_with("/round-1/critic"), true, "affect 8 of 15 moves"),
        (|asked| matches!(asked.part, Part::Proposal(..)), true, "no analyst proposed a move"),
        (|asked| matches!(asked.part, Part::Proposal(..)), false, "no analyst proposed a move"),
        (|asked| matches!(asked.part, Part::Inference("F1")), false, "two answers could be parsed"),
    ];
    for (fails, breaks, message) in cases {
        let journal = Arc::new(MemoryJournal::new());
        let dying = Script::saying(move |asked| match fails(asked) {
            true if breaks => broken(),
            true => garbage(),
            false => None,
        });
        let error =
            consult(consult_context(&dying, 1, 15), Some(journal.clone())).await.unwrap_err();
        assert!(error.to_string().contains(message), "{message}: {error}");
        let healthy = Script::usual();
        let state = consult(consult_context(&healthy, 1, 15), Some(journal)).await.unwrap();
        assert_eq!(state.policy_scores.len(), 15, "{message}");
        assert!(healthy.calls() <= 9 + 15 * 7, "{message}: {}", healthy.calls());
    }
}

/// If the provider rejects the request of a call, only this call fails.
#[tokio::test]
async fn rejected_request_affects_only_its_call() {
    let model = Script::saying(|asked| match asked.key.as_str() {
        "m1/i1/score" | "m2/i2/score-blind" | "m3/i3/round-2/critic" => {
            Some(Err(ModelError::new(ErrorKind::BadRequest, "request rejected")))
        }
        _ => None,
    });
    let mut context = consult_context(&model, 2, 15);
    context.debate_options.blind_scores = true;
    let state = consult(context, None).await.unwrap();
    assert_eq!(state.policy_scores[0].scores_by_agent["D1"].card.scores(), [5; 4]);
    assert_eq!(count(&state, FlagKind::Assumed), 1);
    assert_eq!(state.policy_scores[1].blind_total(), None);
    assert!(state.policy_scores[0].blind_total().is_some());
    let partial: Vec<&str> = (state.flags.iter())
        .filter(|flag| flag.kind == FlagKind::Partial)
        .map(|flag| flag.message.as_str())
        .collect();
    assert_eq!(
        partial,
        [
            "D2 gave no scores before the debate",
            "conversation i3 ended after 1 of 2 rounds: request rejected"
        ]
    );
}
