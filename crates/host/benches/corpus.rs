//! What a large home costs: `cargo bench -p orrery-host --bench corpus`.
//!
//! Makes a home of 10,000 sessions of three turns each (`ORRERY_BENCH_SESSIONS` for another number),
//! then lists and searches it through the controller, as a client would. Prints one line for each
//! figure; nothing here fails on a number. Run it on an idle machine.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for developers: it stops at the first surprise and prints its figures"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orrery_api::session::{ListRequest, SearchRequest};
use orrery_host::home::Home;
use orrery_host::{Host, HostOptions, config::Config};
use orrery_projection::units::{SessionStats, Title, TokenUsage};
use orrery_projection::{Cells, Registry};
use orrery_query::{Wanted, fold};
use orrery_session::{Event, SessionHeader, SessionId, SessionLogOffset, SharedEvent, Timestamp};
use orrery_storage::disk::RealDisk;
use orrery_storage::{Store, StoreOptions};

/// Words that do not repeat too soon: real answers compress to a fourth or a ninth, not to a hundredth.
fn word(number: usize) -> String {
    let mut rest = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24;
    let mut word = String::new();
    for _ in 0..2 + rest % 3 {
        let (head, vowel) = ((rest % 19) as usize, (rest / 19 % 5) as usize);
        word.push(char::from(b"bcdfghjklmnpqrstvwz"[head]));
        word.push(char::from(b"aeiou"[vowel]));
        rest /= 95;
    }
    word
}

