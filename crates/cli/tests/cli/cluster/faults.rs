//! What goes wrong around a cluster, and what is said of it.

use std::time::Duration;

use assize_cluster::{
    Abilities, Cluster, Identification, MOST_TRIES, Needs, Options, Place, Times, Work,
};
use assize_testkit::{Captured, FakeProvider, Kind, Latency, Reply};
use futures_util::TryStreamExt;
use serde_json::{Value, json};

use super::{LEASE, Servers, Worker, joined, status, until};
use crate::exec::home;
use crate::run::{program, with_provider};
use crate::serve::Serving;
use crate::{Home, Ran};

#[test]
fn servers_that_are_not_there_are_waited_for() {
    let mut servers = Servers::unstarted(1);
    let home = joined(home(), &servers);
    // A command says what is wrong, and gives up after some leases.
    let impatient = joined(crate::exec::home(), &servers).set("ASSIZE_CLUSTER_LEASE_SECONDS", "2");
    let Ran { code, err, .. } = impatient.run(&["runs", "list"]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("nobody answers there") && err.contains("nats-server -js"), "{err}");
    // A worker waits, and goes on.
    let mut waiting = home.command(&["worker", "--json", "--slots", "1"]).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    servers.restart(0);
    let Ran { code, out, err } = home.run(&["run", "Calculate fibonacci(10)"]);
    assert_eq!((code, out.trim()), (0, "55"), "{err}");
    // Gone in the middle of it all: whoever waits goes on waiting.
    servers.kill(0);
    let asking = home.command(&["run", "Calculate fibonacci(10)"]).spawn().unwrap();
    // Longer than one reply of a server is waited for.
    std::thread::sleep(LEASE / 2 + LEASE / 6);
    servers.restart(0);
    let output = asking.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    waiting.kill().unwrap();
    waiting.wait().unwrap();
}

#[test]
fn the_doctor_looks_at_the_cluster() {
    let mut servers = Servers::unstarted(1);
    let home = joined(home(), &servers);
    let doctor = |more: &[&str]| home.run(&[&["doctor"], more].concat());
    let Ran { out, .. } = doctor(&["--offline"]);
    let line = format!("? {}  not tried", servers.address());
    assert!(out.contains(&line), "{out}");
    let Ran { code, out, err } = doctor(&[]);
    assert_eq!(code, 4, "{err}");
    assert!(out.contains(&format!("✗ {}", servers.address())), "{out}");
    assert!(err.contains("nobody answers there") && err.contains("nats-server -js"), "{err}");
    servers.restart(0);
    let Ran { code, err, .. } = doctor(&[]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("nobody works for the cluster") && err.contains("assize worker"), "{err}");
    let _worker = Worker::start(&home, &["--slots", "3", "--isolation", "jail"]);
    let Ran { code, out, err } = doctor(&["--json"]);
    assert_eq!(code, 0, "{err}");
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    let cluster = &found["cluster"];
    assert_eq!((&cluster["workers"], &cluster["slots"]), (&1.into(), &3.into()), "{cluster}");
    // Where none is named, none is looked for.
    let alone = Home::new().run(&["doctor", "--offline", "--json"]);
    assert!(serde_json::from_str::<serde_json::Value>(&alone.out).unwrap()["cluster"].is_null());
}

#[test]
fn wrong_settings_are_said() {
    let said = |name: &str, value: &str| {
        let home = Home::new().set("ASSIZE_CLUSTER_SERVERS", "nats://127.0.0.1:9").set(name, value);
        let Ran { code, err, .. } = home.run(&["cluster", "status"]);
        format!("{code} {}", err.trim_end())
    };
    let told = [
        said("ASSIZE_CLUSTER_SERVERS", "http://127.0.0.1"),
        said("ASSIZE_CLUSTER_NAME", "a.b"),
        said("ASSIZE_CLUSTER_USER", "me"),
        said("ASSIZE_CLUSTER_CERT_FILE", "cert.pem"),
        said("ASSIZE_CLUSTER_CA_FILE", "nowhere.pem"),
        said("ASSIZE_CLUSTER_CREDENTIALS_FILE", "nowhere.creds"),
    ];
    insta::assert_snapshot!(told.join("\n\n"));
    let Ran { code, err, .. } = home().run(&["cluster", "status"]);
    assert_eq!(code, 2);
    assert!(err.contains("no cluster is named"), "{err}");
    let Ran { code, err, .. } = home().run(&["worker"]);
    assert_eq!(code, 2);
    assert!(err.contains("none is named"), "{err}");
}

