//! From a reply to an HTTP response whose body is sent piece by piece.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use super::Shared;
use super::reply::{Piece, Reply};

/// Turns a reply into a response to `request`.
pub(super) fn respond(reply: Reply, request: &Value, shared: Arc<Shared>) -> Response {
    let reply = reply.completed();
    let model = request.get("model").cloned().unwrap_or_default();
    let streamed = reply.status.is_none();
    let body = Sending {
        pieces: reply.pieces.into(),
        model,
        zip: reply
            .gzip
            .then(|| GzEncoder::new(Vec::new(), Compression::fast())),
        over: false,
        shared,
    };
    let body = stream::unfold(body, async |mut body| {
        let item = body.next().await?;
        Some((item, body))
    });
    let mut response = Response::new(Body::from_stream(body));
    let status = reply
        .status
        .and_then(|code| StatusCode::from_u16(code).ok());
    *response.status_mut() = status.unwrap_or(StatusCode::OK);
    let kind = if streamed {
        "text/event-stream"
    } else {
        "application/json"
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    if reply.gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    for (name, value) in &reply.headers {
        let pair = (HeaderName::try_from(name), HeaderValue::try_from(value));
        if let (Ok(name), Ok(value)) = pair {
            headers.insert(name, value);
        }
    }
    response
}

struct Sending {
    pieces: VecDeque<Piece>,
    model: Value,
    zip: Option<GzEncoder<Vec<u8>>>,
    over: bool,
    shared: Arc<Shared>,
}

impl Sending {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            let Some(piece) = self.pieces.pop_front() else {
                self.over = true;
                let rest = self.zip.take()?.finish();
                return Some(rest.map(Bytes::from));
            };
            let bytes = match piece {
                Piece::Chunk(chunk) => self.frame(chunk),
                Piece::Raw(bytes) => bytes,
                Piece::Wait(gate) => {
                    self.until(gate.wait()).await;
                    continue;
                }
                Piece::Pause(time) => {
                    self.until(tokio::time::sleep(time)).await;
                    continue;
                }
                Piece::Stall => {
                    self.until(std::future::pending()).await;
                    continue;
                }
                Piece::Cut => {
                    self.over = true;
                    // Hyper flushes what it has while the body is pending, then breaks the
                    // connection.
                    tokio::task::yield_now().await;
                    return Some(Err(io::Error::other("cut by the script")));
                }
            };
            match self.zip.as_mut().map(|zip| zip_piece(zip, &bytes)) {
                None => return Some(Ok(bytes)),
                Some(Ok(zipped)) if zipped.is_empty() => {}
                Some(zipped) => return Some(zipped),
            }
        }
    }

    /// Waits, but not longer than the server lives.
    async fn until(&self, event: impl Future<Output = ()>) {
        tokio::select! {
            () = self.shared.stop.cancelled() => {}
            () = event => {}
        }
    }

    fn frame(&self, mut chunk: Value) -> Bytes {
        if let Some(fields) = chunk.as_object_mut() {
            fields.entry("id").or_insert(json!("chatcmpl-test"));
            fields
                .entry("object")
                .or_insert(json!("chat.completion.chunk"));
            fields.entry("created").or_insert(json!(0));
            fields.entry("model").or_insert(self.model.clone());
        }
        Bytes::from(format!("data: {chunk}\n\n"))
    }
}

/// Compresses and flushes, so that the pieces still arrive one by one.
fn zip_piece(zip: &mut GzEncoder<Vec<u8>>, bytes: &[u8]) -> io::Result<Bytes> {
    zip.write_all(bytes)?;
    zip.flush()?;
    Ok(Bytes::from(std::mem::take(zip.get_mut())))
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.over {
            self.shared.count(|counts| counts.hung_up += 1);
        }
    }
}
