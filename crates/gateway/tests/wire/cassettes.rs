//! Recording, replaying, and what can go wrong with a cassette.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use assize_gateway::{Asked, Cassette, CassetteError, CassetteMode, Gateway, Options, Rehearsal};
use assize_llm::{Call, ErrorKind, Model, Request, Response};
use assize_testkit::{FakeProvider, Kind, Reply};

use crate::gateway;

fn open(path: &Path, mode: CassetteMode) -> Arc<Cassette> {
    Arc::new(Cassette::open(path, mode).unwrap())
}

fn recording(path: &Path) -> Options {
    Options { cassette: Some(open(path, CassetteMode::Record)), ..Options::default() }
}

fn player_of(path: &Path) -> Gateway {
    Gateway::to_cassette(open(path, CassetteMode::Replay), Asked::default(), Options::default())
}

fn sample(question: &str, sample: u32) -> Request {
    Request { sample, ..Request::question(question) }
}

async fn ask(gateway: &Gateway, request: &Request) -> Response {
    gateway.generate(request, Call::default()).await.unwrap()
}

#[tokio::test]
async fn a_replay_is_byte_identical_and_makes_no_call() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.cassette");
    let requests = [sample("one", 0), sample("one", 1), sample("one", 2), sample("two", 0)];
    let script = ["a", "b", "c", "d"].map(Reply::text);
    let fake = FakeProvider::scripted(Kind::Anthropic, script);
    let recorder = gateway(Kind::Anthropic, &fake, recording(&path));
    let mut recorded = Vec::new();
    for request in &requests {
        recorded.push(ask(&recorder, request).await);
    }
    drop(recorder);
    assert_eq!(fake.captured().len(), 4, "three equal questions are three calls");

    let player = player_of(&path);
    for (request, before) in requests.iter().zip(&recorded) {
        let played = ask(&player, request).await;
        assert_eq!(serde_json::to_vec(&played).unwrap(), serde_json::to_vec(before).unwrap());
    }
    assert_eq!(fake.captured().len(), 4, "the replay asked nobody");
    let totals = player.ledger().totals();
    assert_eq!((totals.calls, totals.replayed_calls), (0, 4), "and paid nothing");
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains(fake.key()), "no key is on a cassette");
}

#[tokio::test]
async fn recording_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.cassette");
    let fake = FakeProvider::scripted(Kind::Ollama, [Reply::text("one"), Reply::text("two")]);
    ask(&gateway(Kind::Ollama, &fake, recording(&path)), &sample("q", 0)).await;
    let again = gateway(Kind::Ollama, &fake, recording(&path));
    assert_eq!(ask(&again, &sample("q", 0)).await.text, "one");
    assert_eq!(ask(&again, &sample("q", 1)).await.text, "two");
    assert_eq!(fake.captured().len(), 2, "what is on the cassette is not asked again");
}

#[tokio::test]
async fn a_failure_is_replayed_and_while_recording_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.cassette");
    let fake = FakeProvider::scripted(Kind::Anthropic, [Reply::status(413), Reply::text("now")]);
    let recorder = gateway(Kind::Anthropic, &fake, recording(&path));
    let before = recorder.generate(&sample("q", 0), Call::default()).await.unwrap_err();
    drop(recorder);
    let after = player_of(&path).generate(&sample("q", 0), Call::default()).await.unwrap_err();
    assert_eq!(
        (before.kind(), before.to_string(), before.hint.as_deref()),
        (after.kind(), after.to_string(), after.hint.as_deref())
    );
    let again = gateway(Kind::Anthropic, &fake, recording(&path));
    assert_eq!(ask(&again, &sample("q", 0)).await.text, "now");
    drop(again);
    assert_eq!(ask(&player_of(&path), &sample("q", 0)).await.text, "now");
}

