//! The writer thread: the synchronous core behind [`crate::store`].
//!
//! Takes commands in order. Each live session has a queue with one fixed window: the first queued
//! event starts it, later ones do not move it (`session.md` 2.10). A failed background write keeps
//! its batch at the head and is tried again, so that a full disk heals when space returns.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use orrery_session::{SessionHeader, SessionId, SessionLogOffset, SharedEvent};
use tokio::sync::{oneshot, watch};

use crate::disk::Disk;
use crate::error::StorageError;
use crate::layout::Compression;
use crate::log_file::LogFile;
use crate::read::StoredLog;
use crate::store::{Durability, SaveState};

/// How long after a failed background write it is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(2);
/// The longest sleep without a deadline.
const IDLE: Duration = Duration::from_secs(3600);

/// Names a live session to the writer thread.
pub(crate) type Slot = u64;

/// What the writer thread is asked to do.
pub(crate) enum Command {
    /// Registers a session that has no file yet.
    Create {
        slot: Slot,
        header: SessionHeader,
        inherited: SessionLogOffset,
        saved: watch::Sender<SaveState>,
    },
    /// Opens and repairs a stored session.
    Open {
        slot: Slot,
        id: SessionId,
        path: PathBuf,
        compression: Compression,
        saved: watch::Sender<SaveState>,
        reply: oneshot::Sender<Result<StoredLog, StorageError>>,
    },
    Append {
        slot: Slot,
        events: Vec<SharedEvent>,
    },
    Flush {
        slot: Slot,
        reply: oneshot::Sender<Result<(), StorageError>>,
    },
    /// Flushes, then lets go of file and lock.
    Close {
        slot: Slot,
        reply: Option<oneshot::Sender<Result<(), StorageError>>>,
    },
    /// Flushes everything and ends the thread.
    Shutdown {
        reply: oneshot::Sender<Vec<StorageError>>,
    },
}

enum Target {
    Unpublished {
        header: Box<SessionHeader>,
        inherited: SessionLogOffset,
    },
    File(Box<LogFile>),
}

struct Live {
    target: Target,
    /// What is not known to be durable, in order; the first part of it may be written already.
    queue: Vec<SharedEvent>,
    end: SessionLogOffset,
    deadline: Option<Instant>,
    saved: watch::Sender<SaveState>,
    /// Nobody holds the session any more: it goes as soon as its queue is written.
    closing: bool,
}

impl Live {
    const fn new(target: Target, end: SessionLogOffset, saved: watch::Sender<SaveState>) -> Self {
        Self {
            target,
            queue: Vec::new(),
            end,
            deadline: None,
            saved,
            closing: false,
        }
    }
}

pub(crate) struct Writer {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) root: PathBuf,
    pub(crate) compression: Compression,
    pub(crate) durability: Durability,
    pub(crate) window: Duration,
    pub(crate) live: Lives,
}

#[derive(Default)]
pub(crate) struct Lives(std::collections::BTreeMap<Slot, Live>);

