//! What the model sees: an ordered list of nodes, folded from the surface events (`session.md` 1.8).
//!
//! Two operations: append puts an event at the end, replace puts it in the place of a closed range
//! of nodes. Each event is planned first and applied afterwards, so a refused event leaves the
//! surface as it was.

use crate::event::{Event, SharedEvent, SurfaceOp};
use crate::event_type::EventType;
use crate::json::{Json, parse, same_value};
use crate::message::Message;
use crate::payload::AssistantMessage;
use crate::ranges::valid_provenance;
use crate::seq::{SessionLogOffset, SessionSeq};

/// Why an event cannot join the surface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SurfaceError {
    /// A surface type without its operation.
    #[error("event {seq}: a {event_type} needs a surfaceOp")]
    MissingOp {
        /// The event.
        seq: SessionSeq,
        /// Its type.
        event_type: String,
    },
    /// Another type with an operation or provenance.
    #[error("event {seq}: a {event_type} carries neither surfaceOp nor sourceEventSeqs")]
    UnexpectedOp {
        /// The event.
        seq: SessionSeq,
        /// Its type.
        event_type: String,
    },
    /// Provenance with duplicates, own or later seqs, or empty where that is not allowed.
    #[error("event {seq}: sourceEventSeqs must be unique, earlier than the event and not empty")]
    BadProvenance {
        /// The event.
        seq: SessionSeq,
    },
    /// A replacement of something that is not on the surface.
    #[error("event {seq}: node {node} is not on the surface")]
    NotANode {
        /// The event.
        seq: SessionSeq,
        /// What it names.
        node: SessionSeq,
    },
    /// A replacement whose start lies behind its end.
    #[error("event {seq}: the replaced range starts behind its end")]
    Inverted {
        /// The event.
        seq: SessionSeq,
    },
    /// A replacement that does not cite everything it shadows.
    #[error("event {seq}: the shadowed node {node} is not cited")]
    Uncited {
        /// The event.
        seq: SessionSeq,
        /// What is missing.
        node: SessionSeq,
    },
    /// A tool result that replaces more than the content of exactly one tool result.
    #[error("event {seq}: a replacing tool/result may change the content of one tool/result only")]
    NotTheSameResult {
        /// The event.
        seq: SessionSeq,
    },
    /// A replacement that reaches before the loaded part of the log.
    #[error("event {seq}: the replaced range reaches before the loaded window")]
    BeforeWindow {
        /// The event.
        seq: SessionSeq,
    },
}

/// The current surface.
#[derive(Debug, Clone, Default)]
pub struct Surface {
    nodes: Vec<SharedEvent>,
    replace_generation: u64,
    base: SessionLogOffset,
}

/// What one event does to the surface, checked and not yet done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurfacePlan(Change);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Nothing,
    Append,
    Replace { first: usize, last: usize },
}

impl Surface {
    /// The surface of a log whose events before `base` are not at hand.
    pub fn starting_at(base: SessionLogOffset) -> Self {
        Self {
            base,
            ..Self::default()
        }
    }

