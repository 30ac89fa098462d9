//! What `assize` without arguments shows on a terminal: what is configured, and commands to try.

use assize_config::{REHEARSAL, Settings};
use assize_service::doctor::configured_model;
use assize_types::Failure;

use crate::installation::InstallationKind;
use crate::terminal::{BOLD, DIM, out_line, paint, replace_control_chars};

/// Prints the start screen.
pub(crate) fn show(settings: &Settings) -> Result<(), Failure> {
    let (path, exists) = &settings.origin.user_file;
    let file = replace_control_chars(&path.display().to_string());
    let model = match configured_model(settings) {
        Some(choice) if choice.provider == REHEARSAL => {
            "rehearsal, which calls no model; `assize init` sets up a provider".to_owned()
        }
        Some(choice) => {
            let model = replace_control_chars(&choice.model.unwrap_or_default());
            format!("{model} of {} ({})", choice.provider, replace_control_chars(&choice.why))
        }
        None => {
            "Ollama if it is running, otherwise rehearsal (no model); `assize init` sets up a provider"
                .to_owned()
        }
    };
    let isolation = settings.text_of(assize_config::SettingKey::SandboxIsolation);
    let isolation = isolation.map_or_else(String::new, |isolation| isolation.to_string());
    let lines = [
        format!("{} {}", paint(BOLD, "assize"), env!("CARGO_PKG_VERSION")),
        "Puts proposals of language models on trial in a sandbox before they take effect"
            .to_owned(),
        String::new(),
        format!("  model     {model}"),
        format!("  sandbox   {isolation}; `assize doctor` checks what works on this machine"),
        format!("  settings  {file}{}", if *exists { "" } else { " (does not exist)" }),
        String::new(),
        commands(),
        String::new(),
        paint(DIM, documentation()),
    ];
    out_line(&lines.join("\n"))
}

/// Three commands to try.
pub(crate) fn commands() -> String {
    let commands = [
        (
            "assize run \"Calculate fibonacci(10)\"",
            "a model writes a program, which runs in a sandbox",
        ),
        ("assize exec FILE", "run your own program in the same sandbox"),
        ("assize serve", "open the web page and the HTTP API"),
    ];
    let width = commands.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    let lines =
        commands.map(|(command, what)| format!("  {command:<width$}  {}", paint(DIM, what)));
    format!("{}\n{}", paint(BOLD, "Try"), lines.join("\n"))
}

/// Line that tells the user where to find the documentation.
fn documentation() -> String {
    match InstallationKind::detect() {
        InstallationKind::Deb => {
            "All commands: `assize --help` or `man assize`. Documentation: /usr/share/doc/assize"
                .to_owned()
        }
        _ => "All commands: `assize --help`".to_owned(),
    }
}
