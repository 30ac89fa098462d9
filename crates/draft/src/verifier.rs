//! The project's own tests, in a sandbox.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_config::{Isolation, Limits, Wanted};
use assize_gate::{Job, NamedEnvironment, NotVerified, Ran, Verifier};
use assize_sandbox::jail::Jail;
use assize_sandbox::{
    Command, Language, Layer, Manager, Sandbox, SandboxError, Sandboxes, Spec, VirtualEnvironment,
};
use assize_types::Failure;
use async_trait::async_trait;

/// The most that it may print.
const OUTPUT: u64 = 8 << 20;

/// The largest report of tests.
const REPORT: u64 = 32 << 20;

/// What a shell ends with that cannot find a command, or cannot run it.
const NOT_THERE: [i32; 2] = [126, 127];

/// Checks that the sandbox has the interpreter that packages are for; without it, an optional environment is not used.
const CHECK: &str = "if [ -n \"$INTERPRETER\" ] && ! command -v \"$INTERPRETER\" >/dev/null; then \
    if [ -n \"$OPTIONAL\" ]; then unset PYTHONPATH; else \
    echo \"$INTERPRETER of the virtual environment is not in this sandbox; use --isolation jail\"; exit 127; fi; fi; ";

/// Copies the workspace to where it can be written to, and runs the command there.
const RUN: &str = "mkdir -p /tmp/workspace && cp -R \"$WORKSPACE/.\" /tmp/workspace/ && \
    cd /tmp/workspace && exec /bin/sh -c \"$VERIFY\" 2>&1";

/// Runs commands in the sandbox that the settings ask for.
#[derive(Debug)]
pub(crate) struct InSandbox {
    pub(crate) sandboxes: Sandboxes,
}

/// The virtual environment of a verification.
struct Python {
    environment: VirtualEnvironment,
    /// Nothing names it: it is the active one, and the project may not be a Python project.
    optional: bool,
}

/// A sandbox for a verification.
struct Made {
    /// Keeps the sandbox alive.
    _manager: Manager,
    sandbox: Sandbox,
    /// Where the packages of the virtual environment are, if the environment itself is not inside.
    packages: Option<Layer>,
}

impl InSandbox {
    /// The virtual environment that is named, or the active one as far as it can be used.
    fn python(&self, named: Option<&NamedEnvironment>) -> Result<Option<Python>, NotVerified> {
        if let Some(named) = named {
            let environment = self.environment(&named.path, named.by_settings)?;
            return Ok(Some(Python { environment, optional: false }));
        }
        let active = self
            .sandboxes
            .environment
            .environment
            .get("VIRTUAL_ENV")
            .filter(|path| !path.is_empty());
        let Some(path) = active else { return Ok(None) };
        match self.environment(Path::new(path), true) {
            Ok(environment) => Ok(Some(Python { environment, optional: true })),
            Err(NotVerified(why)) => {
                tracing::warn!(why, "the active virtual environment is not used");
                Ok(None)
            }
        }
    }

    /// Reads a virtual environment. Unless the user named it, a repository may have brought one that leads to any
    /// program and the folders around it.
    fn environment(&self, path: &Path, by_user: bool) -> Result<VirtualEnvironment, NotVerified> {
        let python = VirtualEnvironment::read(path).map_err(NotVerified)?;
        let own = || {
            let found = self.sandboxes.interpreter(Language::Python).ok();
            found.and_then(|found| found.program.canonicalize().ok())
        };
        if python.has_system_interpreter()
            || by_user && python.has_python_installation()
            || own().as_ref() == Some(&python.base)
        {
            return Ok(python);
        }
        let (path, base) = (path.display(), python.base.display());
        Err(NotVerified(match by_user {
            true => format!(
                "the virtual environment `{path}` was made with `{base}`, which is not a Python with its library"
            ),
            false => format!(
                "the virtual environment `{path}` was made with `{base}`, which is neither the system's Python nor \
                 the one in PATH; name the environment in the setting `draft.verify_python` to allow it"
            ),
        }))
    }

