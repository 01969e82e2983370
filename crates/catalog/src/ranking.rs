//! Finding and ranking (`subagent.md` 3.7).
//!
//! Owns how a query is said to FTS5, which documents are ranked at all, and the order of hits: more
//! occurrences first, then the shorter document, the later event, the smaller session id, the higher
//! seq.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use orrery_query::search::words::joined_counts_among_words;
use orrery_query::search::{IndexHit, IndexQuery, Phrase, Standing};
use orrery_session::{EventType, SessionId, SessionSeq, Timestamp};
use rusqlite::{Connection, Row, ToSql};

use crate::documents::{number, session_word};
use crate::error::CatalogError;

/// Of the documents that match, so many are ranked: those that were indexed last. Words that occur
/// in more tell nothing apart, and to count all their places would take longer than a person waits.
/// It is also why a word that may go on is first looked for as it stands: where that alone fills the
/// candidates, its longer forms are not asked for. FTS5 would gather all of them beforehand.
pub const CANDIDATES: usize = 2_000;

/// Up to so many sessions are part of what FTS5 looks for. More are a filter of what it finds.
const FEW_SESSIONS: usize = 16;

/// Beginnings of up to so many letters have lists of their own in the index (`schema.sql`).
const SHORT_PREFIX: usize = 3;

/// Which documents match. Filters come before the limit, so that a filter never empties a page that
/// has hits.
const MATCHING: &str = "
    FROM text CROSS JOIN documents ON documents.id = text.rowid
    WHERE text MATCH :match
        AND (:types IS NULL OR documents.type IN (SELECT value FROM json_each(:types)))
        AND (:standings IS NULL
            OR documents.standing IN (SELECT value FROM json_each(:standings)))
        AND (:sessions IS NULL OR documents.session IN (
            SELECT key FROM sessions WHERE id IN (SELECT value FROM json_each(:sessions))))
        AND documents.seq BETWEEN :first_seq AND :last_seq
        AND documents.time BETWEEN :first_time AND :last_time
    ORDER BY text.rowid DESC LIMIT :candidates";

/// What is done with them.
const RANKED: &str = "
, ranked AS (
    SELECT *, NOT :one_per_session OR row_number() OVER (
        PARTITION BY session ORDER BY matches DESC, length, time DESC, seq DESC
    ) = 1 AS wanted
    FROM matching
)
SELECT sessions.id, seq, type, time, standing, matches
FROM ranked JOIN sessions ON sessions.key = ranked.session
WHERE wanted
ORDER BY matches DESC, length, time DESC, sessions.id, seq DESC
LIMIT :limit OFFSET :offset";

/// Answers a query.
pub(crate) fn search(
    connection: &Connection,
    query: &IndexQuery,
) -> Result<Vec<IndexHit>, CatalogError> {
    let nothing = query.phrases.is_empty()
        || query.limit == 0
        || query.offset >= CANDIDATES
        || query.phrases.iter().any(|phrase| phrase.words.is_empty());
    if nothing {
        return Ok(Vec::new());
    }
    let within = match &query.sessions {
        Some(ids) if ids.len() <= FEW_SESSIONS => match within(connection, ids)? {
            Some(within) => within,
            None => return Ok(Vec::new()),
        },
        _ => String::new(),
    };
    let filter = Filter::of(query);
    let whole = Asked::of(&query.phrases, LongPrefixes::AsTheyStand, &within);
    let open = Asked::of(&query.phrases, LongPrefixes::GoOn, &within);
    if whole.expression != open.expression && filter.is_filled_by(connection, &whole)? {
        filter.ranked(connection, &whole, query)
    } else {
        filter.ranked(connection, &open, query)
    }
}

/// A query's conditions but its phrases, as they are bound.
struct Filter {
    types: Option<String>,
    standings: Option<String>,
    sessions: Option<String>,
    seqs: (i64, i64),
    times: (i64, i64),
    candidates: i64,
}

impl Filter {
    fn of(query: &IndexQuery) -> Self {
        let many = query
            .sessions
            .as_ref()
            .filter(|ids| ids.len() > FEW_SESSIONS);
        let sessions = many.map(|ids| {
            let ids: Vec<&str> = ids.iter().map(SessionId::as_str).collect();
            serde_json::Value::from(ids).to_string()
        });
        let types = query.types.as_ref().map(|types| {
            let names: Vec<&str> = types.iter().map(EventType::as_str).collect();
            serde_json::Value::from(names).to_string()
        });
        let standings = query.standings.as_ref().map(|standings| {
            let numbers: Vec<i64> = standings.iter().map(|s| number(*s)).collect();
            serde_json::Value::from(numbers).to_string()
        });
        let seqs = query.seqs.as_ref().map_or((0, i64::MAX), |range| {
            (signed(range.start().get()), signed(range.end().get()))
        });
        let times = query.times.as_ref().map_or((i64::MIN, i64::MAX), |range| {
            (range.start().epoch_millis(), range.end().epoch_millis())
        });
        Self {
            types,
            standings,
            sessions,
            seqs,
            times,
            candidates: signed(CANDIDATES as u64),
        }
    }

