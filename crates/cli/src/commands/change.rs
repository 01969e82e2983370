//! `orrery sessions rename|fork|archive|unarchive|rm|restore|trash`: through the Host that runs
//! here, or one started for it.

use orrery_api::content::Empty;
use orrery_api::operations::{
    Procedure, SessionArchive, SessionDelete, SessionFork, SessionList, SessionRename,
    SessionRestore, SessionTrash, SessionUnarchive,
};
use orrery_api::session::{ForkRequest, ListRequest, RenameRequest, SessionRequest};
use orrery_session::{SessionId, SessionSeq};

use crate::args::{Change, Fork, Json, Named, Rename};
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

/// The session that an id, or the beginning of one, names.
async fn find(reach: &Reach, text: &str) -> Result<SessionId, Failure> {
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
