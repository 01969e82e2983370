//! The async face of storage: a [`Store`] for a root, a [`LogWriter`] for each live session.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use orrery_session::{SessionHeader, SessionId, SessionLogOffset, SharedEvent};
use tokio::sync::{oneshot, watch};

use crate::believed::Believed;
use crate::catalogue::{Catalogue, CatalogueEntry};
use crate::catalogue_file;
use crate::disk::Disk;
use crate::error::StorageError;
use crate::incoming::Incoming;
use crate::layout::Compression;
use crate::read::{StoredLog, copy_raw, read_log};
use crate::tally::{Reads, Tally};
use crate::trash::{self, Deleted};
use crate::view::LogView;
use crate::writer::{Command, Lives, Slot, Writer};

/// When an append is on disk (decision D8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Before anybody sees it.
    Event,
    /// At the checkpoints, and at most one write-behind window later.
    #[default]
    Step,
    /// At the checkpoints; between them the operating system may hold it.
    Turn,
}

/// For how long a look at the root is believed, unless the options say otherwise.
pub const BELIEVED_FOR: Duration = Duration::from_millis(500);

/// How long a look at every log is confirmed by looks at the folders alone.
pub const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How a store is set up.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The log root.
    pub root: PathBuf,
    /// The container of new logs.
    pub compression: Compression,
    /// When an append is on disk.
    pub durability: Durability,
    /// The write-behind window: how long the first queued event may wait.
    pub write_window: Duration,
    /// Where the header catalogue is kept between starts; nowhere by default.
    pub catalogue_file: Option<PathBuf>,
    /// For how long a look at the root is believed by [`Store::recent_catalogue`]: what other
    /// processes write may be seen so much later. What this one writes is always seen at once.
    pub believed_for: Duration,
}

impl StoreOptions {
    /// The defaults for a root.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            compression: Compression::default(),
            durability: Durability::default(),
            write_window: Duration::from_millis(200),
            catalogue_file: None,
            believed_for: BELIEVED_FOR,
        }
    }
}

/// How much of a live session is on disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SaveState {
    /// Everything before this boundary is written.
    pub saved: SessionLogOffset,
    /// What the last write failed with; `None` while all is well.
    pub degraded: Option<String>,
}

/// All logs under one root.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    disk: Arc<dyn Disk>,
    options: StoreOptions,
    believed: Arc<Believed>,
    /// Held by whoever looks for a recent catalogue; who comes meanwhile takes what that one sees.
    looking: tokio::sync::Mutex<()>,
    tally: Tally,
    /// Whether the catalogue of an earlier process was looked at.
    catalogue_loaded: AtomicBool,
    commands: Sender<Command>,
    next_slot: AtomicU64,
}

