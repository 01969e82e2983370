use orrery_session::{SessionId, SessionLogOffset};
use orrery_storage::disk::RealDisk;
use orrery_storage::{Catalogue, Compression, DiagnosticReason, StorageError, Store, StoreOptions};
use std::sync::Arc;

use crate::{header, log_only, prompt, store, two_turns};

#[tokio::test]
async fn what_was_flushed_reads_back_equal_from_both_containers() {
    for compression in Compression::ALL {
        let home = tempfile::tempdir().unwrap();
        let store = store(home.path(), compression);
        let writer = store
            .create(header("s"), SessionLogOffset::ZERO)
            .await
            .unwrap();
        let events = two_turns();
        writer.append(events[..5].to_vec()).unwrap();
        writer.flush().await.unwrap();
        writer.append(events[5..].to_vec()).unwrap();
        writer.flush().await.unwrap();
        let stored = store.read(&SessionId::new("s").unwrap()).await.unwrap();
        assert_eq!(stored.events, events);
        assert!(stored.torn.is_none());
        assert_eq!(stored.header, header("s"));
    }
}

#[tokio::test]
async fn a_session_without_events_leaves_no_file_and_its_id_is_free_again() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), Compression::Zstd);
    let writer = store
        .create(header("s"), SessionLogOffset::ZERO)
        .await
        .unwrap();
    writer.flush().await.unwrap();
    writer.close().await.unwrap();
    assert_eq!(store.catalogue().await.unwrap().entries().count(), 0);
    assert!(
        store
            .create(header("s"), SessionLogOffset::ZERO)
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn the_window_writes_what_nobody_flushes() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), Compression::Zstd);
    let writer = store
        .create(header("s"), SessionLogOffset::ZERO)
        .await
        .unwrap();
    writer.append(vec![prompt(0, "hi")]).unwrap();
    let mut saved = writer.saved();
    saved
        .wait_for(|state| state.saved.get() == 1)
        .await
        .unwrap();
    assert_eq!(
        store
            .read(&SessionId::new("s").unwrap())
            .await
            .unwrap()
            .events
            .len(),
        1
    );
}

#[tokio::test]
async fn events_out_of_order_are_refused_and_said() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), Compression::Zstd);
    let writer = store
        .create(header("s"), SessionLogOffset::ZERO)
        .await
        .unwrap();
    writer.append(vec![prompt(3, "hi")]).unwrap();
    writer
        .saved()
        .wait_for(|state| state.degraded.is_some())
        .await
        .unwrap();
    assert!(matches!(
        writer.flush().await,
        Err(StorageError::OutOfOrder { .. })
    ));
    writer.append(vec![prompt(0, "hi")]).unwrap();
    writer.flush().await.unwrap();
}

#[tokio::test]
async fn a_second_writer_is_refused_by_name_and_can_still_read() {
    let home = tempfile::tempdir().unwrap();
    let (first, second) = (
        store(home.path(), Compression::Zstd),
        store(home.path(), Compression::Zstd),
    );
    let writer = first
        .create(header("s"), SessionLogOffset::ZERO)
        .await
        .unwrap();
    writer.append(vec![prompt(0, "hi")]).unwrap();
    writer.flush().await.unwrap();
    let id = SessionId::new("s").unwrap();
    match second.open(&id).await {
        Err(StorageError::WriterHeld { holder, .. }) => {
            assert_eq!(holder, format!("process {}", std::process::id()));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(second.read(&id).await.unwrap().events.len(), 1);
    writer.close().await.unwrap();
    assert!(second.open(&id).await.is_ok());
}

#[tokio::test]
async fn bytes_that_somebody_else_appended_are_noticed_before_the_next_batch() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), Compression::None);
    let writer = store
        .create(header("s"), SessionLogOffset::ZERO)
        .await
        .unwrap();
    writer.append(vec![prompt(0, "hi")]).unwrap();
    writer.flush().await.unwrap();
    let path = store
        .find(&SessionId::new("s").unwrap())
        .await
        .unwrap()
        .path;
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"foreign\":1}\n");
    std::fs::write(&path, bytes).unwrap();
    writer.append(vec![prompt(1, "again")]).unwrap();
    assert!(matches!(
        writer.flush().await,
        Err(StorageError::Changed { .. })
    ));
}

