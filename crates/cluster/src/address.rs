//! Credentials with which a node authenticates to the NATS servers.

use std::path::PathBuf;

/// Credentials and TLS files for the connection to the NATS servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterCredentials {
    /// Path of a NATS credentials file, as the tool `nsc` creates it.
    pub credentials: Option<PathBuf>,
    pub user: Option<(String, String)>,
    pub token: Option<String>,
    /// Path of a PEM file with CA certificates. The node trusts these CAs, in addition to those of the system, when it
    /// verifies the certificates of the NATS servers.
    pub authority: Option<PathBuf>,
    /// Paths of the client certificate and of its private key, in PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
}
