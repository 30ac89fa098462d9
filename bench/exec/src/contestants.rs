//! Contestants: the ways of running code whose durations the benchmark measures and compares. A contestant is a kind of
//! sandbox of Assize, or another program (peer) such as `docker exec`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_config::Isolation;
use assize_sandbox::docker::Docker;
use assize_sandbox::jail::Jail;
use assize_sandbox::{
    Backend, Interpreter, Language, ProgramCommand, Sandbox, SandboxManager, SandboxPool,
    SandboxSpec,
};

/// Python program that the benchmark runs in every sandbox and with every peer program.
const CODE: &str = "print(1)";

/// Docker image with Python, for our containers and for `docker run` and `docker exec`.
const IMAGE: &str = "assize/base:latest";

/// A way to run [`CODE`]. The benchmark measures how long a run takes.
pub(crate) enum Contestant {
    /// Sandbox of a warm pool, with default limits.
    Warm(Arc<SandboxPool>),
    /// New sandbox, with default limits.
    Cold(Arc<SandboxManager>),
    /// Sandbox of this warm pool, with the limits of the given specification.
    WarmAs(Arc<SandboxPool>, SandboxSpec),
    /// New sandbox, with the limits of the given specification.
    ColdAs(Arc<SandboxManager>, SandboxSpec),
    /// Command line of a program that our sandboxes are compared with.
    Peer(Vec<String>),
}

impl Contestant {
    /// Runs [`CODE`] once. Returns the duration of the run without the cleanup after the run, and the error if the run
    /// failed.
    pub(crate) async fn run(&self) -> (Duration, Result<(), String>) {
        let started = Instant::now();
        let created = match self {
            Contestant::Warm(pool) => pool.take(&SandboxSpec::default()).await,
            Contestant::Cold(manager) => manager.create(SandboxSpec::default()).await,
            Contestant::WarmAs(pool, spec) => pool.take(spec).await,
            Contestant::ColdAs(manager, spec) => manager.create(spec.clone()).await,
            Contestant::Peer(words) => {
                let done = run_program(words).await;
                return (started.elapsed(), done);
            }
        };
        match created {
            Ok(sandbox) => {
                let done = run_code(&sandbox).await;
                let took = started.elapsed();
                sandbox.end().await;
                (took, done)
            }
            Err(error) => (started.elapsed(), Err(error.to_string())),
        }
    }

    /// Waits until the warm pool is full if this is [`Contestant::Warm`]; otherwise returns at once.
    pub(crate) async fn wait_for_pool(&self) {
        if let Contestant::Warm(pool) = self {
            let _ = pool.ready().await;
        }
    }
}

async fn run_program(words: &[String]) -> Result<(), String> {
    let output = output(words).await?;
    judge(&output.stdout, output.status.success(), &output.stderr)
}

/// Runs a program and returns its output. Kills the program after a time limit: an overloaded Docker engine may never
/// answer, and the benchmark must then continue with the other contestants.
async fn output<W: AsRef<OsStr>>(words: &[W]) -> Result<Output, String> {
    let mut command = tokio::process::Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).kill_on_drop(true);
    let limit = Duration::from_secs(120);
    let output = tokio::time::timeout(limit, command.output()).await;
    let output =
        output.map_err(|_| format!("the program timed out after {} s", limit.as_secs()))?;
    output.map_err(|error| format!("{}: {error}", words[0].as_ref().display()))
}

pub(crate) async fn run_code(sandbox: &Sandbox) -> Result<(), String> {
    let running = sandbox.run(Language::Python, CODE.as_bytes(), ProgramCommand::default()).await;
    let running = running.map_err(|error| error.to_string())?;
    let done = running.finish().await.map_err(|error| error.to_string())?;
    judge(&done.stdout, done.outcome.success(), &done.stderr)
}

