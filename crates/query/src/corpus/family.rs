//! Who descends from whom, as one look at the corpus saw it: what the list of subagents is made of
//! (`subagent.md` 5.2, decision D16). Asking for the children of one session costs what they are,
//! not what the corpus is.

use std::collections::BTreeMap;
use std::sync::Arc;

use orrery_session::{Origin, SessionHeader, SessionId};
use orrery_storage::Catalogue;
use tokio_util::sync::CancellationToken;

use super::{Corpus, still_wanted};
use crate::error::QueryError;
use crate::live::{LiveLog, LiveSessions};

/// A session whose parent asks for it.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its header; of a live session the live one (decision D13).
    pub header: SessionHeader,
    /// Its log, while it is live.
    pub live: Option<Arc<dyn LiveLog>>,
}

/// All sessions by their parents, at one moment.
#[derive(Debug)]
pub struct Family {
    catalogue: Arc<Catalogue>,
    live: BTreeMap<SessionId, Arc<dyn LiveLog>>,
    /// The live ones by their parents.
    of_parent: BTreeMap<SessionId, Vec<SessionId>>,
}

impl Family {
    fn new(catalogue: Arc<Catalogue>, logs: Vec<Arc<dyn LiveLog>>) -> Self {
        let mut live = BTreeMap::new();
        let mut of_parent: BTreeMap<SessionId, Vec<SessionId>> = BTreeMap::new();
        for log in logs {
            let id = log.header().id.clone();
            if let Some(parent) = &log.header().parent_session {
                of_parent
                    .entry(parent.clone())
                    .or_default()
                    .push(id.clone());
            }
            live.insert(id, log);
        }
        Self {
            catalogue,
            live,
            of_parent,
        }
    }

    /// Whether there is such a session, live or on disk.
    pub fn knows(&self, id: &SessionId) -> bool {
        self.live.contains_key(id) || self.catalogue.get(id).is_some()
    }

    /// The sessions that name `parent` as their parent, forks too: by `createdAt`, then by the bytes
    /// of the id (decision D15).
    pub fn children(&self, parent: &SessionId) -> Vec<Member> {
        let mut members: Vec<Member> = self
            .stored(parent)
            .map(|header| Member {
                header: header.clone(),
                live: None,
            })
            .collect();
        let live = self.live_of(parent);
        members.extend(live.map(|log| Member {
            header: log.header().clone(),
            live: Some(Arc::clone(log)),
        }));
        members.sort_by(|a, b| {
            let oldest = a.header.created_at.cmp(&b.header.created_at);
            oldest.then_with(|| a.header.id.cmp(&b.header.id))
        });
        members
    }

    /// Whether `parent` delegated to anybody. No log is read for it.
    pub fn has_subagents(&self, parent: &SessionId) -> bool {
        let delegated = |header: &SessionHeader| header.origin == Some(Origin::Subagent);
        self.stored(parent).any(delegated)
            || self.live_of(parent).any(|log| delegated(log.header()))
    }

    /// The children that only lie on disk.
    fn stored<'a>(&'a self, parent: &SessionId) -> impl Iterator<Item = &'a SessionHeader> {
        let entries = self.catalogue.children(parent);
        let cold = entries.filter(|entry| !self.live.contains_key(&entry.header.id));
        cold.map(|entry| &entry.header)
    }

    fn live_of<'a>(
        &'a self,
        parent: &SessionId,
    ) -> impl Iterator<Item = &'a Arc<dyn LiveLog>> + use<'a> {
        let ids = self.of_parent.get(parent).map_or(&[][..], Vec::as_slice);
        ids.iter().filter_map(|id| self.live.get(id))
    }
}

impl Corpus {
    /// Who descends from whom; `sessions` says who is live. What other processes did may be missing
    /// for as long as storage believes a look ([`Store::recent_catalogue`]).
    ///
    /// [`Store::recent_catalogue`]: orrery_storage::Store::recent_catalogue
    ///
    /// # Errors
    /// `PERSISTENCE_FAILED` when the sessions root cannot be read, `ABORTED`.
    pub async fn family(
        &self,
        sessions: &dyn LiveSessions,
        signal: &CancellationToken,
    ) -> Result<Family, QueryError> {
        still_wanted(signal)?;
        // Before the logs on disk: who goes to sleep in between is on disk by then, and is missed
        // by neither look.
        let live = sessions.all();
        let catalogue = self.store.recent_catalogue().await;
        still_wanted(signal)?;
        Ok(Family::new(catalogue.map_err(QueryError::Storage)?, live))
    }
}