    /// Folds whole events, stopping at the first that is refused.
    pub fn fold<'a>(
        events: impl IntoIterator<Item = &'a SharedEvent>,
    ) -> Result<Self, SurfaceError> {
        let mut surface = Self::default();
        for event in events {
            let plan = surface.plan(event)?;
            surface.apply(plan, event);
        }
        Ok(surface)
    }

    /// The nodes in order.
    pub fn nodes(&self) -> &[SharedEvent] {
        &self.nodes
    }

    /// How many replacements there were: when it moves, earlier requests are no longer prefixes.
    pub const fn replace_generation(&self) -> u64 {
        self.replace_generation
    }

    /// Checks an event against the surface, changing nothing.
    pub fn plan(&self, event: &Event) -> Result<SurfacePlan, SurfaceError> {
        let seq = event.seq();
        let event_type = event.event_type();
        if !event_type.is_surface() {
            if event.surface_op().is_some() || event.source_event_seqs().is_some() {
                let event_type = event_type.to_string();
                return Err(SurfaceError::UnexpectedOp { seq, event_type });
            }
            return Ok(SurfacePlan(Change::Nothing));
        }
        if let Some(sources) = event.source_event_seqs() {
            let may_be_empty = *event_type == EventType::AssistantMessage;
            if !valid_provenance(sources, seq) || (sources.is_empty() && !may_be_empty) {
                return Err(SurfaceError::BadProvenance { seq });
            }
        }
        match event.surface_op() {
            None => Err(SurfaceError::MissingOp {
                seq,
                event_type: event_type.to_string(),
            }),
            Some(SurfaceOp::Append) => Ok(SurfacePlan(Change::Append)),
            Some(SurfaceOp::Replace { start, end }) => self.plan_replace(event, start, end),
        }
    }

    fn plan_replace(
        &self,
        event: &Event,
        start: SessionSeq,
        end: SessionSeq,
    ) -> Result<SurfacePlan, SurfaceError> {
        let seq = event.seq();
        let position = |node: SessionSeq| {
            self.nodes.iter().rposition(|n| n.seq() == node).ok_or(
                if node.offset_after() <= self.base {
                    SurfaceError::BeforeWindow { seq }
                } else {
                    SurfaceError::NotANode { seq, node }
                },
            )
        };
        let (first, last) = (position(start)?, position(end)?);
        if first > last {
            return Err(SurfaceError::Inverted { seq });
        }
        let cited: std::collections::BTreeSet<SessionSeq> = event
            .source_event_seqs()
            .unwrap_or_default()
            .iter()
            .copied()
            .collect();
        let shadowed = &self.nodes[first..=last];
        if let Some(node) = shadowed.iter().find(|n| !cited.contains(&n.seq())) {
            return Err(SurfaceError::Uncited {
                seq,
                node: node.seq(),
            });
        }
        if *event.event_type() == EventType::ToolResult {
            let same = match shadowed {
                [old] => differs_in_content_only(old, event),
                _ => false,
            };
            if !same {
                return Err(SurfaceError::NotTheSameResult { seq });
            }
        }
        Ok(SurfacePlan(Change::Replace { first, last }))
    }

    /// Does what was planned for this very event on this very surface.
    pub fn apply(&mut self, plan: SurfacePlan, event: &SharedEvent) {
        match plan.0 {
            Change::Nothing => {}
            Change::Append => self.nodes.push(SharedEvent::clone(event)),
            Change::Replace { first, last } => {
                self.nodes.splice(first..=last, [SharedEvent::clone(event)]);
                self.replace_generation += 1;
            }
        }
    }

    /// The messages that the model reads, oldest first (`session.md` 1.9).
    ///
    /// An assistant message with empty content stays a node and derives no message. A node whose
    /// message cannot be read is left out; construction has refused such events already.
    pub fn messages(&self) -> Vec<Message> {
        self.nodes
            .iter()
            .filter_map(|event| message_of(event))
            .collect()
    }
}

/// The message that a surface event contributes, if any.
pub fn message_of(event: &Event) -> Option<Message> {
    #[derive(serde::Deserialize)]
    struct Carried {
        message: Message,
    }
    match event.event_type() {
        EventType::UserMessage => event.payload::<Message>().ok(),
        EventType::AssistantMessage => event
            .payload::<AssistantMessage>()
            .ok()
            .map(|payload| payload.message)
            .filter(|message| !message.content.is_empty()),
        EventType::ToolResult => event
            .payload::<Carried>()
            .ok()
            .map(|payload| payload.message),
        _ => None,
    }
}

/// Whether two tool results are equal once the inner block's `content` is taken away.
fn differs_in_content_only(old: &Event, new: &Event) -> bool {
    if *old.event_type() != EventType::ToolResult {
        return false;
    }
    match (without_content(old.data()), without_content(new.data())) {
        (Some(old), Some(new)) => same_value(old.text(), new.text()),
        _ => false,
    }
}

