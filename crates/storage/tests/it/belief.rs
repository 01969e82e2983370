//! For how long a look at the root is believed, and what is seen in the meantime.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orrery_session::{SessionId, SessionLogOffset};
use orrery_storage::disk::RealDisk;
use orrery_storage::{Catalogue, Store, StoreOptions};

use crate::{header, prompt};

const LONG: Duration = Duration::from_secs(3600);

fn believing(root: &Path, believed_for: Duration) -> Store {
    let options = StoreOptions {
        believed_for,
        ..StoreOptions::new(root)
    };
    Store::start(Arc::new(RealDisk), options).unwrap()
}

async fn write(store: &Store, id: &str, parent: &str) {
    let mut header = header(id);
    header.parent_session = Some(SessionId::new(parent).unwrap());
    let writer = store.create(header, SessionLogOffset::ZERO).await.unwrap();
    writer.append(vec![prompt(0, "hi")]).unwrap();
    writer.close().await.unwrap();
}

fn children(catalogue: &Catalogue) -> Vec<String> {
    let parent = SessionId::new("parent").unwrap();
    let children = catalogue.children(&parent);
    children.map(|entry| entry.header.id.to_string()).collect()
}

#[tokio::test]
async fn what_this_process_writes_is_seen_at_once_and_what_others_write_with_the_next_look() {
    let home = tempfile::tempdir().unwrap();
    let store = believing(home.path(), LONG);
    write(&store, "b", "parent").await;
    assert_eq!(children(&store.recent_catalogue().await.unwrap()), ["b"]);
    write(&believing(home.path(), LONG), "foreign", "parent").await;
    write(&store, "a", "parent").await;
    let seen = store.recent_catalogue().await.unwrap();
    assert_eq!(children(&seen), ["a", "b"]);
    assert_eq!(store.reads().enumerations, 1);
    // Whoever looks for another reason looks for all.
    store.catalogue().await.unwrap();
    let seen = store.recent_catalogue().await.unwrap();
    assert_eq!(children(&seen), ["a", "b", "foreign"]);
    assert_eq!(store.reads().enumerations, 2);
}

#[tokio::test]
async fn a_look_that_is_no_longer_believed_is_made_again() {
    let home = tempfile::tempdir().unwrap();
    let store = believing(home.path(), Duration::ZERO);
    write(&believing(home.path(), LONG), "foreign", "parent").await;
    for looks in 1..4 {
        let seen = store.recent_catalogue().await.unwrap();
        assert_eq!(children(&seen), ["foreign"]);
        assert_eq!(store.reads().enumerations, looks);
    }
}

#[tokio::test]
async fn who_comes_while_somebody_looks_takes_what_that_one_sees() {
    let home = tempfile::tempdir().unwrap();
    let store = believing(home.path(), LONG);
    write(&store, "a", "parent").await;
    let looks = (0..16).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { store.recent_catalogue().await.unwrap().entries().count() })
    });
    let looks: Vec<_> = looks.collect();
    for look in looks {
        assert_eq!(look.await.unwrap(), 1);
    }
    assert_eq!(store.reads().enumerations, 1);
}

#[tokio::test]
async fn a_log_that_turned_out_to_be_another_is_believed_no_longer() {
    let home = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        believed_for: LONG,
        compression: orrery_storage::Compression::None,
        ..StoreOptions::new(home.path())
    };
    let store = Store::start(Arc::new(RealDisk), options).unwrap();
    write(&store, "child", "older0").await;
    let seen = store.recent_catalogue().await.unwrap();
    assert_eq!(children(&seen), Vec::<String>::new());
    let id = SessionId::new("child").unwrap();
    let path = &seen.get(&id).unwrap().path;
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::write(path, text.replace("older0", "parent")).unwrap();
    store.view(&id).await.unwrap();
    let seen = store.recent_catalogue().await.unwrap();
    assert_eq!(children(&seen), ["child"]);
}

#[tokio::test]
async fn what_is_read_is_counted() {
    let home = tempfile::tempdir().unwrap();
    let store = believing(home.path(), LONG);
    write(&store, "a", "parent").await;
    let id = SessionId::new("a").unwrap();
    assert_eq!(store.reads(), orrery_storage::Reads::default());
    let view = store.view(&id).await.unwrap();
    let opened = store.reads();
    assert_eq!((opened.enumerations, opened.logs), (0, 1));
    assert_eq!(
        opened.frames, 1,
        "its only frame is too young for the index"
    );
    drop(view);
    store.read(&id).await.unwrap();
    store.read_raw(&id).await.unwrap();
    assert_eq!(store.reads().logs, 3);
}
