//! What programs write while they run, for those who watch from elsewhere. Whoever runs them is asked for what came
//! after the last that was seen, and answers once there is more.

use std::sync::Arc;
use std::time::Duration;

use assize_cluster::Answering;
use assize_code::{Live, Wrote};
use assize_store::{RunId, StoreError};
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::Member;

/// It is asked again so soon where nobody runs any.
const PAUSE: Duration = Duration::from_secs(1);

fn name(run: &RunId) -> String {
    format!("live-{run}")
}

struct Shown(Arc<Live>);

#[async_trait]
impl Answering for Shown {
    async fn answer(&self, question: Value) -> Value {
        let after = question.as_u64().unwrap_or_default();
        let mut last = self.0.last();
        // It is as good as over when nobody will ever write more.
        let _ = last.wait_for(|last| *last > after).await;
        let more = self.0.after(after).into_iter().map(|wrote| (wrote.number, wrote));
        json!(more.collect::<Vec<_>>())
    }
}

/// Lets others watch what the programs of a run write, until this is dropped.
pub(super) async fn show(
    member: &Member,
    run: &RunId,
    live: Arc<Live>,
) -> Result<AbortOnDropHandle<()>, StoreError> {
    member.cluster.answer(&name(run), Arc::new(Shown(live))).await
}

/// Watches what the programs of a run write elsewhere, until this is dropped. Nothing is told where nobody runs them.
pub fn watch(member: &Arc<Member>, run: &RunId) -> (Arc<Live>, AbortOnDropHandle<()>) {
    let live = Arc::new(Live::default());
    let (member, name, told) = (member.clone(), name(run), live.clone());
    let task = tokio::spawn(async move {
        let mut seen = 0;
        loop {
            let Ok(more) = member.cluster.ask(&name, &json!(seen)).await else {
                // Whoever is gone may be replaced.
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let more: Vec<(u64, Wrote)> = serde_json::from_value(more).unwrap_or_default();
            // Somebody else runs them now, and counts anew.
            seen = more.last().map_or(0, |(number, _)| *number);
            told.pass_on(more.into_iter().map(|(_, wrote)| wrote).collect());
        }
    });
    (live, AbortOnDropHandle::new(task))
}
