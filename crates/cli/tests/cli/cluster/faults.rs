//! Cluster tests with faults: unreachable NATS servers, invalid settings, workers that cannot execute a job, dead
//! letters, full storage.

use std::time::Duration;

use assize_cluster::{
    Capabilities, Cluster, ClusterCredentials, ClusterOptions, ClusterTimes, MAX_DELIVERIES,
    QueuedJob, Requirements, SlotKind,
};
use assize_testkit::{CapturedRequest, FakeKind, FakeProvider, FakeReply, Latency};
use futures_util::TryStreamExt;
use serde_json::{Value, json};

use super::{LEASE, Servers, Worker, cluster_status, wait_for, with_cluster};
use crate::exec::home;
use crate::run::{program, with_provider};
use crate::serve::TestServer;
use crate::{CommandOutput, Home};

#[test]
fn commands_and_workers_wait_for_unreachable_nats_servers() {
    let mut servers = Servers::unstarted(1);
    let home = with_cluster(home(), &servers);
    // Without a NATS server, a command fails after several lease periods. The short lease makes the test fast.
    let impatient =
        with_cluster(crate::exec::home(), &servers).set("ASSIZE_CLUSTER_LEASE_SECONDS", "2");
    let CommandOutput { code, err, .. } = impatient.run(&["runs", "list"]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("no NATS server replies") && err.contains("nats-server -js"), "{err}");
    // A worker waits until the NATS server is reachable.
    let mut waiting = home.command(&["worker", "--json", "--slots", "1"]).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    servers.restart(0);
    let CommandOutput { code, out, err } = home.run(&["run", "Calculate fibonacci(10)"]);
    assert_eq!((code, out.trim()), (0, "55"), "{err}");
    // If the NATS server dies later, the worker and a new command wait until it is reachable again.
    servers.kill(0);
    let command = home.command(&["run", "Calculate fibonacci(10)"]).spawn().unwrap();
    // The outage is longer than the timeout of one request to NATS.
    std::thread::sleep(LEASE / 2 + LEASE / 6);
    servers.restart(0);
    let output = command.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    waiting.kill().unwrap();
    waiting.wait().unwrap();
}

#[test]
fn doctor_reports_unreachable_nats_servers_and_missing_workers() {
    let mut servers = Servers::unstarted(1);
    let home = with_cluster(home(), &servers);
    let doctor = |more: &[&str]| home.run(&[&["doctor"], more].concat());
    let CommandOutput { out, .. } = doctor(&["--offline"]);
    let line = format!("? {}  not checked", servers.address());
    assert!(out.contains(&line), "{out}");
    let CommandOutput { code, out, err } = doctor(&[]);
    assert_eq!(code, 4, "{err}");
    assert!(out.contains(&format!("✗ {}", servers.address())), "{out}");
    assert!(err.contains("no NATS server replies") && err.contains("nats-server -js"), "{err}");
    servers.restart(0);
    let CommandOutput { code, err, .. } = doctor(&[]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("has no workers") && err.contains("assize worker"), "{err}");
    let _worker = Worker::start(&home, &["--slots", "3", "--isolation", "jail"]);
    let CommandOutput { code, out, err } = doctor(&["--json"]);
    assert_eq!(code, 0, "{err}");
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    let cluster = &found["cluster"];
    assert_eq!((&cluster["workers"], &cluster["slots"]), (&1.into(), &3.into()), "{cluster}");
    // Without cluster settings, `assize doctor` does not check a cluster.
    let alone = Home::new().run(&["doctor", "--offline", "--json"]);
    assert!(serde_json::from_str::<serde_json::Value>(&alone.out).unwrap()["cluster"].is_null());
}

