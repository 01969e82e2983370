//! `session/fork` (`controller.md` 1.10): a new session that shares the past up to the end of a
//! turn. The source is only looked at.

use orrery_api::error::{ApiError, ErrorCode};
use orrery_api::session::{ForkRequest, ForkResponse};
use orrery_projection::Cells;
use orrery_projection::units::Title;
use orrery_session::fork::{child_header, turn_cut};
use orrery_session::payload::{SessionTitle, TitleSource};
use orrery_session::{
    EventDraft, EventType, SessionLog, SessionLogOffset, SharedEvent, Vocabulary, title,
};

use super::{Controller, failures};

impl Controller {
    /// Branches off.
    pub async fn fork(&self, request: ForkRequest) -> Result<ForkResponse, ApiError> {
        let source = self.look(&request.session_id).await?;
        let whole = SessionLogOffset::ZERO..source.end();
        let events = self.events_of(&source, whole).await?;
        let cut = turn_cut(&events, request.at_seq).map_err(|error| {
            ApiError::new(ErrorCode::ForkUnavailable, error.to_string())
                .with("sessionId", &request.session_id)
        })?;
        let id = self.inner.ids.root_session();
        let now = self.inner.clock.now();
        let mut header = child_header(source.header(), id.clone(), now);
        header.agent_preset = Some(self.inner.preset.id.clone());
        let internal = |error: &dyn std::fmt::Display| {
            tracing::error!(session = %id, %error, "a fork could not be made");
            ApiError::internal()
        };
        let seed: Vec<SharedEvent> = events.get(..cut.index()).unwrap_or_default().to_vec();
        let mut cells = Cells::selected(&self.inner.registry, &["title"], &header, cut);
        cells.feed(&seed);
        let titled = cells.state_of(&Title).and_then(Option::as_ref);
        let named = titled.map(|record| incremented(&record.title));
        let vocabulary = Vocabulary::default();
        let mut log = SessionLog::from_seed(header.clone(), seed, cut, vocabulary, now)
            .map_err(|e| internal(&e))?;
        if let Some(title) = named.as_deref().and_then(title::normalise) {
            let record = SessionTitle {
                title,
                message_seqs: Vec::new(),
                source: TitleSource::User,
            };
            let draft =
                EventDraft::new(EventType::SessionTitle, &record).map_err(|e| internal(&e))?;
            log.append(draft, now).map_err(|e| internal(&e))?;
        }
        let writer = self
            .inner
            .store
            .create(header, cut)
            .await
            .map_err(|e| failures::of_storage(&e))?;
        writer
            .append(log.events().to_vec())
            .map_err(|e| failures::of_storage(&e))?;
        writer.flush().await.map_err(|e| failures::of_storage(&e))?;
        self.inner
            .live
            .get_or_activate(&id, || async {
                self.bring_to_life(log, Vec::new(), writer, self.ordinary())
            })
            .await?;
        Ok(ForkResponse { session_id: id })
    }
}

/// The title with its trailing `(N)` counted up in the same style, or with ` (1)`
/// (`controller.md` 4.4).
fn incremented(title: &str) -> String {
    for (open, close) in [('(', ')'), ('（', '）')] {
        let counted = title
            .strip_suffix(close)
            .and_then(|head| head.rsplit_once(open));
        if let Some((head, digits)) = counted
            && !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit())
            && let Ok(count) = digits.parse::<u64>()
        {
            return format!("{head}{open}{}{close}", count.saturating_add(1));
        }
    }
    format!("{title} (1)")
}

#[cfg(test)]
mod tests {
    use super::incremented;

    #[test]
    fn forks_count_up_in_the_style_of_their_source() {
        assert_eq!(incremented("Fix it"), "Fix it (1)");
        assert_eq!(incremented("Fix it (1)"), "Fix it (2)");
        assert_eq!(incremented("修复（9）"), "修复（10）");
        assert_eq!(incremented("f(x)"), "f(x) (1)");
    }
}
