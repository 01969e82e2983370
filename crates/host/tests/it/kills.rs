//! What is kept of a home at the moment of a kill, and beside logs of another day.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use orrery_host::checkup::Checkup;
use orrery_host::home::Home;
use orrery_query::anchor::anchor_of;
use orrery_session::SessionId;
use orrery_storage::disk::RealDisk;
use orrery_storage::{Store, StoreOptions};
use orrery_testkit::folders::copy_folder;
use orrery_testkit::log_layout::Container;
use orrery_testkit::log_writer::{Fixture, LogWriter};
use serde_json::{Value, json};

use crate::answers::{answers, found};
use crate::checkpoints::record_of;
use crate::logs::DATABASE;
use crate::{TestHost, logs, session};

/// Copies a home as it is while its Host writes: the database first, so that a record of the copy
/// cannot have seen more than the copy's log unless it had seen more than the disk.
fn snapshot(home: &Path, to: &Path) {
    let (data, copy) = (home.join("data"), to.join("data"));
    fs::create_dir_all(&copy).unwrap();
    for name in DATABASE {
        match fs::read(data.join(name)) {
            Ok(bytes) => fs::write(copy.join(name), bytes).unwrap(),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
        }
    }
    for name in ["sessions", "host.json"] {
        let (from, to) = (data.join(name), copy.join(name));
        if from.is_dir() {
            copy_folder(&from, &to).unwrap();
        } else if from.exists() {
            fs::copy(from, to).unwrap();
        }
    }
}

#[tokio::test]
async fn after_a_kill_at_any_moment_nothing_is_kept_that_the_log_does_not_say() {
    let home = tempfile::tempdir().unwrap();
    let config = "[session]\ncheckpoint_every_events = 3\ncheckpoint_interval_ms = 10\n";
    let host = TestHost::start(home.path(), config).await;
    let talking = session(&host, &home.path().join("talking")).await;
    let mut socket = host.client.socket().await;
    socket.follow("f", &talking).await;
    host.client.prompt(&talking, "r1", "hello").await;
    socket.turn("f").await;
    host.client
        .prompt(&talking, "r2", "count slowly to 500")
        .await;
    host.client.prompt(&talking, "r3", "waits").await;
    let mut dead = Vec::new();
    let mut from = 0;
    for moment in 0..6 {
        let items = socket
            .until("f", |item| item["event"]["seq"].as_i64() > Some(from))
            .await;
        from = items.last().unwrap()["event"]["seq"].as_i64().unwrap() + 15;
        if moment == 3 {
            let title = json!({"sessionId": talking, "title": "Between two numbers"});
            host.client.ok("session/rename", title).await;
        }
        let copy = tempfile::tempdir().unwrap();
        snapshot(home.path(), copy.path());
        dead.push(copy);
    }
    let cancel = json!({"sessionId": talking});
    host.client.ok("session/cancel", cancel).await;
    host.stop().await;
    let checkup = Checkup::new().unwrap();
    let id = SessionId::new(&talking).unwrap();
    let ids = [talking];
    let mut kept = 0;
    for copy in &dead {
        let store = StoreOptions::new(Home::at(copy.path()).sessions());
        let store = Store::start(Arc::new(RealDisk), store).unwrap();
        let log = store.read(&id).await.unwrap();
        if let Some(record) = record_of(copy.path(), &id) {
            let complaint = checkup.complaint(&record, &log.header, log.inherited, &log.events);
            assert_eq!(complaint, None);
            // What names no place in the log, or a wrong one, would never be built upon.
            let seen = log.events.get(..record.reach().index()).unwrap();
            assert_eq!(record.anchor, Some(anchor_of(seen)));
            kept += record.rows.len();
        }
        let bare = tempfile::tempdir().unwrap();
        copy_folder(
            &copy.path().join("data/sessions"),
            &bare.path().join("data/sessions"),
        )
        .unwrap();
        let mut told = Vec::new();
        for home in [copy, &bare] {
            let host = TestHost::start(home.path(), "").await;
            told.push((answers(&host, &ids).await, found(&host).await));
            host.stop().await;
        }
        assert_eq!(told[0], told[1], "with what was kept, and without");
    }
    assert!(kept > 20, "most moments have a record: {kept} rows");
}

