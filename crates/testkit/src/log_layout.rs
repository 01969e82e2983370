//! What a log's bytes say, by another reading than the product's: which events each unit of the file
//! holds, and so what must be left of the log when it is cut anywhere.
//!
//! Frames are found by the zstd library, lines by their newlines, and a row counts the members of
//! its list. Only for whole, healthy logs.

use std::io::Read as _;
use std::ops::Range;

use anyhow::{Context as _, bail};

/// A container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// Zstd frames.
    Zstd,
    /// Plain lines.
    Plain,
}

impl Container {
    /// The file name of a log in this container.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Zstd => "session.jsonl.zstd",
            Self::Plain => "session.jsonl",
        }
    }
}

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Where it lies in its frame's content; in the file when that is plain. Without its newline.
    pub span: Range<usize>,
    /// How many events it stands for.
    pub events: usize,
    /// Whether it ends a turn.
    pub ends_turn: bool,
}

/// A frame of a log; of a plain one all lines behind the header are one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Where it lies in the file.
    pub span: Range<usize>,
    /// Its lines.
    pub lines: Vec<Line>,
}

impl Frame {
    fn events(&self) -> usize {
        self.lines.iter().map(|line| line.events).sum()
    }
}

/// What lies where in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The container.
    pub container: Container,
    /// Where the header ends.
    pub header_end: usize,
    /// The inherited cut that the header states.
    pub inherited: usize,
    /// Everything behind the header.
    pub frames: Vec<Frame>,
}

/// What must be read from a log that was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// There is no header, so there is no log.
    NoLog,
    /// The header promises more events than there are: damage.
    Damaged,
    /// These events.
    Events {
        /// How many events lie in whole units.
        committed: usize,
        /// How many more the torn frame gives back.
        recovered: usize,
        /// Where the torn part begins, if there is one.
        torn: Option<usize>,
    },
}

impl Layout {
    /// Takes a healthy log apart.
    pub fn of(bytes: &[u8], container: Container) -> anyhow::Result<Self> {
        let (header_end, header, frames) = match container {
            Container::Plain => {
                let end = newline(bytes).context("no header line")?;
                let lines = lines_of(bytes, end + 1)?;
                let span = end + 1..bytes.len();
                (end + 1, bytes[..end].to_vec(), vec![Frame { span, lines }])
            }
            Container::Zstd => {
                let mut at = frame_size(bytes)?;
                let (header_end, header) = (at, zstd::decode_all(&bytes[..at])?);
                let mut frames = Vec::new();
                while at < bytes.len() {
                    let span = at..at + frame_size(&bytes[at..])?;
                    let content = zstd::decode_all(&bytes[span.clone()])?;
                    at = span.end;
                    let lines = lines_of(&content, 0)?;
                    frames.push(Frame { span, lines });
                }
                (header_end, header, frames)
            }
        };
        let header: serde_json::Value = serde_json::from_slice(&header)?;
        let inherited = header.get("seedLength").and_then(serde_json::Value::as_u64);
        Ok(Self {
            container,
            header_end,
            inherited: usize::try_from(inherited.unwrap_or(0))?,
            frames,
        })
    }

    /// How many events there are.
    pub fn events(&self) -> usize {
        self.frames.iter().map(Frame::events).sum()
    }

    /// What must be left when only the first `cut` bytes of the log are there.
    pub fn cut(&self, bytes: &[u8], cut: usize) -> Expected {
        if cut < self.header_end {
            return Expected::NoLog;
        }
        let (mut committed, mut recovered, mut torn) = (0, 0, None);
        for frame in &self.frames {
            let span = &frame.span;
            if span.start >= cut {
                break;
            }
            match self.container {
                Container::Zstd if span.end <= cut => committed += frame.events(),
                Container::Zstd => {
                    let left = readable(&bytes[span.start..cut]);
                    recovered = whole(frame, left).0;
                    torn = Some(span.start);
                }
                Container::Plain => {
                    let (events, end) = whole(frame, cut);
                    committed += events;
                    let end = end.max(span.start);
                    torn = (end < cut).then_some(end);
                }
            }
        }
        if committed + recovered < self.inherited {
            return Expected::Damaged;
        }
        Expected::Events {
            committed,
            recovered,
            torn,
        }
    }
}

/// The events of the lines whose newline lies in front of `end`, and where the last of them ends.
fn whole(frame: &Frame, end: usize) -> (usize, usize) {
    let lines = frame.lines.iter().take_while(|line| line.span.end < end);
    lines.fold((0, 0), |(events, _), line| {
        (events + line.events, line.span.end + 1)
    })
}

/// How many bytes of content the library gives for a frame that is cut.
fn readable(bytes: &[u8]) -> usize {
    let Ok(mut decoder) = zstd::stream::read::Decoder::new(bytes) else {
        return 0;
    };
    let (mut length, mut piece) = (0, [0; 512]);
    loop {
        match decoder.read(&mut piece) {
            Ok(0) | Err(_) => return length,
            Ok(count) => length += count,
        }
    }
}

fn frame_size(bytes: &[u8]) -> anyhow::Result<usize> {
    zstd::zstd_safe::find_frame_compressed_size(bytes)
        .map_err(|code| anyhow::anyhow!("{}", zstd::zstd_safe::get_error_name(code)))
}

fn newline(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&b| b == b'\n')
}

fn lines_of(content: &[u8], mut at: usize) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    while at < content.len() {
        let length = newline(&content[at..]).context("a line without an end")?;
        let span = at..at + length;
        let text = std::str::from_utf8(&content[span.clone()])?;
        // Lone surrogates are legal in a log and not in a string of this library.
        let text = text.replace("\\ud", "\\u0").replace("\\uD", "\\u0");
        let value: serde_json::Value = serde_json::from_str(&text)?;
        let kind = value["type"].as_str().context("a record without a type")?;
        let events = match kind {
            "text-chunks" | "reasoning-chunks" => value["data"]["texts"].as_array(),
            "tool-call-chunks" => value["data"]["args"].as_array(),
            _ => None,
        };
        if events.is_none() && kind.ends_with("-chunks") {
            bail!("a row without members: {text}");
        }
        at = span.end + 1;
        lines.push(Line {
            span,
            events: events.map_or(1, Vec::len),
            ends_turn: kind == "turn/end",
        });
    }
    Ok(lines)
}
