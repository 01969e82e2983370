//! Rows of sessions: `session/list` and what the catalogue stream is made of (`controller.md` 1.4).
//!
//! A live row is read off the session's state, a cold one comes from `cold_rows`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use orrery_agent::SessionHandle;
use orrery_api::content::ProjectionValues;
use orrery_api::error::ApiError;
use orrery_api::session::{
    DiagnosticReason, ListRequest, ListResponse, SessionDiagnostic, SessionOrigin, SessionSummary,
};
use orrery_session::{SessionHeader, SessionId, Timestamp};
use orrery_storage::Catalogue;

use super::cold_rows::ColdRow;
use super::{Controller, failures};

/// The projections that rows carry.
pub(super) const ROW_KEYS: [&str; 5] = [
    "title",
    "sessionListMetadata",
    "agentPreset",
    "modelSelection",
    "subagent",
];
/// How long what was seen on disk is believed: a page after a page costs its rows.
const FRESH: Duration = Duration::from_millis(500);

/// The cold sessions as they lay on disk at one moment, and what every row needs to know beside.
#[derive(Debug)]
pub(super) struct Listing {
    seen: Instant,
    /// The sessions that were live then: with others, some cold ones are missing here.
    live: BTreeSet<SessionId>,
    context: RowContext,
    catalogue: Arc<Catalogue>,
    /// `updatedAt` descending, then id ascending.
    cold: Vec<ColdItem>,
    diagnostics: Vec<SessionDiagnostic>,
}

#[derive(Debug)]
struct ColdItem {
    updated_at: Timestamp,
    id: SessionId,
    row: Arc<ColdRow>,
}

/// Where a row stands in the list: the latest first, then the smaller id.
type Position = (Reverse<Timestamp>, SessionId);

fn position(row: &SessionSummary) -> Position {
    (Reverse(row.updated_at), row.session_id.clone())
}

impl Controller {
    /// Rows, newest first.
    pub async fn list(&self, request: ListRequest) -> Result<ListResponse, ApiError> {
        let limit = request.limit.unwrap_or(orrery_api::DEFAULT_LIST_LIMIT);
        if !(1..=orrery_api::MAX_LIST_LIMIT).contains(&limit) {
            let message = format!("must be between 1 and {}", orrery_api::MAX_LIST_LIMIT);
            return Err(ApiError::bad_request("limit", message));
        }
        let after = request.cursor.as_deref().map(read_cursor).transpose()?;
        let (listing, mut items) = self
            .rows_behind(after.as_ref(), limit as usize + 1, FRESH)
            .await?;
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next_cursor = items
            .last()
            .filter(|_| more)
            .map(|row| format!("{}:{}", row.updated_at.epoch_millis(), row.session_id));
        Ok(ListResponse {
            items,
            diagnostics: listing.diagnostics.clone(),
            next_cursor,
        })
    }

    /// The first `limit` rows behind a position, of a look not older than `fresh`.
    async fn rows_behind(
        &self,
        after: Option<&Position>,
        limit: usize,
        fresh: Duration,
    ) -> Result<(Arc<Listing>, Vec<SessionSummary>), ApiError> {
        let listing = self.listing(fresh).await?;
        let items = self.rows_of(&listing, after, limit);
        if !listing.cold.iter().any(|item| item.row.is_wrong()) {
            return Ok((listing, items));
        }
        let listing = self.listing(Duration::ZERO).await?;
        let items = self.rows_of(&listing, after, limit);
        Ok((listing, items))
    }

    /// What lies on disk, not older than `fresh`.
    pub(super) async fn listing(&self, fresh: Duration) -> Result<Arc<Listing>, ApiError> {
        self.inner.live.sweep();
        // Whoever comes while somebody looks waits for what that one sees.
        let mut known = self.inner.listing.lock().await;
        let context = RowContext::new(self);
        let live: BTreeSet<SessionId> = self
            .inner
            .live
            .all()
            .iter()
            .map(|handle| handle.id().clone())
            .collect();
        if let Some(listing) = known.as_ref()
            && listing.seen.elapsed() < fresh
            && listing.live == live
            && listing.context.same_marks(&context)
        {
            return Ok(Arc::clone(listing));
        }
        let listing = Arc::new(self.look_at_disk(live, context).await?);
        *known = Some(Arc::clone(&listing));
        Ok(listing)
    }

