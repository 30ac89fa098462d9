//! Tests of the event streams of runs: complete runs, reconnects, and clients that read slowly or not at all.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::{TestServer, consult_body, debate_body, event_names, home};
use crate::exec::wait_for;

/// Whether the ids of events are strictly increasing.
fn ids_are_increasing(events: &[super::StreamEvent]) -> bool {
    let ids: Vec<u64> = events.iter().filter_map(|event| event.id).collect();
    ids.windows(2).all(|two| two[0] < two[1])
}

#[test]
fn server_streams_all_events_of_a_consultation_and_serves_its_documents() {
    let home = home();
    let serving = TestServer::start(&home, &[]);
    let run = serving.start_run(consult_body());
    let events = serving.wait_for_events(&run, None);
    assert_eq!(events[0].name, "snapshot");
    assert_eq!((&events[0].data["run"]["id"], events[0].id), (&json!(run), None));
    assert!(ids_are_increasing(&events), "{events:?}");
    assert!(events[1..].iter().all(|event| event.id.is_some() && event.data["run"] == json!(run)));
    // Check the names and fields of events that clients rely on.
    let first = |name: &str| {
        let found = events.iter().find(|event| event.name == name);
        found
            .unwrap_or_else(|| panic!("the run sent no event `{name}`: {:?}", event_names(&events)))
            .data
            .clone()
    };
    let fields = |name: &str, required: &[&str]| {
        let data = first(name);
        for field in required {
            assert!(!data[field].is_null(), "{name}.{field}: {data}");
        }
    };
    fields("layer_start", &["layer", "status"]);
    fields("layer_complete", &["layer", "status", "artifacts"]);
    fields("agent_start", &["layer", "agent_id", "persona"]);
    fields("agent_complete", &["layer", "agent_id", "output"]);
    fields("sandbox_round", &["move", "round", "status"]);
    fields("sandbox_scored", &["move", "score", "breakdown"]);
    fields("pipeline_complete", &["recommended", "other"]);
    assert_eq!(events.iter().filter(|event| event.name == "sandbox_scored").count(), 5);
    let last = events.last().unwrap();
    assert_eq!((last.name.as_str(), &last.data["status"]), ("run_ended", &json!("done")));

    let shown = serving.get(&format!("/api/runs/{run}")).success_json();
    assert_eq!((&shown["status"], &shown["executed_here"]), (&json!("done"), &json!(false)));
    assert_eq!(shown["label"], "rehearsal, no model was called");
    assert_eq!(shown["result"]["recommended_moves"].as_array().unwrap().len(), 3);
    let scores = serving.get(&format!("/api/runs/{run}/scores")).success_json();
    assert_eq!(scores["scores"].as_array().unwrap().len(), 5);
    let logs = serving.get(&format!("/api/runs/{run}/transcripts")).success_json();
    assert_eq!(logs["moves"]["m3"]["i2"].as_array().unwrap().len(), 4, "{logs}");
    let documents = serving.get(&format!("/api/runs/{run}/documents")).success_json();
    let listed: Vec<&str> = documents["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| f["name"].as_str().unwrap())
        .collect();
    for name in ["F1.md", "F2.md", "moves/m5.md", "report.md", "report.html", "report.json"] {
        assert!(listed.contains(&name), "{listed:?}");
    }
    for (name, begins) in
        [("F1.md", "> **REHEARSAL"), ("m5.md", "> **REHEARSAL"), ("report.html", "<!doctype")]
    {
        let document = serving.get(&format!("/api/runs/{run}/documents/{name}"));
        assert!(document.text.to_lowercase().starts_with(&begins.to_lowercase()), "{document:?}");
        assert!(document.header("content-disposition").starts_with("attachment; "), "{document:?}");
        assert!(
            document.header("content-security-policy").starts_with("sandbox; "),
            "{document:?}"
        );
        assert_eq!(document.header("x-content-type-options"), "nosniff");
    }
    serving.get(&format!("/api/runs/{run}/documents/..%2F..%2Fetc%2Fpasswd")).problem_document(404);
    serving.get(&format!("/api/runs/{run}/documents/m99.md")).problem_document(404);
    assert_eq!(serving.stop(), 0);
}

#[test]
fn documents_can_be_read_as_soon_as_an_event_names_them() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "100");
    let serving = TestServer::start(&home, &[]);
    let run = serving.start_run(consult_body());
    serving.block_on(async {
        let mut stream = serving.open_event_stream(&format!("/api/runs/{run}/events"), None).await;
        let mut seen = 0;
        // Read five documents: two of layer 0, two of layer 1, and the first of layer 2.
        while seen < 5 {
            let event = stream.next().await.unwrap();
            for name in event.data["output"].as_array().into_iter().flatten() {
                let path = format!("/api/runs/{run}/documents/{}", name.as_str().unwrap());
                let document = serving.get_text(&path).await;
                assert!(document.contains("> **REHEARSAL"), "{name}: {document}");
                seen += 1;
            }
        }
    });
    assert_eq!(serving.get(&format!("/api/runs/{run}")).success_json()["status"], "running");
    serving.post(&format!("/api/runs/{run}/cancel"), json!({})).success_json();
    serving.wait_for_end(&run);
    // The documents of a cancelled run stay available.
    let listed = serving.get(&format!("/api/runs/{run}/documents")).success_json();
    assert!(listed.to_string().contains("F1.md"), "{listed}");
}

