//! Tests of forked consultations.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_consult::{ConsultFork, ConsultState, FlagKind, graph};
use assize_graph::{ForkJournal, Journal, MemoryJournal, RunOptions};

use crate::pipeline::{crust, flags};
use crate::script::{Asked, Script, consult_context};

/// Runs a forked consultation; `forks` lists the forks that led to it. Returns its state and the calls that the model
/// received.
async fn run(forks: &[ConsultFork], journal: Arc<dyn Journal>) -> (ConsultState, Vec<Asked>) {
    let model = Script::usual();
    let mut context = consult_context(&model, 5, 15);
    context.forks = forks.to_vec();
    let options = RunOptions { journal: Some(journal), ..RunOptions::default() };
    let state = graph(Arc::new(context)).unwrap().run(crust(), options).await.unwrap();
    let asked = model.asked.lock().unwrap().clone();
    (state, asked)
}

/// Forks the run that is recorded in the journal `of`. Returns the state of the fork, the calls that the model
/// received, and the journal of the fork.
async fn fork(
    of: &MemoryJournal,
    forks: &[ConsultFork],
) -> (ConsultState, Vec<Asked>, Arc<MemoryJournal>) {
    let own = Arc::new(MemoryJournal::new());
    let at = &forks.last().unwrap().at;
    let spared = of.records().into_iter().filter(|record| at.reuses_call(&record.key));
    let (state, asked) = run(forks, Arc::new(ForkJournal::new(own.clone(), spared))).await;
    (state, asked, own)
}

fn turning(at: &str, personas: &[(&str, &str)]) -> ConsultFork {
    let personas: BTreeMap<String, String> =
        personas.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect();
    ConsultFork { from: "consult-first".to_owned(), at: at.parse().unwrap(), personas }
}

fn keys(asked: &[Asked]) -> Vec<&str> {
    let mut keys: Vec<&str> = asked.iter().map(|asked| asked.key.as_str()).collect();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn fork_repeats_one_debate_from_the_fork_point_and_reuses_all_other_calls() {
    let first = Arc::new(MemoryJournal::new());
    let (before, _) = run(&[], first.clone()).await;
    let kind = turning("m3/round-4", &[("critic", "You are the critic, and kind.")]);
    let (after, asked, second) = fork(&first, std::slice::from_ref(&kind)).await;
    // The fork repeats rounds 4 and 5 of three conversations, and their scores.
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
            "m3 m3 debated again from round 4 on, with new personas for critic; everything else reused \
          from consult-first"
        ]
    );
    // A fork of the fork keeps the changes of the first fork, unless it overrides them.
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
    // The second fork may also change another move.
    let (_, asked, _) = fork(&second, &[kind, turning("m5", &[])]).await;
    assert_eq!(asked.len(), 31);
    assert!(asked.iter().all(|one| one.key.starts_with("m5/")));
}

#[tokio::test]
async fn fork_point_without_a_move_id_repeats_the_debates_of_all_moves() {
    let first = Arc::new(MemoryJournal::new());
    run(&[], first.clone()).await;
    let (after, asked, _) = fork(&first, &[turning("round-5", &[])]).await;
    assert_eq!(asked.len(), 15 * 9);
    assert!(flags(&after, FlagKind::Forked)[0].starts_with("- every move debated again"));
}
