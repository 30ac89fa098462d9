//! What one edit through the gate costs, without the model, and whether anything is lost on the way in or gets
//! out: drafts of all shapes, a file of 2,000 lines, a workspace of 10,000 files.
//!
//! The time is taken twice: in memory, where a disk is never waited for, which is our own part; and on the disk,
//! where every step waits until it is safe. The peer is what anybody would do without a gate: write the new
//! content beside the file, wait for the disk, and put it in its place; and, as the other end, what `git` takes to
//! say what changed.

mod history;
mod samples;
mod secrets;
mod shapes;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use assize_draft::work::file_blocks;
use assize_draft::{Answer, DraftService, Force, Options, Submit};
use assize_store::{Access, Durability, SqliteStore};
use clap::Parser;

#[derive(Parser)]
struct Args {
    /// Drafts of all shapes
    #[arg(long, default_value_t = 1000)]
    drafts: usize,
    /// Edits that are timed
    #[arg(long, default_value_t = 300)]
    edits: usize,
    /// Files of the workspace
    #[arg(long, default_value_t = 10_000)]
    files: usize,
    /// Lines of the file that is edited
    #[arg(long, default_value_t = 2000)]
    lines: usize,
    /// Judge this many changes of files from this repository's commits, and measure nothing else
    #[arg(long, value_name = "CHANGES")]
    history: Option<usize>,
    /// Scan the files of this folder for secrets, and measure nothing else
    #[arg(long, value_name = "FOLDER")]
    secrets: Option<PathBuf>,
    /// Score the secret scanner on labelled samples (see scripts/secret-samples), and measure nothing else
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
}

/// What an edit may cost us, apart from the disk, in the middle of all.
const MOST: Duration = Duration::from_millis(10);

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
    lossless(&args, &memory).await?;
    escapes(&memory).await?;
    println!("parsing: {} lines of code read a model's words", parsing_lines());

    println!("\none edit of a file of {} lines among {}:", args.lines, args.files);
    println!("where      what                                    p50 ms   p95 ms");
    let own = cycles(&args, &memory, "in memory").await?;
    let folder = std::env::current_dir()?.join("target");
    std::fs::create_dir_all(&folder)?;
    cycles(&args, &folder, "on disk").await?;
    // A build without optimisations, or a busy machine, says nothing about us.
    if !cfg!(debug_assertions) {
        ensure!(own < MOST, "an edit takes {own:?}, and may take {MOST:?} apart from the disk");
    }
    Ok(())
}

/// A workspace with a desk.
struct Office {
    folder: tempfile::TempDir,
    desk: Arc<DraftService>,
}

impl Office {
    fn new(at: &Path) -> anyhow::Result<Office> {
        let folder = tempfile::tempdir_in(at)?;
        std::fs::create_dir(folder.path().join("repo"))?;
        let path = folder.path().join("state/store.db");
        let store = SqliteStore::open(&path, Access::Write(Durability::PowerLoss))?;
        let (repo, state) = (folder.path().join("repo"), folder.path().join("state/drafts"));
        let desk = DraftService::open(&repo, &state, Arc::new(store), Options::default())?;
        Ok(Office { folder, desk })
    }

    async fn edit(&self, path: &str, task: &str, content: &str) -> anyhow::Result<Answer> {
        let draft = self.desk.request("bench", path, task).await?.draft_path;
        self.desk.write("bench", &draft, content).await?;
        self.submit(&draft, path, task).await
    }

    async fn submit(&self, draft: &str, path: &str, task: &str) -> anyhow::Result<Answer> {
        let submit = Submit {
            draft_path: draft,
            original_path: path,
            task_id: task,
            change_summary: "bench",
            all_drafts: false,
        };
        Ok(self.desk.submit("bench", submit).await?.verdict)
    }
}

/// Every draft arrives as it was written, whatever is in it; and the older way beside it.
async fn lossless(args: &Args, at: &Path) -> anyhow::Result<()> {
    let office = Office::new(at)?;
    let (mut lost, mut lost_in_words) = (0, 0);
    for number in 0..args.drafts {
        let content = shapes::draft(number);
        let (path, task) = (format!("file{number}.md"), format!("t{number}"));
        let mut verdict = office.edit(&path, &task, &content).await?;
        // Some have characters that a reviewer confirms. Submissions are numbered from 1.
        if verdict == Answer::Escalated {
            office.desk.accept("reviewer", number as u64 + 1, Force::No).await?;
            verdict = Answer::Accepted;
        }
        let there =
            std::fs::read(office.folder.path().join("repo").join(&path)).unwrap_or_default();
        if verdict != Answer::Accepted || there != content.as_bytes() {
            lost += 1;
        }
        // As models word it: the file in a fence, which what is in it may end.
        let answer = format!("Here it is.\n\nFILE: {path}\n```\n{content}```\n");
        let blocks = file_blocks(&answer).unwrap_or_default();
        let same = blocks.len() == 1 && blocks[0].content == content;
        lost_in_words += usize::from(!same);
    }
    let all = args.drafts;
    println!(
        "drafts that do not arrive as they were written: {lost} of {all} by tools, {lost_in_words} of {all} by text"
    );
    ensure!(lost == 0, "{lost} drafts were lost");
    Ok(())
}

