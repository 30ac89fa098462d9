//! Compares the graph engine of assize with LangGraph, with and without durability.
//!
//! Both engines run the same three cases with a model that answers at once, with the same answers of 600 characters:
//! (a) one debate of 61 calls, (b) fifteen branches of one call each and a reduce step, (c) fifteen parallel debates.
//! Each case runs in three modes: without durability, and with every finished call stored in SQLite, where the setting
//! `synchronous` is `NORMAL` or `FULL`. With SQLite, LangGraph uses its durability mode `sync`. Each engine runs each
//! case in separate processes, and the two engines alternate, so that other load on the machine affects both. Absolute
//! times depend on the machine: compare the ratios.
//!
//! `scripts/bench-graph` creates the virtual environment of LangGraph and runs this benchmark.

mod assize_side;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use clap::Parser;
use serde::{Deserialize, Serialize};

/// Length of an answer, in characters.
const ANSWER: usize = 600;

#[derive(Parser)]
struct Args {
    /// Python interpreter with LangGraph
    #[arg(long, value_name = "FILE", required_unless_present = "ours")]
    python: Option<PathBuf>,
    /// Number of runs of a case in each process
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    /// Number of processes per case and engine; assize and LangGraph alternate
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Run one case on the graph engine of assize: CASE MODE
    #[arg(long, hide = true, num_args = 2)]
    ours: Option<Vec<String>>,
}

/// Cases of the benchmark: name, description, and number of model calls.
const CASES: [(&str, &str, usize); 3] = [
    ("a", "one debate, 61 calls", 61),
    ("b", "15 branches, reduce step", 15),
    ("c", "15 debates, 915 calls", 915),
];

/// Modes of durability: name and description.
const MODES: [(&str, &str); 3] =
    [("none", "not durable"), ("NORMAL", "SQLite, NORMAL"), ("FULL", "SQLite, FULL")];

/// Measurements of one engine (assize or LangGraph) for one case.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Measurements {
    seconds: Vec<f64>,
    /// Size of the store after the last run, in bytes.
    bytes: u64,
    peak_kb: u64,
}

impl Measurements {
    fn add(&mut self, other: Measurements) {
        self.seconds.extend(other.seconds);
        self.bytes = other.bytes;
        self.peak_kb = self.peak_kb.max(other.peak_kb);
    }

    fn median_ms(&self) -> f64 {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        1000.0 * sorted[sorted.len() / 2]
    }
}

/// Answers of the model, the same for assize and LangGraph.
#[derive(Debug, Serialize, Deserialize)]
struct Answers {
    prose: Vec<String>,
    scores: String,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if let Some(ours) = &args.ours {
        let took = assize_side::run(&ours[0], &ours[1], args.repeats, answers())?;
        println!("{}", serde_json::to_string(&took)?);
        return Ok(());
    }
    let python = args.python.context("`--python` is required")?;
    println!(
        "medians of {} runs, with a model that answers at once with {ANSWER} characters; {} CPU cores, {} build of \
         assize, LangGraph {}",
        args.repeats * args.turns,
        std::thread::available_parallelism()?,
        if cfg!(debug_assertions) { "debug" } else { "release" },
        version(&python)?
    );
    let empty = assize_side::empty_store_bytes()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("answers.json");
    std::fs::write(&file, serde_json::to_string(&answers())?)?;
    println!(
        "\n{:<28} {:<15} {:>9} {:>9} {:>8}  {:>10} {:>5} {:>8}  {:>7} {:>7}",
        "",
        "",
        "ours ms",
        "theirs ms",
        "faster",
        "ours ×text",
        "net",
        "theirs ×",
        "ours MB",
        "theirs"
    );
    for (case, what, calls) in CASES {
        for (mode, name) in MODES {
            let (mut ours, mut theirs) = (Measurements::default(), Measurements::default());
            for _ in 0..args.turns {
                ours.add(our_side(case, mode, args.repeats)?);
                theirs.add(peer(&python, case, mode, args.repeats, &file)?);
            }
            let text = (calls * ANSWER) as f64;
            let times = |bytes: u64| match mode {
                "none" => "–".to_owned(),
                _ => format!("{:.2}", bytes as f64 / text),
            };
            println!(
                "{:<28} {name:<15} {:>9.2} {:>9.1} {:>7.0}×  {:>10} {:>5} {:>8}  {:>7.1} {:>7.1}",
                format!("({case}) {what}"),
                ours.median_ms(),
                theirs.median_ms(),
                theirs.median_ms() / ours.median_ms(),
                times(ours.bytes),
                times(ours.bytes.saturating_sub(empty)),
                times(theirs.bytes),
                ours.peak_kb as f64 / 1000.0,
                theirs.peak_kb as f64 / 1000.0
            );
        }
    }
    println!(
        "\n“×text” is the size of the store on disk, divided by the size of all answers ({ANSWER} characters each); \
         “net” is “ours ×text” without the {} KB of an empty store.",
        empty / 1000
    );
    Ok(())
}

/// Generates the answers of the model. No two answers are equal.
fn answers() -> Answers {
    const WORDS: [&str; 48] = [
        "margin", "the", "plan", "a", "risk", "of", "station", "and", "loan", "which", "customer",
        "is", "morning", "not", "evidence", "in", "second", "to", "year", "that", "rent", "it",
        "oven", "as", "staff", "with", "price", "would", "demand", "be", "flour", "for", "answer",
        "has", "critic", "on", "commuter", "more", "than", "figure", "but", "delivery", "if",
        "partner", "so", "cost", "may", "contract",
    ];
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        WORDS[(seed % WORDS.len() as u64) as usize]
    };
    let mut prose = Vec::new();
    for number in 0..1000 {
        let mut text = format!("Point {number}:");
        while text.len() < ANSWER {
            text.push(' ');
            text.push_str(next());
        }
        text.truncate(ANSWER - 1);
        text.push('.');
        prose.push(text);
    }
    let scores = |reasoning: &str| {
        format!(
            r#"{{"impact": 8, "feasibility": 7, "risk_adjusted_return": 6, "strategic_alignment": 9, "reasoning": "{reasoning}"}}"#
        )
    };
    let room = ANSWER - scores("").len();
    let scores = scores(&prose[0][..room]);
    Answers { prose, scores }
}

fn our_side(case: &str, mode: &str, repeats: usize) -> anyhow::Result<Measurements> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--ours", case, mode, "--repeats", &repeats.to_string()]);
    outcome(command)
}

fn peer(
    python: &Path,
    case: &str,
    mode: &str,
    repeats: usize,
    answers: &Path,
) -> anyhow::Result<Measurements> {
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("peer.py"));
    command.args([case, mode, &repeats.to_string()]).arg(answers);
    outcome(command)
}

fn outcome(mut command: Command) -> anyhow::Result<Measurements> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {errors}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn version(python: &Path) -> anyhow::Result<String> {
    let ask = "import importlib.metadata as m; print(m.version('langgraph'))";
    let output = Command::new(python).args(["-c", ask]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
