//! Converts error responses of providers to [`ModelError`]s with a hint for the user.

use std::time::{Duration, SystemTime};

use assize_config::{ApiKey, Provider};
use assize_llm::{ErrorKind, ModelError};
use assize_types::text::{is_invisible, shorten};
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::catalog::Retirement;
use crate::provider::Endpoint;

/// Maximum length in characters of an error message that contains text of a provider. Longer messages are shortened.
const MAX_MESSAGE: usize = 400;

/// Converts an HTTP response with an error status to a [`ModelError`].
pub(crate) fn from_status(
    endpoint: &Endpoint,
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
) -> ModelError {
    let body: Value = serde_json::from_slice(body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()));
    let details = ErrorBody::read(&body);
    // The body may make the error kind more specific, but must not make a status retryable that is not.
    let allowed = |kind: &ErrorKind| match status {
        401 | 404 | 413 => false,
        400 | 403 => !kind.is_retryable(),
        _ => true,
    };
    let kind = details.kind().filter(allowed).unwrap_or_else(|| kind_of_status(status));
    let wait = retry_after(headers, SystemTime::now()).or_else(|| retry_delay(&body));
    let text = Some(details.message).filter(|text| !text.is_empty());
    let text = text.map(|text| format!(": {text}")).unwrap_or_default();
    let message = format!("{} answered {status} ({}){text}", endpoint.provider, describe(kind));
    let mut error = ModelError::new(kind, message);
    error.status = Some(status);
    error.retry_after = wait;
    // With these statuses, a proxy between client and provider timed out. The provider may have finished the call.
    error.may_be_charged |= matches!(status, 408 | 502 | 504 | 524);
    error.hint = hint(kind, endpoint);
    error
}

/// Converts an error that a provider reports inside a stream, or in a response with status 200.
pub(crate) fn from_stream(error: &Value) -> ModelError {
    let details = ErrorBody::read(error);
    let status =
        error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let kind = details
        .kind()
        .or_else(|| status.filter(|code| *code >= 400).map(kind_of_status))
        .unwrap_or(ErrorKind::Server);
    ModelError::new(
        kind,
        format!("the provider reported an error ({}): {}", describe(kind), details.message),
    )
}

/// Content of an error response. All providers send these values, but in different fields.
struct ErrorBody {
    message: String,
    /// Type, code and status of the error as one text in lower case. This text is searched for known error names.
    labels: String,
    /// Whether the error means that one of Google's daily quotas is used up.
    daily_quota: bool,
    /// Whether OpenRouter rejected the call because other calls in flight use up the account's budget.
    in_flight_budget: bool,
}

impl ErrorBody {
    fn read(body: &Value) -> ErrorBody {
        let inner = match body.get("error") {
            Some(inner) => inner,
            None => body,
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let message =
            inner.get("message").and_then(text).or_else(|| text(inner)).unwrap_or_default();
        let labels = ["type", "code", "status"]
            .iter()
            .filter_map(|label| inner.get(label).and_then(Value::as_str))
            .collect::<Vec<_>>()
            .join(" ")
            .to_lowercase();
        let details = inner.get("details").map(Value::to_string).unwrap_or_default();
        let source = inner.pointer("/metadata/limit_source").and_then(Value::as_str);
        ErrorBody {
            message: one_line(&message),
            labels,
            daily_quota: details.contains("PerDay"),
            in_flight_budget: source == Some("openrouter_in_flight_budget"),
        }
    }

    /// The error kind that the response body shows; `None` if only the HTTP status determines the kind.
    fn kind(&self) -> Option<ErrorKind> {
        let label = |words: &[&str]| words.iter().any(|word| self.labels.contains(word));
        let message = self.message.to_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
        let spent = ["insufficient_quota", "spend_limit", "billing", "blocked_api_access"];
        let no_credit = ["credit balance is too low", "reached your specified api usage limits"];
        let too_long = ["prompt is too long", "maximum context length", "context window"];
        // Phrases in the context overflow errors of llama.cpp and of some versions of vLLM.
        let local = ["available context size", "maximum model length", "input token count"];
        Some(match () {
            () if self.in_flight_budget => ErrorKind::RateLimited,
            () if label(&spent) || has(&no_credit) || self.daily_quota => ErrorKind::SpendLimit,
            () if label(&["context_length_exceeded", "exceed_context_size"])
                || has(&too_long)
                || has(&local) =>
            {
                ErrorKind::ContextOverflow
            }
            () if label(&["overloaded"]) => ErrorKind::Overloaded,
            () if label(&["rate_limit"]) => ErrorKind::RateLimited,
            // Google answers an invalid key with status 400.
            () if has(&["api key not valid"]) => ErrorKind::Unauthorized,
            () => return None,
        })
    }
}

fn kind_of_status(status: u16) -> ErrorKind {
    match status {
        401 => ErrorKind::Unauthorized,
        402 => ErrorKind::SpendLimit,
        403 => ErrorKind::Forbidden,
        404 => ErrorKind::NotFound,
        408 => ErrorKind::Server,
        413 => ErrorKind::TooLarge,
        429 => ErrorKind::RateLimited,
        503 | 529 => ErrorKind::Overloaded,
        500..=599 => ErrorKind::Server,
        _ => ErrorKind::BadRequest,
    }
}

fn describe(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::RateLimited => "rate limited",
        ErrorKind::Overloaded => "overloaded",
        ErrorKind::Server => "server error",
        ErrorKind::Unauthorized => "the API key was rejected",
        ErrorKind::Forbidden => "the API key lacks permission",
        ErrorKind::NotFound => "unknown model or address",
        ErrorKind::TooLarge => "the request is too large",
        ErrorKind::SpendLimit => "no credit left, or a spending limit is reached",
        ErrorKind::ContextOverflow => "the prompt is too long for the model",
        _ => "the request was rejected",
    }
}

