//! Tests that kill the process of a debate: answered model calls are never repeated, and calls in flight count as
//! spent.

#![expect(clippy::print_stderr, reason = "the test prints its measurements")]

use std::collections::{BTreeSet, HashMap, HashSet};
use std::process::Stdio;
use std::time::{Duration, Instant};

use assize_testkit::{FakeKind, FakeProvider, FakeReply};
use serde_json::Value;

use crate::debate::{debate_answer, home, id_of, only_run};
use crate::serve::TestServer;
use crate::{CommandOutput, Home};

/// Sequence numbers of the fake provider's answers that are recorded in the journal of a run.
fn recorded_answer_numbers(home: &Home, id: &str) -> BTreeSet<usize> {
    let CommandOutput { code, out, err } = home.run(&["runs", "export", id]);
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

/// Last record of lost calls in the journal of a run. Lost calls were in flight when an earlier process was killed.
fn lost_calls_record(home: &Home, id: &str) -> Option<Value> {
    let CommandOutput { code, out, err } = home.run(&["runs", "export", id]);
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
fn debate_killed_at_random_moments_repeats_no_answered_call() {
    let kills: usize =
        std::env::var("ASSIZE_TEST_KILLS").map_or(20, |count| count.parse().unwrap());
    let mut dice = fastrand::Rng::with_seed(0x5eed);
    let (mut killed, mut debates, mut in_flight, mut finished_again) = (0, 0, 0, 0);
    let mut counted_as_lost = 0;
    while killed < kills {
        let fake = FakeProvider::with_responder(FakeKind::Anthropic, debate_answer);
        let home = home(&fake);
        // Measure the duration of a debate without kills on this machine, in a separate store.
        let elsewhere = home.work_folder().join("elsewhere.db");
        let mut undisturbed = home.command(&["debate", "MOVE.md", "--quiet"]);
        undisturbed.env("ASSIZE_STORE_PATH", &elsewhere);
        let start = Instant::now();
        assert!(undisturbed.output().unwrap().status.success());
        let whole = start.elapsed();
        let offset = fake.captured_requests().len();
        debates += 1;

        let mut finished: HashSet<String> = HashSet::new();
        loop {
            let known = runs(&home);
            let id = known.first().map(id_of);
            let mut command = match &id {
                Some(id) => home.command(&["debate", "--resume", id, "--quiet"]),
                None => home.command(&["debate", "MOVE.md", "--quiet"]),
            };
            let before = fake.captured_requests().len();
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let moment = whole.mul_f64(dice.f64());
            if killed < kills {
                std::thread::sleep(moment.max(Duration::from_micros(100)));
                // The process may already have exited, which is no error.
                child.kill().unwrap();
            }
            let output = child.wait_with_output().unwrap();
            for request in &fake.captured_requests()[before..] {
                if finished.contains(&request.body.to_string()) {
                    finished_again += 1;
                }
            }
            if output.status.success() {
                break;
            }
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.code().is_none(),
                "the process failed before it was killed: {err}"
            );
            killed += 1;
            if let Some(run) = runs(&home).first() {
                // The process was killed after it stored its verdict and before it printed the verdict.
                if run["status"] == "done" {
                    break;
                }
                let requests = fake.captured_requests();
                let done = recorded_answer_numbers(&home, &id_of(run));
                finished = done.iter().map(|number| requests[*number].body.to_string()).collect();
            }
        }
        let run = &runs(&home)[0];
        assert_eq!((&run["status"], &run["result"]["total_score"]), (&"done".into(), &90.into()));
        // The only requests that were sent twice are those that were in flight when the process was killed.
        let mut calls: HashMap<String, usize> = HashMap::new();
        for request in &fake.captured_requests()[offset..] {
            *calls.entry(request.body.to_string()).or_default() += 1;
        }
        let again = calls.values().map(|count| count - 1).sum::<usize>();
        in_flight += again;
        // No event is stored twice.
        let CommandOutput { out, .. } =
            home.run(&["runs", "show", &id_of(run), "--events", "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&out).unwrap();
        let events: Vec<String> = shown["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| format!("{} {}", event["name"], event["payload"]))
            .collect();
        let (losses, events): (Vec<String>, Vec<String>) =
            events.into_iter().partition(|event| event.starts_with("\"calls_lost\" "));
        let different: HashSet<&String> = events.iter().collect();
        assert_eq!((events.len(), different.len()), (60, 60));
        // A call that was recorded but did not reach the provider before the kill counts as lost, too.
        let lost =
            lost_calls_record(&home, &id_of(run)).map_or(0, |lost| lost["calls"].as_u64().unwrap());
        assert!(
            lost as usize >= again,
            "{again} repeated calls, but only {lost} lost calls: {losses:?}"
        );
        counted_as_lost += lost;
    }
    eprintln!(
        "{killed} kills in {debates} debates: {finished_again} finished calls repeated, \
         {in_flight} calls in flight repeated, {counted_as_lost} counted as lost"
    );
    assert_eq!(finished_again, 0);
}

/// Creates a fake provider that never answers its first request.
fn provider_hanging_at_first_request() -> FakeProvider {
    FakeProvider::with_responder(FakeKind::Anthropic, |number, request| match number {
        0 => FakeReply::Hang,
        number => debate_answer(number, request),
    })
}

/// Starts a debate, kills its process during the first model call, and returns the id of the run.
fn kill_at_the_first_call(fake: &FakeProvider, home: &Home, more: &[&str]) -> String {
    let mut debate = home.command(&[&["debate", "MOVE.md", "--quiet"], more].concat());
    let mut child = debate.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    fake.wait_for_requests(1);
    child.kill().unwrap();
    child.wait().unwrap();
    id_of(&only_run(home))
}

#[test]
fn call_in_flight_when_a_debate_is_killed_counts_towards_its_budget() {
    let fake = provider_hanging_at_first_request();
    let home = home(&fake);
    let run = kill_at_the_first_call(&fake, &home, &[]);
    assert_eq!(home.run(&["debate", "--resume", &run, "--quiet"]).code, 0);
    let worst = lost_calls_record(&home, &run).unwrap();
    let tokens = worst["tokens"].as_u64().unwrap();
    assert!(worst["calls"] == 1 && tokens > 4096 && worst["cost"].as_u64() > Some(0), "{worst}");
    // If the budget allows only this one call, it is used up after the kill.
    let fake = provider_hanging_at_first_request();
    let home = crate::debate::home(&fake);
    let run = kill_at_the_first_call(&fake, &home, &["--max-tokens", &tokens.to_string()]);
    let CommandOutput { code, err, .. } = home.run(&["debate", "--resume", &run]);
    assert_eq!((code, fake.captured_requests().len()), (5, 1), "{err}");
    let grouped = format!("{},{:03}", tokens / 1000, tokens % 1000);
    assert!(err.contains(&format!("spent before this command: {grouped} tokens, ")), "{err}");
    // With a larger budget the run can be resumed, and the lost call still counts once.
    let resumed = home.run(&["debate", "--resume", &run, "--max-tokens", "9999999", "--quiet"]);
    assert_eq!(resumed.code, 0, "{}", resumed.err);
    assert_eq!(lost_calls_record(&home, &run), Some(worst));
}

#[test]
fn calls_in_flight_when_a_server_was_killed_are_reported_as_lost() {
    let fake = provider_hanging_at_first_request();
    let home = home(&fake).set("PATH", "/usr/local/bin:/usr/bin:/bin");
    let serving = TestServer::start(&home, &[]);
    let run = serving.start_run(crate::serve::debate_body());
    fake.wait_for_requests(1);
    serving.kill();
    // The server resumes the run when it starts again.
    let serving = TestServer::start(&home, &[]);
    let ended = serving.wait_for_end(&run);
    assert_eq!((&ended["status"], &ended["spent"]["lost_calls"]), (&"done".into(), &1.into()));
}
