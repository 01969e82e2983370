//! The writer thread: the synchronous core behind [`crate::store`].
//!
//! Takes commands in order. Each live session has a queue with one fixed window: the first queued
//! event starts it, later ones do not move it (`session.md` 2.10). A failed background write keeps
//! its batch at the head and is tried again, so that a full disk heals when space returns.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use orrery_session::{SessionHeader, SessionId, SessionLogOffset, SharedEvent};
use tokio::sync::{oneshot, watch};

use crate::believed::Believed;
use crate::disk::Disk;
use crate::error::StorageError;
use crate::layout::Compression;
use crate::log_file::{LogFile, in_order};
use crate::read::StoredLog;
use crate::store::{Durability, SaveState};

/// How long after a failed background write it is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(2);
/// The most commands that are taken together.
const MAX_GROUP: usize = 256;
/// The most syncs that run side by side.
const MAX_PARALLEL_SYNCS: usize = 8;
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
        reply: oneshot::Sender<Result<(), StorageError>>,
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
    /// Written and not yet known to be on disk: kept until they are.
    unsynced: Vec<SharedEvent>,
    /// Not yet written.
    queue: Vec<SharedEvent>,
    end: SessionLogOffset,
    deadline: Option<Instant>,
    saved: watch::Sender<SaveState>,
    /// Nobody holds the session any more: it goes as soon as its queue is written.
    closing: bool,
    /// What was handed in and not taken, until a flush has said so.
    refused: Option<StorageError>,
}

impl Live {
    const fn new(target: Target, end: SessionLogOffset, saved: watch::Sender<SaveState>) -> Self {
        Self {
            target,
            unsynced: Vec::new(),
            queue: Vec::new(),
            end,
            deadline: None,
            saved,
            closing: false,
            refused: None,
        }
    }

    fn is_unpublished(&self, id: &SessionId) -> bool {
        matches!(&self.target, Target::Unpublished { header, .. } if header.id == *id)
    }
}

pub(crate) struct Writer {
    /// Is told of every log that gets its name.
    pub(crate) believed: Arc<Believed>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) root: PathBuf,
    pub(crate) compression: Compression,
    pub(crate) durability: Durability,
    pub(crate) window: Duration,
    pub(crate) live: Lives,
}

#[derive(Default)]
pub(crate) struct Lives(BTreeMap<Slot, Live>);

/// Who waits for a flush, and what it wants afterwards.
enum Waiter {
    Flush(oneshot::Sender<Result<(), StorageError>>),
    Close(Option<oneshot::Sender<Result<(), StorageError>>>),
}

