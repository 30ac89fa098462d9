//! Store of runs in one SQLite file, and signed heads of the audit log (hashes of its last entry).

mod anchor;
mod sqlite;

pub use anchor::{HeadError, HeadKey, HeadKeyError, InvalidHead, SignedHead, check_head};
pub use sqlite::{Access, Durability, SqliteStore};
