//! `assize serve`: what can be typed.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::duration;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address and port to listen on; a port alone listens on 127.0.0.1
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080", value_parser = listen)]
    pub(crate) listen: SocketAddr,

    /// A folder that requests may name: a workspace for drafts, or documents about a company; can be repeated
    #[arg(long = "root", value_name = "NAME=FOLDER", value_parser = root)]
    pub(crate) roots: Vec<(String, PathBuf)>,

    /// Where the token is kept that opens the door; made if it is not there
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Let everybody on this machine in
    #[arg(long, conflicts_with_all = ["token_file", "hosts", "behind_proxy"])]
    pub(crate) no_auth: bool,

    /// A name that it is called by, besides those of this machine; can be repeated
    #[arg(long = "host", value_name = "NAME", value_parser = host)]
    pub(crate) hosts: Vec<String>,

    /// A certificate, in PEM; with it, and its key, the server speaks HTTPS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Somebody stands before the server who speaks HTTPS
    #[arg(long, conflicts_with = "tls_cert")]
    pub(crate) behind_proxy: bool,

    /// Print address, link and the token's file as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Commands for scoped tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokensCommand {
    /// List the tokens that are valid
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        file: TokenFile,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Create a token and print it; it is not shown again
    Create {
        /// `drafts/NAME` for the draft tools of a workspace, or `code` for the tool that runs code
        scope: String,
        /// Time until it expires, at most 365d
        #[arg(long, value_name = "TIME", default_value = "30d", value_parser = duration)]
        expires_in: Duration,
        #[command(flatten)]
        file: TokenFile,
        /// Print as JSON
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
    /// File of the server's own token, as `assize serve` was given it
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// `ADDRESS:PORT`, or a port of this machine's own address.
fn listen(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").or(text.strip_prefix(':')).unwrap_or(text);
    let local = port.parse::<u16>().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    local.ok().or_else(|| text.parse().ok()).ok_or_else(|| {
        "wants an IP address with a port, such as `127.0.0.1:8080` or `0.0.0.0:8080`, or a port from 0 to 65535"
            .to_owned()
    })
}

/// A name as it stands in an address, with a port perhaps.
fn host(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '[' | ']');
    match !text.is_empty() && text.len() <= 255 && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("is not like assize.example, with a port perhaps".to_owned()),
    }
}

/// `NAME=FOLDER`.
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
            Err("is not like NAME=FOLDER, with a name of letters, digits, `-`, `_` and `.`"
                .to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_listens_on_this_machine() {
        for text in ["8080", ":8080", "localhost:8080", "127.0.0.1:8080"] {
            assert_eq!(listen(text).unwrap().to_string(), "127.0.0.1:8080");
        }
        assert_eq!(listen("[::1]:80").unwrap().to_string(), "[::1]:80");
        for text in ["", "127.0.0.1", "99999", "-1", "host:80", "8080x"] {
            assert!(listen(text).unwrap_err().contains("`127.0.0.1:8080`"), "{text}");
        }
    }
}
