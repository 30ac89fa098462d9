//! `assize ask`: one question through the gateway.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use assize_config::{Environment, REHEARSAL_LABEL, Settings};
use assize_gateway::Gateway;
use assize_llm::answer::generate_value;
use assize_llm::{
    AnswerError, Call, Delta, Model, Prompt, Provenance, Request, Response, Schema, Stop,
};
use assize_run::Totals;
use assize_types::{Cancel, Cost, Failure, FailureKind, trail};
use serde_json::{Value, json};

use crate::account::{account, known_price, tokens};
use crate::args::AskArgs;
use crate::input;
use crate::terminal::{
    self, DIM, WARN, grouped, note, out_json, out_line, out_untrusted, paint, try_out_untrusted,
};
use crate::voice::services;

/// No question has more MiB: the largest context window there is would not hold it.
const LONGEST_QUESTION: u64 = 16;

pub(crate) async fn run(
    args: AskArgs,
    config: &Settings,
    around: &Environment,
    cancel: Cancel,
) -> Result<(), Failure> {
    let request = request(&args, config, &cancel).await?;
    let mut services = services(config, around, args.quiet);
    services.tape = args.model.tape();
    let gateway = services.providers().gateway_of_no_run().await?;
    if args.estimate {
        return show_estimate(&gateway, &request, args.json);
    }
    let (provider, model) = gateway.name();
    let waits = std::io::stderr().is_terminal() && !gateway.is_rehearsal();
    if waits && args.model.replay.is_none() && !args.quiet {
        note(&paint(DIM, terminal::harmless(&format!("asking {provider} {model} …"))));
    }
    trail::workflow_started(&request.prompt.tail, provider);
    let mut outcome = ask(&args, &gateway, &request, cancel).await;
    let unwritten = outcome.as_mut().ok().and_then(|answered| answered.unwritten.take());
    if let Some(error) = unwritten {
        terminal::written(Err(error))?;
    }
    let verdict = match &outcome {
        Ok(answered) => show(&args, answered, &gateway).and_then(|()| answered.verdict(&request)),
        Err(_) => Ok(()),
    };
    let attempts = match &outcome {
        Ok(answered) => Response::total_attempts(&answered.responses),
        Err(error) => attempts(error),
    };
    trail::workflow_completed(outcome.is_ok() && verdict.is_ok(), attempts);
    match outcome {
        Ok(_) => verdict,
        Err(error) => {
            show_spending(&args, &gateway);
            Err(error.into())
        }
    }
}

/// How often anything was sent for an answer that never came.
fn attempts(error: &AnswerError) -> u32 {
    Response::total_attempts(error.responses())
        + error.model_error().map_or(0, |error| error.attempts)
}

/// What was paid for nothing is told, too.
fn show_spending(args: &AskArgs, gateway: &Gateway) {
    let totals = gateway.ledger().totals();
    if !args.quiet && (totals.calls > 0 || totals.lost_calls > 0) {
        note(&paint(DIM, format!("spent: {}", account(&totals))));
    }
}

/// What came back.
struct Answered {
    /// Present where JSON was asked for.
    value: Option<(Value, Provenance)>,
    responses: Vec<Response>,
    /// Whether the text is on the screen already.
    streamed: bool,
    /// Why it is not, or not all of it.
    unwritten: Option<io::Error>,
}

