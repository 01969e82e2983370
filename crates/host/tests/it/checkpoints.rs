//! What is derived may go at any time: that costs time, never an answer. What is kept of a session
//! is that session's, and never ahead of its log.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use orrery_catalog::Catalog;
use orrery_host::checkup::Checkup;
use orrery_host::home::Home;
use orrery_projection::checkpoint::{CheckpointRecord, CheckpointStore as _};
use orrery_session::{Json, SessionId, SessionLogOffset, Timestamp};
use orrery_storage::disk::RealDisk;
use orrery_storage::{Store, StoreOptions};
use serde_json::json;

use crate::answers::{PATIENCE, answers, found, lived_in};
use crate::logs::{self, DATABASE};
use crate::{TestHost, session};

fn halve(path: &Path) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
}

/// The files that storage derives, as far as they are there.
fn derived(data: &Path) -> Vec<PathBuf> {
    let logs = logs::all(data.parent().unwrap()).into_iter();
    let indexes = logs.map(|log| log.with_file_name("session.index"));
    let all = indexes.chain([data.join("catalogue.bin")]);
    all.filter(|file| file.exists()).collect()
}

/// Flips bits everywhere, so that lengths and most of the content stay.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes.iter_mut().step_by(97).for_each(|byte| *byte ^= 0x10);
    fs::write(path, bytes).unwrap();
}

