//! `tokenUsage`: what the models of a session have cost, in tokens (`subagent.md` 1.8).
//!
//! State: `{totals, last}`; view: the totals. Events: `assistant/message`; a second sample of the
//! same turn and step takes the place of the first.

use orrery_session::{Event, EventType, SessionHeader, SessionLogOffset, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::Unit;

/// The `tokenUsage` unit.
#[derive(Debug, Clone, Copy)]
pub struct TokenUsage;

/// Tokens by what they cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenTotals {
    /// Prompt tokens that no cache served.
    pub uncached_input_tokens: u64,
    /// Tokens of the answers.
    pub output_tokens: u64,
    /// Prompt tokens that a cache served.
    pub cache_read_tokens: u64,
    /// Prompt tokens that went into a cache.
    pub cache_write_tokens: u64,
}

impl TokenTotals {
    fn of(usage: &Usage) -> Self {
        Self {
            uncached_input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens.unwrap_or(0),
            cache_write_tokens: usage.cache_write_tokens.unwrap_or(0),
        }
    }

    fn combine(self, other: Self, with: fn(u64, u64) -> u64) -> Self {
        Self {
            uncached_input_tokens: with(self.uncached_input_tokens, other.uncached_input_tokens),
            output_tokens: with(self.output_tokens, other.output_tokens),
            cache_read_tokens: with(self.cache_read_tokens, other.cache_read_tokens),
            cache_write_tokens: with(self.cache_write_tokens, other.cache_write_tokens),
        }
    }
}

/// The totals, and the sample that the next one may replace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsageState {
    /// All samples together.
    pub totals: TokenTotals,
    last: Option<Sample>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Sample {
    turn: u64,
    step: u64,
    buckets: TokenTotals,
}

impl Unit for TokenUsage {
    type State = TokenUsageState;
    type View = TokenTotals;

    fn key(&self) -> &'static str {
        "tokenUsage"
    }

    fn state_version(&self) -> u64 {
        1
    }

    fn event_types(&self) -> &'static [EventType] {
        &[EventType::AssistantMessage]
    }

    fn init(&self, _: &SessionHeader, _: SessionLogOffset) -> TokenUsageState {
        TokenUsageState::default()
    }

    fn apply(&self, state: &TokenUsageState, event: &Event) -> Option<TokenUsageState> {
        #[derive(Deserialize)]
        struct Answered {
            turn: u64,
            step: u64,
            usage: Usage,
        }
        let Answered { turn, step, usage } = event.payload().ok()?;
        let buckets = TokenTotals::of(&usage);
        let replaced = state
            .last
            .filter(|last| (last.turn, last.step) == (turn, step));
        let before = replaced.map_or(state.totals, |last| {
            state.totals.combine(last.buckets, u64::saturating_sub)
        });
        let sample = Sample {
            turn,
            step,
            buckets,
        };
        let next = TokenUsageState {
            totals: before.combine(buckets, u64::saturating_add),
            last: Some(sample),
        };
        (next != *state).then_some(next)
    }

    fn view(&self, state: &TokenUsageState) -> Option<TokenTotals> {
        Some(state.totals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_sample_of_a_step_takes_the_place_of_the_first() {
        let answered = |step: u64, input: u64, output: u64| {
            let text = format!(
                r#"{{"type":"assistant/message","seq":0,"time":0,"surfaceOp":"append","data":{{"turn":1,"step":{step},"usage":{{"inputTokens":{input},"outputTokens":{output},"cacheReadTokens":3}}}}}}"#
            );
            Event::from_json(&text).unwrap()
        };
        let mut state = TokenUsageState::default();
        for event in [answered(1, 10, 1), answered(1, 12, 2), answered(2, 20, 5)] {
            state = TokenUsage.apply(&state, &event).unwrap();
        }
        let totals = state.totals;
        assert_eq!(
            (totals.uncached_input_tokens, totals.output_tokens),
            (32, 7)
        );
        assert_eq!(
            (totals.cache_read_tokens, totals.cache_write_tokens),
            (6, 0)
        );
        assert_eq!(TokenUsage.apply(&state, &answered(2, 20, 5)), None);
        let silent = r#"{"type":"assistant/message","seq":0,"time":0,"surfaceOp":"append","data":{"turn":2,"step":1}}"#;
        assert_eq!(
            TokenUsage.apply(&state, &Event::from_json(silent).unwrap()),
            None
        );
    }
}
