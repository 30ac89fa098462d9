//! `assize run`: code on trial.

mod progress;
pub(crate) mod show;
pub(crate) mod stored;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use assize_code::{CodeAsk, CodeJob, CodePlan, LeftFile, Verdict};
use assize_config::{Environment, REHEARSAL_LABEL};
use assize_run::{Finished, Origin, RunKind, Signal, Store, Trial};
use assize_service::Services;
use assize_service::files::{self, Taken};
use assize_types::text::shorten;
use assize_types::{Cancel, Failure, FailureKind};
use serde_json::json;

use crate::account::account;
use crate::args::RunArgs;
use crate::exit::exit_code;
use crate::progress::{Activity, Progress};
use crate::terminal::{self, DIM, note, out_json, out_line, paint};
use crate::voice::{heading, tell_failure};
use crate::{exec, hints, input};

/// The longest task and the longest file of tests, in MiB: more would fit no model.
const LONGEST: u64 = 1;

/// Gives 0 for success, and 1 for a task that was tried and not done.
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
    services.tape = args.model.tape();
    // What cannot be tried leaves no store behind.
    let fresh = match args.again.resume {
        None => {
            let ask = ask(&args, &services, &cancel).await?;
            Some(CodePlan::fresh(ask, &services.sandboxes())?)
        }
        Some(_) => None,
    };
    let store = services.open_store(false).await?;
    let runner = services.runner(&store)?;
    let (plan, origin) = match fresh {
        Some(plan) => (plan, Origin::New),
        None => {
            let (run, origin) = runner.resumable(&args.again.request(), RunKind::Code).await?;
            (CodePlan::restored(&run, &*store).await?, origin)
        }
    };
    let mut trial = runner.start::<CodeJob>(services.code(plan), origin).await?;
    let named = |path: &PathBuf| services.environment.typed(path);
    let input = &mut trial.job.input;
    input.out = args.out.as_ref().map(named).or(input.out.take());
    input.save = args.save.as_ref().map(named).or(input.save.take());
    let attempts = trial.job.max_attempts();
    let heading = heading(&trial, &trial.job.gateway.called());
    let progress = Progress::begin(heading, trial.ledger.clone(), args.quiet, Activity::default());
    let seen = progress.clone();
    let see = move |signal: &Signal<'_>| {
        if let Some(told) = progress::doing(signal, attempts) {
            seen.say(told);
        }
    };
    let finished = progress.until(trial.execute(Some(Arc::new(see)), cancel)).await;
    let sitting = Sitting { args: &args, trial, store, services: &services };
    match finished {
        Ok(finished) => sitting.finish(finished).await,
        Err(failed) => Err(tell_failure(failed, &sitting.trial, args.quiet)),
    }
}

/// What was asked for.
async fn ask(args: &RunArgs, services: &Services, cancel: &Cancel) -> Result<CodeAsk, Failure> {
    let usage = |message: &str| Failure::new(FailureKind::Usage, message);
    let task = match args.task.as_deref() {
        Some("-") => input::from_standard_input("the task", LONGEST, cancel).await?,
        Some(task) if is_file(task) => {
            let hint = format!(
                "`assize run - < {task}` reads the task from it; `assize exec {task}` runs it"
            );
            return Err(usage(&format!("`{task}` is a file, not a task")).hint(hint));
        }
        Some(task) => task.to_owned(),
        None => return Err(usage("there is no task")),
    };
    let tests = args.tests.as_deref();
    let tests =
        tests.map(|path| input::from_file("the file of tests", LONGEST, path)).transpose()?;
    let named = |path: &PathBuf| services.environment.typed(path);
    Ok(CodeAsk {
        language: exec::language_named(&args.language)?,
        max_attempts: args.max_attempts,
        candidates: args.candidates,
        tests,
        expect: args.expect.clone(),
        inputs: exec::inputs(&args.files, services)?,
        session: args.session.clone(),
        image: args.sandbox.image.clone(),
        out: args.out.as_ref().map(named),
        save: args.save.as_ref().map(named),
        ..CodeAsk::new(task)
    })
}

