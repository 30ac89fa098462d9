//! The loop itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use assize_code::{CannotKeep, CodeFailure, InputFile, Keep, Session, Task};
use assize_graph::{MemoryJournal, RunOptions};
use assize_llm::ErrorKind;
use assize_sandbox::Language;
use assize_types::Fingerprint;
use async_trait::async_trait;

use crate::bench::{Bench, Line, Script, code, critique};

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_works_is_the_answer() {
    let bench = Bench::new().await;
    let model = Script::new([code("print(6 * 7)")]);
    let tried = bench.try_task(&model, Task::new("Six times seven")).await;
    let verdict = tried.verdict.unwrap();
    assert!(verdict.success);
    assert_eq!((verdict.attempts, verdict.answer.as_deref()), (1, Some("42\n")));
    assert_eq!(verdict.code.as_deref(), Some("print(6 * 7)\n"));
    assert_eq!(model.calls(), 1);
    let events =
        ["code_generated 1", "execution_started 1", "execution_complete 1", "code_finished"];
    assert_eq!(tried.events, events);
    // What the model is told about where it will run.
    let told = model.told(0);
    assert!(told.contains("Python 3.") && told.contains("There is no network"), "{told}");
    assert!(told.contains("Six times seven") && told.contains("No files are given"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_failed_and_why_goes_into_the_next_attempt() {
    let bench = Bench::new().await;
    let model = Script::new([
        code("open('users.json')"),
        critique("there is no users.json", "use sample data"),
        code("print('ada')"),
    ]);
    let verdict = bench.try_task(&model, Task::new("Print users")).await.verdict.unwrap();
    assert_eq!((verdict.success, verdict.attempts), (true, 2));
    assert_eq!(verdict.answer.as_deref(), Some("ada\n"));
    let first = &verdict.history[0];
    assert_eq!(first.error.as_ref().unwrap().to_string(), "it ended with exit code 1");
    assert_eq!(first.critique.as_ref().unwrap().issues, ["there is no users.json"]);
    // The critic is told what happened, and the next attempt what the critic said.
    for call in [1, 2] {
        let told = model.told(call);
        assert!(told.contains("open('users.json')"), "{told}");
        assert!(told.contains("FileNotFoundError"), "{told}");
        assert!(told.contains("it ended with exit code 1"), "{told}");
    }
    assert!(
        !model.told(1).contains("use sample data")
            && model.told(2).contains("fix: use sample data")
    );
    // What never changes comes first, byte for byte, so that providers can cache it.
    let asked = model.asked.lock().unwrap();
    assert!(asked.iter().all(|request| request.prompt.blocks == asked[0].prompt.blocks));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_gives_up_after_the_last_attempt() {
    let bench = Bench::new().await;
    let lines = ["raise SystemExit(1)", "raise SystemExit(2)"];
    let model =
        Script::new(lines.into_iter().flat_map(|line| [code(line), critique("it exits", "don't")]));
    let task = Task { max_attempts: 2, ..Task::new("never") };
    let tried = bench.try_task(&model, task).await;
    let verdict = tried.verdict.unwrap();
    assert!(!verdict.success);
    assert_eq!((verdict.attempts, verdict.answer), (2, None));
    assert_eq!(verdict.error.as_deref(), Some("it ended with exit code 2"));
    assert!(verdict.history.iter().all(|attempt| attempt.critique.is_some()));
    assert_eq!(tried.events.last().map(String::as_str), Some("code_finished"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_code_is_an_attempt_and_code_in_prose_is_found() {
    let bench = Bench::new().await;
    let prose = |text: &str| Line::Text(text.to_owned());
    let model = Script::new([
        // Twice: whoever answers in another shape is asked again.
        prose("I would rather talk about it."),
        prose("Really."),
        prose("Sure!\n```python\nprint('found')\n```"),
        prose("```python\nprint('found')\n```"),
    ]);
    let verdict = bench.try_task(&model, Task::new("x")).await.verdict.unwrap();
    assert_eq!((verdict.success, verdict.answer.as_deref()), (true, Some("found\n")));
    let [first, second] = &verdict.history[..] else { panic!("{verdict:?}") };
    assert_eq!(first.error.as_ref().unwrap().to_string(), "the model's answer had no code in it");
    assert!(first.execution.is_none() && first.critique.is_none());
    assert!(second.found_in_prose && second.confidence.is_none());
    assert!(model.told(2).contains("the answer had no program in it"));
}

/// Keeps files in memory, and has them or not.
#[derive(Default)]
struct Kept(Mutex<Vec<(String, Vec<u8>)>>, AtomicBool);

#[async_trait]
impl Keep for Kept {
    async fn keep(&self, name: &str, bytes: Vec<u8>) -> Result<Fingerprint, CannotKeep> {
        let sha256 = Fingerprint::of(&bytes);
        self.0.lock().unwrap().push((name.to_owned(), bytes));
        Ok(sha256)
    }

    async fn fetch(&self, sha256: Fingerprint) -> Result<Vec<u8>, CannotKeep> {
        if self.1.load(Ordering::SeqCst) {
            return Err(CannotKeep("there is no disk".to_owned()));
        }
        let kept = self.0.lock().unwrap();
        let found = kept.iter().find(|(_, bytes)| Fingerprint::of(bytes) == sha256);
        Ok(found.unwrap().1.clone())
    }
}

/// Stopped between the end of a program and the moment its files are handed on.
#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_session_that_another_run_has_changed_are_not_written_over() {
    let bench = Bench::new().await;
    let folder = tempfile::tempdir().unwrap();
    let kept = Arc::new(Kept::default());
    let run = async |program: &str, journal: &Arc<MemoryJournal>| {
        let session = Session::open(folder.path(), "notes").unwrap();
        let court = bench.court(Script::new([code(program)])).keeping(kept.clone());
        let options = RunOptions::with_journal(journal.clone());
        bench.try_with(Arc::new(court.in_session(session)), Task::new("x"), options).await.verdict
    };
    let n = || std::fs::read_to_string(folder.path().join("notes/files/n")).unwrap();
    let count = "open('n', 'a').write('x')";
    let [first, second, third] = std::array::from_fn(|_| Arc::new(MemoryJournal::default()));
    run(count, &first).await.unwrap();
    kept.1.store(true, Ordering::SeqCst);
    assert!(run("open('n', 'a').write('y')", &second).await.is_err());
    kept.1.store(false, Ordering::SeqCst);
    assert_eq!(n(), "x");
    // Nobody was there meanwhile: it is handed on now, and once.
    run("", &second).await.unwrap();
    assert_eq!(n(), "xy");
    run("", &second).await.unwrap();
    assert_eq!(n(), "xy");
    kept.1.store(true, Ordering::SeqCst);
    assert!(run("open('n', 'a').write('z')", &third).await.is_err());
    kept.1.store(false, Ordering::SeqCst);
    run(count, &Arc::default()).await.unwrap();
    assert_eq!(n(), "xyx");
    let error = run("", &third).await.unwrap_err().to_string();
    assert!(error.contains("another run has changed the files of the session"), "{error}");
    assert_eq!(n(), "xyx");
}

/// What was only out of reach, or hidden, is not lost; what is in its place takes it.
#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_session_are_lost_to_nothing_but_deletion() {
    let bench = Bench::new().await;
    let folder = tempfile::tempdir().unwrap();
    let kept = Arc::new(Kept::default());
    let run = async |program: &str, given: &[&str]| {
        let session = Session::open(folder.path(), "notes").unwrap();
        let court = bench.court(Script::new([code(program), critique("x", "y")]));
        let court = Arc::new(court.keeping(kept.clone()).in_session(session));
        let given = given
            .iter()
            .map(|name| InputFile { name: (*name).to_owned(), bytes: Arc::from(*b"given") });
        let task = Task { inputs: given.collect(), max_attempts: 1, ..Task::new("x") };
        bench.try_with(court, task, RunOptions::default()).await.verdict.unwrap()
    };
    let files = || -> Vec<String> {
        let files = Session::look(folder.path(), "notes").unwrap().unwrap();
        files.into_iter().map(|(name, _)| name).collect()
    };
    run("import os; os.mkdir('d'); [open(n, 'w').write(n) for n in ('a', 'b', 'd/in')]", &[]).await;
    assert_eq!(files(), ["a", "b", "d/in"]);
    // Closed to everybody, by a program that fails.
    run("import os; os.remove('b'); os.chmod('a', 0); raise SystemExit(1)", &[]).await;
    let left = files();
    assert!(left.contains(&"a".to_owned()) && left.contains(&"d/in".to_owned()), "{left:?}");
    run("import os; os.path.exists('b') and os.remove('b')", &[]).await;
    assert_eq!(files(), ["a", "d/in"]);
    // A file where there is a folder, and the other way round.
    assert_eq!(run("print(open('d').read())", &["d"]).await.answer.as_deref(), Some("given\n"));
    assert_eq!(run("print(open('a/b').read())", &["a/b"]).await.answer.as_deref(), Some("given\n"));
    assert_eq!(files(), ["a", "d/in"]);
    // A file in place of the folder that the hidden one was in.
    run("import shutil; shutil.rmtree('d'); open('d', 'w').write('x')", &["d/in"]).await;
    assert_eq!(files(), ["a", "d"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_are_read_only_and_what_is_left_is_kept() {
    let bench = Bench::new().await;
    let program = "
data = open('in/data.bin', 'rb').read()
try: open('in/data.bin', 'ab')
except PermissionError: print('read-only')
open('out.bin', 'wb').write(data[::-1])";
    let model = Script::new([code(program)]);
    let kept = Arc::new(Kept::default());
    let court = bench.court(model.clone()).keeping(kept.clone());
    let task = Task {
        inputs: vec![InputFile { name: "in/data.bin".to_owned(), bytes: Arc::from([0, 1, 255]) }],
        wants_files: true,
        ..Task::new("turn it round")
    };
    let verdict = bench.try_with(Arc::new(court), task, Default::default()).await.verdict.unwrap();
    assert_eq!(verdict.answer.as_deref(), Some("read-only\n"), "{verdict:?}");
    let files = &verdict.history[0].execution.as_ref().unwrap().files;
    assert_eq!((files[0].name.as_str(), files[0].bytes), ("out.bin", 3));
    assert_eq!(*kept.0.lock().unwrap(), [("attempt-1/out.bin".to_owned(), vec![255, 1, 0])]);
    assert!(model.told(0).contains("`in/data.bin`, 3 bytes; it is not text"), "{}", model.told(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_languages_run_too() {
    let bench = Bench::new().await;
    for (language, program) in
        [(Language::Bash, "echo $((6 * 7))"), (Language::JavaScript, "console.log(6 * 7)")]
    {
        if language == Language::JavaScript
            && std::process::Command::new("node").arg("-v").output().is_err()
        {
            continue;
        }
        let model = Script::new([code(program)]);
        let task = Task { language, ..Task::new("x") };
        let verdict = bench.try_task(&model, task).await.verdict.unwrap();
        assert_eq!(verdict.answer.as_deref(), Some("42\n"), "{verdict:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_stopped_goes_on_and_does_nothing_twice() {
    let bench = Bench::new().await;
    let journal = Arc::new(MemoryJournal::default());
    let model = Script::new([code("raise SystemExit(1)"), Line::Fail(ErrorKind::Overloaded)]);
    let tried = bench.try_on(&model, Task::new("x"), journal.clone()).await;
    assert!(tried.verdict.is_err());
    // It declines, and is stopped once more.
    let model = Script::new([critique("a", "b"), Line::Refuse, Line::Fail(ErrorKind::Overloaded)]);
    let tried = bench.try_on(&model, Task::new("x"), journal.clone()).await;
    assert!(tried.verdict.is_err());
    let model = Script::new([code("print(2)")]);
    let tried = bench.try_on(&model, Task::new("x"), journal.clone()).await;
    let verdict = tried.verdict.unwrap();
    assert_eq!((verdict.success, verdict.attempts, model.calls()), (true, 3, 1));
    assert_eq!(verdict.history[1].error, Some(CodeFailure::Declined));
    // All of it is answered from the journal now, without a model and without a sandbox.
    let nobody = Script::new([]);
    bench.breaks(u32::MAX);
    let again = bench.try_on(&nobody, Task::new("x"), journal).await.verdict.unwrap();
    assert_eq!((again, nobody.calls()), (verdict, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_side_by_side_the_first_that_succeeds_counts() {
    let bench = Bench::new().await;
    let task = || Task { candidates: 3, ..Task::new("x") };
    let slow = "import time; time.sleep(60); print('slow')";
    let model = Script::new([code("1 / 0"), code(slow), code("print('fast')")]);
    let journal = Arc::new(MemoryJournal::default());
    let tried = bench.try_on(&model, task(), journal.clone()).await;
    let verdict = tried.verdict.unwrap();
    assert_eq!((verdict.success, verdict.attempts), (true, 1));
    assert_eq!(verdict.answer.as_deref(), Some("fast\n"), "{verdict:?}");
    // What was given up is kept as far as it got, and was paid for.
    let kept = |code: &str| {
        let code = format!("{code}\n");
        verdict.history.iter().find(move |one| one.code.as_deref() == Some(code.as_str()))
    };
    let given_up = kept(slow).unwrap();
    assert!(given_up.execution.is_none() && given_up.error.is_none(), "{given_up:?}");
    assert_eq!(verdict.spent.calls, 3);
    // It is the same in every point when the run is taken up again.
    let nobody = Script::new([]);
    let again = bench.try_on(&nobody, task(), journal.clone()).await.verdict.unwrap();
    assert_eq!(assize_code::history(&journal.records()), verdict.history);
    assert_eq!((again, nobody.calls()), (verdict, 0));

    // If none does, the critic sees all of them.
    let lines = ["raise SystemExit(1)", "raise SystemExit(2)", "raise SystemExit(3)"].map(code);
    let model = Script::new(lines.into_iter().chain([critique("all exit", "do not")]));
    let task = Task { max_attempts: 1, ..task() };
    let verdict = bench.try_task(&model, task).await.verdict.unwrap();
    assert_eq!((verdict.success, verdict.attempts, verdict.history.len()), (false, 1, 3));
    let told = model.told(3);
    assert!((1..=3).all(|n| told.contains(&format!("raise SystemExit({n})"))), "{told}");
}
