//! For how long a look at the root is believed, and what is seen in the meantime.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orrery_session::{SessionId, SessionLogOffset};
use orrery_storage::disk::RealDisk;
use orrery_storage::{Catalogue, Store, StoreOptions};
use orrery_testkit::GatedDisk;

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
        // The root changes, so that nothing stands for the logs.
        std::fs::create_dir(home.path().join(format!("project-{looks}"))).unwrap();
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
    store.copy_raw(&id, &mut Vec::new()).unwrap();
    assert_eq!(store.reads().logs, 3);
}

/// A store that believes no look for long, where folders seem to have been quiet for a while.
fn asking_folders(root: &Path) -> Store {
    let disk = Arc::new(GatedDisk::default());
    disk.age_folders();
    let options = StoreOptions {
        believed_for: Duration::ZERO,
        ..StoreOptions::new(root)
    };
    Store::start(disk, options).unwrap()
}

#[tokio::test]
async fn folders_that_did_not_change_stand_for_the_logs_in_them() {
    let home = tempfile::tempdir().unwrap();
    write(&believing(home.path(), LONG), "a", "parent").await;
    let store = asking_folders(home.path());
    for _ in 0..5 {
        assert_eq!(children(&store.recent_catalogue().await.unwrap()), ["a"]);
    }
    assert_eq!(store.reads().enumerations, 1);
    // Who asks for the catalogue itself wants every log looked at.
    store.catalogue().await.unwrap();
    assert_eq!(store.reads().enumerations, 2);
}

#[tokio::test]
async fn a_session_that_comes_or_goes_beside_is_seen_by_the_folder_of_its_project() {
    // In memory, where a folder's size changes with what is in it, however slow the clock ticks.
    let home = tempfile::tempdir_in(crate::scratch()).unwrap();
    let other = believing(home.path(), LONG);
    write(&other, "a", "parent").await;
    let store = asking_folders(home.path());
    assert_eq!(children(&store.recent_catalogue().await.unwrap()), ["a"]);
    write(&other, "b", "parent").await;
    let seen = store.recent_catalogue().await.unwrap();
    assert_eq!(children(&seen), ["a", "b"]);
    let gone = SessionId::new("a").unwrap();
    let gone = seen.get(&gone).unwrap().path.parent().unwrap();
    std::fs::remove_dir_all(gone).unwrap();
    assert_eq!(children(&store.recent_catalogue().await.unwrap()), ["b"]);
    // In a project that is new: the root says so.
    let mut header = header("c");
    header.parent_session = Some(SessionId::new("parent").unwrap());
    header.cwd = Some("/home/dev/another".to_owned());
    let writer = other.create(header, SessionLogOffset::ZERO).await.unwrap();
    writer.append(vec![prompt(0, "hi")]).unwrap();
    writer.close().await.unwrap();
    let seen = store.recent_catalogue().await.unwrap();
    assert_eq!(children(&seen), ["b", "c"]);
    assert_eq!(store.reads().enumerations, 4);
}

#[tokio::test]
async fn a_folder_without_a_log_may_get_one_any_moment_and_is_looked_into_again() {
    let home = tempfile::tempdir().unwrap();
    let other = believing(home.path(), LONG);
    write(&other, "a", "parent").await;
    write(&other, "b", "parent").await;
    let whole = other.catalogue().await.unwrap();
    let log = &whole.get(&SessionId::new("b").unwrap()).unwrap().path;
    let aside = home.path().join("aside.txt");
    std::fs::rename(log, &aside).unwrap();
    let store = asking_folders(home.path());
    assert_eq!(children(&store.recent_catalogue().await.unwrap()), ["a"]);
    std::fs::rename(&aside, log).unwrap();
    let seen = store.recent_catalogue().await.unwrap();
    assert_eq!(children(&seen), ["a", "b"]);
    assert_eq!(store.reads().enumerations, 2);
}
