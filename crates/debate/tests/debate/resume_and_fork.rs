//! Tests of debates that are interrupted, resumed or forked.

use std::sync::Arc;
use std::time::Duration;

use assize_debate::{CallPosition, DebateOptions, LogName, calls, conversation_logs};
use assize_graph::{EffectKey, ForkJournal, Journal, MemoryJournal, RunError, RunOptions};
use assize_llm::{ErrorKind, ModelError};
use assize_types::Cancel;

use crate::{Asked, BAKERY, Part, Scripted, about, bakery, debate, plain, response};

#[tokio::test(start_paused = true)]
async fn interrupted_debate_resumes_to_the_same_verdict() {
    let whole = Scripted::new(plain);
    let expected =
        debate(&whole, DebateOptions::default(), bakery(10), RunOptions::default()).await.unwrap();
    let journal = Arc::new(MemoryJournal::new());
    let model = Scripted::slow(|_| Duration::from_secs(1), plain);
    let mut interruptions = 0;
    let verdict = loop {
        let cancel = Cancel::new();
        let run =
            RunOptions { cancel: cancel.clone(), ..RunOptions::with_journal(journal.clone()) };
        let stop = async {
            tokio::time::sleep(Duration::from_millis(2500)).await;
            cancel.cancel("interrupted");
        };
        let (result, ()) =
            tokio::join!(debate(&model, DebateOptions::default(), bakery(10), run), stop);
        match result {
            Ok(verdict) => break verdict,
            Err(error) => assert!(matches!(error, RunError::Cancelled { .. }), "{error}"),
        }
        interruptions += 1;
    };
    assert_eq!(verdict, expected);
    assert!(interruptions >= 7, "{interruptions}");
    // Each execution completes two steps and is interrupted with three calls in flight.
    assert!(model.calls() <= 61 + 3 * interruptions, "{} calls", model.calls());
}

/// A resumed run repeats the calls that failed permanently and makes the calls that depend on them. It repeats no
/// other call.
#[tokio::test]
async fn failed_calls_are_repeated_on_resume() {
    let journal = Arc::new(MemoryJournal::new());
    let run = || RunOptions::with_journal(journal.clone());
    let broken = Scripted::new(|asked: &Asked| match &asked.what {
        Part::Answer("D1") if asked.round == 2 => Err(ModelError::new(ErrorKind::Timeout, "slow")),
        Part::Score("D2") => Err(ModelError::new(ErrorKind::Unauthorized, "key revoked")),
        _ => plain(asked),
    });
    debate(&broken, DebateOptions::default(), bakery(4), run()).await.unwrap_err();
    let fixed = Scripted::new(plain);
    let verdict = debate(&fixed, DebateOptions::default(), bakery(4), run()).await.unwrap();
    assert!(verdict.partial.is_empty(), "{:?}", verdict.partial);
    assert_eq!(verdict.conversation_logs[&LogName::I1].len(), 8);
    // The resumed run requests the failed answer, the two rounds after it, the scores of that conversation, and the
    // failed scores.
    let asked: Vec<(Part, u32)> =
        fixed.asked().into_iter().map(|asked| (asked.what, asked.round)).collect();
    assert_eq!(asked.len(), 1 + 4 + 2, "{asked:?}");
    assert!(asked.contains(&(Part::Answer("D1"), 2)), "{asked:?}");
    assert!(asked.contains(&(Part::Score("D2"), 4)), "{asked:?}");
    assert!(!asked.contains(&(Part::Score("D3"), 4)), "{asked:?}");
}

#[tokio::test]
async fn debate_fork_reuses_calls_before_the_fork_point() {
    let journal = Arc::new(MemoryJournal::new());
    let model = Scripted::new(plain);
    debate(&model, DebateOptions::default(), bakery(10), RunOptions::with_journal(journal.clone()))
        .await
        .unwrap();
    let early = |key: &EffectKey| CallPosition::of(key).is_some_and(|place| place.is_before(4));
    let old = journal.records().into_iter().filter(|record| early(&record.key));
    let own = Arc::new(MemoryJournal::new());
    let fork: Arc<dyn Journal> = Arc::new(ForkJournal::new(own.clone(), old));
    let other = Scripted::new(|asked| match &asked.what {
        Part::Critic => Ok(response("another thought")),
        _ => plain(asked),
    });
    let verdict =
        debate(&other, DebateOptions::default(), bakery(10), RunOptions::with_journal(fork));
    let verdict = verdict.await.unwrap();
    assert_eq!(other.calls(), 61 - 16, "rounds 1 to 3 take 16 calls");
    assert_eq!(conversation_logs(&own.records()), verdict.conversation_logs);
    let log = &verdict.conversation_logs[&LogName::I1];
    assert_eq!(&*log[4].content, "critic to D1 in round 3");
    assert_eq!(&*log[6].content, "another thought");
}

#[tokio::test]
async fn debate_fork_with_more_rounds_calls_models_only_for_new_rounds_and_scores() {
    let journal = Arc::new(MemoryJournal::new());
    let model = Scripted::new(plain);
    let run = RunOptions::with_journal(journal.clone());
    debate(&model, DebateOptions::default(), bakery(10), run).await.unwrap();
    let fork = Arc::new(ForkJournal::new(MemoryJournal::new(), journal.records()));
    let more = Scripted::new(plain);
    let run = RunOptions::with_journal(fork);
    let verdict = debate(&more, DebateOptions::default(), bakery(12), run).await.unwrap();
    assert_eq!(more.calls() as u64, calls(12, 3) - calls(10, 3) + 3);
    assert_eq!(verdict.conversation_logs[&LogName::I2].len(), 24);
}

#[tokio::test]
async fn resuming_a_debate_with_a_changed_move_text_is_rejected() {
    let journal = Arc::new(MemoryJournal::new());
    let run = || RunOptions::with_journal(journal.clone());
    debate(&Scripted::new(plain), DebateOptions::default(), bakery(2), run()).await.unwrap();
    let changed = about(&format!("{BAKERY} And a third."), 2);
    let error =
        debate(&Scripted::new(plain), DebateOptions::default(), changed, run()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the request of effect `round-1/critic` differs from the request recorded in this run"
    );
}