impl Writer {
    /// Runs until shut down, or until every handle is gone.
    pub(crate) fn run(mut self, commands: &Receiver<Command>) {
        loop {
            let next = self.live.0.values().filter_map(|live| live.deadline).min();
            let wait = next.map_or(IDLE, |at| at.saturating_duration_since(Instant::now()));
            let mut next = match commands.recv_timeout(wait) {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    for failure in self.close_all() {
                        tracing::error!(%failure, "events could not be saved at shutdown");
                    }
                    return;
                }
            };
            // Whatever waits already is taken together, so that flushes share their syncs.
            let mut waiters: Vec<(Slot, Waiter)> = Vec::new();
            let mut shutdown = None;
            let mut taken = 0;
            while let Some(command) = next {
                taken += 1;
                match command {
                    Command::Flush { slot, reply } => waiters.push((slot, Waiter::Flush(reply))),
                    Command::Close { slot, reply } => waiters.push((slot, Waiter::Close(reply))),
                    Command::Shutdown { reply } => shutdown = Some(reply),
                    other => {
                        // Who opens or makes what was just let go of must find it free.
                        if matches!(other, Command::Open { .. } | Command::Create { .. }) {
                            self.settle(std::mem::take(&mut waiters));
                        }
                        self.handle(other);
                    }
                }
                let more = taken < MAX_GROUP && shutdown.is_none();
                next = if more { commands.try_recv().ok() } else { None };
            }
            self.settle(waiters);
            if let Some(reply) = shutdown {
                // Whoever asked may have given up waiting; everything is written all the same.
                drop(reply.send(self.close_all()));
                return;
            }
            self.write_due();
        }
    }

    /// Commands that wait for no disk, and opening.
    fn handle(&mut self, command: Command) {
        match command {
            Command::Create {
                slot,
                header,
                inherited,
                saved,
                reply,
            } => {
                // One that is live may have no file yet that says so (`session.md` 2.10).
                if self
                    .live
                    .0
                    .values()
                    .any(|live| live.is_unpublished(&header.id))
                {
                    let id = header.id;
                    // Who gave up waiting has no session to be told of.
                    drop(reply.send(Err(StorageError::Exists { id })));
                    return;
                }
                if reply.send(Ok(())).is_err() {
                    return;
                }
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
            // Taken by the loop.
            Command::Flush { .. } | Command::Close { .. } | Command::Shutdown { .. } => {}
        }
    }

    fn enqueue(&mut self, slot: Slot, events: Vec<SharedEvent>) {
        let Some(live) = self.live.0.get_mut(&slot) else {
            return;
        };
        if events.is_empty() {
            return;
        }
        if let Err(error) = in_order(live.end, &events) {
            tracing::error!(%error, "events out of order were refused");
            live.saved
                .send_modify(|state| state.degraded = Some(error.to_string()));
            live.refused.get_or_insert(error);
            return;
        }
        live.end = live.end.advance(events.len());
        live.queue.extend(events);
        live.deadline
            .get_or_insert_with(|| Instant::now() + self.window);
    }

    /// Flushes all sessions that somebody waits for, as one group, and answers.
    fn settle(&mut self, waiters: Vec<(Slot, Waiter)>) {
        if waiters.is_empty() {
            return;
        }
        let slots = waiters.iter().map(|(slot, _)| *slot).collect();
        let results = self.commit(&slots, true);
        for (slot, waiter) in waiters {
            let result = results
                .get(&slot)
                .cloned()
                .unwrap_or(Err(StorageError::Closed));
            // A flush that said yes would acknowledge events that were refused.
            let refused = self
                .live
                .0
                .get_mut(&slot)
                .and_then(|live| live.refused.take());
            let result = refused.map_or(result, Err);
            match waiter {
                // A caller that went away does not undo the flush.
                Waiter::Flush(reply) => drop(reply.send(result)),
                Waiter::Close(reply) => self.closed(slot, result, reply),
            }
        }
    }

    fn closed(
        &mut self,
        slot: Slot,
        result: Result<(), StorageError>,
        reply: Option<oneshot::Sender<Result<(), StorageError>>>,
    ) {
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

    fn write_due(&mut self) {
        let now = Instant::now();
        let due = |live: &Live| live.deadline.is_some_and(|at| at <= now);
        let slots: BTreeSet<Slot> = self
            .live
            .0
            .iter()
            .filter(|(_, live)| due(live))
            .map(|(slot, _)| *slot)
            .collect();
        if slots.is_empty() {
            return;
        }
        let sync = self.durability != Durability::Turn;
        for (slot, result) in self.commit(&slots, sync) {
            match result {
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

    /// Writes what these sessions have queued, then makes all of it durable side by side.
    ///
    /// On failure a session's events are kept, in order, and its next try is set.
    fn commit(
        &mut self,
        slots: &BTreeSet<Slot>,
        sync: bool,
    ) -> BTreeMap<Slot, Result<(), StorageError>> {
        let mut results = BTreeMap::new();
        for slot in slots {
            let Some(live) = self.live.0.get_mut(slot) else {
                continue;
            };
            let written = live.write(&self.disk, &self.root, self.compression, &self.believed);
            results.insert(*slot, written);
        }
        if sync {
            let mut dirty: Vec<(&Slot, &mut Live)> = self
                .live
                .0
                .iter_mut()
                .filter(|(slot, live)| {
                    matches!(results.get(slot), Some(Ok(()))) && live.needs_sync()
                })
                .collect();
            for group in dirty.chunks_mut(MAX_PARALLEL_SYNCS) {
                let synced: Vec<(Slot, Result<(), StorageError>)> = match group {
                    [(slot, live)] => vec![(**slot, live.sync())],
                    group => std::thread::scope(|scope| {
                        let threads: Vec<_> = group
                            .iter_mut()
                            .map(|(slot, live)| (**slot, scope.spawn(move || live.sync())))
                            .collect();
                        threads
                            .into_iter()
                            .map(|(slot, thread)| {
                                (slot, thread.join().unwrap_or(Err(StorageError::Closed)))
                            })
                            .collect()
                    }),
                };
                results.extend(synced);
            }
        }
        for (slot, result) in &results {
            if let Some(live) = self.live.0.get_mut(slot) {
                live.tell(result);
            }
        }
        results
    }

    fn close_all(&mut self) -> Vec<StorageError> {
        let slots: BTreeSet<Slot> = self.live.0.keys().copied().collect();
        let failures = self
            .commit(&slots, true)
            .into_values()
            .filter_map(Result::err)
            .collect();
        self.live.0.clear();
        failures
    }
}

impl Live {
    /// Writes the queue; what was written counts once it is synced.
    fn write(
        &mut self,
        disk: &Arc<dyn Disk>,
        root: &Path,
        compression: Compression,
        believed: &Believed,
    ) -> Result<(), StorageError> {
        if self.queue.is_empty() {
            return Ok(());
        }
        match &mut self.target {
            Target::Unpublished { header, inherited } => {
                let file =
                    LogFile::create(disk, root, compression, header, *inherited, &self.queue)?;
                believed.publish(file.catalogue_entry(header));
                self.target = Target::File(Box::new(file));
                self.unsynced.append(&mut self.queue);
            }
            Target::File(file) => {
                let appended = file.append(&self.queue);
                if appended.is_err() {
                    self.requeue();
                    return appended;
                }
                self.unsynced.append(&mut self.queue);
            }
        }
        Ok(())
    }

    /// Also true with nothing unsynced: the name of a new file may still be due.
    fn needs_sync(&self) -> bool {
        matches!(&self.target, Target::File(file) if !file.is_durable())
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        let Target::File(file) = &mut self.target else {
            return Ok(());
        };
        let result = file.sync();
        match result {
            Ok(()) => self.unsynced.clear(),
            Err(_) => self.requeue(),
        }
        result
    }

    /// What was cut off is written again, in its place before the rest.
    fn requeue(&mut self) {
        if let Target::File(file) = &self.target {
            let kept = file.end();
            let cut = |event: &SharedEvent| event.seq().offset_before() >= kept;
            let from = self.unsynced.iter().position(cut);
            let mut again = self.unsynced.split_off(from.unwrap_or(self.unsynced.len()));
            again.append(&mut self.queue);
            self.queue = again;
        }
    }

    /// Shows how far the session is saved, and sets the next try after a failure.
    fn tell(&mut self, result: &Result<(), StorageError>) {
        let state = match result {
            Ok(()) => {
                self.deadline = None;
                SaveState {
                    saved: self.end,
                    degraded: None,
                }
            }
            Err(error) => {
                self.deadline = Some(Instant::now() + RETRY_DELAY);
                let saved = self.saved.borrow().saved;
                SaveState {
                    saved,
                    degraded: Some(error.to_string()),
                }
            }
        };
        self.saved.send_if_modified(|old| {
            let moved = *old != state;
            *old = state;
            moved
        });
    }
}
