//! A real disk whose logs can be kept from being opened for a while.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use orrery_storage::disk::{
    Disk, DiskFile, DiskReader, FileStat, FolderEntry, LockOutcome, RealDisk,
};

#[derive(Debug, Default)]
pub(super) struct GatedDisk {
    gate: Mutex<Gate>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct Gate {
    shut: bool,
    /// The logs that somebody asked for since the gate was shut.
    asked: BTreeSet<PathBuf>,
    /// How many readers are being opened.
    within: usize,
}

impl GatedDisk {
    pub(super) fn shut(&self) {
        self.gate.lock().unwrap().shut = true;
    }

    pub(super) fn open(&self) {
        self.gate.lock().unwrap().shut = false;
        self.moved.notify_all();
    }

    /// How many logs were asked for since the gate was shut.
    pub(super) fn asked(&self) -> usize {
        self.gate.lock().unwrap().asked.len()
    }

    /// How many readers are being opened at this moment.
    pub(super) fn within(&self) -> usize {
        self.gate.lock().unwrap().within
    }

    /// Waits, without keeping anything else on this thread from going on, until so many are at the
    /// gate.
    pub(super) async fn until_within(&self, count: usize) {
        let coming = async {
            while self.within() < count {
                tokio::task::yield_now().await;
            }
        };
        let patience = Duration::from_secs(30);
        tokio::time::timeout(patience, coming).await.unwrap();
    }
}

impl Disk for GatedDisk {
    fn open_reader(&self, path: &Path) -> io::Result<Box<dyn DiskReader>> {
        let mut gate = self.gate.lock().unwrap();
        if gate.shut {
            gate.asked.insert(path.to_owned());
        }
        gate.within += 1;
        while gate.shut {
            gate = self.moved.wait(gate).unwrap();
        }
        drop(gate);
        let reader = RealDisk.open_reader(path);
        self.gate.lock().unwrap().within -= 1;
        reader
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
        RealDisk.stat(path)
    }
    fn replace_derived(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        RealDisk.replace_derived(path, bytes)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<FolderEntry>> {
        RealDisk.list(path)
    }
    fn lock(&self, path: &Path, holder: &str) -> io::Result<LockOutcome> {
        RealDisk.lock(path, holder)
    }
    fn lock_holder(&self, path: &Path) -> Option<String> {
        RealDisk.lock_holder(path)
    }
}
