//! Where a log lies: `<root>/--<project>--/<id>/session.jsonl[.zstd]` (`session.md` 2.1).
//!
//! Pure functions of root, working directory, id and container.

use std::path::{Path, PathBuf};

use orrery_session::{SessionHeader, SessionId};

/// The longest project key, in characters before it is wrapped.
const MAX_PROJECT_KEY: usize = 251;

/// The container of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// A row of zstd frames.
    #[default]
    Zstd,
    /// Plain lines.
    None,
}

impl Compression {
    /// Both containers.
    pub const ALL: [Self; 2] = [Self::Zstd, Self::None];

    /// The file name of a log in this container.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Zstd => "session.jsonl.zstd",
            Self::None => "session.jsonl",
        }
    }

    /// The other container.
    pub const fn other(self) -> Self {
        match self {
            Self::Zstd => Self::None,
            Self::None => Self::Zstd,
        }
    }
}

/// The folder name of a session: safe code units stay, others become `~XXXX`. Injective.
pub fn id_segment(id: &SessionId) -> String {
    match id.as_str() {
        "." => "~002E".to_owned(),
        ".." => "~002E~002E".to_owned(),
        text => escape(text),
    }
}

/// The folder name of a working directory. Lossy on purpose: sessions stay apart by id.
pub fn project_segment(cwd: Option<&str>) -> String {
    let Some(cwd) = cwd else {
        return "_no-cwd".to_owned();
    };
    let mut folded = String::with_capacity(cwd.len());
    for c in cwd.chars() {
        if matches!(c, '/' | '\\' | ':') {
            if !folded.ends_with(SEPARATOR) {
                folded.push(SEPARATOR);
            }
        } else {
            folded.push(c);
        }
    }
    let escaped: String = folded
        .split(SEPARATOR)
        .map(escape)
        .collect::<Vec<_>>()
        .join("-");
    let trimmed = escaped.trim_start_matches('-');
    let key: String = trimmed.chars().take(MAX_PROJECT_KEY).collect();
    if key.is_empty() {
        "--root--".to_owned()
    } else {
        format!("--{key}--")
    }
}

/// Stands for a run of separators until it is written as `-`; cannot occur in a path.
const SEPARATOR: char = '\0';

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for unit in text.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("~{unit:04X}")),
        }
    }
    out
}

/// The folder of a session.
pub fn session_folder(root: &Path, cwd: Option<&str>, id: &SessionId) -> PathBuf {
    root.join(project_segment(cwd)).join(id_segment(id))
}

/// The file of a session's log.
pub fn log_path(root: &Path, header: &SessionHeader, compression: Compression) -> PathBuf {
    session_folder(root, header.cwd.as_deref(), &header.id).join(compression.file_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> String {
        id_segment(&SessionId::new(text).unwrap())
    }

    #[test]
    fn ids_are_escaped_by_utf16_unit_and_dots_are_special() {
        assert_eq!(id("session-1_a.b"), "session-1_a.b");
        assert_eq!(id("a/b~c"), "a~002Fb~007Ec");
        assert_eq!(id("😀"), "~D83D~DE00");
        assert_eq!(id("."), "~002E");
        assert_eq!(id(".."), "~002E~002E");
    }

    #[test]
    fn a_project_key_folds_separator_runs_and_is_bounded() {
        assert_eq!(
            project_segment(Some("/home/dev/project")),
            "--home-dev-project--"
        );
        assert_eq!(project_segment(Some("C:\\\\x//y")), "--C-x-y--");
        assert_eq!(project_segment(Some("/")), "--root--");
        assert_eq!(project_segment(Some("/a b")), "--a~0020b--");
        assert_eq!(project_segment(None), "_no-cwd");
        assert_eq!(
            project_segment(Some(&format!("/{}", "x".repeat(400)))).len(),
            251 + 4
        );
    }
}
