//! Trials that are followed to their end, reconnects, and those who read slowly or not at all.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::{Serving, consult, debate, home, names};
use crate::exec::until;

fn increasing(told: &[super::Told]) -> bool {
    let ids: Vec<u64> = told.iter().filter_map(|told| told.id).collect();
    ids.windows(2).all(|two| two[0] < two[1])
}

#[test]
fn a_consultation_is_followed_to_its_end() {
    let home = home();
    let serving = Serving::start(&home, &[]);
    let run = serving.begin(consult());
    let told = serving.told(&run, None);
    assert_eq!(told[0].name, "snapshot");
    assert_eq!((&told[0].data["run"]["id"], told[0].id), (&json!(run), None));
    assert!(increasing(&told), "{told:?}");
    assert!(told[1..].iter().all(|told| told.id.is_some() && told.data["run"] == json!(run)));
    // The names and fields that others know.
    let first = |name: &str| {
        let found = told.iter().find(|told| told.name == name);
        found.unwrap_or_else(|| panic!("no {name}: {:?}", names(&told))).data.clone()
    };
    let fields = |name: &str, wanted: &[&str]| {
        let data = first(name);
        for field in wanted {
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
    assert_eq!(told.iter().filter(|told| told.name == "sandbox_scored").count(), 5);
    let last = told.last().unwrap();
    assert_eq!((last.name.as_str(), &last.data["status"]), ("run_ended", &json!("done")));

    let shown = serving.get(&format!("/api/runs/{run}")).good();
    assert_eq!((&shown["status"], &shown["held_here"]), (&json!("done"), &json!(false)));
    assert_eq!(shown["label"], "rehearsal, no model was asked");
    assert_eq!(shown["result"]["recommended_moves"].as_array().unwrap().len(), 3);
    let scores = serving.get(&format!("/api/runs/{run}/scores")).good();
    assert_eq!(scores["scores"].as_array().unwrap().len(), 5);
    let said = serving.get(&format!("/api/runs/{run}/transcripts")).good();
    assert_eq!(said["moves"]["m3"]["i2"].as_array().unwrap().len(), 4, "{said}");
    let documents = serving.get(&format!("/api/runs/{run}/documents")).good();
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
    serving.get(&format!("/api/runs/{run}/documents/..%2F..%2Fetc%2Fpasswd")).refused(404);
    serving.get(&format!("/api/runs/{run}/documents/m99.md")).refused(404);
    assert_eq!(serving.stop(), 0);
}

#[test]
fn documents_are_there_as_soon_as_they_are_told_of() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "100");
    let serving = Serving::start(&home, &[]);
    let run = serving.begin(consult());
    serving.block_on(async {
        let mut stream = serving.follow(&format!("/api/runs/{run}/events"), None).await;
        let mut seen = 0;
        // Two of layer 0, two of layer 1, and the first of layer 2.
        while seen < 5 {
            let told = stream.next().await.unwrap();
            for name in told.data["output"].as_array().into_iter().flatten() {
                let path = format!("/api/runs/{run}/documents/{}", name.as_str().unwrap());
                let document = serving.text(&path).await;
                assert!(document.contains("> **REHEARSAL"), "{name}: {document}");
                seen += 1;
            }
        }
    });
    assert_eq!(serving.get(&format!("/api/runs/{run}")).good()["status"], "running");
    serving.post(&format!("/api/runs/{run}/cancel"), json!({})).good();
    serving.end_of(&run);
    // What was written stays.
    let listed = serving.get(&format!("/api/runs/{run}/documents")).good();
    assert!(listed.to_string().contains("F1.md"), "{listed}");
}

