//! Figures for those who look after the server, in Prometheus' text format.

use std::fmt::Write as _;
use std::sync::Arc;

use assize_draft::Stage;
use assize_sandbox::PoolMetrics;
use assize_sandbox::jail::Jail;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use crate::App;
use crate::problem::Problem;

/// One page of figures.
#[derive(Default)]
struct Figures(String);

impl Figures {
    fn about(&mut self, name: &str, kind: &str, help: &str) {
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

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.about(name, kind, help);
        self.value(name, &[], value);
    }
}

/// Figures for Prometheus
#[utoipa::path(
    get, path = "/metrics", tag = "machine",
    responses((status = 200, description = "In Prometheus' text format", content_type = "text/plain", body = String)),
)]
#[expect(clippy::cast_precision_loss, reason = "figures for graphs")]
pub(crate) async fn metrics(State(app): State<App>) -> Result<Response, Problem> {
    let mut page = Figures::default();
    let docket = app.docket.figures();
    page.one("runs_running", "gauge", "Runs that this server works on.", docket.running as f64);
    page.about("runs_begun_total", "counter", "Runs that were begun or taken up again, by kind.");
    for (kind, count) in &docket.begun {
        page.value("runs_begun_total", &[("kind", kind.name())], *count as f64);
    }
    page.about("runs_ended_total", "counter", "Runs that ended here, by kind and how.");
    for ((kind, how), count) in &docket.ended {
        page.value("runs_ended_total", &[("kind", kind.name()), ("how", how)], *count as f64);
    }
    let totals = &docket.totals;
    page.one("model_calls_total", "counter", "Calls that models answered.", totals.calls as f64);
    page.one(
        "model_calls_lost_total",
        "counter",
        "Calls whose answer was lost.",
        totals.lost_calls as f64,
    );
    page.about("model_tokens_total", "counter", "Tokens of all calls.");
    let usage = &totals.usage;
    let fresh = usage.input.saturating_sub(usage.cached_input);
    for (direction, tokens) in
        [("input", fresh), ("input_cached", usage.cached_input), ("output", usage.output)]
    {
        page.value("model_tokens_total", &[("direction", direction)], tokens as f64);
    }
    page.one(
        "model_cost_dollars_total",
        "counter",
        "What calls of a known price cost.",
        totals.cost.dollars(),
    );
    warm_pools(&app, &mut page);
    sandboxes(&app, &mut page).await?;
    gate(&app, &mut page).await?;
    page.about("event_followers", "gauge", "Those who follow events.");
    for (log, hub) in [("runs", &app.events), ("drafts", &app.audit)] {
        page.value("event_followers", &[("of", log)], hub.followers() as f64);
    }
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page.0).into_response())
}

/// The warm pools, by isolation.
#[expect(clippy::cast_precision_loss, reason = "figures for graphs")]
fn warm_pools(app: &App, page: &mut Figures) {
    type Value = fn(&PoolMetrics) -> f64;
    let figures: [(&str, &str, &str, Value); 5] = [
        ("warm_pool_size", "gauge", "Idle sandboxes that a full warm pool has.", |pool| {
            pool.size as f64
        }),
        ("warm_pool_idle", "gauge", "Idle sandboxes in the warm pool.", |pool| pool.idle as f64),
        ("warm_pool_hits_total", "counter", "Requests that an idle sandbox served.", |pool| {
            pool.hits as f64
        }),
        ("warm_pool_misses_total", "counter", "Requests that started a sandbox.", |pool| {
            pool.misses as f64
        }),
        (
            "warm_pool_low_memory",
            "gauge",
            "1 while the warm pool is not refilled for want of free memory.",
            |pool| f64::from(u8::from(pool.low_memory)),
        ),
    ];
    let pools = app.backends.metrics();
    for (name, kind, help, value) in figures {
        page.about(name, kind, help);
        for (isolation, pool) in &pools {
            page.value(name, &[("isolation", isolation.name())], value(pool));
        }
    }
    page.about("warm_pool_refill_seconds", "summary", "Time to make one idle sandbox.");
    for (isolation, pool) in &pools {
        let labels = [("isolation", isolation.name())];
        let seconds = pool.refill_micros as f64 / 1e6;
        page.value("warm_pool_refill_seconds_sum", &labels, seconds);
        page.value("warm_pool_refill_seconds_count", &labels, pool.refills as f64);
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for graphs")]
async fn sandboxes(app: &App, page: &mut Figures) -> Result<(), Problem> {
    let manager = app.services.sandboxes().manager(Arc::new(Jail::new(Vec::new()))).await?;
    let records = manager.list(&std::collections::BTreeMap::new())?;
    page.about("sandboxes", "gauge", "Sandboxes with a name on this machine, by their walls.");
    for isolation in assize_config::Isolation::ALL {
        let count = records.iter().filter(|record| record.isolation == isolation).count();
        page.value("sandboxes", &[("isolation", isolation.name())], count as f64);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "figures for graphs")]
async fn gate(app: &App, page: &mut Figures) -> Result<(), Problem> {
    let mut books = Vec::new();
    for (name, desk) in app.desks.all() {
        books.push((name, desk.state().await?));
    }
    let help = "Submissions that are kept, by workspace and how they stand.";
    page.about("gate_submissions", "gauge", help);
    for (name, book) in &books {
        for &stage in Stage::ALL {
            let count = book.submissions.values().filter(|one| one.stage == stage).count();
            let labels = [("workspace", *name), ("stage", stage.name())];
            page.value("gate_submissions", &labels, count as f64);
        }
    }
    page.about("gate_refused_total", "counter", "Paths that workers asked for and may not have.");
    for (name, book) in &books {
        page.value("gate_refused_total", &[("workspace", name)], book.refused as f64);
    }
    Ok(())
}
