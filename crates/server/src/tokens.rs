//! Scoped tokens. Each scoped token grants access to one MCP endpoint, has an id and an expiry time, and can be
//! revoked.
//!
//! Hashes of the scoped tokens are stored in a file beside the file of the owner's token. Each hash includes the
//! owner's token, so replacing the owner's token revokes all scoped tokens. The server and the command `assize tokens`
//! use the same file.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use assize_types::{Fingerprint, unix_millis};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::auth::{Token, random_secret, same};

/// Default lifetime of a scoped token.
pub(crate) const DEFAULT_LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Maximum lifetime of a scoped token.
const MAX_LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Maximum number of valid scoped tokens in the file.
const MAX_TOKENS: usize = 1000;

/// Description of a scoped token, without its secret text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TokenInfo {
    pub id: String,
    /// What the token grants access to: `drafts/NAME` or `code`
    pub scope: String,
    /// Time of creation, in milliseconds since 1970
    pub created: u64,
    /// Time at which the token expires, in milliseconds since 1970
    pub expires: u64,
}

/// Entry of a scoped token in the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    info: TokenInfo,
    /// A prefix that identifies the owner's token, followed by one hash of the owner's token, the id and the secret.
    hash: String,
}

/// Why scoped tokens could not be created, listed or revoked.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("cannot read or write the token file `{}`: {source}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("invalid token file `{}`: {source}", path.display())]
    Invalid { path: PathBuf, source: serde_json::Error },
    #[error("invalid scope `{0}`: must be `drafts/NAME` or `code`")]
    Scope(String),
    #[error("the lifetime of a token must be between 1 second and 365 days")]
    Lifetime,
    #[error("the limit of {MAX_TOKENS} scoped tokens is reached")]
    TooMany,
}

/// Inode, size and modification time (seconds and nanoseconds) of the token file, which show whether the file has
/// changed.
type Stamp = (u64, u64, i64, i64);

/// The scoped tokens of a server, stored in a file.
#[derive(Debug)]
pub struct ScopedTokens {
    path: PathBuf,
    owner: Token,
    read: Mutex<Option<(Stamp, Arc<Vec<Entry>>)>>,
}

impl ScopedTokens {
    /// Returns the scoped tokens of the token file beside `owner_file`. Neither reads nor creates the token file.
    pub fn new(owner: Token, owner_file: &Path) -> ScopedTokens {
        let mut path = owner_file.as_os_str().to_owned();
        path.push(".scoped.json");
        ScopedTokens { path: path.into(), owner, read: Mutex::default() }
    }

    /// The owner's token, which grants access to the whole server.
    pub(crate) fn owner(&self) -> &Token {
        &self.owner
    }

    /// Lists the valid scoped tokens, oldest first.
    pub fn list(&self) -> Result<Vec<TokenInfo>, TokenError> {
        let now = unix_millis();
        let entries = self.entries()?;
        let valid = entries.iter().filter(|entry| self.is_valid(entry, now));
        Ok(valid.map(|entry| entry.info.clone()).collect())
    }

    /// Creates a scoped token. Returns its description and its secret text, which is not stored.
    pub fn create(
        &self,
        scope: &str,
        lifetime: Duration,
    ) -> Result<(TokenInfo, String), TokenError> {
        if !is_scope(scope) {
            return Err(TokenError::Scope(scope.chars().take(100).collect()));
        }
        if lifetime < Duration::from_secs(1) || lifetime > MAX_LIFETIME {
            return Err(TokenError::Lifetime);
        }
        let failed = |source| self.failed(source);
        let (id, secret) = (random_secret().map_err(failed)?, random_secret().map_err(failed)?);
        let id = format!("tok-{}", &Fingerprint::of(id).to_string()[..8]);
        let created = unix_millis();
        let expires = created + u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX);
        let info = TokenInfo { id: id.clone(), scope: scope.to_owned(), created, expires };
        let hash = self.hash(&info.id, &secret);
        self.change(|entries| {
            entries.retain(|entry| self.is_valid(entry, created));
            if entries.len() >= MAX_TOKENS {
                return Err(TokenError::TooMany);
            }
            entries.push(Entry { info: info.clone(), hash });
            Ok(())
        })?;
        Ok((info, format!("{id}.{secret}")))
    }

    /// Revokes a scoped token; returns false if no valid token has this id.
    pub fn revoke(&self, id: &str) -> Result<bool, TokenError> {
        let now = unix_millis();
        self.change(|entries| {
            let known =
                entries.iter().any(|entry| entry.info.id == id && self.is_valid(entry, now));
            entries.retain(|entry| entry.info.id != id);
            Ok(known)
        })
    }

    /// Returns the id of the scoped token if `text` is a valid token for the scope.
    pub(crate) fn check(&self, text: &str, scope: &str) -> Option<String> {
        let (id, secret) = text.split_once('.')?;
        let entries = self
            .entries()
            .inspect_err(|error| tracing::warn!(%error, "cannot check a scoped token"));
        let entries = entries.ok()?;
        let entry = entries.iter().find(|entry| entry.info.id == id)?;
        let fits = same(&entry.hash, &self.hash(id, secret));
        (fits && entry.info.scope == scope && unix_millis() < entry.info.expires)
            .then(|| id.to_owned())
    }

    /// Whether an entry was created with the owner's current token and has not expired. Does not check the secret.
    fn is_valid(&self, entry: &Entry, now: u64) -> bool {
        now < entry.info.expires && entry.hash.starts_with(&self.owner_mark())
    }

    /// Prefix of all hashes that were created with the owner's current token.
    fn owner_mark(&self) -> String {
        let hash = Fingerprint::of(format!("assize owner {}", self.owner.reveal()));
        hash.to_string()[..8].to_owned()
    }

    fn hash(&self, id: &str, secret: &str) -> String {
        let hash = Sha256::new().chain_update(b"assize scoped ").chain_update(self.owner.reveal());
        let hash = hash.chain_update(b" ").chain_update(id).chain_update(b" ").chain_update(secret);
        format!("{}{}", self.owner_mark(), BASE64_URL_SAFE_NO_PAD.encode(hash.finalize()))
    }

    /// Returns all entries of the token file. The file is read again only if it has changed.
    fn entries(&self) -> Result<Arc<Vec<Entry>>, TokenError> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Arc::default()),
            Err(error) => return Err(self.failed(error)),
        };
        let meta = file.metadata().map_err(|error| self.failed(error))?;
        let stamp = (meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec());
        let mut read = self.read.lock();
        if let Some((known, entries)) = &*read
            && *known == stamp
        {
            return Ok(entries.clone());
        }
        let entries: Arc<Vec<Entry>> = serde_json::from_reader(std::io::BufReader::new(file))
            .map(Arc::new)
            .map_err(|source| TokenError::Invalid { path: self.path.clone(), source })?;
        *read = Some((stamp, entries.clone()));
        Ok(entries)
    }

    /// Changes the entries of the token file and replaces the file atomically. A lock file prevents concurrent changes
    /// by other processes.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Vec<Entry>) -> Result<T, TokenError>,
    ) -> Result<T, TokenError> {
        let failed = |source| self.failed(source);
        let mut lock = self.path.clone().into_os_string();
        lock.push(".lock");
        let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(lock);
        let lock = lock.map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut entries = Vec::clone(&*self.entries()?);
        let changed = change(&mut entries)?;
        let folder = self.path.parent().unwrap_or(Path::new("."));
        // Temporary files have mode 0600, so other users cannot read the token file.
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        let text = serde_json::to_vec_pretty(&entries).unwrap_or_default();
        file.write_all(&text).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        file.persist(&self.path).map_err(|error| failed(error.error))?;
        Ok(changed)
    }

    fn failed(&self, source: std::io::Error) -> TokenError {
        TokenError::File { path: self.path.clone(), source }
    }
}