impl Store {
    /// Starts the writer thread. The root may be absent; it is made with the first session.
    pub fn start(disk: Arc<dyn Disk>, options: StoreOptions) -> Result<Self, StorageError> {
        // Unbounded: what waits here is held by the live logs anyway, and every checkpoint waits
        // for the queue to empty.
        let (commands, receiver) = channel();
        let believed = Arc::<Believed>::default();
        let writer = Writer {
            believed: Arc::clone(&believed),
            disk: Arc::clone(&disk),
            root: options.root.clone(),
            compression: options.compression,
            durability: options.durability,
            window: options.write_window,
            live: Lives::default(),
        };
        std::thread::Builder::new()
            .name("orrery-log-writer".to_owned())
            .spawn(move || writer.run(&receiver))
            .map_err(|e| StorageError::io("start the writer of", &options.root, &e))?;
        let next_slot = AtomicU64::new(0);
        let inner = Inner {
            disk,
            options,
            believed,
            looking: tokio::sync::Mutex::default(),
            tally: Tally::default(),
            catalogue_loaded: AtomicBool::new(false),
            commands,
            next_slot,
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The log root.
    pub fn root(&self) -> &Path {
        &self.inner.options.root
    }

    /// When an append is on disk.
    pub fn durability(&self) -> Durability {
        self.inner.options.durability
    }

    /// Looks at the root: all sessions, and what is wrong with the rest.
    pub async fn catalogue(&self) -> Result<Arc<Catalogue>, StorageError> {
        let inner = Arc::clone(&self.inner);
        blocking(move || inner.refresh()).await
    }

    /// The same as somebody saw it no longer ago than [`StoreOptions::believed_for`], with all that
    /// this process published since. When it is time to look again the folders of the projects are
    /// asked first: where they say that no session came or went, that is the look. What they do not
    /// tell, a log that was replaced within its folder, is seen [`LOOK_EVERY`] late at most.
    ///
    /// # Errors
    /// When it is time to look again, and the root cannot be read.
    pub async fn recent_catalogue(&self) -> Result<Arc<Catalogue>, StorageError> {
        let recent = || self.inner.believed.fresh(self.inner.options.believed_for);
        if let Some(catalogue) = recent() {
            return Ok(catalogue);
        }
        let _looking = self.inner.looking.lock().await;
        if let Some(catalogue) = recent() {
            return Ok(catalogue);
        }
        let inner = Arc::clone(&self.inner);
        blocking(move || match inner.confirmed() {
            Some(catalogue) => Ok(catalogue),
            None => inner.refresh(),
        })
        .await
    }

    /// What reading has cost since the store was started.
    pub fn reads(&self) -> Reads {
        self.inner.tally.reads()
    }

    /// One session's place on disk.
    pub async fn find(&self, id: &SessionId) -> Result<CatalogueEntry, StorageError> {
        let (inner, id) = (Arc::clone(&self.inner), id.clone());
        blocking(move || inner.find(&id)).await
    }

    /// Reads one whole log, changing nothing: an open turn stays open.
    pub async fn read(&self, id: &SessionId) -> Result<StoredLog, StorageError> {
        let (inner, id) = (Arc::clone(&self.inner), id.clone());
        blocking(move || {
            let entry = inner.find(&id)?;
            inner.tally.log();
            read_log(inner.disk.as_ref(), &entry.path, entry.compression)
        })
        .await
    }

    /// Copies one log's own text, as it lies on disk, a frame at a time. Blocks: for threads that
    /// may.
    ///
    /// # Errors
    /// What keeps the log from being read, and those of `out`.
    pub fn copy_raw(
        &self,
        id: &SessionId,
        out: &mut dyn std::io::Write,
    ) -> Result<(), StorageError> {
        let inner = &self.inner;
        let entry = inner.find(id)?;
        inner.tally.log();
        copy_raw(inner.disk.as_ref(), &entry.path, entry.compression, out)
    }

    /// A place for logs that come from elsewhere, under a name that nobody else uses. Blocks.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn incoming(&self, name: &str) -> Result<Incoming, StorageError> {
        let inner = &self.inner;
        let (disk, believed) = (Arc::clone(&inner.disk), Arc::clone(&inner.believed));
        Incoming::open(disk, &inner.options.root, believed, name)
    }

    /// Opens one log for selective reads, changing nothing of it.
    pub async fn view(&self, id: &SessionId) -> Result<LogView, StorageError> {
        self.look_into(id, Ok).await
    }

    /// The same, and reads in it at once, before anybody waits for another thread.
    ///
    /// # Errors
    /// When the log cannot be opened, and those of `read`.
    pub async fn look_into<T: Send + 'static>(
        &self,
        id: &SessionId,
        read: impl FnOnce(LogView) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let (inner, id) = (Arc::clone(&self.inner), id.clone());
        blocking(move || {
            let entry = inner.find(&id)?;
            let (disk, path) = (inner.disk.as_ref(), entry.path.as_path());
            let view = LogView::open_tallied(disk, path, entry.compression, &inner.tally)?;
            if (view.header(), view.inherited()) != (&entry.header, entry.inherited) {
                inner.believed.forget(&id);
            }
            if view.header().id == id {
                read(view)
            } else {
                let (path, other) = (entry.path.display(), &view.header().id);
                let why = format!("{path} is the log of session {other}");
                Err(StorageError::Conflict { id, why })
            }
        })
        .await
    }

