//! Reading through the index: the same answers, whatever state the index is in.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use orrery_session::repair::closers;
use orrery_session::{EventType, SessionId, SessionLogOffset, SharedEvent};
use orrery_storage::index::INDEX_FILE;
use orrery_storage::{Compression, LogView, Store};

use crate::{header, log_only, prompt, store, two_turns};

fn id() -> SessionId {
    SessionId::new("s").unwrap()
}

fn offset(n: usize) -> SessionLogOffset {
    SessionLogOffset::of_len(n)
}

/// A log of many small frames with rare events in between, in several runs.
fn long() -> Vec<SharedEvent> {
    turns(700)
}

fn turns(count: u64) -> Vec<SharedEvent> {
    let mut events = Vec::new();
    for turn in 1..=count {
        let seq = |events: &Vec<SharedEvent>| events.len() as u64;
        events.push(log_only(
            seq(&events),
            "turn/start",
            &format!(r#"{{"turn":{turn}}}"#),
        ));
        let step = format!(r#"{{"turn":{turn},"step":1}}"#);
        events.push(log_only(seq(&events), "step/start", &step));
        events.push(prompt(seq(&events), &format!("prompt {turn}")));
        if turn % 10 == 3 {
            let title = r#"{"title":"t","messageSeqs":[],"source":{"kind":"user"}}"#;
            events.push(log_only(seq(&events), "session/title", title));
        }
        events.push(log_only(seq(&events), "step/end", &step));
        let end = format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#);
        events.push(log_only(seq(&events), "turn/end", &end));
    }
    events
}

async fn write(store: &Store, events: &[SharedEvent], batch: usize) -> PathBuf {
    let writer = store
        .create(header("s"), SessionLogOffset::ZERO)
        .await
        .unwrap();
    for part in events.chunks(batch) {
        writer.append(part.to_vec()).unwrap();
        writer.flush().await.unwrap();
    }
    let path = store.find(&id()).await.unwrap().path;
    writer.close().await.unwrap();
    path
}

/// Every kind of read against the plain truth.
fn check(view: &LogView, truth: &[SharedEvent]) {
    assert_eq!(view.end(), offset(truth.len()));
    assert_eq!(view.events(offset(0)..view.end()).unwrap(), truth);
    for (from, to) in [(0, 1), (3, 9), (truth.len() - 1, truth.len()), (5, 5)] {
        let read = view.events(offset(from)..offset(to)).unwrap();
        assert_eq!(read, truth[from..to.max(from)]);
    }
    for types in [
        vec![&EventType::SessionTitle],
        vec![&EventType::TurnEnd, &EventType::UserMessage],
        vec![&EventType::AssistantChunk],
        vec![&EventType::GoalChange],
    ] {
        let expected: Vec<SharedEvent> = truth
            .iter()
            .filter(|e| types.contains(&e.event_type()))
            .cloned()
            .collect();
        assert_eq!(view.events_of(&types).unwrap(), expected);
    }
    let mut pieces = Vec::new();
    view.backwards(view.end(), |piece| {
        pieces.insert(0, piece);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(pieces.concat(), truth);
    let mut before = Vec::new();
    view.backwards(offset(9), |piece| {
        before.insert(0, piece);
        ControlFlow::Continue(())
    })
    .unwrap();
    before.pop();
    let last = before.last().map(|piece| piece[0].seq().offset_before());
    assert!(last.is_none_or(|last| last < offset(9)));
    let read = before.concat();
    assert_eq!(read, truth[..read.len()]);
    let facts = view.facts();
    let messages = truth
        .iter()
        .filter(|e| *e.event_type() == EventType::UserMessage)
        .count() as u64;
    assert_eq!(
        (facts.messages, facts.blank, facts.open_turn),
        (messages, false, false)
    );
}

#[tokio::test]
async fn ranges_types_and_pieces_are_read_as_they_were_written() {
    for compression in Compression::ALL {
        let home = tempfile::tempdir().unwrap();
        let store = store(home.path(), compression);
        let events = long();
        write(&store, &events, 3).await;
        check(&store.view(&id()).await.unwrap(), &events);
    }
}

#[tokio::test]
async fn an_interrupted_log_is_closed_in_memory_and_a_torn_tail_is_read() {
    for compression in Compression::ALL {
        let home = tempfile::tempdir().unwrap();
        let store = store(home.path(), compression);
        let events = two_turns();
        let path = write(&store, &events, 4).await;
        let mut truth = events.clone();
        truth.extend(closers(&truth).unwrap());
        check(&store.view(&id()).await.unwrap(), &truth);
        let bytes = std::fs::read(&path).unwrap();
        for cut in (bytes.len() * 2 / 3)..bytes.len() {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let whole = store.read(&id()).await.unwrap();
            let mut truth = whole.events;
            truth.extend(closers(&truth).unwrap());
            let view = store.view(&id()).await.unwrap();
            assert_eq!(
                view.events(offset(0)..view.end()).unwrap(),
                truth,
                "cut at {cut}"
            );
        }
    }
}

#[tokio::test]
async fn a_damaged_or_missing_index_changes_no_answer() {
    for compression in Compression::ALL {
        let home = tempfile::tempdir().unwrap();
        let store = store(home.path(), compression);
        let events = long();
        let path = write(&store, &events, 5).await;
        let index = path.with_file_name(INDEX_FILE);
        let good = std::fs::read(&index).unwrap();
        assert!(
            good.len() > 400,
            "the writer keeps an index of several runs"
        );
        let damage: Vec<Vec<u8>> = (0..good.len())
            .step_by(13)
            .map(|at| {
                let mut bytes = good.clone();
                bytes[at] ^= 0x55;
                bytes
            })
            .chain((0..good.len()).step_by(17).map(|cut| good[..cut].to_vec()))
            .chain([b"nonsense".to_vec(), [good.clone(), good.clone()].concat()])
            .collect();
        for (n, bytes) in damage.iter().enumerate() {
            std::fs::write(&index, bytes).unwrap();
            let view = store.view(&id()).await.unwrap();
            assert_eq!(
                view.events(offset(0)..view.end()).unwrap(),
                events,
                "damage {n}"
            );
        }
        std::fs::remove_file(&index).unwrap();
        check(&store.view(&id()).await.unwrap(), &events);
        assert!(index.exists(), "it came back by itself");
        another_log(&path, &store, &index).await;
    }
}

/// Text that does not compress to nothing, as that of people and models does not.
fn prose(dice: &mut orrery_testkit::Dice, words: usize) -> String {
    (0..words)
        .map(|_| format!("{:x} ", dice.below(4096)))
        .collect()
}

/// Turns as a model streams them: a flush every few deltas.
fn streamed(turns: u64, dice: &mut orrery_testkit::Dice) -> Vec<SharedEvent> {
    let mut events: Vec<SharedEvent> = Vec::new();
    for turn in 1..=turns {
        let seq = events.len() as u64;
        events.push(log_only(
            seq,
            "turn/start",
            &format!(r#"{{"turn":{turn}}}"#),
        ));
        let step = format!(r#"{{"turn":{turn},"step":1}}"#);
        events.push(log_only(seq + 1, "step/start", &step));
        events.push(prompt(seq + 2, &prose(dice, 20)));
        for _ in 0..40 {
            let delta = format!(
                r#"{{"type":"text-delta","index":0,"text":"{}"}}"#,
                prose(dice, 2)
            );
            let data = format!(r#"{{"turn":{turn},"step":1,"chunk":{delta}}}"#);
            events.push(log_only(events.len() as u64, "assistant/chunk", &data));
        }
        events.push(log_only(events.len() as u64, "step/end", &step));
        let end = format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#);
        events.push(log_only(events.len() as u64, "turn/end", &end));
    }
    events
}

/// Decision D2 bounds what the index adds to what is written.
#[tokio::test]
async fn the_index_is_less_than_a_twentieth_of_a_log_however_small_its_frames() {
    for compression in Compression::ALL {
        for (turns, batch) in [(1, 3), (20, 2), (200, 4), (200, 1000)] {
            let home = tempfile::tempdir_in(crate::scratch()).unwrap();
            let store = store(home.path(), compression);
            let events = streamed(turns, &mut orrery_testkit::Dice::new(3));
            let path = write(&store, &events, batch).await;
            let size = |path: &Path| std::fs::metadata(path).map_or(0, |stat| stat.len());
            let (log, index) = (size(&path), size(&path.with_file_name(INDEX_FILE)));
            assert!(
                index * 20 < log,
                "{compression:?}, {turns} turns by {batch}: {index} of {log}"
            );
            assert!(
                turns < 200 || index > 0,
                "{compression:?}: no index by {batch}"
            );
            check(&store.view(&id()).await.unwrap(), &events);
        }
    }
}

/// Text that compresses to nothing makes no index that outgrows it.
#[tokio::test]
async fn the_index_is_less_than_a_twentieth_of_a_log_that_compresses_to_nothing() {
    let home = tempfile::tempdir_in(crate::scratch()).unwrap();
    let store = store(home.path(), Compression::Zstd);
    let text = "a".repeat(300_000);
    let events: Vec<SharedEvent> = (0..200).map(|seq| prompt(seq, &text)).collect();
    let path = write(&store, &events, 1).await;
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |stat| stat.len());
    let (log, index) = (size(&path), size(&path.with_file_name(INDEX_FILE)));
    assert!(index > 0 && index * 20 < log, "{index} of {log}");
    let view = store.view(&id()).await.unwrap();
    let tail = view.events(offset(198)..offset(200)).unwrap();
    assert_eq!(tail, events[198..]);
}

/// The index of one log beside another: recognised by the file it names.
async fn another_log(path: &Path, store: &Store, index: &Path) {
    let old = std::fs::read(index).unwrap();
    let bytes = std::fs::read(path).unwrap();
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, &bytes).unwrap();
    std::fs::write(index, old).unwrap();
    check(&store.view(&id()).await.unwrap(), &long());
}

#[tokio::test]
async fn a_log_that_grew_behind_our_back_is_indexed_from_where_it_grew() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), Compression::Zstd);
    let events = long();
    // At the end of a turn, so that opening the log adds nothing of its own.
    let ends = |event: &&SharedEvent| *event.event_type() == EventType::TurnEnd;
    let half = events.iter().filter(ends).nth(499).unwrap().seq().index() + 1;
    let path = write(&store, &events[..half], 5).await;
    let index = path.with_file_name(INDEX_FILE);
    let old = std::fs::read(&index).unwrap();
    let opened = store.open(&id()).await.unwrap();
    opened.writer.append(events[half..].to_vec()).unwrap();
    opened.writer.flush().await.unwrap();
    opened.writer.close().await.unwrap();
    std::fs::write(&index, old).unwrap();
    check(&store.view(&id()).await.unwrap(), &events);
}

#[tokio::test]
async fn damage_in_a_frame_that_is_not_needed_does_not_matter_and_in_a_needed_one_is_said() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path(), Compression::Zstd);
    let events = long();
    let path = write(&store, &events, 5).await;
    let view = store.view(&id()).await.unwrap();
    let half = events.len() / 2;
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 0xff;
    // In place: another file would be another log.
    use std::os::unix::fs::FileExt as _;
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    let tail = view.events(offset(events.len() - 3)..view.end()).unwrap();
    assert_eq!(tail, events[events.len() - 3..]);
    assert!(view.events(offset(half - 40)..offset(half + 40)).is_err());
}
