//! What the server says to one request, as a builder.

use bytes::Bytes;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Holds a reply back until the test opens it.
#[derive(Debug, Clone, Default)]
pub struct Gate(CancellationToken);

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the replies that wait here go on, now and later.
    pub fn open(&self) {
        self.0.cancel();
    }

    pub(super) async fn wait(&self) {
        self.0.cancelled().await;
    }
}

/// One step of a reply.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    /// A chunk of the protocol, wrapped and framed when it is sent.
    Chunk(Value),
    /// Bytes exactly as given.
    Raw(Bytes),
    /// Waits for the test.
    Wait(Gate),
    /// Waits for a while, for demonstrations.
    Pause(std::time::Duration),
    /// Breaks the connection.
    Cut,
    /// Says nothing more and keeps the connection.
    Stall,
}

/// One reply of the script.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub(super) status: Option<u16>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) pieces: Vec<Piece>,
    pub(super) gzip: bool,
    reasoning: String,
    calls: Vec<String>,
    finished: bool,
    ended: bool,
}

impl Reply {
    /// An empty streamed reply. Without an explicit end it finishes by itself: `tool_calls` when it
    /// calls tools, else `stop`, then `[DONE]`.
    pub fn new() -> Self {
        Self::default()
    }

    /// A streamed reply of one text.
    pub fn say(text: &str) -> Self {
        Self::new().text(text)
    }

    /// A reply that is an HTTP error with a JSON body.
    pub fn error(status: u16, body: &Value) -> Self {
        Self::error_text(status, &body.to_string())
    }

    /// A reply that is an HTTP error with any body.
    pub fn error_text(status: u16, body: &str) -> Self {
        let mut reply = Self::new().raw(body.to_owned());
        reply.status = Some(status);
        reply
    }

    /// Adds a response header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Compresses the body, whatever is in it, as one gzip stream.
    pub fn gzip(mut self) -> Self {
        self.gzip = true;
        self
    }

    /// Adds a piece of text.
    pub fn text(self, text: &str) -> Self {
        self.delta(&json!({"content": text}))
    }

    /// Adds a piece of reasoning.
    pub fn reasoning(mut self, text: &str) -> Self {
        self.reasoning.push_str(text);
        self.delta(&json!({"reasoning_content": text}))
    }

    /// Adds a whole tool call in one piece.
    pub fn tool_call(mut self, id: &str, name: &str, arguments: &str) -> Self {
        let index = self.calls.len();
        self.calls.push(id.to_owned());
        let function = json!({"name": name, "arguments": arguments});
        self.delta(&json!({"tool_calls": [
            {"index": index, "id": id, "type": "function", "function": function}
        ]}))
    }

    /// Adds any delta object.
    pub fn delta(self, delta: &Value) -> Self {
        self.chunk(json!({
            "choices": [{"index": 0, "delta": delta, "finish_reason": null}]
        }))
    }

    /// Adds any chunk object; id, model and so on are filled in.
    pub fn chunk(mut self, chunk: Value) -> Self {
        self.pieces.push(Piece::Chunk(chunk));
        self
    }

    /// Ends the answer with a reason; with a usage in the same chunk where one is given.
    pub fn finish(mut self, reason: &str, usage: Option<Value>) -> Self {
        self.finished = true;
        let mut chunk = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]});
        if let (Some(usage), Some(fields)) = (usage, chunk.as_object_mut()) {
            fields.insert("usage".to_owned(), usage);
        }
        self.chunk(chunk)
    }

    /// Ends the answer, then tells what it cost in a chunk of its own, as `include_usage` does.
    pub fn usage(mut self, prompt: u64, completion: u64) -> Self {
        if !self.finished {
            self = self.natural_finish();
        }
        self.chunk(json!({"choices": [], "usage": {
            "prompt_tokens": prompt, "completion_tokens": completion,
            "total_tokens": prompt + completion
        }}))
    }

    /// Adds bytes exactly as given; from here on the test is responsible for the framing.
    pub fn raw(mut self, bytes: impl Into<Bytes>) -> Self {
        self.finished = true;
        self.pieces.push(Piece::Raw(bytes.into()));
        self
    }

    /// Adds bytes, each `size` of them in a write of its own.
    pub fn raw_split(mut self, bytes: &[u8], size: usize) -> Self {
        for piece in bytes.chunks(size.max(1)) {
            self = self.raw(piece.to_vec());
        }
        self
    }

    /// Waits here for the test.
    pub fn gate(mut self, gate: &Gate) -> Self {
        self.pieces.push(Piece::Wait(gate.clone()));
        self
    }

    /// Waits here for a while: for demonstrations; tests use a [`Gate`].
    pub fn pause(mut self, time: std::time::Duration) -> Self {
        self.pieces.push(Piece::Pause(time));
        self
    }

    /// Breaks the connection here.
    pub fn cut(mut self) -> Self {
        self.finished = true;
        self.pieces.push(Piece::Cut);
        self
    }

    /// Says nothing more from here on, and keeps the connection.
    pub fn stall(mut self) -> Self {
        self.finished = true;
        self.pieces.push(Piece::Stall);
        self
    }

    /// Ends the body here, without a finish and without `[DONE]`.
    pub fn end(mut self) -> Self {
        self.finished = true;
        self.ended = true;
        self
    }

    /// The pieces with the end that was left out.
    pub(super) fn completed(mut self) -> Self {
        let streamed = self.status.is_none();
        let wants_done = self
            .pieces
            .iter()
            .all(|piece| matches!(piece, Piece::Chunk(_) | Piece::Wait(_) | Piece::Pause(_)));
        if streamed && !self.finished {
            self = self.natural_finish();
        }
        if streamed && wants_done && !self.ended {
            self.pieces.push(Piece::Raw("data: [DONE]\n\n".into()));
        }
        self
    }

    pub(super) fn reasoning_text(&self) -> String {
        self.reasoning.clone()
    }

    pub(super) fn call_ids(&self) -> Vec<String> {
        self.calls.clone()
    }

    fn natural_finish(self) -> Self {
        let reason = if self.calls.is_empty() {
            "stop"
        } else {
            "tool_calls"
        };
        self.finish(reason, None)
    }
}
