//! Writes logs as other programs do, for tests that read them.
//!
//! Owns its own spelling of everything: headers, events, packed rows, range lists, frames. It shares
//! no code with the product's encoder, so that the two can disagree. For each log it also says the
//! events that must be read from it, in the present dialect.

use std::fmt::Write as _;

use crate::log_layout::Container;
use crate::zstd_frames::Framing;

/// A finished log.
#[derive(Debug, Clone)]
pub struct Fixture {
    /// What it shows.
    pub name: String,
    /// The session.
    pub id: String,
    /// Its container.
    pub container: Container,
    /// The folder of its project.
    pub project: &'static str,
    /// The file.
    pub bytes: Vec<u8>,
    /// The header line.
    pub header: String,
    /// The inherited cut.
    pub inherited: usize,
    /// The text of each event, in the present dialect.
    pub events: Vec<String>,
}

/// The kind of a packed row.
#[derive(Debug, Clone, Copy)]
pub enum Row<'a> {
    /// Text.
    Text,
    /// Reasoning.
    Reasoning,
    /// Arguments of a call: its id and, where repeated, its tool.
    Call(&'a str, Option<&'a str>),
}

/// Writes one log.
#[derive(Debug)]
pub struct LogWriter {
    log: Fixture,
    pending: String,
    framing: Framing,
    time: i64,
}

impl LogWriter {
    /// Starts a log in `/home/dev/project`; `more` are the header's other keys, with a comma before
    /// each.
    pub fn new(name: &str, container: Container, more: &str) -> Self {
        let cwd = r#","cwd":"/home/dev/project""#;
        Self::with_header(name, container, "--home-dev-project--", cwd, more)
    }

