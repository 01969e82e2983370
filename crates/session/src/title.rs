//! Titles: how a text becomes one (`session.md` 2.17, `controller.md` 1.9).

/// The longest title, in bytes of UTF-8.
pub const MAX_TITLE_BYTES: usize = 256;
/// The widest fallback title, in columns: a CJK character takes two.
const FALLBACK_COLUMNS: usize = 40;

/// The text as a title: no terminal escapes, control, bidirectional or zero-width characters,
/// white space folded, at most [`MAX_TITLE_BYTES`]. `None` when nothing visible is left.
pub fn normalise(text: &str) -> Option<String> {
    let mut title = String::new();
    let mut pending_space = false;
    for c in without_escapes(text).chars() {
        if c.is_whitespace() {
            pending_space = !title.is_empty();
        } else if !is_invisible(c) {
            let space = usize::from(pending_space);
            if title.len() + space + c.len_utf8() > MAX_TITLE_BYTES {
                break;
            }
            if std::mem::take(&mut pending_space) {
                title.push(' ');
            }
            title.push(c);
        }
    }
    (!title.is_empty()).then_some(title)
}

/// A title from the first words of a first prompt.
pub fn fallback(prompt: &str) -> Option<String> {
    let line = prompt.lines().find(|line| !line.trim().is_empty())?;
    let title = normalise(line)?;
    let mut columns = 0;
    let mut last_space = None;
    for (at, c) in title.char_indices() {
        columns += if is_wide(c) { 2 } else { 1 };
        if columns > FALLBACK_COLUMNS {
            let cut = last_space.unwrap_or(at);
            return title.get(..cut).map(|head| format!("{}…", head.trim_end()));
        }
        if c == ' ' {
            last_space = Some(at);
        }
    }
    Some(title)
}

/// Drops OSC, CSI and two-character escape sequences.
fn without_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('[') => while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
            Some(']') => {
                while let Some(c) = chars.next() {
                    if c == '\u{7}' || (c == '\u{1b}' && chars.next_if_eq(&'\\').is_some()) {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    out
}

fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

fn is_wide(c: char) -> bool {
    matches!(u32::from(c), 0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_has_no_escapes_and_single_spaces() {
        let text = "\u{1b}[31m Fix\u{1b}[0m \u{202e}the\t\n parser\u{200b} \u{1b}]0;x\u{7}";
        assert_eq!(normalise(text).as_deref(), Some("Fix the parser"));
        assert_eq!(normalise("\u{200b} \u{1b}[0m\n"), None);
        assert!(normalise(&"é".repeat(400)).unwrap().len() <= MAX_TITLE_BYTES);
    }

    #[test]
    fn a_fallback_is_cut_at_a_word_and_counts_wide_characters_twice() {
        let long = "please look at the parser and then at everything else";
        assert_eq!(
            fallback(long).as_deref(),
            Some("please look at the parser and then at…")
        );
        let wide = "请帮我看一下这个项目的结构然后写一份总结给我看看好吗";
        assert_eq!(fallback(wide).unwrap().chars().count(), 21);
        assert_eq!(fallback("\n\n short \nmore").as_deref(), Some("short"));
    }
}
