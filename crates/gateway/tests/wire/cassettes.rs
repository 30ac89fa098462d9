//! Tests of cassettes: recording, replaying, and damaged files.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use assize_gateway::{
    Cassette, CassetteError, CassetteFilter, CassetteMode, Gateway, GatewayOptions, Rehearsal,
};
use assize_llm::{CallOptions, ErrorKind, Model, ModelRequest, ModelResponse};
use assize_testkit::{FakeKind, FakeProvider, FakeReply};

use crate::gateway;

fn open(path: &Path, mode: CassetteMode) -> Arc<Cassette> {
    Arc::new(Cassette::open(path, mode).unwrap())
}

fn recording(path: &Path) -> GatewayOptions {
    GatewayOptions { cassette: Some(open(path, CassetteMode::Record)), ..GatewayOptions::default() }
}

fn replaying(path: &Path) -> Gateway {
    Gateway::to_cassette(
        open(path, CassetteMode::Replay),
        CassetteFilter::default(),
        GatewayOptions::default(),
    )
}

fn sample(question: &str, sample: u32) -> ModelRequest {
    ModelRequest { sample, ..ModelRequest::question(question) }
}

async fn ask(gateway: &Gateway, request: &ModelRequest) -> ModelResponse {
    gateway.generate(request, CallOptions::default()).await.unwrap()
}

#[tokio::test]
async fn replayed_responses_are_byte_identical_and_no_request_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.cassette");
    let requests = [sample("one", 0), sample("one", 1), sample("one", 2), sample("two", 0)];
    let script = ["a", "b", "c", "d"].map(FakeReply::text);
    let fake = FakeProvider::scripted(FakeKind::Anthropic, script);
    let recorder = gateway(FakeKind::Anthropic, &fake, recording(&path));
    let mut recorded = Vec::new();
    for request in &requests {
        recorded.push(ask(&recorder, request).await);
    }
    drop(recorder);
    assert_eq!(
        fake.captured_requests().len(),
        4,
        "three samples of the same question are three calls"
    );

    let player = replaying(&path);
    for (request, before) in requests.iter().zip(&recorded) {
        let played = ask(&player, request).await;
        assert_eq!(serde_json::to_vec(&played).unwrap(), serde_json::to_vec(before).unwrap());
    }
    assert_eq!(fake.captured_requests().len(), 4, "the replay sends no request");
    let totals = player.ledger().totals();
    assert_eq!((totals.calls, totals.replayed_calls), (0, 4), "the replay costs nothing");
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains(fake.key()), "a cassette contains no API key");
}

#[tokio::test]
async fn recording_to_an_existing_cassette_appends_new_requests() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.cassette");
    let fake =
        FakeProvider::scripted(FakeKind::Ollama, [FakeReply::text("one"), FakeReply::text("two")]);
    ask(&gateway(FakeKind::Ollama, &fake, recording(&path)), &sample("q", 0)).await;
    let again = gateway(FakeKind::Ollama, &fake, recording(&path));
    assert_eq!(ask(&again, &sample("q", 0)).await.text, "one");
    assert_eq!(ask(&again, &sample("q", 1)).await.text, "two");
    assert_eq!(fake.captured_requests().len(), 2, "a recorded request is not sent again");
}

#[tokio::test]
async fn recorded_failure_is_replayed_in_replay_mode_and_retried_in_record_mode() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.cassette");
    let fake = FakeProvider::scripted(
        FakeKind::Anthropic,
        [FakeReply::status(413), FakeReply::text("now")],
    );
    let recorder = gateway(FakeKind::Anthropic, &fake, recording(&path));
    let before = recorder.generate(&sample("q", 0), CallOptions::default()).await.unwrap_err();
    drop(recorder);
    let after =
        replaying(&path).generate(&sample("q", 0), CallOptions::default()).await.unwrap_err();
    assert_eq!(
        (before.kind(), before.to_string(), before.hint.as_deref()),
        (after.kind(), after.to_string(), after.hint.as_deref())
    );
    let again = gateway(FakeKind::Anthropic, &fake, recording(&path));
    assert_eq!(ask(&again, &sample("q", 0)).await.text, "now");
    drop(again);
    assert_eq!(ask(&replaying(&path), &sample("q", 0)).await.text, "now");
}

#[tokio::test]
async fn unrecorded_request_is_reported_with_a_diff_to_the_most_similar_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.cassette");
    let recorder = Gateway::to_rehearsal(Rehearsal::default(), recording(&path));
    for question in ["Is the sky blue?", "What is the price of tea\nin China?", "Why?"] {
        ask(&recorder, &ModelRequest::question(question)).await;
    }
    drop(recorder);
    let player = replaying(&path);
    let request = ModelRequest::question("What is the price of tea\nin Japan?");
    let error = player.generate(&request, CallOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotRecorded);
    let path = path.display().to_string();
    assert_eq!(
        error.to_string().replace(&path, "run.cassette"),
        "the request is not in the cassette `run.cassette`; most similar recorded request:"
    );
    insta::assert_snapshot!(error.detail.unwrap(), @r#"
    --- recorded
    +++ requested
    @@ -5,3 +5,3 @@
         "tail": "What is the price of tea
    -in China?"
    +in Japan?"
       },
    "#);
}

