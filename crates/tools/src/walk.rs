//! Walking the workspace the way `git` sees it.
//!
//! Owns the rules: ignored files stay out (also without a repository), hidden files count, `.git`
//! never does, links are not followed. The order is by path, so that answers can be paged.

use std::path::Path;

use ignore::{Walk, WalkBuilder};
use orrery_agent::tool::ToolError;
use tokio_util::sync::CancellationToken;

use orrery_agent::arguments::failed;

/// A sorted walk from `root`; `depth` 1 stays in the folder.
///
/// The ignore files above `root` count, because a workspace may be a part of a repository. Where
/// they would hide all of it, `root` itself is ignored: whoever asks for it by name wants to see it.
pub(crate) fn walk(root: &Path, depth: Option<usize>, ignored_too: bool) -> Walk {
    let shows_something = build(root, Some(1), ignored_too, true)
        .flatten()
        .any(|entry| entry.depth() > 0);
    build(root, depth, ignored_too, shows_something)
}

fn build(root: &Path, depth: Option<usize>, ignored_too: bool, parents: bool) -> Walk {
    let mut builder = WalkBuilder::new(root);
    builder
        .standard_filters(!ignored_too)
        .parents(!ignored_too && parents)
        .hidden(false)
        .require_git(false)
        .max_depth(depth)
        .filter_entry(|entry| entry.file_name() != ".git")
        .sort_by_file_path(Path::cmp);
    builder.build()
}

/// Runs file work on a thread of its own, so that it never blocks the runtime.
///
/// The work looks at the token itself; where it is read-only, cancellation need not wait for it.
///
/// # Errors
///
/// `ABORTED` on cancellation, and whatever the work says.
pub(crate) async fn reading<T: Send + 'static>(
    cancel: CancellationToken,
    work: impl FnOnce(&CancellationToken) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let token = cancel.clone();
    let task = tokio::task::spawn_blocking(move || work(&token));
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(ToolError::Aborted),
        done = task => done.unwrap_or_else(|error| Err(failed("IO", error.to_string()))),
    }
}

/// Like [`reading`], but what was begun is waited for: a write is done or it is not.
///
/// # Errors
///
/// `ABORTED` when cancelled before the start, and whatever the work says.
pub(crate) async fn writing<T: Send + 'static>(
    cancel: CancellationToken,
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    if cancel.is_cancelled() {
        return Err(ToolError::Aborted);
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(failed("IO", error.to_string())))
}
