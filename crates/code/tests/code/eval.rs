//! Tests of evaluations.

use std::sync::Arc;

use assize_code::eval::{self, EvalProblem, EvalReport, EvalState};
use assize_graph::{MemoryJournal, RunOptions};

use crate::fixture::{Fixture, Script, code, critique};

fn problem(id: &str, solution: &str) -> EvalProblem {
    EvalProblem {
        task_id: id.to_owned(),
        prompt: "def double(n):\n    \"\"\"Twice n.\"\"\"\n".to_owned(),
        entry_point: "double".to_owned(),
        test: "def check(candidate):\n    assert candidate(2) == 4".to_owned(),
        canonical_solution: solution.to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reference_solution_that_is_wrong_or_exits_early_is_reported_as_failed() {
    let fixture = Fixture::new().await;
    let runner = fixture.code_runner(Script::new([]));
    let problems = [
        problem("right", "    return 2 * n\n"),
        problem("wrong", "    return 2\n"),
        problem("early", "    import os; os._exit(0)\n"),
        problem("outright", "    pass\nimport os; os._exit(0)\n"),
    ];
    let failures = eval::reference(&runner, &problems, 2).await.unwrap();
    let outcomes: Vec<String> = failures
        .iter()
        .map(|failure| failure.as_ref().map_or_else(|| "passed".to_owned(), ToString::to_string))
        .collect();
    let early = "the program exited before the tests finished";
    assert_eq!(outcomes, ["passed", "1 of 1 tests failed", early, early]);
}

#[tokio::test(flavor = "multi_thread")]
async fn resumed_eval_reports_the_same_pass_rates_without_and_with_retries() {
    let fixture = Fixture::new().await;
    let (right, wrong) = ("def double(n): return 2 * n", "def double(n): return 2");
    // The graph runs one sample at a time, so that the order of the model's answers is known.
    let model = Script::new([
        code(right),
        code(wrong),
        critique("a", "b"),
        code(right),
        code(wrong),
        critique("a", "b"),
        code(wrong),
        critique("a", "b"),
    ]);
    let runner = Arc::new(fixture.code_runner(model.clone()));
    let graph = eval::graph(runner, 1).unwrap();
    let problems = ["one", "two", "three"].map(|id| problem(id, "")).to_vec();
    let journal = Arc::new(MemoryJournal::default());
    let run = || {
        graph.run(EvalState::new(problems.clone(), 1, 2), RunOptions::with_journal(journal.clone()))
    };
    let report = EvalReport::new("test", &run().await.unwrap());
    assert!((report.pass_at_1.first_attempt - 1.0 / 3.0).abs() < 1e-9, "{report:?}");
    assert!((report.pass_at_1.with_retries - 2.0 / 3.0).abs() < 1e-9, "{report:?}");
    assert_eq!((report.unsolved.as_slice(), report.spent.calls), (&["three".to_owned()][..], 8));
    // The first prompt does not contain the tests; the prompt after a failure contains the failed assertion.
    assert!(
        !model.prompt(0).contains("candidate(2)")
            && model.prompt(2).contains("assert candidate(2) == 4")
    );
    let again = EvalReport::new("test", &run().await.unwrap());
    assert_eq!((again, model.calls()), (report, 8));
}
