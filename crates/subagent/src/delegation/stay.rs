//! The stay of a continuable child in memory: from its first message to its rest
//! (`subagent.md` 4.10, 4.12).
//!
//! A child rests once its turn is over, nothing waits that would open another, and no child of its
//! own is at work. It is told to its parent before the child's place is given back, so that the
//! parent is still there.

use orrery_agent::SessionHandle;
use orrery_agent::actor::{Relay, Urgency};
use orrery_session::{MessageId, SessionId};

use super::notice::said;
use super::table::Slot;
use super::{Delegation, DelegationError, Established, Kind, StopReason, Task, notice};

impl Delegation {
    /// Starts a child that can be spoken to again; answers once its task is durable. From then on
    /// it works by itself.
    ///
    /// # Errors
    /// What keeps the child from being started; then there is none.
    pub async fn start(
        &self,
        parent: &SessionId,
        task: Task,
    ) -> Result<(SessionId, MessageId), DelegationError> {
        let parent = self.live_parent(parent)?;
        let _hold = self.hold(super::header_id(&parent));
        let established = self.establish(&parent, &task, Kind::Continuable).await?;
        let Established { child, slot, .. } = established;
        let id = slot.child.clone();
        match self.first_prompt(&child, &task.prompt).await {
            Ok(message) => {
                self.table.update(&id, |active| active.accepted = true);
                self.watch(child, slot, &task.provider);
                Ok((id, message))
            }
            Err(error) => {
                self.take_down(&child).await;
                Err(error)
            }
        }
    }

    /// Looks after a child until it rests.
    pub(super) fn watch(&self, child: SessionHandle, slot: Slot, provider: &str) {
        let delegation = self.clone();
        let begun = (child.live().header().parent_session.as_ref())
            .map(|parent| self.herald.begin(provider, child.id(), parent, true));
        self.parts.tasks.spawn(async move {
            delegation.until_rest(&child).await;
            child.closed().await;
            delegation.tell_parent(&child).await;
            if let Some(begun) = begun {
                let outcome = child.live().state_now().outcome.clone();
                let last = outcome.as_ref().and_then(|outcome| said(&outcome.output));
                begun.end(StopReason::of(outcome.as_deref()), last);
            }
            drop(slot);
        });
    }

    async fn until_rest(&self, child: &SessionHandle) {
        let id = child.id();
        let mut state = child.live().state();
        let mut changes = self.table.changes();
        loop {
            let rests = {
                let state = state.borrow_and_update();
                !state.running && (state.queue.is_empty() || state.parked)
            };
            changes.mark_unchanged();
            if rests && !self.table.is_held(id) {
                self.table.update(id, |active| active.settling = true);
                // Messages that came in between are behind us in the child's own line.
                if child.stop_if_idle().await.unwrap_or(true) {
                    return;
                }
                self.table.update(id, |active| active.settling = false);
            }
            tokio::select! {
                moved = state.changed() => if moved.is_err() { return },
                moved = changes.changed() => if moved.is_err() { return },
                () = child.closed() => return,
            }
        }
    }

    /// Tells the parent how a stay ended, if anything was asked in it.
    async fn tell_parent(&self, child: &SessionHandle) {
        let id = child.id();
        let Some((label, true)) = self.table.stay(id) else {
            return;
        };
        let Some(parent) = child.live().header().parent_session.clone() else {
            return;
        };
        let Some(parent) = self.parts.sessions.live(&parent) else {
            return;
        };
        let outcome = child.live().state_now().outcome.clone();
        let (content, source) = match notice::settled(id, &label, outcome.as_deref()) {
            Ok(said) => said,
            Err(error) => {
                tracing::error!(session = %id, %error, "a notice could not be written");
                return;
            }
        };
        // A person's stop holds: what ends afterwards does not start the parent again.
        let urgency = if parent.live().stopped_by_person() || self.table.is_closing(parent.id()) {
            Urgency::Quiet
        } else {
            Urgency::NextStep
        };
        let relay = Relay {
            content,
            source,
            urgency,
        };
        match parent.relay(relay).await {
            Ok(Ok(_)) => {}
            Ok(Err(refusal)) => {
                tracing::warn!(session = %id, %refusal, "a parent could not be told");
            }
            Err(_gone) => tracing::debug!(session = %id, "the parent was gone"),
        }
    }
}
