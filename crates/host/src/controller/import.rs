//! A session out of a file that an export made: every log is read whole and checked before any of
//! them is let in.
//!
//! A session whose id is taken here comes in under a new one, and what belongs to it follows. The
//! events stay byte for byte; only the header names the new ids.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _};

use orrery_api::error::{ApiError, ErrorCode};
use orrery_api::session::{ImportResponse, RenamedSession};
use orrery_session::SessionId;
use orrery_storage::{Incoming, Newcomer, StorageError};
use zip::ZipArchive;

use super::export::{LOG_NAME, SUBAGENTS};
use super::{Controller, failures};

/// Bytes of all logs of one archive, unpacked.
const UNPACKED_MAX: u64 = 8 * 1024 * 1024 * 1024;
/// Logs of one archive.
const LOGS_MAX: usize = 10_000;

impl Controller {
    /// Lets the sessions of an archive in; all of them, or none.
    ///
    /// # Errors
    /// `gateway/bad-request` when it is no archive of sessions or one of them is damaged,
    /// `gateway/too-large`, and what keeps them from being written.
    pub async fn import(&self, archive: File) -> Result<ImportResponse, ApiError> {
        let controller = self.clone();
        let work = tokio::task::spawn_blocking(move || controller.let_in(archive));
        let response = work.await.map_err(|error| {
            tracing::error!(%error, "an import failed");
            ApiError::internal()
        })??;
        self.rearranged().await;
        Ok(response)
    }

    fn let_in(&self, archive: File) -> Result<ImportResponse, ApiError> {
        let inner = &self.inner;
        let of_storage = |error: StorageError| failures::of_storage(&error);
        let mut incoming = inner
            .store
            .incoming(&inner.ids.uuid())
            .map_err(of_storage)?;
        let logs = unpack(archive, &mut incoming)?;
        let mut names: BTreeMap<SessionId, SessionId> = BTreeMap::new();
        for log in &logs {
            let id = &log.header.id;
            let name = match incoming.is_taken(id).map_err(of_storage)? {
                false => id.clone(),
                true if log.header.is_subagent() => inner.ids.child_session(),
                true => inner.ids.root_session(),
            };
            if names.insert(id.clone(), name).is_some() {
                return Err(unusable(format!("it holds session {id} twice")));
            }
        }
        let renamed = |id: &SessionId| names.get(id).unwrap_or(id).clone();
        let mut response = ImportResponse {
            session_ids: Vec::with_capacity(logs.len()),
            renamed: Vec::new(),
        };
        for log in &logs {
            let mut header = log.header.clone();
            header.id = renamed(&header.id);
            header.parent_session = header.parent_session.as_ref().map(renamed);
            incoming.admit(log, &header).map_err(of_storage)?;
            if header.id != log.header.id {
                response.renamed.push(RenamedSession {
                    from: log.header.id.clone(),
                    to: header.id.clone(),
                });
            }
            response.session_ids.push(header.id);
        }
        Ok(response)
    }
}

/// Takes all logs out of an archive, the root first.
fn unpack(archive: File, incoming: &mut Incoming) -> Result<Vec<Newcomer>, ApiError> {
    let no_archive =
        |error: zip::result::ZipError| unusable(format!("it is no ZIP archive: {error}"));
    let mut archive = ZipArchive::new(archive).map_err(no_archive)?;
    let mut names: Vec<String> = Vec::new();
    for name in archive.file_names() {
        let name = name.map_err(no_archive)?;
        if is_log(&name) {
            names.push(name.into_owned());
        }
    }
    names.sort_by_key(|name| name != LOG_NAME);
    if names.first().is_none_or(|name| name != LOG_NAME) {
        return Err(unusable(format!("it holds no {LOG_NAME}")));
    }
    if names.len() > LOGS_MAX {
        return Err(unusable(format!("it holds more than {LOGS_MAX} logs")));
    }
    let mut room = UNPACKED_MAX;
    let mut logs = Vec::with_capacity(names.len());
    for name in names {
        let file = archive.by_name(&name).map_err(no_archive)?;
        // What it says of its size is not believed.
        let mut text = file.take(room);
        let log = incoming.take(&mut text);
        room = text.limit();
        if room == 0 {
            let message = format!("unpacked, the logs are larger than {UNPACKED_MAX} bytes");
            return Err(ApiError::new(ErrorCode::TooLarge, message).with("limit", UNPACKED_MAX));
        }
        logs.push(log.map_err(|error| match error {
            StorageError::Corrupt { why, .. } | StorageError::Unsupported { why, .. } => {
                unusable(format!("{name}: {why}"))
            }
            // What is wrong with the packing comes through as a failed read.
            StorageError::Io {
                kind: ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof,
                message,
                ..
            } => unusable(format!("{name}: {message}")),
            error => failures::of_storage(&error),
        })?);
    }
    Ok(logs)
}

/// Whether an entry is a log; all else that an archive may hold is passed over.
fn is_log(name: &str) -> bool {
    let inner = name
        .strip_prefix(SUBAGENTS)
        .and_then(|rest| rest.strip_suffix(LOG_NAME)?.strip_suffix('/'));
    name == LOG_NAME || inner.is_some_and(|id| !id.is_empty() && !id.contains('/'))
}

fn unusable(why: String) -> ApiError {
    ApiError::bad_request("archive", format!("the archive cannot be used: {why}"))
}
