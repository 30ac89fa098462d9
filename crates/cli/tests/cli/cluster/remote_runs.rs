//! Tests of commands and servers whose runs are executed by the workers of a cluster.

use std::time::Duration;

use assize_cluster::{QueuedJob, RUN, Requirements};
use assize_testkit::{FakeKind, FakeProvider, FakeReply, Latency};
use futures_util::{FutureExt, StreamExt};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::unconstrained;

use super::crash_recovery::{consult_request, numbered_reply};
use super::faults::connect_to_cluster;
use super::{Servers, Worker, cluster_status, wait_for, with_cluster};
use crate::drafts::{WATCHDOG, home_with_project};
use crate::exec::home;
use crate::run::{program, with_provider};
use crate::serve::warm_pool::{descendant_processes, process_exists};
use crate::serve::{TestServer, consult_body, event_names, fibonacci_body};
use crate::{CommandOutput, Home};

#[test]
fn runs_executed_by_workers_have_the_same_results_as_local_runs() {
    let servers = Servers::start(1);
    let home = with_cluster(home(), &servers);
    let alone = Home::new().set("PATH", "/usr/local/bin:/usr/bin:/bin");
    let _worker = Worker::start(&home, &["--slots", "3", "--isolation", "jail"]);
    let CommandOutput { code, out, err } = home.run(&["run", "Calculate fibonacci(10)"]);
    assert_eq!((code, out.trim()), (0, "55"), "{err}");
    assert!(err.contains("executed by a worker of the cluster"), "{err}");
    // A consultation has the same result as without a cluster, except for the fields about its execution.
    let args = [
        "consult",
        "NVDA",
        "--rounds",
        "2",
        "--moves",
        "1",
        "--json",
        "--quiet",
        "--isolation",
        "jail",
    ];
    let consulted = |home: &Home| {
        let CommandOutput { code, out, err } = home.run(&args);
        assert_eq!(code, 0, "{err}");
        let mut whole: Value = serde_json::from_str(&out).unwrap();
        let made = ["run", "origin", "on", "isolation", "status_updates"];
        made.iter().for_each(|name| drop(whole.as_object_mut().unwrap().remove(*name)));
        whole
    };
    assert_eq!(consulted(&home), consulted(&alone));
    // Runs are stored in the cluster, and not in the local store.
    let CommandOutput { out, .. } = home.run(&["runs", "list"]);
    assert_eq!(out.lines().filter(|line| line.contains(" done ")).count(), 2, "{out}");
    assert!(!home.store_path().exists());
    let CommandOutput { code, out, err } = home.run(&["runs", "show", "latest", "--json"]);
    assert_eq!(code, 0, "{err}");
    let shown: Value = serde_json::from_str(&out).unwrap();
    let isolation = shown["result"]["origin"]["isolation"].as_str().unwrap();
    assert!(isolation.starts_with("the cluster: jail"), "{isolation}");
    // After both runs, the queue of the cluster is empty.
    let status = cluster_status(&home);
    assert_eq!((&status["running"], &status["waiting"]), (&json!(0), &json!(0)), "{status}");
    assert_eq!(status["stuck"], json!([]));
}

/// `runs resume` and `runs fork` parse their arguments a second time, as arguments of the command that created the run.
/// The second parse must keep the flag `--cluster`.
#[test]
fn resume_and_fork_keep_the_cluster_flag() {
    let servers = Servers::start(1);
    let home = home();
    let address = servers.address();
    let _worker =
        Worker::start(&home, &["--cluster", &address, "--slots", "2", "--isolation", "jail"]);
    let in_cluster = |args: &[&str]| home.run(&[args, &["--cluster", &address]].concat());
    let consult = ["consult", "NVDA", "--rounds", "1", "--moves", "1", "--yes", "--quiet"];
    let CommandOutput { code, err, .. } =
        in_cluster(&[&consult[..], &["--max-tokens", "20000"]].concat());
    assert_eq!(code, 5, "{err}");
    let CommandOutput { code, err, .. } =
        in_cluster(&["runs", "resume", "latest", "--max-tokens", "10000000", "--quiet"]);
    assert_eq!(code, 0, "{err}");
    let CommandOutput { code, err, .. } =
        in_cluster(&["runs", "fork", "latest", "--yes", "--quiet"]);
    assert_eq!(code, 0, "{err}");
    let CommandOutput { out, .. } = in_cluster(&["runs", "list"]);
    assert_eq!(out.matches(" done ").count(), 2, "{out}");
    // No command opened the local store.
    assert!(!home.store_path().exists());
}

