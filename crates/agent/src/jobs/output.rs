//! The output of one job: its newest bytes, read by position.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Bytes of output that are kept of one job.
pub const OUTPUT_MAX: usize = 1024 * 1024;
/// Bytes of one piece.
pub const PIECE_MAX: usize = 256 * 1024;

/// A piece of a job's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The text.
    pub text: String,
    /// Where it starts, in UTF-8 bytes; later than asked for when older output is gone.
    pub from: u64,
    /// Where to go on.
    pub next: u64,
    /// Whether output before `from` is gone.
    pub truncated: bool,
    /// Whether nothing will follow.
    pub done: bool,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    /// How many bytes came before the first that is kept.
    base: u64,
    done: bool,
}

/// The output. Copies share it.
#[derive(Debug, Clone)]
pub(super) struct Output {
    kept: Arc<Mutex<Kept>>,
    changed: watch::Sender<u64>,
}

impl Output {
    pub(super) fn new(changed: watch::Sender<u64>) -> Self {
        Self {
            kept: Arc::default(),
            changed,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, text: &str) {
        let mut kept = self.lock();
        kept.bytes.extend(text.bytes());
        let mut over = kept.bytes.len().saturating_sub(OUTPUT_MAX);
        // What is kept begins with a whole character.
        while kept.bytes.get(over).is_some_and(|byte| byte & 0xC0 == 0x80) {
            over += 1;
        }
        kept.bytes.drain(..over);
        kept.base += over as u64;
        drop(kept);
        self.changed.send_modify(|count| *count += 1);
    }

    pub(super) fn finish(&self) {
        self.lock().done = true;
    }

    /// A piece from a position on; a position inside of a character is that of the next one.
    pub(super) fn read(&self, from: u64) -> Piece {
        let kept = self.lock();
        let end = kept.base + kept.bytes.len() as u64;
        let start = from.clamp(kept.base, end);
        let skip = usize::try_from(start - kept.base).unwrap_or(usize::MAX);
        let rest: Vec<u8> = kept
            .bytes
            .iter()
            .copied()
            .skip(skip)
            .take(PIECE_MAX)
            .collect();
        let inside = rest.iter().take_while(|byte| **byte & 0xC0 == 0x80).count();
        let mut text = rest.get(inside..).unwrap_or_default();
        if let Err(error) = std::str::from_utf8(text) {
            text = text.get(..error.valid_up_to()).unwrap_or_default();
        }
        let from = start + inside as u64;
        let next = from + text.len() as u64;
        Piece {
            text: String::from_utf8_lossy(text).into_owned(),
            from,
            next,
            truncated: kept.base > 0 && start == kept.base,
            done: kept.done && next == end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output() -> Output {
        Output::new(watch::Sender::new(0))
    }

    #[test]
    fn output_is_read_in_pieces_that_end_between_characters() {
        let output = output();
        output.push(&"é".repeat(PIECE_MAX / 2));
        output.push("€end");
        let first = output.read(1);
        assert_eq!((first.from, first.done), (2, false));
        assert!(
            first.text.chars().all(|c| c == 'é'),
            "cut inside of a character"
        );
        output.finish();
        let last = output.read(first.next);
        assert!(last.text.ends_with("€end") && last.done, "{last:?}");
    }

    #[test]
    fn of_much_output_the_newest_is_kept_and_it_says_so() {
        let output = output();
        output.push(&"a".repeat(OUTPUT_MAX));
        output.push("€€");
        let piece = output.read(0);
        assert_eq!((piece.from, piece.truncated), (6, true));
        let tail = output.read(OUTPUT_MAX as u64);
        assert_eq!(tail.text, "€€");
    }
}