#[test]
fn what_nobody_gets_on_with_is_given_up_and_the_reason_is_kept() {
    let servers = Servers::start(1);
    let mut home = joined(home(), &servers);
    // A worker that cannot do what is asked for, though it does not know before.
    let worker = Worker::start(&home, &["--slots", "1", "--isolation", "jail"]);
    home = home.set("ANTHROPIC_API_KEY", "sk-ant-none-0123456789");
    let Ran { code, err, .. } = home.run(&["run", "anything", "--provider", "anthropic"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("no worker could begin it: no key for anthropic"), "{err}");
    let Ran { out, .. } = home.run(&["runs", "list"]);
    assert!(out.contains("failed") && out.contains("no worker could begin it"), "{out}");
    // Told to stop, it stops.
    let mut worker = worker;
    worker.signal(rustix::process::Signal::TERM);
    until("it ends", || worker.child.try_wait().unwrap().is_some());
}

#[test]
fn what_one_cannot_begin_waits_for_another() {
    let servers = Servers::start(1);
    let latency = Latency { to_begin: LEASE + LEASE / 2, to_end: Duration::ZERO };
    let written = |_: usize, _: &Captured| Reply::text(program("print(6 * 7)").to_string());
    let fake = FakeProvider::caching(latency, written);
    let able = joined(with_provider(Kind::Anthropic, &fake), &servers);
    let serving = Serving::start(&able, &[]);
    let _able = Worker::start(&able, &["--slots", "1", "--isolation", "jail"]);
    let begin = || serving.begin(json!({"kind": "run", "task": "anything"}));
    let first = begin();
    fake.wait_for_requests(1);
    // Whoever has room has no key, and whoever has one has no room yet.
    let unable = joined(home(), &servers);
    let unable = Worker::start(&unable, &["--slots", "1", "--isolation", "jail"]);
    let second = begin();
    for run in [first, second] {
        let run = serving.end_of(&run);
        assert_eq!(run["status"], "done", "{run}");
    }
    let said = unable.said();
    // Once, or twice if the other one did not answer in time; not each second.
    let complaints = said.matches("no key for anthropic").count();
    assert!((1..=2).contains(&complaints), "{said}");
}

#[test]
fn debates_that_one_cannot_hold_are_held_by_another() {
    let servers = Servers::start(1);
    let (bad, good) = (joined(home(), &servers), joined(home(), &servers));
    // Something else stands where it would keep the program that debates.
    let cache = bad.folder.path().join(".cache/assize");
    std::fs::create_dir_all(&cache).unwrap();
    std::fs::write(cache.join("programs"), "").unwrap();
    let unable = Worker::start(&bad, &["--slots", "3", "--isolation", "jail"]);
    let mut able = Worker::start(&good, &["--slots", "1", "--isolation", "jail"]);
    let consult = ["consult", "NVDA", "--rounds", "1", "--moves", "1", "--quiet"];
    let Ran { code, err, .. } = good.run(&consult);
    assert_eq!(code, 0, "{err}\n{}", unable.said());
    assert!(unable.said().contains("is not done here: cannot use `"), "{}", unable.said());
    able.kill();
    let Ran { code, err, .. } = good.run(&consult);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("no worker can hold the debate: cannot use `"), "{err}");
}

#[test]
fn debates_that_were_let_go_are_not_given_up_and_those_of_the_silent_are() {
    let servers = Servers::start(1);
    let home = joined(home(), &servers);
    let serving = Serving::start(&home, &[]);
    // It holds runs, and has no memory for a debate.
    let _holder = Worker::start(&home, &["--slots", "1000", "--isolation", "jail"]);
    let begin =
        || serving.begin(json!({"kind": "consult", "ticker": "NVDA", "rounds": 1, "moves": 1}));
    let abilities =
        Abilities { isolations: vec!["jail".to_owned()], memory: 1 << 20, ..Abilities::default() };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // One more than may begin one of its debates, one after the other, and leave it.
    let leave = |run: &str, let_go: bool| {
        runtime.block_on(async {
            let cluster = connect(&servers).await;
            let queue = cluster.queue().await.unwrap();
            let mut first = None;
            for number in 0..=MOST_TRIES {
                let attempt = json!({"attempt": format!("somebody-{number}")});
                let taken = loop {
                    let taken = queue.take(&abilities, Place::Sandbox).await.unwrap();
                    let about = taken.work.about.clone();
                    if !about.starts_with(run) {
                        // Of one that is over.
                        taken.done().await;
                    } else if *first.get_or_insert(about.clone()) == about {
                        break taken;
                    } else {
                        taken.give_back(Duration::from_millis(300)).await;
                    }
                };
                let desk = &taken.work.about;
                cluster.ask(desk, &json!({"job": attempt})).await.unwrap();
                if let_go {
                    let gone = json!({"came_to": {"let_go": attempt}});
                    cluster.ask(desk, &gone).await.unwrap();
                }
                taken.give_back(Duration::ZERO).await;
            }
        });
    };
    // Its other debates are held to their end, whatever becomes of that one.
    let end_of = |run: &str| {
        let _able = Worker::start(&home, &["--slots", "3", "--isolation", "jail"]);
        serving.end_of(run)
    };
    let stopped = begin();
    leave(&stopped, true);
    let run = end_of(&stopped);
    assert_eq!(run["status"], "done", "{run}");
    let silent = begin();
    leave(&silent, false);
    let run = end_of(&silent);
    assert_eq!(run["status"], "failed", "{run}");
    assert!(run["error"].to_string().contains("none of them has ended it"), "{run}");
}

