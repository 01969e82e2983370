//! What is known of a root between two looks at it (decision D16).
//!
//! Owns the newest catalogue, for how long it is believed, and what this process published since: a
//! log of its own is known from the moment that it has its name. What others write is seen with the
//! next look. Leaves to others: looking ([`Catalogue::refresh`]), and keeping it on disk.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use orrery_session::SessionId;

use crate::catalogue::{Catalogue, CatalogueEntry};

/// The newest catalogue, and what happened since it was made.
#[derive(Debug, Default)]
pub(crate) struct Believed {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    catalogue: Arc<Catalogue>,
    /// When the look behind it began; `None` once it is not to be believed.
    looked: Option<Instant>,
    /// When the last look, or look at its folders alone, began.
    confirmed: Option<Instant>,
    /// What was published and may be missing from looks that still run, with its number.
    news: VecDeque<(u64, CatalogueEntry)>,
    /// How many were ever published.
    published: u64,
    /// How many of those the catalogue holds, by a look or put in here.
    held: u64,
    /// Looks that were begun.
    looks: u64,
    /// The look behind the catalogue.
    installed: u64,
    /// Looks up to this one know a log that turned out to be another.
    distrusted: u64,
    /// Whether the catalogue holds what its file lacks.
    unsaved: bool,
}

/// A look that has begun.
#[derive(Debug)]
pub(crate) struct Look {
    number: u64,
    published: u64,
    began: Instant,
    /// What is known already.
    pub(crate) known: Arc<Catalogue>,
}

impl Believed {
    /// A log of this process has got its name.
    pub(crate) fn publish(&self, entry: CatalogueEntry) {
        let mut state = self.state();
        let number = state.published;
        state.published += 1;
        state.news.push_back((number, entry));
    }

    /// The newest catalogue, however old, with what was published since.
    pub(crate) fn known(&self) -> Arc<Catalogue> {
        self.state().told()
    }

    /// The same, where its look began no longer ago than that.
    pub(crate) fn fresh(&self, at_most: Duration) -> Option<Arc<Catalogue>> {
        let mut state = self.state();
        let fresh = state.confirmed.is_some_and(|at| at.elapsed() < at_most);
        fresh.then(|| state.told())
    }

    /// The number of the look behind the catalogue, where it began no longer ago than that.
    pub(crate) fn looked_within(&self, at_most: Duration) -> Option<(u64, Arc<Catalogue>)> {
        let mut state = self.state();
        let within = state.looked.is_some_and(|at| at.elapsed() < at_most);
        within.then(|| (state.installed, state.told()))
    }

    /// What that look saw still stood at this moment.
    pub(crate) fn confirm(&self, look: u64, at: Instant) {
        let mut state = self.state();
        if state.installed == look && state.looked.is_some() {
            state.confirmed = state.confirmed.max(Some(at));
        }
    }

    /// Begins a look.
    pub(crate) fn begin(&self) -> Look {
        let mut state = self.state();
        state.looks += 1;
        Look {
            number: state.looks,
            published: state.published,
            began: Instant::now(),
            known: state.told(),
        }
    }

    /// Takes what a look saw, unless a later one was quicker; says whether the file of the catalogue
    /// is to be written.
    pub(crate) fn end(&self, look: &Look, seen: &Arc<Catalogue>) -> bool {
        let mut state = self.state();
        if look.number < state.installed || look.number <= state.distrusted {
            return false;
        }
        state.installed = look.number;
        state.looked = Some(look.began);
        state.confirmed = Some(look.began);
        let unsaved = state.unsaved || !seen.same_logs(&state.catalogue);
        state.unsaved = false;
        state.catalogue = Arc::clone(seen);
        // It saw all that lay there when it began.
        state.news.retain(|(number, _)| *number >= look.published);
        state.held = look.published;
        unsaved
    }

