//! The log: to standard error, readable or as JSON.

use std::io::IsTerminal;

use assize_config::{LogFormat, Settings};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::SystemTime;

/// Starts the log. Other people's crates log too, and what HTTP libraries have to say at `trace`
/// is no business of our users: only ours are heard.
pub(crate) fn start(config: &Settings) {
    let level = *config.log.level;
    let rooms = [
        "attack", "cli", "cluster", "code", "consult", "debate", "draft", "gateway", "graph",
        "llm", "mcp", "sandbox", "server", "store", "types",
    ]
    .map(|room| format!("assize_{room}={level}"));
    let directives = format!("assize={level},{}", rooms.join(","));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(directives))
        .with_writer(std::io::stderr)
        .with_timer(SystemTime);
    if *config.log.format == LogFormat::Json {
        builder.json().flatten_event(true).with_current_span(true).with_span_list(false).init();
    } else {
        builder.with_target(false).with_ansi(std::io::stderr().is_terminal()).init();
    }
}
