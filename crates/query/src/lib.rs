//! Reading sessions that may or may not be live: observations of cold logs and pages of history.
//!
//! Owns the observation cache and the rule by which history is cut into pages. Changes nothing: an
//! interrupted turn is closed in memory only. Leaves to others: which sessions are live (the host),
//! what lies on disk (`orrery-storage`), what is folded (`orrery-projection`).
//!
//! Start reading at [`fold`], then [`observe`] and [`page`]; [`corpus`] asks about all sessions at
//! once, and [`search`] about their words.

pub mod anchor;
pub mod corpus;
pub mod error;
pub mod fold;
pub mod live;
pub mod observe;
pub mod page;
pub mod search;

pub use corpus::{Corpus, Lease, SessionRecord};
pub use error::QueryError;
pub use fold::{Folded, Wanted, fold};
pub use live::{LiveLog, LiveSessions, NobodyLive};
pub use observe::{Observation, Observations};
pub use page::{Page, tail_page_of};
