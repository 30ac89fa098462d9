//! For build scripts: builds a program that runs inside sandboxes, small and static, so that it can be
//! embedded: one file is all that a user needs, and it runs in any image.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Builds a package of this workspace with the profile `guest`, and puts its program into `OUT_DIR` under
/// its own name, to be taken by `include_bytes!`. What is printed is for cargo.
#[expect(clippy::print_stdout, reason = "that is how a build script talks to cargo")]
pub fn embed(package: &str) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_WORKSPACE_WRAPPER");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let embedded = out.join(package);
    // Clippy looks at the program as at any other crate; what it makes is never run.
    if env::var("RUSTC_WORKSPACE_WRAPPER").is_ok_and(|wrapper| wrapper.contains("clippy")) {
        return Ok(fs::write(embedded, [])?);
    }
    let target = env::var("TARGET")?;
    let workspace = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..").canonicalize()?;
    let folder = own_target_folder(&out);
    let mut cargo = Command::new(env::var("CARGO")?);
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        let kept = ["CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"].contains(&name.as_ref());
        let of_cargo = ["CARGO", "RUST", "DEP_"].iter().any(|prefix| name.starts_with(prefix));
        let of_ours = ["OUT_DIR", "TARGET", "HOST", "PROFILE", "OPT_LEVEL", "DEBUG", "NUM_JOBS"];
        if !kept && (of_cargo || of_ours.contains(&name.as_ref())) {
            cargo.env_remove(name.as_ref());
        }
    }
    cargo
        .current_dir(&workspace)
        .args(["build", "--locked", "--quiet", "--package", package, "--profile", "guest"])
        .arg("--target")
        .arg(&target)
        .arg("--target-dir")
        .arg(&folder)
        // Linked statically, it runs in any image.
        .env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static");
    let built = cargo.output()?;
    if !built.status.success() {
        let words = String::from_utf8_lossy(&built.stderr).into_owned();
        return Err(format!("`{package}` could not be built:\n{words}").into());
    }
    let made = folder.join(&target).join("guest").join(package);
    watch(&made.with_extension("d"), &workspace)?;
    fs::copy(&made, &embedded)?;
    Ok(())
}

/// One folder for all of them, whatever the rest is built for; they are the same programs.
fn own_target_folder(out: &Path) -> PathBuf {
    let root = out.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists()).unwrap_or(out);
    root.join("guest")
}

/// Has cargo come back whenever anything the program is made of has changed.
#[expect(clippy::print_stdout, reason = "that is how a build script talks to cargo")]
fn watch(made_of: &Path, workspace: &Path) -> Result<(), Box<dyn Error>> {
    let rule = fs::read_to_string(made_of)?;
    let files = rule.split_once(": ").map_or("", |(_, files)| files);
    // A space within a path is written with a backslash.
    for file in files.trim().replace("\\ ", "\0").split(' ').map(|file| file.replace('\0', " ")) {
        println!("cargo::rerun-if-changed={file}");
        let manifest = Path::new(&file).ancestors().map(|folder| folder.join("Cargo.toml"));
        if let Some(manifest) = manifest.into_iter().find(|manifest| manifest.exists()) {
            println!("cargo::rerun-if-changed={}", manifest.display());
        }
    }
    for file in ["Cargo.toml", "Cargo.lock"] {
        println!("cargo::rerun-if-changed={}", workspace.join(file).display());
    }
    Ok(())
}
