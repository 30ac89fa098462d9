//! The one way to a model: everything that must happen around a call happens here, once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assize_config::{Price, Provider};
use assize_llm::{
    BudgetError, Call, Delta, ErrorKind, Ledger, MemoryLedger, Message, Model, ModelError, Request,
    Reservation, Response, Settlement, Stop, Worst,
};
use assize_types::text::harmless;
use assize_types::{Cost, Failure, FailureKind};
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tracing::{Instrument, debug, debug_span, trace};

use crate::cassette::{Asked, Cassette};
use crate::catalog::ModelFacts;
use crate::dialect::{Manner, Reply};
use crate::estimate::{self, Estimate};
use crate::http::{HttpClient, HttpWire};
use crate::pace::{Limits, Pace, Pacer};
use crate::prime::{Primer, Turn};
use crate::provider::Endpoint;
use crate::rehearsal::{Rehearsal, RehearsalWire, Script};
use crate::retry::RetryPolicy;
use crate::wire::{OnProgress, OnText, Sending, Wire};

/// Hears what happens to calls while they are under way.
pub type Observer = Arc<dyn Fn(&Event) + Send + Sync>;

/// Something that a person who waits would like to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An attempt failed; the call is sent again after the wait.
    Retry { attempt: u32, reason: String, wait: Duration },
    /// The call is held back to keep within the provider's limits.
    Paced { wait: Duration },
}

/// How a gateway is set up.
#[derive(Clone)]
pub struct Options {
    pub retry: RetryPolicy,
    /// Shared by all gateways to one provider.
    pub pacer: Arc<dyn Pace>,
    pub ledger: Arc<dyn Ledger>,
    pub cassette: Option<Arc<Cassette>>,
    /// What the user says the model costs, which beats the catalog.
    pub price: Option<Price>,
    pub observer: Option<Observer>,
    /// What the rehearsal model knows by heart; it makes up the rest.
    pub script: Option<Script>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            retry: RetryPolicy::default(),
            pacer: Pacer::new(Limits::default()),
            ledger: Arc::new(MemoryLedger::default()),
            cassette: None,
            price: None,
            observer: None,
            script: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("retry", &self.retry)
            .field("pacer", &self.pacer)
            .field("cassette", &self.cassette)
            .finish_non_exhaustive()
    }
}

/// A model behind retries, pacing, a budget and a cassette.
#[derive(Debug)]
pub struct Gateway {
    /// `None` when only a cassette is played.
    wire: Option<Arc<dyn Wire>>,
    options: Options,
    /// Whose answers a cassette is asked for.
    asked: Asked,
    /// Learned from refusals: what this model does not take.
    refused: Refused,
    /// Where the provider caches what prompts begin with.
    primer: Option<Primer>,
}

/// What a model has turned calls down for.
#[derive(Debug, Default)]
struct Refused {
    temperature: AtomicBool,
    schema: AtomicBool,
}

impl Refused {
    fn manner(&self, wire: &dyn Wire, stream: bool) -> Manner {
        Manner {
            stream,
            temperature: wire.facts().temperature && !self.temperature.load(Ordering::Relaxed),
            native_schema: !self.schema.load(Ordering::Relaxed),
        }
    }

    /// Takes note if the call was turned down for something that can be left out; whether it was.
    fn learn(&self, error: &ModelError, request: &Request, manner: Manner) -> bool {
        if error.kind() != ErrorKind::BadRequest {
            return false;
        }
        let message = error.message().to_lowercase();
        let names = |words: &[&str]| words.iter().any(|word| message.contains(word));
        // A value that is out of range, or a schema that is wrong, is the caller's to mend.
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
        let (flag, what) = if manner.temperature && names(&["temperature"]) {
            (&self.temperature, "temperature")
        } else if manner.native_schema && request.schema.is_some() && names(&SCHEMA_WORDS) {
            (&self.schema, "JSON schema")
        } else {
            return false;
        };
        debug!(what, "the model does not take this parameter; it is left out from now on");
        flag.store(true, Ordering::Relaxed);
        true
    }
}

/// How providers name the parameter that carries a schema.
const SCHEMA_WORDS: [&str; 4] =
    ["response_format", "json_schema", "output_config", "responsejsonschema"];

impl Gateway {
    /// A gateway to a provider.
    pub fn to_provider(client: &HttpClient, endpoint: Endpoint, options: Options) -> Gateway {
        let mut facts = ModelFacts::of(&endpoint);
        facts.price = options.price.or(facts.price);
        let primer = (endpoint.provider != Provider::Ollama).then(Primer::default);
        let wire = HttpWire::new(client.clone(), endpoint, facts);
        Gateway { primer, ..Gateway::over(Some(Arc::new(wire)), options) }
    }