#[tokio::test]
async fn a_bad_neighbour_is_a_diagnostic_and_hides_nobody() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), Compression::Zstd);
    let writer = store
        .create(header("good"), SessionLogOffset::ZERO)
        .await
        .unwrap();
    writer
        .append(vec![log_only(0, "turn/start", r#"{"turn":1}"#)])
        .unwrap();
    writer.flush().await.unwrap();
    let project = home.path().join("--home-dev-project--");
    let put = |folder: &str, file: &str, content: &[u8]| {
        std::fs::create_dir_all(project.join(folder)).unwrap();
        std::fs::write(project.join(folder).join(file), content).unwrap();
    };
    put("bad", "session.jsonl", b"not a header\n");
    put(
        "new",
        "session.jsonl",
        b"{\"type\":\"session\",\"version\":7,\"id\":\"new\"}\n",
    );
    put("empty", "session.jsonl", b"");
    put("elsewhere", "session.jsonl", b"{\"type\":\"session\",\"version\":0,\"id\":\"other\",\"createdAt\":1,\"cwd\":\"/home/dev/project\",\"delegationDepth\":0}\n");
    std::fs::write(project.join("flat.jsonl"), b"").unwrap();
    let catalogue = store.catalogue().await.unwrap();
    let ids: Vec<&str> = catalogue.entries().map(|e| e.header.id.as_str()).collect();
    assert_eq!(ids, ["good"]);
    let reasons: Vec<DiagnosticReason> = catalogue.diagnostics().iter().map(|d| d.reason).collect();
    use DiagnosticReason::{Corrupt, Misplaced, UnsupportedVersion};
    assert_eq!(reasons, [Corrupt, Misplaced, Misplaced, UnsupportedVersion]);
}

#[tokio::test]
async fn the_inherited_cut_of_a_seeded_session_survives() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), Compression::Zstd);
    let mut seeded = header("s");
    seeded.is_seeded = true;
    let cut = SessionLogOffset::of_len(5);
    let writer = store.create(seeded, cut).await.unwrap();
    writer.append(two_turns()[..3].to_vec()).unwrap();
    assert!(
        writer.flush().await.is_err(),
        "the first batch must reach the cut"
    );
    writer.append(two_turns()[3..].to_vec()).unwrap();
    writer.flush().await.unwrap();
    let stored = store.read(&SessionId::new("s").unwrap()).await.unwrap();
    assert_eq!((stored.inherited, stored.events.len()), (cut, 20));
}

#[tokio::test]
async fn the_catalogue_of_an_earlier_process_is_used_and_a_damaged_one_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (root, file) = (
        home.path().join("sessions"),
        home.path().join("catalogue.bin"),
    );
    let start = || {
        let options = StoreOptions {
            catalogue_file: Some(file.clone()),
            ..StoreOptions::new(&root)
        };
        Store::start(Arc::new(RealDisk), options).unwrap()
    };
    let ids = |catalogue: &Catalogue| -> Vec<String> {
        catalogue
            .entries()
            .map(|entry| entry.header.id.to_string())
            .collect()
    };
    let store = start();
    for id in ["a", "b", "c"] {
        let writer = store
            .create(header(id), SessionLogOffset::ZERO)
            .await
            .unwrap();
        writer.append(vec![prompt(0, "hi")]).unwrap();
        writer.close().await.unwrap();
    }
    let whole = store.catalogue().await.unwrap();
    assert_eq!(ids(&whole), ["a", "b", "c"]);
    let saved = std::fs::read(&file).unwrap();
    assert_eq!(ids(&start().catalogue().await.unwrap()), ["a", "b", "c"]);
    // What the file says of a log that is gone, or of another file in its place, is not believed.
    let gone = whole.entries().next().unwrap().path.clone();
    std::fs::remove_file(&gone).unwrap();
    assert_eq!(ids(&start().catalogue().await.unwrap()), ["b", "c"]);
    for cut in 0..saved.len() {
        std::fs::write(&file, &saved[..cut]).unwrap();
        assert_eq!(
            ids(&start().catalogue().await.unwrap()),
            ["b", "c"],
            "cut at {cut}"
        );
    }
}

