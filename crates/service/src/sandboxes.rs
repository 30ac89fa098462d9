//! Sandboxes with a name, which stay until they expire or are removed.
//!
//! A sandbox lives as long as the process that holds it; other processes reach it there by its name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use assize_code::Language;
use assize_config::{Environment, Isolation, Limits};
use assize_sandbox::jail::Jail;
use assize_sandbox::{
    Cause, Command, Key, Manager, Running, Sandbox, SandboxError, Spec, WORKSPACE,
};
use assize_types::Failure;

use crate::Services;
use crate::files::{self, Put, Taken};

pub use assize_sandbox::Record;

/// A sandbox that is to be created.
#[derive(Debug, Clone)]
pub struct NewSandbox {
    pub name: String,
    pub image: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub region: Option<String>,
    pub time_to_live: Duration,
}

/// What a sandbox would be that is created now.
#[derive(Debug)]
pub struct Prospect {
    pub isolation: Isolation,
    pub why: String,
    /// Whether such a sandbox has this name already.
    pub exists: bool,
}

/// A sandbox that this process holds.
#[derive(Debug)]
pub struct HeldSandbox(Manager);

/// Sandboxes of this machine that have a name, whichever process holds them.
#[derive(Debug)]
pub struct NamedSandboxes {
    manager: Manager,
    environment: Arc<Environment>,
}

/// A program that is to be run in a sandbox.
#[derive(Debug)]
pub struct Program {
    /// Its name, and its arguments.
    pub words: Vec<String>,
    pub cwd: Option<String>,
    pub env: Vec<(String, String)>,
    pub timeout: Option<Duration>,
}

impl Services {
    /// Sandboxes of this machine that have a name.
    pub async fn named_sandboxes(&self) -> Result<NamedSandboxes, Failure> {
        // A manager that makes nothing, and reaches what others made.
        let manager = self.sandboxes().manager(Arc::new(Jail::new(Vec::new()))).await?;
        Ok(NamedSandboxes { manager, environment: self.environment.clone() })
    }

    /// Looks at what a sandbox would be, before a process is started that holds it.
    pub async fn look_at(&self, new: &NewSandbox) -> Result<Prospect, Failure> {
        let key = Key::new(None, &new.name)?;
        let sandboxes = self.sandboxes();
        let spec = sandboxes.spec(new.image.clone())?;
        let chosen = sandboxes.choose(&[]).await?;
        let isolation = chosen.backend.isolation();
        let records = self.named_sandboxes().await?.list(&BTreeMap::new())?;
        let found = records.iter().find(|record| record.key == key);
        if found.is_some_and(|found| !found.is(&spec, isolation)) {
            return Err(SandboxError::Different(new.name.clone()).into());
        }
        Ok(Prospect { isolation, why: chosen.why, exists: found.is_some() })
    }

    /// Makes a sandbox that this process holds.
    pub async fn hold(&self, new: NewSandbox) -> Result<HeldSandbox, Failure> {
        let key = Key::new(None, &new.name)?;
        let sandboxes = self.sandboxes();
        let spec = Spec {
            labels: new.labels,
            region: new.region,
            time_to_live: Some(new.time_to_live),
            ..sandboxes.spec(new.image)?
        };
        let chosen = sandboxes.choose(&Language::ALL).await?;
        let manager = sandboxes.manager(chosen.backend).await?;
        manager.create_if_not_exists(&key, spec).await?;
        Ok(HeldSandbox(manager))
    }
}

impl HeldSandbox {
    /// Waits until it has expired or was removed.
    pub async fn until_gone(&self) {
        self.0.until_empty().await;
    }

    /// Ends it.
    pub async fn close(&self) {
        self.0.close().await;
    }
}

impl NamedSandboxes {
    /// Those that have all of these labels.
    pub fn list(&self, labels: &BTreeMap<String, String>) -> Result<Vec<Record>, Failure> {
        Ok(self.manager.list(labels)?)
    }

    /// Removes one, of a run or made by hand.
    pub async fn remove(&self, run: Option<&str>, name: &str) -> Result<(), Failure> {
        match self.manager.delete(&Key::new(run, name)?).await? {
            true => Ok(()),
            false => Err(SandboxError::NotFound(name.to_owned()).into()),
        }
    }

    async fn get(&self, run: Option<&str>, name: &str) -> Result<Sandbox, Failure> {
        let found = self.manager.get(&Key::new(run, name)?).await?;
        found.ok_or_else(|| SandboxError::NotFound(name.to_owned()).into())
    }

    /// Starts a program in one; gives the limits that apply to the program, too.
    pub async fn exec(
        &self,
        run: Option<&str>,
        name: &str,
        program: Program,
    ) -> Result<(Running, Limits), Failure> {
        let sandbox = self.get(run, name).await?;
        let mut words = program.words.into_iter();
        let mut command = Command::new(words.next().unwrap_or_default()).args(words).stdin(true);
        command.cwd = program.cwd;
        command.env.extend(program.env);
        command.wall = program.timeout;
        let mut limits = sandbox.spec().limits.clone();
        limits.wall = command.wall.map_or(limits.wall, |wall| wall.min(limits.wall));
        Ok((sandbox.exec(command).await?, limits))
    }

    /// Copies a file or folder of this machine into one. `from` is the path as the user typed it.
    pub async fn copy_in(
        &self,
        run: Option<&str>,
        from: &Path,
        (name, to): (&str, &str),
    ) -> Result<Put, Failure> {
        let sandbox = self.get(run, name).await?;
        let mut to = below_workspace(to);
        if to.ends_with('/') || sandbox.list(&to).await.is_ok() {
            let whole = self.environment.typed(from);
            let name = whole.file_name().unwrap_or_default().to_string_lossy();
            to = format!("{}/{name}", to.trim_end_matches('/'));
        }
        files::put(&sandbox, from, &to, &self.environment).await
    }

    /// Copies a file or folder of one to this machine.
    pub async fn copy_out(
        &self,
        run: Option<&str>,
        (name, from): (&str, &str),
        to: &Path,
    ) -> Result<Taken, Failure> {
        let sandbox = self.get(run, name).await?;
        let from = below_workspace(from);
        let to = match Path::new(&from).file_name() {
            Some(name) if to.is_dir() => to.join(name),
            _ => to.to_owned(),
        };
        match sandbox.read(&from, sandbox.spec().limits.disk).await {
            Ok(bytes) => files::write(&to, &bytes).map(|()| Taken::default()),
            Err(error)
                if error.cause() == Some(Cause::WrongKind) && sandbox.list(&from).await.is_ok() =>
            {
                let from = from.trim_end_matches('/');
                files::take(&sandbox, from, &to, &BTreeSet::new(), &self.environment).await
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// A path in a sandbox: below its working folder, unless it is absolute.
fn below_workspace(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("{WORKSPACE}/{path}") }
}