    async fn look_at_disk(
        &self,
        live: BTreeSet<SessionId>,
        mut context: RowContext,
    ) -> Result<Listing, ApiError> {
        let catalogue = self.inner.store.catalogue().await;
        let catalogue = catalogue.map_err(|e| failures::of_storage(&e))?;
        let mut diagnostics: Vec<SessionDiagnostic> =
            catalogue.diagnostics().iter().map(of_storage).collect();
        // Cold rows without a folder are hidden (`controller.md` 1.4).
        let readable = || {
            catalogue
                .entries()
                .filter(|entry| entry.header.cwd.is_some() && !live.contains(&entry.header.id))
        };
        let mut rows = self.cold_rows(readable()).await;
        self.forget_gone(&catalogue);
        let mut cold = Vec::with_capacity(rows.len());
        for entry in readable() {
            let id = &entry.header.id;
            let Some(row) = rows.remove(id) else { continue };
            if let Some(message) = &row.damage {
                let path = entry.path.strip_prefix(self.inner.store.root());
                diagnostics.push(SessionDiagnostic {
                    session_id: Some(id.clone()),
                    path: path.unwrap_or(&entry.path).display().to_string(),
                    reason: DiagnosticReason::Corrupt,
                    message: message.clone(),
                });
            }
            cold.push(ColdItem {
                updated_at: updated_at(&entry.header, row.last_prompt_at),
                id: id.clone(),
                row,
            });
        }
        cold.sort_by(|a, b| (Reverse(a.updated_at), &a.id).cmp(&(Reverse(b.updated_at), &b.id)));
        let handles = self.inner.live.all();
        let headers = handles.iter().map(|handle| handle.live().header());
        context.children = child_counts(headers.chain(catalogue.entries().map(|e| &e.header)));
        Ok(Listing {
            seen: Instant::now(),
            live,
            context,
            catalogue,
            cold,
            diagnostics,
        })
    }

    /// The first `limit` rows behind a position; live ones as they are now.
    fn rows_of(
        &self,
        listing: &Listing,
        after: Option<&Position>,
        limit: usize,
    ) -> Vec<SessionSummary> {
        let mut live: BTreeMap<Position, SessionSummary> = BTreeMap::new();
        let mut is_live = HashSet::new();
        for handle in self.inner.live.all() {
            let row = listing.context.live(&handle);
            is_live.insert(row.session_id.clone());
            let position = position(&row);
            if after.is_none_or(|after| position > *after) {
                live.insert(position, row);
            }
        }
        let start = after.map_or(0, |(at, id)| {
            let before = |item: &ColdItem| (Reverse(item.updated_at), &item.id) <= (*at, id);
            listing.cold.partition_point(before)
        });
        let mut cold = listing
            .cold
            .get(start..)
            .unwrap_or_default()
            .iter()
            // A session that came to life meanwhile is shown as such, once.
            .filter(|item| !is_live.contains(&item.id))
            .filter_map(|item| Some((item, listing.catalogue.get(&item.id)?)))
            .peekable();
        let mut rows = Vec::new();
        while rows.len() < limit {
            let colder = cold
                .peek()
                .map(|(item, _)| (Reverse(item.updated_at), &item.id));
            let live_first = match (live.first_key_value(), colder) {
                (None, None) => break,
                (Some(((at, id), _)), Some(colder)) => (*at, id) < colder,
                (live, None) => live.is_some(),
                (None, Some(_)) => false,
            };
            if live_first {
                rows.extend(live.pop_first().map(|(_, row)| row));
            } else if let Some((item, entry)) = cold.next() {
                rows.push(listing.context.cold(&entry.header, &item.row));
            }
        }
        rows
    }

    /// The newest rows and what is not listed, looked at anew.
    pub(super) async fn newest_rows(
        &self,
        limit: usize,
    ) -> Result<(Vec<SessionSummary>, Vec<SessionDiagnostic>, bool), ApiError> {
        let limit_and_one = limit.saturating_add(1);
        let (listing, mut rows) = self
            .rows_behind(None, limit_and_one, Duration::ZERO)
            .await?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        Ok((rows, listing.diagnostics.clone(), more))
    }

    /// The rows of the live sessions only.
    pub(super) fn live_rows(&self, children: &BTreeMap<SessionId, u64>) -> Vec<SessionSummary> {
        let mut context = RowContext::new(self);
        context.children.clone_from(children);
        let all = self.inner.live.all();
        all.iter().map(|handle| context.live(handle)).collect()
    }
}

