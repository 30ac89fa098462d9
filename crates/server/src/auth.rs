//! Authentication: checks the `Host` header, the origin, and the token or cookie of every request.
//!
//! The owner's token grants access to the whole server. Programs send the token with every request. A browser opens a
//! one-time link and receives a cookie that is derived from the token. So the token itself appears in no browser
//! history and no log.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use assize_types::unix_millis;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN, SET_COOKIE, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::problem::Problem;
use crate::tokens::ScopedTokens;
use crate::{App, mcp, pages};

/// Time for which a sign-in link is valid.
const LINK_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Maximum number of unused sign-in links.
const MAX_LINKS: usize = 100;

/// Number of seconds that a cookie is valid.
const COOKIE_LIFETIME: u64 = 30 * 24 * 60 * 60;

/// Age in seconds at which a cookie is renewed: the response to a request with an older cookie contains a new cookie.
const COOKIE_RENEWAL: u64 = 24 * 60 * 60;

/// Secret token of the server's owner. The `Debug` output does not contain the secret.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Generates a random secret of 256 bits, encoded as URL-safe base64.
pub(crate) fn random_secret() -> std::io::Result<String> {
    use std::io::Read;
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

impl Token {
    /// Generates a random token.
    pub fn random() -> std::io::Result<Token> {
        random_secret().map(Token)
    }

    /// Creates a token from a text that the operator chose. Returns `None` unless the text has 32 to 256 characters
    /// that are letters, digits or `-_.~`.
    pub fn chosen(text: &str) -> Option<Token> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~');
        let valid = text.len() >= 32 && text.len() <= 256 && text.chars().all(plain);
        valid.then(|| Token(text.to_owned()))
    }

    /// The secret text of the token.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Builds the value of a cookie. The value consists of the time `issued`, in seconds since 1970, and a hash of that
    /// time and the token.
    fn cookie(&self, issued: u64) -> String {
        let hash = Sha256::new().chain_update(format!("assize cookie {issued} "));
        let hash = hash.chain_update(&self.0).finalize();
        format!("{issued}.{}", BASE64_URL_SAFE_NO_PAD.encode(hash))
    }

    /// Returns the time at which a cookie was issued; `None` if the cookie is invalid or expired.
    fn issued(&self, cookie: &str, now: u64) -> Option<u64> {
        let issued: u64 = cookie.split_once('.')?.0.parse().ok()?;
        let fresh = issued <= now && now - issued < COOKIE_LIFETIME;
        (fresh && same(cookie, &self.cookie(issued))).then_some(issued)
    }
}

/// Compares two secrets in constant time, so that the duration does not reveal where the secrets differ.
pub(crate) fn same(one: &str, other: &str) -> bool {
    Sha256::digest(one) == Sha256::digest(other)
}

/// Access control of the server: checks the host name, the origin and the credential of each request.
#[derive(Debug)]
pub(crate) struct AccessGuard {
    /// The owner's token; `None` if authentication is disabled.
    token: Option<Token>,
    /// Scoped tokens; `None` if authentication is disabled.
    tokens: Option<ScopedTokens>,
    /// Whether clients use plain HTTP, and only from this machine. If false, clients use HTTPS.
    local: bool,
    /// Accepted values of the `Host` header: the names of this server, some with a port and some without.
    hosts: Vec<String>,
    port: u16,
    /// Unused sign-in tickets, with their creation time.
    links: Mutex<BTreeMap<String, Instant>>,
}

