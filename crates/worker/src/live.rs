//! What programs write while they run, for those who watch from elsewhere. Whoever runs them is asked for what came
//! after the last that was seen, and answers once there is more.

use std::sync::Arc;
use std::time::Duration;

use assize_cluster::{Answering, Member, Node};
use assize_run::{LiveOutput, RunId, StoreError, Wrote};
use async_trait::async_trait;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

/// It is asked again so soon where nobody runs any.
const PAUSE: Duration = Duration::from_secs(1);

fn name(run: &RunId) -> String {
    format!("live-{run}")
}

/// What is asked: who has told the last that was seen, and its number.
type Seen = (String, u64);

struct Shown {
    live: Arc<LiveOutput>,
    /// Like no other's: whoever takes a run over counts anew.
    by: String,
}

#[async_trait]
impl Answering for Shown {
    async fn answer(&self, question: Value) -> Value {
        let (by, seen): Seen = serde_json::from_value(question).unwrap_or_default();
        let after = if by == self.by { seen } else { 0 };
        let mut last = self.live.last();
        // It is as good as over when nobody will ever write more.
        let _ = last.wait_for(|last| *last > after).await;
        let more = self.live.after(after).into_iter().map(|wrote| (wrote.number, wrote));
        json!((&self.by, more.collect::<Vec<_>>()))
    }
}

/// Lets others watch what the programs of a run write, until this is dropped.
pub(crate) async fn show(
    member: &Member,
    run: &RunId,
    live: Arc<LiveOutput>,
) -> Result<AbortOnDropHandle<()>, StoreError> {
    member.cluster.answer(&name(run), Arc::new(Shown { live, by: Node::new_id() })).await
}

/// Watches what the programs of a run write elsewhere, until this is dropped. Nothing is told where nobody runs them.
pub fn watch(member: &Arc<Member>, run: &RunId) -> (Arc<LiveOutput>, AbortOnDropHandle<()>) {
    let live = Arc::new(LiveOutput::default());
    let (member, name, told) = (member.clone(), name(run), live.clone());
    let task = tokio::spawn(async move {
        let mut seen = Seen::default();
        loop {
            let Ok(more) = member.cluster.ask(&name, &json!(seen)).await else {
                // Whoever is gone may be replaced.
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let (by, more): (String, Vec<(u64, Wrote)>) =
                serde_json::from_value(more).unwrap_or_default();
            let last = more.last().map(|(number, _)| *number);
            // Nobody will ever write more, or it is not understood.
            let Some(last) = last else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            seen = (by, last);
            told.pass_on(more.into_iter().map(|(_, wrote)| wrote).collect());
        }
    });
    (live, AbortOnDropHandle::new(task))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_saw_it_elsewhere_is_told_all() {
        let live = Arc::new(LiveOutput::default());
        let wrote = json!({"number": 1, "attempt": 1, "candidate": null, "stream": "stdout", "text": "a", "cut": false});
        let wrote: Wrote = serde_json::from_value(wrote).unwrap();
        live.pass_on(vec![wrote.clone(), wrote]);
        let shown = Shown { live, by: "us".to_owned() };
        for (seen, told) in [(("them", 500), 2), (("us", 1), 1), (("", 0), 2)] {
            assert_eq!(shown.answer(json!(seen)).await[1].as_array().unwrap().len(), told);
        }
    }
}
