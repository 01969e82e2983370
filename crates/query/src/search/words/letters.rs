//! Characters become letters, letters stand in runs, runs of identifiers have parts.
//!
//! Owns normalisation and every border between words. A letter remembers which bytes of the text it
//! came from, so that what matches can be shown in the text as it was written.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::{compose, is_combining_mark};

use super::MAX_IDENTIFIER;

/// What a letter means for the borders around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Upper,
    Lower,
    Digit,
    /// A letter of a script without cases.
    Other,
    Cjk,
    /// `_`: holds an identifier together and is spelt by nobody.
    Joint,
}

/// One normalised character and the bytes it stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Letter {
    character: char,
    kind: Kind,
    pub(super) from: usize,
    pub(super) to: usize,
}

impl Letter {
    pub(super) fn is_spelt(&self) -> bool {
        self.kind != Kind::Joint
    }
}

/// Letters with nothing between them.
#[derive(Debug, Clone, Copy)]
pub(super) enum Run<'a> {
    /// Of a script that is written without blanks.
    Cjk(&'a [Letter]),
    /// Everything else: at least one letter that is spelt, with joints at inner places only.
    Identifier(&'a [Letter]),
}

/// Writes letters behind `word`.
pub(super) fn spell(letters: &[Letter], word: &mut String) {
    word.extend(
        letters
            .iter()
            .filter(|letter| letter.is_spelt())
            .map(|letter| letter.character),
    );
}

/// Visits the runs of a text in order.
pub(super) fn for_each_run(text: &str, visit: impl FnMut(Run<'_>)) {
    let mut reading = Reading {
        letters: Vec::new(),
        visit,
    };
    for (from, character) in text.char_indices() {
        let to = from + character.len_utf8();
        if character.is_ascii() {
            match ascii(character) {
                Some((character, kind)) => reading.letter(character, kind, from, to),
                None => reading.finish(),
            }
        } else if is_syllable(character) {
            reading.letter(character, Kind::Cjk, from, to);
        } else {
            for piece in std::iter::once(character).nfkd() {
                reading.decomposed(piece, from, to);
            }
        }
    }
    reading.finish();
}

struct Reading<F> {
    letters: Vec<Letter>,
    visit: F,
}

impl<F: FnMut(Run<'_>)> Reading<F> {
    fn decomposed(&mut self, character: char, from: usize, to: usize) {
        if is_transparent(character) {
            // Part of the letter before it. An identifier goes on across it.
            if let Some(last) = self.letters.last_mut() {
                last.to = to;
            }
        } else if !is_letter(character) {
            match ascii(character) {
                Some((character, kind)) => self.letter(character, kind, from, to),
                None => self.finish(),
            }
        } else if is_cjk(character) {
            self.cjk(character, from, to);
        } else if character.is_numeric() {
            self.letter(character, Kind::Digit, from, to);
        } else if character.is_uppercase() {
            for lower in character.to_lowercase().nfkd().filter(|c| is_letter(*c)) {
                self.letter(lower, Kind::Upper, from, to);
            }
        } else {
            let kind = if character.is_lowercase() {
                Kind::Lower
            } else {
                Kind::Other
            };
            // The last letter of a Greek word is the same letter as within it.
            let folded = if character == 'ς' { 'σ' } else { character };
            self.letter(folded, kind, from, to);
        }
    }

    /// Parts of a Korean syllable come one by one, or as that syllable: both are one letter.
    fn cjk(&mut self, character: char, from: usize, to: usize) {
        if let Some(last) = self.letters.last_mut()
            && last.kind == Kind::Cjk
            && let Some(syllable) = compose(last.character, character)
            && is_syllable(syllable)
        {
            last.character = syllable;
            last.to = to;
        } else {
            self.letter(character, Kind::Cjk, from, to);
        }
    }

    fn letter(&mut self, character: char, kind: Kind, from: usize, to: usize) {
        if let Some(last) = self.letters.last()
            && (last.kind == Kind::Cjk) != (kind == Kind::Cjk)
        {
            self.finish();
        }
        if kind == Kind::Joint && self.letters.is_empty() {
            return;
        }
        self.letters.push(Letter {
            character,
            kind,
            from,
            to,
        });
    }

    fn finish(&mut self) {
        while self.letters.last().is_some_and(|last| !last.is_spelt()) {
            self.letters.pop();
        }
        match self.letters.first() {
            None => return,
            Some(first) if first.kind == Kind::Cjk => (self.visit)(Run::Cjk(&self.letters)),
            Some(_) => {
                let bounded = self.letters.get(..MAX_IDENTIFIER).unwrap_or(&self.letters);
                (self.visit)(Run::Identifier(bounded));
            }
        }
        self.letters.clear();
    }
}

/// Visits the parts of an identifier in order; each has at least one letter that is spelt.
pub(super) fn parts(letters: &[Letter], mut visit: impl FnMut(&[Letter])) {
    if letters.len() >= MAX_IDENTIFIER {
        visit(letters);
        return;
    }
    for piece in letters.split(|letter| letter.kind == Kind::Joint) {
        let mut start = 0;
        for at in 1..=piece.len() {
            if at == piece.len() || is_case_border(piece, at) {
                split_number(piece.get(start..at).unwrap_or_default(), &mut visit);
                start = at;
            }
        }
    }
}

/// Whether a part begins at `at`, judged by the case of the letters around.
fn is_case_border(letters: &[Letter], at: usize) -> bool {
    let kind = |at: usize| letters.get(at).map(|letter| letter.kind);
    let before_word = kind(at + 1) == Some(Kind::Lower);
    match (kind(at - 1), kind(at)) {
        (Some(Kind::Lower | Kind::Other), Some(Kind::Upper)) => true,
        // `HTTPServer`, `utf8Name`; but not `SHA256SUM` and no checksum in capitals.
        (Some(Kind::Upper | Kind::Digit), Some(Kind::Upper)) => before_word,
        _ => false,
    }
}

/// Splits letters from the digits behind them where the part is nothing else.
fn split_number(part: &[Letter], visit: &mut impl FnMut(&[Letter])) {
    let is_digit = |letter: &Letter| letter.kind == Kind::Digit;
    let border = part.iter().position(is_digit).unwrap_or(part.len());
    let (letters, digits) = part.split_at(border);
    if !letters.is_empty() && !digits.is_empty() && digits.iter().all(is_digit) {
        visit(letters);
        visit(digits);
    } else if !part.is_empty() {
        visit(part);
    }
}

fn ascii(character: char) -> Option<(char, Kind)> {
    match character {
        'a'..='z' => Some((character, Kind::Lower)),
        'A'..='Z' => Some((character.to_ascii_lowercase(), Kind::Upper)),
        '0'..='9' => Some((character, Kind::Digit)),
        '_' => Some((character, Kind::Joint)),
        _ => None,
    }
}

/// Whether a character may stand inside a word. The exceptions are letters that the tokenizer of
/// the index takes for separators.
fn is_letter(character: char) -> bool {
    character.is_alphanumeric() && !is_transparent(character) && !is_foreign_letter(character)
}

/// Accents and other marks, and characters that show nothing and part nothing.
fn is_transparent(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{feff}'
    ) || is_combining_mark(character)
}

fn is_foreign_letter(character: char) -> bool {
    // Letters that were marks once, and letters in black circles, which do not decompose.
    matches!(character, '\u{19b0}'..='\u{19c0}' | '\u{19c8}'..='\u{19c9}' | '\u{1cf2}'..='\u{1cf3}'
        | '\u{1f150}'..='\u{1f189}')
}

/// A whole Korean syllable: the one decomposition that we do not want.
fn is_syllable(character: char) -> bool {
    matches!(character, '\u{ac00}'..='\u{d7a3}')
}

/// Scripts that are written without blanks and get their words as pairs. Asked of letters only:
/// the blocks hold punctuation too.
fn is_cjk(character: char) -> bool {
    matches!(character,
        '\u{1100}'..='\u{11ff}'       // parts of Korean syllables
        | '\u{2e80}'..='\u{2fdf}'     // radicals
        | '\u{3005}'..='\u{3007}'     // repeats and the numeral zero
        | '\u{3021}'..='\u{3029}'     // numerals of Suzhou
        | '\u{3031}'..='\u{303c}'     // repeats, more numerals
        | '\u{3041}'..='\u{30ff}'     // Hiragana, Katakana
        | '\u{3131}'..='\u{318e}'     // Korean letters
        | '\u{31f0}'..='\u{31ff}'     // small Katakana
        | '\u{3400}'..='\u{4dbf}'     // Han, extension A
        | '\u{4e00}'..='\u{9fff}'     // Han
        | '\u{a960}'..='\u{a97f}'     // older parts of syllables
        | '\u{ac00}'..='\u{d7ff}'     // Korean syllables, older parts
        | '\u{f900}'..='\u{faff}'     // Han for compatibility
        | '\u{ff66}'..='\u{ff9f}'     // narrow Katakana
        | '\u{1aff0}'..='\u{1b16f}'   // older Kana
        | '\u{1f200}'                 // a square Hiragana
        | '\u{20000}'..='\u{3ffff}'   // Han, extensions B and later, compatibility
    )
}