#[test]
fn an_older_worker_is_told_so_and_takes_no_work() {
    let servers = Servers::start(1);
    let home = joined(home(), &servers);
    let mut worker = Worker::start(&home, &["--slots", "1", "--isolation", "jail"]);
    // Somebody who speaks a later version takes the cluster over.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(servers.address()).await.unwrap();
        let context = async_nats::jetstream::new(client);
        let stream = context.get_stream("assize-work").await.unwrap();
        let mut config = stream.cached_info().config.clone();
        config.description = Some("assize, version 2".to_owned());
        context.update_stream(config).await.unwrap();
    });
    let told = "has format 2, and this version of assize knows 1";
    let Ran { code, err, .. } = home.run(&["worker", "--slots", "1", "--isolation", "jail"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains(told), "{err}");
    let Ran { code, err, .. } = home.run(&["run", "Calculate fibonacci(10)"]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains(told), "{err}");
    // So is whoever was there before, and ends.
    until("it ends", || worker.child.try_wait().unwrap().is_some());
    assert_eq!(worker.child.wait().unwrap().code(), Some(3));
    assert!(worker.said().contains(told), "{}", worker.said());
}

#[test]
fn servers_without_room_are_said_to_have_none() {
    let folder = tempfile::TempDir::new().unwrap();
    let config = folder.path().join("nats.conf");
    std::fs::write(&config, "jetstream { max_file_store: 300KB }").unwrap();
    let servers = Servers::start_with(folder, vec!["-c".to_owned(), config.display().to_string()]);
    let home = joined(home(), &servers);
    let _worker = Worker::start(&home, &["--slots", "2", "--isolation", "jail"]);
    let args = ["consult", "NVDA", "--rounds", "10", "--moves", "3", "--quiet"];
    let Ran { code, err, .. } = home.run(&args);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("no room left"), "{err}");
    // What was acknowledged is there.
    let Ran { code, out, err } = home.run(&["runs", "list"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("NVDA"), "{out}");
}

