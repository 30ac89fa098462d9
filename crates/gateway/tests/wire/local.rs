//! Tests of local model servers: reported properties, timeouts and context windows.

use std::sync::Arc;
use std::time::Duration;

use assize_gateway::{
    Endpoint, Gateway, GatewayOptions, HttpClient, RateLimiter, RateLimits, Rehearsal, RetryPolicy,
    ServerFacts, discover,
};
use assize_llm::{CallOptions, Delta, ErrorKind, Model, ModelRequest, ToolDefinition};
use assize_testkit::{FakeAnswer, FakeKind, FakeProvider, FakeReply};
use assize_types::Cost;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::{HeldClock, advance_clock, endpoint, observed};

const TIMEOUT: Duration = Duration::from_secs(10);

fn local(kind: FakeKind, fake: &FakeProvider, model: &str) -> Endpoint {
    Endpoint { model: model.to_owned(), ..endpoint(kind, fake) }
}

fn llama_props(n_ctx: u64, total_slots: u64) -> serde_json::Value {
    json!({"default_generation_settings": {"id": 0, "n_ctx": n_ctx, "params": {}}, "total_slots": total_slots,
           "model_path": "smollm2.gguf", "build_info": "b1"})
}

#[tokio::test]
async fn server_discovery_reads_context_window_and_slots_of_llama_cpp() {
    let fake = FakeProvider::scripted(FakeKind::OpenAi, [])
        .with_description("/props", llama_props(2048, 2));
    let found =
        discover(&HttpClient::new(), &local(FakeKind::OpenAi, &fake, "smollm2"), TIMEOUT).await;
    assert_eq!(found, ServerFacts { context_window: Some(2048), slots: Some(2) });
}

#[tokio::test]
async fn server_discovery_reads_the_context_window_of_a_vllm_model() {
    let models = json!({"object": "list", "data": [
        {"id": "small", "object": "model", "max_model_len": 2048},
        {"id": "large", "object": "model", "max_model_len": 32768},
    ]});
    let fake = FakeProvider::scripted(FakeKind::OpenAi, []).with_description("/v1/models", models);
    let found =
        discover(&HttpClient::new(), &local(FakeKind::OpenAi, &fake, "small"), TIMEOUT).await;
    assert_eq!(found, ServerFacts { context_window: Some(2048), slots: None });
}

#[tokio::test]
async fn server_discovery_reads_the_context_window_of_an_ollama_model_and_assumes_one_slot() {
    let shown = json!({"parameters": "temperature 0.6", "model_info": {
        "general.architecture": "qwen3", "qwen3.context_length": 40960}});
    let fake = FakeProvider::scripted(FakeKind::Ollama, []).with_description("/api/show", shown);
    let found =
        discover(&HttpClient::new(), &local(FakeKind::Ollama, &fake, "qwen3"), TIMEOUT).await;
    assert_eq!(found, ServerFacts { context_window: Some(40_960), slots: Some(1) });
}

#[tokio::test]
async fn server_discovery_finds_no_properties_if_the_server_reports_none_or_is_unreachable() {
    let fake = FakeProvider::scripted(FakeKind::OpenAi, []);
    let found =
        discover(&HttpClient::new(), &local(FakeKind::OpenAi, &fake, "mine"), TIMEOUT).await;
    assert_eq!(found, ServerFacts::default());
    let gone =
        Endpoint { base_url: "http://127.0.0.1:9/v1".into(), ..endpoint(FakeKind::OpenAi, &fake) };
    assert_eq!(discover(&HttpClient::new(), &gone, TIMEOUT).await, ServerFacts::default());
}

#[tokio::test]
async fn local_call_is_free_and_its_maximum_answer_length_fits_the_context_window() {
    let fake = FakeProvider::scripted(FakeKind::OpenAi, [FakeReply::text("Hello")]);
    let endpoint =
        Endpoint { context_window: Some(2048), ..local(FakeKind::OpenAi, &fake, "smollm2") };
    let gateway = Gateway::to_provider(&HttpClient::new(), endpoint, GatewayOptions::default());
    let request = ModelRequest { max_tokens: 4096, ..ModelRequest::question("Hi") };
    let response = gateway.generate(&request, CallOptions::default()).await.unwrap();
    assert_eq!((response.text.as_str(), response.cost), ("Hello", Cost::Local));
    assert_eq!(gateway.ledger().totals().known_cost(), Cost::Local);
    let body = fake.only_request().body;
    let max = body["max_completion_tokens"].as_u64().unwrap();
    assert!((1024..2048).contains(&max), "{max}");
    assert_eq!(body["stream"], true, "calls to local servers are streamed, to detect progress");
}

