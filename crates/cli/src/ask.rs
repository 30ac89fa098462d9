//! `assize ask`: sends one question to a model through the gateway.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use assize_config::REHEARSAL_LABEL;
use assize_run::BudgetTotals;
use assize_service::Services;
use assize_service::ask::{AskAnswer, Delta, PreparedQuestion, Question};
use assize_types::{Cancel, Cost, Failure, FailureKind};
use serde_json::{Value, json};

use crate::args::AskArgs;
use crate::cost_format::{format_spending, tokens};
use crate::input;
use crate::terminal::{
    self, DIM, WARN, grouped, note, out_json, out_line, out_untrusted, paint, try_out_untrusted,
};

/// Maximum size of a question, in MiB. No model has a larger context window.
const MAX_QUESTION_MIB: u64 = 16;

pub(crate) async fn run(
    args: AskArgs,
    mut services: Services,
    cancel: Cancel,
) -> Result<(), Failure> {
    let question = question(&args, &cancel).await?;
    services.cassette = args.model.cassette();
    let question = services.prepare(question).await?;
    if args.estimate {
        return show_estimate(&question, args.json);
    }
    let (provider, model) = question.name();
    let shows_progress = std::io::stderr().is_terminal() && !question.is_rehearsal();
    if shows_progress && args.model.replay.is_none() && !args.quiet {
        note(&paint(DIM, terminal::replace_control_chars(&format!("asking {provider} {model} …"))));
    }
    match send(&args, &question, cancel).await {
        Ok((answered, write_error)) => {
            if let Some(error) = write_error {
                terminal::check_write(Err(error))?;
            }
            show(&args, &answered, &question)?;
            question.check(&answered)
        }
        Err(failure) => {
            // The cost of failed calls is also reported.
            let totals = question.totals();
            if !args.quiet && (totals.calls > 0 || totals.lost_calls > 0) {
                note(&paint(DIM, format!("spent: {}", format_spending(&totals))));
            }
            Err(failure)
        }
    }
}

