//! Conversion between the types of runs and SQLite rows.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use assize_graph::{EffectKey, EffectOutcome, EffectRecord, GraphEvent};
use assize_run::{
    ArtifactId, AuditEntry, Lease, NewAuditEntry, Run, RunId, RunKind, RunStatus, StoreError,
};
use assize_types::Fingerprint;
use libdeflater::{CompressionLvl, Compressor};
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use rusqlite::types::{Type, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::worker::TransactionError;

/// Maximum size of an outcome in the journal, in bytes. Larger outcomes are stored as artifacts, so
/// that equal outcomes are stored once.
const MAX_INLINE_BODY: usize = 64 * 1024;

/// Minimum size of an outcome that is compressed, in bytes.
const MIN_COMPRESSED_BODY: usize = 200;

/// Returns the row number of a run.
pub(super) fn number(db: &Connection, id: &RunId) -> Result<i64, TransactionError> {
    let found = db
        .prepare_cached("SELECT number FROM runs WHERE id = ?")?
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?;
    found.ok_or_else(|| StoreError::NoSuchRun(id.clone()).into())
}

/// Returns the row number of a run. Fails if the lease is no longer valid.
pub(super) fn row_of_lease(db: &Connection, claim: &Lease) -> Result<i64, TransactionError> {
    let found: Option<(i64, u64)> = db
        .prepare_cached("SELECT number, epoch FROM runs WHERE id = ?")?
        .query_row([claim.run.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match found {
        Some((number, epoch)) if epoch == claim.epoch => Ok(number),
        Some(_) => Err(StoreError::Fenced(claim.run.clone()).into()),
        None => Err(StoreError::NoSuchRun(claim.run.clone()).into()),
    }
}

/// Current time, in milliseconds since 1970-01-01.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Parses the text in a column of a row.
pub(super) fn parsed<T, E>(
    row: &Row<'_>,
    column: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> rusqlite::Result<T>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let index = row.as_ref().column_index(column)?;
    let text: String = row.get(index)?;
    parse(&text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(index, Type::Text, Box::new(error))
    })
}

pub(super) fn json(row: &Row<'_>, column: &str) -> rusqlite::Result<Value> {
    parsed(row, column, |text| serde_json::from_str(text))
}

fn optional_json(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<Value>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => json(row, column).map(Some),
    }
}

pub(super) fn run_id(row: &Row<'_>, column: &str) -> rusqlite::Result<RunId> {
    parsed(row, column, str::parse)
}

pub(super) fn fingerprint(row: &Row<'_>, column: &str) -> rusqlite::Result<Fingerprint> {
    let bytes: Option<[u8; 32]> = row.get(column)?;
    Ok(bytes.map_or(Fingerprint::NONE, Fingerprint::from_bytes))
}

/// Error for an unknown run status in the database.
#[derive(Debug, thiserror::Error)]
#[error("unknown run status `{0}`")]
struct UnknownStatus(String);

pub(super) fn read_run(row: &Row<'_>) -> rusqlite::Result<Run> {
    let parent = match row.get_ref("parent")? {
        ValueRef::Null => None,
        _ => Some(run_id(row, "parent")?),
    };
    Ok(Run {
        id: run_id(row, "id")?,
        number: row.get("number")?,
        kind: parsed(row, "kind", str::parse::<RunKind>)?,
        title: row.get("title")?,
        status: parsed(row, "status", |name| {
            name.parse::<RunStatus>().map_err(|_| UnknownStatus(name.to_owned()))
        })?,
        parent,
        created: row.get("created")?,
        updated: row.get("updated")?,
        epoch: row.get("epoch")?,
        holder: row.get("holder")?,
        input: json(row, "input")?,
        result: optional_json(row, "result")?,
        error: row.get("error")?,
    })
}

/// SQL query for journal records. The body of a record (its outcome) is read from the artifacts if it is large.
pub(super) const RECORDS: &str = "SELECT j.key, j.request, j.failed, coalesce(j.body, CAST(a.bytes AS TEXT)) AS body \
     FROM journal j LEFT JOIN artifacts a ON a.number = j.artifact";

pub(super) fn read_record(row: &Row<'_>) -> rusqlite::Result<EffectRecord> {
    let body = read_body(row)?;
    Ok(EffectRecord {
        key: parsed(row, "key", EffectKey::new)?,
        request: fingerprint(row, "request")?,
        outcome: if row.get("failed")? {
            EffectOutcome::Failed(body)
        } else {
            EffectOutcome::Done(body)
        },
    })
}

/// Reads the body of a journal record, which is stored as text or as a blob of compressed text.
fn read_body(row: &Row<'_>) -> rusqlite::Result<String> {
    let index = row.as_ref().column_index("body")?;
    let ValueRef::Blob(packed) = row.get_ref(index)? else { return row.get(index) };
    let broken = |error: Box<dyn std::error::Error + Send + Sync>| {
        rusqlite::Error::FromSqlConversionFailure(index, Type::Blob, error)
    };
    let bytes = decompress_to_vec_with_limit(packed, MAX_INLINE_BODY).map_err(|error| {
        broken(format!("cannot decompress the body of a journal record: {error}").into())
    })?;
    String::from_utf8(bytes).map_err(|error| broken(error.into()))
}

/// Stored form of a journal record's body (the outcome of an effect).
pub(super) enum Body {
    /// Text, or a compressed blob if that is smaller.
    Inline(rusqlite::types::Value),
    /// Body that is stored as an artifact, because it is larger than [`MAX_INLINE_BODY`].
    Large(ArtifactId, Vec<u8>),
}

impl Body {
    pub(super) fn of(body: String) -> Body {
        if body.len() > MAX_INLINE_BODY {
            return Body::Large(ArtifactId::of(body.as_bytes()), body.into_bytes());
        }
        Body::Inline(
            match (body.len() >= MIN_COMPRESSED_BODY).then(|| packed(body.as_bytes())).flatten() {
                Some(packed) => packed.into(),
                None => body.into(),
            },
        )
    }
}

/// Compresses bytes; `None` if the compressed bytes would not be smaller.
fn packed(bytes: &[u8]) -> Option<Vec<u8>> {
    thread_local! {
        // The fastest level: higher levels save too little for their time.
        static COMPRESSOR: RefCell<Compressor> =
            RefCell::new(Compressor::new(CompressionLvl::fastest()));
    }
    let mut packed = vec![0; bytes.len() - 1];
    let compress = |compressor: &mut Compressor| compressor.deflate_compress(bytes, &mut packed);
    let length = COMPRESSOR.with_borrow_mut(compress).ok()?;
    packed.truncate(length);
    Some(packed)
}

pub(super) fn find_record(
    db: &Connection,
    run: i64,
    key: &EffectKey,
) -> rusqlite::Result<Option<EffectRecord>> {
    db.prepare_cached(&format!("{RECORDS} WHERE j.run = ? AND j.key = ?"))?
        .query_row(params![run, key.as_str()], read_record)
        .optional()
}

/// Maximum number of events in one journal row. The id of the first event of a row is the row number
/// times this maximum.
pub(super) const EVENTS_OF_A_ROW: usize = 1000;

/// Ids of the events in the journal row with the number `row`, which contains `events` events.
pub(super) fn event_ids(row: i64, events: usize) -> impl Iterator<Item = u64> {
    let first = row as u64 * EVENTS_OF_A_ROW as u64;
    first..first + events as u64
}

/// Serializes events as a JSON list of names and payloads; `None` if there are no events.
pub(super) fn as_list(events: &[GraphEvent]) -> Option<String> {
    let list: Vec<(&str, &Value)> =
        events.iter().map(|event| (event.name.as_str(), &event.payload)).collect();
    // Serialization of strings and JSON values cannot fail.
    (!events.is_empty()).then(|| serde_json::to_string(&list).unwrap_or_default())
}

/// Writes events that belong to no journal record into journal rows, and returns the ids of the events.
pub(super) fn write_events(
    db: &Connection,
    run: i64,
    events: &[GraphEvent],
) -> rusqlite::Result<Vec<u64>> {
    let mut insert = db.prepare_cached("INSERT INTO journal (run, at, events) VALUES (?, ?, ?)")?;
    let mut ids = Vec::with_capacity(events.len());
    for part in events.chunks(EVENTS_OF_A_ROW) {
        let row = insert.insert(params![run, now(), as_list(part)])?;
        ids.extend(event_ids(row, part.len()));
    }
    Ok(ids)
}

/// Stores an artifact unless it exists already, and returns its row number.
pub(super) fn store_artifact(
    db: &Connection,
    id: ArtifactId,
    bytes: &[u8],
) -> rusqlite::Result<i64> {
    db.prepare_cached("INSERT OR IGNORE INTO artifacts (hash, bytes) VALUES (?, ?)")?
        .execute(params![id.as_bytes(), bytes])?;
    db.prepare_cached("SELECT number FROM artifacts WHERE hash = ?")?
        .query_row([id.as_bytes()], |row| row.get(0))
}

/// Stores an artifact for a run under a name, and replaces an earlier artifact with that name.
pub(super) fn use_artifact(
    db: &Connection,
    run: i64,
    name: &str,
    id: ArtifactId,
    bytes: &[u8],
) -> rusqlite::Result<()> {
    let artifact = store_artifact(db, id, bytes)?;
    db.prepare_cached(
        "INSERT INTO artifact_uses (run, name, artifact) VALUES (?, ?, ?) \
         ON CONFLICT DO UPDATE SET artifact = excluded.artifact",
    )?
    .execute(params![run, name, artifact])?;
    Ok(())
}

/// Adds an entry to the audit log, with the hash of the previous entry.
pub(super) fn write_audit(db: &Connection, entry: NewAuditEntry) -> rusqlite::Result<AuditEntry> {
    let last: Option<(u64, [u8; 32])> = db
        .prepare_cached("SELECT id, hash FROM audit ORDER BY id DESC LIMIT 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    // Ids of audit entries are never reused, so that entries removed from the end leave a gap.
    let given: Option<u64> = db
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'audit'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let (last, previous) = last.unwrap_or((0, *Fingerprint::NONE.as_bytes()));
    let previous = Fingerprint::from_bytes(previous);
    let id = given.unwrap_or_default().max(last) + 1;
    let entry = AuditEntry::chained(id, now(), entry, previous);
    db.prepare_cached(
        "INSERT INTO audit (id, at, actor, action, subject, detail, previous, hash) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        entry.id,
        entry.at,
        entry.actor,
        entry.action,
        entry.subject,
        entry.detail.to_string(),
        entry.previous.as_bytes(),
        entry.hash.as_bytes(),
    ])?;
    Ok(entry)
}
