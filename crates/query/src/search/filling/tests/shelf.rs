//! A model of the search index.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use orrery_session::{EventType, SessionId, SessionSeq};

use crate::search::{
    Document, Generation, IndexError, IndexHit, IndexQuery, IndexedSession, SearchIndex,
    SessionUpdate, Standing,
};

/// An index that is nothing but what the port says of one, and fails who does not keep to it.
#[derive(Debug, Default)]
pub(super) struct Shelf(Mutex<Shelved>);

#[derive(Debug, Default)]
struct Shelved {
    file: u32,
    changes: u32,
    failures: u32,
    sessions: BTreeMap<SessionId, IndexedSession>,
    documents: BTreeMap<SessionId, BTreeMap<SessionSeq, Document>>,
}

impl Shelf {
    fn lock(&self) -> std::sync::MutexGuard<'_, Shelved> {
        self.0.lock().unwrap()
    }

    /// How often something was written.
    pub(super) fn changes(&self) -> u32 {
        self.lock().changes
    }

    /// The next so many writes fail.
    pub(super) fn fail(&self, writes: u32) {
        self.lock().failures = writes;
    }

    /// Another, empty file lies in the place of this one.
    pub(super) fn lose(&self) {
        let mut shelved = self.lock();
        *shelved = Shelved {
            file: shelved.file + 1,
            ..Shelved::default()
        };
    }

    pub(super) fn documents(&self, id: &SessionId) -> Vec<Document> {
        let shelved = self.lock();
        let documents = shelved.documents.get(id);
        documents.map_or_else(Vec::new, |by_seq| by_seq.values().cloned().collect())
    }
}

impl Shelved {
    fn writable(&mut self) -> Result<(), IndexError> {
        if self.failures > 0 {
            self.failures -= 1;
            return Err(IndexError("told to fail".to_owned()));
        }
        self.changes += 1;
        Ok(())
    }

    fn take_in(&mut self, update: &SessionUpdate) {
        let id = update.session.id.clone();
        let documents = self.documents.entry(id.clone()).or_default();
        if update.from_scratch {
            documents.clear();
        }
        for document in documents.values_mut() {
            let hidden = update.shadowed.iter().any(|r| r.contains(&document.seq));
            if hidden && document.standing == Standing::Current {
                document.standing = Standing::Shadowed;
            }
        }
        let titles = update.documents.iter().filter(|d| is_title(d)).count();
        assert!(titles <= 1, "one title: {update:?}");
        assert!(
            update.documents.is_sorted_by(|a, b| a.seq < b.seq),
            "by seq: {update:?}"
        );
        for document in &update.documents {
            if is_title(document) {
                documents.retain(|_, other| !is_title(other));
            }
            // What has no words is not kept.
            if !document.text.is_empty() {
                documents.insert(document.seq, document.clone());
            }
        }
        self.sessions.insert(id, update.session.clone());
    }
}

fn is_title(document: &Document) -> bool {
    document.event_type == EventType::SessionTitle
}

impl SearchIndex for Shelf {
    fn sessions(&self) -> Result<Vec<IndexedSession>, IndexError> {
        Ok(self.lock().sessions.values().cloned().collect())
    }

    fn update(&self, updates: &[SessionUpdate]) -> Result<(), IndexError> {
        let mut shelved = self.lock();
        shelved.writable()?;
        let ids: BTreeSet<&SessionId> = updates.iter().map(|update| &update.session.id).collect();
        assert_eq!(ids.len(), updates.len(), "each session at most once");
        updates.iter().for_each(|update| shelved.take_in(update));
        Ok(())
    }

    fn remove(&self, ids: &[SessionId]) -> Result<(), IndexError> {
        let mut shelved = self.lock();
        shelved.writable()?;
        for id in ids {
            shelved.sessions.remove(id);
            shelved.documents.remove(id);
        }
        Ok(())
    }

    fn search(&self, _: &IndexQuery) -> Result<Vec<IndexHit>, IndexError> {
        Ok(Vec::new())
    }

    fn generation(&self) -> Result<Generation, IndexError> {
        let shelved = self.lock();
        Ok(Generation(format!("{}:{}", shelved.file, shelved.changes)))
    }
}
