//! From what goes wrong over HTTP to the codes of `session.md` 3.9.
//!
//! The words of the provider are kept for the person, bounded and without the key.

use std::time::{Duration, SystemTime};

use orrery_session::LlmFailure;
use reqwest::header::HeaderMap;
use reqwest::{Response, StatusCode};
use serde_json::Value;

use crate::secret::ApiKey;

/// Bytes of an error's body that are read.
const BODY_MAX: usize = 64 * 1024;
/// Characters of a message that are kept.
const MESSAGE_MAX: usize = 1_000;
/// How long an error's body may take: the status alone says enough.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// The failure that a response with an error status is.
pub(super) async fn from_response(response: Response, key: &ApiKey) -> LlmFailure {
    let status = response.status();
    let headers = response.headers().clone();
    let body = tokio::time::timeout(BODY_TIMEOUT, beginning(response))
        .await
        .unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    let (words, said) = if value.is_object() {
        words(&value)
    } else {
        (text.to_lowercase(), text.trim().to_owned())
    };
    let reason = status.canonical_reason().unwrap_or("an unknown status");
    let said = match said.as_str() {
        "" => format!("the provider answered {} {reason}", status.as_u16()),
        said => format!("the provider answered {}: {said}", status.as_u16()),
    };
    let mut failure = LlmFailure::new(code(status, &words), bounded(&key.scrub(&said)));
    failure.status = Some(status.as_u16());
    failure.provider_retry_after_ms = retry_after(&headers, SystemTime::now());
    failure.request_id = request_id(&headers);
    failure
}

/// The failure that an error object inside a stream, or in the place of an answer, is.
pub(super) fn from_error_value(error: &Value, key: &ApiKey) -> LlmFailure {
    let (words, said) = words(error);
    let said = if said.is_empty() {
        "the provider reported an error without a message".to_owned()
    } else {
        format!("the provider reported: {said}")
    };
    let status = ["code", "status"].iter().find_map(|field| {
        let number = error.get(field)?;
        let text = number.as_str().map(str::to_owned);
        let text = text.unwrap_or_else(|| number.to_string());
        StatusCode::from_bytes(text.as_bytes()).ok()
    });
    let code = match status {
        Some(status) => code(status, &words),
        None => by_words(&words).unwrap_or("SERVER"),
    };
    let mut failure = LlmFailure::new(code, bounded(&key.scrub(&said)));
    failure.status = status.map(|status| status.as_u16());
    failure
}

/// The failure that no answer at all is.
pub(super) fn from_transport(error: reqwest::Error) -> LlmFailure {
    let code = if error.is_timeout() {
        "TIMEOUT"
    } else {
        "TRANSPORT"
    };
    // The address may hold a password, and says nothing new.
    let error = error.without_url();
    let mut message = format!("the provider cannot be reached: {error}");
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        message.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    LlmFailure::new(code, bounded(&message))
}

/// The failure that a connection is which breaks in the middle of an answer.
pub(super) fn cut() -> LlmFailure {
    let message = "the connection closed before the answer was complete";
    LlmFailure::new("STREAM_CLOSED", message)
}

/// The failure that silence is.
pub(super) fn silent(after: Duration) -> LlmFailure {
    let message = format!(
        "the provider sent nothing for {} seconds",
        after.as_secs_f64()
    );
    LlmFailure::new("TIMEOUT", message)
}

/// The first bytes of a body; what was read when it breaks.
async fn beginning(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await {
        let room = BODY_MAX.saturating_sub(body.len());
        body.extend(bytes.iter().take(room));
        if body.len() >= BODY_MAX {
            break;
        }
    }
    body
}

/// The words to decide by, in lower case, and the message for a person.
fn words(value: &Value) -> (String, String) {
    let error = value.get("error").unwrap_or(value);
    let text = |field: &str| {
        let text = error.get(field).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let said = match error.as_str() {
        Some(text) => text.to_owned(),
        None => ["message", "detail", "msg"]
            .into_iter()
            .map(text)
            .find(|text| !text.is_empty())
            .unwrap_or_default(),
    };
    let words = [&said, &text("type"), &text("code")].map(|text| text.to_lowercase());
    (words.join(" "), said)
}

fn code(status: StatusCode, words: &str) -> &'static str {
    match status.as_u16() {
        401 => "INVALID_CREDENTIAL",
        402 => "QUOTA",
        403 => "AUTH",
        404 => "INVALID_MODEL",
        408 | 504 => "TIMEOUT",
        413 => "CONTEXT_WINDOW_EXCEEDED",
        429 if is_quota(words) => "QUOTA",
        429 => "RATE_LIMIT",
        500..=599 => "SERVER",
        _ => by_words(words).unwrap_or("UNKNOWN"),
    }
}

