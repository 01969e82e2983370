//! What a power cut would leave of a folder: durable content and names, and the changes since.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::dice::Dice;

pub(crate) type FileId = u64;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Folder,
    File(FileId),
}

#[derive(Debug, Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Size(u64),
}

#[derive(Debug, Default)]
struct FileShadow {
    durable: Vec<u8>,
    pending: Vec<Change>,
}

/// Names that change together: a rename takes one and gives another.
type NameChange = Vec<(String, Option<Entry>)>;

#[derive(Debug, Default)]
struct FolderShadow {
    durable: BTreeMap<String, Entry>,
    pending: Vec<NameChange>,
}

#[derive(Debug, Default)]
pub(crate) struct Shadow {
    files: BTreeMap<FileId, FileShadow>,
    folders: BTreeMap<PathBuf, FolderShadow>,
    /// Which file each present name stands for.
    names: BTreeMap<PathBuf, FileId>,
    next: FileId,
}

impl FileShadow {
    fn apply(&mut self, change: Change) {
        match change {
            Change::Write(offset, bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let end = start + bytes.len();
                if self.durable.len() < end {
                    self.durable.resize(end, 0);
                }
                self.durable[start..end].copy_from_slice(&bytes);
            }
            Change::Size(size) => self
                .durable
                .resize(usize::try_from(size).unwrap_or(usize::MAX), 0),
        }
    }
}

impl FolderShadow {
    fn apply(&mut self, change: NameChange) {
        for (name, entry) in change {
            match entry {
                Some(entry) => self.durable.insert(name, entry),
                None => self.durable.remove(&name),
            };
        }
    }
}

fn parts(path: &Path) -> (PathBuf, String) {
    let parent = path.parent().unwrap_or(path).to_owned();
    let name = path.file_name().and_then(|n| n.to_str());
    (parent, name.unwrap_or_default().to_owned())
}

impl Shadow {
    pub(crate) fn of(root: &Path) -> io::Result<Self> {
        let mut shadow = Self::default();
        shadow.adopt(root)?;
        Ok(shadow)
    }