/// Messages that no worker can run: unknown kind, undecodable body, no JSON at all.
#[test]
fn garbage_on_the_queue_is_listed_as_dead_letters() {
    let servers = Servers::start(1);
    let home = joined(home(), &servers);
    let worker = Worker::start(&home, &["--slots", "1", "--isolation", "jail"]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(publish_garbage(&servers));
    let letters = |status: &Value| status["dead_letters"].as_array().unwrap().clone();
    until("three dead letters", || letters(&status(&home)).len() == 3);
    let status = status(&home);
    let mut reasons: Vec<String> =
        letters(&status).iter().map(|one| one["reason"].as_str().unwrap().to_owned()).collect();
    reasons.sort();
    assert!(reasons[0].starts_with("cannot decode the job: "), "{reasons:?}");
    assert!(reasons[1].starts_with("cannot decode the message: "), "{reasons:?}");
    assert_eq!(reasons[2], "unknown kind of job `sing`");
    // A newer worker may know the kind, so the job is redelivered first.
    let deliveries = |one: &Value| match one["reason"].as_str().unwrap() {
        "unknown kind of job `sing`" => one["deliveries"] == MOST_TRIES,
        _ => one["deliveries"] == 1,
    };
    assert!(letters(&status).iter().all(deliveries), "{status}");
    let Ran { code, out, err } = home.run(&["cluster", "status"]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("DEAD LETTER") && out.contains("unknown kind of job `sing`"), "{out}");
    assert!(worker.said().contains("is a dead letter: unknown kind of job `sing`"));
}

/// A worker with a lease on the run cannot see that its debate jobs become dead letters elsewhere.
#[test]
fn debate_whose_jobs_become_dead_letters_is_given_up() {
    let servers = Servers::start(1);
    let home = joined(home(), &servers);
    let serving = Serving::start(&home, &[]);
    // It holds runs, and has no memory for a debate.
    let _holder = Worker::start(&home, &["--slots", "1000", "--isolation", "jail"]);
    let consult = json!({"kind": "consult", "ticker": "NVDA", "rounds": 1, "moves": 1});
    let run = serving.begin(consult);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let queue = runtime.block_on(async { connect(&servers).await.queue().await.unwrap() });
    let isolations = vec!["jail".to_owned()];
    let abilities = Abilities { isolations, memory: 1 << 20, ..Abilities::default() };
    let unable = runtime.spawn(async move {
        loop {
            let taken = queue.take(&abilities, Place::Sandbox).await.unwrap();
            assert_eq!(taken.work.kind, "debate");
            taken.dead_letter("cannot decode the job").await;
        }
    });
    let run = serving.end_of(&run);
    unable.abort();
    assert_eq!(run["status"], "failed", "{run}");
    let error = run["error"].to_string();
    assert!(error.contains("no worker could begin the debate: its job was removed"), "{run}");
    assert!(error.contains("assize cluster status"), "{run}");
    let letters = status(&home)["dead_letters"].as_array().unwrap().len() as u64;
    assert!(letters >= MOST_TRIES, "{letters}");
}

/// The body of one job cannot be decoded, and nothing of the other.
#[test]
fn run_whose_job_no_worker_can_decode_fails_with_the_reason() {
    let servers = Servers::start(1);
    let home = joined(home(), &servers);
    let serving = Serving::start(&home, &[]);
    let begin = || serving.begin(json!({"kind": "run", "task": "Calculate fibonacci(10)"}));
    let runs = [begin(), begin()];
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let queue = connect(&servers).await.queue().await.unwrap();
        let abilities = Abilities { memory: 1 << 20, ..Abilities::default() };
        for _ in &runs {
            queue.take(&abilities, Place::Sandbox).await.unwrap().done().await;
        }
        let about = runs[0].clone();
        let work = Work { kind: "run".to_owned(), about, turn: 99, body: json!([7]) };
        queue.put(&Needs::default(), &work).await.unwrap();
        publish_raw(&servers, &runs[1]).await;
    });
    let _worker = Worker::start(&home, &["--slots", "1", "--isolation", "jail"]);
    for (run, reason) in runs.iter().zip(["the job", "the message"]) {
        let run = serving.end_of(run);
        assert_eq!(run["status"], "failed", "{run}");
        let reason = format!("no worker could begin it: cannot decode {reason}: ");
        assert!(run["error"].to_string().contains(&reason), "{run}");
    }
    let letters = || status(&home)["dead_letters"].as_array().unwrap().clone();
    until("both jobs are dead letters", || letters().len() == 2);
    assert!(letters().iter().all(|one| one["deliveries"] == MOST_TRIES), "{:?}", letters());
}

async fn connect(servers: &Servers) -> Cluster {
    let options = Options {
        address: servers.address().parse().unwrap(),
        identification: Identification::default(),
        name: "assize".to_owned(),
        replicas: 1,
        patience: None,
        times: Times::of_lease(LEASE),
    };
    Cluster::connect(options).await.unwrap()
}

async fn publish_garbage(servers: &Servers) {
    let queue = connect(servers).await.queue().await.unwrap();
    for (kind, about) in [("sing", "a-song"), ("run", "a-run")] {
        let (kind, about) = (kind.to_owned(), about.to_owned());
        let work = Work { kind, about, turn: 1, body: json!([7]) };
        queue.put(&Needs::default(), &work).await.unwrap();
    }
    publish_raw(servers, "garbage").await;
}

/// Publishes bytes that are no JSON as a job of a run.
async fn publish_raw(servers: &Servers, run: &str) {
    let client = async_nats::connect(servers.address()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let stream = context.get_stream("assize-work").await.unwrap();
    let names: Vec<String> = stream.consumer_names().try_collect().await.unwrap();
    let subject = format!("assize.work.{}.run.{run}", names[0]);
    context.publish(subject, "not json".into()).await.unwrap().await.unwrap();
}