#[tokio::test]
async fn cassette_replays_only_the_requested_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.cassette");
    let fake = FakeProvider::scripted(FakeKind::Ollama, [FakeReply::text("from qwen")]);
    ask(&gateway(FakeKind::Ollama, &fake, recording(&path)), &sample("q", 0)).await;
    let rehearsed = Gateway::to_rehearsal(Rehearsal::default(), recording(&path));
    assert!(
        ask(&rehearsed, &sample("q", 0)).await.rehearsal,
        "the same request to another model is another call"
    );
    drop(rehearsed);
    let ambiguous =
        replaying(&path).generate(&sample("q", 0), CallOptions::default()).await.unwrap_err();
    // The rehearsal model and its provider have the same name, which is not repeated.
    assert!(ambiguous.to_string().ends_with("for ollama qwen3 and for rehearsal"), "{ambiguous}");
    let only = |provider: &str| {
        let asked = CassetteFilter { provider: Some(provider.to_owned()), model: None };
        let cassette = open(&path, CassetteMode::Replay);
        Gateway::to_cassette(cassette, asked, GatewayOptions::default())
    };
    assert_eq!(ask(&only("ollama"), &sample("q", 0)).await.text, "from qwen");
    let none = only("groq").generate(&sample("q", 0), CallOptions::default()).await.unwrap_err();
    assert!(none.to_string().contains("for ollama qwen3, but not for groq"), "{none}");
}

#[tokio::test]
async fn equal_concurrent_calls_receive_the_same_recorded_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.cassette");
    let fake =
        FakeProvider::scripted(FakeKind::Ollama, [FakeReply::text("one"), FakeReply::text("two")]);
    let recorder = gateway(FakeKind::Ollama, &fake, recording(&path));
    let request = sample("q", 0);
    let (a, b) = tokio::join!(ask(&recorder, &request), ask(&recorder, &request));
    assert_eq!(a, b, "both calls return the recorded answer");
    drop(recorder);
    assert_eq!(ask(&replaying(&path), &request).await, a);
}

#[tokio::test]
async fn cassette_with_a_truncated_last_line_loses_only_the_last_call() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.cassette");
    let fake =
        FakeProvider::scripted(FakeKind::Ollama, ["one", "two", "two again"].map(FakeReply::text));
    let recorder = gateway(FakeKind::Ollama, &fake, recording(&path));
    ask(&recorder, &sample("q", 0)).await;
    ask(&recorder, &sample("q", 1)).await;
    drop(recorder);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 20]).unwrap();

    let player = replaying(&path);
    assert_eq!(ask(&player, &sample("q", 0)).await.text, "one");
    assert!(player.generate(&sample("q", 1), CallOptions::default()).await.is_err());
    let recorder = gateway(FakeKind::Ollama, &fake, recording(&path));
    assert_eq!(ask(&recorder, &sample("q", 1)).await.text, "two again");
    drop(recorder);
    let whole = replaying(&path);
    assert_eq!(ask(&whole, &sample("q", 1)).await.text, "two again");
}

#[test]
fn invalid_cassette_is_rejected_and_not_modified() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    let error = |mode| Cassette::open(&path, mode).unwrap_err().to_string();
    // A recorded call whose fingerprint does not match its request.
    let request = serde_json::to_value(sample("q", 0)).unwrap();
    let failure = serde_json::json!({"failure": {"kind": "server", "message": "", "status": null, "hint": null}});
    let forged = serde_json::json!({"fingerprint": "00", "provider": "p", "model": "m", "request": request, "outcome": failure});
    let forged = format!("{{\"assize_cassette\":1}}\n{forged}\n");
    assert!(error(CassetteMode::Replay).contains("cannot open the cassette"));
    for (content, words) in [
        ("my notes\n", "is not a cassette"),
        ("{\"assize_cassette\":9}\n", "version 9"),
        ("{\"assize_cassette\":1}\nnot JSON\n{}\n", "line 2"),
        (forged.as_str(), "line 2 of the cassette"),
    ] {
        fs::write(&path, content).unwrap();
        for mode in [CassetteMode::Replay, CassetteMode::Record] {
            let error = error(mode);
            assert!(error.contains(words), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
    }
}

#[test]
fn cassette_that_is_being_recorded_cannot_be_opened_for_recording_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.cassette");
    let first = Cassette::open(&path, CassetteMode::Record).unwrap();
    let second = Cassette::open(&path, CassetteMode::Record).unwrap_err();
    assert!(matches!(second, CassetteError::Busy { .. }), "{second}");
    drop(first);
    Cassette::open(&path, CassetteMode::Record).unwrap();
}

#[test]
fn cassette_path_of_a_device_or_folder_is_rejected() {
    for device in ["/dev/zero", "/dev/full", "/"] {
        for mode in [CassetteMode::Replay, CassetteMode::Record] {
            let error = Cassette::open(Path::new(device), mode).unwrap_err().to_string();
            assert!(error.contains(device), "{error}");
        }
    }
}
