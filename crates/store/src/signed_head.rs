//! Signed heads of the audit log. A head contains the number and the hash of the last entry. If an older copy replaces
//! the store file, the hash chain of the audit log in this copy is still valid, but a head that was saved outside of
//! the store shows that the latest entries are missing.

use std::fmt;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use assize_run::AuditEntry;
use assize_types::Fingerprint;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

/// First word of a signed audit log head in text form: the name and version of the format.
const LABEL: &str = "assize-audit-head-1";

/// Prefix of a public key in text form: the signature algorithm.
const ALGORITHM: &str = "ed25519:";

/// Signed head of the audit log: number and hash of its last entry at a point in time. The text form of a head is one
/// line: `assize-audit-head-1 ENTRY HASH TIME ed25519:KEY SIGNATURE`. The signature covers the text before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedHead {
    /// Number of the last entry in the audit log; 0 for an empty log.
    pub entry: u64,
    /// Hash of the last entry in the audit log; zeros for an empty log.
    pub hash: Fingerprint,
    /// Time at which the head was signed.
    pub at: Timestamp,
    /// Public key of the signer.
    key: [u8; 32],
    signature: [u8; 64],
}

/// Error for text that is not a signed head of the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid head of the audit log: expected a line that `assize audit head` prints: \
     `{LABEL} ENTRY HASH TIME {ALGORITHM}KEY SIGNATURE`"
)]
pub struct InvalidHead;

/// Error of a check of the audit log against a signed head. The head contains the number and the hash of the entry that
/// was the last one when the head was signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    #[error(
        "invalid signature on the audit log head of entry {entry}: the signed line was changed"
    )]
    WrongSignature { entry: u64 },
    #[error(
        "the audit log head of entry {entry} was signed with the key {signed}, but the local key is {known}"
    )]
    OtherKey { entry: u64, signed: String, known: String },
    #[error(
        "the audit log was rolled back: it ends at entry {last}, but the signed head is of entry {entry}"
    )]
    RolledBack { entry: u64, last: u64 },
    #[error(
        "the audit log was rewritten: the hash of entry {entry} differs from the hash in the signed head"
    )]
    Rewritten { entry: u64 },
}

/// Error of reading or creating the key that signs audit log heads.
#[derive(Debug, thiserror::Error)]
pub enum HeadKeyError {
    #[error("cannot read or create the signing key `{path}`", path = .path.display())]
    Failed { path: PathBuf, source: std::io::Error },
    #[error(
        "the signing key `{path}` is accessible to other users (mode {mode:o}, expected 600)",
        path = .path.display()
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error("`{path}` is not a signing key: expected an Ed25519 key created by assize", path = .path.display())]
    Invalid { path: PathBuf },
    #[error("cannot create a signing key: the system's random number generator failed")]
    NoRandomNumbers,
}

impl SignedHead {
    /// Verifies the signature of this head, and that the head was signed with the local key `known`. If `known` is
    /// `None`, the check fails.
    pub fn check_signature(&self, known: Option<&HeadKey>) -> Result<(), HeadError> {
        let entry = self.entry;
        let signed = UnparsedPublicKey::new(&ED25519, &self.key);
        if signed.verify(self.unsigned().as_bytes(), &self.signature).is_err() {
            return Err(HeadError::WrongSignature { entry });
        }
        if known.is_none_or(|known| known.public() != self.key) {
            let known = known
                .map_or_else(|| "missing".to_owned(), |known| public_key_text(&known.public()));
            return Err(HeadError::OtherKey { entry, signed: public_key_text(&self.key), known });
        }
        Ok(())
    }

    /// The part of the text form that the signature covers.
    fn unsigned(&self) -> String {
        let SignedHead { entry, hash, at, key, .. } = self;
        format!("{LABEL} {entry} {hash} {at} {}", public_key_text(key))
    }
}

/// Checks that the audit log still contains the entry with this number and hash. `log` contains all entries of the
/// audit log, the oldest first.
pub fn check_head(log: &[AuditEntry], entry: u64, hash: Fingerprint) -> Result<(), HeadError> {
    let found = match entry {
        0 => Some(Fingerprint::NONE),
        _ => log.iter().find(|one| one.id == entry).map(|one| one.hash),
    };
    match (found, log.last().map_or(0, |last| last.id)) {
        (Some(found), _) if found == hash => Ok(()),
        (None, last) if last < entry => Err(HeadError::RolledBack { entry, last }),
        _ => Err(HeadError::Rewritten { entry }),
    }
}

