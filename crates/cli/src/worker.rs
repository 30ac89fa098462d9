//! `assize worker`: executes jobs from the queue of a cluster.

use assize_service::{Services, WorkerOffer, labels};
use assize_types::{Cancel, Failure};
use serde_json::json;

use crate::args::WorkerArgs;
use crate::terminal::{note, out_json};
use crate::until_cancelled;

pub(crate) async fn run(
    args: WorkerArgs,
    services: Services,
    cancel: Cancel,
) -> Result<(), Failure> {
    let labels = match args.labels.is_empty() {
        true => std::collections::BTreeMap::new(),
        false => labels(&args.labels.join(","))?,
    };
    let offer = WorkerOffer { slots: args.slots, labels, region: args.region.clone() };
    let joining = services.worker(&offer);
    let worker = until_cancelled(&cancel, joining).await?;
    let node = worker.node();
    if args.json {
        out_json(&json!(node))?;
    } else {
        let isolations =
            node.capabilities.isolations.iter().filter(|isolation| !isolation.contains('='));
        let isolations: Vec<&str> = isolations.map(String::as_str).collect();
        let slots = if node.slots == 1 { "sandbox" } else { "sandboxes" };
        note(&format!(
            "worker {} offers {} {slots} of {} MB each ({}); Ctrl-C stops it, and other workers resume its jobs",
            node.id,
            node.slots,
            node.capabilities.memory,
            isolations.join(", "),
        ));
    }
    worker.run(cancel).await
}
