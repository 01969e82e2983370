//! Server-sent events from bytes, however the network cuts them.
//!
//! Owns framing only: what an event means is up to the adapter. Bounded, because the other side is
//! not ours; tolerant, because servers differ in line ends, spaces and whether the last event ends.
//! Comments yield nothing: whoever read the bytes already knows that the server is alive.

/// Bytes of one event's data and of one line, unless asked for otherwise.
pub const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The event's name; most servers give none.
    pub name: Option<String>,
    /// Its data lines, joined by newlines. Invalid UTF-8 reads as U+FFFD.
    pub data: String,
}

/// An event was larger than the bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is larger than {max} bytes")]
pub struct EventTooLarge {
    /// The bound, in bytes.
    pub max: usize,
}

/// The state between two reads.
#[derive(Debug)]
pub struct SseParser {
    max: usize,
    line: Vec<u8>,
    data: Option<Vec<u8>>,
    name: Option<String>,
    /// The last byte was CR: an LF now belongs to the same line end.
    after_cr: bool,
    first_line: bool,
}

impl Default for SseParser {
    fn default() -> Self {
        Self::new(EVENT_BYTES_MAX)
    }
}

impl SseParser {
    /// A parser at the start of a stream whose events have at most `max` bytes.
    pub const fn new(max: usize) -> Self {
        Self {
            max,
            line: Vec::new(),
            data: None,
            name: None,
            after_cr: false,
            first_line: true,
        }
    }

    /// Takes the next bytes and gives the events that are complete with them.
    ///
    /// # Errors
    ///
    /// An event is larger than the bound; the stream cannot be read on then.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, EventTooLarge> {
        let mut events = Vec::new();
        let mut rest = bytes;
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            let (line, tail) = rest.split_at(at);
            self.extend_line(line)?;
            rest = match tail {
                [b'\r', b'\n', tail @ ..] => tail,
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [_, tail @ ..] => tail,
                [] => tail,
            };
            events.extend(self.end_line()?);
        }
        self.extend_line(rest)?;
        Ok(events)
    }

    /// The event that the end of the stream left without its blank line.
    pub fn finish(mut self) -> Option<SseEvent> {
        let last = if self.line.is_empty() {
            None
        } else {
            // Within the bounds already, so that a failure here cannot happen twice.
            self.end_line().ok().flatten()
        };
        last.or_else(|| self.dispatch())
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), EventTooLarge> {
        if self.line.len() + bytes.len() > self.max {
            return Err(EventTooLarge { max: self.max });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<SseEvent>, EventTooLarge> {
        let line = std::mem::take(&mut self.line);
        let mut line = line.as_slice();
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(self.dispatch());
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                let data = match &mut self.data {
                    Some(data) => {
                        data.push(b'\n');
                        data
                    }
                    none => none.insert(Vec::new()),
                };
                if data.len() + value.len() > self.max {
                    return Err(EventTooLarge { max: self.max });
                }
                data.extend_from_slice(value);
            }
            b"event" => self.name = Some(String::from_utf8_lossy(value).into_owned()),
            // Comments (an empty field), ids, retry times and unknown fields mean nothing to us.
            _ => {}
        }
        Ok(None)
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let name = self.name.take();
        let data = self.data.take()?;
        Some(SseEvent {
            name,
            data: String::from_utf8_lossy(&data).into_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<String> {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        for piece in pieces {
            events.extend(parser.push(piece).unwrap());
        }
        events.extend(parser.finish());
        events.into_iter().map(|event| event.data).collect()
    }

    #[test]
    fn all_line_ends_spaces_and_comments_read_alike() {
        let plain = "data: a\n\ndata: b\n\n";
        for text in [
            plain.to_owned(),
            plain.replace('\n', "\r\n"),
            plain.replace('\n', "\r"),
            plain.replace("data: ", "data:"),
            format!(": keep-alive\n\n{plain}: bye\n"),
            format!("\u{feff}{plain}"),
            plain.replace("data", "event: x\nid: 7\ndata"),
            "data: a\n\n\n\ndata: b".to_owned(),
            "data: a\n\ndata: b\n".to_owned(),
        ] {
            assert_eq!(read(&[text.as_bytes()]), ["a", "b"], "{text:?}");
        }
    }

    #[test]
    fn data_of_several_lines_is_joined_and_names_are_kept() {
        assert_eq!(read(&[b"data: a\ndata:\ndata:  b\n\n"]), ["a\n\n b"]);
        let mut parser = SseParser::default();
        let events = parser.push(b"event: error\ndata: x\n\n").unwrap();
        assert_eq!(events[0].name.as_deref(), Some("error"));
    }

    #[test]
    fn an_event_beyond_the_bound_is_refused() {
        let mut parser = SseParser::new(10);
        assert!(parser.push(b"data: 1234567").is_err());
        let mut parser = SseParser::new(10);
        assert!(
            parser
                .push(b"data: 123\ndata: 456\ndata: 789\ndata: 1\n")
                .is_err()
        );
    }

    proptest! {
        #[test]
        fn a_stream_cut_anywhere_reads_the_same(
            cuts in proptest::collection::vec(0usize..200, 0..12),
            ends in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        ) {
            let text = ": hi\n\ndata: {\"a\":\"星é🙂\"}\n\ndata:two\ndata: lines\n\nevent: e\ndata: x";
            let text = text.replace('\n', ends);
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut % (text.len() + 1)).collect();
            at.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for to in at {
                pieces.push(&text.as_bytes()[from..to]);
                from = to;
            }
            pieces.push(&text.as_bytes()[from..]);
            prop_assert_eq!(read(&pieces), ["{\"a\":\"星é🙂\"}", "two\nlines", "x"]);
        }
    }
}
