//! Deadlines, budgets and repetition with the rehearsal model and a paused clock: no network, no
//! waiting.

use std::sync::Arc;
use std::time::Duration;

use assize_config::{Price, REHEARSAL_LABEL};
use assize_gateway::{Gateway, Limits, Options, Pacer, Rehearsal, RetryPolicy};
use assize_llm::{
    BudgetError, Call, Caps, Delta, ErrorKind, JsonAsk, Ledger, MemoryLedger, Model, ModelExt,
    Provenance, Request, Settlement, Totals, Worst,
};
use assize_types::{Cancel, Cost, Money};
use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio::time::Instant;

fn slow(seconds: u64) -> Rehearsal {
    Rehearsal { latency: Duration::from_secs(seconds), ..Rehearsal::default() }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_takes_too_long_is_repeated_and_then_given_up() {
    let retry = RetryPolicy { deadline: Duration::from_secs(10_000), ..RetryPolicy::default() };
    let gateway = Gateway::to_rehearsal(slow(500), Options { retry, ..Options::default() });
    let started = Instant::now();
    let error = gateway.generate(&Request::question("Hi"), Call::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "gave up after 4 attempts: rehearsal did not answer within 120 s"
    );
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let waits = started.elapsed() - Duration::from_secs(480);
    assert!(
        waits >= Duration::from_millis(1750) && waits <= Duration::from_millis(3600),
        "{waits:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_the_whole_call() {
    let retry = RetryPolicy { deadline: Duration::from_secs(200), ..RetryPolicy::default() };
    let gateway = Gateway::to_rehearsal(slow(500), Options { retry, ..Options::default() });
    let started = Instant::now();
    let error = gateway.generate(&Request::question("Hi"), Call::default()).await.unwrap_err();
    assert_eq!((error.kind(), started.elapsed().as_secs()), (ErrorKind::Deadline, 200));
    assert_eq!(
        error.to_string(),
        "rehearsal gave no answer within 200 s; last failure: rehearsal did not answer within 120 s"
    );
}

/// It cannot note anything for the first hour.
#[derive(Debug)]
struct HeldUp {
    begun: Instant,
    inner: MemoryLedger,
}

impl HeldUp {
    const HOUR: Duration = Duration::from_secs(3600);
}

#[async_trait]
impl Ledger for HeldUp {
    async fn reserve(&self, worst: Worst) -> Result<(), BudgetError> {
        self.inner.reserve(worst).await
    }

    async fn send(&self, _: Worst) -> Result<u64, BudgetError> {
        tokio::time::sleep_until(self.begun + Self::HOUR).await;
        Ok(0)
    }

    fn held_up(&self) -> Duration {
        self.begun.elapsed().min(Self::HOUR)
    }

    fn settle(&self, worst: Worst, sent: u64, settlement: Settlement) {
        self.inner.settle(worst, sent, settlement);
    }

    fn count_replayed(&self) {
        self.inner.count_replayed();
    }

    fn totals(&self) -> Totals {
        self.inner.totals()
    }
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_noted_is_not_late_by_that() {
    let retry = RetryPolicy { deadline: Duration::from_secs(200), ..RetryPolicy::default() };
    let options = || {
        let (begun, inner) = (Instant::now(), MemoryLedger::default());
        let ledger = Arc::new(HeldUp { begun, inner });
        Options { retry, ledger, ..Options::default() }
    };
    let started = Instant::now();
    let gateway = Gateway::to_rehearsal(slow(100), options());
    gateway.generate(&Request::question("Hi"), Call::default()).await.unwrap();
    assert_eq!(started.elapsed(), HeldUp::HOUR + Duration::from_secs(100));
    // From then on it counts.
    let started = Instant::now();
    let gateway = Gateway::to_rehearsal(slow(500), options());
    let error = gateway.generate(&Request::question("Hi"), Call::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Deadline, "{error}");
    assert_eq!(started.elapsed().as_secs(), 3600 + 200);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_stops_waiting() {
    let gateway = Gateway::to_rehearsal(slow(100), Options::default());
    let cancel = Cancel::new();
    let started = Instant::now();
    let request = Request::question("Hi");
    let call = Call { cancel: cancel.clone(), ..Call::default() };
    let (result, ()) = tokio::join!(gateway.generate(&request, call), async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        cancel.cancel("enough");
    });
    assert_eq!(result.unwrap_err().to_string(), "enough");
    assert_eq!(started.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn calls_at_once_are_bounded() {
    let pacer = Pacer::new(Limits { concurrency: 4, ..Limits::default() });
    let options = Options { pacer, ..Options::default() };
    let gateway = Arc::new(Gateway::to_rehearsal(slow(10), options));
    let started = Instant::now();
    let mut calls = JoinSet::new();
    for sample in 0..20 {
        let gateway = Arc::clone(&gateway);
        calls.spawn(async move {
            let request = Request { sample, ..Request::question("Hi") };
            gateway.generate(&request, Call::default()).await.unwrap()
        });
    }
    calls.join_all().await;
    assert_eq!(started.elapsed().as_secs(), 50, "20 calls of 10 s, 4 at once");
}

#[tokio::test(start_paused = true)]
async fn a_budget_is_hard_with_dozens_of_calls_under_way() {
    // A dollar a token: what a call may cost is easy to see.
    let price = Price::flat(1_000_000.0, 1_000_000.0, 1_000_000.0, 1_000_000.0);
    let cap = Money::from_dollars(12_000.0).unwrap();
    let ledger = Arc::new(MemoryLedger::new(Caps { cost: Some(cap), tokens: None }));
    let options = Options {
        ledger: Arc::clone(&ledger) as Arc<dyn Ledger>,
        pacer: Pacer::new(Limits { concurrency: 64, ..Limits::default() }),
        price,
        ..Options::default()
    };
    let gateway = Arc::new(Gateway::to_rehearsal(slow(1), options));
    let mut calls = JoinSet::new();
    for sample in 0..200 {
        let gateway = Arc::clone(&gateway);
        calls.spawn(async move {
            let request = Request { sample, max_tokens: 400, ..Request::question("Hi") };
            gateway.generate(&request, Call::default()).await
        });
    }
    let (done, stopped): (Vec<_>, Vec<_>) =
        calls.join_all().await.into_iter().partition(Result::is_ok);
    let totals = ledger.totals();
    assert!(totals.cost <= cap, "{} is over {cap}", totals.cost);
    assert!(totals.cost > Money::ZERO, "calls cost something");
    assert!(done.len() > 20, "only {} calls fitted", done.len());
    assert!(!stopped.is_empty(), "200 calls cannot all fit");
    for error in stopped.into_iter().map(Result::unwrap_err) {
        assert_eq!(error.kind(), ErrorKind::Budget);
        assert!(error.hint.as_deref().unwrap().contains("--max-cost"));
    }
}

#[tokio::test]
async fn a_cost_limit_with_an_unknown_price_is_refused_before_anything_is_sent() {
    let fake = assize_testkit::FakeProvider::scripted(assize_testkit::Kind::Groq, []);
    let mut endpoint = crate::endpoint(assize_testkit::Kind::Groq, &fake);
    endpoint.model = "mystery".to_owned();
    let caps = Caps { cost: Money::from_dollars(1.0), tokens: None };
    let options = Options { ledger: Arc::new(MemoryLedger::new(caps)), ..Options::default() };
    let client = assize_gateway::HttpClient::new();
    let gateway = Gateway::to_provider(&client, endpoint, options);
    let error = gateway.generate(&Request::question("Hi"), Call::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "a cost limit cannot be kept with a model whose price is unknown"
    );
    assert!(
        error.hint.as_deref().unwrap().contains("[prices.\"mystery\"]"),
        "{:?}",
        error.hint.as_deref()
    );
    assert!(fake.captured().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_rehearsal_is_deterministic_seeded_and_labelled() {
    let ask = |rehearsal: Rehearsal, question: &'static str| async move {
        let gateway = Gateway::to_rehearsal(rehearsal, Options::default());
        gateway.generate(&Request::question(question), Call::default()).await.unwrap()
    };
    let one = ask(Rehearsal::default(), "Should we open a factory?").await;
    let same = ask(Rehearsal::default(), "Should we open a factory?").await;
    let seeded =
        ask(Rehearsal { seed: 7, ..Rehearsal::default() }, "Should we open a factory?").await;
    assert_eq!(one.text, same.text);
    assert_ne!(one.text, seeded.text);
    assert!(one.rehearsal && one.text.contains("factory"));
    assert_eq!((one.provider.as_str(), one.cost), ("rehearsal", Cost::Known(Money::ZERO)));
    assert_eq!(REHEARSAL_LABEL, "rehearsal, no model was asked");
}

#[tokio::test(start_paused = true)]
async fn rehearsed_faults_are_repeated_like_real_ones_and_streams_restart() {
    let rehearsal = Rehearsal { fault_rate: 0.5, latency: Duration::from_millis(80), seed: 1 };
    let retry = RetryPolicy {
        retries: 40,
        deadline: Duration::from_secs(10_000),
        ..RetryPolicy::default()
    };
    let gateway = Gateway::to_rehearsal(rehearsal, Options { retry, ..Options::default() });
    let (mut attempts, mut restarts) = (0, 0);
    for sample in 0..40 {
        let heard = std::sync::Mutex::new((String::new(), 0));
        let on_delta = |delta: Delta<'_>| {
            let (text, restarts) = &mut *heard.lock().unwrap();
            match delta {
                Delta::Text(more) => text.push_str(more),
                Delta::Working => panic!("the answer is text"),
                Delta::Restart => {
                    text.clear();
                    *restarts += 1;
                }
            }
        };
        let request = Request { sample, ..Request::question("Say something longer") };
        let call = Call { on_delta: Some(&on_delta), ..Call::default() };
        let response = gateway.generate(&request, call).await.unwrap();
        let (text, again) = heard.into_inner().unwrap();
        assert_eq!(response.text, text, "after a restart the answer comes whole");
        assert_eq!(response.attempts, again + 1);
        attempts += response.attempts;
        restarts += again;
    }
    assert!((60..=110).contains(&attempts), "half should fail: {attempts} attempts for 40 calls");
    assert!(restarts > 0);
}

#[tokio::test(start_paused = true)]
async fn the_rehearsal_answers_typed_requests_validly() {
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
    let gateway = Gateway::to_rehearsal(Rehearsal::default(), Options::default());
    for sample in 0..50 {
        let request = Request { sample, ..Request::question("Score it") };
        let answer =
            gateway.generate_json(JsonAsk::<Score>::new(request), Call::default()).await.unwrap();
        assert_eq!(answer.provenance, Provenance::Native);
        assert!((1..=10).contains(&answer.value.impact));
    }
}
