//! A disk that breaks on demand: storage's port over a real folder, with a shadow of what a power
//! cut would leave.
//!
//! Owns the faults (a call is refused, a write is short, the power goes) and the model of
//! durability, which is as mean as a real one may be: content is durable only after `sync`, a name
//! only after `sync_folder`, and a `sync` that failed has lost what it should have written although
//! it still reads back (the page cache of Linux behaves so). Leaves to the tests what must hold.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orrery_storage::disk::{
    Disk, DiskFile, DiskReader, FileStat, FolderEntry, LockOutcome, RealDisk,
};

use crate::dice::Dice;
use crate::shadow::{Entry, FileId, Shadow};

/// What a mutating call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Makes a folder.
    CreateFolder,
    /// Makes a file.
    CreateFile,
    /// Writes bytes.
    WriteAt,
    /// Cuts or extends a file.
    SetSize,
    /// Makes content durable.
    Sync,
    /// Makes names durable.
    SyncFolder,
    /// Gives a second name.
    Link,
    /// Gives another name.
    Rename,
    /// Takes a name away.
    RemoveFile,
    /// Takes a lock.
    Lock,
    /// Writes down who has it.
    NameLock,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No space left on device; nothing is done.
    Full,
    /// Input/output error; nothing is done.
    Broken,
    /// A write puts this share of its bytes (in 256ths) and then finds the device full; any other
    /// call is refused.
    Short(u8),
    /// The power goes: a write is cut short, and nothing works until [`FaultyDisk::power_on`].
    PowerCut,
}

/// Which calls fail: `count` of them, from the `first` after arming.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// The first failing call, counted from zero.
    pub first: usize,
    /// How many calls in a row fail.
    pub count: usize,
    /// How they fail.
    pub fault: Fault,
}

/// What a power cut takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Nothing: only the process died.
    Nothing,
    /// Everything that was not synced.
    Unsynced,
    /// A random part of what was not synced: of each file and folder a prefix of its changes
    /// survives, the first lost write may survive in part, and changes of size may be lost alone.
    Torn(u64),
}

/// The disk. Clones share one state.
#[derive(Debug, Clone)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    root: PathBuf,
    shadow: Shadow,
    plan: Option<Plan>,
    since_armed: usize,
    fired: usize,
    dead: bool,
    trace: Vec<(Op, PathBuf)>,
}

/// What a planned fault lets happen.
enum Verdict {
    Go,
    Refuse(io::Error),
    Part(usize, io::Error),
}

fn full() -> io::Error {
    io::Error::new(
        io::ErrorKind::StorageFull,
        "no space left on device (planned)",
    )
}

fn broken() -> io::Error {
    io::Error::other("input/output error (planned)")
}

impl State {
    fn alive(&self) -> io::Result<()> {
        if self.dead {
            return Err(io::Error::other("the power is off (planned)"));
        }
        Ok(())
    }

    /// Counts a mutating call and says whether it happens.
    fn judge(&mut self, op: Op, path: &Path, length: usize) -> io::Result<Verdict> {
        self.alive()?;
        let number = self.since_armed;
        self.since_armed += 1;
        self.trace.push((op, path.to_owned()));
        let Some(plan) = self.plan else {
            return Ok(Verdict::Go);
        };
        if number < plan.first || number - plan.first >= plan.count {
            return Ok(Verdict::Go);
        }
        self.fired += 1;
        Ok(match plan.fault {
            Fault::Full => Verdict::Refuse(full()),
            Fault::Broken => Verdict::Refuse(broken()),
            Fault::Short(share) if op == Op::WriteAt => {
                Verdict::Part(length * usize::from(share) / 256, full())
            }
            Fault::Short(_) => Verdict::Refuse(full()),
            Fault::PowerCut => {
                self.dead = true;
                let error = io::Error::other("the power went off (planned)");
                match op {
                    Op::WriteAt => Verdict::Part(length / 2, error),
                    _ => Verdict::Refuse(error),
                }
            }
        })
    }

    /// As [`State::judge`] for calls that are done whole or not at all.
    fn pass(&mut self, op: Op, path: &Path) -> io::Result<()> {
        match self.judge(op, path, 0)? {
            Verdict::Go => Ok(()),
            Verdict::Refuse(error) | Verdict::Part(_, error) => Err(error),
        }
    }
}

