//! Many problems at once.

use std::sync::Arc;

use assize_code::eval::{self, EvalState, Problem, Report};
use assize_graph::{MemoryJournal, RunOptions};

use crate::bench::{Bench, Script, code, critique};

fn problem(id: &str, solution: &str) -> Problem {
    Problem {
        task_id: id.to_owned(),
        prompt: "def double(n):\n    \"\"\"Twice n.\"\"\"\n".to_owned(),
        entry_point: "double".to_owned(),
        test: "def check(candidate):\n    assert candidate(2) == 4".to_owned(),
        canonical_solution: solution.to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_own_solutions_pass_and_leaving_early_does_not() {
    let bench = Bench::new().await;
    let court = bench.court(Script::new([]));
    let problems = [
        problem("right", "    return 2 * n\n"),
        problem("wrong", "    return 2\n"),
        problem("early", "    import os; os._exit(0)\n"),
        problem("outright", "    pass\nimport os; os._exit(0)\n"),
    ];
    let failures = eval::reference(&court, &problems, 2).await.unwrap();
    let told: Vec<String> = failures
        .iter()
        .map(|failure| failure.as_ref().map_or_else(|| "passed".to_owned(), ToString::to_string))
        .collect();
    let early = "it ended before the tests were through";
    assert_eq!(told, ["passed", "1 of 1 tests failed", early, early]);
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_are_counted_with_and_without_the_loop_and_it_goes_on() {
    let bench = Bench::new().await;
    let (right, wrong) = ("def double(n): return 2 * n", "def double(n): return 2");
    // One after the other, so that it is known who is asked what.
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
    let court = Arc::new(bench.court(model.clone()));
    let graph = eval::graph(court, 1).unwrap();
    let problems = ["one", "two", "three"].map(|id| problem(id, "")).to_vec();
    let journal = Arc::new(MemoryJournal::default());
    let run = || {
        graph.run(EvalState::new(problems.clone(), 1, 2), RunOptions::with_journal(journal.clone()))
    };
    let report = Report::new("test", &run().await.unwrap());
    assert!((report.pass_at_1.first_attempt - 1.0 / 3.0).abs() < 1e-9, "{report:?}");
    assert!((report.pass_at_1.with_retries - 2.0 / 3.0).abs() < 1e-9, "{report:?}");
    assert_eq!((report.unsolved.as_slice(), report.spent.calls), (&["three".to_owned()][..], 8));
    // The tests are not shown, and what they said of a failure is.
    assert!(
        !model.told(0).contains("candidate(2)")
            && model.told(2).contains("assert candidate(2) == 4")
    );
    let again = Report::new("test", &run().await.unwrap());
    assert_eq!((again, model.calls()), (report, 8));
}
