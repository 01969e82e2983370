//! Logs that come from elsewhere: looked at aside, then put where they belong.
//!
//! Owns `<root>/.incoming-<name>/`, where files wait until they were read whole, and the way from
//! there to a name of their own. Leaves to others where the files come from, which of them belong
//! together, and what they are called when their names are taken.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orrery_session::v0::encode_header;
use orrery_session::{SessionHeader, SessionId, SessionLogOffset};

use crate::believed::Believed;
use crate::catalogue::Catalogue;
use crate::disk::Disk;
use crate::error::StorageError;
use crate::layout::{Compression, log_path};
use crate::lock::WriterLock;
use crate::log_file::make_folders;
use crate::read::read_log;

/// A place for logs that are looked at before they are let in. It goes with this value.
#[derive(Debug)]
pub struct Incoming {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) root: PathBuf,
    pub(crate) believed: Arc<Believed>,
    pub(crate) folder: PathBuf,
    pub(crate) files: usize,
}

/// A log that was read whole and is sound.
#[derive(Debug)]
pub struct Newcomer {
    path: PathBuf,
    inherited: SessionLogOffset,
    /// Its header, as it came.
    pub header: SessionHeader,
    /// How many events it holds.
    pub events: usize,
}

impl Incoming {
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        root: &Path,
        believed: Arc<Believed>,
        name: &str,
    ) -> Result<Self, StorageError> {
        let folder = root.join(format!(".incoming-{name}"));
        make_folders(disk.as_ref(), &folder)?;
        Ok(Self {
            disk,
            root: root.to_owned(),
            believed,
            folder,
            files: 0,
        })
    }

    /// Takes the text of one log, uncompressed, reads it whole and checks it. Blocks.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`] and [`StorageError::Unsupported`] when it is no sound log, a torn
    /// tail included; those of `text`, and of the disk.
    pub fn take(&mut self, text: &mut dyn io::Read) -> Result<Newcomer, StorageError> {
        self.files += 1;
        let path = self.folder.join(format!("{}.jsonl", self.files));
        let io = |error: io::Error| StorageError::io("write", &path, &error);
        let mut file = File::create_new(&path).map_err(io)?;
        io::copy(text, &mut file).map_err(io)?;
        file.sync_all().map_err(io)?;
        let log = read_log(self.disk.as_ref(), &path, Compression::None)?;
        if log.torn.is_some() {
            return Err(StorageError::corrupt(&path, "its end is missing"));
        }
        Ok(Newcomer {
            path,
            inherited: log.inherited,
            header: log.header,
            events: log.events.len(),
        })
    }

    /// Whether a session of that id is here already, sound or not. Blocks.
    ///
    /// # Errors
    /// When the root cannot be read.
    pub fn is_taken(&self, id: &SessionId) -> Result<bool, StorageError> {
        match Catalogue::probe(self.disk.as_ref(), &self.root, id) {
            Err(StorageError::NotFound { .. }) => Ok(false),
            Err(error @ StorageError::Io { .. }) => Err(error),
            Ok(_) | Err(_) => Ok(true),
        }
    }

    /// Lets a log in under a header of the caller's: its id and its parent may have changed. What
    /// stands behind the header stays byte for byte. Blocks.
    ///
    /// # Errors
    /// [`StorageError::Exists`] when the id is taken; those of the disk.
    pub fn admit(&self, log: &Newcomer, header: &SessionHeader) -> Result<(), StorageError> {
        let disk = self.disk.as_ref();
        if self.is_taken(&header.id)? {
            return Err(StorageError::Exists {
                id: header.id.clone(),
            });
        }
        let ready = match *header == log.header {
            true => log.path.clone(),
            false => renamed(log, header)?,
        };
        let path = log_path(&self.root, header, Compression::None);
        let folder = path.parent().unwrap_or(&self.root);
        make_folders(disk, folder)?;
        let _lock = WriterLock::take(disk, folder, &header.id)?;
        let io = |error: io::Error| StorageError::io("let in", &path, &error);
        disk.link(&ready, &path).map_err(io)?;
        disk.sync_folder(folder).map_err(io)?;
        self.believed.forget(&header.id);
        Ok(())
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            let path = self.folder.display();
            tracing::warn!(%path, %error, "a folder of incoming logs stays");
        }
    }
}

/// The same log under another header.
fn renamed(log: &Newcomer, header: &SessionHeader) -> Result<PathBuf, StorageError> {
    let path = log.path.with_extension("renamed");
    let io = |error: io::Error| StorageError::io("write", &path, &error);
    let mut old = BufReader::new(File::open(&log.path).map_err(io)?);
    let mut first = Vec::new();
    old.read_until(b'\n', &mut first).map_err(io)?;
    let mut file = File::create_new(&path).map_err(io)?;
    file.write_all(&encode_header(header, log.inherited))
        .map_err(io)?;
    io::copy(&mut old, &mut file).map_err(io)?;
    file.sync_all().map_err(io)?;
    Ok(path)
}
