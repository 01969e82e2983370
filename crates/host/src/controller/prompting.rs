//! Speaking to a session: prompts, the queue, stopping, answers (`controller.md` 1.11 to 1.14, 3.5).

use std::path::Path;

use orrery_agent::actor::{AnswerReceipt, Prompt, PromptRefusal};
use orrery_agent::machine::{QueueAction, QueueRefusal};
use orrery_agent::units::PendingApprovalsUnit;
use orrery_api::content::{Accepted, DeliveryMode, PromptContentPart};
use orrery_api::error::{ApiError, ErrorCode};
use orrery_api::interaction::{AnswerRequest, AnswerResponse, ApprovalValue, InteractionOutcome};
use orrery_api::queue::{self, ResumeQueueRequest, UpdateQueueRequest};
use orrery_api::session::{
    CancelRequest, CancelResponse, LeftRunning, PromptRequest, PromptResponse, Stopped,
};
use orrery_session::payload::{AbortCause, ApprovalOutcome};
use orrery_session::{ContentBlock, Json, SessionId};

use super::create::not_saved;
use super::{Controller, Found};

impl Controller {
    /// Takes a prompt; answered once it is durable.
    pub async fn prompt(&self, request: PromptRequest) -> Result<PromptResponse, ApiError> {
        let prompt = prompt_of(
            request.request_id,
            &request.content,
            request.mode,
            request.client_time_zone,
        )?;
        let result = self
            .with_live(&request.session_id, |handle| {
                let prompt = prompt.clone();
                async move {
                    let model = handle.live().state_now().next_model.clone();
                    if let Err(error) = self.check_route(&model.provider, &model.model) {
                        return Ok(Err(error));
                    }
                    let said = handle.prompt(prompt).await?;
                    Ok(said.map_err(|refusal| prompt_refused(refusal, handle.id())))
                }
            })
            .await?;
        result.map(|message_id| PromptResponse {
            accepted: true,
            message_id,
        })
    }

    fn check_route(&self, provider: &str, model: &str) -> Result<(), ApiError> {
        self.inner
            .adapters
            .get(provider)
            .map(|_| ())
            .map_err(|failure| ApiError::model_unavailable(provider, model, failure.message))
    }

    /// Stops the running turn; answered once it and its tools are over. The queue stays.
    pub async fn cancel(&self, request: CancelRequest) -> Result<CancelResponse, ApiError> {
        let handle = self.must_be_live(&request.session_id)?;
        let gone = |_| ApiError::session_not_found(request.session_id.as_str());
        let delegation = &self.inner.delegation;
        let at_work = delegation.at_work_below(&request.session_id);
        let cause = AbortCause::User;
        let receipt = handle.cancel(cause).await.map_err(gone)?;
        // Those that the turn waited for ended with it; the others were told to go on by themselves.
        let (running, stopped): (Vec<_>, Vec<_>) = at_work
            .into_iter()
            .partition(|child| delegation.is_at_work(child));
        let jobs = self.inner.jobs.rows(&request.session_id).into_iter();
        let jobs = jobs
            .filter(|job| job.ended.is_none())
            .map(|job| LeftRunning {
                kind: "job".to_owned(),
                id: job.id,
                reason: "it runs in the background; stop it with job/kill".to_owned(),
            });
        let children = running.into_iter().map(|child| LeftRunning {
            kind: "session".to_owned(),
            id: child.to_string(),
            reason: "this subagent works by itself; stop it with subagent/interrupt".to_owned(),
        });
        let stopped = Stopped {
            turn: receipt.turn,
            tools: receipt.tools,
            processes: receipt.commands as u64,
            children: stopped,
            left_running: children.chain(jobs).collect(),
        };
        Ok(CancelResponse {
            accepted: true,
            stopped,
        })
    }