/// What is done, and the doing of it.
type Damage = (&'static str, fn(&Path));

/// What may happen to the derived files below a data folder.
const DAMAGES: [Damage; 13] = [
    ("nothing", |_| {}),
    ("the database is deleted", |data| {
        logs::remove(data, DATABASE);
    }),
    ("the database alone is deleted", |data| {
        logs::remove(data, ["index.sqlite"]);
    }),
    ("the database is cut in half", |data| {
        halve(&data.join("index.sqlite"));
    }),
    ("the database is emptied", |data| {
        fs::write(data.join("index.sqlite"), "").unwrap();
    }),
    ("the database is garbage", |data| {
        fs::write(data.join("index.sqlite"), "no database".repeat(2000)).unwrap();
    }),
    ("the database is replaced by garbage", |data| {
        fs::write(data.join("fresh"), "no database".repeat(2000)).unwrap();
        fs::rename(data.join("fresh"), data.join("index.sqlite")).unwrap();
    }),
    ("bits of the database are flipped", |data| {
        flip(&data.join("index.sqlite"));
    }),
    ("what storage derives is garbage", |data| {
        let garbage = "garbage".repeat(300);
        derived(data)
            .iter()
            .for_each(|file| fs::write(file, &garbage).unwrap());
    }),
    ("what storage derives is cut", |data| {
        derived(data).iter().for_each(|file| halve(file));
    }),
    ("bits of what storage derives are flipped", |data| {
        derived(data).iter().for_each(|file| flip(file));
    }),
    ("what storage derives is deleted", |data| {
        derived(data)
            .iter()
            .for_each(|file| fs::remove_file(file).unwrap());
    }),
    ("everything derived is deleted", |data| {
        logs::remove(data, DATABASE);
        derived(data)
            .iter()
            .for_each(|file| fs::remove_file(file).unwrap());
    }),
];

#[tokio::test]
async fn no_answer_depends_on_a_derived_file() {
    let home = tempfile::tempdir().unwrap();
    let ids = lived_in(home.path()).await;
    let data = home.path().join("data");
    let host = TestHost::start(home.path(), "").await;
    let expected = answers(&host, &ids).await;
    assert_eq!(expected["list"]["items"].as_array().unwrap().len(), 5);
    assert_eq!(expected["list"]["diagnostics"], json!([]));
    let queue = &expected["control"]["value"]["queues"][&ids[2]];
    assert_eq!(queue["items"][0]["rpcId"], "r2", "{expected}");
    let searched = found(&host).await;
    let hits = searched.as_array().unwrap().iter();
    let hits: Vec<usize> = hits
        .map(|page| page["items"].as_array().unwrap().len())
        .collect();
    // Of two sessions the talk, of one and its fork the title; nobody said that they are blank.
    assert_eq!(hits, [2, 2, 0, 1, 0], "{searched}");
    host.stop().await;
    let both = derived(&data).len();
    assert_eq!(both, 2, "the catalogue, and the index of the long log");
    for (name, damage) in DAMAGES {
        damage(&data);
        let host = TestHost::start(home.path(), "").await;
        let got = answers(&host, &ids).await;
        assert_eq!(got, expected, "{name}, then a start");
        let again = answers(&host, &ids).await;
        assert_eq!(again, expected, "{name}, then a start, asked again");
        assert_eq!(
            found(&host).await,
            searched,
            "{name}, then a start, searched"
        );
        damage(&data);
        logs::touch(home.path());
        let got = answers(&host, &ids).await;
        assert_eq!(got, expected, "{name}, while it is open");
        assert_eq!(
            found(&host).await,
            searched,
            "{name}, while it is open, searched"
        );
        host.stop().await;
    }
}

/// What is kept of a session.
pub(crate) fn record_of(home: &Path, id: &SessionId) -> Option<CheckpointRecord> {
    let catalog = Catalog::open(&Home::at(home).index()).unwrap();
    catalog.load(id).unwrap()
}

#[tokio::test]
async fn a_record_that_cannot_be_right_is_ignored_and_replaced() {
    let home = tempfile::tempdir().unwrap();
    let ids = lived_in(home.path()).await;
    let id = SessionId::new(&ids[0]).unwrap();
    let host = TestHost::start(home.path(), "").await;
    let expected = answers(&host, &ids).await;
    host.stop().await;
    let good = record_of(home.path(), &id).unwrap();
    let title = r#"{"title":"A lie","messageSeqs":[],"source":{"kind":"user"}}"#;
    let mut lie = good.clone();
    lie.rows.get_mut("title").unwrap().val = Json::from_text(title).unwrap();

    let mut older = lie.clone();
    older.identity.created_at = Timestamp::saturating(1);
    let mut elsewhere = lie.clone();
    elsewhere.identity.cwd = None;
    let mut seeded = lie.clone();
    seeded.identity.inherited = SessionLogOffset::of_len(1);
    let mut foreign = lie.clone();
    foreign.identity.format_version += 1;
    let mut version = lie.clone();
    version.rows.get_mut("title").unwrap().ver += 1;
    let mut ahead = lie.clone();
    ahead.revision = None;
    for row in ahead.rows.values_mut() {
        row.seq = row.seq.offset().advance(1).cursor();
    }
    let mut shape = good.clone();
    shape.rows.get_mut("title").unwrap().val = Json::from_text(r#"{"odd":[1]}"#).unwrap();
    let mut missing = good.clone();
    missing.rows.remove("title");
    let records = [
        ("of a session made at another time", older),
        ("of a session in another folder", elsewhere),
        ("of a session with another cut", seeded),
        ("of another format", foreign),
        ("of another version of the unit", version),
        ("ahead of the log", ahead),
        ("of another shape", shape),
        ("without a row", missing),
    ];
    for (name, record) in records {
        let catalog = Catalog::open(&Home::at(home.path()).index()).unwrap();
        catalog.put(&[(id.clone(), record)]).unwrap();
        drop(catalog);
        let host = TestHost::start(home.path(), "").await;
        assert_eq!(answers(&host, &ids).await, expected, "a record {name}");
        host.stop().await;
        let healed = record_of(home.path(), &id).unwrap();
        assert_eq!(healed.identity, good.identity, "a record {name}");
        assert_eq!(healed.rows["title"], good.rows["title"], "a record {name}");
        assert_eq!(healed.revision, good.revision, "a record {name}");
    }
}

#[tokio::test]
async fn a_checkup_tells_a_record_that_is_right_from_one_that_is_ahead_or_lies() {
    let home = tempfile::tempdir().unwrap();
    let ids = lived_in(home.path()).await;
    let host = TestHost::start(home.path(), "").await;
    answers(&host, &ids).await;
    host.stop().await;
    let checkup = Checkup::new().unwrap();
    let sessions = Home::at(home.path()).sessions();
    let store = Store::start(Arc::new(RealDisk), StoreOptions::new(sessions)).unwrap();
    let id = SessionId::new(&ids[0]).unwrap();
    for id in &ids {
        let id = SessionId::new(id).unwrap();
        let log = store.read(&id).await.unwrap();
        let record = record_of(home.path(), &id).unwrap();
        assert!(record.rows.len() > 3, "{record:?}");
        let complaint = checkup.complaint(&record, &log.header, log.inherited, &log.events);
        assert_eq!(complaint, None, "{id}");
    }
    let log = store.read(&id).await.unwrap();
    let good = record_of(home.path(), &id).unwrap();
    let complaint = |record: &CheckpointRecord, events| {
        let complaint = checkup.complaint(record, &log.header, log.inherited, events);
        complaint.unwrap_or_default()
    };
    let short = &log.events[..log.events.len() - 1];
    assert!(complaint(&good, short).contains("lie on disk"));
    let mut lie = good;
    let title = r#"{"title":"A lie","messageSeqs":[],"source":{"kind":"user"}}"#;
    lie.rows.get_mut("title").unwrap().val = Json::from_text(title).unwrap();
    assert!(complaint(&lie, &log.events).contains("kept of title is not"));
}

#[tokio::test]
async fn a_flipped_bit_in_the_database_costs_no_answer() {
    let home = tempfile::tempdir().unwrap();
    let ids = lived_in(home.path()).await;
    let host = TestHost::start(home.path(), "").await;
    let expected = answers(&host, &ids).await;
    host.stop().await;
    let path = home.path().join("data/index.sqlite");
    let whole = fs::read(&path).unwrap();
    let title = b"Two greetings";
    let at: Vec<usize> = whole
        .windows(title.len())
        .enumerate()
        .filter_map(|(at, bytes)| (bytes == title).then_some(at))
        .collect();
    assert!(!at.is_empty(), "the title is kept as text");
    let mut damaged = whole;
    for at in at {
        damaged[at] ^= 1;
    }
    fs::write(&path, damaged).unwrap();
    let host = TestHost::start(home.path(), "").await;
    assert_eq!(answers(&host, &ids).await, expected);
    host.stop().await;
}

/// Waits for what is kept of a session.
async fn kept(home: &Path, id: &SessionId, good: impl Fn(&CheckpointRecord) -> bool) {
    let begin = Instant::now();
    loop {
        if record_of(home, id).is_some_and(|record| good(&record)) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "it was never kept");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_session_is_kept_when_it_is_made_after_each_turn_by_count_and_when_it_rests() {
    let home = tempfile::tempdir().unwrap();
    // Nothing but the count and the two ends can be why.
    let config = "[session]\ncheckpoint_every_events = 40\ncheckpoint_interval_ms = 3600000\n";
    let host = TestHost::start(home.path(), config).await;
    let id = session(&host, &home.path().join("p")).await;
    let session = SessionId::new(&id).unwrap();
    kept(home.path(), &session, |record| !record.rows.is_empty()).await;
    let mut socket = host.client.socket().await;
    socket.follow("f", &id).await;
    host.client.prompt(&id, "r1", "hello").await;
    let items = socket.turn("f").await;
    let end = items.last().unwrap()["event"]["seq"].as_i64().unwrap();
    kept(home.path(), &session, |record| {
        record.rows["sessionStats"].seq.get() >= end
    })
    .await;
    host.client.prompt(&id, "r2", "count slowly to 500").await;
    let far = end + 60;
    socket
        .until("f", |item| item["event"]["seq"].as_i64() > Some(far))
        .await;
    kept(home.path(), &session, |record| {
        record.rows["sessionStats"].seq.get() > end + 20
    })
    .await;
    let cancel = json!({"sessionId": id});
    host.client.ok("session/cancel", cancel).await;
    let title = json!({"sessionId": id, "title": "At rest"});
    host.client.ok("session/rename", title).await;
    host.stop().await;
    let record = record_of(home.path(), &session).unwrap();
    assert!(record.rows["title"].val.text().contains("At rest"));
}

#[tokio::test]
async fn a_host_that_can_keep_nothing_answers_all_the_same() {
    let home = tempfile::tempdir().unwrap();
    let ids = lived_in(home.path()).await;
    let host = TestHost::start(home.path(), "").await;
    let expected = answers(&host, &ids).await;
    host.stop().await;
    logs::remove(&home.path().join("data"), DATABASE);
    fs::create_dir_all(home.path().join("data/index.sqlite/in the way")).unwrap();
    let host = TestHost::start(home.path(), "").await;
    assert_eq!(answers(&host, &ids).await, expected);
    let (status, code) = host
        .client
        .code("session/search", json!({"query": "hello"}))
        .await;
    assert_eq!((status, code.as_str()), (503, "storage/unavailable"));
    host.stop().await;
}

#[tokio::test]
async fn what_is_kept_of_a_session_goes_with_it() {
    let home = tempfile::tempdir().unwrap();
    let ids = lived_in(home.path()).await;
    let host = TestHost::start(home.path(), "").await;
    answers(&host, &ids).await;
    let (gone, stays) = (
        SessionId::new(&ids[0]).unwrap(),
        SessionId::new(&ids[3]).unwrap(),
    );
    assert!(record_of(home.path(), &gone).is_some());
    let log = logs::find(home.path(), &ids[0]);
    fs::remove_dir_all(log.parent().unwrap()).unwrap();
    let begin = Instant::now();
    while record_of(home.path(), &gone).is_some() {
        assert!(begin.elapsed() < PATIENCE, "it is still kept");
        host.client.ok("session/list", json!({})).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(record_of(home.path(), &stays).is_some());
    host.stop().await;
}
