//! Lines of JSON to and from a program: bounded, read all the time, written by a task of its own.
//!
//! A line that is too long or no JSON ends the run; nothing here panics on what a program writes.

use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::failure::Failure;

/// Bytes of one line. A frame may hold a whole file's difference, not a disk's.
pub(super) const LINE_MAX: usize = 8 * 1024 * 1024;
/// Lines that wait to be written: more than a program can ask for at once.
const WAITING_LINES: usize = 64;

/// The two pipes of a program.
pub(super) struct Lines {
    reader: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    line: Vec<u8>,
    writer: Option<mpsc::Sender<Vec<u8>>>,
    writing: JoinHandle<()>,
    /// What is said before the input is closed, when the run is stopped from here.
    farewell: Option<Vec<u8>>,
}

impl Lines {
    pub(super) fn new(
        output: impl AsyncRead + Send + Unpin + 'static,
        mut input: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let (writer, mut lines) = mpsc::channel::<Vec<u8>>(WAITING_LINES);
        let writing = tokio::spawn(async move {
            while let Some(line) = lines.recv().await {
                if input.write_all(&line).await.is_err() || input.flush().await.is_err() {
                    return;
                }
            }
        });
        Self {
            reader: BufReader::with_capacity(64 * 1024, Box::new(output)),
            line: Vec::new(),
            writer: Some(writer),
            writing,
            farewell: None,
        }
    }

    /// Writes one line.
    pub(super) async fn send(&mut self, frame: &impl Serialize) -> Result<(), Failure> {
        let writer = self.writer.as_ref().ok_or(Failure::Deaf)?;
        let sent = writer.send(line_of(frame)).await;
        sent.map_err(|_closed| Failure::Deaf)
    }

    /// Says what is to be written when the run is stopped from here.
    pub(super) fn say_on_stop(&mut self, frame: &impl Serialize) {
        self.farewell = Some(line_of(frame));
    }

    /// The next line that is not blank, without its end; `None` at the end of the output.
    pub(super) async fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        loop {
            self.line.clear();
            if !self.fill().await? {
                return Ok(None);
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        Ok(Some(self.line.trim_ascii()))
    }

    /// Reads up to the end of a line; false at the end of the output.
    async fn fill(&mut self) -> Result<bool, Failure> {
        loop {
            let piece = self.reader.fill_buf().await?;
            if piece.is_empty() {
                return Ok(!self.line.is_empty());
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(piece.len(), |end| end + 1);
            if self.line.len() + taken > LINE_MAX {
                return Err(Failure::LineTooLong { limit: LINE_MAX });
            }
            self.line
                .extend_from_slice(piece.get(..taken).unwrap_or_default());
            self.reader.consume(taken);
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    /// Closes the input behind what was queued, and behind the farewell where one is wanted. A
    /// program that does not read does not see it.
    pub(super) fn close(&mut self, farewell: bool) {
        let last = self.farewell.take().filter(|_| farewell);
        if let (Some(line), Some(writer)) = (last, &self.writer)
            && writer.try_send(line).is_err()
        {
            tracing::debug!("a program does not read: it is not told that it is stopped");
        }
        self.writer = None;
    }

    /// Reads to the end and keeps nothing, so that a program which still writes can end.
    pub(super) async fn drain(&mut self) {
        loop {
            match self.reader.fill_buf().await {
                Ok(piece) if !piece.is_empty() => {
                    let length = piece.len();
                    self.reader.consume(length);
                }
                Ok(_) | Err(_) => return,
            }
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.writing.abort();
    }
}

fn line_of(frame: &impl Serialize) -> Vec<u8> {
    // What we send is made of texts and numbers.
    let mut line = serde_json::to_vec(frame).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(output: &'static [u8]) -> Lines {
        Lines::new(output, tokio::io::sink())
    }

    #[tokio::test]
    async fn lines_come_whole_without_blank_ones_and_the_last_needs_no_end() {
        let mut lines = lines(b"{\"a\":1}\r\n\n  \n{\"b\":2}\nlast");
        for expected in [&b"{\"a\":1}"[..], b"{\"b\":2}", b"last"] {
            assert_eq!(lines.next().await.unwrap(), Some(expected));
        }
        assert_eq!(lines.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn an_endless_line_is_refused_before_it_is_held() {
        let endless = tokio::io::repeat(b'x');
        let mut lines = Lines::new(endless, tokio::io::sink());
        let refused = lines.next().await.unwrap_err();
        assert!(matches!(refused, Failure::LineTooLong { .. }), "{refused}");
        assert!(lines.line.len() <= LINE_MAX);
    }
}