#[tokio::test]
async fn a_database_of_yesterday_is_caught_up_and_one_of_tomorrow_is_not_believed() {
    let home = tempfile::tempdir().unwrap();
    let host = TestHost::start(home.path(), "").await;
    let id = session(&host, &home.path().join("p")).await;
    let rename = async |host: &TestHost, title: &str| {
        let title = json!({"sessionId": id, "title": title});
        host.client.ok("session/rename", title).await;
    };
    let mut socket = host.client.socket().await;
    socket.follow("f", &id).await;
    host.client.prompt(&id, "r1", "hello yesterday").await;
    socket.turn("f").await;
    rename(&host, "Greetings of yesterday").await;
    found(&host).await;
    drop(socket);
    host.stop().await;
    let (yesterday, tomorrow) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    snapshot(home.path(), yesterday.path());
    let host = TestHost::start(home.path(), "").await;
    let mut socket = host.client.socket().await;
    socket.follow("f", &id).await;
    host.client.prompt(&id, "r2", "hello today").await;
    socket.turn("f").await;
    rename(&host, "Greetings of today").await;
    found(&host).await;
    drop(socket);
    host.stop().await;
    snapshot(home.path(), tomorrow.path());
    let ids = [id];
    for (logs_of, database_of) in [(&tomorrow, &yesterday), (&yesterday, &tomorrow)] {
        let mixed = tempfile::tempdir().unwrap();
        let bare = tempfile::tempdir().unwrap();
        let sessions = logs_of.path().join("data/sessions");
        for to in [&mixed, &bare] {
            copy_folder(&sessions, &to.path().join("data/sessions")).unwrap();
        }
        for name in DATABASE {
            let from = database_of.path().join("data").join(name);
            if from.exists() {
                fs::copy(from, mixed.path().join("data").join(name)).unwrap();
            }
        }
        let mut told = Vec::new();
        for home in [&mixed, &bare] {
            let host = TestHost::start(home.path(), "").await;
            told.push((answers(&host, &ids).await, found(&host).await));
            host.stop().await;
        }
        assert_eq!(told[0], told[1]);
    }
}

/// A log with one turn of its own behind a beginning that all have, and more turns behind it.
fn of_another_day(title: &str, more: u64) -> Fixture {
    let mut writer = LogWriter::new("one", Container::Zstd, r#","delegationDepth":0"#);
    writer.event("turn/start", r#"{"turn":0}"#);
    writer.prompt("hello");
    let data = format!(r#"{{"title":"{title}","messageSeqs":[],"source":{{"kind":"user"}}}}"#);
    writer.event("session/title", &data);
    for turn in 0..=more {
        let end = format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#);
        writer.event("turn/end", &end);
        writer.end_frame();
        if turn < more {
            writer.event("turn/start", &format!(r#"{{"turn":{}}}"#, turn + 1));
            writer.prompt("more");
        }
    }
    writer.finish()
}

#[tokio::test]
async fn what_is_kept_of_a_log_is_not_believed_of_one_that_took_its_place() {
    // A backup that was put back and written on: the header is the same, what follows is not.
    let (lost, restored) = (of_another_day("Apples", 0), of_another_day("Bananas", 3));
    let further = of_another_day("Bananas", 6);
    let ids = [lost.id.clone()];
    let home = tempfile::tempdir().unwrap();
    let mut before = Value::Null;
    for log in [&lost, &restored, &further, &lost] {
        let bare = tempfile::tempdir().unwrap();
        for home in [home.path(), bare.path()] {
            logs::put(home, log);
        }
        let host = TestHost::start(bare.path(), "").await;
        let expected = (answers(&host, &ids).await, found(&host).await);
        host.stop().await;
        assert_ne!(expected.0, before);
        let host = TestHost::start(home.path(), "").await;
        assert_eq!((answers(&host, &ids).await, found(&host).await), expected);
        host.stop().await;
        before = expected.0;
    }
}
