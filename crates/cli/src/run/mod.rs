//! `assize run`: has a model write a program, and puts the program on trial in a sandbox.

pub(crate) mod progress;
pub(crate) mod show;
pub(crate) mod stored;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use assize_code::{CodeJob, CodePlan, CodeRequest, CodeVerdict, OutputFile};
use assize_config::{Environment, REHEARSAL_LABEL};
use assize_run::{CompletedRun, RunId, RunKind, RunOrigin, Signal, Store, Trial};
use assize_service::Services;
use assize_service::files::{self, CopiedOut};
use assize_types::text::shorten;
use assize_types::{Cancel, Failure, FailureKind};
use serde_json::json;

use crate::args::RunArgs;
use crate::cost_format::format_spending;
use crate::exit::exit_code;
use crate::progress::{Activity, Progress};
use crate::run_messages::{heading, report_failure};
use crate::terminal::{self, DIM, note, out_json, out_line, paint};
use crate::{exec, hints, input};

/// Maximum size of the task, and of the tests file, in MiB.
const MAX_INPUT_MIB: u64 = 1;

/// Runs `assize run`. Returns the exit code: 0 if a program succeeded, and 1 if every attempt failed.
pub(crate) async fn run(
    args: RunArgs,
    mut services: Services,
    cancel: Cancel,
) -> Result<u8, Failure> {
    if let Some(path) = &args.save {
        refuse_existing(path)?;
    }
    if let Some(folder) = &args.out {
        files::check_folder(folder, &services.environment)?;
    }
    services.cassette = args.model.cassette();
    // The request is validated before the store is opened, so that an invalid request creates no store.
    let fresh = match args.resume_flags.resume {
        None => {
            let ask = code_request(&args, &services, &cancel).await?;
            Some(CodePlan::fresh(ask, &services.sandboxes())?)
        }
        Some(_) => None,
    };
    let store = services.open_store(false).await?;
    let runner = services.runner(&store)?;
    let (plan, origin) = match fresh {
        Some(plan) => (plan, RunOrigin::New),
        None => {
            let (run, origin) =
                runner.resumable(&args.resume_flags.request(), RunKind::Code).await?;
            (CodePlan::restored(&run, &*store).await?, origin)
        }
    };
    let mut trial = runner.start::<CodeJob>(services.code(plan), origin).await?;
    let named = |path: &PathBuf| services.environment.resolve_path(path);
    let input = &mut trial.job.input;
    input.out = args.out.as_ref().map(named).or(input.out.take());
    input.save = args.save.as_ref().map(named).or(input.save.take());
    let attempts = trial.job.max_attempts();
    let heading = heading(&trial, &trial.job.gateway.display_name());
    let progress = Progress::begin(heading, trial.ledger.clone(), args.quiet, Activity::default());
    let seen = progress.clone();
    let see = move |signal: &Signal<'_>| {
        if let Some(activity) = progress::activity_of(signal, attempts) {
            seen.set_activity(activity);
        }
    };
    let finished = progress.until(trial.execute(Some(Arc::new(see)), cancel)).await;
    let output = RunOutput { args: &args, trial, store, services: &services };
    match finished {
        Ok(finished) => output.finish(finished).await,
        Err(failed) => Err(report_failure(failed, &output.trial, args.quiet)),
    }
}

/// Creates the request for a new run from the arguments.
async fn code_request(
    args: &RunArgs,
    services: &Services,
    cancel: &Cancel,
) -> Result<CodeRequest, Failure> {
    let usage = |message: &str| Failure::new(FailureKind::Usage, message);
    let task = match args.task.as_deref() {
        Some("-") => input::from_standard_input("the task", MAX_INPUT_MIB, cancel).await?,
        Some(task) if is_file(task) => {
            let hint = format!(
                "`assize run - < {task}` reads the task from the file; `assize exec {task}` runs the file"
            );
            return Err(usage(&format!("`{task}` is a file, not a task")).hint(hint));
        }
        Some(task) => task.to_owned(),
        None => return Err(usage("no task given")),
    };
    let tests = args.tests.as_deref();
    let tests =
        tests.map(|path| input::from_file("the tests file", MAX_INPUT_MIB, path)).transpose()?;
    let named = |path: &PathBuf| services.environment.resolve_path(path);
    Ok(CodeRequest {
        language: exec::parse_language(&args.language)?,
        max_attempts: args.max_attempts,
        candidates: args.candidates,
        tests,
        expect: args.expect.clone(),
        inputs: exec::inputs(&args.files, services)?,
        session: args.session.clone(),
        image: args.sandbox.image.clone(),
        out: args.out.as_ref().map(named),
        save: args.save.as_ref().map(named),
        ..CodeRequest::new(task)
    })
}

