//! Folding a cold log: from its checkpoint where there is one, decoding only the frames that hold
//! what the wanted units listen to (decisions D3, D10, `subagent.md` 1.6 and 2.5).

use orrery_projection::cells::restore::Tail;
use orrery_projection::checkpoint::{Checkpoint, CheckpointRecord};
use orrery_projection::units::{ListMetadata, ListMetadataState};
use orrery_projection::{Cells, Registry, Unit};
use orrery_session::{SessionLogOffset, SharedEvent};
use orrery_storage::{LogView, StorageError};

use crate::anchor::is_of;

/// Which projections are folded of a cold log.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Those that are read for.
    pub always: &'a [&'static str],
    /// Those whose state is the initial one unless messages wait, which the log's index knows.
    pub while_queued: &'a [&'static str],
    /// Those whose state is the initial one unless questions are undecided, which it knows too.
    pub while_asking: &'a [&'static str],
}

impl<'a> Wanted<'a> {
    /// These keys, whatever the index knows.
    pub const fn only(keys: &'a [&'static str]) -> Self {
        Self {
            always: keys,
            while_queued: &[],
            while_asking: &[],
        }
    }

    /// All keys.
    pub fn keys(&self) -> Vec<&'static str> {
        [self.always, self.while_queued, self.while_asking].concat()
    }
}

/// The wanted projections of a cold log.
#[derive(Debug)]
pub struct Folded {
    /// At the log's end, an interrupted turn closed.
    pub cells: Cells,
    /// At the end of what lies on disk: what may be kept. `None` where a state is no JSON.
    pub stored: Option<Checkpoint>,
    /// Whether the record was of this log: only then may its other rows be kept beside these.
    pub built_upon: bool,
}

/// An event that may not be skipped and is of no known type says that nothing here can be told.
fn check_known(view: &LogView) -> Result<(), StorageError> {
    if view.facts().required_unknown {
        return Err(StorageError::Unsupported {
            path: view.path().to_owned(),
            why: "it holds events of a type that a newer build knows".to_owned(),
        });
    }
    Ok(())
}

