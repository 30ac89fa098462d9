//! The gateway: applies the cassette, rate limits, budget, retries and deadline to every model call.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assize_config::{Price, Provider};
use assize_llm::{
    BudgetError, BudgetLedger, CallMaximum, CallOptions, Delta, ErrorKind, MemoryBudgetLedger,
    Model, ModelError, ModelRequest, ModelResponse, PromptMessage, Reservation, Settlement,
    StopReason,
};
use assize_types::text::harmless;
use assize_types::{Cost, Failure, FailureKind};
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tracing::{Instrument, debug, debug_span, trace};

use crate::cassette::{Cassette, CassetteFilter};
use crate::catalog::ModelFacts;
use crate::dialect::{EncodeOptions, ProviderReply};
use crate::estimate::{self, Estimate};
use crate::http::{HttpClient, HttpTransport};
use crate::pace::{RateLimit, RateLimiter, RateLimits};
use crate::prime::{CacheWarmup, WarmupPermit};
use crate::provider::Endpoint;
use crate::rehearsal::{PreparedAnswers, Rehearsal, RehearsalTransport};
use crate::retry::RetryPolicy;
use crate::wire::{OnProgress, OnText, SendOptions, Transport};

/// Callback for events of running model calls.
pub type CallObserver = Arc<dyn Fn(&CallEvent) + Send + Sync>;

/// Event of a running model call, for progress output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallEvent {
    /// An attempt failed. The call is retried after `wait`.
    Retry { attempt: u32, reason: String, wait: Duration },
    /// The call is delayed by `wait` to stay within the provider's rate limits.
    Paced { wait: Duration },
}

/// Configuration of a gateway.
#[derive(Clone)]
pub struct GatewayOptions {
    pub retry: RetryPolicy,
    /// Rate limiter, shared by all gateways to one provider.
    pub pacer: Arc<dyn RateLimit>,
    pub ledger: Arc<dyn BudgetLedger>,
    pub cassette: Option<Arc<Cassette>>,
    /// Price of the model from the settings. It overrides the price in the catalog.
    pub price: Option<Price>,
    pub observer: Option<CallObserver>,
    /// Prepared answers of the rehearsal model. The rehearsal model generates an answer if none is prepared.
    pub script: Option<PreparedAnswers>,
}

impl Default for GatewayOptions {
    fn default() -> GatewayOptions {
        GatewayOptions {
            retry: RetryPolicy::default(),
            pacer: RateLimiter::new(RateLimits::default()),
            ledger: Arc::new(MemoryBudgetLedger::default()),
            cassette: None,
            price: None,
            observer: None,
            script: None,
        }
    }
}

impl fmt::Debug for GatewayOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("retry", &self.retry)
            .field("pacer", &self.pacer)
            .field("cassette", &self.cassette)
            .finish_non_exhaustive()
    }
}

/// A model with retries, rate limits, a budget and an optional cassette.
#[derive(Debug)]
pub struct Gateway {
    /// Transport to the model; `None` if the gateway only replays a cassette.
    wire: Option<Arc<dyn Transport>>,
    options: GatewayOptions,
    /// Provider and model whose recorded answers the cassette may return.
    asked: CassetteFilter,
    /// Request parameters that the model has rejected. They are no longer sent.
    rejected: RejectedParameters,
    /// State of the cache warm-up; `None` if the provider does not cache prompt prefixes.
    primer: Option<CacheWarmup>,
}

/// Request parameters that the model has rejected in earlier calls.
#[derive(Debug, Default)]
struct RejectedParameters {
    temperature: AtomicBool,
    schema: AtomicBool,
}

impl RejectedParameters {
    fn manner(&self, wire: &dyn Transport, stream: bool) -> EncodeOptions {
        EncodeOptions {
            stream,
            temperature: wire.facts().temperature && !self.temperature.load(Ordering::Relaxed),
            native_schema: !self.schema.load(Ordering::Relaxed),
        }
    }

