//! Reads the remaining rate limits from the response headers of providers.
//!
//! Only the *remaining amount* and the *reset time* are used, because they have the same meaning for all providers. The
//! total limits are not used, because they are per minute for one provider and per day for another.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use tokio::time::Instant;

use crate::rate_limiter::RemainingLimits;

const MAX_WAIT: Duration = Duration::from_secs(3600);

pub(crate) fn read(headers: &HeaderMap) -> RemainingLimits {
    let now = SystemTime::now();
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let pair = |remaining: &str, reset: &str| {
        let left: u64 = header(remaining)?.trim().parse().ok()?;
        // Calls never wait longer than `MAX_WAIT` for a reset.
        let wait = until(header(reset)?.trim(), now)?.min(MAX_WAIT);
        Some((left, Instant::now() + wait))
    };
    let of = |what: &str| {
        pair(&format!("x-ratelimit-remaining-{what}"), &format!("x-ratelimit-reset-{what}"))
            .or_else(|| {
                let own = format!("anthropic-ratelimit-{what}");
                pair(&format!("{own}-remaining"), &format!("{own}-reset"))
            })
    };
    let any = || pair("x-ratelimit-remaining", "x-ratelimit-reset");
    RemainingLimits { requests: of("requests").or_else(any), tokens: of("tokens") }
}

/// Time until a rate limit is reset. `text` is the value of a header: a duration (`6m0s`, `12ms`), an RFC 3339 date, or
/// milliseconds since 1970.
fn until(text: &str, now: SystemTime) -> Option<Duration> {
    let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    if let Ok(ms) = text.parse::<u64>() {
        return Some(Duration::from_millis(ms).saturating_sub(since_epoch));
    }
    duration(text).or_else(|| {
        let seconds = text.parse::<jiff::Timestamp>().ok()?.as_second();
        Some(Duration::from_secs(u64::try_from(seconds).ok()?).saturating_sub(since_epoch))
    })
}

/// Parses a duration in the format of Go, such as `2m59.5s`: numbers with units.
fn duration(text: &str) -> Option<Duration> {
    let mut total = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let unit_end =
            rest[end..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |n| end + n);
        total += number
            * match &rest[end..unit_end] {
                "d" => 86_400.0,
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 0.001,
                "us" | "µs" => 0.000_001,
                _ => return None,
            };
        rest = &rest[unit_end..];
    }
    if text.is_empty() { None } else { Duration::try_from_secs_f64(total).ok() }
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn rate_limit_reset_times_are_parsed_in_every_format() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_755_780_000); // 2025-08-21T12:40:00Z
        let wait = |text: &str| until(text, now).map(|wait| wait.as_millis());
        assert_eq!(wait("6m0s"), Some(360_000));
        assert_eq!(wait("12ms"), Some(12));
        assert_eq!(wait("2m59.56s"), Some(179_560));
        assert_eq!(wait("2025-08-21T12:40:59Z"), Some(59_000));
        assert_eq!(wait("2025-08-21T14:41:00+02:00"), Some(60_000));
        assert_eq!(wait("2025-08-21T12:39:00.250Z"), Some(0));
        assert_eq!(wait("1755780004000"), Some(4000));
        for useless in ["", "soon", "5x", "2025-13-01T00:00:00Z", "2025-08-21"] {
            assert_eq!(wait(useless), None, "{useless}");
        }
    }

    #[test]
    fn rate_limit_headers_of_each_provider_are_read() {
        let read_from = |pairs: &[(&'static str, &'static str)]| {
            let headers: HeaderMap = pairs
                .iter()
                .map(|(name, value)| {
                    (HeaderName::from_static(name), HeaderValue::from_static(value))
                })
                .collect();
            let left = read(&headers);
            (left.requests.map(|left| left.0), left.tokens.map(|left| left.0))
        };
        let openai = [
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ];
        assert_eq!(read_from(&openai), (Some(59), Some(149_984)));
        let anthropic = [
            ("anthropic-ratelimit-requests-remaining", "3"),
            ("anthropic-ratelimit-requests-reset", "2030-01-01T00:00:00Z"),
            ("anthropic-ratelimit-tokens-remaining", "1000"),
            ("anthropic-ratelimit-tokens-reset", "2030-01-01T00:00:00Z"),
        ];
        assert_eq!(read_from(&anthropic), (Some(3), Some(1000)));
        assert_eq!(
            read_from(&[("x-ratelimit-remaining", "7"), ("x-ratelimit-reset", "1755780004000")]),
            (Some(7), None)
        );
        assert_eq!(read_from(&[("x-ratelimit-remaining-requests", "many")]), (None, None));
        let absurd = [
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "9223372036854775807s"),
        ];
        assert_eq!(
            read_from(&absurd),
            (None, Some(0)),
            "a reset time in the distant future is accepted and limited to an hour"
        );
    }
}
