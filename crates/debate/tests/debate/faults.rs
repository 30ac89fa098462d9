//! Tests of debates with failing calls, scores that cannot be parsed, and exceeded context windows.

use std::sync::Arc;

use assize_debate::{DebateOptions, LogName, NoVerdict};
use assize_graph::{MemoryJournal, RunError, RunOptions};
use assize_llm::{ErrorKind, ModelError, ModelResponse, Provenance, StopReason};

use crate::{Asked, Part, Scripted, bakery, debate, plain, plain_debate, response, said};

fn fails(kind: ErrorKind) -> Result<ModelResponse, ModelError> {
    Err(ModelError::new(kind, "simulated error"))
}

/// Script that answers like `plain`, except for one call.
fn except(
    what: Part,
    round: u32,
    instead: fn() -> Result<ModelResponse, ModelError>,
) -> impl Fn(&Asked) -> Result<ModelResponse, ModelError> {
    move |asked| {
        if asked.what == what && asked.round == round { instead() } else { plain(asked) }
    }
}

#[tokio::test]
async fn conversation_with_a_failed_answer_is_scored_as_partial() {
    let model = Scripted::new(except(Part::Answer("D2"), 5, || fails(ErrorKind::Overloaded)));
    let verdict = plain_debate(&model, 10).await;
    let partial = &verdict.partial[&LogName::I2];
    assert_eq!((partial.completed_rounds, partial.error.as_str()), (4, "simulated error"));
    assert_eq!(verdict.partial.len(), 1);
    // The critique of round 5 stays in the conversation, and the judge's prompt contains it.
    assert_eq!(verdict.conversation_logs[&LogName::I2].len(), 9);
    assert_eq!(verdict.conversation_logs[&LogName::I1].len(), 20);
    assert_eq!(verdict.total_score, 90);
    let asked = model.asked();
    let scoring = asked.iter().find(|asked| asked.what == Part::Score("D2")).unwrap();
    assert_eq!(said(&scoring.request).len(), 9);
}

#[tokio::test]
async fn failed_critique_ends_only_its_conversation() {
    let model = Scripted::new(|asked| match (&asked.what, asked.with, asked.round) {
        (Part::Critic, Some("D3"), 2) => fails(ErrorKind::Timeout),
        _ => plain(asked),
    });
    let verdict = plain_debate(&model, 10).await;
    assert_eq!(verdict.partial[&LogName::I3].completed_rounds, 1);
    assert_eq!(verdict.conversation_logs[&LogName::I3].len(), 2);
    assert_eq!(model.calls(), 61 - 17, "17 calls are skipped after the failed one");
}

#[tokio::test]
async fn refusal_of_the_model_ends_only_the_current_conversation() {
    let model = Scripted::new(except(Part::Answer("D1"), 3, || {
        Ok(ModelResponse { stop: StopReason::Refused, ..response("I cannot help with that.") })
    }));
    let verdict = plain_debate(&model, 10).await;
    assert_eq!(verdict.partial[&LogName::I1].error, "the model declined to answer");
    assert_eq!(verdict.partial[&LogName::I1].completed_rounds, 2);
}

#[tokio::test]
async fn truncated_answer_is_kept_and_marked() {
    let model = Scripted::new(except(Part::Answer("D1"), 3, || {
        Ok(ModelResponse { stop: StopReason::MaxTokens, ..response("As I was about to") })
    }));
    let verdict = plain_debate(&model, 3).await;
    let cut: Vec<bool> =
        verdict.conversation_logs[&LogName::I1].iter().map(|entry| entry.cut_off).collect();
    assert_eq!(cut, [false, false, false, false, false, true]);
    assert!(verdict.partial.is_empty());
}

/// Model that fails with an error of this kind when it is called for D2's answer in round 3.
fn d2_fails_with(kind: ErrorKind) -> Arc<Scripted> {
    Scripted::new(move |asked| match &asked.what {
        Part::Answer("D2") if asked.round == 3 => fails(kind),
        _ => plain(asked),
    })
}

