//! Arguments of `assize serve` and `assize tokens`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::duration;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Listen on this address and port; a port alone listens on 127.0.0.1
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080", value_parser = listen)]
    pub(crate) listen: SocketAddr,

    /// Allow clients to use this folder under this name; can be repeated
    ///
    /// API requests can use the folder as a workspace, or as data about a company.
    #[arg(long = "root", value_name = "NAME=FOLDER", value_parser = root)]
    pub(crate) roots: Vec<(String, PathBuf)>,

    /// Use the owner's token in this file, which is created if it does not exist
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Require no token, so that every user of this machine has full access
    #[arg(long, conflicts_with_all = ["token_file", "hosts", "behind_proxy"])]
    pub(crate) no_auth: bool,

    /// Accept this host name in requests, besides local names; can be repeated
    #[arg(long = "host", value_name = "NAME", value_parser = host)]
    pub(crate) hosts: Vec<String>,

    /// Serve HTTPS with this TLS certificate (PEM file)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Use this private key of the TLS certificate (PEM file)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Run behind an HTTPS reverse proxy
    #[arg(long, conflicts_with = "tls_cert")]
    pub(crate) behind_proxy: bool,

    /// Print the address, the login link and the path of the token file as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Subcommands of `assize tokens`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    /// List valid tokens
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        file: TokenFile,
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Create a token and print it; the token cannot be shown again
    Create {
        /// Scope: `drafts/NAME` (draft tools of a workspace) or `code` (code execution)
        scope: String,
        /// Let the token expire after this time, at most 365d
        #[arg(long, value_name = "TIME", default_value = "30d", value_parser = duration)]
        expires_in: Duration,
        #[command(flatten)]
        file: TokenFile,
        /// Print the token as JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke tokens
    Revoke {
        /// Ids of the tokens
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        #[command(flatten)]
        file: TokenFile,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TokenFile {
    /// Manage the tokens of the server that was started with this `--token-file`
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Parses `ADDRESS:PORT`; for a port alone, the address is 127.0.0.1.
fn listen(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").or(text.strip_prefix(':')).unwrap_or(text);
    let local = port.parse::<u16>().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    local.ok().or_else(|| text.parse().ok()).ok_or_else(|| {
        "expected an IP address with a port, such as `127.0.0.1:8080` or `0.0.0.0:8080`, or a port from 0 to 65535"
            .to_owned()
    })
}

/// Parses a host name with an optional port.
fn host(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '[' | ']');
    match !text.is_empty() && text.len() <= 255 && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => {
            Err("expected a host name such as assize.example, with an optional port".to_owned())
        }
    }
}

/// Parses `NAME=FOLDER` into the name and the path.
fn root(text: &str) -> Result<(String, PathBuf), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match text.split_once('=') {
        Some((name, folder))
            if !name.is_empty()
                && name.len() <= 60
                && name.chars().all(plain)
                && !name.starts_with('.')
                && !folder.is_empty() =>
        {
            Ok((name.to_owned(), folder.into()))
        }
        _ => {
            Err("expected NAME=FOLDER, with a name of letters, digits, `-`, `_` and `.`".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_port_without_an_address_listens_on_loopback() {
        for text in ["8080", ":8080", "localhost:8080", "127.0.0.1:8080"] {
            assert_eq!(listen(text).unwrap().to_string(), "127.0.0.1:8080");
        }
        assert_eq!(listen("[::1]:80").unwrap().to_string(), "[::1]:80");
        for text in ["", "127.0.0.1", "99999", "-1", "host:80", "8080x"] {
            assert!(listen(text).unwrap_err().contains("`127.0.0.1:8080`"), "{text}");
        }
    }
}
