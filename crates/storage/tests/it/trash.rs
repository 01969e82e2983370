//! Sessions that are deleted and come back.

use orrery_session::{SessionId, SessionLogOffset, Timestamp};
use orrery_storage::{Compression, Deleted, StorageError, Store};

use crate::{header, store, two_turns};

fn id(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

fn note(name: &str, at: i64) -> Deleted {
    Deleted {
        session_id: id(name),
        deleted_at: Timestamp::saturating(at),
        title: Some(format!("the title of {name}")),
        cwd: Some("/home/dev/project".to_owned()),
    }
}

async fn put(store: &Store, name: &str) {
    let writer = store.create(header(name), SessionLogOffset::ZERO).await;
    let writer = writer.unwrap();
    writer.append(two_turns()).unwrap();
    writer.close().await.unwrap();
}

async fn names(store: &Store) -> Vec<String> {
    let catalogue = store.catalogue().await.unwrap();
    assert_eq!(catalogue.diagnostics(), []);
    let all = catalogue.entries();
    all.map(|entry| entry.header.id.to_string()).collect()
}

#[tokio::test]
async fn what_is_deleted_is_gone_for_everybody_and_comes_back_whole() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), Compression::Zstd);
    for name in ["a", "b", "b1", "b2"] {
        put(&store, name).await;
    }
    let before = store.read(&id("b")).await.unwrap();
    let belonging = vec![id("b1"), id("b2")];
    store.delete(note("b", 5), belonging.clone()).await.unwrap();
    assert_eq!(names(&store).await, ["a"]);
    for gone in ["b", "b1", "b2"] {
        let error = store.view(&id(gone)).await.unwrap_err();
        assert!(matches!(error, StorageError::NotFound { .. }), "{error}");
    }
    store.delete(note("a", 6), Vec::new()).await.unwrap();
    assert_eq!(store.deleted().await.unwrap(), [note("a", 6), note("b", 5)]);

    // Another process sees the same.
    let store = crate::store(home.path(), Compression::Zstd);
    assert_eq!(names(&store).await, Vec::<String>::new());
    let back = store.restore(&id("b")).await.unwrap();
    assert_eq!(back.last(), Some(&id("b")));
    assert_eq!(back.len(), 3);
    assert_eq!(names(&store).await, ["b", "b1", "b2"]);
    assert_eq!(store.read(&id("b")).await.unwrap().events, before.events);
    assert_eq!(store.deleted().await.unwrap(), [note("a", 6)]);
    let error = store.restore(&id("b")).await.unwrap_err();
    assert!(matches!(error, StorageError::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn nothing_is_moved_while_one_of_them_is_written() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), Compression::None);
    put(&store, "a").await;
    put(&store, "a1").await;
    let opened = store.open(&id("a1")).await.unwrap();
    let refused = store
        .delete(note("a", 1), vec![id("a1")])
        .await
        .unwrap_err();
    assert!(
        matches!(refused, StorageError::WriterHeld { .. }),
        "{refused}"
    );
    assert_eq!(names(&store).await, ["a", "a1"]);
    assert_eq!(store.deleted().await.unwrap(), []);
    opened.writer.close().await.unwrap();
    store.delete(note("a", 1), vec![id("a1")]).await.unwrap();
    assert_eq!(names(&store).await, Vec::<String>::new());
}

#[tokio::test]
async fn an_id_that_was_taken_meanwhile_keeps_what_it_has() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), Compression::None);
    put(&store, "a").await;
    store.delete(note("a", 1), Vec::new()).await.unwrap();
    put(&store, "a").await;
    let refused = store.restore(&id("a")).await.unwrap_err();
    assert!(matches!(refused, StorageError::Exists { .. }), "{refused}");
    assert_eq!(store.deleted().await.unwrap().len(), 1);
    // The one that was deleted last comes back first.
    store.delete(note("a", 2), Vec::new()).await.unwrap();
    assert_eq!(store.deleted().await.unwrap().len(), 2);
    store.restore(&id("a")).await.unwrap();
    assert_eq!(store.deleted().await.unwrap(), [note("a", 1)]);
}

#[tokio::test]
async fn whoever_is_killed_in_the_middle_leaves_it_in_one_place_and_the_same_call_ends_it() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), Compression::None);
    put(&store, "a").await;
    put(&store, "a1").await;
    let project = store.root().join("--home-dev-project--");
    store.delete(note("a", 1), vec![id("a1")]).await.unwrap();
    // As if it had been killed behind the first move.
    let place = store.root().join(".trash/1-a/--home-dev-project--");
    std::fs::rename(place.join("a1"), project.join("a1")).unwrap();
    assert_eq!(names(&store).await, ["a1"]);
    assert_eq!(store.deleted().await.unwrap(), [note("a", 1)]);
    store.restore(&id("a")).await.unwrap();
    assert_eq!(names(&store).await, ["a", "a1"]);
    // As if bringing it back had been killed before the last move.
    store.delete(note("a", 2), vec![id("a1")]).await.unwrap();
    let place = store.root().join(".trash/2-a/--home-dev-project--");
    std::fs::rename(place.join("a1"), project.join("a1")).unwrap();
    assert_eq!(store.restore(&id("a")).await.unwrap(), [id("a")]);
    assert_eq!(names(&store).await, ["a", "a1"]);
    assert_eq!(store.deleted().await.unwrap(), []);
}