impl AccessGuard {
    pub(crate) fn new(
        tokens: Option<ScopedTokens>,
        local: bool,
        names: &[String],
        listening: SocketAddr,
    ) -> AccessGuard {
        let token = tokens.as_ref().map(|tokens| tokens.owner().clone());
        let port = listening.port();
        let mut names: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        names.extend(["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()]);
        if !listening.ip().is_unspecified() {
            names.push(match listening.ip() {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            });
        }
        let mut hosts = Vec::new();
        for name in names {
            // Accept the name without the port: a reverse proxy may listen on another port than this server, and
            // clients omit the default ports 80 and 443.
            if !local || [80, 443].contains(&port) {
                hosts.push(name.clone());
            }
            hosts.push(if name.rsplit(']').next().is_some_and(|rest| rest.contains(':')) {
                name
            } else {
                format!("{name}:{port}")
            });
        }
        AccessGuard { token, tokens, local, hosts, port, links: Mutex::default() }
    }

    /// Creates a one-time sign-in link; returns its path, which contains a new ticket.
    pub(crate) fn link(&self) -> std::io::Result<String> {
        self.ticket().map(|ticket| format!("/enter?ticket={ticket}"))
    }

    fn ticket(&self) -> std::io::Result<String> {
        let ticket = random_secret()?;
        let mut links = self.links.lock();
        links.retain(|_, made| made.elapsed() < LINK_LIFETIME);
        while links.len() >= MAX_LINKS {
            let oldest =
                links.iter().min_by_key(|(_, made)| **made).map(|(ticket, _)| ticket.clone());
            oldest.and_then(|oldest| links.remove(&oldest));
        }
        links.insert(ticket.clone(), Instant::now());
        Ok(ticket)
    }

    /// Exchanges a sign-in ticket for a `Set-Cookie` value; the ticket cannot be used again. Returns `None` if the
    /// ticket is unknown or expired.
    pub(crate) fn exchange_ticket(&self, ticket: &str) -> Option<HeaderValue> {
        let made = self.links.lock().remove(ticket)?;
        let token = self.token.as_ref().filter(|_| made.elapsed() < LINK_LIFETIME)?;
        self.cookie(token, seconds())
    }

    /// Builds the `Set-Cookie` header value of a cookie that is issued at the time `now`.
    fn cookie(&self, token: &Token, now: u64) -> Option<HeaderValue> {
        let secure = if self.local { "" } else { "; Secure" };
        let (name, value) = (self.cookie_name(), token.cookie(now));
        let cookie = format!(
            "{name}={value}; Path=/; Max-Age={COOKIE_LIFETIME}; HttpOnly; SameSite=Strict{secure}"
        );
        HeaderValue::from_str(&cookie).ok()
    }

    /// Returns the `Set-Cookie` value of a new cookie if the browser's cookie, issued at the time `issued`, is at least
    /// [`COOKIE_RENEWAL`] seconds old.
    fn renewed(&self, issued: u64, now: u64) -> Option<HeaderValue> {
        let token = self.token.as_ref().filter(|_| now.saturating_sub(issued) >= COOKIE_RENEWAL)?;
        self.cookie(token, now)
    }

    /// Name of the cookie. The name contains the port of the server, because browsers share cookies between all ports
    /// of a host.
    fn cookie_name(&self) -> String {
        format!("assize-{}", self.port)
    }

    /// Scoped tokens; `None` if authentication is disabled.
    pub(crate) fn tokens(&self) -> Option<&ScopedTokens> {
        self.tokens.as_ref()
    }

    /// Removes the default HTTPS port from a host name, unless the server uses plain HTTP.
    fn plain<'a>(&self, host: &'a str) -> &'a str {
        host.strip_suffix(":443").filter(|_| !self.local).unwrap_or(host)
    }