/// Whether the text of a task is only the name of an existing file.
fn is_file(task: &str) -> bool {
    !task.contains(char::is_whitespace) && Path::new(task).is_file()
}

/// Prints the result of a run as text or JSON, depending on the flags.
struct RunOutput<'a> {
    args: &'a RunArgs,
    trial: Trial<CodeJob>,
    store: Arc<dyn Store>,
    services: &'a Services,
}

impl RunOutput<'_> {
    async fn finish(&self, finished: CompletedRun<CodeVerdict>) -> Result<u8, Failure> {
        let verdict = finished.report;
        // The user has paid for the result, so it is printed even if it could not be stored.
        let shown = self.show(&verdict).await;
        finished.stored.map_err(|error| {
            note(&hints::resume(&self.trial.run.id));
            Failure::from(error)
        })?;
        shown?;
        Ok(if verdict.success { 0 } else { exit_code(FailureKind::Verdict) })
    }

    async fn show(&self, verdict: &CodeVerdict) -> Result<(), Failure> {
        let args = self.args;
        if args.json {
            let taken = self.copy_files(verdict).await;
            out_json(&self.as_json(verdict, taken.as_ref().unwrap_or(&CopiedOut::default())))?;
            return taken.and_then(|taken| {
                self.save(verdict)?;
                self.reject_stale_files(&taken)
            });
        }
        if verdict.spent.rehearsal && !args.quiet {
            note(&paint(DIM, format!("[{REHEARSAL_LABEL}]")));
        }
        if let Some(answer) = &verdict.answer {
            terminal::out_untrusted(answer)?;
        }
        let is_terminal = std::io::stdout().is_terminal();
        let show_code = args.show_code || (is_terminal && !args.quiet);
        if let Some(code) = verdict.code.as_deref().filter(|_| verdict.success && show_code) {
            if is_terminal {
                out_line("")?;
            }
            terminal::out_untrusted(code)?;
        }
        // The files are copied after the answer is printed, so that an error about the files does not hide the answer.
        let taken = self.copy_files(verdict).await?;
        self.save(verdict)?;
        taken.not_copied.iter().for_each(|left| terminal::warn(left));
        let last = verdict.history.last().and_then(|last| last.execution.as_ref());
        if last.is_some_and(|execution| execution.outcome.output_cut) {
            terminal::warn("the program's output was cut (raise the limit with `--output`)");
        }
        if !args.quiet {
            self.show_notes(verdict, &taken);
        }
        if !verdict.success {
            show::failure(verdict, &self.trial.run.id).iter().for_each(|line| note(line));
            if let Some(path) = &self.trial.job.input.save {
                note(&format!("`{}` was not written: no program succeeded", path.display()));
            }
        }
        if !args.quiet {
            let totals = self.trial.totals();
            note(&paint(
                DIM,
                format!(
                    "{} · {} · {}",
                    self.trial.run.id,
                    self.trial.job.why,
                    format_spending(&totals)
                ),
            ));
        }
        self.reject_stale_files(&taken)
    }

    /// Prints the attempts, and where the program and its files were saved.
    fn show_notes(&self, verdict: &CodeVerdict, taken: &CopiedOut) {
        let last = verdict.history.last().and_then(|last| last.execution.as_ref());
        if let Some(execution) = last.filter(|_| verdict.success) {
            if execution.stdout.trim().is_empty() {
                note(&paint(DIM, "the program printed nothing"));
            }
            show::stderr_lines(&execution.stderr).iter().for_each(|line| note(line));
        }
        show::attempts(&verdict.history).iter().for_each(|line| note(line));
        let Some(execution) = last.filter(|_| verdict.success) else { return };
        if let Some(path) = &self.trial.job.input.save {
            note(&format!("the program was saved to `{}`", path.display()));
        }
        match &self.trial.job.input.out {
            Some(folder) => {
                let files = if taken.files.len() == 1 { "file" } else { "files" };
                note(&format!("{} {files} copied to `{}`", taken.files.len(), folder.display()));
            }
            None if execution.files.is_empty() || self.trial.job.input.session.is_some() => {}
            None => note(&show::created_files_line(&execution.files, &self.trial.run.id)),
        }
    }

    /// Fails if older files of the same name in the output folder prevented files from being copied. Otherwise the user
    /// could mistake the older files for the output of this run.
    fn reject_stale_files(&self, taken: &CopiedOut) -> Result<(), Failure> {
        let Some(folder) =
            self.trial.job.input.out.as_ref().filter(|_| !taken.in_the_way.is_empty())
        else {
            return Ok(());
        };
        let names = shorten(&taken.in_the_way.join(", "), 200);
        let message = format!(
            "some files were not copied, because files of the same name exist in `{}`: {names}",
            folder.display()
        );
        let how = hints::runs(&format!("files {} --out FOLDER", self.trial.run.id));
        let hint = format!("copy the files to another folder: {how}");
        Err(Failure::new(FailureKind::Environment, message).hint(hint))
    }

    fn as_json(&self, verdict: &CodeVerdict, taken: &CopiedOut) -> serde_json::Value {
        let mut shown = json!(verdict);
        shown["run"] = json!(self.trial.run.id);
        shown["provider"] = json!(self.trial.job.input.settings.provider);
        shown["model"] = json!(self.trial.job.input.settings.model);
        shown["task"] = json!(self.trial.run.title);
        shown["isolation"] = json!(self.trial.job.why);
        shown["cost_usd"] = json!(verdict.spent.cost.dollars());
        let files = taken.files.iter().map(|(name, bytes)| json!({"name": name, "bytes": bytes}));
        shown["artifacts"] = json!({"files": files.collect::<Vec<_>>(), "left": taken.not_copied});
        if verdict.spent.rehearsal {
            shown["label"] = json!(REHEARSAL_LABEL);
        }
        shown
    }

    /// Writes the successful program to the file given with `--save`.
    fn save(&self, verdict: &CodeVerdict) -> Result<(), Failure> {
        match (&self.trial.job.input.save, &verdict.code) {
            (Some(path), Some(code)) if verdict.success => save(path, code, &self.trial.run.id),
            _ => Ok(()),
        }
    }

    /// Copies the files of the successful program to the folder given with `--out`.
    async fn copy_files(&self, verdict: &CodeVerdict) -> Result<CopiedOut, Failure> {
        let execution = verdict.history.last().and_then(|last| last.execution.as_ref());
        let Some(execution) = execution else { return Ok(CopiedOut::default()) };
        // The path is used as the user typed it: a relative path below the current folder must not lead through a
        // symlink.
        let folder = self.args.out.as_ref().or(self.trial.job.input.out.as_ref());
        let Some(folder) = folder.filter(|_| verdict.success) else {
            // In a session, the files that could not be stored in the session are reported.
            let left =
                execution.not_collected.iter().filter(|_| self.trial.job.input.session.is_some());
            return Ok(CopiedOut { not_copied: left.cloned().collect(), ..CopiedOut::default() });
        };
        let taken =
            copy_files(&*self.store, &execution.files, folder, &self.services.environment).await;
        let how = hints::runs(&format!("files {} --out FOLDER", self.trial.run.id));
        let hint = format!("copy the files later: {how}");
        let mut taken = taken.map_err(|failure| failure.hint(hint))?;
        taken.not_copied.extend(execution.not_collected.iter().cloned());
        Ok(taken)
    }
}

