//! Tests of network and server faults: retries, waits and error messages.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assize_config::Provider;
use assize_gateway::{Endpoint, Gateway, GatewayOptions, HttpClient};
use assize_llm::{
    BudgetTotals, CallOptions, Delta, ErrorKind, Model, ModelError, ModelRequest, ModelResponse,
};
use assize_testkit::{FakeAnswer, FakeKind, FakeProvider, FakeReply, FakeStop};
use assize_types::Cancel;

use crate::{HeldClock, advance_clock, endpoint, gateway, observed};

/// Result of a call, with the waits between attempts and the number of requests that the fake provider received.
struct Outcome {
    result: Result<ModelResponse, ModelError>,
    waits: Vec<Duration>,
    reasons: Vec<String>,
    requests: usize,
    totals: BudgetTotals,
    base_url: String,
}

/// Calls a fake provider that replies with this script. Waits between attempts take no real time.
async fn call(kind: FakeKind, script: Vec<FakeReply>, stream: bool) -> Outcome {
    let _clock = HeldClock::stop();
    let fake = FakeProvider::scripted(kind, script);
    let (options, mut waiting) = observed(GatewayOptions::default());
    let gateway = gateway(kind, &fake, options);
    let quiet = |_: Delta<'_>| {};
    let request = ModelRequest::question("Hi");
    let answer = gateway.generate(
        &request,
        CallOptions { on_delta: stream.then_some(&quiet as _), ..CallOptions::default() },
    );
    tokio::pin!(answer);
    let mut waits = Vec::new();
    let mut reasons = Vec::new();
    let result = loop {
        tokio::select! {
            result = &mut answer => break result,
            Some((wait, reason)) = waiting.recv() => {
                waits.push(wait);
                reasons.push(reason);
                advance_clock(wait).await;
            }
        }
    };
    Outcome {
        result,
        waits,
        reasons,
        requests: fake.captured_requests().len(),
        totals: gateway.ledger().totals(),
        base_url: fake.base_url(),
    }
}

fn seconds(seconds: u64) -> Vec<(&'static str, String)> {
    vec![("retry-after", seconds.to_string())]
}

const ANTHROPIC_ERROR: &str = r#"{"type":"error","error":{"type":"T","message":"M"}}"#;

fn status(code: u16) -> FakeReply {
    FakeReply::Status(code, vec![], ANTHROPIC_ERROR.to_owned())
}

