//! Live output of programs across the cluster, by long polling. A subscriber sends a request to the worker that
//! executes the run. The request contains the number of the last chunk that the subscriber has received. The worker
//! replies once there is more output.

use std::sync::Arc;
use std::time::Duration;

use assize_cluster::{ClusterClient, ClusterNode, RpcHandler};
use assize_run::{LiveOutput, OutputChunk, RunId, StoreError};
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

/// Delay before live output is requested again if no process executes the run at the moment.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

fn name(run: &RunId) -> String {
    format!("live-{run}")
}

/// Cursor of a subscriber to live output: the id of the publisher that sent the last received chunk, and the number of
/// that chunk.
type Cursor = (String, u64);

struct Publisher {
    live: Arc<LiveOutput>,
    /// Unique id of this publisher. Each publisher numbers the chunks of its output from 1. So after another worker has
    /// resumed the run, a cursor with the id of the earlier publisher is not valid.
    source: String,
}

#[async_trait]
impl RpcHandler for Publisher {
    async fn handle(&self, question: Value) -> Value {
        let (source, seen): Cursor = serde_json::from_value(question).unwrap_or_default();
        let after = if source == self.source { seen } else { 0 };
        let mut last = self.live.last();
        // The wait fails if the output is closed. The reply is then empty.
        let _ = last.wait_for(|last| *last > after).await;
        let more = self.live.after(after).into_iter().map(|wrote| (wrote.number, wrote));
        json!((&self.source, more.collect::<Vec<_>>()))
    }
}

/// Publishes the live output of a run to the other processes of the cluster until the returned handle is dropped.
pub(crate) async fn show(
    member: &ClusterClient,
    run: &RunId,
    live: Arc<LiveOutput>,
) -> Result<AbortOnDropHandle<()>, StoreError> {
    member
        .cluster
        .serve_rpc(&name(run), Arc::new(Publisher { live, source: ClusterNode::new_id() }))
        .await
}

/// Subscribes to the live output of a run that another process executes, until the returned handle is dropped.
pub fn watch(member: &Arc<ClusterClient>, run: &RunId) -> (Arc<LiveOutput>, AbortOnDropHandle<()>) {
    let live = Arc::new(LiveOutput::default());
    let (member, name, received) = (member.clone(), name(run), live.clone());
    let task = tokio::spawn(async move {
        let mut cursor = Cursor::default();
        loop {
            let Ok(more) = member.cluster.call(&name, &json!(cursor)).await else {
                // No process executes the run at the moment. Another worker may resume the run.
                tokio::time::sleep(RETRY_INTERVAL).await;
                continue;
            };
            let (source, more): (String, Vec<(u64, OutputChunk)>) =
                serde_json::from_value(more).unwrap_or_default();
            let last = more.last().map(|(number, _)| *number);
            // The reply is empty, because the output is closed, or the reply is invalid.
            let Some(last) = last else {
                tokio::time::sleep(RETRY_INTERVAL).await;
                continue;
            };
            cursor = (source, last);
            received.append_remote(more.into_iter().map(|(_, wrote)| wrote).collect());
        }
    });
    (live, AbortOnDropHandle::new(task))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn live_output_starts_from_the_beginning_if_another_publisher_issued_the_cursor() {
        let live = Arc::new(LiveOutput::default());
        let wrote = json!({"number": 1, "attempt": 1, "candidate": null, "stream": "stdout", "text": "a", "cut": false});
        let wrote: OutputChunk = serde_json::from_value(wrote).unwrap();
        live.append_remote(vec![wrote.clone(), wrote]);
        let publisher = Publisher { live, source: "us".to_owned() };
        for (cursor, count) in [(("them", 500), 2), (("us", 1), 1), (("", 0), 2)] {
            assert_eq!(publisher.handle(json!(cursor)).await[1].as_array().unwrap().len(), count);
        }
    }
}
