//! The header catalogue: which sessions lie under a root (decisions D7, D16).
//!
//! A refresh costs one `stat` for each log that is known already: a header is never rewritten, so
//! it is read again only when another file lies there. What cannot be listed becomes a diagnostic;
//! only an unreadable root fails the whole.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use orrery_session::{SessionHeader, SessionId, SessionLogOffset};

use crate::disk::{Disk, FolderEntry};
use crate::error::StorageError;
use crate::folders::Folders;
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

/// How many threads look at session folders: on a cold disk each look waits for it several times.
const LOOKERS: usize = 8;
/// With fewer folders than this one thread looks at all of them.
const FEW: usize = 64;
/// How many folders a thread takes at once.
const SHARE: usize = 16;

/// All sessions under one root.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    /// Shared, so that a copy of the whole is cheap.
    entries: BTreeMap<SessionId, Arc<CatalogueEntry>>,
    /// By the parent that the children's headers name: the ids in the order of their creation.
    children: BTreeMap<SessionId, Vec<SessionId>>,
    /// The sessions that more than one log claims to be.
    doubled: BTreeSet<SessionId>,
    diagnostics: Vec<Diagnostic>,
    folders: Folders,
}

impl Catalogue {
    /// What an earlier process knew: only for a refresh to start from.
    pub(crate) fn of_entries(entries: Vec<CatalogueEntry>) -> Self {
        let entries = entries
            .into_iter()
            .map(|e| (e.header.id.clone(), Arc::new(e)))
            .collect();
        Self {
            entries,
            ..Self::default()
        }
    }

    /// The same without one session: its log is looked at anew the next time.
    pub(crate) fn without(&self, id: &SessionId) -> Self {
        let mut rest = self.clone();
        if let Some(gone) = rest.entries.remove(id)
            && let Some(parent) = &gone.header.parent_session
            && let Some(siblings) = rest.children.get_mut(parent)
        {
            siblings.retain(|sibling| sibling != id);
        }
        rest
    }

    /// Puts in a session that was not known; says whether it was not.
    pub(crate) fn insert(&mut self, entry: CatalogueEntry) -> bool {
        let id = entry.header.id.clone();
        if self.entries.contains_key(&id) {
            return false;
        }
        if let Some(parent) = &entry.header.parent_session {
            let siblings = self.children.entry(parent.clone()).or_default();
            let place = (entry.header.created_at, &id);
            let before = |sibling: &SessionId| {
                let sibling = self.entries.get(sibling).map(|e| &e.header);
                sibling.is_some_and(|header| (header.created_at, &header.id) < place)
            };
            siblings.insert(siblings.partition_point(before), id.clone());
        }
        self.entries.insert(id, Arc::new(entry));
        true
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
        self.entries.values().map(AsRef::as_ref)
    }

    /// One session.
    pub fn get(&self, id: &SessionId) -> Option<&CatalogueEntry> {
        self.entries.get(id).map(AsRef::as_ref)
    }

    /// Whether more than one log claims to be this session. One of them is listed; none is read,
    /// since nobody can tell which one counts.
    pub fn is_doubled(&self, id: &SessionId) -> bool {
        self.doubled.contains(id)
    }