    /// If the error says that the model does not support a parameter that can be omitted, records the parameter.
    /// Returns whether a parameter was recorded.
    fn learn(&self, error: &ModelError, request: &ModelRequest, manner: EncodeOptions) -> bool {
        if error.kind() != ErrorKind::BadRequest {
            return false;
        }
        let message = error.message().to_lowercase();
        let names = |words: &[&str]| words.iter().any(|word| message.contains(word));
        // Other errors, such as a value out of range or an invalid schema, must be fixed by the caller.
        if !names(&[
            "not support",
            "unsupported",
            "deprecated",
            "not permitted",
            "unknown",
            "unrecognized",
        ]) {
            return false;
        }
        let (flag, parameter) = if manner.temperature && names(&["temperature"]) {
            (&self.temperature, "temperature")
        } else if manner.native_schema && request.schema.is_some() && names(&SCHEMA_WORDS) {
            (&self.schema, "JSON schema")
        } else {
            return false;
        };
        debug!(parameter, "the model rejects this parameter; later requests omit it");
        flag.store(true, Ordering::Relaxed);
        true
    }
}

/// Names of the schema parameter in the providers' error messages.
const SCHEMA_WORDS: [&str; 4] =
    ["response_format", "json_schema", "output_config", "responsejsonschema"];

impl Gateway {
    /// Creates a gateway to a provider.
    pub fn to_provider(
        client: &HttpClient,
        endpoint: Endpoint,
        options: GatewayOptions,
    ) -> Gateway {
        let mut facts = ModelFacts::of(&endpoint);
        facts.price = options.price.or(facts.price);
        let primer = (endpoint.provider != Provider::Ollama).then(CacheWarmup::default);
        let wire = HttpTransport::new(client.clone(), endpoint, facts);
        Gateway { primer, ..Gateway::over(Some(Arc::new(wire)), options) }
    }

    /// Creates a gateway to the rehearsal model.
    pub fn to_rehearsal(rehearsal: Rehearsal, options: GatewayOptions) -> Gateway {
        let wire = RehearsalTransport::new(rehearsal, options.price, options.script.clone());
        Gateway::over(Some(Arc::new(wire)), options)
    }

    /// Creates a gateway that only replays a cassette. A request that is not in the cassette is an error.
    pub fn to_cassette(
        cassette: Arc<Cassette>,
        asked: CassetteFilter,
        options: GatewayOptions,
    ) -> Gateway {
        let options = GatewayOptions { cassette: Some(cassette), ..options };
        Gateway { asked, ..Gateway::over(None, options) }
    }

    fn over(wire: Option<Arc<dyn Transport>>, options: GatewayOptions) -> Gateway {
        let asked = CassetteFilter {
            provider: wire.as_ref().map(|wire| wire.provider().to_owned()),
            model: wire.as_ref().map(|wire| wire.model().to_owned()),
        };
        Gateway { wire, options, asked, rejected: RejectedParameters::default(), primer: None }
    }

    /// Names of the provider and the model; `cassette` and an empty name if the gateway only replays a cassette.
    pub fn name(&self) -> (&str, &str) {
        self.wire.as_ref().map_or(("cassette", ""), |wire| (wire.provider(), wire.model()))
    }

    /// Names of the provider and the model as one text, for output.
    pub fn called(&self) -> String {
        match self.name() {
            (provider, model) if provider == model => provider.to_owned(),
            (provider, model) => format!("{provider} {model}").trim_end().to_owned(),
        }
    }

    /// Price, context window and capabilities of the model; `None` if the gateway only replays a cassette.
    pub fn facts(&self) -> Option<&ModelFacts> {
        self.wire.as_ref().map(|wire| wire.facts())
    }

    /// Whether the rehearsal model answers instead of a real model.
    pub fn is_rehearsal(&self) -> bool {
        self.wire.as_ref().is_some_and(|wire| wire.is_rehearsal())
    }

    /// Maximum number of concurrent calls to the provider.
    pub fn concurrency(&self) -> usize {
        self.options.pacer.concurrency()
    }

