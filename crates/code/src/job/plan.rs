//! What is to be tried: a new task, or a run that goes on.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use assize_config::Limits;
use assize_gateway::{Gateway, Providers};
use assize_run::{NewRun, Origin, Run, RunKind, Store};
use assize_sandbox::{Language, RunSettings, Sandboxes};
use assize_types::text::{checked, harmless, shorten};
use assize_types::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::packages;
use crate::{Expect, InputFile, MAX_ATTEMPTS, Task};

/// The longest task and the longest file of tests, in MiB: more would fit no model.
const LONGEST: u64 = 1;

/// The names of what is kept beside a run.
const TASK: &str = "task.txt";
const TESTS: &str = "tests";
pub const INPUTS: &str = "input/";

/// What a run needs to be run again; what is large is kept beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CodeInput {
    pub language: Language,
    pub max_attempts: u32,
    pub candidates: u32,
    pub expect: Option<String>,
    /// Where the files that the program leaves are wanted, and the program itself.
    pub out: Option<PathBuf>,
    pub save: Option<PathBuf>,
    pub session: Option<String>,
    /// The packages that programs may ask for.
    pub packages: Vec<String>,
    #[serde(flatten)]
    pub settings: RunSettings,
}

/// What can be asked for.
#[derive(Debug, Clone)]
pub struct CodeAsk {
    pub task: String,
    pub language: Language,
    pub max_attempts: u32,
    pub candidates: u32,
    pub tests: Option<String>,
    /// What the output must contain; between slashes, a pattern.
    pub expect: Option<String>,
    pub inputs: Vec<InputFile>,
    pub session: Option<String>,
    pub image: Option<String>,
    /// Where whoever asks wants the files and the program, if on this machine.
    pub out: Option<PathBuf>,
    pub save: Option<PathBuf>,
}

impl CodeAsk {
    /// The same as if nothing but the task had been said.
    pub fn new(task: String) -> CodeAsk {
        CodeAsk {
            task,
            language: Language::Python,
            max_attempts: MAX_ATTEMPTS,
            candidates: 1,
            tests: None,
            expect: None,
            inputs: Vec::new(),
            session: None,
            image: None,
            out: None,
            save: None,
        }
    }
}

/// A trial that is about to begin, or to go on.
#[derive(Debug)]
pub struct CodePlan {
    pub task: Task,
    limits: Limits,
    image: Option<String>,
    session: Option<String>,
    /// Where the files and the program are wanted.
    out: Option<PathBuf>,
    save: Option<PathBuf>,
    /// What was asked for before, where this is not the first time.
    before: Option<CodeInput>,
}

fn usage(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Usage, message)
}

impl CodePlan {
    /// A new task.
    pub fn fresh(ask: CodeAsk, sandboxes: &Sandboxes) -> Result<CodePlan, Failure> {
        let limits = sandboxes.spec(None)?.limits;
        checked("the task", LONGEST, &ask.task)?;
        if let Some(tests) = &ask.tests {
            checked("the file of tests", LONGEST, tests)?;
        }
        if ask.expect.as_deref() == Some("") {
            return Err(usage("what is expected is empty, which any output would fit"));
        }
        let expect = ask.expect.as_deref().map(str::parse::<Expect>).transpose()?;
        check_inputs(&ask.inputs, &limits)?;
        let task = Task {
            language: ask.language,
            max_attempts: ask.max_attempts,
            candidates: ask.candidates,
            tests: ask.tests,
            expect,
            inputs: ask.inputs,
            wants_files: true,
            ..Task::new(ask.task)
        };
        let CodeAsk { image, session, out, save, .. } = ask;
        Ok(CodePlan { task, limits, image, session, out, save, before: None })
    }

