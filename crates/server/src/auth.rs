//! Who may come in: those who call us by our name, from our own pages, with the token.
//!
//! The token opens everything. A program sends it with every request. A person follows a link that works once, and gets
//! a cookie made of it, so that the token itself is in no history and no log.

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
use crate::tokens::Tokens;
use crate::{App, mcp, pages};

/// How long a link can be followed.
const LINK_LIVES: Duration = Duration::from_secs(15 * 60);

/// The most links that wait to be followed.
const MOST_LINKS: usize = 100;

/// Seconds that a cookie is valid without being used, and after which use renews it.
const COOKIE_LIFETIME: u64 = 30 * 24 * 60 * 60;
const COOKIE_RENEWAL: u64 = 24 * 60 * 60;

/// What opens the door. It is never shown but where it is asked for.
#[derive(Clone)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Letters that nobody can guess: 256 bits.
pub(crate) fn unguessable() -> std::io::Result<String> {
    use std::io::Read;
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

impl Token {
    /// A new one.
    pub fn random() -> std::io::Result<Token> {
        unguessable().map(Token)
    }

    /// One that somebody chose: long enough not to be guessed, and of letters that fit in a header.
    pub fn chosen(text: &str) -> Option<Token> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~');
        let sound = text.len() >= 32 && text.len() <= 256 && text.chars().all(plain);
        sound.then(|| Token(text.to_owned()))
    }

    /// The token itself, for whoever may have it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Value of a cookie that was issued at a time, in seconds since 1970: that time, and a hash only the owner of the
    /// token can make.
    fn cookie(&self, issued: u64) -> String {
        let hash = Sha256::new().chain_update(format!("assize cookie {issued} "));
        let hash = hash.chain_update(&self.0).finalize();
        format!("{issued}.{}", BASE64_URL_SAFE_NO_PAD.encode(hash))
    }

    /// When a cookie was issued, if it is valid.
    fn issued(&self, cookie: &str, now: u64) -> Option<u64> {
        let issued: u64 = cookie.split_once('.')?.0.parse().ok()?;
        let fresh = issued <= now && now - issued < COOKIE_LIFETIME;
        (fresh && same(cookie, &self.cookie(issued))).then_some(issued)
    }
}

/// Whether two texts are the same, in a time that tells nothing of where they differ.
pub(crate) fn same(one: &str, other: &str) -> bool {
    Sha256::digest(one) == Sha256::digest(other)
}

/// The guard at the door.
#[derive(Debug)]
pub(crate) struct Guard {
    /// None, if everybody on this machine may come in.
    token: Option<Token>,
    /// Scoped tokens, where there is a token.
    tokens: Option<Tokens>,
    /// Whether everything stays on this machine, in clear.
    local: bool,
    /// The names that we answer to, with and without a port.
    hosts: Vec<String>,
    port: u16,
    links: Mutex<BTreeMap<String, Instant>>,
}