impl FaultyDisk {
    /// A disk whose durable state is what lies under `root` now.
    pub fn new(root: &Path) -> io::Result<Self> {
        let state = State {
            root: root.to_owned(),
            shadow: Shadow::of(root)?,
            plan: None,
            since_armed: 0,
            fired: 0,
            dead: false,
            trace: Vec::new(),
        };
        Ok(Self {
            state: Arc::new(Mutex::new(state)),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans a fault; counts calls from zero again.
    pub fn arm(&self, plan: Plan) {
        let mut state = self.state();
        state.plan = Some(plan);
        state.since_armed = 0;
        state.fired = 0;
    }

    /// Takes the fault away; says how many calls it hit.
    pub fn heal(&self) -> usize {
        let mut state = self.state();
        state.plan = None;
        state.fired
    }

    /// How many mutating calls were made since the last [`FaultyDisk::arm`].
    pub fn calls(&self) -> usize {
        self.state().since_armed
    }

    /// All mutating calls so far.
    pub fn trace(&self) -> Vec<(Op, PathBuf)> {
        self.state().trace.clone()
    }

    /// Whether the power is off.
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Switches the power off: every call fails until [`FaultyDisk::power_on`].
    pub fn cut_power(&self) {
        self.state().dead = true;
    }

    /// Lets calls through again without any loss: a process died and its successor starts on the
    /// same machine, where what was not synced still waits to be.
    pub fn revive(&self) {
        let mut state = self.state();
        state.plan = None;
        state.dead = false;
    }

    /// Switches it on again: the folder holds what survived, and no fault is planned.
    ///
    /// Files that were not made through this disk (locks) are gone.
    pub fn power_on(&self, loss: Loss) -> io::Result<()> {
        let mut state = self.state();
        match loss {
            Loss::Nothing => state.shadow.keep_all(),
            Loss::Unsynced => state.shadow.lose_all(),
            Loss::Torn(seed) => state.shadow.lose_some(&mut Dice::new(seed)),
        }
        let root = state.root.clone();
        state.shadow.restore(&root)?;
        state.plan = None;
        state.dead = false;
        Ok(())
    }
}

impl Disk for FaultyDisk {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.pass(Op::CreateFolder, path)?;
        let fresh = !path.exists();
        RealDisk.create_folder(path)?;
        if fresh {
            state.shadow.add(path, Entry::Folder);
        }
        Ok(())
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        match state.judge(Op::SyncFolder, path, 0)? {
            Verdict::Go => {
                RealDisk.sync_folder(path)?;
                state.shadow.sync_folder(path);
                Ok(())
            }
            Verdict::Refuse(error) | Verdict::Part(_, error) => Err(error),
        }
    }

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.pass(Op::CreateFile, path)?;
        let real = RealDisk.create_file(path)?;
        let id = state.shadow.new_file(path);
        Ok(self.opened(path, id, real))
    }

    fn open_file(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.alive()?;
        let real = RealDisk.open_file(path)?;
        let id = state.shadow.file_at(path)?;
        Ok(self.opened(path, id, real))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.pass(Op::Link, from)?;
        RealDisk.link(from, to)?;
        let id = state.shadow.file_at(from)?;
        state.shadow.add(to, Entry::File(id));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.pass(Op::Rename, from)?;
        RealDisk.rename(from, to)?;
        state.shadow.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.pass(Op::RemoveFile, path)?;
        RealDisk.remove_file(path)?;
        state.shadow.remove(path);
        Ok(())
    }

    fn stat(&self, path: &Path) -> io::Result<FileStat> {
        self.state().alive()?;
        RealDisk.stat(path)
    }

    fn open_reader(&self, path: &Path) -> io::Result<Box<dyn DiskReader>> {
        self.state().alive()?;
        RealDisk.open_reader(path)
    }

    fn replace_derived(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.state().alive()?;
        RealDisk.replace_derived(path, bytes)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<FolderEntry>> {
        self.state().alive()?;
        RealDisk.list(path)
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<LockOutcome> {
        let mut state = self.state();
        state.pass(Op::Lock, path)?;
        match state.pass(Op::NameLock, path) {
            Ok(()) => RealDisk.lock(path, holder),
            Err(error) if state.dead => Err(error),
            Err(_no_name) => RealDisk.lock(path, ""),
        }
    }

    fn lock_holder(&self, path: &Path) -> Option<String> {
        self.state().alive().ok()?;
        RealDisk.lock_holder(path)
    }
}

impl FaultyDisk {
    fn opened(&self, path: &Path, id: FileId, real: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(FaultyFile {
            state: Arc::clone(&self.state),
            path: path.to_owned(),
            id,
            real,
        })
    }
}

#[derive(Debug)]
struct FaultyFile {
    state: Arc<Mutex<State>>,
    path: PathBuf,
    id: FileId,
    real: Box<dyn DiskFile>,
}

impl DiskFile for FaultyFile {
    fn stat(&self) -> io::Result<FileStat> {
        lock(&self.state).alive()?;
        self.real.stat()
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = lock(&self.state);
        let (length, result) = match state.judge(Op::WriteAt, &self.path, bytes.len())? {
            Verdict::Go => (bytes.len(), Ok(())),
            Verdict::Refuse(error) => return Err(error),
            Verdict::Part(length, error) => (length, Err(error)),
        };
        let part = bytes.get(..length).unwrap_or(bytes);
        self.real.write_at(offset, part)?;
        state.shadow.write(self.id, offset, part);
        result
    }

    fn set_size(&mut self, size: u64) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.pass(Op::SetSize, &self.path)?;
        self.real.set_size(size)?;
        state.shadow.set_size(self.id, size);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = lock(&self.state);
        match state.judge(Op::Sync, &self.path, 0)? {
            Verdict::Go => {
                state.shadow.sync_file(self.id);
                Ok(())
            }
            Verdict::Refuse(error) | Verdict::Part(_, error) => {
                if !state.dead {
                    state.shadow.fail_sync(self.id);
                }
                Err(error)
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