fn without_content(data: &str) -> Option<Json> {
    let mut value: serde_json::Value = parse(data).ok()?;
    let block = value.get_mut("message")?.get_mut("content")?.get_mut(0)?;
    block.as_object_mut()?.remove("content");
    Json::from_value(&value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{event, result_event};

    fn fold(lines: &[&str]) -> Result<Vec<u64>, SurfaceError> {
        let events: Vec<SharedEvent> = lines.iter().map(|line| event(line)).collect();
        Surface::fold(&events).map(|s| s.nodes().iter().map(|n| n.seq().get()).collect())
    }

    fn user(seq: u64, rest: &str) -> String {
        format!(
            r#"{{"type":"user/message","seq":{seq},"time":0,"data":{{"role":"user","content":[],"source":{{"kind":"user"}},"id":"m{seq}"}},{rest}}}"#
        )
    }

    #[test]
    fn a_replacement_takes_the_place_of_the_range_it_cites() {
        let a = user(0, r#""surfaceOp":"append""#);
        let b = user(1, r#""surfaceOp":"append""#);
        let c = user(2, r#""surfaceOp":"append""#);
        let r = user(
            3,
            r#""sourceEventSeqs":[0,1],"surfaceOp":{"op":"replace","start":0,"end":1}"#,
        );
        assert_eq!(fold(&[&a, &b, &c, &r]), Ok(vec![3, 2]));
        let single = user(
            3,
            r#""sourceEventSeqs":[1],"surfaceOp":{"op":"replace","start":1,"end":1}"#,
        );
        assert_eq!(fold(&[&a, &b, &c, &single]), Ok(vec![0, 3, 2]));
        // Numerically rising, but behind in surface order: 3 stands before 2 now.
        let behind = user(
            4,
            r#""sourceEventSeqs":[2,3],"surfaceOp":{"op":"replace","start":2,"end":3}"#,
        );
        assert!(matches!(
            fold(&[&a, &b, &c, &r, &behind]),
            Err(SurfaceError::Inverted { .. })
        ));
    }

    #[test]
    fn a_replacement_must_cite_all_that_it_shadows_and_name_present_nodes() {
        let a = user(0, r#""surfaceOp":"append""#);
        let b = user(1, r#""surfaceOp":"append""#);
        let uncited = user(
            2,
            r#""sourceEventSeqs":[0],"surfaceOp":{"op":"replace","start":0,"end":1}"#,
        );
        assert!(matches!(
            fold(&[&a, &b, &uncited]),
            Err(SurfaceError::Uncited { .. })
        ));
        let gone = user(
            2,
            r#""sourceEventSeqs":[0],"surfaceOp":{"op":"replace","start":0,"end":0}"#,
        );
        let again = user(
            3,
            r#""sourceEventSeqs":[0],"surfaceOp":{"op":"replace","start":0,"end":0}"#,
        );
        assert!(matches!(
            fold(&[&a, &b, &gone, &again]),
            Err(SurfaceError::NotANode { .. })
        ));
    }

    #[test]
    fn empty_provenance_is_for_assistant_messages_only() {
        let empty = user(0, r#""sourceEventSeqs":[],"surfaceOp":"append""#);
        assert!(matches!(
            fold(&[&empty]),
            Err(SurfaceError::BadProvenance { .. })
        ));
        let duplicate = user(2, r#""sourceEventSeqs":[1,1],"surfaceOp":"append""#);
        let own = user(2, r#""sourceEventSeqs":[2],"surfaceOp":"append""#);
        for bad in [duplicate, own] {
            let plan = Surface::default().plan(&event(&bad));
            assert!(matches!(plan, Err(SurfaceError::BadProvenance { .. })));
        }
    }

    #[test]
    fn a_replacing_tool_result_changes_content_only() {
        let a = result_event(0, "c1", "long text", "", r#""surfaceOp":"append""#);
        let replace = r#""sourceEventSeqs":[0],"surfaceOp":{"op":"replace","start":0,"end":0}"#;
        let pruned = result_event(1, "c1", "short", "", replace);
        assert_eq!(fold(&[&a, &pruned]), Ok(vec![1]));
        let other_call = result_event(1, "c2", "short", "", replace);
        let with_meta = result_event(1, "c1", "short", r#","meta":{"a":[1]}"#, replace);
        for bad in [other_call, with_meta] {
            assert!(matches!(
                fold(&[&a, &bad]),
                Err(SurfaceError::NotTheSameResult { .. })
            ));
        }
    }

    #[test]
    fn a_replacement_across_the_head_of_a_window_fails() {
        let surface = Surface::starting_at(SessionLogOffset::of_len(5));
        let replace = user(
            7,
            r#""sourceEventSeqs":[2],"surfaceOp":{"op":"replace","start":2,"end":2}"#,
        );
        let plan = surface.plan(&event(&replace));
        assert!(matches!(plan, Err(SurfaceError::BeforeWindow { .. })));
    }
}
