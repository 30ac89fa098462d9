//! Implementation of the `Store` trait in SQL.

use std::time::Duration;

use assize_graph::{Appended, EffectOutcome, EffectRecord, GraphEvent};
use assize_run::{
    ArtifactId, ArtifactUse, AuditEntry, AuditQuery, CallState, Ending, EventQuery, IdempotencyKey,
    Lease, NewAuditEntry, NewRun, Run, RunFilter, RunId, RunKind, RunStatus, Store, StoreError,
    StoreLog, StoredCall, StoredEvent,
};
use assize_types::Fingerprint;
use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};
use serde_json::Value;

use super::SqliteStore;
use super::rows::{
    Body, EVENTS_OF_A_ROW, RECORDS, as_list, event_ids, find_record, fingerprint, json, now,
    number, parsed, read_record, read_run, row_of_lease, run_id, store_artifact, use_artifact,
    write_audit, write_events,
};
use super::worker::TransactionError;

/// Largest row id that SQLite can store.
const MAX_ID: u64 = i64::MAX as u64;

/// Interval at which the database is polled for writes of other processes.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Finds the run that was created with an idempotency key. Also returns whether the request that created the run was
/// the same as the current request.
fn find_idempotent_run(
    db: &Connection,
    once: &IdempotencyKey,
) -> rusqlite::Result<Option<(RunId, bool)>> {
    db.prepare_cached(
        "SELECT r.id AS run, o.request AS request FROM once o JOIN runs r ON r.number = o.run \
         WHERE o.key = ?",
    )?
    .query_row([&once.key], |row| {
        Ok((run_id(row, "run")?, fingerprint(row, "request")? == once.request))
    })
    .optional()
}

#[async_trait]
impl Store for SqliteStore {
    async fn create_run(&self, run: NewRun, holder: &str) -> Result<(Run, Lease), StoreError> {
        let (input, holder) = (run.input.to_string(), holder.to_owned());
        let body = move |db: &Connection| {
            let parent = run.parent.as_ref().map(RunId::as_str);
            if let Some(once) = &run.idempotency_key
                && let Some((run, same)) = find_idempotent_run(db, once)?
            {
                return Err(StoreError::IdempotencyKeyUsed { run, same }.into());
            }
            // Generate random ids until one is unused. A collision is very unlikely.
            let id = loop {
                let id = RunId::random(run.kind);
                match number(db, &id) {
                    Ok(_) => continue,
                    Err(TransactionError::Refused(_)) => break id,
                    Err(trouble) => return Err(trouble),
                }
            };
            let values = named_params! {
                ":id": id.as_str(), ":kind": run.kind.name(), ":title": run.title, ":parent": parent,
                ":now": now(), ":holder": holder, ":input": input,
            };
            db.prepare_cached(
                "INSERT INTO runs \
                 (id, kind, title, status, parent, created, updated, epoch, holder, input) \
                 VALUES (:id, :kind, :title, 'running', :parent, :now, :now, 1, :holder, :input)",
            )?
            .execute(values)?;
            let row = db.last_insert_rowid();
            if let Some(IdempotencyKey { key, request }) = &run.idempotency_key {
                let values = params![key, request.as_bytes(), row];
                db.execute("INSERT INTO once (key, request, run) VALUES (?, ?, ?)", values)?;
            }
            for (name, bytes) in &run.artifacts {
                use_artifact(db, row, name, ArtifactId::of(bytes), bytes)?;
            }
            let run = db.query_row("SELECT * FROM runs WHERE number = ?", [row], read_run)?;
            let claim = Lease { run: id, epoch: run.epoch };
            Ok((run, claim))
        };
        self.writer()?.run_operation(body).await
    }

    async fn find_by_idempotency_key(
        &self,
        once: &IdempotencyKey,
    ) -> Result<Option<(RunId, bool)>, StoreError> {
        let once = once.clone();
        self.reader.run_operation(move |db: &Connection| Ok(find_idempotent_run(db, &once)?)).await
    }