#[test]
fn server_streams_all_events_of_a_code_run_and_serves_its_files() {
    let home = home();
    let serving = TestServer::start(&home, &[]);
    let run = serving.start_run(json!({
        "kind": "run", "task": "Calculate fibonacci(10)", "expect": "55",
        "files": [{"name": "data/notes.txt", "text": "some"}, {"name": "dot.png", "base64": "iVBORw0KGgo="}],
        "settings": {"memory": "128M", "timeout_seconds": 20},
    }));
    let events = serving.wait_for_events(&run, None);
    let attempt = ["code_generated", "execution_started", "execution_complete"];
    let expected = [&["snapshot"][..], &attempt, &["code_finished", "run_ended"]].concat();
    assert_eq!(event_names(&events), expected);
    let logs = serving.get(&format!("/api/runs/{run}/transcripts")).success_json();
    assert!(logs["attempts"][0]["execution"]["stdout"].as_str().unwrap().contains("55"), "{logs}");
    let files = serving.get(&format!("/api/runs/{run}/artifacts")).success_json();
    let named = |kind: &str| -> Vec<&str> {
        files[kind].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect()
    };
    assert_eq!(named("inputs"), ["data/notes.txt", "dot.png"]);
    assert_eq!((named("outputs"), named("other")), (vec![], vec!["task.txt"]));
    let picture = serving.get(&format!("/api/runs/{run}/artifacts/dot.png"));
    assert_eq!((picture.header("content-type"), picture.status), ("image/png", 200));
    assert!(picture.header("content-disposition").starts_with("inline; "), "{picture:?}");
    let notes = serving.get(&format!("/api/runs/{run}/artifacts/data/notes.txt"));
    assert_eq!(
        (notes.text.as_str(), notes.header("content-type")),
        ("some", "text/plain; charset=utf-8")
    );
    serving.get(&format!("/api/runs/{run}/documents")).problem_document(404);
    serving.get(&format!("/api/runs/{run}/scores")).problem_document(404);
}

