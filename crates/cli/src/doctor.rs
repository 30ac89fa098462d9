//! `assize doctor`: shows which providers and sandboxes are available, why others are not, and how limits are enforced.

use assize_code::Language;
use assize_config::{Price, Settings};
use assize_service::Services;
use assize_service::doctor::{
    ClusterReport, ClusterReportState, DoctorReport, ModelInUse, ProviderReport, ProviderState,
    SandboxesReport,
};
use assize_types::Failure;
use serde_json::json;

use crate::args::DoctorArgs;
use crate::terminal::{
    BAD, BOLD, DIM, GOOD, WARN, grouped, out_json, out_line, paint, replace_control_chars,
};

pub(crate) async fn run(args: DoctorArgs, services: &Services) -> Result<(), Failure> {
    let report = services.examine(args.offline).await?;
    if args.json {
        out_json(&json!(report))?;
    } else {
        out_line(&as_text(&services.settings, &report).join("\n"))?;
    }
    report.check(&services.settings)
}

fn as_text(config: &Settings, report: &DoctorReport) -> Vec<String> {
    let DoctorReport { version, os, arch, providers, used, why, order, .. } = report;
    let mut lines = vec![
        format!("assize {version} on {os} {arch}"),
        String::new(),
        paint(BOLD, "Model providers"),
    ];
    let width = providers.iter().map(|report| report.model.len()).max().unwrap_or(0);
    for report in providers {
        lines.extend(of_provider(report, report.provider == *used, width));
    }
    lines.push(String::new());
    lines.push(match &report.model {
        Some(model) => format!("{} {used} {}", paint(BOLD, "In use:"), of_model(model, why)),
        None => format!(
            "{} {} ({why})",
            paint(BOLD, "In use:"),
            paint(WARN, "rehearsal, which calls no model")
        ),
    });
    lines.push(paint(
        DIM,
        format!("  the provider is selected in this order: {}", order.join(", ")),
    ));
    lines.push(String::new());
    lines.extend(of_sandboxes(&report.sandboxes));
    lines.push(String::new());
    if let Some(cluster) = &report.cluster {
        lines.push(paint(BOLD, "Cluster"));
        lines.push(of_cluster(cluster));
        lines.push(String::new());
    }
    lines.push(paint(BOLD, "Settings"));
    let (user, there) = &config.origin.user_file;
    let there = if *there { "" } else { " (does not exist)" };
    lines.push(format!("  user     {}{there}", user.display()));
    lines.push(match &config.origin.project_file {
        Some(path) => format!("  project  {}", path.display()),
        None => "  project  no assize.toml in this folder".to_owned(),
    });
    lines.push(format!("  prices   as of {}", report.prices_as_of));
    for withheld in &report.withheld {
        let effect = if withheld.ignored { "is ignored" } else { "has no effect" };
        lines.push(format!(
            "  {} `{}` ({}) {effect}: {}; `assize config trust` allows the setting",
            paint(WARN, "!"),
            replace_control_chars(&withheld.key),
            withheld.from,
            withheld.why
        ));
    }
    lines
}

/// Formats the mark after the provider or sandbox that is in use; empty for others.
fn used_mark(is_used: bool) -> String {
    if is_used { format!("  {}", paint(GOOD.bold(), "← used")) } else { String::new() }
}

fn of_provider(report: &ProviderReport, is_used: bool, width: usize) -> Vec<String> {
    let detail = report.detail.as_deref().unwrap_or_default();
    let (mark, words) = match report.state {
        ProviderState::Answers => (paint(GOOD, "✓"), format!("answers ({detail})")),
        ProviderState::Fails => (paint(BAD, "✗"), detail.to_owned()),
        ProviderState::NoKey => (paint(DIM, "–"), format!("no key; {detail}")),
        ProviderState::NotTried => (paint(DIM, "?"), "not checked".to_owned()),
    };
    let key = report.key.as_ref().map(|key| format!("; key {} from {}", key.masked, key.from));
    let mut lines = vec![format!(
        "  {mark} {:<11} {:<width$}  {}{}{}",
        report.provider,
        replace_control_chars(&report.model),
        replace_control_chars(&words),
        key.unwrap_or_default(),
        used_mark(is_used),
    )];
    if !report.is_official {
        lines.push(paint(
            DIM,
            format!("    {:<11} at {}", "", replace_control_chars(&report.base_url)),
        ));
    }
    lines
}