fn by_words(words: &str) -> Option<&'static str> {
    let says = |any: &[&str]| any.iter().any(|part| words.contains(part));
    let context = [
        "context length",
        "context_length",
        "context window",
        "maximum context",
        "too many tokens",
        "prompt is too long",
        "input is too long",
        "maximum prompt length",
        "request too large",
        "exceeds the maximum number of tokens",
        "context size",
    ];
    let model = [
        "model_not_found",
        "model not found",
        "model not exist",
        "unknown model",
        "invalid model",
    ];
    let credential = [
        "invalid api key",
        "invalid_api_key",
        "incorrect api key",
        "authentication",
    ];
    Some(if says(&context) {
        "CONTEXT_WINDOW_EXCEEDED"
    } else if is_quota(words) {
        "QUOTA"
    } else if says(&["rate limit", "rate_limit", "too many requests"]) {
        "RATE_LIMIT"
    } else if says(&model) {
        "INVALID_MODEL"
    } else if says(&credential) {
        "INVALID_CREDENTIAL"
    } else if says(&[
        "overloaded",
        "server_error",
        "internal error",
        "unavailable",
    ]) {
        "SERVER"
    } else {
        return None;
    })
}

fn is_quota(words: &str) -> bool {
    let parts = [
        "insufficient_quota",
        "insufficient balance",
        "exceeded your current quota",
        "billing",
    ];
    parts.iter().any(|part| words.contains(part))
}

fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let exact = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok());
    let wait = match exact {
        Some(ms) => Duration::try_from_secs_f64(ms / 1_000.0).ok()?,
        None => {
            let text = text("retry-after")?;
            match text.parse::<f64>() {
                Ok(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
                Err(_not_a_number) => {
                    let date = httpdate::parse_http_date(text).ok()?;
                    date.duration_since(now).ok()?
                }
            }
        }
    };
    u64::try_from(wait.as_millis()).ok().filter(|ms| *ms > 0)
}

fn request_id(headers: &HeaderMap) -> Option<String> {
    let names = ["x-request-id", "request-id", "x-ds-trace-id"];
    let found = names
        .iter()
        .find_map(|name| headers.get(*name)?.to_str().ok());
    found.filter(|id| !id.is_empty()).map(str::to_owned)
}

fn bounded(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_MAX) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", text.split_at(at).0),
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;
    use serde_json::json;

    use super::*;

    #[test]
    fn words_decide_where_the_status_does_not() {
        let bad = StatusCode::BAD_REQUEST;
        assert_eq!(
            code(bad, "this model's maximum context length is 8192 tokens"),
            "CONTEXT_WINDOW_EXCEEDED"
        );
        assert_eq!(code(bad, "messages must be paired"), "UNKNOWN");
        assert_eq!(
            code(StatusCode::TOO_MANY_REQUESTS, "insufficient_quota"),
            "QUOTA"
        );
        let error = json!({"message": "Overloaded", "type": "overloaded_error"});
        assert_eq!(from_error_value(&error, &ApiKey::NotNeeded).code, "SERVER");
        let error = json!({"message": "slow down", "code": 429});
        let failure = from_error_value(&error, &ApiKey::NotNeeded);
        assert_eq!(
            (failure.code.as_str(), failure.status),
            ("RATE_LIMIT", Some(429))
        );
    }

    #[test]
    fn retry_after_is_read_as_seconds_milliseconds_and_dates() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let wait = |name: &'static str, value: &'static str| {
            let headers = HeaderMap::from_iter([(
                reqwest::header::HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )]);
            retry_after(&headers, now)
        };
        assert_eq!(wait("retry-after", "1.5"), Some(1_500));
        assert_eq!(wait("retry-after-ms", "20"), Some(20));
        assert_eq!(
            wait("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT"),
            Some(10_000)
        );
        assert_eq!(wait("retry-after", "0"), None);
        assert_eq!(wait("retry-after", "soon"), None);
        assert_eq!(wait("retry-after", "-1"), None);
    }
}
