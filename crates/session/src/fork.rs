//! Forks: which prefix of a log may become the seed of another (`session.md` 1.14,
//! `controller.md` 1.10).

use crate::event::SharedEvent;
use crate::event_type::EventType;
use crate::header::SessionHeader;
use crate::ids::SessionId;
use crate::seq::{SessionLogOffset, SessionSeq};
use crate::time::Timestamp;

/// Why a log cannot be forked there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ForkError {
    /// The boundary names no event of the source.
    #[error("the boundary {boundary} is not an event of the source")]
    InvalidBoundary {
        /// What was asked for.
        boundary: SessionSeq,
    },
    /// The prefix would end inside a turn.
    #[error("turn {turn} is still open at the boundary")]
    OpenTurn {
        /// The open turn.
        turn: u64,
    },
    /// No turn has ended yet, or the anchor's turn has not.
    #[error("no turn has ended there")]
    NoClosedTurn,
}

impl ForkError {
    /// The stable code (`session.md` 6.1).
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidBoundary { .. } => "INVALID_BOUNDARY",
            Self::OpenTurn { .. } => "OPEN_TURN",
            Self::NoClosedTurn => "FORK_UNAVAILABLE",
        }
    }
}

/// The exact prefix `..=boundary`; the whole log without a boundary.
pub fn exact_cut(
    events: &[SharedEvent],
    boundary: Option<SessionSeq>,
) -> Result<SessionLogOffset, ForkError> {
    let cut = match boundary {
        None => SessionLogOffset::of_len(events.len()),
        Some(boundary) => match events.get(boundary.index()) {
            Some(event) if event.seq() == boundary => boundary.offset_after(),
            _ => return Err(ForkError::InvalidBoundary { boundary }),
        },
    };
    let prefix = &events[..cut.index()];
    let mark = prefix.iter().rev().find(|e| is_turn_mark(e));
    match mark {
        Some(event) if *event.event_type() == EventType::TurnStart => {
            let turn = event
                .payload::<crate::payload::TurnStart>()
                .map_or(0, |t| t.turn);
            Err(ForkError::OpenTurn { turn })
        }
        _ => Ok(cut),
    }
}

/// The prefix through the turn that `anchor` lies in, and what stands between it and the next turn.
///
/// Without an anchor, or with one behind the end, the last turn that ended counts.
pub fn turn_cut(
    events: &[SharedEvent],
    anchor: Option<SessionSeq>,
) -> Result<SessionLogOffset, ForkError> {
    let is_end = |e: &SharedEvent| *e.event_type() == EventType::TurnEnd;
    let inside = anchor.filter(|anchor| anchor.index() < events.len());
    let end = match inside {
        Some(anchor) => events[anchor.index()..]
            .iter()
            .position(is_end)
            .map(|i| i + anchor.index()),
        None => events.iter().rposition(is_end),
    }
    .ok_or(ForkError::NoClosedTurn)?;
    let behind = &events[end + 1..];
    let standalone = behind
        .iter()
        .position(|e| *e.event_type() == EventType::TurnStart)
        .unwrap_or(behind.len());
    Ok(SessionLogOffset::of_len(end + 1 + standalone))
}

fn is_turn_mark(event: &SharedEvent) -> bool {
    matches!(
        event.event_type(),
        EventType::TurnStart | EventType::TurnEnd
    )
}

/// The header of a fork: place and lineage from the source, nothing else.
///
/// Depth, origin and preset are for the Host to set.
pub fn child_header(source: &SessionHeader, id: SessionId, now: Timestamp) -> SessionHeader {
    SessionHeader {
        cwd: source.cwd.clone(),
        parent_session: Some(source.id.clone()),
        is_seeded: true,
        ..SessionHeader::root(id, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::log_only;

    fn two_turns_and_an_open_one() -> Vec<SharedEvent> {
        let start = |seq, turn| log_only(seq, "turn/start", &format!(r#"{{"turn":{turn}}}"#));
        let end = |seq, turn, kind| {
            let data = format!(r#"{{"turn":{turn},"reason":{{"kind":"{kind}"}}}}"#);
            log_only(seq, "turn/end", &data)
        };
        let title = r#"{"title":"t","messageSeqs":[],"source":{"kind":"user"}}"#;
        vec![
            start(0, 1),
            end(1, 1, "completed"),
            log_only(2, "session/title", title),
            start(3, 2),
            end(4, 2, "interrupted"),
            start(5, 3),
        ]
    }

    fn seq(n: u64) -> Option<SessionSeq> {
        Some(SessionSeq::new(n).unwrap())
    }

    #[test]
    fn a_fork_never_ends_inside_an_open_turn() {
        let events = two_turns_and_an_open_one();
        assert_eq!(exact_cut(&events, seq(2)).unwrap().get(), 3);
        assert_eq!(
            exact_cut(&events, seq(3)),
            Err(ForkError::OpenTurn { turn: 2 })
        );
        assert_eq!(
            exact_cut(&events, None),
            Err(ForkError::OpenTurn { turn: 3 })
        );
        assert!(matches!(
            exact_cut(&events, seq(6)),
            Err(ForkError::InvalidBoundary { .. })
        ));
        assert_eq!(exact_cut(&[], None).unwrap(), SessionLogOffset::ZERO);
        assert!(matches!(
            exact_cut(&[], seq(0)),
            Err(ForkError::InvalidBoundary { .. })
        ));
    }

    #[test]
    fn an_anchor_takes_its_whole_turn_and_what_follows_up_to_the_next() {
        let events = two_turns_and_an_open_one();
        assert_eq!(turn_cut(&events, seq(0)).unwrap().get(), 3);
        assert_eq!(turn_cut(&events, seq(2)).unwrap().get(), 5);
        assert_eq!(turn_cut(&events, None).unwrap().get(), 5);
        assert_eq!(turn_cut(&events, seq(99)).unwrap().get(), 5);
        assert_eq!(turn_cut(&events, seq(5)), Err(ForkError::NoClosedTurn));
        assert_eq!(turn_cut(&events[..1], None), Err(ForkError::NoClosedTurn));
    }
}
