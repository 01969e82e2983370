//! The derived database behind the ports of `orrery-projection` and `orrery-query`: checkpoints and
//! the search index of a Host, in one SQLite file.
//!
//! Owns that file: its layout, its permissions, when it is dropped and built anew, its connections,
//! and how hits are found and ranked. Leaves to others: what a checkpoint means, how text becomes
//! words (`orrery_query::search::words`), who feeds the index and when.
//!
//! Everything in the file is derived. It may be deleted at any time, also while it is open: the next
//! call begins a new one. What was lost is not passed over in silence. Until
//! [`SearchIndex::sessions`](orrery_query::search::SearchIndex::sessions) was asked again, updates
//! and searches fail with a message that says so, because an update that goes on where the lost
//! index stopped would leave a hole, and a search would find nothing where there is something.
//!
//! Start reading at [`Catalog`], then `database` (the file), `search` and `ranking`.

mod checkpoints;
mod connections;
mod database;
mod documents;
mod error;
mod occurrences;
mod ranking;
mod search;

use std::path::Path;
use std::sync::Arc;

use connections::Connections;
pub use error::CatalogError;
pub use ranking::CANDIDATES;

/// The catalogue: a [`CheckpointStore`](orrery_projection::checkpoint::CheckpointStore) and a
/// [`SearchIndex`](orrery_query::search::SearchIndex) over one file. Clones share it.
#[derive(Debug, Clone)]
pub struct Catalog {
    connections: Arc<Connections>,
}

impl Catalog {
    /// Opens the file, making it and its folder where they are missing. Our own file of another
    /// version, or damaged, is dropped and made anew.
    ///
    /// # Errors
    /// [`CatalogError::Foreign`] when somebody else's database lies there; it is left alone. Other
    /// errors when the place cannot be used. Whoever meets one goes on without a catalogue.
    pub fn open(path: &Path) -> Result<Self, CatalogError> {
        Connections::open(path).map(Self::of)
    }

    /// A catalogue that is forgotten with its last clone: for tests, and for a Host that may not
    /// write.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn in_memory() -> Result<Self, CatalogError> {
        Connections::in_memory().map(Self::of)
    }

    /// Looks at the whole file, and drops and remakes it when something is wrong. Reads every page,
    /// some seconds for a large index, while all other calls wait: for `doctor` and quiet moments. Says whether the file had to be made anew.
    ///
    /// # Errors
    /// When the place cannot be used.
    pub fn heal(&self) -> Result<bool, CatalogError> {
        self.connections.heal()
    }

    /// Drops everything and begins anew.
    ///
    /// # Errors
    /// When the place cannot be used.
    pub fn rebuild(&self) -> Result<(), CatalogError> {
        self.connections.rebuild()
    }

    fn of(connections: Connections) -> Self {
        Self {
            connections: Arc::new(connections),
        }
    }
}
