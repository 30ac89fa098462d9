//! Faults on the wire: what is repeated, how long it waits, what the user reads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assize_config::Provider;
use assize_gateway::{Endpoint, Gateway, HttpClient, Options};
use assize_llm::{Call, Delta, ErrorKind, Model, ModelError, Request, Response, Totals};
use assize_testkit::{Answer, AnswerStop, FakeProvider, Kind, Reply};
use assize_types::Cancel;

use crate::{HeldClock, endpoint, gateway, hearing, pass};

/// What came of a call: its outcome, the waits between attempts, and the requests the fake got.
struct Outcome {
    result: Result<Response, ModelError>,
    waits: Vec<Duration>,
    reasons: Vec<String>,
    requests: usize,
    totals: Totals,
    base_url: String,
}

/// Asks a fake with this script, letting every wait pass at once.
async fn call(kind: Kind, script: Vec<Reply>, stream: bool) -> Outcome {
    let _clock = HeldClock::hold();
    let fake = FakeProvider::scripted(kind, script);
    let (options, mut waiting) = hearing(Options::default());
    let gateway = gateway(kind, &fake, options);
    let quiet = |_: Delta<'_>| {};
    let request = Request::question("Hi");
    let asking = gateway
        .generate(&request, Call { on_delta: stream.then_some(&quiet as _), ..Call::default() });
    tokio::pin!(asking);
    let mut waits = Vec::new();
    let mut reasons = Vec::new();
    let result = loop {
        tokio::select! {
            result = &mut asking => break result,
            Some((wait, reason)) = waiting.recv() => {
                waits.push(wait);
                reasons.push(reason);
                pass(wait).await;
            }
        }
    };
    Outcome {
        result,
        waits,
        reasons,
        requests: fake.captured().len(),
        totals: gateway.ledger().totals(),
        base_url: fake.base_url(),
    }
}

fn seconds(seconds: u64) -> Vec<(&'static str, String)> {
    vec![("retry-after", seconds.to_string())]
}

const ANTHROPIC_ERROR: &str = r#"{"type":"error","error":{"type":"T","message":"M"}}"#;

fn status(code: u16) -> Reply {
    Reply::Status(code, vec![], ANTHROPIC_ERROR.to_owned())
}

/// One line for each fault: how often it was asked, what was waited for, how it ended.
async fn line(name: &str, faults: Vec<Reply>, stream: bool) -> String {
    let mut script = faults;
    script.push(Reply::text("fine"));
    let Outcome { result, waits, reasons, requests, base_url, .. } =
        call(Kind::Anthropic, script, stream).await;
    let waits: Vec<String> = waits
        .iter()
        .enumerate()
        .map(|(index, wait)| {
            // Our own waits are drawn from a range; the provider's are obeyed to the second.
            let bound = Duration::from_millis(500 << index);
            if *wait >= bound / 2 && *wait <= bound {
                format!("≤{bound:?}")
            } else {
                format!("{}s", wait.as_secs())
            }
        })
        .collect();
    let end = match result {
        Ok(response) => format!("then, {:?}: {}", response.stop, response.text),
        Err(error) => match error.hint.as_deref() {
            Some(hint) => format!("{error}\n    hint: {hint}"),
            None => error.to_string(),
        },
    };
    let reason = reasons.first().map(|reason| format!("\n    {reason}")).unwrap_or_default();
    format!("{name}: {requests} sent, waited [{}]{reason}\n    {end}", waits.join(", "))
        .replace(&base_url, "http://PROVIDER")
}

