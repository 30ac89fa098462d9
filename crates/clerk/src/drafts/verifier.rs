//! The project's own tests, in a sandbox.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_draft::{NotVerified, Verified, Verifier, Verify};
use assize_sandbox::jail::Jail;
use assize_sandbox::{
    Command, Isolation, Language, Layer, Limits, Manager, Sandbox, Spec, VirtualEnvironment, Wanted,
};
use async_trait::async_trait;

use crate::config::{Config, Surroundings};
use crate::failure::Failure;
use crate::walls;

/// The most that it may print, and how much of its end is kept.
const OUTPUT: u64 = 8 << 20;
const KEPT: usize = 8 << 10;

/// What a shell ends with that cannot find a command, or cannot run it.
const NOT_THERE: [i32; 2] = [126, 127];

/// Copies the workspace to where it can be written to, and runs the command there.
const SCRIPT: &str = "if [ -n \"$INTERPRETER\" ] && ! command -v \"$INTERPRETER\" >/dev/null; then \
    echo \"$INTERPRETER of the virtual environment is not in this sandbox; use --isolation jail\"; exit 127; fi; \
    mkdir -p /tmp/workspace && cp -R \"$WORKSPACE/.\" /tmp/workspace/ && \
    cd /tmp/workspace && exec /bin/sh -c \"$VERIFY\" 2>&1";

/// Runs commands in the sandbox that the settings ask for.
pub(super) struct InSandbox {
    config: Config,
    around: Surroundings,
}

impl InSandbox {
    pub(super) fn new(config: &Config, around: &Surroundings) -> Arc<InSandbox> {
        Arc::new(InSandbox { config: config.clone(), around: around.clone() })
    }
}

impl InSandbox {
    /// The virtual environment that is asked for, or the active one.
    fn python(&self, how: &Verify) -> Result<Option<VirtualEnvironment>, NotVerified> {
        let active = self.around.environment.get("VIRTUAL_ENV").filter(|path| !path.is_empty());
        let Some(path) = how.python.as_ref().or(active) else { return Ok(None) };
        let python = VirtualEnvironment::read(Path::new(path)).map_err(NotVerified)?;
        // A repository may bring an environment that leads to any program and the folders around it.
        let own = || {
            let found = walls::interpreter(Language::Python, &self.config, &self.around).ok();
            found.and_then(|found| found.program.canonicalize().ok())
        };
        if python.has_system_interpreter() || own().as_ref() == Some(&python.base) {
            return Ok(Some(python));
        }
        Err(NotVerified(format!(
            "the virtual environment `{path}` was made with `{}`, which is neither the system's Python nor the one in \
             PATH (setting `sandbox.python` names another)",
            python.base.display()
        )))
    }

    /// Whether a jail is the sandbox that the settings ask for first.
    fn tries_jail(&self) -> Result<bool, NotVerified> {
        let wanted = walls::wanted(&self.config);
        let wanted = wanted.map_err(|failure| NotVerified(failure.message().to_owned()))?;
        Ok(matches!(wanted, Wanted::Auto | Wanted::Exactly(Isolation::Jail)))
    }

    /// A sandbox of the kind that the settings ask for; a jail has the interpreter of the virtual environment.
    async fn make(
        &self,
        spec: &Spec,
        python: Option<&VirtualEnvironment>,
    ) -> Result<(Manager, Sandbox), NotVerified> {
        let failed = |failure: Failure| NotVerified(failure.message().to_owned());
        if let Some(python) = python
            && self.tries_jail()?
        {
            self.config.refuse_withheld().map_err(failed)?;
            let backend = Arc::new(Jail::new(vec![python.interpreter()]));
            let manager =
                walls::manager(&self.config, &self.around, backend).await.map_err(failed)?;
            let made = manager.make(spec.clone()).await;
            return made.map(|sandbox| (manager, sandbox)).map_err(|error| failed(error.into()));
        }
        let made = walls::make(&self.config, &self.around, &[], spec).await;
        made.map(|(manager, sandbox, _)| (manager, sandbox)).map_err(failed)
    }
}

#[async_trait]
impl Verifier for InSandbox {
    async fn verify(&self, how: &Verify, copy: &Path) -> Result<Verified, NotVerified> {
        let failed = |error: &dyn std::fmt::Display| NotVerified(error.to_string());
        let layer = |folder: &Path| {
            Layer::of(folder).map_err(|error| {
                NotVerified(format!("`{}` cannot be used: {error}", folder.display()))
            })
        };
        let workspace = layer(copy)?;
        let python = self.python(how)?;
        // A jail sees the environment where it is; the others see its packages alone.
        let packages = match &python {
            Some(python) if !self.tries_jail()? => Some(layer(&python.site_packages())?),
            _ => None,
        };
        let others: Vec<Layer> =
            how.layers.iter().map(|folder| layer(Path::new(folder))).collect::<Result<_, _>>()?;
        let memory = how.memory_mb << 20;
        let wall = Duration::from_secs(how.seconds);
        let limits =
            Limits { memory, wall, disk: memory, output: OUTPUT, ..walls::limits(&self.config) };
        let layers = std::iter::once(&workspace).chain(&others).chain(&packages).cloned().collect();
        let spec = Spec { limits, layers, ..Spec::default() };
        let (_manager, sandbox) = self.make(&spec, python.as_ref()).await?;
        let mut path = "/usr/local/bin:/usr/bin:/bin".to_owned();
        let mut command = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .env("WORKSPACE", &workspace.at)
            .env("VERIFY", &how.command)
            .env("HOME", "/tmp")
            .wall(wall);
        for (index, layer) in others.iter().enumerate() {
            path = format!("{}/bin:{path}", layer.at);
            command = command.env(format!("LAYER{}", index + 1), &layer.at);
        }
        match (&python, &packages) {
            // The sandbox has an interpreter of its own, which must be of the same version.
            (Some(python), Some(packages)) => {
                command =
                    command.env("INTERPRETER", &python.version).env("PYTHONPATH", &packages.at);
            }
            // It is where it is outside, with its interpreter.
            (Some(python), None) => {
                path = format!("{}/bin:{path}", python.folder.display());
                command = command.env("VIRTUAL_ENV", python.folder.to_string_lossy());
            }
            (None, _) => {}
        }
        let begun = Instant::now();
        let ran = async { sandbox.exec(command.env("PATH", path)).await?.finish().await };
        let ran = ran.await;
        sandbox.end().await;
        let finished = ran.map_err(|error| failed(&error))?;
        let outcome = &finished.outcome;
        let start = finished.stdout.len().saturating_sub(KEPT);
        let output = String::from_utf8_lossy(&finished.stdout[start..]).into_owned();
        if outcome.exit_code.is_some_and(|code| NOT_THERE.contains(&code)) {
            let last = output.lines().last().unwrap_or_default();
            return Err(NotVerified(format!(
                "a command of `{}` is not there: {last}",
                how.command
            )));
        }
        let told = match outcome {
            outcome if outcome.success() => "passed".to_owned(),
            outcome if outcome.timed_out => format!("took longer than {} s", how.seconds),
            outcome if outcome.out_of_memory => format!("needed more than {} MB", how.memory_mb),
            outcome => match (outcome.exit_code, outcome.signal) {
                (Some(code), _) => format!("exit code {code}"),
                (None, Some(signal)) => format!("ended by signal {signal}"),
                (None, None) => "did not end well".to_owned(),
            },
        };
        Ok(Verified {
            command: how.command.clone(),
            passed: outcome.success(),
            outcome: told,
            output,
            isolation: sandbox.isolation().to_string(),
            seconds: begun.elapsed().as_secs(),
        })
    }
}
