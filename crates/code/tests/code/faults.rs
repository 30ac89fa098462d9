//! Tests of failures of programs, sandboxes and models.

use std::sync::Arc;
use std::time::Duration;

use assize_code::{CodeRunnerError, CodeTask, InputFile};
use assize_graph::RunError;
use assize_llm::{AnswerError, ErrorKind};

use crate::fixture::{Fixture, Reply, Script, code, critique, run_once};

/// Runs a program; returns the error message of its failure.
async fn error_of(fixture: &Fixture, program: &str) -> String {
    run_once(fixture, program).await.error.unwrap_or_else(|| "none".to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn program_that_exceeds_a_resource_limit_gets_a_specific_error() {
    let fixture = Fixture::new().await.limited(|limits| {
        limits.wall = Duration::from_secs(3);
        limits.memory = 64 << 20;
        limits.disk = 8 << 20;
        limits.output = 64 << 10;
        limits.processes = 16;
    });
    let endless = error_of(&fixture, "while True: pass").await;
    assert_eq!(endless, "the program timed out after 3 s");
    let hungry = error_of(&fixture, "data = []\nwhile True: data.append(bytearray(1 << 20))").await;
    assert_eq!(hungry, "the program used more than 64 MB of memory and was stopped");
    assert_eq!(
        error_of(&fixture, "import os; os.abort()").await,
        "the program was terminated by signal 6"
    );
    let forks = "import os, sys\ntry:\n    while True:\n        if os.fork() == 0: os._exit(0) if False else __import__('time').sleep(100)\nexcept BlockingIOError: sys.exit('no more processes')";
    assert_eq!(error_of(&fixture, forks).await, "the program exited with code 1");
    // A shell script that is run as a Python program fails with a syntax error.
    let shell = run_once(&fixture, "for f in *; do echo $f; done").await;
    let execution = shell.history[0].execution.as_ref().unwrap();
    assert!(execution.stderr.contains("SyntaxError"), "{execution:?}");
    // Too much output is truncated, and is not a failure.
    let flood = run_once(&fixture, "for _ in range(1 << 14): print('x' * 1023)").await;
    let execution = flood.history[0].execution.as_ref().unwrap();
    assert!(flood.success && execution.outcome.output_cut, "{:?}", flood.error);
    assert_eq!(execution.stdout.len(), 64 << 10);
    // This also applies if the output is larger than the memory limit.
    let flood = "import sys\nfor _ in range(1 << 10): sys.stdout.buffer.write(b'x' * (1 << 20))";
    let roomy = Fixture::new().await.limited(|limits| limits.output = 64 << 10);
    let flood = run_once(&roomy, flood).await;
    let execution = flood.history[0].execution.as_ref().unwrap();
    assert!(flood.success && execution.outcome.output_cut, "{:?}", flood.error);
    assert_eq!(execution.stdout.len(), 64 << 10);
    // The program cannot delete its own code.
    let deletes =
        "import os\ntry:\n    os.remove('/tmp/code.py')\nexcept OSError:\n    print('refused')";
    let deletes = run_once(&fixture, deletes).await;
    assert_eq!(deletes.answer.as_deref(), Some("refused\n"));
    let full = run_once(&fixture, "open('big', 'wb').write(bytes(20 << 20))").await;
    let execution = full.history[0].execution.as_ref().unwrap();
    assert!(execution.stderr.contains("No space left on device"), "{execution:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_input_files_are_restored_for_the_next_attempt() {
    let fixture = Fixture::new().await;
    let deletes = "import os, shutil; os.remove('given'); shutil.rmtree('/workspace', True); 1 / 0";
    let model = Script::new([
        code(deletes),
        critique("it deletes", "do not"),
        code("print(open('given').read())"),
    ]);
    let given = InputFile { name: "given".to_owned(), bytes: Arc::from(*b"here") };
    let task = CodeTask { inputs: vec![given], collect_files: true, ..CodeTask::new("x") };
    let verdict = fixture.run_task(&model, task).await.verdict.unwrap();
    assert_eq!((verdict.attempts, verdict.answer.as_deref()), (2, Some("here\n")), "{verdict:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_sandbox_is_replaced_without_a_new_attempt() {
    let fixture = Fixture::new().await;
    let model = Script::new([code("print(1)")]);
    // Two failed sandboxes are below the maximum number of tries.
    fixture.fail_next_sandboxes(2);
    let verdict = fixture.run_task(&model, CodeTask::new("x")).await.verdict.unwrap();
    assert_eq!((verdict.success, verdict.attempts), (true, 1));
    fixture.fail_next_sandboxes(u32::MAX);
    let model = Script::new([code("print(1)")]);
    let error = fixture.run_task(&model, CodeTask::new("x")).await.verdict.unwrap_err();
    let RunError::Node { source, .. } = error else { panic!("{error}") };
    let trouble = source.downcast::<CodeRunnerError>().unwrap();
    assert_eq!(trouble.to_string(), "the sandbox failed: injected failure");
    assert_eq!(model.calls(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn provider_error_ends_the_run_and_an_invalid_critique_does_not() {
    let fixture = Fixture::new().await;
    let model = Script::new([Reply::Fail(ErrorKind::Unauthorized)]);
    let error = fixture.run_task(&model, CodeTask::new("x")).await.verdict.unwrap_err();
    let RunError::Node { source, .. } = error else { panic!("{error}") };
    assert!(matches!(*source.downcast::<AnswerError>().unwrap(), AnswerError::Model(_)));
    let refused = Script::new([Reply::Refuse]);
    let task = CodeTask { max_attempts: 1, ..CodeTask::new("x") };
    let verdict = fixture.run_task(&refused, task).await.verdict.unwrap();
    assert_eq!(verdict.error.as_deref(), Some("the model declined to answer"));

    let invalid = Reply::Text("hm".to_owned());
    let model = Script::new([code("1 / 0"), invalid.clone(), invalid, code("print(1)")]);
    let verdict = fixture.run_task(&model, CodeTask::new("x")).await.verdict.unwrap();
    assert_eq!((verdict.success, verdict.attempts), (true, 2));
    assert_eq!(verdict.history[0].critique, None);
    assert!(model.prompt(3).contains("ZeroDivisionError"));
}
