//! Whoever dies, nothing that was answered is asked again, and all comes to the same.

#![expect(clippy::print_stderr, reason = "the figures are part of the proof")]

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use assize_testkit::{Captured, FakeProvider, Kind, Latency, Reply};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{LEASE, Servers, Worker, joined};
use crate::run::with_provider;
use crate::serve::{Serving, Told};
use crate::{Home, Ran};

/// What stands around the number of an answer.
const MARKS: [&str; 2] = ["[[", "]]"];

/// The same text, whatever numbers its answers had.
fn unnumbered(text: &str) -> String {
    let mut parts = text.split(MARKS[0]);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    parts.for_each(|part| plain.push_str(part.split_once(MARKS[1]).unwrap().1));
    plain
}

/// What is answered depends on what is asked alone, but for the number of the answer.
pub(super) fn said(number: usize, request: &Captured) -> Reply {
    let text = unnumbered(&request.body.to_string()).replace("\\n", " ");
    // What others said stands between marks that are made of its hash.
    let is_mark = |word: &&str| word.len() == 12 && word.chars().all(|c| c.is_ascii_hexdigit());
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !is_mark(word));
    let mut hash = DefaultHasher::new();
    words.for_each(|word| word.hash(&mut hash));
    let hash = hash.finish();
    // In letters, as figures that stand in no source are complained of.
    let letters: String =
        number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
    let mark = format!("{}{letters}{}", MARKS[0], MARKS[1]);
    let point = |shift: u32| hash.rotate_right(shift) % 10 + 1;
    let last = text.rfind("Now: ").map_or(text.as_str(), |at| &text[at..]);
    let answer = if last.contains("propose exactly") {
        json!({"moves": [{
            "title": format!("Open shop {}", hash % 1000), "thesis": mark, "actions": ["Rent"],
            "cost": "some", "timeline": "a year", "risks": ["none"], "citations": ["F1.1"],
        }]})
        .to_string()
    } else if last.contains("inference, F") {
        let finding = json!({"title": "Growth", "statement": mark, "evidence": []});
        json!({"summary": "So.", "findings": [finding]}).to_string()
    } else if last.contains("The hearing is over") {
        json!({"reasoning": mark, "impact": point(0), "feasibility": point(8),
            "risk_adjusted_return": point(16), "strategic_alignment": point(24)})
        .to_string()
    } else {
        format!("Said {}. {mark}", hash % 1000)
    };
    Reply::text(answer)
}

pub(super) fn asked(ticker: &str) -> Value {
    json!({"kind": "consult", "ticker": ticker, "rounds": 3, "moves": 1, "yes": true})
}

/// The calls of one such consultation: the nine before, and five debates.
const CALLS: usize = 9 + 5 * (1 + 3 * (2 * 3 - 1 + 1));

fn home_of(fake: &FakeProvider, servers: &Servers) -> Home {
    joined(with_provider(Kind::Anthropic, fake), servers)
}

/// What a consultation came to, whatever numbers its answers had and whoever held it.
fn result(run: &Value) -> Value {
    let mut result: Value = serde_json::from_str(&unnumbered(&run["result"].to_string())).unwrap();
    result.as_object_mut().unwrap().remove("made");
    // How many tokens it took, what they cost, and how alike two answers are depends on the numbers.
    let forget = |part: &mut Value, names: &[&str]| {
        names.iter().for_each(|name| drop(part.as_object_mut().unwrap().remove(*name)));
    };
    forget(&mut result["spent"], &["usage", "cost"]);
    for verdict in result["policy_scores"].as_array_mut().unwrap() {
        forget(&mut verdict["spent"], &["usage", "cost"]);
    }
    for list in ["recommended_moves", "other_moves"] {
        result[list].as_array_mut().unwrap().iter_mut().for_each(|one| forget(one, &["drift"]));
    }
    result
}

/// Compares part by part, so that it is seen which one differs.
fn assert_same(one: &Value, other: &Value, at: &str) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            assert!(one.keys().eq(other.keys()), "{at}");
            one.iter()
                .for_each(|(name, part)| assert_same(part, &other[name], &format!("{at}/{name}")));
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let parts = one.iter().zip(other).enumerate();
            parts.for_each(|(at_, (one, other))| assert_same(one, other, &format!("{at}/{at_}")));
        }
        _ => assert_eq!(one, other, "{at}"),
    }
}

