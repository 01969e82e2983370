//! One writer: an advisory lock of the operating system on `session.lock` (decision D4).
//!
//! The lock goes with the process, so a crash leaves none behind. The file's text names the holder
//! for a person; it is never believed.

use std::path::Path;

use orrery_session::SessionId;

use crate::disk::{Disk, DiskLock, LockOutcome};
use crate::error::StorageError;

/// The lock's file name.
pub const LOCK_FILE: &str = "session.lock";

/// A held lock; dropping it lets go.
#[derive(Debug)]
pub struct WriterLock {
    _held: Box<dyn DiskLock>,
}

impl WriterLock {
    /// Takes the lock of the session in `folder`, or says who holds it.
    ///
    /// # Errors
    /// [`StorageError::WriterHeld`] when somebody else has it, also within this process.
    pub fn take(disk: &dyn Disk, folder: &Path, id: &SessionId) -> Result<Self, StorageError> {
        let path = folder.join(LOCK_FILE);
        let name = format!("process {}\n", std::process::id());
        match disk.lock(&path, &name) {
            Ok(LockOutcome::Taken(held)) => Ok(Self { _held: held }),
            Ok(LockOutcome::HeldBy(holder)) => {
                let holder = match holder.trim() {
                    "" => "another process".to_owned(),
                    name => name.to_owned(),
                };
                Err(StorageError::WriterHeld {
                    id: id.clone(),
                    holder,
                })
            }
            Err(error) => Err(StorageError::io("lock", &path, &error)),
        }
    }
}

/// Who holds the lock in `folder`, if anybody does; for diagnosis only.
pub fn holder(disk: &dyn Disk, folder: &Path) -> Option<String> {
    disk.lock_holder(&folder.join(LOCK_FILE))
}
