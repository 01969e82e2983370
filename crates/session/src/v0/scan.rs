//! The line scanner (`session.md` 2.6): what of many lines is committed, what is a torn tail, and
//! when damage lies in front of committed work.

use super::{RecordError, decode};
use crate::event::SharedEvent;
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
    scan(bytes, Scanner::new(start))
}

/// As [`scan_records`], where the first record says itself which seq it has: for a piece out of the
/// middle of a log.
pub fn scan_piece(bytes: &[u8]) -> Result<Scan, ScanError> {
    let mut scanner = Scanner::new(SessionLogOffset::ZERO);
    scanner.anywhere = true;
    scan(bytes, scanner)
}

fn scan(bytes: &[u8], mut scanner: Scanner) -> Result<Scan, ScanError> {
    let events = scanner.feed(bytes)?;
    Ok(Scan {
        events,
        committed_bytes: scanner.committed,
        issue: scanner.issue,
    })
}

/// The scanner, fed piece by piece: each piece ends with a whole line, but for the last one.
#[derive(Debug)]
pub struct Scanner {
    next: SessionLogOffset,
    line: usize,
    committed: usize,
    issue: Option<LineIssue>,
    /// Whether the first record may have any seq.
    anywhere: bool,
}

impl Scanner {
    /// A scanner that expects the seq behind `start`.
    pub const fn new(start: SessionLogOffset) -> Self {
        Self {
            next: start,
            line: 0,
            committed: 0,
            issue: None,
            anywhere: false,
        }
    }

    /// The boundary behind the last good record.
    pub const fn end(&self) -> SessionLogOffset {
        self.next
    }

    /// How many bytes the good lines take, newlines included.
    pub const fn committed_bytes(&self) -> usize {
        self.committed
    }

    /// What ended the good lines, if anything did.
    pub const fn issue(&self) -> Option<&LineIssue> {
        self.issue.as_ref()
    }

    /// Scans a piece; gives its good events.
    ///
    /// # Errors
    /// When damage lies in front of a `turn/end`.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<SharedEvent>, ScanError> {
        let mut events: Vec<SharedEvent> = Vec::new();
        let mut at = 0;
        while let Some(length) = memchr::memchr(b'\n', &bytes[at..]) {
            self.line += 1;
            let line = self.line;
            let good = events.len();
            let record = decode(&bytes[at..at + length], &mut |event| {
                events.push(SharedEvent::new(event));
            });
            at += length + 1;
            let found = events.get(good..).unwrap_or_default();
            if self.issue.is_some() {
                let fatal = ends_a_turn(found);
                events.truncate(good);
                if fatal {
                    return self.fatal();
                }
                continue;
            }
            if let Err(source) = record {
                self.issue = Some(LineIssue::Malformed { line, source });
                continue;
            }
            let expected = self.next.next_seq();
            match found.first().map(|first| first.seq()) {
                Some(seq) if seq != expected && !std::mem::take(&mut self.anywhere) => {
                    self.issue = Some(LineIssue::Gap {
                        line,
                        expected,
                        found: seq,
                    });
                    let fatal = ends_a_turn(found);
                    events.truncate(good);
                    if fatal {
                        return self.fatal();
                    }
                }
                first => {
                    self.anywhere = false;
                    let begins = first.map_or(self.next, SessionSeq::offset_before);
                    self.next = begins.advance(found.len());
                    self.committed += length + 1;
                }
            }
        }
        Ok(events)
    }

    fn fatal(&mut self) -> Result<Vec<SharedEvent>, ScanError> {
        match self.issue.take() {
            Some(issue) => Err(ScanError(issue)),
            None => Ok(Vec::new()),
        }
    }
}

fn ends_a_turn(events: &[SharedEvent]) -> bool {
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
