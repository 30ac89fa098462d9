//! `assize --version --verbose`: how assize was built and installed.

use std::ffi::OsString;

use assize_service::embedded::embedded_programs;
use assize_types::Failure;

use crate::installation::{InstallationKind, program};
use crate::terminal::{out_line, replace_control_chars};

/// Whether the command line consists of `--version` and `--verbose`.
pub(crate) fn is_requested(arguments: &[OsString]) -> bool {
    let has = |names: [&str; 2]| arguments.iter().any(|word| names.iter().any(|name| word == name));
    arguments.len() == 2 && has(["--version", "-V"]) && has(["--verbose", "-v"])
}

pub(crate) fn show() -> Result<(), Failure> {
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