#[test]
fn a_program_is_followed_to_its_end() {
    let home = home();
    let serving = Serving::start(&home, &[]);
    let run = serving.begin(json!({
        "kind": "run", "task": "Calculate fibonacci(10)", "expect": "55",
        "files": [{"name": "data/notes.txt", "text": "some"}, {"name": "dot.png", "base64": "iVBORw0KGgo="}],
        "settings": {"memory": "128M", "timeout_seconds": 20},
    }));
    let told = serving.told(&run, None);
    let attempt = ["code_generated", "execution_started", "execution_complete"];
    let expected = [&["snapshot"][..], &attempt, &["code_finished", "run_ended"]].concat();
    assert_eq!(names(&told), expected);
    let said = serving.get(&format!("/api/runs/{run}/transcripts")).good();
    assert!(said["attempts"][0]["execution"]["stdout"].as_str().unwrap().contains("55"), "{said}");
    let kept = serving.get(&format!("/api/runs/{run}/artifacts")).good();
    let called = |whose: &str| -> Vec<&str> {
        kept[whose].as_array().unwrap().iter().map(|file| file["name"].as_str().unwrap()).collect()
    };
    assert_eq!(called("given"), ["data/notes.txt", "dot.png"]);
    assert_eq!((called("left"), called("kept")), (vec![], vec!["task.txt"]));
    let picture = serving.get(&format!("/api/runs/{run}/artifacts/dot.png"));
    assert_eq!((picture.header("content-type"), picture.status), ("image/png", 200));
    assert!(picture.header("content-disposition").starts_with("inline; "), "{picture:?}");
    let notes = serving.get(&format!("/api/runs/{run}/artifacts/data/notes.txt"));
    assert_eq!(
        (notes.text.as_str(), notes.header("content-type")),
        ("some", "text/plain; charset=utf-8")
    );
    serving.get(&format!("/api/runs/{run}/documents")).refused(404);
    serving.get(&format!("/api/runs/{run}/scores")).refused(404);
}

#[test]
fn what_a_program_writes_is_told_while_it_runs() {
    let home = home();
    let serving = Serving::start(&home, &[]);
    let run = serving.begin(json!({"kind": "run", "task": "Count down from ten"}));
    let path = format!("/api/runs/{run}/events");
    serving.block_on(async {
        let mut stream = serving.follow(&path, None).await;
        let mut text = String::new();
        while !text.contains("9\n") {
            let one = stream.next().await.unwrap();
            assert_ne!(one.name, "execution_complete", "it was over before anything was told");
            if one.name == "execution_output" {
                assert_eq!((one.id, &one.data["run"]), (None, &json!(run)));
                text.push_str(one.data["text"].as_str().unwrap());
            }
        }
        // Whoever comes late hears what was written before.
        let mut late = serving.follow(&path, None).await;
        let mut first = late.next().await.unwrap();
        while first.data["stream"] != "stdout" {
            first = late.next().await.unwrap();
        }
        assert!(first.data["text"].as_str().unwrap().starts_with("10\n"), "{first:?}");
        let told = stream.rest().await;
        assert_eq!(told.last().unwrap().name, "run_ended");
        assert_eq!(late.rest().await.last().unwrap().name, "run_ended");
    });
}

#[test]
fn whoever_calls_again_hears_the_rest_and_nothing_twice() {
    let home = home();
    let serving = Serving::start(&home, &[]);
    let run = serving.begin(debate());
    let whole = serving.told(&run, None);
    assert_eq!(whole.last().unwrap().name, "run_ended");
    // After each of them.
    for (index, told) in whole.iter().enumerate().skip(1) {
        let path = format!("/api/runs/{run}/events");
        if index + 1 == whole.len() {
            // All of it was heard: whoever knows to stop at that does.
            let token = format!("Bearer {}", serving.token);
            let last = told.id.unwrap().to_string();
            let headers = [("authorization", token.as_str()), ("last-event-id", last.as_str())];
            let answer = serving.raw(reqwest::Method::GET, &path, &headers, "");
            assert_eq!((answer.status, answer.text.as_str()), (204, ""));
            continue;
        }
        let rest = serving.told(&run, told.id);
        assert_eq!(rest[0].name, "snapshot");
        assert_eq!(rest[1..], whole[index + 1..]);
        let by_query = serving.block_on(async {
            serving.follow(&format!("{path}?after={}", told.id.unwrap()), None).await.rest().await
        });
        assert_eq!(by_query[1..], whole[index + 1..]);
    }
    let token = format!("Bearer {}", serving.token);
    for wrong in ["x", "-1", "1.5", "99999999999999999999999"] {
        let headers = [("authorization", token.as_str()), ("last-event-id", wrong)];
        let path = format!("/api/runs/{run}/events");
        serving.raw(reqwest::Method::GET, &path, &headers, "").refused(400);
    }
    serving.get("/api/runs/debate-nosuch/events").refused(404);
}

