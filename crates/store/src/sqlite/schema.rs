//! Tables of the store, and migrations from older format versions.

use rusqlite::{Connection, TransactionBehavior};

/// SQLite application id in the header of our database files: "ASZE".
pub(super) const APPLICATION: i32 = 0x4153_5a45;

/// Migration steps. Step `n` migrates a file from format version `n - 1` to version `n`; the first
/// step creates version 1 in an empty file. Released steps are never changed; new steps are appended.
pub(super) const STEPS: [&str; 5] = [VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5];

const VERSION_1: &str = "
CREATE TABLE runs (
    number  INTEGER PRIMARY KEY AUTOINCREMENT,
    id      TEXT NOT NULL UNIQUE,
    kind    TEXT NOT NULL,
    title   TEXT NOT NULL,
    status  TEXT NOT NULL,
    parent  TEXT,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    epoch   INTEGER NOT NULL DEFAULT 0,
    holder  TEXT,
    input   TEXT NOT NULL,
    result  TEXT,
    error   TEXT
) STRICT;

-- Each row with a key is the record of one effect, with the events of its step. A row without a key
-- only has events. Row numbers are never reused, because the ids of events are computed from them.
-- The body is JSON: as text, or as a compressed blob. A large body is stored as an artifact instead.
CREATE TABLE journal (
    number   INTEGER PRIMARY KEY,
    run      INTEGER REFERENCES runs (number),
    at       INTEGER NOT NULL,
    key      TEXT,
    request  BLOB,
    failed   INTEGER NOT NULL DEFAULT 0,
    body     ANY,
    artifact INTEGER REFERENCES artifacts (number),
    events   TEXT
) STRICT;
CREATE UNIQUE INDEX journal_key ON journal (run, key);

CREATE TABLE artifacts (
    number INTEGER PRIMARY KEY,
    hash   BLOB NOT NULL UNIQUE,
    bytes  BLOB NOT NULL
) STRICT;
-- Named artifacts of runs. Artifacts that only the journal uses have no name.
CREATE TABLE artifact_uses (
    run      INTEGER NOT NULL REFERENCES runs (number),
    name     TEXT NOT NULL,
    artifact INTEGER NOT NULL REFERENCES artifacts (number),
    PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    at    INTEGER NOT NULL,
    topic TEXT NOT NULL,
    body  TEXT NOT NULL
) STRICT;
CREATE INDEX messages_of_topic ON messages (topic);

CREATE TABLE audit (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    at       INTEGER NOT NULL,
    actor    TEXT NOT NULL,
    action   TEXT NOT NULL,
    subject  TEXT NOT NULL,
    detail   TEXT NOT NULL,
    previous BLOB NOT NULL,
    hash     BLOB NOT NULL
) STRICT;
";

/// Adds an index that finds the audit entries of one subject, such as a workspace.
const VERSION_2: &str = "CREATE INDEX audit_of_subject ON audit (subject, id);";

/// Adds the table of idempotency keys. Each row contains a key and the run that was created with this key.
const VERSION_3: &str = "
CREATE TABLE once (
    key     TEXT PRIMARY KEY,
    request BLOB NOT NULL,
    run     INTEGER NOT NULL REFERENCES runs (number)
) STRICT, WITHOUT ROWID;
CREATE INDEX once_of_run ON once (run);
";

/// Adds the table of model calls. A row is written before a call is sent and updated when the call has ended. The
/// column `noted` contains the data of the call as JSON.
const VERSION_4: &str = "
CREATE TABLE calls (
    run    INTEGER NOT NULL REFERENCES runs (number),
    epoch  INTEGER NOT NULL,
    number INTEGER NOT NULL,
    noted  TEXT NOT NULL,
    PRIMARY KEY (run, epoch, number)
) STRICT, WITHOUT ROWID;
";

/// Drops the table of messages between processes, which was never used.
const VERSION_5: &str = "DROP TABLE messages;";

/// Returns the format version of a database file.
pub(super) fn version(db: &Connection) -> rusqlite::Result<u32> {
    db.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Applies all missing migration steps in one transaction.
pub(super) fn migrate(db: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    if version(db)? as usize >= steps.len() {
        return Ok(());
    }
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have migrated the file in the meantime.
    let from = version(&transaction)? as usize;
    for step in steps.iter().skip(from) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", steps.len().max(from))?;
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: &str = "ALTER TABLE runs ADD COLUMN labels TEXT NOT NULL DEFAULT '';";

    fn filled() -> Connection {
        let mut db = Connection::open_in_memory().unwrap();
        migrate(&mut db, &[VERSION_1]).unwrap();
        db.execute(
            "INSERT INTO runs (id, kind, title, status, created, updated, input) \
             VALUES ('a', 'a', 'a title', 'done', 1, 2, '{}')",
            [],
        )
        .unwrap();
        db
    }

    #[test]
    fn migration_keeps_the_rows_of_an_older_file() {
        let mut db = filled();
        migrate(&mut db, &[VERSION_1, NEXT]).unwrap();
        assert_eq!(version(&db).unwrap(), 2);
        let kept: (String, String) = db
            .query_row("SELECT title, labels FROM runs", [], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        assert_eq!(kept, ("a title".to_owned(), String::new()));
        migrate(&mut db, &[VERSION_1, NEXT]).unwrap();
        assert_eq!(version(&db).unwrap(), 2);
    }

    #[test]
    fn migration_drops_the_messages_table_and_keeps_runs() {
        let mut db = filled();
        migrate(&mut db, &STEPS[..4]).unwrap();
        db.execute("INSERT INTO messages (at, topic, body) VALUES (1, 'drafts', '{}')", [])
            .unwrap();
        migrate(&mut db, &STEPS).unwrap();
        assert_eq!(version(&db).unwrap(), 5);
        let title: String = db.query_row("SELECT title FROM runs", [], |row| row.get(0)).unwrap();
        assert_eq!(title, "a title");
        let left = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'messages%'";
        assert_eq!(db.query_row(left, [], |row| row.get::<_, u32>(0)).unwrap(), 0);
    }

    #[test]
    fn failed_migration_leaves_the_file_unchanged() {
        let mut db = filled();
        assert!(migrate(&mut db, &[VERSION_1, NEXT, "CREATE TABLE runs (x)"]).is_err());
        assert_eq!(version(&db).unwrap(), 1);
        assert!(db.prepare("SELECT labels FROM runs").is_err());
    }
}
