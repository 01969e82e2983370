//! `orrery sessions rename|fork|archive|unarchive|rm|restore|trash|export|import`: through the Host that runs
//! here, or one started for it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use orrery_api::content::Empty;
use orrery_api::operations::{
    Procedure, SessionArchive, SessionDelete, SessionFork, SessionList, SessionRename,
    SessionRestore, SessionTrash, SessionUnarchive,
};
use orrery_api::session::{
    ForkRequest, ImportResponse, ListRequest, RenameRequest, SessionRequest,
};
use orrery_session::{SessionId, SessionSeq};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use tempfile::NamedTempFile;

use crate::args::{Change, Export, Fork, Import, Json, Named, Rename};
use crate::context::Context;
use crate::output;
use crate::reach::Reach;
use crate::report::Failure;

/// Rows of a list page when one session is looked for.
const LOOK_UP_ROWS: u32 = 500;
/// Characters of a title.
const TITLE_WIDTH: usize = 60;

pub(super) async fn change(context: Context, change: Change) -> Result<(), Failure> {
    let reach = Reach::open(context).await?;
    let done = match &change {
        Change::Rename(asked) => rename(&reach, asked).await,
        Change::Fork(asked) => fork(&reach, asked).await,
        Change::Archive(asked) => mark::<SessionArchive>(&reach, asked, "archived").await,
        Change::Unarchive(asked) => mark::<SessionUnarchive>(&reach, asked, "shown again").await,
        Change::Rm(asked) => mark::<SessionDelete>(&reach, asked, "in the trash").await,
        Change::Restore(asked) => restore(&reach, asked).await,
        Change::Trash(asked) => trash(&reach, asked).await,
        Change::Export(asked) => export(&reach, asked).await,
        Change::Import(asked) => import(&reach, asked).await,
    };
    // What went wrong first is told first.
    done.and(reach.close().await)
}

async fn rename(reach: &Reach, asked: &Rename) -> Result<(), Failure> {
    let request = RenameRequest {
        session_id: find(reach, &asked.named.session).await?,
        title: asked.title.clone(),
    };
    let renamed = reach.call::<SessionRename>(&request).await?;
    if asked.named.json {
        return output::json(&renamed);
    }
    output::line(&output::visible(&renamed.title))
}

async fn fork(reach: &Reach, asked: &Fork) -> Result<(), Failure> {
    let at_seq = asked.at.map(SessionSeq::new).transpose();
    let request = ForkRequest {
        session_id: find(reach, &asked.named.session).await?,
        at_seq: at_seq.map_err(|error| Failure::Usage(format!("--at: {error}")))?,
    };
    let forked = reach.call::<SessionFork>(&request).await?;
    if asked.named.json {
        return output::json(&forked);
    }
    output::line(forked.session_id.as_str())
}

async fn mark<P>(reach: &Reach, asked: &Named, what: &str) -> Result<(), Failure>
where
    P: Procedure<Request = SessionRequest>,
{
    let session_id = find(reach, &asked.session).await?;
    let request = SessionRequest { session_id };
    let answer = reach.call::<P>(&request).await?;
    if asked.json {
        return output::json(&answer);
    }
    output::line(&format!("{} is {what}", request.session_id))
}

async fn restore(reach: &Reach, asked: &Named) -> Result<(), Failure> {
    let deleted = reach.call::<SessionTrash>(&Empty {}).await?.items;
    let ids = deleted.into_iter().map(|item| item.session_id);
    let session_id = one_of(ids, &asked.session)?;
    let request = SessionRequest { session_id };
    let answer = reach.call::<SessionRestore>(&request).await?;
    if asked.json {
        return output::json(&answer);
    }
    output::line(&format!("{} is back", request.session_id))
}

async fn trash(reach: &Reach, asked: &Json) -> Result<(), Failure> {
    let trash = reach.call::<SessionTrash>(&Empty {}).await?;
    if asked.json {
        return output::json(&trash);
    }
    let rows: Vec<Vec<String>> = trash
        .items
        .iter()
        .map(|item| {
            let title = item.title.as_deref().unwrap_or("(no title)");
            vec![
                item.session_id.to_string(),
                output::ago(item.deleted_at.epoch_millis()),
                output::short(title, TITLE_WIDTH),
                output::visible(item.cwd.as_deref().unwrap_or_default()),
            ]
        })
        .collect();
    output::data(&output::table(&rows))?;
    if rows.is_empty() {
        output::say("the trash is empty");
    }
    Ok(())
}

