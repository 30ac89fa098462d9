//! Authentication of a node to the NATS servers.

use std::path::PathBuf;

/// Credentials and TLS files for the connection to the NATS servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterCredentials {
    /// Credentials file, as created by `nsc`.
    pub credentials: Option<PathBuf>,
    pub user: Option<(String, String)>,
    pub token: Option<String>,
    /// Certificate authority of the servers, in PEM, in addition to those that the system trusts.
    pub authority: Option<PathBuf>,
    /// Client certificate and its key, in PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
}
