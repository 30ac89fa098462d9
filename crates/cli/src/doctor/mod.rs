//! `assize doctor`: what this machine offers, and why not the rest.

mod sandboxes;

use std::time::{Duration, Instant};

use assize_gateway::{
    Endpoint, HttpClient, ModelFacts, PRICES_AS_OF, Provider, REHEARSAL_LABEL, probe,
};
use serde_json::{Value, json};

use self::sandboxes::Sandboxes;
use crate::args::DoctorArgs;
use crate::choose::{self, Choice, ORDER};
use crate::config::{Config, Source, Surroundings};
use crate::failure::{Failure, FailureKind};
use crate::terminal::{BAD, BOLD, DIM, GOOD, WARN, grouped, harmless, out_json, out_line, paint};

/// A provider that takes longer is as good as not there.
const PATIENCE: Duration = Duration::from_secs(8);

/// What was found out about one provider.
struct Finding {
    endpoint: Endpoint,
    key_from: Source,
    state: State,
}

enum State {
    Answers(Duration),
    Fails(String),
    NoKey,
    NotTried,
}

pub(crate) async fn run(
    args: DoctorArgs,
    config: &Config,
    around: &Surroundings,
) -> Result<(), Failure> {
    let client = HttpClient::new();
    let mut probes = tokio::task::JoinSet::new();
    for (index, provider) in Provider::ALL.into_iter().enumerate() {
        let endpoint = choose::endpoint(config, provider);
        let (_, key_from) = config.key(provider);
        let client = client.clone();
        let offline = args.offline;
        probes.spawn(async move {
            let state = examine(&client, &endpoint, offline).await;
            (index, Finding { endpoint, key_from, state })
        });
    }
    let mut findings = probes.join_all().await;
    findings.sort_by_key(|(index, _)| *index);
    let findings: Vec<Finding> = findings.into_iter().map(|(_, finding)| finding).collect();
    let choice = choice(config, &findings, args.offline)?;
    let sandboxes = sandboxes::examine(config, around).await;

    if args.json {
        out_json(&as_json(config, &findings, &choice, &sandboxes))?;
    } else {
        out_line(&as_text(config, &findings, &choice, &sandboxes))?;
    }
    config.refuse_withheld()?;
    sandboxes.complain(config)?;
    complain(&findings, &choice)
}

async fn examine(client: &HttpClient, endpoint: &Endpoint, offline: bool) -> State {
    if endpoint.provider.needs_key() && endpoint.key.is_none() {
        return State::NoKey;
    }
    if offline {
        return State::NotTried;
    }
    let start = Instant::now();
    match probe(client, endpoint, PATIENCE).await {
        Ok(()) => State::Answers(start.elapsed()),
        Err(error) => State::Fails(error.to_string()),
    }
}

/// The same choice as for a question, by what has been found out already.
fn choice(config: &Config, findings: &[Finding], offline: bool) -> Result<Choice, Failure> {
    if let Some(choice) = choose::from_settings(config)? {
        return Ok(choice);
    }
    let ollama = findings.iter().find(|finding| finding.endpoint.provider == Provider::Ollama);
    if ollama.is_some_and(|finding| matches!(finding.state, State::Answers(_))) {
        let why = "no key is at hand, and it answers".to_owned();
        return Ok(Choice::Provider { provider: Provider::Ollama, why });
    }
    let why = if offline {
        "no key is at hand, and Ollama was not looked for"
    } else {
        "no key is at hand, and no Ollama answers"
    };
    Ok(Choice::Rehearsal { why: why.to_owned() })
}