    /// Forgets what was known of a log that turned out to be another one. A file is known by its
    /// inode, which says nothing when it was overwritten in place, or when the file that took its
    /// place got the same.
    pub(crate) fn forget(&self, id: &SessionId) {
        let mut state = self.state();
        state.catalogue = Arc::new(state.catalogue.without(id));
        state.news.retain(|(_, entry)| entry.header.id != *id);
        state.looked = None;
        state.confirmed = None;
        state.distrusted = state.looks;
        state.unsaved = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The catalogue with all news. Copies it only where somebody still reads the one before.
    fn told(&mut self) -> Arc<Catalogue> {
        let held = self.held;
        for (_, entry) in self.news.iter().filter(|(number, _)| *number >= held) {
            self.unsaved |= Arc::make_mut(&mut self.catalogue).insert(entry.clone());
        }
        self.held = self.published;
        Arc::clone(&self.catalogue)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use orrery_session::{SessionHeader, SessionLogOffset, Timestamp};

    use super::*;
    use crate::disk::FileStat;
    use crate::layout::Compression;
    use crate::read::Revision;

    const LONG: Duration = Duration::from_secs(3600);

    fn id(name: &str) -> SessionId {
        SessionId::new(name).unwrap()
    }

    fn entry(name: &str, made: i64) -> CatalogueEntry {
        let mut header = SessionHeader::root(id(name), Timestamp::saturating(made));
        header.parent_session = Some(id("parent"));
        let stat = FileStat {
            device: 1,
            inode: 1,
            size: 1,
            modified_ns: 0,
            changed_ns: 0,
        };
        CatalogueEntry {
            header,
            inherited: SessionLogOffset::ZERO,
            revision: Revision(stat),
            path: PathBuf::from(name),
            compression: Compression::Zstd,
        }
    }

    fn seen(names: &[&str]) -> Arc<Catalogue> {
        let mut catalogue = Catalogue::default();
        for name in names {
            catalogue.insert(entry(name, 5));
        }
        Arc::new(catalogue)
    }

    fn names(catalogue: &Catalogue) -> Vec<String> {
        let children = catalogue.children(&id("parent"));
        children.map(|entry| entry.header.id.to_string()).collect()
    }

    #[test]
    fn what_is_published_is_known_at_once_in_its_place_among_its_siblings() {
        let believed = Believed::default();
        assert!(believed.fresh(LONG).is_none(), "nobody has looked yet");
        let look = believed.begin();
        believed.end(&look, &seen(&["b", "d"]));
        believed.publish(entry("c", 5));
        believed.publish(entry("z", 4));
        believed.publish(entry("b", 5));
        let known = believed.fresh(LONG).unwrap();
        assert_eq!(names(&known), ["z", "b", "c", "d"]);
        assert_eq!(known.entries().count(), 4);
        assert!(
            believed.fresh(Duration::ZERO).is_none(),
            "no look is that new"
        );
    }

    #[test]
    fn what_is_published_while_somebody_looks_is_not_lost_with_what_they_saw() {
        let believed = Believed::default();
        let look = believed.begin();
        believed.publish(entry("new", 5));
        believed.end(&look, &seen(&["old"]));
        assert_eq!(names(&believed.known()), ["new", "old"]);
        // The next look began behind it: had it a log there, it would have seen it.
        let look = believed.begin();
        believed.end(&look, &seen(&["old"]));
        assert_eq!(names(&believed.known()), ["old"]);
    }

    #[test]
    fn a_look_that_was_overtaken_changes_nothing() {
        let believed = Believed::default();
        let slow = believed.begin();
        believed.publish(entry("between", 5));
        let quick = believed.begin();
        believed.end(&quick, &seen(&["a", "between"]));
        assert!(!believed.end(&slow, &seen(&["a"])));
        assert_eq!(names(&believed.known()), ["a", "between"]);
    }

    #[test]
    fn what_was_forgotten_ends_the_belief_and_comes_back_from_no_look_that_ran_already() {
        let believed = Believed::default();
        let look = believed.begin();
        believed.end(&look, &seen(&["a", "b"]));
        let running = believed.begin();
        believed.forget(&id("a"));
        assert!(believed.fresh(LONG).is_none());
        believed.end(&running, &seen(&["a", "b"]));
        assert!(believed.fresh(LONG).is_none());
        assert_eq!(names(&believed.known()), ["b"]);
        let look = believed.begin();
        assert!(
            believed.end(&look, &seen(&["a", "b"])),
            "it is written down"
        );
        assert_eq!(names(&believed.fresh(LONG).unwrap()), ["a", "b"]);
    }

    #[test]
    fn what_was_published_is_written_down_with_the_next_look() {
        let believed = Believed::default();
        let look = believed.begin();
        assert!(
            believed.end(&look, &seen(&["a"])),
            "it has seen a first log"
        );
        let look = believed.begin();
        assert!(!believed.end(&look, &seen(&["a"])));
        believed.publish(entry("b", 5));
        let look = believed.begin();
        assert!(believed.end(&look, &seen(&["a", "b"])));
    }
}
