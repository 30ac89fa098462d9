//! Behaviours of prepared interpreters, which are started ahead of time.

use assize_sandbox::{Language, ProgramCommand};

use crate::bench::{Bench, python, text, try_python};

const SHOW: &str = r"
import sys, os, json, random
print(json.dumps([sys.argv, os.getcwd(), sorted(os.environ.items()), sys.path, __name__, __file__, sys.flags.no_user_site]))
print(sys.stdin.read(), sys.stdout.line_buffering, os.getuid(), len(os.listdir('/proc/self/fd')), os.getpid() == os.getpgrp())
def f(): raise ValueError('expected')
f()
";

pub(super) async fn prepared_interpreter_behaves_like_a_newly_started_one(bench: Bench) {
    let mut printed = Vec::new();
    for warm in [false, true] {
        let sandbox = bench.sandbox().await;
        if warm {
            sandbox.prepare().await.unwrap();
        }
        let command =
            ProgramCommand::default().args(["a", "b c"]).env("X", "1").cwd("/tmp").stdin(true);
        let running = sandbox.run(Language::Python, SHOW.as_bytes(), command).await.unwrap();
        let stdin = running.stdin();
        stdin.write(b"given").await.unwrap();
        stdin.close();
        let done = running.finish().await.unwrap();
        assert_eq!(done.outcome.warm, warm);
        assert_eq!(done.outcome.exit_code, Some(1));
        printed.push((text(&done.stdout).to_owned(), text(&done.stderr).to_owned()));
        // A prepared interpreter is used only once.
        assert!(!python(&sandbox, "pass").await.outcome.warm);
    }
    assert_eq!(printed[0], printed[1]);
    assert!(printed[0].0.contains("given True 1000"), "{}", printed[0].0);
}

pub(super) async fn prepared_interpreters_share_no_randomness(bench: Bench) {
    let mut printed = Vec::new();
    for _ in 0..2 {
        let sandbox = bench.sandbox().await;
        sandbox.prepare().await.unwrap();
        let code = "import random, os, ctypes\nprint(hash('x'), id(object()), random.random(), os.urandom(8).hex(), ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value)";
        let done = python(&sandbox, code).await;
        assert!(done.outcome.warm);
        printed.push(text(&done.stdout).split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    }
    let values = printed[0].iter().zip(&printed[1]);
    for (what, (one, two)) in ["hash", "heap", "random", "urandom", "library"].iter().zip(values) {
        assert_ne!(one, two, "{what}");
    }
}

pub(super) async fn request_that_a_prepared_interpreter_cannot_serve_starts_a_new_one(
    bench: Bench,
) {
    let sandbox = bench.sandbox().await;
    sandbox.prepare().await.unwrap();
    let done = try_python(
        &sandbox,
        "print(hash('x'))",
        ProgramCommand::default().env("PYTHONHASHSEED", "0"),
    )
    .await
    .unwrap();
    assert!(!done.outcome.warm);
    let sandbox = bench.sandbox().await;
    sandbox.prepare().await.unwrap();
    let long = "x".repeat(100_000);
    let done = try_python(
        &sandbox,
        "import sys; print(len(sys.argv[1]))",
        ProgramCommand::default().args([&long]),
    )
    .await
    .unwrap();
    assert_eq!((text(&done.stdout), done.outcome.warm), ("100000\n", false));
}
