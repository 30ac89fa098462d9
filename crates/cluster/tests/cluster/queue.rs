//! Work that waits, and who gets it.

use std::time::Duration;

use assize_cluster::{
    Abilities, Cluster, DEFAULT_LEASE, Needs, Options, Place, Queue, Times, Work,
};
use assize_run::StoreError;
use async_nats::jetstream::stream::Config;
use futures_util::TryStreamExt;
use serde_json::{Value, json};

use crate::servers::{LEASE, Servers, Used};

async fn queue(servers: &Servers) -> Queue {
    Cluster::connect(servers.options()).await.unwrap().queue().await.unwrap()
}

fn work(about: &str) -> Work {
    Work { kind: "run".to_owned(), about: about.to_owned(), turn: 1, body: json!({"of": about}) }
}

fn able(isolations: &[&str], memory: u64) -> Abilities {
    let isolations = isolations.iter().map(ToString::to_string).collect();
    Abilities { isolations, memory, ..Abilities::default() }
}

fn needs(isolation: &str, memory: u64) -> Needs {
    Needs {
        isolation: Some(isolation.to_owned()),
        memory,
        place: Place::Sandbox,
        ..Needs::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_taken_once_by_who_can_do_it() {
    let servers = Servers::start(1);
    let (here, there) = (queue(&servers).await, queue(&servers).await);
    here.put(&needs("jail", 256), &work("small")).await.unwrap();
    // Put twice, it is there once.
    here.put(&needs("jail", 256), &work("small")).await.unwrap();
    here.put(&needs("microvm", 2048), &work("large")).await.unwrap();
    let first = here.take(&able(&["jail"], 512), Place::Sandbox).await.unwrap();
    assert_eq!((first.work.about.as_str(), first.tries), ("small", 1));
    // There is nothing more for it, though something waits.
    let none =
        tokio::time::timeout(LEASE / 2, here.take(&able(&["jail"], 512), Place::Sandbox)).await;
    assert!(none.is_err(), "{none:?}");
    let too_small = able(&["jail", "microvm"], 1024);
    let none = tokio::time::timeout(LEASE / 2, there.take(&too_small, Place::Sandbox)).await;
    assert!(none.is_err(), "{none:?}");
    let lines = here.lines().await.unwrap();
    let line = |needs: &Needs| lines.iter().find(|line| line.needs == *needs).unwrap().clone();
    let large = line(&needs("microvm", 2048));
    assert_eq!((large.waiting, large.under_way), (1, 0));
    let small = line(&needs("jail", 256));
    assert_eq!((small.waiting, small.under_way), (0, 1));
    let second = there.take(&able(&["microvm"], 4096), Place::Sandbox).await.unwrap();
    assert_eq!(second.work, work("large"));
    first.done().await;
    second.done().await;
    let left: u64 =
        here.lines().await.unwrap().iter().map(|line| line.waiting + line.under_way).sum();
    assert_eq!(left, 0);
    // Whoever waits is woken.
    let waiting =
        tokio::spawn(
            async move { there.take(&able(&["jail"], 512), Place::Sandbox).await.unwrap() },
        );
    tokio::time::sleep(Duration::from_millis(300)).await;
    here.put(&needs("jail", 256), &work("next")).await.unwrap();
    let next = waiting.await.unwrap();
    assert_eq!(next.work.about, "next");
    next.done().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_of_the_dead_comes_back_and_of_the_living_does_not() {
    let servers = Servers::start(1);
    let queue = queue(&servers).await;
    let all = able(&["jail"], 512);
    queue.put(&needs("jail", 1), &work("lost")).await.unwrap();
    drop(queue.take(&all, Place::Sandbox).await.unwrap());
    let again = queue.take(&all, Place::Sandbox).await.unwrap();
    assert_eq!((again.work.about.as_str(), again.tries), ("lost", 2));
    // Who goes on keeps it, however long it takes.
    let nobody = tokio::time::timeout(LEASE + LEASE / 2, queue.take(&all, Place::Sandbox)).await;
    assert!(nobody.is_err(), "{nobody:?}");
    again.give_back(Duration::from_millis(100)).await;
    let third = queue.take(&all, Place::Sandbox).await.unwrap();
    assert_eq!(third.tries, 3);
    third.dead_letter("no worker can run it").await;
    let gone = tokio::time::timeout(LEASE / 2, queue.take(&all, Place::Sandbox)).await;
    assert!(gone.is_err(), "{gone:?}");
}

/// A node with another lease would renew too late, or take over too early.
#[tokio::test(flavor = "multi_thread")]
async fn node_with_another_lease_is_refused() {
    let servers = Servers::start(1);
    for (name, lease) in [("short", LEASE), ("default", DEFAULT_LEASE)] {
        let open = async |lease| {
            let times = Times::of_lease(lease);
            let options = Options { name: name.to_owned(), times, ..servers.options() };
            Cluster::connect(options).await.unwrap().queue().await
        };
        open(lease).await.unwrap();
        open(lease).await.unwrap();
        let error = open(Duration::from_secs(9)).await.unwrap_err();
        assert!(matches!(error, StoreError::Unopened { .. }), "{error:?}");
        let expected = format!("its lease is {} s, and 9 s is configured here", lease.as_secs());
        assert!(error.to_string().ends_with(&expected), "{error}");
    }
}

/// Publishes bytes where the jobs with these needs wait.
async fn publish_raw(servers: &Servers, queue: &Queue, needs: &Needs, payload: Vec<u8>) {
    // A job of theirs makes the consumer.
    queue.put(needs, &work("ordinary")).await.unwrap();
    let client = async_nats::connect(servers.address()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let stream = context.get_stream("test-work").await.unwrap();
    let mut consumers = stream.consumers();
    let consumer = consumers.try_next().await.unwrap().unwrap();
    let subject = consumer.config.filter_subject.replace('>', "run.garbage");
    context.publish(subject, payload.into()).await.unwrap().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn undecodable_message_is_delivered_with_the_reason_and_becomes_a_dead_letter() {
    let servers = Servers::start(1);
    let queue = queue(&servers).await;
    assert_eq!(queue.dead_letters(10).await.unwrap(), []);
    let garbage = [b"\xff\x00{not json".as_slice(), &[b'x'; 5000]].concat();
    publish_raw(&servers, &queue, &needs("jail", 1), garbage).await;
    let all = able(&["jail"], 512);
    let taken = queue.take(&all, Place::Sandbox).await.unwrap();
    assert_eq!(taken.work, work("ordinary"));
    assert_eq!(taken.body::<Value>(), Ok(taken.work.body.clone()));
    taken.done().await;
    let taken = queue.take(&all, Place::Sandbox).await.unwrap();
    assert_eq!((taken.work.kind.as_str(), taken.work.about.as_str()), ("run", "garbage"));
    let reason = taken.body::<Value>().unwrap_err();
    taken.dead_letter(&reason).await;
    // The jobs behind it are delivered.
    queue.put(&needs("jail", 1), &work("next")).await.unwrap();
    let taken = queue.take(&all, Place::Sandbox).await.unwrap();
    assert_eq!(taken.work, work("next"));
    taken.done().await;
    let letters = queue.dead_letters(10).await.unwrap();
    let [letter] = letters.try_into().unwrap();
    assert!(letter.subject.ends_with(".run.garbage"), "{letter:?}");
    assert!(letter.reason.starts_with("cannot decode the message: "), "{letter:?}");
    assert_eq!((letter.deliveries, letter.payload_bytes), (1, 5011));
    assert!(letter.payload.starts_with("\u{fffd}\0{not json") && letter.payload.len() < 1100);
    // It is gone from the queue.
    let lines = queue.lines().await.unwrap();
    assert_eq!(lines.iter().map(|line| line.waiting + line.under_way).sum::<u64>(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn newest_dead_letters_come_first() {
    let servers = Servers::start(1);
    let queue = queue(&servers).await;
    let all = able(&["jail"], 512);
    for about in ["one", "two", "three"] {
        queue.put(&needs("jail", 1), &work(about)).await.unwrap();
        queue.take(&all, Place::Sandbox).await.unwrap().dead_letter(about).await;
    }
    let reasons = async |limit| {
        let letters = queue.dead_letters(limit).await.unwrap();
        letters.into_iter().map(|letter| letter.reason).collect::<Vec<_>>()
    };
    assert_eq!(reasons(10).await, ["three", "two", "one"]);
    assert_eq!(reasons(2).await, ["three", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_a_later_version_is_left_alone() {
    let servers = Servers::start(1);
    let open = async |lease| {
        let options = Options { times: Times::of_lease(lease), ..servers.options() };
        Cluster::connect(options).await.unwrap().queue().await
    };
    open(DEFAULT_LEASE).await.unwrap();
    let client = async_nats::connect(servers.address()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let config =
        async || context.get_stream("test-work").await.unwrap().cached_info().config.clone();
    let describe = async |description: &str| {
        let description = Some(description.to_owned());
        context.update_stream(Config { description, ..config().await }).await.unwrap();
    };
    assert_eq!(config().await.description.as_deref(), Some("assize, version 1"));
    describe("assize, version 2").await;
    let error = open(DEFAULT_LEASE).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 2, known: 1, .. }), "{error}");
    // Of an earlier one it is taken over, and says so. Its lease stays.
    describe("assize, version 0").await;
    open(DEFAULT_LEASE).await.unwrap();
    assert_eq!(config().await.description.as_deref(), Some("assize, version 1"));
    describe("assize, version 0, lease in ms: 2000").await;
    open(LEASE).await.unwrap();
    let described = config().await.description;
    assert_eq!(described.as_deref(), Some("assize, version 1, lease in ms: 2000"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_alone_is_there_once_and_waits_for_no_other_place() {
    let servers = Servers::start(1);
    let queue = queue(&servers).await;
    let keeping = Needs { place: Place::Keeper, ..Needs::default() };
    let work = |turn: u64| Work { kind: "limits".to_owned(), turn, ..work("somebody") };
    assert!(!queue.has("limits", "somebody").await.unwrap());
    for turn in 1..4 {
        queue.put_alone(&keeping, &work(turn)).await.unwrap();
    }
    assert!(queue.has("limits", "somebody").await.unwrap());
    let all = Abilities::default();
    let none = tokio::time::timeout(Duration::from_secs(1), queue.take(&all, Place::Run)).await;
    assert!(none.is_err(), "{none:?}");
    let taken = queue.take(&all, Place::Keeper).await.unwrap();
    assert_eq!(taken.work, work(1));
    let none = tokio::time::timeout(Duration::from_secs(1), queue.take(&all, Place::Keeper)).await;
    assert!(none.is_err(), "{none:?}");
    taken.done().await;
    // Once it is done, it can be put there again.
    queue.put_alone(&keeping, &work(9)).await.unwrap();
    let taken = queue.take(&all, Place::Keeper).await.unwrap();
    assert_eq!(taken.work, work(9));
    taken.done().await;
}
