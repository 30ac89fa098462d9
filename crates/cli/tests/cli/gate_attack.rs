//! Tests of `assize attack --gate`: the scorecard of the gate with default settings, and with settings that are too
//! loose or too strict.

use serde_json::Value;

use crate::exec::home;
use crate::{CommandOutput, Home};

/// Attacks the gate with the cases whose name contains `only`. Returns the exit code and the scorecard.
fn scorecard(home: &Home, only: &str) -> (i32, Value) {
    let CommandOutput { code, out, err } =
        home.run(&["attack", "--gate", "--isolation", "jail", "--only", only, "--json"]);
    (code, serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}")))
}

/// Number of cases with the outcome `name` (such as `got_through`) in a scorecard, over all classes of cases.
fn count(card: &Value, name: &str) -> u64 {
    card["count"][name].as_u64().unwrap()
}

/// Creates a `Home` whose `PATH` contains the programs of the system.
fn with_programs() -> Home {
    home().set("PATH", "/usr/local/bin:/usr/bin:/bin")
}

#[test]
fn gate_stops_all_hostile_cases_and_accepts_all_harmless_control_cases() {
    let home = with_programs();
    // The test runs a sample of each class of cases, or all cases if `ASSIZE_TEST_FULL` is set.
    let full = std::env::var_os("ASSIZE_TEST_FULL").is_some();
    let some = ["/files.txt:38", "secrets/", "hidden/", "paths/", "forged/unittest:1"];
    let parts: &[&str] = if full { &["/"] } else { &some };
    let mut classes = Vec::new();
    for only in parts {
        let (code, card) = scorecard(&home, only);
        assert_eq!(code, 0, "{card}");
        assert_eq!((count(&card, "got_through"), count(&card, "held_up")), (0, 0), "{card}");
        for class in card["classes"].as_array().unwrap() {
            if class["not_applicable"].is_null() {
                assert!(class["count"]["hostile"].as_u64() > Some(0), "{}", class["name"]);
                assert!(class["count"]["controls"].as_u64() > Some(0), "{}", class["name"]);
                classes.push(class["name"].as_str().unwrap().to_owned());
            }
        }
    }
    for class in ["forged/unittest", "files", "workers", "secrets", "hidden", "paths"] {
        assert!(classes.iter().any(|name| name == class), "{class}: {classes:?}");
    }
}

#[test]
fn gate_scorecard_reports_hostile_cases_that_a_looser_setting_lets_through() {
    let home = with_programs().set("ASSIZE_DRAFT_READABLE", "**");
    for only in ["workers/files.txt:31", "files/files.txt:31"] {
        let (code, card) = scorecard(&home, only);
        assert_eq!(code, 1, "{card}");
        assert!(count(&card, "got_through") > 0, "{card}");
        assert_eq!(count(&card, "held_up"), 0, "{card}");
    }
    let CommandOutput { out, err, .. } =
        home.run(&["attack", "--gate", "--isolation", "jail", "--only", "workers/files.txt:31"]);
    assert!(out.contains("✗ secrets in requested files"), "{out}");
    assert!(out.contains("GOT THROUGH    workers/files.txt:31"), "{out}");
    assert!(err.contains(" got through the gate"), "{err}");
}

#[test]
fn gate_scorecard_reports_harmless_control_cases_that_a_stricter_setting_stops() {
    let home = with_programs().set("ASSIZE_DRAFT_PROTECTED", "src/");
    let CommandOutput { code, out, err } =
        home.run(&["attack", "--gate", "--isolation", "jail", "--only", "files/"]);
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("? files that run automatically"), "{out}");
    assert!(out.contains(" stopped, ") && out.contains("CONTROL STOPPED files/"), "{out}");
    assert!(err.contains("the gate stopped "), "{err}");
}

#[test]
fn attack_gate_command_exits_with_an_error_for_unknown_cases_and_unavailable_sandboxes() {
    let home = with_programs();
    assert_eq!(home.run(&["attack", "--gate", "--only", "no such case"]).code, 2);
    assert_eq!(home.run(&["attack", "--gate", "--isolation", "cellar"]).code, 2);
    assert_eq!(home.run(&["attack", "--gate", "--isolation", "microvm"]).code, 125);
}
