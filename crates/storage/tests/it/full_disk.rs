//! A real disk that is really full, and then is not.

#![cfg(target_os = "linux")]

use std::io::Write as _;
use std::path::Path;

use orrery_session::{SessionId, SessionLogOffset, SharedEvent};
use orrery_storage::{Compression, StorageError};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::{header, log_only, store, two_turns};

/// A small file system of its own, gone with this value.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` where this may not be done.
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root may mount a small disk");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let flags = MountFlags::NODEV | MountFlags::NOSUID;
        match mount(
            "none",
            folder.path(),
            "tmpfs",
            flags,
            Some(c"size=3m,mode=700"),
        ) {
            Ok(()) => Some(Self(folder)),
            Err(error) => {
                println!("skipped: a small disk cannot be mounted here: {error}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes a file until nothing more fits.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.path().join("filler")).unwrap();
        for size in [64 * 1024, 4096, 1] {
            while file.write_all(&vec![b'x'; size]).is_ok() {}
        }
    }

    fn free(&self) {
        std::fs::remove_file(self.path().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        unmount(self.path(), UnmountFlags::DETACH).unwrap();
    }
}

/// A stream that does not compress away.
fn stream(from: u64, to: u64) -> Vec<SharedEvent> {
    let mut dice = orrery_testkit::Dice::new(from);
    (from..to)
        .map(|seq| {
            let text: String = (0..20).map(|_| format!("{:x}", dice.roll())).collect();
            let chunk = format!(r#"{{"type":"text-delta","index":0,"text":"{text}"}}"#);
            let data = format!(r#"{{"turn":2,"step":1,"chunk":{chunk}}}"#);
            log_only(seq, "assistant/chunk", &data)
        })
        .collect()
}

#[tokio::test]
async fn a_full_disk_is_said_and_heals_by_itself_with_everything_once_and_in_order() {
    let Some(disk) = SmallDisk::new() else { return };
    for compression in Compression::ALL {
        let root = disk.path().join(format!("{compression:?}"));
        let store = store(&root, compression);
        let (old, new) = (
            SessionId::new("old").unwrap(),
            SessionId::new("new").unwrap(),
        );
        let mut events = two_turns();
        let writer = store
            .create(header("old"), SessionLogOffset::ZERO)
            .await
            .unwrap();
        writer.append(events.clone()).unwrap();
        writer.flush().await.unwrap();
        disk.fill();

        // A session that is written already, in several batches, and one that has no file yet.
        let mut saved = writer.saved();
        for (from, to) in [(20, 200), (200, 201), (201, 600)] {
            let more = stream(from, to);
            writer.append(more.clone()).unwrap();
            events.extend(more);
            saved
                .wait_for(|state| state.degraded.is_some())
                .await
                .unwrap();
        }
        let late = store
            .create(header("new"), SessionLogOffset::ZERO)
            .await
            .unwrap();
        late.append(two_turns()).unwrap();
        let mut late_saved = late.saved();
        late_saved
            .wait_for(|state| state.degraded.is_some())
            .await
            .unwrap();
        match writer.flush().await {
            Err(StorageError::Io { kind, .. }) => {
                assert_eq!(kind, std::io::ErrorKind::StorageFull);
            }
            other => panic!("{other:?}"),
        }
        let told = saved.borrow().clone();
        assert_eq!(told.saved.get(), 20);
        let reason = told.degraded.unwrap();
        assert!(reason.to_lowercase().contains("no space left"), "{reason}");
        assert_eq!(store.read(&old).await.unwrap().events, events[..20]);

        // Nobody asks again: space returns, and that is all.
        disk.free();
        let all = |end: usize| {
            move |s: &orrery_storage::SaveState| s.degraded.is_none() && s.saved.get() == end as u64
        };
        saved.wait_for(all(events.len())).await.unwrap();
        late_saved.wait_for(all(20)).await.unwrap();
        let read = store.read(&old).await.unwrap();
        assert_eq!(read.events, events);
        assert!(read.torn.is_none());
        assert_eq!(store.read(&new).await.unwrap().events, two_turns());
        writer.close().await.unwrap();
        late.close().await.unwrap();
        // What cannot even be opened on a full disk opens when it is not.
        disk.fill();
        let refused = store.open(&old).await.err();
        disk.free();
        let opened = store.open(&old).await.unwrap();
        assert!(opened.log.events.starts_with(&events), "{refused:?}");
        opened.writer.close().await.unwrap();
        store.shutdown().await;
    }
}
