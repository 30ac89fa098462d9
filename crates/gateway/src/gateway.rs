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
use assize_types::text::replace_control_chars;
use assize_types::{Cost, Failure, FailureKind};
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tracing::{Instrument, debug, debug_span, trace};

use crate::adapter::{EncodeOptions, ProviderReply};
use crate::cache_warmup::{CacheWarmup, WarmupPermit};
use crate::cassette::{Cassette, CassetteFilter};
use crate::catalog::ModelFacts;
use crate::estimate::{self, Estimate};
use crate::http::{HttpClient, HttpTransport};
use crate::provider::{Endpoint, display_name};
use crate::rate_limiter::{RateLimit, RateLimiter, RateLimits};
use crate::rehearsal::{PreparedAnswers, Rehearsal, RehearsalTransport};
use crate::retry::RetryPolicy;
use crate::transport::{OnProgress, OnText, SendOptions, Transport};

/// Callback for events of running model calls.
pub type CallObserver = Arc<dyn Fn(&CallEvent) + Send + Sync>;

/// Event of a running model call, for progress output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallEvent {
    /// An attempt failed. The call is retried after `wait`.
    Retry { attempt: u32, reason: String, wait: Duration },
    /// The call is delayed by `wait` to stay within the provider's rate limits.
    RateLimited { wait: Duration },
}

/// Configuration of a gateway.
#[derive(Clone)]
pub struct GatewayOptions {
    pub retry: RetryPolicy,
    /// Rate limiter of the provider. All gateways to the same provider share it.
    pub rate_limiter: Arc<dyn RateLimit>,
    pub ledger: Arc<dyn BudgetLedger>,
    pub cassette: Option<Arc<Cassette>>,
    /// Price that the settings contain for the model. It overrides the price in the catalog.
    pub price: Option<Price>,
    pub observer: Option<CallObserver>,
    /// Prepared answers of the rehearsal model. The rehearsal model generates an answer if none is prepared.
    pub prepared_answers: Option<PreparedAnswers>,
}

impl Default for GatewayOptions {
    fn default() -> GatewayOptions {
        GatewayOptions {
            retry: RetryPolicy::default(),
            rate_limiter: RateLimiter::new(RateLimits::default()),
            ledger: Arc::new(MemoryBudgetLedger::default()),
            cassette: None,
            price: None,
            observer: None,
            prepared_answers: None,
        }
    }
}

impl fmt::Debug for GatewayOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("retry", &self.retry)
            .field("rate_limiter", &self.rate_limiter)
            .field("cassette", &self.cassette)
            .finish_non_exhaustive()
    }
}

/// A model that handles its calls with retries, rate limits, a budget and an optional cassette.
#[derive(Debug)]
pub struct Gateway {
    /// Transport to the model; `None` if the gateway only replays a cassette.
    transport: Option<Arc<dyn Transport>>,
    options: GatewayOptions,
    /// Filter for recorded answers: the cassette may return only answers of this provider and model.
    cassette_filter: CassetteFilter,
    /// Request parameters that the model has rejected. They are no longer sent.
    rejected: RejectedParameters,
    /// State of the cache warm-up; `None` if the provider does not cache prompt prefixes.
    cache_warmup: Option<CacheWarmup>,
}

/// Request parameters that the model has rejected in earlier calls.
#[derive(Debug, Default)]
struct RejectedParameters {
    temperature: AtomicBool,
    schema: AtomicBool,
}

impl RejectedParameters {
    fn encode_options(&self, wire: &dyn Transport, stream: bool) -> EncodeOptions {
        EncodeOptions {
            stream,
            temperature: wire.facts().temperature && !self.temperature.load(Ordering::Relaxed),
            native_schema: !self.schema.load(Ordering::Relaxed),
        }
    }

    /// If the error says that the model does not support the temperature or schema parameter, records this parameter,
    /// so that later requests omit it. Returns whether a parameter was recorded.
    fn record_rejection(
        &self,
        error: &ModelError,
        request: &ModelRequest,
        encode_options: EncodeOptions,
    ) -> bool {
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
        let (flag, parameter) = if encode_options.temperature && names(&["temperature"]) {
            (&self.temperature, "temperature")
        } else if encode_options.native_schema && request.schema.is_some() && names(&SCHEMA_WORDS) {
            (&self.schema, "JSON schema")
        } else {
            return false;
        };
        debug!(parameter, "the model rejects a request parameter; later requests omit it");
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
        let cache_warmup = (endpoint.provider != Provider::Ollama).then(CacheWarmup::default);
        let wire = HttpTransport::new(client.clone(), endpoint, facts);
        Gateway { cache_warmup, ..Gateway::with_transport(Some(Arc::new(wire)), options) }
    }

