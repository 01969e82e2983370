//! Checkpoints in the catalogue: one row for each session.
//!
//! Owns how a record is written down and checked. SQLite has no checksums of its own, and a state
//! with one flipped bit would be believed, so each row carries one; a row that fails it is absent.

use std::collections::BTreeMap;

use orrery_projection::checkpoint::{CheckpointError, CheckpointRecord, CheckpointStore};
use orrery_session::SessionId;
use rusqlite::types::ValueRef;
use rusqlite::{Row, params};

use crate::Catalog;

const PUT: &str = "INSERT INTO checkpoints (session, identity, revision, anchor, rows, checksum) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (session) DO UPDATE SET \
    identity = excluded.identity, revision = excluded.revision, anchor = excluded.anchor, \
    rows = excluded.rows, checksum = excluded.checksum";

impl CheckpointStore for Catalog {
    fn load(&self, id: &SessionId) -> Result<Option<CheckpointRecord>, CheckpointError> {
        let loaded = self.connections.read_again(|connection| {
            let sql = "SELECT session, identity, revision, anchor, rows, checksum FROM checkpoints \
                WHERE session = ?1";
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query([id.as_str()])?;
            Ok(rows.next()?.and_then(record))
        });
        Ok(loaded?.0.map(|(_, record)| record))
    }

    fn load_these(
        &self,
        ids: &[SessionId],
    ) -> Result<BTreeMap<SessionId, CheckpointRecord>, CheckpointError> {
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let ids: Vec<&str> = ids.iter().map(SessionId::as_str).collect();
        let wanted = serde_json::to_string(&ids).map_err(|e| CheckpointError(e.to_string()))?;
        let loaded = self.connections.read_again(|connection| {
            let sql = "SELECT session, identity, revision, anchor, rows, checksum FROM checkpoints \
                WHERE session IN (SELECT value FROM json_each(?1))";
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query([&wanted])?;
            let mut records = BTreeMap::new();
            while let Some(row) = rows.next()? {
                records.extend(record(row));
            }
            Ok(records)
        });
        Ok(loaded?.0)
    }

    fn load_all(&self) -> Result<BTreeMap<SessionId, CheckpointRecord>, CheckpointError> {
        let loaded = self.connections.read_again(|connection| {
            let sql = "SELECT session, identity, revision, anchor, rows, checksum FROM checkpoints";
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query([])?;
            let mut records = BTreeMap::new();
            while let Some(row) = rows.next()? {
                records.extend(record(row));
            }
            Ok(records)
        });
        Ok(loaded?.0)
    }

    fn put(&self, records: &[(SessionId, CheckpointRecord)]) -> Result<(), CheckpointError> {
        let mut lines = Vec::with_capacity(records.len());
        for (id, record) in records {
            lines.push((id, Line::of(record)?));
        }
        self.connections.write_again(|connection| {
            let transaction = connection.transaction()?;
            {
                let mut put = transaction.prepare_cached(PUT)?;
                for (id, line) in &lines {
                    let checksum = line.checksum(id.as_str());
                    put.execute(params![
                        id.as_str(),
                        line.identity,
                        line.revision,
                        line.anchor,
                        line.rows,
                        checksum
                    ])?;
                }
            }
            Ok(transaction.commit()?)
        })?;
        Ok(())
    }

    fn remove(&self, ids: &[SessionId]) -> Result<(), CheckpointError> {
        self.connections.write_again(|connection| {
            let transaction = connection.transaction()?;
            {
                let sql = "DELETE FROM checkpoints WHERE session = ?1";
                let mut delete = transaction.prepare_cached(sql)?;
                for id in ids {
                    delete.execute([id.as_str()])?;
                }
            }
            Ok(transaction.commit()?)
        })?;
        Ok(())
    }
}

/// A record as text.
struct Line {
    identity: String,
    revision: Option<String>,
    anchor: Option<u32>,
    rows: String,
}

impl Line {
    fn of(record: &CheckpointRecord) -> Result<Self, CheckpointError> {
        let text = |error: serde_json::Error| CheckpointError(error.to_string());
        Ok(Self {
            identity: serde_json::to_string(&record.identity).map_err(text)?,
            revision: record.revision.clone(),
            anchor: record.anchor,
            rows: serde_json::to_string(&record.rows).map_err(text)?,
        })
    }

    fn checksum(&self, session: &str) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        let revision = self.revision.as_deref();
        let anchor = self.anchor.map(|anchor| anchor.to_string());
        for field in [
            Some(session),
            Some(&self.identity),
            revision,
            anchor.as_deref(),
            Some(&self.rows),
        ] {
            // Lengths keep apart what would read the same in a row.
            let length = field.map_or(u64::MAX, |field| field.len() as u64);
            hasher.update(&length.to_le_bytes());
            hasher.update(field.unwrap_or_default().as_bytes());
        }
        hasher.finalize()
    }
}

/// The record of a row; `None` when it is damaged in whatever way.
fn record(row: &Row<'_>) -> Option<(SessionId, CheckpointRecord)> {
    let text = |column: usize| row.get_ref(column).ok()?.as_str().ok();
    let id = text(0)?;
    let line = Line {
        identity: text(1)?.to_owned(),
        revision: match row.get_ref(2).ok()? {
            ValueRef::Null => None,
            other => Some(other.as_str().ok()?.to_owned()),
        },
        anchor: row.get(3).ok()?,
        rows: text(4)?.to_owned(),
    };
    let checksum = row.get_ref(5).ok()?.as_i64().ok()?;
    if checksum != i64::from(line.checksum(id)) {
        return None;
    }
    let record = CheckpointRecord {
        identity: serde_json::from_str(&line.identity).ok()?,
        revision: line.revision,
        anchor: line.anchor,
        rows: serde_json::from_str(&line.rows).ok()?,
    };
    Some((SessionId::new(id).ok()?, record))
}