    fn bound<'a>(&'a self, asked: &'a Asked) -> Vec<(&'static str, &'a dyn ToSql)> {
        vec![
            (":match", &asked.expression),
            (":types", &self.types),
            (":standings", &self.standings),
            (":sessions", &self.sessions),
            (":first_seq", &self.seqs.0),
            (":last_seq", &self.seqs.1),
            (":first_time", &self.times.0),
            (":last_time", &self.times.1),
            (":candidates", &self.candidates),
        ]
    }

    /// Whether as many documents match as are ever ranked.
    fn is_filled_by(&self, connection: &Connection, asked: &Asked) -> Result<bool, CatalogError> {
        let sql = format!("SELECT count(*) FROM (SELECT 1 {MATCHING})");
        let mut statement = connection.prepare_cached(&sql)?;
        let bound = self.bound(asked);
        let count: i64 = statement.query_row(bound.as_slice(), |row| row.get(0))?;
        Ok(count >= self.candidates)
    }

    fn ranked(
        &self,
        connection: &Connection,
        asked: &Asked,
        query: &IndexQuery,
    ) -> Result<Vec<IndexHit>, CatalogError> {
        let sql = format!(
            "WITH matching AS MATERIALIZED (SELECT documents.session, documents.seq, \
             documents.type, documents.time, documents.standing, documents.length, \
             occurrences(text, :pattern) AS matches {MATCHING}) {RANKED}"
        );
        let (limit, offset) = (signed(query.limit as u64), signed(query.offset as u64));
        let mut bound = self.bound(asked);
        bound.push((":pattern", &asked.pattern));
        bound.push((":one_per_session", &query.one_per_session));
        bound.push((":limit", &limit));
        bound.push((":offset", &offset));
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query(bound.as_slice())?;
        let mut hits = Vec::new();
        while let Some(row) = rows.next()? {
            hits.push(hit(row)?);
        }
        Ok(hits)
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The condition that a document is of one of these sessions, behind others; `None` when none of
/// them is indexed.
fn within(
    connection: &Connection,
    sessions: &BTreeSet<SessionId>,
) -> Result<Option<String>, CatalogError> {
    let mut statement = connection.prepare_cached("SELECT key FROM sessions WHERE id = ?1")?;
    let mut words = Vec::new();
    for id in sessions {
        let mut rows = statement.query([id.as_str()])?;
        if let Some(row) = rows.next()? {
            words.push(quoted(&session_word(row.get(0)?), false));
        }
    }
    let words = words.join(" OR ");
    Ok((!words.is_empty()).then(|| format!(" AND {{session}} : ({words})")))
}

fn hit(row: &Row<'_>) -> Result<IndexHit, CatalogError> {
    let damaged = |what: &str| CatalogError::Damaged(format!("an event's {what}"));
    let standing: i64 = row.get(4)?;
    let known = Standing::ALL.into_iter().find(|s| number(*s) == standing);
    Ok(IndexHit {
        session: SessionId::new(row.get::<_, String>(0)?).map_err(|_empty| damaged("session"))?,
        seq: SessionSeq::new(row.get(1)?).map_err(|_large| damaged("seq"))?,
        event_type: EventType::from_name(&row.get::<_, String>(2)?),
        time: Timestamp::new(row.get(3)?).map_err(|_large| damaged("time"))?,
        standing: known.ok_or_else(|| damaged("standing"))?,
        matches: row.get(5)?,
    })
}

/// A query as FTS5 and `occurrences` want it.
struct Asked {
    expression: String,
    /// For each phrase of the expression what it counts as: see `occurrences`.
    pattern: String,
}

/// What becomes of last words that may go on and have no list of their own in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LongPrefixes {
    /// They go on.
    GoOn,
    /// They are whole words.
    AsTheyStand,
}

impl LongPrefixes {
    fn goes_on(self, word: &str) -> bool {
        self == Self::GoOn || word.chars().nth(SHORT_PREFIX).is_none()
    }
}

impl Asked {
    fn of(phrases: &[Phrase], long: LongPrefixes, within: &str) -> Self {
        let mut asked = Self {
            expression: String::new(),
            pattern: String::new(),
        };
        for phrase in phrases {
            if !asked.expression.is_empty() {
                asked.expression.push_str(" AND ");
            }
            asked.phrase(phrase, long);
        }
        // Last: `occurrences` counts the phrases that the pattern has a letter for.
        asked.expression.push_str(within);
        asked
    }

    fn phrase(&mut self, phrase: &Phrase, long: LongPrefixes) {
        let last = phrase.words.last().map_or("", String::as_str);
        let words = quoted(&phrase.words.join(" "), phrase.prefix && long.goes_on(last));
        let pushed = match &phrase.joined {
            None => {
                self.pattern.push('w');
                write!(self.expression, "{{words}} : {words}")
            }
            // One word that may go on: it is its own joined form.
            Some(_) if !joined_counts_among_words(phrase) => {
                self.pattern.push('b');
                write!(self.expression, "{{words joined}} : {words}")
            }
            Some(joined) => {
                self.pattern.push_str("wj");
                let joined = quoted(joined, long.goes_on(joined));
                write!(
                    self.expression,
                    "({{words}} : {words} OR {{words joined}} : {joined})"
                )
            }
        };
        // A `String` takes everything.
        debug_assert!(pushed.is_ok());
    }
}

/// A phrase of FTS5. Nothing in it is an operator.
fn quoted(words: &str, prefix: bool) -> String {
    let words = words.replace('\0', " ").replace('"', "\"\"");
    format!("\"{words}\"{}", if prefix { " *" } else { "" })
}