    async fn run(&self, id: &RunId) -> Result<Run, StoreError> {
        let id = id.clone();
        let body = move |db: &Connection| {
            let found = db
                .prepare_cached("SELECT * FROM runs WHERE id = ?")?
                .query_row([id.as_str()], read_run)
                .optional()?;
            found.ok_or_else(|| StoreError::NoSuchRun(id.clone()).into())
        };
        self.reader.run_operation(body).await
    }

    async fn runs(&self, filter: RunFilter) -> Result<Vec<Run>, StoreError> {
        let body = move |db: &Connection| {
            let limit = if filter.limit == 0 { -1 } else { filter.limit as i64 };
            let values = named_params! {
                ":kind": filter.kind.map(RunKind::name), ":status": filter.status.map(RunStatus::name),
                ":prefix": filter.prefix, ":title": filter.title, ":limit": limit,
                ":before": filter.before.map(|before| before.min(MAX_ID)),
            };
            let mut select = db.prepare_cached(
                "SELECT * FROM runs WHERE (:kind IS NULL OR kind = :kind) \
                 AND (:status IS NULL OR status = :status) \
                 AND (:prefix IS NULL OR substr(id, 1, length(:prefix)) = :prefix) \
                 AND (:title IS NULL OR instr(lower(title), lower(:title)) > 0) \
                 AND (:before IS NULL OR number < :before) \
                 ORDER BY number DESC LIMIT :limit",
            )?;
            Ok(select.query_map(values, read_run)?.collect::<rusqlite::Result<_>>()?)
        };
        self.reader.run_operation(body).await
    }

    async fn claim(
        &self,
        id: &RunId,
        holder: &str,
        seen: Option<u64>,
    ) -> Result<Lease, StoreError> {
        let (id, holder) = (id.clone(), holder.to_owned());
        let body = move |db: &Connection| {
            let (status, epoch): (String, u64) = db
                .prepare_cached("SELECT status, epoch FROM runs WHERE number = ?")?
                .query_row([number(db, &id)?], |row| Ok((row.get(0)?, row.get(1)?)))?;
            if seen.is_some_and(|seen| seen != epoch) {
                return Err(StoreError::Fenced(id.clone()).into());
            }
            if status == RunStatus::Done.name() {
                return Err(StoreError::Done(id.clone()).into());
            }
            let epoch = db
                .prepare_cached(
                    "UPDATE runs SET epoch = epoch + 1, status = 'running', holder = ?, error = NULL, \
                     updated = ? WHERE id = ? RETURNING epoch",
                )?
                .query_row(params![holder, now(), id.as_str()], |row| row.get(0))?;
            Ok(Lease { run: id.clone(), epoch })
        };
        self.writer()?.run_operation(body).await
    }

