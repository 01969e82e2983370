//! What is shown of a hit: the words around the first match (`subagent.md` 3.7).
//!
//! Owns which window of a text is shown, how it is cleaned, and where the matches lie in it. Leaves
//! finding them to [`super::words::find`].

use std::ops::Range;

/// How many code points a snippet has at most, unless somebody asks otherwise.
pub const SNIPPET_CHARS: usize = 240;
/// Stands for what was cut.
const ELLIPSIS: char = '…';
/// Of the window, the part before the first match: one of so many.
const BEFORE_MATCH: usize = 3;

/// A piece of a text, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snippet {
    /// The text: white space folded, an ellipsis on each side that was cut.
    pub text: String,
    /// The matches in it, in order and apart, in units of UTF-16: what a page counts in.
    pub highlights: Vec<Range<usize>>,
}

/// The piece of at most `limit` code points, its ellipses included, around the first of `matches`,
/// which are ordered byte ranges of the text.
pub fn snippet(text: &str, matches: &[Range<usize>], limit: usize) -> Snippet {
    let total = shown(text).count();
    let first = matches.first().map_or(0, |range| range.start);
    let first = shown(text).position(|(at, _)| at >= first).unwrap_or(0);
    let window = window(total, first, limit);
    let mut snippet = Snippet::default();
    let mut units = 0;
    let mut matches = matches.iter().peekable();
    let push = |snippet: &mut Snippet, c: char, lit: bool, units: &mut usize| {
        snippet.text.push(c);
        let start = *units;
        *units += c.len_utf16();
        if lit {
            match snippet.highlights.last_mut() {
                Some(last) if last.end == start => last.end = *units,
                _ => snippet.highlights.push(start..*units),
            }
        }
    };
    if window.start > 0 {
        push(&mut snippet, ELLIPSIS, false, &mut units);
    }
    for (at, c) in shown(text).skip(window.start).take(window.len()) {
        while matches.next_if(|range| range.end <= at).is_some() {}
        let lit = matches.peek().is_some_and(|range| range.contains(&at));
        push(&mut snippet, c, lit, &mut units);
    }
    if window.end < total {
        push(&mut snippet, ELLIPSIS, false, &mut units);
    }
    snippet
}

/// Which of the shown characters are in the piece.
fn window(total: usize, first: usize, limit: usize) -> Range<usize> {
    if total <= limit {
        return 0..total;
    }
    // One place is the ellipsis of the side that is cut, two where both are.
    let one_side = limit.saturating_sub(1);
    let both = limit.saturating_sub(2);
    let start = first.saturating_sub(both / BEFORE_MATCH);
    // An ellipsis for a single character would say less in the same room.
    if start <= 1 {
        0..one_side
    } else if start + both + 1 >= total {
        total - one_side..total
    } else {
        start..start + both
    }
}

/// The text's characters as they are shown, with the byte where each begins: runs of white space
/// are one blank, none at the ends; what would be taken for a marker or an end is replaced.
fn shown(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut blank = None;
    let mut begun = false;
    text.char_indices().flat_map(move |(at, c)| {
        if c.is_whitespace() {
            if begun {
                blank.get_or_insert(at);
            }
            return [None, None].into_iter().flatten();
        }
        begun = true;
        let c = match c {
            '\0' | '\u{fdd0}' | '\u{fdd1}' => char::REPLACEMENT_CHARACTER,
            other => other,
        };
        let blank = blank.take().map(|at| (at, ' '));
        [blank, Some((at, c))].into_iter().flatten()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::words::{find, of_query};
    use super::*;

    fn of(text: &str, query: &str, limit: usize) -> Snippet {
        snippet(text, &find(text, &of_query(query)), limit)
    }

    #[test]
    fn white_space_is_folded_and_matches_are_shown() {
        let found = of("  the\n\n quick\tbrown\u{a0}fox ", "quick fox", 240);
        assert_eq!(found.text, "the quick brown fox");
        assert_eq!(found.highlights, [4..9, 16..19]);
    }

    #[test]
    fn a_window_begins_a_third_before_the_first_match() {
        let text = format!("{}match {}", "a ".repeat(500), "b ".repeat(500));
        let found = of(&text, "match", 62);
        assert_eq!(found.text.chars().count(), 62);
        assert!(found.text.starts_with('…') && found.text.ends_with('…'));
        assert_eq!(found.highlights.as_slice(), std::slice::from_ref(&(21..26)));
        let early = of(&text, "a", 62);
        assert!(early.text.starts_with("a a") && early.text.ends_with('…'));
        let late = of(&format!("{} match", "a ".repeat(500)), "match", 62);
        assert!(late.text.ends_with("a match"));
        assert_eq!(late.text.chars().count(), 62);
    }

    #[test]
    fn highlights_count_in_utf_16_and_astral_characters_stay_whole() {
        let found = of("😀😀 match", "match", 240);
        assert_eq!(found.highlights.as_slice(), std::slice::from_ref(&(5..10)));
        let cut = of(&"𠀀".repeat(100), "𠀀𠀀", 10);
        assert_eq!(cut.text.chars().count(), 10);
        assert_eq!(cut.highlights.as_slice(), std::slice::from_ref(&(0..18)));
    }

    #[test]
    fn markers_and_ends_of_text_are_replaced() {
        assert_eq!(
            of("a\0b\u{fdd0}c\u{fdd1}", "x", 240).text,
            "a\u{fffd}b\u{fffd}c\u{fffd}"
        );
    }

    proptest! {
        #[test]
        fn every_text_gives_a_bounded_snippet_with_its_first_match(
            text in "([a-c]{1,3}|[ \n]{1,2}|[身份😀]){0,80}", query in "[a-c]{1,2}|身份?", limit in 8_usize..40,
        ) {
            let found = of(&text, &query, limit);
            prop_assert!(found.text.chars().count() <= limit);
            let units: Vec<u16> = found.text.encode_utf16().collect();
            let mut end = None;
            for range in &found.highlights {
                prop_assert!(range.start < range.end && range.end <= units.len() && Some(range.start) > end);
                let lit = String::from_utf16(&units[range.clone()]);
                prop_assert!(lit.is_ok() && !lit.unwrap().contains('…'));
                end = Some(range.end);
            }
            let matched = !find(&text, &of_query(&query)).is_empty();
            prop_assert_eq!(matched, end.is_some());
        }
    }
}
