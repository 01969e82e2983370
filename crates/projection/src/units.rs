//! The units of core events.

mod list_metadata;
mod title;

pub use list_metadata::{ListMetadata, ListMetadataState};
pub use title::Title;