async fn export(reach: &Reach, asked: &Export) -> Result<(), Failure> {
    let id = find(reach, &asked.session).await?;
    let path = format!(
        "/api/session/export?sessionId={}&includeDescendants={}",
        percent_encode(id.as_str().as_bytes(), NON_ALPHANUMERIC),
        asked.descendants
    );
    let stdout = asked.output.as_deref() == Some(Path::new("-"));
    if stdout {
        let mut out = std::io::stdout();
        let done = reach.download(&path, |piece| {
            out.write_all(piece).map_err(Failure::writing)
        });
        return done.await;
    }
    let file = asked.output.clone();
    let file = file.unwrap_or_else(|| PathBuf::from(format!("{}.zip", file_name(&id))));
    let io = |error| Failure::io(format!("write {}", file.display()))(error);
    // What is there stays, and half a file never has the name of a whole one.
    if file.exists() {
        return Err(io(std::io::ErrorKind::AlreadyExists.into()));
    }
    let folder = file.parent().filter(|folder| *folder != Path::new(""));
    let half = NamedTempFile::new_in(folder.unwrap_or(Path::new("."))).map_err(io)?;
    let mut out = half.as_file();
    let done = reach.download(&path, |piece| out.write_all(piece).map_err(io));
    done.await?;
    half.persist_noclobber(&file).map_err(|e| io(e.error))?;
    output::line(&output::visible(&file.to_string_lossy()))
}

async fn import(reach: &Reach, asked: &Import) -> Result<(), Failure> {
    let path = asked.file.display();
    let file = tokio::fs::File::open(&asked.file).await;
    let file = file.map_err(Failure::io(format!("read {path}")))?;
    let imported: ImportResponse = reach
        .upload("/api/session/import", "application/zip", file)
        .await?;
    if asked.json {
        return output::json(&imported);
    }
    for id in &imported.session_ids {
        output::line(id.as_str())?;
    }
    for renamed in &imported.renamed {
        let (from, to) = (&renamed.from, &renamed.to);
        output::say(&format!("{from} was there already: it came in as {to}"));
    }
    Ok(())
}

/// A name for a file that holds a session.
fn file_name(id: &SessionId) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = id
        .as_str()
        .chars()
        .map(|c| if safe(c) { c } else { '_' })
        .collect();
    name.trim_start_matches('.').to_owned()
}

/// The session that an id, or the beginning of one, names.
pub(super) async fn find(reach: &Reach, text: &str) -> Result<SessionId, Failure> {
    let mut ids = Vec::new();
    let mut cursor = None;
    loop {
        let limit = Some(LOOK_UP_ROWS);
        let page = reach
            .call::<SessionList>(&ListRequest { cursor, limit })
            .await?;
        ids.extend(page.items.into_iter().map(|row| row.session_id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return one_of(ids, text);
        }
    }
}

/// The one of several ids that a text names, whole or by its beginning.
pub(super) fn one_of(
    ids: impl IntoIterator<Item = SessionId>,
    text: &str,
) -> Result<SessionId, Failure> {
    let mut found: Vec<SessionId> = Vec::new();
    for candidate in ids {
        let id = candidate.as_str();
        if id == text {
            return Ok(candidate);
        }
        let bare = id.strip_prefix("session-").unwrap_or(id);
        if !text.is_empty() && (id.starts_with(text) || bare.starts_with(text)) {
            found.push(candidate);
        }
    }
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(orrery_api::ApiError::session_not_found(text).into()),
        many => {
            let names: Vec<&str> = many.iter().take(5).map(SessionId::as_str).collect();
            Err(Failure::Usage(format!(
                "{} sessions begin with `{text}`: {}",
                many.len(),
                names.join(", ")
            )))
        }
    }
}
