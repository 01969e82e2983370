//! The order of a whole tree: parents before their children, siblings by age (`subagent.md` 5.6).

use std::collections::HashSet;

use orrery_query::corpus::family::{Family, Member};
use orrery_session::{Origin, SessionId};

/// Where a session stands in the tree.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) parent: SessionId,
    pub(super) depth: u32,
}

/// All subagents below `root`. Ordinary sessions are walked through and are no rows; circles are
/// walked once.
pub(super) fn below(family: &Family, root: &SessionId) -> Vec<(Place, Member)> {
    let mut seen = HashSet::from([root.clone()]);
    let mut found = Vec::new();
    let mut waiting = Vec::new();
    let children = |parent: &SessionId, depth: u32, waiting: &mut Vec<(Place, Member)>| {
        let members = family.children(parent).into_iter().rev();
        waiting.extend(members.map(|member| {
            let parent = parent.clone();
            (Place { parent, depth }, member)
        }));
    };
    children(root, 1, &mut waiting);
    while let Some((place, member)) = waiting.pop() {
        let id = member.header.id.clone();
        if !seen.insert(id.clone()) {
            continue;
        }
        children(&id, place.depth.saturating_add(1), &mut waiting);
        if member.header.origin == Some(Origin::Subagent) {
            found.push((place, member));
        }
    }
    found
}
