//! The WebSocket that carries every stream of one client (`controller.md` 5.4, decision D21).
//!
//! Each stream is a task that pulls its feed and puts frames into one bounded queue; when the queue
//! is full the pulling stops. A socket that takes nothing for 30 seconds is closed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use orrery_api::error::ApiError;
use orrery_api::frames::{ClientFrame, EndFrame, ErrorFrame, ServerFrame, item_frame_text};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::feeds::Feed;
use super::{Counted, Gateway};

/// Frames that wait for the socket.
const QUEUED_FRAMES: usize = 1_024;
/// Bytes that wait for the socket.
const QUEUED_BYTES: usize = 4 * 1024 * 1024;
/// How long the socket may take nothing.
const WRITE_DEADLINE: Duration = Duration::from_secs(30);
/// How often the peer is asked whether it is there; it has as long to answer.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The largest frame that a client may send.
const MAX_CLIENT_FRAME: usize = 1024 * 1024;

const CLOSE_GOING_DOWN: u16 = 1012;
const CLOSE_UNSUPPORTED: u16 = 1003;
const CLOSE_POLICY: u16 = 1008;

pub(super) async fn upgrade(
    State(gateway): State<Arc<Gateway>>,
    upgrade: WebSocketUpgrade,
) -> Response {
    upgrade
        .max_message_size(MAX_CLIENT_FRAME)
        .on_upgrade(move |socket| async move {
            let sockets = gateway.sockets.clone();
            // In a tracked task, so that a shutdown waits for the goodbye.
            sockets.spawn(run(gateway, socket));
        })
}

/// A frame on its way, with the share of the byte budget that it holds.
struct Outgoing {
    message: Message,
    _bytes: tokio::sync::OwnedSemaphorePermit,
}

#[derive(Clone)]
struct Outbox {
    frames: mpsc::Sender<Outgoing>,
    budget: Arc<Semaphore>,
}

impl Outbox {
    /// Waits for room; false once the socket is gone.
    async fn send(&self, message: Message) -> bool {
        let size = match &message {
            Message::Text(text) => text.len(),
            _ => 1,
        };
        let share = u32::try_from(size.clamp(1, QUEUED_BYTES)).unwrap_or(u32::MAX);
        let Ok(bytes) = Arc::clone(&self.budget).acquire_many_owned(share).await else {
            return false;
        };
        self.frames
            .send(Outgoing {
                message,
                _bytes: bytes,
            })
            .await
            .is_ok()
    }

    async fn frame(&self, frame: &ServerFrame) -> bool {
        // Strings and plain values only: serialising them cannot fail.
        let text = serde_json::to_string(frame).unwrap_or_default();
        self.send(Message::Text(text.into())).await
    }
}

async fn run(gateway: Arc<Gateway>, socket: WebSocket) {
    let _counted = Counted::new(&gateway, |g| &g.connections);
    let (sink, stream) = socket.split();
    let (frames, queue) = mpsc::channel(QUEUED_FRAMES);
    let outbox = Outbox {
        frames,
        budget: Arc::new(Semaphore::new(QUEUED_BYTES)),
    };
    let gone = CancellationToken::new();
    let tasks = TaskTracker::new();
    tasks.spawn(write(sink, queue, gone.clone()));
    let close = read(&gateway, stream, &outbox, &gone, &tasks).await;
    if let Some((code, reason)) = close {
        let frame = CloseFrame {
            code,
            reason: reason.into(),
        };
        outbox.send(Message::Close(Some(frame))).await;
    }
    // Streams end first, so that the writer sees its queue close and says goodbye.
    gone.cancel();
    drop(outbox);
    tasks.close();
    tasks.wait().await;
}

async fn write(
    mut sink: SplitSink<WebSocket, Message>,
    mut queue: mpsc::Receiver<Outgoing>,
    gone: CancellationToken,
) {
    while let Some(outgoing) = queue.recv().await {
        let sent = tokio::time::timeout(WRITE_DEADLINE, sink.send(outgoing.message)).await;
        if !matches!(sent, Ok(Ok(()))) {
            break;
        }
    }
    gone.cancel();
    // The peer may be gone already; there is nobody else to tell.
    drop(tokio::time::timeout(Duration::from_secs(1), sink.close()).await);
}

