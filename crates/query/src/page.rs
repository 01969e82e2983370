//! Message-aligned pages (`controller.md` 2.4).
//!
//! A page ends before a given boundary and begins where its oldest message begins: with the first
//! of the events that the message cites. Replacements do not count, so a summary lands in the page
//! of the event that cites it. Packing comes after selection and never moves a border.

use std::ops::ControlFlow;

use orrery_session::chunk_row::{Record, pack};
use orrery_session::{EventType, SessionLogOffset, SharedEvent, SurfaceOp};
use orrery_storage::{LogView, StorageError};

/// How many messages a page holds unless somebody asks otherwise.
pub const DEFAULT_MESSAGES: usize = 50;

/// One page, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The records, packed.
    pub records: Vec<Record>,
    /// Whether older events exist.
    pub has_more: bool,
}

/// Where the page that ends before `end` begins, if a window of the log that ends there reaches far
/// enough back to tell.
fn page_start(
    window: &[SharedEvent],
    end: SessionLogOffset,
    max_messages: usize,
) -> Option<SessionLogOffset> {
    let before_end = |event: &&SharedEvent| event.seq().offset_before() < end;
    let mut count = 0;
    for event in window.iter().rev().filter(before_end) {
        let counts = matches!(
            event.event_type(),
            EventType::UserMessage | EventType::AssistantMessage
        ) && event.surface_op() == Some(SurfaceOp::Append);
        if !counts {
            continue;
        }
        count += 1;
        if count == max_messages {
            let sources = event
                .source_event_seqs()
                .unwrap_or_default()
                .iter()
                .copied();
            let first = sources.fold(event.seq(), Ord::min);
            return Some(first.offset_before());
        }
    }
    None
}

/// The newest `max_messages` messages before `end` of a log that is at hand whole.
pub fn tail_page(events: &[SharedEvent], end: SessionLogOffset, max_messages: usize) -> Page {
    let end = SessionLogOffset::of_len(end.index().min(events.len()));
    let start = page_start(events, end, max_messages.max(1)).unwrap_or(SessionLogOffset::ZERO);
    page_of(events, start, end)
}

/// The same of a log on disk, decoding the frames of the page and none before. Events that are at
/// hand already, the log's end from some boundary on, are not read again.
///
/// # Errors
/// When a needed frame is damaged.
pub fn tail_page_of(
    view: &LogView,
    at_hand: &[SharedEvent],
    end: SessionLogOffset,
    max_messages: usize,
) -> Result<Page, StorageError> {
    let held_from = at_hand.first().map(|event| event.seq().offset_before());
    let end = if at_hand.is_empty() {
        end.min(view.end())
    } else {
        end
    };
    let mut search = Search {
        end,
        messages: max_messages.max(1),
        start: None,
        pieces: Vec::new(),
    };
    if search.take(at_hand.to_vec()).is_continue() {
        let unread = held_from.map_or(end, |held_from| end.min(held_from));
        view.backwards(unread, |mut piece| {
            if let Some(held_from) = held_from {
                piece.retain(|event| event.seq().offset_before() < held_from);
            }
            search.take(piece)
        })?;
    }
    search.pieces.reverse();
    let window = search.pieces.concat();
    Ok(page_of(
        &window,
        search.start.unwrap_or(SessionLogOffset::ZERO),
        end,
    ))
}

/// Looks for the start of a page in pieces of a log, from its end backwards.
struct Search {
    end: SessionLogOffset,
    /// How many messages are still missing.
    messages: usize,
    start: Option<SessionLogOffset>,
    /// The pieces of the page, newest first.
    pieces: Vec<Vec<SharedEvent>>,
}

impl Search {
    fn take(&mut self, piece: Vec<SharedEvent>) -> ControlFlow<()> {
        let Some(first) = piece.first().map(|event| event.seq().offset_before()) else {
            return ControlFlow::Continue(());
        };
        if first >= self.end {
            return ControlFlow::Continue(());
        }
        if self.start.is_none() {
            self.start = page_start(&piece, self.end, self.messages);
            self.messages = self.messages.saturating_sub(messages_in(&piece, self.end));
        }
        self.pieces.push(piece);
        match self.start {
            Some(start) if first <= start => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn messages_in(window: &[SharedEvent], end: SessionLogOffset) -> usize {
    window
        .iter()
        .filter(|event| {
            event.seq().offset_before() < end
                && event.surface_op() == Some(SurfaceOp::Append)
                && matches!(
                    event.event_type(),
                    EventType::UserMessage | EventType::AssistantMessage
                )
        })
        .count()
}

fn page_of(window: &[SharedEvent], start: SessionLogOffset, end: SessionLogOffset) -> Page {
    let before = |boundary: SessionLogOffset| {
        window.partition_point(|event| event.seq().offset_before() < boundary)
    };
    let selected = window.get(before(start)..before(end)).unwrap_or_default();
    Page {
        records: pack(selected),
        has_more: start != SessionLogOffset::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use orrery_session::Event;

    use super::*;

    fn event(seq: u64, event_type: &str, data: &str, rest: &str) -> SharedEvent {
        let text = format!(r#"{{"type":"{event_type}","seq":{seq},"time":0,"data":{data}{rest}}}"#);
        SharedEvent::new(Event::from_json(&text).unwrap())
    }

    fn log() -> Vec<SharedEvent> {
        let append = r#","surfaceOp":"append""#;
        let chunk = r#"{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"x"}}"#;
        vec![
            event(0, "turn/start", r#"{"turn":1}"#, ""),
            event(1, "user/message", "{}", append),
            event(2, "assistant/chunk", chunk, ""),
            event(3, "assistant/chunk", chunk, ""),
            event(4, "assistant/chunk", chunk, ""),
            event(
                5,
                "assistant/message",
                "{}",
                r#","sourceEventSeqs":[2,3,4],"surfaceOp":"append""#,
            ),
            event(6, "turn/end", "{}", ""),
            event(
                7,
                "user/message",
                "{}",
                r#","sourceEventSeqs":[1,5],"surfaceOp":{"op":"replace","start":1,"end":5}"#,
            ),
        ]
    }

    #[test]
    fn a_page_begins_with_the_first_chunk_of_its_oldest_message() {
        let events = log();
        let end = SessionLogOffset::of_len(8);
        let start = |messages| page_start(&events, end, messages).map(SessionLogOffset::get);
        assert_eq!((start(1), start(2), start(3)), (Some(2), Some(1), None));
        let page = tail_page(&events, end, 1);
        assert_eq!((page.records.len(), page.has_more), (4, true));
        let older = tail_page(&events, SessionLogOffset::of_len(2), 1);
        assert_eq!((older.records.len(), older.has_more), (1, true));
    }

    #[test]
    fn pages_put_together_are_the_log_again() {
        let events = log();
        for size in 1..4 {
            let mut end = SessionLogOffset::of_len(events.len());
            let mut pages = Vec::new();
            loop {
                let page = tail_page(&events, end, size);
                let records: Vec<SharedEvent> =
                    page.records.iter().flat_map(Record::events).collect();
                end = records.first().map_or(end, |e| e.seq().offset_before());
                pages.insert(0, records);
                if !page.has_more {
                    break;
                }
            }
            assert_eq!(pages.concat(), events);
        }
    }

    #[test]
    fn an_empty_log_is_one_empty_page() {
        let page = tail_page(&[], SessionLogOffset::ZERO, 50);
        assert_eq!((page.records.len(), page.has_more), (0, false));
    }
}