    /// A gateway to the rehearsal model.
    pub fn to_rehearsal(rehearsal: Rehearsal, options: Options) -> Gateway {
        let wire = RehearsalWire::new(rehearsal, options.price, options.script.clone());
        Gateway::over(Some(Arc::new(wire)), options)
    }

    /// A gateway to a cassette alone: nothing goes out, and what is not on it is an error.
    pub fn to_cassette(cassette: Arc<Cassette>, asked: Asked, options: Options) -> Gateway {
        let options = Options { cassette: Some(cassette), ..options };
        Gateway { asked, ..Gateway::over(None, options) }
    }

    fn over(wire: Option<Arc<dyn Wire>>, options: Options) -> Gateway {
        let asked = Asked {
            provider: wire.as_ref().map(|wire| wire.provider().to_owned()),
            model: wire.as_ref().map(|wire| wire.model().to_owned()),
        };
        Gateway { wire, options, asked, refused: Refused::default(), primer: None }
    }

    /// Who is asked: provider and model. Of a cassette alone, nobody.
    pub fn name(&self) -> (&str, &str) {
        self.wire.as_ref().map_or(("cassette", ""), |wire| (wire.provider(), wire.model()))
    }

    /// Who is asked, in words.
    pub fn called(&self) -> String {
        match self.name() {
            (provider, model) if provider == model => provider.to_owned(),
            (provider, model) => format!("{provider} {model}").trim_end().to_owned(),
        }
    }

    /// What is known of the model; nothing when only a cassette is played.
    pub fn facts(&self) -> Option<&ModelFacts> {
        self.wire.as_ref().map(|wire| wire.facts())
    }

    /// Whether no model is asked at all.
    pub fn is_rehearsal(&self) -> bool {
        self.wire.as_ref().is_some_and(|wire| wire.is_rehearsal())
    }

    /// Calls to its provider that may be under way at once.
    pub fn concurrency(&self) -> usize {
        self.options.pacer.concurrency()
    }

    pub fn ledger(&self) -> &Arc<dyn Ledger> {
        &self.options.ledger
    }

    /// What a request is likely to take, before it is sent.
    pub fn estimate(&self, request: &Request) -> Option<Estimate> {
        self.facts().map(|facts| Estimate::of_request(facts, request))
    }

    /// Refuses to call an estimate complete that has no cost.
    pub fn check_price(&self, cost: Cost) -> Result<(), Failure> {
        if cost != Cost::Unknown {
            return Ok(());
        }
        let (provider, model) = self.name();
        let model = harmless(model);
        let whose = match self.facts().is_some_and(|facts| facts.price.is_none()) {
            true => format!("`{model}` ({provider})"),
            false => "a model that a role uses".to_owned(),
        };
        let message = format!("no cost estimate: the price of {whose} is unknown");
        Err(Failure::new(FailureKind::Settings, message).hint(format!(
            "set it in dollars for a million tokens: `[prices.\"{model}\"]` with `input` and `output` in the settings \
             file; `--max-tokens` limits what is spent without a price"
        )))
    }

    fn tell(&self, event: Event) {
        if let Some(observer) = &self.options.observer {
            observer(&event);
        }
    }

    /// Sends the request until it is answered or there is no more point in it.
    async fn attempts(
        &self,
        wire: &dyn Wire,
        request: &Request,
        call: &Call<'_>,
        clock: &Clock<'_>,
        last_failure: &Mutex<Option<String>>,
    ) -> Result<Response, ModelError> {
        let started = Instant::now();
        let mut attempt = 1;
        loop {
            let turn = match &self.primer {
                Some(primer) => Some(primer.turn(request).await),
                None => None,
            };
            let first = turn.as_ref().is_some_and(Turn::is_first);
            // The user's own server may be slow: a stream shows whether it is still at work.
            let stream = call.on_delta.is_some() || first || wire.facts().local;
            let manner = self.refused.manner(wire, stream);
            let heard = AtomicBool::new(false);
            let progress = || {
                clock.progress();
                turn.iter().for_each(Turn::begun);
            };
            let work = || {
                progress();
                if let Some(on_delta) = call.on_delta {
                    on_delta(Delta::Working);
                }
            };
            let hear = |text: &str| {
                heard.store(true, Ordering::Relaxed);
                progress();
                if let Some(on_delta) = call.on_delta {
                    on_delta(Delta::Text(text));
                }
            };
            let outcome = self.attempt(wire, request, manner, clock, &hear, &work).await;
            clock.attempt_ended();
            if outcome.is_ok() {
                turn.iter().for_each(Turn::begun);
            }
            // Whoever waits for this one to be the first does not wait for its next attempt.
            drop(turn);
            let error = match outcome {
                Ok((reply, schema_enforced)) => {
                    let took = started.elapsed().as_millis() as u64;
                    return Ok(response(wire, reply, schema_enforced, attempt, took));
                }
                Err(error) => error,
            };
            if self.refused.learn(&error, request, manner) {
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
                "model call failed and is repeated"
            );
            if let Some(on_delta) = call.on_delta.filter(|_| heard.load(Ordering::Relaxed)) {
                on_delta(Delta::Restart);
            }
            self.tell(Event::Retry { attempt, reason: error.message().to_owned(), wait });
            sleep(wait).await;
            attempt += 1;
        }
    }

