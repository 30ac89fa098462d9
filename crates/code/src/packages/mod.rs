//! Python packages that programs need. A model requests the packages, so the requests are untrusted.
//!
//! Package names are checked against a list of allowed packages. `pip download` fetches the packages outside the
//! sandbox; it accepts only wheels and therefore runs no code of a package. The wheels are unpacked into a layer: a
//! folder that sandboxes mount read-only, with bytecode that is compiled in a sandbox. Layers are cached; the key of a
//! layer is computed from its exact wheels and its Python version.

mod bytecode;
mod imports;
mod requirement;
mod wheel;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use assize_config::ALLOWED_PACKAGES;
use assize_sandbox::{SandboxLayer, SandboxPool, SandboxSpec};
use assize_types::Fingerprint;
use tokio::process::Command;

pub use requirement::normalize_name;
pub(crate) use requirement::{PythonVersion, Requirement};

use crate::execution::CodeFailure;

/// Maximum number of packages that a program may request.
const MAX_REQUESTED: usize = 100;

/// Maximum number of requested packages together with all their dependencies.
const MAX_RESOLVED: usize = 500;

/// Maximum length of a chain of packages in which each package requires the next one.
const MAX_ROUNDS: usize = 12;

/// Timeout of one `pip download` process.
const PIP_TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum age of a cached resolution (the versions that pip selected) before pip selects versions again.
const FRESH: Duration = Duration::from_secs(7 * DAY);

/// How long an unused layer stays in the cache.
const UNUSED_LIFETIME: Duration = Duration::from_secs(60 * DAY);

/// Number of seconds of a day.
const DAY: u64 = 24 * 60 * 60;

/// Log message for a layer whose bytecode compilation failed.
const NO_BYTECODE: &str = "cannot compile packages to bytecode; importing them is slower";

/// Platform tags of accepted wheels, without the architecture: tags that current Linux systems support.
const PLATFORMS: &str = "manylinux1 manylinux2010 manylinux2014 manylinux_2_17 manylinux_2_24 \
    manylinux_2_27 manylinux_2_28 linux";

/// Parses a list of allowed packages. If at least one name starts with `+`, the default list [`ALLOWED_PACKAGES`] is
/// added. The word `none` is ignored, so that `none` alone is the empty list.
pub fn allowed(text: &str) -> Vec<String> {
    let words = || text.split([' ', ',']).filter(|word| !word.is_empty());
    let adds = words().any(|word| word.starts_with('+'));
    let defaults = ALLOWED_PACKAGES.split_whitespace().filter(|_| adds);
    let names: BTreeSet<String> = defaults
        .chain(words().map(|word| word.trim_start_matches('+')))
        .filter(|name| *name != "none")
        .map(normalize_name)
        .collect();
    names.into_iter().collect()
}

/// Where packages are downloaded from, and which packages are allowed.
#[derive(Debug, Clone)]
pub struct PackageSource {
    /// Folder of the package cache.
    pub folder: PathBuf,
    /// Normalized names of the allowed packages.
    pub allowed: BTreeSet<String>,
    /// Command that runs pip: a program and its first arguments.
    pub pip: Vec<String>,
    /// Folder with wheels to use instead of a package index.
    pub wheels: Option<PathBuf>,
    /// All environment variables of the pip process; API keys are not included.
    pub env: Vec<(String, String)>,
}

/// Error of installing packages.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum PackageError {
    /// The packages do not exist or are invalid; a program with other packages may work.
    #[error("{0}")]
    Refused(String),
    /// The package index cannot be reached, for example without a network; a program without packages may work.
    #[error("the package index cannot be reached")]
    Unreachable,
    /// Infrastructure error, which would also occur with another program.
    #[error("cannot fetch packages: {0}")]
    Infrastructure(String),
}

impl PackageError {
    /// Creates the error for an I/O error of the package cache, such as a full disk.
    fn of_disk(path: &Path, error: &io::Error) -> PackageError {
        PackageError::Infrastructure(format!("cannot access `{}`: {error}", path.display()))
    }
}

