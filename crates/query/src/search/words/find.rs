//! Where in a text the phrases of a query occur, by the rules of the index.
//!
//! Owns what an occurrence is; an index must count the same. A phrase occurs where its words stand
//! one behind the other, and where its joined form begins a word. Both often mean the same place,
//! and an index of words cannot tell: the larger of the two numbers counts.

use std::ops::Range;

use super::letters::{Letter, Run, for_each_run};
use super::{Phrase, Spelt, joined_counts_among_words, spell, words_of_run};

/// The bytes of the text that the phrases cover: in order, apart from each other, on borders of
/// characters. Of a word that goes on only its beginning is covered.
pub fn find(text: &str, phrases: &[Phrase]) -> Vec<Range<usize>> {
    let words = Words::of(text);
    let mut found: Vec<Range<usize>> = Vec::new();
    for phrase in phrases {
        found.extend(words.occurrences(phrase).map(|first| {
            let last = words.words.get(first + phrase.words.len() - 1);
            let written = phrase.words.last().map_or("", String::as_str);
            let from = words.words.get(first).map_or(0, |word| word.from);
            from..last.map_or(from, |word| beginning(text, word, written).end)
        }));
        if let Some(joined) = &phrase.joined {
            let begun = words.begun(joined, joined_counts_among_words(phrase));
            found.extend(begun.map(|word| beginning(text, word, joined)));
        }
    }
    found.retain(|range| !range.is_empty());
    found.sort_by_key(|range| (range.start, range.end));
    found.dedup_by(|next, kept| {
        let touches = next.start <= kept.end;
        if touches {
            kept.end = kept.end.max(next.end);
        }
        touches
    });
    found
}

/// How often the phrases occur in the text; `None` when one of them does not.
pub fn count(text: &str, phrases: &[Phrase]) -> Option<u64> {
    let words = Words::of(text);
    let mut total = 0;
    for phrase in phrases {
        let stand = words.occurrences(phrase).count();
        let begin = phrase.joined.as_ref().map_or(0, |joined| {
            words
                .begun(joined, joined_counts_among_words(phrase))
                .count()
        });
        total += match stand.max(begin) {
            0 => return None,
            more => more as u64,
        };
    }
    Some(total)
}

/// A word and the bytes of the text it came from.
struct Word {
    spelling: Range<usize>,
    from: usize,
    to: usize,
}

/// A document's words with their places.
#[derive(Default)]
struct Words {
    spellings: String,
    words: Vec<Word>,
    joined: Vec<Word>,
}

impl Words {
    fn of(text: &str) -> Self {
        let mut words = Self::default();
        for_each_run(text, |run| {
            words_of_run(run, |spelt| words.push(&spelt));
        });
        words
    }

    fn push(&mut self, spelt: &Spelt<'_>) {
        let (Spelt::Word(letters) | Spelt::Joined(letters)) = *spelt;
        let start = self.spellings.len();
        spell(letters, &mut self.spellings);
        let word = Word {
            spelling: start..self.spellings.len(),
            from: letters.first().map_or(0, |letter| letter.from),
            to: letters.last().map_or(0, |letter| letter.to),
        };
        match spelt {
            Spelt::Word(_) => self.words.push(word),
            Spelt::Joined(_) => self.joined.push(word),
        }
    }

    fn spelling(&self, word: &Word) -> &str {
        self.spellings
            .get(word.spelling.clone())
            .unwrap_or_default()
    }

    /// At which words the phrase begins.
    fn occurrences<'a>(&'a self, phrase: &'a Phrase) -> impl Iterator<Item = usize> {
        let length = phrase.words.len().max(1);
        let windows = self.words.windows(length).enumerate();
        windows.filter_map(move |(first, window)| {
            let mut pairs = phrase.words.iter().zip(window).enumerate();
            let matches = pairs.all(|(at, (wanted, word))| {
                let spelling = self.spelling(word);
                if phrase.prefix && at + 1 == phrase.words.len() {
                    spelling.starts_with(wanted)
                } else {
                    spelling == wanted
                }
            });
            (matches && !phrase.words.is_empty()).then_some(first)
        })
    }

    /// The joined identifiers, and where asked for the words, that begin so.
    fn begun<'a>(&'a self, joined: &'a str, among_words: bool) -> impl Iterator<Item = &'a Word> {
        let words = if among_words {
            self.words.as_slice()
        } else {
            &[]
        };
        let all = words.iter().chain(&self.joined);
        all.filter(move |word| self.spelling(word).starts_with(joined))
    }
}

/// The bytes of a word's first letters, as many as `written` has.
fn beginning(text: &str, word: &Word, written: &str) -> Range<usize> {
    let mut left = written.chars().count();
    let mut end = word.from;
    let mut take = |letters: &[Letter]| {
        for letter in letters.iter().filter(|letter| letter.is_spelt()) {
            if left > 0 {
                left -= 1;
                end = word.from + letter.to;
            }
        }
    };
    let inside = text.get(word.from..word.to).unwrap_or_default();
    for_each_run(inside, |run| match run {
        Run::Cjk(letters) | Run::Identifier(letters) => take(letters),
    });
    word.from..end.max(word.from)
}
