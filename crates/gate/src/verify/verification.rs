//! Runs the verification commands on a change, and checks whether the results of the tests are reliable.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use assize_types::Fingerprint;
use assize_workspace::Workspace;

use super::canary::{self, TestSources};
use super::command::{self, TestCommand};
use super::copy::{CopyOptions, WorkspaceCopy};
use super::missing_tool::missing_tool;
use super::report::{self, ReportedTest, RunnerReport};
use super::runner::{REPORT, TestRunner};
use super::verifier::{
    CommandOutcome, NamedEnvironment, Verifier, VerifyError, VerifyJob, VerifyResult,
};
use crate::contract::VerifyCommand;
use crate::diff::Diff;
use crate::globs::Globs;
use crate::policy::Policy;
use crate::reason::{Reason, ReasonEffect};

/// Maximum number of bytes of a command's output that are kept, from the end of the output.
const MAX_OUTPUT: usize = 8 << 10;

/// Maximum size of a test file that gets a canary test, in bytes.
const MAX_TEST_FILE: u64 = 4 << 20;

/// A file that the verified change modifies or creates.
#[derive(Debug, Clone)]
pub struct ChangedFile {
    pub path: String,
    /// Content of the file before the change; empty for a new file.
    pub before: Vec<u8>,
    pub after: Vec<u8>,
}

/// Runs the verification commands for changes to one workspace.
#[derive(Debug)]
pub struct Verification {
    workspace: PathBuf,
    /// Folder in which copies of the workspace are created.
    scratch: PathBuf,
    verifier: Option<Arc<dyn Verifier>>,
    /// Cached test reports of unchanged workspaces, by a fingerprint of the command and all files.
    baselines: Mutex<HashMap<Fingerprint, Arc<RunnerReport>>>,
}

/// Result of one verification command, and the reason why the result is not reliable (`None` if the result is
/// reliable).
type Judged = (VerifyResult, Option<String>);

/// Verification of one change with one verification command.
struct CommandRun<'a> {
    service: &'a Verification,
    /// Name prefix of the workspace copies for this verification.
    copy_name: String,
    files: &'a [ChangedFile],
    how: &'a VerifyCommand,
    policy: &'a Policy,
    python: Option<NamedEnvironment>,
    verifier: Arc<dyn Verifier>,
}

impl Verification {
    pub fn new(
        workspace: &Path,
        scratch: &Path,
        verifier: Option<Arc<dyn Verifier>>,
    ) -> Verification {
        let (workspace, scratch) = (workspace.to_owned(), scratch.to_owned());
        Verification { workspace, scratch, verifier, baselines: Mutex::default() }
    }

    fn baselines(&self) -> MutexGuard<'_, HashMap<Fingerprint, Arc<RunnerReport>>> {
        self.baselines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the verification commands of the policy, one after the other, until a command fails or has an unreliable
    /// result. If a command cannot be run, this method adds a reason and runs the next command. Returns the reasons
    /// against the change and the result of the last command that was run. The names of the workspace copies begin with
    /// `verify-{submission}-`.
    pub async fn run(
        &self,
        submission: u64,
        files: &[ChangedFile],
        policy: &Policy,
    ) -> (Vec<Reason>, Option<VerifyResult>) {
        let first = files.first().map_or("", |file| file.path.as_str());
        let escalate = |message| Reason::of_file(first, ReasonEffect::Escalate, "verify", message);
        let (mut reasons, mut verified) = (Vec::new(), None);
        for how in &policy.verify {
            match self.run_one(submission, files, how, policy).await {
                Ok((done, Some(why))) => {
                    reasons.push(escalate(format!(
                        "the verification command `{}` exited with 0, but {why}",
                        done.command
                    )));
                    return (reasons, Some(done));
                }
                Ok((done, None)) if done.passed => verified = Some(done),
                Ok((done, None)) => {
                    reasons.push(match missing_tool(&done.output, &added_lines(files)) {
                        None => failed(first, &done),
                        Some(tool) => escalate(format!(
                            "the verification command `{}` could not run: `{tool}` is missing in \
                             the sandbox",
                            done.command
                        )),
                    });
                    return (reasons, Some(done));
                }
                Err(VerifyError(why)) => {
                    reasons.push(escalate(format!("the change could not be verified: {why}")));
                }
            }
        }
        (reasons, verified)
    }

