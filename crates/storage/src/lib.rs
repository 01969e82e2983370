//! Durable logs: one file for each session, one writer for each file.
//!
//! Owns the directory layout, the two containers (zstd frames and plain lines), reading with torn
//! tails, crash repair, the writer lock, the write-behind thread and the store of attachments. The core is synchronous and
//! runs on a thread of its own; [`store::Store`] and [`store::LogWriter`] are its async handles.
//! Leaves to others: what an event means (`orrery-session`), what is derived from logs
//! (`orrery-projection`), which sessions are live (`orrery-host`).
//!
//! Invariants: an append that was flushed is on disk; committed bytes are never rewritten, only a
//! torn tail goes; a failed batch is kept, in order, until it is written; one bad file never hides
//! its neighbours (decisions D1, D4, D5, D7, D8).
//!
//! Start reading at [`store`], then [`log_file`].

pub mod attachments;
mod believed;
pub mod catalogue;
mod catalogue_file;
pub mod disk;
mod error;
mod folders;
mod frames;
mod incoming;
pub mod index;
pub mod layout;
pub mod lock;
pub mod log_file;
pub mod read;
pub mod store;
mod tally;
mod trash;
pub mod view;
mod walk;
mod writer;

pub use catalogue::{Catalogue, CatalogueEntry, Diagnostic, DiagnosticReason};
pub use error::StorageError;
pub use incoming::{Incoming, Newcomer};
pub use index::entry::Facts;
pub use layout::Compression;
pub use read::{Revision, StoredLog};
pub use store::{
    BELIEVED_FOR, Durability, LOOK_EVERY, LogWriter, Opened, SaveState, Store, StoreOptions,
};
pub use tally::Reads;
pub use trash::Deleted;
pub use view::LogView;