    async fn append(
        &self,
        claim: &Lease,
        record: EffectRecord,
        events: Vec<GraphEvent>,
    ) -> Result<Appended, StoreError> {
        let claim = claim.clone();
        let (failed, body) = match record.outcome {
            EffectOutcome::Done(body) => (false, body),
            EffectOutcome::Failed(body) => (true, body),
        };
        let (key, request) = (record.key, record.request);
        // Compress the body here, so that the single writer does not have to.
        let body = Body::of(body);
        let body = move |db: &Connection| {
            let run = row_of_lease(db, &claim)?;
            let (inline, artifact) = match &body {
                Body::Inline(value) => (Some(value), None),
                Body::Large(id, bytes) => (None, Some(store_artifact(db, *id, bytes)?)),
            };
            let (own, more) = events.split_at(events.len().min(EVENTS_OF_A_ROW));
            let written = db
                .prepare_cached(
                    "INSERT INTO journal (run, at, key, request, failed, body, artifact, events) \
                     VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                )?
                .execute(params![
                    run,
                    now(),
                    key.as_str(),
                    (request != Fingerprint::NONE).then(|| request.as_bytes()),
                    failed,
                    inline,
                    artifact,
                    as_list(own)
                ])?;
            if written == 0
                && let Some(existing) = find_record(db, run, &key)?
            {
                return Ok(Appended::Existing(existing));
            }
            let mut ids: Vec<u64> = event_ids(db.last_insert_rowid(), own.len()).collect();
            // A step rarely has more events than fit into one row; the other events get rows of their own.
            ids.extend(write_events(db, run, more)?);
            Ok(Appended::Recorded { event_ids: ids })
        };
        self.writer()?.run_operation(body).await
    }

    async fn records(&self, id: &RunId) -> Result<Vec<EffectRecord>, StoreError> {
        let id = id.clone();
        let body = move |db: &Connection| {
            let mut select = db.prepare_cached(&format!(
                "{RECORDS} WHERE j.run = ? AND j.key IS NOT NULL ORDER BY j.number"
            ))?;
            let rows = select.query_map([number(db, &id)?], read_record)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        self.reader.run_operation(body).await
    }

    async fn store_call(
        &self,
        claim: &Lease,
        number: u64,
        noted: StoredCall,
    ) -> Result<(), StoreError> {
        let claim = claim.clone();
        let text = serde_json::to_string(&noted).unwrap_or_default();
        let body = move |db: &Connection| {
            let run = match noted.state {
                CallState::Sent => row_of_lease(db, &claim)?,
                // The end of a call is stored even if another process has claimed the run since.
                CallState::Answered | CallState::Lost | CallState::Free => {
                    self::number(db, &claim.run)?
                }
            };
            db.prepare_cached(
                "INSERT INTO calls (run, epoch, number, noted) VALUES (?, ?, ?, ?) \
                 ON CONFLICT DO UPDATE SET noted = excluded.noted",
            )?
            .execute(params![run, claim.epoch, number, text])?;
            Ok(())
        };
        self.writer()?.run_operation(body).await
    }

    async fn calls(&self, id: &RunId) -> Result<Vec<(u64, StoredCall)>, StoreError> {
        let id = id.clone();
        let body = move |db: &Connection| {
            let mut select = db.prepare_cached(
                "SELECT c.epoch, c.noted FROM calls c JOIN runs r ON r.number = c.run \
                 WHERE r.id = ? ORDER BY c.epoch, c.number",
            )?;
            let read = |row: &Row<'_>| {
                Ok((row.get("epoch")?, parsed(row, "noted", |text| serde_json::from_str(text))?))
            };
            let rows = select.query_map([id.as_str()], read)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        self.reader.run_operation(body).await
    }

    async fn finish(
        &self,
        claim: &Lease,
        ending: Ending,
        events: Vec<GraphEvent>,
    ) -> Result<Vec<u64>, StoreError> {
        let claim = claim.clone();
        let (status, result, error) = match ending {
            Ending::Done { result } => (RunStatus::Done, Some(result.to_string()), None),
            Ending::Failed { error } => (RunStatus::Failed, None, Some(error)),
            Ending::Cancelled { reason } => (RunStatus::Cancelled, None, Some(reason)),
        };
        let body = move |db: &Connection| {
            let run = row_of_lease(db, &claim)?;
            db.prepare_cached(
                "UPDATE runs SET status = ?, result = ?, error = ?, holder = NULL, updated = ? \
                 WHERE number = ?",
            )?
            .execute(params![status.name(), result, error, now(), run])?;
            Ok(write_events(db, run, &events)?)
        };
        self.writer()?.run_operation(body).await
    }

    async fn cancel_run(
        &self,
        seen: &Lease,
        reason: &str,
        events: Vec<GraphEvent>,
    ) -> Result<(), StoreError> {
        let (seen, reason) = (seen.clone(), reason.to_owned());
        let body = move |db: &Connection| {
            let run = row_of_lease(db, &seen)?;
            let stopped = db
                .prepare_cached(
                    "UPDATE runs SET epoch = epoch + 1, status = 'cancelled', error = ?, holder = NULL, \
                     updated = ? WHERE number = ? AND status = 'running'",
                )?
                .execute(params![reason, now(), run])?;
            if stopped == 0 {
                return Err(StoreError::Fenced(seen.run.clone()).into());
            }
            write_events(db, run, &events)?;
            Ok(())
        };
        self.writer()?.run_operation(body).await
    }

    async fn events(&self, query: EventQuery) -> Result<Vec<StoredEvent>, StoreError> {
        let body = move |db: &Connection| {
            let limit = if query.limit == 0 { usize::MAX } else { query.limit };
            let runs = serde_json::to_string(&query.runs).unwrap_or_default();
            // There are two statements, so that each can use its index.
            let which = match query.runs.is_empty() {
                false => {
                    "j.run IN (SELECT number FROM runs WHERE id IN (SELECT value FROM json_each(:runs)))"
                }
                true => ":runs IS NOT NULL",
            };
            let mut select = db.prepare_cached(&format!(
                "SELECT j.number, r.id AS run, j.at, j.events FROM journal j \
                 JOIN runs r ON r.number = j.run \
                 WHERE {which} AND j.events IS NOT NULL AND j.number >= :from ORDER BY j.number"
            ))?;
            let from = query.after / EVENTS_OF_A_ROW as u64;
            let mut rows = select.query(named_params! { ":runs": runs, ":from": from })?;
            let mut found = Vec::new();
            while found.len() < limit
                && let Some(row) = rows.next()?
            {
                let events: Vec<(String, Value)> =
                    parsed(row, "events", |text| serde_json::from_str(text))?;
                let (run, at) = (run_id(row, "run")?, row.get("at")?);
                let ids = event_ids(row.get("number")?, events.len());
                for (id, (name, payload)) in ids.zip(events).filter(|(id, _)| *id > query.after) {
                    found.push(StoredEvent { id, run: run.clone(), at, name, payload });
                }
            }
            found.truncate(limit);
            Ok(found)
        };
        self.reader.run_operation(body).await
    }

    async fn last_event(&self) -> Result<u64, StoreError> {
        let body = move |db: &Connection| {
            let last = db
                .prepare_cached(
                    "SELECT number, coalesce(json_array_length(events), 1000) FROM journal \
                     ORDER BY number DESC LIMIT 1",
                )?
                .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            Ok(last.and_then(|(row, count)| event_ids(row, count).last()).unwrap_or_default())
        };
        self.reader.run_operation(body).await
    }

    async fn wait_for_entry(&self, log: StoreLog, beyond: u64) -> Result<(), StoreError> {
        let (what, number, seen) = match log {
            StoreLog::Events => (
                "SELECT EXISTS (SELECT 1 FROM journal WHERE number > ?1 AND events IS NOT NULL) OR \
                 EXISTS (SELECT 1 FROM journal WHERE number = ?1 AND json_array_length(events) > ?2)",
                beyond / EVENTS_OF_A_ROW as u64,
                beyond % EVENTS_OF_A_ROW as u64 + 1,
            ),
            StoreLog::Audit => ("SELECT EXISTS (SELECT 1 FROM audit WHERE id > ?1), ?2", beyond, 0),
        };
        let number = number.min(MAX_ID);
        let mut written = self.written.subscribe();
        loop {
            written.mark_unchanged();
            let body = move |db: &Connection| {
                Ok(db
                    .prepare_cached(what)?
                    .query_row([number, seen], |row| row.get::<_, bool>(0))?)
            };
            if self.reader.run_operation(body).await? {
                return Ok(());
            }
            // SQLite does not report writes of other processes, so poll for them.
            let _ = tokio::time::timeout(POLL_INTERVAL, written.changed()).await;
        }
    }

    async fn remove_run(&self, seen: &Lease) -> Result<(), StoreError> {
        let seen = seen.clone();
        let body = move |db: &Connection| {
            let run = row_of_lease(db, &seen)?;
            // Clear the last journal row but keep it until there is a later row, because its number must
            // not be reused.
            db.execute(
                "DELETE FROM journal WHERE run IS NULL \
                 AND number < (SELECT max(number) FROM journal)",
                [],
            )?;
            db.execute(
                "UPDATE journal SET run = NULL, key = NULL, request = NULL, body = NULL, \
                 artifact = NULL, events = NULL \
                 WHERE run = ? AND number = (SELECT max(number) FROM journal)",
                [run],
            )?;
            for table in ["journal", "artifact_uses", "once", "calls"] {
                db.execute(&format!("DELETE FROM {table} WHERE run = ?"), [run])?;
            }
            db.execute("DELETE FROM runs WHERE number = ?", [run])?;
            db.execute(
                "DELETE FROM artifacts WHERE number NOT IN (SELECT artifact FROM artifact_uses) \
                 AND number NOT IN (SELECT artifact FROM journal WHERE artifact IS NOT NULL)",
                [],
            )?;
            // Return free pages to the disk. The statement returns one row for each page.
            let mut vacuum = db.prepare("PRAGMA incremental_vacuum")?;
            let mut pages = vacuum.query([])?;
            while pages.next()?.is_some() {}
            let entry = NewAuditEntry {
                actor: "user".to_owned(),
                action: "run removed".to_owned(),
                subject: seen.run.to_string(),
                detail: Value::Null,
            };
            write_audit(db, entry)?;
            Ok(())
        };
        self.writer()?.run_operation(body).await
    }

    async fn put_artifact(
        &self,
        run: &RunId,
        name: &str,
        bytes: Vec<u8>,
    ) -> Result<ArtifactId, StoreError> {
        let (run, name, id) = (run.clone(), name.to_owned(), ArtifactId::of(&bytes));
        let body = move |db: &Connection| {
            use_artifact(db, number(db, &run)?, &name, id, &bytes)?;
            Ok(id)
        };
        self.writer()?.run_operation(body).await
    }

    async fn artifact(&self, id: ArtifactId) -> Result<Vec<u8>, StoreError> {
        let path = self.path.clone();
        let body = move |db: &Connection| {
            let found: Option<Vec<u8>> = db
                .prepare_cached("SELECT bytes FROM artifacts WHERE hash = ?")?
                .query_row([id.as_bytes()], |row| row.get(0))
                .optional()?;
            let bytes = found.ok_or_else(|| StoreError::NoSuchArtifact(id.to_string()))?;
            if ArtifactId::of(&bytes) != id {
                let reason = format!("the content of artifact {id} does not match its hash");
                return Err(StoreError::Damaged { path: path.clone(), reason }.into());
            }
            Ok(bytes)
        };
        self.reader.run_operation(body).await
    }

    async fn artifacts(&self, run: &RunId) -> Result<Vec<ArtifactUse>, StoreError> {
        let run = run.clone();
        let body = move |db: &Connection| {
            let mut select = db.prepare_cached(
                "SELECT u.name, a.hash, length(a.bytes) AS bytes FROM artifact_uses u \
                 JOIN artifacts a ON a.number = u.artifact WHERE u.run = ? ORDER BY u.name",
            )?;
            let read = |row: &Row<'_>| {
                Ok(ArtifactUse {
                    name: row.get("name")?,
                    id: ArtifactId::from_bytes(row.get("hash")?),
                    bytes: row.get("bytes")?,
                })
            };
            let rows = select.query_map([number(db, &run)?], read)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        self.reader.run_operation(body).await
    }

    async fn audit(&self, entry: NewAuditEntry) -> Result<AuditEntry, StoreError> {
        let body = move |db: &Connection| Ok(write_audit(db, entry.clone())?);
        self.writer()?.run_operation(body).await
    }

    async fn audit_log(&self, query: AuditQuery) -> Result<Vec<AuditEntry>, StoreError> {
        let body = move |db: &Connection| {
            let mut select = db.prepare_cached(
                "SELECT * FROM audit WHERE id > ?1 AND (?2 IS NULL OR subject = ?2) ORDER BY id \
                 LIMIT CASE ?3 WHEN 0 THEN -1 ELSE ?3 END",
            )?;
            let read = |row: &Row<'_>| {
                Ok(AuditEntry {
                    id: row.get("id")?,
                    at: row.get("at")?,
                    actor: row.get("actor")?,
                    action: row.get("action")?,
                    subject: row.get("subject")?,
                    detail: json(row, "detail")?,
                    previous: fingerprint(row, "previous")?,
                    hash: fingerprint(row, "hash")?,
                })
            };
            let after = query.after.min(MAX_ID);
            let rows = select.query_map(params![after, query.subject, query.limit], read)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        self.reader.run_operation(body).await
    }

    async fn audit_head(&self) -> Result<u64, StoreError> {
        let body = |db: &Connection| {
            // SQLite stores the highest id ever assigned in an AUTOINCREMENT table.
            let head = db
                .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'audit'")?
                .query_row([], |row| row.get(0))
                .optional()?;
            Ok(head.unwrap_or(0))
        };
        self.reader.run_operation(body).await
    }
}
