//! Benchmark of one edit through the gate, without the model: a file of 2,000 lines in a workspace of 10,000 files.
//! Also checks that drafts with difficult contents reach the workspace unchanged, and that no path leads out of the
//! workspace.
//!
//! Each duration is measured twice. In memory, no step waits for a disk, so the duration is the time of our own code.
//! On disk, every step waits until its data is stored durably. The baselines are an edit without a gate (write a
//! temporary file, sync, rename) and `git diff --stat`.

mod draft_contents;
mod history;
mod samples;
mod secrets;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use assize_draft::work::file_blocks;
use assize_draft::{DraftOptions, DraftService, Force, SubmissionStatus, SubmitRequest};
use assize_store::{Access, Durability, SqliteStore};
use clap::Parser;

#[derive(Parser)]
struct Args {
    /// Number of drafts with contents that are difficult to parse
    #[arg(long, default_value_t = 1000)]
    drafts: usize,
    /// Number of timed edits
    #[arg(long, default_value_t = 300)]
    edits: usize,
    /// Number of files in the workspace
    #[arg(long, default_value_t = 10_000)]
    files: usize,
    /// Number of lines in the edited file
    #[arg(long, default_value_t = 2000)]
    lines: usize,
    /// Run the gate on this many file changes from this repository's commits, and exit
    #[arg(long, value_name = "CHANGES")]
    history: Option<usize>,
    /// Scan the files of this folder for secrets, and exit
    #[arg(long, value_name = "FOLDER")]
    secrets: Option<PathBuf>,
    /// Score the secret scanner on labelled samples (see scripts/secret-samples), and exit
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
}

/// Limit on the median time of an edit in memory. A release build of the benchmark fails if the median reaches it.
const MAX_MEDIAN: Duration = Duration::from_millis(10);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if let Some(count) = args.history {
        return history::judge(count);
    }
    if let Some(folder) = &args.secrets {
        return secrets::scan(folder);
    }
    if let Some(file) = &args.samples {
        return samples::score(file);
    }
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    println!("{} cores, {build} build", std::thread::available_parallelism()?);
    let memory = Path::new("/dev/shm");
    let memory = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    check_drafts_unchanged(&args, &memory).await?;
    check_path_escapes(&memory).await?;
    println!("the parser for file blocks in an answer has {} lines of code", parsing_lines());

    println!(
        "\none edit of a file of {} lines in a workspace of {} files:",
        args.lines, args.files
    );
    println!("storage    operation                               p50 ms   p95 ms");
    let own = measure_edits(&args, &memory, "in memory").await?;
    let folder = std::env::current_dir()?.join("target");
    std::fs::create_dir_all(&folder)?;
    measure_edits(&args, &folder, "on disk").await?;
    // The times of a build without optimisations are not meaningful.
    if !cfg!(debug_assertions) {
        ensure!(
            own < MAX_MEDIAN,
            "the median edit in memory took {own:?}; the limit is {MAX_MEDIAN:?}"
        );
    }
    Ok(())
}

/// Temporary workspace with its draft service.
struct Bench {
    folder: tempfile::TempDir,
    service: Arc<DraftService>,
}

impl Bench {
    fn new(at: &Path) -> anyhow::Result<Bench> {
        let folder = tempfile::tempdir_in(at)?;
        std::fs::create_dir(folder.path().join("repo"))?;
        let path = folder.path().join("state/store.db");
        let store = SqliteStore::open(&path, Access::Write(Durability::PowerLoss))?;
        let (repo, state) = (folder.path().join("repo"), folder.path().join("state/drafts"));
        let service = DraftService::open(&repo, &state, Arc::new(store), DraftOptions::default())?;
        Ok(Bench { folder, service })
    }

    async fn edit(
        &self,
        path: &str,
        task: &str,
        content: &str,
    ) -> anyhow::Result<SubmissionStatus> {
        let draft = self.service.request("bench", path, task).await?.draft_path;
        self.service.write("bench", &draft, content).await?;
        self.submit(&draft, path, task).await
    }

    async fn submit(
        &self,
        draft: &str,
        path: &str,
        task: &str,
    ) -> anyhow::Result<SubmissionStatus> {
        let submit = SubmitRequest {
            draft_path: draft,
            original_path: path,
            task_id: task,
            change_summary: "bench",
            all_drafts: false,
        };
        Ok(self.service.submit("bench", submit).await?.verdict)
    }
}

/// Checks that the draft tools write every draft to the workspace unchanged. Also counts the drafts that would change
/// if they were parsed from the text of a model's answer.
async fn check_drafts_unchanged(args: &Args, at: &Path) -> anyhow::Result<()> {
    let bench = Bench::new(at)?;
    let (mut lost, mut lost_as_text) = (0, 0);
    for number in 0..args.drafts {
        let content = draft_contents::draft(number);
        let (path, task) = (format!("file{number}.md"), format!("t{number}"));
        let mut verdict = bench.edit(&path, &task, &content).await?;
        // Drafts with suspicious characters escalate, and the reviewer accepts them. Submissions are numbered from 1.
        if verdict == SubmissionStatus::Escalated {
            bench.service.accept("reviewer", number as u64 + 1, Force::No).await?;
            verdict = SubmissionStatus::Accepted;
        }
        let there = std::fs::read(bench.folder.path().join("repo").join(&path)).unwrap_or_default();
        if verdict != SubmissionStatus::Accepted || there != content.as_bytes() {
            lost += 1;
        }
        // In text mode, a model answers with the file in a code fence, which the content of the file may close.
        let answer = format!("Here it is.\n\nFILE: {path}\n```\n{content}```\n");
        let blocks = file_blocks(&answer).unwrap_or_default();
        let same = blocks.len() == 1 && blocks[0].content == content;
        lost_as_text += usize::from(!same);
    }
    let all = args.drafts;
    println!(
        "drafts changed or lost: {lost} of {all} with the draft tools, \
         {lost_as_text} of {all} if parsed from the text of an answer"
    );
    ensure!(lost == 0, "{lost} drafts were changed or lost");
    Ok(())
}