impl Guard {
    pub(crate) fn new(
        tokens: Option<Tokens>,
        local: bool,
        names: &[String],
        listening: SocketAddr,
    ) -> Guard {
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
            // Whoever stands before us has a port of its own, and the usual one is not said.
            if !local || [80, 443].contains(&port) {
                hosts.push(name.clone());
            }
            hosts.push(if name.rsplit(']').next().is_some_and(|rest| rest.contains(':')) {
                name
            } else {
                format!("{name}:{port}")
            });
        }
        Guard { token, tokens, local, hosts, port, links: Mutex::default() }
    }

    /// The path with a ticket that lets somebody in once.
    pub(crate) fn link(&self) -> std::io::Result<String> {
        self.ticket().map(|ticket| format!("/enter?ticket={ticket}"))
    }

    fn ticket(&self) -> std::io::Result<String> {
        let ticket = unguessable()?;
        let mut links = self.links.lock();
        links.retain(|_, made| made.elapsed() < LINK_LIVES);
        while links.len() >= MOST_LINKS {
            let oldest =
                links.iter().min_by_key(|(_, made)| **made).map(|(ticket, _)| ticket.clone());
            oldest.and_then(|oldest| links.remove(&oldest));
        }
        links.insert(ticket.clone(), Instant::now());
        Ok(ticket)
    }

    /// The cookie for somebody with a ticket, which is then used up.
    pub(crate) fn admit(&self, ticket: &str) -> Option<HeaderValue> {
        let made = self.links.lock().remove(ticket)?;
        let token = self.token.as_ref().filter(|_| made.elapsed() < LINK_LIVES)?;
        self.cookie(token, seconds())
    }

    /// A cookie that is issued now.
    fn cookie(&self, token: &Token, now: u64) -> Option<HeaderValue> {
        let secure = if self.local { "" } else { "; Secure" };
        let (name, value) = (self.cookie_name(), token.cookie(now));
        let cookie = format!(
            "{name}={value}; Path=/; Max-Age={COOKIE_LIFETIME}; HttpOnly; SameSite=Strict{secure}"
        );
        HeaderValue::from_str(&cookie).ok()
    }

    /// A new cookie for a browser whose own was issued a while ago.
    fn renewed(&self, issued: u64, now: u64) -> Option<HeaderValue> {
        let token = self.token.as_ref().filter(|_| now.saturating_sub(issued) >= COOKIE_RENEWAL)?;
        self.cookie(token, now)
    }

    /// Browsers keep cookies by name of the machine and not by port: another server here has its own.
    fn cookie_name(&self) -> String {
        format!("assize-{}", self.port)
    }

    /// Scoped tokens; none where no token is asked for.
    pub(crate) fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref()
    }

    /// A name without the port that goes without saying.
    fn plain<'a>(&self, host: &'a str) -> &'a str {
        host.strip_suffix(":443").filter(|_| !self.local).unwrap_or(host)
    }

    /// Whether we are called by a name of ours: a page elsewhere that has its own name point to us cannot.
    fn knows_host(&self, headers: &HeaderMap) -> bool {
        let mut all = headers.get_all(HOST).iter();
        let host = all.next().and_then(|host| host.to_str().ok()).filter(|_| all.next().is_none());
        let host = host.map(|host| self.plain(host));
        host.is_some_and(|host| self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host)))
    }

    /// Whether a request comes from a page of ours, or from no page.
    fn trusts_origin(&self, method: &Method, headers: &HeaderMap, by_cookie: bool) -> bool {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let site = headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
        let safe = matches!(*method, Method::GET | Method::HEAD);
        if headers.contains_key(ORIGIN) {
            let (origin, host) = (text(ORIGIN).unwrap_or_default(), text(HOST).unwrap_or_default());
            let host_of = origin.strip_prefix("https://").or_else(|| {
                // In clear only where we speak so ourselves.
                origin.strip_prefix("http://").filter(|_| self.local)
            });
            return host_of
                .is_some_and(|name| self.plain(name).eq_ignore_ascii_case(self.plain(host)));
        }
        match site {
            Some("same-origin" | "none") => true,
            // Followed from elsewhere, it comes without the cookie, and only looks.
            Some(_) => safe && !by_cookie,
            // No browser: those that know no such header send an origin with whatever changes something.
            None => true,
        }
    }

    /// How somebody shows that they may come in.
    fn shown(&self, headers: &HeaderMap, path: &str, now: u64) -> Shown {
        let Some(token) = &self.token else { return Shown::NotAsked };
        if let Some(value) = headers.get(AUTHORIZATION) {
            let value = value.to_str().unwrap_or_default();
            let (scheme, sent) = value.split_once(' ').unwrap_or((value, ""));
            let sent = sent.trim();
            if !scheme.eq_ignore_ascii_case("bearer") {
                return Shown::Wrong;
            }
            if same(sent, &token.0) {
                return Shown::Token;
            }
            let scoped =
                mcp::scope(path).and_then(|scope| self.tokens.as_ref()?.check(sent, scope));
            // Whoever sends a wrong one is not let in by another way.
            return scoped.map_or(Shown::Wrong, Shown::Scoped);
        }
        let name = self.cookie_name();
        let cookies = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs = cookies.flat_map(|line| line.split(';')).filter_map(|one| one.split_once('='));
        let mut own = pairs.filter(|(key, _)| key.trim() == name);
        let issued = own.find_map(|(_, value)| token.issued(value.trim(), now));
        issued.map_or(Shown::Nothing, Shown::Cookie)
    }
}

