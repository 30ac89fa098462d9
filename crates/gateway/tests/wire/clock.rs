//! Tests of deadlines, budgets and retries. They use the rehearsal model and a paused clock, without network or real
//! waits.

use std::sync::Arc;
use std::time::Duration;

use assize_config::{Price, REHEARSAL_LABEL};
use assize_gateway::{Gateway, GatewayOptions, RateLimiter, RateLimits, Rehearsal, RetryPolicy};
use assize_llm::{
    BudgetError, BudgetLedger, BudgetLimits, BudgetTotals, CallMaximum, CallOptions, Delta,
    ErrorKind, JsonRequest, MemoryBudgetLedger, Model, ModelExt, ModelRequest, Provenance,
    Settlement,
};
use assize_types::{Cancel, Cost, Money};
use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio::time::Instant;

fn slow(seconds: u64) -> Rehearsal {
    Rehearsal { latency: Duration::from_secs(seconds), ..Rehearsal::default() }
}

#[tokio::test(start_paused = true)]
async fn timed_out_attempts_are_retried_up_to_the_retry_limit() {
    let retry = RetryPolicy { deadline: Duration::from_secs(10_000), ..RetryPolicy::default() };
    let gateway =
        Gateway::to_rehearsal(slow(500), GatewayOptions { retry, ..GatewayOptions::default() });
    let started = Instant::now();
    let error =
        gateway.generate(&ModelRequest::question("Hi"), CallOptions::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "all 4 attempts failed: rehearsal did not answer within 120 s");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let waits = started.elapsed() - Duration::from_secs(480);
    assert!(
        waits >= Duration::from_millis(1750) && waits <= Duration::from_millis(3600),
        "{waits:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn deadline_applies_to_a_call_including_its_retries() {
    let retry = RetryPolicy { deadline: Duration::from_secs(200), ..RetryPolicy::default() };
    let gateway =
        Gateway::to_rehearsal(slow(500), GatewayOptions { retry, ..GatewayOptions::default() });
    let started = Instant::now();
    let error =
        gateway.generate(&ModelRequest::question("Hi"), CallOptions::default()).await.unwrap_err();
    assert_eq!((error.kind(), started.elapsed().as_secs()), (ErrorKind::Deadline, 200));
    assert_eq!(
        error.to_string(),
        "rehearsal gave no answer before the deadline of 200 s; last failure: rehearsal did not answer within 120 s"
    );
}

/// Test ledger that cannot record any call during the first hour, as if its store were unavailable.
#[derive(Debug)]
struct UnavailableLedger {
    started: Instant,
    inner: MemoryBudgetLedger,
}

impl UnavailableLedger {
    const HOUR: Duration = Duration::from_secs(3600);
}

#[async_trait]
impl BudgetLedger for UnavailableLedger {
    async fn reserve(&self, worst: CallMaximum) -> Result<(), BudgetError> {
        self.inner.reserve(worst).await
    }

    async fn record_sent(&self, _: CallMaximum) -> Result<u64, BudgetError> {
        tokio::time::sleep_until(self.started + Self::HOUR).await;
        Ok(0)
    }

    fn unavailable_time(&self) -> Duration {
        self.started.elapsed().min(Self::HOUR)
    }

    fn settle(&self, worst: CallMaximum, sent: u64, settlement: Settlement) {
        self.inner.settle(worst, sent, settlement);
    }

    fn count_replayed(&self) {
        self.inner.count_replayed();
    }

    fn totals(&self) -> BudgetTotals {
        self.inner.totals()
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_ledger_does_not_count_towards_the_deadline() {
    let retry = RetryPolicy { deadline: Duration::from_secs(200), ..RetryPolicy::default() };
    let options = || {
        let (started, inner) = (Instant::now(), MemoryBudgetLedger::default());
        let ledger = Arc::new(UnavailableLedger { started, inner });
        GatewayOptions { retry, ledger, ..GatewayOptions::default() }
    };
    let started = Instant::now();
    let gateway = Gateway::to_rehearsal(slow(100), options());
    gateway.generate(&ModelRequest::question("Hi"), CallOptions::default()).await.unwrap();
    assert_eq!(started.elapsed(), UnavailableLedger::HOUR + Duration::from_secs(100));
    // After the first hour, the ledger is available, and the time counts towards the deadline.
    let started = Instant::now();
    let gateway = Gateway::to_rehearsal(slow(500), options());
    let error =
        gateway.generate(&ModelRequest::question("Hi"), CallOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadline, "{error}");
    assert_eq!(started.elapsed().as_secs(), 3600 + 200);
}

#[tokio::test(start_paused = true)]
async fn cancelled_call_ends_before_the_answer_arrives() {
    let gateway = Gateway::to_rehearsal(slow(100), GatewayOptions::default());
    let cancel = Cancel::new();
    let started = Instant::now();
    let request = ModelRequest::question("Hi");
    let call = CallOptions { cancel: cancel.clone(), ..CallOptions::default() };
    let (result, ()) = tokio::join!(gateway.generate(&request, call), async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        cancel.cancel("cancelled by the test");
    });
    assert_eq!(result.unwrap_err().to_string(), "cancelled by the test");
    assert_eq!(started.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn gateway_limits_concurrent_calls() {
    let rate_limiter = RateLimiter::new(RateLimits { concurrency: 4, ..RateLimits::default() });
    let options = GatewayOptions { rate_limiter, ..GatewayOptions::default() };
    let gateway = Arc::new(Gateway::to_rehearsal(slow(10), options));
    let started = Instant::now();
    let mut calls = JoinSet::new();
    for sample in 0..20 {
        let gateway = Arc::clone(&gateway);
        calls.spawn(async move {
            let request = ModelRequest { sample, ..ModelRequest::question("Hi") };
            gateway.generate(&request, CallOptions::default()).await.unwrap()
        });
    }
    calls.join_all().await;
    assert_eq!(started.elapsed().as_secs(), 50, "20 calls of 10 s, 4 at once, must take 50 s");
}

#[tokio::test(start_paused = true)]
async fn concurrent_calls_do_not_exceed_the_budget() {
    // The price is one dollar per token, so that costs are easy to check.
    let price = Price::flat(1_000_000.0, 1_000_000.0, 1_000_000.0, 1_000_000.0);
    let cap = Money::from_dollars(12_000.0).unwrap();
    let ledger = Arc::new(MemoryBudgetLedger::new(BudgetLimits { cost: Some(cap), tokens: None }));
    let options = GatewayOptions {
        ledger: Arc::clone(&ledger) as Arc<dyn BudgetLedger>,
        rate_limiter: RateLimiter::new(RateLimits { concurrency: 64, ..RateLimits::default() }),
        price,
        ..GatewayOptions::default()
    };
    let gateway = Arc::new(Gateway::to_rehearsal(slow(1), options));
    let mut calls = JoinSet::new();
    for sample in 0..200 {
        let gateway = Arc::clone(&gateway);
        calls.spawn(async move {
            let request = ModelRequest { sample, max_tokens: 400, ..ModelRequest::question("Hi") };
            gateway.generate(&request, CallOptions::default()).await
        });
    }
    let (done, stopped): (Vec<_>, Vec<_>) =
        calls.join_all().await.into_iter().partition(Result::is_ok);
    let totals = ledger.totals();
    assert!(totals.cost <= cap, "the cost {} exceeds the budget {cap}", totals.cost);
    assert!(totals.cost > Money::ZERO, "answered calls must have a cost");
    assert!(done.len() > 20, "only {} calls fitted the budget", done.len());
    assert!(!stopped.is_empty(), "200 calls must exceed the budget");
    for error in stopped.into_iter().map(Result::unwrap_err) {
        assert_eq!(error.kind(), ErrorKind::Budget);
        assert!(error.hint.as_deref().unwrap().contains("--max-cost"));
    }
}

#[tokio::test]
async fn call_with_a_cost_limit_and_an_unknown_price_is_not_sent() {
    let fake = assize_testkit::FakeProvider::scripted(assize_testkit::FakeKind::Groq, []);
    let mut endpoint = crate::endpoint(assize_testkit::FakeKind::Groq, &fake);
    endpoint.model = "mystery".to_owned();
    let caps = BudgetLimits { cost: Money::from_dollars(1.0), tokens: None };
    let options = GatewayOptions {
        ledger: Arc::new(MemoryBudgetLedger::new(caps)),
        ..GatewayOptions::default()
    };
    let client = assize_gateway::HttpClient::new();
    let gateway = Gateway::to_provider(&client, endpoint, options);
    let error =
        gateway.generate(&ModelRequest::question("Hi"), CallOptions::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "a cost limit cannot be enforced for a model whose price is unknown"
    );
    assert!(
        error.hint.as_deref().unwrap().contains("[prices.\"mystery\"]"),
        "{:?}",
        error.hint.as_deref()
    );
    assert!(fake.captured_requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn rehearsal_answers_depend_on_question_and_seed_only_and_are_marked_as_rehearsal() {
    let ask = |rehearsal: Rehearsal, question: &'static str| async move {
        let gateway = Gateway::to_rehearsal(rehearsal, GatewayOptions::default());
        gateway.generate(&ModelRequest::question(question), CallOptions::default()).await.unwrap()
    };
    let one = ask(Rehearsal::default(), "Should we open a factory?").await;
    let same = ask(Rehearsal::default(), "Should we open a factory?").await;
    let seeded =
        ask(Rehearsal { seed: 7, ..Rehearsal::default() }, "Should we open a factory?").await;
    assert_eq!(one.text, same.text);
    assert_ne!(one.text, seeded.text);
    assert!(one.rehearsal && one.text.contains("factory"));
    assert_eq!((one.provider.as_str(), one.cost), ("rehearsal", Cost::Known(Money::ZERO)));
    assert_eq!(REHEARSAL_LABEL, "rehearsal, no model was called");
}

#[tokio::test(start_paused = true)]
async fn simulated_faults_are_retried_and_streams_restart() {
    let rehearsal = Rehearsal { fault_rate: 0.5, latency: Duration::from_millis(80), seed: 1 };
    let retry = RetryPolicy {
        retries: 40,
        deadline: Duration::from_secs(10_000),
        ..RetryPolicy::default()
    };
    let gateway =
        Gateway::to_rehearsal(rehearsal, GatewayOptions { retry, ..GatewayOptions::default() });
    let (mut attempts, mut restarts) = (0, 0);
    for sample in 0..40 {
        let received = std::sync::Mutex::new((String::new(), 0));
        let on_delta = |delta: Delta<'_>| {
            let (text, restarts) = &mut *received.lock().unwrap();
            match delta {
                Delta::Text(more) => text.push_str(more),
                Delta::Working => panic!("unexpected progress without text"),
                Delta::Restart => {
                    text.clear();
                    *restarts += 1;
                }
            }
        };
        let request = ModelRequest { sample, ..ModelRequest::question("Say something longer") };
        let call = CallOptions { on_delta: Some(&on_delta), ..CallOptions::default() };
        let response = gateway.generate(&request, call).await.unwrap();
        let (text, again) = received.into_inner().unwrap();
        assert_eq!(response.text, text, "after a restart, the whole answer is streamed again");
        assert_eq!(response.attempts, again + 1);
        attempts += response.attempts;
        restarts += again;
    }
    assert!(
        (60..=110).contains(&attempts),
        "half of the attempts should fail: {attempts} attempts for 40 calls"
    );
    assert!(restarts > 0);
}

#[tokio::test(start_paused = true)]
async fn rehearsal_answers_match_the_requested_schema() {
    #[derive(Debug, Clone, PartialEq, serde::Deserialize, schemars::JsonSchema)]
    struct Score {
        #[schemars(range(min = 1, max = 10))]
        impact: u8,
        tags: Vec<String>,
        kind: Kind,
    }
    #[derive(Debug, Clone, PartialEq, serde::Deserialize, schemars::JsonSchema)]
    #[serde(tag = "type")]
    enum Kind {
        Expand { market: String },
        Hold,
    }
    let gateway = Gateway::to_rehearsal(Rehearsal::default(), GatewayOptions::default());
    for sample in 0..50 {
        let request = ModelRequest { sample, ..ModelRequest::question("Score it") };
        let answer = gateway
            .generate_json(JsonRequest::<Score>::new(request), CallOptions::default())
            .await
            .unwrap();
        assert_eq!(answer.provenance, Provenance::Native);
        assert!((1..=10).contains(&answer.value.impact));
    }
}