    fn adopt(&mut self, folder: &Path) -> io::Result<()> {
        let mut found = FolderShadow::default();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let (_, name) = parts(&path);
            if path.is_dir() {
                self.adopt(&path)?;
                found.durable.insert(name, Entry::Folder);
            } else {
                let id = self.adopt_file(&path)?;
                found.durable.insert(name, Entry::File(id));
            }
        }
        self.folders.insert(folder.to_owned(), found);
        Ok(())
    }

    fn adopt_file(&mut self, path: &Path) -> io::Result<FileId> {
        let id = self.fresh(path);
        self.files.entry(id).or_default().durable = std::fs::read(path)?;
        Ok(id)
    }

    fn fresh(&mut self, path: &Path) -> FileId {
        self.next += 1;
        self.files.insert(self.next, FileShadow::default());
        self.names.insert(path.to_owned(), self.next);
        self.next
    }

    /// The file of a name; one that somebody else made counts as durable content.
    pub(crate) fn file_at(&mut self, path: &Path) -> io::Result<FileId> {
        match self.names.get(path) {
            Some(id) => Ok(*id),
            None => self.adopt_file(path),
        }
    }

    pub(crate) fn new_file(&mut self, path: &Path) -> FileId {
        let id = self.fresh(path);
        self.add(path, Entry::File(id));
        id
    }

    pub(crate) fn add(&mut self, path: &Path, entry: Entry) {
        let (parent, name) = parts(path);
        match entry {
            Entry::Folder => {
                self.folders
                    .insert(path.to_owned(), FolderShadow::default());
            }
            Entry::File(id) => {
                self.names.insert(path.to_owned(), id);
            }
        }
        self.change(parent, vec![(name, Some(entry))]);
    }

    pub(crate) fn remove(&mut self, path: &Path) {
        let (parent, name) = parts(path);
        self.names.remove(path);
        self.change(parent, vec![(name, None)]);
    }

    /// Both names lie in one folder.
    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let id = match self.names.remove(from) {
            Some(id) => id,
            None => self.adopt_file(to)?,
        };
        let (parent, old) = parts(from);
        let (_, new) = parts(to);
        self.names.insert(to.to_owned(), id);
        let change = vec![(old, None), (new, Some(Entry::File(id)))];
        self.change(parent, change);
        Ok(())
    }

    fn change(&mut self, folder: PathBuf, change: NameChange) {
        self.folders.entry(folder).or_default().pending.push(change);
    }

    pub(crate) fn write(&mut self, id: FileId, offset: u64, bytes: &[u8]) {
        let change = Change::Write(offset, bytes.to_vec());
        self.files.entry(id).or_default().pending.push(change);
    }

    pub(crate) fn set_size(&mut self, id: FileId, size: u64) {
        let change = Change::Size(size);
        self.files.entry(id).or_default().pending.push(change);
    }

    pub(crate) fn sync_file(&mut self, id: FileId) {
        let file = self.files.entry(id).or_default();
        for change in std::mem::take(&mut file.pending) {
            file.apply(change);
        }
    }

    /// What was written is not on disk and no later sync will put it there; sizes may be.
    pub(crate) fn fail_sync(&mut self, id: FileId) {
        let file = self.files.entry(id).or_default();
        file.pending
            .retain(|change| matches!(change, Change::Size(_)));
    }

    pub(crate) fn sync_folder(&mut self, path: &Path) {
        let folder = self.folders.entry(path.to_owned()).or_default();
        for change in std::mem::take(&mut folder.pending) {
            folder.apply(change);
        }
    }

    pub(crate) fn keep_all(&mut self) {
        for id in self.files.keys().copied().collect::<Vec<_>>() {
            self.sync_file(id);
        }
        for path in self.folders.keys().cloned().collect::<Vec<_>>() {
            self.sync_folder(&path);
        }
    }

    pub(crate) fn lose_all(&mut self) {
        for file in self.files.values_mut() {
            file.pending.clear();
        }
        for folder in self.folders.values_mut() {
            folder.pending.clear();
        }
    }

    pub(crate) fn lose_some(&mut self, dice: &mut Dice) {
        for file in self.files.values_mut() {
            let mut pending = std::mem::take(&mut file.pending).into_iter();
            let whole = dice.below(pending.len() + 1);
            for change in pending.by_ref().take(whole) {
                file.apply(change);
            }
            if let Some(Change::Write(offset, mut bytes)) = pending.next() {
                bytes.truncate(dice.below(bytes.len() + 1));
                file.apply(Change::Write(offset, bytes));
            }
        }
        for folder in self.folders.values_mut() {
            let mut pending = std::mem::take(&mut folder.pending);
            pending.truncate(dice.below(pending.len() + 1));
            for change in pending {
                folder.apply(change);
            }
        }
    }

    /// Makes the real folder be what is durable.
    pub(crate) fn restore(&mut self, root: &Path) -> io::Result<()> {
        for entry in std::fs::read_dir(root)? {
            let path = entry?.path();
            if path.is_dir() {
                std::fs::remove_dir_all(path)?;
            } else {
                std::fs::remove_file(path)?;
            }
        }
        self.names.clear();
        let mut written = BTreeMap::new();
        let mut reached = Vec::new();
        self.restore_folder(root, &mut written, &mut reached)?;
        self.folders.retain(|path, _| reached.contains(path));
        self.files.retain(|id, _| written.contains_key(id));
        Ok(())
    }

    fn restore_folder(
        &mut self,
        path: &Path,
        written: &mut BTreeMap<FileId, PathBuf>,
        reached: &mut Vec<PathBuf>,
    ) -> io::Result<()> {
        reached.push(path.to_owned());
        let entries = self.folders.entry(path.to_owned()).or_default();
        for (name, entry) in entries.durable.clone() {
            let path = path.join(name);
            match entry {
                Entry::Folder => {
                    std::fs::create_dir(&path)?;
                    self.restore_folder(&path, written, reached)?;
                }
                Entry::File(id) => {
                    match written.get(&id) {
                        Some(first) => std::fs::hard_link(first, &path)?,
                        None => {
                            let content = self.files.get(&id).map(|file| file.durable.as_slice());
                            std::fs::write(&path, content.unwrap_or_default())?;
                            written.insert(id, path.clone());
                        }
                    }
                    self.names.insert(path, id);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use orrery_storage::disk::Disk as _;

    use crate::faulty_disk::{FaultyDisk, Loss};

    #[test]
    fn a_power_cut_takes_what_was_not_synced_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::new(home.path()).unwrap();
        let (a, b) = (home.path().join("a"), home.path().join("b"));
        let mut file = disk.create_file(&a).unwrap();
        file.write_at(0, b"durable").unwrap();
        file.sync().unwrap();
        disk.sync_folder(home.path()).unwrap();
        file.write_at(7, b" and not").unwrap();
        disk.link(&a, &b).unwrap();
        disk.cut_power();
        assert!(file.sync().is_err());
        disk.power_on(Loss::Unsynced).unwrap();
        assert_eq!(std::fs::read(&a).unwrap(), b"durable");
        assert!(!b.exists());
    }
}
