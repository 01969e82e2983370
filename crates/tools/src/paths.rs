//! Where a path really leads, and whether that is inside of the workspace.
//!
//! Every symbolic link on the way is followed, also dangling ones and those above a file that does
//! not exist yet, so that what is judged is what the system would open. Tools use the resolved path
//! for their work too: what was judged is what is touched.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use orrery_agent::tool::{Access, ToolError};

use orrery_agent::arguments::{failed, invalid};

/// Links that may follow one another: the limit of the kernel.
const LINKS_MAX: usize = 40;

/// A resolved path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Absolute, without `..`, without links.
    pub(crate) real: PathBuf,
    /// Whether it is the workspace or below it.
    pub(crate) inside: bool,
    /// For models and people: relative to the workspace where it is inside.
    pub(crate) shown: String,
}

impl Place {
    /// What reading it means to the policy.
    pub(crate) fn reading(self) -> Access {
        if self.inside {
            Access::Read
        } else {
            Access::Outside {
                paths: vec![self.real],
                write: false,
            }
        }
    }

    /// What writing it means to the policy.
    pub(crate) fn writing(self) -> Access {
        if self.inside {
            Access::Write(vec![self.real])
        } else {
            Access::Outside {
                paths: vec![self.real],
                write: true,
            }
        }
    }
}

/// Resolves a path as a model writes it: relative to `cwd`, absolute, or from `~`.
///
/// # Errors
///
/// `INVALID_ARGS` for an empty path or one with a NUL; `LINK_LOOP` for links that lead in circles.
pub(crate) fn resolve(cwd: &Path, path: &str) -> Result<Place, ToolError> {
    if path.is_empty() || path.contains('\0') {
        return Err(invalid("`path` must be a non-empty path without NUL"));
    }
    let home = || std::env::home_dir().filter(|home| home.is_absolute());
    let path = match path.strip_prefix('~') {
        Some("") => home().unwrap_or_else(|| path.into()),
        Some(rest) if rest.starts_with('/') => home().map_or_else(
            || path.into(),
            |home| home.join(rest.trim_start_matches('/')),
        ),
        _ => PathBuf::from(path),
    };
    let real = follow(&cwd.join(path))?;
    let workspace = follow(cwd)?;
    let inside = real.starts_with(&workspace);
    let shown = show(&real, &workspace);
    Ok(Place {
        real,
        inside,
        shown,
    })
}

/// The path relative to the workspace where it is inside, else whole.
pub(crate) fn show(path: &Path, workspace: &Path) -> String {
    match path.strip_prefix(workspace) {
        Ok(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
        Ok(relative) => relative.to_string_lossy().into_owned(),
        Err(_outside) => path.to_string_lossy().into_owned(),
    }
}

/// Follows all links of an absolute path; what does not exist stays as it is spelled.
fn follow(path: &Path) -> Result<PathBuf, ToolError> {
    enum Part {
        Up,
        Down(OsString),
    }
    fn parts(path: &Path) -> impl DoubleEndedIterator<Item = Part> {
        path.components().filter_map(|component| match component {
            Component::ParentDir => Some(Part::Up),
            Component::Normal(name) => Some(Part::Down(name.to_owned())),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        })
    }
    let root = || PathBuf::from("/");
    let mut real = root();
    let mut rest: VecDeque<Part> = parts(path).collect();
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        let name = match part {
            Part::Up => {
                real.pop();
                continue;
            }
            Part::Down(name) => name,
        };
        real.push(name);
        // A link that cannot be read is treated as what cannot be a link: opening it will fail.
        let Ok(target) = std::fs::read_link(&real) else {
            continue;
        };
        links += 1;
        if links > LINKS_MAX {
            let message = format!("too many symbolic links in {}", path.display());
            return Err(failed("LINK_LOOP", message));
        }
        real.pop();
        if target.is_absolute() {
            real = root();
        }
        for part in parts(&target).rev() {
            rest.push_front(part);
        }
    }
    Ok(real)
}

/// A file system error as a model reads it.
pub(crate) fn io_failed(doing: &str, shown: &str, error: &io::Error) -> ToolError {
    let (code, why) = match error.kind() {
        io::ErrorKind::NotFound => ("NOT_FOUND", "there is no such file or folder".to_owned()),
        io::ErrorKind::PermissionDenied => ("PERMISSION_DENIED", "permission denied".to_owned()),
        io::ErrorKind::NotADirectory => ("NOT_A_FOLDER", "it is not a folder".to_owned()),
        io::ErrorKind::StorageFull => ("DISK_FULL", "the disk is full".to_owned()),
        _ => ("IO", error.to_string()),
    };
    failed(code, format!("could not {doing} {shown}: {why}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn dots_and_links_that_leave_the_workspace_are_outside() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = dir.path().join("work");
        std::fs::create_dir_all(cwd.join("sub")).unwrap();
        std::fs::create_dir(dir.path().join("other")).unwrap();
        symlink(dir.path().join("other"), cwd.join("out")).unwrap();
        symlink("../../other/new.txt", cwd.join("sub/dangling")).unwrap();
        symlink("sub", cwd.join("in")).unwrap();
        let inside = |path: &str| resolve(&cwd, path).unwrap().inside;
        for path in [
            ".",
            "a/b",
            "sub/../x",
            "in/new",
            "no/../no/x",
            "./out/../in/y",
        ] {
            // `out/..` is the parent of the link's target, so the last one leaves after all.
            assert_eq!(inside(path), path != "./out/../in/y", "{path}");
        }
        for path in [
            "..",
            "../working",
            "out",
            "out/x",
            "sub/dangling",
            "/etc",
            "no/../../x",
        ] {
            assert!(!inside(path), "{path}");
        }
        assert_eq!(resolve(&cwd, "in/f").unwrap().shown, "sub/f");
    }

    #[test]
    fn links_in_a_circle_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        symlink("b", dir.path().join("a")).unwrap();
        symlink("a", dir.path().join("b")).unwrap();
        assert_eq!(resolve(dir.path(), "a/x").unwrap_err().code(), "LINK_LOOP");
    }

    #[test]
    fn a_workspace_behind_a_link_contains_its_own_files() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("real")).unwrap();
        symlink("real", dir.path().join("link")).unwrap();
        assert!(resolve(&dir.path().join("link"), "x").unwrap().inside);
    }
}