#[tokio::test]
async fn call_that_fails_permanently_makes_only_its_conversation_partial() {
    for kind in [
        ErrorKind::Unreachable,
        ErrorKind::Connection,
        ErrorKind::Timeout,
        ErrorKind::RateLimited,
        ErrorKind::Overloaded,
        ErrorKind::Server,
        ErrorKind::Malformed,
        ErrorKind::Empty,
        ErrorKind::BadRequest,
        ErrorKind::NotFound,
        ErrorKind::TooLarge,
        ErrorKind::ContextOverflow,
        ErrorKind::Declined,
        ErrorKind::Deadline,
    ] {
        let verdict = plain_debate(&d2_fails_with(kind), 10).await;
        assert_eq!(verdict.partial.len(), 1, "{kind:?}");
        assert_eq!(verdict.partial[&LogName::I2].completed_rounds, 2, "{kind:?}");
        assert_eq!(verdict.total_score, 90, "{kind:?}");
        assert_eq!(verdict.first_error(), Some("simulated error"));
        assert_eq!(verdict.no_verdict_reason(), None);
    }
}

#[tokio::test]
async fn wrong_api_key_or_exhausted_budget_or_cancellation_ends_the_run() {
    for kind in [
        ErrorKind::Unauthorized,
        ErrorKind::Forbidden,
        ErrorKind::Budget,
        ErrorKind::SpendLimit,
        ErrorKind::Cancelled,
        ErrorKind::NotRecorded,
        ErrorKind::Internal,
    ] {
        let model = d2_fails_with(kind);
        let run = debate(&model, DebateOptions::default(), bakery(10), RunOptions::default()).await;
        let RunError::Node { node, scope, source } = run.unwrap_err() else { panic!("{kind:?}") };
        assert_eq!((node, scope.as_str()), ("dm_respond", "i2"));
        assert_eq!(source.downcast_ref::<ModelError>().unwrap().kind(), kind);
    }
}

#[tokio::test]
async fn failed_opening_critique_ends_the_run() {
    let model = Scripted::new(except(Part::Critic, 1, || fails(ErrorKind::Overloaded)));
    let run = debate(&model, DebateOptions::default(), bakery(10), RunOptions::default()).await;
    assert_eq!(run.unwrap_err().to_string(), "`critic_round_1` failed: simulated error");
    assert_eq!(model.calls(), 1);
}

#[tokio::test]
async fn opening_critique_that_the_model_refused_to_write_is_requested_again_on_resume() {
    let journal = Arc::new(MemoryJournal::new());
    let run = || RunOptions::with_journal(journal.clone());
    let declines = Scripted::new(except(Part::Critic, 1, || {
        Ok(ModelResponse { stop: StopReason::Refused, ..response("I would rather not.") })
    }));
    let error = debate(&declines, DebateOptions::default(), bakery(1), run()).await.unwrap_err();
    assert_eq!(error.to_string(), "`critic_round_1` failed: the model declined to answer");
    let willing = Scripted::new(plain);
    let verdict = debate(&willing, DebateOptions::default(), bakery(1), run()).await.unwrap();
    assert_eq!((verdict.total_score, willing.calls()), (90, 7));
}

#[tokio::test]
async fn scores_of_a_judge_whose_call_fails_are_neutral_and_marked() {
    for kind in [ErrorKind::Server, ErrorKind::RateLimited, ErrorKind::Deadline] {
        let model = Scripted::new(move |asked| match &asked.what {
            Part::Score("D3") => fails(kind),
            _ => plain(asked),
        });
        let verdict = plain_debate(&model, 1).await;
        let score = &verdict.scores_by_agent["D3"];
        assert_eq!((score.card.scores(), &score.provenance), ([5; 4], &Provenance::Defaulted));
        assert_eq!(score.failed.as_deref(), Some("simulated error"));
        assert_eq!(
            score.caveat().unwrap(),
            "NEUTRAL (5 for each metric), because the judge's call failed: simulated error"
        );
        assert_eq!(verdict.total_score, 20 + 60);
        assert_eq!(verdict.failed_judges().collect::<Vec<_>>(), ["D3"]);
        assert_eq!(verdict.no_verdict_reason(), None, "only one judge of three failed");
    }
}

