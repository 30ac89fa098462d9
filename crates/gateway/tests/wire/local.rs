//! Model servers of the user's own: what they report, how long they may take, and what does not fit them.

use std::sync::Arc;
use std::time::Duration;

use assize_gateway::{
    Endpoint, Gateway, HttpClient, Limits, Options, Pacer, Rehearsal, RetryPolicy, ServerFacts,
    discover,
};
use assize_llm::{Call, Delta, ErrorKind, Model, Request, Tool};
use assize_testkit::{Answer, FakeProvider, Kind, Reply};
use assize_types::Cost;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{HeldClock, endpoint, pass};

const TIMEOUT: Duration = Duration::from_secs(10);

fn local(kind: Kind, fake: &FakeProvider, model: &str) -> Endpoint {
    Endpoint { model: model.to_owned(), ..endpoint(kind, fake) }
}

fn llama_props(n_ctx: u64, total_slots: u64) -> serde_json::Value {
    json!({"default_generation_settings": {"id": 0, "n_ctx": n_ctx, "params": {}}, "total_slots": total_slots,
           "model_path": "smollm2.gguf", "build_info": "b1"})
}

#[tokio::test]
async fn llama_cpp_reports_its_window_and_its_slots() {
    let fake = FakeProvider::scripted(Kind::OpenAi, []).describing("/props", llama_props(2048, 2));
    let found = discover(&HttpClient::new(), &local(Kind::OpenAi, &fake, "smollm2"), TIMEOUT).await;
    assert_eq!(found, ServerFacts { context_window: Some(2048), slots: Some(2) });
}

#[tokio::test]
async fn vllm_reports_the_window_of_each_model() {
    let models = json!({"object": "list", "data": [
        {"id": "small", "object": "model", "max_model_len": 2048},
        {"id": "large", "object": "model", "max_model_len": 32768},
    ]});
    let fake = FakeProvider::scripted(Kind::OpenAi, []).describing("/v1/models", models);
    let found = discover(&HttpClient::new(), &local(Kind::OpenAi, &fake, "small"), TIMEOUT).await;
    assert_eq!(found, ServerFacts { context_window: Some(2048), slots: None });
}

#[tokio::test]
async fn ollama_reports_the_models_window_and_has_one_slot() {
    let shown = json!({"parameters": "temperature 0.6", "model_info": {
        "general.architecture": "qwen3", "qwen3.context_length": 40960}});
    let fake = FakeProvider::scripted(Kind::Ollama, []).describing("/api/show", shown);
    let found = discover(&HttpClient::new(), &local(Kind::Ollama, &fake, "qwen3"), TIMEOUT).await;
    assert_eq!(found, ServerFacts { context_window: Some(40_960), slots: Some(1) });
}

#[tokio::test]
async fn server_that_reports_nothing_is_used_with_the_defaults() {
    let fake = FakeProvider::scripted(Kind::OpenAi, []);
    let found = discover(&HttpClient::new(), &local(Kind::OpenAi, &fake, "mine"), TIMEOUT).await;
    assert_eq!(found, ServerFacts::default());
    let gone =
        Endpoint { base_url: "http://127.0.0.1:9/v1".into(), ..endpoint(Kind::OpenAi, &fake) };
    assert_eq!(discover(&HttpClient::new(), &gone, TIMEOUT).await, ServerFacts::default());
}

#[tokio::test]
async fn answer_is_shortened_to_the_window_and_the_call_is_free() {
    let fake = FakeProvider::scripted(Kind::OpenAi, [Reply::text("Hello")]);
    let endpoint = Endpoint { context_window: Some(2048), ..local(Kind::OpenAi, &fake, "smollm2") };
    let gateway = Gateway::to_provider(&HttpClient::new(), endpoint, Options::default());
    let request = Request { max_tokens: 4096, ..Request::question("Hi") };
    let response = gateway.generate(&request, Call::default()).await.unwrap();
    assert_eq!((response.text.as_str(), response.cost), ("Hello", Cost::Local));
    assert_eq!(gateway.ledger().totals().known_cost(), Cost::Local);
    let body = fake.only_request().body;
    let most = body["max_completion_tokens"].as_u64().unwrap();
    assert!((1024..2048).contains(&most), "{most}");
    assert_eq!(body["stream"], true, "a stream shows that a slow server is still at work");
}

