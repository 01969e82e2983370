//! A disk of a few files that are only bytes in memory: for feeding readers what no file system
//! need hold.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use orrery_storage::disk::{Disk, DiskFile, DiskReader, FileStat, FolderEntry, LockOutcome};

/// The disk. Reading works, derived files are kept, everything else is refused.
#[derive(Debug, Default)]
pub struct FrozenDisk {
    files: Mutex<BTreeMap<PathBuf, FrozenFile>>,
}

impl FrozenDisk {
    /// Puts a file.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let inode = files.len() as u64 + 1;
        let bytes = bytes.into();
        files.insert(path.to_owned(), FrozenFile { inode, bytes });
    }

    fn find(&self, path: &Path) -> io::Result<FrozenFile> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let found = files.get(path).cloned();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

#[derive(Debug, Clone)]
struct FrozenFile {
    inode: u64,
    bytes: Arc<[u8]>,
}

impl DiskReader for FrozenFile {
    fn stat(&self) -> io::Result<FileStat> {
        Ok(FileStat {
            device: 1,
            inode: self.inode,
            size: self.bytes.len() as u64,
            modified_ns: 1,
            changed_ns: 1,
        })
    }

    fn read_into(&self, offset: u64, length: usize, bytes: &mut Vec<u8>) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.bytes.get(start..).unwrap_or_default();
        let these = rest.get(..length).unwrap_or(rest);
        bytes.extend_from_slice(these);
        Ok(these.len())
    }
}

fn frozen<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Disk for FrozenDisk {
    fn create_folder(&self, _path: &Path) -> io::Result<()> {
        frozen()
    }

    fn sync_folder(&self, _path: &Path) -> io::Result<()> {
        frozen()
    }

    fn create_file(&self, _path: &Path) -> io::Result<Box<dyn DiskFile>> {
        frozen()
    }

    fn open_file(&self, _path: &Path) -> io::Result<Box<dyn DiskFile>> {
        frozen()
    }

    fn link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        frozen()
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        frozen()
    }

    fn remove_file(&self, _path: &Path) -> io::Result<()> {
        frozen()
    }

    fn stat(&self, path: &Path) -> io::Result<FileStat> {
        self.find(path)?.stat()
    }

    fn open_reader(&self, path: &Path) -> io::Result<Box<dyn DiskReader>> {
        Ok(Box::new(self.find(path)?))
    }

    fn replace_derived(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.put(path, bytes);
        Ok(())
    }

    fn list(&self, _path: &Path) -> io::Result<Vec<FolderEntry>> {
        frozen()
    }

    fn lock(&self, _path: &Path, _holder: &str) -> io::Result<LockOutcome> {
        frozen()
    }

    fn lock_holder(&self, _path: &Path) -> Option<String> {
        None
    }
}