    pub fn ledger(&self) -> &Arc<dyn BudgetLedger> {
        &self.options.ledger
    }

    /// Estimates tokens and cost of a request; `None` if the gateway only replays a cassette.
    pub fn estimate(&self, request: &ModelRequest) -> Option<Estimate> {
        self.facts().map(|facts| Estimate::of_request(facts, request))
    }

    /// Returns an error with a hint if the cost of an estimate is unknown.
    pub fn check_price(&self, cost: Cost) -> Result<(), Failure> {
        if cost != Cost::Unknown {
            return Ok(());
        }
        let (provider, model) = self.name();
        let model = harmless(model);
        let whose = match self.facts().is_some_and(|facts| facts.price.is_none()) {
            true => format!("`{model}` ({provider})"),
            false => "the model of a role".to_owned(),
        };
        let message = format!("cannot estimate the cost: the price of {whose} is unknown");
        Err(Failure::new(FailureKind::Settings, message).hint(format!(
            "set the price in dollars per million tokens: `[prices.\"{model}\"]` with `input` and `output` in the \
             settings file; or limit the tokens with `--max-tokens`, which needs no price"
        )))
    }

    fn notify(&self, event: CallEvent) {
        if let Some(observer) = &self.options.observer {
            observer(&event);
        }
    }

    /// Sends the request, and retries it until it is answered or an error must not be retried.
    async fn attempts(
        &self,
        wire: &dyn Transport,
        request: &ModelRequest,
        call: &CallOptions<'_>,
        clock: &Clock<'_>,
        last_failure: &Mutex<Option<String>>,
    ) -> Result<ModelResponse, ModelError> {
        let started = Instant::now();
        let mut attempt = 1;
        loop {
            let turn = match &self.primer {
                Some(primer) => Some(primer.turn(request).await),
                None => None,
            };
            let first = turn.as_ref().is_some_and(WarmupPermit::is_first);
            // A local server may be slow. A stream shows whether the server still makes progress.
            let stream = call.on_delta.is_some() || first || wire.facts().local;
            let manner = self.rejected.manner(wire, stream);
            let text_seen = AtomicBool::new(false);
            let progress = || {
                clock.progress();
                turn.iter().for_each(WarmupPermit::begun);
            };
            let on_progress = || {
                progress();
                if let Some(on_delta) = call.on_delta {
                    on_delta(Delta::Working);
                }
            };
            let on_text = |text: &str| {
                text_seen.store(true, Ordering::Relaxed);
                progress();
                if let Some(on_delta) = call.on_delta {
                    on_delta(Delta::Text(text));
                }
            };
            let outcome = self.attempt(wire, request, manner, clock, &on_text, &on_progress).await;
            clock.attempt_ended();
            if outcome.is_ok() {
                turn.iter().for_each(WarmupPermit::begun);
            }
            // Calls that wait for this call to warm up the cache must not wait for its retry.
            drop(turn);
            let error = match outcome {
                Ok((reply, schema_enforced)) => {
                    let took = started.elapsed().as_millis() as u64;
                    return Ok(response(wire, reply, schema_enforced, attempt, took));
                }
                Err(error) => error,
            };
            if self.rejected.learn(&error, request, manner) {
                continue;
            }
            let Some(wait) = self.options.retry.wait_after(&error, attempt, fastrand::f64()) else {
                return Err(after_attempts(error, attempt));
            };
            if wait > clock.left() {
                let late = format!(
                    "; the next attempt would be in {} s, after the deadline",
                    wait.as_secs()
                );
                return Err(after_attempts(error.and(&late), attempt));
            }
            if error.retry_after.is_some() {
                self.options.pacer.cool_down(wait);
            }
            *last_failure.lock() = Some(error.message().to_owned());
            debug!(
                attempt,
                wait_ms = wait.as_millis() as u64,
                error = error.message(),
                "model call failed; retrying"
            );
            if let Some(on_delta) = call.on_delta.filter(|_| text_seen.load(Ordering::Relaxed)) {
                on_delta(Delta::Restart);
            }
            self.notify(CallEvent::Retry { attempt, reason: error.message().to_owned(), wait });
            sleep(wait).await;
            attempt += 1;
        }
    }

