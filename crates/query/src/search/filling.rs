//! Keeping the search index up with the logs (`subagent.md` 3.7, reconciliation).
//!
//! A session is indexed by seq: what is indexed already is not read again, also of a live one. Only
//! what is on disk is indexed, and the last indexed event is compared with the log before anything
//! is added behind it, so that a log that lost its end and was written on is indexed anew.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use orrery_projection::checkpoint::CheckpointIdentity;
use orrery_session::{EventType, SessionId, SessionLogOffset, SessionSeq, SharedEvent};
use orrery_storage::{LogView, StorageError, Store};

use super::index::{
    Document, Generation, IndexError, IndexedSession, SearchIndex, SessionUpdate, Standing,
};
use super::text::{SEARCHABLE, shadowed_by, text_of};
use crate::anchor::anchor;
use crate::live::LiveSessions;

/// How many events of a log are looked at for one update: bounds what is held in memory.
const WINDOW: usize = 4_000;
/// How much of one event's text is searched, in bytes: enough for a book. A message of forty
/// megabytes would take ten times that while its words are counted.
const INDEXED_BYTES: usize = 1024 * 1024;
/// How much text is gathered before it is written, in bytes.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// How much is done at once.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    window: usize,
    batch_bytes: usize,
}

/// A session whose log has more than the index.
#[derive(Debug, Clone)]
struct Behind {
    id: SessionId,
    /// Where to stop: live sessions are indexed as far as they are saved.
    live_end: Option<SessionLogOffset>,
}

/// How far the index is behind the logs.
#[derive(Debug, Clone, Default)]
pub struct Backlog {
    behind: Vec<Behind>,
    gone: Vec<SessionId>,
    instance: String,
}

impl Backlog {
    /// How many sessions there are to read.
    pub fn len(&self) -> usize {
        self.behind.len()
    }

    /// Which file of the index this was found out of: of another one it says nothing.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Whether the index answers for everything.
    pub fn is_empty(&self) -> bool {
        self.behind.is_empty() && self.gone.is_empty()
    }
}

/// Fills an index. Copies share what is known of it.
#[derive(Debug, Clone)]
pub struct Filling {
    store: Store,
    live: Arc<dyn LiveSessions>,
    index: Arc<dyn SearchIndex>,
    bounds: Bounds,
    known: Arc<Mutex<Known>>,
    /// One filling at a time: two would read the same logs.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// What the index holds, as far as this process knows.
#[derive(Debug, Default)]
struct Known {
    instance: Option<String>,
    sessions: HashMap<SessionId, IndexedSession>,
    /// The live ones that were compared with their logs since they came to life: before, anybody may
    /// have put another log there, and how long that is says nothing.
    compared: HashSet<SessionId>,
    /// Logs that could not be read in that state; they are tried again when they change.
    unreadable: HashMap<SessionId, String>,
}

/// The part of a generation that names the file: another one means that the index began anew.
fn instance_of(generation: &Generation) -> String {
    let name = generation.0.rsplit_once(':').map(|(name, _)| name);
    name.unwrap_or(&generation.0).to_owned()
}

impl Filling {
    /// Knows nothing yet.
    pub fn new(store: Store, live: Arc<dyn LiveSessions>, index: Arc<dyn SearchIndex>) -> Self {
        Self {
            store,
            live,
            index,
            bounds: Bounds {
                window: WINDOW,
                batch_bytes: BATCH_BYTES,
            },
            known: Arc::default(),
            turn: Arc::default(),
        }
    }

    /// The index.
    pub fn index(&self) -> &Arc<dyn SearchIndex> {
        &self.index
    }

    /// What the live sessions have that the index lacks: costs no look at the disk.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub async fn live_backlog(&self) -> Result<Backlog, IndexError> {
        let instance = self.look().await?;
        let live = self.live.all();
        let mut known = self.lock();
        known
            .compared
            .retain(|id| live.iter().any(|log| log.header().id == *id));
        let mut backlog = Backlog {
            instance,
            ..Backlog::default()
        };
        for log in live {
            let (id, saved) = (&log.header().id, log.saved());
            let current = known
                .sessions
                .get(id)
                .map_or(saved == SessionLogOffset::ZERO, |session| {
                    session.through == saved && known.compared.contains(id)
                });
            if !current {
                backlog.behind.push(Behind {
                    id: id.clone(),
                    live_end: Some(saved),
                });
            }
        }
        Ok(backlog)
    }

