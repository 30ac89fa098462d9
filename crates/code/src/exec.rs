//! Code that is run once, in a fresh sandbox, and whose output is wanted whole.

use std::collections::{BTreeMap, BTreeSet};

use assize_sandbox::{Command, Finished, Language, SandboxError, Sandboxes, Stdin, WORKSPACE};
use assize_types::{Failure, FailureKind};

use crate::InputFile;
use crate::job::check_inputs;

/// Bytes of all files that a program leaves and that are collected. They are held in memory.
const MAX_COLLECTED: u64 = 64 << 20;

/// What can be asked for.
#[derive(Debug, Clone)]
pub struct Ask {
    pub code: String,
    pub language: Language,
    pub arguments: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub stdin: Option<String>,
    pub inputs: Vec<InputFile>,
    /// Whether what it leaves is wanted.
    pub keep_files: bool,
    pub image: Option<String>,
}

/// How it went.
#[derive(Debug)]
pub struct Ran {
    pub finished: Finished,
    /// Which walls stood around it, and why those.
    pub isolation: String,
    pub files: Vec<(String, Vec<u8>)>,
    /// What it left and was not taken, and why.
    pub not_taken: Vec<String>,
}

/// Runs it.
///
/// # Errors
/// When no sandbox could be made, or it broke. That the code failed is no error.
pub async fn run(ask: Ask, sandboxes: &Sandboxes) -> Result<Ran, Failure> {
    let spec = sandboxes.spec(ask.image.clone())?;
    check_inputs(&ask.inputs, &spec.limits)?;
    let (own, sandbox, isolation) = match &sandboxes.shared {
        Some(shared) => {
            let (sandbox, isolation) = shared.take(sandboxes, &spec).await?;
            (None, sandbox, isolation)
        }
        None => {
            let made = sandboxes.make(&[ask.language], &spec).await?;
            let (manager, sandbox, why) = made;
            let isolation = format!("{} ({why})", sandbox.isolation());
            (Some(manager), sandbox, isolation)
        }
    };
    let ran = async {
        for InputFile { name, bytes } in &ask.inputs {
            sandbox.write_with_mode(&format!("{WORKSPACE}/{name}"), bytes, 0o444).await?;
        }
        let mut command = Command::default().args(ask.arguments).stdin(ask.stdin.is_some());
        command.env.extend(ask.env);
        let running = sandbox.run(ask.language, ask.code.as_bytes(), command).await?;
        if let Some(text) = ask.stdin {
            feed(running.stdin(), text);
        }
        let finished = running.finish().await?;
        let mut ran = Ran { finished, isolation, files: Vec::new(), not_taken: Vec::new() };
        if ask.keep_files {
            let given: BTreeSet<String> = ask.inputs.iter().map(|one| one.name.clone()).collect();
            // The output counts, whatever becomes of the files.
            let mut harvest = sandbox.harvest_at_most(WORKSPACE, &given, MAX_COLLECTED).await;
            ran.files = std::mem::take(&mut harvest.files);
            ran.not_taken = harvest.left();
        }
        Ok::<_, SandboxError>(ran)
    };
    let ran = ran.await;
    match &sandboxes.shared {
        Some(shared) => shared.discard(sandbox),
        None => sandbox.end().await,
    }
    drop(own);
    ran.map_err(|error| match error.cause() {
        // The guest's own word: what was asked for makes no sense.
        Some(_) => Failure::new(FailureKind::Usage, error.to_string()),
        None => error.into(),
    })
}

/// Has a program read a text, as far as it does.
pub fn feed(stdin: Stdin, text: String) {
    tokio::spawn(async move {
        let _ = stdin.write(text.as_bytes()).await;
        stdin.close();
    });
}
