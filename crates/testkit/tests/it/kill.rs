//! A process that writes a log is killed at random points, again and again: everything that it said
//! is saved is there, once and in order.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use orrery_session::{Event, EventType, SessionLog, SharedEvent, Vocabulary};
use orrery_storage::disk::RealDisk;
use orrery_storage::read::read_log;
use orrery_storage::{Catalogue, Compression};
use orrery_testkit::{Dice, text_of};

/// Runs the writer until it is killed; gives the last boundary it acknowledged.
fn killed(root: &Path, container: &str, dice: &mut Dice) -> usize {
    let mut child = Command::new(env!("CARGO_BIN_EXE_log-appender"))
        .arg(root)
        .arg(container)
        .arg(dice.roll().to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let acked = |line: &str| line.strip_prefix("acked ").and_then(|n| n.parse().ok());
    let mut last = 0;
    for _ in 0..dice.below(12) {
        let line = lines.next().expect("the writer ended by itself").unwrap();
        last = acked(&line).unwrap();
    }
    // Not at an acknowledgement but somewhere behind it.
    let until = Instant::now() + Duration::from_micros(dice.below(6000) as u64);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    for line in lines {
        // A line that the kill cut off was not said.
        if let Some(number) = line.ok().as_deref().and_then(acked) {
            last = number;
        }
    }
    last
}

fn read(root: &Path, compression: Compression) -> Option<Vec<SharedEvent>> {
    if !root.exists() {
        return None;
    }
    let found = Catalogue::refresh(&RealDisk, root, &Catalogue::default()).unwrap();
    assert!(found.diagnostics().is_empty(), "{:?}", found.diagnostics());
    let entry = found.entries().next()?;
    let log = read_log(&RealDisk, &entry.path, compression).unwrap();
    let read = SessionLog::read(
        log.header,
        log.events.clone(),
        log.inherited,
        Vocabulary::default(),
    );
    read.expect("the log is legal");
    Some(log.events)
}

fn is_closer(event: &Event) -> bool {
    *event.event_type() == EventType::TurnEnd && event.data().contains("interrupted")
}

#[test]
fn what_was_acknowledged_survives_any_kill() {
    let rounds = std::env::var("ORRERY_KILL_ROUNDS").ok();
    let rounds: usize = rounds.map_or(50, |n| n.parse().expect("a number of rounds"));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = now.unwrap().subsec_nanos();
    println!("seed {seed}");
    for (container, compression) in [("zstd", Compression::Zstd), ("none", Compression::None)] {
        let mut dice = Dice::new(u64::from(seed));
        let mut home = tempfile::tempdir().unwrap();
        let mut before: Vec<SharedEvent> = Vec::new();
        for round in 0..rounds.div_ceil(2) {
            if round % 10 == 0 {
                home = tempfile::tempdir().unwrap();
                before.clear();
            }
            let what = format!("seed {seed}, {container}, round {round}");
            let root = home.path().join("sessions");
            let acked = killed(&root, container, &mut dice);
            let kept = read(&root, compression).unwrap_or_default();
            assert!(
                kept.len() >= acked,
                "{what}: {acked} acknowledged, {} kept",
                kept.len()
            );
            assert!(
                kept.len() >= before.len(),
                "{what}: {} were there",
                before.len()
            );
            for (index, event) in kept.iter().enumerate() {
                assert_eq!(event.seq().index(), index, "{what}");
                match before.get(index) {
                    Some(known) => assert_eq!(event, known, "{what}: rewritten"),
                    None if *event.event_type() == EventType::AssistantChunk => {
                        let text = format!(r#""text":"{}""#, text_of(index));
                        assert!(event.data().contains(&text), "{what}: {event:?}");
                    }
                    None => {}
                }
            }
            let closers = kept.iter().filter(|event| is_closer(event)).count();
            assert!(closers <= round % 10, "{what}: {closers} closers");
            before = kept;
        }
    }
}
