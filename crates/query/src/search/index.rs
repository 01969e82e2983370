//! The port to the search index: what is kept in it, and what it is asked.
//!
//! The index is derived: it may be deleted or lag behind at any time. Who fills it says for each
//! session how far it got, so that an appended event is indexed by its seq and nothing twice.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use orrery_projection::checkpoint::CheckpointIdentity;
use orrery_session::{EventType, SessionId, SessionLogOffset, SessionSeq, Timestamp};

/// Where an event stands with the model (`subagent.md` 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// The model still sees it.
    Current,
    /// A replacement took its place.
    Shadowed,
    /// The model never saw it.
    LogOnly,
}

impl Standing {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Current, Self::Shadowed, Self::LogOnly];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Shadowed => "shadowed",
            Self::LogOnly => "log-only",
        }
    }
}

/// The searchable text of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The event.
    pub seq: SessionSeq,
    /// Its type.
    pub event_type: EventType,
    /// When it happened.
    pub time: Timestamp,
    /// Where it stands at the end of the update that brings it.
    pub standing: Standing,
    /// Its text, as [`super::text`] extracts it; not yet split into words.
    pub text: String,
}

/// How far a session is indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedSession {
    /// The session.
    pub id: SessionId,
    /// Which log of that id: another identity means that nothing indexed counts.
    pub identity: CheckpointIdentity,
    /// The state of the file that was indexed to its end, as text; `None` while the session was
    /// live. A log whose state is still this one need not be looked at.
    pub revision: Option<String>,
    /// Events before this boundary are indexed.
    pub through: SessionLogOffset,
    /// The checksum (CRC-32) of the JSON text of the last indexed event; 0 when there is none. It
    /// tells a log that was cut and written on from one that only grew.
    pub anchor: u32,
}

/// What changed in one session. Applied whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionUpdate {
    /// What is known of the session afterwards.
    pub session: IndexedSession,
    /// Whether everything indexed of this id so far goes first.
    pub from_scratch: bool,
    /// New documents, by seq. A document of type `session/title` takes the place of the session's
    /// earlier title; there is at most one in an update, the newest. One without text leaves the
    /// session without a title.
    pub documents: Vec<Document>,
    /// Seqs whose documents, where they are current, become shadowed: applied to earlier documents
    /// only, not to those of this update.
    pub shadowed: Vec<RangeInclusive<SessionSeq>>,
}

/// Words that stand one behind the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phrase {
    /// The words, as [`super::words`] makes them; never empty.
    pub words: Vec<String>,
    /// Whether the last word may go on.
    pub prefix: bool,
    /// The same text as one identifier without its separators, where it could be the beginning of
    /// one: matches where `words` does not (`getuser` for `getUserName`).
    pub joined: Option<String>,
}

/// What is asked. All given conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexQuery {
    /// Each must occur in the document; never empty.
    pub phrases: Vec<Phrase>,
    /// Only events of these types; `None` for all.
    pub types: Option<Vec<EventType>>,
    /// Only events that stand so; `None` for all.
    pub standings: Option<Vec<Standing>>,
    /// Only these sessions; `None` for all.
    pub sessions: Option<BTreeSet<SessionId>>,
    /// Only events in this range.
    pub seqs: Option<RangeInclusive<SessionSeq>>,
    /// Only events of this time.
    pub times: Option<RangeInclusive<Timestamp>>,
    /// Whether only the best hit of each session counts.
    pub one_per_session: bool,
    /// How many better hits are left out.
    pub offset: usize,
    /// How many hits are wanted.
    pub limit: usize,
}

/// One event that matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexHit {
    /// The session.
    pub session: SessionId,
    /// The event.
    pub seq: SessionSeq,
    /// Its type.
    pub event_type: EventType,
    /// When it happened.
    pub time: Timestamp,
    /// Where it stands.
    pub standing: Standing,
    /// How often the phrases occur in it.
    pub matches: u64,
}

/// Moves with every change of what a search may answer. Cursors name it, so that a page is never
/// put beside one of another state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Generation(pub String);

/// Why the index cannot be used. It is derived: whoever meets this goes on without it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the search index failed: {0}")]
pub struct IndexError(pub String);

/// A search index. All calls may wait for a disk: they belong on a thread that may block.
pub trait SearchIndex: Send + Sync + std::fmt::Debug {
    /// What is indexed, in no order.
    ///
    /// # Errors
    /// When the index cannot be read.
    fn sessions(&self) -> Result<Vec<IndexedSession>, IndexError>;

    /// Takes changes in, all or none; each session at most once.
    ///
    /// # Errors
    /// When the index cannot be written.
    fn update(&self, updates: &[SessionUpdate]) -> Result<(), IndexError>;

    /// Forgets sessions.
    ///
    /// # Errors
    /// When the index cannot be written.
    fn remove(&self, ids: &[SessionId]) -> Result<(), IndexError>;

    /// The best hits: more occurrences first, then the shorter document (in code points), the later
    /// event, the smaller session id, the higher seq (`subagent.md` 3.7). Of words that occur in
    /// very many documents an implementation may rank the newest ones only.
    ///
    /// # Errors
    /// When the index cannot be read.
    fn search(&self, query: &IndexQuery) -> Result<Vec<IndexHit>, IndexError>;

    /// The state that a search would answer from.
    ///
    /// # Errors
    /// When the index cannot be read.
    fn generation(&self) -> Result<Generation, IndexError>;
}
