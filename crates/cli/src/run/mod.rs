//! `assize run`: code on trial.

mod highlight;
mod plan;
mod progress;
pub(crate) mod show;

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use assize_code::packages::Packages;
use assize_code::{
    CannotKeep, CodeState, Court, Keep, LeftFile, Options, Session, Task, Verdict, graph,
};
use assize_gateway::{Gateway, REHEARSAL_LABEL};
use assize_graph::{RunError, RunOptions, Signal};
use assize_sandbox::{Harvest, Language, Pool, Spec};
use assize_store::{ArtifactId, Ending, Run, RunId, RunJournal, Store, StoreError};
use assize_types::text::shorten;
use assize_types::{Cancel, Fingerprint, trail};
use async_trait::async_trait;
use serde_json::json;

use crate::account::{account, dollars};
use crate::args::RunArgs;
use crate::artifacts::{self, Taken};
use crate::choose::{self, Already};
use crate::config::{Config, Surroundings};
use crate::doing::Doing;
use crate::failure::{Failure, FailureKind};
use crate::kept;
use crate::terminal::{self, DIM, note, out, out_json, out_line, paint};
use crate::{sessions, sitting, walls};
use plan::{Input, Plan};

/// The most sandboxes that wait for one run, besides those for programs that run side by side.
const MOST_WAITING: u32 = 1;

/// Gives 0 for success, and 1 for a task that was tried and not done.
pub(crate) async fn run(
    args: RunArgs,
    config: &Config,
    around: &Surroundings,
    cancel: Cancel,
) -> Result<u8, Failure> {
    if let Some(path) = &args.save {
        refuse_existing(path)?;
    }
    if let Some(folder) = &args.out {
        artifacts::check_folder(folder)?;
    }
    // What cannot be tried leaves no store behind.
    let fresh = match args.again.resume {
        None => Some(Plan::fresh(&args, config, around, &cancel).await?),
        Some(_) => None,
    };
    let store = kept::open(config, around)?;
    let plan = match fresh {
        Some(plan) => plan,
        None => Plan::resumed(&args, &*store).await?,
    };
    let already = match &plan.resumed {
        Some(run) => kept::spent(run, &store.records(&run.id).await?, &[]),
        None => Already::default(),
    };
    let gateway = choose::gateway(config, &args.model, args.quiet, already).await?;
    let Task { task, language, .. } = &plan.task;
    if gateway.name().0 == "rehearsal" && !assize_code::rehearsal::knows(task, *language) {
        let mut unknown = Failure::from(assize_code::rehearsal::unknown());
        unknown.kind = FailureKind::Settings;
        return Err(unknown);
    }
    let mut input = plan.input(&args, config, &gateway)?;
    let named = |path: &PathBuf| walls::typed(around, path);
    input.out = args.out.as_ref().map(named).or(input.out);
    input.save = args.save.as_ref().map(named).or(input.save);
    let packages = packages(&input, config, around)?;
    let session = match &input.session {
        Some(name) => Some(open_session(around, name, args.quiet)?),
        None => None,
    };
    let most = MOST_WAITING + input.candidates;
    let language = plan.task.language;
    let (pool, why) = walls::pool(config, around, language, spec(&input), most).await?;
    let new_run = || plan.new_run(&input);
    let (run, journal) =
        kept::begin(store.clone(), plan.resumed.clone(), args.again.take_over, config, new_run)
            .await?;
    let mut sitting = Sitting {
        args: &args,
        pool,
        packages,
        session,
        store,
        run,
        input,
        gateway: Arc::new(gateway),
        journal: Arc::new(journal),
        why,
    };
    trail::workflow_started(&plan.task.task, sitting.gateway.name().0);
    let outcome = sitting.try_task(plan.task, cancel).await;
    sitting.pool.close().await;
    sitting.finish(outcome?).await
}

fn open_session(around: &Surroundings, name: &str, quiet: bool) -> Result<Session, Failure> {
    let root = sessions::root(around);
    let before = Session::look(&root, name)?;
    let session = Session::open(&root, name)?;
    if !quiet {
        // Whoever mistypes a name should see it.
        note(&match before.map(|files| files.len()) {
            None => format!("session `{name}`, which begins with this run"),
            Some(1) => format!("session `{name}`, with 1 file"),
            Some(files) => format!("session `{name}`, with {files} files"),
        });
    }
    Ok(session)
}