#[tokio::test]
async fn prompt_that_cannot_fit_the_context_window_is_not_sent() {
    for kind in [FakeKind::OpenAi, FakeKind::Ollama] {
        let fake = FakeProvider::scripted(kind, []);
        let endpoint = Endpoint { context_window: Some(2048), ..local(kind, &fake, "small") };
        let setting = format!("`{}.context_window`", endpoint.provider);
        let gateway = Gateway::to_provider(&HttpClient::new(), endpoint, GatewayOptions::default());
        let long = ModelRequest::question("many words ".repeat(4000));
        let error = gateway.generate(&long, CallOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ContextOverflow);
        assert!(error.to_string().contains("`small` has 2048"), "{error}");
        let hint = error.hint.as_deref().unwrap();
        assert!(hint.contains(&setting) && hint.contains("2048 tokens"), "{hint}");
        assert!(fake.captured_requests().is_empty());
    }
}

#[tokio::test]
async fn hint_of_a_context_overflow_error_contains_the_window_size_and_the_setting() {
    // Error responses of llama.cpp and vLLM.
    let llama = json!({"error": {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 2301, "n_ctx": 2048,
        "message": "the request exceeds the available context size, try increasing it"}});
    let vllm = json!({"object": "error", "type": "BadRequestError", "code": 400, "message":
        "This model's maximum context length is 2048 tokens. However, you requested 2301 tokens in the messages."});
    for error in [llama, vllm] {
        let fake = FakeProvider::scripted(
            FakeKind::OpenAi,
            [FakeReply::Status(400, vec![], error.to_string())],
        );
        let endpoint =
            Endpoint { context_window: Some(2048), ..local(FakeKind::OpenAi, &fake, "smollm2") };
        let gateway = Gateway::to_provider(&HttpClient::new(), endpoint, GatewayOptions::default());
        let error = gateway
            .generate(&ModelRequest::question("x ".repeat(2000)), CallOptions::default())
            .await
            .unwrap_err();
        assert_eq!((error.kind(), error.attempts), (ErrorKind::ContextOverflow, 1), "{error}");
        let hint = error.hint.as_deref().unwrap();
        for part in ["2048 tokens", "`openai.context_window`", "--ctx-size", "--max-model-len"] {
            assert!(hint.contains(part), "{part}: {hint}");
        }
    }
}

#[tokio::test]
async fn call_to_a_local_server_reuses_no_connection() {
    let reply = FakeReply::LastOnConnection(FakeAnswer::text("fine"));
    let fake = FakeProvider::scripted(FakeKind::OpenAi, [reply.clone(), reply])
        .with_description("/props", llama_props(2048, 1));
    let (client, endpoint) = (HttpClient::new(), local(FakeKind::OpenAi, &fake, "smollm2"));
    discover(&client, &endpoint, TIMEOUT).await;
    let (options, mut waits) = observed(GatewayOptions::default());
    let gateway = Gateway::to_provider(&client, endpoint, options);
    for _ in 0..2 {
        let question = ModelRequest::question("Hi");
        let response = gateway.generate(&question, CallOptions::default()).await.unwrap();
        assert_eq!(response.text, "fine");
        // The client returns a connection to its pool in another task.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(waits.try_recv().ok(), None, "a call failed and was retried");
    assert!(fake.captured_requests().iter().all(|one| one.header("connection") == Some("close")));
}

/// The clock is stopped. Time passes only when the test advances the clock.
#[tokio::test]
async fn stream_with_progress_is_not_cut_off_at_the_deadline_and_a_silent_stream_times_out() {
    let clock = HeldClock::stop();
    let fake = FakeProvider::scripted(
        FakeKind::OpenAi,
        [FakeReply::Dripping(FakeAnswer::text("one two three"))],
    );
    let retry = RetryPolicy {
        retries: 0,
        attempt_timeout: Duration::from_secs(20),
        deadline: Duration::from_secs(30),
        ..RetryPolicy::default()
    };
    let options = GatewayOptions { retry, ..GatewayOptions::default() };
    let gateway = Gateway::to_provider(
        &HttpClient::new(),
        local(FakeKind::OpenAi, &fake, "slow"),
        options.clone(),
    );
    let (progress, mut pieces) = tokio::sync::mpsc::unbounded_channel();
    let answer = tokio::spawn(async move {
        let on_delta = |_: assize_llm::Delta<'_>| {
            let _ = progress.send(());
        };
        let call = CallOptions { on_delta: Some(&on_delta), ..CallOptions::default() };
        gateway.generate(&ModelRequest::question("Hi"), call).await
    });
    let started = Instant::now();
    // The first piece of the stream contains no text.
    fake.drip();
    for _ in 0..3 {
        fake.drip();
        pieces.recv().await.unwrap();
        advance_clock(Duration::from_secs(15)).await;
    }
    fake.drip_all();
    let response = answer.await.unwrap().unwrap();
    assert_eq!(response.text, "one two three");
    assert!(
        started.elapsed() >= Duration::from_secs(45),
        "the answer must take longer than the deadline of 30 s"
    );

    // With the same limits, a stream that stops sending data times out.
    let fake = FakeProvider::scripted(
        FakeKind::OpenAi,
        [FakeReply::SilentAfter(FakeAnswer::text("one two three"), 2)],
    );
    let gateway =
        Gateway::to_provider(&HttpClient::new(), local(FakeKind::OpenAi, &fake, "slow"), options);
    let (progress, mut pieces) = tokio::sync::mpsc::unbounded_channel();
    let answer = tokio::spawn(async move {
        let on_delta = |_: assize_llm::Delta<'_>| {
            let _ = progress.send(());
        };
        let call = CallOptions { on_delta: Some(&on_delta), ..CallOptions::default() };
        gateway.generate(&ModelRequest::question("Hi"), call).await
    });
    pieces.recv().await.unwrap();
    advance_clock(Duration::from_secs(21)).await;
    let error = answer.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    drop(clock);
}

