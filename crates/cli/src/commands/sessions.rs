//! `orrery sessions`: which sessions there are, and what was said in them.
//!
//! Reads through a Host in this process; what changes something is in `change`. Looking never wakes a session and takes no lock, so it
//! does not matter whether another Host runs.

use orrery_api::content::Address;
use orrery_api::history::{FollowItem, FollowRequest, HistoryRecord, PageRequest, PageResponse};
use orrery_api::session::{ListRequest, SearchHit, SearchRequest, SessionSummary};
use orrery_host::controller::Controller;
use orrery_session::{Event, SessionId, SessionSeq, SessionSeqCursor};
use serde::Deserialize;

use super::change;
use crate::args::{List, Look, Search, Sessions, Show};
use crate::context::{self, Context};
use crate::output;
use crate::progress::Progress;
use crate::report::Failure;
use crate::transcript::{Piece, piece};

/// Messages of a page; the whole log is fetched page by page.
const PAGE_MESSAGES: u32 = 500;
/// Rows of a list page when one session is looked for.
const LOOK_UP_ROWS: u32 = 500;
/// Characters of what was found.
const SNIPPET_WIDTH: usize = 100;
/// Characters of a title.
const TITLE_WIDTH: usize = 60;

pub(super) async fn sessions(context: Context, sessions: Sessions) -> Result<(), Failure> {
    let look = match sessions {
        Sessions::Change(asked) => return change::change(context, asked).await,
        Sessions::Look(look) => look,
    };
    context.prepare()?;
    let host = context::host(context.home, context.config, None)?;
    let done = match look {
        Look::List(asked) => list(host.controller(), &asked).await,
        Look::Search(asked) => search(host.controller(), &asked).await,
        Look::Show(asked) => show(host.controller(), &asked).await,
    };
    host.shutdown().await;
    done
}

async fn list(controller: &Controller, asked: &List) -> Result<(), Failure> {
    let request = ListRequest {
        cursor: None,
        limit: asked.limit,
    };
    let response = controller.list(request).await?;
    if asked.json {
        return output::json(&response);
    }
    let shown = |session: &&SessionSummary| asked.subagents || session.origin.is_none();
    let rows: Vec<Vec<String>> = response.items.iter().filter(shown).map(row).collect();
    output::data(&output::table(&rows))?;
    for diagnostic in &response.diagnostics {
        output::say(&format!("! {}: {}", diagnostic.path, diagnostic.message));
    }
    match response.next_cursor {
        _ if rows.is_empty() => output::say("there are no sessions yet"),
        Some(_) => output::say("there are more; see --limit"),
        None => {}
    }
    Ok(())
}

async fn search(controller: &Controller, asked: &Search) -> Result<(), Failure> {
    let mut bar = Progress::new("sessions are searchable");
    controller.index_all(|left| bar.show(left)).await?;
    bar.done();
    let request = SearchRequest {
        query: asked.query.clone(),
    };
    let response = controller.search(request).await?;
    if asked.json {
        return output::json(&response);
    }
    let rows: Vec<Vec<String>> = response.items.iter().map(found).collect();
    output::data(&output::table(&rows))?;
    if rows.is_empty() {
        output::say("nothing was found");
    } else if response.has_more {
        output::say("there are more; say more words");
    }
    Ok(())
}

fn found(hit: &SearchHit) -> Vec<String> {
    let place = match hit.r#match.r#type.as_str() {
        "session/title" => "title".to_owned(),
        _ => format!("event {}", hit.r#match.seq),
    };
    vec![
        hit.session_id.to_string(),
        place,
        output::short(&hit.snippet, SNIPPET_WIDTH),
    ]
}

fn row(session: &SessionSummary) -> Vec<String> {
    let title = title(session).unwrap_or_else(|| match session.blank {
        true => "(nothing was said)".to_owned(),
        false => "(no title)".to_owned(),
    });
    vec![
        session.session_id.to_string(),
        output::ago(session.updated_at.epoch_millis()),
        output::short(&title, TITLE_WIDTH),
        output::visible(session.cwd.as_deref().unwrap_or_default()),
    ]
}

fn title(session: &SessionSummary) -> Option<String> {
    let value = session.projections.as_ref()?.values.get("title")?;
    value.parse::<Option<String>>().ok()?
}

/// The session that an id, or the beginning of one, names.
pub(super) async fn find(controller: &Controller, text: &str) -> Result<SessionId, Failure> {
    let mut ids = Vec::new();
    let mut cursor = None;
    loop {
        let limit = Some(LOOK_UP_ROWS);
        let page = controller.list(ListRequest { cursor, limit }).await?;
        ids.extend(page.items.into_iter().map(|row| row.session_id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return change::one_of(ids, text);
        }
    }
}

async fn show(controller: &Controller, asked: &Show) -> Result<(), Failure> {
    let session_id = find(controller, &asked.session).await?;
    let address = Address::Session { session_id };
    let records = whole_log(controller, &address).await?;
    if asked.json {
        return output::json(&PageResponse {
            records,
            has_more: false,
        });
    }
    let mut text = String::new();
    for record in &records {
        // Packed rows are pieces of an answer whose whole follows.
        let HistoryRecord::Event(record) = record else {
            continue;
        };
        let Ok(event) = Event::from_json(record.event.text()) else {
            continue;
        };
        match piece(&event) {
            Some(Piece::Prompt(said)) => text.push_str(&format!("\n> {}\n\n", indent(&said))),
            Some(Piece::Said(said)) => text.push_str(&format!("{}\n", said.trim_end())),
            Some(Piece::Doing(line)) => text.push_str(&format!("{line}\n")),
            Some(Piece::Speaking(_)) | None => {}
        }
    }
    output::foreign(text.trim_start())
}

fn indent(text: &str) -> String {
    text.trim_end().lines().collect::<Vec<_>>().join("\n> ")
}

/// Every record of a log, oldest first.
async fn whole_log(
    controller: &Controller,
    address: &Address,
) -> Result<Vec<HistoryRecord>, Failure> {
    let strange = |why: String| Failure::Strange(why);
    let mut feed = controller
        .follow(FollowRequest {
            address: address.clone(),
            max_messages: Some(PAGE_MESSAGES),
            after_seq: None,
        })
        .await?;
    let first = feed.next().await?;
    let item = serde_json::from_str(&first.json).map_err(|e| strange(e.to_string()))?;
    let FollowItem::Snapshot(snapshot) = item else {
        return Err(strange("it began in the middle".to_owned()));
    };
    let through_seq: SessionSeqCursor = snapshot.cursor;
    let mut pages = vec![snapshot.records];
    let mut has_more = snapshot.has_more;
    while has_more {
        let oldest = pages.last().and_then(|page| page.first());
        let Some(before_seq) = oldest.and_then(seq_of) else {
            break;
        };
        let page = controller
            .page(PageRequest {
                address: address.clone(),
                through_seq,
                before_seq: Some(before_seq),
                max_messages: Some(PAGE_MESSAGES),
            })
            .await?;
        has_more = page.has_more;
        pages.push(page.records);
    }
    Ok(pages.into_iter().rev().flatten().collect())
}

pub(super) fn seq_of(record: &HistoryRecord) -> Option<SessionSeq> {
    #[derive(Deserialize)]
    struct Head {
        seq: SessionSeq,
    }
    let event = match record {
        HistoryRecord::Event(record) => &record.event,
        HistoryRecord::Chunks(record) => &record.event,
    };
    event.parse::<Head>().ok().map(|head| head.seq)
}
