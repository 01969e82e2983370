//! Rows of sessions: `session/list` and what the catalogue stream is made of (`controller.md` 1.4).
//!
//! A live row is read off the session's state, a cold one comes from `cold_rows`.

use std::collections::{BTreeMap, HashMap, HashSet};

use orrery_agent::SessionHandle;
use orrery_api::content::ProjectionValues;
use orrery_api::error::ApiError;
use orrery_api::session::{
    DiagnosticReason, ListRequest, ListResponse, SessionDiagnostic, SessionOrigin, SessionSummary,
};
use orrery_session::{SessionHeader, SessionId, Timestamp};
use orrery_storage::CatalogueEntry;

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
/// All rows at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows {
    /// `updatedAt` descending, then id ascending.
    pub(super) items: Vec<SessionSummary>,
    pub(super) diagnostics: Vec<SessionDiagnostic>,
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
        let rows = self.rows().await?;
        let mut rest = rows.items.into_iter().filter(|row| {
            after.as_ref().is_none_or(|(at, id)| {
                row.updated_at < *at || (row.updated_at == *at && row.session_id > *id)
            })
        });
        let items: Vec<SessionSummary> = rest.by_ref().take(limit as usize).collect();
        let more = rest.next().is_some();
        let next_cursor = items
            .last()
            .filter(|_| more)
            .map(|row| format!("{}:{}", row.updated_at.epoch_millis(), row.session_id));
        Ok(ListResponse {
            items,
            diagnostics: rows.diagnostics,
            next_cursor,
        })
    }

    /// All rows: live ones from their state, cold ones from their logs.
    pub(super) async fn rows(&self) -> Result<Rows, ApiError> {
        self.inner.live.sweep();
        let catalogue = self
            .inner
            .store
            .catalogue()
            .await
            .map_err(|e| failures::of_storage(&e))?;
        let live: BTreeMap<SessionId, SessionHandle> = self
            .inner
            .live
            .all()
            .into_iter()
            .map(|handle| (handle.id().clone(), handle))
            .collect();
        let cold: Vec<&CatalogueEntry> = catalogue
            .entries()
            .filter(|entry| !live.contains_key(&entry.header.id))
            .collect();
        let children = child_counts(
            live.values()
                .map(|handle| handle.live().header())
                .chain(cold.iter().map(|entry| &entry.header)),
        );
        let context = RowContext::new(self, children);
        let mut rows = Rows::default();
        rows.items
            .extend(live.values().map(|handle| context.live(handle)));
        rows.diagnostics
            .extend(catalogue.diagnostics().iter().map(|d| SessionDiagnostic {
                session_id: d.session_id.clone(),
                path: d.path.clone(),
                reason: match d.reason {
                    orrery_storage::DiagnosticReason::UnsupportedVersion => {
                        DiagnosticReason::UnsupportedVersion
                    }
                    orrery_storage::DiagnosticReason::DuplicateId => DiagnosticReason::DuplicateId,
                    orrery_storage::DiagnosticReason::Misplaced => DiagnosticReason::Misplaced,
                    orrery_storage::DiagnosticReason::Unreadable => DiagnosticReason::Unreadable,
                    orrery_storage::DiagnosticReason::Corrupt => DiagnosticReason::Corrupt,
                },
                message: d.message.clone(),
            }));
        // Cold rows without a folder are hidden (`controller.md` 1.4).
        let readable = || cold.iter().filter(|entry| entry.header.cwd.is_some());
        let known = self.cold_rows(readable().copied()).await;
        for entry in readable() {
            // A session that came to life meanwhile is shown as such, once.
            if let Some(handle) = self.inner.live.get(&entry.header.id) {
                rows.items.push(context.live(&handle));
                continue;
            }
            let Some(row) = known.get(&entry.header.id) else {
                continue;
            };
            if let Some(message) = &row.damage {
                let path = entry.path.strip_prefix(self.inner.store.root());
                let path = path.unwrap_or(&entry.path).display().to_string();
                rows.diagnostics.push(SessionDiagnostic {
                    session_id: Some(entry.header.id.clone()),
                    path,
                    reason: DiagnosticReason::Corrupt,
                    message: message.clone(),
                });
            }
            rows.items.push(context.cold(&entry.header, row));
        }
        rows.items.sort_by(|a, b| {
            b.updated_at
                .cmp(&a.updated_at)
                .then_with(|| a.session_id.cmp(&b.session_id))
        });
        Ok(rows)
    }

    /// The rows of the live sessions only.
    pub(super) fn live_rows(&self, children: &BTreeMap<SessionId, u64>) -> Vec<SessionSummary> {
        let context = RowContext::new(self, children.clone());
        self.inner
            .live
            .all()
            .iter()
            .map(|handle| context.live(handle))
            .collect()
    }
}

/// What every row needs to know of the rest.
struct RowContext {
    children: BTreeMap<SessionId, u64>,
    archived: HashSet<SessionId>,
    workspaces: HashMap<String, String>,
}

impl RowContext {
    fn new(controller: &Controller, children: BTreeMap<SessionId, u64>) -> Self {
        let state = controller.inner.state.get();
        let workspaces = state
            .workspaces
            .into_iter()
            .map(|w| (w.path, w.workspace_id))
            .collect();
        Self {
            children,
            archived: state.archived.into_iter().collect(),
            workspaces,
        }
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
        let projections = row.snapshot.as_ref().map(|snapshot| ProjectionValues {
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
            updated_at: last_prompt_at.map_or(header.created_at, |at| at.max(header.created_at)),
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

fn read_cursor(cursor: &str) -> Result<(Timestamp, SessionId), ApiError> {
    let parts = cursor.split_once(':').and_then(|(at, id)| {
        let at = Timestamp::new(at.parse().ok()?).ok()?;
        Some((at, SessionId::new(id).ok()?))
    });
    parts.ok_or_else(|| ApiError::bad_request("cursor", "not a cursor of this list"))
}
