//! `promptIds`: which prompts were accepted, by the request ids of clients (decision D19).
//!
//! State: for each of the newest 10,000 request ids the message that it became and a digest of its
//! content. Host-only. Events: `agent/inbox/spliced` and `user/message` of the own suffix.

use orrery_projection::{HostOnly, Unit};
use orrery_session::payload::InboxSpliced;
use orrery_session::{Event, EventType, Json, MessageId, SessionHeader, SessionLogOffset};
use rpds::{QueueSync, RedBlackTreeMapSync};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::inbox::Waiting;

/// How many request ids are remembered.
const REMEMBERED: usize = 10_000;

/// The `promptIds` unit.
#[derive(Debug, Clone, Copy)]
pub struct PromptIdsUnit;

/// An accepted prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptRecord {
    /// The message that it became.
    pub message_id: MessageId,
    /// A digest of its content as logged.
    pub digest: String,
}

/// The accepted prompts; a copy shares all but what is changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PromptIdsState {
    inherited: SessionLogOffset,
    /// Oldest first.
    order: QueueSync<String>,
    records: RedBlackTreeMapSync<String, PromptRecord>,
}

impl PromptIdsState {
    /// The prompt with this request id, if it was accepted.
    pub fn get(&self, request_id: &str) -> Option<&PromptRecord> {
        self.records.get(request_id)
    }
}

/// A digest of a message's content, by its logged text.
pub fn content_digest(content: &Json) -> String {
    let digest = Sha256::digest(content.text().as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Unit for PromptIdsUnit {
    type State = PromptIdsState;
    type View = HostOnly;

    fn key(&self) -> &'static str {
        "promptIds"
    }

    fn state_version(&self) -> u64 {
        1
    }

    fn event_types(&self) -> &'static [EventType] {
        &[EventType::InboxSpliced, EventType::UserMessage]
    }

    fn init(&self, _: &SessionHeader, inherited: SessionLogOffset) -> PromptIdsState {
        PromptIdsState {
            inherited,
            order: QueueSync::new_sync(),
            records: RedBlackTreeMapSync::new_sync(),
        }
    }

    fn apply(&self, state: &PromptIdsState, event: &Event) -> Option<PromptIdsState> {
        if event.seq().offset_before() < state.inherited {
            return None;
        }
        let messages = match event.event_type() {
            EventType::InboxSpliced => event.payload::<InboxSpliced>().ok()?.inserted,
            _ => vec![event.payload::<Json>().ok()?],
        };
        let new: Vec<(String, PromptRecord)> = messages
            .iter()
            .filter_map(record)
            // The first acceptance counts: an edit in the queue keeps the id and the answer.
            .filter(|(id, _)| !state.records.contains_key(id))
            .collect();
        if new.is_empty() {
            return None;
        }
        let mut next = state.clone();
        for (id, record) in new {
            next.order.enqueue_mut(id.clone());
            next.records.insert_mut(id, record);
            if next.order.len() > REMEMBERED
                && let Some(oldest) = next.order.peek().cloned()
            {
                next.order.dequeue_mut();
                next.records.remove_mut(&oldest);
            }
        }
        Some(next)
    }

    fn view(&self, _: &PromptIdsState) -> Option<HostOnly> {
        None
    }
}

fn record(message: &Json) -> Option<(String, PromptRecord)> {
    #[derive(Deserialize)]
    struct Said {
        content: Json,
    }
    let waiting = Waiting::read(message)?;
    let (kind, rpc_id) = waiting.source();
    let request_id = rpc_id.filter(|_| kind == "user")?;
    let digest = content_digest(&message.parse::<Said>().ok()?.content);
    Some((
        request_id,
        PromptRecord {
            message_id: waiting.id,
            digest,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_ten_thousand_prompts_are_remembered_and_a_state_costs_what_it_adds() {
        let mut state = PromptIdsState {
            inherited: SessionLogOffset::ZERO,
            order: QueueSync::new_sync(),
            records: RedBlackTreeMapSync::new_sync(),
        };
        // A whole copy for every prompt would be ten thousand times ten thousand entries.
        for n in 0..=REMEMBERED {
            let text = format!(
                r#"{{"type":"user/message","seq":{n},"time":0,"data":{{"role":"user","content":[{{"type":"text","text":"{n}"}}],"source":{{"kind":"user","rpcId":"r{n}"}},"id":"m{n}"}},"surfaceOp":"append"}}"#
            );
            let event = Event::from_json(&text).unwrap();
            state = PromptIdsUnit.apply(&state, &event).unwrap();
        }
        assert!(state.get("r0").is_none());
        for n in [1, REMEMBERED] {
            let id = format!("m{n}");
            let found = state.get(&format!("r{n}")).unwrap();
            assert_eq!(found.message_id, MessageId::new(&id).unwrap());
        }
        let text = serde_json::to_string(&state).unwrap();
        let again: PromptIdsState = serde_json::from_str(&text).unwrap();
        assert_eq!(again.order, state.order);
        assert_eq!(again.get("r9"), state.get("r9"));
    }
}
