//! What reading and writing logs costs: `cargo bench -p orrery-storage`.
//!
//! Prints one line for each figure; nothing here fails on a number. Run it on an idle machine.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for developers: it stops at the first surprise and prints its figures"
)]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orrery_session::{Event, SessionHeader, SessionId, SessionLogOffset, SharedEvent, Timestamp};
use orrery_storage::disk::{Disk, RealDisk};
use orrery_storage::log_file::LogFile;
use orrery_storage::read::read_log;
use orrery_storage::{Catalogue, Compression, LogView, Store, StoreOptions};

fn event(seq: u64, event_type: &str, data: &str, rest: &str) -> SharedEvent {
    let time = 1_000_000 + seq;
    let text =
        format!(r#"{{"type":"{event_type}","seq":{seq},"time":{time},"data":{data}{rest}}}"#);
    SharedEvent::new(Event::from_json(&text).unwrap())
}

/// A log of turns: a prompt, two hundred small deltas, an answer.
fn log(length: usize) -> Vec<SharedEvent> {
    let mut events: Vec<SharedEvent> = Vec::with_capacity(length + 300);
    let mut turn = 0;
    while events.len() < length {
        turn += 1;
        let next = |events: &Vec<SharedEvent>| events.len() as u64;
        events.push(event(
            next(&events),
            "turn/start",
            &format!(r#"{{"turn":{turn}}}"#),
            "",
        ));
        let step = format!(r#"{{"turn":{turn},"step":1}}"#);
        events.push(event(next(&events), "step/start", &step, ""));
        let seq = next(&events);
        let prompt = format!(
            r#"{{"content":[{{"type":"text","text":"please do thing {turn}"}}],"source":{{"kind":"user","rpcId":"r{seq}"}},"role":"user","id":"m{seq}"}}"#
        );
        events.push(event(
            seq,
            "user/message",
            &prompt,
            r#","surfaceOp":"append""#,
        ));
        let first = next(&events);
        for word in 0..200 {
            let delta = format!(
                r#"{{"turn":{turn},"step":1,"chunk":{{"type":"text-delta","index":0,"text":"word{word} "}}}}"#
            );
            events.push(event(next(&events), "assistant/chunk", &delta, ""));
        }
        let seq = next(&events);
        let cited: Vec<String> = (first..seq).map(|n| n.to_string()).collect();
        let answer = format!(
            r#"{{"turn":{turn},"step":1,"message":{{"role":"assistant","content":[{{"type":"text","text":"{}"}}],"source":{{"kind":"model","provider":"p","model":"m"}},"id":"m{seq}"}}}}"#,
            "word ".repeat(200)
        );
        let rest = format!(
            r#","sourceEventSeqs":[{}],"surfaceOp":"append""#,
            cited.join(",")
        );
        events.push(event(seq, "assistant/message", &answer, &rest));
        events.push(event(next(&events), "step/end", &step, ""));
        let end = format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#);
        events.push(event(next(&events), "turn/end", &end, ""));
    }
    events
}

fn store(root: &Path) -> Store {
    let options = StoreOptions {
        catalogue_file: Some(root.join("catalogue.bin")),
        ..StoreOptions::new(root.join("sessions"))
    };
    Store::start(Arc::new(RealDisk), options).unwrap()
}

fn header(id: &str) -> SessionHeader {
    let id = SessionId::new(id).unwrap();
    let cwd = Some("/home/dev/project".to_owned());
    SessionHeader {
        cwd,
        ..SessionHeader::root(id, Timestamp::saturating(1))
    }
}

/// The median of some runs, after one that does not count.
async fn median<F: Future<Output = Duration>>(runs: usize, mut run: impl FnMut() -> F) -> Duration {
    run().await;
    let mut times = Vec::new();
    for _ in 0..runs {
        times.push(run().await);
    }
    times.sort();
    times[times.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[tokio::main]
async fn main() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let events = log(100_000);
    let json: usize = events.iter().map(|e| e.json().len() + 1).sum();

    // Appending with write-behind, in the batches that the window makes.
    let writer = store
        .create(header("large"), SessionLogOffset::ZERO)
        .await
        .unwrap();
    let started = Instant::now();
    for batch in events.chunks(500) {
        writer.append(batch.to_vec()).unwrap();
    }
    writer.flush().await.unwrap();
    let took = started.elapsed();
    let rate = events.len() as f64 / took.as_secs_f64();
    println!("append, write-behind    {rate:>12.0} events/s");
    writer.close().await.unwrap();
    let path = store.find(&header("large").id).await.unwrap().path;
    let size = std::fs::metadata(&path).unwrap().len();
    println!("log on disk             {size:>12} bytes for {json} of JSON");
    amplification("many-deltas", &path);

    // The same events as a person's session makes them: many small batches, each flushed.
    let writer = store
        .create(header("small-frames"), SessionLogOffset::ZERO)
        .await
        .unwrap();
    for batch in events[..10_000].chunks(25) {
        writer.append(batch.to_vec()).unwrap();
        writer.flush().await.unwrap();
    }
    writer.close().await.unwrap();
    let path = store.find(&header("small-frames").id).await.unwrap().path;
    amplification("tiny steps", &path);
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let mut file = LogFile::create(
        &disk,
        store.root(),
        Compression::Zstd,
        &header("small-large"),
        SessionLogOffset::ZERO,
        &events[..25],
    )
    .unwrap();
    for batch in events[25..].chunks(25) {
        file.append(batch).unwrap();
    }
    file.sync().unwrap();
    amplification("100,000 in tiny steps", file.path());
    drop(file);
    let writer = store
        .create(header("little"), SessionLogOffset::ZERO)
        .await
        .unwrap();
    writer.append(log(1_000)).unwrap();
    writer.close().await.unwrap();
    foreign();

    for id in ["little", "small-frames", "small-large", "large"] {
        let id = header(id).id;
        for (what, back) in [("tail", 0), ("middle", 2)] {
            let took = median(20, || async {
                let started = Instant::now();
                let view = store.view(&id).await.unwrap();
                let end = match back {
                    0 => view.end(),
                    part => SessionLogOffset::of_len(view.end().index() / part),
                };
                let mut kept = 0;
                view.backwards(end, |piece| {
                    kept += piece.len();
                    if kept > 600 {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                })
                .unwrap();
                started.elapsed()
            })
            .await;
            println!("cold {what:<6} of {id:<12}  {:>9.2} ms", ms(took));
        }
    }

    let id = header("large").id;
    // Once by itself, and once on the store's blocking pool, where the allocator hands memory back to
    // the system after each run and most of the time goes into getting it again.
    let path = store.find(&id).await.unwrap().path;
    let whole = |what: &str, took: Duration| {
        let rate = json as f64 / took.as_secs_f64() / 1e6;
        println!(
            "whole read, {what:<9}    {:>9.2} ms = {rate:.0} MB/s of JSON",
            ms(took)
        );
    };
    let took = median(9, || async {
        let started = Instant::now();
        let log = read_log(&RealDisk, &path, Compression::Zstd).unwrap();
        assert_eq!(log.events.len(), events.len());
        started.elapsed()
    })
    .await;
    whole("direct", took);
    let took = median(9, || async {
        let started = Instant::now();
        let log = store.read(&id).await.unwrap();
        assert_eq!(log.events.len(), events.len());
        started.elapsed()
    })
    .await;
    whole("the store", took);

    let took = median(5, || async {
        let started = Instant::now();
        let opened = store.open(&id).await.unwrap();
        let took = started.elapsed();
        opened.writer.close().await.unwrap();
        took
    })
    .await;
    println!("open large for writing  {:>9.2} ms", ms(took));

    catalogue(home.path()).await;
}

/// How much the index adds to what is written for a log.
fn amplification(what: &str, log: &Path) {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |stat| stat.len());
    let (log, index) = (size(log), size(&log.with_file_name("session.index")));
    let share = 100.0 * index as f64 / log as f64;
    println!("index of {what:<22} {share:>5.1} % ({index} of {log} bytes)");
}

/// The same of copies of foreign logs, where the environment names a folder of them.
fn foreign() {
    let samples = std::env::var_os("ORRERY_SAMPLES").filter(|folder| !folder.is_empty());
    let Some(samples) = samples else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    for root in orrery_testkit::folders::log_roots(Path::new(&samples)).unwrap() {
        let copy = home.path().join("copy");
        orrery_testkit::folders::copy_folder(&root, &copy).unwrap();
        let found = Catalogue::refresh(&RealDisk, &copy, &Catalogue::default()).unwrap();
        for entry in found.entries() {
            LogView::open(&RealDisk, &entry.path, entry.compression).unwrap();
            amplification("a sample", &entry.path);
        }
        std::fs::remove_dir_all(&copy).unwrap();
    }
}

/// Ten thousand small sessions: found with and without the catalogue of an earlier process.
async fn catalogue(home: &Path) {
    let root = home.join("many");
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let events = log(10);
    for n in 0..10_000 {
        LogFile::create(
            &disk,
            &root.join("sessions"),
            Compression::Zstd,
            &header(&format!("s{n}")),
            SessionLogOffset::ZERO,
            &events[..5],
        )
        .unwrap();
    }
    std::fs::remove_file(root.join("catalogue.bin")).ok();
    for name in ["without", "with"] {
        let fresh = store(&root);
        let started = Instant::now();
        let found = fresh.catalogue().await.unwrap().entries().count();
        println!(
            "10,000 headers {name:<8} {:>9.2} ms ({found})",
            ms(started.elapsed())
        );
        fresh.shutdown().await;
    }
}
