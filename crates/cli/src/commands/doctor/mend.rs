//! What `orrery doctor` changes when it is told to: derived files, and tails that a crash left.
//!
//! Nothing that could not be read whole is rewritten. A log that another process writes is left to
//! it.

use std::path::Path;
use std::sync::Arc;

use orrery_api::session::ListRequest;
use orrery_catalog::Catalog;
use orrery_host::config::Config;
use orrery_host::home::Home;
use orrery_storage::catalogue::CatalogueEntry;
use orrery_storage::disk::{Disk, RealDisk};
use orrery_storage::index::{Index, index_path};
use orrery_storage::log_file::LogFile;
use orrery_storage::{Catalogue, StorageError, read};

use super::Findings;
use crate::context;
use crate::progress::Progress;

/// Throws every derived file away and makes it anew.
pub(super) fn rebuild(root: &Path, catalogue_file: &Path, findings: &mut Findings) {
    let disk = RealDisk;
    let Some(catalogue) = catalogue(&disk, root, findings) else {
        return;
    };
    if let Err(error) = remove(catalogue_file) {
        findings.problem("rebuild", format!("{}: {error}", catalogue_file.display()));
    }
    let mut made = 0_usize;
    for entry in catalogue.entries() {
        let path = index_path(&entry.path);
        let rebuilt = remove(&path)
            .map_err(|error| format!("{}: {error}", path.display()))
            .and_then(|()| {
                Index::open(&disk, &entry.path, entry.compression).map_err(|e| e.to_string())
            });
        match rebuilt {
            Ok(_) => made += 1,
            Err(problem) => findings.problem("rebuild", problem),
        }
    }
    findings.ok("rebuild", format!("{made} frame indexes were made anew"));
}

/// Throws checkpoints and the search index away and makes them anew from the logs.
pub(super) async fn rebuild_index(home: &Home, config: &Config, findings: &mut Findings) {
    let file = home.index();
    if let Err(error) = Catalog::open(&file).and_then(|catalog| catalog.rebuild()) {
        findings.problem("rebuild", error.to_string());
        return;
    }
    let host = match context::host(home.clone(), config.clone(), None) {
        Ok(host) => host,
        Err(error) => {
            findings.problem("rebuild", error.to_string());
            return;
        }
    };
    let mut bar = Progress::new("sessions are searchable");
    let indexed = match config.search.enabled {
        true => host.controller().index_all(|left| bar.show(left)).await,
        false => Ok(()),
    };
    bar.done();
    let listed = host.controller().list(ListRequest::default()).await;
    host.shutdown().await;
    match indexed.and(listed.map(|_| ())) {
        Ok(()) => findings.ok("rebuild", "checkpoints and the search index were made anew"),
        Err(error) => findings.problem("rebuild", error.to_string()),
    }
}

/// Repairs every tail that a crash left: closes interrupted turns, keeps what can be recovered.
pub(super) fn repair(root: &Path, findings: &mut Findings) {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let Some(catalogue) = catalogue(disk.as_ref(), root, findings) else {
        return;
    };
    let mut repaired = 0_usize;
    for entry in catalogue.entries() {
        if !needs_repair(disk.as_ref(), entry) {
            continue;
        }
        match LogFile::open(&disk, &entry.path, entry.compression, &entry.header.id) {
            Ok(_) => {
                repaired += 1;
                findings.note(
                    "repair",
                    format!("{}: its tail is closed", entry.path.display()),
                );
            }
            Err(StorageError::WriterHeld { id, holder }) => {
                findings.note(
                    "repair",
                    format!("{id} is held by {holder}, who looks after it"),
                );
            }
            Err(error) => findings.problem("repair", error.to_string()),
        }
    }
    findings.ok("repair", format!("{repaired} logs were repaired"));
}

/// Whether a log that can be read whole ends in the middle of something.
fn needs_repair(disk: &dyn Disk, entry: &CatalogueEntry) -> bool {
    read::read_log(disk, &entry.path, entry.compression).is_ok_and(|log| {
        let open = orrery_session::repair::closers(&log.events);
        log.torn.is_some() || open.is_ok_and(|closers| !closers.is_empty())
    })
}

fn catalogue(disk: &dyn Disk, root: &Path, findings: &mut Findings) -> Option<Catalogue> {
    match Catalogue::refresh(disk, root, &Catalogue::default()) {
        Ok(catalogue) => Some(catalogue),
        Err(error) => {
            findings.problem("logs", error.to_string());
            None
        }
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
