//! What the list and the control stream know of sessions that are not live.
//!
//! Taken, in this order, from memory (valid for one state of the file), from a checkpoint that
//! stands at the file's very end, or from the log, folded on from whatever checkpoint there is and
//! then kept. A state of a checkpoint is read when somebody wants it; one that turns out to be none
//! makes its row wrong, and the next look folds the log. What cannot be folded is still a row, with a diagnostic beside it (decision D7).

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures_util::StreamExt as _;
use orrery_agent::QueuedItem;
use orrery_agent::units::{InboxUnit, JobsUnit, PendingApproval, PendingApprovalsUnit};
use orrery_api::job::SessionJob;
use orrery_projection::cells::restore::Tail;
use orrery_projection::checkpoint::{Checkpoint, CheckpointIdentity, CheckpointRecord};
use orrery_projection::units::{ListMetadata, ListMetadataState};
use orrery_projection::{Cells, Registry, Snapshot, Unit};
use orrery_query::anchor::anchor;
use orrery_query::fold;
use orrery_session::{SessionHeader, SessionId, SessionLogOffset, Timestamp};
use orrery_storage::{Catalogue, CatalogueEntry, Revision, StorageError};

use super::jobs::cold_jobs;
use super::rows::ROW_KEYS;
use super::{Controller, WANTED};

/// From how many sessions on all checkpoints are read at once.
const ALL_AT_ONCE: usize = 32;

/// What is known of a cold session at one state of its file.
#[derive(Debug)]
pub(super) struct ColdRow {
    pub(super) blank: bool,
    pub(super) last_prompt_at: Option<Timestamp>,
    pub(super) damage: Option<String>,
    source: Source,
    snapshot: OnceLock<Option<Snapshot>>,
}

/// Where the rest comes from when somebody wants it: of ten thousand rows a page shows two hundred.
#[derive(Debug)]
enum Source {
    Folded(Cells),
    Kept(KeptRow),
    Nothing,
}

/// A checkpoint that stands at the end of its file.
#[derive(Debug)]
struct KeptRow {
    registry: Arc<Registry>,
    header: SessionHeader,
    inherited: SessionLogOffset,
    end: SessionLogOffset,
    rows: Checkpoint,
    /// Whether a state turned out to be none of its unit's.
    wrong: AtomicBool,
}

impl KeptRow {
    /// The cells, at the end of the file.
    fn cells(&self, keys: &[&'static str]) -> Option<Cells> {
        let tail = Tail {
            base: self.end,
            end: self.end,
            events: &[],
        };
        let (header, cut) = (&self.header, self.inherited);
        let cells = Cells::restore(&self.registry, keys, header, cut, &self.rows, tail);
        if let Err(error) = &cells {
            let session = &self.header.id;
            tracing::warn!(%session, %error, "a checkpoint is wrong; the log is read instead");
            self.wrong.store(true, Ordering::Release);
        }
        cells.ok()
    }
}

impl ColdRow {
    fn folded(cells: Cells) -> Self {
        let metadata = cells.state_of(&ListMetadata).copied();
        Self {
            blank: metadata.is_none_or(|m| m.blank),
            last_prompt_at: metadata.and_then(|m| m.last_prompt_at),
            damage: None,
            source: Source::Folded(cells),
            snapshot: OnceLock::new(),
        }
    }

    /// The row of a record that stands at the very end of the file; `None` when the record does not
    /// say everything.
    fn kept(
        registry: &Arc<Registry>,
        entry: &CatalogueEntry,
        record: &mut CheckpointRecord,
    ) -> Option<Self> {
        let identity = CheckpointIdentity::of(&entry.header, entry.inherited);
        let current = record.revision.as_deref() == Some(entry.revision.to_string().as_str());
        if !current || record.identity != identity {
            return None;
        }
        let keys = WANTED.keys();
        let metadata = record.rows.get(ListMetadata.key())?;
        let end = metadata.seq.offset();
        if !registry.holds_all(&record.rows, &keys, end) {
            return None;
        }
        let metadata = metadata.val.parse::<ListMetadataState>().ok()?;
        let mut rows = std::mem::take(&mut record.rows);
        rows.retain(|key, _| keys.contains(&key.as_str()));
        Some(Self {
            blank: metadata.blank,
            last_prompt_at: metadata.last_prompt_at,
            damage: None,
            source: Source::Kept(KeptRow {
                registry: Arc::clone(registry),
                header: entry.header.clone(),
                inherited: entry.inherited,
                end,
                rows,
                wrong: AtomicBool::new(false),
            }),
            snapshot: OnceLock::new(),
        })
    }

    /// The projections that rows carry.
    pub(super) fn snapshot(&self) -> Option<&Snapshot> {
        let made = self.snapshot.get_or_init(|| match &self.source {
            Source::Folded(cells) => Some(cells.snapshot_of(&ROW_KEYS)),
            Source::Kept(kept) => Some(kept.cells(&ROW_KEYS)?.snapshot_of(&ROW_KEYS)),
            Source::Nothing => None,
        });
        made.as_ref()
    }

