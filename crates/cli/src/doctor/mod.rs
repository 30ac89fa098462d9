//! `assize doctor`: what this machine offers, and why not the rest.

mod sandboxes;

use assize_config::{Environment, Price, REHEARSAL_LABEL, Settings};
use assize_gateway::choice::{self, Choice, ORDER};
use assize_gateway::{ModelFacts, PRICES_AS_OF};
use assize_service::doctor::{ClusterFound, ClusterState, Examined, Finding, State, examine};
use assize_types::Failure;
use serde_json::json;

use crate::args::DoctorArgs;
use crate::terminal::{BAD, BOLD, DIM, GOOD, WARN, grouped, harmless, out_json, out_line, paint};

pub(crate) async fn run(
    args: DoctorArgs,
    config: &Settings,
    around: &Environment,
) -> Result<(), Failure> {
    let found = examine(config, around, args.offline).await?;
    if args.json {
        out_json(&json!(found.report(config)))?;
    } else {
        out_line(&as_text(config, &found))?;
    }
    found.complain(config)
}

fn as_text(config: &Settings, found: &Examined) -> String {
    let Examined { providers: findings, choice, endpoint, concurrency, sandboxes, cluster } = found;
    let mut lines = vec![
        format!(
            "assize {} on {} {}",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::OS,
            std::env::consts::ARCH
        ),
        String::new(),
        paint(BOLD, "Model providers"),
    ];
    let width = findings.iter().map(|finding| finding.endpoint.model.len()).max().unwrap_or(0);
    for Finding { endpoint, key_from, state } in findings {
        let provider = endpoint.provider;
        let (mark, words) = match state {
            State::Answers(time) => {
                (paint(GOOD, "✓"), format!("answers ({} ms)", time.as_millis()))
            }
            State::Fails(why) => (paint(BAD, "✗"), why.clone()),
            State::NoKey => (paint(DIM, "–"), format!("no key; set {}", endpoint.key_source)),
            State::NotTried => (paint(DIM, "?"), "not tried".to_owned()),
        };
        let key =
            endpoint.key.as_ref().map(|key| format!("; key {} from {key_from}", key.masked()));
        let used =
            matches!(choice, Choice::Provider { provider: chosen, .. } if *chosen == provider);
        let used =
            if used { format!("  {}", paint(GOOD.bold(), "← used")) } else { String::new() };
        lines.push(format!(
            "  {mark} {:<11} {:<width$}  {}{}{used}",
            provider.name(),
            harmless(&endpoint.model),
            harmless(&words),
            key.unwrap_or_default(),
        ));
        if !endpoint.is_official() {
            lines.push(paint(DIM, format!("    {:<11} at {}", "", harmless(&endpoint.base_url))));
        }
    }
    lines.push(String::new());
    lines.push(match choice {
        Choice::Provider { provider, why } => {
            let endpoint = match endpoint {
                Some(endpoint) => endpoint.clone(),
                None => choice::endpoint(config, *provider),
            };
            let model = harmless(&endpoint.model);
            let facts = ModelFacts::of(&endpoint);
            let price = match facts.price {
                Some(Price::FREE) if facts.local => "free (local)".to_owned(),
                Some(price) => format!(
                    "${} in, ${} out for a million tokens",
                    price.rates.input as f64 / 1e6,
                    price.rates.output as f64 / 1e6
                ),
                None => "price unknown".to_owned(),
            };
            let window = grouped(facts.context_window);
            let calls = if *concurrency == 1 { "call" } else { "calls" };
            format!(
                "{} {provider} {model}: {why}\n  context window {window} tokens; {price}; {concurrency} {calls} at once",
                paint(BOLD, "In use:")
            )
        }
        Choice::Rehearsal { why } => {
            format!("{} {} ({why})", paint(BOLD, "In use:"), paint(WARN, REHEARSAL_LABEL))
        }
    });
    lines.push(paint(DIM, format!("  looked for in this order: {}", ORDER.join(", "))));
    lines.push(String::new());
    lines.extend(sandboxes::as_text(sandboxes));
    lines.push(String::new());
    if let Some(cluster) = cluster {
        lines.push(paint(BOLD, "Cluster"));
        lines.push(of_cluster(cluster));
        lines.push(String::new());
    }
    lines.push(paint(BOLD, "Settings"));
    let (user, there) = &config.origin.user_file;
    lines.push(format!(
        "  user     {}{}",
        user.display(),
        if *there { "" } else { " (not there)" }
    ));
    match &config.origin.project_file {
        Some(path) => lines.push(format!("  project  {}", path.display())),
        None => lines.push("  project  no assize.toml here".to_owned()),
    }
    lines.push(format!("  prices   gathered on {PRICES_AS_OF}"));
    for withheld in &config.origin.withheld {
        let effect = if withheld.ignored { "is ignored" } else { "has no effect" };
        lines.push(format!(
            "  {} `{}` ({}) {effect}: {}; `assize config trust` allows it",
            paint(WARN, "!"),
            harmless(&withheld.key),
            withheld.source,
            config.origin.trust.why_not()
        ));
    }
    lines.join("\n")
}

fn of_cluster(ClusterFound { servers, state }: &ClusterFound) -> String {
    let (mark, words) = match state {
        ClusterState::Answers { took, workers, slots } => {
            let mark = if *workers > 0 { paint(GOOD, "✓") } else { paint(BAD, "✗") };
            let took = took.as_millis();
            (mark, format!("answers ({took} ms); workers: {workers}, sandboxes: {slots}"))
        }
        ClusterState::Fails(why) => (paint(BAD, "✗"), why.message().to_owned()),
        ClusterState::NotTried => (paint(DIM, "?"), "not tried".to_owned()),
    };
    format!("  {mark} {}  {}", harmless(servers), harmless(&words))
}
