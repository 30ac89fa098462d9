//! Cluster tests that kill and pause workers, assize servers and NATS servers: no answered model call is repeated, and
//! the results do not change.

#![expect(clippy::print_stderr, reason = "the test prints its measurements")]

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use assize_testkit::{CapturedRequest, FakeKind, FakeProvider, FakeReply, Latency};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{LEASE, Servers, Worker, with_cluster};
use crate::run::with_provider;
use crate::serve::{StreamEvent, TestServer};
use crate::{CommandOutput, Home};

/// Delimiters around the sequence number that the fake provider writes into each answer.
const NUMBER_DELIMITERS: [&str; 2] = ["[[", "]]"];

/// Removes the sequence numbers of the fake provider's answers, with their delimiters, from a text.
fn without_answer_numbers(text: &str) -> String {
    let mut parts = text.split(NUMBER_DELIMITERS[0]);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    parts.for_each(|part| plain.push_str(part.split_once(NUMBER_DELIMITERS[1]).unwrap().1));
    plain
}

/// Valid reply of the fake provider. Its text contains the sequence number `number`; the rest of the text depends only
/// on the request.
pub(super) fn numbered_reply(number: usize, request: &CapturedRequest) -> FakeReply {
    let text = without_answer_numbers(&request.body.to_string()).replace("\\n", " ");
    // Prompts delimit quoted texts with a hash of the text. The numbers of the answers change these hashes, so they are
    // left out.
    let is_mark = |word: &&str| word.len() == 12 && word.chars().all(|c| c.is_ascii_hexdigit());
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !is_mark(word));
    let mut hash = DefaultHasher::new();
    words.for_each(|word| word.hash(&mut hash));
    let hash = hash.finish();
    // The number is written in letters, because assize flags digits as figures without a source.
    let letters: String =
        number.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
    let mark = format!("{}{letters}{}", NUMBER_DELIMITERS[0], NUMBER_DELIMITERS[1]);
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
    FakeReply::text(answer)
}

/// Request for a consultation with five debates of three rounds.
pub(super) fn consult_request(ticker: &str) -> Value {
    json!({"kind": "consult", "ticker": ticker, "rounds": 3, "moves": 1, "yes": true})
}

/// Number of model calls for one [`consult_request`]: nine calls before the debates, and 19 for each of five debates.
const CALLS_PER_CONSULTATION: usize = 9 + 5 * (1 + 3 * (2 * 3 - 1 + 1));

/// Creates a `Home` that uses the provider `fake` and the cluster on `servers`.
fn home_in_cluster(fake: &FakeProvider, servers: &Servers) -> Home {
    with_cluster(with_provider(FakeKind::Anthropic, fake), servers)
}

/// Result of a consultation, without the parts that depend on the sequence numbers in the answers or on the worker that
/// executed the run.
fn comparable_result(run: &Value) -> Value {
    let mut result: Value =
        serde_json::from_str(&without_answer_numbers(&run["result"].to_string())).unwrap();
    result.as_object_mut().unwrap().remove("origin");
    // Usage, cost and drift (similarity of answers) depend on the numbers in the answers.
    let remove = |part: &mut Value, names: &[&str]| {
        names.iter().for_each(|name| drop(part.as_object_mut().unwrap().remove(*name)));
    };
    remove(&mut result["spent"], &["usage", "cost"]);
    for verdict in result["policy_scores"].as_array_mut().unwrap() {
        remove(&mut verdict["spent"], &["usage", "cost"]);
    }
    for list in ["recommended_moves", "other_moves"] {
        result[list].as_array_mut().unwrap().iter_mut().for_each(|one| remove(one, &["drift"]));
    }
    result
}

/// Asserts that two JSON values are equal. `at` is the path of the two values. If they differ, the panic message
/// contains the path of the first part that differs.
fn assert_same(one: &Value, other: &Value, at: &str) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            assert!(one.keys().eq(other.keys()), "the keys of {at} differ");
            one.iter()
                .for_each(|(name, part)| assert_same(part, &other[name], &format!("{at}/{name}")));
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let parts = one.iter().zip(other).enumerate();
            parts.for_each(|(at_, (one, other))| assert_same(one, other, &format!("{at}/{at_}")));
        }
        _ => assert_eq!(one, other, "the values at {at} differ"),
    }
}

/// Sequence numbers of the fake provider's answers that are recorded in the journal of a run.
fn recorded_answer_numbers(home: &Home, run: &str) -> Vec<usize> {
    let CommandOutput { code, out, err } = home.run(&["runs", "export", run]);
    assert_eq!(code, 0, "{err}");
    let export: Value = serde_json::from_str(&out).unwrap();
    let text = |record: &Value| record["done"]["text"].as_str().map(str::to_owned);
    let texts = export["records"].as_array().unwrap().iter().filter_map(text);
    let number = |text: String| {
        let letters = text.split_once(NUMBER_DELIMITERS[0])?.1.split_once(NUMBER_DELIMITERS[1])?.0;
        let digits: String =
            letters.bytes().map(|letter| char::from(letter - b'a' + b'0')).collect();
        digits.parse().ok()
    };
    texts.filter_map(number).collect()
}