#[test]
fn hints_about_runs_in_a_cluster_repeat_the_cluster_flag() {
    let servers = Servers::start(1);
    let home = home();
    home.write("MOVE.md", crate::debate::MOVE);
    let address = servers.address();
    let _worker =
        Worker::start(&home, &["--cluster", &address, "--slots", "1", "--isolation", "jail"]);
    let in_cluster = |args: &[&str]| home.run(&[args, &["--cluster", &address]].concat());
    let debated = in_cluster(&["debate", "MOVE.md", "--rounds", "1"]);
    let ran = in_cluster(&["run", "Draw a sine wave as an SVG file"]);
    let shown = in_cluster(&["runs", "show", "run-"]);
    let flag = format!(" --cluster {address}`");
    for (CommandOutput { code, err, .. }, hint) in [
        (debated, "transcripts: `assize runs show debate-"),
        (
            ran,
            "the program created sine.svg (1,006 bytes); copy the files with `assize runs files run-",
        ),
        (shown, "code and output: `assize runs show run-"),
    ] {
        let line = err.lines().find(|line| line.contains(hint));
        assert!(code == 0 && line.is_some_and(|line| line.contains(&flag)), "{hint}: {err}");
    }
    // The command that the hint suggests works.
    assert_eq!(in_cluster(&["runs", "show", "debate-", "--transcripts"]).code, 0);
}

#[test]
fn run_is_reported_as_stuck_and_waits_until_a_suitable_worker_joins() {
    let servers = Servers::start(1);
    let home = with_cluster(home(), &servers);
    let picky = with_cluster(crate::exec::home(), &servers)
        .set("ASSIZE_CLUSTER_REQUIRE_LABELS", "site=north");
    let serving = TestServer::start(&picky, &[]);
    let south = Worker::start(&home, &["--slots", "1", "--label", "site=south"]);
    let run = serving.start_run(fibonacci_body());
    let run_status = || serving.get(&format!("/api/runs/{run}")).success_json()["status"].clone();
    wait_for("the run to be reported as stuck", || {
        cluster_status(&home)["stuck"].as_array().is_some_and(|stuck| stuck.len() == 1)
    });
    assert_eq!(run_status(), "waiting");
    let CommandOutput { out, err, .. } = home.run(&["cluster", "status"]);
    assert!(
        err.contains("no worker meets the requirements (a sandbox of 256 MB, site=north)"),
        "{err}"
    );
    assert!(out.contains("0 of 1 sandboxes in use; 0 runs in progress, 1 queued"), "{out}");
    let CommandOutput { code, err, .. } = home.run(&["runs", "resume", &run]);
    assert_eq!(code, 2);
    assert!(err.contains("is already queued for a worker"), "{err}");
    // A worker checks the requirements of the run itself, because any queue can have a message that names the run.
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let queue = connect_to_cluster(&servers).await.queue().await.unwrap();
        let (kind, about, body) = (RUN.to_owned(), run.clone(), json!({"run": run}));
        let work = QueuedJob { kind, about, turn: 99, body };
        queue.add(&Requirements::default(), &work).await.unwrap();
    });
    let refusal = "this worker does not meet the requirements: a sandbox of 256 MB, site=north";
    wait_for("the worker to refuse the run", || south.log_text().contains(refusal));
    assert_eq!(run_status(), "waiting");
    let _north = Worker::start(&home, &["--slots", "1", "--label", "site=north"]);
    let ended = serving.wait_for_end(&run);
    assert_eq!((&ended["status"], &ended["result"]["answer"]), (&json!("done"), &json!("55\n")));
    // Commands refuse options that are unavailable in a cluster, and invalid labels.
    let CommandOutput { code, err, .. } =
        home.run(&["run", "Calculate fibonacci(10)", "--session", "mine"]);
    assert_eq!(code, 2);
    assert!(err.contains("unavailable in a cluster"), "{err}");
    let CommandOutput { code, err, .. } = home.run(&["worker", "--label", "north"]);
    assert_eq!(code, 2);
    assert!(err.contains("expected NAME=VALUE"), "{err}");
}

