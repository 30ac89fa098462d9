//! Addresses of the NATS servers of a cluster.

use std::fmt;
use std::str::FromStr;

use url::Url;

/// The servers of a cluster, as they are typed: `nats://a,b:4223,c`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    servers: Vec<String>,
}

/// A text that names no servers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` names no servers: they are named as in `nats://one,two:4223,three`")]
pub struct BadAddress(String);

impl Address {
    /// Each server with its scheme: `nats://a`.
    pub fn servers(&self) -> &[String] {
        &self.servers
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Address, BadAddress> {
        // What stands before an `@` may be a password, and is not repeated.
        let shown = text.rsplit_once('@').map_or(text.to_owned(), |(_, rest)| format!("…@{rest}"));
        let bad = || BadAddress(assize_types::text::shorten(&shown, 200));
        let (scheme, names) = match text.split_once("://") {
            Some((scheme @ ("nats" | "tls"), names)) => (scheme, names),
            Some(_) => return Err(bad()),
            None => ("nats", text),
        };
        let server = |name: &str| {
            // Each may have it again.
            let name = name.trim().trim_start_matches("nats://").trim_start_matches("tls://");
            // Who may come in is said elsewhere, where nobody sees it in a list of processes.
            let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
            let server = format!("{scheme}://{name}");
            let sound =
                !name.is_empty() && name.chars().all(plain) && server.parse::<Url>().is_ok();
            sound.then_some(server)
        };
        let servers: Option<Vec<String>> = names.split(',').map(server).collect();
        match servers {
            Some(servers) => Ok(Address { servers }),
            None => Err(bad()),
        }
    }
}

impl fmt::Display for Address {
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
    fn servers_are_named_in_one_word() {
        for (typed, shown) in [
            ("nats://a,b:4223,c", "nats://a,b:4223,c"),
            ("a", "nats://a"),
            ("tls://one.example,two.example", "tls://one.example,two.example"),
            ("nats://a,nats://b", "nats://a,b"),
            ("nats://10.0.0.1:4222, 10.0.0.2:4222", "nats://10.0.0.1:4222,10.0.0.2:4222"),
        ] {
            let read: Address = typed.parse().unwrap();
            assert_eq!(read.to_string(), shown);
            assert_eq!(read.servers().len(), typed.split(',').count());
        }
        for wrong in ["", "nats://", "http://a", "nats://a,,b", "nats://user:word@a", "a b"] {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
        let told = "nats://user:word@a".parse::<Address>().unwrap_err().to_string();
        assert!(told.starts_with("`…@a` names no servers"), "{told}");
    }
}
