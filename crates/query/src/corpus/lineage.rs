//! Who descends from whom (`subagent.md` 3.3). Deep chains are walked, never recursed into.

use std::collections::{BTreeMap, HashSet};

use orrery_session::SessionId;
use tokio_util::sync::CancellationToken;

use super::{Corpus, SessionRecord};
use crate::error::QueryError;

/// A descendant, with its place in the forest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descendant {
    /// The session.
    pub record: SessionRecord,
    /// 1 for a child, 2 for a grandchild, and so on.
    pub depth: usize,
}

/// A session among its relatives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionTrace {
    /// The session that was asked for.
    pub target: SessionRecord,
    /// Its ancestors, the parent first.
    pub ancestors: Vec<SessionRecord>,
    /// Its descendants: each behind its parent, siblings by age and then by id.
    pub descendants: Vec<Descendant>,
    /// A parent that is named and not there. Without one the last ancestor, or the target itself, is
    /// the root.
    pub unresolved_parent: Option<SessionId>,
}

impl Corpus {
    /// A session among its relatives.
    ///
    /// # Errors
    /// `SESSION_NOT_FOUND`, and `INVALID_LINEAGE` when a session is its own ancestor.
    pub async fn trace_session(
        &self,
        id: &SessionId,
        signal: &CancellationToken,
    ) -> Result<SessionTrace, QueryError> {
        trace(&self.records(signal).await?, id)
    }
}

pub(super) fn trace(
    records: &BTreeMap<SessionId, SessionRecord>,
    id: &SessionId,
) -> Result<SessionTrace, QueryError> {
    let missing = || QueryError::NotFound { id: id.clone() };
    let target = records.get(id).ok_or_else(missing)?.clone();
    let mut ancestors = Vec::new();
    let mut unresolved_parent = None;
    let mut seen = HashSet::from([id.clone()]);
    let mut above = target.header.parent_session.clone();
    while let Some(parent) = above {
        if !seen.insert(parent.clone()) {
            return Err(QueryError::InvalidLineage { id: parent });
        }
        let Some(record) = records.get(&parent) else {
            unresolved_parent = Some(parent);
            break;
        };
        above = record.header.parent_session.clone();
        ancestors.push(record.clone());
    }
    let mut children: BTreeMap<&SessionId, Vec<&SessionRecord>> = BTreeMap::new();
    for record in records.values() {
        if let Some(parent) = &record.header.parent_session {
            children.entry(parent).or_default().push(record);
        }
    }
    for siblings in children.values_mut() {
        // The last is taken off the stack first.
        siblings.sort_by(|a, b| {
            let youngest = b.header.created_at.cmp(&a.header.created_at);
            youngest.then_with(|| b.header.id.cmp(&a.header.id))
        });
    }
    let below = |id: &SessionId, depth: usize| {
        let of = children.get(id).into_iter().flatten();
        of.map(move |record| (*record, depth)).collect::<Vec<_>>()
    };
    let mut descendants = Vec::new();
    let mut stack = below(id, 1);
    while let Some((record, depth)) = stack.pop() {
        stack.extend(below(&record.header.id, depth + 1));
        descendants.push(Descendant {
            record: record.clone(),
            depth,
        });
    }
    Ok(SessionTrace {
        target,
        ancestors,
        descendants,
        unresolved_parent,
    })
}
