//! The catalogue stream: session rows, kept up to date.

use orrery_session::SessionId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::session::{SessionDiagnostic, SessionSummary};

/// `session/catalog`: rows, newest first, then changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CatalogRequest {
    /// How many rows the baseline holds, 1 to 500; 200 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The rows at the opening.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogState {
    /// The rows, newest first.
    pub items: Vec<SessionSummary>,
    /// Logs that cannot be shown as rows.
    pub diagnostics: Vec<SessionDiagnostic>,
    /// Whether older rows exist; `session/list` has them.
    pub has_more: bool,
}

/// The opening of a catalogue stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogBaseline {
    /// The rows.
    pub value: CatalogState,
}

/// A row that is new or changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogUpsert {
    /// The whole row.
    pub item: SessionSummary,
}

/// A row that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogRemove {
    /// The session.
    #[schemars(with = "schema::Id")]
    pub session_id: SessionId,
}

/// The diagnostics, whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CatalogDiagnostics {
    /// Logs that cannot be shown as rows.
    pub diagnostics: Vec<SessionDiagnostic>,
}

tagged_union! {
    /// What a catalogue stream sends.
    pub enum CatalogItem {
        /// The opening; exactly one, and first.
        Baseline(CatalogBaseline) = "baseline",
        /// A row is new or changed.
        Upsert(CatalogUpsert) = "upsert",
        /// A row is gone.
        Remove(CatalogRemove) = "remove",
        /// The diagnostics changed.
        Diagnostics(CatalogDiagnostics) = "diagnostics",
    }
}
