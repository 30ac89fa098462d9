//! Tests of the RPC between cluster nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use assize_cluster::{Cluster, RpcError, RpcHandler};
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::servers::{Servers, Used};

/// RPC handler that replies with twice the number in the request, but only after the test has released it.
struct Doubling {
    requests: AtomicUsize,
    released: watch::Receiver<bool>,
}

#[async_trait]
impl RpcHandler for Doubling {
    async fn handle(&self, question: Value) -> Value {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let _ = self.released.clone().wait_for(|released| *released).await;
        json!(question["number"].as_u64().unwrap() * 2)
    }
}

/// RPC handler that replies with two copies of the request.
struct Echo;

#[async_trait]
impl RpcHandler for Echo {
    async fn handle(&self, question: Value) -> Value {
        json!([question, question])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rpc_with_a_request_and_a_reply_above_the_maximum_payload_succeeds() {
    let servers = Servers::start(1);
    let cluster = Cluster::connect(servers.options()).await.unwrap();
    let _answering = cluster.serve_rpc("echo", Arc::new(Echo)).await.unwrap();
    let large: String = (0..400_000).map(|number| format!("{number} ")).collect();
    // The request is more than twice as large as the maximum payload of the servers, and the reply is twice as large as
    // the request.
    assert!(large.len() > 2 << 20);
    for question in [json!(large), json!({}), json!("x".repeat(256 << 10))] {
        assert_eq!(cluster.call("echo", &question).await, Ok(json!([question, question])));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rpc_waits_while_the_peer_is_alive_and_fails_once_the_peer_is_gone() {
    let servers = Servers::start(1);
    let (here, there) = (
        Cluster::connect(servers.options()).await.unwrap(),
        Cluster::connect(servers.options()).await.unwrap(),
    );
    let (release, released) = watch::channel(false);
    let doubling = Arc::new(Doubling { requests: AtomicUsize::new(0), released });
    let serving = there.serve_rpc("doubler", doubling.clone()).await.unwrap();
    let calling = {
        let here = here.clone();
        tokio::spawn(async move { here.call("doubler", &json!({"number": 21})).await })
    };
    // Wait until the caller has repeated its request.
    while doubling.requests.load(Ordering::Relaxed) < 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    release.send_replace(true);
    assert_eq!(calling.await.unwrap(), Ok(json!(42)));
    drop((serving, there));
    assert_eq!(here.call("doubler", &json!({"number": 1})).await, Err(RpcError::NoReply));
}
