//! What may be asked of a provider, and spent, holds for all workers together.

use std::time::Duration;

use assize_testkit::{FakeProvider, Kind, Latency, Reply};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::proof::{asked, said};
use super::{Servers, Worker, joined, status, until};
use crate::Ran;
use crate::run::with_provider;
use crate::serve::{Serving, debate};

#[test]
fn a_provider_is_asked_no_more_at_once_than_it_bears() {
    let latency = Latency { to_begin: Duration::from_millis(30), to_end: Duration::ZERO };
    let fake = FakeProvider::caching(latency, said);
    let servers = Servers::start(1);
    let home = joined(with_provider(Kind::Anthropic, &fake), &servers);
    let home = home.set("ASSIZE_ANTHROPIC_CONCURRENCY", "3");
    let serving = Serving::start(&home, &[]);
    let mut workers: Vec<Worker> =
        (0..3).map(|_| Worker::start(&home, &["--slots", "3"])).collect();
    let runs: Vec<String> =
        ["CRSA", "CRSB", "CRSC", "CRSD"].map(|ticker| serving.begin(asked(ticker))).into();
    fake.wait_for_requests(100);
    // One of them keeps the limits for all. If it dies, another does.
    let keeper = || {
        let status = status(&home);
        let nodes = status["nodes"].as_array().unwrap().iter();
        let mut keepers = nodes.filter(|node| node["keeps"] == json!(["anthropic"]));
        let keeper = keepers.next().map(|node| node["id"].as_str().unwrap().to_owned());
        assert!(keepers.next().is_none());
        keeper
    };
    until("somebody keeps them", || keeper().is_some());
    let first = keeper().unwrap();
    let index = workers.iter().position(|worker| worker.id == first).unwrap();
    workers.remove(index).kill();
    for run in &runs {
        assert_eq!(serving.end_of(run)["status"], "done");
    }
    until("another keeps them", || keeper().is_some_and(|keeper| keeper != first));
    assert_eq!(fake.most_at_once(), 3);
}

/// A local server offers two slots and no setting says otherwise: no debate has room beside another.
#[test]
fn slots_of_a_local_server_bound_calls_and_debates_in_a_cluster() {
    let props = json!({"default_generation_settings": {"n_ctx": 131_072}, "total_slots": 2});
    let fake = FakeProvider::slow(Kind::OpenAi, Duration::from_millis(10), said)
        .describing("/props", props);
    let servers = Servers::start(1);
    let home = joined(with_provider(Kind::OpenAi, &fake), &servers);
    let home = home.set("ASSIZE_OPENAI_MODEL", "smollm2");
    let serving = Serving::start(&home, &[]);
    let _worker = Worker::start(&home, &["--slots", "3", "--isolation", "jail"]);
    let run = serving.begin(asked("CRSA"));
    let told = serving.told(&run, None);
    assert_eq!(serving.end_of(&run)["status"], "done");
    assert_eq!(fake.most_at_once(), 2);
    let rounds = told.iter().filter(|told| told.name == "sandbox_round");
    let mut moves: Vec<&str> = rounds.map(|told| told.data["move"].as_str().unwrap()).collect();
    moves.dedup();
    let debated = moves.len();
    moves.sort_unstable();
    moves.dedup();
    assert_eq!((debated, moves.len()), (5, 5), "debates were mixed: {moves:?}");
}

#[test]
fn a_provider_is_asked_no_more_in_a_minute_than_it_bears() {
    let fake = FakeProvider::caching(Latency::default(), said);
    let servers = Servers::start(1);
    let home = joined(with_provider(Kind::Anthropic, &fake), &servers);
    let home = home.set("ASSIZE_ANTHROPIC_REQUESTS_PER_MINUTE", "20");
    let serving = Serving::start(&home, &[]);
    let _workers = [(); 2].map(|()| Worker::start(&home, &["--slots", "1"]));
    // Each alone would stay within it, and both do not.
    let runs = [debate(), debate()].map(|debate| serving.begin(debate));
    fake.wait_for_requests(20);
    // No event tells that no call follows.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(fake.captured().len(), 20);
    let under_way: Vec<&String> = runs
        .iter()
        .filter(|run| serving.get(&format!("/api/runs/{run}")).good()["status"] == "running")
        .collect();
    assert!(!under_way.is_empty());
    for run in under_way {
        assert_eq!(serving.post(&format!("/api/runs/{run}/cancel"), json!({})).status, 202);
        assert_eq!(serving.end_of(run)["status"], "cancelled");
    }
}

