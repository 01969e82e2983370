//! The file system as storage uses it: a port, so that tests can make any call fail.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// What `stat` tells of a file: enough to see that it is the same and unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Modification time in nanoseconds.
    pub modified_ns: i128,
    /// Status change time in nanoseconds.
    pub changed_ns: i128,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderEntry {
    /// The name; names that are not UTF-8 are never ours and are left out.
    pub name: String,
    /// Whether it is a folder.
    pub is_folder: bool,
}

/// The file system.
pub trait Disk: Send + Sync + std::fmt::Debug {
    /// Makes a folder with mode 0700; an existing one is fine.
    fn create_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes a folder's entries durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes a new file with mode 0600; fails when it exists.
    fn create_file(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens an existing file for reading and writing.
    fn open_file(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file a second name; fails when that exists.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file another name, at once; takes the place of what has that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a name.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Looks at a file, following links.
    fn stat(&self, path: &Path) -> io::Result<FileStat>;
    /// Opens an existing file for reading.
    fn open_reader(&self, path: &Path) -> io::Result<Box<dyn DiskReader>>;
    /// Replaces a small derived file, or makes it; nothing of it need survive a crash.
    fn replace_derived(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Lists a folder, by name.
    fn list(&self, path: &Path) -> io::Result<Vec<FolderEntry>>;
    /// Takes the advisory lock of a file, which is made where it is missing, and writes down who
    /// has it. A lock whose holder's name could not be written is held all the same.
    fn lock(&self, path: &Path, holder: &str) -> io::Result<LockOutcome>;
    /// What the file of a lock says of its holder; nothing when nobody holds it.
    fn lock_holder(&self, path: &Path) -> Option<String>;
}

/// What came of taking a lock.
#[derive(Debug)]
pub enum LockOutcome {
    /// It is ours until this is dropped, or the process ends.
    Taken(Box<dyn DiskLock>),
    /// Somebody else has it; what its file says of them, which may be nothing.
    HeldBy(String),
}

/// A held lock; dropping it lets go.
pub trait DiskLock: Send + std::fmt::Debug {}

/// A file that is read.
pub trait DiskReader: Send + Sync + std::fmt::Debug {
    /// Looks at the open file.
    fn stat(&self) -> io::Result<FileStat>;
    /// Reads up to `length` bytes at an offset; fewer only where the file ends.
    fn read_at(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.read_into(offset, length, &mut bytes)?;
        Ok(bytes)
    }
    /// The same, behind what `bytes` holds; says how many they were.
    fn read_into(&self, offset: u64, length: usize, bytes: &mut Vec<u8>) -> io::Result<usize>;
}

/// One open file.
pub trait DiskFile: Send + std::fmt::Debug {
    /// Looks at the open file.
    fn stat(&self) -> io::Result<FileStat>;
    /// Writes all bytes at an offset.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cuts or extends the file.
    fn set_size(&mut self, size: u64) -> io::Result<()>;
    /// Makes content and size durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// The real file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn create_file(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        Ok(Box::new(options.open(path)?))
    }

    fn open_file(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(
            OpenOptions::new().read(true).write(true).open(path)?,
        ))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::hard_link(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn stat(&self, path: &Path) -> io::Result<FileStat> {
        std::fs::metadata(path).map(|m| stat_of(&m))
    }

    fn open_reader(&self, path: &Path) -> io::Result<Box<dyn DiskReader>> {
        Ok(Box::new(File::open(path)?))
    }

    fn replace_derived(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = options
            .open(&temporary)
            .and_then(|file| file.write_all_at(bytes, 0))
            .and_then(|()| std::fs::rename(&temporary, path));
        if written.is_err() {
            // A left-over of a derived file is of no use to anybody.
            drop(std::fs::remove_file(&temporary));
        }
        written
    }

    fn list(&self, path: &Path) -> io::Result<Vec<FolderEntry>> {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                // A link to a folder counts as one: roots may be composed of links. Only for a link
                // is it looked at: one look more at each of ten thousand folders is felt.
                let is_folder = match entry.file_type() {
                    Ok(kind) if !kind.is_symlink() => kind.is_dir(),
                    _ => entry.path().is_dir(),
                };
                entries.push(FolderEntry { name, is_folder });
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<LockOutcome> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).mode(0o600);
        let file = options.truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => {
                // The name is a courtesy: a full disk must not keep anybody from their session.
                let named = file
                    .set_len(0)
                    .and_then(|()| file.write_all_at(holder.as_bytes(), 0));
                if let Err(error) = named {
                    tracing::debug!(path = %path.display(), %error, "a lock without a name");
                }
                Ok(LockOutcome::Taken(Box::new(file)))
            }
            Err(TryLockError::WouldBlock) => Ok(LockOutcome::HeldBy(text_of(&file))),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn lock_holder(&self, path: &Path) -> Option<String> {
        let file = File::open(path).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Some(text_of(&file)),
            _ => None,
        }
    }
}

impl DiskLock for File {}

/// What a lock file says; whoever cannot read it knows nothing of its holder.
fn text_of(mut file: &File) -> String {
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap_or_default();
    text.trim().to_owned()
}

impl DiskReader for File {
    fn stat(&self) -> io::Result<FileStat> {
        self.metadata().map(|m| stat_of(&m))
    }

    fn read_into(&self, offset: u64, length: usize, bytes: &mut Vec<u8>) -> io::Result<usize> {
        let start = bytes.len();
        bytes.try_reserve_exact(length)?;
        bytes.resize(start + length, 0);
        let mut filled = 0;
        while filled < length {
            let rest = bytes.get_mut(start + filled..).unwrap_or_default();
            match std::os::unix::fs::FileExt::read_at(self, rest, offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    bytes.truncate(start);
                    return Err(error);
                }
            }
        }
        bytes.truncate(start + filled);
        Ok(filled)
    }
}

impl DiskFile for File {
    fn stat(&self) -> io::Result<FileStat> {
        self.metadata().map(|m| stat_of(&m))
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn set_size(&mut self, size: u64) -> io::Result<()> {
        self.set_len(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

fn stat_of(metadata: &std::fs::Metadata) -> FileStat {
    let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
    FileStat {
        device: metadata.dev(),
        inode: metadata.ino(),
        size: metadata.size(),
        modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
        changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
    }
}