/// Checks that no path leads out of the workspace.
async fn check_path_escapes(at: &Path) -> anyhow::Result<()> {
    let bench = Bench::new(at)?;
    let outside = bench.folder.path().join("outside");
    std::fs::write(&outside, "outside")?;
    let repo = bench.folder.path().join("repo");
    std::os::unix::fs::symlink("../outside", repo.join("leaf"))?;
    std::os::unix::fs::symlink("..", repo.join("up"))?;
    let paths = draft_contents::escape_paths(&outside.display().to_string());
    let mut escaped = 0;
    for path in &paths {
        let requested = bench.service.request("bench", path, "t").await;
        let draft = requested.map_or_else(|_| path.clone(), |requested| requested.draft_path);
        // The draft of a new file is empty, and no path names a file that the agent may read.
        let read = bench.service.read("bench", &draft).await;
        let was_read = read.is_ok_and(|read| !read.content.is_empty());
        let _ = bench.service.write("bench", &draft, "evil").await;
        let _ = bench.submit(&draft, path, "t").await;
        let was_changed = std::fs::read_to_string(&outside).unwrap_or_default() != "outside";
        if was_changed {
            // Restore the file, so that the next paths do not count as well.
            std::fs::write(&outside, "outside")?;
        }
        escaped += usize::from(was_read || was_changed);
    }
    println!("paths that lead out of the workspace: {escaped} of {}", paths.len());
    ensure!(escaped == 0, "{escaped} paths lead out of the workspace");
    Ok(())
}

/// Number of lines of code in the parser for file blocks in a model's answer.
fn parsing_lines() -> usize {
    let source = include_str!("../../../crates/draft/src/work/blocks.rs");
    let code = source.split("#[cfg(test)]").next().unwrap_or(source);
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    code.lines().filter(is_code).count()
}

/// Measures and prints the times of edits through the gate, of edits without a gate, and of `git diff --stat`. Returns
/// the median time of an edit through the gate.
async fn measure_edits(args: &Args, at: &Path, place: &str) -> anyhow::Result<Duration> {
    let bench = Bench::new(at)?;
    let repo = bench.folder.path().join("repo");
    for number in 0..args.files {
        let folder = repo.join(format!("d{}", number / 100));
        if number % 100 == 0 {
            std::fs::create_dir(&folder)?;
        }
        std::fs::write(folder.join(format!("f{number}.py")), "x = 1\n")?;
    }
    let original: String = (0..args.lines).map(|line| format!("value_{line} = {line}\n")).collect();
    std::fs::write(repo.join("d0/large.py"), &original)?;
    let git = |words: &[&str]| -> anyhow::Result<()> {
        let done = Command::new("git")
            .args(words)
            .current_dir(&repo)
            .output()
            .context("cannot run git")?;
        ensure!(done.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&done.stderr));
        Ok(())
    };
    let has_git = git(&["init", "-q"]).and_then(|()| git(&["add", "-A"])).is_ok();
    // Warm up: patterns are compiled once per process.
    bench.edit("d0/large.py", "warm", &format!("{original}warm = 1\n")).await?;
    let (mut ours, mut without_gate, mut git_diff) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..args.edits {
        let line = fastrand::usize(..args.lines);
        let changed = original.replace(
            &format!("value_{line} = {line}\n"),
            &format!("value_{line} = {line}\nadded_{number} = {number}\n"),
        );
        let task = format!("t{number}");
        let draft = bench.service.request("bench", "d0/large.py", &task).await?.draft_path;
        let started = Instant::now();
        bench.service.write("bench", &draft, &changed).await?;
        let verdict = bench.submit(&draft, "d0/large.py", &task).await?;
        ours.push(started.elapsed());
        ensure!(verdict == SubmissionStatus::Accepted, "an edit was not accepted: {verdict:?}");

        let started = Instant::now();
        replace(&repo.join("d0/large.py"), &changed)?;
        without_gate.push(started.elapsed());
        // Each measurement starts a process, as a tool that runs `git` does.
        if has_git && number % 10 == 0 {
            let started = Instant::now();
            git(&["diff", "--stat"])?;
            git_diff.push(started.elapsed());
        }
    }
    let own = print_times(place, "write, submit, gate, log, apply", &mut ours);
    let other = print_times(place, "file replaced without a gate", &mut without_gate);
    if !git_diff.is_empty() {
        let diff = print_times(place, "`git diff --stat` alone", &mut git_diff);
        let times = own.as_secs_f64() / diff.as_secs_f64();
        println!(
            "{place:<10} an edit through the gate takes {times:.2} times as long as `git diff --stat`"
        );
    }
    println!(
        "{place:<10} the gate adds {:.2} ms to an edit",
        (own.saturating_sub(other)).as_secs_f64() * 1e3
    );
    Ok(own)
}

/// Minimal durable edit: write a temporary file, sync, rename.
fn replace(path: &Path, content: &str) -> anyhow::Result<()> {
    use std::io::Write;
    let temporary = path.with_extension("new");
    let mut file = std::fs::File::create(&temporary)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    std::fs::File::open(path.parent().context("the path has no folder")?)?.sync_all()?;
    Ok(())
}

/// Prints the median and the 95th percentile of times. Returns the median.
fn print_times(place: &str, what: &str, times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let (median, slow) = (at(0.5), at(0.95));
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!("{place:<10} {what:<40}{:>6.2}   {:>6.2}", ms(median), ms(slow));
    median
}
