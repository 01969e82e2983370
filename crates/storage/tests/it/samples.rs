//! Logs that another program wrote, where the environment names a folder of them.

use orrery_session::{SessionLog, SharedEvent, Timestamp, Vocabulary};
use orrery_storage::Compression;
use orrery_testkit::folders::{copy_folder, log_roots};
use std::path::{Path, PathBuf};

use crate::store;

fn roots() -> Vec<PathBuf> {
    let Some(samples) = std::env::var_os("ORRERY_SAMPLES") else {
        println!("skipped: ORRERY_SAMPLES names no folder of foreign logs");
        return Vec::new();
    };
    let roots = log_roots(Path::new(&samples)).unwrap();
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

#[tokio::test]
async fn foreign_logs_are_listed_read_whole_and_continued_as_copies() {
    for root in roots() {
        let copied = tempfile::tempdir().unwrap();
        copy_folder(&root, copied.path()).unwrap();
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