/// If the first answer of a judge cannot be parsed and the repeated call fails, each of the judge's scores is a
/// neutral 5.
#[tokio::test]
async fn scores_of_a_judge_whose_second_call_fails_are_neutral_and_marked() {
    for kind in [ErrorKind::Server, ErrorKind::Deadline] {
        let model =
            Scripted::new(move |asked| match (&asked.what, asked.request.prompt.tail.as_str()) {
                (Part::Score("D3"), tail) if tail.starts_with("That answer cannot be used") => {
                    fails(kind)
                }
                (Part::Score("D3"), _) => Ok(response("I would rather not say.")),
                _ => plain(asked),
            });
        let verdict = plain_debate(&model, 1).await;
        let score = &verdict.scores_by_agent["D3"];
        assert_eq!(score.card.scores(), [5; 4], "{kind:?}");
        assert_eq!(score.failed.as_deref(), Some("simulated error"), "{kind:?}");
    }
}

#[tokio::test]
async fn debate_has_no_verdict_without_completed_rounds_or_if_most_judges_fail() {
    let silent = Scripted::new(|asked| match &asked.what {
        Part::Answer(_) => fails(ErrorKind::Unreachable),
        _ => plain(asked),
    });
    let verdict = plain_debate(&silent, 3).await;
    assert!(matches!(verdict.no_verdict_reason(), Some(NoVerdict::NoRound { .. })), "{verdict:?}");
    let without_judges = Scripted::new(|asked| match &asked.what {
        Part::Score("D1" | "D2") => fails(ErrorKind::Unreachable),
        _ => plain(asked),
    });
    let none = plain_debate(&without_judges, 3).await.no_verdict_reason().unwrap();
    assert_eq!(
        none.to_string(),
        "the calls of 2 of 3 judges failed, so there is no verdict; first error: simulated error"
    );
}

#[tokio::test]
async fn scores_in_prose_are_extracted_and_marked() {
    let model = Scripted::new(except(Part::Score("D1"), 1, || {
        Ok(response(
            "Impact: 9/10. Feasibility: 3/10. Risk-adjusted return: 4/10. Strategic alignment: 7/10.",
        ))
    }));
    let verdict = plain_debate(&model, 1).await;
    let score = &verdict.scores_by_agent["D1"];
    assert_eq!((score.card.scores(), &score.provenance), ([9, 3, 4, 7], &Provenance::Extracted));
    assert_eq!(verdict.judges_with_repaired_scores().collect::<Vec<_>>(), ["D1"]);
    assert_eq!(verdict.total_score, 23 + 60);
    assert_eq!(verdict.spent.calls, 8, "the scores of D1 take two calls");
}

#[tokio::test]
async fn unparsable_scores_are_neutral_and_marked() {
    let model =
        Scripted::new(except(Part::Score("D2"), 1, || Ok(response("I would rather not say."))));
    let verdict = plain_debate(&model, 1).await;
    let score = &verdict.scores_by_agent["D2"];
    assert_eq!((score.card.scores(), &score.provenance), ([5; 4], &Provenance::Defaulted));
    assert_eq!(verdict.total_score, 20 + 60);
}

/// Metrics that can be parsed are kept. A metric that cannot be parsed counts as a neutral 5.
#[tokio::test]
async fn unparsable_metric_gets_a_neutral_score_and_is_listed_as_assumed() {
    const CARD: &str = r#"{"reasoning": "So.", "impact": 11, "feasibility": 8, "risk_adjusted_return": 7,
        "strategic_alignment": 2}"#;
    let model = Scripted::new(except(Part::Score("D2"), 1, || Ok(response(CARD))));
    let verdict = plain_debate(&model, 1).await;
    let score = &verdict.scores_by_agent["D2"];
    assert_eq!(score.card.scores(), [5, 8, 7, 2]);
    assert_eq!(score.assumed, ["impact"]);
    let doubt = score.caveat().unwrap();
    assert_eq!(
        doubt,
        "NOT in the requested format; values extracted by pattern; 5 is assumed for impact"
    );
    assert_eq!(verdict.judges_with_repaired_scores().collect::<Vec<_>>(), ["D2"]);
    assert_eq!(verdict.spent.calls, 8, "the scores of D2 take two calls");
}

/// Script with long entries, so that ten rounds exceed the context window.
fn long(asked: &Asked) -> Result<ModelResponse, ModelError> {
    let mut answer = plain(asked)?;
    if matches!(asked.what, Part::Critic | Part::Answer(_)) {
        answer.text = format!("{}. {}", answer.text, "word ".repeat(300));
    }
    Ok(answer)
}