/// Seconds since 1970.
fn seconds() -> u64 {
    unix_millis() / 1000
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Shown {
    NotAsked,
    Token,
    /// A scoped token, by its id.
    Scoped(String),
    /// A cookie that was issued at this time.
    Cookie(u64),
    Nothing,
    Wrong,
}

/// Who sent a request: the owner of the server, or the holder of a scoped token, by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller(pub(crate) String);

impl Caller {
    /// Everyone who may use all of the server.
    const OWNER: &'static str = "owner";

    fn of(shown: &Shown) -> Caller {
        Caller(match shown {
            Shown::Scoped(id) => id.clone(),
            _ => Caller::OWNER.to_owned(),
        })
    }
}

/// What everybody may see, by its path.
fn is_open(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/enter" | "/assets/plain.css" | "/icon.svg")
}

/// Looks at every request before anything else does.
pub(crate) async fn check(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let guard = &app.guard;
    let (headers, path) = (request.headers(), request.uri().path());
    // Whoever looks after the machine knows it by any name, and learns nothing.
    let looked_after = matches!(path, "/healthz" | "/readyz");
    if !looked_after && !guard.knows_host(headers) {
        let detail = "the name in the request's Host header is none of this server's";
        let hint = "name it with `assize serve --host NAME` if it is";
        return Problem::new(StatusCode::MISDIRECTED_REQUEST, detail).hint(hint).into_response();
    }
    let now = seconds();
    let shown = guard.shown(headers, path, now);
    // Where nobody is asked for anything, a browser needs no cookie to be let in.
    let by_itself = matches!(shown, Shown::Cookie(_) | Shown::NotAsked);
    if !guard.trusts_origin(request.method(), headers, by_itself) {
        let detail = "the request comes from a page of another server";
        return Problem::new(StatusCode::FORBIDDEN, detail).into_response();
    }
    if !is_open(path) && matches!(shown, Shown::Nothing | Shown::Wrong) {
        let problem = match shown {
            Shown::Wrong => Problem::new(StatusCode::UNAUTHORIZED, "the token is wrong"),
            _ => Problem::new(StatusCode::UNAUTHORIZED, "there is no token"),
        };
        if pages::is_for_people(path, headers) {
            let words = "<p>This server asks everybody to show that they may come in. Follow the link that \
                         <code>assize serve</code> printed where it was started; it works once. Another one is made by \
                         starting it again, or by <code>POST /api/links</code>.</p>";
            let page = pages::page("Who is there?", words);
            return (StatusCode::UNAUTHORIZED, page).into_response();
        }
        let hint =
            "follow the link that `assize serve` printed, or send `Authorization: Bearer TOKEN`";
        let mut response = problem.hint(hint).into_response();
        let how = HeaderValue::from_static("Bearer realm=\"assize\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, how);
        return response;
    }
    let renewed = match shown {
        Shown::Cookie(issued) => guard.renewed(issued, now),
        _ => None,
    };
    request.extensions_mut().insert(Caller::of(&shown));
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

    fn guard(local: bool, listening: &str, names: &[&str]) -> Guard {
        guard_in(std::path::Path::new("/nonexistent"), local, listening, names)
    }

    fn guard_in(folder: &std::path::Path, local: bool, listening: &str, names: &[&str]) -> Guard {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let token = Token::chosen(&"t".repeat(32)).unwrap();
        let tokens = Tokens::new(token, &folder.join("serve.token"));
        Guard::new(Some(tokens), local, &names, listening.parse().unwrap())
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn only_our_own_names_are_answered_to() {
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
    fn pages_of_others_are_not_trusted() {
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
    fn a_link_works_once_and_its_cookie_is_not_the_token() {
        let guard = guard(false, "127.0.0.1:8080", &[]);
        let ticket = guard.ticket().unwrap();
        let cookie = guard.admit(&ticket).unwrap();
        let cookie = cookie.to_str().unwrap();
        assert!(guard.admit(&ticket).is_none());
        assert!(guard.admit("").is_none());
        assert!(!cookie.contains(&"t".repeat(32)), "{cookie}");
        for part in ["HttpOnly", "SameSite=Strict", "Secure", "Path=/"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        let pair = cookie.split(';').next().unwrap();
        let now = seconds();
        let shown = |pairs: &[(&'static str, &str)]| guard.shown(&headers(pairs), "/api/runs", now);
        assert!(matches!(shown(&[("cookie", pair)]), Shown::Cookie(_)));
        let beside = format!("a=b; {pair}; c=d");
        assert!(matches!(shown(&[("cookie", &beside)]), Shown::Cookie(_)));
        let other = pair.replacen("assize-8080", "assize-8081", 1);
        assert_eq!(shown(&[("cookie", &other)]), Shown::Nothing);
        let token = format!("Bearer {}", "t".repeat(32));
        assert_eq!(shown(&[("authorization", &token)]), Shown::Token);
        let wrong = [("authorization", "Bearer wrong"), ("cookie", pair)];
        assert_eq!(shown(&wrong), Shown::Wrong);
        assert_eq!(shown(&[]), Shown::Nothing);
    }

    #[test]
    fn cookies_last_30_days_and_are_renewed_by_use() {
        let guard = guard(true, "127.0.0.1:8080", &[]);
        let day = 24 * 60 * 60;
        let cookie = guard.cookie(guard.token.as_ref().unwrap(), NOW).unwrap();
        let cookie = cookie.to_str().unwrap();
        assert!(cookie.contains("; Max-Age=2592000;"), "{cookie}");
        let pair = headers(&[("cookie", cookie.split(';').next().unwrap())]);
        assert_eq!(guard.shown(&pair, "/", NOW + 30 * day - 1), Shown::Cookie(NOW));
        assert_eq!(guard.shown(&pair, "/", NOW + 30 * day), Shown::Nothing);
        assert_eq!(guard.shown(&pair, "/", NOW - 1), Shown::Nothing);
        assert!(guard.renewed(NOW, NOW + day - 1).is_none());
        let renewed = guard.renewed(NOW, NOW + 29 * day).unwrap();
        let pair = headers(&[("cookie", renewed.to_str().unwrap().split(';').next().unwrap())]);
        assert_eq!(guard.shown(&pair, "/", NOW + 58 * day), Shown::Cookie(NOW + 29 * day));
        // The time cannot be changed without the token.
        let forged = cookie.replacen(&NOW.to_string(), &(NOW + 40 * day).to_string(), 1);
        let forged = headers(&[("cookie", forged.split(';').next().unwrap())]);
        assert_eq!(guard.shown(&forged, "/", NOW + 41 * day), Shown::Nothing);
    }

    #[test]
    fn scoped_token_opens_its_tools_alone() {
        let folder = tempfile::tempdir().unwrap();
        let guard = guard_in(folder.path(), true, "127.0.0.1:8080", &[]);
        let day = Duration::from_secs(24 * 60 * 60);
        let (info, text) = guard.tokens().unwrap().create("drafts/mine", day).unwrap();
        let sent = headers(&[("authorization", &format!("Bearer {text}"))]);
        assert_eq!(guard.shown(&sent, "/mcp/drafts/mine", NOW), Shown::Scoped(info.id.clone()));
        for other in [
            "/mcp/drafts/yours",
            "/mcp/code",
            "/api/runs",
            "/api/tokens",
            "/mcp/drafts",
            "/",
            "/mcp/drafts/mine/x",
        ] {
            assert_eq!(guard.shown(&sent, other, NOW), Shown::Wrong, "{other}");
        }
        assert!(guard.tokens().unwrap().revoke(&info.id).unwrap());
        assert_eq!(guard.shown(&sent, "/mcp/drafts/mine", NOW), Shown::Wrong);
    }
}
