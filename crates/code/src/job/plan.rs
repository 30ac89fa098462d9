//! Plan of a code run: a new run, or a stored run to resume.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use assize_config::SandboxLimits;
use assize_gateway::{Gateway, Providers};
use assize_run::{NewRun, Run, RunKind, RunOrigin, Store};
use assize_sandbox::{Language, RunSettings, SandboxFactory};
use assize_types::text::{replace_control_chars, shorten, validated_text};
use assize_types::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::packages;
use crate::{CodeTask, ExpectedOutput, InputFile, MAX_ATTEMPTS};

/// Maximum size of a task and of a test file, in MiB. Larger texts do not fit the context window of any model.
const MAX_TEXT_MIB: u64 = 1;

/// Name of the run artifact that contains the task.
const TASK: &str = "task.txt";

/// Name of the run artifact that contains the user's tests.
const TESTS: &str = "tests";

/// Name prefix of the run artifacts that contain the input files.
pub const INPUTS: &str = "input/";

/// Stored input of a code run; the run can be resumed from this input. Task, tests and input files are artifacts of the
/// run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CodeInput {
    pub language: Language,
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Number of programs that are written in parallel in each attempt.
    pub candidates: u32,
    /// Text that the output must contain. A text between slashes is a regular expression.
    pub expect: Option<String>,
    /// Folder that receives copies of the files created by the program.
    pub out: Option<PathBuf>,
    /// File in which the program is saved.
    pub save: Option<PathBuf>,
    /// Name of the session whose files the programs use.
    pub session: Option<String>,
    /// Names of the packages that programs may use.
    pub packages: Vec<String>,
    #[serde(flatten)]
    pub settings: RunSettings,
}

/// Request for a code run.
#[derive(Debug, Clone)]
pub struct CodeRequest {
    pub task: String,
    pub language: Language,
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Number of programs that are written in parallel in each attempt.
    pub candidates: u32,
    /// Source code of the user's tests.
    pub tests: Option<String>,
    /// Text that the output must contain. A text between slashes is a regular expression.
    pub expect: Option<String>,
    pub inputs: Vec<InputFile>,
    /// Name of the session whose files the programs use.
    pub session: Option<String>,
    /// Image of the sandboxes; the backend's default image if `None`.
    pub image: Option<String>,
    /// Folder that receives copies of the files created by the program.
    pub out: Option<PathBuf>,
    /// File in which the program is saved.
    pub save: Option<PathBuf>,
}

