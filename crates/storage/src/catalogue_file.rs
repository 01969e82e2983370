//! The header catalogue on disk: derived, so that a start costs one `stat` for each log
//! (decision D16).
//!
//! One zstd frame of lines: a first line that names the root and the version, then for each log a
//! line that says where it lies and which file it is, and the log's own header line. Anything that
//! does not read as that is ignored, and the catalogue is read from the logs again.

use std::path::{Path, PathBuf};

use orrery_session::v0::{decode_header, encode_header};
use serde::{Deserialize, Serialize};

use crate::catalogue::CatalogueEntry;
use crate::disk::{Disk, FileStat};
use crate::frames;
use crate::layout::Compression;
use crate::read::Revision;

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct First {
    version: u32,
    root: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Place {
    path: PathBuf,
    device: u64,
    inode: u64,
    plain: bool,
}

/// What an earlier process knew of a root; nothing when it cannot be told.
pub(crate) fn load(disk: &dyn Disk, file: &Path, root: &Path) -> Vec<CatalogueEntry> {
    read(disk, file, root).unwrap_or_default()
}

fn read(disk: &dyn Disk, file: &Path, root: &Path) -> Option<Vec<CatalogueEntry>> {
    let reader = disk.open_reader(file).ok()?;
    let size = usize::try_from(reader.stat().ok()?.size).ok()?;
    let bytes = reader.read_at(0, size).ok()?;
    let end = frames::frame_end(&bytes, 0).ok()??;
    let content = frames::decode(&bytes, &(0..end)).ok()?;
    let text = String::from_utf8(content).ok()?;
    let mut lines = text.lines();
    let first: First = serde_json::from_str(lines.next()?).ok()?;
    if first.version != VERSION || first.root != root {
        return None;
    }
    let mut entries = Vec::new();
    while let (Some(place), Some(header)) = (lines.next(), lines.next()) {
        let place: Place = serde_json::from_str(place).ok()?;
        let (header, inherited) = decode_header(header).ok()?;
        let stat = FileStat {
            device: place.device,
            inode: place.inode,
            // Of a known log only the file is remembered: what it holds is looked at anew.
            size: 0,
            modified_ns: 0,
            changed_ns: 0,
        };
        let compression = if place.plain {
            Compression::None
        } else {
            Compression::Zstd
        };
        let (path, revision) = (root.join(place.path), Revision(stat));
        entries.push(CatalogueEntry {
            header,
            inherited,
            revision,
            path,
            compression,
        });
    }
    Some(entries)
}

/// Writes down what is known of a root; a failure costs the next start some time.
pub(crate) fn save<'a>(
    disk: &dyn Disk,
    file: &Path,
    root: &Path,
    entries: impl Iterator<Item = &'a CatalogueEntry>,
) {
    let written = (|| {
        let first = First {
            version: VERSION,
            root: root.to_owned(),
        };
        let mut content = serde_json::to_vec(&first)?;
        content.push(b'\n');
        for entry in entries {
            let path = entry
                .path
                .strip_prefix(root)
                .unwrap_or(&entry.path)
                .to_owned();
            let place = Place {
                path,
                device: entry.revision.0.device,
                inode: entry.revision.0.inode,
                plain: entry.compression == Compression::None,
            };
            content.extend(serde_json::to_vec(&place)?);
            content.push(b'\n');
            content.extend(encode_header(&entry.header, entry.inherited));
        }
        disk.replace_derived(file, &frames::encode(&content)?)
    })();
    if let Err(error) = written {
        tracing::debug!(path = %file.display(), %error, "the header catalogue was not saved");
    }
}
