//! `assize --version`, and `assize --version --verbose`: how assize was built and installed.

use std::ffi::OsString;

use assize_service::embedded::embedded_programs;
use assize_types::Failure;

use crate::installation::{InstallationKind, program};
use crate::terminal::{out_line, replace_control_chars};

/// What a command line about the version requests.
#[derive(Debug, Clone, Copy)]
pub(crate) enum VersionDetail {
    /// `--version` alone.
    Number,
    /// `--version --verbose`.
    All,
}

/// Returns what is requested if the command line consists of `--version`, or of `--version` and `--verbose`.
pub(crate) fn requested(arguments: &[OsString]) -> Option<VersionDetail> {
    let has = |names: [&str; 2]| arguments.iter().any(|word| names.iter().any(|name| word == name));
    match arguments.len() {
        _ if !has(["--version", "-V"]) => None,
        1 => Some(VersionDetail::Number),
        2 if has(["--verbose", "-v"]) => Some(VersionDetail::All),
        _ => None,
    }
}

pub(crate) fn show(detail: VersionDetail) -> Result<(), Failure> {
    match detail {
        VersionDetail::Number => out_line(&format!("assize {}", crate::args::version())),
        VersionDetail::All => show_all(),
    }
}

fn show_all() -> Result<(), Failure> {
    let path = replace_control_chars(&program()?.display().to_string());
    let linking = if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" };
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let page = match assize_server::page_missing() {
        None => "embedded".to_owned(),
        Some(why) => format!("missing: {why}"),
    };
    let mut lines = vec![
        format!("assize {}", env!("CARGO_PKG_VERSION")),
        format!("installed   {} ({path})", InstallationKind::detect()),
        format!(
            "build       {build}, {linking}, {} {}",
            std::env::consts::ARCH,
            std::env::consts::OS
        ),
        format!("web page    {page}"),
    ];
    lines.extend(embedded_programs().map(|program| {
        let kilobytes = program.bytes.div_ceil(1000);
        format!("{:<11} sha256 {} ({kilobytes} kB)", program.name, program.hash)
    }));
    out_line(&lines.join("\n"))
}
