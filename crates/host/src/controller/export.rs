//! A session as a file: its log's own text, with those of its subagents if wanted, in one ZIP
//! (`controller.md` 4.5).
//!
//! Nothing is woken. A live session is waited for until what it has said is on disk, right before
//! its log is read. The archive is made while it is sent; of a log one frame is held at a time.

use std::io::{self, Write};
use std::time::Duration;

use orrery_api::error::{ApiError, ErrorCode};
use orrery_session::{SessionId, SessionLogOffset};
use orrery_storage::layout::id_segment;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::{Controller, Found, put_away};

/// The log's name in an archive. Archives hold text, whatever the container on disk is.
pub(super) const LOG_NAME: &str = "session.jsonl";
/// Where subagents lie in an archive.
pub(super) const SUBAGENTS: &str = "subagents/";
/// How long a live session may take until it is on disk.
const SAVING: Duration = Duration::from_secs(10);

/// An archive that is about to be made.
#[derive(Debug)]
pub struct Export {
    controller: Controller,
    sessions: Vec<SessionId>,
}

impl Controller {
    /// Looks whether a session can be exported, and which subagents go with it.
    ///
    /// # Errors
    /// When there is no such session, or its log cannot be read.
    pub async fn export(&self, id: &SessionId, descendants: bool) -> Result<Export, ApiError> {
        if let Found::Live(handle) = self.look(id).await?
            && handle.live().end() == SessionLogOffset::ZERO
        {
            return Err(ApiError::session_not_found(id.as_str()));
        }
        let mut sessions = vec![id.clone()];
        if descendants {
            let catalogue = self.inner.store.recent_catalogue().await;
            let catalogue = catalogue.map_err(|error| super::failures::of_storage(&error))?;
            sessions.extend(put_away::subagents_below(&catalogue, id));
        }
        Ok(Export {
            controller: self.clone(),
            sessions,
        })
    }

    /// Waits until all that a session has said so far is on disk. Cold ones are.
    async fn saved(&self, id: &SessionId) -> Result<(), ApiError> {
        let Some(handle) = self.inner.live.get(id) else {
            return Ok(());
        };
        let end = handle.live().end();
        let mut state = handle.live().state();
        let reached = state.wait_for(|state| state.saved.through >= end);
        match tokio::time::timeout(SAVING, reached).await {
            // One that is gone has been closed, and with that saved.
            Ok(_) => Ok(()),
            Err(_elapsed) => Err(ApiError::new(
                ErrorCode::StorageUnavailable,
                "the session could not be saved, so that its log is behind; try again",
            )
            .with("sessionId", id)),
        }
    }
}

impl Export {
    /// What the file is called: letters, digits and a few signs.
    pub fn file_name(&self) -> String {
        let root = self.sessions.first().map(id_segment).unwrap_or_default();
        format!("orrery-session-{}.zip", root.replace('~', "_"))
    }

    /// Makes the archive. Blocks; must run on a thread of the runtime that may.
    ///
    /// # Errors
    /// What keeps a log from being read, and those of `out`.
    pub fn write(self, out: impl Write) -> io::Result<()> {
        let runtime = tokio::runtime::Handle::current();
        let mut archive = ZipWriter::new_stream(out);
        let options = SimpleFileOptions::default().large_file(true);
        for (at, id) in self.sessions.iter().enumerate() {
            let saved = runtime.block_on(self.controller.saved(id));
            saved.map_err(|error| io::Error::other(error.message))?;
            let name = match at {
                0 => LOG_NAME.to_owned(),
                _ => format!("{SUBAGENTS}{}/{LOG_NAME}", id_segment(id)),
            };
            archive
                .start_file(name, options)
                .map_err(io::Error::other)?;
            let store = &self.controller.inner.store;
            store.copy_raw(id, &mut archive).map_err(io::Error::other)?;
        }
        archive.finish().map_err(io::Error::other)?.flush()
    }
}
