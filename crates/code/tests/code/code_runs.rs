//! Tests of code runs: attempts, critiques, sessions, inputs, resuming and candidates.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use assize_code::{CodeFailure, CodeTask, FileStorage, FileStorageError, InputFile, Session};
use assize_graph::{MemoryJournal, RunOptions};
use assize_llm::ErrorKind;
use assize_sandbox::Language;
use assize_types::Fingerprint;
use async_trait::async_trait;

use crate::fixture::{Fixture, Reply, Script, code, critique};

#[tokio::test(flavor = "multi_thread")]
async fn output_of_a_successful_program_is_the_answer() {
    let fixture = Fixture::new().await;
    let model = Script::new([code("print(6 * 7)")]);
    let result = fixture.run_task(&model, CodeTask::new("Six times seven")).await;
    let verdict = result.verdict.unwrap();
    assert!(verdict.success);
    assert_eq!((verdict.attempts, verdict.answer.as_deref()), (1, Some("42\n")));
    assert_eq!(verdict.code.as_deref(), Some("print(6 * 7)\n"));
    assert_eq!(model.calls(), 1);
    let events =
        ["code_generated 1", "execution_started 1", "execution_complete 1", "code_finished"];
    assert_eq!(result.events, events);
    // The prompt describes the sandbox and the task.
    let prompt = model.prompt(0);
    assert!(prompt.contains("Python 3.") && prompt.contains("There is no network"), "{prompt}");
    assert!(
        prompt.contains("Six times seven") && prompt.contains("No files are given"),
        "{prompt}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn next_prompt_contains_the_failed_attempt_and_its_critique() {
    let fixture = Fixture::new().await;
    let model = Script::new([
        code("open('users.json')"),
        critique("there is no users.json", "use sample data"),
        code("print('ada')"),
    ]);
    let verdict = fixture.run_task(&model, CodeTask::new("Print users")).await.verdict.unwrap();
    assert_eq!((verdict.success, verdict.attempts), (true, 2));
    assert_eq!(verdict.answer.as_deref(), Some("ada\n"));
    let first = &verdict.history[0];
    assert_eq!(first.error.as_ref().unwrap().to_string(), "the program exited with code 1");
    assert_eq!(first.critique.as_ref().unwrap().issues, ["there is no users.json"]);
    // The prompt of the critic and the prompt of the next attempt both contain the failure.
    for call in [1, 2] {
        let prompt = model.prompt(call);
        assert!(prompt.contains("open('users.json')"), "{prompt}");
        assert!(prompt.contains("FileNotFoundError"), "{prompt}");
        assert!(prompt.contains("the program exited with code 1"), "{prompt}");
    }
    assert!(
        !model.prompt(1).contains("use sample data")
            && model.prompt(2).contains("fix: use sample data")
    );
    // The first blocks of all prompts are identical, so that providers can cache them.
    let requests = model.requests.lock().unwrap();
    assert!(requests.iter().all(|request| request.prompt.blocks == requests[0].prompt.blocks));
}

#[tokio::test(flavor = "multi_thread")]
async fn code_run_ends_after_max_attempts() {
    let fixture = Fixture::new().await;
    let lines = ["raise SystemExit(1)", "raise SystemExit(2)"];
    let model =
        Script::new(lines.into_iter().flat_map(|line| [code(line), critique("it exits", "don't")]));
    let task = CodeTask { max_attempts: 2, ..CodeTask::new("never") };
    let result = fixture.run_task(&model, task).await;
    let verdict = result.verdict.unwrap();
    assert!(!verdict.success);
    assert_eq!((verdict.attempts, verdict.answer), (2, None));
    assert_eq!(verdict.error.as_deref(), Some("the program exited with code 2"));
    assert!(verdict.history.iter().all(|attempt| attempt.critique.is_some()));
    assert_eq!(result.events.last().map(String::as_str), Some("code_finished"));
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_without_code_counts_as_an_attempt_and_fenced_code_is_extracted() {
    let fixture = Fixture::new().await;
    let prose = |text: &str| Reply::Text(text.to_owned());
    let model = Script::new([
        // Each attempt has two replies, because after an invalid answer the model is called a second time.
        prose("I would rather talk about it."),
        prose("Really."),
        prose("Sure!\n```python\nprint('found')\n```"),
        prose("```python\nprint('found')\n```"),
    ]);
    let verdict = fixture.run_task(&model, CodeTask::new("x")).await.verdict.unwrap();
    assert_eq!((verdict.success, verdict.answer.as_deref()), (true, Some("found\n")));
    let [first, second] = &verdict.history[..] else { panic!("{verdict:?}") };
    assert_eq!(first.error.as_ref().unwrap().to_string(), "the model's answer contains no code");
    assert!(first.execution.is_none() && first.critique.is_none());
    assert!(second.found_in_prose && second.confidence.is_none());
    assert!(model.prompt(2).contains("the answer had no program in it"));
}

/// In-memory storage of the files that programs create. Reads fail while the flag (the second field) is true.
#[derive(Default)]
struct MemoryStorage(Mutex<Vec<(String, Vec<u8>)>>, AtomicBool);

#[async_trait]
impl FileStorage for MemoryStorage {
    async fn store(&self, name: &str, bytes: Vec<u8>) -> Result<Fingerprint, FileStorageError> {
        let sha256 = Fingerprint::of(&bytes);
        self.0.lock().unwrap().push((name.to_owned(), bytes));
        Ok(sha256)
    }

    async fn fetch(&self, sha256: Fingerprint) -> Result<Vec<u8>, FileStorageError> {
        if self.1.load(Ordering::SeqCst) {
            return Err(FileStorageError("injected failure".to_owned()));
        }
        let stored = self.0.lock().unwrap();
        let found = stored.iter().find(|(_, bytes)| Fingerprint::of(bytes) == sha256);
        Ok(found.unwrap().1.clone())
    }
}

/// Each resumed run was stopped after its program had ended, but before the program's files were saved to the session.
/// If another run has changed the session since then, the resumed run fails.
#[tokio::test(flavor = "multi_thread")]
async fn resumed_run_does_not_overwrite_session_files_of_another_run() {
    let fixture = Fixture::new().await;
    let folder = tempfile::tempdir().unwrap();
    let storage = Arc::new(MemoryStorage::default());
    let run = async |program: &str, journal: &Arc<MemoryJournal>| {
        let session = Session::open(folder.path(), "notes").unwrap();
        let runner =
            fixture.code_runner(Script::new([code(program)])).with_file_storage(storage.clone());
        let options = RunOptions::with_journal(journal.clone());
        fixture
            .run_with(Arc::new(runner.with_session(session)), CodeTask::new("x"), options)
            .await
            .verdict
    };
    let n = || std::fs::read_to_string(folder.path().join("notes/files/n")).unwrap();
    let count = "open('n', 'a').write('x')";
    let [first, second, third] = std::array::from_fn(|_| Arc::new(MemoryJournal::default()));
    run(count, &first).await.unwrap();
    storage.1.store(true, Ordering::SeqCst);
    assert!(run("open('n', 'a').write('y')", &second).await.is_err());
    storage.1.store(false, Ordering::SeqCst);
    assert_eq!(n(), "x");
    // No other run has changed the session, so the resumed run saves its files exactly once.
    run("", &second).await.unwrap();
    assert_eq!(n(), "xy");
    run("", &second).await.unwrap();
    assert_eq!(n(), "xy");
    storage.1.store(true, Ordering::SeqCst);
    assert!(run("open('n', 'a').write('z')", &third).await.is_err());
    storage.1.store(false, Ordering::SeqCst);
    run(count, &Arc::default()).await.unwrap();
    assert_eq!(n(), "xyx");
    let error = run("", &third).await.unwrap_err().to_string();
    assert!(error.contains("another run has changed the files of the session"), "{error}");
    assert_eq!(n(), "xyx");
}

/// Session files that are unreadable or shadowed by input files stay in the session, unless another file replaces them.
#[tokio::test(flavor = "multi_thread")]
async fn session_files_stay_unless_a_program_deletes_or_replaces_them() {
    let fixture = Fixture::new().await;
    let folder = tempfile::tempdir().unwrap();
    let storage = Arc::new(MemoryStorage::default());
    let run = async |program: &str, given: &[&str]| {
        let session = Session::open(folder.path(), "notes").unwrap();
        let runner = fixture.code_runner(Script::new([code(program), critique("x", "y")]));
        let runner = Arc::new(runner.with_file_storage(storage.clone()).with_session(session));
        let given = given
            .iter()
            .map(|name| InputFile { name: (*name).to_owned(), bytes: Arc::from(*b"given") });
        let task = CodeTask { inputs: given.collect(), max_attempts: 1, ..CodeTask::new("x") };
        fixture.run_with(runner, task, RunOptions::default()).await.verdict.unwrap()
    };
    let files = || -> Vec<String> {
        let files = Session::list_files(folder.path(), "notes").unwrap().unwrap();
        files.into_iter().map(|(name, _)| name).collect()
    };
    run("import os; os.mkdir('d'); [open(n, 'w').write(n) for n in ('a', 'b', 'd/in')]", &[]).await;
    assert_eq!(files(), ["a", "b", "d/in"]);
    // A failing program makes a file unreadable.
    run("import os; os.remove('b'); os.chmod('a', 0); raise SystemExit(1)", &[]).await;
    let left = files();
    assert!(left.contains(&"a".to_owned()) && left.contains(&"d/in".to_owned()), "{left:?}");
    run("import os; os.path.exists('b') and os.remove('b')", &[]).await;
    assert_eq!(files(), ["a", "d/in"]);
    // An input file shadows a folder of the session, and an input folder shadows a file.
    assert_eq!(run("print(open('d').read())", &["d"]).await.answer.as_deref(), Some("given\n"));
    assert_eq!(run("print(open('a/b').read())", &["a/b"]).await.answer.as_deref(), Some("given\n"));
    assert_eq!(files(), ["a", "d/in"]);
    // The program replaces the folder of the shadowed file with a file.
    run("import shutil; shutil.rmtree('d'); open('d', 'w').write('x')", &["d/in"]).await;
    assert_eq!(files(), ["a", "d"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn input_files_are_read_only_and_output_files_are_stored() {
    let fixture = Fixture::new().await;
    let program = "
data = open('in/data.bin', 'rb').read()
try: open('in/data.bin', 'ab')
except PermissionError: print('read-only')
open('out.bin', 'wb').write(data[::-1])";
    let model = Script::new([code(program)]);
    let storage = Arc::new(MemoryStorage::default());
    let runner = fixture.code_runner(model.clone()).with_file_storage(storage.clone());
    let task = CodeTask {
        inputs: vec![InputFile { name: "in/data.bin".to_owned(), bytes: Arc::from([0, 1, 255]) }],
        collect_files: true,
        ..CodeTask::new("turn it round")
    };
    let verdict =
        fixture.run_with(Arc::new(runner), task, Default::default()).await.verdict.unwrap();
    assert_eq!(verdict.answer.as_deref(), Some("read-only\n"), "{verdict:?}");
    let files = &verdict.history[0].execution.as_ref().unwrap().files;
    assert_eq!((files[0].name.as_str(), files[0].bytes), ("out.bin", 3));
    assert_eq!(*storage.0.lock().unwrap(), [("attempt-1/out.bin".to_owned(), vec![255, 1, 0])]);
    assert!(
        model.prompt(0).contains("`in/data.bin`, 3 bytes; it is not text"),
        "{}",
        model.prompt(0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bash_and_javascript_programs_run() {
    let fixture = Fixture::new().await;
    for (language, program) in
        [(Language::Bash, "echo $((6 * 7))"), (Language::JavaScript, "console.log(6 * 7)")]
    {
        if language == Language::JavaScript
            && std::process::Command::new("node").arg("-v").output().is_err()
        {
            continue;
        }
        let model = Script::new([code(program)]);
        let task = CodeTask { language, ..CodeTask::new("x") };
        let verdict = fixture.run_task(&model, task).await.verdict.unwrap();
        assert_eq!(verdict.answer.as_deref(), Some("42\n"), "{verdict:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resumed_run_repeats_no_model_call_and_no_execution() {
    let fixture = Fixture::new().await;
    let journal = Arc::new(MemoryJournal::default());
    let model = Script::new([code("raise SystemExit(1)"), Reply::Fail(ErrorKind::Overloaded)]);
    let result = fixture.run_with_journal(&model, CodeTask::new("x"), journal.clone()).await;
    assert!(result.verdict.is_err());
    // In the resumed run, the model refuses once, and then a provider error stops the run again.
    let model =
        Script::new([critique("a", "b"), Reply::Refuse, Reply::Fail(ErrorKind::Overloaded)]);
    let result = fixture.run_with_journal(&model, CodeTask::new("x"), journal.clone()).await;
    assert!(result.verdict.is_err());
    let model = Script::new([code("print(2)")]);
    let result = fixture.run_with_journal(&model, CodeTask::new("x"), journal.clone()).await;
    let verdict = result.verdict.unwrap();
    assert_eq!((verdict.success, verdict.attempts, model.calls()), (true, 3, 1));
    assert_eq!(verdict.history[1].error, Some(CodeFailure::Declined));
    // A finished run is replayed from the journal, without a model and without a sandbox.
    let unused = Script::new([]);
    fixture.fail_next_sandboxes(u32::MAX);
    let again =
        fixture.run_with_journal(&unused, CodeTask::new("x"), journal).await.verdict.unwrap();
    assert_eq!((again, unused.calls()), (verdict, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn first_successful_candidate_is_the_result_and_cancels_the_others() {
    let fixture = Fixture::new().await;
    let task = || CodeTask { candidates: 3, ..CodeTask::new("x") };
    let slow = "import time; time.sleep(60); print('slow')";
    let model = Script::new([code("1 / 0"), code(slow), code("print('fast')")]);
    let journal = Arc::new(MemoryJournal::default());
    let result = fixture.run_with_journal(&model, task(), journal.clone()).await;
    let verdict = result.verdict.unwrap();
    assert_eq!((verdict.success, verdict.attempts), (true, 1));
    assert_eq!(verdict.answer.as_deref(), Some("fast\n"), "{verdict:?}");
    // The cancelled candidate is in the history without an execution, and its call is counted.
    let attempt_with = |code: &str| {
        let code = format!("{code}\n");
        verdict.history.iter().find(move |one| one.code.as_deref() == Some(code.as_str()))
    };
    let cancelled = attempt_with(slow).unwrap();
    assert!(cancelled.execution.is_none() && cancelled.error.is_none(), "{cancelled:?}");
    assert_eq!(verdict.spent.calls, 3);
    // A resumed run has the same result.
    let unused = Script::new([]);
    let again = fixture.run_with_journal(&unused, task(), journal.clone()).await.verdict.unwrap();
    assert_eq!(assize_code::history(&journal.records()), verdict.history);
    assert_eq!((again, unused.calls()), (verdict, 0));

    // If no candidate succeeds, the critic sees all of them.
    let lines = ["raise SystemExit(1)", "raise SystemExit(2)", "raise SystemExit(3)"].map(code);
    let model = Script::new(lines.into_iter().chain([critique("all exit", "do not")]));
    let task = CodeTask { max_attempts: 1, ..task() };
    let verdict = fixture.run_task(&model, task).await.verdict.unwrap();
    assert_eq!((verdict.success, verdict.attempts, verdict.history.len()), (false, 1, 3));
    let prompt = model.prompt(3);
    assert!((1..=3).all(|n| prompt.contains(&format!("raise SystemExit({n})"))), "{prompt}");
}
