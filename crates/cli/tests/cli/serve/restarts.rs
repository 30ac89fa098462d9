//! Tests of servers that are stopped, killed and started again: their runs are resumed, with the same results as
//! without the interruption.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{TestServer, consult_body, debate_body, event_names, fibonacci_body, home};
use crate::exec::wait_for;

/// Waits for a run to succeed, and returns its result without the parts that differ between executions.
fn result_of(serving: &TestServer<'_>, run: &str) -> Value {
    let mut shown = serving.wait_for_end(run);
    assert_eq!(shown["status"], "done", "{shown}");
    let mut result = shown["result"].take();
    for name in ["origin", "spent"] {
        result.as_object_mut().unwrap().remove(name);
    }
    if let Some(history) = result["history"].as_array_mut() {
        for attempt in history {
            attempt["execution"] = attempt["execution"]["stdout"].take();
        }
    }
    result
}

/// Number of occurrences of each event of a run. Events that differ only in run id or times count as the same event.
/// The order of events is ignored, because parallel steps finish in any order.
fn event_counts(serving: &TestServer<'_>, run: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let events = serving.wait_for_events(run, None).into_iter().skip(1);
    // Leave out the events about lost calls: the number of calls in flight varies when the server is killed.
    for mut event in events.filter(|event| event.name != "calls_lost") {
        for name in ["run", "at", "duration_ms"] {
            event.data.as_object_mut().unwrap().remove(name);
        }
        *counts.entry(format!("{} {}", event.name, event.data)).or_default() += 1;
    }
    counts
}

/// Requests for ten runs: two consultations, five debates and three code runs.
fn ten_requests() -> Vec<Value> {
    let mut all = vec![consult_body(), consult_body()];
    all.extend((0..5).map(|_| debate_body()));
    all.extend((0..3).map(|_| fibonacci_body()));
    all
}

#[test]
fn runs_of_a_killed_server_resume_with_the_same_results_as_without_the_kill() {
    let calm = home();
    let serving = TestServer::start(&calm, &[]);
    let undisturbed: Vec<(Value, BTreeMap<String, usize>)> = ten_requests()
        .into_iter()
        .map(|request| {
            let run = serving.start_run(request);
            (result_of(&serving, &run), event_counts(&serving, &run))
        })
        .collect();
    drop(serving);
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "30");
    let serving = TestServer::start(&home, &[]);
    let runs: Vec<String> =
        ten_requests().into_iter().map(|request| serving.start_run(request)).collect();
    let kills: u32 =
        std::env::var("ASSIZE_TEST_KILLS").map_or(2, |count| count.parse::<u32>().unwrap() / 10);
    let mut serving = serving;
    let mut dice = fastrand::Rng::with_seed(0xa55);
    for _ in 0..kills.max(2) {
        // Kill the server after a random number of events.
        let some = runs[dice.usize(..7)].clone();
        serving.block_on(async {
            let mut stream =
                serving.open_event_stream(&format!("/api/runs/{some}/events"), None).await;
            for _ in 0..dice.usize(2..12) {
                stream.next().await;
            }
        });
        serving.kill();
        serving = TestServer::start(&home, &[]);
    }
    for (run, (result, counts)) in runs.iter().zip(&undisturbed) {
        assert_eq!(&result_of(&serving, run), result, "{run}");
        assert_eq!(&event_counts(&serving, run), counts, "{run}");
    }
    assert_eq!(serving.stop(), 0);
}

#[test]
fn restarted_server_resumes_interrupted_runs_but_not_cancelled_runs() {
    // The model is so slow that the debate still runs when the server is stopped.
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "200");
    let serving = TestServer::start(&home, &[]);
    let run = serving.start_run(debate_body());
    let seen = serving.block_on(async {
        let mut stream = serving.open_event_stream(&format!("/api/runs/{run}/events"), None).await;
        let mut seen = Vec::new();
        while seen.len() < 3 {
            seen.push(stream.next().await.unwrap());
        }
        seen
    });
    let cancelled = serving.start_run(debate_body());
    serving.post(&format!("/api/runs/{cancelled}/cancel"), json!({})).success_json();
    serving.wait_for_end(&cancelled);
    assert_eq!(serving.stop(), 0);
    let listed: Value = serde_json::from_str(&home.run(&["runs", "list", "--json"]).out).unwrap();
    let status = |id: &str| {
        let all = listed.as_array().unwrap().iter();
        all.clone().find(|run| run["id"] == json!(id)).unwrap()["status"].clone()
    };
    assert_eq!((status(&run), status(&cancelled)), (json!("stopped"), json!("cancelled")));
    // A client that reconnects after the restart gets the remaining events.
    let serving = TestServer::start(&home, &[]);
    let rest = serving.wait_for_events(&run, seen.last().unwrap().id);
    assert_eq!(*event_names(&rest).last().unwrap(), "run_ended");
    let whole = serving.wait_for_events(&run, None);
    let again: Vec<_> = seen[1..].iter().chain(&rest[1..]).collect();
    assert!(again.into_iter().eq(&whole[1..]));
    // A run that the user cancelled stays cancelled.
    assert_eq!(
        serving.get(&format!("/api/runs/{cancelled}")).success_json()["status"],
        "cancelled"
    );
}