#[test]
fn invalid_cluster_settings_are_reported() {
    let error = |name: &str, value: &str| {
        let home = Home::new().set("ASSIZE_CLUSTER_SERVERS", "nats://127.0.0.1:9").set(name, value);
        let CommandOutput { code, err, .. } = home.run(&["cluster", "status"]);
        format!("{code} {}", err.trim_end())
    };
    let errors = [
        error("ASSIZE_CLUSTER_SERVERS", "http://127.0.0.1"),
        error("ASSIZE_CLUSTER_NAME", "a.b"),
        error("ASSIZE_CLUSTER_USER", "me"),
        error("ASSIZE_CLUSTER_CERT_FILE", "cert.pem"),
        error("ASSIZE_CLUSTER_CA_FILE", "nowhere.pem"),
        error("ASSIZE_CLUSTER_CREDENTIALS_FILE", "nowhere.creds"),
    ];
    insta::assert_snapshot!(errors.join("\n\n"));
    let CommandOutput { code, err, .. } = home().run(&["cluster", "status"]);
    assert_eq!(code, 2);
    assert!(err.contains("no cluster configured"), "{err}");
    let CommandOutput { code, err, .. } = home().run(&["worker"]);
    assert_eq!(code, 2);
    assert!(err.contains("no cluster is configured"), "{err}");
}

#[test]
fn run_that_no_worker_can_start_fails_with_the_workers_reason() {
    let servers = Servers::start(1);
    let mut home = with_cluster(home(), &servers);
    // The worker has no API key for the provider, and detects that only when it starts the run.
    let worker = Worker::start(&home, &["--slots", "1", "--isolation", "jail"]);
    home = home.set("ANTHROPIC_API_KEY", "sk-ant-none-0123456789");
    let CommandOutput { code, err, .. } = home.run(&["run", "anything", "--provider", "anthropic"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("no worker could start the run: no API key for anthropic"), "{err}");
    let CommandOutput { out, .. } = home.run(&["runs", "list"]);
    assert!(out.contains("failed") && out.contains("no worker could start the run"), "{out}");
    // After the failed run, the worker still exits on SIGTERM.
    let mut worker = worker;
    worker.signal(rustix::process::Signal::TERM);
    wait_for("the worker to exit", || worker.child.try_wait().unwrap().is_some());
}

#[test]
fn run_that_one_worker_cannot_start_waits_for_another_worker() {
    let servers = Servers::start(1);
    let latency = Latency { to_first_byte: LEASE + LEASE / 2, to_last_byte: Duration::ZERO };
    let written =
        |_: usize, _: &CapturedRequest| FakeReply::text(program("print(6 * 7)").to_string());
    let fake = FakeProvider::with_prompt_cache(latency, written);
    let able = with_cluster(with_provider(FakeKind::Anthropic, &fake), &servers);
    let serving = TestServer::start(&able, &[]);
    let _able = Worker::start(&able, &["--slots", "1", "--isolation", "jail"]);
    let begin = || serving.start_run(json!({"kind": "run", "task": "anything"}));
    let first = begin();
    fake.wait_for_requests(1);
    // The worker with a free slot has no API key, and the worker with the API key has no free slot yet.
    let unable = with_cluster(home(), &servers);
    let unable = Worker::start(&unable, &["--slots", "1", "--isolation", "jail"]);
    let second = begin();
    for run in [first, second] {
        let run = serving.wait_for_end(&run);
        assert_eq!(run["status"], "done", "{run}");
    }
    let log = unable.log_text();
    // The worker logs the missing key once, or twice if the other worker replies late, but not every second.
    let complaints = log.matches("no API key for anthropic").count();
    assert!((1..=2).contains(&complaints), "{log}");
}

#[test]
fn debates_that_one_worker_cannot_run_are_run_by_another_worker() {
    let servers = Servers::start(1);
    let (bad, good) = (with_cluster(home(), &servers), with_cluster(home(), &servers));
    // The first worker cannot install the negotiator (the program that debates inside a sandbox): a file has the name
    // of its folder.
    let cache = bad.folder.path().join(".cache/assize");
    std::fs::create_dir_all(&cache).unwrap();
    std::fs::write(cache.join("programs"), "").unwrap();
    let unable = Worker::start(&bad, &["--slots", "3", "--isolation", "jail"]);
    let mut able = Worker::start(&good, &["--slots", "1", "--isolation", "jail"]);
    let consult = ["consult", "NVDA", "--rounds", "1", "--moves", "1", "--quiet"];
    let CommandOutput { code, err, .. } = good.run(&consult);
    assert_eq!(code, 0, "{err}\n{}", unable.log_text());
    assert!(
        unable
            .log_text()
            .contains("cannot run on this worker: cannot install the negotiator into `"),
        "{}",
        unable.log_text()
    );
    able.kill();
    let CommandOutput { code, err, .. } = good.run(&consult);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("no worker can run the debate: cannot install the negotiator"), "{err}");
}

