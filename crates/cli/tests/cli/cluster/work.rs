//! What users ask for, done by workers.

use std::time::Duration;

use assize_testkit::{FakeProvider, Kind, Latency, Reply};
use futures_util::{FutureExt, StreamExt};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::unconstrained;

use super::proof::{asked, said};
use super::{Servers, Worker, joined, status, until};
use crate::exec::home;
use crate::run::{program, with_provider};
use crate::serve::warm::{alive, descendants};
use crate::serve::{Serving, consult, fibonacci, names};
use crate::{Home, Ran};

#[test]
fn commands_have_it_done_by_workers() {
    let servers = Servers::start(1);
    let home = joined(home(), &servers);
    let alone = Home::new().set("PATH", "/usr/local/bin:/usr/bin:/bin");
    let _worker = Worker::start(&home, &["--slots", "3", "--isolation", "jail"]);
    let Ran { code, out, err } = home.run(&["run", "Calculate fibonacci(10)"]);
    assert_eq!((code, out.trim()), (0, "55"), "{err}");
    assert!(err.contains("by a worker of the cluster"), "{err}");
    // The same as on one machine, but for who did it.
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
        let Ran { code, out, err } = home.run(&args);
        assert_eq!(code, 0, "{err}");
        let mut whole: Value = serde_json::from_str(&out).unwrap();
        let made = ["run", "made", "on", "isolation", "status_updates"];
        made.iter().for_each(|name| drop(whole.as_object_mut().unwrap().remove(*name)));
        whole
    };
    assert_eq!(consulted(&home), consulted(&alone));
    // It is all kept there, and nothing here.
    let Ran { out, .. } = home.run(&["runs", "list"]);
    assert_eq!(out.lines().filter(|line| line.contains(" done ")).count(), 2, "{out}");
    assert!(!home.store().exists());
    let Ran { code, out, err } = home.run(&["runs", "show", "latest", "--json"]);
    assert_eq!(code, 0, "{err}");
    let shown: Value = serde_json::from_str(&out).unwrap();
    let walls = shown["result"]["made"]["isolation"].as_str().unwrap();
    assert!(walls.starts_with("the cluster: jail"), "{walls}");
    // Nothing waits any more.
    let status = status(&home);
    assert_eq!((&status["running"], &status["waiting"]), (&json!(0), &json!(0)), "{status}");
    assert_eq!(status["stuck"], json!([]));
}

/// The command line is parsed a second time for the command that made the run.
#[test]
fn resume_and_fork_keep_the_cluster_flag() {
    let servers = Servers::start(1);
    let home = home();
    let address = servers.address();
    let _worker =
        Worker::start(&home, &["--cluster", &address, "--slots", "2", "--isolation", "jail"]);
    let in_cluster = |args: &[&str]| home.run(&[args, &["--cluster", &address]].concat());
    let consult = ["consult", "NVDA", "--rounds", "1", "--moves", "1", "--yes", "--quiet"];
    let Ran { code, err, .. } = in_cluster(&[&consult[..], &["--max-tokens", "20000"]].concat());
    assert_eq!(code, 5, "{err}");
    let Ran { code, err, .. } =
        in_cluster(&["runs", "resume", "latest", "--max-tokens", "10000000", "--quiet"]);
    assert_eq!(code, 0, "{err}");
    let Ran { code, err, .. } = in_cluster(&["runs", "fork", "latest", "--yes", "--quiet"]);
    assert_eq!(code, 0, "{err}");
    let Ran { out, .. } = in_cluster(&["runs", "list"]);
    assert_eq!(out.matches(" done ").count(), 2, "{out}");
    // Nothing opened the store of this machine.
    assert!(!home.store().exists());
}

