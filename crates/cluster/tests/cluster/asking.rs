//! Questions and answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use assize_cluster::{Answering, Cluster, Unanswered};
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::servers::{Servers, Used};

/// Doubles what it is asked, once it is let.
struct Doubling {
    asked: AtomicUsize,
    let_go: watch::Receiver<bool>,
}

#[async_trait]
impl Answering for Doubling {
    async fn answer(&self, question: Value) -> Value {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let _ = self.let_go.clone().wait_for(|let_go| *let_go).await;
        json!(question["number"].as_u64().unwrap() * 2)
    }
}

/// Says what it is asked twice.
struct Echo;

#[async_trait]
impl Answering for Echo {
    async fn answer(&self, question: Value) -> Value {
        json!([question, question])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_large_goes_in_pieces() {
    let servers = Servers::start(1);
    let cluster = Cluster::connect(servers.options()).await.unwrap();
    let _answering = cluster.answer("echo", Arc::new(Echo)).await.unwrap();
    let large: String = (0..400_000).map(|number| format!("{number} ")).collect();
    // Twice as much as the servers take, and the answer twice as much again.
    assert!(large.len() > 2 << 20);
    for question in [json!(large), json!({}), json!("x".repeat(256 << 10))] {
        assert_eq!(cluster.ask("echo", &question).await, Ok(json!([question, question])));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_waited_for_as_long_as_somebody_is_there() {
    let servers = Servers::start(1);
    let (here, there) = (
        Cluster::connect(servers.options()).await.unwrap(),
        Cluster::connect(servers.options()).await.unwrap(),
    );
    let (let_go, waiting) = watch::channel(false);
    let doubling = Arc::new(Doubling { asked: AtomicUsize::new(0), let_go: waiting });
    let answering = there.answer("who-doubles", doubling.clone()).await.unwrap();
    let asking = {
        let here = here.clone();
        tokio::spawn(async move { here.ask("who-doubles", &json!({"number": 21})).await })
    };
    // It is asked again meanwhile.
    while doubling.asked.load(Ordering::Relaxed) < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let_go.send_replace(true);
    assert_eq!(asking.await.unwrap(), Ok(json!(42)));
    // Nobody is there any more.
    drop((answering, there));
    assert_eq!(here.ask("who-doubles", &json!({"number": 1})).await, Err(Unanswered::Gone));
}
