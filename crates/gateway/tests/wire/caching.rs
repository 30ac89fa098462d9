//! Tests of the cache warm-up for concurrent calls with a shared prompt prefix.

use std::sync::Arc;
use std::time::Duration;

use assize_gateway::GatewayOptions;
use assize_llm::{CallOptions, Delta, Model, ModelRequest, Prompt};
use assize_testkit::{BilledTokens, FakeKind, FakeProvider, FakeReply, Latency};
use tokio::task::JoinSet;

use crate::gateway;

/// Returns the text of a block with this many tokens.
fn block(letter: &str, tokens: usize) -> String {
    letter.repeat(4 * tokens)
}

#[tokio::test]
async fn first_of_concurrent_calls_warms_up_the_cache_for_the_others() {
    let latency = Latency {
        to_first_byte: Duration::from_millis(50),
        to_last_byte: Duration::from_millis(50),
    };
    let fake = FakeProvider::with_prompt_cache(latency, |_, _| FakeReply::text("Fine."));
    let gateway = Arc::new(gateway(FakeKind::Anthropic, &fake, GatewayOptions::default()));
    let mut calls = JoinSet::new();
    for tail in ["1111", "2222", "3333", "4444", "5555"] {
        let gateway = gateway.clone();
        let prompt = Prompt::question(tail).block("pack", block("p", 5000));
        calls.spawn(async move {
            gateway.generate(&ModelRequest::new(prompt), CallOptions::default()).await.unwrap()
        });
    }
    let answers = calls.join_all().await;
    let written = answers.iter().filter(|answer| answer.usage.unwrap().cache_write == 5000).count();
    let read = answers.iter().filter(|answer| answer.usage.unwrap().cached_input == 5000).count();
    assert_eq!((written, read), (1, 4));
    assert!(answers.iter().all(|answer| answer.text == "Fine."));
    assert_eq!(
        fake.billed_tokens(),
        BilledTokens { input: 5 * 5001, cached: 4 * 5000, written: 5000 }
    );
    // Only the first call, for which the other calls wait, is streamed.
    let streamed =
        fake.captured_requests().iter().filter(|call| call.body["stream"] == true).count();
    assert_eq!(streamed, 1);
}

#[tokio::test]
async fn warm_up_call_streams_its_text_to_the_caller() {
    let fake = FakeProvider::with_prompt_cache(Latency::default(), |_, _| {
        FakeReply::text("One, two, three.")
    });
    let gateway = gateway(FakeKind::Anthropic, &fake, GatewayOptions::default());
    let received = std::sync::Mutex::new(String::new());
    let on_delta = |delta: Delta<'_>| {
        if let Delta::Text(text) = delta {
            received.lock().unwrap().push_str(text);
        }
    };
    let request = ModelRequest::new(Prompt::question("Well?").block("pack", block("p", 5000)));
    let call = CallOptions { on_delta: Some(&on_delta), ..CallOptions::default() };
    let answer = gateway.generate(&request, call).await.unwrap();
    assert_eq!(*received.lock().unwrap(), answer.text);
}

#[tokio::test]
async fn failed_warm_up_call_does_not_block_the_waiting_calls() {
    let fake = FakeProvider::with_prompt_cache(Latency::default(), |before, _| match before {
        0 => FakeReply::status(400),
        _ => FakeReply::text("Fine."),
    });
    let gateway = Arc::new(gateway(FakeKind::Anthropic, &fake, GatewayOptions::default()));
    let mut calls = JoinSet::new();
    for tail in ["1111", "2222", "3333"] {
        let gateway = gateway.clone();
        let prompt = Prompt::question(tail).block("pack", block("p", 5000));
        calls.spawn(async move {
            gateway.generate(&ModelRequest::new(prompt), CallOptions::default()).await
        });
    }
    let failed = calls.join_all().await.iter().filter(|answer| answer.is_err()).count();
    assert_eq!(failed, 1);
    assert_eq!(fake.billed_tokens(), BilledTokens { input: 2 * 5001, cached: 5000, written: 5000 });
}