#[test]
fn server_streams_program_output_while_the_program_runs() {
    let home = home();
    let serving = TestServer::start(&home, &[]);
    let run = serving.start_run(json!({"kind": "run", "task": "Count down from ten"}));
    let path = format!("/api/runs/{run}/events");
    serving.block_on(async {
        let mut stream = serving.open_event_stream(&path, None).await;
        let mut text = String::new();
        while !text.contains("9\n") {
            let event = stream.next().await.unwrap();
            assert_ne!(
                event.name, "execution_complete",
                "the program ended before any output was streamed"
            );
            if event.name == "execution_output" {
                assert_eq!((event.id, &event.data["run"]), (None, &json!(run)));
                text.push_str(event.data["text"].as_str().unwrap());
            }
        }
        // A client that connects later also gets the output from before its connection.
        let mut late = serving.open_event_stream(&path, None).await;
        let mut first = late.next().await.unwrap();
        while first.data["stream"] != "stdout" {
            first = late.next().await.unwrap();
        }
        assert!(first.data["text"].as_str().unwrap().starts_with("10\n"), "{first:?}");
        let rest = stream.remaining_events().await;
        assert_eq!(rest.last().unwrap().name, "run_ended");
        assert_eq!(late.remaining_events().await.last().unwrap().name, "run_ended");
    });
}

#[test]
fn reconnecting_client_gets_the_remaining_events_once() {
    let home = home();
    let serving = TestServer::start(&home, &[]);
    let run = serving.start_run(debate_body());
    let whole = serving.wait_for_events(&run, None);
    assert_eq!(whole.last().unwrap().name, "run_ended");
    // Reconnect after each event of the run.
    for (index, event) in whole.iter().enumerate().skip(1) {
        let path = format!("/api/runs/{run}/events");
        if index + 1 == whole.len() {
            // After the last event, the server answers 204, and the client stops reconnecting.
            let token = format!("Bearer {}", serving.token);
            let last = event.id.unwrap().to_string();
            let headers = [("authorization", token.as_str()), ("last-event-id", last.as_str())];
            let answer = serving.request_without_token(reqwest::Method::GET, &path, &headers, "");
            assert_eq!((answer.status, answer.text.as_str()), (204, ""));
            continue;
        }
        let rest = serving.wait_for_events(&run, event.id);
        assert_eq!(rest[0].name, "snapshot");
        assert_eq!(rest[1..], whole[index + 1..]);
        let by_query = serving.block_on(async {
            serving
                .open_event_stream(&format!("{path}?after={}", event.id.unwrap()), None)
                .await
                .remaining_events()
                .await
        });
        assert_eq!(by_query[1..], whole[index + 1..]);
    }
    let token = format!("Bearer {}", serving.token);
    for wrong in ["x", "-1", "1.5", "99999999999999999999999"] {
        let headers = [("authorization", token.as_str()), ("last-event-id", wrong)];
        let path = format!("/api/runs/{run}/events");
        serving
            .request_without_token(reqwest::Method::GET, &path, &headers, "")
            .problem_document(400);
    }
    serving.get("/api/runs/debate-nosuch/events").problem_document(404);
}

#[test]
fn one_event_stream_carries_the_events_of_several_runs() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "5");
    let serving = TestServer::start(&home, &[]);
    let (one, two) = (serving.start_run(debate_body()), serving.start_run(debate_body()));
    let other = serving.start_run(debate_body());
    serving.block_on(async {
        let mut stream =
            serving.open_event_stream(&format!("/api/events?runs={one},{two}"), None).await;
        let snapshot = stream.next().await.unwrap();
        assert_eq!(snapshot.data["runs"].as_array().unwrap().len(), 2);
        let (mut all, mut ended) = (Vec::new(), 0);
        while ended < 2 {
            let event = stream.next().await.unwrap();
            assert!(event.data["run"] != json!(other), "{event:?}");
            ended += usize::from(event.name == "run_ended");
            all.push(event);
        }
        assert!(ids_are_increasing(&all));
        // The shared stream has the same events of each run as the stream of that run alone.
        for run in [&one, &two] {
            let path = format!("/api/runs/{run}/events");
            let alone = serving.open_event_stream(&path, None).await.remaining_events().await;
            let own = all.iter().filter(|event| event.data["run"] == json!(run));
            assert!(own.eq(&alone[1..]));
        }
    });
    // A stream of all runs contains only events that happen after it was opened.
    serving.block_on(async {
        let mut stream = serving.open_event_stream("/api/events", None).await;
        assert_eq!(stream.next().await.unwrap().name, "snapshot");
        let run = tokio::task::block_in_place(|| run_in_another_process(&serving));
        loop {
            let event = stream.next().await.unwrap();
            if event.name == "run_ended" && event.data["run"] == json!(run) {
                break;
            }
        }
    });
    serving.get("/api/events?runs=unknown").problem_document(404);
}

