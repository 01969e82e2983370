//! Filters of sessions and events (`subagent.md` 3.6).
//!
//! Clauses in a list all have to hold, values in a clause are alternatives, and a clause without
//! values lets nothing pass. Ranges include both ends.

use std::ops::RangeInclusive;

use orrery_session::{EventType, SessionId, SessionSeq, Timestamp};

use super::SessionRecord;
use super::events::EventRecord;
use crate::error::QueryError;
use crate::search::Standing;

/// Where a session is to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Availability {
    /// Live in this process.
    Live,
    /// On disk.
    Persisted,
}

/// What a session must be like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionFilter {
    /// One of these.
    Id(Vec<SessionId>),
    /// Made in one of these folders; `None` for sessions without one.
    Cwd(Vec<Option<String>>),
    /// Made at this time.
    CreatedAt(RangeInclusive<Timestamp>),
    /// A child of one of these; `None` for sessions without a parent.
    Parent(Vec<Option<SessionId>>),
    /// To be found there.
    Availability(Vec<Availability>),
}

impl SessionFilter {
    pub(super) fn check(&self) -> Result<(), QueryError> {
        match self {
            Self::CreatedAt(range) => in_order("created-at", range),
            _ => Ok(()),
        }
    }

    pub(super) fn passes(&self, record: &SessionRecord) -> bool {
        let header = &record.header;
        match self {
            Self::Id(ids) => ids.contains(&header.id),
            Self::Cwd(folders) => folders.contains(&header.cwd),
            Self::CreatedAt(range) => range.contains(&header.created_at),
            Self::Parent(parents) => parents.contains(&header.parent_session),
            Self::Availability(places) => places.iter().any(|place| match place {
                Availability::Live => record.live,
                Availability::Persisted => record.persisted,
            }),
        }
    }
}

/// What an event must be like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventFilter {
    /// In this range.
    Seq(RangeInclusive<SessionSeq>),
    /// Of this time.
    Time(RangeInclusive<Timestamp>),
    /// Of one of these types.
    Type(Vec<EventType>),
    /// Standing so with the model.
    Standing(Vec<Standing>),
    /// Holding this text, literally: white space matches white space, letters in any case.
    Text(String),
}

impl EventFilter {
    pub(super) fn check(&self) -> Result<(), QueryError> {
        match self {
            Self::Seq(range) => in_order("seq", range),
            Self::Time(range) => in_order("time", range),
            Self::Text(text) if text.trim().is_empty() => Err(QueryError::InvalidFilter {
                field: "text",
                why: "it is blank".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Whether the event passes; `text` gives its searchable text.
    pub(super) fn passes(
        &self,
        record: &EventRecord,
        text: impl FnOnce() -> Option<String>,
    ) -> bool {
        match self {
            Self::Seq(range) => range.contains(&record.seq),
            Self::Time(range) => range.contains(&record.time),
            Self::Type(types) => types.contains(&record.event_type),
            Self::Standing(standings) => standings.contains(&record.standing),
            Self::Text(wanted) => {
                text().is_some_and(|text| folded(&text).contains(&folded(wanted)))
            }
        }
    }
}

/// Without cases, with every run of white space as one blank.
///
/// Each character by itself: the lower case of a text spells a sigma by what stands around it, and
/// what is looked for may end where the text goes on. By way of the upper case, which is one where
/// there are several lower ones.
fn folded(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let upper = words.join(" ");
    let upper = upper.chars().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect()
}

fn in_order<T: PartialOrd>(
    field: &'static str,
    range: &RangeInclusive<T>,
) -> Result<(), QueryError> {
    if range.start() <= range.end() {
        Ok(())
    } else {
        let why = "its end lies before its start".to_owned();
        Err(QueryError::InvalidFilter { field, why })
    }
}