#[test]
fn server_resumes_the_run_of_a_killed_command_only_on_request() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "50");
    home.write("MOVE.md", crate::debate::MOVE);
    let mut command = home.command(&["debate", "MOVE.md"]).spawn().unwrap();
    let listed =
        || serde_json::from_str::<Value>(&home.run(&["runs", "list", "--json"]).out).unwrap();
    wait_for("the run to be stored", || listed()[0]["id"].is_string());
    let serving = TestServer::start(&home, &[]);
    let run = listed()[0]["id"].as_str().unwrap().to_owned();
    // The `assize debate` process still holds the lease on the run.
    serving.post(&format!("/api/runs/{run}/resume"), json!({})).problem_document(409);
    command.kill().unwrap();
    command.wait().unwrap();
    drop(serving);
    let serving = TestServer::start(&home, &[]);
    assert_eq!(serving.get(&format!("/api/runs/{run}")).success_json()["status"], "stopped");
    assert_eq!(
        serving.get("/api/runs?status=stopped").success_json()["runs"].as_array().unwrap().len(),
        1
    );
    assert_eq!(serving.post(&format!("/api/runs/{run}/resume"), json!({})).status, 201);
    assert_eq!(serving.wait_for_end(&run)["status"], "done");
}

#[test]
fn second_server_with_the_same_store_can_stream_and_cancel_runs_of_the_first_server() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "400");
    let one = TestServer::start(&home, &[]);
    let run = one.start_run(debate_body());
    let two = TestServer::start(&home, &[]);
    // The second server shows the run and streams its events, but does not take over its lease.
    let shown = two.get(&format!("/api/runs/{run}")).success_json();
    assert_eq!((&shown["status"], &shown["executed_here"]), (&json!("running"), &json!(false)));
    let (there, here) = (two.wait_for_events(&run, None), one.wait_for_events(&run, None));
    assert_eq!(there[1..], here[1..]);
    // The second server can cancel a run of the first server.
    let run = one.start_run(debate_body());
    let stopped = two.post(&format!("/api/runs/{run}/cancel"), json!({}));
    assert_eq!((stopped.status, &stopped.json()["status"]), (202, &json!("cancelled")));
    wait_for("the first server to count the cancelled run", || {
        one.get("/metrics").text.contains("{kind=\"debate\",outcome=\"cancelled\"} 1\n")
    });
    let events = one.wait_for_events(&run, None);
    assert_eq!(
        event_names(&events).iter().filter(|name| **name == "run_ended").count(),
        1,
        "{events:?}"
    );
    two.post(&format!("/api/runs/{run}/cancel"), json!({})).problem_document(409);
}

#[test]
fn new_server_resumes_runs_of_a_dead_server_but_not_of_a_live_one() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "600");
    let one = TestServer::start(&home, &[]);
    let two = TestServer::start(&home, &[]);
    let (left, held) = (one.start_run(debate_body()), two.start_run(debate_body()));
    one.kill();
    let three = TestServer::start(&home, &[]);
    let here = |serving: &TestServer<'_>, run: &str| {
        serving.get(&format!("/api/runs/{run}")).success_json()["executed_here"].clone()
    };
    assert_eq!((here(&three, &left), here(&three, &held)), (json!(true), json!(false)));
    assert_eq!(here(&two, &held), true);
    assert_eq!(two.wait_for_end(&held)["status"], "done");
    assert_eq!(three.wait_for_end(&left)["status"], "done");
    let shown = serde_json::from_str::<Value>(&home.run(&["runs", "show", &held, "--json"]).out);
    assert_eq!(shown.unwrap()["epoch"], 1);
}

