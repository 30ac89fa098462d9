//! How a node authenticates to the NATS servers of its cluster.

use std::path::PathBuf;

/// Who we are to the servers, and how we know who they are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identification {
    /// A file of credentials, as `nsc` makes them.
    pub credentials: Option<PathBuf>,
    pub user: Option<(String, String)>,
    pub token: Option<String>,
    /// Who vouches for the servers, in PEM, besides those that the system trusts.
    pub authority: Option<PathBuf>,
    /// Our own certificate and its key, in PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
}
