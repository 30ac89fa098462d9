//! Packages that a program needs: asked for by a model, so by nobody who is trusted.
//!
//! Names are checked against a list. What they need is resolved outside the sandbox by `pip download`,
//! which takes wheels alone and so runs nothing of a package; the wheels are unpacked into a folder that
//! sandboxes see read-only, with bytecode that a sandbox compiled. The folder is known by the exact wheels in
//! it and by the Python that compiled them, and used again.

mod bytecode;
mod imports;
mod name;
mod wheel;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use assize_config::ALLOWED_PACKAGES;
use assize_sandbox::{Layer, Pool, Spec};
use assize_types::Fingerprint;
use tokio::process::Command;

pub use name::normal;
pub(crate) use name::{Python, Requirement};

use crate::execution::CodeFailure;

/// The most packages that a program may ask for, and that all of them may need.
const MOST_NAMES: usize = 100;
const MOST_NEEDED: usize = 500;

/// How often what packages need may need something else.
const MOST_ROUNDS: usize = 12;

/// How long it may take to resolve and to fetch.
const LONGEST: Duration = Duration::from_secs(300);

/// How long an answer holds: after that there may be newer packages.
const FRESH: Duration = Duration::from_secs(7 * DAY);

/// How long what nobody uses is kept.
const KEPT: Duration = Duration::from_secs(60 * DAY);

const DAY: u64 = 24 * 60 * 60;

const NO_BYTECODE: &str = "packages have no bytecode, and are slower to import";

/// The platforms that wheels may be made for, without the processor: all that a system of the last
/// years can run.
const PLATFORMS: &str = "manylinux1 manylinux2010 manylinux2014 manylinux_2_17 manylinux_2_24 \
    manylinux_2_27 manylinux_2_28 linux";

/// Reads a list of names that may be had: those of [`ALLOWED_PACKAGES`] as well where one has a `+` before it, and
/// nothing for `none`.
pub fn allowed(text: &str) -> Vec<String> {
    let words = || text.split([' ', ',']).filter(|word| !word.is_empty());
    let adds = words().any(|word| word.starts_with('+'));
    let usual = ALLOWED_PACKAGES.split_whitespace().filter(|_| adds);
    let names: BTreeSet<String> = usual
        .chain(words().map(|word| word.trim_start_matches('+')))
        .filter(|name| *name != "none")
        .map(normal)
        .collect();
    names.into_iter().collect()
}

/// Where packages come from, and which may be had.
#[derive(Debug, Clone)]
pub struct Packages {
    /// Where layers are kept.
    pub folder: PathBuf,
    /// By their normal names.
    pub allowed: BTreeSet<String>,
    /// What is run to fetch them: a program and its first arguments.
    pub pip: Vec<String>,
    /// Wheels that are here already; nobody else is asked then.
    pub wheels: Option<PathBuf>,
    /// All of its environment: it need not know of anybody's keys.
    pub env: Vec<(String, String)>,
}

/// Packages that could not be had, and whose matter that is.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum NotHad {
    /// There are none like that, or they cannot be used: another choice may help.
    #[error("{0}")]
    Refused(String),
    /// A program may do without them.
    #[error("the index of packages cannot be reached")]
    Unreachable,
    /// Nothing that another choice would change.
    #[error("packages cannot be fetched: {0}")]
    Trouble(String),
}

impl NotHad {
    /// A disk that is full, or a folder that is nobody's: no matter of packages.
    fn of_disk(what: &Path, error: &io::Error) -> NotHad {
        NotHad::Trouble(format!("cannot use `{}`: {error}", what.display()))
    }
}

