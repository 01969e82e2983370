//! What a program says, as the chunks of an answer.
//!
//! Messages become blocks of text, thoughts and tools blocks of reasoning, which no parent reads.
//! The last message that is not blank is the answer (`subagent.md` 4.6).

use orrery_session::chunk::BlockType;
use orrery_session::{ContentBlock, StreamChunk, Usage};
use tokio::sync::mpsc;

use super::failure::Failure;

/// Bytes that a program may say in one run, thoughts and notes included.
pub(super) const SAID_MAX: usize = 4 * 1024 * 1024;
/// Characters of a note.
const NOTE_MAX: usize = 400;

pub(super) struct Report {
    out: mpsc::Sender<StreamChunk>,
    open: Option<Open>,
    next: u64,
    said: usize,
    answer: String,
}

struct Open {
    index: u64,
    kind: Kind,
    message: Option<String>,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
}

impl Report {
    pub(super) fn new(out: mpsc::Sender<StreamChunk>) -> Self {
        Self {
            out,
            open: None,
            next: 0,
            said: 0,
            answer: String::new(),
        }
    }

    /// More of a message; another id begins another message.
    pub(super) async fn text(&mut self, message: Option<&str>, text: &str) -> Result<(), Failure> {
        self.add(Kind::Text, message, text).await
    }

    /// More of what it thinks.
    pub(super) async fn thought(&mut self, text: &str) -> Result<(), Failure> {
        self.add(Kind::Reasoning, None, text).await
    }

    /// Something that it does, in one line.
    pub(super) async fn note(&mut self, what: &str) -> Result<(), Failure> {
        let line = what.split_whitespace().collect::<Vec<_>>().join(" ");
        let line: String = line.chars().take(NOTE_MAX).collect();
        if line.is_empty() {
            return Ok(());
        }
        self.close().await;
        self.add(Kind::Reasoning, None, &format!("[{line}]"))
            .await?;
        self.close().await;
        Ok(())
    }

    /// A whole message, of which parts may have come before: only what is missing is added.
    pub(super) async fn whole(&mut self, message: &str, text: &str) -> Result<(), Failure> {
        let open = self.open.as_ref();
        let before = open
            .filter(|open| open.kind == Kind::Text && open.message.as_deref() == Some(message))
            .map_or("", |open| open.text.as_str());
        if let Some(rest) = text.strip_prefix(before) {
            let rest = rest.to_owned();
            self.text(Some(message), &rest).await?;
        } else {
            // The parts were of another wording: the whole counts.
            self.close().await;
            self.text(Some(message), text).await?;
        }
        self.close().await;
        Ok(())
    }

    /// What it cost.
    pub(super) async fn usage(&mut self, usage: Usage) {
        self.close().await;
        self.send(StreamChunk::Usage { usage }).await;
    }

    async fn add(&mut self, kind: Kind, message: Option<&str>, text: &str) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        self.said += text.len();
        if self.said > SAID_MAX {
            return Err(Failure::SaidTooMuch { limit: SAID_MAX });
        }
        let same = self.open.as_ref().is_some_and(|open| {
            open.kind == kind && (message.is_none() || open.message.as_deref() == message)
        });
        if !same {
            self.close().await;
            self.begin(kind, message).await;
        }
        if let Some(open) = &mut self.open {
            open.text.push_str(text);
            let (index, text) = (open.index, text.to_owned());
            let delta = match kind {
                Kind::Text => StreamChunk::TextDelta { index, text },
                Kind::Reasoning => StreamChunk::ReasoningDelta { index, text },
            };
            self.send(delta).await;
        }
        Ok(())
    }

    async fn begin(&mut self, kind: Kind, message: Option<&str>) {
        let index = self.next;
        self.next += 1;
        self.open = Some(Open {
            index,
            kind,
            message: message.map(str::to_owned),
            text: String::new(),
        });
        let block_type = match kind {
            Kind::Text => BlockType::Text,
            Kind::Reasoning => BlockType::Reasoning,
        };
        self.send(StreamChunk::BlockStart { index, block_type })
            .await;
    }

    /// Ends the block that is open.
    pub(super) async fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let (index, text) = (open.index, open.text);
        let block = match open.kind {
            Kind::Text => {
                if !text.trim().is_empty() {
                    self.answer.clone_from(&text);
                }
                ContentBlock::text(text)
            }
            Kind::Reasoning => ContentBlock::Reasoning { text },
        };
        self.send(StreamChunk::BlockEnd { index, block }).await;
    }

    /// The last message that is not blank, of those that have ended.
    pub(super) fn answer(&self) -> &str {
        &self.answer
    }

    pub(super) async fn send(&mut self, chunk: StreamChunk) {
        // A reader that is gone has stopped the run, which is seen where it is waited for.
        if self.out.send(chunk).await.is_err() {
            tracing::trace!("a program's words have no reader");
        }
    }
}