    /// Runs one verification command, if the settings allow the memory, the time and the host folders that the command
    /// needs.
    async fn run_one(
        &self,
        submission: u64,
        files: &[ChangedFile],
        how: &VerifyCommand,
        policy: &Policy,
    ) -> Result<Judged, VerifyError> {
        let most = &policy.verify_most;
        let over = |what: &str, needs: u64, most: u64, setting: &str| {
            VerifyError(format!(
                "the verification command needs {needs} {what}, but the setting `{setting}` \
                 allows only {most}"
            ))
        };
        if how.memory_mb > most.memory_mb {
            let setting = "draft.verify_memory";
            return Err(over("megabytes of memory", how.memory_mb, most.memory_mb, setting));
        }
        if how.seconds > most.seconds {
            return Err(over("seconds", how.seconds, most.seconds, "draft.verify_seconds"));
        }
        if let Some(layer) = how.layers.iter().find(|layer| !most.layers.contains(layer)) {
            return Err(VerifyError(format!(
                "the verification command needs the host folder `{layer}`, which the setting \
                 `draft.verify_layers` does not allow"
            )));
        }
        if let Some(layer) = how.layers.iter().find(|layer| !Path::new(layer).is_dir()) {
            return Err(VerifyError(format!(
                "the verification command needs the host folder `{layer}`, which does not exist"
            )));
        }
        let python = self.python(how, policy)?;
        let verifier = self.verifier.clone();
        let no_sandbox = || VerifyError("no sandbox is available for the command".to_owned());
        let verifier = verifier.ok_or_else(no_sandbox)?;
        let copy_name = format!("verify-{submission}-");
        let run = CommandRun { service: self, copy_name, files, how, policy, python, verifier };
        run.judge().await
    }

    /// Returns the Python virtual environment of a verification command. A contract can specify a virtual environment
    /// in the workspace, or one that the settings allow. A relative path in the settings is ignored in workspaces that
    /// do not have this folder, because the settings apply to all workspaces.
    fn python(
        &self,
        how: &VerifyCommand,
        policy: &Policy,
    ) -> Result<Option<NamedEnvironment>, VerifyError> {
        let most = &policy.verify_most;
        let full = |path: &str| self.workspace.join(path);
        let applies = |path: &&String| Path::new(path).is_absolute() || full(path).exists();
        let setting = most.python.as_ref().filter(applies);
        let Some(named) = how.python.as_ref().or(setting) else { return Ok(None) };
        let folder = full(named).canonicalize().map_err(|error| {
            VerifyError(format!("the virtual environment `{named}` cannot be used: {error}"))
        })?;
        let allowed =
            most.python.iter().chain(&most.layers).filter_map(|p| full(p).canonicalize().ok());
        let inside = self.workspace.canonicalize().is_ok_and(|root| folder.starts_with(root));
        if self.workspace.canonicalize().is_ok_and(|root| root.starts_with(&folder)) {
            return Err(VerifyError(format!(
                "the virtual environment `{named}` cannot be used: its folder contains the \
                 workspace, including files that are hidden from agents"
            )));
        }
        if !inside && !allowed.into_iter().any(|allowed| folder.starts_with(allowed)) {
            return Err(VerifyError(format!(
                "the virtual environment `{named}` is outside the workspace, and the setting \
                 `draft.verify_python` does not allow it"
            )));
        }
        let by_settings = setting
            .and_then(|path| full(path).canonicalize().ok())
            .is_some_and(|path| path == folder);
        Ok(Some(NamedEnvironment { path: folder, by_settings }))
    }
}