#[test]
fn hints_about_runs_repeat_the_cluster_flag() {
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
    for (Ran { code, err, .. }, hint) in [
        (debated, "what was said: `assize runs show debate-"),
        (ran, "it left sine.svg (1,006 bytes): `assize runs files run-"),
        (shown, "code and output: `assize runs show run-"),
    ] {
        let line = err.lines().find(|line| line.contains(hint));
        assert!(code == 0 && line.is_some_and(|line| line.contains(&flag)), "{hint}: {err}");
    }
    // As the hint says.
    assert_eq!(in_cluster(&["runs", "show", "debate-", "--transcripts"]).code, 0);
}

#[test]
fn what_waits_is_said_and_done_by_who_fits() {
    let servers = Servers::start(1);
    let home = joined(home(), &servers);
    let picky = joined(crate::exec::home(), &servers).set("ASSIZE_CLUSTER_NEEDS", "site=north");
    let serving = Serving::start(&picky, &[]);
    let _south = Worker::start(&home, &["--slots", "1", "--label", "site=south"]);
    let run = serving.begin(fibonacci());
    let standing = || serving.get(&format!("/api/runs/{run}")).good()["status"].clone();
    until("it is stuck", || {
        status(&home)["stuck"].as_array().is_some_and(|stuck| stuck.len() == 1)
    });
    assert_eq!(standing(), "waiting");
    let Ran { out, err, .. } = home.run(&["cluster", "status"]);
    assert!(err.contains("no worker can do what needs a sandbox of 256 MB, site=north"), "{err}");
    assert!(out.contains("0 of 1 sandboxes are in use; 0 runs are held, 1 waits"), "{out}");
    let Ran { code, err, .. } = home.run(&["runs", "resume", &run]);
    assert_eq!(code, 2);
    assert!(err.contains("waits for a worker already"), "{err}");
    let _north = Worker::start(&home, &["--slots", "1", "--label", "site=north"]);
    let ended = serving.end_of(&run);
    assert_eq!((&ended["status"], &ended["result"]["answer"]), (&json!("done"), &json!("55\n")));
    // What a run cannot have in a cluster is refused, and nothing is begun.
    let Ran { code, err, .. } = home.run(&["run", "Calculate fibonacci(10)", "--session", "mine"]);
    assert_eq!(code, 2);
    assert!(err.contains("on one machine"), "{err}");
    let Ran { code, err, .. } = home.run(&["worker", "--label", "north"]);
    assert_eq!(code, 2);
    assert!(err.contains("is not like NAME=VALUE"), "{err}");
}

#[test]
fn any_server_shows_what_any_worker_does() {
    let servers = Servers::start(1);
    let home = joined(home(), &servers);
    let other = joined(crate::exec::home(), &servers);
    let (first, second) = (Serving::start(&home, &[]), Serving::start(&other, &[]));
    let slow = joined(crate::exec::home(), &servers).set("ASSIZE_REHEARSAL_LATENCY_MS", "20");
    let worker = Worker::start(&slow, &["--slots", "2"]);
    let run = first.begin(consult());
    let told = |serving: &Serving<'_>| {
        let mut told = serving.told(&run, None);
        // The snapshot says who holds it.
        told.retain(|told| told.id.is_some());
        told
    };
    let seen = told(&second);
    assert_eq!(names(&seen).last(), Some(&"run_ended"));
    assert!(seen == told(&first));
    // Nodes are known to each other; one that is slow to answer may be missing for a moment.
    until("all are seen", || {
        let status = status(&home);
        let nodes = status["nodes"].as_array().unwrap();
        let roles: Vec<&str> = nodes.iter().map(|node| node["role"].as_str().unwrap()).collect();
        roles == ["server", "server", "worker"] && nodes[2]["id"] == worker.id.as_str()
    });
    // A server speaks of the cluster, and not of its own machine.
    let about = first.get("/api/about").good();
    let told = [&about["cluster"], &about["store"], &about["isolation"]];
    assert_eq!(told, [&json!("assize"), &json!(servers.address()), &Value::Null]);
    let seen = first.get("/api/cluster").good();
    assert_eq!((&seen["slots"], &seen["stuck"]), (&json!(2), &json!([])), "{seen}");
    // It can be stopped from anywhere.
    let run = first.begin(json!({"kind": "consult", "ticker": "NVDA", "rounds": 50}));
    until("it is held", || second.get(&format!("/api/runs/{run}")).good()["status"] == "running");
    assert_eq!(second.post(&format!("/api/runs/{run}/cancel"), json!({})).status, 202);
    assert_eq!(first.end_of(&run)["status"], "cancelled");
    let holds = |node: &Value| node["holds"].as_array().unwrap().len();
    until("all is let go", || {
        let status = super::status(&home);
        let held: usize = status["nodes"].as_array().unwrap().iter().map(holds).sum();
        (&status["busy"], held) == (&json!(0), 0)
    });
}

