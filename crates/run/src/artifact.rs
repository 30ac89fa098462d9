//! Bytes that are kept by the hash of their content, however many runs have them.

use std::fmt;
use std::str::FromStr;

use assize_types::{Fingerprint, NotAFingerprint};
use serde::Serialize;

/// The SHA-256 of an artifact's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ArtifactId(Fingerprint);

impl ArtifactId {
    pub fn of(bytes: &[u8]) -> ArtifactId {
        ArtifactId(Fingerprint::of(bytes))
    }

    pub fn fingerprint(self) -> Fingerprint {
        self.0
    }

    pub fn from_bytes(bytes: [u8; 32]) -> ArtifactId {
        ArtifactId(Fingerprint::from_bytes(bytes))
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl From<Fingerprint> for ArtifactId {
    fn from(fingerprint: Fingerprint) -> ArtifactId {
        ArtifactId(fingerprint)
    }
}

impl fmt::Display for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for ArtifactId {
    type Err = NotAFingerprint;

    fn from_str(text: &str) -> Result<ArtifactId, NotAFingerprint> {
        text.parse().map(ArtifactId)
    }
}

/// An artifact of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArtifactUse {
    pub name: String,
    pub id: ArtifactId,
    pub bytes: u64,
}