fn of_storage(diagnostic: &orrery_storage::Diagnostic) -> SessionDiagnostic {
    use orrery_storage::DiagnosticReason as Stored;
    SessionDiagnostic {
        session_id: diagnostic.session_id.clone(),
        path: diagnostic.path.clone(),
        reason: match diagnostic.reason {
            Stored::UnsupportedVersion => DiagnosticReason::UnsupportedVersion,
            Stored::DuplicateId => DiagnosticReason::DuplicateId,
            Stored::Misplaced => DiagnosticReason::Misplaced,
            Stored::Unreadable => DiagnosticReason::Unreadable,
            Stored::Corrupt => DiagnosticReason::Corrupt,
        },
        message: diagnostic.message.clone(),
    }
}

/// Only a person who speaks moves a row (`controller.md` 1.4).
fn updated_at(header: &SessionHeader, last_prompt_at: Option<Timestamp>) -> Timestamp {
    last_prompt_at.map_or(header.created_at, |at| at.max(header.created_at))
}

/// What every row needs to know of the rest.
#[derive(Debug)]
struct RowContext {
    children: BTreeMap<SessionId, u64>,
    archived: HashSet<SessionId>,
    workspaces: HashMap<String, String>,
}

impl RowContext {
    /// The marks that the Host's state puts on rows; children are counted by whoever looks.
    fn new(controller: &Controller) -> Self {
        let state = controller.inner.state.get();
        let workspaces = state
            .workspaces
            .into_iter()
            .map(|w| (w.path, w.workspace_id))
            .collect();
        Self {
            children: BTreeMap::new(),
            archived: state.archived.into_iter().collect(),
            workspaces,
        }
    }

    /// Whether both put the same marks on rows.
    fn same_marks(&self, other: &Self) -> bool {
        self.archived == other.archived && self.workspaces == other.workspaces
    }

    fn live(&self, handle: &SessionHandle) -> SessionSummary {
        let state = handle.live().state_now();
        let values: BTreeMap<_, _> = state
            .projections
            .iter()
            .filter(|(key, _)| ROW_KEYS.contains(*key))
            .map(|(key, cell)| ((*key).to_owned(), cell.value.clone()))
            .collect();
        let projections = (!values.is_empty()).then_some(ProjectionValues {
            as_of_seq: state.as_of,
            values,
        });
        let header = handle.live().header();
        let running = state.running;
        self.row(
            header,
            state.blank,
            state.last_prompt_at,
            running,
            true,
            projections,
        )
    }

    fn cold(&self, header: &SessionHeader, row: &ColdRow) -> SessionSummary {
        let projections = row.snapshot().map(|snapshot| ProjectionValues {
            as_of_seq: snapshot.as_of_seq,
            values: snapshot
                .values
                .iter()
                .map(|(k, v)| ((*k).to_owned(), v.clone()))
                .collect(),
        });
        self.row(
            header,
            row.blank,
            row.last_prompt_at,
            false,
            false,
            projections,
        )
    }

    fn row(
        &self,
        header: &SessionHeader,
        blank: bool,
        last_prompt_at: Option<Timestamp>,
        running: bool,
        live: bool,
        projections: Option<ProjectionValues>,
    ) -> SessionSummary {
        SessionSummary {
            session_id: header.id.clone(),
            created_at: header.created_at,
            updated_at: updated_at(header, last_prompt_at),
            running,
            live,
            blank,
            archived: self.archived.contains(&header.id),
            parent_session_id: header.parent_session.clone(),
            origin: header.is_subagent().then_some(SessionOrigin::Subagent),
            cwd: header.cwd.clone(),
            workspace_id: header
                .cwd
                .as_ref()
                .and_then(|cwd| self.workspaces.get(cwd))
                .cloned(),
            child_count: self.children.get(&header.id).copied().unwrap_or(0),
            projections,
        }
    }
}

/// How many direct children each session has.
fn child_counts<'a>(headers: impl Iterator<Item = &'a SessionHeader>) -> BTreeMap<SessionId, u64> {
    let mut counts = BTreeMap::new();
    for header in headers.filter(|header| header.is_subagent()) {
        if let Some(parent) = &header.parent_session {
            *counts.entry(parent.clone()).or_default() += 1;
        }
    }
    counts
}

fn read_cursor(cursor: &str) -> Result<Position, ApiError> {
    let parts = cursor.split_once(':').and_then(|(at, id)| {
        let at = Timestamp::new(at.parse().ok()?).ok()?;
        Some((Reverse(at), SessionId::new(id).ok()?))
    });
    parts.ok_or_else(|| ApiError::bad_request("cursor", "not a cursor of this list"))
}
