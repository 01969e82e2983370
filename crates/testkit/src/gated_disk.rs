//! A real disk whose logs, and whose folders, can be kept from being looked at for a while, and
//! which counts both.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orrery_storage::disk::{
    Disk, DiskFile, DiskReader, FileStat, FolderEntry, LockOutcome, RealDisk,
};

/// The disk. It begins open.
#[derive(Debug, Default)]
pub struct GatedDisk {
    gate: Mutex<Gate>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Gate {
    shut: bool,
    folders_shut: bool,
    /// The files that somebody asked for since the gate was shut.
    asked: BTreeSet<PathBuf>,
    /// How many readers are being opened.
    within: usize,
    /// How many readers were opened.
    opened: usize,
    /// By how many nanoseconds folders seem older than they are.
    older: i128,
    /// How many folders are being listed.
    listing: usize,
}

impl GatedDisk {
    /// From now on nobody gets a file to read.
    pub fn shut(&self) {
        self.gate().shut = true;
    }

    /// From now on nobody gets a folder's entries.
    pub fn shut_folders(&self) {
        self.gate().folders_shut = true;
    }

    /// From now on folders seem to have changed an hour before they did.
    pub fn age_folders(&self) {
        self.gate().older = 3_600_000_000_000;
    }

    /// Whoever waits goes on.
    pub fn open(&self) {
        let mut gate = self.gate();
        (gate.shut, gate.folders_shut) = (false, false);
        drop(gate);
        self.moved.notify_all();
    }

    /// How many files were asked for since the gate was shut.
    pub fn asked(&self) -> usize {
        self.gate().asked.len()
    }

    /// How many files were opened to be read so far.
    pub fn opened(&self) -> usize {
        self.gate().opened
    }

    /// How many readers are being opened at this moment.
    pub fn within(&self) -> usize {
        self.gate().within
    }

    /// Waits, without keeping anything else on this thread from going on, until so many are at the
    /// gate of the files.
    ///
    /// # Panics
    /// When they do not come.
    pub async fn until_within(&self, count: usize) {
        self.until(|gate| gate.within >= count).await;
    }

    /// The same, until somebody is at the gate of the folders.
    ///
    /// # Panics
    /// When nobody comes.
    pub async fn until_listing(&self) {
        self.until(|gate| gate.listing > 0).await;
    }

    async fn until(&self, there: impl Fn(&Gate) -> bool) {
        let coming = async {
            while !there(&self.gate()) {
                tokio::task::yield_now().await;
            }
        };
        let patience = Duration::from_secs(30);
        let came = tokio::time::timeout(patience, coming).await;
        assert!(came.is_ok(), "nobody came to the gate");
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self, shut: impl Fn(&Gate) -> bool, mut gate: MutexGuard<'_, Gate>) {
        while shut(&gate) {
            gate = self
                .moved
                .wait(gate)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Disk for GatedDisk {
    fn open_reader(&self, path: &Path) -> io::Result<Box<dyn DiskReader>> {
        let mut gate = self.gate();
        if gate.shut {
            gate.asked.insert(path.to_owned());
        }
        gate.within += 1;
        gate.opened += 1;
        self.pass(|gate| gate.shut, gate);
        let reader = RealDisk.open_reader(path);
        self.gate().within -= 1;
        reader
    }

    fn list(&self, path: &Path) -> io::Result<Vec<FolderEntry>> {
        let mut gate = self.gate();
        gate.listing += 1;
        self.pass(|gate| gate.folders_shut, gate);
        let listed = RealDisk.list(path);
        self.gate().listing -= 1;
        listed
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.create_folder(path)
    }
    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.sync_folder(path)
    }
    fn create_file(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        RealDisk.create_file(path)
    }
    fn open_file(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        RealDisk.open_file(path)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.link(from, to)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove_file(path)
    }
    fn stat(&self, path: &Path) -> io::Result<FileStat> {
        let mut stat = RealDisk.stat(path)?;
        if path.is_dir() {
            let older = self.gate().older;
            stat.modified_ns -= older;
            stat.changed_ns -= older;
        }
        Ok(stat)
    }
    fn replace_derived(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        RealDisk.replace_derived(path, bytes)
    }
    fn lock(&self, path: &Path, holder: &str) -> io::Result<LockOutcome> {
        RealDisk.lock(path, holder)
    }
    fn lock_holder(&self, path: &Path) -> Option<String> {
        RealDisk.lock_holder(path)
    }
}