#[tokio::test]
async fn each_fault_has_its_answer() {
    let later = httpdate_in(9);
    let now = httpdate_in(0);
    let long = Answer::text("x".repeat(60));
    let lines = [
        line("408", vec![status(408)], false).await,
        line("429", vec![status(429)], false).await,
        line("429, retry-after 7", vec![Reply::Status(429, seconds(7), ANTHROPIC_ERROR.into())], false).await,
        line("429, retry-after a date", vec![Reply::Status(429, vec![("date", now), ("retry-after", later)], ANTHROPIC_ERROR.into())], false).await,
        line("429, retry-after beyond the deadline", vec![Reply::Status(429, seconds(3600), ANTHROPIC_ERROR.into())], false).await,
        line("500", vec![status(500)], false).await,
        line("502, an HTML page", vec![Reply::Status(502, vec![], "<html>Bad gateway</html>".into())], false).await,
        line("503", vec![status(503)], false).await,
        line("529", vec![status(529)], false).await,
        line("500 for ever", vec![status(500), status(500), status(500), status(500)], false).await,
        line("400", vec![status(400)], false).await,
        line("401", vec![status(401)], false).await,
        line("403", vec![status(403)], false).await,
        line("404", vec![status(404)], false).await,
        line("413", vec![status(413)], false).await,
        line("400, no credit", vec![Reply::Status(400, vec![], ANTHROPIC_ERROR.replace('M', "Your credit balance is too low to access the Anthropic API."))], false).await,
        line("400, prompt too long", vec![Reply::Status(400, vec![], ANTHROPIC_ERROR.replace('M', "prompt is too long: 210000 tokens > 200000 maximum"))], false).await,
        line("301", vec![Reply::Status(301, vec![("location", "https://elsewhere.example/".into())], String::new())], false).await,
        line("closed without an answer", vec![Reply::Close], false).await,
        line("not JSON", vec![Reply::Status(200, vec![], "<html>hello</html>".into())], false).await,
        line("another JSON", vec![Reply::Status(200, vec![], r#"{"hello": 1}"#.into())], false).await,
        line("JSON cut off", vec![Reply::CutBody(Answer::text("fine"), 80)], false).await,
        line("an empty answer", vec![Reply::text("")], false).await,
        line("a body without end", vec![Reply::Endless], false).await,
        line("reset in the body", vec![Reply::ResetAfter(long.clone(), 1)], false).await,
        line("a stream without end", vec![Reply::Endless], true).await,
        line("a stream that ends early", vec![Reply::EndAfter(long, 4)], true).await,
        line("an error in the stream", vec![Reply::Status(200, vec![], "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n".into())], true).await,
        line("a refusal", vec![Reply::Answer(Answer::text("I would rather not.").stopped(AnswerStop::Refusal))], false).await,
        line("cut off at max_tokens", vec![Reply::Answer(Answer::text("And so").stopped(AnswerStop::Length))], false).await,
        line("garbage in the stream", vec![Reply::Status(200, vec![], "data: {oops\n\n".into())], true).await,
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

fn httpdate_in(seconds: u64) -> String {
    // A fixed clock for both headers: only their difference counts.
    format!("Sun, 06 Nov 1994 08:49:{:02} GMT", 30 + seconds)
}

#[tokio::test]
async fn what_fails_after_the_provider_has_begun_counts_as_lost() {
    let overloaded = "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    for (reply, stream, lost) in [
        (Reply::Status(200, vec![], overloaded.into()), true, 1),
        (Reply::Status(200, vec![], "<html>".into()), false, 1),
        (Reply::Status(504, vec![], String::new()), false, 1),
        (Reply::Status(529, vec![], String::new()), false, 0),
        (Reply::Status(429, vec![], String::new()), false, 0),
    ] {
        let shown = format!("{reply:?}");
        let outcome = call(Kind::Anthropic, vec![reply, Reply::text("fine")], stream).await;
        outcome.result.unwrap();
        assert_eq!((outcome.totals.calls, outcome.totals.lost_calls), (1, lost), "{shown}");
    }
}

#[tokio::test]
async fn a_limit_told_with_a_refusal_holds_the_next_attempt_back() {
    let left = vec![
        ("x-ratelimit-remaining-requests", "0".to_owned()),
        ("x-ratelimit-reset-requests", "20s".to_owned()),
    ];
    let script = vec![Reply::Status(429, left, "{}".into()), Reply::text("fine")];
    let outcome = call(Kind::OpenAi, script, false).await;
    outcome.result.unwrap();
    let waited: u64 = outcome.waits.iter().map(Duration::as_millis).sum::<u128>() as u64;
    assert!((19_900..=20_100).contains(&waited), "{:?}", outcome.waits);
}

#[tokio::test]
async fn what_is_not_to_be_repeated_is_sent_once() {
    for code in [400, 401, 403, 404, 413] {
        let outcome = call(Kind::OpenAi, vec![Reply::status(code)], false).await;
        assert_eq!((outcome.requests, outcome.waits.len()), (1, 0), "{code}");
        assert_eq!(outcome.result.unwrap_err().status, Some(code));
    }
    let quota = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    let outcome = call(Kind::OpenAi, vec![Reply::Status(429, vec![], quota.into())], false).await;
    assert_eq!(outcome.requests, 1, "a spend limit is no rate limit");
    assert_eq!(outcome.result.unwrap_err().kind(), ErrorKind::SpendLimit);
}

#[tokio::test]
async fn a_stream_that_breaks_is_started_anew_and_says_so() {
    for kind in crate::KINDS {
        let _clock = HeldClock::hold();
        let fake = FakeProvider::scripted(
            kind,
            [Reply::ResetAfter(Answer::text("never heard out"), 5), Reply::text("fine")],
        );
        let (options, mut waiting) = hearing(Options::default());
        let gateway = gateway(kind, &fake, options);
        let heard = Mutex::new(Vec::new());
        let on_delta = |delta: Delta<'_>| {
            // The fake breaks the connection only once a part of the answer has arrived.
            fake.reset_now();
            heard.lock().unwrap().push(match delta {
                Delta::Text(text) => text.to_owned(),
                Delta::Working => "WORKING".to_owned(),
                Delta::Restart => "RESTART".to_owned(),
            });
        };
        let request = Request::question("Hi");
        let asking =
            gateway.generate(&request, Call { on_delta: Some(&on_delta), ..Call::default() });
        tokio::pin!(asking);
        let response = loop {
            tokio::select! {
                result = &mut asking => break result.unwrap(),
                Some((wait, _)) = waiting.recv() => pass(wait).await,
            }
        };
        let heard = heard.lock().unwrap().clone();
        let restart = heard.iter().position(|piece| piece == "RESTART").expect("a restart");
        assert!(
            restart > 0 && "never heard out".starts_with(&heard[..restart].concat()),
            "{heard:?}"
        );
        assert_eq!(heard[restart + 1..].concat(), "fine", "{kind:?}");
        assert_eq!((response.text.as_str(), response.attempts), ("fine", 2));
        let totals = gateway.ledger().totals();
        assert_eq!(
            (totals.calls, totals.lost_calls),
            (1, 1),
            "what may have been charged is counted"
        );
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_on() {
    let _clock = HeldClock::hold();
    let fake = FakeProvider::scripted(Kind::Anthropic, [Reply::Hang, Reply::text("fine")]);
    let (options, mut waiting) = hearing(Options::default());
    let gateway = gateway(Kind::Anthropic, &fake, options);
    let request = Request::question("Hi");
    let asking = gateway.generate(&request, Call::default());
    tokio::pin!(asking);
    let mut advanced = false;
    let response = loop {
        tokio::select! {
            biased;
            result = &mut asking => break result.unwrap(),
            Some((wait, _)) = waiting.recv() => pass(wait).await,
            () = arrived(&fake), if !advanced => {
                advanced = true;
                pass(Duration::from_secs(121)).await;
            }
        }
    };
    assert_eq!((response.text.as_str(), response.attempts), ("fine", 2));
    assert_eq!(gateway.ledger().totals().lost_calls, 1);
}

#[tokio::test]
async fn a_stream_that_falls_silent_is_given_up_on() {
    let _clock = HeldClock::hold();
    let fake = FakeProvider::scripted(
        Kind::OpenAi,
        [Reply::SilentAfter(Answer::text("and then…"), 3), Reply::text("fine")],
    );
    let (options, mut waiting) = hearing(Options::default());
    let gateway = gateway(Kind::OpenAi, &fake, options);
    let (hear, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let on_delta = move |_: Delta<'_>| {
        let _ = hear.send(());
    };
    let request = Request::question("Hi");
    let asking = gateway.generate(&request, Call { on_delta: Some(&on_delta), ..Call::default() });
    tokio::pin!(asking);
    let mut pieces = 0;
    let response = loop {
        tokio::select! {
            biased;
            result = &mut asking => break result.unwrap(),
            Some((wait, _)) = waiting.recv() => pass(wait).await,
            Some(()) = heard.recv() => {
                pieces += 1;
                // The opening piece has no text; of the next two, the second is the last before silence.
                if pieces == 2 {
                    pass(Duration::from_secs(121)).await;
                }
            }
        }
    };
    assert_eq!((response.text.as_str(), response.attempts), ("fine", 2));
}

async fn arrived(fake: &FakeProvider) {
    while fake.captured().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn nobody_there_is_told_with_what_to_do() {
    let _clock = HeldClock::hold();
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nowhere =
        Endpoint { base_url: format!("http://{free}"), ..Endpoint::new(Provider::Ollama) };
    let (options, mut waiting) = hearing(Options::default());
    let gateway = Gateway::to_provider(&HttpClient::new(), nowhere, options);
    let request = Request::question("Hi");
    let asking = gateway.generate(&request, Call::default());
    tokio::pin!(asking);
    let error = loop {
        tokio::select! {
            result = &mut asking => break result.unwrap_err(),
            Some((wait, _)) = waiting.recv() => pass(wait).await,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert_eq!(
        error.to_string(),
        "gave up after 4 attempts: ollama: cannot be reached: Connection refused (os error 111)"
    );
    assert!(error.hint.as_deref().unwrap().contains("`ollama serve`"));
    assert_eq!(gateway.ledger().totals().lost_calls, 0, "nothing was sent, nothing can be charged");
}

#[tokio::test]
async fn a_cancelled_call_ends_at_once_and_says_why() {
    let fake = FakeProvider::scripted(Kind::Anthropic, [Reply::Hang]);
    let gateway = gateway(Kind::Anthropic, &fake, Options::default());
    let cancel = Cancel::new();
    let request = Request::question("Hi");
    let call = Call { cancel: cancel.clone(), ..Call::default() };
    let (result, ()) = tokio::join!(gateway.generate(&request, call), async {
        arrived(&fake).await;
        cancel.cancel("interrupted by the user");
    });
    let error = result.unwrap_err();
    assert_eq!(
        (error.kind(), error.to_string().as_str()),
        (ErrorKind::Cancelled, "interrupted by the user")
    );
    assert_eq!(gateway.ledger().totals().lost_calls, 1);
    let call = Call { cancel, ..Call::default() };
    gateway.generate(&request, call).await.unwrap_err();
    assert_eq!(fake.captured().len(), 1, "after that nothing is sent");
}

#[tokio::test]
async fn what_the_provider_says_is_left_holds_later_calls_back() {
    let _clock = HeldClock::hold();
    let left = vec![
        ("x-ratelimit-remaining-requests", "0".to_owned()),
        ("x-ratelimit-reset-requests", "20s".to_owned()),
    ];
    let fake = FakeProvider::scripted(
        Kind::OpenAi,
        [Reply::WithHeaders(Answer::text("one"), left), Reply::text("two")],
    );
    let (options, mut waiting) = hearing(Options::default());
    let gateway = gateway(Kind::OpenAi, &fake, options);
    let request = Request::question("Hi");
    gateway.generate(&request, Call::default()).await.unwrap();
    let started = AtomicBool::new(false);
    let asking = gateway.generate(&request, Call::default());
    tokio::pin!(asking);
    let response = loop {
        tokio::select! {
            result = &mut asking => break result.unwrap(),
            Some((wait, _)) = waiting.recv() => {
                started.store(true, Ordering::Relaxed);
                assert_eq!((wait.as_secs(), fake.captured().len()), (20, 1));
                pass(wait).await;
            }
        }
    };
    assert!(started.load(Ordering::Relaxed));
    assert_eq!(response.text, "two");
}

#[tokio::test]
async fn no_key_is_ever_shown() {
    let echo = r#"{"error":{"message":"bad key sk-test-0123456789abcdef given"}}"#.to_owned();
    let fake = FakeProvider::scripted(Kind::Groq, [Reply::Status(401, vec![], echo)]);
    let mut endpoint = endpoint(Kind::Groq, &fake);
    endpoint.key_source = "GROQ_API_KEY".to_owned();
    let gateway = Gateway::to_provider(&HttpClient::new(), endpoint, Options::default());
    let error = gateway.generate(&Request::question("Hi"), Call::default()).await.unwrap_err();
    let shown = format!("{error} {error:?} {gateway:?}");
    assert!(!shown.contains("0123456789"), "{shown}");
    assert!(error.to_string().contains("bad key *** given"));
}