    /// Makes one attempt: reserves its maximum cost, waits for the rate limiter, and sends the request.
    async fn attempt(
        &self,
        wire: &dyn Transport,
        request: &ModelRequest,
        manner: EncodeOptions,
        clock: &Clock<'_>,
        on_text: OnText<'_>,
        on_progress: OnProgress<'_>,
    ) -> Result<(ProviderReply, bool), ModelError> {
        let encoded = wire.encode(request, manner)?;
        let max_input = estimate::most_input_tokens(request);
        let max_output = u64::from(request.max_tokens);
        let worst = CallMaximum {
            tokens: max_input + max_output,
            cost: wire.facts().cost_at_most(max_input, max_output),
        };
        let mut reservation = Reservation::make(&self.options.ledger, worst)
            .await
            .map_err(|error| over_budget(error, wire))?;
        let tokens = estimate::likely_input_tokens(request) + max_output;
        clock.queue();
        let on_wait = |wait| {
            clock.dequeue();
            self.notify(CallEvent::Paced { wait });
        };
        let pacer = Arc::clone(&self.options.pacer);
        let permit =
            pacer.admit(tokens, Instant::now() + clock.left(), &on_wait).await.map_err(|wait| {
                let (provider, seconds) = (wire.provider(), wait.as_secs());
                let message = format!(
                    "the rate limits of {provider} allow the next call in {seconds} s, after the deadline"
                );
                ModelError::new(ErrorKind::Deadline, message).with_hint(
                    "try again later, or allow more time with `gateway.deadline_seconds`",
                )
            })?;

        clock.dequeue();
        reservation.send().await.map_err(|error| over_budget(error, wire))?;
        let limit = self.options.retry.attempt_timeout;
        let sending = SendOptions {
            on_text: manner.stream.then_some(on_text),
            on_progress,
            learn: &|left| self.options.pacer.learn(left, tokens),
            start_timeout: match wire.facts().local {
                true => limit.max(self.options.retry.local_start_timeout),
                false => limit,
            },
            patience: limit,
        };
        let send = wire.send(&encoded, request, sending);
        // A stream has no total time limit as long as it makes progress.
        let outcome = match manner.stream {
            true => send.await,
            false => timeout(limit, send).await.unwrap_or_else(|_| {
                let seconds = limit.as_secs();
                let message = format!("{} did not answer within {seconds} s", wire.provider());
                Err(ModelError::new(ErrorKind::Timeout, message)
                    .with_hint("allow more time with `gateway.timeout_seconds`"))
            }),
        };
        match outcome {
            Ok(reply) => {
                permit.used(reply.usage.map_or(tokens, |usage| usage.total()));
                reservation.settle(settlement(wire, &reply));
                let empty = reply.text.trim().is_empty() && reply.tool_calls.is_empty();
                if empty && reply.stop == StopReason::End {
                    let message = format!("{} returned an empty answer", wire.provider());
                    return Err(ModelError::new(ErrorKind::Empty, message));
                }
                Ok((reply, encoded.schema_enforced))
            }
            Err(error) => {
                let lost = error.may_be_charged;
                reservation.settle(if lost { Settlement::Lost } else { Settlement::Free });
                Err(error)
            }
        }
    }

    /// Returns the recorded outcome of the request, or `None` if the cassette has none or there is no cassette.
    fn replay(
        &self,
        request: &ModelRequest,
        call: &CallOptions<'_>,
    ) -> Option<Result<ModelResponse, ModelError>> {
        let outcome = self.options.cassette.as_ref()?.play(request, &self.asked)?;
        self.options.ledger.count_replayed();
        if let (Ok(response), Some(on_delta)) = (&outcome, call.on_delta) {
            on_delta(Delta::Text(&response.text));
        }
        Some(outcome)
    }

