//! Artifacts: content-addressed bytes that runs share.

use assize_types::Fingerprint;
use serde::Serialize;

/// Id of an artifact: the SHA-256 of its bytes.
pub type ArtifactId = Fingerprint;

/// Reference of a run to an artifact, under a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArtifactUse {
    pub name: String,
    pub id: ArtifactId,
    pub bytes: u64,
}
