//! A line on a terminal that says how far something is; silent where nobody watches.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// How long something may take before it is worth a word.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often the line is drawn anew.
const REDRAW: Duration = Duration::from_millis(100);
/// Characters of the bar.
const WIDTH: usize = 24;

/// How far something is.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    watched: bool,
    started: Instant,
    drawn: Option<Instant>,
    total: usize,
}

impl Progress {
    /// Something begins.
    pub(crate) fn new(what: &'static str) -> Self {
        Self {
            what,
            watched: io::stderr().is_terminal(),
            started: Instant::now(),
            drawn: None,
            total: 0,
        }
    }

    /// So many are left.
    pub(crate) fn show(&mut self, left: usize) {
        self.total = self.total.max(left + 1);
        let early = self.started.elapsed() < PATIENCE;
        let fresh = self.drawn.is_some_and(|at| at.elapsed() < REDRAW);
        if !self.watched || early || fresh {
            return;
        }
        self.drawn = Some(Instant::now());
        let text = line(self.what, self.total - left, self.total);
        draw(&format!("\r{text}"));
    }

    /// It is over: the line goes.
    pub(crate) fn done(self) {
        if self.drawn.is_some() {
            draw("\r\u{1b}[K");
        }
    }
}

fn line(what: &str, done: usize, total: usize) -> String {
    let filled = (WIDTH * done)
        .checked_div(total)
        .unwrap_or(WIDTH)
        .min(WIDTH);
    let (full, empty) = ("#".repeat(filled), "-".repeat(WIDTH - filled));
    format!("[{full}{empty}] {done}/{total} {what}")
}

/// Nobody listening is no failure.
fn draw(text: &str) {
    let mut err = io::stderr().lock();
    drop(err.write_all(text.as_bytes()).and_then(|()| err.flush()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_as_the_work_goes_on() {
        let bar = |done| line("read", done, 4);
        assert_eq!(bar(0), "[------------------------] 0/4 read");
        assert_eq!(bar(1), "[######------------------] 1/4 read");
        assert_eq!(bar(4), "[########################] 4/4 read");
    }
}