/// Whether a task is nothing but the name of a file that is there.
fn is_file(task: &str) -> bool {
    !task.contains(char::is_whitespace) && Path::new(task).is_file()
}

/// One trial that came to its end.
struct Sitting<'a> {
    args: &'a RunArgs,
    trial: Trial<CodeJob>,
    store: Arc<dyn Store>,
    services: &'a Services,
}

impl Sitting<'_> {
    async fn finish(&self, finished: Finished<Verdict>) -> Result<u8, Failure> {
        let verdict = finished.report;
        // It is paid for: it is shown even if it could not be kept.
        let shown = self.show(&verdict).await;
        finished.stored.map_err(|error| {
            note(&hints::resume(RunKind::Code, &self.trial.run.id));
            Failure::from(error)
        })?;
        shown?;
        Ok(if verdict.success { 0 } else { exit_code(FailureKind::Verdict) })
    }

    async fn show(&self, verdict: &Verdict) -> Result<(), Failure> {
        let args = self.args;
        if args.json {
            let taken = self.take_files(verdict).await;
            out_json(&self.as_json(verdict, taken.as_ref().unwrap_or(&Taken::default())))?;
            return taken.and_then(|taken| {
                self.save(verdict)?;
                self.refuse_stale(&taken)
            });
        }
        if verdict.spent.rehearsal && !args.quiet {
            note(&paint(DIM, format!("[{REHEARSAL_LABEL}]")));
        }
        if let Some(answer) = &verdict.answer {
            terminal::out_untrusted(answer)?;
        }
        let watched = std::io::stdout().is_terminal();
        let show_code = args.show_code || (watched && !args.quiet);
        if let Some(code) = verdict.code.as_deref().filter(|_| verdict.success && show_code) {
            if watched {
                out_line("")?;
            }
            terminal::out_untrusted(code)?;
        }
        // It is paid for and shown, whatever becomes of the rest.
        let taken = self.take_files(verdict).await?;
        self.save(verdict)?;
        taken.left.iter().for_each(|left| terminal::warn(left));
        let last = verdict.history.last().and_then(|last| last.execution.as_ref());
        if last.is_some_and(|execution| execution.outcome.output_cut) {
            terminal::warn("its output was cut (`--output` keeps more)");
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
                format!("{} · {} · {}", self.trial.run.id, self.trial.job.why, account(&totals)),
            ));
        }
        self.refuse_stale(&taken)
    }

    /// What there is to know besides the answer.
    fn show_notes(&self, verdict: &Verdict, taken: &Taken) {
        let last = verdict.history.last().and_then(|last| last.execution.as_ref());
        if let Some(execution) = last.filter(|_| verdict.success) {
            if execution.stdout.trim().is_empty() {
                note(&paint(DIM, "it printed nothing"));
            }
            show::complaints(&execution.stderr).iter().for_each(|line| note(line));
        }
        show::attempts(&verdict.history).iter().for_each(|line| note(line));
        let Some(execution) = last.filter(|_| verdict.success) else { return };
        if let Some(path) = &self.trial.job.input.save {
            note(&format!("the program is in `{}`", path.display()));
        }
        match &self.trial.job.input.out {
            Some(folder) => {
                let files = if taken.files.len() == 1 { "file" } else { "files" };
                note(&format!("{} {files} taken into `{}`", taken.files.len(), folder.display()));
            }
            None if execution.files.is_empty() || self.trial.job.input.session.is_some() => {}
            None => note(&show::left(&execution.files, &self.trial.run.id)),
        }
    }

    /// What was there before must not be taken for what the program left.
    fn refuse_stale(&self, taken: &Taken) -> Result<(), Failure> {
        let Some(folder) =
            self.trial.job.input.out.as_ref().filter(|_| !taken.in_the_way.is_empty())
        else {
            return Ok(());
        };
        let names = shorten(&taken.in_the_way.join(", "), 200);
        let message = format!(
            "not taken, as something of that name is in `{}` already: {names}",
            folder.display()
        );
        let how = hints::runs(&format!("files {} --out FOLDER", self.trial.run.id));
        let hint = format!("take them elsewhere: {how}");
        Err(Failure::new(FailureKind::Environment, message).hint(hint))
    }

    fn as_json(&self, verdict: &Verdict, taken: &Taken) -> serde_json::Value {
        let mut shown = json!(verdict);
        shown["run"] = json!(self.trial.run.id);
        shown["provider"] = json!(self.trial.job.input.settings.provider);
        shown["model"] = json!(self.trial.job.input.settings.model);
        shown["task"] = json!(self.trial.run.title);
        shown["isolation"] = json!(self.trial.job.why);
        shown["cost_usd"] = json!(verdict.spent.cost.dollars());
        let files = taken.files.iter().map(|(name, bytes)| json!({"name": name, "bytes": bytes}));
        shown["artifacts"] = json!({"files": files.collect::<Vec<_>>(), "left": taken.left});
        if verdict.spent.rehearsal {
            shown["label"] = json!(REHEARSAL_LABEL);
        }
        shown
    }

    /// Writes the program that succeeded to where it is wanted.
    fn save(&self, verdict: &Verdict) -> Result<(), Failure> {
        match (&self.trial.job.input.save, &verdict.code) {
            (Some(path), Some(code)) if verdict.success => save(path, code),
            _ => Ok(()),
        }
    }

    /// Takes the files of the program that succeeded to where they are wanted.
    async fn take_files(&self, verdict: &Verdict) -> Result<Taken, Failure> {
        let execution = verdict.history.last().and_then(|last| last.execution.as_ref());
        let Some(execution) = execution else { return Ok(Taken::default()) };
        // The path as it was typed: one below the current folder goes through no symlink.
        let folder = self.args.out.as_ref().or(self.trial.job.input.out.as_ref());
        let Some(folder) = folder.filter(|_| verdict.success) else {
            // Where files are handed on, what was not is worth a word.
            let left =
                execution.not_taken.iter().filter(|_| self.trial.job.input.session.is_some());
            return Ok(Taken { left: left.cloned().collect(), ..Taken::default() });
        };
        let taken =
            take_files(&*self.store, &execution.files, folder, &self.services.environment).await;
        let how = hints::runs(&format!("files {} --out FOLDER", self.trial.run.id));
        let hint = format!("take them later: {how}");
        let mut taken = taken.map_err(|failure| failure.hint(hint))?;
        taken.left.extend(execution.not_taken.iter().cloned());
        Ok(taken)
    }
}

