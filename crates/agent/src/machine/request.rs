//! Requests: which model is asked, what is logged of it, and when it is asked again
//! (`session.md` 3.5, 3.10).

use std::sync::Arc;

use orrery_llm::{Assembler, LlmRequest, PreparedCall};
use orrery_session::payload::{
    HeaderReason, LlmRetry, LlmRetryStarted, RequestConfig, RequestContext, RequestHeader,
    RequestHeaderRecord,
};
use orrery_session::{EventType, LlmFailure, Millis, Timestamp};

use super::state::{Attempt, Retry, Stage};
use super::{Effect, Machine};
use crate::units::ModelSelectionUnit;

/// The failures that are worth another try.
const RETRYABLE: [&str; 5] = [
    "EMPTY_RESPONSE",
    "RATE_LIMIT",
    "SERVER",
    "TIMEOUT",
    "TRANSPORT",
];

impl Machine {
    /// Starts an attempt at the open step.
    pub(super) fn begin_attempt(&mut self, retry: Retry) {
        self.attempts += 1;
        let attempt = self.attempts;
        let config = self.seed_config();
        if let Some(turn) = self.turn_mut() {
            turn.stage = Stage::Preparing { attempt };
            turn.retry = retry;
            self.out.effects.push(Effect::Prepare { attempt, config });
        }
    }

    /// The config to bind: a pending choice, else the last request's, else the default
    /// (`controller.md` 1.8).
    fn seed_config(&self) -> RequestConfig {
        let pending = self
            .cells
            .state_of(&ModelSelectionUnit)
            .and_then(|state| state.pending.clone());
        let last = self.log.request_header().map(|record| {
            let defaults = record.header.adapter_defaults.unwrap_or_default();
            let mut config = record.header.config;
            if defaults.reasoning_effort {
                config.reasoning_effort = None;
            }
            if defaults.max_tokens {
                config.max_tokens = None;
            }
            config
        });
        match (pending, last) {
            (None, Some(last)) => last,
            (chosen, last) => {
                let choice = chosen.unwrap_or_else(|| self.default_model.clone());
                let last = last.filter(|last| last.provider == choice.provider);
                RequestConfig {
                    provider: choice.provider,
                    model: choice.model,
                    reasoning_effort: choice.reasoning_effort,
                    temperature: last.as_ref().and_then(|c| c.temperature),
                    max_tokens: None,
                    stop: last.and_then(|c| c.stop),
                }
            }
        }
    }

    /// The call is bound: logs its header and context where they are new, then asks.
    pub(super) fn prepared(
        &mut self,
        attempt: u64,
        result: Result<PreparedCall, LlmFailure>,
        now: Timestamp,
    ) {
        let expected = self
            .phase
            .turn()
            .is_some_and(|t| matches!(t.stage, Stage::Preparing { attempt: a } if a == attempt));
        if !expected {
            return;
        }
        let call = match result {
            Ok(call) => call,
            Err(failure) => return self.fail_turn(failure, now),
        };
        let header = RequestHeader {
            config: call.config.clone(),
            adapter_defaults: Some(call.defaults),
            system: Some(self.settings.system.to_string()),
            tools: Some(self.settings.tools.to_vec()),
        }
        .canonical();
        self.log_header(header, now);
        let context = RequestContext {
            provider: call.config.provider.clone(),
            model: call.config.model.clone(),
            context_window: call.context_window,
        };
        if self.log.request_context().as_ref() != Some(&context) {
            self.record(EventType::RequestContext, &context, now);
        }
        let request = LlmRequest {
            config: call.config.clone(),
            system: Some(Arc::clone(&self.settings.system)).filter(|text| !text.is_empty()),
            tools: Arc::clone(&self.settings.tools),
            messages: self.log.messages(),
            session_id: self.log.header().id.clone(),
        };
        let Some(turn) = self.turn_mut() else { return };
        turn.stage = Stage::Streaming(Box::new(Attempt {
            number: attempt,
            provider: call.config.provider,
            model: call.config.model,
            assembler: Assembler::new(),
            chunks: Vec::new(),
            retry: std::mem::take(&mut turn.retry),
        }));
        self.out.effects.push(Effect::Stream {
            attempt,
            request: Box::new(request),
        });
    }

