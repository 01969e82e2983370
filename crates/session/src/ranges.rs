//! The range form of provenance lists on disk (`session.md` 2.3).
//!
//! A strictly increasing list stores each run of three or more consecutive values as a pair
//! `[first,last]`; any other list is stored as it is. Decoding never expands beyond what the citing
//! event can legally cite, so a short text cannot demand a long list.

use serde_json::value::RawValue;

use crate::event::push_fmt;
use crate::json::parse;
use crate::seq::{SessionLogOffset, SessionSeq};

/// Which spellings of a provenance list are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Plain seqs only: what travels.
    Plain,
    /// Seqs and `[first,last]` pairs: what lies on disk.
    Ranges,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum RangeError {
    #[error("expected a list of seqs")]
    NotAList,
    #[error("expected a seq or a pair [first,last] with first <= last")]
    BadEntry,
    #[error("the list names more events than lie before its own")]
    TooLong,
    #[error("a list with pairs must be strictly increasing")]
    NotIncreasing,
}

/// The range form of a list, or `None` when the plain form is the one to store.
pub(crate) fn encode(seqs: &[SessionSeq]) -> Option<String> {
    let increasing = seqs.windows(2).all(|w| w[0] < w[1]);
    if !increasing {
        return None;
    }
    let mut out = String::from("[");
    let mut packed = false;
    let mut rest = seqs;
    while let Some(&first) = rest.first() {
        let run = 1 + rest
            .windows(2)
            .take_while(|w| w[0].get() + 1 == w[1].get())
            .count();
        let last = rest[run - 1];
        let comma = if out.len() == 1 { "" } else { "," };
        if run >= 3 {
            packed = true;
            push_fmt(&mut out, format_args!("{comma}[{first},{last}]"));
            rest = &rest[run..];
        } else {
            push_fmt(&mut out, format_args!("{comma}{first}"));
            rest = &rest[1..];
        }
    }
    out.push(']');
    packed.then_some(out)
}

/// Reads a list cited by the event `own`.
pub(crate) fn decode(
    text: &str,
    own: SessionSeq,
    form: Form,
) -> Result<Vec<SessionSeq>, RangeError> {
    let entries: Vec<&RawValue> =
        serde_json::from_str(text).map_err(|_not_a_list| RangeError::NotAList)?;
    let mut seqs = Vec::with_capacity(entries.len().min(own.index()));
    let mut pairs = false;
    for entry in entries {
        let text = entry.get();
        if form == Form::Ranges && text.starts_with('[') {
            let (first, last): (SessionSeq, SessionSeq) =
                parse(text).map_err(|_shape| RangeError::BadEntry)?;
            if first > last {
                return Err(RangeError::BadEntry);
            }
            if (last.get() - first.get()).saturating_add(seqs.len() as u64) >= own.get() {
                return Err(RangeError::TooLong);
            }
            pairs = true;
            for value in first.get()..=last.get() {
                seqs.push(SessionSeq::new(value).map_err(|_unsafe| RangeError::BadEntry)?);
            }
        } else {
            if seqs.len() >= own.index() {
                return Err(RangeError::TooLong);
            }
            seqs.push(parse(text).map_err(|_shape| RangeError::BadEntry)?);
        }
    }
    if pairs && seqs.windows(2).any(|w| w[0] >= w[1]) {
        return Err(RangeError::NotIncreasing);
    }
    Ok(seqs)
}

/// Checks the meaning of a provenance list: unique, dense, each before its own event
/// (`session.md` 1.8).
pub(crate) fn valid_provenance(seqs: &[SessionSeq], own: SessionSeq) -> bool {
    let limit = SessionLogOffset::of_len(own.index());
    if seqs.windows(2).all(|w| w[0] < w[1]) {
        return seqs.last().is_none_or(|last| last.offset_after() <= limit);
    }
    let mut sorted = seqs.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|w| w[0] < w[1])
        && sorted
            .last()
            .is_none_or(|last| last.offset_after() <= limit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seqs(values: &[u64]) -> Vec<SessionSeq> {
        values
            .iter()
            .map(|&v| SessionSeq::new(v).unwrap())
            .collect()
    }

    #[test]
    fn only_runs_of_three_and_more_become_pairs() {
        assert_eq!(
            encode(&seqs(&[1, 3, 4, 5, 7])).as_deref(),
            Some("[1,[3,5],7]")
        );
        assert_eq!(encode(&seqs(&[1, 3, 4, 7])), None);
        assert_eq!(encode(&seqs(&[5, 4, 3])), None);
    }

    #[test]
    fn a_pair_that_names_more_than_lies_before_its_event_is_refused() {
        let own = SessionSeq::new(10).unwrap();
        assert_eq!(
            decode("[[0,9007199254740991]]", own, Form::Ranges),
            Err(RangeError::TooLong)
        );
        assert_eq!(decode("[[0,9]]", own, Form::Ranges).unwrap().len(), 10);
        assert_eq!(
            decode("[[3,1]]", own, Form::Ranges),
            Err(RangeError::BadEntry)
        );
        assert_eq!(
            decode("[[0,3],2]", own, Form::Ranges),
            Err(RangeError::NotIncreasing)
        );
        assert_eq!(
            decode("[[0,3]]", own, Form::Plain),
            Err(RangeError::BadEntry)
        );
    }

    #[test]
    fn a_million_entries_encode() {
        let all: Vec<u64> = (0..1_000_000).collect();
        assert_eq!(encode(&seqs(&all)).as_deref(), Some("[[0,999999]]"));
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(values in prop::collection::btree_set(0u64..300, 0..60)) {
            let list = seqs(&values.into_iter().collect::<Vec<_>>());
            let own = SessionSeq::new(300).unwrap();
            if let Some(text) = encode(&list) {
                prop_assert_eq!(decode(&text, own, Form::Ranges), Ok(list));
            }
        }
    }
}
