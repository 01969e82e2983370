//! The four number types of a log: which event, which boundary, "after which event", "maybe one".
//!
//! A [`SessionSeq`] names an existing event; a [`SessionLogOffset`] is a boundary between events.
//! There is deliberately no `From` between them (`session.md` 1.1).

use serde::{Deserialize, Serialize};

/// The largest integer that a JavaScript reader holds exactly: 2^53 - 1.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// A number left the range that every reader of the log can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not a non-negative safe integer")]
pub struct NotSafeInteger(pub i128);

macro_rules! safe_number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// The first value, 0.
            pub const ZERO: Self = Self(0);

            /// Wraps a number, refusing one above 2^53 - 1.
            pub const fn new(value: u64) -> Result<Self, NotSafeInteger> {
                if value > MAX_SAFE_INTEGER {
                    Err(NotSafeInteger(value as i128))
                } else {
                    Ok(Self(value))
                }
            }

            /// The plain number.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The plain number as an index; saturates where `usize` is smaller than 64 bits.
            pub fn index(self) -> usize {
                usize::try_from(self.0).unwrap_or(usize::MAX)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let value = safe_integer(deserializer)?;
                let unsigned = u64::try_from(value)
                    .map_err(|_negative| serde::de::Error::custom(NotSafeInteger(value.into())))?;
                Self::new(unsigned).map_err(serde::de::Error::custom)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

safe_number! {
    /// Identity of an existing event: 0-based, dense within one session.
    SessionSeq
}
safe_number! {
    /// A boundary between events, `0..=len`: offset `k` means "the first `k` events".
    SessionLogOffset
}

impl SessionSeq {
    /// The boundary right after this event.
    pub const fn offset_after(self) -> SessionLogOffset {
        SessionLogOffset(self.0 + 1)
    }

    /// The boundary right before this event.
    pub const fn offset_before(self) -> SessionLogOffset {
        SessionLogOffset(self.0)
    }
}

impl SessionLogOffset {
    /// The offset of a log of `len` events.
    pub fn of_len(len: usize) -> Self {
        Self(len as u64)
    }

    /// The seq that an event appended at this boundary gets.
    pub const fn next_seq(self) -> SessionSeq {
        SessionSeq(self.0)
    }

    /// The last event before this boundary; `None` at the start of the log.
    pub const fn last_seq(self) -> OptionalSessionSeq {
        match self.0 {
            0 => None,
            n => Some(SessionSeq(n - 1)),
        }
    }

    /// The cursor that has seen everything before this boundary.
    pub fn cursor(self) -> SessionSeqCursor {
        SessionSeqCursor(self.0 as i64 - 1)
    }

    /// This boundary moved forward by `events`; saturates at the largest safe integer.
    pub fn advance(self, events: usize) -> Self {
        Self((self.0 + events as u64).min(MAX_SAFE_INTEGER))
    }
}

/// A seq, or none when a log holds no such event.
pub type OptionalSessionSeq = Option<SessionSeq>;

/// "After this seq": -1 stands for "before everything".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct SessionSeqCursor(i64);

impl SessionSeqCursor {
    /// Before everything: the cursor of an empty log.
    pub const START: Self = Self(-1);

    /// Wraps a number of at least -1 and at most 2^53 - 1.
    pub const fn new(value: i64) -> Result<Self, NotSafeInteger> {
        if value < -1 || value > MAX_SAFE_INTEGER as i64 {
            Err(NotSafeInteger(value as i128))
        } else {
            Ok(Self(value))
        }
    }

    /// The plain number, -1 included.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The boundary that this cursor stands at.
    pub const fn offset(self) -> SessionLogOffset {
        SessionLogOffset((self.0 + 1) as u64)
    }
}

impl<'de> Deserialize<'de> for SessionSeqCursor {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(safe_integer(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl std::fmt::Display for SessionSeqCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Reads a safe integer, also in its float spelling (`3.0`, `1e3`), refusing -0 and fractions.
pub(crate) fn safe_integer<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<i64, D::Error> {
    struct Visitor;
    impl serde::de::Visitor<'_> for Visitor {
        type Value = i64;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a safe integer")
        }
        fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<i64, E> {
            if v > MAX_SAFE_INTEGER {
                return Err(E::custom(NotSafeInteger(v.into())));
            }
            Ok(v as i64)
        }
        fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<i64, E> {
            if v.unsigned_abs() > MAX_SAFE_INTEGER {
                return Err(E::custom(NotSafeInteger(v.into())));
            }
            Ok(v)
        }
        fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<i64, E> {
            let negative_zero = v == 0.0 && v.is_sign_negative();
            if negative_zero || v.fract() != 0.0 || v.abs() > MAX_SAFE_INTEGER as f64 {
                return Err(E::custom(format_args!("{v} is not a safe integer")));
            }
            #[expect(
                clippy::cast_possible_truncation,
                reason = "checked to be a safe integer"
            )]
            let integer = v as i64;
            Ok(integer)
        }
    }
    deserializer.deserialize_any(Visitor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_outside_the_safe_range_are_refused() {
        assert!(SessionSeq::new(MAX_SAFE_INTEGER).is_ok());
        assert!(SessionSeq::new(MAX_SAFE_INTEGER + 1).is_err());
        assert!(SessionSeqCursor::new(-2).is_err());
        for text in [
            "-0",
            "-0.0",
            "1.5",
            "9007199254740992",
            "-1",
            "\"1\"",
            "1e300",
        ] {
            assert!(serde_json::from_str::<SessionSeq>(text).is_err(), "{text}");
        }
        assert_eq!(
            serde_json::from_str::<SessionSeq>("3.0")
                .map(SessionSeq::get)
                .ok(),
            Some(3)
        );
    }

    #[test]
    fn offsets_and_seqs_convert_only_through_named_steps() {
        let seq = SessionSeq::new(4).unwrap();
        assert_eq!(seq.offset_after().get(), 5);
        assert_eq!(seq.offset_after().last_seq(), Some(seq));
        assert_eq!(SessionLogOffset::ZERO.last_seq(), None);
        assert_eq!(SessionLogOffset::ZERO.cursor(), SessionSeqCursor::START);
    }
}
