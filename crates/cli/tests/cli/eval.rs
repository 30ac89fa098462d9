//! `assize eval`, from the built binary.

use assize_testkit::{FakeProvider, Kind, Reply};
use serde_json::{Value, json};

use crate::exec::home;
use crate::{Home, Ran};

fn problem(id: &str, solution: &str) -> String {
    json!({
        "task_id": id, "prompt": "def double(n):\n    \"\"\"Twice n.\"\"\"\n", "entry_point": "double",
        "test": "def check(candidate):\n    assert candidate(2) == 4", "canonical_solution": solution,
    })
    .to_string()
}

fn program(code: &str) -> Reply {
    let answer = json!({"code": code, "dependencies": [], "reasoning": "", "confidence": 0.5});
    Reply::text(answer.to_string())
}

#[test]
fn the_files_own_solutions_are_checked_without_a_model() {
    let home = home();
    home.write("good.jsonl", &problem("a/1", "    return n * 2\n"));
    let Ran { code, out, err } = home.run(&["eval", "good.jsonl", "--reference"]);
    assert_eq!((code, out.as_str()), (0, "1 of 1 solutions pass\n"), "{err}");
    let bad = [
        problem("a/1", "    return n * 2\n"),
        problem("a/2", "    return 5\n"),
        problem("a/3", "    raise SystemExit(0)\n"),
        problem("a/4", "    import os; os._exit(0)\n"),
    ];
    home.write("bad.jsonl", &bad.join("\n"));
    let Ran { code, out, .. } = home.run(&["eval", "bad.jsonl", "--reference"]);
    assert_eq!(code, 1);
    insta::assert_snapshot!(out, @r"
    a/2: 1 of 1 tests failed
    a/3: 1 of 1 tests failed
    a/4: it ended before the tests were through
    1 of 4 solutions pass
    ");
}

#[test]
fn what_is_no_file_of_problems_is_named() {
    let home = home();
    home.write("x.jsonl", "{\"task_id\": 1}");
    let Ran { code, err, .. } = home.run(&["eval", "x.jsonl"]);
    assert_eq!(code, 2);
    assert!(err.contains("line 1 is no problem") && err.contains("canonical_solution"), "{err}");
    home.write("good.jsonl", &problem("a", "    return n * 2\n"));
    let Ran { code, err, .. } = home.run(&["eval", "good.jsonl"]);
    assert_eq!(code, 3);
    assert!(err.contains("no model is configured") && err.contains("--reference"), "{err}");
}

#[test]
fn a_model_is_evaluated_with_and_without_the_loop_and_it_goes_on() {
    let critique =
        Reply::text(json!({"issues": ["wrong"], "suggested_fixes": ["do it right"]}).to_string());
    let (right, wrong) = ("def double(n): return n * 2", "def double(n): return 5");
    // The provider fails once in the middle.
    let script = [program(right), program(wrong), Reply::status(401), critique, program(right)];
    let fake = FakeProvider::scripted(Kind::Anthropic, script);
    let home = Home::with(Kind::Anthropic, &fake).set("PATH", "/usr/local/bin:/usr/bin:/bin");
    home.write("two.jsonl", &[problem("a/1", ""), problem("a/2", "")].join("\n"));
    let args = ["eval", "two.jsonl", "--parallel", "1", "--max-attempts", "2"];
    let Ran { code, err, .. } = home.run(&args);
    assert_eq!(code, 3, "{err}");
    let listed: Value = serde_json::from_str(&home.run(&["runs", "list", "--json"]).out).unwrap();
    let run = listed[0]["id"].as_str().unwrap();
    let Ran { code, out, err } = home.run(&["runs", "resume", run]);
    assert_eq!(code, 0, "{err}");
    insta::assert_snapshot!(out, @r"
    2 problems
    pass@1    50.0 % at the first attempt, 100.0 % within 2
    ");
    assert_eq!(fake.captured().len(), 5);
    assert!(home.run(&["runs", "list"]).out.contains("(100.0 % solved)"));
}
