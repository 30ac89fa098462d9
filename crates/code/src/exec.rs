//! Runs a program once in a new sandbox (`assize exec`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use assize_config::Isolation;
use assize_sandbox::{
    CollectedFiles, ProgramCommand, ProgramHandle, Sandbox, SandboxError, SandboxFactory,
    SandboxManager, SandboxSpec, SharedBackends, WORKSPACE,
};
use assize_types::{Failure, FailureKind};

use crate::job::{check_inputs, package_layers};
use crate::{InputFile, Language};

pub use assize_sandbox::{Enforcement, FinishedProgram, ProgramOutcome, ProgramStream};

/// Maximum total size in bytes of the files that are collected when a program has ended. The size is limited because
/// the files are held in memory.
const MAX_COLLECTED: u64 = 64 << 20;

/// Request to run a program once.
#[derive(Debug, Clone)]
pub struct CodeExecRequest {
    pub code: String,
    pub language: Language,
    pub arguments: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub inputs: Vec<InputFile>,
    /// Packages to add for a Python program.
    pub packages: Vec<String>,
    pub image: Option<String>,
}

/// Result of a program: its outcome, its output and the files that it created.
#[derive(Debug)]
pub struct CodeExecOutput {
    pub finished: FinishedProgram,
    /// Backend of the sandbox, and why it was chosen.
    pub isolation: String,
    pub files: Vec<(String, Vec<u8>)>,
    /// Descriptions of files that were not collected, with reasons.
    pub not_collected: Vec<String>,
}

/// A program that is ready to be started, and the sandbox that was created for it.
#[derive(Debug)]
pub struct PreparedExec {
    request: CodeExecRequest,
    sandbox: Sandbox,
    owner: Maker,
    /// Why the backend of the sandbox was chosen.
    pub why: String,
}

/// Component that created a sandbox and removes the sandbox after use.
#[derive(Debug)]
enum Maker {
    /// A sandbox manager that was created for this sandbox only.
    Own(SandboxManager),
    /// The backends that are shared by all requests to this process.
    Shared(Arc<SharedBackends>),
}

impl PreparedExec {
    /// Checks the request, and creates the sandbox for its program.
    pub async fn new(
        ask: CodeExecRequest,
        sandboxes: &SandboxFactory,
    ) -> Result<PreparedExec, Failure> {
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
                let (manager, sandbox, why) =
                    sandboxes.create_sandbox(&[ask.language], &spec).await?;
                (sandbox, Maker::Own(manager), why)
            }
        };
        Ok(PreparedExec { request: ask, sandbox, owner: maker, why })
    }

    pub fn isolation(&self) -> Isolation {
        self.sandbox.isolation()
    }

    pub fn spec(&self) -> &SandboxSpec {
        self.sandbox.spec()
    }

    /// How the limits of the sandbox are enforced; `None` for a sandbox from a shared pool.
    pub fn enforcement(&self) -> Option<Enforcement> {
        match &self.owner {
            Maker::Own(manager) => Some(manager.backend().enforcement()),
            Maker::Shared(_) => None,
        }
    }

    /// Writes the input files and starts the program.
    pub async fn start(&self, has_stdin: bool) -> Result<ProgramHandle, SandboxError> {
        let PreparedExec { request: ask, sandbox, .. } = self;
        for InputFile { name, bytes } in &ask.inputs {
            sandbox.write_with_mode(&format!("{WORKSPACE}/{name}"), bytes, 0o444).await?;
        }
        let mut command =
            ProgramCommand::default().args(ask.arguments.iter().cloned()).stdin(has_stdin);
        let layers: Vec<&str> = self.spec().layers.iter().map(|layer| layer.at.as_str()).collect();
        if !layers.is_empty() {
            command.env.insert("PYTHONPATH".to_owned(), layers.join(":"));
        }
        command.env.extend(ask.env.clone());
        sandbox.run(ask.language, ask.code.as_bytes(), command).await
    }

    /// Collects the files that the program created.
    pub async fn harvest(&self) -> Result<CollectedFiles, SandboxError> {
        self.sandbox.collect_files(WORKSPACE, &self.given()).await
    }

    /// Returns the names of the input files, which are not collected.
    fn given(&self) -> BTreeSet<String> {
        self.request.inputs.iter().map(|input| input.name.clone()).collect()
    }

    /// Removes the sandbox.
    pub async fn end(self) {
        match self.owner {
            Maker::Own(_) => self.sandbox.end().await,
            Maker::Shared(shared) => shared.discard(self.sandbox),
        }
    }

    async fn collect(
        &self,
        stdin: Option<String>,
        keep_files: bool,
    ) -> Result<CodeExecOutput, SandboxError> {
        let running = self.start(stdin.is_some()).await?;
        if let Some(text) = stdin {
            running.feed(std::io::Cursor::new(text));
        }
        let finished = running.finish().await?;
        // Collecting files never fails, so that the output is returned even if the files cannot be read.
        let mut harvest = match keep_files {
            true => self.sandbox.collect_files_up_to(WORKSPACE, &self.given(), MAX_COLLECTED).await,
            false => CollectedFiles::default(),
        };
        let files = std::mem::take(&mut harvest.files);
        let isolation = format!("{} ({})", self.isolation(), self.why);
        Ok(CodeExecOutput { finished, isolation, files, not_collected: harvest.skipped_messages() })
    }
}

/// Runs a program until it exits, and collects its output and, with `keep_files`, the files that it creates.
///
/// # Errors
/// When no sandbox can be created, or the sandbox fails. A program that fails is not an error.
pub async fn run(
    ask: CodeExecRequest,
    stdin: Option<String>,
    keep_files: bool,
    sandboxes: &SandboxFactory,
) -> Result<CodeExecOutput, Failure> {
    let prepared = PreparedExec::new(ask, sandboxes).await?;
    let ran = prepared.collect(stdin, keep_files).await;
    prepared.end().await;
    ran.map_err(|error| match error.cause() {
        // The guest agent refused the request, so the request is invalid.
        Some(_) => Failure::new(FailureKind::Usage, error.to_string()),
        None => error.into(),
    })
}
