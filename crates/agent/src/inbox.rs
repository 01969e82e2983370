//! The two lists of messages that wait for the model (`session.md` 3.2).
//!
//! Every change is an `agent/inbox/spliced` event first and is applied from that event, live and on
//! replay alike. Messages are kept as the JSON they came as and reappear verbatim as
//! `user/message`.

use orrery_session::payload::{InboxSpliced, InboxTarget, SpliceOutcome, TurnEnd, TurnEndReason};
use orrery_session::{Event, EventType, Json, MessageId, SharedEvent};
use serde::{Deserialize, Serialize};

/// One message that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// The message's id.
    pub id: MessageId,
    /// The whole message, as logged.
    pub message: Json,
}

impl Waiting {
    /// Reads a message as it stands in a splice.
    pub fn read(message: &Json) -> Option<Self> {
        #[derive(Deserialize)]
        struct Named {
            id: MessageId,
        }
        let id = message.parse::<Named>().ok()?.id;
        Some(Self {
            id,
            message: message.clone(),
        })
    }

    /// The kind of its source, and the client's request id where a person sent it.
    pub fn source(&self) -> (String, Option<String>) {
        #[derive(Deserialize)]
        struct Sent {
            source: From,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct From {
            kind: String,
            #[serde(default)]
            rpc_id: Option<String>,
        }
        match self.message.parse::<Sent>() {
            Ok(sent) => (sent.source.kind, sent.source.rpc_id),
            Err(_foreign) => (String::new(), None),
        }
    }
}

/// A stored splice that does not fit the lists.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("inbox splice at seq {seq} does not fit: {why}")]
pub struct SpliceError {
    /// The event.
    pub seq: u64,
    /// What is wrong.
    pub why: &'static str,
}

/// The two lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inbox {
    next_turn: Vec<Waiting>,
    next_step: Vec<Waiting>,
}

impl Inbox {
    /// One list.
    pub fn list(&self, target: InboxTarget) -> &[Waiting] {
        match target {
            InboxTarget::NextTurn => &self.next_turn,
            InboxTarget::NextStep => &self.next_step,
        }
    }

    /// Whether nothing waits.
    pub const fn is_empty(&self) -> bool {
        self.next_turn.is_empty() && self.next_step.is_empty()
    }

    /// Where a message waits.
    pub fn find(&self, id: &MessageId) -> Option<(InboxTarget, usize)> {
        [InboxTarget::NextTurn, InboxTarget::NextStep]
            .into_iter()
            .find_map(|target| {
                self.list(target)
                    .iter()
                    .position(|w| w.id == *id)
                    .map(|at| (target, at))
            })
    }

    /// The lists after a splice, and what left them.
    pub fn splice(&self, splice: &InboxSpliced) -> Result<(Self, Vec<Waiting>), &'static str> {
        let mut next = self.clone();
        let list = match splice.target {
            InboxTarget::NextTurn => &mut next.next_turn,
            InboxTarget::NextStep => &mut next.next_step,
        };
        let start = usize::try_from(splice.start).unwrap_or(usize::MAX);
        let count = usize::try_from(splice.removed_count).unwrap_or(usize::MAX);
        let end = start.checked_add(count).filter(|end| *end <= list.len());
        let end = end.ok_or("it removes messages that are not there")?;
        let inserted: Option<Vec<Waiting>> = splice.inserted.iter().map(Waiting::read).collect();
        let inserted = inserted.ok_or("an inserted message has no id")?;
        let removed: Vec<Waiting> = list.splice(start..end, inserted).collect();
        let mut ids: Vec<&MessageId> = next
            .next_turn
            .iter()
            .chain(&next.next_step)
            .map(|w| &w.id)
            .collect();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("a message would wait twice");
        }
        Ok((next, removed))
    }

    /// The lists as the own suffix of a log left them.
    ///
    /// A message that was claimed and never reached the surface, because the Host died in between,
    /// is given back separately: it was acknowledged and must not be lost.
    pub fn replay(own_events: &[SharedEvent]) -> Result<(Self, Vec<Waiting>), SpliceError> {
        let mut inbox = Self::default();
        let mut claimed: Vec<Waiting> = Vec::new();
        for event in own_events {
            match event.event_type() {
                EventType::InboxSpliced => {
                    let refuse = |why| SpliceError {
                        seq: event.seq().get(),
                        why,
                    };
                    let splice: InboxSpliced =
                        event.payload().map_err(|_shape| refuse("malformed"))?;
                    let (next, removed) = inbox.splice(&splice).map_err(refuse)?;
                    inbox = next;
                    claimed.retain(|w| inbox.find(&w.id).is_none());
                    if splice.outcome.is_none() {
                        claimed.extend(removed);
                    }
                }
                EventType::UserMessage if !claimed.is_empty() => {
                    if let Some(id) = message_id(event) {
                        claimed.retain(|w| w.id != id);
                    }
                }
                EventType::TurnEnd if !claimed.is_empty() => {
                    let interrupted = event
                        .payload::<TurnEnd>()
                        .is_ok_and(|end| end.reason == TurnEndReason::Interrupted);
                    if !interrupted {
                        claimed.clear();
                    }
                }
                _ => {}
            }
        }
        Ok((inbox, claimed))
    }
}

