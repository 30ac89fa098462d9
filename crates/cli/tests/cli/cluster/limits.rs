//! Tests of rate limits, concurrency limits and budgets that all workers of a cluster share.

use std::time::Duration;

use assize_testkit::{FakeKind, FakeProvider, FakeReply, Latency};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::crash_recovery::{consult_request, numbered_reply};
use super::{Servers, Worker, cluster_status, wait_for, with_cluster};
use crate::CommandOutput;
use crate::run::with_provider;
use crate::serve::{TestServer, debate_body};

#[test]
fn concurrency_limit_is_not_exceeded_when_the_worker_that_enforces_it_is_killed() {
    let latency =
        Latency { to_first_byte: Duration::from_millis(30), to_last_byte: Duration::ZERO };
    let fake = FakeProvider::with_prompt_cache(latency, numbered_reply);
    let servers = Servers::start(1);
    let home = with_cluster(with_provider(FakeKind::Anthropic, &fake), &servers);
    let home = home.set("ASSIZE_ANTHROPIC_CONCURRENCY", "3");
    let serving = TestServer::start(&home, &[]);
    let mut workers: Vec<Worker> =
        (0..3).map(|_| Worker::start(&home, &["--slots", "3"])).collect();
    let runs: Vec<String> = ["CRSA", "CRSB", "CRSC", "CRSD"]
        .map(|ticker| serving.start_run(consult_request(ticker)))
        .into();
    fake.wait_for_requests(100);
    // One worker, the coordinator, enforces the limits of the provider for all workers. If the coordinator dies,
    // another worker becomes the coordinator.
    let coordinator = || {
        let status = cluster_status(&home);
        let nodes = status["nodes"].as_array().unwrap().iter();
        let mut coordinators = nodes.filter(|node| node["rate_limits"] == json!(["anthropic"]));
        let coordinator = coordinators.next().map(|node| node["id"].as_str().unwrap().to_owned());
        assert!(coordinators.next().is_none());
        coordinator
    };
    wait_for("a worker that enforces the limits", || coordinator().is_some());
    let first = coordinator().unwrap();
    let index = workers.iter().position(|worker| worker.id == first).unwrap();
    workers.remove(index).kill();
    for run in &runs {
        assert_eq!(serving.wait_for_end(run)["status"], "done");
    }
    wait_for("another worker that enforces the limits", || {
        coordinator().is_some_and(|coordinator| coordinator != first)
    });
    assert_eq!(fake.max_concurrent_requests(), 3);
}

/// The local model server reports two slots, and no setting overrides that number. So at most two calls are in flight.
/// One debate can make three calls at the same time, so the debates run one after the other.
#[test]
fn slots_of_a_local_model_server_limit_calls_and_debates_in_a_cluster() {
    let props = json!({"default_generation_settings": {"n_ctx": 131_072}, "total_slots": 2});
    let fake =
        FakeProvider::with_latency(FakeKind::OpenAi, Duration::from_millis(10), numbered_reply)
            .with_description("/props", props);
    let servers = Servers::start(1);
    let home = with_cluster(with_provider(FakeKind::OpenAi, &fake), &servers);
    let home = home.set("ASSIZE_OPENAI_MODEL", "smollm2");
    let serving = TestServer::start(&home, &[]);
    let _worker = Worker::start(&home, &["--slots", "3", "--isolation", "jail"]);
    let run = serving.start_run(consult_request("CRSA"));
    let events = serving.wait_for_events(&run, None);
    assert_eq!(serving.wait_for_end(&run)["status"], "done");
    assert_eq!(fake.max_concurrent_requests(), 2);
    let rounds = events.iter().filter(|events| events.name == "sandbox_round");
    let mut moves: Vec<&str> = rounds.map(|events| events.data["move"].as_str().unwrap()).collect();
    moves.dedup();
    let debated = moves.len();
    moves.sort_unstable();
    moves.dedup();
    assert_eq!((debated, moves.len()), (5, 5), "debates ran in parallel: {moves:?}");
}

#[test]
fn requests_per_minute_are_limited_across_workers() {
    let fake = FakeProvider::with_prompt_cache(Latency::default(), numbered_reply);
    let servers = Servers::start(1);
    let home = with_cluster(with_provider(FakeKind::Anthropic, &fake), &servers);
    let home = home.set("ASSIZE_ANTHROPIC_REQUESTS_PER_MINUTE", "20");
    let serving = TestServer::start(&home, &[]);
    let _workers = [(); 2].map(|()| Worker::start(&home, &["--slots", "1"]));
    // One debate needs fewer calls than the limit per minute, two debates together need more.
    let runs = [debate_body(), debate_body()].map(|debate| serving.start_run(debate));
    fake.wait_for_requests(20);
    // Wait for a fixed time, because there is no event to wait for: no further call must be made.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(fake.captured_requests().len(), 20);
    let under_way: Vec<&String> = runs
        .iter()
        .filter(|run| {
            serving.get(&format!("/api/runs/{run}")).success_json()["status"] == "running"
        })
        .collect();
    assert!(!under_way.is_empty());
    for run in under_way {
        assert_eq!(serving.post(&format!("/api/runs/{run}/cancel"), json!({})).status, 202);
        assert_eq!(serving.wait_for_end(run)["status"], "cancelled");
    }
}

