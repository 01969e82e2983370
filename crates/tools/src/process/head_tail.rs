//! The head and the tail of a flood, in bounded memory.

use std::collections::VecDeque;

/// A character of UTF-8 takes at most this many bytes.
const CHARACTER_BYTES: usize = 4;

/// Keeps the first and the last half of an allowance of characters.
#[derive(Debug)]
pub(super) struct HeadTail {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl HeadTail {
    /// Keeps at most `characters` characters.
    pub(super) fn new(characters: usize) -> Self {
        Self {
            half: characters / 2,
            head: Vec::new(),
            tail: VecDeque::new(),
            dropped: 0,
        }
    }

    /// Takes the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let limit = self.half * CHARACTER_BYTES;
        let (head, rest) = bytes.split_at(bytes.len().min(limit.saturating_sub(self.head.len())));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(limit);
        self.tail.drain(..over);
        self.dropped += u64::try_from(over).unwrap_or(u64::MAX);
    }

    /// The text, invalid UTF-8 replaced, and whether its middle is missing.
    pub(super) fn into_text(self) -> (String, bool) {
        let mut bytes = self.head;
        let (front, back) = self.tail.as_slices();
        if self.dropped == 0 {
            bytes.extend_from_slice(front);
            bytes.extend_from_slice(back);
            let text = String::from_utf8_lossy(&bytes);
            let count = text.chars().count();
            if count <= self.half * 2 {
                return (text.into_owned(), false);
            }
            let omitted = count - self.half * 2;
            let head: String = text.chars().take(self.half).collect();
            let tail: String = text.chars().skip(self.half + omitted).collect();
            return (joined(&head, &tail, &format!("{omitted} characters")), true);
        }
        let tail = [front, back].concat();
        let (head, tail) = (
            String::from_utf8_lossy(&bytes),
            String::from_utf8_lossy(&tail),
        );
        let skipped = tail.chars().count().saturating_sub(self.half);
        let head_text: String = head.chars().take(self.half).collect();
        let tail_text: String = tail.chars().skip(skipped).collect();
        let more = head.len() - head_text.len() + tail.len() - tail_text.len();
        let omitted = self.dropped + u64::try_from(more).unwrap_or(0);
        (
            joined(&head_text, &tail_text, &format!("{omitted} bytes")),
            true,
        )
    }
}

fn joined(head: &str, tail: &str, omitted: &str) -> String {
    format!("{head}\n… ({omitted} of output are left out here) …\n{tail}")
}