/// Completes a run in a process other than the server, with the same store. Returns the id of the run.
fn run_in_another_process(serving: &TestServer<'_>) -> String {
    let ran = serving.home.run(&["run", "--json", "Calculate fibonacci(10)"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let result: Value = serde_json::from_str(&ran.out).unwrap();
    result["run"].as_str().unwrap().to_owned()
}

/// Opens a connection that requests the events of a run, and does not read the response.
fn connect_without_reading(serving: &TestServer<'_>, run: &str) -> TcpStream {
    let mut connection = TcpStream::connect(format!("127.0.0.1:{}", serving.port())).unwrap();
    let (host, token) = (format!("127.0.0.1:{}", serving.port()), &serving.token);
    let request = format!(
        "GET /api/runs/{run}/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).unwrap();
    connection
}

#[test]
fn slow_stuck_and_disconnected_clients_do_not_delay_a_run() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "2");
    let serving = TestServer::start(&home, &[]);
    let run =
        serving.start_run(json!({"kind": "consult", "ticker": "NVDA", "rounds": 4, "moves": 1}));
    let stuck: Vec<TcpStream> = (0..20).map(|_| connect_without_reading(&serving, &run)).collect();
    for _ in 0..20 {
        drop(connect_without_reading(&serving, &run));
    }
    // One more client sends an incomplete request.
    let mut half = TcpStream::connect(format!("127.0.0.1:{}", serving.port())).unwrap();
    half.write_all(b"GET /api/runs HTTP/1.1\r\nHo").unwrap();
    let whole = serving.wait_for_events(&run, None);
    assert_eq!(whole.last().unwrap().name, "run_ended");
    assert_eq!(serving.get(&format!("/api/runs/{run}")).success_json()["status"], "done");
    // Clients that did not read get all events when they read again.
    for mut connection in stuck {
        let mut all = Vec::new();
        connection.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        while !all.windows(5).any(|five| five == b"0\r\n\r\n") {
            let mut some = [0; 4096];
            let count = connection.read(&mut some).unwrap();
            assert!(count > 0, "the server closed the connection of a client that did not read");
            all.extend_from_slice(&some[..count]);
        }
        let text = String::from_utf8_lossy(&all);
        for event in &whole[1..] {
            assert!(text.contains(&format!("id: {}\n", event.id.unwrap())), "{event:?}");
        }
    }
    wait_for("all streams to close", || {
        let figures = serving.get("/metrics").text;
        figures.contains("assize_event_subscribers{of=\"runs\"} 0\n")
    });
}

#[test]
fn run_continues_after_all_clients_have_disconnected() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "20");
    let serving = TestServer::start(&home, &[]);
    let run = serving.start_run(debate_body());
    serving.block_on(async {
        let mut stream = serving.open_event_stream(&format!("/api/runs/{run}/events"), None).await;
        stream.next().await.unwrap();
        assert_eq!(stream.retry, Some(1000));
    });
    wait_for("the run to end", || {
        serving.get(&format!("/api/runs/{run}")).success_json()["status"] == "done"
    });
}

#[test]
fn events_during_a_disconnection_are_sent_on_reconnect() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "300");
    let serving = TestServer::start(&home, &[]);
    let run = serving.start_run(debate_body());
    let seen = serving.block_on(async {
        let mut stream = serving.open_event_stream(&format!("/api/runs/{run}/events"), None).await;
        stream.next().await.unwrap();
        stream.next().await.unwrap()
    });
    wait_for("the run to end", || {
        serving.get(&format!("/api/runs/{run}")).success_json()["status"] == "done"
    });
    let rest = serving.wait_for_events(&run, seen.id);
    let whole = serving.wait_for_events(&run, None);
    assert!(whole.len() > 8, "{whole:?}");
    assert_eq!(rest[1..], whole[2..]);
}