    /// Changes one waiting message.
    pub async fn update_queue(&self, request: UpdateQueueRequest) -> Result<Accepted, ApiError> {
        let UpdateQueueRequest {
            session_id,
            item_id,
            action,
        } = request;
        let action = match action {
            queue::QueueAction::Edit { content } => {
                let text_only = content
                    .iter()
                    .all(|part| matches!(part, PromptContentPart::Text { .. }));
                if !text_only {
                    return Err(attachment_invalid(
                        "QUEUE_EDIT_NON_TEXT",
                        "only text can be edited",
                    ));
                }
                let content = content_of(&content)?;
                let json = Json::from_value(&content)
                    .map_err(|e| ApiError::bad_request("action.content", e.to_string()))?;
                QueueAction::Edit(json)
            }
            queue::QueueAction::Remove => QueueAction::Remove,
            queue::QueueAction::Steer => QueueAction::Steer,
            queue::QueueAction::Move { before_item_id } => QueueAction::Move {
                before: before_item_id,
            },
        };
        let missing = || ApiError::queue_item_not_found(item_id.as_str());
        let handle = self.inner.live.get(&session_id).ok_or_else(missing)?;
        super::fence(handle.live().header())?;
        let result = handle
            .change_queue(item_id.clone(), action)
            .await
            .map_err(|_gone| missing())?;
        match result {
            Ok(()) => Ok(Accepted::YES),
            Err(QueueRefusal::NotFound) => Err(missing()),
            Err(QueueRefusal::SteerUnavailable) => Err(ApiError::new(
                ErrorCode::SteerUnavailable,
                "no running turn can take this message; it stays in the queue",
            )
            .with("itemId", &item_id)),
            Err(other) => Err(attachment_invalid(
                "QUEUE_EDIT_NON_TEXT",
                &other.to_string(),
            )),
        }
    }

    /// Lets a parked queue run on.
    pub async fn resume_queue(&self, request: ResumeQueueRequest) -> Result<Accepted, ApiError> {
        self.with_live(&request.session_id, |handle| async move {
            handle.resume_queue().await
        })
        .await?;
        Ok(Accepted::YES)
    }

    /// Settles a question for approval.
    pub async fn answer(&self, request: AnswerRequest) -> Result<AnswerResponse, ApiError> {
        let AnswerRequest {
            session_id,
            interaction_id,
            outcome,
        } = request;
        let (outcome, message) = match outcome {
            InteractionOutcome::Approval {
                value: ApprovalValue::AllowedOnce,
                message,
            } => (ApprovalOutcome::AllowedOnce, message),
            InteractionOutcome::Approval {
                value: ApprovalValue::Rejected,
                message,
            } => (ApprovalOutcome::Rejected, message),
            _ => {
                let message = "an approval is answered with an outcome of kind \"approval\"";
                let error = ApiError::new(ErrorCode::AnswerInvalid, message);
                return Err(error.with("interactionId", interaction_id));
            }
        };
        let unknown = || ApiError::interaction_not_found(&interaction_id);
        let Some(handle) = self.inner.live.get(&session_id) else {
            return match self.look(&session_id).await? {
                Found::Cold(cold) => {
                    let open = cold.cells.state_of(&PendingApprovalsUnit);
                    let asked =
                        open.is_some_and(|open| open.iter().any(|p| p.asked.id == interaction_id));
                    if asked {
                        Ok(late("expired"))
                    } else {
                        Err(unknown())
                    }
                }
                Found::Live(_) => Err(ApiError::agent_busy("the session is waking up; try again")),
            };
        };
        let receipt = handle
            .answer(interaction_id.clone(), outcome, message)
            .await
            .map_err(|_gone| ApiError::agent_busy("the session is being closed; try again"))?;
        match receipt {
            AnswerReceipt::Accepted => Ok(AnswerResponse {
                accepted: true,
                settled_as: None,
            }),
            AnswerReceipt::Settled(outcome) => Ok(late(name_of(outcome))),
            AnswerReceipt::Unknown => Err(unknown()),
        }
    }
}

/// A prompt as it came, checked.
pub(super) fn prompt_of(
    request_id: String,
    content: &[PromptContentPart],
    mode: DeliveryMode,
    client_time_zone: Option<String>,
) -> Result<Prompt, ApiError> {
    if request_id.is_empty() {
        return Err(ApiError::bad_request("requestId", "must not be empty"));
    }
    let content = content_of(content)?;
    check_time_zone(client_time_zone.as_deref())?;
    Ok(Prompt {
        request_id,
        content,
        steer: mode == DeliveryMode::Steer,
        client_time_zone,
    })
}

