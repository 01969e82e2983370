//! The three rungs, for one list.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::StreamExt as _;
use orrery_projection::checkpoint::{CheckpointIdentity, CheckpointStore};
use orrery_projection::{Registry, Snapshot, Unit as _};
use orrery_query::corpus::Projections;
use orrery_query::corpus::family::{Family, Member};
use orrery_query::{Corpus, LiveLog, LiveSessions, QueryError};
use orrery_session::{SessionHeader, SessionId, SessionLogOffset};
use tokio_util::sync::CancellationToken;

use super::{Activity, ChildRow, Counters, ListError, Reason, Row};
use crate::units::{Identity, SubagentUnit};

/// The unit that says who a subagent is.
const KEY: &str = "subagent";

#[derive(Debug)]
pub(super) struct Ladder<'a> {
    pub(super) registry: &'a Registry,
    pub(super) sessions: &'a dyn LiveSessions,
    pub(super) corpus: &'a Corpus,
    pub(super) checkpoints: Option<&'a Arc<dyn CheckpointStore>>,
    pub(super) cold_reads: NonZeroUsize,
    pub(super) counters: &'a Counters,
    pub(super) signal: &'a CancellationToken,
}

impl Ladder<'_> {
    /// One look at all sessions, for the whole list.
    pub(super) async fn family(&self) -> Result<Family, ListError> {
        let family = self.corpus.family(self.sessions, self.signal).await;
        self.wanted()?;
        family.map_err(ListError::Enumeration)
    }

    /// A row for each candidate, in their order; none for a child that has not said yet who it is.
    pub(super) async fn rows(
        &self,
        family: &Family,
        candidates: Vec<Member>,
    ) -> Result<Vec<Option<Row>>, ListError> {
        let known = self.kept(&candidates).await;
        let known = &known;
        let rows: Vec<Result<Option<Row>, ListError>> = futures_util::stream::iter(candidates)
            .map(|member| async move {
                let SessionHeader { id, .. } = &member.header;
                let judged = match (&member.live, known.get(id)) {
                    (Some(log), _) => {
                        self.counters.from_live.fetch_add(1, Ordering::Relaxed);
                        live(log.as_ref())
                    }
                    (None, Some(identity)) => Judged::Is(identity.clone()),
                    (None, None) => self.observed(&member.header).await?,
                };
                Ok(judged.row(&member, family))
            })
            // In the order of the candidates; what was started when the list is taken back is
            // waited for here.
            .buffered(self.cold_reads.get())
            .collect()
            .await;
        self.wanted()?;
        rows.into_iter().collect()
    }

    fn wanted(&self) -> Result<(), ListError> {
        if self.signal.is_cancelled() {
            Err(ListError::Cancelled)
        } else {
            Ok(())
        }
    }

    /// The second rung: cold children that inherited nothing, from what is kept of them. Whatever
    /// is wrong with a record leaves its child to the third.
    async fn kept(&self, candidates: &[Member]) -> BTreeMap<SessionId, Identity> {
        let cold = candidates
            .iter()
            .filter(|member| member.live.is_none() && !member.header.is_seeded);
        let headers: Vec<&SessionHeader> = cold.map(|member| &member.header).collect();
        let Some(store) = self.checkpoints.filter(|_| !headers.is_empty()).cloned() else {
            return BTreeMap::new();
        };
        let ids: Vec<SessionId> = headers.iter().map(|header| header.id.clone()).collect();
        // A store that fails, in whatever way, costs time only.
        let read = tokio::task::spawn_blocking(move || store.load_these(&ids)).await;
        let mut records = read.map(Result::unwrap_or_default).unwrap_or_default();
        let mut known = BTreeMap::new();
        for header in headers {
            let identity_of = CheckpointIdentity::of(header, SessionLogOffset::ZERO);
            let Some(record) = records.remove(&header.id) else {
                continue;
            };
            if record.identity != identity_of {
                continue;
            }
            let view = self.registry.view_checkpoint(&record.rows, &[KEY]);
            if let Some(identity) = view.as_ref().and_then(identity) {
                self.counters
                    .from_checkpoints
                    .fetch_add(1, Ordering::Relaxed);
                known.insert(header.id.clone(), identity);
            }
        }
        known
    }

    /// The third rung: one observation that reads descriptors and nothing else.
    async fn observed(&self, header: &SessionHeader) -> Result<Judged, ListError> {
        self.wanted()?;
        self.counters.observations.fetch_add(1, Ordering::Relaxed);
        let wanted = Projections::Own(&[KEY]);
        let lease = self.corpus.observe(&header.id, wanted, self.signal).await;
        self.wanted()?;
        let lease = match lease {
            Ok(lease) => lease,
            Err(QueryError::Aborted) => return Err(ListError::Cancelled),
            Err(error) => {
                let session = &header.id;
                tracing::debug!(%session, %error, "a subagent cannot be read now");
                return Ok(Judged::Not(Reason::Unavailable));
            }
        };
        // Another session took the id: nothing of it may be shown (`subagent.md` 5.5).
        if lease.header() != header {
            return Ok(Judged::Not(Reason::Corrupt));
        }
        let own = |identity: &Identity| identity.seq().offset_before() >= lease.inherited();
        let identity = lease.projections().and_then(identity).filter(own);
        // Asked in this order: who arrives is live once it does not arrive any more.
        let arriving = self.sessions.is_arriving(&header.id);
        Ok(match (identity, self.sessions.get(&header.id)) {
            (Some(identity), _) => Judged::Is(identity),
            // Its log was made a moment ago.
            (None, None) if arriving => Judged::Young,
            // It came to life meanwhile, and may be about to say who it is.
            (None, Some(log)) => live(log.as_ref()),
            (None, None) => Judged::Not(Reason::Corrupt),
        })
    }
}

/// What is known of a child.
#[derive(Debug)]
enum Judged {
    Is(Identity),
    Not(Reason),
    /// It has not said yet who it is.
    Young,
}

impl Judged {
    fn row(self, member: &Member, family: &Family) -> Option<Row> {
        let id = member.header.id.clone();
        Some(match self {
            Self::Young => return None,
            Self::Not(reason) => Row::Diagnostic { id, reason },
            Self::Is(identity) => Row::Child(ChildRow {
                activity: if member.live.is_some() {
                    Activity::Running
                } else {
                    Activity::Inactive
                },
                has_children: family.has_subagents(&id),
                id,
                identity,
            }),
        })
    }
}

/// The first rung: a live child, by the state of its unit (decision D11).
fn live(log: &dyn LiveLog) -> Judged {
    let state = log.state(KEY);
    let Some(state) = state.as_ref().and_then(|state| state.of(&SubagentUnit)) else {
        return Judged::Not(Reason::Corrupt);
    };
    let own = |seq: orrery_session::SessionSeq| seq.offset_before() >= log.inherited();
    match (&state.identity, state.invalid_seq) {
        (_, Some(seq)) if own(seq) => Judged::Not(Reason::Corrupt),
        (Some(identity), _) if own(identity.seq()) => Judged::Is(identity.clone()),
        _ => Judged::Young,
    }
}

fn identity(snapshot: &Snapshot) -> Option<Identity> {
    let value = snapshot.values.get(SubagentUnit.key())?;
    value.parse::<Option<Identity>>().ok().flatten()
}