#[test]
fn token_budget_is_not_exceeded_when_a_worker_is_killed() {
    // The provider is so slow that the worker has calls in flight when it is killed.
    let latency =
        Latency { to_first_byte: Duration::from_millis(150), to_last_byte: Duration::ZERO };
    let fake = FakeProvider::with_prompt_cache(latency, numbered_reply);
    let servers = Servers::start(1);
    let home = with_cluster(with_provider(FakeKind::Anthropic, &fake), &servers);
    let mut worker = Worker::start(&home, &["--slots", "3"]);
    let args = ["consult", "CRSA", "--rounds", "3", "--moves", "1", "--yes", "--quiet"];
    let limited = [&args[..], &["--max-tokens", "100000"]].concat();
    let command = home.command(&limited).spawn().unwrap();
    fake.wait_for_requests(40);
    worker.kill();
    let _worker = Worker::start(&home, &["--slots", "3"]);
    let output = command.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("the budget of"), "{err}");
    // Calls that were in flight when the worker was killed count as spent, with all tokens reserved for them.
    let CommandOutput { out, .. } = home.run(&["runs", "export", "latest"]);
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
    // The run can be resumed with a larger budget.
    let CommandOutput { code, err, .. } =
        home.run(&["runs", "resume", "latest", "--max-tokens", "10000000", "--quiet"]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn budget_raised_on_resume_is_kept_when_the_worker_is_replaced() {
    let latency =
        Latency { to_first_byte: Duration::from_millis(100), to_last_byte: Duration::ZERO };
    let fake = FakeProvider::with_prompt_cache(latency, numbered_reply);
    let servers = Servers::start(1);
    let home = with_cluster(with_provider(FakeKind::Anthropic, &fake), &servers);
    let mut worker = Worker::start(&home, &["--slots", "3"]);
    let args = ["consult", "CRSA", "--rounds", "3", "--moves", "1", "--yes", "--quiet"];
    let CommandOutput { code, err, .. } =
        home.run(&[&args[..], &["--max-tokens", "30000"]].concat());
    assert!(code != 0 && err.contains("the budget of"), "{err}");
    let more = ["runs", "resume", "latest", "--max-tokens", "10000000", "--quiet"];
    let command = home.command(&more).spawn().unwrap();
    fake.wait_for_requests(fake.captured_requests().len() + 10);
    worker.signal(Signal::TERM);
    assert_eq!(worker.child.wait().unwrap().code(), Some(0), "{}", worker.log_text());
    let _worker = Worker::start(&home, &["--slots", "3"]);
    let output = command.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn run_command_fails_when_its_queued_run_is_removed() {
    let servers = Servers::start(1);
    let home = with_cluster(crate::exec::home(), &servers);
    // There is no worker, so the run stays in the queue.
    let command = home.command(&["run", "Calculate fibonacci(10)"]).spawn().unwrap();
    wait_for("the run to be queued", || home.run(&["runs", "list"]).out.contains("waiting"));
    let CommandOutput { code, err, .. } = home.run(&["runs", "rm", "latest"]);
    assert_eq!(code, 0, "{err}");
    let output = command.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("there is no run"), "{err}");
}

#[test]
fn waiting_runs_do_not_block_the_job_that_enforces_the_limits_of_their_provider() {
    let fake = FakeProvider::always(FakeKind::Anthropic, FakeReply::status(401));
    let servers = Servers::start(1);
    let home = with_cluster(with_provider(FakeKind::Anthropic, &fake), &servers);
    let home =
        home.set("ASSIZE_SERVE_MAX_RUNNING", "100").set("ASSIZE_SERVE_STARTS_PER_MINUTE", "1000");
    let serving = TestServer::start(&home, &[]);
    // There are more runs than a worker executes at once. The runs wait for the job that enforces the limits of the
    // provider, and only the same worker can execute that job.
    let runs: Vec<String> = (0..66).map(|_| serving.start_run(debate_body())).collect();
    let _worker = Worker::start(&home, &["--slots", "1"]);
    for run in &runs {
        assert_eq!(serving.wait_for_end(run)["status"], "failed");
    }
}