    /// Creates a gateway to the rehearsal model.
    pub fn to_rehearsal(rehearsal: Rehearsal, options: GatewayOptions) -> Gateway {
        let wire =
            RehearsalTransport::new(rehearsal, options.price, options.prepared_answers.clone());
        Gateway::with_transport(Some(Arc::new(wire)), options)
    }

    /// Creates a gateway that only replays a cassette. A request that is not in the cassette is an error.
    pub fn to_cassette(
        cassette: Arc<Cassette>,
        cassette_filter: CassetteFilter,
        options: GatewayOptions,
    ) -> Gateway {
        let options = GatewayOptions { cassette: Some(cassette), ..options };
        Gateway { cassette_filter, ..Gateway::with_transport(None, options) }
    }

    fn with_transport(transport: Option<Arc<dyn Transport>>, options: GatewayOptions) -> Gateway {
        let cassette_filter = CassetteFilter {
            provider: transport.as_ref().map(|wire| wire.provider().to_owned()),
            model: transport.as_ref().map(|wire| wire.model().to_owned()),
        };
        Gateway {
            transport,
            options,
            cassette_filter,
            rejected: RejectedParameters::default(),
            cache_warmup: None,
        }
    }

    /// Names of the provider and the model. If the gateway only replays a cassette, the provider is `cassette` and the
    /// model is empty.
    pub fn name(&self) -> (&str, &str) {
        self.transport.as_ref().map_or(("cassette", ""), |wire| (wire.provider(), wire.model()))
    }

    /// Names of the provider and the model as one text, for output.
    pub fn display_name(&self) -> String {
        let (provider, model) = self.name();
        display_name(provider, model)
    }

    /// Price, context window and capabilities of the model; `None` if the gateway only replays a cassette.
    pub fn facts(&self) -> Option<&ModelFacts> {
        self.transport.as_ref().map(|wire| wire.facts())
    }

    /// Whether the rehearsal model answers instead of a real model.
    pub fn is_rehearsal(&self) -> bool {
        self.transport.as_ref().is_some_and(|wire| wire.is_rehearsal())
    }

    /// Maximum number of concurrent calls to the provider.
    pub fn concurrency(&self) -> usize {
        self.options.rate_limiter.concurrency()
    }

    pub fn ledger(&self) -> &Arc<dyn BudgetLedger> {
        &self.options.ledger
    }

    /// Estimates tokens and cost of a request; `None` if the gateway only replays a cassette.
    pub fn estimate(&self, request: &ModelRequest) -> Option<Estimate> {
        self.facts().map(|facts| Estimate::of_request(facts, request))
    }

