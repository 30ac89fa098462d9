//! What is to be tried: a new task, or a run that goes on.

use std::path::PathBuf;
use std::sync::Arc;

use assize_code::{Expect, InputFile, Task, UnknownExpectation, packages};
use assize_gateway::Gateway;
use assize_llm::Request;
use assize_sandbox::{Language, Limits};
use assize_store::{NewRun, Run, Store};
use assize_types::Cancel;
use assize_types::text::shorten;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::args::RunArgs;
use crate::config::{Config, Surroundings};
use crate::failure::{Failure, FailureKind};
use crate::{artifacts, exec, input, kept, terminal, walls};

/// The longest task and the longest file of tests, in MiB: more would fit no model.
const LONGEST: u64 = 1;

/// The names of what is kept beside a run.
const TASK: &str = "task.txt";
const TESTS: &str = "tests";
const INPUTS: &str = "input/";

/// What a run needs to be run again; what is large is kept beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Input {
    pub(super) language: Language,
    pub(super) max_attempts: u32,
    pub(super) candidates: u32,
    pub(super) expect: Option<String>,
    /// Where the files that the program leaves are wanted, and the program itself.
    pub(super) out: Option<PathBuf>,
    pub(super) save: Option<PathBuf>,
    pub(super) session: Option<String>,
    pub(super) limits: Limits,
    pub(super) image: Option<String>,
    pub(super) temperature: f64,
    pub(super) max_output_tokens: u32,
    /// The packages that programs may ask for.
    pub(super) packages: Vec<String>,
    pub(super) provider: String,
    pub(super) model: String,
}

/// A trial that is about to begin, or to go on.
pub(super) struct Plan {
    pub(super) task: Task,
    limits: Limits,
    /// What was asked for before, where this is not the first time.
    before: Option<Input>,
    /// The run to go on with.
    pub(super) resumed: Option<Run>,
}

fn usage(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Usage, message)
}

impl From<UnknownExpectation> for Failure {
    fn from(error: UnknownExpectation) -> Failure {
        usage(error.to_string()).hint("without the slashes it is taken as plain text")
    }
}

impl Plan {
    /// A new task.
    pub(super) async fn fresh(
        args: &RunArgs,
        config: &Config,
        around: &Surroundings,
        cancel: &Cancel,
    ) -> Result<Plan, Failure> {
        let limits = walls::spec(&args.sandbox, config)?.limits;
        let task = match args.task.as_deref() {
            Some("-") => input::from_standard_input("the task", LONGEST, cancel).await?,
            Some(task) if is_file(task) => {
                let message = format!("`{task}` is a file, not a task");
                let hint = format!(
                    "`assize run - < {task}` reads the task from it; `assize exec {task}` runs it"
                );
                return Err(usage(message).hint(hint));
            }
            Some(task) => input::checked("the task", LONGEST, task)?,
            None => return Err(usage("there is no task")),
        };
        let tests = match &args.tests {
            Some(path) => Some(input::from_file("the file of tests", LONGEST, path)?),
            None => None,
        };
        if args.expect.as_deref() == Some("") {
            return Err(usage("`--expect` is empty, which any output would fit"));
        }
        let expect = args.expect.as_deref().map(str::parse::<Expect>).transpose()?;
        let mut inputs = Vec::new();
        let mut room = limits.disk;
        for file in exec::inputs(&args.files, around)? {
            let bytes = artifacts::read(&file.path, room)?;
            room = room.saturating_sub(bytes.len() as u64);
            inputs.push(InputFile { name: file.name, bytes: bytes.into() });
        }
        let task = Task {
            language: exec::language_named(&args.language)?,
            max_attempts: args.max_attempts,
            candidates: args.candidates,
            tests,
            expect,
            inputs,
            wants_files: true,
            ..Task::new(task)
        };
        Ok(Plan { task, limits, before: None, resumed: None })
    }

    /// A run that goes on.
    pub(super) async fn resumed(args: &RunArgs, store: &dyn Store) -> Result<Plan, Failure> {
        let run = kept::to_go_on(store, &args.again, "run").await?;
        let lost = |what: &str| {
            let message = format!("{what} of `{}` cannot be read", run.id);
            Failure::new(FailureKind::Environment, message).hint("start it again: `assize run`")
        };
        let before: Input =
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
        let limits = before.limits.clone();
        Ok(Plan { task, limits, before: Some(before), resumed: Some(run) })
    }

    /// What the run is to be run with: as before, where there was a before.
    pub(super) fn input(
        &self,
        args: &RunArgs,
        config: &Config,
        gateway: &Gateway,
    ) -> Result<Input, Failure> {
        let (provider, model) = gateway.name();
        if let (Some(run), Some(before)) = (&self.resumed, &self.before) {
            let answered = (before.provider.as_str(), before.model.as_str());
            kept::refuse_another_model(&format!("`{}`", run.id), answered, gateway, &args.model)?;
            return Ok(before.clone());
        }
        let temperature = config.decimal("temperature");
        let longest = config.whole("max_output_tokens");
        Ok(Input {
            language: self.task.language,
            max_attempts: self.task.max_attempts,
            candidates: self.task.candidates,
            expect: self.task.expect.as_ref().map(ToString::to_string),
            // Where they are named, by whoever knows this time.
            out: None,
            save: None,
            session: args.session.clone(),
            limits: self.limits.clone(),
            image: args.sandbox.image.clone(),
            temperature: temperature.unwrap_or_else(|| Request::TEMPERATURE.into()),
            max_output_tokens: longest.map_or(Request::MAX_TOKENS, |n| n as u32),
            packages: packages::allowed(config.text("packages.allow").unwrap_or_default()),
            provider: provider.to_owned(),
            model: model.to_owned(),
        })
    }

    pub(super) fn new_run(&self, input: &Input) -> NewRun {
        let mut artifacts = vec![(TASK.to_owned(), self.task.task.clone().into_bytes())];
        artifacts.extend(self.task.tests.clone().map(|text| (TESTS.to_owned(), text.into_bytes())));
        artifacts.extend(self.task.inputs.iter().map(|InputFile { name, bytes }| {
            (format!("{INPUTS}{name}"), Arc::clone(bytes).to_vec())
        }));
        NewRun {
            kind: "run".to_owned(),
            title: title(&self.task.task),
            parent: None,
            input: json!(input),
            artifacts,
        }
    }
}

/// Whether a task is nothing but the name of a file that is there.
fn is_file(task: &str) -> bool {
    !task.contains(char::is_whitespace) && std::path::Path::new(task).is_file()
}

/// The first line of a task that says something.
fn title(task: &str) -> String {
    let line = task.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("a task");
    shorten(&terminal::harmless(&line.replace('\t', " ")), 80)
}