type Close = Option<(u16, &'static str)>;

/// Reads frames until the socket ends; gives the close code that it deserves.
async fn read(
    gateway: &Arc<Gateway>,
    mut stream: SplitStream<WebSocket>,
    outbox: &Outbox,
    gone: &CancellationToken,
    tasks: &TaskTracker,
) -> Close {
    let mut open: HashMap<String, CancellationToken> = HashMap::new();
    let (ended_in, mut ended) = mpsc::unbounded_channel::<String>();
    let mut greeted = false;
    let mut answered = true;
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    heartbeat.tick().await;
    loop {
        let message = tokio::select! {
            message = stream.next() => message,
            Some(id) = ended.recv() => {
                open.remove(&id);
                continue;
            }
            _ = heartbeat.tick() => {
                if !answered || !outbox.send(Message::Ping(bytes::Bytes::new())).await {
                    return None;
                }
                answered = false;
                continue;
            }
            () = gone.cancelled() => return None,
            () = gateway.closing.cancelled() => {
                return Some((CLOSE_GOING_DOWN, "the Host is going down"));
            }
        };
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Binary(_))) => return Some((CLOSE_UNSUPPORTED, "text frames only")),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {
                answered = true;
                continue;
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
        };
        answered = true;
        let Ok(frame) = serde_json::from_str::<ClientFrame>(&text) else {
            return Some((CLOSE_POLICY, "malformed frame"));
        };
        match frame {
            ClientFrame::Cancel(frame) => {
                if let Some(stream) = open.remove(&frame.stream_id) {
                    stream.cancel();
                }
            }
            ClientFrame::Open(frame) => {
                if frame.stream_id.is_empty() || open.contains_key(&frame.stream_id) {
                    return Some((CLOSE_POLICY, "this stream id is open already"));
                }
                let hello = frame.endpoint == "host/hello";
                if !greeted && !hello {
                    let message = "open host/hello first";
                    let error = ApiError::bad_request("endpoint", message);
                    let error = ErrorFrame {
                        stream_id: frame.stream_id,
                        error,
                    };
                    outbox.frame(&ServerFrame::Error(error)).await;
                    continue;
                }
                greeted = true;
                let cancel = gone.child_token();
                open.insert(frame.stream_id.clone(), cancel.clone());
                let (gateway, outbox) = (Arc::clone(gateway), outbox.clone());
                let ended = ended_in.clone();
                tasks.spawn(async move {
                    let id = frame.stream_id.clone();
                    let stream = pump(gateway, frame, outbox);
                    let finished = cancel.run_until_cancelled(stream).await.is_some();
                    // A cancelled id is forgotten already, and may be in use again.
                    if finished && ended.send(id).is_err() {
                        tracing::trace!("the socket ended first");
                    }
                });
            }
        }
    }
}

/// Pulls one stream until it ends.
async fn pump(gateway: Arc<Gateway>, frame: orrery_api::frames::OpenFrame, outbox: Outbox) {
    let _counted = Counted::new(&gateway, |g| &g.streams);
    let id = frame.stream_id;
    let request = frame.request.text().as_bytes();
    let error = match Feed::open(&gateway, &frame.endpoint, request).await {
        Err(error) => error,
        Ok(mut feed) => loop {
            match feed.next().await {
                Ok(piece) => {
                    let text = item_frame_text(&id, &piece.json);
                    if !outbox.send(Message::Text(text.into())).await {
                        return;
                    }
                }
                Err(error) => break error,
            }
        },
    };
    let frame = if error.code == orrery_api::ErrorCode::Cancelled {
        ServerFrame::End(EndFrame { stream_id: id })
    } else {
        ServerFrame::Error(ErrorFrame {
            stream_id: id,
            error,
        })
    };
    outbox.frame(&frame).await;
}