/// Whether a text is a valid scope: `code`, or `drafts/` and the name of a workspace.
pub(crate) fn is_scope(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let named = |name: &str| !name.is_empty() && name.len() <= 60 && name.chars().all(plain);
    text == "code" || text.strip_prefix("drafts/").is_some_and(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(folder: &Path, owner: char) -> ScopedTokens {
        let owner = Token::chosen(&owner.to_string().repeat(32)).unwrap();
        ScopedTokens::new(owner, &folder.join("serve.token"))
    }

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    #[test]
    fn scoped_tokens_are_valid_for_their_scope_until_they_are_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let own = tokens(folder.path(), 'a');
        let (drafts, text) = own.create("drafts/mine", DAY).unwrap();
        let (code, other) = own.create("code", DAY).unwrap();
        assert_eq!(own.check(&text, "drafts/mine"), Some(drafts.id.clone()));
        assert_eq!(own.check(&text, "code"), None);
        assert_eq!(own.check(&other, "code"), Some(code.id.clone()));
        for wrong in ["", ".", &drafts.id, &format!("{}.x", drafts.id), &text[..text.len() - 1]] {
            assert_eq!(own.check(wrong, "drafts/mine"), None, "{wrong}");
        }
        assert_eq!(own.list().unwrap(), [drafts.clone(), code.clone()]);
        // The second instance simulates another process. A revocation by the other process takes effect in this
        // instance.
        let elsewhere = tokens(folder.path(), 'a');
        assert!(elsewhere.revoke(&drafts.id).unwrap());
        assert!(!elsewhere.revoke(&drafts.id).unwrap());
        assert_eq!(own.check(&text, "drafts/mine"), None);
        assert_eq!(own.check(&other, "code"), Some(code.id));
        let stored =
            std::fs::read_to_string(folder.path().join("serve.token.scoped.json")).unwrap();
        assert!(!stored.contains(other.split_once('.').unwrap().1), "{stored}");
    }

    #[test]
    fn scoped_token_is_invalid_after_its_expiry_or_with_a_different_owner_token() {
        let folder = tempfile::tempdir().unwrap();
        let own = tokens(folder.path(), 'a');
        let (_, text) = own.create("code", DAY).unwrap();
        let other = tokens(folder.path(), 'b');
        assert_eq!(other.check(&text, "code"), None);
        assert_eq!(other.list().unwrap(), []);
        let (id, _) = text.split_once('.').unwrap();
        own.change(|entries| {
            entries[0].info.expires = unix_millis() - 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(own.check(&text, "code"), None, "{id}");
        assert_eq!(own.list().unwrap(), []);
    }

    #[test]
    fn scoped_tokens_with_an_invalid_scope_or_lifetime_are_not_created() {
        let folder = tempfile::tempdir().unwrap();
        let own = tokens(folder.path(), 'a');
        for scope in ["", "everything", "drafts/", "drafts/../x", "code/x", "Drafts/x"] {
            assert!(matches!(own.create(scope, DAY), Err(TokenError::Scope(_))), "{scope}");
        }
        for lifetime in [Duration::ZERO, MAX_LIFETIME + DAY] {
            assert!(matches!(own.create("code", lifetime), Err(TokenError::Lifetime)));
        }
    }
}
