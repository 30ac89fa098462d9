//! Bytes that are kept by the hash of their content, however many runs have them.

use assize_types::Fingerprint;
use serde::Serialize;

/// Id of an artifact: the SHA-256 of its bytes.
pub type ArtifactId = Fingerprint;

/// An artifact of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArtifactUse {
    pub name: String,
    pub id: ArtifactId,
    pub bytes: u64,
}
