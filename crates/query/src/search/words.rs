//! How text becomes words, the same way for documents and queries (decision D27).
//!
//! Owns normalisation, the splitting of identifiers and of text without blanks, the phrases of a
//! query, and where in a text they occur. Leaves to others: which text is searched
//! ([`super::text`]), where words are kept and how hits are ranked (whoever implements
//! [`super::SearchIndex`]). No I/O.
//!
//! Words are lower case, without accents and in compatibility form, and hold alphanumerics alone, so
//! that a tokenizer that splits at everything else leaves them as they are. What separates: all
//! other characters, and the border between CJK and anything else.
//!
//! - **CJK** (Han, Hiragana, Katakana, Hangul) has no blanks. In a document a run becomes its pairs
//!   of neighbours and then its last character, so that every character begins a word; a lone
//!   character is a word. In a query a run becomes the phrase of its pairs, and a lone character the
//!   beginning of a word.
//! - **Identifiers** are split where the case says so (`getUserName`, `HTTPServer`) and at `_`.
//! - **Digits** stay with their letters, or a checksum would fall to dust; only a part of the one
//!   form "letters, then digits" is split in two. So `utf8`, `utf-8` and `utf_8`, `sha256` and
//!   `SHA-256`, `v2` and `v 2` find each other, `256` finds `sha256`, and `0xff` is one word.
//! - What has several parts is also kept **joined**: `getuser` finds `getUserName`, `getUser` finds
//!   `getuser`, `HTTPs` finds `https`.
//! - An identifier of [`MAX_IDENTIFIER`] letters or more is none: encoded bytes are not split, and
//!   their beginning counts as one word.

mod find;
mod letters;
#[cfg(test)]
mod tests;

pub use find::{count, find};

use super::Phrase;
use letters::{Letter, Run, for_each_run, parts, spell};

/// From so many letters on, a run is no identifier; what lies behind them is not looked at.
pub const MAX_IDENTIFIER: usize = 128;
/// The most phrases of a query; what comes after them is not asked for.
pub const MAX_PHRASES: usize = 32;
/// The most words of a phrase; what comes after them is not asked for.
pub const MAX_PHRASE_WORDS: usize = 32;
/// The shortest text, in letters, that is looked for as the beginning of a joined identifier: below
/// it the parts say as much.
const MIN_JOINED: usize = 2;

/// A document's words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentWords {
    /// All words in order, separated by one blank.
    pub words: String,
    /// The identifiers of several parts, each without its separators, separated by one blank.
    pub joined: String,
}

/// The words of a text that will be searched.
pub fn of_document(text: &str) -> DocumentWords {
    // Pairs double CJK text, splitting lengthens the rest a little.
    let mut document = DocumentWords {
        words: String::with_capacity(text.len() + text.len() / 4),
        joined: String::new(),
    };
    for_each_run(text, |run| {
        words_of_run(run, |word| {
            let column = match word {
                Spelt::Word(_) => &mut document.words,
                Spelt::Joined(_) => &mut document.joined,
            };
            if !column.is_empty() {
                column.push(' ');
            }
            let (Spelt::Word(letters) | Spelt::Joined(letters)) = word;
            spell(letters, column);
        });
    });
    document
}

/// What a run of a document gives.
enum Spelt<'a> {
    /// A word of the text.
    Word(&'a [Letter]),
    /// A whole identifier of several parts.
    Joined(&'a [Letter]),
}

/// The words of one run of a document, in order; the joined form comes last.
fn words_of_run(run: Run<'_>, mut visit: impl FnMut(Spelt<'_>)) {
    match run {
        Run::Cjk(letters) => {
            for at in 0..letters.len() {
                let end = letters.len().min(at + 2);
                visit(Spelt::Word(letters.get(at..end).unwrap_or_default()));
            }
        }
        Run::Identifier(letters) => {
            let mut count = 0;
            parts(letters, |part| {
                count += 1;
                visit(Spelt::Word(part));
            });
            if count > 1 {
                visit(Spelt::Joined(letters));
            }
        }
    }
}

/// What a person asks for. Every whitespace-separated piece gives its phrases, all of which a
/// document must hold; operators and quotes are separators like any other. Empty when there is
/// nothing to look for.
pub fn of_query(text: &str) -> Vec<Phrase> {
    let mut phrases = Vec::new();
    for piece in text.split_whitespace() {
        let mut reading = Piece::default();
        for_each_run(piece, |run| match run {
            Run::Cjk(letters) => {
                reading.finish_identifiers();
                reading.phrases.push(cjk_phrase(letters));
            }
            Run::Identifier(letters) => reading.identifier(letters),
        });
        reading.finish_identifiers();
        for phrase in reading.phrases {
            if phrases.len() < MAX_PHRASES && !phrases.contains(&phrase) {
                phrases.push(phrase);
            }
        }
    }
    phrases
}

/// One piece of a query while it is read.
#[derive(Default)]
struct Piece {
    phrases: Vec<Phrase>,
    /// The words of the identifiers since the last CJK run.
    words: Vec<String>,
    /// The first of those identifiers, joined.
    joined: Option<String>,
    /// How many there are.
    identifiers: usize,
}

impl Piece {
    fn identifier(&mut self, letters: &[Letter]) {
        self.identifiers += 1;
        parts(letters, |part| self.words.push(spelt(part)));
        self.joined = (self.identifiers == 1)
            .then(|| spelt(letters))
            .filter(|joined| joined.chars().nth(MIN_JOINED - 1).is_some());
    }

    fn finish_identifiers(&mut self) {
        let mut words = std::mem::take(&mut self.words);
        words.truncate(MAX_PHRASE_WORDS);
        let joined = self.joined.take();
        self.identifiers = 0;
        if !words.is_empty() {
            self.phrases.push(Phrase {
                words,
                prefix: true,
                joined,
            });
        }
    }
}

fn cjk_phrase(letters: &[Letter]) -> Phrase {
    let pairs = letters.windows(2).take(MAX_PHRASE_WORDS).map(spelt);
    let mut words: Vec<String> = pairs.collect();
    let alone = words.is_empty();
    if alone {
        words.push(spelt(letters));
    }
    Phrase {
        words,
        prefix: alone,
        joined: None,
    }
}

fn spelt(letters: &[Letter]) -> String {
    let mut word = String::new();
    spell(letters, &mut word);
    word
}

/// Whether a phrase's joined form is looked for among the words too, and not among the joined
/// identifiers alone: `get_user` means a plain `getuser` as well. Of one word that may go on, that
/// is what the word itself says.
pub fn joined_counts_among_words(phrase: &Phrase) -> bool {
    match (&phrase.joined, phrase.words.as_slice()) {
        (None, _) => false,
        (Some(joined), [word]) => !(phrase.prefix && word == joined),
        (Some(_), _) => true,
    }
}