/// Folds projections of a log from its own events alone, an interrupted turn closed: what it
/// inherited is not read.
///
/// # Errors
/// Those of [`fold`].
pub fn own_fold(
    registry: &Registry,
    keys: &[&'static str],
    view: &LogView,
) -> Result<Cells, StorageError> {
    check_known(view)?;
    let mut cells = Cells::selected(registry, keys, view.header(), view.inherited());
    let types = registry.event_types(keys);
    cells.feed(&view.events_of_within(&types, view.inherited()..view.end())?);
    cells.advance_to(view.end());
    Ok(cells)
}

/// Folds the wanted projections of a log. A record of another log (see [`is_of`]), or one that cannot be used, costs
/// the reading that it would have saved.
///
/// # Errors
/// When a needed frame is damaged, or an event that may not be skipped is of an unknown type.
pub fn fold(
    registry: &Registry,
    wanted: &Wanted<'_>,
    view: &LogView,
    record: Option<&CheckpointRecord>,
) -> Result<Folded, StorageError> {
    check_known(view)?;
    let facts = view.facts();
    let mut settled = vec![Unit::key(&ListMetadata)];
    if facts.queued == 0 && facts.steering == 0 {
        settled.extend(wanted.while_queued);
    }
    if facts.pending_approvals == 0 {
        settled.extend(wanted.while_asking);
    }
    let keys = wanted.keys();
    let read: Vec<&str> = keys
        .iter()
        .copied()
        .filter(|key| !settled.contains(key))
        .collect();
    let record = record.filter(|record| is_of(record, view));
    let built_upon = record.is_some();
    let mut rows = record.map(|record| record.rows.clone()).unwrap_or_default();
    // What the index says needs no row.
    rows.retain(|key, _| read.contains(&key.as_str()));
    let stored_end = view.stored_end();
    let fresh = || {
        let mut cells = Cells::selected(registry, &keys, view.header(), view.inherited());
        let metadata = ListMetadataState {
            blank: facts.blank,
            last_prompt_at: facts.last_prompt_at,
        };
        cells.install(&ListMetadata, metadata);
        for key in &settled {
            cells.settle(key, stored_end);
        }
        cells
    };
    let types = registry.event_types(&read);
    let mut cells = fresh();
    let mut closers = None;
    for rows in [rows, Checkpoint::new()] {
        let base = registry
            .restore_floor(&rows, &read)
            .unwrap_or(SessionLogOffset::ZERO)
            .min(stored_end);
        let mut events = view.events_of_within(&types, base..view.end())?;
        let stored =
            events.partition_point(|event: &SharedEvent| event.seq().offset_before() < stored_end);
        let added = events.split_off(stored);
        let tail = Tail {
            base,
            end: stored_end,
            events: &events,
        };
        match cells.hydrate(&rows, tail) {
            Ok(()) => {
                closers = Some(added);
                break;
            }
            Err(error) => {
                let session = &view.header().id;
                tracing::debug!(%session, %error, "the log is read again from its start");
                cells = fresh();
            }
        }
    }
    let stored = cells.checkpoint().ok();
    cells.feed(&closers.unwrap_or_default());
    cells.advance_to(view.end());
    Ok(Folded {
        cells,
        stored,
        built_upon,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::anchor::anchor;
    use orrery_projection::checkpoint::CheckpointIdentity;
    use orrery_projection::units::{SessionStats, Title, Todos, TokenUsage};
    use orrery_session::{Event, Json, SessionHeader, SessionId, SharedEvent, Timestamp};
    use orrery_storage::disk::RealDisk;
    use orrery_storage::{Store, StoreOptions};
    use proptest::prelude::*;

    use super::*;

    const KEYS: [&str; 5] = [
        "sessionListMetadata",
        "sessionStats",
        "title",
        "todos",
        "tokenUsage",
    ];

    /// One event of each kind that some unit listens to, and one that none does.
    fn event(seq: usize, kind: u8) -> SharedEvent {
        let append = r#","surfaceOp":"append""#;
        let (event_type, data, rest) = match kind {
            0 => (
                "session/title",
                format!(r#"{{"title":"t{seq}","messageSeqs":[],"source":{{"kind":"user"}}}}"#),
                "",
            ),
            1 => ("turn/start", format!(r#"{{"turn":{seq}}}"#), ""),
            2 => (
                "user/message",
                format!(
                    r#"{{"role":"user","content":[{{"type":"text","text":"x"}}],"source":{{"kind":"user"}},"id":"u{seq}"}}"#
                ),
                append,
            ),
            3 => (
                "todo/write",
                format!(r#"{{"todos":[{{"content":"c{seq}","status":"pending"}}]}}"#),
                "",
            ),
            4 => (
                "assistant/message",
                format!(
                    r#"{{"turn":1,"step":{seq},"message":{{"role":"assistant","content":[],"source":{{"kind":"model","provider":"p","model":"m"}},"id":"a{seq}"}},"usage":{{"inputTokens":{seq},"outputTokens":2}}}}"#
                ),
                append,
            ),
            5 => ("session/title", "7".to_owned(), ""),
            _ => (
                "turn/end",
                format!(r#"{{"turn":{seq},"reason":{{"kind":"completed"}}}}"#),
                "",
            ),
        };
        let text = format!(
            r#"{{"type":"{event_type}","seq":{seq},"time":{},"data":{data}{rest}}}"#,
            1_000 + seq
        );
        SharedEvent::new(Event::from_json(&text).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_selective_fold_on_from_any_checkpoint_is_the_whole_fold(
            kinds in prop::collection::vec(0..7_u8, 1..160),
            at_once in 1..40_usize,
            cut in 0..160_usize,
            chosen in prop::collection::btree_set(0..KEYS.len(), 1..KEYS.len()),
        ) {
            let registry = Registry::default();
            let _units = [
                registry.register(ListMetadata).unwrap(),
                registry.register(SessionStats).unwrap(),
                registry.register(Title).unwrap(),
                registry.register(Todos).unwrap(),
                registry.register(TokenUsage).unwrap(),
            ];
            // A turn that is open at the end would be closed in memory: that is another property.
            let kinds = kinds.into_iter().chain([6]);
            let events: Vec<SharedEvent> =
                kinds.enumerate().map(|(seq, kind)| event(seq, kind)).collect();
            let keys: Vec<&'static str> = chosen.into_iter().map(|key| KEYS[key]).collect();
            let header = SessionHeader::root(SessionId::new("s").unwrap(), Timestamp::saturating(1));
            let mut whole = Cells::new(&registry, &header, SessionLogOffset::ZERO);
            let cut = cut.min(events.len());
            whole.feed(&events[..cut]);
            let record = CheckpointRecord {
                identity: CheckpointIdentity::of(&header, SessionLogOffset::ZERO),
                revision: None,
                anchor: None,
                rows: whole.checkpoint().unwrap(),
            };
            whole.feed(&events[cut..]);
            let folder = tempfile::tempdir().unwrap();
            let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
            let view = runtime.block_on(async {
                let options = StoreOptions::new(folder.path());
                let store = Store::start(Arc::new(RealDisk), options).unwrap();
                let writer = store.create(header.clone(), SessionLogOffset::ZERO).await.unwrap();
                for batch in events.chunks(at_once) {
                    writer.append(batch.to_vec()).unwrap();
                    writer.flush().await.unwrap();
                }
                writer.close().await.unwrap();
                store.view(&header.id).await.unwrap()
            });
            let anchored = CheckpointRecord {
                anchor: Some(anchor(&view, record.reach()).unwrap()),
                ..record.clone()
            };
            let mut foreign = anchored.clone();
            foreign.anchor = foreign.anchor.map(|anchor| !anchor);
            foreign.rows.values_mut().for_each(|row| row.val = Json::from_text("7").unwrap());
            prop_assert!(is_of(&anchored, &view) && !is_of(&record, &view));
            for record in [None, Some(&record), Some(&anchored), Some(&foreign)] {
                let folded = fold(&registry, &Wanted::only(&keys), &view, record).unwrap();
                let selective = folded.cells.snapshot_of(&keys);
                prop_assert_eq!(&selective.values, &whole.snapshot_of(&keys).values);
                let rows = whole.checkpoint().unwrap();
                for (key, row) in folded.stored.unwrap() {
                    prop_assert_eq!(&row.val, &rows[&key].val, "{}", key);
                }
            }
        }
    }
}