fn message_id(event: &Event) -> Option<MessageId> {
    #[derive(Deserialize)]
    struct Named {
        id: MessageId,
    }
    event.payload::<Named>().ok().map(|named| named.id)
}

/// A splice that only inserts.
pub(crate) fn insertion(target: InboxTarget, start: usize, messages: Vec<Json>) -> InboxSpliced {
    InboxSpliced {
        target,
        start: start as u64,
        removed_count: 0,
        inserted: messages,
        outcome: None,
    }
}

/// A splice that takes messages for a turn: they reappear as `user/message`.
pub(crate) fn claim(target: InboxTarget, start: usize, count: usize) -> InboxSpliced {
    InboxSpliced {
        target,
        start: start as u64,
        removed_count: count as u64,
        inserted: Vec::new(),
        outcome: None,
    }
}

/// A splice that discards messages or puts others in their place.
pub(crate) fn replacement(
    target: InboxTarget,
    start: usize,
    count: usize,
    messages: Vec<Json>,
) -> InboxSpliced {
    InboxSpliced {
        outcome: Some(SpliceOutcome::Canceled),
        inserted: messages,
        ..claim(target, start, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str) -> Json {
        let text = format!(
            r#"{{"content":[],"source":{{"kind":"user","rpcId":"r-{id}"}},"role":"user","id":"{id}"}}"#
        );
        Json::from_text(&text).unwrap()
    }

    fn event(seq: u64, event_type: &str, data: &str, more: &str) -> SharedEvent {
        let text = format!(r#"{{"type":"{event_type}","seq":{seq},"time":0,"data":{data}{more}}}"#);
        SharedEvent::new(Event::from_json(&text).unwrap())
    }

    fn spliced(seq: u64, splice: &InboxSpliced) -> SharedEvent {
        event(
            seq,
            "agent/inbox/spliced",
            &serde_json::to_string(splice).unwrap(),
            "",
        )
    }

    #[test]
    fn a_message_waits_once_and_splices_must_fit() {
        let empty = Inbox::default();
        let insert = insertion(InboxTarget::NextTurn, 0, vec![message("a")]);
        let (one, _) = empty.splice(&insert).unwrap();
        assert!(
            one.splice(&insertion(InboxTarget::NextStep, 0, vec![message("a")]))
                .is_err()
        );
        assert!(one.splice(&claim(InboxTarget::NextTurn, 0, 2)).is_err());
        let (_, removed) = one.splice(&claim(InboxTarget::NextTurn, 0, 1)).unwrap();
        assert_eq!(
            removed[0].source(),
            ("user".to_owned(), Some("r-a".to_owned()))
        );
    }

    #[test]
    fn a_claimed_message_that_never_reached_the_surface_is_given_back() {
        let insert = insertion(InboxTarget::NextTurn, 0, vec![message("a"), message("b")]);
        let take = claim(InboxTarget::NextTurn, 0, 1);
        let mut events = vec![spliced(0, &insert), spliced(1, &take)];
        let (inbox, lost) = Inbox::replay(&events).unwrap();
        assert_eq!(
            (inbox.list(InboxTarget::NextTurn).len(), lost.len()),
            (1, 1)
        );
        let surfaced = event(
            2,
            "user/message",
            message("a").text(),
            r#","surfaceOp":"append""#,
        );
        events.push(surfaced);
        assert!(Inbox::replay(&events).unwrap().1.is_empty());
    }

    #[test]
    fn input_of_a_turn_that_ended_by_itself_stays_consumed() {
        let insert = insertion(InboxTarget::NextTurn, 0, vec![message("a")]);
        let end = |kind: &str| format!(r#"{{"turn":1,"reason":{{"kind":"{kind}"}}}}"#);
        let events = |kind: &str| {
            let take = spliced(1, &claim(InboxTarget::NextTurn, 0, 1));
            vec![
                spliced(0, &insert),
                take,
                event(2, "turn/end", &end(kind), ""),
            ]
        };
        assert!(Inbox::replay(&events("blocked")).unwrap().1.is_empty());
        assert_eq!(Inbox::replay(&events("interrupted")).unwrap().1.len(), 1);
    }
}
