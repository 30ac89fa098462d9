//! `assize consult`: a company's options on trial, from the built binary, with debates in real sandboxes.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};

use assize_testkit::{FakeProvider, Kind, Reply};
use serde_json::{Value, json};

use crate::exec::{home, makers, until};
use crate::run::with_provider;
use crate::{Home, Ran};

fn told(home: &Home, args: &[&str]) -> Value {
    let Ran { code, out, err } = home.run(args);
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn a_ticker_becomes_three_recommendations_and_twelve_others() {
    let home = home();
    let Ran { code, out, err } = home.run(&["consult", "crst", "--rounds", "2", "--out", "report"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        out.starts_with("[rehearsal, no model was asked]\nRecommended to CRST\n 1. m"),
        "{out}"
    );
    assert!(out.contains("\n15. m") && out.contains("company not verified"), "{out}");
    // 2 to make up, 2 to infer, 5 to propose, and 15 debates of 13 calls.
    assert!(err.contains("204 of 204 calls") && err.contains("debates in: jail (auto:"), "{err}");
    let report = home.work().join("report");
    for name in ["report.md", "report.json", "F1.md", "F2.md", "moves/m15.md", "transcripts/m1.md"]
    {
        assert!(report.join(name).is_file(), "{name}");
    }
    let text = fs::read_to_string(report.join("report.md")).unwrap();
    for flag in ["REHEARSAL", "SYNTHETIC", "COMPANY NOT VERIFIED", "# The other 12"] {
        assert!(text.contains(flag), "{text}");
    }
    let again = home.run(&["consult", "crst", "--rounds", "1", "--out", "report", "--quiet"]);
    assert_eq!(again.code, 4);
    assert!(again.err.contains("is in `report` already"), "{}", again.err);

    let whole = told(&home, &["consult", "crst", "--rounds", "1", "--json", "--quiet"]);
    assert_eq!(whole["company_ticker"], "CRST");
    assert_eq!(whole["recommended_moves"].as_array().unwrap().len(), 3);
    assert_eq!(whole["other_moves"].as_array().unwrap().len(), 12);
    assert_eq!(whole["policy_scores"].as_array().unwrap().len(), 15);
    assert_eq!(whole["conversation_logs"][14]["i3"].as_array().unwrap().len(), 2);
    assert_eq!(whole["label"], "rehearsal, no model was asked");
    let id = whole["run"].as_str().unwrap();
    let shown = home.run(&["runs", "show", id, "--events"]).out;
    assert!(
        shown.contains("Recommended to CRST") && shown.contains("pipeline_complete"),
        "{shown}"
    );
    assert_eq!(makers(&home), [] as [String; 0]);
}

#[test]
fn a_killed_consultation_goes_on_and_tells_nothing_twice() {
    let home = home().set("ASSIZE_REHEARSAL_LATENCY_MS", "50");
    let mut child = home.command(&["consult", "CRST", "--rounds", "3"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("debating the moves")));
    child.kill().unwrap();
    child.wait().unwrap();
    let listed = told(&home, &["runs", "list", "--json"]);
    assert_eq!(listed[0]["status"], "stopped");
    let id = listed[0]["id"].as_str().unwrap();
    let whole = told(&home, &["runs", "resume", id, "--json", "--quiet"]);
    assert_eq!(whole["recommended_moves"].as_array().unwrap().len(), 3);
    let shown = told(&home, &["runs", "show", id, "--events", "--json"]);
    let events: Vec<String> = shown["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| format!("{} {}", event["name"], event["payload"]))
        .collect();
    let once: BTreeSet<&String> = events.iter().collect();
    assert_eq!(once.len(), events.len());
    assert_eq!(events.iter().filter(|event| event.contains("sandbox_scored")).count(), 15);
    until("the end of what it made", || makers(&home).is_empty());
}

#[test]
fn what_is_known_comes_from_files_and_those_who_take_part_from_a_file() {
    let home = home();
    home.write("data/notes.md", "# Notes\nA rival opened.");
    home.write("data/income.csv", "year,revenue\n2022,5\n");
    home.write("data/deck.pdf", "%PDF");
    let personas = home.run(&["consult", "--export-personas"]).out;
    // One analyst less, and one decision maker less.
    let (before, after) = personas.split_once("[[analyst]]").unwrap();
    let rest = after.split_once("[[analyst]]").unwrap().1;
    let fewer = format!("{before}[[analyst]]{rest}");
    let fewer = &fewer[..fewer.rfind("[[decision_maker]]").unwrap()];
    home.write("people.toml", fewer);
    let args = ["consult", "CRST", "--data", "data", "--personas", "people.toml", "--rounds", "1"];
    let whole = told(&home, &[&args[..], &["--moves", "1", "--json", "--quiet"]].concat());
    assert_eq!(whole["policy_scores"].as_array().unwrap().len(), 4);
    assert_eq!(whole["policy_scores"][0]["out_of"], 80);
    assert!(whole["financial_data_raw"].as_str().unwrap().contains("2022,5"));
    assert!(whole["news_data_raw"].as_str().unwrap().contains("A rival opened."));
    let flags = whole["flags"].to_string();
    assert!(flags.contains("deck.pdf") && !flags.contains("SYNTHETIC"), "{flags}");
    home.write("people.toml", "critic = 'x'");
    let Ran { code, err, .. } = home.run(&args);
    assert_eq!(code, 2);
    assert!(err.contains("missing field") && err.contains("--export-personas"), "{err}");
}

#[test]
fn what_cannot_be_consulted_on_is_said_before_anybody_is_asked() {
    let fake = FakeProvider::scripted(Kind::Anthropic, [] as [Reply; 0]);
    let home = with_provider(Kind::Anthropic, &fake);
    fs::create_dir(home.work().join("empty")).unwrap();
    let tickers = json!({"0": {"cik_str": 42, "ticker": "CRST", "title": "Crust Inc."}});
    home.write("edgar/company_tickers.json", &tickers.to_string());
    let home = home.set("ASSIZE_EDGAR_FOLDER", "edgar");
    let told = |args: &[&str]| {
        let Ran { code, err, .. } = home.run(&[&["consult"], args].concat());
        format!("{code} {}", err.trim_end())
    };
    let told = [
        told(&["../etc"]),
        told(&["CRSR"]),
        told(&["CRST", "--source", "files"]),
        told(&["CRST", "--data", "nowhere"]),
        told(&["CRST", "--data", "empty"]),
        told(&["CRST", "--source", "edgar"]),
        told(&["CRST"]),
        told(&["CRST", "--isolation", "microvm", "--yes"]),
        told(&["--resume", "consult-nothing"]),
    ];
    insta::assert_snapshot!(told.join("\n"));
    assert_eq!(fake.captured().len(), 0);
    assert!(
        home.run(&["consult", "--graph"])
            .out
            .contains("sandbox_orchestrator ==>|each| negotiation")
    );
    let estimate = home.run(&["consult", "CRST", "--estimate"]).out;
    assert!(estimate.starts_with("924 calls, about "), "{estimate}");
}

/// Each with sandboxes of its own: names are a run's own matter.
#[test]
fn two_at_once_on_one_ticker_do_not_disturb_each_other() {
    let home = home();
    let args = ["consult", "CRST", "--rounds", "2", "--json", "--quiet"];
    let both = [(); 2].map(|()| home.command(&args).spawn().unwrap());
    let told = both.map(|child| {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    });
    assert_ne!(told[0]["run"], told[1]["run"]);
    assert_eq!(told[0]["policy_scores"], told[1]["policy_scores"]);
    assert_eq!(makers(&home), [] as [String; 0]);
}

#[test]
fn a_budget_and_a_full_disk_stop_it_and_it_goes_on() {
    let home = home().set("ASSIZE_STORE_PATH", "disk/store.db");
    let script = "
mkdir disk && mount -t tmpfs -o size=500k tmpfs disk
tries() { code=0; \"$@\" || code=$?; echo \"exit code $code\"; }
tries assize consult CRST --rounds 2 --quiet
id=$(assize runs list | sed -n 2p | cut -d' ' -f1)
mount -o remount,size=40m disk
tries assize runs resume \"$id\" --quiet --max-tokens 150000
assize runs resume \"$id\" --quiet --max-tokens 100000000 | head -2";
    let Ran { code, out, err } = crate::runs::where_disks_can_be_made(&home, script);
    assert_eq!(code, 0, "{out}\n{err}");
    insta::assert_snapshot!(out, @r"
    exit code 4
    exit code 5
    [rehearsal, no model was asked]
    Recommended to CRST
    ");
    assert!(err.contains("there is no room left for the store"), "{err}");
    assert!(err.contains("tokens does not allow another call"), "{err}");
}