    /// Whether the `Host` header contains one of this server's names. This check prevents DNS rebinding.
    fn knows_host(&self, headers: &HeaderMap) -> bool {
        let mut all = headers.get_all(HOST).iter();
        let host = all.next().and_then(|host| host.to_str().ok()).filter(|_| all.next().is_none());
        let host = host.map(|host| self.plain(host));
        host.is_some_and(|host| self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host)))
    }

    /// Whether a request comes from a page of this server, or from a client that is not a browser. Also true for a
    /// request from another site that only reads and has no cookie. Checks the headers `Origin` and `Sec-Fetch-Site`.
    fn trusts_origin(&self, method: &Method, headers: &HeaderMap, by_cookie: bool) -> bool {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
        let safe = matches!(*method, Method::GET | Method::HEAD);
        if headers.contains_key(ORIGIN) {
            let (origin, host) = (text(ORIGIN).unwrap_or_default(), text(HOST).unwrap_or_default());
            let host_of = origin.strip_prefix("https://").or_else(|| {
                // An origin with plain HTTP is accepted only if this server itself uses plain HTTP.
                origin.strip_prefix("http://").filter(|_| self.local)
            });
            return host_of
                .is_some_and(|name| self.plain(name).eq_ignore_ascii_case(self.plain(host)));
        }
        match site {
            Some("same-origin" | "none") => true,
            // The request comes from another site, such as from a link there. It may only read, and only without a
            // cookie.
            Some(_) => safe && !by_cookie,
            // The client is not a browser, or it is an old browser, which sends `Origin` with every request that
            // changes data.
            None => true,
        }
    }

    /// Reads and checks the credential of a request: the bearer token, or the cookie if the request has no token.
    fn credential(&self, headers: &HeaderMap, path: &str, now: u64) -> Credential {
        let Some(token) = &self.token else { return Credential::NotRequired };
        if let Some(value) = headers.get(AUTHORIZATION) {
            let value = value.to_str().unwrap_or_default();
            let (scheme, sent) = value.split_once(' ').unwrap_or((value, ""));
            let sent = sent.trim();
            if !scheme.eq_ignore_ascii_case("bearer") {
                return Credential::Invalid;
            }
            if same(sent, &token.0) {
                return Credential::Owner;
            }
            let scoped =
                mcp::scope(path).and_then(|scope| self.tokens.as_ref()?.check(sent, scope));
            // An invalid token is refused even if the request has a valid cookie.
            return scoped.map_or(Credential::Invalid, Credential::Scoped);
        }
        let name = self.cookie_name();
        let cookies = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = cookies.flat_map(|line| line.split(';')).filter_map(|one| one.split_once('='));
        let mut own = pairs.filter(|(key, _)| key.trim() == name);
        let issued = own.find_map(|(_, value)| token.issued(value.trim(), now));
        issued.map_or(Credential::Missing, Credential::Cookie)
    }
}

/// Current time, in seconds since 1970.
fn seconds() -> u64 {
    unix_millis() / 1000
}

/// Result of checking the credential of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Credential {
    NotRequired,
    Owner,
    /// The request has a valid scoped token with this id.
    Scoped(String),
    /// The request has a valid cookie that was issued at this time, in seconds since 1970.
    Cookie(u64),
    Missing,
    Invalid,
}

/// Sender of a request: `owner`, or the id of the scoped token that the request was sent with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller(pub(crate) String);

impl Caller {
    /// Name of the caller if the request has the owner's token or cookie, or if authentication is disabled.
    const OWNER: &'static str = "owner";

    fn of(credential: &Credential) -> Caller {
        Caller(match credential {
            Credential::Scoped(id) => id.clone(),
            _ => Caller::OWNER.to_owned(),
        })
    }
}

/// Whether requests to a path need no authentication.
fn is_open(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/enter" | "/assets/plain.css" | "/icon.svg")
}