fn hint(kind: ErrorKind, endpoint: &Endpoint) -> Option<String> {
    let Endpoint { provider, model, base_url, key_source, .. } = endpoint;
    Some(match kind {
        ErrorKind::Unauthorized if endpoint.key.is_none() => {
            format!("set `{key_source}` to your {provider} API key")
        }
        ErrorKind::Unauthorized => {
            format!("check the API key in `{key_source}`; `assize doctor` shows which key is used")
        }
        ErrorKind::Forbidden => {
            format!(
                "check that the API key in `{key_source}` has permission to use the model `{model}`"
            )
        }
        ErrorKind::NotFound if *provider == Provider::Ollama => {
            format!(
                "fetch the model with `ollama pull {model}`, or choose another model with `--model`"
            )
        }
        ErrorKind::NotFound | ErrorKind::BadRequest
            if let Some(retired) = Retirement::of(*provider, model) =>
        {
            let Retirement { on, replacement } = retired;
            format!("{provider} retired `{model}` on {on}: use `--model {replacement}` instead")
        }
        ErrorKind::NotFound => format!(
            "check the model `{model}` (`--model`) and the address `{base_url}` (`{provider}.base_url`)"
        ),
        ErrorKind::SpendLimit => {
            format!("add credit to your {provider} account, or raise its spending limit")
        }
        ErrorKind::ContextOverflow => overflow_hint(endpoint, endpoint.context_window),
        ErrorKind::TooLarge => {
            "shorten the input, or choose a model with a larger context window".to_owned()
        }
        ErrorKind::RateLimited => format!(
            "lower `{provider}.concurrency` or set `{provider}.requests_per_minute` to your account's limit"
        ),
        ErrorKind::BadRequest => {
            format!(
                "if `{model}` does not support this request, choose another model with `--model`"
            )
        }
        _ => return None,
    })
}

/// Hint for a prompt that is too long for the model's context window.
pub(crate) fn overflow_hint(endpoint: &Endpoint, window: Option<u64>) -> String {
    let provider = endpoint.provider;
    let has = window
        .map(|window| format!("the context window has {window} tokens; "))
        .unwrap_or_default();
    let more = match provider {
        _ if !endpoint.is_local_server() => {
            let other = "choose a model with a larger context window";
            return match window {
                None => format!("shorten the input, or {other}"),
                Some(_) => format!(
                    "{has}shorten the input, {other}, or set `{provider}.context_window` if the model's window is \
                     larger"
                ),
            };
        }
        Provider::Ollama => {
            "set `ollama.context_window` to a larger size that the model and your memory allow"
        }
        _ => {
            "start the server with a larger window (llama.cpp: `--ctx-size`, vLLM: `--max-model-len`) and set \
             `openai.context_window` if the server does not report its window"
        }
    };
    format!("{has}shorten the input, or {more}")
}

/// Delay that the header `retry-after-ms` (in milliseconds) or `retry-after` (in seconds, or as a date) requests.
///
/// A date is compared with the server's `date` header if there is one, because the local clock may be wrong.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let header =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(ms) = header("retry-after-ms").and_then(|ms| ms.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(ms / 1000.0).ok();
    }
    let value = header("retry-after")?;
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = httpdate::parse_http_date(value).ok()?;
    let now = header("date").and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or(now);
    Some(until.duration_since(now).unwrap_or_default())
}