    /// The plan of a stored run.
    pub async fn restored(run: &Run, store: &dyn Store) -> Result<CodePlan, Failure> {
        let lost = |what: &str| {
            let message = format!("{what} of `{}` cannot be read", run.id);
            Failure::new(FailureKind::Environment, message).hint("start it again: `assize run`")
        };
        let before: CodeInput =
            serde_json::from_value(run.input.clone()).map_err(|_| lost("the settings"))?;
        let (mut task, mut tests, mut inputs) = (None, None, Vec::new());
        for artifact in store.artifacts(&run.id).await? {
            let bytes = store.artifact(artifact.id).await?;
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| lost("the task"));
            match artifact.name.as_str() {
                TASK => task = Some(text(bytes)?),
                TESTS => tests = Some(text(bytes)?),
                name => {
                    if let Some(name) = name.strip_prefix(INPUTS) {
                        inputs.push(InputFile { name: name.to_owned(), bytes: bytes.into() });
                    }
                }
            }
        }
        let task = Task {
            language: before.language,
            max_attempts: before.max_attempts,
            candidates: before.candidates,
            tests,
            expect: before.expect.as_deref().map(str::parse::<Expect>).transpose()?,
            inputs,
            wants_files: true,
            ..Task::new(task.ok_or_else(|| lost("the task"))?)
        };
        let CodeInput { session, out, save, settings, .. } = before.clone();
        let (limits, image) = (settings.limits, settings.image);
        Ok(CodePlan { task, limits, image, session, out, save, before: Some(before) })
    }

    /// What the run is to be run with: as before, where there was a before.
    pub fn input(
        &self,
        origin: &Origin,
        providers: &Providers,
        gateway: &Gateway,
    ) -> Result<CodeInput, Failure> {
        if let (Some(run), Some(before)) = (origin.resumed(), &self.before) {
            let run = format!("`{}`", run.id);
            providers.refuse_another_model(&run, before.settings.model(), gateway)?;
            return Ok(before.clone());
        }
        let config = &providers.settings;
        let sandbox = (self.limits.clone(), self.image.clone());
        Ok(CodeInput {
            language: self.task.language,
            max_attempts: self.task.max_attempts,
            candidates: self.task.candidates,
            expect: self.task.expect.as_ref().map(ToString::to_string),
            out: self.out.clone(),
            save: self.save.clone(),
            session: self.session.clone(),
            packages: packages::allowed(&config.packages.allow),
            settings: RunSettings::new(config, sandbox, gateway.name()),
        })
    }

    pub fn new_run(&self, input: &CodeInput) -> NewRun {
        let mut artifacts = vec![(TASK.to_owned(), self.task.task.clone().into_bytes())];
        artifacts.extend(self.task.tests.clone().map(|text| (TESTS.to_owned(), text.into_bytes())));
        artifacts.extend(self.task.inputs.iter().map(|InputFile { name, bytes }| {
            (format!("{INPUTS}{name}"), Arc::clone(bytes).to_vec())
        }));
        NewRun {
            kind: RunKind::Code,
            title: title(&self.task.task),
            parent: None,
            input: json!(input),
            artifacts,
            once: None,
        }
    }
}

/// Refuses files that have no place in a sandbox.
pub fn check_inputs(inputs: &[InputFile], limits: &Limits) -> Result<(), Failure> {
    check_names(inputs.iter().map(|input| input.name.as_str()))?;
    let mut room = limits.disk;
    for InputFile { bytes, .. } in inputs {
        room = room.checked_sub(bytes.len() as u64).ok_or_else(|| {
            usage(format!("the files do not fit: the sandbox has room for {} bytes", limits.disk))
        })?;
    }
    Ok(())
}

/// Refuses files that cannot be in one folder together.
pub fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
    let mut known = BTreeSet::new();
    for name in names {
        if !is_plain(name) {
            let name = harmless(name);
            return Err(usage(format!("`{name}` is a name that no file here can have")));
        }
        if !known.insert(name) {
            return Err(usage(format!("two files are called `{name}`")));
        }
    }
    for name in &known {
        let above = name.match_indices('/').map(|(at, _)| &name[..at]);
        if let Some(file) = above.into_iter().find(|folder| known.contains(folder)) {
            return Err(usage(format!("`{file}` is a file, and `{name}` would be below it")));
        }
    }
    Ok(())
}

/// Whether a file can have this name below the working folder.
fn is_plain(name: &str) -> bool {
    name.len() <= 200
        && !name.chars().any(char::is_control)
        && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// The first line of a task that says something.
fn title(task: &str) -> String {
    let line = task.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("a task");
    shorten(&harmless(&line.replace('\t', " ")), 80)
}