fn judge(stdout: &[u8], success: bool, stderr: &[u8]) -> Result<(), String> {
    if success && stdout == b"1\n" {
        Ok(())
    } else {
        let words = String::from_utf8_lossy(stderr);
        Err(words.lines().next().unwrap_or("no output").to_owned())
    }
}

/// Returns one of our backends, or the reason why it is unavailable.
pub(crate) async fn backend(
    isolation: Isolation,
    python: &Path,
) -> Result<Arc<dyn Backend>, String> {
    if isolation == Isolation::Jail {
        let python = Interpreter::find(Language::Python, Some(python), None)?;
        return Ok(Arc::new(Jail::new(vec![python])));
    }
    let docker = Docker::new(Vec::new());
    let found = docker.probe().await.map_err(|error| error.to_string())?;
    found.image.map_err(|why| format!("the Docker image is unavailable: {why}"))?;
    Ok(Arc::new(docker))
}

/// Programs that our sandboxes are compared with.
pub(crate) struct Peers {
    python: PathBuf,
    assize: Option<PathBuf>,
    code: PathBuf,
    /// Id of the container that `docker exec` uses, or the reason why the container could not be started.
    container: Result<String, String>,
}

impl Peers {
    pub(crate) async fn new(
        python: &Path,
        assize: Option<PathBuf>,
        folder: &Path,
    ) -> anyhow::Result<Peers> {
        let code = folder.join("code.py");
        std::fs::write(&code, CODE)?;
        let run = ["run", "--detach", "--rm", "--network=none", IMAGE, "sleep", "infinity"];
        let entry =
            ["run", "--detach", "--rm", "--network=none", "--entrypoint=sleep", IMAGE, "infinity"];
        let container = match docker(&entry).await {
            Ok(id) => Ok(id),
            Err(_) => docker(&run).await,
        };
        Ok(Peers { python: python.to_owned(), assize, code, container })
    }

    pub(crate) fn contestants(&self) -> Vec<(String, Result<Contestant, String>)> {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let with_code = |mut all: Vec<String>, python: &str| {
            all.extend([python, "-c", CODE].map(str::to_owned));
            Ok(Contestant::Peer(all))
        };
        let python = self.python.display().to_string();
        let bwrap_command = "bwrap --unshare-all --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin \
                     --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp";
        let is_installed = |program: &str| {
            std::process::Command::new(program)
                .arg("--version")
                .stdout(Stdio::null())
                .status()
                .is_ok()
        };
        let bwrap = if is_installed("bwrap") {
            with_code(words(bwrap_command), &python)
        } else {
            Err("bubblewrap is not installed".to_owned())
        };
        let docker_run = match &self.container {
            Ok(_) => {
                let mut all = words("docker run --rm --network=none --entrypoint=python3");
                all.extend([IMAGE, "-c", CODE].map(str::to_owned));
                Ok(Contestant::Peer(all))
            }
            Err(why) => Err(why.clone()),
        };
        let docker_exec = self
            .container
            .clone()
            .and_then(|id| with_code(vec!["docker".to_owned(), "exec".to_owned(), id], "python3"));
        let mut all = vec![
            ("docker exec".to_owned(), docker_exec),
            ("docker run --rm".to_owned(), docker_run),
            ("bwrap".to_owned(), bwrap),
            ("plain python".to_owned(), with_code(Vec::new(), &python)),
        ];
        if let Some(assize) = &self.assize {
            let program =
                [assize.display().to_string(), "exec".to_owned(), self.code.display().to_string()];
            all.push(("assize exec".to_owned(), Ok(Contestant::Peer(program.into()))));
        }
        all
    }

    pub(crate) async fn end(&mut self) {
        if let Ok(id) = &self.container {
            let _ = docker(&["rm", "--force", id]).await;
        }
    }
}

async fn docker(words: &[&str]) -> Result<String, String> {
    let output = output(&[&["docker"], words].concat()).await?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr)
            .lines()
            .next()
            .unwrap_or("docker failed")
            .to_owned())
    }
}