/// Sends the question. If the answer is streamed, prints the answer as it arrives. Returns the answer, and the write
/// error if printing failed.
async fn send(
    args: &AskArgs,
    question: &PreparedQuestion,
    cancel: Cancel,
) -> Result<(AskAnswer, Option<io::Error>), Failure> {
    // A failed write does not stop the call, because the call is already paid for and its answer may be recorded.
    let write_error = Mutex::new(None);
    let print = |delta: Delta<'_>| {
        let mut write_error = write_error.lock().unwrap_or_else(PoisonError::into_inner);
        if write_error.is_none() {
            let written = match delta {
                Delta::Text(text) => try_out_untrusted(text),
                Delta::Working => Ok(()),
                Delta::Restart => {
                    try_out_untrusted("\n[the connection was lost; the answer starts again]\n")
                }
            };
            *write_error = written.err();
        }
    };
    let streams = streams(args);
    if streams && question.is_rehearsal() {
        // An error of this write is ignored: the write of the answer then fails, too, and reports the error.
        let _ = show_label();
    }
    let on_delta = streams.then_some(&print as &(dyn Fn(Delta<'_>) + Send + Sync));
    let answered = question.send(on_delta, cancel).await?;
    Ok((answered, write_error.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

/// Whether the answer is printed as it arrives.
fn streams(args: &AskArgs) -> bool {
    args.stream && args.schema.is_none()
}

/// Reads the question from the arguments or standard input, and the schema from its file.
async fn question(args: &AskArgs, cancel: &Cancel) -> Result<Question, Failure> {
    let text = match args.question.as_str() {
        "-" => input::from_standard_input("the question", MAX_QUESTION_MIB, cancel).await?,
        question => question.to_owned(),
    };
    let schema = args.schema.as_deref().map(read_schema).transpose()?;
    Ok(Question { text, system: args.system.clone(), schema })
}

/// Reads a JSON schema from a file. Returns the name of the schema, derived from the file name, and the schema.
fn read_schema(path: &Path) -> Result<(String, Value), Failure> {
    let shown = path.display();
    let failed = |why: String| {
        Failure::new(FailureKind::Usage, format!("cannot use the schema `{shown}`: {why}"))
    };
    let meta = fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if !meta.is_file() || meta.len() > 1024 * 1024 {
        return Err(failed("expected a regular file of at most 1 MiB".to_owned()));
    }
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let value: Value = serde_json::from_str(&text)
        .map_err(|error| failed(format!("the file is not valid JSON: {error}")))?;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("answer");
    let name: String =
        stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(60).collect();
    Ok((name, value))
}

fn show_estimate(question: &PreparedQuestion, json: bool) -> Result<(), Failure> {
    let Some(estimate) = question.estimate() else {
        let message = "cannot estimate the cost: with `--replay`, no provider is called";
        return Err(Failure::new(FailureKind::Usage, message));
    };
    if json {
        let mut shown = json!({
            "input_tokens": estimate.input_tokens,
            "output_tokens": estimate.output_tokens,
            "cost_usd": estimate.cost.dollars(),
            "at_most_usd": estimate.max_cost.dollars(),
        });
        if let Some(note) = estimate.cost.note() {
            shown["cost_note"] = json!(note);
        }
        out_json(&shown)?;
        return question.check_price();
    }
    let at_most = match estimate.cost {
        Cost::Known(_) => format!(", at most {}", estimate.max_cost),
        Cost::Local | Cost::Unknown => String::new(),
    };
    out_line(&format!(
        "about {} tokens in and {} out: {}{at_most}",
        grouped(estimate.input_tokens),
        grouped(estimate.output_tokens),
        estimate.cost,
    ))?;
    question.check_price()
}

/// Prints the label of rehearsal answers to standard output, so that a saved answer contains the label.
fn show_label() -> Result<(), Failure> {
    out_line(&paint(WARN, format!("[{REHEARSAL_LABEL}]")))
}

fn show(args: &AskArgs, answered: &AskAnswer, question: &PreparedQuestion) -> Result<(), Failure> {
    let last = &answered.last;
    if args.json {
        return show_json(answered, &question.totals());
    }
    match &answered.value {
        Some((value, _)) => out_json(value)?,
        None if streams(args) => {
            if !last.text.ends_with('\n') {
                out_line("")?;
            }
            // Only after the call is it known whether the answer came from the rehearsal model through a cassette.
            if last.rehearsal && !question.is_rehearsal() {
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
        // Answers of the rehearsal model are always labelled. Here, the label is printed to standard error, because it
        // would make the JSON on standard output invalid.
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
                "Set a key such as ANTHROPIC_API_KEY to ask a model; `assize doctor` lists the providers."
            )
        ));
    }
    if let Some((_, provenance)) = &answered.value {
        note(&paint(DIM, format!("JSON answer: {provenance}")));
    }
    note(&paint(DIM, summary(answered, question)));
    let totals = question.totals();
    if totals.replayed_calls > 0 && totals.calls == 0 {
        note(&paint(DIM, "the answer was replayed from the cassette; no provider was called"));
    }
    Ok(())
}

/// Formats the summary line: model, tokens, cost, duration and number of attempts.
fn summary(answered: &AskAnswer, question: &PreparedQuestion) -> String {
    let AskAnswer { last, usage, cost, attempts, milliseconds, .. } = answered;
    let attempts = if *attempts > 1 { format!(" · {attempts} attempts") } else { String::new() };
    let model_name = match last.rehearsal {
        true => "rehearsal".to_owned(),
        false => format!("{} {}", last.provider, last.model),
    };
    let totals = question.totals();
    // The totals of the ledger contain the calls that were paid for. Replayed calls are not among them.
    let spent = if totals.calls + totals.lost_calls > 0 {
        format_spending(&totals)
    } else {
        match usage {
            Some(usage) => format!("{} · {cost}", tokens(usage)),
            None => cost.to_string(),
        }
    };
    terminal::replace_control_chars(&format!(
        "{model_name} · {spent} · {:.1} s{attempts}",
        *milliseconds as f64 / 1000.0
    ))
}

fn show_json(answered: &AskAnswer, totals: &BudgetTotals) -> Result<(), Failure> {
    let last = &answered.last;
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
        "usage": answered.usage,
        "cost_usd": answered.cost.dollars(),
        "calls": answered.calls,
        "attempts": answered.attempts,
        "duration_ms": answered.milliseconds,
    });
    if let Some(note) = answered.cost.note() {
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
