//! Debates that are killed, taken up again, and forked.

use std::sync::Arc;
use std::time::Duration;

use assize_debate::{LogName, Options, Place, calls, conversation_logs};
use assize_graph::{Fork, Journal, Key, MemoryJournal, RunError, RunOptions};
use assize_llm::{ErrorKind, ModelError};
use assize_types::Cancel;

use crate::{Asked, BAKERY, Part, Scripted, about, bakery, debate, plain, response};

#[tokio::test(start_paused = true)]
async fn a_debate_that_is_stopped_goes_on_where_it_was() {
    let whole = Scripted::new(plain);
    let expected =
        debate(&whole, Options::default(), bakery(10), RunOptions::default()).await.unwrap();
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
        let (result, ()) = tokio::join!(debate(&model, Options::default(), bakery(10), run), stop);
        match result {
            Ok(verdict) => break verdict,
            Err(error) => assert!(matches!(error, RunError::Cancelled { .. }), "{error}"),
        }
        interruptions += 1;
    };
    assert_eq!(verdict, expected);
    assert!(interruptions >= 7, "{interruptions}");
    // Two steps are finished in each life; three calls are in flight when it ends.
    assert!(model.calls() <= 61 + 3 * interruptions, "{} calls", model.calls());
}

/// A run that ended is resumed: the calls that failed for good are made again, and no other.
#[tokio::test]
async fn failed_call_is_made_again_when_the_run_is_resumed() {
    let journal = Arc::new(MemoryJournal::new());
    let run = || RunOptions::with_journal(journal.clone());
    let broken = Scripted::new(|asked: &Asked| match &asked.what {
        Part::Answer("D1") if asked.round == 2 => Err(ModelError::new(ErrorKind::Timeout, "slow")),
        Part::Score("D2") => Err(ModelError::new(ErrorKind::Unauthorized, "key revoked")),
        _ => plain(asked),
    });
    debate(&broken, Options::default(), bakery(4), run()).await.unwrap_err();
    let mended = Scripted::new(plain);
    let verdict = debate(&mended, Options::default(), bakery(4), run()).await.unwrap();
    assert!(verdict.partial.is_empty(), "{:?}", verdict.partial);
    assert_eq!(verdict.conversation_logs[&LogName::I1].len(), 8);
    // The answer that failed, two rounds after it, the score of that conversation and the one that failed.
    let asked: Vec<(Part, u32)> =
        mended.asked().into_iter().map(|asked| (asked.what, asked.round)).collect();
    assert_eq!(asked.len(), 1 + 4 + 2, "{asked:?}");
    assert!(asked.contains(&(Part::Answer("D1"), 2)), "{asked:?}");
    assert!(asked.contains(&(Part::Score("D2"), 4)), "{asked:?}");
    assert!(!asked.contains(&(Part::Score("D3"), 4)), "{asked:?}");
}

#[tokio::test]
async fn a_fork_pays_from_its_round_on() {
    let journal = Arc::new(MemoryJournal::new());
    let model = Scripted::new(plain);
    debate(&model, Options::default(), bakery(10), RunOptions::with_journal(journal.clone()))
        .await
        .unwrap();
    let early = |key: &Key| Place::of(key).is_some_and(|place| place.is_before(4));
    let old = journal.records().into_iter().filter(|record| early(&record.key));
    let own = Arc::new(MemoryJournal::new());
    let fork: Arc<dyn Journal> = Arc::new(Fork::new(own.clone(), old));
    let other = Scripted::new(|asked| match &asked.what {
        Part::Critic => Ok(response("another thought")),
        _ => plain(asked),
    });
    let verdict = debate(&other, Options::default(), bakery(10), RunOptions::with_journal(fork));
    let verdict = verdict.await.unwrap();
    assert_eq!(other.calls(), 61 - 16, "rounds 1 to 3 are 16 calls");
    assert_eq!(conversation_logs(&own.records()), verdict.conversation_logs);
    let log = &verdict.conversation_logs[&LogName::I1];
    assert_eq!(&*log[4].content, "critic to D1 in round 3");
    assert_eq!(&*log[6].content, "another thought");
}

#[tokio::test]
async fn a_fork_with_more_rounds_pays_for_those_and_for_the_scores() {
    let journal = Arc::new(MemoryJournal::new());
    let model = Scripted::new(plain);
    let run = RunOptions::with_journal(journal.clone());
    debate(&model, Options::default(), bakery(10), run).await.unwrap();
    let fork = Arc::new(Fork::new(MemoryJournal::new(), journal.records()));
    let more = Scripted::new(plain);
    let run = RunOptions::with_journal(fork);
    let verdict = debate(&more, Options::default(), bakery(12), run).await.unwrap();
    assert_eq!(more.calls() as u64, calls(12, 3) - calls(10, 3) + 3);
    assert_eq!(verdict.conversation_logs[&LogName::I2].len(), 24);
}

#[tokio::test]
async fn a_changed_move_is_refused_on_an_old_journal() {
    let journal = Arc::new(MemoryJournal::new());
    let run = || RunOptions::with_journal(journal.clone());
    debate(&Scripted::new(plain), Options::default(), bakery(2), run()).await.unwrap();
    let changed = about(&format!("{BAKERY} And a third."), 2);
    let error =
        debate(&Scripted::new(plain), Options::default(), changed, run()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "what is asked at `round-1/critic` is not what this run asked there before"
    );
}