#[test]
fn one_stream_carries_several_runs() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "5");
    let serving = Serving::start(&home, &[]);
    let (one, two) = (serving.begin(debate()), serving.begin(debate()));
    let other = serving.begin(debate());
    serving.block_on(async {
        let mut stream = serving.follow(&format!("/api/events?runs={one},{two}"), None).await;
        let snapshot = stream.next().await.unwrap();
        assert_eq!(snapshot.data["runs"].as_array().unwrap().len(), 2);
        let (mut all, mut ended) = (Vec::new(), 0);
        while ended < 2 {
            let told = stream.next().await.unwrap();
            assert!(told.data["run"] != json!(other), "{told:?}");
            ended += usize::from(told.name == "run_ended");
            all.push(told);
        }
        assert!(increasing(&all));
        // Each of them whole, as by itself.
        for run in [&one, &two] {
            let path = format!("/api/runs/{run}/events");
            let alone = serving.follow(&path, None).await.rest().await;
            let own = all.iter().filter(|told| told.data["run"] == json!(run));
            assert!(own.eq(&alone[1..]));
        }
    });
    // Of all runs: from now on.
    serving.block_on(async {
        let mut stream = serving.follow("/api/events", None).await;
        assert_eq!(stream.next().await.unwrap().name, "snapshot");
        let run = tokio::task::block_in_place(|| serving_begin(&serving));
        loop {
            let told = stream.next().await.unwrap();
            if told.name == "run_ended" && told.data["run"] == json!(run) {
                break;
            }
        }
    });
    serving.get("/api/events?runs=nobody").refused(404);
}

/// A run that is begun by another process, on the same store.
fn serving_begin(serving: &Serving<'_>) -> String {
    let ran = serving.home.run(&["run", "--json", "Calculate fibonacci(10)"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    told["run"].as_str().unwrap().to_owned()
}

/// A client that asks for events and then does as it likes.
fn silent(serving: &Serving<'_>, run: &str) -> TcpStream {
    let mut line = TcpStream::connect(format!("127.0.0.1:{}", serving.port())).unwrap();
    let (host, token) = (format!("127.0.0.1:{}", serving.port()), &serving.token);
    let request = format!(
        "GET /api/runs/{run}/events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    line.write_all(request.as_bytes()).unwrap();
    line
}

#[test]
fn nobody_waits_for_those_who_are_slow_stuck_or_gone() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "2");
    let serving = Serving::start(&home, &[]);
    let run = serving.begin(json!({"kind": "consult", "ticker": "NVDA", "rounds": 4, "moves": 1}));
    let stuck: Vec<TcpStream> = (0..20).map(|_| silent(&serving, &run)).collect();
    for _ in 0..20 {
        drop(silent(&serving, &run));
    }
    // Half a request, and nothing more.
    let mut half = TcpStream::connect(format!("127.0.0.1:{}", serving.port())).unwrap();
    half.write_all(b"GET /api/runs HTTP/1.1\r\nHo").unwrap();
    let whole = serving.told(&run, None);
    assert_eq!(whole.last().unwrap().name, "run_ended");
    assert_eq!(serving.get(&format!("/api/runs/{run}")).good()["status"], "done");
    // Whoever was stuck finds all of it when they read on.
    for mut line in stuck {
        let mut all = Vec::new();
        line.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
        while !all.windows(5).any(|five| five == b"0\r\n\r\n") {
            let mut some = [0; 4096];
            let count = line.read(&mut some).unwrap();
            assert!(count > 0, "the line was cut");
            all.extend_from_slice(&some[..count]);
        }
        let text = String::from_utf8_lossy(&all);
        for told in &whole[1..] {
            assert!(text.contains(&format!("id: {}\n", told.id.unwrap())), "{told:?}");
        }
    }
    until("the end of all followers", || {
        let figures = serving.get("/metrics").text;
        figures.contains("assize_event_followers{of=\"runs\"} 0\n")
    });
}

#[test]
fn a_run_goes_on_when_everybody_has_left() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "20");
    let serving = Serving::start(&home, &[]);
    let run = serving.begin(debate());
    serving.block_on(async {
        let mut stream = serving.follow(&format!("/api/runs/{run}/events"), None).await;
        stream.next().await.unwrap();
        assert_eq!(stream.retry, Some(1000));
    });
    until("its end", || serving.get(&format!("/api/runs/{run}")).good()["status"] == "done");
}