    async fn ask(
        &self,
        request: &ModelRequest,
        call: CallOptions<'_>,
    ) -> Result<ModelResponse, ModelError> {
        if !matches!(request.prompt.messages().last(), Some(PromptMessage::User { .. })) {
            return Err(ModelError::new(
                ErrorKind::BadRequest,
                "the prompt does not end with a user message",
            ));
        }
        if let Some(outcome) = self.replay(request, &call) {
            return outcome;
        }
        let cassette = self.options.cassette.as_ref();
        let Some(wire) = &self.wire else {
            return Err(match cassette {
                Some(cassette) => cassette.missing(request, &self.asked),
                None => ModelError::new(
                    ErrorKind::Internal,
                    "the gateway has neither a provider nor a cassette",
                ),
            });
        };
        let RetryPolicy { deadline, attempt_timeout, .. } = self.options.retry;
        let clock = Clock::begin(deadline, attempt_timeout, &*self.options.ledger);
        let last_failure = Mutex::new(None);
        let outcome = tokio::select! {
            biased;
            reason = call.cancel.cancelled() => Err(ModelError::new(ErrorKind::Cancelled, reason)),
            outcome = self.attempts(&**wire, request, &call, &clock, &last_failure) => outcome,
            () = clock.expired() => {
                let last = last_failure.lock().take();
                let last = last.map(|error| format!("; last failure: {error}")).unwrap_or_default();
                let seconds = clock.deadline.as_secs();
                let provider = wire.provider();
                let message = format!("{provider} gave no answer before the deadline of {seconds} s{last}");
                Err(ModelError::new(ErrorKind::Deadline, message)
                    .with_hint("allow more time with `gateway.deadline_seconds`"))
            }
        };
        match cassette {
            Some(cassette) => cassette.add(request, wire.provider(), wire.model(), outcome),
            None => outcome,
        }
    }
}

/// Measures the time until the deadline of one call.
///
/// The time stops while the call waits for a free slot in the rate limiter, or for the ledger to record the call. The
/// deadline does not cut off an answer that is still streaming.
struct Clock<'a> {
    started: Instant,
    deadline: Duration,
    /// Maximum time without progress of a stream.
    idle_timeout: Duration,
    ledger: &'a dyn BudgetLedger,
    /// Total time during which the ledger was unavailable before this call.
    held_up_before: Duration,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// Total time that the call has spent in the queue of the rate limiter.
    queued: Duration,
    queued_since: Option<Instant>,
    /// Time of the last progress of the streamed answer.
    last_progress: Option<Instant>,
}

impl Clock<'_> {
    fn begin(deadline: Duration, idle_timeout: Duration, ledger: &dyn BudgetLedger) -> Clock<'_> {
        Clock {
            started: Instant::now(),
            deadline,
            idle_timeout,
            ledger,
            held_up_before: ledger.held_up(),
            progress: Mutex::default(),
        }
    }

    /// Stops the clock until [`dequeue`](Clock::dequeue).
    fn queue(&self) {
        self.progress.lock().queued_since.get_or_insert_with(Instant::now);
    }

    fn dequeue(&self) {
        let mut state = self.progress.lock();
        if let Some(since) = state.queued_since.take() {
            state.queued += since.elapsed();
        }
    }

    /// Records that the streamed answer made progress now.
    fn progress(&self) {
        self.progress.lock().last_progress = Some(Instant::now());
    }

    fn attempt_ended(&self) {
        self.dequeue();
        self.progress.lock().last_progress = None;
    }

    fn left(&self) -> Duration {
        let held_up = self.ledger.held_up().saturating_sub(self.held_up_before);
        let state = self.progress.lock();
        let queued = state.queued + state.queued_since.map_or(Duration::ZERO, |at| at.elapsed());
        (self.deadline + held_up + queued).saturating_sub(self.started.elapsed())
    }

    /// Remaining time in which a streaming answer must make progress; `None` if no answer is streaming or the time is
    /// over.
    fn still_streaming(&self) -> Option<Duration> {
        let last_progress = self.progress.lock().last_progress?;
        self.idle_timeout.checked_sub(last_progress.elapsed()).filter(|left| !left.is_zero())
    }

    async fn expired(&self) {
        // While the call is queued or not yet recorded, the remaining time does not decrease.
        while let Some(left) =
            Some(self.left()).filter(|left| !left.is_zero()).or_else(|| self.still_streaming())
        {
            sleep(left.max(Duration::from_millis(100))).await;
        }
    }
}