    /// Returns an error with a hint if the price of the model is unknown.
    pub fn check_price(&self) -> Result<(), Failure> {
        if self.facts().is_none_or(|facts| facts.price.is_some()) {
            return Ok(());
        }
        let (provider, model) = self.name();
        let model = replace_control_chars(model);
        let message =
            format!("cannot estimate the cost: the price of `{model}` ({provider}) is unknown");
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

    /// Sends the request, and retries it after failures as the retry policy and the deadline permit.
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
            let turn = match &self.cache_warmup {
                Some(primer) => Some(primer.permit(request).await),
                None => None,
            };
            let first = turn.as_ref().is_some_and(WarmupPermit::is_first);
            // A local server may be slow. A stream shows whether the server still makes progress.
            let stream = call.on_delta.is_some() || first || wire.facts().local;
            let encode_options = self.rejected.encode_options(wire, stream);
            let text_seen = AtomicBool::new(false);
            let progress = || {
                clock.progress();
                turn.iter().for_each(WarmupPermit::answer_started);
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
            let outcome =
                self.attempt(wire, request, encode_options, clock, &on_text, &on_progress).await;
            clock.attempt_ended();
            if outcome.is_ok() {
                turn.iter().for_each(WarmupPermit::answer_started);
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
            if self.rejected.record_rejection(&error, request, encode_options) {
                continue;
            }
            let Some(wait) = self.options.retry.retry_delay(&error, attempt, fastrand::f64())
            else {
                return Err(after_attempts(error, attempt));
            };
            if wait > clock.left() {
                let late = format!(
                    "; the next attempt would be in {} s, after the deadline",
                    wait.as_secs()
                );
                return Err(after_attempts(error.append_message(&late), attempt));
            }
            if error.retry_after.is_some() {
                self.options.rate_limiter.cool_down(wait);
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
        encode_options: EncodeOptions,
        clock: &Clock<'_>,
        on_text: OnText<'_>,
        on_progress: OnProgress<'_>,
    ) -> Result<(ProviderReply, bool), ModelError> {
        let encoded = wire.encode(request, encode_options)?;
        let max_input = estimate::max_input_tokens(request);
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
            self.notify(CallEvent::RateLimited { wait });
        };
        let rate_limiter = Arc::clone(&self.options.rate_limiter);
        let permit =
            rate_limiter.admit(tokens, Instant::now() + clock.left(), &on_wait).await.map_err(|wait| {
                let (provider, seconds) = (wire.provider(), wait.as_secs());
                let message = format!(
                    "the rate limits of {provider} allow the call only in {seconds} s, after its deadline"
                );
                ModelError::new(ErrorKind::Deadline, message).with_hint(
                    "try again later, or allow more time with `gateway.deadline_seconds`",
                )
            })?;

        clock.dequeue();
        reservation.mark_sent().await.map_err(|error| over_budget(error, wire))?;
        let limit = self.options.retry.attempt_timeout;
        let sending = SendOptions {
            on_text: encode_options.stream.then_some(on_text),
            on_progress,
            on_remaining: &|left| self.options.rate_limiter.apply_remaining(left, tokens),
            start_timeout: match wire.facts().local {
                true => limit.max(self.options.retry.local_start_timeout),
                false => limit,
            },
            idle_timeout: limit,
        };
        let send = wire.send(&encoded, request, sending);
        // A stream has no total time limit as long as it makes progress.
        let outcome = match encode_options.stream {
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
                permit.set_actual_tokens(reply.usage.map_or(tokens, |usage| usage.total()));
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

    /// Returns the recorded outcome of the request, or `None` if there is no cassette or the cassette does not contain
    /// the request.
    fn replay(
        &self,
        request: &ModelRequest,
        call: &CallOptions<'_>,
    ) -> Option<Result<ModelResponse, ModelError>> {
        let outcome =
            self.options.cassette.as_ref()?.recorded_outcome(request, &self.cassette_filter)?;
        self.options.ledger.count_replayed();
        if let (Ok(response), Some(on_delta)) = (&outcome, call.on_delta) {
            on_delta(Delta::Text(&response.text));
        }
        Some(outcome)
    }

    async fn execute_call(
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
        let Some(wire) = &self.transport else {
            return Err(match cassette {
                Some(cassette) => cassette.missing(request, &self.cassette_filter),
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

/// Measures how much time of a call is left until its deadline.
///
/// The time does not run while the call waits for a free slot in the rate limiter, or for the ledger to record the
/// call. The deadline does not cut off an answer that is still streaming.
struct Clock<'a> {
    started: Instant,
    deadline: Duration,
    /// Maximum time between two signs of progress of a streamed answer.
    idle_timeout: Duration,
    ledger: &'a dyn BudgetLedger,
    /// [`BudgetLedger::unavailable_time`] at the start of the call. Only the increase since then extends the deadline.
    unavailable_before: Duration,
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
            unavailable_before: ledger.unavailable_time(),
            progress: Mutex::default(),
        }
    }

    /// Stops the clock of the deadline until [`dequeue`](Clock::dequeue) is called.
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
        let held_up = self.ledger.unavailable_time().saturating_sub(self.unavailable_before);
        let state = self.progress.lock();
        let queued = state.queued + state.queued_since.map_or(Duration::ZERO, |at| at.elapsed());
        (self.deadline + held_up + queued).saturating_sub(self.started.elapsed())
    }

    /// Time that a streaming answer has left to make progress; `None` if no answer is streaming or no time is left.
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
            let outcome = self.execute_call(request, call).await;
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

/// Returns the settlement of the reservation of an answered call. If the provider reports neither usage nor cost, the
/// call counts as lost, with the whole reserved cost.
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
        BudgetError::NotRecorded { ref hint, .. } => {
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
