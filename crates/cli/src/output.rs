//! Standard output for data, standard error for talk.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::report::Failure;

/// Writes data as it is and hands it on at once.
pub(crate) fn data(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(Failure::writing)
}

/// Writes text that a model or a file chose: to a terminal only what it can show, to anything else
/// as it is.
pub(crate) fn foreign(text: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        data(&visible(text))
    } else {
        data(text)
    }
}

/// The text with everything spelled out that would steer a terminal or turn the order of what is
/// read: a model must not be able to hide what it asks for.
pub(crate) fn visible(text: &str) -> String {
    let steers = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Writes a line of data.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    data(&format!("{text}\n"))
}

/// Writes a value as one line of JSON.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(io::Error::from);
    line(&text.map_err(Failure::writing)?)
}

/// Says something to the person, whoever chose the words; nobody listening is no failure.
pub(crate) fn say(text: &str) {
    let text = visible(text);
    let mut err = io::stderr().lock();
    drop(
        err.write_all(text.as_bytes())
            .and_then(|()| err.write_all(b"\n")),
    );
}

/// How long ago something was, in words; `then` in epoch milliseconds.
pub(crate) fn ago(then: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    });
    span((now - then) / 1000)
}

fn span(seconds: i64) -> String {
    const STEPS: [(i64, &str); 4] = [
        (86_400, "day"),
        (3_600, "hour"),
        (60, "minute"),
        (1, "second"),
    ];
    let found = STEPS.iter().find(|(length, _)| seconds >= *length);
    match found {
        Some((length, name)) => {
            let count = seconds / length;
            let plural = if count == 1 { "" } else { "s" };
            format!("{count} {name}{plural} ago")
        }
        None => "now".to_owned(),
    }
}

/// Lays rows out in columns; the last one is not padded.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The first line of a text, cut to a width that fits a terminal.
pub(crate) fn short(text: &str, width: usize) -> String {
    let line = text.lines().find(|l| !l.trim().is_empty()).unwrap_or("");
    let line = visible(&line.replace('\t', " "));
    if line.chars().count() <= width {
        return line.trim().to_owned();
    }
    let cut: String = line.trim().chars().take(width.saturating_sub(1)).collect();
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_said_in_their_largest_unit() {
        let said: Vec<String> = [-5, 0, 1, 59, 60, 7_200, 86_400 * 3].map(span).into();
        let expected = [
            "now",
            "now",
            "1 second ago",
            "59 seconds ago",
            "1 minute ago",
            "2 hours ago",
            "3 days ago",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn columns_line_up_and_nothing_trails() {
        let rows = [["a", "bb", ""], ["ccc", "d", "e"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "a    bb\nccc  d   e\n");
        assert_eq!(table(&[]), "");
    }

    #[test]
    fn nothing_that_steers_a_terminal_gets_through() {
        let text = "rm -rf ~\u{1b}[2K\r\u{202e}ok\n\tpath é 漢 👍";
        let shown = r"rm -rf ~\u{1b}[2K\u{d}\u{202e}ok";
        assert_eq!(visible(text), format!("{shown}\n\tpath é 漢 👍"));
    }

    #[test]
    fn a_long_text_is_cut_at_its_first_line() {
        assert_eq!(short("\n  a\tb\nc", 10), "a b");
        assert_eq!(short("abcdef", 4), "abc…");
    }
}
