//! Every call to the disk fails once, in every way: nothing acknowledged is lost, nothing is written
//! twice, and the writer heals when the fault goes away.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orrery_session::{EventType, SessionId, SessionLogOffset, SharedEvent};
use orrery_storage::{Compression, Durability, SaveState, StorageError, Store, StoreOptions};
use orrery_testkit::{Fault, FaultyDisk, Loss, Plan};

use crate::{header, two_turns};

const ALL_FAULTS: [Fault; 6] = [
    Fault::Full,
    Fault::Broken,
    Fault::Short(0),
    Fault::Short(1),
    Fault::Short(128),
    Fault::Short(255),
];
/// A window longer than any test: what is written is written by a flush.
pub(crate) const NEVER: Duration = Duration::from_secs(3600);
/// Where the batches of a run end.
const BATCHES: [usize; 5] = [2, 5, 8, 15, 20];

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

pub(crate) fn start(
    root: &Path,
    disk: &FaultyDisk,
    compression: Compression,
    durability: Durability,
    write_window: Duration,
) -> Store {
    let options = StoreOptions {
        compression,
        durability,
        write_window,
        ..StoreOptions::new(root.join("deep/er/sessions"))
    };
    Store::start(Arc::new(disk.clone()), options).unwrap()
}

/// Appends and flushes every batch; gives how much was acknowledged and the first failure.
async fn run(store: &Store, events: &[SharedEvent]) -> (usize, Option<StorageError>) {
    let (mut acked, mut first) = (0, None);
    let writer = match store.create(header("s"), SessionLogOffset::ZERO).await {
        Ok(writer) => writer,
        Err(error) => return (0, Some(error)),
    };
    let mut from = 0;
    for to in BATCHES {
        writer.append(events[from..to].to_vec()).unwrap();
        match writer.flush().await {
            Ok(()) => {
                assert!(writer.saved().borrow().degraded.is_none());
                assert_eq!(writer.saved().borrow().saved.get(), to as u64);
                acked = to;
            }
            Err(error) => {
                let said = writer.saved().borrow().degraded.clone();
                assert_eq!(said, Some(error.to_string()));
                first = first.or(Some(error));
            }
        }
        from = to;
    }
    (acked, first)
}

/// `kept` is a prefix of what was appended, reaches what was acknowledged, and ends with nothing but
/// closers.
pub(crate) fn check(kept: &[SharedEvent], appended: &[SharedEvent], acked: usize, what: &str) {
    let same = kept
        .iter()
        .zip(appended)
        .take_while(|(a, b)| a == b)
        .count();
    assert!(same >= acked, "{what}: {acked} acknowledged, {same} kept");
    for (index, event) in kept.iter().enumerate() {
        assert_eq!(event.seq().index(), index, "{what}: not dense");
    }
    for event in &kept[same..] {
        let closer = matches!(
            event.event_type(),
            EventType::StepEnd | EventType::TurnEnd | EventType::ToolResult
        );
        assert!(closer, "{what}: {event:?} is not what was appended");
    }
}

/// One run with one fault; says whether the fault was met.
async fn one_fault(plan: Plan, compression: Compression) -> bool {
    let (events, what) = (two_turns(), format!("{compression:?} {plan:?}"));
    let home = tempfile::tempdir_in(crate::scratch()).unwrap();
    let disk = FaultyDisk::new(home.path()).unwrap();
    let store = start(home.path(), &disk, compression, Durability::Step, NEVER);
    disk.arm(plan);
    let (_, failure) = run(&store, &events).await;
    let fired = disk.heal();
    if let Some(failure) = failure {
        let said = failure.to_string();
        let clear = said.contains("could not") && said.contains("planned");
        assert!(clear, "{what}: {said}");
    }
    store.shutdown().await;
    let read = store.read(&id()).await.unwrap();
    assert_eq!(read.events, events, "{what}: does not heal");
    assert!(read.torn.is_none(), "{what}");
    disk.cut_power();
    disk.power_on(Loss::Unsynced).unwrap();
    let store = start(home.path(), &disk, compression, Durability::Step, NEVER);
    let read = store.read(&id()).await;
    let read = read.unwrap_or_else(|e| panic!("{what}: after the power cut: {e}"));
    check(&read.events, &events, events.len(), &what);
    fired > 0
}

