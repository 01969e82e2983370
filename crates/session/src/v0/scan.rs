//! The line scanner (`session.md` 2.6): what of many lines is committed, what is a torn tail, and
//! when damage lies in front of committed work.

use super::{RecordError, decode_record};
use crate::event::{Event, SharedEvent};
use crate::event_type::EventType;
use crate::seq::{SessionLogOffset, SessionSeq};

/// The first thing that is wrong with the lines.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineIssue {
    /// A line that is no record.
    #[error("line {line}: {source}")]
    Malformed {
        /// 1-based, counted from the first scanned line.
        line: usize,
        /// What is wrong.
        #[source]
        source: RecordError,
    },
    /// A record out of order; the whole row is dropped.
    #[error("line {line}: expected seq {expected}, found {found}")]
    Gap {
        /// 1-based, counted from the first scanned line.
        line: usize,
        /// The next seq.
        expected: SessionSeq,
        /// What stood there.
        found: SessionSeq,
    },
}

/// The scan ran into damage in front of committed work.
#[derive(Debug, thiserror::Error)]
#[error("damage before a later turn/end: {0}")]
pub struct ScanError(#[source] pub LineIssue);

/// What the lines say.
#[derive(Debug, Default)]
pub struct Scan {
    /// The events, dense from the given start.
    pub events: Vec<SharedEvent>,
    /// How many bytes the good lines take, newlines included.
    pub committed_bytes: usize,
    /// What ended them, if anything but the end did.
    pub issue: Option<LineIssue>,
}

/// Scans lines, the first record of which must have the seq behind `start`.
///
/// Bytes behind the last newline are ignored. After the first issue, later lines are looked at
/// only for a `turn/end`: finding one makes the issue fatal.
pub fn scan_records(bytes: &[u8], start: SessionLogOffset) -> Result<Scan, ScanError> {
    let mut scan = Scan::default();
    let mut next = start;
    let mut at = 0;
    let mut line = 0;
    while let Some(length) = bytes[at..].iter().position(|&b| b == b'\n') {
        line += 1;
        let record = decode_record(&bytes[at..at + length]);
        at += length + 1;
        if scan.issue.is_some() {
            if record.is_ok_and(|events| ends_a_turn(&events)) {
                return fatal(scan);
            }
            continue;
        }
        match record {
            Err(source) => scan.issue = Some(LineIssue::Malformed { line, source }),
            Ok(events) => match events.first() {
                Some(first) if first.seq() != next.next_seq() => {
                    let (expected, found) = (next.next_seq(), first.seq());
                    scan.issue = Some(LineIssue::Gap {
                        line,
                        expected,
                        found,
                    });
                    if ends_a_turn(&events) {
                        return fatal(scan);
                    }
                }
                _ => {
                    next = next.advance(events.len());
                    scan.events.extend(events.into_iter().map(SharedEvent::new));
                    scan.committed_bytes = at;
                }
            },
        }
    }
    Ok(scan)
}

fn fatal(scan: Scan) -> Result<Scan, ScanError> {
    match scan.issue {
        Some(issue) => Err(ScanError(issue)),
        None => Ok(scan),
    }
}

fn ends_a_turn(events: &[Event]) -> bool {
    events.iter().any(|e| *e.event_type() == EventType::TurnEnd)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "{\"type\":\"turn/start\",\"seq\":0,\"time\":0,\"data\":{\"turn\":1}}\n";
    const END: &str = "{\"type\":\"turn/end\",\"seq\":1,\"time\":0,\"data\":{\"turn\":1,\"reason\":{\"kind\":\"completed\"}}}\n";

    fn scan(text: &str) -> Result<Scan, ScanError> {
        scan_records(text.as_bytes(), SessionLogOffset::ZERO)
    }

    #[test]
    fn a_torn_tail_is_dropped_and_the_good_lines_counted() {
        let torn = scan(&format!("{START}{}", END.get(..20).unwrap())).unwrap();
        assert_eq!((torn.events.len(), torn.committed_bytes), (1, START.len()));
        assert!(torn.issue.is_none());
        let bad_line = scan(&format!("{START}garbage\n")).unwrap();
        assert_eq!(bad_line.committed_bytes, START.len());
        assert!(matches!(
            bad_line.issue,
            Some(LineIssue::Malformed { line: 2, .. })
        ));
    }

    #[test]
    fn damage_in_front_of_a_later_turn_end_is_fatal() {
        assert!(scan(&format!("garbage\n{START}{END}")).is_err());
        let gap = END.replace("\"seq\":1", "\"seq\":2");
        assert!(scan(&format!("{START}{gap}")).is_err());
        assert!(scan(&format!("garbage\n{START}")).is_ok());
    }

    #[test]
    fn a_row_behind_a_gap_is_dropped_whole() {
        let row = "{\"type\":\"text-chunks\",\"seq0\":2,\"time0\":0,\"data\":{\"turn\":1,\"step\":1,\"index\":0,\"dt\":[0],\"texts\":[\"a\",\"b\"]}}\n";
        let scan = scan(&format!("{START}{row}")).unwrap();
        assert_eq!(scan.events.len(), 1);
        assert!(matches!(scan.issue, Some(LineIssue::Gap { .. })));
    }
}
