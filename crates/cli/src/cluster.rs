//! `assize cluster`: who takes part, what waits, what is stuck.

use assize_service::Services;
use assize_service::status::{DeadLetter, Node, NodeRole, Status, VERSION, needs};
use assize_types::{Failure, FailureKind};
use serde_json::json;

use crate::args::ClusterCommand;
use crate::terminal::{self, DIM, note, out_json, out_line, out_table, paint};

pub(crate) async fn run(command: ClusterCommand, services: &Services) -> Result<(), Failure> {
    let ClusterCommand::Status { json } = command;
    services.settings.refuse_withheld()?;
    if services.settings.cluster.servers.is_none() {
        let message = "no cluster is named";
        return Err(Failure::new(FailureKind::Usage, message)
            .hint("name its servers: `--cluster nats://a,b,c`, or the setting `cluster.servers`"));
    }
    let status = services.cluster_status().await?;
    if json { out_json(&json!(status)) } else { show(&status) }
}

fn show(status: &Status) -> Result<(), Failure> {
    if status.nodes.is_empty() {
        note("nobody takes part; `assize worker --cluster …` works for it");
    } else {
        let heads = [
            "NODE",
            "ROLE",
            "WHERE",
            "SANDBOXES",
            "EACH",
            "WALLS",
            "LABELS",
            "VERSION",
            "KEEPS LIMITS OF",
        ];
        let mut rows = vec![heads.map(str::to_owned)];
        rows.extend(status.nodes.iter().map(row));
        out_table(&rows)?;
        out_line("")?;
    }
    let Status { slots, busy, running, waiting, .. } = status;
    let runs = if *running == 1 { "run is" } else { "runs are" };
    let wait = if *waiting == 1 { "waits" } else { "wait" };
    out_line(&format!(
        "{busy} of {slots} sandboxes are in use; {running} {runs} held, {waiting} {wait}"
    ))?;
    let lines: Vec<_> =
        status.queue.iter().filter(|one| one.line.waiting + one.line.under_way > 0).collect();
    if !lines.is_empty() {
        out_line("")?;
        let heads = ["WORK THAT NEEDS", "WAITS", "UNDER WAY", "AGAIN", "WORKERS"];
        let mut rows = vec![heads.map(str::to_owned)];
        rows.extend(lines.iter().map(|one| {
            let counts = [one.line.waiting, one.line.under_way, one.line.again, one.workers as u64];
            let [waits, under_way, again, workers] = counts.map(|count| count.to_string());
            [needs(one), waits, under_way, again, workers]
        }));
        out_table(&rows)?;
    }
    out_line("")?;
    let heads = ["STREAM", "MESSAGES", "KILOBYTES", "LEADER", "COPIES"];
    let mut rows = vec![heads.map(str::to_owned)];
    rows.extend(status.streams.iter().map(|stream| {
        let copies =
            stream.copies.iter().map(|copy| match (copy.offline, copy.current, copy.behind) {
                (true, ..) => format!("{} is gone", copy.server),
                (false, true, 0) => format!("{} has all", copy.server),
                (false, _, behind) => format!("{} is {behind} behind", copy.server),
            });
        let copies: Vec<String> = copies.collect();
        let copies = if copies.is_empty() { "none".to_owned() } else { copies.join(", ") };
        let leader = stream.leader.clone().unwrap_or_else(|| "the only one".to_owned());
        let kilobytes = stream.bytes.div_ceil(1000).to_string();
        [stream.name.clone(), stream.messages.to_string(), kilobytes, leader, copies]
    }));
    out_table(&rows)?;
    if status.stuck.is_empty() {
        note(&paint(DIM, "nothing is stuck"));
    }
    for stuck in &status.stuck {
        terminal::warn(&format!("{} does not get on: {}", stuck.what, stuck.why));
    }
    if !status.dead_letters.is_empty() {
        out_line("")?;
        let heads = ["DEAD LETTER", "DELIVERIES", "BYTES", "REASON", "PAYLOAD"];
        let mut rows = vec![heads.map(str::to_owned)];
        rows.extend(status.dead_letters.iter().map(|letter| {
            let DeadLetter { subject, reason, payload, payload_bytes, deliveries, .. } = letter;
            let counts = [deliveries.to_string(), payload_bytes.to_string()];
            let [deliveries, bytes] = counts;
            let payload = terminal::harmless(payload).replace('\n', " ");
            let payload = payload.chars().take(SHOWN_PAYLOAD).collect();
            [subject.clone(), deliveries, bytes, reason.clone(), payload]
        }));
        out_table(&rows)?;
    }
    Ok(())
}

/// Characters of a dead letter's payload in the table; `--json` has more.
const SHOWN_PAYLOAD: usize = 60;

fn row(node: &Node) -> [String; 9] {
    let role = match node.role {
        NodeRole::Server => "server",
        NodeRole::Worker => "worker",
    };
    let exact = node.abilities.isolations.iter().filter(|walls| !walls.contains('='));
    let walls = exact.map(String::as_str).collect::<Vec<_>>().join(" ");
    let labels = node.abilities.labels.iter().map(|(name, value)| format!("{name}={value}"));
    let labels: Vec<String> = node.abilities.region.iter().cloned().chain(labels).collect();
    let version = match node.speaks == VERSION {
        true => node.version.clone(),
        false => format!("{} (speaks {}, not {VERSION})", node.version, node.speaks),
    };
    let worker = node.role == NodeRole::Worker;
    let of_worker = |text: String| if worker { text } else { String::new() };
    [
        node.id.clone(),
        role.to_owned(),
        format!("{} {}", node.host, node.pid),
        of_worker(format!("{}/{}", node.busy, node.slots)),
        of_worker(format!("{} MB", node.abilities.memory)),
        walls,
        labels.join(" "),
        version,
        node.keeps.join(" "),
    ]
}