    /// The sessions whose header names this one as their parent (decision D16): by `createdAt`, then
    /// by the bytes of the id (decision D15). Costs as much as there are children.
    pub fn children<'a>(
        &'a self,
        parent: &SessionId,
    ) -> impl Iterator<Item = &'a CatalogueEntry> + use<'a> {
        let ids = self.children.get(parent).map_or(&[][..], Vec::as_slice);
        ids.iter().filter_map(|id| self.get(id))
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
        let scan = Scan {
            disk,
            root,
            known: BTreeMap::new(),
        };
        let name = id_segment(id);
        let mut found = Self::default();
        for project in projects.iter().filter(|entry| is_project(entry)) {
            let items = scan.session(&root.join(&project.name).join(&name));
            items.into_iter().for_each(|item| found.add(&scan, item));
        }
        let Self {
            mut entries,
            diagnostics,
            ..
        } = found;
        let entry = entries.remove(id);
        let about_it =
            |d: &&Diagnostic| d.reason == DiagnosticReason::DuplicateId || entry.is_none();
        match (diagnostics.iter().find(about_it), entry) {
            (None, Some(entry)) => Ok(Arc::unwrap_or_clone(entry)),
            (None, None) => Err(missing()),
            (Some(problem), _) => {
                let path = root.join(&problem.path);
                let of_another = problem.session_id.as_ref().is_some_and(|other| other != id);
                Err(match problem.reason {
                    DiagnosticReason::DuplicateId => StorageError::Conflict {
                        id: id.clone(),
                        why: format!("{}: {}", path.display(), problem.message),
                    },
                    _ if of_another => StorageError::Conflict {
                        id: id.clone(),
                        why: format!("{} is the log of another session", path.display()),
                    },
                    DiagnosticReason::UnsupportedVersion => StorageError::Unsupported {
                        path,
                        why: problem.message.clone(),
                    },
                    _ => StorageError::corrupt(&path, &problem.message),
                })
            }
        }
    }

    /// Whether no session has come or gone below the root since the look, as its folders tell:
    /// costs one `stat` for each project. That a log was replaced within its folder they do not tell.
    pub(crate) fn still_stands(&self, disk: &dyn Disk) -> bool {
        self.folders.unchanged(disk)
    }

    /// Looks at a root again. An absent root is empty.
    pub fn refresh(disk: &dyn Disk, root: &Path, known: &Self) -> Result<Self, StorageError> {
        let mut folders = Folders::default();
        folders.note(disk, root);
        let projects = match disk.list(root) {
            Ok(projects) => projects,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(StorageError::io("list", root, &e)),
        };
        let by_path: BTreeMap<&Path, &CatalogueEntry> = known
            .entries
            .values()
            .map(|entry| (entry.path.as_path(), entry.as_ref()))
            .collect();
        let scan = Scan {
            disk,
            root,
            known: by_path,
        };
        let mut jobs = Vec::new();
        for project in projects.iter().filter(|entry| is_project(entry)) {
            let project = root.join(&project.name);
            folders.note(disk, &project);
            scan.project(&project, &mut jobs);
        }
        let mut found = Self::default();
        for items in scan.look(jobs) {
            // A log may be about to appear there.
            if items.is_empty() {
                folders.doubt();
            }
            for item in items {
                found.add(&scan, item);
            }
        }
        found.folders = folders;
        found.relate();
        Ok(found)
    }

    fn add(&mut self, scan: &Scan<'_>, item: Item) {
        let entry = match item {
            Item::Entry(entry) => entry,
            Item::Problem(problem) => {
                if problem.reason == DiagnosticReason::DuplicateId {
                    self.doubled.extend(problem.session_id.clone());
                }
                self.diagnostics.push(problem);
                return;
            }
        };
        let id = entry.header.id.clone();
        match self.entries.get(&id) {
            None => {
                self.entries.insert(id, Arc::from(entry));
            }
            Some(first) => {
                let message = format!("session {id} lies also at {}", first.path.display());
                let reason = DiagnosticReason::DuplicateId;
                self.doubled.insert(id.clone());
                let problem = scan.problem(Some(id), &entry.path, reason, message);
                self.diagnostics.push(problem);
            }
        }
    }

    /// Notes who is whose child, from the headers that are known by now.
    fn relate(&mut self) {
        let mut related: Vec<&Arc<CatalogueEntry>> = self.entries.values().collect();
        // The entries are in the order of their ids already.
        related.sort_by_key(|entry| entry.header.created_at);
        for entry in related {
            if let Some(parent) = &entry.header.parent_session {
                let siblings = self.children.entry(parent.clone()).or_default();
                siblings.push(entry.header.id.clone());
            }
        }
    }
}

/// Whether a folder of the root holds sessions: what begins with a point is put aside.
fn is_project(entry: &FolderEntry) -> bool {
    entry.is_folder && !entry.name.starts_with('.')
}

/// What is found under a root.
enum Item {
    Entry(Box<CatalogueEntry>),
    Problem(Diagnostic),
}

/// What is to be done about something under a root.
enum Job {
    Look(PathBuf),
    Say(Diagnostic),
}

struct Scan<'a> {
    disk: &'a dyn Disk,
    root: &'a Path,
    known: BTreeMap<&'a Path, &'a CatalogueEntry>,
}

