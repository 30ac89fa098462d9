//! Artifacts: content-addressed byte strings in the store. Runs that store the same bytes share one artifact.

use assize_types::Fingerprint;
use serde::Serialize;

/// Id of an artifact: the SHA-256 of its bytes.
pub type ArtifactId = Fingerprint;

/// Entry in the list of a run's artifacts: the name under which the run stored the artifact, and the id and size of the
/// artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArtifactUse {
    pub name: String,
    pub id: ArtifactId,
    pub bytes: u64,
}