#[tokio::test]
async fn a_fault_at_any_call_is_said_healed_and_loses_nothing() {
    for compression in Compression::ALL {
        for fault in ALL_FAULTS {
            for count in [1, 2, 3] {
                let mut first = 0;
                while one_fault(
                    Plan {
                        first,
                        count,
                        fault,
                    },
                    compression,
                )
                .await
                {
                    first += 1;
                }
                assert!(first > 20, "only {first} calls were made to fail");
            }
        }
    }
}

#[tokio::test]
async fn a_failed_sync_takes_nothing_that_was_written_before_it() {
    let events = two_turns();
    for compression in Compression::ALL {
        let home = tempfile::tempdir_in(crate::scratch()).unwrap();
        let disk = FaultyDisk::new(home.path()).unwrap();
        let window = Duration::from_millis(1);
        let store = start(home.path(), &disk, compression, Durability::Turn, window);
        let writer = store
            .create(header("s"), SessionLogOffset::ZERO)
            .await
            .unwrap();
        for (from, to) in [(0, 5), (5, 8), (8, 20)] {
            writer.append(events[from..to].to_vec()).unwrap();
            let mut saved = writer.saved();
            let written = |state: &SaveState| state.saved.get() == to as u64;
            saved.wait_for(written).await.unwrap();
        }
        disk.arm(Plan {
            first: 0,
            count: 1,
            fault: Fault::Broken,
        });
        writer.flush().await.unwrap_err();
        assert_eq!(disk.heal(), 1);
        writer.flush().await.unwrap();
        disk.cut_power();
        store.shutdown().await;
        disk.power_on(Loss::Unsynced).unwrap();
        let kept = recover(home.path(), &disk, compression, 20, "after the cut").await;
        check(&kept, &events, 20, "after the cut");
    }
}

#[tokio::test]
async fn a_power_cut_at_any_call_keeps_what_was_acknowledged() {
    let events = two_turns();
    for compression in Compression::ALL {
        for loss in [
            Loss::Nothing,
            Loss::Unsynced,
            Loss::Torn(1),
            Loss::Torn(2),
            Loss::Torn(3),
        ] {
            for first in 0.. {
                let what = format!("{compression:?} {loss:?} at {first}");
                let home = tempfile::tempdir_in(crate::scratch()).unwrap();
                let disk = FaultyDisk::new(home.path()).unwrap();
                let store = start(home.path(), &disk, compression, Durability::Step, NEVER);
                disk.arm(Plan {
                    first,
                    count: 1,
                    fault: Fault::PowerCut,
                });
                let (acked, _) = run(&store, &events).await;
                let cut = disk.is_dead();
                disk.cut_power();
                store.shutdown().await;
                disk.power_on(loss).unwrap();
                let kept = recover(home.path(), &disk, compression, acked, &what).await;
                check(&kept, &events, acked, &what);
                if !cut {
                    break;
                }
            }
        }
    }
}

/// Opens what is there; gives its events.
async fn recover(
    home: &Path,
    disk: &FaultyDisk,
    compression: Compression,
    acked: usize,
    what: &str,
) -> Vec<SharedEvent> {
    let store = start(home, disk, compression, Durability::Step, NEVER);
    let kept = match store.open(&id()).await {
        Ok(opened) => opened.log.events,
        Err(StorageError::NotFound { .. }) if acked == 0 => Vec::new(),
        Err(error) => panic!("{what}: {error}"),
    };
    store.shutdown().await;
    kept
}

/// A home whose log has a torn tail with something to recover, or with nothing.
struct Damaged {
    home: tempfile::TempDir,
    disk: FaultyDisk,
    /// How many events lie in front of the tail, and how many can be read from it.
    committed: usize,
    readable: usize,
}