async fn ask(
    args: &AskArgs,
    gateway: &Gateway,
    request: &Request,
    cancel: Cancel,
) -> Result<Answered, AnswerError> {
    if request.schema.is_some() {
        let call = Call { cancel, ..Call::default() };
        let answer = generate_value(gateway, request, call).await?;
        let value = Some((answer.value, answer.provenance));
        return Ok(Answered {
            value,
            responses: answer.responses,
            streamed: false,
            unwritten: None,
        });
    }
    // Whoever stops reading does not stop the call: it is paid for, and may be recorded.
    let trouble = Mutex::new(None);
    let print = |delta: Delta<'_>| {
        let mut trouble = trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.is_none() {
            let written = match delta {
                Delta::Text(text) => try_out_untrusted(text),
                Delta::Working => Ok(()),
                Delta::Restart => {
                    try_out_untrusted("\n[the stream broke off; the answer starts again]\n")
                }
            };
            *trouble = written.err();
        }
    };
    if args.stream && gateway.is_rehearsal() {
        // Were the label not to be written, neither would the answer.
        let _ = show_label();
    }
    let on_delta = args.stream.then_some(&print as &(dyn Fn(Delta<'_>) + Send + Sync));
    let response = gateway.generate(request, Call { cancel, on_delta, ..Call::default() }).await?;
    let unwritten = trouble.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Answered { value: None, responses: vec![response], streamed: args.stream, unwritten })
}

async fn request(args: &AskArgs, config: &Settings, cancel: &Cancel) -> Result<Request, Failure> {
    let question = match args.question.as_str() {
        "-" => input::from_standard_input("the question", LONGEST_QUESTION, cancel).await?,
        question => question.to_owned(),
    };
    if question.trim().is_empty() {
        return Err(Failure::new(FailureKind::Usage, "the question is empty"));
    }
    let mut prompt = Prompt::question(question);
    if let Some(system) = &args.system {
        prompt = prompt.block("system", system.as_str());
    }
    let mut request = Request::new(prompt);
    request.schema = args.schema.as_deref().map(read_schema).transpose()?;
    request.temperature = *config.general.temperature as f32;
    request.max_tokens = *config.general.max_output_tokens;
    Ok(request)
}

fn read_schema(path: &Path) -> Result<Schema, Failure> {
    let shown = path.display();
    let failed = |why: String| {
        Failure::new(FailureKind::Usage, format!("cannot use the schema `{shown}`: {why}"))
    };
    let meta = fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if !meta.is_file() || meta.len() > 1024 * 1024 {
        return Err(failed("not a regular file of at most 1 MiB".to_owned()));
    }
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let value: Value =
        serde_json::from_str(&text).map_err(|error| failed(format!("not JSON: {error}")))?;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("answer");
    let name: String =
        stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(60).collect();
    Schema::from_value(&name, value).map_err(|error| failed(error.to_string()))
}

fn show_estimate(gateway: &Gateway, request: &Request, json: bool) -> Result<(), Failure> {
    let Some(estimate) = gateway.estimate(request) else {
        return Err(Failure::new(FailureKind::Usage, "there is nothing to estimate"));
    };
    if json {
        let mut shown = json!({
            "input_tokens": estimate.input_tokens,
            "output_tokens": estimate.output_tokens,
            "cost_usd": json!(estimate.cost.dollars()),
            "at_most_usd": json!(estimate.at_most.dollars()),
        });
        if let Some(note) = estimate.cost.note() {
            shown["cost_note"] = json!(note);
        }
        out_json(&shown)?;
        return known_price(estimate.cost, gateway);
    }
    let at_most = match estimate.cost {
        Cost::Known(_) => format!(", at most {}", estimate.at_most),
        Cost::Local | Cost::Unknown => String::new(),
    };
    out_line(&format!(
        "about {} tokens in and {} out: {}{at_most}",
        grouped(estimate.input_tokens),
        grouped(estimate.output_tokens),
        estimate.cost,
    ))?;
    known_price(estimate.cost, gateway)
}

impl Answered {
    fn last(&self) -> Result<&Response, Failure> {
        self.responses
            .last()
            .ok_or_else(|| Failure::new(FailureKind::Internal, "no response was kept"))
    }

    /// Whether what was answered is an answer.
    fn verdict(&self, request: &Request) -> Result<(), Failure> {
        match self.last()?.stop {
            Stop::Refused => {
                Err(Failure::new(FailureKind::Verdict, "the model declined to answer"))
            }
            Stop::MaxTokens if self.value.is_none() => {
                let message =
                    format!("the answer was cut off at {} output tokens", request.max_tokens);
                Err(Failure::new(FailureKind::Verdict, message)
                    .hint("allow longer answers with `--max-output-tokens`"))
            }
            _ => Ok(()),
        }
    }
}

/// The label goes where the answer goes: beside it, it would be easy to lose.
fn show_label() -> Result<(), Failure> {
    out_line(&paint(WARN, format!("[{REHEARSAL_LABEL}]")))
}

fn show(args: &AskArgs, answered: &Answered, gateway: &Gateway) -> Result<(), Failure> {
    let last = answered.last()?;
    if args.json {
        return show_json(answered, last, &gateway.ledger().totals());
    }
    match &answered.value {
        Some((value, _)) => out_json(value)?,
        None if answered.streamed => {
            if !last.text.ends_with('\n') {
                out_line("")?;
            }
            // A cassette does not say beforehand what is on it.
            if last.rehearsal && !gateway.is_rehearsal() {
                show_label()?;
            }
        }
        None => {
            if last.rehearsal {
                show_label()?;
            }
            out_untrusted(last.text.trim_end())?;
            out_line("")?;
        }
    }
    if args.quiet {
        // JSON has no place for the label, and a rehearsal is never without it.
        if last.rehearsal && answered.value.is_some() {
            note(&paint(WARN, REHEARSAL_LABEL));
        }
        return Ok(());
    }
    if std::io::stdout().is_terminal() {
        note("");
    }
    if last.rehearsal {
        note(&format!(
            "{} {}",
            paint(WARN.bold(), format!("{REHEARSAL_LABEL}.")),
            paint(
                DIM,
                "Set a key such as ANTHROPIC_API_KEY to ask one; `assize doctor` shows the choices."
            )
        ));
    }
    if let Some((_, provenance)) = &answered.value {
        note(&paint(DIM, format!("answer: {provenance}")));
    }
    note(&paint(DIM, summary(answered, last, gateway)));
    let totals = gateway.ledger().totals();
    if totals.replayed_calls > 0 && totals.calls == 0 {
        note(&paint(DIM, "played from the cassette; nothing was asked or spent"));
    }
    Ok(())
}

/// One line of account: who, how much, at what price, how long.
fn summary(answered: &Answered, last: &Response, gateway: &Gateway) -> String {
    let milliseconds = Response::total_milliseconds(&answered.responses);
    let attempts = Response::total_attempts(&answered.responses);
    let attempts = if attempts > 1 { format!(" · {attempts} attempts") } else { String::new() };
    let who = match last.rehearsal {
        true => "rehearsal".to_owned(),
        false => format!("{} {}", last.provider, last.model),
    };
    let totals = gateway.ledger().totals();
    // What the ledger has seen is what was paid; a cassette is played past it.
    let spent = if totals.calls + totals.lost_calls > 0 {
        account(&totals)
    } else {
        match Response::total_usage(&answered.responses) {
            Some(usage) => {
                format!("{} · {}", tokens(&usage), Response::total_cost(&answered.responses))
            }
            None => Response::total_cost(&answered.responses).to_string(),
        }
    };
    terminal::harmless(&format!(
        "{who} · {spent} · {:.1} s{attempts}",
        milliseconds as f64 / 1000.0
    ))
}

fn show_json(answered: &Answered, last: &Response, totals: &Totals) -> Result<(), Failure> {
    let answer = match &answered.value {
        Some((value, _)) => value.clone(),
        None => Value::String(last.text.clone()),
    };
    let mut shown = json!({
        "answer": answer,
        "stop": last.stop,
        "provider": last.provider,
        "model": last.model,
        "rehearsal": last.rehearsal,
        "usage": Response::total_usage(&answered.responses),
        "cost_usd": Response::total_cost(&answered.responses).dollars(),
        "calls": answered.responses.len(),
        "attempts": Response::total_attempts(&answered.responses),
        "duration_ms": Response::total_milliseconds(&answered.responses),
    });
    if let Some(note) = Response::total_cost(&answered.responses).note() {
        shown["cost_note"] = json!(note);
    }
    if let Some((_, provenance)) = &answered.value {
        shown["provenance"] = json!(provenance);
    }
    if totals.lost_calls > 0 {
        let most = totals.known_cost().known().map(|_| totals.lost_cost.dollars());
        shown["lost"] = json!({"calls": totals.lost_calls, "at_most_usd": most});
    }
    if last.rehearsal {
        shown["label"] = json!(REHEARSAL_LABEL);
    }
    out_json(&shown)
}
