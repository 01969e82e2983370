//! The connections: one that writes, a few that read, all of them to a file that may vanish.
//!
//! Owns when connections are opened, lent and dropped, noticing that the file is no longer ours, and
//! what follows from a failure. Each call looks whether the files at the path are still those that
//! are open: that costs two `stat`s, and a deleted file costs nothing but what was in it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use crate::database::{self, Demand, Identity, Opened};
use crate::error::{CatalogError, Verdict};

/// Readers that stay open when nobody reads. More are opened while they are needed.
const IDLE_READERS: usize = 2;

/// Counts how often the file was opened. Connections of an earlier epoch are not used again.
pub(crate) type Epoch = u64;

#[derive(Debug)]
pub(crate) struct Connections {
    /// `None` in memory: the writer is all there is.
    path: Option<PathBuf>,
    writer: Mutex<Option<Connection>>,
    current: Mutex<Current>,
    /// The epoch that began with another file than the one before.
    lost_in: AtomicU64,
    /// The last epoch of which somebody knows what is indexed.
    known_in: AtomicU64,
}

/// What readers go by. Never locked for longer than a look.
#[derive(Debug, Default)]
struct Current {
    epoch: Epoch,
    identity: Option<Identity>,
    idle: Vec<Connection>,
}

impl Connections {
    pub(crate) fn open(path: &Path) -> Result<Self, CatalogError> {
        let connections = Self::new(Some(path.to_owned()));
        let mut writer = locked(&connections.writer);
        connections.reopen(&mut writer, Demand::QuickLook)?;
        drop(writer);
        // Nobody knew the file before.
        connections.lost_in.store(0, Ordering::SeqCst);
        Ok(connections)
    }

    pub(crate) fn in_memory() -> Result<Self, CatalogError> {
        let connections = Self::new(None);
        *locked(&connections.writer) = Some(database::in_memory()?);
        Ok(connections)
    }

    fn new(path: Option<PathBuf>) -> Self {
        Self {
            path,
            writer: Mutex::new(None),
            current: Mutex::new(Current::default()),
            lost_in: AtomicU64::new(0),
            known_in: AtomicU64::new(0),
        }
    }

