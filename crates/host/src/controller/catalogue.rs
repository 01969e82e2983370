//! The catalogue stream: rows of sessions, kept up to date (decision D25).
//!
//! A pulled feed: whoever holds it asks for the next item, and changes that came in between are
//! told once, as whole rows. Changes of live sessions are read off their state; the disk is looked
//! at when a session comes, goes, or a while has passed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use orrery_api::catalog::{
    CatalogBaseline, CatalogDiagnostics, CatalogItem, CatalogRemove, CatalogRequest, CatalogState,
    CatalogUpsert,
};
use orrery_api::error::ApiError;
use orrery_api::session::{SessionDiagnostic, SessionSummary};
use orrery_session::SessionId;
use tokio::sync::watch;

use super::Controller;

/// How often the disk is looked at for what other processes did.
const RESCAN: Duration = Duration::from_secs(15);
/// The rows of a baseline unless somebody asks otherwise.
const DEFAULT_ROWS: usize = 500;

/// The catalogue, item by item.
#[derive(Debug)]
pub struct CatalogFeed {
    controller: Controller,
    changes: watch::Receiver<u64>,
    rearranged: watch::Receiver<u64>,
    limit: usize,
    opened: bool,
    shown: BTreeMap<SessionId, SessionSummary>,
    diagnostics: Vec<SessionDiagnostic>,
    waiting: VecDeque<CatalogItem>,
}

impl Controller {
    /// Opens the catalogue stream.
    pub fn catalog(&self, request: CatalogRequest) -> CatalogFeed {
        CatalogFeed {
            controller: self.clone(),
            changes: self.inner.live.changes(),
            rearranged: self.inner.rearranged.subscribe(),
            limit: request
                .limit
                .map_or(DEFAULT_ROWS, |limit| limit as usize)
                .max(1),
            opened: false,
            shown: BTreeMap::new(),
            diagnostics: Vec::new(),
            waiting: VecDeque::new(),
        }
    }
}

impl CatalogFeed {
    /// The next item; waits for one.
    ///
    /// # Errors
    /// When the sessions root itself cannot be read.
    pub async fn next(&mut self) -> Result<CatalogItem, ApiError> {
        if !self.opened {
            self.opened = true;
            self.changes.mark_unchanged();
            self.rearranged.mark_unchanged();
            return self.baseline().await;
        }
        loop {
            if let Some(item) = self.waiting.pop_front() {
                return Ok(item);
            }
            match tokio::time::timeout(RESCAN, self.changes.changed()).await {
                Ok(_) => {
                    let live = self.controller.inner.live.all();
                    let same_set = live
                        .iter()
                        .all(|handle| self.shown.get(handle.id()).is_some_and(|row| row.live))
                        && live.len() == self.shown.values().filter(|row| row.live).count();
                    // The sender goes with the controller that is held here.
                    let rearranged = self.rearranged.has_changed().unwrap_or(true);
                    self.rearranged.mark_unchanged();
                    if same_set && !rearranged {
                        self.look_at_live();
                    } else {
                        self.look_at_all().await?;
                    }
                }
                Err(_elapsed) => self.look_at_all().await?,
            }
        }
    }

    async fn baseline(&mut self) -> Result<CatalogItem, ApiError> {
        let (items, diagnostics, has_more) = self.controller.newest_rows(self.limit).await?;
        self.shown = items
            .iter()
            .map(|row| (row.session_id.clone(), row.clone()))
            .collect();
        self.diagnostics.clone_from(&diagnostics);
        let value = CatalogState {
            items,
            diagnostics,
            has_more,
        };
        Ok(CatalogItem::Baseline(CatalogBaseline { value }))
    }

    fn look_at_live(&mut self) {
        let children = self
            .shown
            .iter()
            .map(|(id, row)| (id.clone(), row.child_count))
            .collect();
        for row in self.controller.live_rows(&children) {
            self.show(row);
        }
    }

    async fn look_at_all(&mut self) -> Result<(), ApiError> {
        let (rows, diagnostics, _) = self.controller.newest_rows(usize::MAX).await?;
        let present: std::collections::HashSet<&SessionId> =
            rows.iter().map(|row| &row.session_id).collect();
        let gone: Vec<SessionId> = self
            .shown
            .keys()
            .filter(|id| !present.contains(id))
            .cloned()
            .collect();
        for session_id in gone {
            self.shown.remove(&session_id);
            self.waiting
                .push_back(CatalogItem::Remove(CatalogRemove { session_id }));
        }
        // Rows that fell off the baseline come in only once something happens to them.
        let oldest = self.shown.values().map(|row| row.updated_at).min();
        for row in rows {
            let known = self.shown.contains_key(&row.session_id);
            if known || row.live || oldest.is_none_or(|oldest| row.updated_at >= oldest) {
                self.show(row);
            }
        }
        if self.diagnostics != diagnostics {
            self.diagnostics.clone_from(&diagnostics);
            self.waiting
                .push_back(CatalogItem::Diagnostics(CatalogDiagnostics { diagnostics }));
        }
        Ok(())
    }

    fn show(&mut self, row: SessionSummary) {
        if self.shown.get(&row.session_id) != Some(&row) {
            self.shown.insert(row.session_id.clone(), row.clone());
            self.waiting
                .push_back(CatalogItem::Upsert(CatalogUpsert { item: row }));
        }
    }
}