    /// Registers a new session. Nothing lies on disk before its first flush or window.
    ///
    /// # Errors
    /// [`StorageError::Exists`] when the id is taken: on disk, below any working directory, or by a
    /// session that is live here and has no file yet (`session.md` 2.10).
    pub async fn create(
        &self,
        header: SessionHeader,
        inherited: SessionLogOffset,
    ) -> Result<LogWriter, StorageError> {
        match self.find(&header.id).await {
            Err(StorageError::NotFound { .. }) => {}
            Ok(_) => return Err(StorageError::Exists { id: header.id }),
            Err(error) => return Err(error),
        }
        let (slot, saved, receiver) = self.slot();
        let (reply, answer) = oneshot::channel();
        self.send(Command::Create {
            slot,
            header,
            inherited,
            saved,
            reply,
        })?;
        answer.await.map_err(|_gone| StorageError::Closed)??;
        Ok(LogWriter {
            slot,
            commands: self.inner.commands.clone(),
            saved: receiver,
            open: AtomicBool::new(true),
        })
    }

    /// Opens a stored session for writing: takes its lock and repairs what a crash left.
    pub async fn open(&self, id: &SessionId) -> Result<Opened, StorageError> {
        let entry = self.find(id).await?;
        let (slot, saved, receiver) = self.slot();
        let (reply, answer) = oneshot::channel();
        let (id, path, compression) = (id.clone(), entry.path, entry.compression);
        self.send(Command::Open {
            slot,
            id,
            path,
            compression,
            saved,
            reply,
        })?;
        let log = answer.await.map_err(|_gone| StorageError::Closed)??;
        let commands = self.inner.commands.clone();
        let writer = LogWriter {
            slot,
            commands,
            saved: receiver,
            open: AtomicBool::new(true),
        };
        Ok(Opened { log, writer })
    }

    /// Moves sessions to the trash: the deleted one first, then those that belong to it. Nothing
    /// happens unless all of them are free.
    ///
    /// # Errors
    /// [`StorageError::WriterHeld`] when somebody writes one of them; what keeps one from being found
    /// or moved.
    pub async fn delete(
        &self,
        note: Deleted,
        belonging: Vec<SessionId>,
    ) -> Result<(), StorageError> {
        let inner = Arc::clone(&self.inner);
        blocking(move || {
            let ids = std::iter::once(&note.session_id).chain(&belonging);
            let whole: Vec<CatalogueEntry> =
                ids.map(|id| inner.find(id)).collect::<Result<_, _>>()?;
            let moved = trash::put(inner.disk.as_ref(), &inner.options.root, &note, &whole);
            for entry in &whole {
                inner.believed.forget(&entry.header.id);
            }
            moved
        })
        .await
    }

    /// What was deleted and can come back, the last deleted first.
    ///
    /// # Errors
    /// When the trash cannot be read.
    pub async fn deleted(&self) -> Result<Vec<Deleted>, StorageError> {
        let inner = Arc::clone(&self.inner);
        blocking(move || trash::list(inner.disk.as_ref(), &inner.options.root)).await
    }

    /// Takes a session out of the trash, with those that went with it; gives their ids, its own last.
    ///
    /// # Errors
    /// [`StorageError::NotFound`] when it is not there, [`StorageError::Exists`] when another session
    /// has its id meanwhile.
    pub async fn restore(&self, id: &SessionId) -> Result<Vec<SessionId>, StorageError> {
        let (inner, id) = (Arc::clone(&self.inner), id.clone());
        blocking(move || {
            let back = trash::restore(inner.disk.as_ref(), &inner.options.root, &id)?;
            for id in &back {
                inner.believed.forget(id);
            }
            Ok(back)
        })
        .await
    }

    /// Flushes everything and ends the writer thread; gives what could not be saved.
    pub async fn shutdown(&self) -> Vec<StorageError> {
        let (reply, answer) = oneshot::channel();
        if self.send(Command::Shutdown { reply }).is_err() {
            return Vec::new();
        }
        answer.await.unwrap_or_default()
    }

    fn slot(&self) -> (Slot, watch::Sender<SaveState>, watch::Receiver<SaveState>) {
        let slot = self.inner.next_slot.fetch_add(1, Ordering::Relaxed);
        let (saved, receiver) = watch::channel(SaveState::default());
        (slot, saved, receiver)
    }

    fn send(&self, command: Command) -> Result<(), StorageError> {
        self.inner
            .commands
            .send(command)
            .map_err(|_gone| StorageError::Closed)
    }
}

