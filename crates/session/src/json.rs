//! Lossless JSON: a value kept as its text, checked once, shared from then on.
//!
//! The value domain is that of `session.md` 1.3: everything JSON can say except `-0` and numbers
//! beyond the range of a double. Text is never re-serialised, so lone surrogates in `\u` escapes,
//! unknown fields, key order and odd number spellings survive (decision D9). Checking, copying and
//! dropping are free of recursion, however deep the nesting.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Why a text is not a lossless JSON value, or not of the shape that was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// Not JSON at all.
    #[error("not valid JSON: {0}")]
    Syntax(#[source] serde_json::Error),
    /// `-0`, which most readers cannot keep.
    #[error("negative zero is not a lossless JSON number (at byte {at})")]
    NegativeZero {
        /// Byte offset in the text.
        at: usize,
    },
    /// A number that no double can hold.
    #[error("number out of the range of a double (at byte {at})")]
    NotFinite {
        /// Byte offset in the text.
        at: usize,
    },
    /// Valid JSON of another shape.
    #[error("unexpected shape: {0}")]
    Shape(#[source] serde_json::Error),
}

/// One JSON value as shared text without insignificant whitespace.
#[derive(Clone)]
pub struct Json(Arc<RawValue>);

impl Json {
    /// Checks and adopts a text.
    ///
    /// Whitespace around tokens is removed, so that the value always fits on one line of a log.
    pub fn from_text(text: &str) -> Result<Self, JsonError> {
        let raw: &RawValue = serde_json::from_str(text).map_err(JsonError::Syntax)?;
        match compact(raw.get())? {
            Cow::Borrowed(_) => Ok(Self(Arc::from(raw.to_owned()))),
            Cow::Owned(text) => RawValue::from_string(text)
                .map(|raw| Self(Arc::from(raw)))
                .map_err(JsonError::Syntax),
        }
    }

    /// Serialises a typed value and checks the result.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, JsonError> {
        let raw = serde_json::value::to_raw_value(value).map_err(JsonError::Syntax)?;
        match compact(raw.get())? {
            Cow::Borrowed(_) => Ok(Self(Arc::from(raw))),
            Cow::Owned(text) => RawValue::from_string(text)
                .map(|raw| Self(Arc::from(raw)))
                .map_err(JsonError::Syntax),
        }
    }

    /// The value `{}`.
    pub fn empty_object() -> Self {
        // An empty map always serialises.
        Self(Arc::from(
            serde_json::value::to_raw_value(&serde_json::Map::new()).unwrap_or_default(),
        ))
    }

    /// The value's text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Reads the value as `T`; see [`parse`].
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, JsonError> {
        parse(self.text())
    }

    /// Deep equality of the values: key order and number spelling do not count.
    pub fn same_value(&self, other: &Self) -> bool {
        same_value(self.text(), other.text())
    }
}

impl std::fmt::Debug for Json {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

/// Equality of the text, byte for byte.
impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}
impl Eq for Json {}

impl Serialize for Json {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_text(raw.get()).map_err(serde::de::Error::custom)
    }
}

/// A key or name that is borrowed from its text unless it holds escapes.
#[derive(Deserialize)]
pub(crate) struct Name<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// Checks that `text`, known to be valid JSON, is lossless; returns it without whitespace.
pub(crate) fn compact(text: &str) -> Result<Cow<'_, str>, JsonError> {
    let bytes = text.as_bytes();
    let mut stripped: Option<Vec<u8>> = None;
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let keep = match bytes[at] {
            b'"' => {
                at = string_end(bytes, at);
                true
            }
            b'-' | b'0'..=b'9' => {
                at = number_end(bytes, at);
                check_number(text.get(start..at).unwrap_or_default(), start)?;
                true
            }
            b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                false
            }
            _ => {
                at += 1;
                true
            }
        };
        if keep {
            if let Some(out) = &mut stripped {
                out.extend_from_slice(&bytes[start..at]);
            }
        } else if stripped.is_none() {
            stripped = Some(bytes[..start].to_vec());
        }
    }
    Ok(match stripped {
        None => Cow::Borrowed(text),
        // Only ASCII whitespace between tokens was left out, so the rest is still UTF-8.
        Some(out) => Cow::Owned(String::from_utf8_lossy(&out).into_owned()),
    })
}

/// The index just past the string that starts at `at`.
pub(crate) fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut i = at + 1;
    while let Some(found) = bytes
        .get(i..)
        .and_then(|rest| memchr::memchr2(b'"', b'\\', rest))
    {
        i += found;
        match bytes.get(i) {
            Some(b'\\') => i += 2,
            _ => return i + 1,
        }
    }
    bytes.len()
}

fn number_end(bytes: &[u8], at: usize) -> usize {
    let more = |b: &&u8| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
    at + bytes[at..].iter().take_while(more).count()
}

fn check_number(number: &str, at: usize) -> Result<(), JsonError> {
    let integer = !number.contains(['.', 'e', 'E']);
    if integer && number.len() <= 300 {
        return if number == "-0" {
            Err(JsonError::NegativeZero { at })
        } else {
            Ok(())
        };
    }
    match number.parse::<f64>() {
        Ok(value) if value == 0.0 && value.is_sign_negative() => {
            Err(JsonError::NegativeZero { at })
        }
        Ok(value) if value.is_finite() => Ok(()),
        _ => Err(JsonError::NotFinite { at }),
    }
}

