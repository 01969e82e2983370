//! The `workspace` namespace: folders that sessions belong to, and looking for one.

use std::path::{Path, PathBuf};

use orrery_api::error::{ApiError, ErrorCode};
use orrery_api::workspace::{
    DirectoryEntry, ListDirectoryRequest, ListDirectoryResponse, Workspace, WorkspaceAddRequest,
    WorkspaceAddResponse, WorkspaceListResponse, WorkspaceRemoveRequest, WorkspaceRemoveResponse,
    WorkspaceRenameRequest, WorkspaceRenameResponse,
};
use orrery_session::title;

use super::{Controller, failures};

/// The most folders that are listed at once.
const MAX_ENTRIES: usize = 1_000;

impl Controller {
    /// The workspaces, in the order in which they were added.
    pub fn workspace_list(&self) -> WorkspaceListResponse {
        WorkspaceListResponse {
            items: self.inner.state.get().workspaces,
        }
    }

    /// Makes a folder a workspace; one that is one already stays as it is.
    pub async fn workspace_add(
        &self,
        request: WorkspaceAddRequest,
    ) -> Result<WorkspaceAddResponse, ApiError> {
        let path = absolute(&request.path)?;
        let canonical = blocking(move || {
            let canonical = path
                .canonicalize()
                .map_err(|e| unusable(&path, &e.to_string()))?;
            if canonical.is_dir() {
                Ok(canonical)
            } else {
                Err(unusable(&canonical, "it is not a folder"))
            }
        })
        .await?;
        let path = canonical
            .to_str()
            .ok_or_else(|| unusable(&canonical, "its name is not valid UTF-8"))?
            .to_owned();
        let name = canonical
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or(&path)
            .to_owned();
        let workspace = Workspace {
            workspace_id: self.inner.ids.uuid(),
            path,
            title: name,
            created_at: self.inner.clock.now(),
        };
        let added = self.inner.state.change(|state| {
            match state
                .workspaces
                .iter()
                .find(|known| known.path == workspace.path)
            {
                Some(known) => WorkspaceAddResponse {
                    workspace: known.clone(),
                    created: false,
                },
                None => {
                    state.workspaces.push(workspace.clone());
                    WorkspaceAddResponse {
                        workspace,
                        created: true,
                    }
                }
            }
        });
        self.inner.live.changed();
        added.map_err(|e| failures::of_state(&e))
    }

    /// Gives a workspace another title.
    pub fn workspace_rename(
        &self,
        request: WorkspaceRenameRequest,
    ) -> Result<WorkspaceRenameResponse, ApiError> {
        let Some(title) = title::normalise(&request.title) else {
            return Err(ApiError::bad_request(
                "title",
                "must contain visible characters",
            ));
        };
        let renamed = self.inner.state.change(|state| {
            let known = state
                .workspaces
                .iter_mut()
                .find(|w| w.workspace_id == request.workspace_id)?;
            known.title = title;
            Some(known.clone())
        });
        renamed
            .map_err(|e| failures::of_state(&e))?
            .map(|workspace| WorkspaceRenameResponse { workspace })
            .ok_or_else(|| ApiError::workspace_not_found(&request.workspace_id))
    }

    /// Forgets a workspace; its folder and its sessions stay.
    pub fn workspace_remove(
        &self,
        request: &WorkspaceRemoveRequest,
    ) -> Result<WorkspaceRemoveResponse, ApiError> {
        let removed = self.inner.state.change(|state| {
            let before = state.workspaces.len();
            state
                .workspaces
                .retain(|w| w.workspace_id != request.workspace_id);
            state.workspaces.len() < before
        });
        self.inner.live.changed();
        match removed.map_err(|e| failures::of_state(&e))? {
            true => Ok(WorkspaceRemoveResponse { removed: true }),
            false => Err(ApiError::workspace_not_found(&request.workspace_id)),
        }
    }

    /// The folders in a folder; the default folder of sessions without a path.
    pub async fn list_directory(
        &self,
        request: ListDirectoryRequest,
    ) -> Result<ListDirectoryResponse, ApiError> {
        let path = match &request.path {
            Some(path) => absolute(path)?,
            None => self.inner.settings.default_cwd.clone(),
        };
        blocking(move || read_folder(&path)).await
    }
}

fn read_folder(path: &Path) -> Result<ListDirectoryResponse, ApiError> {
    let unreadable = |error: std::io::Error| {
        let message = format!("{} cannot be listed: {error}", path.display());
        ApiError::new(ErrorCode::DirectoryUnreadable, message).with("path", path)
    };
    let path = path.canonicalize().map_err(unreadable)?;
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(&path).map_err(unreadable)? {
        // An entry that vanishes while it is looked at is not there.
        let Ok(entry) = entry else { continue };
        let full = entry.path();
        let (Ok(name), Some(text)) = (entry.file_name().into_string(), full.to_str()) else {
            continue;
        };
        if full.is_dir() {
            let hidden = name.starts_with('.');
            entries.push(DirectoryEntry {
                path: text.to_owned(),
                hidden,
                name,
            });
        }
    }
    entries.sort_by_cached_key(|entry| entry.name.to_lowercase());
    let truncated = entries.len() > MAX_ENTRIES;
    entries.truncate(MAX_ENTRIES);
    let parent = path.parent().map(|parent| parent.display().to_string());
    Ok(ListDirectoryResponse {
        path: path.display().to_string(),
        parent,
        entries,
        truncated,
    })
}

fn absolute(path: &str) -> Result<PathBuf, ApiError> {
    let path = PathBuf::from(path);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(unusable(&path, "the path must be absolute"))
    }
}

fn unusable(path: &Path, why: &str) -> ApiError {
    let message = format!("{} cannot be a workspace: {why}", path.display());
    ApiError::new(ErrorCode::WorkspaceInvalidPath, message).with("path", path)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| {
            tracing::error!(%error, "a look at the file system failed");
            Err(ApiError::internal())
        })
}
