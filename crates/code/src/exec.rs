//! Code that is run once, in a fresh sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use assize_config::Isolation;
use assize_sandbox::{
    Command, Harvest, Manager, Running, Sandbox, SandboxError, Sandboxes, SharedBackends, Spec,
    WORKSPACE,
};
use assize_types::{Failure, FailureKind};

use crate::job::{check_inputs, package_layers};
use crate::{InputFile, Language};

pub use assize_sandbox::{Enforcement, Finished, Outcome, Output};

/// Bytes of all files that a program leaves and that are collected. They are held in memory.
const MAX_COLLECTED: u64 = 64 << 20;

/// Request to run a program once.
#[derive(Debug, Clone)]
pub struct Ask {
    pub code: String,
    pub language: Language,
    pub arguments: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub inputs: Vec<InputFile>,
    /// Packages that a program in Python imports.
    pub packages: Vec<String>,
    pub image: Option<String>,
}

/// How a program went whose output was collected.
#[derive(Debug)]
pub struct Ran {
    pub finished: Finished,
    /// The isolation, and why that one.
    pub isolation: String,
    pub files: Vec<(String, Vec<u8>)>,
    /// What it left and was not taken, and why.
    pub not_taken: Vec<String>,
}

/// A program and the sandbox that was made for it.
#[derive(Debug)]
pub struct Prepared {
    ask: Ask,
    sandbox: Sandbox,
    maker: Maker,
    /// Why the sandbox has this isolation.
    pub why: String,
}

/// What made a sandbox and ends it.
#[derive(Debug)]
enum Maker {
    Own(Manager),
    Shared(Arc<SharedBackends>),
}

impl Prepared {
    /// Makes the sandbox.
    pub async fn new(ask: Ask, sandboxes: &Sandboxes) -> Result<Prepared, Failure> {
        let mut spec = sandboxes.spec(ask.image.clone())?;
        check_inputs(&ask.inputs, &spec.limits)?;
        if !ask.packages.is_empty() {
            spec.layers = package_layers(&ask.packages, sandboxes, &spec).await?;
        }
        let (sandbox, maker, why) = match &sandboxes.shared {
            Some(shared) => {
                let (sandbox, why) = shared.take(sandboxes, &spec).await?;
                (sandbox, Maker::Shared(shared.clone()), why)
            }
            None => {
                let (manager, sandbox, why) = sandboxes.make(&[ask.language], &spec).await?;
                (sandbox, Maker::Own(manager), why)
            }
        };
        Ok(Prepared { ask, sandbox, maker, why })
    }

    pub fn isolation(&self) -> Isolation {
        self.sandbox.isolation()
    }

    pub fn spec(&self) -> &Spec {
        self.sandbox.spec()
    }

    /// What enforces the limits of a sandbox that is not from a shared pool.
    pub fn enforcement(&self) -> Option<Enforcement> {
        match &self.maker {
            Maker::Own(manager) => Some(manager.backend().enforcement()),
            Maker::Shared(_) => None,
        }
    }

    /// Starts the program, which finds its files.
    pub async fn start(&self, has_stdin: bool) -> Result<Running, SandboxError> {
        let Prepared { ask, sandbox, .. } = self;
        for InputFile { name, bytes } in &ask.inputs {
            sandbox.write_with_mode(&format!("{WORKSPACE}/{name}"), bytes, 0o444).await?;
        }
        let mut command = Command::default().args(ask.arguments.iter().cloned()).stdin(has_stdin);
        let layers: Vec<&str> = self.spec().layers.iter().map(|layer| layer.at.as_str()).collect();
        if !layers.is_empty() {
            command.env.insert("PYTHONPATH".to_owned(), layers.join(":"));
        }
        command.env.extend(ask.env.clone());
        sandbox.run(ask.language, ask.code.as_bytes(), command).await
    }

    /// Files that the program left.
    pub async fn harvest(&self) -> Result<Harvest, SandboxError> {
        self.sandbox.harvest(WORKSPACE, &self.given()).await
    }

    /// Names of the files that it was given.
    fn given(&self) -> BTreeSet<String> {
        self.ask.inputs.iter().map(|input| input.name.clone()).collect()
    }

    /// Ends the sandbox.
    pub async fn end(self) {
        match self.maker {
            Maker::Own(_) => self.sandbox.end().await,
            Maker::Shared(shared) => shared.discard(self.sandbox),
        }
    }

    async fn collect(&self, stdin: Option<String>, keep_files: bool) -> Result<Ran, SandboxError> {
        let running = self.start(stdin.is_some()).await?;
        if let Some(text) = stdin {
            running.feed(std::io::Cursor::new(text));
        }
        let finished = running.finish().await?;
        // The output counts, whatever becomes of the files.
        let mut harvest = match keep_files {
            true => self.sandbox.harvest_at_most(WORKSPACE, &self.given(), MAX_COLLECTED).await,
            false => Harvest::default(),
        };
        let files = std::mem::take(&mut harvest.files);
        let isolation = format!("{} ({})", self.isolation(), self.why);
        Ok(Ran { finished, isolation, files, not_taken: harvest.left() })
    }
}

/// Runs a program to its end and collects what it writes, and the files that it leaves if they are wanted.
///
/// # Errors
/// When no sandbox could be made, or it broke. That the code failed is no error.
pub async fn run(
    ask: Ask,
    stdin: Option<String>,
    keep_files: bool,
    sandboxes: &Sandboxes,
) -> Result<Ran, Failure> {
    let prepared = Prepared::new(ask, sandboxes).await?;
    let ran = prepared.collect(stdin, keep_files).await;
    prepared.end().await;
    ran.map_err(|error| match error.cause() {
        // The guest refused what was asked for.
        Some(_) => Failure::new(FailureKind::Usage, error.to_string()),
        None => error.into(),
    })
}