/// Delay that Google requests in the `RetryInfo` of an error response.
fn retry_delay(body: &Value) -> Option<Duration> {
    let details = body.pointer("/error/details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

/// Converts a message to one line without control characters and invisible characters.
pub(crate) fn one_line(message: &str) -> String {
    let seen = message.chars().filter(|c| !is_invisible(*c));
    let seen = seen.map(|c| if c.is_control() { ' ' } else { c });
    seen.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Removes the API key from a message and then shortens the message. The order matters, because a truncated key would
/// not be recognized.
pub(crate) fn redact_and_shorten(message: &str, key: Option<&ApiKey>) -> String {
    let line = key.map_or_else(|| message.to_owned(), |key| key.scrub(message));
    shorten(&line, MAX_MESSAGE)
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn retry_after_header_is_parsed_in_every_format() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let wait = |pairs: &[_]| retry_after(&headers(pairs), now).map(|wait| wait.as_millis());
        assert_eq!(wait(&[("retry-after", "7")]), Some(7000));
        assert_eq!(wait(&[("retry-after", "0.5")]), Some(500));
        assert_eq!(wait(&[("retry-after-ms", "120"), ("retry-after", "9")]), Some(120));
        assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:49:57 GMT")]), Some(20_000));
        assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), Some(0));
        let by_server = [
            ("date", "Sun, 06 Nov 1994 10:00:00 GMT"),
            ("retry-after", "Sun, 06 Nov 1994 10:00:03 GMT"),
        ];
        assert_eq!(wait(&by_server), Some(3000));
        for useless in ["-5", "soon", "", "1e99", "NaN"] {
            assert_eq!(wait(&[("retry-after", useless)]), None, "{useless}");
        }
    }

    #[test]
    fn spend_limits_are_distinguished_from_rate_limits() {
        let spent = [
            (
                429,
                json!({"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}}),
            ),
            (429, json!({"error": {"message": "x", "code": "project_spend_limit_exceeded"}})),
            (
                400,
                json!({"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access the Anthropic API."}}),
            ),
            (402, json!({"error": {"message": "This request requires more credits", "code": 402}})),
            (400, json!({"error": {"message": "x", "code": "blocked_api_access"}})),
            (
                429,
                json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "x", "details": [{"violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}]}]}}),
            ),
        ];
        let endpoint = Endpoint::new(Provider::OpenAi);
        for (status, body) in spent {
            let body = body.to_string();
            let error = from_status(&endpoint, status, &HeaderMap::new(), body.as_bytes());
            assert_eq!(error.kind(), ErrorKind::SpendLimit, "{body}");
            assert!(!error.kind().is_retryable());
        }
        let busy = json!({"error": {"code": 402, "message": "x", "metadata": {"limit_source": "openrouter_in_flight_budget"}}});
        let error = from_status(&endpoint, 402, &HeaderMap::new(), busy.to_string().as_bytes());
        assert_eq!(error.kind(), ErrorKind::RateLimited);
    }

    #[test]
    fn status_413_is_reported_as_too_large_even_if_the_body_mentions_rate_limits() {
        let body = json!({"error": {"message": "Request too large for model", "type": "tokens", "code": "rate_limit_exceeded"}});
        let endpoint = Endpoint::new(Provider::Groq);
        let error = from_status(&endpoint, 413, &HeaderMap::new(), body.to_string().as_bytes());
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        for status in [400, 403] {
            let error =
                from_status(&endpoint, status, &HeaderMap::new(), body.to_string().as_bytes());
            assert!(!error.kind().is_retryable(), "{status}");
        }
    }

    #[test]
    fn google_retry_delay_is_read_from_the_body() {
        let body = json!({"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED",
            "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "45s"}]}});
        let error = from_status(
            &Endpoint::new(Provider::Google),
            429,
            &HeaderMap::new(),
            body.to_string().as_bytes(),
        );
        assert_eq!(
            (error.kind(), error.retry_after),
            (ErrorKind::RateLimited, Some(Duration::from_secs(45)))
        );
    }

    #[test]
    fn provider_message_becomes_one_short_line_without_the_key() {
        let long = format!("bad\nthing\u{1b}[31m {}", "x".repeat(1000));
        let tidied = redact_and_shorten(&one_line(&long), None);
        assert!(tidied.starts_with("bad thing [31m xxx") && tidied.ends_with('…'));
        assert!(tidied.chars().count() <= MAX_MESSAGE + 1);
        // The key is removed even if shortening would truncate it, or an invisible character splits it.
        let key = ApiKey::new("sk-0123456789abcdef");
        for echo in [
            format!("{} sk-0123456789abcdef", "x".repeat(MAX_MESSAGE - 10)),
            "sk-01234\u{200b}56789abcdef".to_owned(),
        ] {
            assert!(!redact_and_shorten(&one_line(&echo), Some(&key)).contains("0123"), "{echo}");
        }
    }
}