impl Inner {
    fn refresh(&self) -> Result<Arc<Catalogue>, StorageError> {
        let (disk, root) = (self.disk.as_ref(), self.options.root.as_path());
        self.tally.looked();
        let mut look = self.believed.begin();
        let file = self.options.catalogue_file.as_deref();
        let mut earlier = None;
        if let Some(file) = file
            && !self.catalogue_loaded.swap(true, Ordering::AcqRel)
        {
            let known = Catalogue::of_entries(catalogue_file::load(disk, file, root));
            look.known = Arc::clone(earlier.insert(Arc::new(known)));
        }
        let fresh = Arc::new(Catalogue::refresh(disk, root, &look.known)?);
        let unsaved = self.believed.end(&look, &fresh);
        // The first look is compared with what lies in the file, not with what was known here.
        let unsaved = earlier.map_or(unsaved, |earlier| !fresh.same_logs(&earlier));
        if let Some(file) = file
            && unsaved
        {
            catalogue_file::save(disk, file, root, fresh.entries());
        }
        Ok(fresh)
    }

    /// The catalogue, where the folders say that it still stands.
    fn confirmed(&self) -> Option<Arc<Catalogue>> {
        let began = Instant::now();
        let (look, catalogue) = self.believed.looked_within(LOOK_EVERY)?;
        if !catalogue.still_stands(self.disk.as_ref()) {
            return None;
        }
        self.believed.confirm(look, began);
        Some(catalogue)
    }

    /// A known entry costs one `stat`; an unknown or vanished one a look into each project folder.
    fn find(&self, id: &SessionId) -> Result<CatalogueEntry, StorageError> {
        let known = self.believed.known();
        if let Some(entry) = known.get(id)
            // Of several logs one may be gone by now, which only a look tells.
            && !known.is_doubled(id)
            && let Ok(stat) = self.disk.stat(&entry.path)
            && (stat.device, stat.inode) == (entry.revision.0.device, entry.revision.0.inode)
        {
            let revision = crate::read::Revision(stat);
            return Ok(CatalogueEntry {
                revision,
                ..entry.clone()
            });
        }
        Catalogue::probe(self.disk.as_ref(), &self.options.root, id)
    }
}

/// Runs work that waits for the disk beside the async runtime.
///
/// # Errors
/// Those of the work; [`StorageError::Closed`] when the runtime is going down.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StorageError> + Send + 'static,
) -> Result<T, StorageError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_cancelled) => Err(StorageError::Closed),
    }
}

/// A stored session, opened for writing.
#[derive(Debug)]
pub struct Opened {
    /// The log after its repair.
    pub log: StoredLog,
    /// Its writer.
    pub writer: LogWriter,
}

/// Writes one live session. Dropping it flushes and closes in the background.
#[derive(Debug)]
pub struct LogWriter {
    slot: Slot,
    commands: Sender<Command>,
    saved: watch::Receiver<SaveState>,
    open: AtomicBool,
}

impl LogWriter {
    /// Queues events, which must continue the log; they are written within the window.
    pub fn append(&self, events: Vec<SharedEvent>) -> Result<(), StorageError> {
        self.send(Command::Append {
            slot: self.slot,
            events,
        })
    }

    /// Waits until everything queued before is on disk.
    pub async fn flush(&self) -> Result<(), StorageError> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Flush {
            slot: self.slot,
            reply,
        })?;
        answer.await.map_err(|_gone| StorageError::Closed)?
    }

    /// Flushes and lets go of file and lock. On failure the session stays open.
    pub async fn close(&self) -> Result<(), StorageError> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Close {
            slot: self.slot,
            reply: Some(reply),
        })?;
        answer.await.map_err(|_gone| StorageError::Closed)??;
        self.open.store(false, Ordering::Release);
        Ok(())
    }

    /// How much is on disk, and whether writing works.
    pub fn saved(&self) -> watch::Receiver<SaveState> {
        self.saved.clone()
    }

    fn send(&self, command: Command) -> Result<(), StorageError> {
        self.commands
            .send(command)
            .map_err(|_gone| StorageError::Closed)
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        if self.open.load(Ordering::Acquire) {
            // After a shutdown everything is flushed and closed already.
            drop(self.send(Command::Close {
                slot: self.slot,
                reply: None,
            }));
        }
    }
}
