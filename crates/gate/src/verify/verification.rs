//! Whether a change passes the project's own tests, and whether their result can be relied on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use assize_types::Fingerprint;
use assize_workspace::Workspace;

use super::canary::{self, Sources};
use super::command::{self, TestCommand};
use super::copy::{Copied, Copying};
use super::missing_tool::missing_tool;
use super::report::{self, Report, Test};
use super::runner::{REPORT, Runner};
use super::verifier::{Job, NamedEnvironment, NotVerified, Ran, Verified, Verifier};
use crate::contract::Verify;
use crate::diff::Diff;
use crate::globs::Globs;
use crate::policy::Policy;
use crate::reason::{Effect, Reason};

/// How much of the end of the output is kept.
const KEPT: usize = 8 << 10;

/// The largest file of tests that gets a canary.
const LARGEST_TEST: u64 = 4 << 20;

/// A file of a change that is verified.
#[derive(Debug, Clone)]
pub struct ChangedFile {
    pub path: String,
    /// Empty for a new file.
    pub before: Vec<u8>,
    pub after: Vec<u8>,
}

/// Runs the verifications of one workspace.
#[derive(Debug)]
pub struct Verification {
    workspace: PathBuf,
    /// Where copies of the workspace are made.
    scratch: PathBuf,
    verifier: Option<Arc<dyn Verifier>>,
    /// Reports of the tests on unchanged workspaces, by command and files.
    baselines: Mutex<HashMap<Fingerprint, Arc<Report>>>,
}

/// The result of one command, and what makes it doubtful.
type Judged = (Verified, Option<String>);