impl Packages {
    /// What is asked for, if all of it may be had.
    pub(crate) fn allow(
        &self,
        names: &[String],
        python: &Python,
    ) -> Result<BTreeSet<Requirement>, CodeFailure> {
        let mut wanted = BTreeSet::new();
        if names.len() > MOST_NAMES {
            let name = format!("{} and {} more", shown(&names[0]), names.len() - 1);
            return Err(CodeFailure::PackageRefused { name });
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

    /// A layer with these packages and all that they need, for this Python.
    pub(crate) async fn layer(
        &self,
        wanted: &BTreeSet<Requirement>,
        python: &Python,
        pool: &Pool,
        spec: &Spec,
    ) -> Result<Layer, NotHad> {
        let failed = |error: io::Error| NotHad::of_disk(&self.folder, &error);
        let question = self.folder.join("resolved").join(self.question(wanted, python));
        let known = match self.known(&question) {
            Some(known) if known.fresh => return Ok(self.with_bytecode(known, pool, spec).await),
            known => known,
        };
        match (self.ask(wanted, python, &question, pool, spec).await, known) {
            (Ok(layer), _) => {
                wheel::tidy(&self.folder, KEPT).map_err(failed)?;
                Ok(layer)
            }
            // Nobody can be asked, as without a network: what was right last week will do.
            (Err(error), Some(Known { record, .. })) => {
                tracing::warn!(%error, "packages cannot be looked for anew; using those of before");
                Ok(record.layer)
            }
            (Err(error), None) => Err(error),
        }
    }

    async fn ask(
        &self,
        wanted: &BTreeSet<Requirement>,
        python: &Python,
        question: &Path,
        pool: &Pool,
        spec: &Spec,
    ) -> Result<Layer, NotHad> {
        let failed = |error: io::Error| NotHad::of_disk(&self.folder, &error);
        for folder in ["resolved", "layers"] {
            fs::create_dir_all(self.folder.join(folder)).map_err(failed)?;
        }
        let fetched = self.fetch_all(wanted, python).await?;
        let (folder, minor) = (self.folder.clone(), python.minor.clone());
        let unpack = move || wheel::unpack_all(fetched.path(), &folder, &minor);
        let unpacked = tokio::task::spawn_blocking(unpack).await;
        let (key, unfinished) = unpacked.map_err(|error| NotHad::Trouble(error.to_string()))??;
        if let Some(unfinished) = unfinished {
            let compiled = bytecode::add(unfinished.path(), pool, spec).await;
            if let Err(error) = &compiled {
                tracing::warn!(error, "{NO_BYTECODE}");
            }
            let (folder, failures) = (self.folder.clone(), u32::from(compiled.is_err()));
            let publish = move || wheel::publish("", unfinished, &folder, key, failures);
            let published = tokio::task::spawn_blocking(publish).await;
            published.map_err(|error| NotHad::Trouble(error.to_string()))??;
        }
        // Last: whoever reads it finds all of the layer.
        wheel::write_whole(question, &key.to_string()).map_err(failed)?;
        self.known(question)
            .map(|known| known.record.layer)
            .ok_or_else(|| NotHad::Trouble("they were removed meanwhile".to_owned()))
    }

    /// The layer of an answer, with bytecode: compiled now if that failed before, though not for ever.
    async fn with_bytecode(&self, known: Known, pool: &Pool, spec: &Spec) -> Layer {
        let Known { key, record, .. } = known;
        if !(1..bytecode::MAX_COMPILATIONS).contains(&record.failed_compilations) {
            return record.layer;
        }
        match self.compile(key, &record.layer, pool, spec).await {
            Ok(layer) => layer,
            Err(error) => {
                tracing::warn!(error, "{NO_BYTECODE}");
                let failed_compilations = record.failed_compilations + 1;
                let failed = wheel::Record { failed_compilations, ..record };
                if let Err(error) = wheel::write(&self.folder, key, &failed) {
                    tracing::warn!(%error, "cannot note that packages have no bytecode");
                }
                failed.layer
            }
        }
    }

    /// Compiles the bytecode of a layer that was published without.
    async fn compile(
        &self,
        key: Fingerprint,
        layer: &Layer,
        pool: &Pool,
        spec: &Spec,
    ) -> Result<Layer, String> {
        let (from, folder) = (layer.clone(), self.folder.clone());
        let copied = tokio::task::spawn_blocking(move || wheel::copy(&from, &folder)).await;
        let copy = copied.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        bytecode::add(copy.path(), pool, spec).await?;
        let folder = self.folder.clone();
        let publish = move || wheel::publish(wheel::COMPILED_LATER, copy, &folder, key, 0);
        let published = tokio::task::spawn_blocking(publish).await;
        published.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let record = wheel::read(&self.folder, key);
        record.map(|record| record.layer).ok_or_else(|| "they were removed meanwhile".to_owned())
    }

    /// What identifies a question: what was wanted, for whom, from where.
    fn question(&self, wanted: &BTreeSet<Requirement>, python: &Python) -> String {
        let mut parts: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        parts.push(format!("bytecode {} {}", python.version, std::env::consts::ARCH));
        parts.extend(self.pip.iter().cloned());
        // Which index, and how.
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

    /// The layer that was the answer before, if it is still there.
    fn known(&self, question: &Path) -> Option<Known> {
        let key = fs::read_to_string(question).ok()?.parse().ok()?;
        let record = wheel::read(&self.folder, key)?;
        let asked = fs::metadata(question).and_then(|metadata| metadata.modified()).ok()?;
        let age = SystemTime::now().duration_since(asked).unwrap_or_default();
        Some(Known { key, record, fresh: age < FRESH })
    }

    /// Fetches what is wanted and all that it needs, round by round: `pip` is never let loose on what a
    /// package says that it needs, as that may be an address whose code it would run.
    async fn fetch_all(
        &self,
        wanted: &BTreeSet<Requirement>,
        python: &Python,
    ) -> Result<tempfile::TempDir, NotHad> {
        let mut all = wanted.clone();
        for _ in 0..MOST_ROUNDS {
            let fetched = tempfile::tempdir_in(&self.folder)
                .map_err(|error| NotHad::of_disk(&self.folder, &error))?;
            self.fetch(&all, python, fetched.path()).await?;
            let needed = wheel::needed_by(fetched.path(), &all, python)?;
            let before = all.len();
            all.extend(needed);
            if all.len() > MOST_NEEDED {
                return Err(NotHad::Refused("they need too many others".to_owned()));
            }
            if all.len() == before {
                return Ok(fetched);
            }
        }
        Err(NotHad::Refused("what they need has no end".to_owned()))
    }

    async fn fetch(
        &self,
        wanted: &BTreeSet<Requirement>,
        python: &Python,
        into: &Path,
    ) -> Result<(), NotHad> {
        let Some((program, first)) = self.pip.split_first() else {
            return Err(NotHad::Trouble("no pip is configured".to_owned()));
        };
        let mut command = Command::new(program);
        // An empty folder: Python would take a `pip` that lies where it is started.
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
            // Pages in that folder could lead elsewhere.
            only_wheels = wheel::only(wheels).map_err(|error| NotHad::of_disk(wheels, &error))?;
            command.args(["--no-index", "--find-links"]).arg(only_wheels.path());
        }
        command.arg("--dest").arg(into).arg("--").args(wanted.iter().map(Requirement::line));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let output = match tokio::time::timeout(LONGEST, command.output()).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => {
                return Err(NotHad::Trouble(format!("`{program}` cannot be started: {error}")));
            }
            Err(_) => return Err(NotHad::Trouble("it takes too long".to_owned())),
        };
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        // Its last word on the matter.
        let said = text.lines().rev().find_map(|line| line.trim().strip_prefix("ERROR: "));
        let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
        match said {
            Some("Exception:") => Err(NotHad::Trouble(shown(last.unwrap_or_default()))),
            Some(said) if said.contains("[Errno ") => Err(NotHad::Trouble(shown(said))),
            Some(_) if text.contains("WARNING: Retrying") => Err(NotHad::Unreachable),
            Some(said) => Err(NotHad::Refused(shown(said))),
            // It did not even begin, as where there is no pip.
            None => Err(NotHad::Trouble(shown(last.unwrap_or("pip does not say why")))),
        }
    }
}

/// An answer of before.
struct Known {
    key: Fingerprint,
    record: wheel::Record,
    /// Whether it need not be asked for anew.
    fresh: bool,
}

/// A wheel as it lies there, without a look into it.
fn described(entry: &fs::DirEntry) -> String {
    let metadata = entry.metadata().ok();
    let changed = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
    let size = metadata.as_ref().map(fs::Metadata::len);
    format!("{:?} {size:?} {changed:?}", entry.file_name())
}

/// Somebody else's words, in one line of bounded length.
pub(crate) fn shown(text: &str) -> String {
    let line: String = text.chars().filter(|c| !c.is_control()).collect();
    assize_types::text::shorten(line.trim(), 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_replaces_the_usual_one_or_adds_to_it() {
        assert_eq!(allowed("NumPy, pandas  six"), ["numpy", "pandas", "six"]);
        assert_eq!(allowed("none"), [] as [String; 0]);
        let more = allowed("+isodate");
        assert!(more.contains(&"isodate".to_owned()) && more.contains(&"numpy".to_owned()));
        assert_eq!(more.len(), ALLOWED_PACKAGES.split_whitespace().count() + 1);
    }
}