#[tokio::test]
async fn a_request_that_is_not_there_is_shown_against_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.cassette");
    let recorder = Gateway::to_rehearsal(Rehearsal::default(), recording(&path));
    for question in ["Is the sky blue?", "What is the price of tea\nin China?", "Why?"] {
        ask(&recorder, &Request::question(question)).await;
    }
    drop(recorder);
    let player = player_of(&path);
    let request = Request::question("What is the price of tea\nin Japan?");
    let error = player.generate(&request, Call::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotRecorded);
    let path = path.display().to_string();
    assert_eq!(
        error.to_string().replace(&path, "run.cassette"),
        "the request is not on the cassette `run.cassette`; the nearest one differs:"
    );
    insta::assert_snapshot!(error.detail.unwrap(), @r#"
    --- on the cassette
    +++ asked
    @@ -5,3 +5,3 @@
         "tail": "What is the price of tea
    -in China?"
    +in Japan?"
       },
    "#);
}

#[tokio::test]
async fn a_cassette_answers_for_the_model_that_was_asked_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.cassette");
    let fake = FakeProvider::scripted(Kind::Ollama, [Reply::text("from qwen")]);
    ask(&gateway(Kind::Ollama, &fake, recording(&path)), &sample("q", 0)).await;
    let rehearsed = Gateway::to_rehearsal(Rehearsal::default(), recording(&path));
    assert!(ask(&rehearsed, &sample("q", 0)).await.rehearsal, "another model is another call");
    drop(rehearsed);
    let which = player_of(&path).generate(&sample("q", 0), Call::default()).await.unwrap_err();
    assert!(which.to_string().contains("twice, asked of qwen3 and of rehearsal"), "{which}");
    let only = |provider: &str| {
        let asked = Asked { provider: Some(provider.to_owned()), model: None };
        let cassette = open(&path, CassetteMode::Replay);
        Gateway::to_cassette(cassette, asked, Options::default())
    };
    assert_eq!(ask(&only("ollama"), &sample("q", 0)).await.text, "from qwen");
    let none = only("groq").generate(&sample("q", 0), Call::default()).await.unwrap_err();
    assert!(none.to_string().contains("asked of ollama qwen3, not of groq"), "{none}");
}

#[tokio::test]
async fn equal_calls_at_once_have_one_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.cassette");
    let fake = FakeProvider::scripted(Kind::Ollama, [Reply::text("one"), Reply::text("two")]);
    let recorder = gateway(Kind::Ollama, &fake, recording(&path));
    let request = sample("q", 0);
    let (a, b) = tokio::join!(ask(&recorder, &request), ask(&recorder, &request));
    assert_eq!(a, b, "the answer that was kept is the answer");
    drop(recorder);
    assert_eq!(ask(&player_of(&path), &request).await, a);
}

#[tokio::test]
async fn a_half_written_last_line_costs_that_line_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.cassette");
    let fake = FakeProvider::scripted(Kind::Ollama, ["one", "two", "two again"].map(Reply::text));
    let recorder = gateway(Kind::Ollama, &fake, recording(&path));
    ask(&recorder, &sample("q", 0)).await;
    ask(&recorder, &sample("q", 1)).await;
    drop(recorder);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 20]).unwrap();

    let player = player_of(&path);
    assert_eq!(ask(&player, &sample("q", 0)).await.text, "one");
    assert!(player.generate(&sample("q", 1), Call::default()).await.is_err());
    let recorder = gateway(Kind::Ollama, &fake, recording(&path));
    assert_eq!(ask(&recorder, &sample("q", 1)).await.text, "two again");
    drop(recorder);
    let whole = player_of(&path);
    assert_eq!(ask(&whole, &sample("q", 1)).await.text, "two again");
}

#[test]
fn what_is_no_cassette_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    let error = |mode| Cassette::open(&path, mode).unwrap_err().to_string();
    // An answer under a question that it was not given to.
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
fn two_recorders_do_not_share_a_cassette() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.cassette");
    let first = Cassette::open(&path, CassetteMode::Record).unwrap();
    let second = Cassette::open(&path, CassetteMode::Record).unwrap_err();
    assert!(matches!(second, CassetteError::Busy { .. }), "{second}");
    drop(first);
    Cassette::open(&path, CassetteMode::Record).unwrap();
}

#[test]
fn a_device_is_no_cassette() {
    for device in ["/dev/zero", "/dev/full", "/"] {
        for mode in [CassetteMode::Replay, CassetteMode::Record] {
            let error = Cassette::open(Path::new(device), mode).unwrap_err().to_string();
            assert!(error.contains(device), "{error}");
        }
    }
}
