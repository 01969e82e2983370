//! The header catalogue: which sessions lie under a root (decisions D7, D16).
//!
//! A refresh costs one `stat` for each log that is known already: a header is never rewritten, so
//! it is read again only when another file lies there. What cannot be listed becomes a diagnostic;
//! only an unreadable root fails the whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use orrery_session::{SessionHeader, SessionId, SessionLogOffset};

use crate::disk::Disk;
use crate::error::StorageError;
use crate::layout::{Compression, id_segment, log_path};
use crate::read::{Revision, read_header};

/// One session on disk.
#[derive(Debug, Clone)]
pub struct CatalogueEntry {
    /// Its header.
    pub header: SessionHeader,
    /// Its exact inherited cut.
    pub inherited: SessionLogOffset,
    /// Which state of the file was seen.
    pub revision: Revision,
    /// The file.
    pub path: PathBuf,
    /// Its container.
    pub compression: Compression,
}

/// Why something under the root is not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiagnosticReason {
    /// The header is damaged.
    Corrupt,
    /// The format version is not ours.
    UnsupportedVersion,
    /// Another log has the same id, or both containers lie in one folder.
    DuplicateId,
    /// It does not lie where its header says it should.
    Misplaced,
    /// The operating system would not let us read it.
    Unreadable,
}

impl DiagnosticReason {
    /// The reason's name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Corrupt => "corrupt",
            Self::UnsupportedVersion => "unsupported-version",
            Self::DuplicateId => "duplicate-id",
            Self::Misplaced => "misplaced",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Something under the root that is not listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The session, where that is known.
    pub session_id: Option<SessionId>,
    /// The file, relative to the root.
    pub path: String,
    /// Why.
    pub reason: DiagnosticReason,
    /// What is wrong, for a person.
    pub message: String,
}

/// All sessions under one root.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    entries: BTreeMap<SessionId, CatalogueEntry>,
    diagnostics: Vec<Diagnostic>,
}

impl Catalogue {
    /// What an earlier process knew: only for a refresh to start from.
    pub(crate) fn of_entries(entries: Vec<CatalogueEntry>) -> Self {
        let entries = entries
            .into_iter()
            .map(|e| (e.header.id.clone(), e))
            .collect();
        Self {
            entries,
            diagnostics: Vec::new(),
        }
    }

    /// Whether both list the same files.
    pub(crate) fn same_logs(&self, other: &Self) -> bool {
        let file = |entry: &CatalogueEntry| (entry.revision.0.device, entry.revision.0.inode);
        self.entries.len() == other.entries.len()
            && self
                .entries
                .iter()
                .zip(&other.entries)
                .all(|((a, x), (b, y))| a == b && x.path == y.path && file(x) == file(y))
    }

    /// The sessions, by id.
    pub fn entries(&self) -> impl Iterator<Item = &CatalogueEntry> {
        self.entries.values()
    }

    /// One session.
    pub fn get(&self, id: &SessionId) -> Option<&CatalogueEntry> {
        self.entries.get(id)
    }

    /// What is not listed, and why.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Looks for one session: in each project folder by the name that its id gives, so that the
    /// cost does not grow with the number of sessions.
    pub(crate) fn probe(
        disk: &dyn Disk,
        root: &Path,
        id: &SessionId,
    ) -> Result<CatalogueEntry, StorageError> {
        let missing = || StorageError::NotFound { id: id.clone() };
        let projects = match disk.list(root) {
            Ok(projects) => projects,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Err(missing()),
            Err(e) => return Err(StorageError::io("list", root, &e)),
        };
        let known = BTreeMap::new();
        let mut scan = Scan {
            disk,
            root,
            known,
            found: Self::default(),
        };
        let name = id_segment(id);
        for project in projects.iter().filter(|entry| entry.is_folder) {
            scan.session(&root.join(&project.name).join(&name));
        }
        let Self {
            mut entries,
            diagnostics,
        } = scan.found;
        let entry = entries.remove(id);
        let about_it =
            |d: &&Diagnostic| d.reason == DiagnosticReason::DuplicateId || entry.is_none();
        match (diagnostics.iter().find(about_it), entry) {
            (None, Some(entry)) => Ok(entry),
            (None, None) => Err(missing()),
            (Some(problem), _) => {
                let path = root.join(&problem.path);
                Err(match problem.reason {
                    DiagnosticReason::UnsupportedVersion => StorageError::Unsupported {
                        path,
                        why: problem.message.clone(),
                    },
                    _ => StorageError::corrupt(&path, &problem.message),
                })
            }
        }
    }