#[async_trait]
impl Model for Gateway {
    async fn generate(
        &self,
        request: &ModelRequest,
        call: CallOptions<'_>,
    ) -> Result<ModelResponse, ModelError> {
        let (provider, model) = self.name();
        let span = debug_span!(
            "chat",
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = provider,
            gen_ai.request.model = model,
            gen_ai.request.max_tokens = request.max_tokens,
        );
        async {
            trace!(request = ?request, "model call starts");
            let outcome = self.ask(request, call).await;
            match &outcome {
                Ok(response) => {
                    let usage = response.usage.unwrap_or_default();
                    debug!(
                        gen_ai.response.model = response.model,
                        gen_ai.usage.input_tokens = usage.input,
                        gen_ai.usage.output_tokens = usage.output,
                        cached_input_tokens = usage.cached_input,
                        cost = %response.cost,
                        attempts = response.attempts,
                        duration_ms = response.duration_ms,
                        stop = ?response.stop,
                        "model call answered"
                    );
                    trace!(text = response.text, "text of the answer");
                }
                Err(error) => {
                    debug!(kind = ?error.kind(), error = error.message(), "model call failed")
                }
            }
            outcome
        }
        .instrument(span)
        .await
    }
}

/// Returns how to settle the reservation of an answered call. If the provider reports no usage, the cost is unknown, so
/// the call counts with its maximum cost.
fn settlement(wire: &dyn Transport, reply: &ProviderReply) -> Settlement {
    match (reply.usage, reply.cost) {
        (None, None) => Settlement::Lost,
        (usage, Some(cost)) => {
            Settlement::Spent { usage: usage.unwrap_or_default(), cost: Cost::Known(cost) }
        }
        (Some(usage), None) => Settlement::Spent { usage, cost: wire.facts().cost(&usage) },
    }
}

fn response(
    wire: &dyn Transport,
    reply: ProviderReply,
    schema_enforced: bool,
    attempts: u32,
    duration_ms: u64,
) -> ModelResponse {
    let cost = match settlement(wire, &reply) {
        Settlement::Spent { cost, .. } => cost,
        _ => Cost::Unknown,
    };
    ModelResponse {
        text: reply.text,
        tool_calls: reply.tool_calls,
        stop: reply.stop,
        usage: reply.usage,
        cost,
        provider: wire.provider().to_owned(),
        model: reply.model.unwrap_or_else(|| wire.model().to_owned()),
        schema_enforced,
        rehearsal: wire.is_rehearsal(),
        attempts,
        duration_ms,
    }
}

fn after_attempts(mut error: ModelError, attempts: u32) -> ModelError {
    error.attempts = attempts;
    if attempts == 1 { error } else { error.context(&format!("all {attempts} attempts failed")) }
}

fn over_budget(error: BudgetError, wire: &dyn Transport) -> ModelError {
    let hint = match error {
        // A call that cannot be recorded must not be sent.
        BudgetError::NotNoted { ref hint, .. } => {
            let mut not_noted = ModelError::new(ErrorKind::NotNoted, error.to_string());
            not_noted.hint.clone_from(hint);
            return not_noted;
        }
        BudgetError::Cost { .. } => "raise `--max-cost` to continue".to_owned(),
        BudgetError::Tokens { .. } => "raise `--max-tokens` to continue".to_owned(),
        BudgetError::NoPrice => format!(
            "set the price of the model in the settings, in dollars per million tokens: \
             `[prices.\"{}\"]` with `input` and `output`; or use `--max-tokens`",
            wire.model()
        ),
    };
    ModelError::new(ErrorKind::Budget, error.to_string()).with_hint(hint)
}
