//! `session/create` (`controller.md` 1.7) and `session/rename` (1.9).

use std::path::{Path, PathBuf};

use orrery_agent::SessionHandle;
use orrery_api::error::{ApiError, ErrorCode};
use orrery_api::session::{CreateRequest, CreateResponse, RenameRequest, RenameResponse};
use orrery_session::payload::{ApprovalPolicyRecord, PermissionPreset, SandboxModeRecord};
use orrery_session::{
    EventDraft, EventType, JsonError, SessionHeader, SessionId, SessionLog, SessionLogOffset,
    Vocabulary,
};
use orrery_storage::StorageError;

use super::{Controller, failures, fence};

impl Controller {
    /// Makes a session, or adopts the one that has the id: an id minted by the client makes a
    /// retry safe.
    pub async fn create(&self, request: CreateRequest) -> Result<CreateResponse, ApiError> {
        self.check_preset(request.agent_preset.as_deref())?;
        let id = request
            .session_id
            .unwrap_or_else(|| self.inner.ids.root_session());
        let cwd = self.folder(request.cwd.as_deref())?;
        let handle = self
            .inner
            .live
            .get_or_activate(&id, || self.make(&id, &cwd))
            .await?;
        let header = handle.live().header();
        fence(header)?;
        if header.cwd.as_deref() != Some(cwd.as_str()) && request.cwd.is_some() {
            let error = ApiError::new(
                ErrorCode::SessionConflict,
                "this session id exists already in another folder",
            )
            .with("sessionId", &id)
            .with("requestedCwd", &cwd);
            return Err(match &header.cwd {
                Some(existing) => error.with("existingCwd", existing),
                None => error,
            });
        }
        let agent_preset = header.agent_preset.clone();
        Ok(CreateResponse {
            session_id: id,
            agent_preset,
        })
    }

    fn folder(&self, cwd: Option<&str>) -> Result<String, ApiError> {
        let path = cwd.map_or_else(|| self.inner.settings.default_cwd.clone(), PathBuf::from);
        if !path.is_absolute() {
            return Err(ApiError::bad_request(
                "cwd",
                "the folder must be an absolute path",
            ));
        }
        path.to_str()
            .map(str::to_owned)
            .ok_or_else(|| ApiError::bad_request("cwd", "the folder's name is not valid UTF-8"))
    }

    /// A new log with its first events, live; or the stored session of that id.
    async fn make(&self, id: &SessionId, cwd: &str) -> Result<SessionHandle, ApiError> {
        let now = self.inner.clock.now();
        let header = SessionHeader {
            cwd: Some(cwd.to_owned()),
            agent_preset: Some(self.inner.preset.id.clone()),
            ..SessionHeader::root(id.clone(), now)
        };
        let writer = match self
            .inner
            .store
            .create(header.clone(), SessionLogOffset::ZERO)
            .await
        {
            Ok(writer) => writer,
            Err(StorageError::Exists { .. }) => return self.activate(id).await,
            Err(error) => return Err(failures::of_storage(&error)),
        };
        make_folder(Path::new(cwd))?;
        let internal = |error: &dyn std::fmt::Display| {
            tracing::error!(session = %id, %error, "a session could not be made");
            ApiError::internal()
        };
        let mut log = SessionLog::fresh(header, Vocabulary::default()).map_err(|e| internal(&e))?;
        for draft in self.first_events().map_err(|e| internal(&e))? {
            log.append(draft, now).map_err(|e| internal(&e))?;
        }
        writer
            .append(log.events().to_vec())
            .map_err(|e| failures::of_storage(&e))?;
        writer.flush().await.map_err(|e| failures::of_storage(&e))?;
        self.bring_to_life(log, Vec::new(), writer, self.ordinary())
    }

    fn first_events(&self) -> Result<[EventDraft; 3], JsonError> {
        let mode = self.inner.settings.sandbox;
        let policy = self.inner.settings.approvals;
        let preset = mode.as_str().to_owned();
        Ok([
            EventDraft::new(EventType::PermissionPreset, &PermissionPreset { preset })?,
            EventDraft::new(
                EventType::SandboxMode,
                &SandboxModeRecord { mode, source: None },
            )?,
            EventDraft::new(
                EventType::ApprovalPolicy,
                &ApprovalPolicyRecord {
                    policy,
                    source: None,
                },
            )?,
        ])
    }

    /// Gives a session a title that no automatic one replaces.
    pub async fn rename(&self, request: RenameRequest) -> Result<RenameResponse, ApiError> {
        let RenameRequest { session_id, title } = request;
        let renamed = self
            .with_live(&session_id, |handle| {
                let title = title.clone();
                async move { handle.rename(title).await }
            })
            .await?;
        match renamed {
            Ok(Some((title, seq))) => Ok(RenameResponse { title, seq }),
            Ok(None) => Err(ApiError::new(
                ErrorCode::TitleInvalid,
                "session title must contain visible characters",
            )
            .with("sessionId", &session_id)),
            Err(why) => Err(not_saved(&why)),
        }
    }
}

fn make_folder(path: &Path) -> Result<(), ApiError> {
    std::fs::create_dir_all(path).map_err(|error| {
        ApiError::new(
            ErrorCode::WorkspaceInvalidPath,
            format!("the folder {} cannot be used: {error}", path.display()),
        )
        .with("path", path)
    })
}

/// What was asked for is not on disk, so it does not count.
pub(super) fn not_saved(why: &str) -> ApiError {
    tracing::error!(why, "the log could not be saved");
    ApiError::new(
        ErrorCode::StorageUnavailable,
        "it could not be saved; the Host's log says why",
    )
}
