//! Parses the list of the NATS servers of a cluster.

use std::fmt;
use std::str::FromStr;

use url::Url;

/// NATS servers of a cluster, parsed from a list such as `nats://a,b:4223,c`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterServers {
    servers: Vec<String>,
}

/// Error for a text that is not a valid list of NATS servers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid list of NATS servers `{0}`: expected a list such as `nats://one,two:4223,three`")]
pub struct InvalidNatsServers(String);

impl ClusterServers {
    /// URL of each server, with its scheme: `nats://a`.
    pub fn servers(&self) -> &[String] {
        &self.servers
    }
}

impl FromStr for ClusterServers {
    type Err = InvalidNatsServers;

    fn from_str(text: &str) -> Result<ClusterServers, InvalidNatsServers> {
        // The error message omits the text before an `@`, because that text may contain a password.
        let shown = text.rsplit_once('@').map_or(text.to_owned(), |(_, rest)| format!("…@{rest}"));
        let bad = || InvalidNatsServers(assize_types::text::shorten(&shown, 200));
        let (scheme, names) = match text.split_once("://") {
            Some((scheme @ ("nats" | "tls"), names)) => (scheme, names),
            Some(_) => return Err(bad()),
            None => ("nats", text),
        };
        let server = |name: &str| {
            // The list may repeat the scheme for every server.
            let name = name.trim().trim_start_matches("nats://").trim_start_matches("tls://");
            // Credentials are rejected, because a process list would show them. Other settings contain them.
            let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
            let server = format!("{scheme}://{name}");
            let sound =
                !name.is_empty() && name.chars().all(plain) && server.parse::<Url>().is_ok();
            sound.then_some(server)
        };
        let servers: Option<Vec<String>> = names.split(',').map(server).collect();
        match servers {
            Some(servers) => Ok(ClusterServers { servers }),
            None => Err(bad()),
        }
    }
}

impl fmt::Display for ClusterServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.servers[0].split("://").next().unwrap_or_default();
        let names: Vec<&str> =
            self.servers.iter().filter_map(|server| server.split("://").nth(1)).collect();
        write!(f, "{scheme}://{}", names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nats_server_lists_are_parsed_and_credentials_are_rejected() {
        for (typed, shown) in [
            ("nats://a,b:4223,c", "nats://a,b:4223,c"),
            ("a", "nats://a"),
            ("tls://one.example,two.example", "tls://one.example,two.example"),
            ("nats://a,nats://b", "nats://a,b"),
            ("nats://10.0.0.1:4222, 10.0.0.2:4222", "nats://10.0.0.1:4222,10.0.0.2:4222"),
        ] {
            let read: ClusterServers = typed.parse().unwrap();
            assert_eq!(read.to_string(), shown);
            assert_eq!(read.servers().len(), typed.split(',').count());
        }
        for wrong in ["", "nats://", "http://a", "nats://a,,b", "nats://user:word@a", "a b"] {
            assert!(wrong.parse::<ClusterServers>().is_err(), "{wrong}");
        }
        let error = "nats://user:word@a".parse::<ClusterServers>().unwrap_err().to_string();
        assert!(error.starts_with("invalid list of NATS servers `…@a`"), "{error}");
    }
}