#[test]
fn client_that_disconnects_while_it_starts_a_run_leaves_no_orphaned_run() {
    let home = home().set("ASSIZE_SERVE_STARTS_PER_MINUTE", "10000");
    let serving = TestServer::start(&home, &[]);
    let body = debate_body().to_string();
    let (host, token) = (format!("127.0.0.1:{}", serving.port()), &serving.token);
    let request = format!(
        "POST /api/runs HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for millis in 0..60 {
        let mut connection = TcpStream::connect(&host).unwrap();
        connection.write_all(request.as_bytes()).unwrap();
        // The client disconnects a little later each time.
        std::thread::sleep(std::time::Duration::from_micros(millis * 200));
    }
    let running = || {
        let page = serving.get("/api/runs?status=running&limit=200").success_json();
        page["runs"].as_array().unwrap().len()
    };
    // Wait for the first run, because a run is stored only after its sandbox was chosen.
    wait_for("the first run to be stored", || {
        !serving.get("/api/runs").success_json()["runs"].as_array().unwrap().is_empty()
    });
    wait_for("all runs to end", || running() == 0);
}

#[test]
fn idle_event_stream_gets_heartbeats() {
    let home = home();
    let serving = TestServer::start(&home, &[]);
    serving.block_on(async {
        let mut stream = serving.open_event_stream("/api/events", None).await;
        assert_eq!(stream.next().await.unwrap().name, "snapshot");
        assert_eq!((stream.retry, stream.heartbeats), (Some(1000), 0));
        stream.heartbeat().await;
    });
}

#[test]
fn removed_run_does_not_affect_other_runs_in_an_event_stream() {
    let home = home();
    let serving = TestServer::start(&home, &[]);
    let (one, two) = (serving.start_run(debate_body()), serving.start_run(debate_body()));
    let whole = serving.wait_for_events(&one, None);
    let end = serving.wait_for_events(&two, None).last().unwrap().id.unwrap();
    serving.block_on(async {
        let mut stream =
            serving.open_event_stream(&format!("/api/events?runs={one},{two}"), None).await;
        assert_eq!(stream.next().await.unwrap().name, "snapshot");
        let removed = tokio::task::block_in_place(|| serving.home.run(&["runs", "rm", &two]));
        assert_eq!(removed.code, 0, "{}", removed.err);
        let mut own = Vec::new();
        while own.last().is_none_or(|event: &super::StreamEvent| event.name != "run_ended") {
            let event = stream.next().await.unwrap();
            if event.data["run"] == json!(one) {
                own.push(event);
            }
        }
        assert_eq!(own, whole[1..]);
        // A client that reconnects with an event id of the removed run still gets the events of the other run.
        let after = format!("/api/events?runs={one},{two}");
        let mut stream = serving.open_event_stream(&after, Some(end)).await;
        assert_eq!(stream.next().await.unwrap().data["missing"], json!([two]));
        let last = whole[whole.len() - 3].id;
        let mut stream =
            serving.open_event_stream(&format!("/api/events?runs={one},{two}"), last).await;
        let snapshot = stream.next().await.unwrap();
        assert_eq!(snapshot.data["missing"], json!([two]));
        assert_eq!(snapshot.data["runs"][0]["id"], json!(one));
        for event in &whole[whole.len() - 2..] {
            assert_eq!(stream.next().await.as_ref(), Some(event));
        }
    });
    // A client that reconnects after the last event gets status 204.
    let (path, last) = (format!("/api/runs/{one}/events"), whole.last().unwrap().id.unwrap());
    assert_eq!(serving.get(&format!("{path}?after={last}")).status, 204);
    assert_eq!(serving.get(&format!("{path}?after={}", last - 1)).status, 200);
}
