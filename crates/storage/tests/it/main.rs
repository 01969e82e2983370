//! Storage as its callers see it, on a real file system.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    clippy::string_slice,
    reason = "helpers of tests, which the lint configuration does not see as such"
)]

mod attachments;
mod belief;
mod claims;
mod crash;
mod cuts;
mod faults;
mod full_disk;
mod index;
mod memory;
mod samples;
mod store;
mod trash;

use orrery_session::{Event, SessionHeader, SessionId, SharedEvent, Timestamp};
use orrery_storage::{Compression, Store, StoreOptions};
use std::path::Path;
use std::sync::Arc;

/// Where the many small files of these tests lie: in memory where the system offers that.
pub(crate) fn scratch() -> std::path::PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        memory.to_owned()
    } else {
        std::env::temp_dir()
    }
}

pub(crate) fn store(root: &Path, compression: Compression) -> Store {
    let options = StoreOptions {
        compression,
        ..StoreOptions::new(root)
    };
    Store::start(Arc::new(orrery_storage::disk::RealDisk), options).unwrap()
}

pub(crate) fn header(id: &str) -> SessionHeader {
    let id = SessionId::new(id).unwrap();
    let cwd = Some("/home/dev/project".to_owned());
    SessionHeader {
        cwd,
        ..SessionHeader::root(id, Timestamp::saturating(1))
    }
}

fn event(line: &str) -> SharedEvent {
    SharedEvent::new(Event::from_json(line).unwrap())
}

pub(crate) fn log_only(seq: u64, event_type: &str, data: &str) -> SharedEvent {
    event(&format!(
        r#"{{"type":"{event_type}","seq":{seq},"time":{},"data":{data}}}"#,
        1000 + seq
    ))
}

pub(crate) fn prompt(seq: u64, text: &str) -> SharedEvent {
    event(&format!(
        r#"{{"type":"user/message","seq":{seq},"time":{},"data":{{"content":[{{"type":"text","text":"{text}"}}],"source":{{"kind":"user"}},"role":"user","id":"m{seq}"}},"surfaceOp":"append"}}"#,
        1000 + seq
    ))
}

/// One closed turn, then an open one with a stream that packs into rows.
pub(crate) fn two_turns() -> Vec<SharedEvent> {
    let mut events = vec![
        log_only(0, "turn/start", r#"{"turn":1}"#),
        log_only(1, "step/start", r#"{"turn":1,"step":1}"#),
        prompt(2, "hello"),
        log_only(3, "step/end", r#"{"turn":1,"step":1}"#),
        log_only(4, "turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#),
        log_only(5, "turn/start", r#"{"turn":2}"#),
        log_only(6, "step/start", r#"{"turn":2,"step":1}"#),
        prompt(7, "again"),
    ];
    for seq in 8..20 {
        let delta = format!(r#"{{"type":"text-delta","index":0,"text":"word {seq} "}}"#);
        let data = format!(r#"{{"turn":2,"step":1,"chunk":{delta}}}"#);
        events.push(log_only(seq, "assistant/chunk", &data));
    }
    events
}
