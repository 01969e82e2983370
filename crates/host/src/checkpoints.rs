//! Writing checkpoints down, behind the sessions' backs (`subagent.md` 2.4).
//!
//! Owns the order (the log is flushed first, so that it always leads), the coalescing (the newest
//! checkpoint of a session is the one that counts) and what a failure means: one warning, and the
//! next trigger heals it. Leaves when checkpoints are taken to `orrery-agent`, and where they lie to
//! the store.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use orrery_agent::checkpoints::{CheckpointKeeper, Kept, Trigger};
use orrery_projection::checkpoint::{CheckpointRecord, CheckpointStore};
use orrery_query::anchor::anchor;
use orrery_session::SessionId;
use orrery_storage::Store;
use orrery_storage::store::blocking;
use tokio_util::task::TaskTracker;

/// Takes checkpoints over and writes them down.
#[derive(Debug, Clone)]
pub(crate) struct Checkpoints {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn CheckpointStore>,
    logs: Store,
    waiting: Mutex<BTreeMap<SessionId, Kept>>,
    /// Whether a task is writing.
    working: AtomicBool,
    /// Held by whoever takes a batch, until it is written.
    turn: tokio::sync::Mutex<()>,
    tasks: TaskTracker,
    /// Whether the last write failed: a second failure in a row is said quietly.
    failing: Mutex<bool>,
}

impl Checkpoints {
    /// Nothing waits.
    pub(crate) fn new(store: Arc<dyn CheckpointStore>, logs: Store, tasks: TaskTracker) -> Self {
        Self {
            inner: Arc::new(Inner {
                store,
                logs,
                waiting: Mutex::default(),
                working: AtomicBool::new(false),
                turn: tokio::sync::Mutex::default(),
                tasks,
                failing: Mutex::new(false),
            }),
        }
    }

    /// Writes everything that waits, behind what is being written.
    pub(crate) async fn drain(&self) {
        loop {
            // Two at once could write the older record of a session over the newer one.
            let _turn = self.inner.turn.lock().await;
            let batch = {
                let mut waiting = self.lock();
                std::mem::take(&mut *waiting)
            };
            if batch.is_empty() {
                return;
            }
            self.write(batch.into_values().collect()).await;
        }
    }

    /// Writes records that were folded from logs on disk.
    pub(crate) async fn put(&self, records: Vec<(SessionId, CheckpointRecord)>) {
        if records.is_empty() {
            return;
        }
        let store = Arc::clone(&self.inner.store);
        let names = named(records.iter().map(|(id, _)| (id, "refresh")));
        let put = tokio::task::spawn_blocking(move || store.put(&records)).await;
        self.said(
            &names,
            put.map(|put| put.map_err(|error| error.to_string())),
        );
    }

    async fn write(&self, batch: Vec<Kept>) {
        let names = named(batch.iter().map(|kept| (&kept.id, kept.trigger.as_str())));
        let mut records = Vec::with_capacity(batch.len());
        for kept in batch {
            match self.durable(kept).await {
                Ok(record) => records.push(record),
                Err(why) => self.said(&names, Ok(Err(why))),
            }
        }
        if records.is_empty() {
            return;
        }
        let store = Arc::clone(&self.inner.store);
        let put = tokio::task::spawn_blocking(move || store.put(&records)).await;
        self.said(
            &names,
            put.map(|put| put.map_err(|error| error.to_string())),
        );
    }

    /// The record, once the log is on disk as far as the record goes.
    async fn durable(&self, kept: Kept) -> Result<(SessionId, CheckpointRecord), String> {
        let flushed = match &kept.log {
            Some(log) => log.flush().await,
            None => Ok(()),
        };
        let mut record = kept.record;
        let closed = kept.trigger == Trigger::Detach;
        // A log that cannot be looked at is looked at again by whoever lists it: a record that names
        // no place in it is not built upon.
        let view = self.inner.logs.view(&kept.id).await;
        if let Err(why) = flushed {
            // A log that was closed meanwhile has everything on disk, and flushes nothing more.
            let leads = view
                .as_ref()
                .is_ok_and(|v| v.stored_end() >= record.reach());
            if !leads {
                return Err(why);
            }
        }
        if let Ok(view) = view {
            let reach = record.reach();
            let stands = view.stored_end() == reach && view.end() == view.stored_end();
            record.revision = (closed && stands).then(|| view.revision().to_string());
            if reach <= view.stored_end() {
                record.anchor = blocking(move || anchor(&view, reach)).await.ok();
            }
        }
        Ok((kept.id, record))
    }

    fn said(&self, names: &str, outcome: Result<Result<(), String>, tokio::task::JoinError>) {
        let why = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(why),
            Err(error) => Some(error.to_string()),
        };
        let mut failing = self
            .inner
            .failing
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match (why, *failing) {
            (None, _) => *failing = false,
            (Some(why), false) => {
                *failing = true;
                tracing::warn!("checkpoints: {names} write failed (they stay stale): {why}");
            }
            (Some(why), true) => tracing::debug!("checkpoints: {names} write failed again: {why}"),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<SessionId, Kept>> {
        self.inner
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which writes are meant, for a warning: the first, and how many more.
fn named<'a>(mut writes: impl ExactSizeIterator<Item = (&'a SessionId, &'static str)>) -> String {
    let more = writes.len().saturating_sub(1);
    let first = writes
        .next()
        .map(|(id, trigger)| format!("{trigger} of {id}"))
        .unwrap_or_default();
    if more == 0 {
        first
    } else {
        format!("{first} and {more} more")
    }
}

impl CheckpointKeeper for Checkpoints {
    fn keep(&self, kept: Kept) {
        self.lock().insert(kept.id.clone(), kept);
        if self.inner.working.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.clone();
        self.inner.tasks.spawn(async move {
            loop {
                this.drain().await;
                this.inner.working.store(false, Ordering::Release);
                // Something may have come between the last look and the flag.
                if this.lock().is_empty() || this.inner.working.swap(true, Ordering::AcqRel) {
                    break;
                }
            }
        });
    }
}