/// A provider that is used and does not work is a failure; one that is not used is not.
fn complain(findings: &[Finding], choice: &Choice) -> Result<(), Failure> {
    let Choice::Provider { provider, .. } = choice else {
        return Ok(());
    };
    let Some(finding) = findings.iter().find(|finding| finding.endpoint.provider == *provider)
    else {
        return Ok(());
    };
    match &finding.state {
        State::Fails(why) => Err(Failure::new(
            FailureKind::Environment,
            format!("{provider} is used, and fails: {why}"),
        )),
        State::NoKey => {
            Err(Failure::new(FailureKind::Settings, format!("{provider} is used, and has no key"))
                .hint(format!("set `{}`", finding.endpoint.key_source)))
        }
        State::Answers(_) | State::NotTried => Ok(()),
    }
}

fn as_text(
    config: &Config,
    findings: &[Finding],
    choice: &Choice,
    sandboxes: &Sandboxes,
) -> String {
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
            let endpoint = choose::endpoint(config, *provider);
            let model = harmless(config.text("model").unwrap_or(&endpoint.model));
            let facts = ModelFacts::of(&Endpoint { model: model.clone(), ..endpoint });
            let price = match facts.price {
                Some(price) => format!(
                    "${} in, ${} out for a million tokens",
                    price.rates.input as f64 / 1e6,
                    price.rates.output as f64 / 1e6
                ),
                None => "price unknown".to_owned(),
            };
            let window = grouped(facts.context_window);
            format!(
                "{} {provider} {model}: {why}\n  context window {window} tokens; {price}",
                paint(BOLD, "In use:")
            )
        }
        Choice::Rehearsal { why } => {
            format!("{} {} ({why})", paint(BOLD, "In use:"), paint(WARN, REHEARSAL_LABEL))
        }
    });
    lines.push(paint(DIM, format!("  looked for in this order: {ORDER}")));
    lines.push(String::new());
    lines.extend(sandboxes.as_text());
    lines.push(String::new());
    lines.push(paint(BOLD, "Settings"));
    let (user, there) = &config.user_file;
    lines.push(format!(
        "  user     {}{}",
        user.display(),
        if *there { "" } else { " (not there)" }
    ));
    match &config.project_file {
        Some(path) => lines.push(format!("  project  {}", path.display())),
        None => lines.push("  project  no assize.toml here".to_owned()),
    }
    lines.push(format!("  prices   gathered on {PRICES_AS_OF}"));
    for withheld in &config.withheld {
        lines.push(format!(
            "  {} `{}` ({}) has no effect: {}",
            paint(WARN, "!"),
            harmless(&withheld.key),
            withheld.source,
            config.trust.why_not()
        ));
    }
    lines.join("\n")
}

fn as_json(config: &Config, findings: &[Finding], choice: &Choice, sandboxes: &Sandboxes) -> Value {
    let providers: Vec<Value> = findings
        .iter()
        .map(|Finding { endpoint, key_from, state }| {
            let (state, detail) = match state {
                State::Answers(time) => ("answers", Some(format!("{} ms", time.as_millis()))),
                State::Fails(why) => ("fails", Some(why.clone())),
                State::NoKey => ("no_key", Some(format!("set {}", endpoint.key_source))),
                State::NotTried => ("not_tried", None),
            };
            json!({
                "provider": endpoint.provider.name(), "model": endpoint.model, "base_url": endpoint.base_url,
                "key": endpoint.key.as_ref().map(|key| json!({"masked": key.masked(), "from": key_from.to_string()})),
                "state": state, "detail": detail,
            })
        })
        .collect();
    let (used, why) = match choice {
        Choice::Provider { provider, why } => (provider.name(), why),
        Choice::Rehearsal { why } => ("rehearsal", why),
    };
    let withheld: Vec<Value> = config
        .withheld
        .iter()
        .map(|withheld| json!({"key": withheld.key, "from": withheld.source.to_string()}))
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"), "os": std::env::consts::OS, "arch": std::env::consts::ARCH,
        "providers": providers, "used": used, "why": why, "order": ORDER, "prices_as_of": PRICES_AS_OF,
        "withheld": withheld, "sandboxes": sandboxes.as_json(),
    })
}
