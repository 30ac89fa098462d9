//! Build-script helper: builds a small static binary that runs inside sandboxes, so that another binary can embed it.
//! Users then install one file, and the embedded program runs in any container image.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use libdeflater::{CompressionLvl, Compressor};

/// Compiles a package of this Cargo workspace with the Cargo profile `guest` or, in releases, `guest-dist`, and copies the
/// binary to `OUT_DIR/<package>`, where `include_bytes!` can embed it.
pub fn embed(package: &str) -> Result<(), Box<dyn Error>> {
    let embedded = PathBuf::from(env::var("OUT_DIR")?).join(package);
    match build(package)? {
        Some(binary) => fs::copy(binary, embedded)?,
        None => fs::write(embedded, []).map(|()| 0)?,
    };
    Ok(())
}

/// Like [`embed`], but compresses the binary with gzip and writes it to `OUT_DIR/<package>.gz`.
pub fn embed_compressed(package: &str) -> Result<(), Box<dyn Error>> {
    let binary = build(package)?.map(fs::read).transpose()?.unwrap_or_default();
    let mut compressor = Compressor::new(CompressionLvl::best());
    let mut compressed = vec![0; compressor.gzip_compress_bound(binary.len())];
    let length = compressor.gzip_compress(&binary, &mut compressed)?;
    compressed.truncate(length);
    Ok(fs::write(PathBuf::from(env::var("OUT_DIR")?).join(format!("{package}.gz")), compressed)?)
}

/// Compiles a package and returns the path of its binary. Returns `None` if Clippy checks the crate that embeds the
/// binary: Clippy never runs that crate, and checks the package separately.
#[expect(clippy::print_stdout, reason = "cargo reads a build script's standard output")]
fn build(package: &str) -> Result<Option<PathBuf>, Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_WORKSPACE_WRAPPER");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    if env::var("RUSTC_WORKSPACE_WRAPPER").is_ok_and(|wrapper| wrapper.contains("clippy")) {
        return Ok(None);
    }
    let target = env::var("TARGET")?;
    let workspace = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..").canonicalize()?;
    let profile_folder = profile_folder(&out);
    let profile = if profile_folder.ends_with("dist") { "guest-dist" } else { "guest" };
    let folder = profile_folder.with_file_name("guest");
    let mut cargo = Command::new(env::var("CARGO")?);
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        // Variable with the linker for another processor.
        let linker = name.starts_with("CARGO_TARGET_") && name.ends_with("_LINKER");
        let kept =
            linker || ["CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"].contains(&name.as_ref());
        let of_cargo = ["CARGO", "RUST", "DEP_"].iter().any(|prefix| name.starts_with(prefix));
        let of_build = ["OUT_DIR", "TARGET", "HOST", "PROFILE", "OPT_LEVEL", "DEBUG", "NUM_JOBS"];
        if !kept && (of_cargo || of_build.contains(&name.as_ref())) {
            cargo.env_remove(name.as_ref());
        }
    }
    cargo
        .current_dir(&workspace)
        .args(["build", "--locked", "--quiet", "--package", package, "--profile", profile])
        .arg("--target")
        .arg(&target)
        .arg("--target-dir")
        .arg(&folder)
        .env("CARGO_ENCODED_RUSTFLAGS", guest_flags());
    let built = cargo.output()?;
    if !built.status.success() {
        let stderr = String::from_utf8_lossy(&built.stderr).into_owned();
        return Err(format!("cannot build `{package}`:\n{stderr}").into());
    }
    let binary = folder.join(&target).join(profile).join(package);
    rerun_if_sources_change(&binary.with_extension("d"), &workspace)?;
    Ok(Some(binary))
}

/// Returns the compiler flags for embedded programs, as a value of `CARGO_ENCODED_RUSTFLAGS`. With static linking, the
/// program runs in any image. With the `--remap-path-prefix` flags of the outer build, the program does not depend on
/// the folder of the build. Flags of the form `-Clink-arg=…` are taken from the outer build, too.
fn guest_flags() -> String {
    let outer = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let is_used =
        |flag: &&str| flag.starts_with("--remap-path-prefix=") || flag.starts_with("-Clink-arg=");
    let of_outer = outer.split('\x1f').filter(is_used);
    let flags: Vec<&str> = ["-Ctarget-feature=+crt-static"].into_iter().chain(of_outer).collect();
    flags.join("\x1f")
}

/// Returns the folder of this build's Cargo profile: `<target>/<profile>`. Embedded programs are built in the folder
/// `guest` beside it, which all build scripts and Cargo profiles share.
fn profile_folder(out: &Path) -> &Path {
    // Cargo sets `OUT_DIR` to `<target>/<profile>/build/<package>/out`.
    let build = out.ancestors().find(|folder| folder.ends_with("build"));
    build.and_then(Path::parent).unwrap_or(out)
}

/// Makes cargo rerun the build script when a source file of the embedded program changes. The program's dep-info file
/// lists the source files.
#[expect(clippy::print_stdout, reason = "cargo reads a build script's standard output")]
fn rerun_if_sources_change(dep_info: &Path, workspace: &Path) -> Result<(), Box<dyn Error>> {
    let rule = fs::read_to_string(dep_info)?;
    let files = rule.split_once(": ").map_or("", |(_, files)| files);
    // Dep-info files escape a space in a path with a backslash.
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