/// A message on the queue can contain the id of any run, even of a run that no worker is allowed to execute.
#[test]
fn worker_refuses_a_queued_run_that_edits_files() {
    let servers = Servers::start(1);
    let home = with_cluster(home_with_project(), &servers)
        .set("PATH", "/usr/local/bin:/usr/bin:/bin")
        .set("ASSIZE_REHEARSAL_LATENCY_MS", "60000");
    let mut editing = home.command(&["work", "Add --version flag to watchdog.py"]).spawn().unwrap();
    let shown = || home.run(&["runs", "show", "latest", "--json"]);
    wait_for("the run to be stored", || shown().code == 0);
    let run: Value = serde_json::from_str(&shown().out).unwrap();
    let id = run["id"].as_str().unwrap();
    editing.kill().unwrap();
    editing.wait().unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let queue = connect_to_cluster(&servers).await.queue().await.unwrap();
        let (kind, about, body) = (RUN.to_owned(), id.to_owned(), json!({"run": id}));
        queue
            .add(&Requirements::default(), &QueuedJob { kind, about, turn: 1, body })
            .await
            .unwrap();
    });
    let worker = Worker::start(&home, &["--slots", "1", "--isolation", "jail"]);
    wait_for("the worker to refuse the run", || {
        worker.log_text().contains("only the process that started the run can execute it")
    });
    assert_eq!(home.file_text("src/watchdog.py"), WATCHDOG);
}

#[test]
fn every_server_shows_and_cancels_runs_of_every_worker() {
    let servers = Servers::start(1);
    let home = with_cluster(home(), &servers);
    let other = with_cluster(crate::exec::home(), &servers);
    let (first, second) = (TestServer::start(&home, &[]), TestServer::start(&other, &[]));
    let slow = with_cluster(crate::exec::home(), &servers).set("ASSIZE_REHEARSAL_LATENCY_MS", "20");
    let worker = Worker::start(&slow, &["--slots", "2"]);
    let run = first.start_run(consult_body());
    let events_at = |serving: &TestServer<'_>| {
        let mut events = serving.wait_for_events(&run, None);
        // The snapshot event, which has no id, contains the lease holder, so it may differ between servers.
        events.retain(|event| event.id.is_some());
        events
    };
    let seen = events_at(&second);
    assert_eq!(event_names(&seen).last(), Some(&"run_ended"));
    assert!(seen == events_at(&first));
    // The cluster status lists all nodes. A node that replies slowly may be missing for a moment.
    wait_for("the status to list all nodes", || {
        let status = cluster_status(&home);
        let nodes = status["nodes"].as_array().unwrap();
        let roles: Vec<&str> = nodes.iter().map(|node| node["role"].as_str().unwrap()).collect();
        roles == ["server", "server", "worker"] && nodes[2]["id"] == worker.id.as_str()
    });
    // `/api/about` describes the cluster, and not the machine of the server.
    let about = first.get("/api/about").success_json();
    let described = [&about["cluster"], &about["store"], &about["isolation"]];
    assert_eq!(described, [&json!("assize"), &json!(servers.address()), &Value::Null]);
    let seen = first.get("/api/cluster").success_json();
    assert_eq!((&seen["slots"], &seen["stuck"]), (&json!(2), &json!([])), "{seen}");
    // The second server can cancel a run that was started through the first server.
    let run = first.start_run(json!({"kind": "consult", "ticker": "NVDA", "rounds": 50}));
    wait_for("the run to start", || {
        second.get(&format!("/api/runs/{run}")).success_json()["status"] == "running"
    });
    assert_eq!(second.post(&format!("/api/runs/{run}/cancel"), json!({})).status, 202);
    assert_eq!(first.wait_for_end(&run)["status"], "cancelled");
    let holds = |node: &Value| node["leases"].as_array().unwrap().len();
    wait_for("all leases to be released", || {
        let status = super::cluster_status(&home);
        let held: usize = status["nodes"].as_array().unwrap().iter().map(holds).sum();
        (&status["busy"], held) == (&json!(0), 0)
    });
}

