//! The search index: how far each session is indexed, and what goes in and out.
//!
//! Owns the port's calls and the generation. Leaves the tables of documents to `documents`, finding
//! and ranking to `ranking`.

use orrery_query::search::{
    Generation, IndexError, IndexHit, IndexQuery, IndexedSession, SearchIndex, SessionUpdate,
};
use orrery_session::{SessionId, SessionLogOffset};
use rusqlite::{Connection, Row, TransactionBehavior};

use crate::error::CatalogError;
use crate::{Catalog, documents, ranking};

impl SearchIndex for Catalog {
    fn sessions(&self) -> Result<Vec<IndexedSession>, IndexError> {
        let (sessions, epoch) = self.connections.read_again(|connection| {
            let sql = "SELECT id, identity, revision, through, anchor FROM sessions";
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query([])?;
            let mut sessions = Vec::new();
            while let Some(row) = rows.next()? {
                sessions.push(session(row)?);
            }
            Ok(sessions)
        })?;
        self.connections.known(epoch);
        Ok(sessions)
    }

    fn update(&self, updates: &[SessionUpdate]) -> Result<(), IndexError> {
        if updates.is_empty() {
            return Ok(());
        }
        self.change(|connection| {
            let mut changed = false;
            for update in updates {
                changed |= documents::apply(connection, update)?;
            }
            Ok(changed)
        })?;
        Ok(())
    }

    fn remove(&self, ids: &[SessionId]) -> Result<(), IndexError> {
        if ids.is_empty() {
            return Ok(());
        }
        self.change(|connection| {
            let mut changed = false;
            for id in ids {
                changed |= documents::remove(connection, id)?;
            }
            Ok(changed)
        })?;
        Ok(())
    }

    fn search(&self, query: &IndexQuery) -> Result<Vec<IndexHit>, IndexError> {
        let found = self.connections.read(|connection| {
            // Asked here: the look for the file, which may find it gone, came before.
            self.connections.not_lost()?;
            // All looks of one search see the same state.
            let transaction = connection.transaction()?;
            ranking::search(&transaction, query)
        });
        Ok(found?.0)
    }

    fn generation(&self) -> Result<Generation, IndexError> {
        let (generation, _) = self.connections.read_again(|connection| {
            let sql = "SELECT instance, generation FROM state";
            let mut statement = connection.prepare_cached(sql)?;
            let parts = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?));
            let (instance, count) = statement.query_row([], parts)?;
            Ok(Generation(format!("{instance}:{count}")))
        })?;
        Ok(generation)
    }
}

impl Catalog {
    /// Runs a change whole or not at all, and moves the generation when `work` says that a search
    /// may answer otherwise now.
    fn change(
        &self,
        work: impl FnOnce(&Connection) -> Result<bool, CatalogError>,
    ) -> Result<(), CatalogError> {
        self.connections.write(|connection| {
            self.connections.not_lost()?;
            // Takes the lock first: a change that begins by reading cannot wait for it later.
            let behavior = TransactionBehavior::Immediate;
            let transaction = connection.transaction_with_behavior(behavior)?;
            if work(&transaction)? {
                let sql = "UPDATE state SET generation = generation + 1";
                transaction.prepare_cached(sql)?.execute([])?;
            }
            Ok(transaction.commit()?)
        })
    }
}

fn session(row: &Row<'_>) -> Result<IndexedSession, CatalogError> {
    let damaged = |what: &str| CatalogError::Damaged(format!("a session's {what}"));
    let id: String = row.get(0)?;
    let identity: String = row.get(1)?;
    let through: u64 = row.get(3)?;
    Ok(IndexedSession {
        id: SessionId::new(id).map_err(|_empty| damaged("id"))?,
        identity: serde_json::from_str(&identity).map_err(|_shape| damaged("identity"))?,
        revision: row.get(2)?,
        through: SessionLogOffset::new(through).map_err(|_large| damaged("end"))?,
        anchor: row.get(4)?,
    })
}