/// Text form of a public key.
fn public_key_text(key: &[u8; 32]) -> String {
    format!("{ALGORITHM}{}", BASE64.encode(key))
}

impl fmt::Display for SignedHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.unsigned(), BASE64.encode(self.signature))
    }
}

impl FromStr for SignedHead {
    type Err = InvalidHead;

    fn from_str(line: &str) -> Result<SignedHead, InvalidHead> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [LABEL, entry, hash, at, key, signature] = words[..] else { return Err(InvalidHead) };
        let bytes = |text: &str| BASE64.decode(text).map_err(|_| InvalidHead);
        let key = bytes(key.strip_prefix(ALGORITHM).ok_or(InvalidHead)?)?;
        Ok(SignedHead {
            entry: entry.parse().map_err(|_| InvalidHead)?,
            hash: hash.parse().map_err(|_| InvalidHead)?,
            at: at.parse().map_err(|_| InvalidHead)?,
            key: key.try_into().map_err(|_| InvalidHead)?,
            signature: bytes(signature)?.try_into().map_err(|_| InvalidHead)?,
        })
    }
}

/// Key pair that signs heads of the audit log, stored in a file that only its owner can read.
#[derive(Debug)]
pub struct HeadKey(Ed25519KeyPair);

impl HeadKey {
    /// Reads the key from a file; `None` if there is no such file.
    ///
    /// # Errors
    /// If the file cannot be read, is accessible to other users, or is not a key.
    pub fn read(path: &Path) -> Result<Option<HeadKey>, HeadKeyError> {
        let failed = |source| HeadKeyError::Failed { path: path.to_owned(), source };
        let metadata = match std::fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            metadata => metadata.map_err(failed)?,
        };
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(HeadKeyError::Exposed { path: path.to_owned(), mode });
        }
        let document = std::fs::read(path).map_err(failed)?;
        let pair = Ed25519KeyPair::from_pkcs8(&document);
        pair.map(|pair| Some(HeadKey(pair)))
            .map_err(|_| HeadKeyError::Invalid { path: path.to_owned() })
    }

    /// Reads the key from a file, or creates the file with a new key. Processes that create the file concurrently all
    /// get the same key.
    pub fn read_or_create(path: &Path) -> Result<HeadKey, HeadKeyError> {
        if let Some(key) = HeadKey::read(path)? {
            return Ok(key);
        }
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let document = document.map_err(|_| HeadKeyError::NoRandomNumbers)?;
        let write = || -> std::io::Result<()> {
            let folder = path.parent().unwrap_or(Path::new("."));
            std::fs::create_dir_all(folder)?;
            // The file is created with mode 0600 and gets its final name only when it is complete.
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(document.as_ref())?;
            file.as_file().sync_all()?;
            match file.persist_noclobber(path) {
                Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(()),
                persisted => persisted.map(drop).map_err(|error| error.error),
            }
        };
        let failed = |source| HeadKeyError::Failed { path: path.to_owned(), source };
        write().map_err(failed)?;
        HeadKey::read(path)?.ok_or_else(|| failed(ErrorKind::NotFound.into()))
    }

    /// Signs a head of the audit log: the number and the hash of its last entry.
    pub fn sign(&self, entry: u64, hash: Fingerprint, at: Timestamp) -> SignedHead {
        let mut head = SignedHead { entry, hash, at, key: self.public(), signature: [0; 64] };
        let signature = self.0.sign(head.unsigned().as_bytes());
        head.signature.copy_from_slice(signature.as_ref());
        head
    }

    fn public(&self) -> [u8; 32] {
        let mut key = [0; 32];
        key.copy_from_slice(self.0.public_key().as_ref());
        key
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use assize_run::NewAuditEntry;

    /// Creates an audit log of `count` entries.
    fn log(count: u64, actor: &str) -> Vec<AuditEntry> {
        let mut log: Vec<AuditEntry> = Vec::new();
        for id in 1..=count {
            let previous = log.last().map_or(Fingerprint::NONE, |entry| entry.hash);
            let (actor, action, subject) = (actor.to_owned(), "accept".to_owned(), "a".to_owned());
            let entry = NewAuditEntry { actor, action, subject, detail: json!({}) };
            log.push(AuditEntry::chained(id, 1000 + id, entry, previous));
        }
        log
    }

    fn key(folder: &tempfile::TempDir, name: &str) -> HeadKey {
        HeadKey::read_or_create(&folder.path().join(name)).unwrap()
    }

    #[test]
    fn signed_audit_log_head_is_parsed_and_any_changed_character_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let key = key(&folder, "key");
        let last = log(12, "ann").pop().unwrap();
        let head = key.sign(last.id, last.hash, Timestamp::from_second(1_700_000_000).unwrap());
        let line = head.to_string();
        assert!(line.starts_with("assize-audit-head-1 12 ") && !line.contains('\n'), "{line}");
        assert!(line.contains(" 2023-11-14T22:13:20Z ed25519:"), "{line}");
        assert_eq!(line.parse(), Ok(head.clone()));
        assert_eq!(format!("  {line}\r\n").parse(), Ok(head));
        // Every character of the line is either signed or part of the signature.
        let mut refused = 0;
        for index in 0..line.len() {
            let mut bytes = line.clone().into_bytes();
            bytes[index] = if bytes[index] == b'1' { b'2' } else { b'1' };
            let Ok(changed) = String::from_utf8(bytes).unwrap().parse::<SignedHead>() else {
                refused += 1;
                continue;
            };
            let wrong = changed.check_signature(Some(&key)).unwrap_err();
            assert!(matches!(wrong, HeadError::WrongSignature { .. }), "{index}: {wrong}");
        }
        assert!(refused < line.len() / 2, "{refused}");
        for wrong in ["", "12:ab", "assize-audit-head-2 1 2 3 4 5", &line[..line.len() - 2]] {
            assert_eq!(wrong.parse::<SignedHead>(), Err(InvalidHead), "{wrong}");
        }
    }

    #[test]
    fn audit_log_head_not_signed_with_the_local_key_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) = (key(&folder, "ours"), key(&folder, "theirs"));
        let head = theirs.sign(0, Fingerprint::NONE, Timestamp::UNIX_EPOCH);
        assert_eq!(head.check_signature(Some(&theirs)), Ok(()));
        for known in [Some(&ours), None] {
            let wrong = head.check_signature(known).unwrap_err();
            assert!(matches!(wrong, HeadError::OtherKey { entry: 0, .. }), "{wrong}");
        }
    }

    #[test]
    fn truncated_or_rewritten_audit_log_does_not_match_its_signed_head() {
        let whole = log(12, "ann");
        let hash = whole[11].hash;
        assert_eq!(check_head(&whole, 12, hash), Ok(()));
        assert_eq!(check_head(&whole, 5, whole[4].hash), Ok(()));
        assert_eq!(check_head(&whole, 0, Fingerprint::NONE), Ok(()));
        assert_eq!(check_head(&[], 0, Fingerprint::NONE), Ok(()));
        let shorter = HeadError::RolledBack { entry: 12, last: 7 };
        assert_eq!(check_head(&whole[..7], 12, hash), Err(shorter));
        assert_eq!(check_head(&[], 1, hash), Err(HeadError::RolledBack { entry: 1, last: 0 }));
        let other = Err(HeadError::Rewritten { entry: 12 });
        assert_eq!(check_head(&log(12, "eve"), 12, hash), other);
        assert_eq!(check_head(&log(20, "eve"), 12, hash), other);
    }

    #[test]
    fn signing_key_file_is_created_once_and_readable_by_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/audit-key");
        assert!(HeadKey::read(&path).unwrap().is_none());
        let create = || HeadKey::read_or_create(&path).unwrap().public();
        let keys: Vec<[u8; 32]> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(create)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path().join("state")).unwrap().count(), 1);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let exposed = HeadKey::read(&path).unwrap_err();
        assert!(matches!(exposed, HeadKeyError::Exposed { mode: 0o640, .. }), "{exposed}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, "no key").unwrap();
        let invalid = HeadKey::read_or_create(&path).unwrap_err();
        assert!(matches!(invalid, HeadKeyError::Invalid { .. }), "{invalid}");
    }
}
