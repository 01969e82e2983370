//! The loop's port to durable logs, over storage.

use async_trait::async_trait;
use orrery_session::SharedEvent;
use orrery_storage::LogWriter;

/// A writer that the session actor holds.
#[derive(Debug)]
pub(crate) struct StoredLogWriter(pub(crate) LogWriter);

#[async_trait]
impl orrery_agent::LogWriter for StoredLogWriter {
    fn append(&self, events: Vec<SharedEvent>) -> Result<(), String> {
        self.0.append(events).map_err(|e| e.to_string())
    }

    async fn flush(&self) -> Result<(), String> {
        self.0.flush().await.map_err(|e| e.to_string())
    }

    async fn close(&self) -> Result<(), String> {
        self.0.close().await.map_err(|e| e.to_string())
    }
}
