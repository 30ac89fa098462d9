//! Debates that are killed, for real: no finished call is ever paid for twice, and calls under way count as spent.

#![expect(clippy::print_stderr, reason = "the figures are part of the proof")]

use std::collections::{BTreeSet, HashMap, HashSet};
use std::process::Stdio;
use std::time::{Duration, Instant};

use assize_testkit::{FakeProvider, Kind, Reply};
use serde_json::Value;

use crate::debate::{answer, home, id_of, only_run};
use crate::serve::Serving;
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

/// What the records of a run say was lost before its last epoch.
fn lost(home: &Home, id: &str) -> Option<Value> {
    let Ran { code, out, err } = home.run(&["runs", "export", id]);
    assert_eq!(code, 0, "{err}");
    let export: Value = serde_json::from_str(&out).unwrap();
    let records = export["records"].as_array().unwrap();
    let is_loss = |record: &&Value| record["key"].as_str().unwrap().starts_with("lost-calls/");
    records.iter().rfind(is_loss).map(|record| record["done"].clone())
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
    let mut counted_as_lost = 0;
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
        let again = asked.values().map(|count| count - 1).sum::<usize>();
        in_flight += again;
        // Nothing is told twice, either.
        let Ran { out, .. } = home.run(&["runs", "show", &id_of(run), "--events", "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
        let told: Vec<String> = shown["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| format!("{} {}", event["name"], event["payload"]))
            .collect();
        let (losses, told): (Vec<String>, Vec<String>) =
            told.into_iter().partition(|told| told.starts_with("\"calls_lost\" "));
        let different: HashSet<&String> = told.iter().collect();
        assert_eq!((told.len(), different.len()), (60, 60));
        // A call that was noted and did not reach the provider before the kill is lost, too.
        let lost = lost(&home, &id_of(run)).map_or(0, |lost| lost["calls"].as_u64().unwrap());
        assert!(lost as usize >= again, "{lost} {again} {losses:?}");
        counted_as_lost += lost;
    }
    eprintln!(
        "{killed} kills in {debates} debates: {finished_again} finished calls asked again, \
         {in_flight} that were in flight, {counted_as_lost} counted as lost"
    );
    assert_eq!(finished_again, 0);
}

/// A provider whose first request gets no answer.
fn silent_at_first() -> FakeProvider {
    FakeProvider::answering(Kind::Anthropic, |number, request| match number {
        0 => Reply::Hang,
        number => answer(number, request),
    })
}

/// Starts a debate, and kills it while its first call is under way.
fn kill_at_the_first_call(fake: &FakeProvider, home: &Home, more: &[&str]) -> String {
    let mut debate = home.command(&[&["debate", "MOVE.md", "--quiet"], more].concat());
    let mut child = debate.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    fake.wait_for_requests(1);
    child.kill().unwrap();
    child.wait().unwrap();
    id_of(&only_run(home))
}

#[test]
fn killed_run_counts_its_call_under_way_against_its_budget() {
    let fake = silent_at_first();
    let home = home(&fake);
    let run = kill_at_the_first_call(&fake, &home, &[]);
    assert_eq!(home.run(&["debate", "--resume", &run, "--quiet"]).code, 0);
    let worst = lost(&home, &run).unwrap();
    let tokens = worst["tokens"].as_u64().unwrap();
    assert!(worst["calls"] == 1 && tokens > 4096 && worst["cost"].as_u64() > Some(0), "{worst}");
    // With a budget for that call alone, nothing is left after the kill.
    let fake = silent_at_first();
    let home = crate::debate::home(&fake);
    let run = kill_at_the_first_call(&fake, &home, &["--max-tokens", &tokens.to_string()]);
    let Ran { code, err, .. } = home.run(&["debate", "--resume", &run]);
    assert_eq!((code, fake.captured().len()), (5, 1), "{err}");
    let grouped = format!("{},{:03}", tokens / 1000, tokens % 1000);
    assert!(err.contains(&format!("spent on it before: {grouped} tokens, ")), "{err}");
    // A larger budget lets it go on, and the call stays lost however often it is resumed.
    let resumed = home.run(&["debate", "--resume", &run, "--max-tokens", "9999999", "--quiet"]);
    assert_eq!(resumed.code, 0, "{}", resumed.err);
    assert_eq!(lost(&home, &run), Some(worst));
}

#[test]
fn killed_server_reports_its_calls_under_way_as_lost() {
    let fake = silent_at_first();
    let home = home(&fake).set("PATH", "/usr/local/bin:/usr/bin:/bin");
    let serving = Serving::start(&home, &[]);
    let run = serving.begin(crate::serve::debate());
    fake.wait_for_requests(1);
    serving.kill();
    // The server resumes the run when it starts again.
    let serving = Serving::start(&home, &[]);
    let ended = serving.end_of(&run);
    assert_eq!((&ended["status"], &ended["spent"]["lost_calls"]), (&"done".into(), &1.into()));
}