    /// One attempt, with its worst case reserved and its turn waited for.
    async fn attempt(
        &self,
        wire: &dyn Wire,
        request: &Request,
        manner: Manner,
        clock: &Clock<'_>,
        hear: OnText<'_>,
        on_progress: OnProgress<'_>,
    ) -> Result<(Reply, bool), ModelError> {
        let encoded = wire.encode(request, manner)?;
        let most_input = estimate::most_input_tokens(request);
        let most_output = u64::from(request.max_tokens);
        let worst = Worst {
            tokens: most_input + most_output,
            cost: wire.facts().cost_at_most(most_input, most_output),
        };
        let mut reservation = Reservation::make(&self.options.ledger, worst)
            .await
            .map_err(|error| over_budget(error, wire))?;
        let paced = estimate::likely_input_tokens(request) + most_output;
        clock.queue();
        let tell = |wait| {
            clock.dequeue();
            self.tell(Event::Paced { wait });
        };
        let pacer = Arc::clone(&self.options.pacer);
        let permit =
            pacer.admit(paced, Instant::now() + clock.left(), &tell).await.map_err(|wait| {
                let (provider, seconds) = (wire.provider(), wait.as_secs());
                let message = format!(
                    "the limits of {provider} leave no room for {seconds} s, beyond the deadline"
                );
                ModelError::new(ErrorKind::Deadline, message).with_hint(
                    "try again later, or allow more time with `gateway.deadline_seconds`",
                )
            })?;

        clock.dequeue();
        reservation.send().await.map_err(|error| over_budget(error, wire))?;
        let limit = self.options.retry.attempt_timeout;
        let sending = Sending {
            on_text: manner.stream.then_some(hear),
            on_progress,
            learn: &|left| self.options.pacer.learn(left, paced),
            start_timeout: match wire.facts().local {
                true => limit.max(self.options.retry.local_start_timeout),
                false => limit,
            },
            patience: limit,
        };
        let send = wire.send(&encoded, request, sending);
        // A stream may take as long as it likes, as long as it goes on.
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
                permit.used(reply.usage.map_or(paced, |usage| usage.total()));
                reservation.settle(settlement(wire, &reply));
                let nothing = reply.text.trim().is_empty() && reply.tool_calls.is_empty();
                if nothing && reply.stop == Stop::End {
                    let message = format!("{} gave an empty answer", wire.provider());
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

    /// From the cassette, if it is there.
    fn play(&self, request: &Request, call: &Call<'_>) -> Option<Result<Response, ModelError>> {
        let outcome = self.options.cassette.as_ref()?.play(request, &self.asked)?;
        self.options.ledger.count_replayed();
        if let (Ok(response), Some(on_delta)) = (&outcome, call.on_delta) {
            on_delta(Delta::Text(&response.text));
        }
        Some(outcome)
    }

    async fn ask(&self, request: &Request, call: Call<'_>) -> Result<Response, ModelError> {
        if !matches!(request.prompt.messages().last(), Some(Message::User { .. })) {
            return Err(ModelError::new(ErrorKind::BadRequest, "the prompt asks nothing"));
        }
        if let Some(outcome) = self.play(request, &call) {
            return outcome;
        }
        let cassette = self.options.cassette.as_ref();
        let Some(wire) = &self.wire else {
            return Err(match cassette {
                Some(cassette) => cassette.missing(request, &self.asked),
                None => ModelError::new(ErrorKind::Internal, "the gateway leads nowhere"),
            });
        };
        let RetryPolicy { deadline, attempt_timeout, .. } = self.options.retry;
        let clock = Clock::begin(deadline, attempt_timeout, &*self.options.ledger);
        let last_failure = Mutex::new(None);
        let outcome = tokio::select! {
            biased;
            reason = call.cancel.cancelled() => Err(ModelError::new(ErrorKind::Cancelled, reason)),
            outcome = self.attempts(&**wire, request, &call, &clock, &last_failure) => outcome,
            () = clock.is_over() => {
                let last = last_failure.lock().take();
                let last = last.map(|words| format!("; last failure: {words}")).unwrap_or_default();
                let seconds = clock.deadline.as_secs();
                let message = format!("{} gave no answer within {seconds} s{last}", wire.provider());
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

/// Deadline of one call.
///
/// It does not run while the call waits in our own queue for a free slot, or where calls are noted. And it does
/// not end an answer that is still coming in.
struct Clock<'a> {
    begun: Instant,
    deadline: Duration,
    /// How long a stream may be silent.
    idle_timeout: Duration,
    ledger: &'a dyn Ledger,
    held_up_before: Duration,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    /// Time spent in the queue.
    queued: Duration,
    queued_since: Option<Instant>,
    /// When the answer last grew.
    grew_at: Option<Instant>,
}

impl Clock<'_> {
    fn begin(deadline: Duration, idle_timeout: Duration, ledger: &dyn Ledger) -> Clock<'_> {
        Clock {
            begun: Instant::now(),
            deadline,
            idle_timeout,
            ledger,
            held_up_before: ledger.held_up(),
            progress: Mutex::default(),
        }
    }

    /// Stops the clock until the call leaves the queue.
    fn queue(&self) {
        self.progress.lock().queued_since.get_or_insert_with(Instant::now);
    }

    fn dequeue(&self) {
        let mut state = self.progress.lock();
        if let Some(since) = state.queued_since.take() {
            state.queued += since.elapsed();
        }
    }

    /// Notes that the answer grew.
    fn progress(&self) {
        self.progress.lock().grew_at = Some(Instant::now());
    }

    fn attempt_ended(&self) {
        self.dequeue();
        self.progress.lock().grew_at = None;
    }

    fn left(&self) -> Duration {
        let held_up = self.ledger.held_up().saturating_sub(self.held_up_before);
        let state = self.progress.lock();
        let queued = state.queued + state.queued_since.map_or(Duration::ZERO, |at| at.elapsed());
        (self.deadline + held_up + queued).saturating_sub(self.begun.elapsed())
    }

    /// How long the answer that is coming in may still be silent.
    fn still_streaming(&self) -> Option<Duration> {
        let grew_at = self.progress.lock().grew_at?;
        self.idle_timeout.checked_sub(grew_at.elapsed()).filter(|left| !left.is_zero())
    }

    async fn is_over(&self) {
        // What is held up or queued always has as much left.
        while let Some(left) =
            Some(self.left()).filter(|left| !left.is_zero()).or_else(|| self.still_streaming())
        {
            sleep(left.max(Duration::from_millis(100))).await;
        }
    }
}

#[async_trait]
impl Model for Gateway {
    async fn generate(&self, request: &Request, call: Call<'_>) -> Result<Response, ModelError> {
        let (provider, model) = self.name();
        let span = debug_span!(
            "chat",
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = provider,
            gen_ai.request.model = model,
            gen_ai.request.max_tokens = request.max_tokens,
        );
        async {
            trace!(request = ?request, "prompt");
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
                    trace!(text = response.text, "answer");
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

/// What an answer cost. Where the provider did not say how many tokens it took, nobody knows, and the
/// worst is assumed.
fn settlement(wire: &dyn Wire, reply: &Reply) -> Settlement {
    match (reply.usage, reply.cost) {
        (None, None) => Settlement::Lost,
        (usage, Some(cost)) => {
            Settlement::Spent { usage: usage.unwrap_or_default(), cost: Cost::Known(cost) }
        }
        (Some(usage), None) => Settlement::Spent { usage, cost: wire.facts().cost(&usage) },
    }
}

fn response(
    wire: &dyn Wire,
    reply: Reply,
    schema_enforced: bool,
    attempts: u32,
    duration_ms: u64,
) -> Response {
    let cost = match settlement(wire, &reply) {
        Settlement::Spent { cost, .. } => cost,
        _ => Cost::Unknown,
    };
    Response {
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
    if attempts == 1 { error } else { error.context(&format!("gave up after {attempts} attempts")) }
}

fn over_budget(error: BudgetError, wire: &dyn Wire) -> ModelError {
    let hint = match error {
        // Whoever cannot note it may not go on, either.
        BudgetError::NotNoted { ref hint, .. } => {
            let mut not_noted = ModelError::new(ErrorKind::NotNoted, error.to_string());
            not_noted.hint.clone_from(hint);
            return not_noted;
        }
        BudgetError::Cost { .. } => "raise `--max-cost` to go on".to_owned(),
        BudgetError::Tokens { .. } => "raise `--max-tokens` to go on".to_owned(),
        BudgetError::NoPrice => format!(
            "tell its price in the settings, in dollars for a million tokens: \
             `[prices.\"{}\"]` with `input` and `output`; or use `--max-tokens`",
            wire.model()
        ),
    };
    ModelError::new(ErrorKind::Budget, error.to_string()).with_hint(hint)
}
