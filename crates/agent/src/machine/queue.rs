//! Changes of the queue by a person (`controller.md` 1.13, decision D23).

use orrery_session::payload::{InboxSpliced, InboxTarget};
use orrery_session::{Json, MessageId, Timestamp};

use super::Machine;
use crate::inbox::{Waiting, claim, insertion, replacement};

/// What to do with a waiting message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueAction {
    /// Give it this content; id and source stay.
    Edit(Json),
    /// Discard it.
    Remove,
    /// Let it join the running turn at its next step.
    Steer,
    /// Put it before another one, or at the end.
    Move {
        /// The message before which it goes.
        before: Option<MessageId>,
    },
}

/// Why the queue stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueueRefusal {
    /// The message does not wait (any more).
    #[error("the message does not wait in the queue any more")]
    NotFound,
    /// No step will come that it could join.
    #[error("no running turn can take the message; it stays in the queue")]
    SteerUnavailable,
    /// Its content cannot be edited as text.
    #[error("only text messages can be edited")]
    NotText,
}

impl Machine {
    pub(super) fn change_queue(
        &mut self,
        item: &MessageId,
        action: QueueAction,
        now: Timestamp,
    ) -> Result<(), QueueRefusal> {
        let (target, at) = self.inbox.find(item).ok_or(QueueRefusal::NotFound)?;
        let message = self.inbox.list(target)[at].message.clone();
        match action {
            QueueAction::Remove => self.splice(&replacement(target, at, 1, vec![]), now),
            QueueAction::Edit(content) => {
                let edited = with_content(&message, &content).ok_or(QueueRefusal::NotText)?;
                self.splice(&replacement(target, at, 1, vec![edited]), now);
            }
            QueueAction::Steer => self.steer(target, at, message, now)?,
            QueueAction::Move { before } => {
                if let Some(splice) = self.reordered(target, at, before.as_ref())? {
                    self.splice(&splice, now);
                }
            }
        }
        Ok(())
    }

    fn steer(
        &mut self,
        target: InboxTarget,
        at: usize,
        message: Json,
        now: Timestamp,
    ) -> Result<(), QueueRefusal> {
        if target == InboxTarget::NextStep {
            return Ok(());
        }
        if self.phase.turn().is_none_or(|turn| turn.aborting.is_some()) {
            return Err(QueueRefusal::SteerUnavailable);
        }
        // A removal without an outcome: should a crash fall between the two events, the replay
        // finds a claimed message that never surfaced and lets it wait again.
        self.splice(&claim(target, at, 1), now);
        let end = self.inbox.list(InboxTarget::NextStep).len();
        self.splice(&insertion(InboxTarget::NextStep, end, vec![message]), now);
        Ok(())
    }

    /// One splice that puts the range between both places into its new order.
    fn reordered(
        &self,
        target: InboxTarget,
        at: usize,
        before: Option<&MessageId>,
    ) -> Result<Option<InboxSpliced>, QueueRefusal> {
        let list = self.inbox.list(target);
        let to = match before {
            None => list.len(),
            Some(id) => list
                .iter()
                .position(|w| w.id == *id)
                .ok_or(QueueRefusal::NotFound)?,
        };
        if to == at || to == at + 1 {
            return Ok(None);
        }
        let mut messages: Vec<Json> = list.iter().map(|w: &Waiting| w.message.clone()).collect();
        let moved = messages.remove(at);
        let place = if to > at { to - 1 } else { to };
        messages.insert(place, moved);
        let (first, last) = (at.min(place), at.max(place));
        let range = messages[first..=last].to_vec();
        Ok(Some(replacement(target, first, range.len(), range)))
    }
}

/// The message with other content, everything else verbatim.
fn with_content(message: &Json, content: &Json) -> Option<Json> {
    use std::collections::BTreeMap;
    let mut fields: BTreeMap<String, Json> = message.parse().ok()?;
    fields.insert("content".to_owned(), content.clone());
    Json::from_value(&fields).ok()
}