#[tokio::test]
async fn prompt_that_cannot_fit_the_window_is_not_sent() {
    for kind in [Kind::OpenAi, Kind::Ollama] {
        let fake = FakeProvider::scripted(kind, []);
        let endpoint = Endpoint { context_window: Some(2048), ..local(kind, &fake, "small") };
        let setting = format!("`{}.context_window`", endpoint.provider);
        let gateway = Gateway::to_provider(&HttpClient::new(), endpoint, Options::default());
        let long = Request::question("many words ".repeat(4000));
        let error = gateway.generate(&long, Call::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ContextOverflow);
        assert!(error.to_string().contains("`small` has 2048"), "{error}");
        let hint = error.hint.as_deref().unwrap();
        assert!(hint.contains(&setting) && hint.contains("2048 tokens"), "{hint}");
        assert!(fake.captured().is_empty());
    }
}

#[tokio::test]
async fn overflow_that_only_the_server_knows_names_window_and_setting() {
    // As llama.cpp and vLLM word it.
    let llama = json!({"error": {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 2301, "n_ctx": 2048,
        "message": "the request exceeds the available context size, try increasing it"}});
    let vllm = json!({"object": "error", "type": "BadRequestError", "code": 400, "message":
        "This model's maximum context length is 2048 tokens. However, you requested 2301 tokens in the messages."});
    for said in [llama, vllm] {
        let fake =
            FakeProvider::scripted(Kind::OpenAi, [Reply::Status(400, vec![], said.to_string())]);
        let endpoint =
            Endpoint { context_window: Some(2048), ..local(Kind::OpenAi, &fake, "smollm2") };
        let gateway = Gateway::to_provider(&HttpClient::new(), endpoint, Options::default());
        let error = gateway
            .generate(&Request::question("x ".repeat(2000)), Call::default())
            .await
            .unwrap_err();
        assert_eq!((error.kind(), error.attempts), (ErrorKind::ContextOverflow, 1), "{error}");
        let hint = error.hint.as_deref().unwrap();
        for part in ["2048 tokens", "`openai.context_window`", "--ctx-size", "--max-model-len"] {
            assert!(hint.contains(part), "{part}: {hint}");
        }
    }
}

/// The clock stands still but for what the test lets pass.
#[tokio::test]
async fn stream_that_goes_on_outlives_every_limit_and_one_that_stops_does_not() {
    let clock = HeldClock::hold();
    let fake =
        FakeProvider::scripted(Kind::OpenAi, [Reply::Dripping(Answer::text("one two three"))]);
    let retry = RetryPolicy {
        retries: 0,
        attempt_timeout: Duration::from_secs(20),
        deadline: Duration::from_secs(30),
        ..RetryPolicy::default()
    };
    let options = Options { retry, ..Options::default() };
    let gateway = Gateway::to_provider(
        &HttpClient::new(),
        local(Kind::OpenAi, &fake, "slow"),
        options.clone(),
    );
    let (heard, mut pieces) = tokio::sync::mpsc::unbounded_channel();
    let asked = tokio::spawn(async move {
        let hear = |_: assize_llm::Delta<'_>| {
            let _ = heard.send(());
        };
        let call = Call { on_delta: Some(&hear), ..Call::default() };
        gateway.generate(&Request::question("Hi"), call).await
    });
    let begun = Instant::now();
    // The first piece has no text yet.
    fake.drip();
    for _ in 0..3 {
        fake.drip();
        pieces.recv().await.unwrap();
        pass(Duration::from_secs(15)).await;
    }
    fake.drip_all();
    let response = asked.await.unwrap().unwrap();
    assert_eq!(response.text, "one two three");
    assert!(begun.elapsed() >= Duration::from_secs(45), "longer than the deadline of 30 s");

    // The same limits end an answer that falls silent.
    let fake = FakeProvider::scripted(
        Kind::OpenAi,
        [Reply::SilentAfter(Answer::text("one two three"), 2)],
    );
    let gateway =
        Gateway::to_provider(&HttpClient::new(), local(Kind::OpenAi, &fake, "slow"), options);
    let (heard, mut pieces) = tokio::sync::mpsc::unbounded_channel();
    let asked = tokio::spawn(async move {
        let hear = |_: assize_llm::Delta<'_>| {
            let _ = heard.send(());
        };
        let call = Call { on_delta: Some(&hear), ..Call::default() };
        gateway.generate(&Request::question("Hi"), call).await
    });
    pieces.recv().await.unwrap();
    pass(Duration::from_secs(21)).await;
    let error = asked.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    drop(clock);
}

