//! The events of one session: where each stands with the model, windows of them, and what replaced
//! what (`subagent.md` 3.2 and 3.3).

use std::collections::{BTreeMap, HashSet};

use orrery_session::surface::{Surface, SurfaceError};
use orrery_session::{
    EventType, SessionHeader, SessionId, SessionLogOffset, SessionSeq, SessionSeqCursor,
    SharedEvent, SurfaceOp, Timestamp,
};
use tokio_util::sync::CancellationToken;

use super::filter::EventFilter;
use super::{Corpus, Projections, WholeSession, still_wanted};
use crate::error::QueryError;
use crate::search::Standing;
use crate::search::text::text_of;

/// The most events before and after one that is read.
pub const MAX_WINDOW: usize = 50;

/// An event without what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    /// The session.
    pub session: SessionId,
    /// The event.
    pub seq: SessionSeq,
    /// Its type.
    pub event_type: EventType,
    /// When it happened.
    pub time: Timestamp,
    /// Where it stands with the model.
    pub standing: Standing,
}

/// What the model sees of a session.
#[derive(Debug, Clone)]
pub struct CurrentSurface {
    /// The header.
    pub header: SessionHeader,
    /// The last event that was looked at; -1 of an empty log.
    pub captured_through: SessionSeqCursor,
    /// The events, in the order in which the model sees them.
    pub events: Vec<SharedEvent>,
}

/// An event and its neighbours.
#[derive(Debug, Clone)]
pub struct EventWindow {
    /// The header.
    pub header: SessionHeader,
    /// The event that was asked for.
    pub target: SharedEvent,
    /// The events of the window, the target among them.
    pub events: Vec<SharedEvent>,
}

/// An event among those that it came from and that came from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventTrace {
    /// The event.
    pub target: EventRecord,
    /// What took its place.
    pub replaced_by: Option<SessionSeq>,
    /// What took that one's place, and so on to the end.
    pub replacement_chain: Vec<SessionSeq>,
    /// What it took the place of.
    pub replaced: Vec<SessionSeq>,
    /// What it cites.
    pub sources: Vec<SessionSeq>,
    /// What cites it.
    pub derived: Vec<SessionSeq>,
}

impl Corpus {
    /// All events of a session, in order.
    ///
    /// # Errors
    /// `INVALID_SURFACE`, and those of [`Corpus::observe`].
    pub async fn list_events(
        &self,
        id: &SessionId,
        signal: &CancellationToken,
    ) -> Result<Vec<EventRecord>, QueryError> {
        self.filter_events(id, &[], signal).await
    }

    /// The events that pass all filters, in order.
    ///
    /// # Errors
    /// `INVALID_FILTER`, and those of [`Corpus::list_events`].
    pub async fn filter_events(
        &self,
        id: &SessionId,
        filters: &[EventFilter],
        signal: &CancellationToken,
    ) -> Result<Vec<EventRecord>, QueryError> {
        for filter in filters {
            filter.check()?;
        }
        let whole = self.read_session(id, signal).await?;
        let current: HashSet<SessionSeq> = surface_of(&whole)?
            .nodes()
            .iter()
            .map(|node| node.seq())
            .collect();
        let records = whole.events.iter().map(|event| {
            let record = EventRecord {
                session: id.clone(),
                seq: event.seq(),
                event_type: event.event_type().clone(),
                time: event.time(),
                standing: standing(event, &current),
            };
            (record, event)
        });
        let passing = records.filter(|(record, event)| {
            filters
                .iter()
                .all(|filter| filter.passes(record, || text_of(event)))
        });
        Ok(passing.map(|(record, _)| record).collect())
    }

    /// What the model sees of a session.
    ///
    /// # Errors
    /// `INVALID_SURFACE`, and those of [`Corpus::observe`].
    pub async fn read_surface(
        &self,
        id: &SessionId,
        signal: &CancellationToken,
    ) -> Result<CurrentSurface, QueryError> {
        let whole = self.read_session(id, signal).await?;
        let events = surface_of(&whole)?.nodes().to_vec();
        Ok(CurrentSurface {
            captured_through: SessionLogOffset::of_len(whole.events.len()).cursor(),
            header: whole.header,
            events,
        })
    }

