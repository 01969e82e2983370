//! Text that comes as JSON strings which may cut a character in two.
//!
//! Some servers cut by UTF-16 units: the first half of an emoji ends one delta and the second half
//! starts the next. Each half alone is no text; together they are. What stays alone reads as U+FFFD.

use orrery_session::json::parse;
use serde::Deserialize;

/// The state between two deltas of one text.
#[derive(Debug, Default)]
pub(super) struct TextPieces {
    /// The escape of a first half that ended the last delta.
    half: Option<String>,
}

impl TextPieces {
    /// Adds a delta, given as its JSON; returns the text that is certain by now.
    pub(super) fn push(&mut self, raw: &str) -> String {
        if raw.starts_with('[') {
            return parts(raw);
        }
        let Some(inner) = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')) else {
            return String::new();
        };
        let mut inner = inner.to_owned();
        if let Some(half) = self.half.take() {
            inner.insert_str(0, &half);
        }
        if let Some(at) = cut_half(&inner) {
            self.half = Some(inner.split_off(at));
        }
        parse(&format!("\"{inner}\"")).unwrap_or_default()
    }

    /// Whether nothing waits for its second half.
    pub(super) const fn is_empty(&self) -> bool {
        self.half.is_none()
    }

    /// The end: what still waits is replaced.
    pub(super) fn finish(&mut self) -> String {
        self.half
            .take()
            .map_or_else(String::new, |_half| "\u{fffd}".to_owned())
    }
}

/// Where the escape of a first half starts that ends the text.
fn cut_half(inner: &str) -> Option<usize> {
    let at = inner.len().checked_sub(6)?;
    let escape = inner.get(at..)?;
    let unit = u16::from_str_radix(escape.strip_prefix("\\u")?, 16).ok()?;
    // An odd number of backslashes in front would make this one a text of its own.
    let before = inner.get(..at)?;
    let slashes = before.len() - before.trim_end_matches('\\').len();
    ((0xD800..=0xDBFF).contains(&unit) && slashes % 2 == 0).then_some(at)
}

/// The texts of a list of content parts, which some servers send in the place of a string.
fn parts(raw: &str) -> String {
    #[derive(Deserialize)]
    struct Part {
        #[serde(default)]
        text: String,
    }
    let parts: Vec<Part> = parse(raw).unwrap_or_default();
    parts.into_iter().map(|part| part.text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_cut_in_two_is_put_together_and_a_lone_half_is_replaced() {
        let mut text = TextPieces::default();
        assert_eq!(text.push(r#""a\ud83d""#), "a");
        assert_eq!(text.push(r#""\ude00b""#), "😀b");
        assert_eq!(text.push(r#""\\ud83d""#), "\\ud83d");
        assert_eq!(text.push(r#""\ud83d""#), "");
        assert_eq!(text.push(r#""x""#), "\u{fffd}x");
        assert_eq!(text.push(r#""\ud83d""#), "");
        assert_eq!(text.finish(), "\u{fffd}");
        assert_eq!(text.push(r#"[{"type":"text","text":"p"}]"#), "p");
    }
}