/// Index of the worker that holds the most leases on running runs.
fn busiest_worker(home: &Home, workers: &[Worker]) -> usize {
    let CommandOutput { code, out, err } =
        home.run(&["runs", "list", "--status", "running", "--json"]);
    assert_eq!(code, 0, "{err}");
    let runs: Vec<Value> = serde_json::from_str(&out).unwrap();
    let held =
        |worker: &Worker| runs.iter().filter(|run| run["holder"] == worker.child.id()).count();
    let index = (0..workers.len()).max_by_key(|index| held(&workers[*index])).unwrap();
    eprintln!(
        "the busiest worker holds the leases on {} of {} runs",
        held(&workers[index]),
        runs.len()
    );
    index
}

/// Reads the events of a run after the last event in `events` and appends them to `events`, until the server dies or
/// the run ends. Does nothing if the run's last event has been read already.
fn append_further_events(serving: &TestServer<'_>, run: &str, events: &mut Vec<StreamEvent>) {
    if events.last().is_some_and(|event| event.name == "run_ended") {
        return;
    }
    let last = events.iter().rev().find_map(|event| event.id);
    let more = serving.wait_for_events(run, last);
    events.extend(more.into_iter().filter(|event| event.id.is_some()));
}

#[test]
fn consultations_survive_killed_workers_servers_and_nats() {
    let last = if std::env::var_os("ASSIZE_TEST_FULL").is_some() { 'J' } else { 'F' };
    let tickers: Vec<String> = ('A'..=last).map(|letter| format!("CRS{letter}")).collect();
    // Expected results: undisturbed, on one machine, with the isolation of the workers.
    let quick = FakeProvider::with_prompt_cache(Latency::default(), numbered_reply);
    let alone = with_provider(FakeKind::Anthropic, &quick).set("ASSIZE_SANDBOX_ISOLATION", "jail");
    let serving = TestServer::start(&alone, &[]);
    let expected: BTreeMap<&str, Value> = tickers
        .iter()
        .map(|ticker| {
            let run = serving.start_run(consult_request(ticker));
            (ticker.as_str(), comparable_result(&serving.wait_for_end(&run)))
        })
        .collect();
    assert_eq!(quick.captured_requests().len(), tickers.len() * CALLS_PER_CONSULTATION);
    assert_ne!(expected["CRSA"], expected["CRSB"]);
    serving.stop();

    let latency = Latency {
        to_first_byte: Duration::from_millis(60),
        to_last_byte: Duration::from_millis(20),
    };
    let fake = FakeProvider::with_prompt_cache(latency, numbered_reply);
    let mut servers = Servers::start(3);
    let (home, other) = (home_in_cluster(&fake, &servers), home_in_cluster(&fake, &servers));
    let (first, second) = (TestServer::start(&home, &[]), TestServer::start(&other, &[]));
    let mut workers: Vec<Worker> =
        (0..3).map(|_| Worker::start(&home, &["--slots", "3", "--isolation", "jail"])).collect();
    let runs: BTreeMap<String, String> = tickers
        .iter()
        .enumerate()
        .map(|(index, ticker)| {
            let serving = if index % 2 == 0 { &first } else { &second };
            (ticker.clone(), serving.start_run(consult_request(ticker)))
        })
        .collect();
    // The run that was started last most likely ends last.
    let watched = runs.values().last().unwrap();
    let mut events = Vec::new();
    std::thread::scope(|scope| {
        let (first, events, fake, workers) = (&first, &mut events, &fake, &mut workers);
        // A client receives the events of one run from the server that will be killed.
        scope.spawn(move || append_further_events(first, watched, events));
        fake.wait_for_requests(100);
        eprintln!("killing the busiest worker");
        workers.remove(busiest_worker(&other, workers)).kill();
        fake.wait_for_requests(180);
        eprintln!("killing an assize server");
        let pid = rustix::process::Pid::from_child(&first.child);
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    });
    fake.wait_for_requests(260);
    eprintln!("killing a NATS server");
    servers.kill(1);
    // The outage is longer than the timeout of one request to NATS.
    std::thread::sleep(LEASE / 2 + LEASE / 6);
    servers.restart(1);
    fake.wait_for_requests(360);
    eprintln!("pausing the busiest worker");
    let paused = &workers[busiest_worker(&other, &workers)];
    paused.signal(Signal::STOP);
    std::thread::sleep(LEASE + LEASE / 2);
    let sent_before_continue = fake.captured_requests().len();
    paused.signal(Signal::CONT);
    append_further_events(&second, watched, &mut events);
    let ended: BTreeMap<&str, Value> =
        runs.iter().map(|(ticker, run)| (ticker.as_str(), second.wait_for_end(run))).collect();

    // All results are the same as the undisturbed ones.
    for (ticker, run) in &ended {
        assert_eq!(run["status"], "done", "{ticker}: {run}");
        assert_same(&comparable_result(run), &expected[ticker], ticker);
    }
    // No request was sent again after its answer was recorded. Exception: the paused worker may have been about to send
    // a request, which it had already stored as sent. It then sends the request when it continues.
    let captured = fake.captured_requests();
    let mut last: HashMap<String, usize> = HashMap::new();
    for (number, request) in captured.iter().enumerate() {
        last.insert(request.body.to_string(), number);
    }
    let (mut finished, mut sent_late) = (0, 0);
    for run in runs.values() {
        let recorded = recorded_answer_numbers(&other, run);
        assert_eq!(recorded.len(), CALLS_PER_CONSULTATION, "{run}");
        for number in recorded {
            let last = last[&captured[number].body.to_string()];
            assert!(
                last == number || last >= sent_before_continue,
                "request {number} was sent again as {last}, before {sent_before_continue}"
            );
            sent_late += usize::from(last != number);
            finished += 1;
        }
    }
    assert!(sent_late <= 2, "{sent_late} requests were sent again by the paused worker");
    // Calls that were in flight when a process died were sent again. They count as lost calls.
    let again = captured.len() - finished;
    let lost: u64 = ended.values().map(|run| run["spent"]["lost_calls"].as_u64().unwrap()).sum();
    eprintln!(
        "{finished} recorded calls, {sent_late} of them repeated after the pause; {again} calls in flight repeated; {lost} lost calls"
    );
    assert!(again as u64 <= lost, "{again} repeated calls, but only {lost} lost calls");
    // The client that reconnected to the other server got every event once and in order.
    let ids: Vec<u64> = events.iter().filter_map(|event| event.id).collect();
    assert!(ids.is_sorted_by(|one, next| one < next));
    let all = second.wait_for_events(watched, None);
    let all: Vec<&StreamEvent> = all.iter().filter(|event| event.id.is_some()).collect();
    assert!(
        events.iter().collect::<Vec<_>>() == all,
        "the client received {} events, the run has {}",
        events.len(),
        all.len()
    );
    assert_eq!(all.last().unwrap().name, "run_ended");
}

