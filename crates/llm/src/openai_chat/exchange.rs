//! One HTTP request and its answer.
//!
//! Owns time and the connection: the watchdog for silence, the end by cancellation (the connection
//! is dropped at once), how a stream that breaks is told from one that ends.

use std::time::Duration;

use orrery_session::{FinishReason, LlmFailure};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use reqwest::{Client, Response};
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::decoder::{Decoder, Flow};
use super::failure;
use crate::driven::{Emitter, aborted};
use crate::secret::ApiKey;
use crate::sse::{SseEvent, SseParser};

/// How long a complete answer is waited on for its usage and its end.
const TAIL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the end of the body may take after `[DONE]`, so that the connection can be used again.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(50);
/// Bytes of a stream: many times the longest answer, and an end to one that never ends.
const STREAM_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Bytes of an answer that is not streamed.
const WHOLE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Everything that one request takes.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) client: Client,
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
    pub(super) key: ApiKey,
    pub(super) idle_timeout: Duration,
}

/// Makes the request and hands over the chunks; returns how the stream ends.
pub(super) async fn run(
    call: Result<Call, LlmFailure>,
    emitter: &Emitter,
    cancel: CancellationToken,
) -> FinishReason {
    let work = async {
        match call {
            Ok(call) => exchange(call, emitter).await,
            Err(failure) => Err(failure),
        }
    };
    tokio::select! {
        biased;
        () = cancel.cancelled() => aborted(),
        done = work => done.unwrap_or_else(|failure| FinishReason::Error { failure }),
    }
}

async fn exchange(call: Call, emitter: &Emitter) -> Result<FinishReason, LlmFailure> {
    let request = call
        .client
        .post(&call.url)
        .headers(call.headers)
        .header(ACCEPT, "text/event-stream")
        .header(CONTENT_TYPE, "application/json")
        .body(call.body);
    let response = timeout(call.idle_timeout, request.send())
        .await
        .map_err(|_elapsed| failure::silent(call.idle_timeout))?
        .map_err(failure::from_transport)?;
    if !response.status().is_success() {
        return Err(failure::from_response(response, &call.key).await);
    }
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let mut decoder = Decoder::new();
    let read = if kind.starts_with("application/json") {
        read_whole(response, &mut decoder, &call.key, call.idle_timeout).await
    } else {
        read_stream(
            response,
            &mut decoder,
            &call.key,
            call.idle_timeout,
            emitter,
        )
        .await
    };
    let reason = match read {
        Ok(()) => decoder.end(),
        // What comes after a complete answer cannot spoil it.
        Err(failure) if decoder.is_complete() => {
            tracing::debug!(%failure, "the stream broke behind a complete answer");
            decoder.end()
        }
        Err(failure) => FinishReason::Error { failure },
    };
    for chunk in decoder.take() {
        emitter.send(chunk).await;
    }
    Ok(reason)
}

async fn read_stream(
    mut response: Response,
    decoder: &mut Decoder,
    key: &ApiKey,
    idle: Duration,
    emitter: &Emitter,
) -> Result<(), LlmFailure> {
    let mut parser = SseParser::default();
    let mut total = 0;
    loop {
        let complete = decoder.is_complete();
        let patience = if complete {
            idle.min(TAIL_TIMEOUT)
        } else {
            idle
        };
        let bytes = match timeout(patience, response.chunk()).await {
            Ok(Ok(Some(bytes))) => bytes,
            Ok(Ok(None)) => break,
            Ok(Err(_broken)) => return Err(failure::cut()),
            Err(_elapsed) => return Err(failure::silent(patience)),
        };
        total += bytes.len();
        if total > STREAM_BYTES_MAX {
            return Err(too_long(STREAM_BYTES_MAX));
        }
        let events = parser
            .push(&bytes)
            .map_err(|error| LlmFailure::new("UNKNOWN", error.to_string()))?;
        let mut flow = Flow::More;
        for event in events {
            flow = understand(&event, decoder, key);
            if !matches!(flow, Flow::More) {
                break;
            }
        }
        for chunk in decoder.take() {
            emitter.send(chunk).await;
        }
        match flow {
            Flow::More => {}
            Flow::Failed(failure) => return Err(failure),
            Flow::Done => {
                // Only a body read to its end leaves its connection for the next request. That it
                // does not end, or not well, changes nothing about the answer.
                drop(timeout(CLOSE_TIMEOUT, response.chunk()).await);
                return Ok(());
            }
        }
    }
    let last = parser.finish();
    match last.map(|event| understand(&event, decoder, key)) {
        Some(Flow::Failed(failure)) => Err(failure),
        Some(Flow::More | Flow::Done) | None => Ok(()),
    }
}

fn understand(event: &SseEvent, decoder: &mut Decoder, key: &ApiKey) -> Flow {
    if event.name.as_deref() == Some("error") {
        let words = Value::from(event.data.as_str());
        let error = serde_json::from_str(&event.data).unwrap_or(words);
        return Flow::Failed(failure::from_error_value(&error, key));
    }
    decoder.event(&event.data, key)
}

/// Some servers answer in one piece although they were asked to stream.
async fn read_whole(
    response: Response,
    decoder: &mut Decoder,
    key: &ApiKey,
    idle: Duration,
) -> Result<(), LlmFailure> {
    let body = timeout(idle, whole_body(response, WHOLE_BYTES_MAX))
        .await
        .map_err(|_elapsed| failure::silent(idle))??;
    match decoder.event(&String::from_utf8_lossy(&body), key) {
        Flow::Failed(failure) => Err(failure),
        Flow::More | Flow::Done => Ok(()),
    }
}

/// A body of at most `max` bytes.
pub(super) async fn whole_body(mut response: Response, max: usize) -> Result<Vec<u8>, LlmFailure> {
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(|_broken| failure::cut())? {
        if body.len() + bytes.len() > max {
            return Err(too_long(max));
        }
        body.extend_from_slice(&bytes);
    }
    Ok(body)
}

fn too_long(max: usize) -> LlmFailure {
    let message = format!("the provider's answer has more than {max} bytes");
    LlmFailure::new("UNKNOWN", message)
}
