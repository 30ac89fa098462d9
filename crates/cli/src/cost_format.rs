//! Formats costs, token counts and cost estimates.

use assize_config::REHEARSAL_LABEL;
use assize_consult::Estimate;
use assize_run::BudgetTotals;
use assize_types::{Cost, Failure, Money, Usage};
use serde_json::json;

use crate::terminal::{grouped, out_json, out_line};

/// Formats the number of tokens and the cost of a run. For calls whose usage the provider did not report, adds an upper
/// estimate of their cost.
pub(crate) fn format_spending(totals: &BudgetTotals) -> String {
    let calls = if totals.lost_calls == 1 { "a call" } else { "calls" };
    let at_most = match totals.known_cost() {
        Cost::Known(_) | Cost::Local => format!("at most {}", totals.lost_cost),
        Cost::Unknown => "an unknown amount".to_owned(),
    };
    let lost = format!("{at_most} for {calls} without reported usage");
    let spent = format!("{} · {}", tokens(&totals.usage), totals.known_cost());
    // Calls to a free model cannot have unreported costs.
    let free = totals.known_cost().known() == Some(Money::ZERO) && totals.lost_cost == Money::ZERO;
    match (totals.calls, totals.lost_calls) {
        (_, 0) => spent,
        _ if free => spent,
        (0, _) => lost,
        _ => format!("{spent}, and {lost}"),
    }
}

/// Formats the numbers of input and output tokens.
pub(crate) fn tokens(usage: &Usage) -> String {
    let cached = match usage.cached_input {
        0 => String::new(),
        _ => format!(" ({:.0}% cached)", usage.cached_share() * 100.0),
    };
    format!("{} tokens in{cached}, {} out", grouped(usage.input), grouped(usage.output))
}

/// Typical duration of a model call, in seconds. Used to estimate the duration of a run.
const SECONDS_PER_CALL: u64 = 6;

/// Prints the estimated cost and duration of a run. The duration is estimated from `in_a_row`, the length of the
/// longest sequence of calls that run one after the other.
pub(crate) fn show_estimate(
    estimate: &Estimate,
    in_a_row: u64,
    is_rehearsal: bool,
    json: bool,
) -> Result<(), Failure> {
    let Estimate { calls, input_tokens, output_tokens, cost, cached, .. } = estimate;
    let seconds = if is_rehearsal { 0 } else { in_a_row * SECONDS_PER_CALL };
    if json {
        let mut shown = json!({
            "calls": calls,
            "seconds": seconds,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "cost_usd": cost.dollars(),
            "cost_cached_usd": cached.dollars(),
        });
        if let Some(note) = cost.note() {
            shown["cost_note"] = json!(note);
        }
        if is_rehearsal {
            shown["label"] = json!(REHEARSAL_LABEL);
        }
        return out_json(&shown);
    }
    if is_rehearsal {
        out_line(&format!("[{REHEARSAL_LABEL}]"))?;
    }
    out_line(&format!(
        "{calls} calls, about {} tokens in and {} out: {}{}; {}",
        grouped(*input_tokens),
        grouped(*output_tokens),
        format_estimated_cost(*cost),
        format_cached_cost(estimate),
        format_estimated_time(in_a_row, is_rehearsal),
    ))
}

/// Formats an estimated cost.
pub(crate) fn format_estimated_cost(cost: Cost) -> String {
    match cost {
        Cost::Known(_) => format!("about {cost}"),
        Cost::Local | Cost::Unknown => cost.to_string(),
    }
}

/// Formats the lower cost that is expected if the provider caches prompts; empty if caching does not lower the cost.
pub(crate) fn format_cached_cost(estimate: &Estimate) -> String {
    match (estimate.cached, estimate.cost) {
        (Cost::Known(cached), Cost::Known(cost)) if cached < cost => {
            format!(", or {cached} where the provider caches prompts")
        }
        _ => String::new(),
    }
}

/// Formats the estimated duration of `in_a_row` calls that run one after the other.
pub(crate) fn format_estimated_time(in_a_row: u64, is_rehearsal: bool) -> String {
    match in_a_row * SECONDS_PER_CALL {
        _ if is_rehearsal => {
            "no waiting time, because the rehearsal model answers at once".to_owned()
        }
        seconds @ 0..90 => format!("about {seconds} s"),
        seconds => format!("about {} min", seconds.div_ceil(60)),
    }
}