/// Calls a fake provider that first replies with these faults. Returns the number of requests, the waits and the result
/// as text.
async fn line(name: &str, faults: Vec<FakeReply>, stream: bool) -> String {
    let mut script = faults;
    script.push(FakeReply::text("fine"));
    let Outcome { result, waits, reasons, requests, base_url, .. } =
        call(FakeKind::Anthropic, script, stream).await;
    let waits: Vec<String> = waits
        .iter()
        .enumerate()
        .map(|(index, wait)| {
            // The waits of the retry policy are random within a range. The waits that a provider requests are exact.
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
async fn each_network_and_server_fault_is_retried_or_reported() {
    let later = httpdate_in(9);
    let now = httpdate_in(0);
    let long = FakeAnswer::text("x".repeat(60));
    let lines = [
        line("408", vec![status(408)], false).await,
        line("429", vec![status(429)], false).await,
        line("429, retry-after 7", vec![FakeReply::Status(429, seconds(7), ANTHROPIC_ERROR.into())], false).await,
        line("429, retry-after a date", vec![FakeReply::Status(429, vec![("date", now), ("retry-after", later)], ANTHROPIC_ERROR.into())], false).await,
        line("429, retry-after beyond the deadline", vec![FakeReply::Status(429, seconds(3600), ANTHROPIC_ERROR.into())], false).await,
        line("500", vec![status(500)], false).await,
        line("502, an HTML page", vec![FakeReply::Status(502, vec![], "<html>Bad gateway</html>".into())], false).await,
        line("503", vec![status(503)], false).await,
        line("529", vec![status(529)], false).await,
        line("500 every time", vec![status(500), status(500), status(500), status(500)], false).await,
        line("400", vec![status(400)], false).await,
        line("401", vec![status(401)], false).await,
        line("403", vec![status(403)], false).await,
        line("404", vec![status(404)], false).await,
        line("413", vec![status(413)], false).await,
        line("400, no credit", vec![FakeReply::Status(400, vec![], ANTHROPIC_ERROR.replace('M', "Your credit balance is too low to access the Anthropic API."))], false).await,
        line("400, prompt too long", vec![FakeReply::Status(400, vec![], ANTHROPIC_ERROR.replace('M', "prompt is too long: 210000 tokens > 200000 maximum"))], false).await,
        line("301", vec![FakeReply::Status(301, vec![("location", "https://elsewhere.example/".into())], String::new())], false).await,
        line("closed without an answer", vec![FakeReply::Close], false).await,
        line("not JSON", vec![FakeReply::Status(200, vec![], "<html>hello</html>".into())], false).await,
        line("another JSON", vec![FakeReply::Status(200, vec![], r#"{"hello": 1}"#.into())], false).await,
        line("JSON cut off", vec![FakeReply::CutBody(FakeAnswer::text("fine"), 80)], false).await,
        line("an empty answer", vec![FakeReply::text("")], false).await,
        line("a body without end", vec![FakeReply::Endless], false).await,
        line("reset in the body", vec![FakeReply::ResetAfter(long.clone(), 1)], false).await,
        line("a stream without end", vec![FakeReply::Endless], true).await,
        line("a stream that ends early", vec![FakeReply::EndAfter(long, 4)], true).await,
        line("an error in the stream", vec![FakeReply::Status(200, vec![], "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n".into())], true).await,
        line("a refusal", vec![FakeReply::Answer(FakeAnswer::text("I would rather not.").stopped(FakeStop::Refusal))], false).await,
        line("cut off at max_tokens", vec![FakeReply::Answer(FakeAnswer::text("And so").stopped(FakeStop::Length))], false).await,
        line("garbage in the stream", vec![FakeReply::Status(200, vec![], "data: {oops\n\n".into())], true).await,
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

fn httpdate_in(seconds: u64) -> String {
    // Only the difference between the two date headers matters, so the dates are fixed.
    format!("Sun, 06 Nov 1994 08:49:{:02} GMT", 30 + seconds)
}

#[tokio::test]
async fn call_that_fails_after_the_provider_accepted_it_counts_as_lost() {
    let overloaded = "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    for (reply, stream, lost) in [
        (FakeReply::Status(200, vec![], overloaded.into()), true, 1),
        (FakeReply::Status(200, vec![], "<html>".into()), false, 1),
        (FakeReply::Status(504, vec![], String::new()), false, 1),
        (FakeReply::Status(529, vec![], String::new()), false, 0),
        (FakeReply::Status(429, vec![], String::new()), false, 0),
    ] {
        let shown = format!("{reply:?}");
        let outcome = call(FakeKind::Anthropic, vec![reply, FakeReply::text("fine")], stream).await;
        outcome.result.unwrap();
        assert_eq!((outcome.totals.calls, outcome.totals.lost_calls), (1, lost), "{shown}");
    }
}

#[tokio::test]
async fn rate_limit_headers_of_an_error_response_delay_the_retry() {
    let left = vec![
        ("x-ratelimit-remaining-requests", "0".to_owned()),
        ("x-ratelimit-reset-requests", "20s".to_owned()),
    ];
    let script = vec![FakeReply::Status(429, left, "{}".into()), FakeReply::text("fine")];
    let outcome = call(FakeKind::OpenAi, script, false).await;
    outcome.result.unwrap();
    let waited: u64 = outcome.waits.iter().map(Duration::as_millis).sum::<u128>() as u64;
    assert!((19_900..=20_100).contains(&waited), "{:?}", outcome.waits);
}

#[tokio::test]
async fn client_errors_and_spend_limits_are_not_retried() {
    for code in [400, 401, 403, 404, 413] {
        let outcome = call(FakeKind::OpenAi, vec![FakeReply::status(code)], false).await;
        assert_eq!((outcome.requests, outcome.waits.len()), (1, 0), "{code}");
        assert_eq!(outcome.result.unwrap_err().status, Some(code));
    }
    let quota = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    let outcome =
        call(FakeKind::OpenAi, vec![FakeReply::Status(429, vec![], quota.into())], false).await;
    assert_eq!(outcome.requests, 1, "status 429 because of a spend limit must not be retried");
    assert_eq!(outcome.result.unwrap_err().kind(), ErrorKind::SpendLimit);
}

#[tokio::test]
async fn interrupted_stream_is_retried_and_the_caller_receives_a_restart() {
    for kind in crate::KINDS {
        let _clock = HeldClock::stop();
        let fake = FakeProvider::scripted(
            kind,
            [
                FakeReply::ResetAfter(FakeAnswer::text("never heard out"), 5),
                FakeReply::text("fine"),
            ],
        );
        let (options, mut waiting) = observed(GatewayOptions::default());
        let gateway = gateway(kind, &fake, options);
        let received = Mutex::new(Vec::new());
        let on_delta = |delta: Delta<'_>| {
            // The fake provider resets the connection only after a part of the answer has arrived.
            fake.reset_now();
            received.lock().unwrap().push(match delta {
                Delta::Text(text) => text.to_owned(),
                Delta::Working => "WORKING".to_owned(),
                Delta::Restart => "RESTART".to_owned(),
            });
        };
        let request = ModelRequest::question("Hi");
        let answer = gateway.generate(
            &request,
            CallOptions { on_delta: Some(&on_delta), ..CallOptions::default() },
        );
        tokio::pin!(answer);
        let response = loop {
            tokio::select! {
                result = &mut answer => break result.unwrap(),
                Some((wait, _)) = waiting.recv() => advance_clock(wait).await,
            }
        };
        let received = received.lock().unwrap().clone();
        let restart = received
            .iter()
            .position(|piece| piece == "RESTART")
            .expect("the caller must receive the restart");
        assert!(
            restart > 0 && "never heard out".starts_with(&received[..restart].concat()),
            "{received:?}"
        );
        assert_eq!(received[restart + 1..].concat(), "fine", "{kind:?}");
        assert_eq!((response.text.as_str(), response.attempts), ("fine", 2));
        let totals = gateway.ledger().totals();
        assert_eq!(
            (totals.calls, totals.lost_calls),
            (1, 1),
            "the interrupted call may have been charged, so it counts as lost"
        );
    }
}

#[tokio::test]
async fn silent_server_times_out_and_is_retried() {
    let _clock = HeldClock::stop();
    let fake =
        FakeProvider::scripted(FakeKind::Anthropic, [FakeReply::Hang, FakeReply::text("fine")]);
    let (options, mut waiting) = observed(GatewayOptions::default());
    let gateway = gateway(FakeKind::Anthropic, &fake, options);
    let request = ModelRequest::question("Hi");
    let answer = gateway.generate(&request, CallOptions::default());
    tokio::pin!(answer);
    let mut advanced = false;
    let response = loop {
        tokio::select! {
            biased;
            result = &mut answer => break result.unwrap(),
            Some((wait, _)) = waiting.recv() => advance_clock(wait).await,
            () = arrived(&fake), if !advanced => {
                advanced = true;
                advance_clock(Duration::from_secs(121)).await;
            }
        }
    };
    assert_eq!((response.text.as_str(), response.attempts), ("fine", 2));
    assert_eq!(gateway.ledger().totals().lost_calls, 1);
}

#[tokio::test]
async fn silent_stream_times_out_and_is_retried() {
    let _clock = HeldClock::stop();
    let fake = FakeProvider::scripted(
        FakeKind::OpenAi,
        [FakeReply::SilentAfter(FakeAnswer::text("and then…"), 3), FakeReply::text("fine")],
    );
    let (options, mut waiting) = observed(GatewayOptions::default());
    let gateway = gateway(FakeKind::OpenAi, &fake, options);
    let (send, mut received) = tokio::sync::mpsc::unbounded_channel();
    let on_delta = move |_: Delta<'_>| {
        let _ = send.send(());
    };
    let request = ModelRequest::question("Hi");
    let answer = gateway
        .generate(&request, CallOptions { on_delta: Some(&on_delta), ..CallOptions::default() });
    tokio::pin!(answer);
    let mut pieces = 0;
    let response = loop {
        tokio::select! {
            biased;
            result = &mut answer => break result.unwrap(),
            Some((wait, _)) = waiting.recv() => advance_clock(wait).await,
            Some(()) = received.recv() => {
                pieces += 1;
                // After the second piece with text, the fake provider sends no more data.
                if pieces == 2 {
                    advance_clock(Duration::from_secs(121)).await;
                }
            }
        }
    };
    assert_eq!((response.text.as_str(), response.attempts), ("fine", 2));
}

async fn arrived(fake: &FakeProvider) {
    while fake.captured_requests().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn unreachable_server_is_reported_with_a_hint() {
    let _clock = HeldClock::stop();
    // The address of a port on which no server listens.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nowhere =
        Endpoint { base_url: format!("http://{free}"), ..Endpoint::new(Provider::Ollama) };
    let (options, mut waiting) = observed(GatewayOptions::default());
    let gateway = Gateway::to_provider(&HttpClient::new(), nowhere, options);
    let request = ModelRequest::question("Hi");
    let answer = gateway.generate(&request, CallOptions::default());
    tokio::pin!(answer);
    let error = loop {
        tokio::select! {
            result = &mut answer => break result.unwrap_err(),
            Some((wait, _)) = waiting.recv() => advance_clock(wait).await,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert_eq!(
        error.to_string(),
        "all 4 attempts failed: ollama: the provider cannot be reached: Connection refused (os error 111)"
    );
    assert!(error.hint.as_deref().unwrap().contains("`ollama serve`"));
    assert_eq!(
        gateway.ledger().totals().lost_calls,
        0,
        "a request that was never sent cannot be charged"
    );
}

#[tokio::test]
async fn cancelled_call_fails_at_once_with_the_cancellation_reason() {
    let fake = FakeProvider::scripted(FakeKind::Anthropic, [FakeReply::Hang]);
    let gateway = gateway(FakeKind::Anthropic, &fake, GatewayOptions::default());
    let cancel = Cancel::new();
    let request = ModelRequest::question("Hi");
    let call = CallOptions { cancel: cancel.clone(), ..CallOptions::default() };
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
    let call = CallOptions { cancel, ..CallOptions::default() };
    gateway.generate(&request, call).await.unwrap_err();
    assert_eq!(fake.captured_requests().len(), 1, "nothing is sent after the cancellation");
}

#[tokio::test]
async fn remaining_rate_limit_of_a_response_delays_later_calls() {
    let _clock = HeldClock::stop();
    let left = vec![
        ("x-ratelimit-remaining-requests", "0".to_owned()),
        ("x-ratelimit-reset-requests", "20s".to_owned()),
    ];
    let fake = FakeProvider::scripted(
        FakeKind::OpenAi,
        [FakeReply::WithHeaders(FakeAnswer::text("one"), left), FakeReply::text("two")],
    );
    let (options, mut waiting) = observed(GatewayOptions::default());
    let gateway = gateway(FakeKind::OpenAi, &fake, options);
    let request = ModelRequest::question("Hi");
    gateway.generate(&request, CallOptions::default()).await.unwrap();
    let started = AtomicBool::new(false);
    let answer = gateway.generate(&request, CallOptions::default());
    tokio::pin!(answer);
    let response = loop {
        tokio::select! {
            result = &mut answer => break result.unwrap(),
            Some((wait, _)) = waiting.recv() => {
                started.store(true, Ordering::Relaxed);
                assert_eq!((wait.as_secs(), fake.captured_requests().len()), (20, 1));
                advance_clock(wait).await;
            }
        }
    };
    assert!(started.load(Ordering::Relaxed));
    assert_eq!(response.text, "two");
}

#[tokio::test]
async fn api_key_is_removed_from_errors_and_debug_output() {
    let echo = r#"{"error":{"message":"bad key sk-test-0123456789abcdef given"}}"#.to_owned();
    let fake = FakeProvider::scripted(FakeKind::Groq, [FakeReply::Status(401, vec![], echo)]);
    let mut endpoint = endpoint(FakeKind::Groq, &fake);
    endpoint.key_source = "GROQ_API_KEY".to_owned();
    let gateway = Gateway::to_provider(&HttpClient::new(), endpoint, GatewayOptions::default());
    let error =
        gateway.generate(&ModelRequest::question("Hi"), CallOptions::default()).await.unwrap_err();
    let shown = format!("{error} {error:?} {gateway:?}");
    assert!(!shown.contains("0123456789"), "{shown}");
    assert!(error.to_string().contains("bad key *** given"));
}
