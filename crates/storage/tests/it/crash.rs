//! A log cut anywhere: what was committed is there, what was torn is recovered or dropped, and the
//! repaired log reads clean.

use orrery_session::{SessionId, SessionLogOffset};
use orrery_storage::{Compression, StorageError};

use crate::{header, store, two_turns};

/// Writes the log in several batches; gives its bytes and how many events lie before each size.
async fn written(compression: Compression) -> (Vec<u8>, Vec<(usize, usize)>, std::path::PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), compression);
    let writer = store
        .create(header("s"), SessionLogOffset::ZERO)
        .await
        .unwrap();
    let events = two_turns();
    let mut committed = Vec::new();
    let mut path = std::path::PathBuf::new();
    for (from, to) in [(0, 2), (2, 5), (5, 8), (8, 15), (15, 20)] {
        writer.append(events[from..to].to_vec()).unwrap();
        writer.flush().await.unwrap();
        path = store
            .find(&SessionId::new("s").unwrap())
            .await
            .unwrap()
            .path;
        committed.push((std::fs::metadata(&path).unwrap().len() as usize, to));
    }
    let bytes = std::fs::read(&path).unwrap();
    (
        bytes,
        committed,
        path.strip_prefix(home.path()).unwrap().to_owned(),
    )
}

#[tokio::test]
async fn every_cut_keeps_what_was_committed_and_repairs_to_a_clean_log() {
    for compression in Compression::ALL {
        let (bytes, committed, relative) = written(compression).await;
        let events = two_turns();
        let header_end = if compression == Compression::None {
            bytes.iter().position(|&b| b == b'\n').unwrap() + 1
        } else {
            0
        };
        for cut in 1..=bytes.len() {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join(&relative);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let store = store(home.path(), compression);
            let id = SessionId::new("s").unwrap();
            let opened = match store.open(&id).await {
                Ok(opened) => opened,
                Err(StorageError::NotFound { .. }) => {
                    // The header itself is torn: such a file was never published.
                    assert!(cut < header_end.max(200), "cut at {cut} lost the session");
                    continue;
                }
                Err(error) => panic!("cut at {cut}: {error}"),
            };
            let promised = committed.iter().rev().find(|(size, _)| *size <= cut);
            let promised = promised.map_or(0, |(_, count)| *count);
            let kept = &opened.log.events;
            let same = kept.iter().zip(&events).take_while(|(a, b)| a == b).count();
            assert!(
                same >= promised,
                "cut at {cut}: {promised} promised, {same} kept"
            );
            let closers = kept.len() - same;
            assert!(closers <= 2, "cut at {cut}: {closers} closers");
            drop(opened.writer);
            let again = loop {
                // Closing happens on the writer's thread.
                match store.open(&id).await {
                    Err(StorageError::WriterHeld { .. }) => tokio::task::yield_now().await,
                    other => break other.unwrap(),
                }
            };
            assert_eq!(
                again.log.events.len(),
                same + closers,
                "cut at {cut}: repaired twice"
            );
            let read = store.read(&id).await.unwrap();
            assert!(read.torn.is_none(), "cut at {cut}: still torn");
        }
    }
}

#[tokio::test]
async fn reading_an_interrupted_log_changes_nothing() {
    let (bytes, _, relative) = written(Compression::Zstd).await;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(&relative);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let torn = &bytes[..bytes.len() - 3];
    std::fs::write(&path, torn).unwrap();
    let store = store(home.path(), Compression::Zstd);
    let read = store.read(&SessionId::new("s").unwrap()).await.unwrap();
    assert_eq!(read.torn.map(|t| t.recovered), Some(5));
    assert_eq!(read.events, two_turns());
    assert_eq!(std::fs::read(&path).unwrap(), torn);
}
