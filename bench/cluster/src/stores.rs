//! Compares the time to write the same journal records to a SQLite file and to NATS servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_cluster::{Cluster, ClusterCredentials, ClusterOptions, ClusterTimes};
use assize_graph::{EffectKey, EffectOutcome, EffectRecord, GraphEvent};
use assize_run::{NewRun, RunKind, Store};
use assize_store::{Access, Durability, SqliteStore};
use assize_testkit::NatsServers;
use assize_types::Fingerprint;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

/// Number of concurrent writes, as in 15 parallel debates with three conversations each.
const AT_ONCE: usize = 45;

pub(crate) fn compare(records: usize) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    println!(
        "milliseconds per record of 600 bytes: first with sequential writes, then with {AT_ONCE} concurrent writes \
         (in parentheses: the ratio to the time of the first store):"
    );
    let folder = tempfile::tempdir()?;
    let mut first = None;
    let mut show = |name: &str, (alone, together): (f64, f64)| {
        let (a, b) = *first.get_or_insert((alone, together));
        println!(
            "  {name:38} {alone:7.3} ({:5.1}x)  {together:7.3} ({:5.1}x)",
            alone / a,
            together / b
        );
    };
    for (name, durability) in [
        ("SQLite file, safe from process crashes", Durability::ProcessCrash),
        ("SQLite file, safe from power loss", Durability::PowerLoss),
    ] {
        let path = folder.path().join(format!("{durability:?}.db"));
        let store = SqliteStore::open(&path, Access::Write(durability))?;
        show(name, runtime.block_on(write(Arc::new(store), records))?);
    }
    for count in [1, 3] {
        let servers = NatsServers::start(count);
        let options = ClusterOptions {
            address: servers.address().parse()?,
            credentials: ClusterCredentials::default(),
            name: "bench".to_owned(),
            replicas: count,
            timeout: Some(Duration::from_secs(60)),
            times: ClusterTimes::default(),
        };
        let figures = runtime.block_on(async {
            let store = Cluster::connect(options).await?.store().await?;
            write(Arc::new(store), records).await
        })?;
        let name =
            if count == 1 { "one NATS server" } else { "three NATS servers, three replicas" };
        show(name, figures);
    }
    Ok(())
}

/// Writes records to a store. Returns the average time per record in milliseconds: for sequential writes, and for
/// concurrent writes.
async fn write(store: Arc<dyn Store>, records: usize) -> anyhow::Result<(f64, f64)> {
    let new = NewRun {
        kind: RunKind::Debate,
        title: "records".to_owned(),
        parent: None,
        input: Value::Null,
        artifacts: Vec::new(),
        idempotency_key: None,
    };
    let (_, claim) = store.create_run(new, "").await?;
    let record = |part: &str, number: usize| -> anyhow::Result<EffectRecord> {
        let text = json!({"text": "x".repeat(560), "number": number}).to_string();
        Ok(EffectRecord {
            key: EffectKey::new(&format!("{part}/{number}"))?,
            request: Fingerprint::of(number.to_string()),
            outcome: EffectOutcome::Done(text),
        })
    };
    let events = || vec![GraphEvent::new("answered", json!({"by": "bench"}))];
    let started = Instant::now();
    for number in 0..records {
        store.append(&claim, record("alone", number)?, events()).await?;
    }
    let alone = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let writes = (0..records).map(|number| {
        let (store, claim) = (store.clone(), claim.clone());
        let record = record("together", number);
        async move { Ok::<_, anyhow::Error>(store.append(&claim, record?, events()).await?) }
    });
    stream::iter(writes).buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await?;
    let together = started.elapsed().as_secs_f64();
    Ok((alone / records as f64 * 1e3, together / records as f64 * 1e3))
}