#[test]
fn what_a_program_writes_elsewhere_is_seen_while_it_runs() {
    let code = "import time\nprint('one', flush=True)\ntime.sleep(3)\nprint('two')";
    let fake = FakeProvider::always(Kind::Anthropic, Reply::text(program(code).to_string()));
    let servers = Servers::start(1);
    let home = joined(with_provider(Kind::Anthropic, &fake), &servers);
    let serving = Serving::start(&home, &[]);
    let _worker = Worker::start(&home, &["--slots", "1", "--isolation", "jail"]);
    let run = serving.begin(json!({"kind": "run", "task": "say one, then two"}));
    let told = serving.told(&run, None);
    let at = |name: &str| told.iter().position(|told| told.name == name && told.data["text"] != "");
    let wrote = &told[at("execution_output").unwrap()];
    assert_eq!((&wrote.data["text"], &wrote.data["stream"]), (&json!("one\n"), &json!("stdout")));
    assert!(at("execution_output") < at("run_ended"));
    assert_eq!(serving.end_of(&run)["result"]["answer"], "one\ntwo\n");
}

#[test]
fn workers_are_replaced_one_after_the_other_and_nothing_is_given_up() {
    let fake = FakeProvider::caching(
        Latency { to_begin: Duration::from_millis(100), ..Latency::default() },
        said,
    );
    let servers = Servers::start(1);
    let home = joined(with_provider(Kind::Anthropic, &fake), &servers);
    let serving = Serving::start(&home, &[]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut heard = runtime.block_on(async {
        let client = async_nats::connect(servers.address()).await.unwrap();
        client.subscribe("assize.ask.>").await.unwrap()
    });
    let run = serving.begin(asked("CRSA"));
    let mut before = 0;
    // More often than it may be begun without getting on.
    for _ in 0..7 {
        let mut worker = Worker::start(&home, &["--slots", "5", "--isolation", "jail"]);
        fake.wait_for_requests(before + 12);
        before = fake.captured().len();
        worker.signal(Signal::TERM);
        assert_eq!(worker.child.wait().unwrap().code(), Some(0), "{}", worker.said());
        assert_eq!(serving.get(&format!("/api/runs/{run}")).good()["status"], "waiting");
    }
    let _worker = Worker::start(&home, &["--slots", "5", "--isolation", "jail"]);
    let ended = serving.end_of(&run);
    assert_eq!(ended["status"], "done", "{ended}");
    // It was said of their debates that they can be gone on with.
    let let_go = runtime.block_on(async {
        let mut let_go = 0;
        while let Some(Some(said)) = unconstrained(heard.next()).now_or_never() {
            let_go += usize::from(String::from_utf8_lossy(&said.payload).contains("let_go"));
        }
        let_go
    });
    assert!(let_go > 0);
    // The server can be started anew meanwhile, and leaves it to the workers.
    serving.stop();
    let serving = Serving::start(&home, &[]);
    assert_eq!(serving.get(&format!("/api/runs/{run}")).good()["status"], "done");
}

/// The worker makes the sandbox, and the process that holds the run applies the rules of `docs/failures.md`.
#[test]
fn debate_in_a_cluster_runs_in_a_sandbox_and_keeps_the_failure_rules() {
    let limited = |request: &assize_testkit::Captured, who: &str| {
        crate::debate::task(request).starts_with(who) && !crate::debate::is_scoring(request)
    };
    for (who, expected) in [("You are D2,", 0), ("You are D", 4)] {
        let fake = FakeProvider::answering(Kind::Anthropic, move |number, request| {
            match limited(request, who) {
                true => {
                    Reply::Status(429, vec![("retry-after", "3600".to_owned())], "{}".to_owned())
                }
                false => crate::debate::answer(number, request),
            }
        });
        let servers = Servers::start(1);
        let home = joined(with_provider(Kind::Anthropic, &fake), &servers);
        home.write("MOVE.md", crate::debate::MOVE);
        let _worker = Worker::start(&home, &["--slots", "1", "--isolation", "jail"]);
        let Ran { code, out, err } = home.run(&["debate", "MOVE.md", "--rounds", "2", "--json"]);
        assert_eq!(code, expected, "{err}");
        if code != 0 {
            assert!(err.contains("no conversation completed a round"), "{err}");
            assert!(err.contains("go on with `assize runs resume"), "{err}");
            continue;
        }
        let verdict: Value = serde_json::from_str(&out).unwrap();
        assert!(verdict["isolation"].as_str().unwrap().starts_with("the cluster: jail"), "{out}");
        assert_eq!(verdict["partial"]["i2"]["completed_rounds"], 0);
        assert_eq!(verdict["conversation_logs"]["i1"].as_array().unwrap().len(), 4);
    }
}

#[test]
fn failures_are_told_as_on_one_machine() {
    let told = |home: &Home, args: &[&str]| {
        let Ran { code, err, .. } = home.run(args);
        let is_why = |line: &&str| line.starts_with("error:") || line.starts_with("hint:");
        let why: Vec<&str> = err.lines().filter(is_why).collect();
        // How much was spent depends on what was answered first.
        let why = why.join("\n").replace(|c: char| c.is_ascii_digit(), "");
        assert!(!why.is_empty(), "{err}");
        (code, why)
    };
    let refusing = FakeProvider::always(Kind::Anthropic, Reply::status(401));
    let answering = FakeProvider::caching(Latency::default(), said);
    let limited = ["--rounds", "2", "--moves", "1", "--max-tokens", "20000", "--yes", "--quiet"];
    let limited = [&["consult", "CRSA"], &limited[..]].concat();
    for (expected, fake, args) in
        [(3, &refusing, &["run", "say one"][..]), (5, &answering, &limited)]
    {
        let servers = Servers::start(1);
        let here = with_provider(Kind::Anthropic, fake);
        let home = joined(with_provider(Kind::Anthropic, fake), &servers);
        let _worker = Worker::start(&home, &["--slots", "1", "--isolation", "jail"]);
        let here = told(&here, args);
        assert_eq!(here.0, expected, "{here:?}");
        assert_eq!(told(&home, args), here);
    }
}

#[test]
fn worker_keeps_idle_sandboxes_from_its_start_to_its_end() {
    let servers = Servers::start(1);
    let home = joined(home(), &servers).set("ASSIZE_SANDBOX_POOL", "5");
    let mut worker = Worker::start(&home, &["--slots", "2", "--isolation", "jail"]);
    let below = || descendants(worker.child.id().cast_signed());
    // A keeper, the first process of the jail and an interpreter each, and no more of them than slots.
    until("two idle sandboxes", || below().len() == 6);
    let sandboxes = below();
    worker.signal(Signal::TERM);
    worker.child.wait().unwrap();
    until("the end of its sandboxes", || !sandboxes.iter().any(|id| alive(*id)));
}