/// Copies the stored files that a program created to a folder.
pub(crate) async fn copy_files(
    store: &dyn Store,
    files: &[OutputFile],
    folder: &Path,
    environment: &Environment,
) -> Result<CopiedOut, Failure> {
    let mut taken = Vec::new();
    for OutputFile { name, sha256, .. } in files {
        taken.push((name.clone(), store.artifact(*sha256).await?));
    }
    files::write_collected(taken.into(), folder, environment)
}

/// Fails if the file given with `--save` already exists, or if the folder of that file does not exist.
fn refuse_existing(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if folder.is_some_and(|folder| !folder.is_dir()) {
        let message = format!("the folder of `{}` does not exist", path.display());
        return Err(Failure::new(FailureKind::Usage, message));
    }
    if path.symlink_metadata().is_ok() {
        let message = format!("`{}` already exists", path.display());
        return Err(Failure::new(FailureKind::Usage, message)
            .hint("name another file, or remove the existing file"));
    }
    Ok(())
}

/// Writes the program to a new file.
fn save(path: &Path, code: &str, run: &RunId) -> Result<(), Failure> {
    use std::io::Write;
    let written = std::fs::File::create_new(path).and_then(|mut file| {
        // After a failed write, the file is removed, because a truncated program could be mistaken for a complete one.
        file.write_all(code.as_bytes()).inspect_err(|_| drop(std::fs::remove_file(path)))
    });
    written.map_err(|error| {
        let message = format!("cannot write `{}`: {error}", path.display());
        Failure::new(FailureKind::Environment, message).hint(format!(
            "the program is stored with the run: {}",
            hints::runs(&format!("show {run} --transcripts"))
        ))
    })
}
