//! Tests of the job queue: delivery, redelivery, dead letters and versions of the data format.

use std::time::Duration;

use assize_cluster::{
    Capabilities, Cluster, ClusterOptions, ClusterTimes, DEFAULT_LEASE, Queue, QueuedJob,
    Requirements, SlotKind,
};
use assize_run::StoreError;
use async_nats::jetstream::stream::Config;
use futures_util::TryStreamExt;
use serde_json::{Value, json};

use crate::servers::{LEASE, Servers, Used};

async fn queue(servers: &Servers) -> Queue {
    Cluster::connect(servers.options()).await.unwrap().queue().await.unwrap()
}

fn work(about: &str) -> QueuedJob {
    QueuedJob {
        kind: "run".to_owned(),
        about: about.to_owned(),
        turn: 1,
        body: json!({"of": about}),
    }
}

fn able(isolations: &[&str], memory: u64) -> Capabilities {
    let isolations = isolations.iter().map(ToString::to_string).collect();
    Capabilities { isolations, memory, ..Capabilities::default() }
}

fn needs(isolation: &str, memory: u64) -> Requirements {
    Requirements {
        isolation: Some(isolation.to_owned()),
        memory,
        place: SlotKind::Sandbox,
        ..Requirements::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn job_is_delivered_once_to_a_worker_that_meets_its_requirements() {
    let servers = Servers::start(1);
    let (here, there) = (queue(&servers).await, queue(&servers).await);
    here.add(&needs("jail", 256), &work("small")).await.unwrap();
    // Add the same job again: it is queued only once.
    here.add(&needs("jail", 256), &work("small")).await.unwrap();
    here.add(&needs("microvm", 2048), &work("large")).await.unwrap();
    let first = here.next_delivery(&able(&["jail"], 512), SlotKind::Sandbox).await.unwrap();
    assert_eq!((first.work.about.as_str(), first.deliveries), ("small", 1));
    // The waiting job requires more than these workers offer, so it is not delivered to them.
    let none = tokio::time::timeout(
        LEASE / 2,
        here.next_delivery(&able(&["jail"], 512), SlotKind::Sandbox),
    )
    .await;
    assert!(none.is_err(), "{none:?}");
    let too_small = able(&["jail", "microvm"], 1024);
    let none =
        tokio::time::timeout(LEASE / 2, there.next_delivery(&too_small, SlotKind::Sandbox)).await;
    assert!(none.is_err(), "{none:?}");
    let lines = here.lines().await.unwrap();
    let line =
        |needs: &Requirements| lines.iter().find(|line| line.needs == *needs).unwrap().clone();
    let large = line(&needs("microvm", 2048));
    assert_eq!((large.waiting, large.under_way), (1, 0));
    let small = line(&needs("jail", 256));
    assert_eq!((small.waiting, small.under_way), (0, 1));
    let second = there.next_delivery(&able(&["microvm"], 4096), SlotKind::Sandbox).await.unwrap();
    assert_eq!(second.work, work("large"));
    first.ack().await;
    second.ack().await;
    let left: u64 =
        here.lines().await.unwrap().iter().map(|line| line.waiting + line.under_way).sum();
    assert_eq!(left, 0);
    // A new job wakes a waiting worker.
    let waiting = tokio::spawn(async move {
        there.next_delivery(&able(&["jail"], 512), SlotKind::Sandbox).await.unwrap()
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    here.add(&needs("jail", 256), &work("next")).await.unwrap();
    let next = waiting.await.unwrap();
    assert_eq!(next.work.about, "next");
    next.ack().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_redelivers_a_dropped_job_but_no_job_whose_lease_is_renewed() {
    let servers = Servers::start(1);
    let queue = queue(&servers).await;
    let all = able(&["jail"], 512);
    queue.add(&needs("jail", 1), &work("lost")).await.unwrap();
    drop(queue.next_delivery(&all, SlotKind::Sandbox).await.unwrap());
    let again = queue.next_delivery(&all, SlotKind::Sandbox).await.unwrap();
    assert_eq!((again.work.about.as_str(), again.deliveries), ("lost", 2));
    // While the worker renews its lease, the job is not redelivered.
    let none =
        tokio::time::timeout(LEASE + LEASE / 2, queue.next_delivery(&all, SlotKind::Sandbox)).await;
    assert!(none.is_err(), "{none:?}");
    again.nack(Duration::from_millis(100)).await;
    let third = queue.next_delivery(&all, SlotKind::Sandbox).await.unwrap();
    assert_eq!(third.deliveries, 3);
    third.dead_letter("no worker can execute the job").await;
    let gone = tokio::time::timeout(LEASE / 2, queue.next_delivery(&all, SlotKind::Sandbox)).await;
    assert!(gone.is_err(), "{gone:?}");
}

/// A node is rejected if its configured lease duration differs from that of the cluster. Otherwise the node would renew
/// its leases too late, or would receive jobs of other nodes too early.
#[tokio::test(flavor = "multi_thread")]
async fn queue_rejects_a_node_whose_lease_duration_differs_from_the_cluster() {
    let servers = Servers::start(1);
    for (name, lease) in [("short", LEASE), ("default", DEFAULT_LEASE)] {
        let open = async |lease| {
            let times = ClusterTimes::of_lease(lease);
            let options = ClusterOptions { name: name.to_owned(), times, ..servers.options() };
            Cluster::connect(options).await.unwrap().queue().await
        };
        open(lease).await.unwrap();
        open(lease).await.unwrap();
        let error = open(Duration::from_secs(9)).await.unwrap_err();
        assert!(matches!(error, StoreError::CannotOpen { .. }), "{error:?}");
        let expected = format!(
            "the lease duration of the cluster is {} s, but 9 s is configured",
            lease.as_secs()
        );
        assert!(error.to_string().ends_with(&expected), "{error}");
    }
}

/// Publishes arbitrary bytes to the queue as if they were a job with these requirements.
async fn publish_raw(servers: &Servers, queue: &Queue, needs: &Requirements, payload: Vec<u8>) {
    // First add a valid job with the same requirements, which creates the consumer.
    queue.add(needs, &work("ordinary")).await.unwrap();
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
    let taken = queue.next_delivery(&all, SlotKind::Sandbox).await.unwrap();
    assert_eq!(taken.work, work("ordinary"));
    assert_eq!(taken.body::<Value>(), Ok(taken.work.body.clone()));
    taken.ack().await;
    let taken = queue.next_delivery(&all, SlotKind::Sandbox).await.unwrap();
    assert_eq!((taken.work.kind.as_str(), taken.work.about.as_str()), ("run", "garbage"));
    let reason = taken.body::<Value>().unwrap_err();
    taken.dead_letter(&reason).await;
    // Jobs that are added later are still delivered.
    queue.add(&needs("jail", 1), &work("next")).await.unwrap();
    let taken = queue.next_delivery(&all, SlotKind::Sandbox).await.unwrap();
    assert_eq!(taken.work, work("next"));
    taken.ack().await;
    let letters = queue.dead_letters(10).await.unwrap();
    let [letter] = letters.try_into().unwrap();
    assert!(letter.subject.ends_with(".run.garbage"), "{letter:?}");
    assert!(letter.reason.starts_with("cannot decode the message: "), "{letter:?}");
    assert_eq!((letter.deliveries, letter.payload_bytes), (1, 5011));
    assert!(letter.payload.starts_with("\u{fffd}\0{not json") && letter.payload.len() < 1100);
    // After that the queue is empty.
    let lines = queue.lines().await.unwrap();
    assert_eq!(lines.iter().map(|line| line.waiting + line.under_way).sum::<u64>(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_newest_first() {
    let servers = Servers::start(1);
    let queue = queue(&servers).await;
    let all = able(&["jail"], 512);
    for about in ["one", "two", "three"] {
        queue.add(&needs("jail", 1), &work(about)).await.unwrap();
        queue.next_delivery(&all, SlotKind::Sandbox).await.unwrap().dead_letter(about).await;
    }
    let reasons = async |limit| {
        let letters = queue.dead_letters(limit).await.unwrap();
        letters.into_iter().map(|letter| letter.reason).collect::<Vec<_>>()
    };
    assert_eq!(reasons(10).await, ["three", "two", "one"]);
    assert_eq!(reasons(2).await, ["three", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn opening_a_queue_rejects_a_later_data_format_and_upgrades_an_earlier_one() {
    let servers = Servers::start(1);
    let open = async |lease| {
        let options = ClusterOptions { times: ClusterTimes::of_lease(lease), ..servers.options() };
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
    // Opening the queue updates the version in the description, and keeps the lease duration.
    describe("assize, version 0").await;
    open(DEFAULT_LEASE).await.unwrap();
    assert_eq!(config().await.description.as_deref(), Some("assize, version 1"));
    describe("assize, version 0, lease in ms: 2000").await;
    open(LEASE).await.unwrap();
    let described = config().await.description;
    assert_eq!(described.as_deref(), Some("assize, version 1, lease in ms: 2000"));
}

#[tokio::test(flavor = "multi_thread")]
async fn add_if_absent_queues_no_second_job_until_the_first_is_done() {
    let servers = Servers::start(1);
    let queue = queue(&servers).await;
    let needs = Requirements { place: SlotKind::RateLimits, ..Requirements::default() };
    let work = |turn: u64| QueuedJob { kind: "limits".to_owned(), turn, ..work("provider") };
    assert!(!queue.has("limits", "provider").await.unwrap());
    for turn in 1..4 {
        queue.add_if_absent(&needs, &work(turn)).await.unwrap();
    }
    assert!(queue.has("limits", "provider").await.unwrap());
    let all = Capabilities::default();
    let none =
        tokio::time::timeout(Duration::from_secs(1), queue.next_delivery(&all, SlotKind::Run))
            .await;
    assert!(none.is_err(), "{none:?}");
    let taken = queue.next_delivery(&all, SlotKind::RateLimits).await.unwrap();
    assert_eq!(taken.work, work(1));
    let none = tokio::time::timeout(
        Duration::from_secs(1),
        queue.next_delivery(&all, SlotKind::RateLimits),
    )
    .await;
    assert!(none.is_err(), "{none:?}");
    taken.ack().await;
    // Once the job is done, it can be queued again.
    queue.add_if_absent(&needs, &work(9)).await.unwrap();
    let taken = queue.next_delivery(&all, SlotKind::RateLimits).await.unwrap();
    assert_eq!(taken.work, work(9));
    taken.ack().await;
}
