//! `assize cluster`: shows the nodes, queue, streams and stuck runs of a cluster.

use assize_service::Services;
use assize_service::status::{
    ClusterNode, ClusterStatus, DeadLetter, NodeRole, VERSION, format_requirements,
};
use assize_types::text::counted;
use assize_types::{Failure, FailureKind};
use serde_json::json;

use crate::args::ClusterCommand;
use crate::terminal::{self, DIM, note, out_json, out_line, out_table, paint};

pub(crate) async fn run(command: ClusterCommand, services: &Services) -> Result<(), Failure> {
    let ClusterCommand::Status { json } = command;
    services.settings.reject_untrusted_values()?;
    if services.settings.cluster.servers.is_none() {
        let message = "no cluster configured";
        return Err(Failure::new(FailureKind::Usage, message).hint(
            "pass the addresses of the cluster's NATS servers with `--cluster nats://a,b,c`, or set `cluster.servers`",
        ));
    }
    let status = services.cluster_status().await?;
    if json { out_json(&json!(status)) } else { show(&status) }
}

fn show(status: &ClusterStatus) -> Result<(), Failure> {
    if status.nodes.is_empty() {
        note("no nodes; `assize worker --cluster …` starts a worker");
    } else {
        let heads = [
            "NODE",
            "ROLE",
            "HOST PID",
            "SANDBOXES",
            "MEMORY",
            "ISOLATION",
            "LABELS",
            "VERSION",
            "RATE LIMITS FOR",
        ];
        let mut rows = vec![heads.map(str::to_owned)];
        rows.extend(status.nodes.iter().map(row));
        out_table(&rows)?;
        out_line("")?;
    }
    let ClusterStatus { slots, busy, running, waiting, .. } = status;
    let runs = if *running == 1 { "run" } else { "runs" };
    out_line(&format!(
        "{busy} of {slots} sandboxes in use; {running} {runs} in progress, {waiting} queued"
    ))?;
    let lines: Vec<_> =
        status.queue.iter().filter(|one| one.line.waiting + one.line.under_way > 0).collect();
    if !lines.is_empty() {
        out_line("")?;
        let heads = ["REQUIREMENTS", "QUEUED", "IN PROGRESS", "REDELIVERED", "WORKERS"];
        let mut rows = vec![heads.map(str::to_owned)];
        rows.extend(lines.iter().map(|one| {
            let counts = [one.line.waiting, one.line.under_way, one.line.again, one.workers as u64];
            let [waits, under_way, again, workers] = counts.map(|count| count.to_string());
            [format_requirements(&one.line.needs), waits, under_way, again, workers]
        }));
        out_table(&rows)?;
    }
    out_line("")?;
    let heads = ["STREAM", "MESSAGES", "KILOBYTES", "LEADER", "REPLICAS"];
    let mut rows = vec![heads.map(str::to_owned)];
    rows.extend(status.streams.iter().map(|stream| {
        let copies =
            stream.copies.iter().map(|copy| match (copy.offline, copy.current, copy.behind) {
                (true, ..) => format!("{} offline", copy.server),
                (false, true, 0) => format!("{} current", copy.server),
                (false, _, behind) => {
                    format!("{} {} behind", copy.server, counted(behind, "message", "messages"))
                }
            });
        let copies: Vec<String> = copies.collect();
        let copies = if copies.is_empty() { "none".to_owned() } else { copies.join(", ") };
        let leader = stream.leader.clone().unwrap_or_else(|| "single server".to_owned());
        let kilobytes = stream.bytes.div_ceil(1000).to_string();
        [stream.name.clone(), stream.messages.to_string(), kilobytes, leader, copies]
    }));
    out_table(&rows)?;
    if status.stuck.is_empty() {
        note(&paint(DIM, "no runs or jobs are stuck"));
    }
    for stuck in &status.stuck {
        terminal::warn(&format!("{} is stuck: {}", stuck.subject, stuck.why));
    }
    if !status.dead_letters.is_empty() {
        out_line("")?;
        let heads = ["DEAD LETTER", "DELIVERIES", "BYTES", "REASON", "PAYLOAD"];
        let mut rows = vec![heads.map(str::to_owned)];
        rows.extend(status.dead_letters.iter().map(|letter| {
            let DeadLetter { subject, reason, payload, payload_bytes, deliveries, .. } = letter;
            let counts = [deliveries.to_string(), payload_bytes.to_string()];
            let [deliveries, bytes] = counts;
            let payload = terminal::replace_control_chars(payload).replace('\n', " ");
            let payload = payload.chars().take(SHOWN_PAYLOAD).collect();
            [subject.clone(), deliveries, bytes, reason.clone(), payload]
        }));
        out_table(&rows)?;
    }
    Ok(())
}

/// Maximum number of characters of a dead letter's payload in the table. `--json` prints more characters.
const SHOWN_PAYLOAD: usize = 60;

/// Formats the table row of a node.
fn row(node: &ClusterNode) -> [String; 9] {
    let role = match node.role {
        NodeRole::Server => "server",
        NodeRole::Worker => "worker",
    };
    let exact = node.capabilities.isolations.iter().filter(|name| !name.contains('='));
    let isolations = exact.map(String::as_str).collect::<Vec<_>>().join(" ");
    let labels = node.capabilities.labels.iter().map(|(name, value)| format!("{name}={value}"));
    let labels: Vec<String> = node.capabilities.region.iter().cloned().chain(labels).collect();
    let version = match node.speaks == VERSION {
        true => node.version.clone(),
        false => format!("{} (protocol {}, not {VERSION})", node.version, node.speaks),
    };
    let worker = node.role == NodeRole::Worker;
    let of_worker = |text: String| if worker { text } else { String::new() };
    [
        node.id.clone(),
        role.to_owned(),
        format!("{} {}", node.host, node.pid),
        of_worker(format!("{}/{}", node.busy, node.slots)),
        of_worker(format!("{} MB", node.capabilities.memory)),
        isolations,
        labels.join(" "),
        version,
        node.rate_limits.join(" "),
    ]
}