    /// One event and its neighbours; the window ends where the log does.
    ///
    /// # Errors
    /// `INVALID_WINDOW`, `EVENT_NOT_FOUND`, and those of [`Corpus::observe`].
    pub async fn read_event(
        &self,
        id: &SessionId,
        seq: SessionSeq,
        (before, after): (usize, usize),
        signal: &CancellationToken,
    ) -> Result<EventWindow, QueryError> {
        let asked = before.max(after);
        if asked > MAX_WINDOW {
            let max = MAX_WINDOW;
            return Err(QueryError::InvalidWindow { max, asked });
        }
        let lease = self.observe(id, Projections::None, signal).await?;
        let missing = || QueryError::EventNotFound {
            id: id.clone(),
            seq,
        };
        if seq.offset_after() > lease.end() {
            return Err(missing());
        }
        let first = seq.offset_before().index().saturating_sub(before);
        let window = SessionLogOffset::of_len(first)..seq.offset_after().advance(after);
        let events = lease.events(window).await?;
        still_wanted(signal)?;
        let target = events.iter().find(|event| event.seq() == seq);
        Ok(EventWindow {
            target: target.cloned().ok_or_else(missing)?,
            header: lease.header().clone(),
            events,
        })
    }

    /// An event among those that it came from and that came from it.
    ///
    /// # Errors
    /// `EVENT_NOT_FOUND`, `INVALID_SURFACE`, and those of [`Corpus::observe`].
    pub async fn trace_event(
        &self,
        id: &SessionId,
        seq: SessionSeq,
        signal: &CancellationToken,
    ) -> Result<EventTrace, QueryError> {
        let whole = self.read_session(id, signal).await?;
        let missing = || QueryError::EventNotFound {
            id: id.clone(),
            seq,
        };
        // Before any look at the surface: a seq that is not there is no fault of the log's.
        let target = whole.events.get(seq.offset_before().index());
        let target = target.ok_or_else(missing)?;
        let replaced = replacements(&whole)?;
        let mut by: BTreeMap<SessionSeq, SessionSeq> = BTreeMap::new();
        for (replacer, nodes) in &replaced {
            by.extend(nodes.iter().map(|node| (*node, *replacer)));
        }
        // A replacer is later than what it replaces, so the chain ends.
        let chain: Vec<SessionSeq> =
            std::iter::successors(by.get(&seq), |replacer| by.get(*replacer))
                .copied()
                .collect();
        let current: HashSet<SessionSeq> = surface_of(&whole)?
            .nodes()
            .iter()
            .map(|node| node.seq())
            .collect();
        let cites = |event: &&SharedEvent| {
            let sources = event.source_event_seqs().unwrap_or_default();
            sources.contains(&seq)
        };
        Ok(EventTrace {
            target: EventRecord {
                session: id.clone(),
                seq,
                event_type: target.event_type().clone(),
                time: target.time(),
                standing: standing(target, &current),
            },
            replaced_by: chain.first().copied(),
            replacement_chain: chain,
            replaced: replaced.get(&seq).cloned().unwrap_or_default(),
            sources: target.source_event_seqs().unwrap_or_default().to_vec(),
            derived: whole.events.iter().filter(cites).map(|e| e.seq()).collect(),
        })
    }
}

fn standing(event: &SharedEvent, current: &HashSet<SessionSeq>) -> Standing {
    if !event.event_type().is_surface() {
        Standing::LogOnly
    } else if current.contains(&event.seq()) {
        Standing::Current
    } else {
        Standing::Shadowed
    }
}

fn invalid(session: &WholeSession, error: &SurfaceError) -> QueryError {
    QueryError::InvalidSurface {
        id: session.header.id.clone(),
        why: error.to_string(),
    }
}

fn surface_of(session: &WholeSession) -> Result<Surface, QueryError> {
    Surface::fold(&session.events).map_err(|error| invalid(session, &error))
}

/// What each replacing event took the place of, in the order of the surface.
fn replacements(
    session: &WholeSession,
) -> Result<BTreeMap<SessionSeq, Vec<SessionSeq>>, QueryError> {
    let mut surface = Surface::default();
    let mut replaced = BTreeMap::new();
    for event in &session.events {
        let plan = surface
            .plan(event)
            .map_err(|error| invalid(session, &error))?;
        if let Some(SurfaceOp::Replace { start, end }) = event.surface_op() {
            let nodes = surface.nodes();
            let at = |seq| nodes.iter().position(|node| node.seq() == seq);
            if let (Some(first), Some(last)) = (at(start), at(end)) {
                let taken = nodes.get(first..=last).unwrap_or_default();
                let seqs: Vec<SessionSeq> = taken.iter().map(|node| node.seq()).collect();
                replaced.insert(event.seq(), seqs);
            }
        }
        surface.apply(plan, event);
    }
    Ok(replaced)
}