fn of_model(model: &ModelInUse, why: &str) -> String {
    let price = match model.price {
        Some(Price::FREE) if model.is_local => "free (local)".to_owned(),
        Some(price) => format!(
            "${} per million input tokens, ${} per million output tokens",
            price.rates.input as f64 / 1e6,
            price.rates.output as f64 / 1e6
        ),
        None => "price unknown".to_owned(),
    };
    let (name, window) = (replace_control_chars(&model.name), grouped(model.context_window));
    let concurrency = model.concurrency;
    let calls = if concurrency == 1 { "call" } else { "calls" };
    format!(
        "{name}: {why}\n  context window {window} tokens; {price}; {concurrency} {calls} at once"
    )
}

fn of_sandboxes(report: &SandboxesReport) -> Vec<String> {
    let mut lines = vec![paint(BOLD, "Sandboxes")];
    for backend in &report.backends {
        let name = backend.isolation.name();
        let Some(millis) = backend.start_ms else {
            let why =
                replace_control_chars(backend.unavailable_reason.as_deref().unwrap_or_default());
            lines.push(format!("  {} {name:<8} {why}", paint(BAD, "✗")));
            let hints = backend.hint.as_deref().into_iter().flat_map(str::lines);
            lines.extend(hints.map(|hint| format!("      {}", replace_control_chars(hint))));
            continue;
        };
        let used = used_mark(report.used == Some(backend.isolation));
        lines.push(format!("  {} {name:<8} created in {millis:.0} ms{used}", paint(GOOD, "✓")));
        lines.extend(
            backend.method.as_ref().map(|how| format!("      {}", replace_control_chars(how))),
        );
        let limits = backend.limits();
        lines.extend(limits.map(|(limit, by)| paint(DIM, format!("      {limit:<12} {by}"))));
    }
    for name in Language::ALL.map(Language::name) {
        let (mark, words) = match report.interpreters.get(name).and_then(Option::as_ref) {
            Some(program) => (paint(GOOD, "✓"), program.as_str()),
            None => {
                let why = report.missing_interpreters.get(name);
                (paint(DIM, "–"), why.map_or("", String::as_str))
            }
        };
        lines.push(format!("  {mark} {name:<10} {}", replace_control_chars(words)));
    }
    let in_use = [
        ("In use for code:", report.used, &report.why),
        ("In use for debates:", report.used_for_debates, &report.why_for_debates),
    ];
    lines.extend(in_use.map(|(what, used, why)| match used {
        Some(isolation) => {
            format!("{} {isolation} ({})", paint(BOLD, what), replace_control_chars(why))
        }
        None => format!("{} no sandbox: {}", paint(BAD, what), replace_control_chars(why)),
    }));
    lines
}

fn of_cluster(report: &ClusterReport) -> String {
    let detail = report.detail.as_deref().unwrap_or_default();
    let (mark, words) = match (report.state, report.workers.zip(report.slots)) {
        (ClusterReportState::Answers, size) => {
            let (workers, slots) = size.unwrap_or_default();
            let mark = if workers > 0 { paint(GOOD, "✓") } else { paint(BAD, "✗") };
            (mark, format!("answers ({detail}); workers: {workers}, sandboxes: {slots}"))
        }
        (ClusterReportState::Fails, _) => (paint(BAD, "✗"), detail.to_owned()),
        (ClusterReportState::NotTried, _) => (paint(DIM, "?"), "not checked".to_owned()),
    };
    format!(
        "  {mark} {}  {}",
        replace_control_chars(&report.servers),
        replace_control_chars(&words)
    )
}
