//! Tests of status requests to cluster nodes.

use assize_cluster::{Capabilities, Cluster, ClusterNode, NodeRole, VERSION};
use tokio::sync::watch;

use crate::servers::{Servers, Used};

fn node(role: NodeRole, pid: u32) -> ClusterNode {
    ClusterNode {
        id: ClusterNode::new_id(),
        role,
        version: "0.1.0".to_owned(),
        speaks: VERSION,
        host: "here".to_owned(),
        pid,
        since: 1,
        slots: 4,
        busy: 0,
        rate_limits: Vec::new(),
        leases: Vec::new(),
        capabilities: Capabilities::default(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn announced_nodes_reply_to_status_requests_until_they_are_dropped() {
    let servers = Servers::start(1);
    let (here, there) = (
        Cluster::connect(servers.options()).await.unwrap(),
        Cluster::connect(servers.options()).await.unwrap(),
    );
    assert_eq!(here.nodes().await.unwrap(), []);
    let (server, worker) = (node(NodeRole::Server, 1), node(NodeRole::Worker, 2));
    let (_, status) = watch::channel(server.clone());
    let _announced = here.announce(status).await.unwrap();
    let (change, status) = watch::channel(worker.clone());
    let announced = there.announce(status).await.unwrap();
    assert_eq!(here.nodes().await.unwrap(), [server.clone(), worker.clone()]);
    // A node replies with its current status.
    change.send_modify(|node| node.busy = 3);
    assert_eq!(there.nodes().await.unwrap()[1].busy, 3);
    assert!(here.is_there(&worker.id).await.unwrap());
    drop((announced, there));
    assert!(!here.is_there(&worker.id).await.unwrap());
    assert_eq!(here.nodes().await.unwrap(), [server]);
}
