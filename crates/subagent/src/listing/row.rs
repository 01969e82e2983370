//! The rows of a list (`subagent.md` 5).

use orrery_session::SessionId;

use crate::units::Identity;

/// Whether a child is in this process. A live session that is idle counts as running here
/// (`subagent.md` 5.2); whether it works right now, its own row of the catalogue says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// It is live.
    Running,
    /// It is not.
    Inactive,
}

/// Why a child cannot be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It does not say who it is, or is another than was enumerated.
    Corrupt,
    /// Its descriptor is of another version. Kept for readers; no build says so
    /// (`subagent.md` 5.5).
    Unsupported,
    /// It cannot be read now; the next list tries again.
    Unavailable,
}

/// A child that said who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildRow {
    /// Its session.
    pub id: SessionId,
    /// Whether it is in this process.
    pub activity: Activity,
    /// Whether it delegated to anybody itself, by headers alone.
    pub has_children: bool,
    /// Who it is.
    pub identity: Identity,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// A child.
    Child(ChildRow),
    /// A child that cannot be shown.
    Diagnostic {
        /// Its session.
        id: SessionId,
        /// Why.
        reason: Reason,
    },
}

/// A row of a whole tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descendant {
    /// The row.
    pub row: Row,
    /// The direct parent.
    pub parent: SessionId,
    /// How many edges below the root; 1 for its children. Sessions that are no rows count.
    pub depth: u32,
}