fn event(seq: u64, event_type: &str, data: &str, rest: &str) -> SharedEvent {
    let pause = seq.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 59;
    let time = 1_700_000_000_000_i64 + i64::try_from(seq * 40 + pause).unwrap();
    let text =
        format!(r#"{{"type":"{event_type}","seq":{seq},"time":{time},"data":{data}{rest}}}"#);
    SharedEvent::new(Event::from_json(&text).unwrap())
}

/// A log of turns: a prompt, some deltas, an answer; a title in the first.
fn log(session: usize, turns: usize, deltas: usize) -> Vec<SharedEvent> {
    let mut events: Vec<SharedEvent> = Vec::new();
    let append = r#","surfaceOp":"append""#;
    for turn in 1..=turns {
        let step = format!(r#"{{"turn":{turn},"step":1}}"#);
        let mut put = |event_type: &str, data: &str, rest: &str| {
            let seq = events.len() as u64;
            events.push(event(seq, event_type, data, rest));
            seq
        };
        put("turn/start", &format!(r#"{{"turn":{turn}}}"#), "");
        put("step/start", &step, "");
        put(
            "user/message",
            &format!(
                r#"{{"role":"user","content":[{{"type":"text","text":"please look at part{session} of module{turn} and say what it does"}}],"source":{{"kind":"user","rpcId":"r{session}-{turn}"}},"id":"u{session}-{turn}"}}"#
            ),
            append,
        );
        if turn == 1 {
            let title = format!(
                r#"{{"title":"Part {session}","messageSeqs":[],"source":{{"kind":"user"}}}}"#
            );
            put("session/title", &title, "");
        }
        let mut cited = Vec::new();
        for delta in 0..deltas {
            let chunk = format!(
                r#"{{"turn":{turn},"step":1,"chunk":{{"type":"text-delta","index":0,"text":"{} "}}}}"#,
                word(turn * 1_000 + delta)
            );
            cited.push(put("assistant/chunk", &chunk, "").to_string());
        }
        put(
            "assistant/message",
            &format!(
                r#"{{"turn":{turn},"step":1,"message":{{"role":"assistant","content":[{{"type":"text","text":"The part{session} reads a file, checks each line of it, and writes what it found to the next stage of module{turn}; nothing else uses it."}}],"source":{{"kind":"llm","provider":"p","model":"m"}},"id":"a{session}-{turn}"}}}}"#
            ),
            &format!(r#","sourceEventSeqs":[{}]{append}"#, cited.join(",")),
        );
        put("step/end", &step, "");
        let end = format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#);
        put("turn/end", &end, "");
    }
    events
}

/// Sessions whose logs were written so many events at once.
async fn fill(root: &Path, sessions: usize, turns: usize, deltas: usize, at_once: usize) {
    let store = Store::start(Arc::new(RealDisk), StoreOptions::new(root)).unwrap();
    for number in 0..sessions {
        let id = SessionId::new(format!("session-{number:05}-{turns}-{deltas}")).unwrap();
        let made = Timestamp::saturating(1_700_000_000_000 + i64::try_from(number).unwrap());
        let mut header = SessionHeader::root(id, made);
        header.cwd = Some("/project".to_owned());
        let writer = store.create(header, SessionLogOffset::ZERO).await.unwrap();
        for batch in log(number, turns, deltas).chunks(at_once) {
            writer.append(batch.to_vec()).unwrap();
            writer.flush().await.unwrap();
        }
        writer.close().await.unwrap();
    }
    store.shutdown().await;
}

fn host(home: &Home) -> Host {
    Host::start(HostOptions {
        home: home.clone(),
        config: Config::default(),
        default_cwd: "/".into(),
        model: None,
    })
    .unwrap()
}

fn rows(limit: u32) -> ListRequest {
    ListRequest {
        cursor: None,
        limit: Some(limit),
    }
}

fn say(what: &str, took: Duration) {
    println!("{what}: {:.1} ms", took.as_secs_f64() * 1000.0);
}

fn percentile(mut all: Vec<Duration>, of_hundred: usize) -> Duration {
    all.sort_unstable();
    all[(all.len() * of_hundred / 100).min(all.len() - 1)]
}

/// A first list of a Host that has just been started.
async fn first_list(home: &Home, what: &str) {
    let host = host(home);
    let begin = Instant::now();
    let page = host.controller().list(rows(200)).await.unwrap();
    say(what, begin.elapsed());
    assert_eq!(page.items.len(), 200);
    host.shutdown().await;
}

async fn large_home(folder: &Path, sessions: usize) {
    let home = Home::at(folder.join("home"));
    home.create().unwrap();
    let begin = Instant::now();
    fill(&home.sessions(), sessions, 3, 8, usize::MAX).await;
    println!("{sessions} sessions were made in {:?}", begin.elapsed());
    first_list(&home, "first list, only frame indexes are there").await;
    first_list(&home, "first list, catalogue and checkpoints are there").await;
    first_list(&home, "the same again").await;
    for entry in std::fs::read_dir(home.sessions()).unwrap() {
        for session in std::fs::read_dir(entry.unwrap().path()).unwrap() {
            // A log this small has none, as things are.
            let index = session.unwrap().path().join("session.index");
            if index.exists() {
                std::fs::remove_file(index).unwrap();
            }
        }
    }
    std::fs::remove_file(home.index()).unwrap();
    std::fs::remove_file(home.catalogue()).unwrap();
    first_list(&home, "first list, everything derived deleted").await;

    let host = host(&home);
    let controller = host.controller();
    controller.list(rows(200)).await.unwrap();
    let mut pages = Vec::new();
    for _ in 0..50 {
        let begin = Instant::now();
        controller.list(rows(200)).await.unwrap();
        pages.push(begin.elapsed());
    }
    say(
        "a repeated page of 200 rows, median",
        percentile(pages.clone(), 50),
    );
    say("the same, 95 %", percentile(pages, 95));
    let begin = Instant::now();
    controller.index_all(|_| {}).await.unwrap();
    say("all sessions made searchable", begin.elapsed());
    let mut searches = Vec::new();
    for round in 0..40 {
        for query in ["part", "module2 reads", &format!("part{round}77"), "wri"] {
            let query = query.to_owned();
            let begin = Instant::now();
            controller.search(SearchRequest { query }).await.unwrap();
            searches.push(begin.elapsed());
        }
    }
    say("a search, median", percentile(searches.clone(), 50));
    say("a search, 95 %", percentile(searches, 95));
    host.shutdown().await;
}

async fn one_log(folder: &Path, turns: usize, deltas: usize) {
    let root = folder.join(format!("one-{turns}"));
    fill(&root, 1, turns, deltas, 64).await;
    let store = Store::start(Arc::new(RealDisk), StoreOptions::new(&root)).unwrap();
    let id = SessionId::new(format!("session-00000-{turns}-{deltas}")).unwrap();
    let registry = Registry::default();
    let _title = registry.register(Title).unwrap();
    let events = store.view(&id).await.unwrap().end().get();
    let (mut opened, mut folds) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        let begin = Instant::now();
        let view = store.view(&id).await.unwrap();
        opened.push(begin.elapsed());
        let folded = fold(&registry, &Wanted::only(&["title"]), &view, None).unwrap();
        folds.push(begin.elapsed());
        assert!(
            folded.cells.snapshot().values["title"]
                .text()
                .contains("Part")
        );
    }
    let median = percentile(folds, 50);
    let opening = percentile(opened, 50);
    let path = store.find(&id).await.unwrap().path;
    let bytes = std::fs::metadata(path).unwrap().len();
    println!(
        "one unit of a cold log of {events} events, {bytes} bytes: {median:?}, of which opening {opening:?}"
    );
    store.shutdown().await;
}

/// What folding costs the append path, for each event and all units together.
fn units() {
    let registry = Registry::default();
    let mut held = orrery_agent::units::register(&registry).unwrap();
    held.extend(orrery_subagent::units::register(&registry).unwrap());
    // Once more, as others do who need the same units.
    held.push(registry.register(Title).unwrap());
    held.push(registry.register(SessionStats).unwrap());
    held.push(registry.register(TokenUsage).unwrap());
    let events = log(1, 100, 1000);
    let header = SessionHeader::root(SessionId::new("s").unwrap(), Timestamp::saturating(0));
    let mut cells = Cells::new(&registry, &header, SessionLogOffset::ZERO);
    let begin = Instant::now();
    for event in &events {
        drop(cells.drive(event));
    }
    let each = begin.elapsed() / u32::try_from(events.len()).unwrap();
    println!("all units, for each of {} events: {each:?}", events.len());
}

#[tokio::main]
async fn main() {
    let sessions = std::env::var("ORRERY_BENCH_SESSIONS");
    let sessions = sessions.map_or(10_000, |number| number.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    units();
    one_log(folder.path(), 5, 192).await;
    one_log(folder.path(), 500, 192).await;
    large_home(folder.path(), sessions).await;
}
