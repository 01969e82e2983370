//! Logs that another program wrote, where the environment names a folder of them.

use orrery_session::{SessionLog, SharedEvent, Timestamp, Vocabulary};
use orrery_storage::Compression;
use std::path::{Path, PathBuf};

use crate::store;

fn roots() -> Vec<PathBuf> {
    let Some(samples) = std::env::var_os("ORRERY_SAMPLES") else {
        println!("skipped: ORRERY_SAMPLES names no folder of foreign logs");
        return Vec::new();
    };
    let mut roots = Vec::new();
    collect(Path::new(&samples), &mut roots);
    assert!(!roots.is_empty(), "ORRERY_SAMPLES holds no log root");
    roots
}

/// All logs of the foreign roots.
pub(crate) fn logs() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for root in roots() {
        let catalogue = orrery_storage::Catalogue::refresh(
            &orrery_storage::disk::RealDisk,
            &root,
            &orrery_storage::Catalogue::default(),
        );
        let catalogue = catalogue.unwrap();
        found.extend(catalogue.entries().map(|entry| entry.path.clone()));
    }
    found
}

/// A root is a folder that holds project folders.
fn collect(folder: &Path, roots: &mut Vec<PathBuf>) {
    let entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let is_project = |p: &PathBuf| {
        let name = p.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        p.is_dir() && name.len() > 4 && name.starts_with("--") && name.ends_with("--")
    };
    if entries.iter().any(is_project) {
        roots.push(folder.to_owned());
        return;
    }
    for entry in entries.iter().filter(|p| p.is_dir()) {
        collect(entry, roots);
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::write(&target, std::fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

#[tokio::test]
async fn foreign_logs_are_listed_read_whole_and_continued_as_copies() {
    for root in roots() {
        let copied = tempfile::tempdir().unwrap();
        copy(&root, copied.path());
        let store = store(copied.path(), Compression::Zstd);
        let catalogue = store.catalogue().await.unwrap();
        assert!(
            catalogue.diagnostics().is_empty(),
            "{:?}",
            catalogue.diagnostics()
        );
        assert!(catalogue.entries().count() > 0);
        for entry in catalogue.entries() {
            let id = &entry.header.id;
            let before = store.read(id).await.unwrap();
            let opened = store.open(id).await.unwrap();
            let same = before
                .events
                .iter()
                .zip(&opened.log.events)
                .all(|(a, b)| a == b);
            assert!(same && opened.log.events.len() >= before.events.len());
            let len = opened.log.events.len();
            let now = Timestamp::saturating(2_000_000_000_000);
            let log = SessionLog::from_seed(
                opened.log.header,
                opened.log.events,
                opened.log.inherited,
                Vocabulary::default(),
                now,
            )
            .unwrap_or_else(|e| panic!("{id}: {e}"));
            assert!(log.enclosure().open_turn().is_none());
            assert!(!log.messages().is_empty());
            let added: Vec<SharedEvent> = log.events()[len..].to_vec();
            opened.writer.append(added).unwrap();
            opened.writer.flush().await.unwrap();
            let after = store.read(id).await.unwrap();
            assert_eq!(after.events, log.events());
        }
    }
}
