//! A scripted model server that speaks the chat-completions protocol on a loopback port.
//!
//! A test queues [`Reply`]s; each request takes the next one. What was asked is recorded. In strict
//! mode the server refuses what real servers refuse: unknown roles, tool messages without their
//! call, calls without their answer, and reasoning that does not come back as it was sent.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

mod body;
mod reply;
mod strict;

pub use reply::{Gate, Reply};

/// One request as it came in.
#[derive(Debug, Clone)]
pub struct Received {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body's exact text.
    pub text: String,
    /// Its body as JSON; `null` when it is none.
    pub body: Value,
}

/// The running server; it ends when this is dropped.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    script: Mutex<Script>,
    counts: watch::Sender<Counts>,
    stop: CancellationToken,
}

#[derive(Debug, Default)]
struct Script {
    replies: VecDeque<Reply>,
    replies_for: VecDeque<(String, Reply)>,
    fallback: Option<Reply>,
    models: Vec<String>,
    strict: bool,
    received: Vec<Received>,
    /// The reasoning that went out with each tool call.
    reasoning: BTreeMap<String, String>,
}

impl Script {
    /// The next reply that is meant for this conversation alone.
    fn reply_for(&mut self, body: &Value) -> Option<Reply> {
        let said = |message: &Value| {
            let of_user = message["role"] == "user";
            of_user.then(|| message["content"].to_string())
        };
        let messages = body["messages"].as_array()?;
        let said: Vec<String> = messages.iter().filter_map(said).collect();
        let meant = |(words, _): &(String, Reply)| said.iter().any(|text| text.contains(words));
        let at = self.replies_for.iter().position(meant)?;
        self.replies_for.remove(at).map(|(_, reply)| reply)
    }
}

/// What happened so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    received: usize,
    hung_up: usize,
}

impl ModelServer {
    /// Starts a server on a free loopback port, with one model called `test`.
    ///
    /// # Errors
    ///
    /// The port cannot be had.
    pub async fn start() -> io::Result<Self> {
        Self::start_on(0).await
    }

    /// Starts a server on a given loopback port.
    ///
    /// # Errors
    ///
    /// The port cannot be had.
    pub async fn start_on(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            script: Mutex::new(Script {
                models: vec!["test".to_owned()],
                ..Script::default()
            }),
            counts: watch::Sender::default(),
            stop: CancellationToken::new(),
        });
        let app = Router::new()
            .route("/v1/chat/completions", post(chat))
            .route("/v1/models", get(models))
            // A long conversation is a long request; the real servers take it.
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(Arc::clone(&shared));
        let stop = shared.stop.clone();
        tokio::spawn(async move {
            let listener = listener.tap_io(|stream| {
                // Without it the kernel would hold small pieces back, which only costs time.
                stream.set_nodelay(true).unwrap_or_default();
            });
            let serve = axum::serve(listener, app);
            tokio::select! {
                () = stop.cancelled() => {}
                // The server's loop ends only together with the runtime.
                ended = serve => drop(ended),
            }
        });
        Ok(Self { address, shared })
    }

    /// What a provider is configured with: `http://127.0.0.1:PORT/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Queues a reply.
    pub fn push(&self, reply: Reply) {
        self.shared.script().replies.push_back(reply);
    }

    /// Queues a reply for the conversation in which a user message holds `words`: conversations that
    /// go on side by side each have their own queue then.
    pub fn push_for(&self, words: &str, reply: Reply) {
        let entry = (words.to_owned(), reply);
        self.shared.script().replies_for.push_back(entry);
    }

    /// Answers all requests beyond the queue; without it they get status 500.
    pub fn fallback(&self, reply: Reply) {
        self.shared.script().fallback = Some(reply);
    }

    /// What `/v1/models` lists.
    pub fn set_models(&self, models: &[&str]) {
        self.shared.script().models = models.iter().map(|&name| name.to_owned()).collect();
    }

    /// Whether requests that real servers refuse are answered with 400. Off at first.
    pub fn set_strict(&self, strict: bool) {
        self.shared.script().strict = strict;
    }

    /// All chat requests so far, refused ones too.
    pub fn received(&self) -> Vec<Received> {
        self.shared.script().received.clone()
    }

    /// Replies that nobody has asked for yet.
    pub fn queued(&self) -> usize {
        self.shared.script().replies.len()
    }

    /// Waits until `count` chat requests have come in.
    pub async fn wait_for_requests(&self, count: usize) {
        self.wait(|counts| counts.received >= count).await;
    }

    /// Waits until `count` clients have hung up before their reply was over.
    pub async fn wait_for_hang_ups(&self, count: usize) {
        self.wait(|counts| counts.hung_up >= count).await;
    }

    async fn wait(&self, done: impl FnMut(&Counts) -> bool) {
        let mut counts = self.shared.counts.subscribe();
        // The sender lives as long as this server, so the wait cannot fail.
        drop(counts.wait_for(done).await);
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

impl Shared {
    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        self.counts.send_modify(change);
    }
}

async fn models(State(shared): State<Arc<Shared>>) -> Response {
    let script = shared.script();
    let models: Vec<Value> = script
        .models
        .iter()
        .map(|id| json!({"id": id, "object": "model"}))
        .collect();
    answer(StatusCode::OK, &json!({"object": "list", "data": models}))
}

async fn chat(State(shared): State<Arc<Shared>>, headers: HeaderMap, text: String) -> Response {
    let body: Value = serde_json::from_str(&text).unwrap_or_default();
    let received = Received {
        headers,
        text,
        body: body.clone(),
    };
    let next = {
        let mut script = shared.script();
        script.received.push(received);
        let refusal = if script.strict {
            strict::check(&body, &script.reasoning).err()
        } else {
            None
        };
        match refusal {
            Some(reason) => Err((StatusCode::BAD_REQUEST, reason)),
            None => {
                let reply = script
                    .reply_for(&body)
                    .or_else(|| script.replies.pop_front())
                    .or_else(|| script.fallback.clone());
                if let Some(reply) = &reply {
                    let reasoning = reply.reasoning_text();
                    for id in reply.call_ids() {
                        script.reasoning.insert(id, reasoning.clone());
                    }
                }
                reply.ok_or_else(|| {
                    let reason = "the script is at its end".to_owned();
                    (StatusCode::INTERNAL_SERVER_ERROR, reason)
                })
            }
        }
    };
    shared.count(|counts| counts.received += 1);
    match next {
        Ok(reply) => body::respond(reply, &body, shared),
        Err((status, message)) => {
            let error = json!({"error": {"message": message, "type": "invalid_request_error"}});
            answer(status, &error)
        }
    }
}

fn answer(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(axum::body::Body::from(body.to_string()));
    *response.status_mut() = status;
    let kind = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
