//! Putting new content in the place of a file, and telling what changed.
//!
//! Owns the atomic write (a file next to the old one, then a rename, so that nobody ever reads half
//! of it) and the bounded unified diff that `write` and `edit` show.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use orrery_agent::tool::ToolError;
use serde::Serialize;
use similar::TextDiff;

use crate::paths::{Place, io_failed};
use orrery_agent::arguments::failed;

/// Bytes of a file that is compared, and of one that `edit` takes on.
pub(crate) const FILE_MAX: u64 = 8 * 1024 * 1024;
/// Characters of a diff.
const DIFF_MAX: usize = 20_000;
/// How long a diff may take before it becomes coarse.
const DIFF_TIME: Duration = Duration::from_millis(300);

/// What clients show beside a write.
#[derive(Debug, Serialize)]
pub(crate) struct Meta {
    /// The file, relative to the workspace where it is inside.
    pub(crate) path: String,
    /// What changed, as a unified diff.
    pub(crate) diff: String,
}

/// The bytes that are there now; `None` when there is no file.
///
/// # Errors
///
/// `IS_A_FOLDER`, `NOT_A_FILE`, `TOO_LARGE`, or why it cannot be read.
pub(crate) fn current(place: &Place) -> Result<Option<Vec<u8>>, ToolError> {
    let shown = &place.shown;
    let meta = match fs::metadata(&place.real) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_failed("read", shown, &error)),
    };
    if meta.is_dir() {
        return Err(failed("IS_A_FOLDER", format!("{shown} is a folder")));
    }
    if !meta.is_file() {
        let message = format!("{shown} is not a regular file");
        return Err(failed("NOT_A_FILE", message));
    }
    if meta.len() > FILE_MAX {
        let message = format!(
            "{shown} has {} bytes; at most {FILE_MAX} can be changed with this tool",
            meta.len()
        );
        return Err(failed("TOO_LARGE", message));
    }
    let bytes = fs::read(&place.real).map_err(|error| io_failed("read", shown, &error))?;
    Ok(Some(bytes))
}

/// Replaces or creates a file in one step. Keeps the permissions of the old one.
///
/// # Errors
///
/// Why the folder or the file cannot be made; the old file is then as it was.
pub(crate) fn replace(place: &Place, content: &[u8]) -> Result<(), ToolError> {
    let io = |error: std::io::Error| io_failed("write", &place.shown, &error);
    let folder = place.real.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).map_err(io)?;
    let old = fs::metadata(&place.real).ok();
    // A new file gets what the process's umask leaves of this.
    let mut file = tempfile::Builder::new()
        .prefix(".orrery-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(io)?;
    file.write_all(content).map_err(io)?;
    if let Some(old) = old {
        file.as_file()
            .set_permissions(old.permissions())
            .map_err(io)?;
    }
    file.as_file().sync_all().map_err(io)?;
    file.persist(&place.real).map_err(|error| io(error.error))?;
    Ok(())
}

/// The unified diff of two contents, cut to a size that can be shown.
pub(crate) fn diff(shown: &str, old: Option<&[u8]>, new: &str) -> String {
    let Ok(before) = std::str::from_utf8(old.unwrap_or_default()) else {
        return format!("(the old content of {shown} was not text)\n");
    };
    let from = if old.is_some() {
        format!("a/{shown}")
    } else {
        "/dev/null".to_owned()
    };
    let diff = TextDiff::configure()
        .timeout(DIFF_TIME)
        .diff_lines(before, new);
    let text = diff
        .unified_diff()
        .context_radius(3)
        .header(&from, &format!("b/{shown}"))
        .to_string();
    match text.char_indices().nth(DIFF_MAX) {
        None => text,
        Some((at, _)) => {
            let (head, _) = text.split_at(at);
            format!("{head}\n(the diff is cut here)\n")
        }
    }
}