impl CommandRun<'_> {
    /// Runs the command and judges whether its result is reliable. The tests of a known test runner are run again with
    /// canary tests, and are compared with the tests of the unchanged workspace.
    async fn judge(&self) -> Result<Judged, VerifyError> {
        let drafts = self.files.iter().map(|file| (file.path.clone(), file.after.clone()));
        let mut drafts: BTreeMap<String, Vec<u8>> = drafts.collect();
        let copied = self.copy(drafts.clone()).await?;
        let copy = copied.folder.path();
        let changed = Workspace::open(copy).map_err(|error| not_copied(&error))?;
        let file = |path: &str| text_of(&changed, path);
        let Some(tests) = TestCommand::recognise(&self.how.command, &file) else {
            let ran = self.run(copy, self.how.command.clone(), Vec::new(), None).await?;
            let evidence = "only the exit code was checked, because the command is not a supported \
                            call of a known test runner";
            return Ok((self.verified(&ran, evidence), None));
        };
        let (ran, report) = self.run_tests(copy, &tests).await?;
        if !ran.passed {
            return Ok((self.verified(&ran, "the tests failed"), None));
        }
        let unreliable = self.verified(&ran, "the test result is not reliable");
        let doubted = |why: &str| (unreliable, Some(why.to_owned()));
        let Some(report) = report else {
            return Ok(doubted("the test report is missing or incomplete"));
        };
        if let Some(test) = report.failed() {
            let name = assize_types::text::shorten(&test.name, 200);
            return Ok(doubted(&format!("the test report lists the test `{name}` as failed")));
        }
        if report.executed() == 0 {
            return Ok(doubted("no test was run"));
        }
        let before = self.report_before(&tests).await?;
        let walk = changed.walk(usize::MAX, &|_, _| true).map_err(|error| not_copied(&error))?;
        let files = walk.files.iter().map(|(path, _)| path.to_string());
        let sources = TestSources::new(tests.runner, files, &file);
        let canaries = canary::canaries(&report, &sources, &mut fastrand::Rng::new());
        if canaries.is_empty() {
            return Ok(doubted("no canary test could be added"));
        }
        for canary in &canaries {
            let text = file(&canary.file).unwrap_or_default();
            drafts.insert(canary.file.clone(), format!("{text}{}", canary.code).into_bytes());
        }
        let with_canaries = self.copy(drafts).await?;
        let (_, second) = self.run_tests(with_canaries.folder.path(), &tests).await?;
        let changed: BTreeSet<&str> = self.files.iter().map(|file| file.path.as_str()).collect();
        let is_unchanged = |test: &ReportedTest| {
            let file = sources.group_by_file([test]).into_keys().next();
            file.is_some_and(|file| !changed.contains(file.as_str()))
        };
        if let Some(why) =
            canary::unreliable_reason(&canaries, second.as_ref(), &before, &is_unchanged)
        {
            return Ok(doubted(&why));
        }
        let evidence = format!(
            "executed tests: {}; canary tests that failed as required: {}; code and tests ran in \
             the same process",
            report.executed(),
            canaries.len()
        );
        // If the drafts are accepted, the changed workspace is the baseline of the next change.
        self.service.baselines().insert(self.baseline(&copied.fingerprint), Arc::new(report));
        Ok((self.verified(&ran, &evidence), None))
    }

    /// Returns the options for a copy of the workspace in which the files in `drafts` have the given contents.
    fn copying(&self, drafts: BTreeMap<String, Vec<u8>>) -> Result<CopyOptions, VerifyError> {
        let mut exclude = self.how.exclude.clone();
        // Node.js programs need their packages in `node_modules`, so the default patterns must not exclude this folder.
        if command::needs_node_packages(&self.how.command)
            && exclude == VerifyCommand::usual_exclude()
        {
            exclude.retain(|pattern| pattern != VerifyCommand::NODE_MODULES);
        }
        Ok(CopyOptions {
            exclude: Globs::new(&exclude).map_err(|error| not_copied(&error))?,
            workspace: self.service.workspace.clone(),
            beside: self.service.scratch.clone(),
            name: self.copy_name.clone(),
            max_bytes: self.how.memory_mb << 20,
            places: self.policy.path_rules().map_err(|error| not_copied(&error))?,
            drafts,
        })
    }

    /// Copies the workspace. In the copy, the files in `drafts` have the given contents.
    async fn copy(&self, drafts: BTreeMap<String, Vec<u8>>) -> Result<WorkspaceCopy, VerifyError> {
        let copying = self.copying(drafts)?;
        // Copying many files on the current thread would block the async runtime.
        let copied = tokio::task::spawn_blocking(move || copying.copy()).await;
        copied.map_err(|error| not_copied(&error))?
    }

    async fn run(
        &self,
        copy: &Path,
        command: String,
        files: Vec<(String, &'static str)>,
        report: Option<String>,
    ) -> Result<CommandOutcome, VerifyError> {
        let python = self.python.as_ref();
        self.verifier
            .run(VerifyJob { verify_command: self.how, python, copy, command, files, report })
            .await
    }

    /// Runs a test command so that it reports all tests. Returns the outcome of the command, and the parsed report
    /// (`None` if the report is missing or invalid).
    async fn run_tests(
        &self,
        copy: &Path,
        tests: &TestCommand,
    ) -> Result<(CommandOutcome, Option<RunnerReport>), VerifyError> {
        // The name of the folder is random, so that the code under test cannot know it in advance.
        let folder = format!("/tmp/{:016x}", fastrand::u64(..));
        let (runner, command) = (tests.runner, tests.with_report(&folder));
        // If there is no helper file, an empty report is written, because not every runner creates the folder.
        let (name, text) = runner.helper().unwrap_or((REPORT, ""));
        let files = vec![(format!("{folder}/{name}"), text)];
        let mut ran = self.run(copy, command, files, Some(format!("{folder}/{REPORT}"))).await?;
        // Cargo prints its report to the output; the other runners write a file.
        let prints = runner == TestRunner::Cargo;
        let report = if prints { Some(&ran.captured_output) } else { ran.report.as_ref() };
        let report = report.and_then(|bytes| RunnerReport::read(runner, bytes));
        ran.captured_output = report::readable(runner, ran.captured_output, ran.report.as_deref());
        Ok((ran, report))
    }

    /// Returns the test report of the unchanged workspace, from the cache or from a run of its tests.
    async fn report_before(&self, tests: &TestCommand) -> Result<Arc<RunnerReport>, VerifyError> {
        let copying = self.copying(BTreeMap::new())?;
        let unchanged = tokio::task::spawn_blocking(move || copying.fingerprint()).await;
        let unchanged = unchanged.map_err(|error| not_copied(&error))??;
        if let Some(known) = self.service.baselines().get(&self.baseline(&unchanged)) {
            return Ok(Arc::clone(known));
        }
        let copy = self.copy(BTreeMap::new()).await?;
        // A missing report counts as a report without tests: the change may add the first tests of the workspace.
        let (_, report) = self.run_tests(copy.folder.path(), tests).await?;
        let report = Arc::new(report.unwrap_or_default());
        self.service.baselines().insert(self.baseline(&copy.fingerprint), Arc::clone(&report));
        Ok(report)
    }

    /// Key of the baseline cache: a fingerprint of the command and all files of a workspace copy.
    fn baseline(&self, copy: &Fingerprint) -> Fingerprint {
        Fingerprint::of(format!("{:?}\n{copy}", self.how))
    }

    fn verified(&self, ran: &CommandOutcome, evidence: &str) -> VerifyResult {
        let start = ran.captured_output.len().saturating_sub(MAX_OUTPUT);
        VerifyResult {
            command: self.how.command.clone(),
            passed: ran.passed,
            outcome: ran.outcome.clone(),
            output: String::from_utf8_lossy(&ran.captured_output[start..]).into_owned(),
            isolation: ran.isolation.clone(),
            seconds: ran.seconds,
            evidence: evidence.to_owned(),
        }
    }
}