/// A paused worker loses its lease. After the pause, its job is redelivered to the same worker, while the execution
/// from before the pause is still in the worker's memory.
#[test]
fn redelivered_job_does_not_share_sandboxes_with_its_earlier_execution() {
    let latency = Latency {
        to_first_byte: Duration::from_millis(60),
        to_last_byte: Duration::from_millis(20),
    };
    let fake = FakeProvider::with_prompt_cache(latency, numbered_reply);
    let mut servers = Servers::start(1);
    let home = home_in_cluster(&fake, &servers);
    let serving = TestServer::start(&home, &[]);
    // The worker has more slots than jobs, so that a redelivered job starts at once.
    let args = ["--slots", "8", "--isolation", "jail", "--log-level", "info"];
    let worker = Worker::start(&home, &args);
    let run = serving.start_run(consult_request("CRSA"));
    fake.wait_for_requests(20);
    worker.signal(Signal::STOP);
    std::thread::sleep(LEASE + LEASE / 6);
    worker.signal(Signal::CONT);
    fake.wait_for_requests(60);
    servers.kill(0);
    std::thread::sleep(LEASE + LEASE / 6);
    servers.restart(0);
    let run = serving.wait_for_end(&run);
    assert_eq!(run["status"], "done", "{run}\n{}", worker.log_text());
    assert_eq!(fake.captured_requests().len(), CALLS_PER_CONSULTATION);
    // The job of the run is delivered once at the start, and at most once after each of the two interruptions.
    let log = worker.log_text();
    assert!((1..=3).contains(&log.matches("job received work=\"run ").count()), "{log}");
}

/// A worker records each model call in NATS before it sends the request. The time that the worker waits for NATS
/// does not count against the deadline of the call.
#[test]
fn waiting_for_nats_does_not_count_against_the_deadline_of_a_model_call() {
    let latency = Latency {
        to_first_byte: Duration::from_millis(60),
        to_last_byte: Duration::from_millis(20),
    };
    let fake = FakeProvider::with_prompt_cache(latency, numbered_reply);
    let mut servers = Servers::start(1);
    let home = home_in_cluster(&fake, &servers).set("ASSIZE_GATEWAY_DEADLINE_SECONDS", "12");
    let serving = TestServer::start(&home, &[]);
    let _worker = Worker::start(&home, &["--slots", "5", "--isolation", "jail"]);
    let run = serving.start_run(consult_request("CRSA"));
    fake.wait_for_requests(40);
    servers.kill(0);
    // The outage is longer than the deadline of a model call.
    std::thread::sleep(LEASE * 3);
    servers.restart(0);
    let run = serving.wait_for_end(&run);
    assert_eq!(run["status"], "done", "{run}");
    assert_eq!(fake.captured_requests().len(), CALLS_PER_CONSULTATION);
}