async fn damaged(compression: Compression, cut_from_end: u64) -> Damaged {
    let home = tempfile::tempdir_in(crate::scratch()).unwrap();
    let disk = FaultyDisk::new(home.path()).unwrap();
    let store = start(home.path(), &disk, compression, Durability::Step, NEVER);
    let (acked, failure) = run(&store, &two_turns()).await;
    assert!(acked == 20 && failure.is_none());
    let path = store.find(&id()).await.unwrap().path;
    store.shutdown().await;
    let size = std::fs::metadata(&path).unwrap().len();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(size - cut_from_end).unwrap();
    drop(file);
    let disk = FaultyDisk::new(home.path()).unwrap();
    let store = start(home.path(), &disk, compression, Durability::Step, NEVER);
    let read = store.read(&id()).await.unwrap();
    store.shutdown().await;
    let torn = read.torn.unwrap();
    Damaged {
        home,
        disk,
        committed: read.events.len() - torn.recovered,
        readable: read.events.len(),
    }
}

#[tokio::test]
async fn recovery_that_fails_at_any_call_loses_nothing_that_could_be_read_before() {
    let mut faults: Vec<Fault> = ALL_FAULTS.to_vec();
    faults.push(Fault::PowerCut);
    for compression in Compression::ALL {
        // A torn checksum (all can be recovered), a torn block, a tail of a few bytes.
        for cut_from_end in [1, 30, 100] {
            for &fault in &faults {
                for loss in [Loss::Nothing, Loss::Unsynced, Loss::Torn(1), Loss::Torn(2)] {
                    for first in 0.. {
                        let what = format!(
                            "{compression:?} -{cut_from_end} {fault:?} {loss:?} at {first}"
                        );
                        let log = damaged(compression, cut_from_end).await;
                        let store = start(
                            log.home.path(),
                            &log.disk,
                            compression,
                            Durability::Step,
                            NEVER,
                        );
                        log.disk.arm(Plan {
                            first,
                            count: 1,
                            fault,
                        });
                        let opened = store.open(&id()).await;
                        let hit = log.disk.heal() > 0;
                        if let (Err(error), false) = (&opened, log.disk.is_dead()) {
                            assert!(error.to_string().contains("planned"), "{what}: {error}");
                        }
                        let promised = match &opened {
                            Ok(opened) => opened.log.events.len(),
                            Err(_) => log.readable,
                        };
                        drop(opened);
                        log.disk.cut_power();
                        store.shutdown().await;
                        log.disk.power_on(loss).unwrap();
                        let kept = recover(
                            log.home.path(),
                            &log.disk,
                            compression,
                            log.committed,
                            &what,
                        )
                        .await;
                        check(&kept, &two_turns(), log.readable, &what);
                        assert!(
                            kept.len() >= promised,
                            "{what}: {promised} promised, {} kept",
                            kept.len()
                        );
                        if !hit {
                            break;
                        }
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn what_a_killed_process_left_unsynced_is_durable_once_the_log_was_opened() {
    let events = two_turns();
    for compression in Compression::ALL {
        for first in 0.. {
            let what = format!("{compression:?} killed at {first}");
            let home = tempfile::tempdir_in(crate::scratch()).unwrap();
            let disk = FaultyDisk::new(home.path()).unwrap();
            let store = start(home.path(), &disk, compression, Durability::Step, NEVER);
            disk.arm(Plan {
                first,
                count: 1,
                fault: Fault::PowerCut,
            });
            let (acked, _) = run(&store, &events).await;
            let hit = disk.heal() > 0;
            // The process dies, the machine stays: what it wrote is in the page cache.
            disk.cut_power();
            store.shutdown().await;
            disk.revive();
            let store = start(home.path(), &disk, compression, Durability::Step, NEVER);
            let promised = match store.open(&id()).await {
                Ok(opened) => opened.log.events,
                Err(StorageError::NotFound { .. }) if acked == 0 => Vec::new(),
                Err(error) => panic!("{what}: {error}"),
            };
            disk.cut_power();
            store.shutdown().await;
            disk.power_on(Loss::Unsynced).unwrap();
            let kept = recover(home.path(), &disk, compression, promised.len(), &what).await;
            assert!(
                kept.starts_with(&promised),
                "{what}: {} promised, {} kept",
                promised.len(),
                kept.len()
            );
            if !hit {
                break;
            }
        }
    }
}

mod model;