#[test]
fn run_retries_debate_jobs_that_workers_release_and_fails_if_workers_drop_a_job_silently() {
    let servers = Servers::start(1);
    let home = with_cluster(home(), &servers);
    let serving = TestServer::start(&home, &[]);
    // This worker can execute runs. Divided by 1,000 slots, its memory is too small for the sandbox of a debate.
    let _holder = Worker::start(&home, &["--slots", "1000", "--isolation", "jail"]);
    let begin =
        || serving.start_run(json!({"kind": "consult", "ticker": "NVDA", "rounds": 1, "moves": 1}));
    let capabilities = Capabilities {
        isolations: vec!["jail".to_owned()],
        memory: 1 << 20,
        ..Capabilities::default()
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // Claims one debate job of the run more often than the delivery limit allows, and returns the job to the queue each
    // time. If `release` is true, it first reports to the lease holder that the job is released.
    let leave = |run: &str, release: bool| {
        runtime.block_on(async {
            let cluster = connect_to_cluster(&servers).await;
            let queue = cluster.queue().await.unwrap();
            let mut first = None;
            for number in 0..=MAX_DELIVERIES {
                let attempt = json!({"attempt": format!("attempt-{number}")});
                let taken = loop {
                    let taken =
                        queue.next_delivery(&capabilities, SlotKind::Sandbox).await.unwrap();
                    let about = taken.work.about.clone();
                    if !about.starts_with(run) {
                        // This debate job belongs to a run that has ended.
                        taken.ack().await;
                    } else if *first.get_or_insert(about.clone()) == about {
                        break taken;
                    } else {
                        taken.nack(Duration::from_millis(300)).await;
                    }
                };
                let debate = &taken.work.about;
                cluster.call(debate, &json!({"job": attempt})).await.unwrap();
                if release {
                    let released = json!({"report": {"released": attempt}});
                    cluster.call(debate, &released).await.unwrap();
                }
                taken.nack(Duration::ZERO).await;
            }
        });
    };
    // Starts a worker that has enough memory for debates, and waits until it has executed the rest of the run.
    let finish = |run: &str| {
        let _able = Worker::start(&home, &["--slots", "3", "--isolation", "jail"]);
        serving.wait_for_end(run)
    };
    let stopped = begin();
    leave(&stopped, true);
    let run = finish(&stopped);
    assert_eq!(run["status"], "done", "{run}");
    let silent = begin();
    leave(&silent, false);
    let run = finish(&silent);
    assert_eq!(run["status"], "failed", "{run}");
    assert!(run["error"].to_string().contains("no worker finished it"), "{run}");
}

#[test]
fn worker_exits_when_the_data_of_the_cluster_has_a_newer_format() {
    let servers = Servers::start(1);
    let home = with_cluster(home(), &servers);
    let mut worker = Worker::start(&home, &["--slots", "1", "--isolation", "jail"]);
    // A node of a later version upgrades the format of the cluster.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(servers.address()).await.unwrap();
        let context = async_nats::jetstream::new(client);
        let stream = context.get_stream("assize-work").await.unwrap();
        let mut config = stream.cached_info().config.clone();
        config.description = Some("assize, version 2".to_owned());
        context.update_stream(config).await.unwrap();
    });
    let message = "has format 2, but this version of assize supports 1";
    let CommandOutput { code, err, .. } =
        home.run(&["worker", "--slots", "1", "--isolation", "jail"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains(message), "{err}");
    let CommandOutput { code, err, .. } = home.run(&["run", "Calculate fibonacci(10)"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains(message), "{err}");
    // The worker that was running before the upgrade exits, too.
    wait_for("the worker to exit", || worker.child.try_wait().unwrap().is_some());
    assert_eq!(worker.child.wait().unwrap().code(), Some(3));
    assert!(worker.log_text().contains(message), "{}", worker.log_text());
}

#[test]
fn consult_with_full_nats_storage_exits_4_and_keeps_acknowledged_data() {
    let folder = tempfile::TempDir::new().unwrap();
    let config = folder.path().join("nats.conf");
    std::fs::write(&config, "jetstream { max_file_store: 300KB }").unwrap();
    let servers = Servers::start_with(folder, vec!["-c".to_owned(), config.display().to_string()]);
    let home = with_cluster(home(), &servers);
    let _worker = Worker::start(&home, &["--slots", "2", "--isolation", "jail"]);
    let args = ["consult", "NVDA", "--rounds", "10", "--moves", "3", "--quiet"];
    let CommandOutput { code, err, .. } = home.run(&args);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("no space left"), "{err}");
    // Data that NATS acknowledged before its storage was full is still readable.
    let CommandOutput { code, out, err } = home.run(&["runs", "list"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("NVDA"), "{out}");
}

/// The test publishes three invalid messages: a job of an unknown kind, a job with an undecodable body, and bytes that
/// are not JSON.
#[test]
fn invalid_queue_messages_are_listed_as_dead_letters() {
    let servers = Servers::start(1);
    let home = with_cluster(home(), &servers);
    let worker = Worker::start(&home, &["--slots", "1", "--isolation", "jail"]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(publish_garbage(&servers));
    let letters = |status: &Value| status["dead_letters"].as_array().unwrap().clone();
    wait_for("three dead letters", || letters(&cluster_status(&home)).len() == 3);
    let status = cluster_status(&home);
    let mut reasons: Vec<String> =
        letters(&status).iter().map(|one| one["reason"].as_str().unwrap().to_owned()).collect();
    reasons.sort();
    assert!(reasons[0].starts_with("cannot decode the job: "), "{reasons:?}");
    assert!(reasons[1].starts_with("cannot decode the message: "), "{reasons:?}");
    assert_eq!(reasons[2], "unknown kind of job `sing`");
    // A newer worker may support the unknown kind, so this job is redelivered up to the limit. The other two messages
    // become dead letters at once.
    let deliveries = |one: &Value| match one["reason"].as_str().unwrap() {
        "unknown kind of job `sing`" => one["deliveries"] == MAX_DELIVERIES,
        _ => one["deliveries"] == 1,
    };
    assert!(letters(&status).iter().all(deliveries), "{status}");
    let CommandOutput { code, out, err } = home.run(&["cluster", "status"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("DEAD LETTER") && out.contains("unknown kind of job `sing`"), "{out}");
    assert!(worker.log_text().contains("moved to the dead letters: unknown kind of job `sing`"));
}

/// The lease holder of a run gets no notice when other workers move debate jobs of the run to the dead letters.
#[test]
fn run_whose_debate_jobs_become_dead_letters_fails() {
    let servers = Servers::start(1);
    let home = with_cluster(home(), &servers);
    let serving = TestServer::start(&home, &[]);
    // This worker can execute runs. Divided by 1,000 slots, its memory is too small for the sandbox of a debate.
    let _holder = Worker::start(&home, &["--slots", "1000", "--isolation", "jail"]);
    let consult = json!({"kind": "consult", "ticker": "NVDA", "rounds": 1, "moves": 1});
    let run = serving.start_run(consult);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let queue =
        runtime.block_on(async { connect_to_cluster(&servers).await.queue().await.unwrap() });
    let isolations = vec!["jail".to_owned()];
    let capabilities = Capabilities { isolations, memory: 1 << 20, ..Capabilities::default() };
    let unable = runtime.spawn(async move {
        loop {
            let taken = queue.next_delivery(&capabilities, SlotKind::Sandbox).await.unwrap();
            assert_eq!(taken.work.kind, "debate");
            taken.dead_letter("cannot decode the job").await;
        }
    });
    let run = serving.wait_for_end(&run);
    unable.abort();
    assert_eq!(run["status"], "failed", "{run}");
    let error = run["error"].to_string();
    assert!(error.contains("no worker could start the debate: its job was removed"), "{run}");
    assert!(error.contains("assize cluster status"), "{run}");
    let letters = cluster_status(&home)["dead_letters"].as_array().unwrap().len() as u64;
    assert!(letters >= MAX_DELIVERIES, "{letters}");
}

/// The queue message of the first run is a job with an undecodable body, and that of the second run is not JSON.
#[test]
fn run_whose_job_no_worker_can_decode_fails_with_the_reason() {
    let servers = Servers::start(1);
    let home = with_cluster(home(), &servers);
    let serving = TestServer::start(&home, &[]);
    let begin = || serving.start_run(json!({"kind": "run", "task": "Calculate fibonacci(10)"}));
    let runs = [begin(), begin()];
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let queue = connect_to_cluster(&servers).await.queue().await.unwrap();
        let capabilities = Capabilities { memory: 1 << 20, ..Capabilities::default() };
        for _ in &runs {
            queue.next_delivery(&capabilities, SlotKind::Sandbox).await.unwrap().ack().await;
        }
        let about = runs[0].clone();
        let work = QueuedJob { kind: "run".to_owned(), about, turn: 99, body: json!([7]) };
        queue.add(&Requirements::default(), &work).await.unwrap();
        publish_raw(&servers, &runs[1]).await;
    });
    let _worker = Worker::start(&home, &["--slots", "1", "--isolation", "jail"]);
    for (run, reason) in runs.iter().zip(["the job", "the message"]) {
        let run = serving.wait_for_end(run);
        assert_eq!(run["status"], "failed", "{run}");
        let reason = format!("no worker could start the run: cannot decode {reason}: ");
        assert!(run["error"].to_string().contains(&reason), "{run}");
    }
    let letters = || cluster_status(&home)["dead_letters"].as_array().unwrap().clone();
    wait_for("two dead letters", || letters().len() == 2);
    assert!(letters().iter().all(|one| one["deliveries"] == MAX_DELIVERIES), "{:?}", letters());
}

/// Connects the test process to the cluster as an additional node.
pub(super) async fn connect_to_cluster(servers: &Servers) -> Cluster {
    let options = ClusterOptions {
        address: servers.address().parse().unwrap(),
        credentials: ClusterCredentials::default(),
        name: "assize".to_owned(),
        replicas: 1,
        timeout: None,
        times: ClusterTimes::of_lease(LEASE),
    };
    Cluster::connect(options).await.unwrap()
}

/// Publishes three invalid messages to the queue of jobs.
async fn publish_garbage(servers: &Servers) {
    let queue = connect_to_cluster(servers).await.queue().await.unwrap();
    for (kind, about) in [("sing", "a-song"), ("run", "a-run")] {
        let (kind, about) = (kind.to_owned(), about.to_owned());
        let work = QueuedJob { kind, about, turn: 1, body: json!([7]) };
        queue.add(&Requirements::default(), &work).await.unwrap();
    }
    publish_raw(servers, "garbage").await;
}

/// Publishes bytes that are not JSON as a job of a run.
async fn publish_raw(servers: &Servers, run: &str) {
    let client = async_nats::connect(servers.address()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let stream = context.get_stream("assize-work").await.unwrap();
    let names: Vec<String> = stream.consumer_names().try_collect().await.unwrap();
    let subject = format!("assize.work.{}.run.{run}", names[0]);
    context.publish(subject, "not json".into()).await.unwrap().await.unwrap();
}