#[test]
fn concurrent_resume_requests_start_the_run_once() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "100");
    let serving = TestServer::start(&home, &[]);
    let run = serving.start_run(debate_body());
    serving.post(&format!("/api/runs/{run}/cancel"), json!({})).success_json();
    serving.wait_for_end(&run);
    let request = || {
        let path = format!("{}/api/runs/{run}/resume", serving.address);
        serving.client.post(path).bearer_auth(&serving.token).send()
    };
    let mut statuses: Vec<u16> = serving.block_on(async {
        let mut all = tokio::task::JoinSet::new();
        (0..20).for_each(|_| drop(all.spawn(request())));
        all.join_all().await.into_iter().map(|answer| answer.unwrap().status().as_u16()).collect()
    });
    statuses.sort_unstable();
    assert_eq!((statuses[0], &statuses[1..]), (201, &[409; 19][..]));
    assert_eq!(serving.wait_for_end(&run)["status"], "done");
}

#[test]
fn incomplete_requests_do_not_keep_the_server_from_stopping() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "100");
    let serving = TestServer::start(&home, &[]);
    let run = serving.start_run(debate_body());
    let lines = [
        "GET /api/runs HTTP/1.1\r\nHo",
        "POST /api/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{",
    ];
    let open: Vec<_> = lines
        .iter()
        .map(|half| {
            let mut line =
                std::net::TcpStream::connect(format!("127.0.0.1:{}", serving.port())).unwrap();
            std::io::Write::write_all(&mut line, half.as_bytes()).unwrap();
            line
        })
        .collect();
    assert_eq!(serving.stop(), 0);
    drop(open);
    let shown = home.run(&["runs", "show", &run, "--json"]).out;
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["status"], "stopped", "{shown}");
    let serving = TestServer::start(&home, &[]);
    assert_eq!(serving.wait_for_end(&run)["status"], "done");
}

#[test]
fn cancelled_run_of_a_dead_server_is_not_resumed() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "600");
    let serving = TestServer::start(&home, &[]);
    let (run, other) = (serving.start_run(debate_body()), serving.start_run(debate_body()));
    let second = TestServer::start(&home, &[]);
    let cancel = format!("/api/runs/{run}/cancel");
    // When the second server answers, it has read from the store that the first server holds both leases.
    assert_eq!(second.get(&format!("/api/runs/{run}")).success_json()["status"], "running");
    serving.kill();
    assert_eq!(second.get(&format!("/api/runs/{run}")).success_json()["status"], "stopped");
    let stopped = second.post(&cancel, json!({}));
    assert_eq!((stopped.status, &stopped.json()["status"]), (202, &json!("cancelled")));
    assert_eq!(second.wait_for_events(&run, None).last().unwrap().name, "run_ended");
    second.kill();
    let serving = TestServer::start(&home, &[]);
    assert_eq!(serving.wait_for_end(&other)["status"], "done");
    assert_eq!(serving.get(&format!("/api/runs/{run}")).success_json()["status"], "cancelled");
    assert_eq!(serving.post(&format!("/api/runs/{run}/resume"), json!({})).status, 201);
    assert_eq!(serving.wait_for_end(&run)["status"], "done");
}

#[test]
fn server_does_not_resume_work_runs_outside_of_its_allowed_root_folders() {
    let home = crate::drafts::home_with_project()
        .set("PATH", super::PATH)
        .set("ASSIZE_REHEARSAL_LATENCY_MS", "200");
    let mut command = home.command(&["work", "Add --version flag to watchdog.py"]).spawn().unwrap();
    let listed =
        || serde_json::from_str::<Value>(&home.run(&["runs", "list", "--json"]).out).unwrap();
    wait_for("the run to be stored", || listed()[0]["id"].is_string());
    command.kill().unwrap();
    command.wait().unwrap();
    let run = listed()[0]["id"].as_str().unwrap().to_owned();
    let serving = TestServer::start(&home, &[]);
    serving.post(&format!("/api/runs/{run}/resume"), json!({})).problem_document(403);
    drop(serving);
    let serving = TestServer::start(&home, &["--root", "mine=."]);
    assert_eq!(serving.post(&format!("/api/runs/{run}/resume"), json!({})).status, 201);
    assert_eq!(serving.wait_for_end(&run)["result"]["outcome"], "accepted");
}
