//! Logging to standard error, as text or JSON.

use std::io::IsTerminal;

use assize_config::{LogFormat, Settings};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::SystemTime;

/// Starts logging to standard error. Only log lines of assize's own crates are printed: at the level `trace`, HTTP
/// libraries would print details that users do not need.
pub(crate) fn start(config: &Settings) {
    // A directive applies to every target that starts with its name: `assize_server`, `assize_worker`, ...
    let directives = format!("assize={}", *config.log.level);
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