#[tokio::test]
async fn a_log_that_was_overwritten_in_place_is_known_for_what_it_is_once_it_was_read() {
    let home = tempfile::tempdir().unwrap();
    let start = || {
        let options = StoreOptions {
            catalogue_file: Some(home.path().join("catalogue.bin")),
            compression: Compression::None,
            ..StoreOptions::new(home.path().join("sessions"))
        };
        Store::start(Arc::new(RealDisk), options).unwrap()
    };
    let store = start();
    let mut first = header("child");
    first.parent_session = Some(SessionId::new("old").unwrap());
    let id = first.id.clone();
    let writer = store.create(first, SessionLogOffset::ZERO).await.unwrap();
    writer.append(vec![prompt(0, "hi")]).unwrap();
    writer.close().await.unwrap();
    let path = store
        .catalogue()
        .await
        .unwrap()
        .get(&id)
        .unwrap()
        .path
        .clone();
    let text = std::fs::read_to_string(&path).unwrap();
    // The same inode and the same length: nothing but the header says so.
    let other = text.replace("\"parentSession\":\"old\"", "\"parentSession\":\"new\"");
    assert_ne!(text, other);
    std::fs::write(&path, other).unwrap();
    store.view(&id).await.unwrap();
    let (old, new) = (
        SessionId::new("old").unwrap(),
        SessionId::new("new").unwrap(),
    );
    for store in [store, start()] {
        let catalogue = store.catalogue().await.unwrap();
        let header = &catalogue.get(&id).unwrap().header;
        assert_eq!(header.parent_session.as_ref(), Some(&new));
        assert_eq!(catalogue.children(&new).count(), 1);
        assert_eq!(catalogue.children(&old).count(), 0);
    }
}

#[tokio::test]
async fn a_log_that_was_let_go_can_be_opened_at_once() {
    let home = tempfile::tempdir_in(crate::scratch()).unwrap();
    let store = store(home.path(), Compression::Zstd);
    let (first, second) = (SessionId::new("s").unwrap(), SessionId::new("t").unwrap());
    for id in ["s", "t"] {
        let writer = store
            .create(header(id), SessionLogOffset::ZERO)
            .await
            .unwrap();
        writer.append(two_turns()).unwrap();
        writer.close().await.unwrap();
    }
    for round in 0..200 {
        // The other session keeps the writer's thread at work while these commands queue up.
        let busy = store.open(&second).await.unwrap();
        let opened = store.open(&first).await.unwrap();
        drop(busy);
        drop(opened);
        let again = store.open(&first).await;
        assert!(again.is_ok(), "round {round}: {:?}", again.err());
    }
}

#[tokio::test]
async fn the_raw_text_is_what_lies_on_disk_without_the_torn_tail_of_a_frame() {
    for compression in Compression::ALL {
        let home = tempfile::tempdir().unwrap();
        let store = store(home.path(), compression);
        let writer = store
            .create(header("s"), SessionLogOffset::ZERO)
            .await
            .unwrap();
        writer.append(two_turns()[..5].to_vec()).unwrap();
        writer.flush().await.unwrap();
        let id = SessionId::new("s").unwrap();
        let raw = || {
            let mut text = Vec::new();
            store.copy_raw(&id, &mut text).unwrap();
            text
        };
        let whole = raw();
        assert!(whole.starts_with(b"{\"type\":\"session\",\"version\":0"));
        writer.append(two_turns()[5..].to_vec()).unwrap();
        writer.close().await.unwrap();
        let path = store.find(&id).await.unwrap().path;
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 2]).unwrap();
        let torn = raw();
        match compression {
            Compression::Zstd => assert_eq!(torn, whole),
            Compression::None => assert_eq!(torn, &bytes[..bytes.len() - 2]),
        }
    }
}

#[tokio::test]
async fn children_are_known_from_headers_in_the_order_of_their_creation() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), Compression::Zstd);
    let id = |text: &str| SessionId::new(text).unwrap();
    for (name, parent, created_at) in [
        ("root", None, 5),
        ("b", Some("root"), 7),
        ("a", Some("root"), 7),
        ("late", Some("root"), 9),
        ("early", Some("root"), 6),
        ("grandchild", Some("a"), 8),
        ("orphan", Some("gone"), 8),
    ] {
        let mut header = header(name);
        header.created_at = orrery_session::Timestamp::saturating(created_at);
        header.parent_session = parent.map(id);
        let writer = store.create(header, SessionLogOffset::ZERO).await.unwrap();
        writer.append(vec![prompt(0, "hi")]).unwrap();
        writer.close().await.unwrap();
    }
    let children = |catalogue: &Catalogue, of: &str| -> Vec<String> {
        let found = catalogue.children(&id(of));
        found.map(|entry| entry.header.id.to_string()).collect()
    };
    for round in ["read", "known"] {
        let catalogue = store.catalogue().await.unwrap();
        let of_root = children(&catalogue, "root");
        assert_eq!(of_root, ["early", "a", "b", "late"], "{round}");
        assert_eq!(children(&catalogue, "a"), ["grandchild"]);
        assert_eq!(children(&catalogue, "gone"), ["orphan"]);
        assert!(children(&catalogue, "late").is_empty());
    }
}