impl CodeRequest {
    /// Creates a request for a task with default options.
    pub fn new(task: String) -> CodeRequest {
        CodeRequest {
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

/// Plan of a code run to start or resume.
#[derive(Debug)]
pub struct CodePlan {
    pub task: CodeTask,
    limits: SandboxLimits,
    image: Option<String>,
    session: Option<String>,
    out: Option<PathBuf>,
    save: Option<PathBuf>,
    /// Stored input of the run, if the plan was loaded from a stored run.
    before: Option<CodeInput>,
}

fn usage(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Usage, message)
}

impl CodePlan {
    /// Plans a new run.
    pub fn fresh(ask: CodeRequest, sandboxes: &SandboxFactory) -> Result<CodePlan, Failure> {
        let limits = sandboxes.spec(None)?.limits;
        validated_text("the task", MAX_TEXT_MIB, &ask.task)?;
        if let Some(tests) = &ask.tests {
            validated_text("the test file", MAX_TEXT_MIB, tests)?;
        }
        if ask.expect.as_deref() == Some("") {
            return Err(usage("the expected text is empty and would match any output"));
        }
        let expect = ask.expect.as_deref().map(str::parse::<ExpectedOutput>).transpose()?;
        check_inputs(&ask.inputs, &limits)?;
        let task = CodeTask {
            language: ask.language,
            max_attempts: ask.max_attempts,
            candidates: ask.candidates,
            tests: ask.tests,
            expect,
            inputs: ask.inputs,
            collect_files: true,
            ..CodeTask::new(ask.task)
        };
        let CodeRequest { image, session, out, save, .. } = ask;
        Ok(CodePlan { task, limits, image, session, out, save, before: None })
    }

    /// Loads the plan of a stored code run.
    pub async fn restored(run: &Run, store: &dyn Store) -> Result<CodePlan, Failure> {
        let lost = |what: &str| {
            let message = format!("cannot read {what} of run `{}`", run.id);
            Failure::new(FailureKind::Environment, message)
                .hint("start a new run with `assize run`")
        };
        let before: CodeInput =
            serde_json::from_value(run.input.clone()).map_err(|_| lost("the settings"))?;
        let (mut task, mut tests, mut inputs) = (None, None, Vec::new());
        for artifact in store.artifacts(&run.id).await? {
            let bytes = store.artifact(artifact.id).await?;
            let text = |bytes: Vec<u8>, what| String::from_utf8(bytes).map_err(|_| lost(what));
            match artifact.name.as_str() {
                TASK => task = Some(text(bytes, "the task")?),
                TESTS => tests = Some(text(bytes, "the tests")?),
                name => {
                    if let Some(name) = name.strip_prefix(INPUTS) {
                        inputs.push(InputFile { name: name.to_owned(), bytes: bytes.into() });
                    }
                }
            }
        }
        let task = CodeTask {
            language: before.language,
            max_attempts: before.max_attempts,
            candidates: before.candidates,
            tests,
            expect: before.expect.as_deref().map(str::parse::<ExpectedOutput>).transpose()?,
            inputs,
            collect_files: true,
            ..CodeTask::new(task.ok_or_else(|| lost("the task"))?)
        };
        let CodeInput { session, out, save, settings, .. } = before.clone();
        let (limits, image) = (settings.limits, settings.image);
        Ok(CodePlan { task, limits, image, session, out, save, before: Some(before) })
    }

    /// Returns the input of the run: the stored input if the run is resumed, or a new input if the run is new.
    pub fn input(
        &self,
        origin: &RunOrigin,
        providers: &Providers,
        gateway: &Gateway,
    ) -> Result<CodeInput, Failure> {
        if let (Some(run), Some(before)) = (origin.resumed(), &self.before) {
            let run = format!("run `{}`", run.id);
            providers.check_same_model(&run, before.settings.model(), gateway)?;
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
            idempotency_key: None,
        }
    }
}

/// Checks that input files have valid names and fit the sandbox's disk limit.
pub fn check_inputs(inputs: &[InputFile], limits: &SandboxLimits) -> Result<(), Failure> {
    check_names(inputs.iter().map(|input| input.name.as_str()))?;
    let mut room = limits.disk;
    for InputFile { bytes, .. } in inputs {
        room = room.checked_sub(bytes.len() as u64).ok_or_else(|| {
            usage(format!("the input files exceed the sandbox's disk limit: {} bytes", limits.disk))
        })?;
    }
    Ok(())
}

/// Checks that file names are valid relative paths and unique, and that none of the files is also used as a folder.
pub fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
    let mut known = BTreeSet::new();
    for name in names {
        if !is_plain(name) {
            let name = replace_control_chars(name);
            return Err(usage(format!("invalid file name `{name}`")));
        }
        if !known.insert(name) {
            return Err(usage(format!("duplicate file name `{name}`")));
        }
    }
    for name in &known {
        let above = name.match_indices('/').map(|(at, _)| &name[..at]);
        if let Some(file) = above.into_iter().find(|folder| known.contains(folder)) {
            return Err(usage(format!("`{file}` is a file and cannot contain `{name}`")));
        }
    }
    Ok(())
}

/// Whether a name is a valid relative path below the working folder.
fn is_plain(name: &str) -> bool {
    name.len() <= 200
        && !name.chars().any(char::is_control)
        && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Returns the title of a run: the first non-empty line of its task, shortened.
fn title(task: &str) -> String {
    let line = task.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("a task");
    shorten(&replace_control_chars(&line.replace('\t', " ")), 80)
}
