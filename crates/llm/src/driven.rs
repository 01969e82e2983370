//! A [`ChunkStream`] written as plain async code.
//!
//! Owns one trick: the future that produces the chunks is polled by whoever polls the stream, so
//! there is no task to leak. Dropping the stream drops the future, and with it its connection.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use orrery_session::{FinishReason, LlmFailure, StreamChunk};
use tokio::sync::mpsc;

use crate::seam::ChunkStream;

/// Chunks that may wait for the consumer: enough for one network read, little enough to push back.
const WAITING_CHUNKS: usize = 64;

/// Where the producing future puts its chunks.
#[derive(Debug)]
pub(crate) struct Emitter(mpsc::Sender<StreamChunk>);

impl Emitter {
    /// Hands over one chunk and waits while the consumer is behind.
    pub(crate) async fn send(&self, chunk: StreamChunk) {
        // The receiver lives in the same stream as the future that sends: if it is gone, so are we.
        if self.0.send(chunk).await.is_err() {
            tracing::trace!("a chunk had no reader");
        }
    }
}

/// Runs `produce` inside the stream that it feeds; what it returns becomes the one `finish`.
pub(crate) fn drive<F, Fut>(produce: F) -> ChunkStream
where
    F: FnOnce(Emitter) -> Fut,
    Fut: Future<Output = FinishReason> + Send + 'static,
{
    let (sender, receiver) = mpsc::channel(WAITING_CHUNKS);
    Box::pin(Driven {
        future: Some(Box::pin(produce(Emitter(sender)))),
        reason: None,
        receiver,
    })
}

/// How a cancelled stream ends.
pub(crate) fn aborted() -> FinishReason {
    FinishReason::Aborted {
        failure: LlmFailure::new("ABORTED", "the request was cancelled"),
    }
}

struct Driven {
    future: Option<Pin<Box<dyn Future<Output = FinishReason> + Send>>>,
    reason: Option<FinishReason>,
    receiver: mpsc::Receiver<StreamChunk>,
}

impl Stream for Driven {
    type Item = StreamChunk;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<StreamChunk>> {
        let this = &mut *self;
        if let Poll::Ready(Some(chunk)) = this.receiver.poll_recv(cx) {
            return Poll::Ready(Some(chunk));
        }
        if let Some(future) = this.future.as_mut()
            && let Poll::Ready(reason) = future.as_mut().poll(cx)
        {
            // The sender goes with the future, so the channel ends behind its last chunk.
            this.future = None;
            this.reason = Some(reason);
        }
        match this.receiver.poll_recv(cx) {
            Poll::Ready(Some(chunk)) => Poll::Ready(Some(chunk)),
            Poll::Ready(None) => {
                Poll::Ready(this.reason.take().map(|reason| StreamChunk::Finish {
                    reason,
                    replay_state: None,
                }))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}
