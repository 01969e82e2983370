//! The loop's port to durable logs, over storage.

use async_trait::async_trait;
use orrery_agent::Saved;
use orrery_session::SharedEvent;
use orrery_storage::{LogWriter, SaveState};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// A writer that the session actor holds.
#[derive(Debug)]
pub(crate) struct StoredLogWriter {
    writer: LogWriter,
    saved: watch::Receiver<Saved>,
}

impl StoredLogWriter {
    /// Takes a writer over; `tasks` runs what translates its state.
    pub(crate) fn new(writer: LogWriter, tasks: &TaskTracker) -> Self {
        let mut source = writer.saved();
        let (sender, saved) = watch::channel(translated(&source.borrow_and_update()));
        tasks.spawn(async move {
            // Ends with the session's slot in the storage thread.
            while source.changed().await.is_ok() {
                sender.send_replace(translated(&source.borrow_and_update()));
            }
        });
        Self { writer, saved }
    }
}

fn translated(state: &SaveState) -> Saved {
    Saved {
        through: state.saved,
        degraded: state.degraded.clone(),
    }
}

#[async_trait]
impl orrery_agent::LogWriter for StoredLogWriter {
    fn append(&self, events: Vec<SharedEvent>) -> Result<(), String> {
        self.writer.append(events).map_err(|e| e.to_string())
    }

    async fn flush(&self) -> Result<(), String> {
        self.writer.flush().await.map_err(|e| e.to_string())
    }

    async fn close(&self) -> Result<(), String> {
        self.writer.close().await.map_err(|e| e.to_string())
    }

    fn saved(&self) -> watch::Receiver<Saved> {
        self.saved.clone()
    }
}
