//! Folders of logs, for tests that work on copies of somebody else's.

use std::io;
use std::path::{Path, PathBuf};

/// Copies a folder with everything below it. Files are read and written anew, so that the copy can
/// be changed where the original cannot.
///
/// # Errors
///
/// Whatever the file system refuses.
pub fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            std::fs::write(&target, std::fs::read(entry.path())?)?;
        }
    }
    Ok(())
}

/// The log roots below a folder: each holds project folders, `--<project>--`.
///
/// # Errors
///
/// Whatever the file system refuses.
pub fn log_roots(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut inner = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if path.is_dir() {
            if name.len() > 4 && name.starts_with("--") && name.ends_with("--") {
                return Ok(vec![folder.to_owned()]);
            }
            inner.push(path);
        }
    }
    inner.sort();
    let mut roots = Vec::new();
    for path in inner {
        roots.extend(log_roots(&path)?);
    }
    Ok(roots)
}