/// The numbers of the answers in the journal of a run.
fn recorded(home: &Home, run: &str) -> Vec<usize> {
    let Ran { code, out, err } = home.run(&["runs", "export", run]);
    assert_eq!(code, 0, "{err}");
    let export: Value = serde_json::from_str(&out).unwrap();
    let text = |record: &Value| record["done"]["text"].as_str().map(str::to_owned);
    let texts = export["records"].as_array().unwrap().iter().filter_map(text);
    let number = |text: String| {
        let letters = text.split_once(MARKS[0])?.1.split_once(MARKS[1])?.0;
        let digits: String =
            letters.bytes().map(|letter| char::from(letter - b'a' + b'0')).collect();
        digits.parse().ok()
    };
    texts.filter_map(number).collect()
}

/// The worker that holds most runs.
fn busiest(home: &Home, workers: &[Worker]) -> usize {
    let Ran { code, out, err } = home.run(&["runs", "list", "--status", "running", "--json"]);
    assert_eq!(code, 0, "{err}");
    let runs: Vec<Value> = serde_json::from_str(&out).unwrap();
    let held =
        |worker: &Worker| runs.iter().filter(|run| run["holder"] == worker.child.id()).count();
    let index = (0..workers.len()).max_by_key(|index| held(&workers[*index])).unwrap();
    eprintln!("it holds {} of {} runs", held(&workers[index]), runs.len());
    index
}

/// Follows a run at one server until it is gone or the run is over.
fn follow_on(serving: &Serving<'_>, run: &str, told: &mut Vec<Told>) {
    let last = told.iter().rev().find_map(|told| told.id);
    let more = serving.told(run, last);
    told.extend(more.into_iter().filter(|told| told.id.is_some()));
}

#[test]
fn ten_consultations_survive_the_loss_of_anything() {
    let tickers: Vec<String> = ('A'..='J').map(|letter| format!("CRS{letter}")).collect();
    // Undisturbed, on one machine, with the isolation that the workers have.
    let quick = FakeProvider::caching(Latency::default(), said);
    let alone = with_provider(Kind::Anthropic, &quick).set("ASSIZE_SANDBOX_ISOLATION", "jail");
    let serving = Serving::start(&alone, &[]);
    let expected: BTreeMap<&str, Value> = tickers
        .iter()
        .map(|ticker| {
            let run = serving.begin(asked(ticker));
            (ticker.as_str(), result(&serving.end_of(&run)))
        })
        .collect();
    assert_eq!(quick.captured().len(), tickers.len() * CALLS);
    assert_ne!(expected["CRSA"], expected["CRSB"]);
    serving.stop();

    let latency =
        Latency { to_begin: Duration::from_millis(60), to_end: Duration::from_millis(20) };
    let fake = FakeProvider::caching(latency, said);
    let mut servers = Servers::start(3);
    let (home, other) = (home_of(&fake, &servers), home_of(&fake, &servers));
    let (first, second) = (Serving::start(&home, &[]), Serving::start(&other, &[]));
    let mut workers: Vec<Worker> =
        (0..3).map(|_| Worker::start(&home, &["--slots", "3", "--isolation", "jail"])).collect();
    let runs: BTreeMap<String, String> = tickers
        .iter()
        .enumerate()
        .map(|(index, ticker)| {
            let serving = if index % 2 == 0 { &first } else { &second };
            (ticker.clone(), serving.begin(asked(ticker)))
        })
        .collect();
    let watched = &runs["CRSA"];
    let mut told = Vec::new();
    std::thread::scope(|scope| {
        let (first, told, fake, workers) = (&first, &mut told, &fake, &mut workers);
        // Somebody follows one of them at the server that will be gone.
        scope.spawn(move || follow_on(first, watched, told));
        fake.wait_for_requests(100);
        eprintln!("a worker is killed");
        workers.remove(busiest(&other, workers)).kill();
        fake.wait_for_requests(180);
        eprintln!("a server is killed");
        let pid = rustix::process::Pid::from_child(&first.child);
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    });
    fake.wait_for_requests(260);
    eprintln!("a server of NATS is killed");
    servers.kill(1);
    // Longer than one reply of a server is waited for.
    std::thread::sleep(LEASE / 2 + LEASE / 6);
    servers.restart(1);
    fake.wait_for_requests(360);
    eprintln!("a worker is paused");
    let paused = &workers[busiest(&other, &workers)];
    paused.signal(Signal::STOP);
    std::thread::sleep(LEASE + LEASE / 2);
    paused.signal(Signal::CONT);
    follow_on(&second, watched, &mut told);
    let ended: BTreeMap<&str, Value> =
        runs.iter().map(|(ticker, run)| (ticker.as_str(), second.end_of(run))).collect();

    // All ten came to the same as undisturbed ones.
    for (ticker, run) in &ended {
        assert_eq!(run["status"], "done", "{ticker}: {run}");
        assert_same(&result(run), &expected[ticker], ticker);
    }
    // No finished call was asked again.
    let captured = fake.captured();
    let mut last: HashMap<String, usize> = HashMap::new();
    for (number, request) in captured.iter().enumerate() {
        last.insert(request.body.to_string(), number);
    }
    let mut finished = 0;
    for run in runs.values() {
        let recorded = recorded(&other, run);
        assert_eq!(recorded.len(), CALLS, "{run}");
        for number in recorded {
            assert_eq!(last[&captured[number].body.to_string()], number, "asked again: {number}");
            finished += 1;
        }
    }
    // What was on its way when somebody died was asked again, and is counted apart.
    let again = captured.len() - finished;
    let lost: u64 = ended.values().map(|run| run["spent"]["lost_calls"].as_u64().unwrap()).sum();
    eprintln!(
        "{finished} calls, none of them twice; {again} were on their way, {lost} counted as lost"
    );
    assert!(again as u64 <= lost, "{again} {lost}");
    // Every event was told once and in order, also to whoever had to call again elsewhere.
    let ids: Vec<u64> = told.iter().filter_map(|told| told.id).collect();
    assert!(ids.is_sorted_by(|one, next| one < next));
    let all = second.told(watched, None);
    let all: Vec<&Told> = all.iter().filter(|told| told.id.is_some()).collect();
    assert!(told.iter().collect::<Vec<_>>() == all, "{} of {}", told.len(), all.len());
    assert_eq!(all.last().unwrap().name, "run_ended");
}