    /// Whether what it was taken from turned out to be wrong: it is to be looked for again.
    pub(super) fn is_wrong(&self) -> bool {
        matches!(&self.source, Source::Kept(kept) if kept.wrong.load(Ordering::Acquire))
    }

    /// The messages that wait.
    pub(super) fn queue(&self) -> Vec<QueuedItem> {
        let queued = self.state(&InboxUnit, |state| QueuedItem::of(&state.inbox));
        queued.unwrap_or_default()
    }

    /// The questions that nobody can answer any more.
    pub(super) fn expired(&self) -> Vec<PendingApproval> {
        self.state(&PendingApprovalsUnit, Clone::clone)
            .unwrap_or_default()
    }

    /// All jobs of a session with one that the last Host did not see to its end; otherwise none.
    pub(super) fn lost_jobs(&self) -> Vec<SessionJob> {
        let jobs = self.state(&JobsUnit, |state| {
            let lost = state.jobs.iter().any(|job| job.ended.is_none());
            if lost { cold_jobs(state) } else { Vec::new() }
        });
        jobs.unwrap_or_default()
    }

    fn state<U: Unit, T>(&self, unit: &U, read: impl FnOnce(&U::State) -> T) -> Option<T> {
        match &self.source {
            Source::Folded(cells) => cells.state_of(unit).map(read),
            Source::Kept(kept) => kept.cells(&[unit.key()])?.state_of(unit).map(read),
            Source::Nothing => None,
        }
    }

    /// A row that could not be folded is shown, never hidden.
    fn damaged(why: String) -> Self {
        Self {
            blank: false,
            last_prompt_at: None,
            damage: Some(why),
            source: Source::Nothing,
            snapshot: OnceLock::new(),
        }
    }
}

/// Rows by session, each valid for one state of the file.
#[derive(Debug, Default)]
pub(super) struct ColdRows {
    rows: Mutex<HashMap<SessionId, (Revision, Arc<ColdRow>)>>,
    /// Whether checkpoints of sessions that went while no Host ran were looked for.
    looked_through: AtomicBool,
}

impl ColdRows {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, (Revision, Arc<ColdRow>)>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the rows of sessions that are gone, and says whose they were.
    fn forget_all_but(&self, there: impl Fn(&SessionId) -> bool) -> Vec<SessionId> {
        let mut gone = Vec::new();
        self.lock().retain(|id, _| {
            let stays = there(id);
            if !stays {
                gone.push(id.clone());
            }
            stays
        });
        gone
    }

    fn remember(&self, id: &SessionId, revision: Revision, row: &Arc<ColdRow>) {
        self.lock().insert(id.clone(), (revision, Arc::clone(row)));
    }
}

/// A row that was folded, and what may be kept of it.
struct Read {
    id: SessionId,
    revision: Revision,
    row: Arc<ColdRow>,
    record: Option<CheckpointRecord>,
}

impl Controller {
    /// The rows of these sessions; those that are gone are left out.
    pub(super) async fn cold_rows(
        &self,
        entries: impl Iterator<Item = &CatalogueEntry>,
    ) -> HashMap<SessionId, Arc<ColdRow>> {
        let mut rows = HashMap::new();
        let (mut missing, mut wrong) = (Vec::new(), Vec::new());
        {
            let known = self.inner.cold.lock();
            for entry in entries {
                match known.get(&entry.header.id) {
                    Some((_, row)) if row.is_wrong() => wrong.push((entry.clone(), None)),
                    Some((revision, row)) if *revision == entry.revision => {
                        rows.insert(entry.header.id.clone(), Arc::clone(row));
                    }
                    _ => missing.push(entry.clone()),
                }
            }
        }
        if missing.is_empty() && wrong.is_empty() {
            return rows;
        }
        let (kept, unread) = self.kept_rows(missing).await;
        for (id, revision, row) in kept {
            self.inner.cold.remember(&id, revision, &row);
            rows.insert(id, row);
        }
        let mut reads = futures_util::stream::iter(unread.into_iter().chain(wrong))
            .map(|(entry, record)| {
                let controller = self.clone();
                async move { controller.read_row(entry, record).await }
            })
            .buffer_unordered(self.inner.settings.cold_read_concurrency.max(1));
        let mut fresh = Vec::new();
        while let Some(read) = reads.next().await {
            let Some(read) = read else { continue };
            self.inner.cold.remember(&read.id, read.revision, &read.row);
            fresh.extend(read.record.map(|record| (read.id.clone(), record)));
            rows.insert(read.id, read.row);
        }
        if let Some(keeper) = self.inner.keeper.clone() {
            self.inner
                .tasks
                .spawn(async move { keeper.put(fresh).await });
        }
        rows
    }

