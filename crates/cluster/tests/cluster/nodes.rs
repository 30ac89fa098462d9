//! Who takes part.

use assize_cluster::{Abilities, Cluster, Node, NodeRole, VERSION};
use tokio::sync::watch;

use crate::servers::{Servers, Used};

fn node(role: NodeRole, pid: u32) -> Node {
    Node {
        id: Node::new_id(),
        role,
        version: "0.1.0".to_owned(),
        speaks: VERSION,
        host: "here".to_owned(),
        pid,
        since: 1,
        slots: 4,
        busy: 0,
        keeps: Vec::new(),
        holds: Vec::new(),
        abilities: Abilities::default(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_are_there_say_so_and_the_dead_do_not() {
    let servers = Servers::start(1);
    let (here, there) = (
        Cluster::connect(servers.options()).await.unwrap(),
        Cluster::connect(servers.options()).await.unwrap(),
    );
    assert_eq!(here.who().await.unwrap(), []);
    let (server, worker) = (node(NodeRole::Server, 1), node(NodeRole::Worker, 2));
    let (_, standing) = watch::channel(server.clone());
    let _kept = here.announce(standing).await.unwrap();
    let (change, standing) = watch::channel(worker.clone());
    let announced = there.announce(standing).await.unwrap();
    assert_eq!(here.who().await.unwrap(), [server.clone(), worker.clone()]);
    // As it stands now.
    change.send_modify(|node| node.busy = 3);
    assert_eq!(there.who().await.unwrap()[1].busy, 3);
    assert!(here.is_there(&worker.id).await.unwrap());
    drop((announced, there));
    assert!(!here.is_there(&worker.id).await.unwrap());
    assert_eq!(here.who().await.unwrap(), [server]);
}
