//! Programs that misbehave, sandboxes that break, models that fail.

use std::sync::Arc;
use std::time::Duration;

use assize_code::{InputFile, Task, Trouble};
use assize_graph::RunError;
use assize_llm::{AnswerError, ErrorKind};

use crate::bench::{Bench, Line, Script, code, critique, run_once};

/// What the user reads, and the program is told, about a program that fails.
async fn error_of(bench: &Bench, program: &str) -> String {
    run_once(bench, program).await.error.unwrap_or_else(|| "none".to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn misbehaviour_is_told_apart() {
    let bench = Bench::new().await.limited(|limits| {
        limits.wall = Duration::from_secs(3);
        limits.memory = 64 << 20;
        limits.disk = 8 << 20;
        limits.output = 64 << 10;
        limits.processes = 16;
    });
    let endless = error_of(&bench, "while True: pass").await;
    assert_eq!(endless, "it took longer than 3 s and was stopped");
    let hungry = error_of(&bench, "data = []\nwhile True: data.append(bytearray(1 << 20))").await;
    assert_eq!(hungry, "it needed more than 64 MB of memory and was stopped");
    assert_eq!(error_of(&bench, "import os; os.abort()").await, "it was ended by signal 6");
    let forks = "import os, sys\ntry:\n    while True:\n        if os.fork() == 0: os._exit(0) if False else __import__('time').sleep(100)\nexcept BlockingIOError: sys.exit('no more processes')";
    assert_eq!(error_of(&bench, forks).await, "it ended with exit code 1");
    // Shell instead of Python is Python that cannot be read.
    let shell = run_once(&bench, "for f in *; do echo $f; done").await;
    let execution = shell.history[0].execution.as_ref().unwrap();
    assert!(execution.stderr.contains("SyntaxError"), "{execution:?}");
    // A flood is cut, and is no failure by itself.
    let flood = run_once(&bench, "for _ in range(1 << 14): print('x' * 1023)").await;
    let execution = flood.history[0].execution.as_ref().unwrap();
    assert!(flood.success && execution.outcome.output_cut, "{:?}", flood.error);
    assert_eq!(execution.stdout.len(), 64 << 10);
    // So is one that nobody could keep.
    let flood = "import sys\nfor _ in range(1 << 10): sys.stdout.buffer.write(b'x' * (1 << 20))";
    let roomy = Bench::new().await.limited(|limits| limits.output = 64 << 10);
    let flood = run_once(&roomy, flood).await;
    let execution = flood.history[0].execution.as_ref().unwrap();
    assert!(flood.success && execution.outcome.output_cut, "{:?}", flood.error);
    assert_eq!(execution.stdout.len(), 64 << 10);
    // The program cannot delete its own code.
    let deletes =
        "import os\ntry:\n    os.remove('/tmp/code.py')\nexcept OSError:\n    print('refused')";
    let deletes = run_once(&bench, deletes).await;
    assert_eq!(deletes.answer.as_deref(), Some("refused\n"));
    let full = run_once(&bench, "open('big', 'wb').write(bytes(20 << 20))").await;
    let execution = full.history[0].execution.as_ref().unwrap();
    assert!(execution.stderr.contains("No space left on device"), "{execution:?}");
}

/// What was given is there for the next one, whatever the last has done to it.
#[tokio::test(flavor = "multi_thread")]
async fn files_that_a_program_deletes_are_there_again() {
    let bench = Bench::new().await;
    let deletes = "import os, shutil; os.remove('given'); shutil.rmtree('/workspace', True); 1 / 0";
    let model = Script::new([
        code(deletes),
        critique("it deletes", "do not"),
        code("print(open('given').read())"),
    ]);
    let given = InputFile { name: "given".to_owned(), bytes: Arc::from(*b"here") };
    let task = Task { inputs: vec![given], wants_files: true, ..Task::new("x") };
    let verdict = bench.try_task(&model, task).await.verdict.unwrap();
    assert_eq!((verdict.attempts, verdict.answer.as_deref()), (2, Some("here\n")), "{verdict:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_breaks_is_not_the_programs_fault() {
    let bench = Bench::new().await;
    let model = Script::new([code("print(1)")]);
    // Twice while it looks around, twice while it runs the program.
    bench.breaks(2);
    let verdict = bench.try_task(&model, Task::new("x")).await.verdict.unwrap();
    assert_eq!((verdict.success, verdict.attempts), (true, 1));
    bench.breaks(u32::MAX);
    let model = Script::new([code("print(1)")]);
    let error = bench.try_task(&model, Task::new("x")).await.verdict.unwrap_err();
    let RunError::Node { source, .. } = error else { panic!("{error}") };
    let trouble = source.downcast::<Trouble>().unwrap();
    assert_eq!(trouble.to_string(), "the sandbox broke: it was told to");
    assert_eq!(model.calls(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails_ends_the_run_and_a_critic_that_mumbles_does_not() {
    let bench = Bench::new().await;
    let model = Script::new([Line::Fail(ErrorKind::Unauthorized)]);
    let error = bench.try_task(&model, Task::new("x")).await.verdict.unwrap_err();
    let RunError::Node { source, .. } = error else { panic!("{error}") };
    assert!(matches!(*source.downcast::<AnswerError>().unwrap(), AnswerError::Model(_)));
    let refused = Script::new([Line::Refuse]);
    let task = Task { max_attempts: 1, ..Task::new("x") };
    let verdict = bench.try_task(&refused, task).await.verdict.unwrap();
    assert_eq!(verdict.error.as_deref(), Some("the model declined to answer"));

    let mumbles = Line::Text("hm".to_owned());
    let model = Script::new([code("1 / 0"), mumbles.clone(), mumbles, code("print(1)")]);
    let verdict = bench.try_task(&model, Task::new("x")).await.verdict.unwrap();
    assert_eq!((verdict.success, verdict.attempts), (true, 2));
    assert_eq!(verdict.history[0].critique, None);
    assert!(model.told(3).contains("ZeroDivisionError"));
}
