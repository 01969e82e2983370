//! Which children are at work in this process, below whom, and who must not be put to rest.
//!
//! Plain data behind one short lock. Whoever changes it wakes those who wait for a change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use orrery_agent::SessionHandle;
use orrery_session::SessionId;
use tokio::sync::watch;

use super::DelegationError;

/// One child that is at work, or being set up, or being put to rest.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) parent: SessionId,
    /// The session on top of all children that count together.
    pub(super) root: SessionId,
    pub(super) label: String,
    pub(super) continuable: bool,
    /// Set once it is live.
    pub(super) handle: Option<SessionHandle>,
    /// Whether anything was accepted in this stay.
    pub(super) accepted: bool,
    /// It is being put to rest: what comes for it waits.
    pub(super) settling: bool,
}

#[derive(Debug, Default)]
struct Entries {
    active: BTreeMap<SessionId, Active>,
    holds: BTreeMap<SessionId, usize>,
    closing: BTreeSet<SessionId>,
    draining: bool,
}

/// The table. Copies share it.
#[derive(Debug, Clone)]
pub(super) struct Table {
    entries: Arc<Mutex<Entries>>,
    changed: watch::Sender<u64>,
}

/// A child's place in the table, given back when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    table: Table,
    pub(super) child: SessionId,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.table.lock().active.remove(&self.child);
        self.table.wake();
    }
}

/// Keeps a session from being put to rest until it is dropped.
#[derive(Debug)]
pub struct Hold {
    table: Table,
    session: SessionId,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut entries = self.table.lock();
        if let Some(count) = entries.holds.get_mut(&self.session) {
            *count -= 1;
            if *count == 0 {
                entries.holds.remove(&self.session);
            }
        }
        drop(entries);
        self.table.wake();
    }
}

/// What the table says of a child.
pub(super) enum Presence {
    /// It is not at work.
    Absent,
    /// It is being set up or put to rest.
    Passing,
    /// It is live.
    Live {
        handle: SessionHandle,
        parent: SessionId,
        continuable: bool,
    },
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            entries: Arc::default(),
            changed: watch::Sender::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// To wait for changes.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Takes a place for a child, of at most `max` below one root.
    pub(super) fn reserve(
        &self,
        child: &SessionId,
        parent: &SessionId,
        label: &str,
        continuable: bool,
        max: usize,
    ) -> Result<Slot, DelegationError> {
        let mut entries = self.lock();
        if entries.draining {
            return Err(DelegationError::Draining);
        }
        if entries.closing.contains(parent) {
            return Err(DelegationError::Cancelled);
        }
        if entries.active.contains_key(child) {
            return Err(DelegationError::DuplicateChild { id: child.clone() });
        }
        let root = entries
            .active
            .get(parent)
            .map_or_else(|| parent.clone(), |active| active.root.clone());
        let beside = entries.active.values().filter(|a| a.root == root).count();
        if beside >= max {
            return Err(DelegationError::ActivationLimitReached { max });
        }
        let active = Active {
            parent: parent.clone(),
            root,
            label: label.to_owned(),
            continuable,
            handle: None,
            accepted: false,
            settling: false,
        };
        entries.active.insert(child.clone(), active);
        drop(entries);
        self.wake();
        Ok(Slot {
            table: self.clone(),
            child: child.clone(),
        })
    }

    /// Changes what is known of a child.
    pub(super) fn update(&self, child: &SessionId, change: impl FnOnce(&mut Active)) {
        if let Some(active) = self.lock().active.get_mut(child) {
            change(active);
        }
        self.wake();
    }

    pub(super) fn presence(&self, child: &SessionId) -> Presence {
        let entries = self.lock();
        match entries.active.get(child) {
            None => Presence::Absent,
            Some(active) => match &active.handle {
                Some(handle) if !active.settling => Presence::Live {
                    handle: handle.clone(),
                    parent: active.parent.clone(),
                    continuable: active.continuable,
                },
                _ => Presence::Passing,
            },
        }
    }

    /// The label of a child at work, and whether something was accepted in this stay.
    pub(super) fn stay(&self, child: &SessionId) -> Option<(String, bool)> {
        let entries = self.lock();
        let active = entries.active.get(child)?;
        Some((active.label.clone(), active.accepted))
    }

    /// Keeps a session from being put to rest.
    pub(super) fn hold(&self, session: &SessionId) -> Hold {
        *self.lock().holds.entry(session.clone()).or_default() += 1;
        Hold {
            table: self.clone(),
            session: session.clone(),
        }
    }

    /// Whether a session has children at work, or is held otherwise.
    pub(super) fn is_held(&self, session: &SessionId) -> bool {
        let entries = self.lock();
        entries.holds.contains_key(session) || entries.active.values().any(|a| a.parent == *session)
    }

    /// Whether `ancestor` lies above a child that is at work.
    pub(super) fn is_above(&self, ancestor: &SessionId, child: &SessionId) -> bool {
        let entries = self.lock();
        let mut at = child;
        // A chain of parents in the table is finite: each child was reserved after its parent.
        for _ in 0..=entries.active.len() {
            let Some(active) = entries.active.get(at) else {
                return false;
            };
            if active.parent == *ancestor {
                return true;
            }
            at = &active.parent;
        }
        false
    }

    /// All children at work below a session, the deepest last.
    pub(super) fn below(&self, session: &SessionId) -> Vec<(SessionId, Option<SessionHandle>)> {
        let entries = self.lock();
        let mut found: Vec<(SessionId, Option<SessionHandle>)> = Vec::new();
        let mut level = vec![session.clone()];
        while let Some(parent) = level.pop() {
            let children = entries.active.iter().filter(|(id, active)| {
                active.parent == parent && !found.iter().any(|(known, _)| known == *id)
            });
            let children: Vec<_> = children
                .map(|(id, active)| (id.clone(), active.handle.clone()))
                .collect();
            level.extend(children.iter().map(|(id, _)| id.clone()));
            found.extend(children);
        }
        found
    }

    /// Marks a session as being taken down: nothing new starts below it, and it is not woken.
    pub(super) fn close(&self, session: &SessionId, closing: bool) {
        let mut entries = self.lock();
        if closing {
            entries.closing.insert(session.clone());
        } else {
            entries.closing.remove(session);
        }
    }

    pub(super) fn is_closing(&self, session: &SessionId) -> bool {
        let entries = self.lock();
        entries.draining || entries.closing.contains(session)
    }

    /// Nothing new starts any more.
    pub(super) fn drain(&self) {
        self.lock().draining = true;
        self.wake();
    }
}