    /// Looks at a root again. An absent root is empty.
    pub fn refresh(disk: &dyn Disk, root: &Path, known: &Self) -> Result<Self, StorageError> {
        let projects = match disk.list(root) {
            Ok(projects) => projects,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(StorageError::io("list", root, &e)),
        };
        let by_path: BTreeMap<&Path, &CatalogueEntry> = known
            .entries
            .values()
            .map(|entry| (entry.path.as_path(), entry))
            .collect();
        let mut scan = Scan {
            disk,
            root,
            known: by_path,
            found: Self::default(),
        };
        for project in projects.iter().filter(|entry| entry.is_folder) {
            scan.project(&root.join(&project.name));
        }
        Ok(scan.found)
    }
}

struct Scan<'a> {
    disk: &'a dyn Disk,
    root: &'a Path,
    known: BTreeMap<&'a Path, &'a CatalogueEntry>,
    found: Catalogue,
}

impl Scan<'_> {
    fn project(&mut self, project: &Path) {
        let entries = match self.disk.list(project) {
            Ok(entries) => entries,
            Err(error) => {
                self.complain(
                    None,
                    project,
                    DiagnosticReason::Unreadable,
                    error.to_string(),
                );
                return;
            }
        };
        for entry in entries {
            let path = project.join(&entry.name);
            if entry.is_folder {
                self.session(&path);
            } else if entry.name.ends_with(".jsonl") || entry.name.ends_with(".jsonl.zstd") {
                let message = "a log lies in a folder of its own, not directly in its project";
                self.complain(None, &path, DiagnosticReason::Misplaced, message.to_owned());
            }
        }
    }

    fn session(&mut self, folder: &Path) {
        let mut listed = None;
        for compression in Compression::ALL {
            let path = folder.join(compression.file_name());
            let stat = match self.disk.stat(&path) {
                Ok(stat) => stat,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => {
                    self.complain(None, &path, DiagnosticReason::Unreadable, e.to_string());
                    continue;
                }
            };
            let revision = Revision(stat);
            let known = self.known.get(path.as_path()).filter(|entry| {
                let old = entry.revision.0;
                (old.device, old.inode) == (stat.device, stat.inode)
            });
            let entry = match known {
                Some(entry) => CatalogueEntry {
                    revision,
                    ..(*entry).clone()
                },
                None => match self.read(&path, compression, revision) {
                    Some(entry) => entry,
                    None => continue,
                },
            };
            if listed.is_some() {
                let message = "both session.jsonl and session.jsonl.zstd lie in this folder";
                let id = Some(entry.header.id);
                self.complain(id, &path, DiagnosticReason::DuplicateId, message.to_owned());
                continue;
            }
            listed = Some(());
            self.add(entry);
        }
    }

    fn read(
        &mut self,
        path: &Path,
        compression: Compression,
        revision: Revision,
    ) -> Option<CatalogueEntry> {
        let (reason, message) = match read_header(self.disk, path, compression) {
            Ok(Some(stored)) => {
                let entry = CatalogueEntry {
                    header: stored.header,
                    inherited: stored.inherited,
                    revision,
                    path: path.to_owned(),
                    compression,
                };
                let derived = log_path(self.root, &entry.header, compression);
                if derived == path || same_file(&derived, path) {
                    return Some(entry);
                }
                let message = format!("its header places it at {}", derived.display());
                let id = Some(entry.header.id);
                self.complain(id, path, DiagnosticReason::Misplaced, message);
                return None;
            }
            // Empty, or its first record is not complete: never published, nothing to say.
            Ok(None) => return None,
            Err(error @ StorageError::Unsupported { .. }) => {
                (DiagnosticReason::UnsupportedVersion, error.to_string())
            }
            Err(error @ StorageError::Io { .. }) => {
                (DiagnosticReason::Unreadable, error.to_string())
            }
            Err(error) => (DiagnosticReason::Corrupt, error.to_string()),
        };
        self.complain(None, path, reason, message);
        None
    }

    fn add(&mut self, entry: CatalogueEntry) {
        let id = entry.header.id.clone();
        match self.found.entries.get(&id) {
            None => {
                self.found.entries.insert(id, entry);
            }
            Some(first) => {
                let message = format!("session {id} lies also at {}", first.path.display());
                self.complain(
                    Some(id),
                    &entry.path,
                    DiagnosticReason::DuplicateId,
                    message,
                );
            }
        }
    }

    fn complain(
        &mut self,
        session_id: Option<SessionId>,
        path: &Path,
        reason: DiagnosticReason,
        message: String,
    ) {
        let relative = path.strip_prefix(self.root).unwrap_or(path);
        let path = relative.display().to_string();
        self.found.diagnostics.push(Diagnostic {
            session_id,
            path,
            reason,
            message,
        });
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}