/// Round numbers of the entries in a request, in order; 0 stands for a summary.
fn rounds(asked: &Asked) -> Vec<u32> {
    let mut rounds: Vec<u32> =
        said(&asked.request).into_iter().map(|(round, _)| round.unwrap_or(0)).collect();
    rounds.dedup();
    rounds
}

#[tokio::test]
async fn rounds_beyond_the_context_window_are_summarized_once() {
    let model = Scripted::new(long);
    let options =
        DebateOptions { context_window: Some(12_000), max_tokens: 500, ..DebateOptions::default() };
    let verdict = debate(&model, options, bakery(10), RunOptions::default()).await.unwrap();
    let asked = model.asked();
    let own: Vec<&Asked> = asked
        .iter()
        .filter(|asked| asked.with == Some("D1") || asked.what == Part::Answer("D1"))
        .collect();
    let shown: Vec<Vec<u32>> = own.iter().map(|asked| rounds(asked)).collect();
    let summarized = shown.iter().position(|rounds| rounds.contains(&0)).unwrap();
    // The request contains round 1, the summary and the last three rounds. Later requests only add entries.
    let last = own[summarized].round - u32::from(own[summarized].what == Part::Critic);
    assert_eq!(shown[summarized], [1, 0, last - 2, last - 1, last]);
    for pair in shown[summarized..].windows(2) {
        assert!(pair[1].starts_with(&pair[0]), "{pair:?}");
    }
    let summary = &verdict.summaries[&LogName::I1];
    assert_eq!((summary.up_to_round, summary.extracted), (last - 3, false));
    // There is one summary per conversation, and the recorded conversations are still complete.
    assert_eq!(asked.iter().filter(|asked| asked.what == Part::Summary).count(), 3);
    assert_eq!(verdict.conversation_logs[&LogName::I1].len(), 20);
}

#[tokio::test]
async fn context_overflow_is_retried_with_a_summary() {
    // The provider accepts at most six rounds of conversation.
    let model = Scripted::new(|asked| match said(&asked.request).len() {
        13.. => fails(ErrorKind::ContextOverflow),
        _ => plain(asked),
    });
    let verdict = plain_debate(&model, 10).await;
    assert!(verdict.partial.is_empty(), "{:?}", verdict.partial);
    assert_eq!(verdict.total_score, 90);
    assert!(verdict.summaries.values().all(|summary| !summary.extracted));
    assert_eq!(verdict.conversation_logs[&LogName::I2].len(), 20);
}

#[tokio::test]
async fn failed_summary_is_replaced_by_the_first_lines_of_entries() {
    let model = Scripted::new(|asked| match &asked.what {
        Part::Summary => fails(ErrorKind::Overloaded),
        _ => long(asked),
    });
    let options =
        DebateOptions { context_window: Some(12_000), max_tokens: 500, ..DebateOptions::default() };
    let verdict = debate(&model, options, bakery(10), RunOptions::default()).await.unwrap();
    let summary = &verdict.summaries[&LogName::I3];
    assert!(summary.extracted);
    assert!(summary.text.starts_with("Round 2, critic: critic to D3 in round 2. word"));
    assert!(verdict.partial.is_empty());
}

#[tokio::test]
async fn context_overflow_without_rounds_to_summarize_ends_the_conversation() {
    let model = Scripted::new(|asked| match (&asked.what, said(&asked.request).len()) {
        (Part::Critic, 4..) => fails(ErrorKind::ContextOverflow),
        _ => plain(asked),
    });
    let verdict = plain_debate(&model, 10).await;
    assert_eq!(verdict.partial[&LogName::I1].completed_rounds, 2);
    assert_eq!(verdict.conversation_logs[&LogName::I1].len(), 4);
    assert_eq!(verdict.total_score, 90);
}

#[tokio::test]
async fn context_overflow_of_a_judge_is_retried_with_a_summary() {
    let model = Scripted::new(|asked| match (&asked.what, said(&asked.request).len()) {
        (Part::Score(_), 12..) => fails(ErrorKind::ContextOverflow),
        _ => plain(asked),
    });
    let verdict = plain_debate(&model, 10).await;
    assert_eq!(verdict.total_score, 90);
    assert_eq!(verdict.summaries[&LogName::I1].up_to_round, 7);
    assert_eq!(model.calls(), 61 + 3 + 3);
}