#[test]
fn a_budget_holds_whoever_dies() {
    // So long that whoever is killed has calls under way.
    let latency = Latency { to_begin: Duration::from_millis(150), to_end: Duration::ZERO };
    let fake = FakeProvider::caching(latency, said);
    let servers = Servers::start(1);
    let home = joined(with_provider(Kind::Anthropic, &fake), &servers);
    let mut worker = Worker::start(&home, &["--slots", "3"]);
    let args = ["consult", "CRSA", "--rounds", "3", "--moves", "1", "--yes", "--quiet"];
    let limited = [&args[..], &["--max-tokens", "100000"]].concat();
    let asking = home.command(&limited).spawn().unwrap();
    fake.wait_for_requests(40);
    worker.kill();
    let _worker = Worker::start(&home, &["--slots", "3"]);
    let output = asking.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("the budget of"), "{err}");
    // What was under way counts as spent, at its worst.
    let Ran { out, .. } = home.run(&["runs", "export", "latest"]);
    let export: Value = serde_json::from_str(&out).unwrap();
    let records = export["records"].as_array().unwrap();
    let lost =
        records.iter().find(|record| record["key"].as_str().unwrap().starts_with("lost-calls/"));
    let lost = &lost.unwrap()["done"];
    assert!(
        lost["calls"].as_u64().unwrap() > 0 && lost["tokens"].as_u64().unwrap() > 4096,
        "{lost}"
    );
    let tokens = |record: &Value| {
        let usage = &record["done"]["usage"];
        ["input", "output"].iter().map(|name| usage[name].as_u64().unwrap_or_default()).sum::<u64>()
    };
    let answered: u64 = records.iter().map(tokens).sum();
    let spent = answered + lost["tokens"].as_u64().unwrap();
    assert!(spent <= 100_000, "{answered} {lost}");
    // Whoever allows more goes on, and pays for nothing twice.
    let Ran { code, err, .. } =
        home.run(&["runs", "resume", "latest", "--max-tokens", "10000000", "--quiet"]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn what_is_allowed_when_a_run_goes_on_outlives_the_worker() {
    let latency = Latency { to_begin: Duration::from_millis(100), to_end: Duration::ZERO };
    let fake = FakeProvider::caching(latency, said);
    let servers = Servers::start(1);
    let home = joined(with_provider(Kind::Anthropic, &fake), &servers);
    let mut worker = Worker::start(&home, &["--slots", "3"]);
    let args = ["consult", "CRSA", "--rounds", "3", "--moves", "1", "--yes", "--quiet"];
    let Ran { code, err, .. } = home.run(&[&args[..], &["--max-tokens", "30000"]].concat());
    assert!(code != 0 && err.contains("the budget of"), "{err}");
    let more = ["runs", "resume", "latest", "--max-tokens", "10000000", "--quiet"];
    let asking = home.command(&more).spawn().unwrap();
    fake.wait_for_requests(fake.captured().len() + 10);
    worker.signal(Signal::TERM);
    assert_eq!(worker.child.wait().unwrap().code(), Some(0), "{}", worker.said());
    let _worker = Worker::start(&home, &["--slots", "3"]);
    let output = asking.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn whoever_follows_a_run_that_is_removed_is_told() {
    let servers = Servers::start(1);
    let home = joined(crate::exec::home(), &servers);
    // Nobody takes it.
    let asking = home.command(&["run", "Calculate fibonacci(10)"]).spawn().unwrap();
    until("it is there", || home.run(&["runs", "list"]).out.contains("waiting"));
    let Ran { code, err, .. } = home.run(&["runs", "rm", "latest"]);
    assert_eq!(code, 0, "{err}");
    let output = asking.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("there is no run"), "{err}");
}

#[test]
fn runs_that_wait_for_a_provider_leave_room_for_who_keeps_its_limits() {
    let fake = FakeProvider::always(Kind::Anthropic, Reply::status(401));
    let servers = Servers::start(1);
    let home = joined(with_provider(Kind::Anthropic, &fake), &servers);
    let home =
        home.set("ASSIZE_SERVE_MOST_RUNNING", "100").set("ASSIZE_SERVE_STARTS_PER_MINUTE", "1000");
    let serving = Serving::start(&home, &[]);
    // More than a worker holds at once. All of them wait for the limits, which nobody else could keep.
    let runs: Vec<String> = (0..66).map(|_| serving.begin(debate())).collect();
    let _worker = Worker::start(&home, &["--slots", "1"]);
    for run in &runs {
        assert_eq!(serving.end_of(run)["status"], "failed");
    }
}