    /// Starts a log without a working directory.
    pub fn homeless(name: &str, container: Container) -> Self {
        Self::with_header(name, container, "_no-cwd", "", r#","delegationDepth":0"#)
    }

    fn with_header(
        name: &str,
        container: Container,
        project: &'static str,
        cwd: &str,
        more: &str,
    ) -> Self {
        let id = format!("session-{name}");
        let header =
            format!(r#"{{"type":"session","version":0,"id":"{id}","createdAt":1700{cwd}{more}}}"#);
        let inherited = more.split_once("\"seedLength\":").and_then(|(_, rest)| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        });
        let mut writer = Self {
            log: Fixture {
                name: format!("{name} {container:?}"),
                id,
                container,
                project,
                bytes: Vec::new(),
                header: header.clone(),
                inherited: inherited.unwrap_or(0),
                events: Vec::new(),
            },
            pending: format!("{header}\n"),
            framing: Framing::Streamed,
            time: 5000,
        };
        writer.end_frame();
        writer
    }

    /// The shape of the frames from here on.
    pub const fn framed(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// The seq of the next event.
    pub const fn next(&self) -> usize {
        self.log.events.len()
    }

    /// Writes a record as it is given, which reads as `events`.
    pub fn line(&mut self, stored: &str, events: &[String]) {
        self.pending.push_str(stored);
        self.pending.push('\n');
        self.log.events.extend_from_slice(events);
    }

    fn envelope(&mut self, kind: &str, data: &str, rest: &str) -> String {
        self.time += 3;
        let (seq, time) = (self.next(), self.time);
        format!(r#"{{"type":"{kind}","seq":{seq},"time":{time},"data":{data}{rest}}}"#)
    }

    /// Writes an event; gives its seq.
    pub fn event(&mut self, kind: &str, data: &str) -> usize {
        let text = self.envelope(kind, data, "");
        self.line(&text, std::slice::from_ref(&text));
        self.next() - 1
    }

    /// Writes an event of an older dialect, which reads as another payload of another type.
    pub fn legacy(&mut self, stored: (&str, &str, &str), read: (&str, &str, &str)) {
        let stored = self.envelope(stored.0, stored.1, stored.2);
        self.time -= 3;
        let read = self.envelope(read.0, read.1, read.2);
        self.line(&stored, &[read]);
    }

    /// Writes a user message.
    pub fn prompt(&mut self, text: &str) -> usize {
        let seq = self.next();
        let data = format!(
            r#"{{"content":[{{"type":"text","text":"{text}"}}],"source":{{"kind":"user"}},"role":"user","id":"m{seq}"}}"#
        );
        let text = self.envelope("user/message", &data, r#","surfaceOp":"append""#);
        self.line(&text, std::slice::from_ref(&text));
        seq
    }

    /// Writes an assistant message that cites `sources`, as a list or in range form.
    pub fn answer(&mut self, turn: u64, text: &str, sources: &[usize], packed: bool) {
        let seq = self.next();
        let data = format!(
            r#"{{"turn":{turn},"step":1,"message":{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}],"source":{{"kind":"model","provider":"p","model":"m"}},"id":"m{seq}"}}}}"#
        );
        let plain: Vec<String> = sources.iter().map(usize::to_string).collect();
        let plain = plain.join(",");
        let stored = if packed {
            ranges(sources)
        } else {
            plain.clone()
        };
        let rest = |list: &str| format!(r#","sourceEventSeqs":[{list}],"surfaceOp":"append""#);
        let kind = "assistant/message";
        self.legacy((kind, &data, &rest(&stored)), (kind, &data, &rest(&plain)));
    }

    /// Writes a row of fragments, each the raw text of a JSON string without its quotes.
    pub fn row(&mut self, row: Row<'_>, turn: u64, index: u64, fragments: &[&str]) {
        let (seq0, time0) = (self.next(), self.time);
        let mut gaps = Vec::new();
        let mut events = Vec::new();
        for (i, fragment) in fragments.iter().enumerate() {
            if i > 0 {
                // Clocks step back now and then.
                let gap = if i % 4 == 3 { -2 } else { 5 };
                gaps.push(gap.to_string());
                self.time += gap;
            }
            let chunk = match row {
                Row::Text => {
                    format!(r#"{{"type":"text-delta","index":{index},"text":"{fragment}"}}"#)
                }
                Row::Reasoning => {
                    format!(r#"{{"type":"reasoning-delta","index":{index},"text":"{fragment}"}}"#)
                }
                Row::Call(id, name) => format!(
                    r#"{{"type":"tool-call-delta","index":{index},"id":"{id}"{},"argumentsDelta":"{fragment}"}}"#,
                    name.map(|n| format!(r#","name":"{n}""#))
                        .unwrap_or_default()
                ),
            };
            events.push(format!(
                r#"{{"type":"assistant/chunk","seq":{},"time":{},"data":{{"turn":{turn},"step":1,"chunk":{chunk}}}}}"#,
                seq0 + i,
                self.time
            ));
        }
        let list: Vec<String> = fragments.iter().map(|f| format!("\"{f}\"")).collect();
        let (kind, call, members) = match row {
            Row::Text => ("text-chunks", String::new(), "texts"),
            Row::Reasoning => ("reasoning-chunks", String::new(), "texts"),
            Row::Call(id, name) => {
                let mut call = format!(r#","id":"{id}""#);
                if let Some(name) = name {
                    // Writing to a string cannot fail.
                    write!(call, r#","name":"{name}""#).unwrap_or_default();
                }
                ("tool-call-chunks", call, "args")
            }
        };
        let stored = format!(
            r#"{{"type":"{kind}","seq0":{seq0},"time0":{time0},"data":{{"turn":{turn},"step":1,"index":{index},"dt":[{}]{call},"{members}":[{}]}}}}"#,
            gaps.join(","),
            list.join(",")
        );
        self.line(&stored, &events);
    }

    /// Ends a durable batch: a frame, or nothing but a place in a plain file.
    pub fn end_frame(&mut self) {
        let content = std::mem::take(&mut self.pending);
        if content.is_empty() {
            return;
        }
        match self.log.container {
            Container::Plain => self.log.bytes.extend(content.as_bytes()),
            Container::Zstd => {
                // Compression into memory fails only when memory does.
                let frame = self.framing.frame(content.as_bytes()).unwrap_or_default();
                self.log.bytes.extend(frame);
            }
        }
    }

    /// Ends the log.
    pub fn finish(mut self) -> Fixture {
        self.end_frame();
        self.log
    }
}

/// The inside of a list in range form: runs of three and more as pairs.
fn ranges(seqs: &[usize]) -> String {
    let mut groups: Vec<(usize, usize)> = Vec::new();
    for &seq in seqs {
        match groups.last_mut() {
            Some((_, last)) if *last + 1 == seq => *last = seq,
            _ => groups.push((seq, seq)),
        }
    }
    let spelled: Vec<String> = groups
        .into_iter()
        .flat_map(|(first, last)| {
            if last - first >= 2 {
                vec![format!("[{first},{last}]")]
            } else {
                (first..=last).map(|seq| seq.to_string()).collect()
            }
        })
        .collect();
    spelled.join(",")
}

#[cfg(test)]
mod tests {
    #[test]
    fn runs_of_three_and_more_become_pairs() {
        assert_eq!(super::ranges(&[1, 3, 4, 5, 7]), "1,[3,5],7");
        assert_eq!(super::ranges(&[1, 3, 4, 7]), "1,3,4,7");
    }
}