#[test]
fn what_happened_while_nobody_listened_is_heard_later() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "300");
    let serving = Serving::start(&home, &[]);
    let run = serving.begin(debate());
    let seen = serving.block_on(async {
        let mut stream = serving.follow(&format!("/api/runs/{run}/events"), None).await;
        stream.next().await.unwrap();
        stream.next().await.unwrap()
    });
    until("its end", || serving.get(&format!("/api/runs/{run}")).good()["status"] == "done");
    let rest = serving.told(&run, seen.id);
    let whole = serving.told(&run, None);
    assert!(whole.len() > 8, "{whole:?}");
    assert_eq!(rest[1..], whole[2..]);
}

#[test]
fn whoever_hangs_up_while_it_is_begun_leaves_no_orphan() {
    let home = home().set("ASSIZE_SERVE_STARTS_PER_MINUTE", "10000");
    let serving = Serving::start(&home, &[]);
    let body = debate().to_string();
    let (host, token) = (format!("127.0.0.1:{}", serving.port()), &serving.token);
    let request = format!(
        "POST /api/runs HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for millis in 0..60 {
        let mut line = TcpStream::connect(&host).unwrap();
        line.write_all(request.as_bytes()).unwrap();
        // At one moment or another.
        std::thread::sleep(std::time::Duration::from_micros(millis * 200));
    }
    let left = || {
        let page = serving.get("/api/runs?status=running&limit=200").good();
        page["runs"].as_array().unwrap().len()
    };
    // A run is kept once its sandbox is chosen, which takes a moment.
    until("something is begun", || {
        !serving.get("/api/runs").good()["runs"].as_array().unwrap().is_empty()
    });
    until("the end of all that was begun", || left() == 0);
}

#[test]
fn a_quiet_line_is_kept_alive() {
    let home = home();
    let serving = Serving::start(&home, &[]);
    serving.block_on(async {
        let mut stream = serving.follow("/api/events", None).await;
        assert_eq!(stream.next().await.unwrap().name, "snapshot");
        assert_eq!((stream.retry, stream.heartbeats), (Some(1000), 0));
        // Nothing happens but that.
        stream.heartbeat().await;
    });
}

#[test]
fn a_run_that_is_removed_takes_no_other_with_it() {
    let home = home();
    let serving = Serving::start(&home, &[]);
    let (one, two) = (serving.begin(debate()), serving.begin(debate()));
    let whole = serving.told(&one, None);
    let end = serving.told(&two, None).last().unwrap().id.unwrap();
    serving.block_on(async {
        let mut stream = serving.follow(&format!("/api/events?runs={one},{two}"), None).await;
        assert_eq!(stream.next().await.unwrap().name, "snapshot");
        let removed = tokio::task::block_in_place(|| serving.home.run(&["runs", "rm", &two]));
        assert_eq!(removed.code, 0, "{}", removed.err);
        let mut own = Vec::new();
        while own.last().is_none_or(|told: &super::Told| told.name != "run_ended") {
            let told = stream.next().await.unwrap();
            if told.data["run"] == json!(one) {
                own.push(told);
            }
        }
        assert_eq!(own, whole[1..]);
        // And whoever calls again hears the rest of the others: what was seen of the other counts, too.
        let after = format!("/api/events?runs={one},{two}");
        let mut stream = serving.follow(&after, Some(end)).await;
        assert_eq!(stream.next().await.unwrap().data["missing"], json!([two]));
        let last = whole[whole.len() - 3].id;
        let mut stream = serving.follow(&format!("/api/events?runs={one},{two}"), last).await;
        let snapshot = stream.next().await.unwrap();
        assert_eq!(snapshot.data["missing"], json!([two]));
        assert_eq!(snapshot.data["runs"][0]["id"], json!(one));
        for told in &whole[whole.len() - 2..] {
            assert_eq!(stream.next().await.as_ref(), Some(told));
        }
    });
    // All of it was seen.
    let (path, last) = (format!("/api/runs/{one}/events"), whole.last().unwrap().id.unwrap());
    assert_eq!(serving.get(&format!("{path}?after={last}")).status, 204);
    assert_eq!(serving.get(&format!("{path}?after={}", last - 1)).status, 200);
}
