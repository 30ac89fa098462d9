//! Tests of the harness for programs that run in another process than their tests. A script relays the messages between
//! the two processes.

use std::process::Command;

use serde_json::Value;

/// Runs the script with the given arguments and returns what it prints.
fn relay(arguments: &[&str]) -> Value {
    let crate_folder = env!("CARGO_MANIFEST_DIR");
    let output = Command::new("python3")
        .args(["-B", "relay.py", &format!("{crate_folder}/src/harness")])
        .args(arguments)
        .current_dir(format!("{crate_folder}/tests/code/separate"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{errors}"))
}

#[test]
fn values_objects_and_calls_cross_between_python_tests_and_program() {
    let report = relay(&["solution.py", "plain_tests.py"]);
    assert_eq!((&report["passed"], &report["failed"]), (&12.into(), &Value::Array(Vec::new())));
    // The program decided whether these objects are equal.
    let asked = report["asked"].as_object().unwrap();
    assert_eq!(asked.keys().collect::<Vec<_>>(), ["Account", "Number"]);
}

#[test]
fn values_objects_and_calls_cross_between_javascript_tests_and_program() {
    let report = relay(&["solution.js", "plain_tests.js"]);
    assert_eq!((&report["passed"], &report["failed"]), (&6.into(), &Value::Array(Vec::new())));
}

#[test]
fn failed_tests_show_the_error_of_the_program() {
    let report = relay(&["solution.py", "failing_tests.py"]);
    assert_eq!(report["passed"], 2);
    let failed = report["failed"].as_array().unwrap();
    let error_of = |test: &str| {
        let named = |one: &&Value| one["name"].as_str().unwrap().starts_with(test);
        failed.iter().find(named).unwrap()["error"].as_str().unwrap()
    };
    assert_eq!(failed.len(), 3);
    assert!(error_of("test_wrong").ends_with("AssertionError: 3 != 4"));
    let error = error_of("test_error");
    assert!(error.contains("In the program:") && error.contains("return one + two"), "{error}");
    let error = error_of("test_replaced_function");
    assert!(error.contains("the tests cannot replace `add` in the program"), "{error}");
}

#[test]
fn no_cheating_program_passes() {
    for (language, tests, cheats) in [("python", 6, 41), ("javascript", 8, 25)] {
        let passed = relay(&["--cheats", language]);
        let passed = passed.as_object().unwrap();
        let passing: Vec<_> = passed.iter().filter(|(_, count)| **count != 0).collect();
        assert_eq!(passing, [(&"honest".to_owned(), &Value::from(tests))], "{language}");
        assert_eq!(passed.len(), cheats + 1, "{language}");
    }
}