/// Reads JSON text as `T`, as forgiving as a JavaScript reader is.
///
/// Two things that JSON allows and serde refuses are tolerated here, in the typed view only: of a
/// duplicated key the last one counts, and a lone surrogate reads as U+FFFD. The text itself stays
/// what it was.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, JsonError> {
    let strict = match serde_json::from_str(text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let readable = replace_lone_surrogates(text, |_unit| "\\ufffd".to_owned());
    if let Cow::Owned(readable) = &readable
        && let Ok(value) = serde_json::from_str(readable)
    {
        return Ok(value);
    }
    if strict.to_string().starts_with("duplicate field")
        && let Ok(value) = serde_json::from_str::<serde_json::Value>(&readable)
        && let Ok(deduplicated) = serde_json::to_string(&value)
        && let Ok(value) = serde_json::from_str(&deduplicated)
    {
        return Ok(value);
    }
    Err(JsonError::Shape(strict))
}

/// Replaces each `\uD800`-style escape that has no partner.
fn replace_lone_surrogates(text: &str, by: impl Fn(u16) -> String) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut out: Option<String> = None;
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = bytes[at..].iter().position(|&b| b == b'\\') {
        let escape = at + found;
        let Some(unit) = surrogate_at(bytes, escape) else {
            at = (escape + 2).min(bytes.len());
            continue;
        };
        let paired = matches!(surrogate_at(bytes, escape + 6), Some(0xDC00..=0xDFFF));
        if unit < 0xDC00 && paired {
            at = escape + 12;
            continue;
        }
        let out = out.get_or_insert_with(String::new);
        out.push_str(text.get(copied..escape).unwrap_or_default());
        out.push_str(&by(unit));
        at = escape + 6;
        copied = at;
    }
    match out {
        None => Cow::Borrowed(text),
        Some(mut out) => {
            out.push_str(text.get(copied..).unwrap_or_default());
            Cow::Owned(out)
        }
    }
}

/// The surrogate code unit escaped at `at`, if one is.
fn surrogate_at(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at + 6)?;
    if !escape.starts_with(b"\\u") {
        return None;
    }
    let digits = std::str::from_utf8(&escape[2..]).ok()?;
    let unit = u16::from_str_radix(digits, 16).ok()?;
    (0xD800..=0xDFFF).contains(&unit).then_some(unit)
}

/// Deep equality of two JSON texts as values. Texts nested beyond 100 levels compare as text.
pub(crate) fn same_value(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    // A lone surrogate compares as a private character and its digits: equal to itself only.
    let spelled = |unit: u16| format!("\\udbff\\udfff{unit:04x}");
    let value = |text: &str| {
        let text = replace_lone_surrogates(text, spelled);
        serde_json::from_str::<serde_json::Value>(&text).ok()
    };
    match (value(a), value(b)) {
        (Some(a), Some(b)) => same(&a, &b),
        _ => false,
    }
}

fn same(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (a, b) {
        (Number(a), Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Array(a), Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Object(a), Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| same(v, w)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_zero_and_numbers_beyond_a_double_are_refused() {
        for text in ["-0", "[-0.0]", "{\"a\":-0e3}", "-1e-999"] {
            assert!(
                matches!(Json::from_text(text), Err(JsonError::NegativeZero { .. })),
                "{text}"
            );
        }
        for text in ["1e999", "[-1e999]"] {
            assert!(
                matches!(Json::from_text(text), Err(JsonError::NotFinite { .. })),
                "{text}"
            );
        }
        for text in ["0", "-1", "1e-999", "\"-0\"", "12345678901234567890", "0.1"] {
            assert!(Json::from_text(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn two_hundred_thousand_levels_of_nesting_neither_overflow_nor_change() {
        let text = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
        let json = Json::from_text(&text).unwrap();
        let copy = json.clone();
        drop(json);
        assert_eq!(copy.text(), text);
    }

    #[test]
    fn whitespace_between_tokens_goes_and_inside_strings_stays() {
        let json = Json::from_text("{ \"a b\" : [ 1 ,\n 2 ] }").unwrap();
        assert_eq!(json.text(), "{\"a b\":[1,2]}");
    }

    #[test]
    fn lone_surrogates_keep_their_text_and_read_as_replacement() {
        let json = Json::from_text(r#"{"t":"a\ud800b\ud83d\ude00\\ud800"}"#).unwrap();
        assert!(json.text().contains(r"\ud800b"));
        let view: std::collections::BTreeMap<String, String> = json.parse().unwrap();
        assert_eq!(view["t"], "a\u{fffd}b😀\\ud800");
    }

    #[test]
    fn of_a_duplicated_key_the_last_one_counts() {
        #[derive(Deserialize)]
        struct Turn {
            turn: u64,
        }
        assert_eq!(parse::<Turn>(r#"{"turn":1,"turn":2}"#).unwrap().turn, 2);
    }

    #[test]
    fn values_are_the_same_whatever_the_order_of_their_keys() {
        assert!(same_value(r#"{"a":1,"b":[1.0]}"#, r#"{"b":[1],"a":1}"#));
        assert!(!same_value(r#"{"a":1}"#, r#"{"a":2}"#));
        assert!(same_value(
            r#"{"a":1,"b":"\ud800"}"#,
            r#"{"b":"\uD800","a":1}"#
        ));
        assert!(!same_value(
            r#"{"a":1,"b":"\ud800"}"#,
            r#"{"b":"\ud801","a":1}"#
        ));
    }
}
