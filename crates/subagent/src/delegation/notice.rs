//! What agents read of each other: the words of a message, and of a child that came to rest.

use orrery_agent::actor::TurnOutcome;
use orrery_session::payload::TurnEndReason;
use orrery_session::{ContentBlock, Json, JsonError, SessionId, Source};
use serde::Serialize;

use super::RunEnd;
use crate::process::{ABORTED, REFUSAL};

/// Characters of a notice's one-line summary.
const SUMMARY_MAX: usize = 120;

/// How delegated work ended (`subagent.md` 4.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// It was done.
    Completed,
    /// It was stopped.
    Aborted,
    /// It failed.
    Error,
    /// It ran out of room.
    MaxTokens,
    /// It was declined.
    Refusal,
}

impl StopReason {
    /// How an epoch ended by its last turn; without one it was cut short.
    pub fn of(outcome: Option<&TurnOutcome>) -> Self {
        match outcome.map(|outcome| &outcome.reason) {
            Some(TurnEndReason::Completed) => Self::Completed,
            Some(TurnEndReason::MaxTokens) => Self::MaxTokens,
            Some(TurnEndReason::Blocked) => Self::Refusal,
            Some(TurnEndReason::Aborted { .. } | TurnEndReason::Interrupted) | None => {
                Self::Aborted
            }
            // What a program says of its own end has no other place in the log.
            Some(TurnEndReason::Error { error }) if error.code == REFUSAL => Self::Refusal,
            Some(TurnEndReason::Error { error }) if error.code == ABORTED => Self::Aborted,
            Some(_) => Self::Error,
        }
    }

    /// The reason's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Aborted => "aborted",
            Self::Error => "error",
            Self::MaxTokens => "max-tokens",
            Self::Refusal => "refusal",
        }
    }
}

/// What went wrong, in words of the failure itself.
pub(crate) fn diagnostic_of(outcome: Option<&TurnOutcome>) -> Option<String> {
    match outcome.map(|outcome| &outcome.reason) {
        Some(TurnEndReason::Error { error }) => Some(bounded_diagnostic(&format!(
            "{}: {}",
            error.code, error.message
        ))),
        _ => None,
    }
}

/// Bytes of a diagnostic (`subagent.md` 4.6).
const DIAGNOSTIC_MAX: usize = 4096;
const CUT_MARK: &str = "\n[diagnostic truncated]";

/// A diagnostic of at most 4,096 bytes; what is cut says so.
pub fn bounded_diagnostic(text: &str) -> String {
    if text.len() <= DIAGNOSTIC_MAX {
        return text.to_owned();
    }
    let room = DIAGNOSTIC_MAX - CUT_MARK.len();
    let cut = (0..=room).rev().find(|at| text.is_char_boundary(*at));
    let kept = text.get(..cut.unwrap_or(0)).unwrap_or_default();
    format!("{kept}{CUT_MARK}")
}

/// The text of an answer, its blocks one below the other.
pub fn text_of(blocks: &[ContentBlock]) -> String {
    let texts: Vec<&str> = blocks.iter().filter_map(ContentBlock::as_text).collect();
    texts.join("\n")
}

/// The text of an answer, where it holds any.
pub(super) fn said(blocks: &[ContentBlock]) -> Option<String> {
    let text = text_of(blocks);
    (!text.trim().is_empty()).then_some(text)
}

/// The closing message of a run and true, or false and why there is none that counts
/// (`subagent.md` 4.15).
pub fn answer_of(end: &RunEnd) -> (bool, String) {
    let said = text_of(&end.output);
    let headline = match end.reason {
        StopReason::Completed if let Some(answer) = &end.structured => {
            return (true, answer.text().to_owned());
        }
        StopReason::Completed if said.trim().is_empty() => {
            return (true, "(the subagent left no closing message)".to_owned());
        }
        StopReason::Completed => return (true, said),
        StopReason::Aborted => "the subagent was stopped before it had finished",
        StopReason::MaxTokens => "the subagent ran out of room before it had finished",
        StopReason::Refusal => "the subagent declined the task",
        StopReason::Error => "the subagent failed",
    };
    let mut message = headline.to_owned();
    if let Some(diagnostic) = &end.diagnostic {
        message.push_str("\nDiagnostic: ");
        message.push_str(diagnostic);
    }
    if !said.trim().is_empty() {
        message.push_str("\nPartial output before the run ended:\n");
        message.push_str(&said);
    }
    (false, message)
}

/// What a parent reads when a continuable child came to rest.
pub(crate) fn settled(
    child: &SessionId,
    label: &str,
    outcome: Option<&TurnOutcome>,
) -> Result<(Vec<ContentBlock>, Source), JsonError> {
    let reason = StopReason::of(outcome);
    let headline = match reason {
        StopReason::Completed => {
            "has finished. It does nothing more unless you send it another message."
        }
        StopReason::Aborted => "was stopped before it had finished.",
        StopReason::MaxTokens => "ran out of room before it had finished.",
        StopReason::Refusal => "declined the task.",
        StopReason::Error => "failed.",
    };
    let mut text = format!("Subagent {child} ({label}) {headline}");
    if let Some(diagnostic) = diagnostic_of(outcome) {
        text.push_str("\nDiagnostic: ");
        text.push_str(&diagnostic);
    }
    let said = outcome.map(|o| text_of(&o.output)).unwrap_or_default();
    if said.trim().is_empty() {
        text.push_str("\nIt left no closing message.");
    } else {
        text.push_str("\nIts closing message:\n\n");
        text.push_str(&said);
    }
    let summary = format!("Subagent {label}: {}", reason.as_str());
    let source = Source::Other(Json::from_value(&Sender {
        kind: "subagent-settled",
        form: "notice",
        summary: Some(summary.chars().take(SUMMARY_MAX).collect()),
        sender_session_id: child,
    })?);
    Ok((vec![ContentBlock::text(text)], source))
}

/// A message from one agent to another.
pub(crate) fn relayed(
    sender: &SessionId,
    who: &str,
    message: &str,
) -> Result<(Vec<ContentBlock>, Source), JsonError> {
    let text = format!("Message from {who}, agent {sender}:\n\n{message}");
    let source = Source::Other(Json::from_value(&Sender {
        kind: "agent-message",
        form: "relay",
        summary: None,
        sender_session_id: sender,
    })?);
    Ok((vec![ContentBlock::text(text)], source))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sender<'a> {
    kind: &'static str,
    form: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    sender_session_id: &'a SessionId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_diagnostic_is_cut_between_characters_and_says_so() {
        assert_eq!(bounded_diagnostic("short"), "short");
        let long = bounded_diagnostic(&"é".repeat(4000));
        assert!(
            long.len() <= DIAGNOSTIC_MAX && long.ends_with(CUT_MARK),
            "{}",
            long.len()
        );
        assert!(long.starts_with('é'));
    }

    #[test]
    fn a_notice_says_how_it_ended_and_what_was_said_last() {
        let child = SessionId::new("c-1").unwrap();
        let outcome = |reason, text: &str| TurnOutcome {
            turn: 1,
            reason,
            concluded: None,
            output: vec![ContentBlock::text(text)],
        };
        let done = outcome(TurnEndReason::Completed, "two files");
        let (content, source) = settled(&child, "look", Some(&done)).unwrap();
        let text = text_of(&content);
        assert!(
            text.contains("c-1") && text.ends_with("two files"),
            "{text}"
        );
        assert_eq!(source.kind(), "subagent-settled");
        let (content, _) = settled(&child, "look", None).unwrap();
        assert!(text_of(&content).contains("stopped before"), "{content:?}");
    }
}
