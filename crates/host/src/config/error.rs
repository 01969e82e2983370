//! What is wrong with a configuration: file, line, key, and what was expected.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file is there and cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file says something that cannot be.
    #[error("{path}:{line}: {key}{message}", path = path.display(), key = Prefix(key))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key with its tables, `session.root`; empty when the file is no TOML at all.
        key: String,
        /// What is there, and what was expected.
        message: String,
    },
}

struct Prefix<'a>(&'a str);

impl fmt::Display for Prefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, "{}: ", self.0)
    }
}

/// A file's text, for pointing into it.
pub(super) struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl<'a> Source<'a> {
    pub(super) const fn new(path: &'a Path, text: &'a str) -> Self {
        Self { path, text }
    }

    /// An error of the TOML itself.
    pub(super) fn syntax(&self, error: &toml::de::Error) -> ConfigError {
        self.invalid(error.span(), String::new(), error.message())
    }

    /// An error of a value, or of a key that does not exist.
    pub(super) fn value(&self, error: &serde_path_to_error::Error<toml::de::Error>) -> ConfigError {
        let inner = error.inner();
        let path: Vec<String> = error.path().iter().map(ToString::to_string).collect();
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let key = error.path().to_string();
        let key = if key == "." { String::new() } else { key };
        let span = inner.span().or_else(|| self.span_of(&words));
        let message = match inner.message() {
            // What the reader of TOML wants where a choice is expected.
            "wanted string or table" => "expected a text in quotes",
            message => message,
        };
        self.invalid(span, key, message)
    }

    /// An error that only the whole file shows, at one key.
    pub(super) fn at(&self, key: &[&str], message: String) -> ConfigError {
        self.invalid(self.span_of(key), key.join("."), &message)
    }

    /// The keys of a table, as they stand in the file.
    pub(super) fn keys_in_order(&self, table: &[&str]) -> Vec<String> {
        let Ok(document) = DeTable::parse(self.text) else {
            return Vec::new();
        };
        let mut at = document.get_ref();
        for word in table {
            match at.get(*word).map(|value| value.get_ref()) {
                Some(DeValue::Table(table)) => at = table,
                _ => return Vec::new(),
            }
        }
        let mut keys: Vec<_> = at.keys().collect();
        keys.sort_by_key(|key| key.span().start);
        keys.iter().map(|key| key.get_ref().to_string()).collect()
    }

    fn span_of(&self, key: &[&str]) -> Option<Range<usize>> {
        let document = DeTable::parse(self.text).ok()?;
        let mut table = document.get_ref();
        let mut span = None;
        for word in key {
            let Some((found, value)) = table.get_key_value(*word) else {
                break;
            };
            span = Some(found.span());
            match value.get_ref() {
                DeValue::Table(inner) => table = inner,
                _ => break,
            }
        }
        span
    }

    fn invalid(&self, span: Option<Range<usize>>, key: String, message: &str) -> ConfigError {
        let before = span.and_then(|span| self.text.as_bytes().get(..span.start));
        let line = before.map_or(1, |bytes| {
            1 + bytes.iter().filter(|&&byte| byte == b'\n').count()
        });
        ConfigError::Invalid {
            path: self.path.to_owned(),
            line,
            key,
            message: message.lines().collect::<Vec<_>>().join("; "),
        }
    }
}