    /// What all logs have that the index lacks, and what it holds of logs that are gone: costs a
    /// `stat` for each log.
    ///
    /// # Errors
    /// When the index or the sessions root cannot be read.
    pub async fn backlog(&self) -> Result<Backlog, IndexError> {
        let mut backlog = self.live_backlog().await?;
        let failed = |error: StorageError| IndexError(error.to_string());
        let catalogue = self.store.catalogue().await.map_err(failed)?;
        let live: HashSet<SessionId> = self
            .live
            .all()
            .iter()
            .map(|log| log.header().id.clone())
            .collect();
        let known = self.lock();
        let mut oldest_first = BTreeSet::new();
        for entry in catalogue.entries() {
            let id = &entry.header.id;
            let revision = entry.revision.to_string();
            let current = known.sessions.get(id).is_some_and(|session| {
                session.revision.as_ref() == Some(&revision)
                    && session.identity == CheckpointIdentity::of(&entry.header, entry.inherited)
            });
            if current
                || live.contains(id)
                || known.unreadable.get(id) == Some(&revision)
                // Nobody can tell which log counts, so none is read.
                || catalogue.is_doubled(id)
            {
                continue;
            }
            oldest_first.insert((entry.header.created_at, id.clone()));
        }
        // The index ranks what came last into it where there is too much of a word.
        backlog.behind.extend(
            oldest_first
                .into_iter()
                .map(|(_, id)| Behind { id, live_end: None }),
        );
        backlog.gone = known
            .sessions
            .keys()
            .filter(|id| catalogue.get(id).is_none() && !live.contains(*id))
            .cloned()
            .collect();
        Ok(backlog)
    }

    /// Works a backlog off, telling after each piece how many sessions are left. Stops early when
    /// `go_on` says so.
    ///
    /// # Errors
    /// When the index cannot be written. What was written stays.
    pub async fn work_off(
        &self,
        backlog: Backlog,
        mut go_on: impl FnMut(usize) -> bool,
    ) -> Result<(), IndexError> {
        let _turn = self.turn.lock().await;
        if !backlog.gone.is_empty() {
            let (index, gone) = (Arc::clone(&self.index), backlog.gone.clone());
            blocking(move || index.remove(&gone)).await?;
            let mut known = self.lock();
            for id in &backlog.gone {
                known.sessions.remove(id);
            }
        }
        let mut left = backlog.behind.len();
        let mut batch = Batch::default();
        for behind in backlog.behind {
            let mut from = self.known_of(&behind.id);
            loop {
                let read = self.read(&behind, from.clone()).await?;
                let Some((update, more)) = read else { break };
                // Between two windows nothing can have changed but the log's end.
                from = Some(update.session.clone());
                if behind.live_end.is_some() {
                    batch.live.push(behind.id.clone());
                }
                if batch.add(update) >= self.bounds.batch_bytes || more {
                    self.write(&mut batch).await?;
                }
                if !more {
                    break;
                }
            }
            left -= 1;
            if !go_on(left) {
                break;
            }
        }
        self.write(&mut batch).await
    }

    /// Forgets what the index holds: it failed, and may have lost everything.
    pub fn forget(&self) {
        self.lock().instance = None;
    }

