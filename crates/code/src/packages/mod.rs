//! Packages that a program needs: asked for by a model, so by nobody who is trusted.
//!
//! Names are checked against a list. What they need is resolved outside the sandbox by `pip download`,
//! which takes wheels alone and so runs nothing of a package; the wheels are unpacked into a folder that
//! sandboxes see read-only. The folder is known by the exact wheels in it, and used again.

mod name;
mod wheel;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use assize_sandbox::Layer;
use assize_types::Fingerprint;
use sha2::{Digest, Sha256};
use tokio::process::Command;

pub use name::{Requirement, normal};

use crate::execution::CodeFailure;

/// How often what packages need may need something else.
const MOST_ROUNDS: usize = 12;

/// How long it may take to resolve and to fetch.
const LONGEST: Duration = Duration::from_secs(300);

/// The platforms that wheels may be made for, without the processor: all that a system of the last
/// years can run.
const PLATFORMS: [&str; 8] = [
    "manylinux1",
    "manylinux2010",
    "manylinux2014",
    "manylinux_2_17",
    "manylinux_2_24",
    "manylinux_2_27",
    "manylinux_2_28",
    "linux",
];

/// What programs may ask for unless the settings say otherwise: computing, drawing and reading files,
/// and nothing that needs a network.
pub const ALLOWED: &str = "numpy pandas matplotlib scipy sympy scikit-learn statsmodels seaborn networkx \
    pillow mpmath polars pyarrow openpyxl tabulate python-dateutil pytz pyyaml lxml beautifulsoup4 regex \
    six attrs more-itertools sortedcontainers markupsafe jinja2 pydantic shapely tqdm rich";

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
    /// Nothing that another choice would change.
    #[error("packages cannot be fetched: {0}")]
    Trouble(String),
}

impl Packages {
    /// What is asked for, if all of it may be had.
    pub(crate) fn allow(&self, names: &[String]) -> Result<BTreeSet<Requirement>, CodeFailure> {
        let mut wanted = BTreeSet::new();
        for text in names {
            let requirement = text.parse::<Requirement>().ok();
            match requirement.filter(|one| self.allowed.contains(one.name())) {
                Some(requirement) => drop(wanted.insert(requirement)),
                None => return Err(CodeFailure::PackageRefused { name: shown(text) }),
            }
        }
        Ok(wanted)
    }

    /// A layer with these packages and all that they need, for a Python of this version.
    pub(crate) async fn layer(
        &self,
        wanted: &BTreeSet<Requirement>,
        python: &str,
    ) -> Result<Layer, NotHad> {
        let failed = |error: std::io::Error| {
            NotHad::Trouble(format!("cannot use `{}`: {error}", self.folder.display()))
        };
        let question = self.folder.join("resolved").join(self.question(wanted, python));
        if let Some(known) = self.known(&question) {
            return Ok(known);
        }
        for folder in ["resolved", "layers"] {
            std::fs::create_dir_all(self.folder.join(folder)).map_err(failed)?;
        }
        let fetched = self.fetch_all(wanted, python).await?;
        let folder = self.folder.clone();
        let unpacked =
            tokio::task::spawn_blocking(move || wheel::unpack_all(fetched.path(), &folder)).await;
        let key = match unpacked {
            Ok(Ok(key)) => key,
            Ok(Err(error)) => return Err(NotHad::Refused(error)),
            Err(error) => return Err(NotHad::Trouble(error.to_string())),
        };
        // Last: whoever reads it finds all of the layer.
        std::fs::write(&question, key.to_string()).map_err(failed)?;
        self.known(&question)
            .ok_or_else(|| NotHad::Trouble("they were removed meanwhile".to_owned()))
    }

    /// What identifies a question: what was wanted, for whom, from where.
    fn question(&self, wanted: &BTreeSet<Requirement>, python: &str) -> String {
        let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        let from = self.wheels.as_ref().map(|folder| folder.display().to_string());
        let parts = [wanted.join(" "), python.to_owned(), from.unwrap_or_default()];
        Fingerprint::from_bytes(Sha256::digest(parts.join("\n")).into()).to_string()
    }

    /// The layer that was the answer before, if it is still there.
    fn known(&self, question: &Path) -> Option<Layer> {
        let key = std::fs::read_to_string(question).ok()?;
        let key: Fingerprint = key.parse().ok()?;
        wheel::read(&self.folder, key)
    }

    /// Fetches what is wanted and all that it needs, round by round: `pip` is never let loose on what a
    /// package says that it needs, as that may be an address whose code it would run.
    async fn fetch_all(
        &self,
        wanted: &BTreeSet<Requirement>,
        python: &str,
    ) -> Result<tempfile::TempDir, NotHad> {
        let mut lines: BTreeSet<String> = wanted.iter().map(ToString::to_string).collect();
        for _ in 0..MOST_ROUNDS {
            let fetched = tempfile::tempdir_in(&self.folder).map_err(|error| {
                NotHad::Trouble(format!("cannot use `{}`: {error}", self.folder.display()))
            })?;
            self.fetch(&lines, python, fetched.path()).await?;
            let needed = wheel::needed_by(fetched.path()).map_err(NotHad::Refused)?;
            let before = lines.len();
            lines.extend(needed);
            if lines.len() == before {
                return Ok(fetched);
            }
        }
        Err(NotHad::Refused("what they need has no end".to_owned()))
    }

    async fn fetch(
        &self,
        wanted: &BTreeSet<String>,
        python: &str,
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
        let digits: String = python.chars().filter(|c| *c != '.').collect();
        command.args(["--python-version", python, "--abi", &format!("cp{digits}")]);
        command.args(["--abi", "abi3", "--abi", "none", "--platform", "any"]);
        for platform in PLATFORMS {
            command.args(["--platform", &format!("{platform}_{}", std::env::consts::ARCH)]);
        }
        if let Some(wheels) = &self.wheels {
            command.args(["--no-index", "--find-links"]).arg(wheels);
        }
        command.arg("--dest").arg(into).arg("--").args(wanted);
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
            Some(said) => Err(NotHad::Refused(shown(said))),
            // It did not even begin, as where there is no pip.
            None => Err(NotHad::Trouble(shown(last.unwrap_or("pip does not say why")))),
        }
    }
}

/// Somebody else's words, in one line of bounded length.
fn shown(text: &str) -> String {
    let line: String = text.chars().filter(|c| !c.is_control()).collect();
    assize_types::text::shorten(line.trim(), 200)
}

/// The version that wheels are made for: `3.11` of `3.11.2`.
pub(crate) fn minor(version: &str) -> Option<String> {
    let mut parts = version.split('.');
    let (major, minor) = (parts.next()?, parts.next()?);
    let plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    (plain(major) && plain(minor)).then(|| format!("{major}.{minor}"))
}