/// One command that a change must pass.
struct CommandRun<'a> {
    service: &'a Verification,
    /// What the name of each copy begins with.
    copy_name: String,
    files: &'a [ChangedFile],
    how: &'a Verify,
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

    fn baselines(&self) -> MutexGuard<'_, HashMap<Fingerprint, Arc<Report>>> {
        self.baselines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs every command of the policy until one fails; gives the reasons against the change, and the last result.
    /// Names of copies begin with `verify-{submission}-`.
    pub async fn run(
        &self,
        submission: u64,
        files: &[ChangedFile],
        policy: &Policy,
    ) -> (Vec<Reason>, Option<Verified>) {
        let first = files.first().map_or("", |file| file.path.as_str());
        let escalate = |message| Reason::of_file(first, Effect::Escalate, "verify", message);
        let (mut reasons, mut verified) = (Vec::new(), None);
        for how in &policy.verify {
            match self.run_one(submission, files, how, policy).await {
                Ok((done, Some(why))) => {
                    reasons.push(escalate(format!("`{}` exited with 0, but {why}", done.command)));
                    return (reasons, Some(done));
                }
                Ok((done, None)) if done.passed => verified = Some(done),
                Ok((done, None)) => {
                    reasons.push(match missing_tool(&done.output, &added_lines(files)) {
                        None => failed(first, &done),
                        Some(tool) => escalate(format!(
                            "`{}` could not be run: `{tool}` is missing in the sandbox",
                            done.command
                        )),
                    });
                    return (reasons, Some(done));
                }
                Err(NotVerified(why)) => {
                    reasons.push(escalate(format!("it could not be verified: {why}")));
                }
            }
        }
        (reasons, verified)
    }

    /// Runs one command that the contract or the settings ask for.
    async fn run_one(
        &self,
        submission: u64,
        files: &[ChangedFile],
        how: &Verify,
        policy: &Policy,
    ) -> Result<Judged, NotVerified> {
        let most = &policy.verify_most;
        let over = |what: &str, needs: u64, most: u64, setting: &str| {
            NotVerified(format!(
                "it needs {needs} {what}, and {most} are allowed (setting `{setting}`)"
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
            return Err(NotVerified(format!(
                "it needs to see `{layer}`, which is not allowed (setting `draft.verify_layers`)"
            )));
        }
        if let Some(layer) = how.layers.iter().find(|layer| !Path::new(layer).is_dir()) {
            return Err(NotVerified(format!("it needs the folder `{layer}`, which is not there")));
        }
        let python = self.python(how, policy)?;
        let verifier = self.verifier.clone();
        let verifier =
            verifier.ok_or_else(|| NotVerified("there is no sandbox here".to_owned()))?;
        let copy_name = format!("verify-{submission}-");
        let run = CommandRun { service: self, copy_name, files, how, policy, python, verifier };
        run.judge().await
    }

    /// The virtual environment of a verification. A contract may name one in the workspace, or one that the settings
    /// name. The settings hold for all workspaces: a relative path in them means nothing in one without such a folder.
    fn python(
        &self,
        how: &Verify,
        policy: &Policy,
    ) -> Result<Option<NamedEnvironment>, NotVerified> {
        let most = &policy.verify_most;
        let full = |path: &str| self.workspace.join(path);
        let applies = |path: &&String| Path::new(path).is_absolute() || full(path).exists();
        let setting = most.python.as_ref().filter(applies);
        let Some(named) = how.python.as_ref().or(setting) else { return Ok(None) };
        let folder = full(named).canonicalize().map_err(|error| {
            NotVerified(format!("it needs the virtual environment `{named}`: {error}"))
        })?;
        let allowed =
            most.python.iter().chain(&most.layers).filter_map(|p| full(p).canonicalize().ok());
        let inside = self.workspace.canonicalize().is_ok_and(|root| folder.starts_with(root));
        if self.workspace.canonicalize().is_ok_and(|root| root.starts_with(&folder)) {
            return Err(NotVerified(format!(
                "the virtual environment `{named}` contains the workspace, and so files that no worker may see"
            )));
        }
        if !inside && !allowed.into_iter().any(|allowed| folder.starts_with(allowed)) {
            return Err(NotVerified(format!(
                "it needs the virtual environment `{named}`, which is outside the workspace and not allowed \
                 (setting `draft.verify_python`)"
            )));
        }
        let by_settings = setting
            .and_then(|path| full(path).canonicalize().ok())
            .is_some_and(|path| path == folder);
        Ok(Some(NamedEnvironment { path: folder, by_settings }))
    }
}

impl CommandRun<'_> {
    /// Runs the command. A known test runner is then run once more with canary tests, and its tests are compared with
    /// those of the unchanged workspace.
    async fn judge(&self) -> Result<Judged, NotVerified> {
        let drafts = self.files.iter().map(|file| (file.path.clone(), file.after.clone()));
        let mut drafts: BTreeMap<String, Vec<u8>> = drafts.collect();
        let copied = self.copy(drafts.clone()).await?;
        let copy = copied.folder.path();
        let changed = Workspace::open(copy).map_err(|error| not_copied(&error))?;
        let file = |path: &str| text_of(&changed, path);
        let Some(tests) = TestCommand::recognise(&self.how.command, &file) else {
            let ran = self.run(copy, self.how.command.clone(), Vec::new(), None).await?;
            let evidence = "only the exit code was seen: the command is not a known test runner";
            return Ok((self.verified(&ran, evidence), None));
        };
        let (ran, report) = self.run_tests(copy, &tests).await?;
        if !ran.passed {
            return Ok((self.verified(&ran, "the tests failed"), None));
        }
        let unreliable = self.verified(&ran, "the result of the tests is not reliable");
        let doubted = |why: &str| (unreliable, Some(why.to_owned()));
        let Some(report) = report else {
            return Ok(doubted("the tests left no complete report"));
        };
        if let Some(test) = report.failed() {
            let name = assize_types::text::shorten(&test.name, 200);
            return Ok(doubted(&format!("its report says that `{name}` failed")));
        }
        if report.executed() == 0 {
            return Ok(doubted("no test was run"));
        }
        let before = self.report_before(&tests).await?;
        let walk = changed.walk(usize::MAX, &|_, _| true).map_err(|error| not_copied(&error))?;
        let files = walk.files.iter().map(|(path, _)| path.to_string());
        let sources = Sources::new(tests.runner, files, &file);
        let canaries = canary::canaries(&report, &sources, &mut fastrand::Rng::new());
        if canaries.is_empty() {
            return Ok(doubted("no test could be added that must fail"));
        }
        for canary in &canaries {
            let text = file(&canary.file).unwrap_or_default();
            drafts.insert(canary.file.clone(), format!("{text}{}", canary.code).into_bytes());
        }
        let with_canaries = self.copy(drafts).await?;
        let (_, second) = self.run_tests(with_canaries.folder.path(), &tests).await?;
        let changed: BTreeSet<&str> = self.files.iter().map(|file| file.path.as_str()).collect();
        let is_unchanged = |test: &Test| {
            let file = sources.of([test]).into_keys().next();
            file.is_some_and(|file| !changed.contains(file.as_str()))
        };
        if let Some(why) = canary::doubt(&canaries, second.as_ref(), &before, &is_unchanged) {
            return Ok(doubted(&why));
        }
        let evidence = format!(
            "tests run: {}; tests added that must fail, and did: {}; code and tests shared a process",
            report.executed(),
            canaries.len()
        );
        // It becomes the unchanged workspace if its drafts are accepted.
        self.service.baselines().insert(self.baseline(&copied.fingerprint), Arc::new(report));
        Ok((self.verified(&ran, &evidence), None))
    }

    /// How the workspace is copied, with other content for some files.
    fn copying(&self, drafts: BTreeMap<String, Vec<u8>>) -> Result<Copying, NotVerified> {
        let mut exclude = self.how.exclude.clone();
        // Programs of Node.js find their packages there.
        if command::is_of_node(&self.how.command) && exclude == Verify::usual_exclude() {
            exclude.retain(|pattern| pattern != Verify::NODE_MODULES);
        }
        Ok(Copying {
            exclude: Globs::new(&exclude).map_err(|error| not_copied(&error))?,
            workspace: self.service.workspace.clone(),
            beside: self.service.scratch.clone(),
            name: self.copy_name.clone(),
            room: self.how.memory_mb << 20,
            places: self.policy.places().map_err(|error| not_copied(&error))?,
            drafts,
        })
    }

    /// A copy of the workspace with other content for some files.
    async fn copy(&self, drafts: BTreeMap<String, Vec<u8>>) -> Result<Copied, NotVerified> {
        let copying = self.copying(drafts)?;
        // Many files may have to be copied.
        let copied = tokio::task::spawn_blocking(move || copying.copy()).await;
        copied.map_err(|error| not_copied(&error))?
    }

    async fn run(
        &self,
        copy: &Path,
        command: String,
        files: Vec<(String, &'static str)>,
        report: Option<String>,
    ) -> Result<Ran, NotVerified> {
        let python = self.python.as_ref();
        self.verifier.run(Job { how: self.how, python, copy, command, files, report }).await
    }

    /// Runs a test command with a report of all its tests.
    async fn run_tests(
        &self,
        copy: &Path,
        tests: &TestCommand,
    ) -> Result<(Ran, Option<Report>), NotVerified> {
        // The code under test cannot know its name beforehand.
        let folder = format!("/tmp/{:016x}", fastrand::u64(..));
        let (runner, command) = (tests.runner, tests.with_report(&folder));
        // An empty report makes the folder, which not every runner does.
        let (name, text) = runner.helper().unwrap_or((REPORT, ""));
        let files = vec![(format!("{folder}/{name}"), text)];
        let mut ran = self.run(copy, command, files, Some(format!("{folder}/{REPORT}"))).await?;
        // It prints its report; the others write a file.
        let prints = runner == Runner::Cargo;
        let report = if prints { Some(&ran.printed) } else { ran.report.as_ref() };
        let report = report.and_then(|bytes| Report::read(runner, bytes));
        ran.printed = report::readable(runner, ran.printed, ran.report.as_deref());
        Ok((ran, report))
    }

    /// The tests that are run on the unchanged workspace.
    async fn report_before(&self, tests: &TestCommand) -> Result<Arc<Report>, NotVerified> {
        let copying = self.copying(BTreeMap::new())?;
        let unchanged = tokio::task::spawn_blocking(move || copying.fingerprint()).await;
        let unchanged = unchanged.map_err(|error| not_copied(&error))??;
        if let Some(known) = self.service.baselines().get(&self.baseline(&unchanged)) {
            return Ok(Arc::clone(known));
        }
        let copy = self.copy(BTreeMap::new()).await?;
        // Where it runs no tests at all, the change brings the first ones.
        let (_, report) = self.run_tests(copy.folder.path(), tests).await?;
        let report = Arc::new(report.unwrap_or_default());
        self.service.baselines().insert(self.baseline(&copy.fingerprint), Arc::clone(&report));
        Ok(report)
    }

    /// What stands for the command and all files of a copy.
    fn baseline(&self, copy: &Fingerprint) -> Fingerprint {
        Fingerprint::of(format!("{:?}\n{copy}", self.how))
    }

    fn verified(&self, ran: &Ran, evidence: &str) -> Verified {
        let start = ran.printed.len().saturating_sub(KEPT);
        Verified {
            command: self.how.command.clone(),
            passed: ran.passed,
            outcome: ran.outcome.clone(),
            output: String::from_utf8_lossy(&ran.printed[start..]).into_owned(),
            isolation: ran.isolation.clone(),
            seconds: ran.seconds,
            evidence: evidence.to_owned(),
        }
    }
}

fn not_copied(error: &dyn std::fmt::Display) -> NotVerified {
    NotVerified(format!("the workspace could not be copied: {error}"))
}

/// The text of a file of tests.
fn text_of(workspace: &Workspace, file: &str) -> Option<String> {
    let path = workspace.inside(file).ok()?;
    String::from_utf8(workspace.read(&path, LARGEST_TEST).ok()?.bytes).ok()
}

/// The lines that a change adds.
fn added_lines(files: &[ChangedFile]) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let added = |file: &ChangedFile| Diff::between(&text(&file.before), &text(&file.after)).added;
    files.iter().flat_map(added).map(|(_, line)| line + "\n").collect()
}

/// The reason of a failed command, with the end of its output.
fn failed(file: &str, done: &Verified) -> Reason {
    let end: Vec<&str> = done.output.lines().rev().take(20).collect();
    let end: Vec<&str> = end.into_iter().rev().collect();
    let message = format!("`{}` failed: {}\n{}", done.command, done.outcome, end.join("\n"));
    Reason::of_file(file, Effect::Reject, "verify", message).advise("mend what it complains about")
}