/// Where programs get their packages, if they may have any.
fn packages(
    input: &Input,
    config: &Config,
    around: &Surroundings,
) -> Result<Option<Packages>, Failure> {
    let allowed: BTreeSet<String> = input.packages.iter().cloned().collect();
    let pip = match config.text("packages.pip") {
        Some(words) => words.split_whitespace().map(str::to_owned).collect(),
        None => {
            let python = walls::interpreter(Language::Python, config, around).ok();
            let python = python.map(|python| python.program.display().to_string());
            vec![python.unwrap_or_else(|| "python3".to_owned()), "-m".to_owned(), "pip".to_owned()]
        }
    };
    // It finds its index, its proxy and its certificates, and none of anybody's keys.
    let env = around.environment.iter().filter(|(name, _)| {
        let name = name.to_ascii_uppercase();
        let known = ["PATH", "HOME", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"];
        name.starts_with("PIP_")
            || name.ends_with("_PROXY")
            || known.contains(&name.as_str())
            || name == "XDG_CONFIG_HOME"
    });
    let env = env.map(|(name, value)| (name.clone(), value.clone())).collect();
    let wheels = config.text("packages.wheels").map(|path| walls::typed(around, path.as_ref()));
    if let Some(folder) = wheels.as_ref().filter(|folder| !folder.is_dir()) {
        let message = format!("`packages.wheels` is no folder: `{}`", folder.display());
        return Err(Failure::new(FailureKind::Settings, message));
    }
    let folder = around.cache_folder.join("packages");
    Ok((!allowed.is_empty()).then_some(Packages { folder, allowed, pip, wheels, env }))
}

fn spec(input: &Input) -> Spec {
    Spec { image: input.image.clone(), limits: input.limits.clone(), ..Spec::default() }
}

/// One trial, in one of its lives.
struct Sitting<'a> {
    args: &'a RunArgs,
    run: Run,
    input: Input,
    store: Arc<dyn Store>,
    pool: Arc<Pool>,
    packages: Option<Packages>,
    session: Option<Session>,
    gateway: Arc<Gateway>,
    journal: Arc<RunJournal>,
    /// Which walls were taken, and why.
    why: String,
}

/// Keeps the files that programs leave with the run.
struct WithTheRun {
    store: Arc<dyn Store>,
    run: RunId,
}

#[async_trait]
impl Keep for WithTheRun {
    async fn keep(&self, name: &str, bytes: Vec<u8>) -> Result<Fingerprint, CannotKeep> {
        let failed = |error: StoreError| CannotKeep(error.to_string());
        let id = self.store.put_artifact(&self.run, name, bytes).await.map_err(failed)?;
        Ok(id.fingerprint())
    }

    async fn fetch(&self, sha256: Fingerprint) -> Result<Vec<u8>, CannotKeep> {
        let failed = |error: StoreError| CannotKeep(error.to_string());
        self.store.artifact(ArtifactId::from(sha256)).await.map_err(failed)
    }
}

