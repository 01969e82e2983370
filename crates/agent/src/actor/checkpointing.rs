//! The actor's checkpoints: taken between two events, handed to the keeper.

use std::sync::Arc;

use orrery_projection::checkpoint::{CheckpointIdentity, CheckpointRecord};
use orrery_session::SharedEvent;

use super::Actor;
use crate::checkpoints::{Kept, Trigger};

impl Actor {
    /// Counts events that were committed, and takes a checkpoint where one is due.
    pub(super) fn pace_checkpoints(&mut self, events: &[SharedEvent]) {
        if let Some(trigger) = self.pace.note(events) {
            self.checkpoint(trigger);
        }
    }

    /// Takes a checkpoint and hands it over.
    pub(super) fn checkpoint(&mut self, trigger: Trigger) {
        self.pace.taken();
        let Some(keeper) = &self.deps.checkpoints.keeper else {
            return;
        };
        let log = self.machine.log();
        let rows = match self.machine.cells().checkpoint() {
            Ok(rows) => rows,
            Err(error) => {
                tracing::error!(session = %self.id(), %error, "no checkpoint can be taken");
                return;
            }
        };
        keeper.keep(Kept {
            id: self.id(),
            record: CheckpointRecord {
                identity: CheckpointIdentity::of(log.header(), log.inherited_event_count()),
                revision: None,
                anchor: None,
                rows,
            },
            trigger,
            log: (trigger != Trigger::Detach).then(|| Arc::clone(&self.writer)),
        });
    }
}

/// Waits until a moment; for ever without one.
pub(super) async fn at(due: Option<tokio::time::Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