impl Scan<'_> {
    fn project(&self, project: &Path, jobs: &mut Vec<Job>) {
        let entries = match self.disk.list(project) {
            Ok(entries) => entries,
            Err(error) => {
                let reason = DiagnosticReason::Unreadable;
                let problem = self.problem(None, project, reason, error.to_string());
                jobs.push(Job::Say(problem));
                return;
            }
        };
        for entry in entries {
            let path = project.join(&entry.name);
            if entry.is_folder {
                jobs.push(Job::Look(path));
            } else if entry.name.ends_with(".jsonl") || entry.name.ends_with(".jsonl.zstd") {
                let message = "a log lies in a folder of its own, not directly in its project";
                let reason = DiagnosticReason::Misplaced;
                jobs.push(Job::Say(self.problem(
                    None,
                    &path,
                    reason,
                    message.to_owned(),
                )));
            }
        }
    }

    /// Does all jobs, side by side where they are many. What was found stands in the order of the
    /// jobs, whoever did them.
    fn look(&self, jobs: Vec<Job>) -> Vec<Vec<Item>> {
        if jobs.len() < FEW {
            return jobs.into_iter().map(|job| self.job(job)).collect();
        }
        let mut jobs = jobs.into_iter();
        let shares = std::iter::from_fn(|| {
            let share: Vec<Job> = jobs.by_ref().take(SHARE).collect();
            (!share.is_empty()).then_some(share)
        });
        let shares = Mutex::new(shares.enumerate());
        let next = || shares.lock().unwrap_or_else(PoisonError::into_inner).next();
        let run = || {
            let mut found = Vec::new();
            while let Some((number, share)) = next() {
                let items = share.into_iter().map(|job| self.job(job)).collect();
                found.push((number, items));
            }
            found
        };
        let mut found: Vec<(usize, Vec<Vec<Item>>)> = std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..LOOKERS)
                // Without a helper the others do its work.
                .filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, run).ok())
                .collect();
            let mut found = run();
            for helper in helpers {
                match helper.join() {
                    Ok(more) => found.extend(more),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            found
        });
        found.sort_by_key(|(number, _)| *number);
        found.into_iter().flat_map(|(_, items)| items).collect()
    }

    fn job(&self, job: Job) -> Vec<Item> {
        match job {
            Job::Look(folder) => self.session(&folder),
            Job::Say(problem) => vec![Item::Problem(problem)],
        }
    }

    fn session(&self, folder: &Path) -> Vec<Item> {
        let mut items = Vec::new();
        let mut listed = false;
        for compression in Compression::ALL {
            let path = folder.join(compression.file_name());
            let stat = match self.disk.stat(&path) {
                Ok(stat) => stat,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => {
                    let reason = DiagnosticReason::Unreadable;
                    let problem = self.problem(None, &path, reason, e.to_string());
                    items.push(Item::Problem(problem));
                    continue;
                }
            };
            let revision = Revision(stat);
            let known = self.known.get(path.as_path()).filter(|entry| {
                let old = entry.revision.0;
                (old.device, old.inode) == (stat.device, stat.inode)
            });
            let item = match known {
                Some(entry) => Some(Item::Entry(Box::new(CatalogueEntry {
                    revision,
                    ..(*entry).clone()
                }))),
                None => self.read(&path, compression, revision),
            };
            match item {
                Some(Item::Entry(entry)) if listed => {
                    let message = "both session.jsonl and session.jsonl.zstd lie in this folder";
                    let (id, reason) = (Some(entry.header.id), DiagnosticReason::DuplicateId);
                    let problem = self.problem(id, &path, reason, message.to_owned());
                    items.push(Item::Problem(problem));
                }
                Some(item) => {
                    listed |= matches!(item, Item::Entry(_));
                    items.push(item);
                }
                None => {}
            }
        }
        items
    }

    fn read(&self, path: &Path, compression: Compression, revision: Revision) -> Option<Item> {
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
                    return Some(Item::Entry(Box::new(entry)));
                }
                let message = format!("its header places it at {}", derived.display());
                let (id, reason) = (Some(entry.header.id), DiagnosticReason::Misplaced);
                return Some(Item::Problem(self.problem(id, path, reason, message)));
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
        Some(Item::Problem(self.problem(None, path, reason, message)))
    }

    fn problem(
        &self,
        session_id: Option<SessionId>,
        path: &Path,
        reason: DiagnosticReason,
        message: String,
    ) -> Diagnostic {
        let relative = path.strip_prefix(self.root).unwrap_or(path);
        Diagnostic {
            session_id,
            path: relative.display().to_string(),
            reason,
            message,
        }
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}