/// Why a session did not take a prompt.
pub(super) fn prompt_refused(refusal: PromptRefusal, session: &SessionId) -> ApiError {
    match refusal {
        PromptRefusal::Conflict => {
            let message = "this requestId was used for another prompt";
            ApiError::new(ErrorCode::SessionConflict, message).with("sessionId", session)
        }
        PromptRefusal::NotSaved(why) => not_saved(&why),
        other => ApiError::bad_request("content", other.to_string()),
    }
}

fn late(settled_as: &str) -> AnswerResponse {
    AnswerResponse {
        accepted: false,
        settled_as: Some(settled_as.to_owned()),
    }
}

const fn name_of(outcome: ApprovalOutcome) -> &'static str {
    match outcome {
        ApprovalOutcome::AllowedOnce => "allowed-once",
        ApprovalOutcome::Rejected => "rejected",
        ApprovalOutcome::Cancelled => "cancelled",
        ApprovalOutcome::Unavailable => "unavailable",
    }
}

fn attachment_invalid(reason: &str, message: &str) -> ApiError {
    ApiError::new(ErrorCode::AttachmentInvalid, message).with("reason", reason)
}

/// The blocks of a prompt. Only text is taken: no configured model sees images in this build.
fn content_of(parts: &[PromptContentPart]) -> Result<Vec<ContentBlock>, ApiError> {
    let mut blocks = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            PromptContentPart::Text { text } => blocks.push(ContentBlock::text(text)),
            PromptContentPart::Image { .. } => {
                let message = "the selected model does not take images";
                return Err(attachment_invalid("MODEL_DOES_NOT_SUPPORT_IMAGES", message));
            }
            PromptContentPart::File { .. } => {
                return Err(attachment_invalid("FILE_NOT_STAGED", "no such upload"));
            }
        }
    }
    let visible = blocks
        .iter()
        .filter_map(ContentBlock::as_text)
        .any(|text| orrery_session::title::normalise(text).is_some());
    if !visible {
        return Err(ApiError::bad_request(
            "content",
            "a prompt needs visible text",
        ));
    }
    Ok(blocks)
}

/// `UTC`, or an Area/Location name that this system's zone database has (`controller.md` 1.11).
fn check_time_zone(zone: Option<&str>) -> Result<(), ApiError> {
    let Some(zone) = zone else { return Ok(()) };
    let invalid = || {
        let message = "the time zone must be UTC or an IANA Area/Location name";
        ApiError::new(ErrorCode::InvalidTimeZone, message).with("value", zone)
    };
    if zone == "UTC" {
        return Ok(());
    }
    let segment = |s: &str| {
        !s.is_empty()
            && s.chars()
                .all(|c| c.is_ascii_alphanumeric() || "_.+-".contains(c))
    };
    let shape = zone.starts_with(|c: char| c.is_ascii_alphabetic())
        && zone.contains('/')
        && zone.split('/').all(|s| segment(s) && s != "." && s != "..");
    if !shape {
        return Err(invalid());
    }
    let database = Path::new("/usr/share/zoneinfo");
    if database.is_dir() && !database.join(zone).is_file() {
        return Err(invalid());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_zones_are_utc_or_area_and_location() {
        for good in [
            None,
            Some("UTC"),
            Some("Europe/Berlin"),
            Some("America/Argentina/Ushuaia"),
        ] {
            assert!(check_time_zone(good).is_ok(), "{good:?}");
        }
        for bad in [
            "",
            "CET",
            "+01:00",
            " Europe/Berlin",
            "Europe/../UTC",
            "Europe/",
        ] {
            assert!(check_time_zone(Some(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_prompt_needs_visible_text() {
        let text = |t: &str| PromptContentPart::Text { text: t.to_owned() };
        assert!(content_of(&[text(" \u{200b}\n")]).is_err());
        assert!(content_of(&[]).is_err());
        assert!(content_of(&[text(""), text("hi")]).is_ok());
    }
}
