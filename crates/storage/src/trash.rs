//! Sessions that were deleted and can come back: their folders, moved aside below the root.
//!
//! Owns `<root>/.trash/<when>-<id>/`: in it lies `deleted.json`, and each session's folder in the
//! folder of its project, as it lay below the root. Leaves to others which sessions go together, and
//! whether one may go at all; a session that somebody writes is refused here by its lock.
//!
//! The session that was deleted goes first and comes back last, those that belong to it in between.
//! So whoever is killed in the middle leaves it in one place only, and the same call done again
//! brings the rest after it.

use std::path::{Path, PathBuf};

use orrery_session::{SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::catalogue::{Catalogue, CatalogueEntry};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::layout::id_segment;
use crate::lock::WriterLock;

/// The folder's name. No project's folder begins with a point.
pub(crate) const TRASH: &str = ".trash";

const NOTE: &str = "deleted.json";

/// What is remembered of a deleted session beside its log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deleted {
    /// The session; those that belong to it lie beside it.
    pub session_id: SessionId,
    /// When it was deleted.
    pub deleted_at: Timestamp,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// Moves sessions aside: the deleted one first, then those that belong to it. Nothing is moved
/// unless all of them are free.
pub(crate) fn put(
    disk: &dyn Disk,
    root: &Path,
    note: &Deleted,
    whole: &[CatalogueEntry],
) -> Result<(), StorageError> {
    let folders: Vec<&Path> = whole
        .iter()
        .filter_map(|entry| entry.path.parent())
        .collect();
    let mut locks = Vec::with_capacity(folders.len());
    for (entry, folder) in whole.iter().zip(&folders) {
        locks.push(WriterLock::take(disk, folder, &entry.header.id)?);
    }
    let name = format!(
        "{}-{}",
        note.deleted_at.epoch_millis(),
        id_segment(&note.session_id)
    );
    let place = root.join(TRASH).join(name);
    let io =
        |path: &Path, error: &std::io::Error| StorageError::io("move to the trash", path, error);
    for folder in [&root.join(TRASH), &place] {
        disk.create_folder(folder).map_err(|e| io(folder, &e))?;
    }
    let text = serde_json::to_vec(note).map_err(|e| io(&place, &e.into()))?;
    let file = place.join(NOTE);
    disk.replace_derived(&file, &text)
        .map_err(|e| io(&file, &e))?;
    for folder in folders {
        move_into(disk, folder, &place)?;
    }
    sync(disk, &root.join(TRASH))
}

/// All that is there, the last deleted first. What lies there without its note is left alone.
pub(crate) fn list(disk: &dyn Disk, root: &Path) -> Result<Vec<Deleted>, StorageError> {
    let mut found: Vec<Deleted> = places(disk, root)?
        .into_iter()
        .filter_map(|place| complete(disk, &place).map(|(note, _)| note))
        .collect();
    found.sort_by(|a, b| (b.deleted_at, &a.session_id).cmp(&(a.deleted_at, &b.session_id)));
    Ok(found)
}

/// Brings a session back with all that lies beside it; the last deleted of its id. Gives the ids.
///
/// # Errors
/// [`StorageError::NotFound`] when it is not there, [`StorageError::Exists`] when another session
/// has taken its id meanwhile.
pub(crate) fn restore(
    disk: &dyn Disk,
    root: &Path,
    id: &SessionId,
) -> Result<Vec<SessionId>, StorageError> {
    let newest = places(disk, root)?
        .into_iter()
        .filter_map(|place| complete(disk, &place).map(|(note, all)| (note, all, place)))
        .filter(|(note, ..)| note.session_id == *id)
        .max_by_key(|(note, ..)| note.deleted_at);
    let Some((_, mut all, place)) = newest else {
        return Err(StorageError::NotFound { id: id.clone() });
    };
    for (id, _) in &all {
        match Catalogue::probe(disk, root, id) {
            Err(StorageError::NotFound { .. }) => {}
            Ok(_) => return Err(StorageError::Exists { id: id.clone() }),
            Err(error) => return Err(error),
        }
    }
    // Last, whatever its place was.
    all.sort_by_key(|(one, _)| one == id);
    for (_, folder) in &all {
        move_into(disk, folder, root)?;
    }
    // What is left is empty but for the note; a folder that stays is looked over from now on.
    if let Err(error) = std::fs::remove_dir_all(&place) {
        tracing::warn!(path = %place.display(), %error, "an empty place in the trash stays");
    }
    Ok(all.into_iter().map(|(id, _)| id).collect())
}

/// The places of the trash, one for each deletion.
fn places(disk: &dyn Disk, root: &Path) -> Result<Vec<PathBuf>, StorageError> {
    let trash = root.join(TRASH);
    match disk.list(&trash) {
        Ok(entries) => {
            let folders = entries.into_iter().filter(|entry| entry.is_folder);
            Ok(folders.map(|entry| trash.join(entry.name)).collect())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(StorageError::io("list", &trash, &error)),
    }
}

/// What lies in one place, if the session that was deleted is there.
fn complete(disk: &dyn Disk, place: &Path) -> Option<(Deleted, Vec<(SessionId, PathBuf)>)> {
    let note = std::fs::read(place.join(NOTE)).ok()?;
    let note: Deleted = serde_json::from_slice(&note).ok()?;
    let found = Catalogue::refresh(disk, place, &Catalogue::default()).ok()?;
    found.get(&note.session_id)?;
    let all = found.entries().filter_map(|entry| {
        let folder = entry.path.parent()?.to_owned();
        Some((entry.header.id.clone(), folder))
    });
    Some((note, all.collect()))
}

/// Moves a session's folder into the folder of its project below another place.
fn move_into(disk: &dyn Disk, folder: &Path, place: &Path) -> Result<(), StorageError> {
    let io = |error: std::io::Error| StorageError::io("move", folder, &error);
    let nameless = || io(std::io::Error::other("it lies nowhere"));
    let from = folder.parent().ok_or_else(nameless)?;
    let project = from.file_name().ok_or_else(nameless)?;
    let name = folder.file_name().ok_or_else(nameless)?;
    let to = place.join(project);
    disk.create_folder(&to).map_err(io)?;
    disk.rename(folder, &to.join(name)).map_err(io)?;
    for changed in [place, &to, from] {
        sync(disk, changed)?;
    }
    Ok(())
}

fn sync(disk: &dyn Disk, folder: &Path) -> Result<(), StorageError> {
    disk.sync_folder(folder)
        .map_err(|error| StorageError::io("sync", folder, &error))
}