impl PackageSource {
    /// Parses the names of requested packages. Fails if there are too many names, or if a package is not allowed.
    pub(crate) fn allow(
        &self,
        names: &[String],
        python: &PythonVersion,
    ) -> Result<BTreeSet<Requirement>, CodeFailure> {
        let mut wanted = BTreeSet::new();
        if names.len() > MAX_REQUESTED {
            let reason = format!("too many packages: {}, at most {MAX_REQUESTED}", names.len());
            return Err(CodeFailure::PackagesNotHad { names: shown(&names.join(", ")), reason });
        }
        for text in names {
            match Requirement::read(text, python, &[]) {
                Ok(Some(one)) if self.allowed.contains(one.name()) => drop(wanted.insert(one)),
                Ok(None) => {}
                _ => return Err(CodeFailure::PackageRefused { name: shown(text) }),
            }
        }
        Ok(wanted)
    }

    /// Returns a layer with the given packages and all their dependencies for a Python version, from the cache if
    /// possible.
    pub(crate) async fn layer(
        &self,
        wanted: &BTreeSet<Requirement>,
        python: &PythonVersion,
        pool: &SandboxPool,
        spec: &SandboxSpec,
    ) -> Result<SandboxLayer, PackageError> {
        let failed = |error: io::Error| PackageError::of_disk(&self.folder, &error);
        let resolution = self.folder.join("resolved").join(self.cache_key(wanted, python));
        let cached = match self.cached(&resolution) {
            Some(cached) if cached.fresh => {
                return Ok(self.with_bytecode(cached, pool, spec).await);
            }
            cached => cached,
        };
        match (self.resolve(wanted, python, &resolution, pool, spec).await, cached) {
            (Ok(layer), _) => {
                wheel::remove_unused(&self.folder, UNUSED_LIFETIME).map_err(failed)?;
                Ok(layer)
            }
            // If pip fails, for example without a network, use the older layer.
            (Err(error), Some(Cached { record, .. })) => {
                tracing::warn!(%error, "cannot update packages; using the cached packages");
                Ok(record.layer)
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Downloads packages with their dependencies, publishes a layer with them, and writes the key of the layer to the
    /// file `resolution`.
    async fn resolve(
        &self,
        wanted: &BTreeSet<Requirement>,
        python: &PythonVersion,
        resolution: &Path,
        pool: &SandboxPool,
        spec: &SandboxSpec,
    ) -> Result<SandboxLayer, PackageError> {
        let failed = |error: io::Error| PackageError::of_disk(&self.folder, &error);
        for folder in ["resolved", "layers"] {
            fs::create_dir_all(self.folder.join(folder)).map_err(failed)?;
        }
        let fetched = self.fetch_all(wanted, python).await?;
        let (folder, minor) = (self.folder.clone(), python.minor.clone());
        let unpack = move || wheel::unpack_all(fetched.path(), &folder, &minor);
        let unpacked = tokio::task::spawn_blocking(unpack).await;
        let (key, unfinished) =
            unpacked.map_err(|error| PackageError::Infrastructure(error.to_string()))??;
        if let Some(unfinished) = unfinished {
            let compiled = bytecode::add(unfinished.path(), pool, spec).await;
            if let Err(error) = &compiled {
                tracing::warn!(error, "{NO_BYTECODE}");
            }
            let (folder, failures) = (self.folder.clone(), u32::from(compiled.is_err()));
            let publish = move || wheel::publish("", unfinished, &folder, key, failures);
            let published = tokio::task::spawn_blocking(publish).await;
            published.map_err(|error| PackageError::Infrastructure(error.to_string()))??;
        }
        // Write this file last, so that processes that read it find the complete layer.
        wheel::write_whole(resolution, &key.to_string()).map_err(failed)?;
        self.cached(resolution).map(|cached| cached.record.layer).ok_or_else(|| {
            PackageError::Infrastructure("another process removed the cached packages".to_owned())
        })
    }

    /// Returns a cached layer. If all earlier compilations of the layer failed, first compiles the layer once more,
    /// unless [`bytecode::MAX_COMPILATIONS`] compilations have failed.
    async fn with_bytecode(
        &self,
        cached: Cached,
        pool: &SandboxPool,
        spec: &SandboxSpec,
    ) -> SandboxLayer {
        let Cached { key, record, .. } = cached;
        if !(1..bytecode::MAX_COMPILATIONS).contains(&record.failed_compilations) {
            return record.layer;
        }
        match self.compile(key, &record.layer, pool, spec).await {
            Ok(layer) => layer,
            Err(error) => {
                tracing::warn!(error, "{NO_BYTECODE}");
                let failed_compilations = record.failed_compilations + 1;
                let failed = wheel::LayerRecord { failed_compilations, ..record };
                if let Err(error) = wheel::write(&self.folder, key, &failed) {
                    tracing::warn!(%error, "cannot record that the compilation of packages failed");
                }
                failed.layer
            }
        }
    }

    /// Compiles a layer that was published without bytecode, and publishes the result.
    async fn compile(
        &self,
        key: Fingerprint,
        layer: &SandboxLayer,
        pool: &SandboxPool,
        spec: &SandboxSpec,
    ) -> Result<SandboxLayer, String> {
        let (from, folder) = (layer.clone(), self.folder.clone());
        let copied = tokio::task::spawn_blocking(move || wheel::copy(&from, &folder)).await;
        let copy = copied.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        bytecode::add(copy.path(), pool, spec).await?;
        let folder = self.folder.clone();
        let publish = move || wheel::publish(wheel::COMPILED_LATER, copy, &folder, key, 0);
        let published = tokio::task::spawn_blocking(publish).await;
        published.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let record = wheel::read(&self.folder, key);
        let removed = || "another process removed the cached packages".to_owned();
        record.map(|record| record.layer).ok_or_else(removed)
    }

    /// Computes the cache key of a resolution from the requested packages, the Python version and the package source.
    fn cache_key(&self, wanted: &BTreeSet<Requirement>, python: &PythonVersion) -> String {
        let mut parts: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        parts.push(format!("bytecode {} {}", python.version, std::env::consts::ARCH));
        parts.extend(self.pip.iter().cloned());
        // Include the environment variables that select and configure the package index.
        let settings = self.env.iter().filter(|(name, _)| name.starts_with("PIP_"));
        parts.extend(settings.map(|(name, value)| format!("{name}={value}")));
        if let Some(folder) = &self.wheels {
            parts.push(folder.display().to_string());
            let mut names: Vec<String> = fs::read_dir(folder)
                .map(|entries| entries.flatten().map(|entry| described(&entry)).collect())
                .unwrap_or_default();
            names.sort();
            parts.extend(names);
        }
        Fingerprint::of(parts.join("\n")).to_string()
    }

    /// Returns the cached layer of a resolution, if the layer still exists.
    fn cached(&self, resolution: &Path) -> Option<Cached> {
        let key = fs::read_to_string(resolution).ok()?.parse().ok()?;
        let record = wheel::read(&self.folder, key)?;
        let resolved = fs::metadata(resolution).and_then(|metadata| metadata.modified()).ok()?;
        let age = SystemTime::now().duration_since(resolved).unwrap_or_default();
        Some(Cached { key, record, fresh: age < FRESH })
    }

    /// Downloads packages and all their dependencies, level by level. pip does not resolve dependencies itself, because
    /// a package may declare a URL as a dependency, and pip would run code from that URL.
    async fn fetch_all(
        &self,
        wanted: &BTreeSet<Requirement>,
        python: &PythonVersion,
    ) -> Result<tempfile::TempDir, PackageError> {
        let mut all = wanted.clone();
        for _ in 0..MAX_ROUNDS {
            let fetched = tempfile::tempdir_in(&self.folder)
                .map_err(|error| PackageError::of_disk(&self.folder, &error))?;
            self.fetch(&all, python, fetched.path()).await?;
            let needed = wheel::declared_dependencies(fetched.path(), &all, python)?;
            let before = all.len();
            all.extend(needed);
            if all.len() > MAX_RESOLVED {
                return Err(PackageError::Refused(
                    "the packages have too many dependencies".to_owned(),
                ));
            }
            if all.len() == before {
                return Ok(fetched);
            }
        }
        Err(PackageError::Refused(
            "the dependencies of the packages are nested too deeply".to_owned(),
        ))
    }

    /// Runs `pip download` for the given packages, without their dependencies.
    async fn fetch(
        &self,
        wanted: &BTreeSet<Requirement>,
        python: &PythonVersion,
        into: &Path,
    ) -> Result<(), PackageError> {
        let Some((program, first)) = self.pip.split_first() else {
            return Err(PackageError::Infrastructure(
                "no command for pip is configured".to_owned(),
            ));
        };
        let mut command = Command::new(program);
        // Run pip in an empty folder, because Python imports modules such as `pip` from its working folder.
        command.current_dir(into).env_clear().envs(self.env.iter().cloned());
        command.args(first).args([
            "download",
            "--no-deps",
            "--only-binary=:all:",
            "--no-input",
            "--quiet",
        ]);
        command.args(["--disable-pip-version-check", "--implementation", "cp"]);
        let minor = &python.minor;
        let digits: String = minor.chars().filter(|c| *c != '.').collect();
        command.args(["--python-version", minor, "--abi", &format!("cp{digits}")]);
        command.args(["--abi", "abi3", "--abi", "none", "--platform", "any"]);
        for platform in PLATFORMS.split(' ') {
            command.args(["--platform", &format!("{platform}_{}", std::env::consts::ARCH)]);
        }
        let only_wheels;
        if let Some(wheels) = &self.wheels {
            // Use a copy that contains only wheels, because HTML pages in the folder could link to other locations.
            only_wheels =
                wheel::only(wheels).map_err(|error| PackageError::of_disk(wheels, &error))?;
            command.args(["--no-index", "--find-links"]).arg(only_wheels.path());
        }
        command
            .arg("--dest")
            .arg(into)
            .arg("--")
            .args(wanted.iter().map(Requirement::pip_argument));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let output = match tokio::time::timeout(PIP_TIMEOUT, command.output()).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => {
                return Err(PackageError::Infrastructure(format!(
                    "cannot start `{program}`: {error}"
                )));
            }
            Err(_) => return Err(PackageError::Infrastructure("pip timed out".to_owned())),
        };
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        // Use the last error that pip printed, because it is the most specific.
        let error = text.lines().rev().find_map(|line| line.trim().strip_prefix("ERROR: "));
        let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
        match error {
            Some("Exception:") => {
                Err(PackageError::Infrastructure(shown(last.unwrap_or_default())))
            }
            Some(error) if error.contains("[Errno ") => {
                Err(PackageError::Infrastructure(shown(error)))
            }
            Some(_) if text.contains("WARNING: Retrying") => Err(PackageError::Unreachable),
            Some(error) => Err(PackageError::Refused(shown(error))),
            // Without an error line, pip did not start, for example because it is not installed.
            None => {
                Err(PackageError::Infrastructure(shown(last.unwrap_or("pip printed no error"))))
            }
        }
    }
}

/// A layer in the cache, which an earlier request for the same packages created.
struct Cached {
    key: Fingerprint,
    record: wheel::LayerRecord,
    /// Whether pip selected the package versions so recently that pip does not have to select versions again.
    fresh: bool,
}

/// Describes a wheel by its name, size and modification time, to detect changes.
fn described(entry: &fs::DirEntry) -> String {
    let metadata = entry.metadata().ok();
    let changed = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
    let size = metadata.as_ref().map(fs::Metadata::len);
    format!("{:?} {size:?} {changed:?}", entry.file_name())
}

/// Converts untrusted text to one line of at most 200 characters.
pub(crate) fn shown(text: &str) -> String {
    let line: String = text.chars().filter(|c| !c.is_control()).collect();
    assize_types::text::shorten(line.trim(), 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_packages_list_replaces_or_extends_the_default_list() {
        assert_eq!(allowed("NumPy, pandas  six"), ["numpy", "pandas", "six"]);
        assert_eq!(allowed("none"), [] as [String; 0]);
        let more = allowed("+isodate");
        assert!(more.contains(&"isodate".to_owned()) && more.contains(&"numpy".to_owned()));
        assert_eq!(more.len(), ALLOWED_PACKAGES.split_whitespace().count() + 1);
    }

    #[test]
    fn too_many_requested_packages_are_refused_even_if_all_are_allowed() {
        let packages = PackageSource {
            folder: "/nowhere".into(),
            allowed: BTreeSet::from(["six".to_owned()]),
            pip: Vec::new(),
            wheels: None,
            env: Vec::new(),
        };
        let python = PythonVersion::of("3.11.2").unwrap();
        let requested = |count: usize| packages.allow(&vec!["six".to_owned(); count], &python);
        assert_eq!(requested(MAX_REQUESTED).unwrap().len(), 1);
        let error = requested(MAX_REQUESTED + 1).unwrap_err().to_string();
        assert!(error.starts_with("the packages six, six"), "{error}");
        assert!(
            error.ends_with("cannot be installed: too many packages: 101, at most 100"),
            "{error}"
        );
    }
}
