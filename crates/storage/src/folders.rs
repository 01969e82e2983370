//! What the folders below a root tell without a look at the logs in them: a session that comes or
//! goes changes the folder of its project, a project that does changes the root. Owns when that may
//! be believed; what is in the folders is the catalogue's.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::disk::{Disk, FileStat};

/// A folder that changed so short a time before it was looked at may change again and show the same
/// time: clocks of file systems tick slowly.
const QUIET: Duration = Duration::from_secs(1);

/// The folders of one look, as they were before they were listed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Folders {
    seen: Vec<(PathBuf, FileStat)>,
    doubtful: bool,
}

impl Folders {
    /// Notes a folder before it is listed. One that cannot be looked at, or that changed just now,
    /// leaves nothing to be believed.
    pub(crate) fn note(&mut self, disk: &dyn Disk, folder: &Path) {
        match disk.stat(folder) {
            Ok(stat) if is_quiet(&stat, SystemTime::now()) => {
                self.seen.push((folder.to_owned(), stat));
            }
            Ok(_) | Err(_) => self.doubt(),
        }
    }

    /// Something in one of them may change without a trace in these.
    pub(crate) const fn doubt(&mut self) {
        self.doubtful = true;
    }

    /// Whether all of them are as they were.
    pub(crate) fn unchanged(&self, disk: &dyn Disk) -> bool {
        let same = |(folder, seen): &(PathBuf, FileStat)| {
            disk.stat(folder).is_ok_and(|stat| stat == *seen)
        };
        !self.doubtful && !self.seen.is_empty() && self.seen.iter().all(same)
    }
}

/// Whether a folder had been as it is for a while at that moment. A time that lies ahead is not to be
/// trusted either.
fn is_quiet(stat: &FileStat, now: SystemTime) -> bool {
    let quiet_since = now
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|now| now.checked_sub(QUIET))
        .and_then(|since| i128::try_from(since.as_nanos()).ok());
    quiet_since.is_some_and(|since| stat.modified_ns.max(stat.changed_ns) < since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    #[test]
    fn a_folder_that_changed_just_now_is_not_believed() {
        let stat = |modified_ns, changed_ns| FileStat {
            device: 1,
            inode: 1,
            size: 1,
            modified_ns,
            changed_ns,
        };
        let now = UNIX_EPOCH + Duration::from_secs(100);
        let second = 1_000_000_000;
        assert!(is_quiet(&stat(98 * second, 98 * second), now));
        for at in [99 * second, 100 * second, 200 * second] {
            assert!(!is_quiet(&stat(at, 98 * second), now), "{at}");
            assert!(!is_quiet(&stat(98 * second, at), now), "{at}");
        }
        assert!(!Folders::default().unchanged(&RealDisk), "nothing was seen");
    }

    #[test]
    fn folders_are_believed_until_one_of_them_changes() {
        let home = tempfile::tempdir().unwrap();
        let stat = RealDisk.stat(home.path()).unwrap();
        let mut folders = Folders {
            seen: vec![(home.path().to_owned(), stat)],
            doubtful: false,
        };
        assert!(folders.unchanged(&RealDisk));
        let mut moved = folders.clone();
        moved.seen[0].1.changed_ns -= 1;
        assert!(!moved.unchanged(&RealDisk));
        let mut doubtful = folders.clone();
        doubtful.doubt();
        assert!(!doubtful.unchanged(&RealDisk));
        folders.note(&RealDisk, Path::new("/there/is/no/such/folder"));
        assert!(!folders.unchanged(&RealDisk));
    }
}