/// What a worker had comes back to itself, while what it began before is still there.
#[test]
fn who_was_away_for_too_long_goes_on_and_shares_nothing_with_what_was_begun_before() {
    let latency =
        Latency { to_begin: Duration::from_millis(60), to_end: Duration::from_millis(20) };
    let fake = FakeProvider::caching(latency, said);
    let mut servers = Servers::start(1);
    let home = home_of(&fake, &servers);
    let serving = Serving::start(&home, &[]);
    // It has room for more than there is: what comes back comes at once.
    let args = ["--slots", "8", "--isolation", "jail", "--log-level", "info"];
    let worker = Worker::start(&home, &args);
    let run = serving.begin(asked("CRSA"));
    fake.wait_for_requests(20);
    worker.signal(Signal::STOP);
    std::thread::sleep(LEASE + LEASE / 6);
    worker.signal(Signal::CONT);
    fake.wait_for_requests(60);
    servers.kill(0);
    std::thread::sleep(LEASE + LEASE / 6);
    servers.restart(0);
    let run = serving.end_of(&run);
    assert_eq!(run["status"], "done", "{run}\n{}", worker.said());
    assert_eq!(fake.captured().len(), CALLS);
    // Each time it came back once, and was kept.
    let said = worker.said();
    assert!(said.matches("taken work=\"run ").count() <= 3, "{said}");
}

/// Nothing is done without because of servers that were away: calls that could not be noted are made later.
#[test]
fn no_call_is_late_because_it_could_not_be_noted() {
    let latency =
        Latency { to_begin: Duration::from_millis(60), to_end: Duration::from_millis(20) };
    let fake = FakeProvider::caching(latency, said);
    let mut servers = Servers::start(1);
    let home = home_of(&fake, &servers).set("ASSIZE_GATEWAY_DEADLINE_SECONDS", "12");
    let serving = Serving::start(&home, &[]);
    let _worker = Worker::start(&home, &["--slots", "5", "--isolation", "jail"]);
    let run = serving.begin(asked("CRSA"));
    fake.wait_for_requests(40);
    servers.kill(0);
    // Longer than the deadline of a call.
    std::thread::sleep(LEASE * 3);
    servers.restart(0);
    let run = serving.end_of(&run);
    assert_eq!(run["status"], "done", "{run}");
    assert_eq!(fake.captured().len(), CALLS);
}