#[test]
fn output_of_a_program_on_a_worker_is_streamed_while_the_program_runs() {
    let code = "import time\nprint('one', flush=True)\ntime.sleep(3)\nprint('two')";
    let fake =
        FakeProvider::always(FakeKind::Anthropic, FakeReply::text(program(code).to_string()));
    let servers = Servers::start(1);
    let home = with_cluster(with_provider(FakeKind::Anthropic, &fake), &servers);
    let serving = TestServer::start(&home, &[]);
    let _worker = Worker::start(&home, &["--slots", "1", "--isolation", "jail"]);
    let run = serving.start_run(json!({"kind": "run", "task": "say one, then two"}));
    let events = serving.wait_for_events(&run, None);
    let at = |name: &str| {
        events.iter().position(|events| events.name == name && events.data["text"] != "")
    };
    let wrote = &events[at("execution_output").unwrap()];
    assert_eq!((&wrote.data["text"], &wrote.data["stream"]), (&json!("one\n"), &json!("stdout")));
    assert!(at("execution_output") < at("run_ended"));
    assert_eq!(serving.wait_for_end(&run)["result"]["answer"], "one\ntwo\n");
}

#[test]
fn run_survives_more_worker_restarts_than_the_delivery_limit() {
    let fake = FakeProvider::with_prompt_cache(
        Latency { to_first_byte: Duration::from_millis(100), ..Latency::default() },
        numbered_reply,
    );
    let servers = Servers::start(1);
    let home = with_cluster(with_provider(FakeKind::Anthropic, &fake), &servers);
    let serving = TestServer::start(&home, &[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut requests = runtime.block_on(async {
        let client = async_nats::connect(servers.address()).await.unwrap();
        client.subscribe("assize.ask.>").await.unwrap()
    });
    let run = serving.start_run(consult_request("CRSA"));
    let mut before = 0;
    // Workers are replaced more often than a job may be delivered without progress.
    for _ in 0..7 {
        let mut worker = Worker::start(&home, &["--slots", "5", "--isolation", "jail"]);
        fake.wait_for_requests(before + 12);
        before = fake.captured_requests().len();
        worker.signal(Signal::TERM);
        assert_eq!(worker.child.wait().unwrap().code(), Some(0), "{}", worker.log_text());
        assert_eq!(serving.get(&format!("/api/runs/{run}")).success_json()["status"], "waiting");
    }
    let _worker = Worker::start(&home, &["--slots", "5", "--isolation", "jail"]);
    let ended = serving.wait_for_end(&run);
    assert_eq!(ended["status"], "done", "{ended}");
    // The stopping workers reported that they released their debate jobs.
    let released = runtime.block_on(async {
        let mut released = 0;
        while let Some(Some(request)) = unconstrained(requests.next()).now_or_never() {
            released +=
                usize::from(String::from_utf8_lossy(&request.payload).contains("\"released\""));
        }
        released
    });
    assert!(released > 0);
    // A restarted server still shows the run as done.
    serving.stop();
    let serving = TestServer::start(&home, &[]);
    assert_eq!(serving.get(&format!("/api/runs/{run}")).success_json()["status"], "done");
}

/// A worker creates the sandbox of the debate. The lease holder of the run applies the rules for failed model calls
/// that `docs/explanation/durability.md` describes.
#[test]
fn debate_in_a_cluster_runs_in_a_sandbox_and_applies_the_rules_for_failed_model_calls() {
    let limited = |request: &assize_testkit::CapturedRequest, role: &str| {
        crate::debate::task_text(request).starts_with(role) && !crate::debate::is_scoring(request)
    };
    for (role, expected) in [("You are D2,", 0), ("You are D", 4)] {
        let fake =
            FakeProvider::with_responder(
                FakeKind::Anthropic,
                move |number, request| match limited(request, role) {
                    true => FakeReply::Status(
                        429,
                        vec![("retry-after", "3600".to_owned())],
                        "{}".to_owned(),
                    ),
                    false => crate::debate::debate_answer(number, request),
                },
            );
        let servers = Servers::start(1);
        let home = with_cluster(with_provider(FakeKind::Anthropic, &fake), &servers);
        home.write("MOVE.md", crate::debate::MOVE);
        let _worker = Worker::start(&home, &["--slots", "1", "--isolation", "jail"]);
        let CommandOutput { code, out, err } =
            home.run(&["debate", "MOVE.md", "--rounds", "2", "--json"]);
        assert_eq!(code, expected, "{err}");
        if code != 0 {
            assert!(err.contains("no conversation completed a round"), "{err}");
            assert!(err.contains("resume with `assize runs resume"), "{err}");
            continue;
        }
        let verdict: Value = serde_json::from_str(&out).unwrap();
        assert!(verdict["isolation"].as_str().unwrap().starts_with("the cluster: jail"), "{out}");
        assert_eq!(verdict["partial"]["i2"]["completed_rounds"], 0);
        assert_eq!(verdict["conversation_logs"]["i1"].as_array().unwrap().len(), 4);
    }
}

#[test]
fn failed_cluster_run_has_the_same_exit_code_and_message_as_a_local_run() {
    let failure = |home: &Home, args: &[&str]| {
        let CommandOutput { code, err, .. } = home.run(args);
        let is_why = |line: &&str| line.starts_with("error:") || line.starts_with("hint:");
        let why: Vec<&str> = err.lines().filter(is_why).collect();
        // Remove all digits: the amount that a failed run has spent depends on the order of the answers.
        let why = why.join("\n").replace(|c: char| c.is_ascii_digit(), "");
        assert!(!why.is_empty(), "{err}");
        (code, why)
    };
    let refusing = FakeProvider::always(FakeKind::Anthropic, FakeReply::status(401));
    let answering = FakeProvider::with_prompt_cache(Latency::default(), numbered_reply);
    let limited = ["--rounds", "2", "--moves", "1", "--max-tokens", "20000", "--yes", "--quiet"];
    let limited = [&["consult", "CRSA"], &limited[..]].concat();
    for (expected, fake, args) in
        [(3, &refusing, &["run", "say one"][..]), (5, &answering, &limited)]
    {
        let servers = Servers::start(1);
        let local = with_provider(FakeKind::Anthropic, fake);
        let home = with_cluster(with_provider(FakeKind::Anthropic, fake), &servers);
        let _worker = Worker::start(&home, &["--slots", "1", "--isolation", "jail"]);
        let local = failure(&local, args);
        assert_eq!(local.0, expected, "{local:?}");
        assert_eq!(failure(&home, args), local);
    }
}

#[test]
fn worker_fills_its_warm_pool_at_start_and_removes_it_on_exit() {
    let servers = Servers::start(1);
    let home = with_cluster(home(), &servers).set("ASSIZE_SANDBOX_POOL", "5");
    let mut worker = Worker::start(&home, &["--slots", "2", "--isolation", "jail"]);
    let processes = || descendant_processes(worker.child.id().cast_signed());
    // Each sandbox has three processes: the supervisor of the jail, the first process of the jail, and the
    // interpreter. Two slots limit the pool to two sandboxes.
    wait_for("two idle sandboxes", || processes().len() == 6);
    let sandboxes = processes();
    worker.signal(Signal::TERM);
    worker.child.wait().unwrap();
    wait_for("the sandboxes of the worker to end", || {
        !sandboxes.iter().any(|id| process_exists(*id))
    });
}