/// Middleware that authenticates every request before any other handling.
pub(crate) async fn check(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let guard = &app.guard;
    let (headers, path) = (request.headers(), request.uri().path());
    // Health checks may use any host name, because their responses contain nothing confidential.
    let is_health_check = matches!(path, "/healthz" | "/readyz");
    if !is_health_check && !guard.knows_host(headers) {
        let detail = "the `Host` header does not name this server";
        let hint = "if the name is correct, start the server with `assize serve --host NAME`";
        return Problem::new(StatusCode::MISDIRECTED_REQUEST, detail).hint(hint).into_response();
    }
    let now = seconds();
    let credential = guard.credential(headers, path, now);
    // If authentication is disabled, a browser needs no cookie. Its requests are then checked like requests with a
    // cookie.
    let ambient = matches!(credential, Credential::Cookie(_) | Credential::NotRequired);
    if !guard.trusts_origin(request.method(), headers, ambient) {
        let detail = "refused cross-origin request: it was sent by a page of another server";
        return Problem::new(StatusCode::FORBIDDEN, detail).into_response();
    }
    if !is_open(path) && matches!(credential, Credential::Missing | Credential::Invalid) {
        let detail = match credential {
            Credential::Invalid => "the token is invalid, expired, or not valid for this path",
            _ => "the request has neither a token nor a valid cookie",
        };
        let problem = Problem::new(StatusCode::UNAUTHORIZED, detail);
        if pages::is_for_people(path, headers) {
            let text = "<p>This server requires authentication. Open the link that <code>assize serve</code> printed \
                        when it was started; it works once. To get another link, restart the server or send \
                        <code>POST /api/links</code>.</p>";
            let page = pages::page("Sign in required", text);
            return (StatusCode::UNAUTHORIZED, page).into_response();
        }
        let hint =
            "open the link that `assize serve` printed, or send `Authorization: Bearer TOKEN`";
        let mut response = problem.hint(hint).into_response();
        let how = HeaderValue::from_static("Bearer realm=\"assize\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, how);
        return response;
    }
    let renewed = match credential {
        Credential::Cookie(issued) => guard.renewed(issued, now),
        _ => None,
    };
    request.extensions_mut().insert(Caller::of(&credential));
    let mut response = next.run(request).await;
    if let Some(cookie) = renewed {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn guard(local: bool, listening: &str, names: &[&str]) -> AccessGuard {
        guard_in(std::path::Path::new("/nonexistent"), local, listening, names)
    }

    fn guard_in(
        folder: &std::path::Path,
        local: bool,
        listening: &str,
        names: &[&str],
    ) -> AccessGuard {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let token = Token::chosen(&"t".repeat(32)).unwrap();
        let tokens = ScopedTokens::new(token, &folder.join("serve.token"));
        AccessGuard::new(Some(tokens), local, &names, listening.parse().unwrap())
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn requests_with_an_unknown_host_name_are_refused() {
        let local = guard(true, "127.0.0.1:8080", &[]);
        for (host, known) in [
            ("127.0.0.1:8080", true),
            ("localhost:8080", true),
            ("LOCALHOST:8080", true),
            ("[::1]:8080", true),
            ("localhost", false),
            ("localhost:80", false),
            ("evil.example:8080", false),
            ("localhost.evil.example:8080", false),
            ("127.0.0.1:8080.evil.example", false),
            ("", false),
        ] {
            assert_eq!(local.knows_host(&headers(&[("host", host)])), known, "{host}");
        }
        assert!(!local.knows_host(&HeaderMap::new()));
        let mut two = headers(&[("host", "localhost:8080")]);
        two.append("host", "evil.example".parse().unwrap());
        assert!(!local.knows_host(&two));
        let proxied = guard(false, "0.0.0.0:9000", &["assize.example", "other.example:444"]);
        for (host, known) in [
            ("assize.example", true),
            ("assize.example:9000", true),
            ("other.example:444", true),
            ("0.0.0.0:9000", false),
            ("evil.example", false),
        ] {
            assert_eq!(proxied.knows_host(&headers(&[("host", host)])), known, "{host}");
        }
    }

    #[test]
    fn cross_origin_requests_are_not_trusted() {
        let local = guard(true, "127.0.0.1:8080", &[]);
        let host = ("host", "localhost:8080");
        let trusts = |method: &Method, more: &[(&'static str, &str)], by_cookie: bool| {
            let mut all = vec![host];
            all.extend_from_slice(more);
            local.trusts_origin(method, &headers(&all), by_cookie)
        };
        for by_cookie in [true, false] {
            assert!(trusts(&Method::POST, &[("origin", "http://localhost:8080")], by_cookie));
            assert!(trusts(&Method::POST, &[], by_cookie));
            for origin in [
                "http://evil.example",
                "http://localhost:8081",
                "http://127.0.0.1:8080",
                "null",
                "ftp://localhost:8080",
                "http://localhost:8080.evil.example",
            ] {
                assert!(!trusts(&Method::POST, &[("origin", origin)], by_cookie), "{origin}");
                assert!(!trusts(&Method::GET, &[("origin", origin)], by_cookie), "{origin}");
            }
        }
        assert!(!trusts(&Method::GET, &[("sec-fetch-site", "cross-site")], true));
        assert!(!trusts(&Method::GET, &[("sec-fetch-site", "same-site")], true));
        assert!(trusts(&Method::GET, &[("sec-fetch-site", "none")], true));
        assert!(!trusts(&Method::POST, &[("sec-fetch-site", "cross-site")], false));
        assert!(trusts(&Method::GET, &[("sec-fetch-site", "cross-site")], false));
    }

    #[test]
    fn sign_in_link_works_once_and_its_cookie_does_not_contain_the_token() {
        let guard = guard(false, "127.0.0.1:8080", &[]);
        let ticket = guard.ticket().unwrap();
        let cookie = guard.exchange_ticket(&ticket).unwrap();
        let cookie = cookie.to_str().unwrap();
        assert!(guard.exchange_ticket(&ticket).is_none());
        assert!(guard.exchange_ticket("").is_none());
        assert!(!cookie.contains(&"t".repeat(32)), "{cookie}");
        for part in ["HttpOnly", "SameSite=Strict", "Secure", "Path=/"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        let pair = cookie.split(';').next().unwrap();
        let now = seconds();
        let credential =
            |pairs: &[(&'static str, &str)]| guard.credential(&headers(pairs), "/api/runs", now);
        assert!(matches!(credential(&[("cookie", pair)]), Credential::Cookie(_)));
        let beside = format!("a=b; {pair}; c=d");
        assert!(matches!(credential(&[("cookie", &beside)]), Credential::Cookie(_)));
        let other = pair.replacen("assize-8080", "assize-8081", 1);
        assert_eq!(credential(&[("cookie", &other)]), Credential::Missing);
        let token = format!("Bearer {}", "t".repeat(32));
        assert_eq!(credential(&[("authorization", &token)]), Credential::Owner);
        let wrong = [("authorization", "Bearer wrong"), ("cookie", pair)];
        assert_eq!(credential(&wrong), Credential::Invalid);
        assert_eq!(credential(&[]), Credential::Missing);
    }

    #[test]
    fn cookie_expires_after_30_days_and_is_renewed_by_a_request_after_one_day() {
        let guard = guard(true, "127.0.0.1:8080", &[]);
        let day = 24 * 60 * 60;
        let cookie = guard.cookie(guard.token.as_ref().unwrap(), NOW).unwrap();
        let cookie = cookie.to_str().unwrap();
        assert!(cookie.contains("; Max-Age=2592000;"), "{cookie}");
        let pair = headers(&[("cookie", cookie.split(';').next().unwrap())]);
        assert_eq!(guard.credential(&pair, "/", NOW + 30 * day - 1), Credential::Cookie(NOW));
        assert_eq!(guard.credential(&pair, "/", NOW + 30 * day), Credential::Missing);
        assert_eq!(guard.credential(&pair, "/", NOW - 1), Credential::Missing);
        assert!(guard.renewed(NOW, NOW + day - 1).is_none());
        let renewed = guard.renewed(NOW, NOW + 29 * day).unwrap();
        let pair = headers(&[("cookie", renewed.to_str().unwrap().split(';').next().unwrap())]);
        assert_eq!(
            guard.credential(&pair, "/", NOW + 58 * day),
            Credential::Cookie(NOW + 29 * day)
        );
        // The issue time cannot be forged without the token.
        let forged = cookie.replacen(&NOW.to_string(), &(NOW + 40 * day).to_string(), 1);
        let forged = headers(&[("cookie", forged.split(';').next().unwrap())]);
        assert_eq!(guard.credential(&forged, "/", NOW + 41 * day), Credential::Missing);
    }

    #[test]
    fn scoped_token_grants_access_to_its_mcp_endpoint_only() {
        let folder = tempfile::tempdir().unwrap();
        let guard = guard_in(folder.path(), true, "127.0.0.1:8080", &[]);
        let day = Duration::from_secs(24 * 60 * 60);
        let (info, text) = guard.tokens().unwrap().create("drafts/mine", day).unwrap();
        let sent = headers(&[("authorization", &format!("Bearer {text}"))]);
        assert_eq!(
            guard.credential(&sent, "/mcp/drafts/mine", NOW),
            Credential::Scoped(info.id.clone())
        );
        for other in [
            "/mcp/drafts/yours",
            "/mcp/code",
            "/api/runs",
            "/api/tokens",
            "/mcp/drafts",
            "/",
            "/mcp/drafts/mine/x",
        ] {
            assert_eq!(guard.credential(&sent, other, NOW), Credential::Invalid, "{other}");
        }
        assert!(guard.tokens().unwrap().revoke(&info.id).unwrap());
        assert_eq!(guard.credential(&sent, "/mcp/drafts/mine", NOW), Credential::Invalid);
    }
}
