//! News of children that begin to work and come to rest (`subagent.md` 4.13).
//!
//! One start and one end for each run and for each stay in memory, told to whoever listens now. What
//! lasts is in the children's own logs.

use std::sync::Arc;

use orrery_session::{IdSource, SessionId};
use tokio::sync::broadcast;

use super::{Delegation, StopReason};

/// News that a slow listener may be behind; beyond it the oldest are lost to it, which it is told.
const AHEAD: usize = 256;

/// One run, or one stay of a child that can be spoken to again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stay {
    /// Its own id: a child may have many.
    pub run_id: String,
    /// The provider that made the child.
    pub provider: String,
    /// The child.
    pub child: SessionId,
    /// The session that it works for.
    pub parent: SessionId,
    /// Whether it works in this process, and not in a program of its own.
    pub local: bool,
}

/// One piece of news.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lifecycle {
    /// A child has taken its task, or was woken.
    Start(Stay),
    /// It has come to rest.
    End {
        /// The stay that this ends.
        stay: Stay,
        /// How.
        reason: StopReason,
        /// The last that it said, where it said anything.
        last: Option<String>,
    },
}

/// Tells the news.
#[derive(Debug, Clone)]
pub(super) struct Herald {
    news: broadcast::Sender<Lifecycle>,
    ids: Arc<dyn IdSource>,
}

impl Herald {
    pub(super) fn new(ids: Arc<dyn IdSource>) -> Self {
        let news = broadcast::Sender::new(AHEAD);
        Self { news, ids }
    }

    /// Tells that a stay begins; what is returned tells its end.
    pub(super) fn begin(
        &self,
        provider: &str,
        child: &SessionId,
        parent: &SessionId,
        local: bool,
    ) -> Begun {
        let stay = Stay {
            run_id: self.ids.uuid(),
            provider: provider.to_owned(),
            child: child.clone(),
            parent: parent.clone(),
            local,
        };
        self.tell(Lifecycle::Start(stay.clone()));
        Begun {
            herald: self.clone(),
            stay: Some(stay),
        }
    }

    fn tell(&self, news: Lifecycle) {
        // Nobody listens most of the time.
        drop(self.news.send(news));
    }
}

/// A stay that has begun. One that is dropped before it was ended is told as stopped.
#[derive(Debug)]
pub(super) struct Begun {
    herald: Herald,
    stay: Option<Stay>,
}

impl Begun {
    /// Tells how it ended.
    pub(super) fn end(mut self, reason: StopReason, last: Option<String>) {
        self.tell(reason, last);
    }

    fn tell(&mut self, reason: StopReason, last: Option<String>) {
        if let Some(stay) = self.stay.take() {
            self.herald.tell(Lifecycle::End { stay, reason, last });
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.tell(StopReason::Aborted, None);
    }
}

impl Delegation {
    /// News from now on.
    pub fn lifecycle(&self) -> broadcast::Receiver<Lifecycle> {
        self.herald.news.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use orrery_session::RandomIds;

    use super::*;

    fn id(name: &str) -> SessionId {
        SessionId::new(name).unwrap()
    }

    #[test]
    fn every_start_has_one_end_also_when_nobody_ends_it() {
        let herald = Herald::new(Arc::new(RandomIds));
        let mut news = herald.news.subscribe();
        let first = herald.begin("spawn", &id("c"), &id("p"), true);
        drop(herald.begin("spawn", &id("c"), &id("p"), true));
        first.end(StopReason::Completed, Some("done".to_owned()));
        let mut told = Vec::new();
        while let Ok(one) = news.try_recv() {
            told.push(one);
        }
        let [
            Lifecycle::Start(first),
            Lifecycle::Start(second),
            Lifecycle::End {
                stay: dropped,
                reason: StopReason::Aborted,
                last: None,
            },
            Lifecycle::End {
                stay: ended,
                reason: StopReason::Completed,
                last: Some(_),
            },
        ] = told.as_slice()
        else {
            unreachable!("{told:?}")
        };
        assert_eq!((first, second), (ended, dropped));
        assert_ne!(first.run_id, second.run_id);
    }
}
