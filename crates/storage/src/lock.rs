//! One writer: an advisory lock of the operating system on `session.lock` (decision D4).
//!
//! The lock goes with the process, so a crash leaves none behind. The file's text names the holder
//! for a person; it is never believed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use orrery_session::SessionId;

use crate::error::StorageError;

/// The lock's file name.
pub const LOCK_FILE: &str = "session.lock";

/// A held lock; dropping it lets go.
#[derive(Debug)]
pub struct WriterLock {
    _file: File,
}

impl WriterLock {
    /// Takes the lock of the session in `folder`, or says who holds it.
    pub fn take(folder: &Path, id: &SessionId) -> Result<Self, StorageError> {
        let path = folder.join(LOCK_FILE);
        let io = |action| move |e: std::io::Error| (action, e);
        let open = || -> Result<Result<File, String>, (&'static str, std::io::Error)> {
            let mut options = OpenOptions::new();
            options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600);
            let mut file = options.open(&path).map_err(io("open"))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let mut holder = String::new();
                    // The name is a courtesy; without it the lock is still held.
                    file.read_to_string(&mut holder).unwrap_or_default();
                    return Ok(Err(holder));
                }
                Err(TryLockError::Error(error)) => return Err(("lock", error)),
            }
            file.set_len(0).map_err(io("write"))?;
            file.rewind().map_err(io("write"))?;
            writeln!(file, "process {}", std::process::id()).map_err(io("write"))?;
            Ok(Ok(file))
        };
        match open().map_err(|(action, e)| StorageError::io(action, &path, &e))? {
            Ok(file) => Ok(Self { _file: file }),
            Err(holder) => {
                let holder = match holder.trim() {
                    "" => "another process".to_owned(),
                    name => name.to_owned(),
                };
                Err(StorageError::WriterHeld {
                    id: id.clone(),
                    holder,
                })
            }
        }
    }
}

/// Who holds the lock in `folder`, if anybody does; for diagnosis only.
pub fn holder(folder: &Path) -> Option<String> {
    let mut file = File::open(folder.join(LOCK_FILE)).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            file.read_to_string(&mut holder).unwrap_or_default();
            Some(holder.trim().to_owned())
        }
        _ => None,
    }
}
