//! Detects how this program was installed, by the path of its file.

use std::fmt;
use std::path::{Path, PathBuf};

use assize_types::{Failure, FailureKind};

/// Package or method that installed the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InstallationKind {
    /// Debian package.
    Deb,
    /// Container image of the project.
    Image,
    /// Python wheel in a permanent environment, installed with `pip`, `pipx` or `uv tool`.
    Wheel,
    /// Python wheel in a temporary environment of `uvx`.
    Uvx,
    /// npm package, installed in a project or globally.
    Npm,
    /// npm package in the cache of `npx`.
    Npx,
    /// Binary installed with `cargo install`.
    Cargo,
    /// Binary built from source, in Cargo's target folder.
    Source,
    /// Single file without a package, for example from an archive.
    File,
}

impl fmt::Display for InstallationKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            InstallationKind::Deb => "Debian package",
            InstallationKind::Image => "container image",
            InstallationKind::Wheel => "Python wheel",
            InstallationKind::Uvx => "Python wheel, temporary environment of uvx",
            InstallationKind::Npm => "npm package",
            InstallationKind::Npx => "npm package, cache of npx",
            InstallationKind::Cargo => "cargo install",
            InstallationKind::Source => "build from source",
            InstallationKind::File => "single file",
        })
    }
}

/// Path of this program.
pub(crate) fn program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        let message = format!("cannot find the file of this program: {error}");
        Failure::new(FailureKind::Environment, message).hint("mount `/proc`")
    })
}

impl InstallationKind {
    /// Recognises how this program was installed.
    pub(crate) fn detect() -> InstallationKind {
        program().map_or(InstallationKind::File, |path| InstallationKind::of(&path))
    }

    /// Recognises how the program at a path was installed.
    fn of(path: &Path) -> InstallationKind {
        let has_part = |name: &str| path.iter().any(|part| part == name);
        let folder = path.parent().unwrap_or(path);
        if has_part("node_modules") {
            return if has_part("_npx") { InstallationKind::Npx } else { InstallationKind::Npm };
        }
        if has_wheel(folder) {
            let is_temporary =
                path.iter().any(|part| part.to_string_lossy().starts_with("archive-v"));
            return if is_temporary { InstallationKind::Uvx } else { InstallationKind::Wheel };
        }
        if folder.ends_with(".cargo/bin") {
            return InstallationKind::Cargo;
        }
        let is_target = |folder: &Path| {
            folder.join(".rustc_info.json").exists() || folder.join("CACHEDIR.TAG").exists()
        };
        if folder.ancestors().skip(1).take(2).any(is_target) {
            return InstallationKind::Source;
        }
        if folder == Path::new("/usr/bin") {
            return InstallationKind::Deb;
        }
        if Path::new("/usr/share/assize/container-image").exists() {
            return InstallationKind::Image;
        }
        InstallationKind::File
    }

    /// Returns the command and first arguments that start this program, for an entry in a configuration file. If the
    /// file is shared with other people, and `assize` in `PATH` is this program, the command is only `assize`, without
    /// a path.
    pub(crate) fn command(&self, is_shared: bool) -> Result<(String, Vec<String>), Failure> {
        let words = |command: &str, arguments: &[&str]| {
            (command.to_owned(), arguments.iter().map(|word| (*word).to_owned()).collect())
        };
        match self {
            InstallationKind::Uvx => return Ok(words("uvx", &["assize"])),
            InstallationKind::Npx => return Ok(words("npx", &["--yes", "assize"])),
            _ => {}
        }
        let path = program()?;
        if is_shared && found_in_path().is_some_and(|found| found == path) {
            return Ok(words("assize", &[]));
        }
        match path.to_str() {
            Some(path) => Ok(words(path, &[])),
            None => {
                let message =
                    format!("the path of this program is not valid UTF-8: `{}`", path.display());
                Err(Failure::new(FailureKind::Environment, message)
                    .hint("install assize in a folder whose path is valid UTF-8"))
            }
        }
    }
}

/// Whether the folder is the `bin` folder of a Python environment that contains the wheel.
fn has_wheel(folder: &Path) -> bool {
    let Some(Ok(versions)) = folder.parent().map(|root| root.join("lib").read_dir()) else {
        return false;
    };
    versions.flatten().any(|version| {
        ["site-packages", "dist-packages"].iter().any(|packages| {
            let packages = version.path().join(packages).read_dir();
            packages.is_ok_and(|mut entries| {
                entries.any(|entry| {
                    entry.is_ok_and(|entry| {
                        let name = entry.file_name();
                        let name = name.to_string_lossy();
                        name.starts_with("assize-") && name.ends_with(".dist-info")
                    })
                })
            })
        })
    })
}

/// Path of the program that a shell starts for `assize`.
fn found_in_path() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join("assize"))
        .find(|path| path.is_file())?
        .canonicalize()
        .ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn installation_is_recognised_by_the_path_of_the_program() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        let made = |folder: &str, file: &str| {
            fs::create_dir_all(home.join(folder)).unwrap();
            fs::write(home.join(folder).join(file), "").unwrap();
        };
        let packages = "lib/python3.11/site-packages/assize-0.1.0.dist-info";
        for environment in ["venv", ".cache/uv/archive-v0/abc"] {
            made(&format!("{environment}/{packages}"), "METADATA");
        }
        made("project/target", ".rustc_info.json");
        for (path, expected) in [
            ("venv/bin/assize", InstallationKind::Wheel),
            (".cache/uv/archive-v0/abc/bin/assize", InstallationKind::Uvx),
            ("web/node_modules/@assize/linux-x64/bin/assize", InstallationKind::Npm),
            (".npm/_npx/1/node_modules/@assize/linux-x64/bin/assize", InstallationKind::Npx),
            (".cargo/bin/assize", InstallationKind::Cargo),
            ("project/target/debug/assize", InstallationKind::Source),
            ("project/target/x86_64-unknown-linux-gnu/dist/assize", InstallationKind::Source),
            ("tools/assize", InstallationKind::File),
        ] {
            assert_eq!(InstallationKind::of(&home.join(path)), expected, "{path}");
        }
        assert_eq!(InstallationKind::of(Path::new("/usr/bin/assize")), InstallationKind::Deb);
    }
}