impl Writer {
    /// Runs until shut down, or until every handle is gone.
    pub(crate) fn run(mut self, commands: &Receiver<Command>) {
        loop {
            let next = self.live.0.values().filter_map(|live| live.deadline).min();
            let wait = next.map_or(IDLE, |at| at.saturating_duration_since(Instant::now()));
            match commands.recv_timeout(wait) {
                Ok(Command::Shutdown { reply }) => {
                    let failures = self.close_all();
                    // Whoever asked may have given up waiting; everything is written all the same.
                    drop(reply.send(failures));
                    return;
                }
                Ok(command) => self.handle(command),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    for failure in self.close_all() {
                        tracing::error!(%failure, "events could not be saved at shutdown");
                    }
                    return;
                }
            }
            self.write_due();
        }
    }

    fn handle(&mut self, command: Command) {
        match command {
            Command::Create {
                slot,
                header,
                inherited,
                saved,
            } => {
                let target = Target::Unpublished {
                    header: Box::new(header),
                    inherited,
                };
                let end = SessionLogOffset::ZERO;
                self.live.0.insert(slot, Live::new(target, end, saved));
            }
            Command::Open {
                slot,
                id,
                path,
                compression,
                saved,
                reply,
            } => {
                let opened = LogFile::open(&self.disk, &path, compression, &id);
                let result = opened.map(|(file, stored)| {
                    let end = file.end();
                    saved.send_replace(SaveState {
                        saved: end,
                        degraded: None,
                    });
                    let target = Target::File(Box::new(file));
                    self.live.0.insert(slot, Live::new(target, end, saved));
                    stored
                });
                if reply.send(result).is_err() {
                    // The caller gave up: nobody will ever close this slot.
                    self.live.0.remove(&slot);
                }
            }
            Command::Append { slot, events } => self.enqueue(slot, events),
            Command::Flush { slot, reply } => {
                // A caller that went away does not undo the flush.
                drop(reply.send(self.flush(slot)));
            }
            Command::Close { slot, reply } => {
                let result = self.flush(slot);
                match (&result, reply) {
                    (Ok(()), reply) => {
                        self.live.0.remove(&slot);
                        // A caller that went away does not undo the close.
                        drop(reply.map(|reply| reply.send(result)));
                    }
                    (Err(_), Some(reply)) => drop(reply.send(result)),
                    (Err(failure), None) => {
                        if let Some(live) = self.live.0.get_mut(&slot) {
                            live.closing = true;
                        }
                        tracing::error!(%failure, "a closed session has unsaved events");
                    }
                }
            }
            Command::Shutdown { .. } => {}
        }
    }

    fn enqueue(&mut self, slot: Slot, events: Vec<SharedEvent>) {
        let Some(live) = self.live.0.get_mut(&slot) else {
            return;
        };
        let Some(first) = events.first() else { return };
        if first.seq().offset_before() != live.end {
            let found = first.seq().offset_before();
            let error = StorageError::OutOfOrder {
                expected: live.end,
                found,
            };
            tracing::error!(%error, "events out of order were refused");
            live.saved
                .send_modify(|state| state.degraded = Some(error.to_string()));
            return;
        }
        live.end = live.end.advance(events.len());
        live.queue.extend(events);
        live.deadline
            .get_or_insert_with(|| Instant::now() + self.window);
    }

    fn write_due(&mut self) {
        let now = Instant::now();
        let due: Vec<Slot> = self
            .live
            .0
            .iter()
            .filter(|(_, live)| live.deadline.is_some_and(|at| at <= now))
            .map(|(slot, _)| *slot)
            .collect();
        let sync = self.durability != Durability::Turn;
        for slot in due {
            match self.write(slot, sync) {
                Ok(()) => {
                    if self.live.0.get(&slot).is_some_and(|live| live.closing) {
                        self.live.0.remove(&slot);
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "a background write failed; its events are kept");
                }
            }
        }
    }

    fn flush(&mut self, slot: Slot) -> Result<(), StorageError> {
        self.write(slot, true)
    }

    /// Writes everything queued. On failure the queue is kept and its next try is set.
    fn write(&mut self, slot: Slot, sync: bool) -> Result<(), StorageError> {
        let Some(live) = self.live.0.get_mut(&slot) else {
            return Err(StorageError::Closed);
        };
        let result = match &mut live.target {
            Target::Unpublished { header, inherited } => {
                if live.queue.is_empty() {
                    Ok(())
                } else {
                    let created = LogFile::create(
                        &self.disk,
                        &self.root,
                        self.compression,
                        header,
                        *inherited,
                        &live.queue,
                    );
                    created.and_then(|mut file| {
                        let synced = file.sync();
                        // Published is published: a name that could not be synced is synced later.
                        live.target = Target::File(Box::new(file));
                        synced
                    })
                }
            }
            Target::File(file) => {
                let written = file.end();
                let from = live
                    .queue
                    .partition_point(|event| event.seq().offset_before() < written);
                let fresh = live.queue.get(from..).unwrap_or_default();
                let appended = file.append(fresh, sync);
                appended.and_then(|()| if sync { file.sync() } else { Ok(()) })
            }
        };
        match &result {
            Ok(()) => {
                if sync {
                    live.queue.clear();
                }
                live.deadline = None;
                let state = SaveState {
                    saved: live.end,
                    degraded: None,
                };
                live.saved.send_if_modified(|old| {
                    let moved = *old != state;
                    *old = state;
                    moved
                });
            }
            Err(error) => {
                live.deadline = Some(Instant::now() + RETRY_DELAY);
                let saved = match &live.target {
                    Target::File(file) => file.end(),
                    Target::Unpublished { .. } => SessionLogOffset::ZERO,
                };
                live.saved.send_modify(|state| {
                    state.saved = saved;
                    state.degraded = Some(error.to_string());
                });
            }
        }
        result
    }

    fn close_all(&mut self) -> Vec<StorageError> {
        let slots: Vec<Slot> = self.live.0.keys().copied().collect();
        let failures = slots
            .into_iter()
            .filter_map(|slot| self.flush(slot).err())
            .collect();
        self.live.0.clear();
        failures
    }
}