/// Threads share the work; what they find must not depend on who was first.
#[test]
fn a_catalogue_of_many_logs_is_the_same_whoever_read_them() {
    let home = tempfile::tempdir_in(crate::scratch()).unwrap();
    let project = home.path().join("--home-dev-project--");
    for n in 0..400 {
        let (folder, id) = (project.join(format!("s{n}")), n % 397);
        std::fs::create_dir_all(&folder).unwrap();
        let text = match n % 50 {
            7 => "nonsense\n".to_owned(),
            _ => {
                format!(
                    r#"{{"type":"session","version":0,"id":"s{id}","createdAt":{n},"cwd":"/home/dev/project","parentSession":"s1","delegationDepth":0}}"#
                ) + "\n"
            }
        };
        std::fs::write(folder.join("session.jsonl"), text).unwrap();
    }
    let look = || {
        let found = Catalogue::refresh(&RealDisk, home.path(), &Catalogue::default()).unwrap();
        let ids: Vec<String> = found.entries().map(|e| e.header.id.to_string()).collect();
        let parent = SessionId::new("s1").unwrap();
        let children = found.children(&parent).map(|e| e.header.created_at);
        (
            ids,
            children.collect::<Vec<_>>(),
            found.diagnostics().to_vec(),
        )
    };
    let first = look();
    assert_eq!((first.0.len(), first.2.len()), (389, 11));
    assert!(first.1.is_sorted());
    for _ in 0..20 {
        assert_eq!(look(), first);
    }
}

/// Puts a copy of the log of `s` into another project, its header telling that folder.
fn copied_into_another_folder(root: &std::path::Path) -> std::path::PathBuf {
    let first = root.join("--home-dev-project--/s/session.jsonl");
    let text = std::fs::read_to_string(first).unwrap();
    let folder = root.join("--other--/s");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join("session.jsonl"),
        text.replacen("/home/dev/project", "/other", 1),
    )
    .unwrap();
    folder
}

#[tokio::test]
async fn of_two_logs_of_one_session_none_is_read_or_written_until_one_is_gone() {
    for looked_first in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let first = store(home.path(), Compression::None);
        let id = SessionId::new("s").unwrap();
        let writer = first.create(header("s"), SessionLogOffset::ZERO).await;
        let writer = writer.unwrap();
        writer.append(two_turns()).unwrap();
        writer.close().await.unwrap();
        let copy = copied_into_another_folder(first.root());
        // Another process, which knows nothing yet.
        let store = store(home.path(), Compression::None);
        if looked_first {
            let catalogue = store.catalogue().await.unwrap();
            assert!(catalogue.is_doubled(&id) && catalogue.get(&id).is_some());
            let reasons: Vec<_> = catalogue.diagnostics().iter().map(|d| d.reason).collect();
            assert_eq!(reasons, [DiagnosticReason::DuplicateId]);
        }
        for error in [
            store.view(&id).await.unwrap_err(),
            store.read(&id).await.unwrap_err(),
            store.open(&id).await.unwrap_err(),
            store
                .create(header("s"), SessionLogOffset::ZERO)
                .await
                .unwrap_err(),
        ] {
            assert!(
                matches!(error, StorageError::Conflict { .. }),
                "{looked_first}: {error}"
            );
        }
        std::fs::remove_dir_all(copy).unwrap();
        assert_eq!(store.view(&id).await.unwrap().header(), &header("s"));
    }
}

#[tokio::test]
async fn a_log_overwritten_by_that_of_another_session_is_no_longer_this_one() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), Compression::None);
    let id = SessionId::new("s").unwrap();
    let writer = store.create(header("s"), SessionLogOffset::ZERO).await;
    let writer = writer.unwrap();
    writer.append(two_turns()).unwrap();
    writer.close().await.unwrap();
    let path = store
        .catalogue()
        .await
        .unwrap()
        .get(&id)
        .unwrap()
        .path
        .clone();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen(r#""id":"s""#, r#""id":"t""#, 1)).unwrap();
    // The second look knows that the file is another one.
    for _ in 0..2 {
        let error = store.view(&id).await.unwrap_err();
        assert!(matches!(error, StorageError::Conflict { .. }), "{error}");
    }
}