    /// Reads what the index holds, once, and again when another file lies there. Says which.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub async fn look(&self) -> Result<String, IndexError> {
        let index = Arc::clone(&self.index);
        let generation = blocking(move || index.generation()).await?;
        let instance = instance_of(&generation);
        if self.lock().instance.as_ref() == Some(&instance) {
            return Ok(instance);
        }
        let index = Arc::clone(&self.index);
        let sessions = blocking(move || index.sessions()).await?;
        let mut known = self.lock();
        known.instance = Some(instance.clone());
        known.sessions = sessions.into_iter().map(|s| (s.id.clone(), s)).collect();
        known.compared.clear();
        known.unreadable.clear();
        Ok(instance)
    }

    fn known_of(&self, id: &SessionId) -> Option<IndexedSession> {
        self.lock().sessions.get(id).cloned()
    }

    /// The next piece of a log; whether there is more behind it. `None` when the log is gone or
    /// cannot be read: the search is without it, and the list says why.
    async fn read(
        &self,
        behind: &Behind,
        from: Option<IndexedSession>,
    ) -> Result<Option<(SessionUpdate, bool)>, IndexError> {
        let id = &behind.id;
        let view = match self.store.view(id).await {
            Ok(view) => view,
            Err(StorageError::NotFound { .. }) => return Ok(None),
            Err(error) => {
                self.give_up(id, &error).await;
                return Ok(None);
            }
        };
        let (live_end, window) = (behind.live_end, self.bounds.window);
        match blocking_storage(move || next_update(&view, live_end, from, window)).await {
            Ok(update) => Ok(Some(update)),
            Err(error) => {
                self.give_up(id, &error).await;
                Ok(None)
            }
        }
    }

    async fn give_up(&self, id: &SessionId, error: &StorageError) {
        tracing::debug!(session = %id, %error, "a log cannot be searched");
        if let Ok(entry) = self.store.find(id).await {
            let revision = entry.revision.to_string();
            self.lock().unreadable.insert(id.clone(), revision);
        }
    }

    async fn write(&self, batch: &mut Batch) -> Result<(), IndexError> {
        let Batch { updates, live, .. } = std::mem::take(batch);
        if updates.is_empty() {
            return Ok(());
        }
        let sessions: Vec<IndexedSession> = updates.iter().map(|u| u.session.clone()).collect();
        let index = Arc::clone(&self.index);
        blocking(move || index.update(&updates)).await?;
        let mut known = self.lock();
        known.compared.extend(live);
        for session in sessions {
            known.unreadable.remove(&session.id);
            known.sessions.insert(session.id.clone(), session);
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
struct Batch {
    updates: Vec<SessionUpdate>,
    /// Whose updates were read from logs of live sessions.
    live: Vec<SessionId>,
    bytes: usize,
}

impl Batch {
    fn add(&mut self, update: SessionUpdate) -> usize {
        self.bytes += update.documents.iter().map(|d| d.text.len()).sum::<usize>();
        self.updates.push(update);
        self.bytes
    }
}

/// What comes next of a log, behind what is indexed of it; whether there is more behind that.
fn next_update(
    view: &LogView,
    live_end: Option<SessionLogOffset>,
    from: Option<IndexedSession>,
    window: usize,
) -> Result<(SessionUpdate, bool), StorageError> {
    let identity = CheckpointIdentity::of(view.header(), view.inherited());
    let end = live_end.unwrap_or(view.stored_end()).min(view.stored_end());
    let mut start = SessionLogOffset::ZERO;
    if let Some(known) = from
        .as_ref()
        .filter(|known| known.identity == identity && known.through <= end)
        && anchor(view, known.through)? == known.anchor
    {
        start = known.through;
    }
    let stop = start.advance(window).min(end);
    let mut types: Vec<&EventType> = SEARCHABLE.iter().collect();
    types.sort();
    let (documents, shadowed) = documents(&view.events_of_within(&types, start..stop)?);
    let more = stop < end;
    let revision = (live_end.is_none() && !more).then(|| view.revision().to_string());
    let session = IndexedSession {
        id: view.header().id.clone(),
        identity,
        revision,
        through: stop,
        anchor: anchor(view, stop)?,
    };
    let update = SessionUpdate {
        session,
        from_scratch: start == SessionLogOffset::ZERO,
        documents,
        shadowed,
    };
    Ok((update, more))
}

/// The documents of some events, and what these take off the surface among the events before.
fn documents(events: &[SharedEvent]) -> (Vec<Document>, Vec<std::ops::RangeInclusive<SessionSeq>>) {
    let mut documents: Vec<Document> = Vec::new();
    let mut shadowed = Vec::new();
    for event in events {
        for range in shadowed_by(event) {
            for document in &mut documents {
                if range.contains(&document.seq) && document.standing == Standing::Current {
                    document.standing = Standing::Shadowed;
                }
            }
            shadowed.push(range);
        }
        let is_title = *event.event_type() == EventType::SessionTitle;
        if is_title {
            documents.retain(|document| document.event_type != EventType::SessionTitle);
        }
        let text = match text_of(event) {
            Some(mut text) => {
                if text.len() > INDEXED_BYTES {
                    text.truncate(text.floor_char_boundary(INDEXED_BYTES));
                    text.shrink_to_fit();
                }
                text
            }
            // It takes the place of the one before all the same, which may be indexed already.
            None if is_title => String::new(),
            None => continue,
        };
        documents.push(Document {
            seq: event.seq(),
            event_type: event.event_type().clone(),
            time: event.time(),
            standing: if event.event_type().is_surface() {
                Standing::Current
            } else {
                Standing::LogOnly
            },
            text,
        });
    }
    (documents, shadowed)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IndexError> + Send + 'static,
) -> Result<T, IndexError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(IndexError(error.to_string())),
    }
}

async fn blocking_storage<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StorageError> + Send + 'static,
) -> Result<T, StorageError> {
    orrery_storage::store::blocking(work).await
}