    fn log_header(&mut self, header: RequestHeader, now: Timestamp) {
        let generation = self.log.surface().replace_generation();
        let new_series = generation != self.requested_generation;
        self.requested_generation = generation;
        let last = self.log.request_header();
        let reason = match (&last, self.header_logged) {
            (None, _) => HeaderReason::Initial,
            (Some(_), false) => HeaderReason::Resume,
            (Some(last), true) if !last.header.same_request(&header) => HeaderReason::Change,
            (Some(_), true) if new_series => HeaderReason::Series,
            (Some(_), true) => return,
        };
        let starts_series = new_series && reason == HeaderReason::Change;
        let record = RequestHeaderRecord {
            header,
            reason,
            starts_series,
        };
        if self
            .record(EventType::RequestHeader, &record, now)
            .is_some()
        {
            self.header_logged = true;
        }
    }

    /// An attempt failed: repeats it after a wait, or ends the turn.
    pub(super) fn attempt_failed(
        &mut self,
        provider: &str,
        mut retry: Retry,
        failure: LlmFailure,
        now: Timestamp,
    ) {
        let policy = self.settings.retry.clone();
        let count = retry.count + 1;
        let delay = self.retry_delay(count, &failure);
        let Some(delay) = delay
            .filter(|_| count <= policy.max_retries && RETRYABLE.contains(&failure.code.as_str()))
        else {
            return self.fail_turn(failure, now);
        };
        let id = retry.id.get_or_insert_with(|| self.ids.uuid()).clone();
        let Some(turn) = self.turn_mut() else { return };
        let record = LlmRetry {
            retry_id: id,
            turn: turn.number,
            step: turn.step,
            provider: provider.to_owned(),
            mode: "normal".to_owned(),
            policy_key: policy_key(&policy),
            retry: count,
            max_retries: Some(policy.max_retries),
            delay_ms: delay.0,
            failure: failure.clone(),
        };
        retry.count = count;
        retry.last = Some(failure);
        self.attempts += 1;
        let attempt = self.attempts;
        if let Some(turn) = self.turn_mut() {
            turn.stage = Stage::Waiting { attempt, retry };
        }
        self.record(EventType::LlmRetry, &record, now);
        self.out.effects.push(Effect::Wait { attempt, delay });
    }

    /// The wait before a retry; `None` when the provider asks for more patience than the policy
    /// has. What the provider asks for is taken verbatim, our own waits get a jitter of a tenth.
    fn retry_delay(&self, count: u64, failure: &LlmFailure) -> Option<Millis> {
        let policy = &self.settings.retry;
        if let Some(asked) = failure.provider_retry_after_ms {
            return (asked <= policy.max_delay.0).then_some(Millis(asked));
        }
        let doublings = u32::try_from(count.saturating_sub(1))
            .unwrap_or(u32::MAX)
            .min(20);
        let delay = policy
            .initial_delay
            .0
            .saturating_mul(1 << doublings)
            .min(policy.max_delay.0);
        let dice = self
            .ids
            .uuid()
            .bytes()
            .fold(0u64, |sum, b| sum.wrapping_mul(31) + u64::from(b));
        let spread = delay / 10;
        let jitter = if spread == 0 {
            0
        } else {
            dice % (2 * spread + 1)
        };
        Some(Millis(delay - spread + jitter))
    }

    /// The wait is over.
    pub(super) fn retry_due(&mut self, due: u64, now: Timestamp) {
        let Some(turn) = self.turn_mut() else { return };
        let (number, step) = (turn.number, turn.step);
        match &mut turn.stage {
            Stage::Waiting { attempt, retry } if *attempt == due => {
                let retry = std::mem::take(retry);
                let record = LlmRetryStarted {
                    retry_id: retry.id.clone().unwrap_or_default(),
                    turn: number,
                    step,
                    retry: retry.count,
                };
                self.record(EventType::LlmRetryStarted, &record, now);
                self.begin_attempt(retry);
            }
            _ => {}
        }
    }
}

fn policy_key(policy: &super::RetryPolicy) -> String {
    let codes: Vec<String> = RETRYABLE.iter().map(|code| format!("\"{code}\"")).collect();
    format!(
        "[\"normal\",{},[{}],{},{},0.1]",
        policy.max_retries,
        codes.join(","),
        policy.initial_delay.0,
        policy.max_delay.0
    )
}
