//! Store of runs in one SQLite file, and signed heads of the audit log (number and hash of its last entry).

mod signed_head;
mod sqlite;

pub use signed_head::{HeadError, HeadKey, HeadKeyError, InvalidHead, SignedHead, check_head};
pub use sqlite::{Access, Durability, SqliteStore};
