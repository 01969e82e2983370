//! Who may write a session: the lock with its faults, and the rules of `session.md` 2.10 and 2.12
//! for making, opening and continuing one.
//!
//! Elsewhere: an id is free again when nothing of it was written, a batch must reach the inherited
//! cut, the last window is written unasked (`store.rs`); a failed batch is kept and written again
//! (`faults.rs`, `full_disk.rs`); an observation is kept while its revision holds (`orrery-query`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use orrery_session::{SessionHeader, SessionId, SessionLogOffset};
use orrery_storage::disk::{Disk, RealDisk};
use orrery_storage::lock::{self, LOCK_FILE};
use orrery_storage::log_file::LogFile;
use orrery_storage::{Compression, Durability, StorageError, Store, StoreOptions};
use orrery_testkit::{Fault, FaultyDisk, Plan};

use crate::faults::{NEVER, start};
use crate::{header, prompt, store, two_turns};

fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

async fn made(store: &Store, name: &str) {
    let writer = store
        .create(header(name), SessionLogOffset::ZERO)
        .await
        .unwrap();
    writer.append(two_turns()[..5].to_vec()).unwrap();
    writer.close().await.unwrap();
}

const fn at(first: usize) -> Plan {
    Plan {
        first,
        count: 1,
        fault: Fault::Full,
    }
}

#[tokio::test]
async fn a_lock_that_cannot_be_taken_is_said_and_taken_the_next_time() {
    let home = tempfile::tempdir_in(crate::scratch()).unwrap();
    let disk = FaultyDisk::new(home.path()).unwrap();
    let zstd = Compression::Zstd;
    let store = start(home.path(), &disk, zstd, Durability::Step, NEVER);
    made(&store, "s").await;
    let path = store.find(&id("s")).await.unwrap().path;
    let before = std::fs::read(&path).unwrap();
    disk.arm(at(0));
    let said = store.open(&id("s")).await.unwrap_err().to_string();
    assert_eq!(disk.heal(), 1);
    assert!(
        said.contains("could not lock") && said.contains(LOCK_FILE),
        "{said}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(store.open(&id("s")).await.is_ok());
}

#[tokio::test]
async fn a_lock_whose_holder_could_not_be_written_is_held_all_the_same() {
    let home = tempfile::tempdir_in(crate::scratch()).unwrap();
    let disk = FaultyDisk::new(home.path()).unwrap();
    let zstd = Compression::Zstd;
    let store = start(home.path(), &disk, zstd, Durability::Step, NEVER);
    made(&store, "s").await;
    disk.arm(at(1));
    let opened = store.open(&id("s")).await.unwrap();
    assert_eq!(disk.heal(), 1);
    let other = start(home.path(), &disk, zstd, Durability::Step, NEVER);
    match other.open(&id("s")).await {
        Err(StorageError::WriterHeld { holder, .. }) => assert_eq!(holder, "another process"),
        other => panic!("{other:?}"),
    }
    opened.writer.close().await.unwrap();
    assert!(other.open(&id("s")).await.is_ok());
}

#[tokio::test]
async fn who_holds_a_session_is_known_while_somebody_does() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), Compression::Zstd);
    made(&store, "s").await;
    let path = store.find(&id("s")).await.unwrap().path;
    let holder = || lock::holder(&RealDisk, path.parent().unwrap());
    assert_eq!(holder(), None);
    let opened = store.open(&id("s")).await.unwrap();
    assert_eq!(holder(), Some(format!("process {}", std::process::id())));
    // Also to ourselves: two handles on one session would write over each other.
    let again = store.open(&id("s")).await;
    assert!(
        matches!(again, Err(StorageError::WriterHeld { .. })),
        "{again:?}"
    );
    opened.writer.close().await.unwrap();
    assert_eq!(holder(), None);
}

#[tokio::test]
async fn an_id_is_taken_below_any_working_directory_and_before_its_file_is_there() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), Compression::Zstd);
    made(&store, "s").await;
    let elsewhere = SessionHeader {
        cwd: Some("/another/place".to_owned()),
        ..header("s")
    };
    let again = store.create(elsewhere, SessionLogOffset::ZERO).await;
    assert!(
        matches!(again, Err(StorageError::Exists { .. })),
        "{again:?}"
    );
    let first = store.create(header("lazy"), SessionLogOffset::ZERO).await;
    let second = store.create(header("lazy"), SessionLogOffset::ZERO).await;
    assert!(
        matches!(second, Err(StorageError::Exists { .. })),
        "{second:?}"
    );
    // Let go of without an event, it is free at once.
    drop(first);
    let third = store.create(header("lazy"), SessionLogOffset::ZERO).await;
    assert!(third.is_ok(), "{third:?}");
}

#[tokio::test]
async fn a_batch_with_a_gap_inside_is_refused_whole() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), Compression::None);
    let writer = store
        .create(header("s"), SessionLogOffset::ZERO)
        .await
        .unwrap();
    writer.append(vec![]).unwrap();
    writer.flush().await.unwrap();
    assert!(
        store.find(&id("s")).await.is_err(),
        "an empty batch makes no file"
    );
    let events = two_turns();
    let gap = vec![events[0].clone(), events[2].clone()];
    writer.append(gap).unwrap();
    let refused = writer.flush().await;
    assert!(
        matches!(refused, Err(StorageError::OutOfOrder { .. })),
        "{refused:?}"
    );
    writer.append(events[..5].to_vec()).unwrap();
    writer.flush().await.unwrap();
    assert_eq!(store.read(&id("s")).await.unwrap().events, events[..5]);
}

#[tokio::test]
async fn a_log_that_vanished_or_holds_another_session_is_not_opened_and_not_touched() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), Compression::Zstd);
    made(&store, "s").await;
    let path = store.find(&id("s")).await.unwrap().path;
    // A torn tail, which opening would cut off.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(bytes.len() - 3);
    std::fs::write(&path, &bytes).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let open = |id: &SessionId| LogFile::open(&disk, &path, Compression::Zstd, id).map(drop);
    assert!(matches!(open(&id("t")), Err(StorageError::Corrupt { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(open(&id("s")), Err(StorageError::NotFound { .. })));
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
    assert!(matches!(open(&id("s")), Err(StorageError::NotFound { .. })));
}

#[tokio::test]
async fn later_events_do_not_move_the_window_of_the_first() {
    let home = tempfile::tempdir_in(crate::scratch()).unwrap();
    let options = StoreOptions {
        write_window: Duration::from_millis(300),
        ..StoreOptions::new(home.path())
    };
    let store = Store::start(Arc::new(RealDisk), options).unwrap();
    let writer = store
        .create(header("s"), SessionLogOffset::ZERO)
        .await
        .unwrap();
    let mut saved = writer.saved();
    let started = Instant::now();
    let mut seq = 0;
    // A window that every event moves would never end here.
    while saved.borrow_and_update().saved == SessionLogOffset::ZERO {
        writer.append(vec![prompt(seq, "and on")]).unwrap();
        seq += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(started.elapsed() < Duration::from_secs(20), "never written");
    }
    assert!(started.elapsed() >= Duration::from_millis(300));
}