fn not_copied(error: &dyn std::fmt::Display) -> VerifyError {
    VerifyError(format!("the workspace could not be copied: {error}"))
}

/// Reads a file of the workspace copy as text; `None` if the file is missing, too large or not UTF-8.
fn text_of(workspace: &Workspace, file: &str) -> Option<String> {
    let path = workspace.parse_path(file).ok()?;
    String::from_utf8(workspace.read(&path, MAX_TEST_FILE).ok()?.bytes).ok()
}

/// Returns all lines that a change adds, as one text.
fn added_lines(files: &[ChangedFile]) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let added = |file: &ChangedFile| Diff::between(&text(&file.before), &text(&file.after)).added;
    files.iter().flat_map(added).map(|(_, line)| line + "\n").collect()
}

/// Creates the reason that reports a failed verification command and the end of its output.
fn failed(file: &str, done: &VerifyResult) -> Reason {
    let end: Vec<&str> = done.output.lines().rev().take(20).collect();
    let end: Vec<&str> = end.into_iter().rev().collect();
    let VerifyResult { command, outcome, .. } = done;
    let output = end.join("\n");
    let message = format!("the verification command `{command}` failed: {outcome}\n{output}");
    Reason::of_file(file, ReasonEffect::Reject, "verify", message)
        .with_advice("fix the failing check")
}