/// Reasoning and tool calls are streamed for longer than the deadline, and no text comes.
#[tokio::test]
async fn reasoning_and_tool_arguments_count_as_progress() {
    let clock = HeldClock::hold();
    let reasoned = Answer { reasoning: "one two three".into(), ..Answer::text("four") };
    let called = Answer::calling("add", json!({"left": 17, "right": 25}));
    // How many pieces come before the model is at work.
    for (kind, answer, openings) in [
        (Kind::OpenAi, reasoned.clone(), 1),
        (Kind::OpenRouter, reasoned.clone(), 2),
        (Kind::Anthropic, reasoned.clone(), 3),
        (Kind::Google, reasoned.clone(), 0),
        (Kind::Ollama, reasoned, 0),
        (Kind::OpenAi, called.clone(), 1),
        (Kind::Anthropic, called, 5),
    ] {
        let fake = FakeProvider::scripted(kind, [Reply::Dripping(answer.clone())]);
        let retry = RetryPolicy {
            retries: 0,
            attempt_timeout: Duration::from_secs(20),
            deadline: Duration::from_secs(30),
            ..RetryPolicy::default()
        };
        let options = Options { retry, ..Options::default() };
        let gateway = Gateway::to_provider(&HttpClient::new(), endpoint(kind, &fake), options);
        let (heard, mut pieces) = tokio::sync::mpsc::unbounded_channel();
        let asked = tokio::spawn(async move {
            let hear = |delta: Delta<'_>| {
                let _ = heard.send(delta == Delta::Working);
            };
            let call = Call { on_delta: Some(&hear), ..Call::default() };
            let parameters = json!({"type": "object", "properties": {}});
            let (name, description) = ("add".to_owned(), "Adds.".to_owned());
            let tools = vec![Tool { name, description, parameters }];
            gateway.generate(&Request { tools, ..Request::question("Hi") }, call).await
        });
        (0..openings).for_each(|_| fake.drip());
        for _ in 0..3 {
            fake.drip();
            assert_eq!(pieces.recv().await, Some(true), "{kind:?}");
            pass(Duration::from_secs(15)).await;
        }
        fake.drip_all();
        let response = asked.await.unwrap().unwrap();
        assert_eq!(response.text, answer.text, "{kind:?}");
        assert_eq!(response.tool_calls.len(), answer.tool_calls.len(), "{kind:?}");
    }
    drop(clock);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_slot_of_a_slow_server_is_not_late() {
    // Forty calls of 30 s, one at a time: the last one waits for twenty minutes, and the deadline is ten.
    let pacer = Pacer::new(Limits { concurrency: 1, ..Limits::default() });
    let slow = Rehearsal { latency: Duration::from_secs(30), ..Rehearsal::default() };
    let gateway = Arc::new(Gateway::to_rehearsal(slow, Options { pacer, ..Options::default() }));
    let begun = Instant::now();
    let mut calls = JoinSet::new();
    for sample in 0..40 {
        let gateway = Arc::clone(&gateway);
        calls.spawn(async move {
            let request = Request { sample, ..Request::question("Hi") };
            gateway.generate(&request, Call::default()).await
        });
    }
    for outcome in calls.join_all().await {
        outcome.unwrap();
    }
    assert_eq!(begun.elapsed().as_secs(), 40 * 30);
}