/// Writes the files that a program left into a folder here.
pub(crate) async fn take_files(
    store: &dyn Store,
    files: &[LeftFile],
    folder: &Path,
    environment: &Environment,
) -> Result<Taken, Failure> {
    let mut taken = Vec::new();
    for LeftFile { name, sha256, .. } in files {
        taken.push((name.clone(), store.artifact(*sha256).await?));
    }
    files::keep(taken.into(), folder, environment)
}

fn refuse_existing(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if folder.is_some_and(|folder| !folder.is_dir()) {
        let message = format!("there is no folder for `{}`", path.display());
        return Err(Failure::new(FailureKind::Usage, message));
    }
    if path.symlink_metadata().is_ok() {
        let message = format!("`{}` is there already", path.display());
        return Err(
            Failure::new(FailureKind::Usage, message).hint("name another file, or remove it")
        );
    }
    Ok(())
}

/// Writes the program to a file that is not there yet.
fn save(path: &Path, code: &str) -> Result<(), Failure> {
    use std::io::Write;
    let written = std::fs::File::create_new(path).and_then(|mut file| {
        // Half a program would be taken for a whole one.
        file.write_all(code.as_bytes()).inspect_err(|_| drop(std::fs::remove_file(path)))
    });
    written.map_err(|error| {
        let message = format!("cannot write `{}`: {error}", path.display());
        Failure::new(FailureKind::Environment, message).hint(format!(
            "the program is kept with the run: {}",
            hints::runs("show RUN --transcripts")
        ))
    })
}