    /// Forgets what was kept of sessions whose logs are gone. The first time, all checkpoints are
    /// looked through: sessions may have gone while no Host ran.
    pub(super) fn forget_gone(&self, catalogue: &Arc<Catalogue>) {
        let live = self.inner.live.clone();
        let logs = Arc::clone(catalogue);
        let there = move |id: &SessionId| logs.get(id).is_some() || live.get(id).is_some();
        let mut gone = self.inner.cold.forget_all_but(&there);
        let first = !self.inner.cold.looked_through.swap(true, Ordering::AcqRel);
        let Some(store) = self.inner.checkpoints.clone() else {
            return;
        };
        if gone.is_empty() && !first {
            return;
        }
        // Derived, and in nobody's way: a failure leaves it for the next start.
        self.inner.tasks.spawn_blocking(move || {
            if first && let Ok(records) = store.load_all() {
                gone.extend(records.into_keys().filter(|id| !there(id)));
            }
            if let Err(error) = store.remove(&gone) {
                tracing::debug!(%error, "checkpoints of sessions that are gone stay for now");
            }
        });
    }

    /// Serves what checkpoints say; the rest comes back with what is known of it.
    async fn kept_rows(
        &self,
        missing: Vec<CatalogueEntry>,
    ) -> (
        Vec<(SessionId, Revision, Arc<ColdRow>)>,
        Vec<(CatalogueEntry, Option<CheckpointRecord>)>,
    ) {
        let Some(store) = self.inner.checkpoints.clone() else {
            return (Vec::new(), missing.into_iter().map(|e| (e, None)).collect());
        };
        let registry = Arc::clone(&self.inner.registry);
        let looked = tokio::task::spawn_blocking(move || {
            let ids = missing.iter().map(|entry| &entry.header.id);
            let loaded = if missing.len() >= ALL_AT_ONCE {
                store.load_all()
            } else {
                ids.filter_map(|id| match store.load(id) {
                    Ok(record) => record.map(|record| Ok((id.clone(), record))),
                    Err(error) => Some(Err(error)),
                })
                .collect()
            };
            let mut records: BTreeMap<SessionId, CheckpointRecord> =
                loaded.unwrap_or_else(|error| {
                    tracing::warn!(%error, "listing without checkpoints");
                    BTreeMap::new()
                });
            let (mut kept, mut unread) = (Vec::new(), Vec::new());
            for entry in missing {
                let mut record = records.remove(&entry.header.id);
                let row = record
                    .as_mut()
                    .and_then(|record| ColdRow::kept(&registry, &entry, record));
                match row {
                    Some(row) => kept.push((entry.header.id, entry.revision, Arc::new(row))),
                    None => unread.push((entry, record)),
                }
            }
            (kept, unread)
        });
        looked.await.unwrap_or_else(|error| {
            tracing::error!(%error, "checkpoints could not be looked at");
            Default::default()
        })
    }

    /// Folds one log; `None` when it is gone.
    async fn read_row(
        &self,
        entry: CatalogueEntry,
        record: Option<CheckpointRecord>,
    ) -> Option<Read> {
        let id = entry.header.id.clone();
        match self.folded(&id, record).await {
            Ok((revision, cells, record)) => Some(Read {
                id,
                revision,
                row: Arc::new(ColdRow::folded(cells)),
                record,
            }),
            Err(StorageError::NotFound { .. }) => None,
            Err(error) if error.is_missing_file() => None,
            Err(error) => Some(Read {
                id,
                revision: entry.revision,
                row: Arc::new(ColdRow::damaged(error.to_string())),
                record: None,
            }),
        }
    }

    /// The wanted projections of a cold log, and the record that may be kept of them: nothing that
    /// is not on disk, and beside the rows that others kept.
    async fn folded(
        &self,
        id: &SessionId,
        record: Option<CheckpointRecord>,
    ) -> Result<(Revision, Cells, Option<CheckpointRecord>), StorageError> {
        let view = self.inner.store.view(id).await?;
        let registry = Arc::clone(&self.inner.registry);
        let folding = tokio::task::spawn_blocking(move || {
            let folded = fold(&registry, &WANTED, &view, record.as_ref())?;
            let identity = CheckpointIdentity::of(view.header(), view.inherited());
            // The revision is enough for a log that rests. One that was seen in another state goes
            // on moving, and the next look builds upon this one.
            let moves = record.as_ref().is_some_and(|r| r.identity == identity);
            let mut rows = record
                .filter(|_| folded.built_upon)
                .map(|record| record.rows)
                .unwrap_or_default();
            let whole = view.end() == view.stored_end();
            let kept = folded.stored.map(|stored| {
                rows.extend(stored);
                let mut kept = CheckpointRecord {
                    identity,
                    revision: whole.then(|| view.revision().to_string()),
                    anchor: None,
                    rows,
                };
                if moves || !whole {
                    kept.anchor = anchor(&view, kept.reach()).ok();
                }
                kept
            });
            Ok((view.revision(), folded.cells, kept))
        });
        folding.await.unwrap_or_else(|error| {
            tracing::error!(%error, "a log could not be folded");
            Err(StorageError::Closed)
        })
    }
}
