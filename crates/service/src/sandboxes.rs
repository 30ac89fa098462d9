//! Named sandboxes. A named sandbox exists until it expires, until it is removed, or until the process that created it
//! ends. Other processes connect to the sandbox by its name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use assize_code::Language;
use assize_config::{Environment, Isolation, SandboxLimits};
use assize_sandbox::jail::Jail;
use assize_sandbox::{
    GuestFailureCause, ProgramCommand, ProgramHandle, Sandbox, SandboxError, SandboxKey,
    SandboxManager, SandboxSpec, WORKSPACE,
};
use assize_types::Failure;

use crate::Services;
use crate::files::{self, CopiedIn, CopiedOut};

pub use assize_sandbox::{SandboxRecord, SupervisorAhead};

/// Properties of a named sandbox that is to be created.
#[derive(Debug, Clone)]
pub struct NewSandbox {
    pub name: String,
    pub image: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub region: Option<String>,
    pub time_to_live: Duration,
}

/// Preview of a named sandbox before it is created.
#[derive(Debug)]
pub struct SandboxPreview {
    pub isolation: Isolation,
    /// Why the sandbox would use this isolation.
    pub why: String,
    /// Whether a sandbox with this name and the same properties already exists.
    pub exists: bool,
}

/// Named sandbox that this process created and owns.
#[derive(Debug)]
pub struct OwnedSandbox(SandboxManager);

/// Named sandboxes of all processes on this machine.
#[derive(Debug)]
pub struct NamedSandboxes {
    manager: SandboxManager,
    environment: Arc<Environment>,
}

/// Program that is to be run in a named sandbox.
#[derive(Debug)]
pub struct SandboxProgram {
    /// Name of the program, followed by its arguments.
    pub words: Vec<String>,
    pub cwd: Option<String>,
    pub env: Vec<(String, String)>,
    pub timeout: Option<Duration>,
}

impl Services {
    /// Opens the named sandboxes of this machine.
    pub async fn named_sandboxes(&self) -> Result<NamedSandboxes, Failure> {
        // This manager creates no sandboxes. It only connects to the sandboxes of other processes.
        let manager = self.sandboxes().manager(Arc::new(Jail::new(Vec::new()))).await?;
        Ok(NamedSandboxes { manager, environment: self.environment.clone() })
    }

    /// Checks whether a named sandbox can be created, before the process that creates it is started. Fails if a sandbox
    /// with this name but different properties exists.
    pub async fn preview_sandbox(&self, new: &NewSandbox) -> Result<SandboxPreview, Failure> {
        let key = SandboxKey::new(None, &new.name)?;
        let sandboxes = self.sandboxes();
        let spec = sandboxes.spec(new.image.clone())?;
        let chosen = sandboxes.choose(&[]).await?;
        let isolation = chosen.backend.isolation();
        let records = self.named_sandboxes().await?.list(&BTreeMap::new())?;
        let found = records.iter().find(|record| record.key == key);
        if found.is_some_and(|found| !found.matches_request(&spec, isolation)) {
            return Err(SandboxError::NameConflict(new.name.clone()).into());
        }
        Ok(SandboxPreview { isolation, why: chosen.why, exists: found.is_some() })
    }

    /// Creates a named sandbox that this process owns.
    pub async fn create_owned_sandbox(&self, new: NewSandbox) -> Result<OwnedSandbox, Failure> {
        let key = SandboxKey::new(None, &new.name)?;
        let sandboxes = self.sandboxes();
        let spec = SandboxSpec {
            labels: new.labels,
            region: new.region,
            time_to_live: Some(new.time_to_live),
            ..sandboxes.spec(new.image)?
        };
        let chosen = sandboxes.choose(&Language::ALL).await?;
        let manager = sandboxes.manager(chosen.backend).await?;
        manager.create_if_not_exists(&key, spec).await?;
        Ok(OwnedSandbox(manager))
    }
}

impl OwnedSandbox {
    /// Waits until the sandbox has expired or was removed.
    pub async fn until_gone(&self) {
        self.0.until_empty().await;
    }

    /// Removes the sandbox.
    pub async fn close(&self) {
        self.0.close().await;
    }
}

impl NamedSandboxes {
    /// Lists the named sandboxes that have all of these labels.
    pub fn list(&self, labels: &BTreeMap<String, String>) -> Result<Vec<SandboxRecord>, Failure> {
        Ok(self.manager.list(labels)?)
    }

    /// Removes a named sandbox. `run` is the id of the run that the sandbox belongs to; `None` if a user created the
    /// sandbox.
    pub async fn remove(&self, run: Option<&str>, name: &str) -> Result<(), Failure> {
        match self.manager.delete(&SandboxKey::new(run, name)?).await? {
            true => Ok(()),
            false => Err(SandboxError::NotFound(name.to_owned()).into()),
        }
    }

    async fn get(&self, run: Option<&str>, name: &str) -> Result<Sandbox, Failure> {
        let found = self.manager.get(&SandboxKey::new(run, name)?).await?;
        found.ok_or_else(|| SandboxError::NotFound(name.to_owned()).into())
    }

    /// Starts a program in a named sandbox. Also returns the limits that apply to the program.
    pub async fn exec(
        &self,
        run: Option<&str>,
        name: &str,
        program: SandboxProgram,
    ) -> Result<(ProgramHandle, SandboxLimits), Failure> {
        let sandbox = self.get(run, name).await?;
        let mut words = program.words.into_iter();
        let mut command =
            ProgramCommand::new(words.next().unwrap_or_default()).args(words).stdin(true);
        command.cwd = program.cwd;
        command.env.extend(program.env);
        command.time_limit = program.timeout;
        let mut limits = sandbox.spec().limits.clone();
        limits.wall = command.time_limit.map_or(limits.wall, |wall| wall.min(limits.wall));
        Ok((sandbox.exec(command).await?, limits))
    }

    /// Copies a file or folder of this machine into a named sandbox. `from` is the path as the user typed it.
    pub async fn copy_in(
        &self,
        run: Option<&str>,
        from: &Path,
        (name, to): (&str, &str),
    ) -> Result<CopiedIn, Failure> {
        let sandbox = self.get(run, name).await?;
        let mut to = below_workspace(to);
        if to.ends_with('/') || sandbox.list(&to).await.is_ok() {
            let whole = self.environment.resolve_path(from);
            let name = whole.file_name().unwrap_or_default().to_string_lossy();
            to = format!("{}/{name}", to.trim_end_matches('/'));
        }
        files::copy_into_sandbox(&sandbox, from, &to, &self.environment).await
    }

    /// Copies a file or folder of a named sandbox to this machine.
    pub async fn copy_out(
        &self,
        run: Option<&str>,
        (name, from): (&str, &str),
        to: &Path,
    ) -> Result<CopiedOut, Failure> {
        let sandbox = self.get(run, name).await?;
        let from = below_workspace(from);
        let to = match Path::new(&from).file_name() {
            Some(name) if to.is_dir() => to.join(name),
            _ => to.to_owned(),
        };
        match sandbox.read(&from, sandbox.spec().limits.disk).await {
            Ok(bytes) => files::write(&to, &bytes).map(|()| CopiedOut::default()),
            Err(error)
                if error.cause() == Some(GuestFailureCause::WrongKind)
                    && sandbox.list(&from).await.is_ok() =>
            {
                let from = from.trim_end_matches('/');
                files::copy_from_sandbox(&sandbox, from, &to, &BTreeSet::new(), &self.environment)
                    .await
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Converts a path in a sandbox to an absolute path; a relative path starts at the working folder.
fn below_workspace(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("{WORKSPACE}/{path}") }
}