    /// Runs `work` on the connection that writes.
    pub(crate) fn write<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let mut writer = locked(&self.writer);
        let connection = self.ready(&mut writer)?;
        let result = work(connection);
        if let Err(error) = &result {
            self.judge(&mut writer, error);
        }
        result
    }

    /// Runs `work` on a connection that reads, beside whoever writes. Says of which epoch it was.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, CatalogError>,
    ) -> Result<(T, Epoch), CatalogError> {
        let Some(path) = &self.path else {
            return self.write(work).map(|value| (value, self.epoch()));
        };
        let (epoch, lent) = self.lend(path)?;
        let worked = lent
            .map_or_else(|| database::reader(path), Ok)
            .and_then(|mut connection| Ok((work(&mut connection)?, connection)));
        match worked {
            Ok((value, connection)) => {
                let mut current = locked(&self.current);
                if current.epoch == epoch && current.idle.len() < IDLE_READERS {
                    current.idle.push(connection);
                }
                Ok((value, epoch))
            }
            Err(error) => {
                let mut writer = locked(&self.writer);
                // Somebody else may have seen to it meanwhile.
                if self.epoch() == epoch {
                    self.judge(&mut writer, &error);
                }
                Err(error)
            }
        }
    }

    /// As `read`, once more when the file had to be opened anew: for what is right of any file.
    pub(crate) fn read_again<T>(
        &self,
        work: impl Fn(&mut Connection) -> Result<T, CatalogError>,
    ) -> Result<(T, Epoch), CatalogError> {
        let epoch = self.epoch();
        self.read(&work).or_else(|error| {
            if self.epoch() == epoch {
                Err(error)
            } else {
                self.read(&work)
            }
        })
    }

    /// As `write`, once more when the file had to be opened anew.
    pub(crate) fn write_again<T>(
        &self,
        work: impl Fn(&mut Connection) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let epoch = self.epoch();
        self.write(&work).or_else(|error| {
            if self.epoch() == epoch {
                Err(error)
            } else {
                self.write(&work)
            }
        })
    }

    /// Whoever learnt in this epoch what is indexed may go on from there.
    pub(crate) fn known(&self, epoch: Epoch) {
        self.known_in.fetch_max(epoch, Ordering::SeqCst);
    }

    /// Fails when the index was lost and nobody has asked since what it holds.
    pub(crate) fn not_lost(&self) -> Result<(), CatalogError> {
        if self.known_in.load(Ordering::SeqCst) < self.lost_in.load(Ordering::SeqCst) {
            Err(CatalogError::Lost)
        } else {
            Ok(())
        }
    }

    pub(crate) fn heal(&self) -> Result<bool, CatalogError> {
        let mut writer = locked(&self.writer);
        let before = self.epoch();
        self.reopen(&mut writer, Demand::WholeLook)?;
        Ok(self.lost_in.load(Ordering::SeqCst) > before)
    }

    pub(crate) fn rebuild(&self) -> Result<(), CatalogError> {
        let mut writer = locked(&self.writer);
        self.reopen(&mut writer, Demand::Anew)
    }

    fn epoch(&self) -> Epoch {
        locked(&self.current).epoch
    }

    /// An idle reader of the present files; `None` for a new one.
    fn lend(&self, path: &Path) -> Result<(Epoch, Option<Connection>), CatalogError> {
        {
            let mut current = locked(&self.current);
            if current.identity.is_some() && Identity::of(path) == current.identity {
                return Ok((current.epoch, current.idle.pop()));
            }
        }
        let mut writer = locked(&self.writer);
        self.ready(&mut writer)?;
        let mut current = locked(&self.current);
        Ok((current.epoch, current.idle.pop()))
    }

    /// The connection that writes, to the files that lie at the path now.
    fn ready<'a>(
        &self,
        writer: &'a mut MutexGuard<'_, Option<Connection>>,
    ) -> Result<&'a mut Connection, CatalogError> {
        let present = self.path.as_deref().and_then(Identity::of);
        let known = locked(&self.current).identity;
        if writer.is_none() || (self.path.is_some() && present != known) {
            self.reopen(writer, Demand::QuickLook)?;
        }
        writer.as_mut().ok_or(CatalogError::Lost)
    }

    /// Does what a failure asks for. What goes wrong meanwhile is for the next call to meet.
    fn judge(&self, writer: &mut MutexGuard<'_, Option<Connection>>, error: &CatalogError) {
        let demand = match error.verdict() {
            Verdict::Sound => return,
            Verdict::Suspect => Demand::QuickLook,
            Verdict::Damaged => Demand::Anew,
        };
        tracing::warn!(%error, "the catalogue is opened again");
        if let Err(error) = self.reopen(writer, demand) {
            tracing::warn!(%error, "the catalogue cannot be used for now");
        }
    }

    /// Drops all connections and opens the file.
    fn reopen(
        &self,
        writer: &mut MutexGuard<'_, Option<Connection>>,
        demand: Demand,
    ) -> Result<(), CatalogError> {
        **writer = None;
        let before = {
            let mut current = locked(&self.current);
            current.idle.clear();
            current.epoch += 1;
            current.identity.take()
        };
        let Some(path) = &self.path else {
            **writer = Some(database::in_memory()?);
            self.lost_in.store(self.epoch(), Ordering::SeqCst);
            return Ok(());
        };
        let opened = database::open(path, demand);
        let mut current = locked(&self.current);
        let same =
            |now: &Opened| !now.made && before.is_some_and(|b| b.same_database(&now.identity));
        if !opened.as_ref().is_ok_and(same) {
            self.lost_in.store(current.epoch, Ordering::SeqCst);
        }
        let opened = opened?;
        current.identity = Some(opened.identity);
        **writer = Some(opened.connection);
        Ok(())
    }
}

/// A panic of another thread leaves nothing half done here: SQLite rolls its transaction back.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