/// Each answer streams reasoning or tool calls without text for longer than the deadline.
#[tokio::test]
async fn streamed_reasoning_and_tool_arguments_count_as_progress() {
    let clock = HeldClock::stop();
    let reasoned = FakeAnswer { reasoning: "one two three".into(), ..FakeAnswer::text("four") };
    let called = FakeAnswer::calling("add", json!({"left": 17, "right": 25}));
    // `openings` is the number of stream events before the first progress.
    for (kind, expected, openings) in [
        (FakeKind::OpenAi, reasoned.clone(), 1),
        (FakeKind::OpenRouter, reasoned.clone(), 2),
        (FakeKind::Anthropic, reasoned.clone(), 3),
        (FakeKind::Google, reasoned.clone(), 0),
        (FakeKind::Ollama, reasoned, 0),
        (FakeKind::OpenAi, called.clone(), 1),
        (FakeKind::Anthropic, called, 5),
    ] {
        let fake = FakeProvider::scripted(kind, [FakeReply::Dripping(expected.clone())]);
        let retry = RetryPolicy {
            retries: 0,
            attempt_timeout: Duration::from_secs(20),
            deadline: Duration::from_secs(30),
            ..RetryPolicy::default()
        };
        let options = GatewayOptions { retry, ..GatewayOptions::default() };
        let gateway = Gateway::to_provider(&HttpClient::new(), endpoint(kind, &fake), options);
        let (progress, mut pieces) = tokio::sync::mpsc::unbounded_channel();
        let answer = tokio::spawn(async move {
            let on_delta = |delta: Delta<'_>| {
                let _ = progress.send(delta == Delta::Working);
            };
            let call = CallOptions { on_delta: Some(&on_delta), ..CallOptions::default() };
            let parameters = json!({"type": "object", "properties": {}});
            let (name, description) = ("add".to_owned(), "Adds.".to_owned());
            let tools = vec![ToolDefinition { name, description, parameters }];
            gateway.generate(&ModelRequest { tools, ..ModelRequest::question("Hi") }, call).await
        });
        (0..openings).for_each(|_| fake.drip());
        for _ in 0..3 {
            fake.drip();
            assert_eq!(pieces.recv().await, Some(true), "{kind:?}");
            advance_clock(Duration::from_secs(15)).await;
        }
        fake.drip_all();
        let response = answer.await.unwrap().unwrap();
        assert_eq!(response.text, expected.text, "{kind:?}");
        assert_eq!(response.tool_calls.len(), expected.tool_calls.len(), "{kind:?}");
    }
    drop(clock);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_free_rate_limiter_slot_does_not_count_towards_the_deadline() {
    // 40 calls of 30 s run one at a time. The last call waits for nearly 20 minutes, and the deadline is 10 minutes.
    let rate_limiter = RateLimiter::new(RateLimits { concurrency: 1, ..RateLimits::default() });
    let slow = Rehearsal { latency: Duration::from_secs(30), ..Rehearsal::default() };
    let gateway = Arc::new(Gateway::to_rehearsal(
        slow,
        GatewayOptions { rate_limiter, ..GatewayOptions::default() },
    ));
    let started = Instant::now();
    let mut calls = JoinSet::new();
    for sample in 0..40 {
        let gateway = Arc::clone(&gateway);
        calls.spawn(async move {
            let request = ModelRequest { sample, ..ModelRequest::question("Hi") };
            gateway.generate(&request, CallOptions::default()).await
        });
    }
    for outcome in calls.join_all().await {
        outcome.unwrap();
    }
    assert_eq!(started.elapsed().as_secs(), 40 * 30);
}
