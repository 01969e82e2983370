//! The tables of documents: what an update does to them.
//!
//! Owns the rule that an event is indexed once, whoever sends it how often: a document takes the
//! place of an earlier one of its seq. The caller's transaction makes it all or nothing.

use orrery_query::search::words::of_document;
use orrery_query::search::{Document, SessionUpdate, Standing};
use orrery_session::{EventType, SessionId};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::error::CatalogError;

const PUT_SESSION: &str = "INSERT INTO sessions (id, identity, revision, through, anchor) \
    VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (id) DO UPDATE SET identity = excluded.identity, \
    revision = excluded.revision, through = excluded.through, anchor = excluded.anchor \
    RETURNING key";
const PUT_DOCUMENT: &str = "INSERT INTO documents (session, seq, type, time, standing, length) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const SHADOW: &str = "UPDATE documents SET standing = ?4 \
    WHERE session = ?1 AND seq BETWEEN ?2 AND ?3 AND standing = ?5";

/// How a standing is kept.
pub(crate) const fn number(standing: Standing) -> i64 {
    match standing {
        Standing::Current => 0,
        Standing::Shadowed => 1,
        Standing::LogOnly => 2,
    }
}

/// A session as a word of the index. It begins with a character for private use, which the tokenizer
/// takes for a letter and no text ever gives a word, so that no beginning of a word meets it.
pub(crate) fn session_word(key: i64) -> String {
    format!("\u{e000}{key}")
}

/// Applies an update. Says whether a search may answer otherwise now.
pub(crate) fn apply(connection: &Connection, update: &SessionUpdate) -> Result<bool, CatalogError> {
    let mut changed = false;
    if update.from_scratch {
        changed |= remove(connection, &update.session.id)?;
    }
    let session = &update.session;
    let identity = serde_json::to_string(&session.identity)
        .map_err(|error| CatalogError::Damaged(error.to_string()))?;
    let key: i64 = connection.prepare_cached(PUT_SESSION)?.query_row(
        params![
            session.id.as_str(),
            identity,
            session.revision,
            session.through.get(),
            session.anchor
        ],
        |row| row.get(0),
    )?;
    let mut shadow = connection.prepare_cached(SHADOW)?;
    let (current, shadowed) = (number(Standing::Current), number(Standing::Shadowed));
    for range in &update.shadowed {
        let (start, end) = (range.start().get(), range.end().get());
        changed |= shadow.execute(params![key, start, end, shadowed, current])? > 0;
    }
    for document in &update.documents {
        changed |= put(connection, key, document)?;
    }
    Ok(changed)
}

/// Forgets a session. Says whether anything was known of its events.
pub(crate) fn remove(connection: &Connection, id: &SessionId) -> Result<bool, CatalogError> {
    let sql = "DELETE FROM sessions WHERE id = ?1 RETURNING key";
    let mut statement = connection.prepare_cached(sql)?;
    let key: Option<i64> = statement
        .query_row([id.as_str()], |row| row.get(0))
        .optional()?;
    match key {
        Some(key) => forget(
            connection,
            "SELECT id FROM documents WHERE session = ?1",
            key,
            0,
        ),
        None => Ok(false),
    }
}

fn put(connection: &Connection, session: i64, document: &Document) -> Result<bool, CatalogError> {
    let seq = i64::try_from(document.seq.get()).unwrap_or(i64::MAX);
    let earlier = "SELECT id FROM documents WHERE session = ?1 AND seq = ?2";
    let mut changed = forget(connection, earlier, session, seq)?;
    if document.event_type == EventType::SessionTitle {
        let title = "SELECT id FROM documents WHERE session = ?1 AND type = 'session/title'";
        changed |= forget(connection, title, session, seq)?;
    }
    let words = of_document(&document.text);
    if words.words.is_empty() {
        return Ok(changed);
    }
    let length = document.text.chars().count();
    connection.prepare_cached(PUT_DOCUMENT)?.execute(params![
        session,
        seq,
        document.event_type.as_str(),
        document.time.epoch_millis(),
        number(document.standing),
        i64::try_from(length).unwrap_or(i64::MAX)
    ])?;
    let id = connection.last_insert_rowid();
    let sql = "INSERT INTO text (rowid, words, joined, session) VALUES (?1, ?2, ?3, ?4)";
    let mut insert = connection.prepare_cached(sql)?;
    insert.execute(params![
        id,
        words.words,
        words.joined,
        session_word(session)
    ])?;
    Ok(true)
}

/// Forgets the documents that `ids` selects. Says whether there were any.
fn forget(
    connection: &Connection,
    ids: &str,
    session: i64,
    seq: i64,
) -> Result<bool, CatalogError> {
    let mut found: Vec<i64> = Vec::new();
    {
        let mut statement = connection.prepare_cached(ids)?;
        let mut rows = match statement.parameter_count() {
            1 => statement.query(params![session])?,
            _ => statement.query(params![session, seq])?,
        };
        while let Some(row) = rows.next()? {
            found.push(row.get(0)?);
        }
    }
    let mut document = connection.prepare_cached("DELETE FROM documents WHERE id = ?1")?;
    let mut text = connection.prepare_cached("DELETE FROM text WHERE rowid = ?1")?;
    for id in &found {
        document.execute([id])?;
        text.execute([id])?;
    }
    Ok(!found.is_empty())
}
