//! What a provider's cache of prompts makes of calls that share a beginning.

use std::sync::Arc;
use std::time::Duration;

use assize_gateway::Options;
use assize_llm::{Call, Delta, Model, Prompt, Request};
use assize_testkit::{Billed, FakeProvider, Kind, Latency, Reply};
use tokio::task::JoinSet;

use crate::gateway;

/// A block of so many tokens.
fn block(letter: &str, tokens: usize) -> String {
    letter.repeat(4 * tokens)
}

#[tokio::test]
async fn one_call_primes_the_beginning_that_the_others_share() {
    let latency =
        Latency { to_begin: Duration::from_millis(50), to_end: Duration::from_millis(50) };
    let fake = FakeProvider::caching(latency, |_, _| Reply::text("Fine."));
    let gateway = Arc::new(gateway(Kind::Anthropic, &fake, Options::default()));
    let mut calls = JoinSet::new();
    for tail in ["1111", "2222", "3333", "4444", "5555"] {
        let gateway = gateway.clone();
        let prompt = Prompt::question(tail).block("pack", block("p", 5000));
        calls.spawn(async move {
            gateway.generate(&Request::new(prompt), Call::default()).await.unwrap()
        });
    }
    let answers = calls.join_all().await;
    let written = answers.iter().filter(|answer| answer.usage.unwrap().cache_write == 5000).count();
    let read = answers.iter().filter(|answer| answer.usage.unwrap().cached_input == 5000).count();
    assert_eq!((written, read), (1, 4));
    assert!(answers.iter().all(|answer| answer.text == "Fine."));
    assert_eq!(fake.billed(), Billed { input: 5 * 5001, cached: 4 * 5000, written: 5000 });
    // Only the one that others wait for has to be streamed.
    let streamed = fake.captured().iter().filter(|call| call.body["stream"] == true).count();
    assert_eq!(streamed, 1);
}

#[tokio::test]
async fn whoever_listens_hears_the_first_call_as_any_other() {
    let fake = FakeProvider::caching(Latency::default(), |_, _| Reply::text("One, two, three."));
    let gateway = gateway(Kind::Anthropic, &fake, Options::default());
    let heard = std::sync::Mutex::new(String::new());
    let on_delta = |delta: Delta<'_>| {
        if let Delta::Text(text) = delta {
            heard.lock().unwrap().push_str(text);
        }
    };
    let request = Request::new(Prompt::question("Well?").block("pack", block("p", 5000)));
    let call = Call { on_delta: Some(&on_delta), ..Call::default() };
    let answer = gateway.generate(&request, call).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), answer.text);
}

#[tokio::test]
async fn a_first_call_that_fails_holds_nobody_back() {
    let fake = FakeProvider::caching(Latency::default(), |before, _| match before {
        0 => Reply::status(400),
        _ => Reply::text("Fine."),
    });
    let gateway = Arc::new(gateway(Kind::Anthropic, &fake, Options::default()));
    let mut calls = JoinSet::new();
    for tail in ["1111", "2222", "3333"] {
        let gateway = gateway.clone();
        let prompt = Prompt::question(tail).block("pack", block("p", 5000));
        calls.spawn(async move { gateway.generate(&Request::new(prompt), Call::default()).await });
    }
    let failed = calls.join_all().await.iter().filter(|answer| answer.is_err()).count();
    assert_eq!(failed, 1);
    assert_eq!(fake.billed(), Billed { input: 2 * 5001, cached: 5000, written: 5000 });
}
