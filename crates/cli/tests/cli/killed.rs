//! Debates that are killed, for real: no finished call is ever paid for twice.

#![expect(clippy::print_stderr, reason = "the figures are part of the proof")]

use std::collections::{BTreeSet, HashMap, HashSet};
use std::process::Stdio;
use std::time::{Duration, Instant};

use assize_testkit::{FakeProvider, Kind};

use crate::debate::{answer, home, id_of};
use crate::{Home, Ran};

/// The numbers of the answers that are in the journal of the one run there is.
fn recorded(home: &Home, id: &str) -> BTreeSet<usize> {
    let Ran { code, out, err } = home.run(&["runs", "export", id]);
    assert_eq!(code, 0, "{err}");
    let export: serde_json::Value = serde_json::from_str(&out).unwrap();
    let records = export["records"].as_array().unwrap();
    records
        .iter()
        .filter_map(|record| {
            let text = record["done"]["text"].as_str()?;
            text.split_once("[[")?.1.split_once("]]")?.0.parse().ok()
        })
        .collect()
}

fn runs(home: &Home) -> Vec<serde_json::Value> {
    serde_json::from_str(&home.run(&["runs", "list", "--json"]).out).unwrap()
}

#[test]
fn a_debate_killed_at_any_moment_pays_for_no_finished_call_twice() {
    let kills: usize =
        std::env::var("ASSIZE_TEST_KILLS").map_or(20, |count| count.parse().unwrap());
    let mut dice = fastrand::Rng::with_seed(0x5eed);
    let (mut killed, mut debates, mut in_flight, mut finished_again) = (0, 0, 0, 0);
    while killed < kills {
        let fake = FakeProvider::answering(Kind::Anthropic, answer);
        let home = home(&fake);
        // How long an undisturbed one takes on this machine, in a store of its own.
        let elsewhere = home.work().join("elsewhere.db");
        let mut undisturbed = home.command(&["debate", "MOVE.md", "--quiet"]);
        undisturbed.env("ASSIZE_STORE_PATH", &elsewhere);
        let start = Instant::now();
        assert!(undisturbed.output().unwrap().status.success());
        let whole = start.elapsed();
        let offset = fake.captured().len();
        debates += 1;

        let mut finished: HashSet<String> = HashSet::new();
        loop {
            let known = runs(&home);
            let id = known.first().map(id_of);
            let mut command = match &id {
                Some(id) => home.command(&["debate", "--resume", id, "--quiet"]),
                None => home.command(&["debate", "MOVE.md", "--quiet"]),
            };
            let before = fake.captured().len();
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let moment = whole.mul_f64(dice.f64());
            if killed < kills {
                std::thread::sleep(moment.max(Duration::from_micros(100)));
                // It may have come to its end by then.
                child.kill().unwrap();
            }
            let output = child.wait_with_output().unwrap();
            for request in &fake.captured()[before..] {
                if finished.contains(&request.body.to_string()) {
                    finished_again += 1;
                }
            }
            if output.status.success() {
                break;
            }
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code().is_none(), "not killed but failed: {err}");
            killed += 1;
            if let Some(run) = runs(&home).first() {
                // It had written its last word, and not yet said it.
                if run["status"] == "done" {
                    break;
                }
                let requests = fake.captured();
                let done = recorded(&home, &id_of(run));
                finished = done.iter().map(|number| requests[*number].body.to_string()).collect();
            }
        }
        let run = &runs(&home)[0];
        assert_eq!((&run["status"], &run["result"]["total_score"]), (&"done".into(), &90.into()));
        // Every call was made once, but for those in flight when the process died.
        let mut asked: HashMap<String, usize> = HashMap::new();
        for request in &fake.captured()[offset..] {
            *asked.entry(request.body.to_string()).or_default() += 1;
        }
        in_flight += asked.values().map(|count| count - 1).sum::<usize>();
        // Nothing is told twice, either.
        let Ran { out, .. } = home.run(&["runs", "show", &id_of(run), "--events", "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
        let told: Vec<String> = shown["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| format!("{} {}", event["name"], event["payload"]))
            .collect();
        let different: HashSet<&String> = told.iter().collect();
        assert_eq!((told.len(), different.len()), (60, 60));
    }
    eprintln!(
        "{killed} kills in {debates} debates: {finished_again} finished calls asked again, \
         {in_flight} that were in flight"
    );
    assert_eq!(finished_again, 0);
}
