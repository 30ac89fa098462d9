//! Consultations that start from an earlier one and go another way.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_consult::{ConsultState, FlagKind, Turning, graph};
use assize_graph::{Fork, Journal, MemoryJournal, RunOptions};

use crate::pipeline::{crust, flags};
use crate::script::{Asked, Script, chamber};

/// A run with these turnings; gives what was asked besides.
async fn run(turnings: &[Turning], journal: Arc<dyn Journal>) -> (ConsultState, Vec<Asked>) {
    let model = Script::usual();
    let mut chamber = chamber(&model, 5, 15);
    chamber.turnings = turnings.to_vec();
    let options = RunOptions { journal: Some(journal), ..RunOptions::default() };
    let state = graph(Arc::new(chamber)).unwrap().run(crust(), options).await.unwrap();
    let asked = model.asked.lock().unwrap().clone();
    (state, asked)
}

/// A fork of what is in a journal.
async fn fork(
    of: &MemoryJournal,
    turnings: &[Turning],
) -> (ConsultState, Vec<Asked>, Arc<MemoryJournal>) {
    let own = Arc::new(MemoryJournal::new());
    let at = &turnings.last().unwrap().at;
    let spared = of.records().into_iter().filter(|record| at.spares(&record.key));
    let (state, asked) = run(turnings, Arc::new(Fork::new(own.clone(), spared))).await;
    (state, asked, own)
}

fn turning(at: &str, told: &[(&str, &str)]) -> Turning {
    let personas: BTreeMap<String, String> =
        told.iter().map(|(who, words)| ((*who).to_owned(), (*words).to_owned())).collect();
    Turning { from: "consult-first".to_owned(), at: at.parse().unwrap(), personas }
}

fn keys(asked: &[Asked]) -> Vec<&str> {
    let mut keys: Vec<&str> = asked.iter().map(|asked| asked.key.as_str()).collect();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn a_fork_asks_one_debate_from_its_round_on_and_takes_the_rest_over() {
    let first = Arc::new(MemoryJournal::new());
    let (before, _) = run(&[], first.clone()).await;
    let kind = turning("m3/round-4", &[("critic", "You are the critic, and kind.")]);
    let (after, asked, second) = fork(&first, std::slice::from_ref(&kind)).await;
    // Three conversations of two rounds, and their scores.
    let mut expected = Vec::new();
    for (log, maker) in [("i1", "D1"), ("i2", "D2"), ("i3", "D3")] {
        for round in 4..=5 {
            expected.push(format!("m3/{log}/round-{round}/critic"));
            expected.push(format!("m3/{log}/round-{round}/{maker}"));
        }
        expected.push(format!("m3/{log}/score"));
    }
    expected.sort_unstable();
    assert_eq!(keys(&asked), expected);
    for one in &asked {
        let is_kind = one.request.prompt.tail.starts_with("You are the critic, and kind.");
        assert_eq!(is_kind, one.key.ends_with("critic"), "{}", one.key);
    }
    assert_eq!(before.policy_scores[0], after.policy_scores[0]);
    assert_eq!(
        flags(&after, FlagKind::Forked),
        [
            "m3 m3 was debated anew from round 4 on, with other words for critic; all else was taken \
          over from consult-first"
        ]
    );
    // A fork of the fork keeps what it changed, where it is not changed again.
    let bold = turning("m3/round-5", &[("D1", "You are bold.")]);
    let (_, asked, _) = fork(&second, &[kind.clone(), bold]).await;
    assert_eq!(asked.len(), 9);
    let tail = |key: &str| {
        let one = asked.iter().find(|one| one.key == key).unwrap();
        one.request.prompt.tail.clone()
    };
    assert!(tail("m3/i1/round-5/critic").starts_with("You are the critic, and kind."));
    assert!(tail("m3/i1/round-5/D1").starts_with("You are D1, Growth Strategist. You are bold."));
    assert!(tail("m3/i1/score").contains("You are bold.") && !tail("m3/i2/score").contains("bold"));
    // And elsewhere, too.
    let (_, asked, _) = fork(&second, &[kind, turning("m5", &[])]).await;
    assert_eq!(asked.len(), 31);
    assert!(asked.iter().all(|one| one.key.starts_with("m5/")));
}

#[tokio::test]
async fn a_round_of_all_moves_can_be_the_place() {
    let first = Arc::new(MemoryJournal::new());
    run(&[], first.clone()).await;
    let (after, asked, _) = fork(&first, &[turning("round-5", &[])]).await;
    assert_eq!(asked.len(), 15 * 9);
    assert!(flags(&after, FlagKind::Forked)[0].starts_with("- every move was debated anew"));
}