impl Sitting<'_> {
    async fn try_task(
        &mut self,
        task: Task,
        cancel: Cancel,
    ) -> Result<Result<CodeState, RunError>, Failure> {
        let options = Options {
            temperature: self.input.temperature as f32,
            max_tokens: self.input.max_output_tokens,
            spec: spec(&self.input),
        };
        let keep = WithTheRun { store: self.store.clone(), run: self.run.id.clone() };
        let court =
            Court::new(self.gateway.clone(), self.gateway.name().0, self.pool.clone(), options);
        let court = court.keeping(Arc::new(keep));
        let court = match &self.packages {
            Some(packages) => court.with_packages(packages.clone()),
            None => court,
        };
        let court = match self.session.take() {
            Some(session) => court.in_session(session),
            None => court,
        };
        let graph = graph(Arc::new(court))
            .map_err(|error| Failure::from_error(FailureKind::Internal, &error))?;
        let ledger = self.gateway.ledger().clone();
        let doing = Arc::new(Doing::begin(self.heading(), ledger, self.args.quiet));
        let (seen, attempts) = (doing.clone(), task.max_attempts);
        let see = move |signal: &Signal<'_>| {
            if let Some(told) = progress::doing(signal, attempts) {
                seen.say(told);
            }
        };
        let run_options = RunOptions {
            journal: Some(self.journal.clone()),
            observer: Some(Arc::new(see)),
            cancel,
            ..RunOptions::default()
        };
        let outcome = tokio::select! {
            outcome = graph.run(CodeState::new(task), run_options) => outcome,
            () = doing.tick() => unreachable!("it ticks as long as it is awaited"),
        };
        terminal::draw(&[]);
        Ok(outcome)
    }

    fn heading(&self) -> String {
        let who = match self.gateway.name() {
            (provider, model) if provider == model => provider.to_owned(),
            (provider, model) => format!("{provider} {model}"),
        };
        terminal::harmless(&format!("{} · {} · {who}", self.run.id, self.run.title))
    }

    /// Writes down how it ended, and shows it.
    async fn finish(&self, outcome: Result<CodeState, RunError>) -> Result<u8, Failure> {
        let verdict = match outcome {
            Ok(state) => Verdict::from(&state),
            Err(error) => return Err(self.fail(error).await),
        };
        trail::workflow_completed(verdict.success, verdict.attempts);
        let kept = self.journal.finish(Ending::Done { result: json!(verdict) }, Vec::new()).await;
        // It is paid for: it is shown even if it cannot be kept.
        let shown = self.show(&verdict).await;
        kept.map_err(|error| {
            note(&kept::how_to_resume("run", &self.run.id));
            Failure::from(error)
        })?;
        shown?;
        Ok(if verdict.success { 0 } else { FailureKind::Verdict.exit_code() })
    }

    async fn fail(&self, error: RunError) -> Failure {
        trail::workflow_completed(false, 0);
        sitting::fail(&self.journal, error, ("run", &self.run.id), &self.gateway, self.args.quiet)
            .await
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
        if let Some(code) = verdict.code.as_deref().filter(|_| verdict.success) {
            match (watched, args.show_code) {
                (true, _) if args.show_code || !args.quiet => {
                    out_line("")?;
                    out(&highlight::code(code, self.input.language))?;
                }
                (false, true) => terminal::out_untrusted(code)?,
                _ => {}
            }
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
            show::failure(verdict, &self.run.id).iter().for_each(|line| note(line));
            if let Some(path) = &self.input.save {
                note(&format!("`{}` was not written: no program succeeded", path.display()));
            }
        }
        if !args.quiet {
            let totals = self.gateway.ledger().totals();
            note(&paint(DIM, format!("{} · {} · {}", self.run.id, self.why, account(&totals))));
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
        if let Some(path) = &self.input.save {
            note(&format!("the program is in `{}`", path.display()));
        }
        match &self.input.out {
            Some(folder) => {
                let files = if taken.files.len() == 1 { "file" } else { "files" };
                note(&format!("{} {files} taken into `{}`", taken.files.len(), folder.display()));
            }
            None if execution.files.is_empty() || self.input.session.is_some() => {}
            None => note(&show::left(&execution.files, &self.run.id)),
        }
    }

    /// What was there before must not be taken for what the program left.
    fn refuse_stale(&self, taken: &Taken) -> Result<(), Failure> {
        let Some(folder) = self.input.out.as_ref().filter(|_| !taken.in_the_way.is_empty()) else {
            return Ok(());
        };
        let names = shorten(&taken.in_the_way.join(", "), 200);
        let message = format!(
            "not taken, as something of that name is in `{}` already: {names}",
            folder.display()
        );
        let hint = format!("take them elsewhere: `assize runs files {} --out FOLDER`", self.run.id);
        Err(Failure::new(FailureKind::Environment, message).hint(hint))
    }

    fn as_json(&self, verdict: &Verdict, taken: &Taken) -> serde_json::Value {
        let mut shown = json!(verdict);
        shown["run"] = json!(self.run.id);
        shown["provider"] = json!(self.input.provider);
        shown["model"] = json!(self.input.model);
        shown["task"] = json!(self.run.title);
        shown["isolation"] = json!(self.why);
        shown["cost_usd"] = dollars(verdict.spent.cost);
        let files = taken.files.iter().map(|(name, bytes)| json!({"name": name, "bytes": bytes}));
        shown["artifacts"] = json!({"files": files.collect::<Vec<_>>(), "left": taken.left});
        if verdict.spent.rehearsal {
            shown["label"] = json!(REHEARSAL_LABEL);
        }
        shown
    }

    /// Writes the program that succeeded to where it is wanted.
    fn save(&self, verdict: &Verdict) -> Result<(), Failure> {
        match (&self.input.save, &verdict.code) {
            (Some(path), Some(code)) if verdict.success => save(path, code),
            _ => Ok(()),
        }
    }

    /// Takes the files of the program that succeeded to where they are wanted.
    async fn take_files(&self, verdict: &Verdict) -> Result<Taken, Failure> {
        let execution = verdict.history.last().and_then(|last| last.execution.as_ref());
        let Some(execution) = execution else { return Ok(Taken::default()) };
        let Some(folder) = self.input.out.as_ref().filter(|_| verdict.success) else {
            // Where files are handed on, what was not is worth a word.
            let left = execution.not_taken.iter().filter(|_| self.input.session.is_some());
            return Ok(Taken { left: left.cloned().collect(), ..Taken::default() });
        };
        let taken = take_files(&*self.store, &execution.files, folder).await;
        let hint = format!("take them later: `assize runs files {} --out FOLDER`", self.run.id);
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
) -> Result<Taken, Failure> {
    let mut taken = Vec::new();
    for LeftFile { name, sha256, .. } in files {
        taken.push((name.clone(), store.artifact(ArtifactId::from(*sha256)).await?));
    }
    artifacts::keep(Harvest::from(taken), folder)
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
        Failure::new(FailureKind::Environment, message)
            .hint("the program is kept with the run: `assize runs show RUN --transcripts`")
    })
}
