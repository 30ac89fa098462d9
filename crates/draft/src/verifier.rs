//! Runs verification commands, such as the tests of a project, in a sandbox.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_config::{Isolation, RequestedIsolation, SandboxLimits};
use assize_gate::{CommandOutcome, NamedEnvironment, Verifier, VerifyError, VerifyJob};
use assize_sandbox::jail::Jail;
use assize_sandbox::{
    Language, ProgramCommand, Sandbox, SandboxError, SandboxFactory, SandboxLayer, SandboxManager,
    SandboxSpec, VirtualEnvironment,
};
use assize_types::Failure;
use async_trait::async_trait;

/// Maximum size of the output of a verification command, in bytes.
const MAX_OUTPUT: u64 = 8 << 20;

/// Maximum size of a test report, in bytes.
const MAX_REPORT: u64 = 32 << 20;

/// Exit codes with which a shell reports that it cannot execute (126) or cannot find (127) a command.
const NOT_FOUND: [i32; 2] = [126, 127];

/// Shell code that checks whether the sandbox has the Python interpreter of the virtual environment. If the interpreter
/// is missing, an optional environment is ignored, but a required environment makes the command fail.
const CHECK: &str = "if [ -n \"$INTERPRETER\" ] && ! command -v \"$INTERPRETER\" >/dev/null; then \
    if [ -n \"$OPTIONAL\" ]; then unset PYTHONPATH; else \
    echo \"$INTERPRETER of the virtual environment is not in the sandbox; use --isolation jail\"; exit 127; fi; fi; ";

/// Shell code that copies the workspace to a writable folder and runs the command there.
const RUN: &str = "mkdir -p /tmp/workspace && cp -R \"$WORKSPACE/.\" /tmp/workspace/ && \
    cd /tmp/workspace && exec /bin/sh -c \"$VERIFY\" 2>&1";

/// Verifier that runs commands in the sandbox that the settings select.
#[derive(Debug)]
pub(crate) struct SandboxVerifier {
    pub(crate) sandboxes: SandboxFactory,
}

/// Python virtual environment that a verification uses.
struct Python {
    environment: VirtualEnvironment,
    /// Whether the verification runs without this virtual environment if it cannot be used. True for the active one
    /// (`VIRTUAL_ENV`), because the project possibly uses no Python; false for one from the settings or the contract.
    optional: bool,
}

/// A running sandbox for one verification.
struct Prepared {
    /// Manager of the sandbox. The manager must not be dropped before the sandbox.
    _manager: SandboxManager,
    sandbox: Sandbox,
    /// Layer with the packages of the virtual environment; `None` if the sandbox contains the environment itself, or
    /// there is no environment.
    packages: Option<SandboxLayer>,
}

impl SandboxVerifier {
    /// Returns the virtual environment of a verification. `named` is the environment that the settings or the contract
    /// require. If `named` is `None`, returns the active environment, if there is one and it is usable.
    fn python(&self, named: Option<&NamedEnvironment>) -> Result<Option<Python>, VerifyError> {
        if let Some(named) = named {
            let environment = self.environment(&named.path, named.by_settings)?;
            return Ok(Some(Python { environment, optional: false }));
        }
        let active =
            self.sandboxes.environment.variables.get("VIRTUAL_ENV").filter(|path| !path.is_empty());
        let Some(path) = active else { return Ok(None) };
        match self.environment(Path::new(path), true) {
            Ok(environment) => Ok(Some(Python { environment, optional: true })),
            Err(VerifyError(why)) => {
                tracing::warn!(why, "ignoring the active virtual environment (VIRTUAL_ENV)");
                Ok(None)
            }
        }
    }

    /// Reads a virtual environment. If the user did not name the environment, it may be part of an untrusted
    /// repository, and its interpreter may be a link to any program of the host. The sandbox would then contain the
    /// folders around that program, so only known interpreters are accepted.
    fn environment(&self, path: &Path, by_user: bool) -> Result<VirtualEnvironment, VerifyError> {
        let python = VirtualEnvironment::read(path).map_err(VerifyError)?;
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
        Err(VerifyError(match by_user {
            true => format!(
                "the virtual environment `{path}` was created with `{base}`, which is not a Python installation"
            ),
            false => format!(
                "the virtual environment `{path}` was created with `{base}`, which is neither the system's Python nor \
                 the one in PATH; name the environment in the setting `draft.verify_python` to allow it"
            ),
        }))
    }

