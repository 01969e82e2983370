//! The units of core events. Those of events that another crate writes live there.

mod list_metadata;
mod session_stats;
mod title;
mod todos;
mod token_usage;

pub use list_metadata::{ListMetadata, ListMetadataState};
pub use session_stats::{SessionStats, SessionStatsState, SessionStatsView};
pub use title::Title;
pub use todos::{Todo, TodoStatus, Todos};
pub use token_usage::{TokenTotals, TokenUsage, TokenUsageState};
