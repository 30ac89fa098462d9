//! `/metrics`: metrics of the server in the Prometheus text format.

use std::fmt::Write as _;
use std::sync::Arc;

use assize_draft::SubmissionStage;
use assize_sandbox::PoolMetrics;
use assize_sandbox::jail::Jail;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::App;
use crate::problem::Problem;

/// Text of the `/metrics` response while it is being written.
#[derive(Default)]
struct MetricsText(String);

impl MetricsText {
    fn help(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP assize_{name} {help}\n# TYPE assize_{name} {kind}");
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, value)| {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                format!("{label}=\"{value}\"")
            })
            .collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "assize_{name}{labels} {value}");
    }

    fn add(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.help(name, kind, help);
        self.value(name, &[], value);
    }
}

/// Read the metrics of the server
#[utoipa::path(
    get, path = "/metrics", tag = "machine",
    responses((status = 200, description = "Metrics in the Prometheus text format", content_type = "text/plain", body = String)),
)]
#[expect(clippy::cast_precision_loss, reason = "metrics need no exact integers")]
pub(crate) async fn metrics(State(app): State<App>) -> Result<Response, Problem> {
    let mut page = MetricsText::default();
    let figures = app.supervisor.figures();
    page.add(
        "runs_running",
        "gauge",
        "Number of runs that this server is executing.",
        figures.running as f64,
    );
    page.help(
        "runs_started_total",
        "counter",
        "Number of runs that this server started or resumed, by kind.",
    );
    for (kind, count) in &figures.begun {
        page.value("runs_started_total", &[("kind", kind.name())], *count as f64);
    }
    page.help(
        "runs_ended_total",
        "counter",
        "Number of runs that ended on this server, by kind and outcome.",
    );
    for ((kind, outcome), count) in &figures.ended {
        page.value(
            "runs_ended_total",
            &[("kind", kind.name()), ("outcome", outcome)],
            *count as f64,
        );
    }
    let totals = &figures.totals;
    page.add(
        "model_calls_total",
        "counter",
        "Number of model calls that were answered.",
        totals.calls as f64,
    );
    page.add(
        "model_calls_lost_total",
        "counter",
        "Number of model calls that were in flight when the process that made them died.",
        totals.lost_calls as f64,
    );
    page.help(
        "model_tokens_total",
        "counter",
        "Number of input, cached input and output tokens of all model calls.",
    );
    let usage = &totals.usage;
    let fresh = usage.input.saturating_sub(usage.cached_input);
    for (direction, tokens) in
        [("input", fresh), ("input_cached", usage.cached_input), ("output", usage.output)]
    {
        page.value("model_tokens_total", &[("direction", direction)], tokens as f64);
    }
    page.add(
        "model_cost_dollars_total",
        "counter",
        "Cost in dollars of the model calls whose price is known.",
        totals.cost.dollars(),
    );
    warm_pools(&app, &mut page);
    sandboxes(&app, &mut page).await?;
    gate(&app, &mut page).await?;
    page.help(
        "event_subscribers",
        "gauge",
        "Number of connected clients that receive an event stream.",
    );
    for (log, hub) in [("runs", &app.events), ("drafts", &app.audit)] {
        page.value("event_subscribers", &[("of", log)], hub.subscriber_count() as f64);
    }
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page.0).into_response())
}

/// Writes the metrics of the warm pools, by isolation.
#[expect(clippy::cast_precision_loss, reason = "metrics need no exact integers")]
fn warm_pools(app: &App, page: &mut MetricsText) {
    type Value = fn(&PoolMetrics) -> f64;
    let figures: [(&str, &str, &str, Value); 5] = [
        ("warm_pool_size", "gauge", "Maximum number of idle sandboxes in the warm pool.", |pool| {
            pool.size as f64
        }),
        ("warm_pool_idle", "gauge", "Current number of idle sandboxes in the warm pool.", |pool| {
            pool.idle as f64
        }),
        (
            "warm_pool_hits_total",
            "counter",
            "Number of sandboxes that were taken from the warm pool.",
            |pool| pool.hits as f64,
        ),
        (
            "warm_pool_misses_total",
            "counter",
            "Number of sandboxes that were newly started for a request, not taken from the warm pool.",
            |pool| pool.misses as f64,
        ),
        (
            "warm_pool_low_memory",
            "gauge",
            "1 while the refill of the warm pool is suspended because free memory is low, else 0.",
            |pool| f64::from(u8::from(pool.low_memory)),
        ),
    ];
    let pools = app.backends.metrics();
    for (name, kind, help, value) in figures {
        page.help(name, kind, help);
        for (isolation, pool) in &pools {
            page.value(name, &[("isolation", isolation.name())], value(pool));
        }
    }
    page.help(
        "warm_pool_refill_seconds",
        "summary",
        "Time in seconds to create one idle sandbox for the warm pool.",
    );
    for (isolation, pool) in &pools {
        let labels = [("isolation", isolation.name())];
        let seconds = pool.refill_micros as f64 / 1e6;
        page.value("warm_pool_refill_seconds_sum", &labels, seconds);
        page.value("warm_pool_refill_seconds_count", &labels, pool.refills as f64);
    }
}

#[expect(clippy::cast_precision_loss, reason = "metrics need no exact integers")]
async fn sandboxes(app: &App, page: &mut MetricsText) -> Result<(), Problem> {
    let manager = app.services.sandboxes().manager(Arc::new(Jail::new(Vec::new()))).await?;
    let records = manager.list(&std::collections::BTreeMap::new())?;
    page.help(
        "sandboxes",
        "gauge",
        "Number of long-lived sandboxes on this machine, by isolation.",
    );
    for isolation in assize_config::Isolation::ALL {
        let count = records.iter().filter(|record| record.isolation == isolation).count();
        page.value("sandboxes", &[("isolation", isolation.name())], count as f64);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "metrics need no exact integers")]
async fn gate(app: &App, page: &mut MetricsText) -> Result<(), Problem> {
    let mut states = Vec::new();
    for (name, service) in app.workspaces.all() {
        states.push((name, service.state().await?));
    }
    let help = "Number of stored submissions of drafts, by workspace and stage.";
    page.help("gate_submissions", "gauge", help);
    for (name, state) in &states {
        for &stage in SubmissionStage::ALL {
            let count = state.submissions.values().filter(|one| one.stage == stage).count();
            let labels = [("workspace", *name), ("stage", stage.name())];
            page.value("gate_submissions", &labels, count as f64);
        }
    }
    page.help(
        "gate_refused_total",
        "counter",
        "Number of paths that agents requested and the gate refused, by workspace.",
    );
    for (name, state) in &states {
        page.value("gate_refused_total", &[("workspace", name)], state.refused_calls as f64);
    }
    Ok(())
}