    /// Makes a sandbox of the kind that the settings ask for. A jail sees the virtual environment where it is, with its
    /// interpreter; the others see its packages.
    async fn make(&self, mut spec: Spec, python: Option<&Python>) -> Result<Made, NotVerified> {
        let failed = |failure: Failure| NotVerified(failure.message().to_owned());
        let wanted = *self.sandboxes.settings.sandbox.isolation;
        let jail_first = match wanted {
            Wanted::Auto => true,
            Wanted::Exactly(isolation) | Wanted::AtLeast(isolation) => isolation == Isolation::Jail,
        };
        if let Some(python) = python.filter(|_| jail_first) {
            self.sandboxes.settings.refuse_withheld().map_err(failed)?;
            let backend = Arc::new(Jail::new(vec![python.environment.interpreter()]));
            let manager = self.sandboxes.manager(backend).await.map_err(failed)?;
            match manager.make(spec.clone()).await {
                Ok(sandbox) => return Ok(Made { _manager: manager, sandbox, packages: None }),
                Err(SandboxError::Unavailable { .. })
                    if wanted != Wanted::Exactly(Isolation::Jail) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
        let packages = python.map(|python| layer(&python.environment.site_packages()));
        let packages = packages.transpose()?;
        spec.layers.extend(packages.clone());
        let made = self.sandboxes.make(&[], &spec).await;
        let (manager, sandbox, _) = made.map_err(failed)?;
        Ok(Made { _manager: manager, sandbox, packages })
    }
}

/// A folder of this machine that the sandbox sees.
fn layer(folder: &Path) -> Result<Layer, NotVerified> {
    Layer::of(folder)
        .map_err(|error| NotVerified(format!("`{}` cannot be used: {error}", folder.display())))
}

#[async_trait]
impl Verifier for InSandbox {
    async fn run(&self, job: Job<'_>) -> Result<Ran, NotVerified> {
        let Job { how, python, copy, .. } = job;
        let workspace = layer(copy)?;
        let python = self.python(python)?;
        let others: Vec<Layer> =
            how.layers.iter().map(|folder| layer(Path::new(folder))).collect::<Result<_, _>>()?;
        let memory = how.memory_mb << 20;
        let wall = Duration::from_secs(how.seconds);
        let limits =
            Limits { memory, wall, disk: memory, output: OUTPUT, ..self.sandboxes.limits() };
        let layers = std::iter::once(&workspace).chain(&others).cloned().collect();
        let spec = Spec { limits, layers, ..Spec::default() };
        let made = self.make(spec, python.as_ref()).await?;
        let sandbox = &made.sandbox;
        let mut path = "/usr/local/bin:/usr/bin:/bin".to_owned();
        let mut command = Command::new("/bin/sh")
            .args(["-c", &format!("{CHECK}{RUN}")])
            .env("WORKSPACE", &workspace.at)
            .env("VERIFY", &job.command)
            .env("HOME", "/tmp")
            .wall(wall);
        for (index, layer) in others.iter().enumerate() {
            path = format!("{}/bin:{path}", layer.at);
            command = command.env(format!("LAYER{}", index + 1), &layer.at);
        }
        match (&python, &made.packages) {
            // The sandbox has an interpreter of its own, which must be of the same version.
            (Some(Python { environment, optional }), Some(packages)) => {
                command = command
                    .env("INTERPRETER", &environment.version)
                    .env("OPTIONAL", if *optional { "1" } else { "" })
                    .env("PYTHONPATH", &packages.at);
            }
            // It is where it is outside, with its interpreter.
            (Some(Python { environment, .. }), None) => {
                path = format!("{}/bin:{path}", environment.folder.display());
                command = command.env("VIRTUAL_ENV", environment.folder.to_string_lossy());
            }
            (None, _) => {}
        }
        let begun = Instant::now();
        let ran = async {
            for (path, text) in &job.files {
                sandbox.write(path, text.as_bytes()).await?;
            }
            let finished = sandbox.exec(command.env("PATH", path)).await?.finish().await?;
            let report = match &job.report {
                // A missing report is the command's doing, and for the caller to judge.
                Some(path) => sandbox.read(path, REPORT).await.ok(),
                None => None,
            };
            Ok::<_, SandboxError>((finished, report))
        };
        let ran = ran.await;
        sandbox.end().await;
        let (finished, report) = ran.map_err(|error| NotVerified(error.to_string()))?;
        let outcome = &finished.outcome;
        if outcome.exit_code.is_some_and(|code| NOT_THERE.contains(&code)) {
            let output = String::from_utf8_lossy(&finished.stdout);
            let last = output.lines().last().unwrap_or_default();
            return Err(NotVerified(format!(
                "a command of `{}` is not there: {last}",
                how.command
            )));
        }
        let told = match (outcome.exit_code, outcome.signal) {
            _ if outcome.success() => "passed".to_owned(),
            _ if outcome.timed_out => format!("took longer than {} s", how.seconds),
            _ if outcome.out_of_memory => format!("needed more than {} MB", how.memory_mb),
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => "did not end well".to_owned(),
        };
        Ok(Ran {
            passed: outcome.success(),
            outcome: told,
            isolation: sandbox.isolation().to_string(),
            seconds: begun.elapsed().as_secs(),
            printed: finished.stdout,
            report,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the check in a shell, with packages for an interpreter.
    fn check(interpreter: &str, optional: &str) -> (bool, String) {
        let ran = std::process::Command::new("/bin/sh")
            .args(["-c", &format!("{CHECK} echo \"packages: $PYTHONPATH\"")])
            .env("INTERPRETER", interpreter)
            .env("OPTIONAL", optional)
            .env("PYTHONPATH", "layer")
            .output()
            .unwrap();
        (ran.status.success(), String::from_utf8(ran.stdout).unwrap().trim().to_owned())
    }

    #[test]
    fn packages_for_a_missing_interpreter_are_an_error_only_if_they_are_named() {
        assert_eq!(check("sh", ""), (true, "packages: layer".to_owned()));
        assert_eq!(check("sh", "1"), (true, "packages: layer".to_owned()));
        assert_eq!(check("python3.99", "1"), (true, "packages:".to_owned()));
        let (passed, said) = check("python3.99", "");
        assert!(!passed && said.starts_with("python3.99 of the virtual environment"), "{said}");
    }
}
