//! Builds the web page from `ui/` with npm. The build runs in a copy of `ui/` in `OUT_DIR`. If the page cannot be
//! built, the server is compiled without the page and embeds the reason.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// Files and folders of `ui/` that the web page is built from.
const PARTS: [&str; 8] = [
    "index.html",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.ts",
    "public",
    "scripts",
    "src",
];

/// If this variable is set, as for a release, the build fails if the page cannot be built.
const PAGE_REQUIRED: &str = "ASSIZE_PAGE_REQUIRED";

fn main() {
    let ui = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../ui");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    for part in PARTS {
        println!("cargo::rerun-if-changed={}", ui.join(part).display());
    }
    let mut written = String::new();
    match build(&ui, &out.join("ui")) {
        Ok(files) => {
            written.push_str("const MISSING: Option<&str> = None;\n");
            written.push_str("static FILES: &[(&str, &[u8])] = &[\n");
            for (name, path) in files {
                let compressed = format!("{}.gz", path.display());
                let _ = writeln!(written, "    ({name:?}, include_bytes!({compressed:?})),");
            }
            written.push_str("];\n");
        }
        Err(why) => {
            // Build again when `PATH` changes: npm may be installed in a folder of the new `PATH`.
            println!("cargo::rerun-if-env-changed=PATH");
            println!("cargo::rerun-if-env-changed={PAGE_REQUIRED}");
            if env::var_os(PAGE_REQUIRED).is_some() {
                println!("cargo::error=the web page cannot be built: {why}");
            } else {
                println!("cargo::warning=building without the web page: {why}");
            }
            let _ = writeln!(written, "const MISSING: Option<&str> = Some({why:?});");
            written.push_str("static FILES: &[(&str, &[u8])] = &[];\n");
        }
    }
    if let Err(error) = fs::write(out.join("files.rs"), written) {
        println!("cargo::error={error}");
    }
}

/// Builds the web page in the folder `copy`; returns the name and the path of each built file.
fn build(ui: &Path, copy: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let failed = |error: io::Error| error.to_string();
    if Command::new("npm").arg("--version").output().is_err() {
        return Err("npm not found".to_owned());
    }
    let lock = |folder: &Path| fs::read(folder.join("package-lock.json")).ok();
    let same = lock(ui).is_some()
        && lock(ui) == lock(copy)
        && copy.join("node_modules/.package-lock.json").exists();
    fs::create_dir_all(copy).map_err(failed)?;
    for part in PARTS {
        copied(&ui.join(part), &copy.join(part)).map_err(failed)?;
    }
    if !same {
        npm(copy, &["ci", "--ignore-scripts", "--no-audit", "--no-fund"])?;
    }
    npm(copy, &["run", "build"])?;
    let dist = copy.join("dist");
    let mut files = Vec::new();
    let mut folders = vec![dist.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_none_or(|extension| extension != "gz") {
                let name = path.strip_prefix(&dist).map_err(|error| error.to_string())?;
                files.push((name.display().to_string(), path.clone()));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Copies a file, or a folder with its content, and replaces an existing target.
fn copied(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_file() {
        return fs::copy(from, to).map(drop);
    }
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copied(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn npm(folder: &Path, arguments: &[&str]) -> Result<(), String> {
    let ran = Command::new("npm").args(arguments).current_dir(folder).output();
    let ran = ran.map_err(|error| format!("cannot run npm: {error}"))?;
    if ran.status.success() {
        return Ok(());
    }
    let output = [ran.stdout, ran.stderr].concat();
    let output = String::from_utf8_lossy(&output);
    let last = output.lines().filter(|line| !line.contains("npm warn")).rev().take(8);
    let last: Vec<&str> = last.collect::<Vec<_>>().into_iter().rev().collect();
    Err(format!("`npm {}` failed: {}", arguments.join(" "), last.join(" / ")))
}