/// Nothing gets out.
async fn escapes(at: &Path) -> anyhow::Result<()> {
    let office = Office::new(at)?;
    let outside = office.folder.path().join("outside");
    std::fs::write(&outside, "outside")?;
    let repo = office.folder.path().join("repo");
    std::os::unix::fs::symlink("../outside", repo.join("leaf"))?;
    std::os::unix::fs::symlink("..", repo.join("up"))?;
    let paths = shapes::ways_out(&outside.display().to_string());
    let mut out = 0;
    for path in &paths {
        let asked = office.desk.request("bench", path, "t").await;
        let draft = asked.as_ref().map_or_else(|_| path.clone(), |asked| asked.draft_path.clone());
        let _ = office.desk.write("bench", &draft, "evil").await;
        let _ = office.submit(&draft, path, "t").await;
        if let Ok(read) = office.desk.read("bench", &draft).await
            && read.content.contains("outside")
        {
            out += 1;
        }
        out += usize::from(std::fs::read_to_string(&outside)? != "outside");
    }
    println!("ways out that lead out: {out} of {}", paths.len());
    ensure!(out == 0, "{out} ways lead out");
    Ok(())
}

/// Lines of code that read what a model wrote in words.
fn parsing_lines() -> usize {
    let source = include_str!("../../../crates/draft/src/work/blocks.rs");
    let code = source.split("#[cfg(test)]").next().unwrap_or(source);
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    code.lines().filter(is_code).count()
}

/// Times whole edits; gives the middle of ours.
async fn cycles(args: &Args, at: &Path, place: &str) -> anyhow::Result<Duration> {
    let office = Office::new(at)?;
    let repo = office.folder.path().join("repo");
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
        let done = Command::new("git").args(words).current_dir(&repo).output().context("git")?;
        ensure!(done.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&done.stderr));
        Ok(())
    };
    let has_git = git(&["init", "-q"]).and_then(|()| git(&["add", "-A"])).is_ok();
    // Warm: patterns are compiled once in the life of a process.
    office.edit("d0/large.py", "warm", &format!("{original}warm = 1\n")).await?;
    let (mut ours, mut bare, mut looked) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..args.edits {
        let line = fastrand::usize(..args.lines);
        let changed = original.replace(
            &format!("value_{line} = {line}\n"),
            &format!("value_{line} = {line}\nadded_{number} = {number}\n"),
        );
        let task = format!("t{number}");
        let draft = office.desk.request("bench", "d0/large.py", &task).await?.draft_path;
        let begun = Instant::now();
        office.desk.write("bench", &draft, &changed).await?;
        let verdict = office.submit(&draft, "d0/large.py", &task).await?;
        ours.push(begun.elapsed());
        ensure!(verdict == Answer::Accepted, "{verdict:?}");

        let begun = Instant::now();
        replace(&repo.join("d0/large.py"), &changed)?;
        bare.push(begun.elapsed());
        // Every edit is a process of its own, as a tool that shells out has it.
        if has_git && number % 10 == 0 {
            let begun = Instant::now();
            git(&["diff", "--stat"])?;
            looked.push(begun.elapsed());
        }
    }
    let own = told(place, "write, submit, gate, log, apply", &mut ours);
    let other = told(place, "the file replaced, and nothing else", &mut bare);
    if !looked.is_empty() {
        let diff = told(place, "`git diff --stat` alone", &mut looked);
        let times = own.as_secs_f64() / diff.as_secs_f64();
        println!("{place:<10} the whole edit takes {times:.2} times as long as that");
    }
    println!(
        "{place:<10} what the gate adds: {:.2} ms",
        (own.saturating_sub(other)).as_secs_f64() * 1e3
    );
    Ok(own)
}

/// The least that an edit takes: written beside, on the disk, put in its place.
fn replace(path: &Path, content: &str) -> anyhow::Result<()> {
    use std::io::Write;
    let beside = path.with_extension("new");
    let mut file = std::fs::File::create(&beside)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    std::fs::File::open(path.parent().context("a folder")?)?.sync_all()?;
    Ok(())
}

/// Prints the middle and the slow end, and gives the middle.
fn told(place: &str, what: &str, times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let (middle, slow) = (at(0.5), at(0.95));
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!("{place:<10} {what:<40}{:>6.2}   {:>6.2}", ms(middle), ms(slow));
    middle
}
