//! Small builders.

use std::ops::RangeInclusive;

use orrery_projection::checkpoint::{
    Checkpoint, CheckpointIdentity, CheckpointRecord, CheckpointRow,
};
use orrery_query::search::words::of_query;
use orrery_query::search::{
    Document, IndexQuery, IndexedSession, SearchIndex, SessionUpdate, Standing,
};
use orrery_session::{
    EventType, Json, SessionId, SessionLogOffset, SessionSeq, SessionSeqCursor, Timestamp,
};

pub(crate) fn id(text: &str) -> SessionId {
    SessionId::new(text).unwrap()
}

pub(crate) fn seq(number: u64) -> SessionSeq {
    SessionSeq::new(number).unwrap()
}

pub(crate) fn identity(created: i64) -> CheckpointIdentity {
    CheckpointIdentity {
        format_version: 0,
        created_at: Timestamp::saturating(created),
        cwd: Some("/home/dev/project".to_owned()),
        is_seeded: false,
        inherited: SessionLogOffset::ZERO,
    }
}

pub(crate) fn record(created: i64, value: &str) -> CheckpointRecord {
    let row = CheckpointRow {
        ver: 1,
        seq: SessionSeqCursor::new(created).unwrap(),
        val: Json::from_text(value).unwrap(),
    };
    CheckpointRecord {
        identity: identity(created),
        revision: (created > 0).then(|| format!("r{created}")),
        anchor: (created > 1).then_some(u32::MAX - 1),
        rows: Checkpoint::from([("title".to_owned(), row.clone()), ("todos".to_owned(), row)]),
    }
}

/// A current message of its seq's time.
pub(crate) fn document(number: u64, text: &str) -> Document {
    Document {
        seq: seq(number),
        event_type: EventType::UserMessage,
        time: Timestamp::saturating(1000 + number as i64),
        standing: Standing::Current,
        text: text.to_owned(),
    }
}

pub(crate) fn title(number: u64, text: &str) -> Document {
    Document {
        event_type: EventType::SessionTitle,
        standing: Standing::LogOnly,
        ..document(number, text)
    }
}

pub(crate) fn update(name: &str, documents: Vec<Document>) -> SessionUpdate {
    let end = documents
        .last()
        .map_or(0, |document| document.seq.get() + 1);
    SessionUpdate {
        session: IndexedSession {
            id: id(name),
            identity: identity(7),
            revision: None,
            through: SessionLogOffset::new(end).unwrap(),
            anchor: u32::MAX - 1,
        },
        from_scratch: false,
        documents,
        shadowed: Vec::new(),
    }
}

pub(crate) fn shadowing(name: &str, ranges: &[RangeInclusive<u64>]) -> SessionUpdate {
    SessionUpdate {
        shadowed: ranges
            .iter()
            .map(|r| seq(*r.start())..=seq(*r.end()))
            .collect(),
        ..update(name, Vec::new())
    }
}

pub(crate) fn ask(text: &str) -> IndexQuery {
    IndexQuery {
        phrases: of_query(text),
        limit: 100,
        ..IndexQuery::default()
    }
}

/// The hits as `session/seq x matches`, best first.
pub(crate) fn hits(index: &dyn SearchIndex, query: &IndexQuery) -> Vec<String> {
    let hits = index.search(query).unwrap();
    hits.iter()
        .map(|hit| format!("{}/{} x{}", hit.session, hit.seq, hit.matches))
        .collect()
}