    /// Creates the sandbox that the settings select. A jail contains the virtual environment with its interpreter, at
    /// the same path as on the host. Other sandboxes contain only the packages of the virtual environment.
    async fn make(
        &self,
        mut spec: SandboxSpec,
        python: Option<&Python>,
    ) -> Result<Prepared, VerifyError> {
        let failed = |failure: Failure| VerifyError(failure.message().to_owned());
        let wanted = *self.sandboxes.settings.sandbox.isolation;
        let jail_first = match wanted {
            RequestedIsolation::Auto => true,
            RequestedIsolation::Exactly(isolation) | RequestedIsolation::AtLeast(isolation) => {
                isolation == Isolation::Jail
            }
        };
        if let Some(python) = python.filter(|_| jail_first) {
            self.sandboxes.settings.reject_untrusted_values().map_err(failed)?;
            let backend = Arc::new(Jail::new(vec![python.environment.interpreter()]));
            let manager = self.sandboxes.manager(backend).await.map_err(failed)?;
            match manager.create(spec.clone()).await {
                Ok(sandbox) => return Ok(Prepared { _manager: manager, sandbox, packages: None }),
                Err(SandboxError::Unavailable { .. })
                    if wanted != RequestedIsolation::Exactly(Isolation::Jail) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
        let packages = python.map(|python| layer(&python.environment.site_packages()));
        let packages = packages.transpose()?;
        spec.layers.extend(packages.clone());
        let made = self.sandboxes.create_sandbox(&[], &spec).await;
        let (manager, sandbox, _) = made.map_err(failed)?;
        Ok(Prepared { _manager: manager, sandbox, packages })
    }
}

/// Creates a layer that mounts a host folder into the sandbox.
fn layer(folder: &Path) -> Result<SandboxLayer, VerifyError> {
    SandboxLayer::of(folder)
        .map_err(|error| VerifyError(format!("cannot mount `{}`: {error}", folder.display())))
}

#[async_trait]
impl Verifier for SandboxVerifier {
    async fn run(&self, job: VerifyJob<'_>) -> Result<CommandOutcome, VerifyError> {
        let VerifyJob { verify_command, python, copy, .. } = job;
        let workspace = layer(copy)?;
        let python = self.python(python)?;
        let others: Vec<SandboxLayer> = verify_command
            .layers
            .iter()
            .map(|folder| layer(Path::new(folder)))
            .collect::<Result<_, _>>()?;
        let memory = verify_command.memory_mb << 20;
        let wall = Duration::from_secs(verify_command.seconds);
        let limits = SandboxLimits {
            memory,
            wall,
            disk: memory,
            output: MAX_OUTPUT,
            ..self.sandboxes.limits()
        };
        let layers = std::iter::once(&workspace).chain(&others).cloned().collect();
        let spec = SandboxSpec { limits, layers, ..SandboxSpec::default() };
        let made = self.make(spec, python.as_ref()).await?;
        let sandbox = &made.sandbox;
        let mut path = "/usr/local/bin:/usr/bin:/bin".to_owned();
        let mut command = ProgramCommand::new("/bin/sh")
            .args(["-c", &format!("{CHECK}{RUN}")])
            .env("WORKSPACE", &workspace.at)
            .env("VERIFY", &job.command)
            .env("HOME", "/tmp")
            .time_limit(wall);
        for (index, layer) in others.iter().enumerate() {
            path = format!("{}/bin:{path}", layer.at);
            command = command.env(format!("LAYER{}", index + 1), &layer.at);
        }
        match (&python, &made.packages) {
            // The verification uses the sandbox's interpreter, which must have the version of the environment.
            (Some(Python { environment, optional }), Some(packages)) => {
                command = command
                    .env("INTERPRETER", &environment.version)
                    .env("OPTIONAL", if *optional { "1" } else { "" })
                    .env("PYTHONPATH", &packages.at);
            }
            // The jail contains the environment with its interpreter, at the same path as on the host.
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
                // A missing report is not an error here: the command failed to write it, and the caller handles that.
                Some(path) => sandbox.read(path, MAX_REPORT).await.ok(),
                None => None,
            };
            Ok::<_, SandboxError>((finished, report))
        };
        let ran = ran.await;
        sandbox.end().await;
        let (finished, report) = ran.map_err(|error| VerifyError(error.to_string()))?;
        let outcome = &finished.outcome;
        if outcome.exit_code.is_some_and(|code| NOT_FOUND.contains(&code)) {
            let output = String::from_utf8_lossy(&finished.stdout);
            let last = output.lines().last().unwrap_or_default();
            return Err(VerifyError(format!(
                "`{}` uses a command that is not in the sandbox: {last}",
                verify_command.command
            )));
        }
        let description = match (outcome.exit_code, outcome.signal) {
            _ if outcome.success() => "passed".to_owned(),
            _ if outcome.timed_out => format!("timed out after {} s", verify_command.seconds),
            _ if outcome.out_of_memory => {
                format!("used more than {} MB of memory", verify_command.memory_mb)
            }
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("terminated by signal {signal}"),
            (None, None) => "failed".to_owned(),
        };
        Ok(CommandOutcome {
            passed: outcome.success(),
            outcome: description,
            isolation: sandbox.isolation().to_string(),
            seconds: begun.elapsed().as_secs(),
            captured_output: finished.stdout,
            report,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the shell code [`CHECK`]; returns whether it succeeded, and its output.
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
    fn missing_interpreter_is_an_error_only_for_a_required_virtual_environment() {
        assert_eq!(check("sh", ""), (true, "packages: layer".to_owned()));
        assert_eq!(check("sh", "1"), (true, "packages: layer".to_owned()));
        assert_eq!(check("python3.99", "1"), (true, "packages:".to_owned()));
        let (passed, message) = check("python3.99", "");
        assert!(
            !passed && message.starts_with("python3.99 of the virtual environment"),
            "{message}"
        );
    }
}
