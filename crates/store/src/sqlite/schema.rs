//! The tables, and how an older file becomes a newer one.

use rusqlite::{Connection, TransactionBehavior};

/// Marks a database as ours: "ASZE".
pub(super) const APPLICATION: i32 = 0x4153_5a45;

/// Each step makes a file of the version before it one of its own version: the first makes
/// version 1 of an empty file. Steps are never changed once they were released, only added.
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

-- One row for each effect, with the events of its step; rows without a key have events alone. A
-- row's number is never used again: the ids of its events are made of it. A body is JSON: as text,
-- or as a blob where it was worth compressing. One that is large is an artifact instead.
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
-- Artifacts that a run has under a name. Those of its journal have none.
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

/// A workspace's own entries are looked for among those of all.
const VERSION_2: &str = "CREATE INDEX audit_of_subject ON audit (subject, id);";

/// What runs were asked for under, by those who ask twice.
const VERSION_3: &str = "
CREATE TABLE once (
    key     TEXT PRIMARY KEY,
    request BLOB NOT NULL,
    run     INTEGER NOT NULL REFERENCES runs (number)
) STRICT, WITHOUT ROWID;
CREATE INDEX once_of_run ON once (run);
";

/// Calls to models, noted before they are sent and when they are over. What is noted is JSON.
const VERSION_4: &str = "
CREATE TABLE calls (
    run    INTEGER NOT NULL REFERENCES runs (number),
    epoch  INTEGER NOT NULL,
    number INTEGER NOT NULL,
    noted  TEXT NOT NULL,
    PRIMARY KEY (run, epoch, number)
) STRICT, WITHOUT ROWID;
";

/// Messages between processes, which no part of the program read or wrote.
const VERSION_5: &str = "DROP TABLE messages;";

pub(super) fn version(db: &Connection) -> rusqlite::Result<u32> {
    db.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Brings a file up to the last of the steps, all or nothing.
pub(super) fn migrate(db: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    if version(db)? as usize >= steps.len() {
        return Ok(());
    }
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have done it in the meantime.
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
    fn an_older_file_becomes_a_newer_one_with_all_that_is_in_it() {
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
    fn messages_table_is_dropped_and_runs_are_kept() {
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
    fn a_step_that_fails_leaves_the_file_as_it_was() {
        let mut db = filled();
        assert!(migrate(&mut db, &[VERSION_1, NEXT, "CREATE TABLE runs (x)"]).is_err());
        assert_eq!(version(&db).unwrap(), 1);
        assert!(db.prepare("SELECT labels FROM runs").is_err());
    }
}
