//! A session's log as it grows, over a connection that may break: nothing is told twice, and what is
//! missing is said.
//!
//! The Host is looked for anew after each break, since another one may have taken its place.

use std::time::Duration;

use orrery_api::error::ErrorCode;
use orrery_api::history::{FollowItem, HistoryRecord};
use orrery_host::home::Home;
use orrery_session::{Event, SessionId, SessionLogOffset};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use tokio::sync::mpsc;

use super::super::sessions::seq_of;
use crate::report::Failure;
use crate::running::Running;

/// Messages of the past that are shown first.
const MESSAGES: u32 = 12;
/// Messages that are asked for to close a gap.
const MESSAGES_MISSED: u32 = 500;
/// The first wait before another try; it doubles up to the last.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LAST_WAIT: Duration = Duration::from_secs(5);
/// What is told ahead of a slow terminal; the connection stands still meanwhile.
const AHEAD: usize = 256;

/// What a follower is told.
#[derive(Debug)]
pub(super) enum Told {
    /// An event that was there before.
    Past(Event),
    /// An event that has just happened.
    Event(Event),
    /// All that was there has been told.
    Caught,
    /// Events between the last one and the next are not told: too much was said meanwhile.
    Gap,
    /// The connection is gone; another one is being made.
    Lost,
    /// It is there again.
    Back,
    /// It is over, for good.
    Over(Failure),
}

/// Begins to follow.
pub(super) fn follow(home: Home, running: Running, session: SessionId) -> mpsc::Receiver<Told> {
    let (tell, told) = mpsc::channel(AHEAD);
    let follower = Follower {
        home,
        running,
        session,
        end: SessionLogOffset::ZERO,
        told: tell,
    };
    tokio::spawn(follower.run());
    told
}

struct Follower {
    home: Home,
    running: Running,
    session: SessionId,
    /// The boundary behind the last event that was told.
    end: SessionLogOffset,
    told: mpsc::Sender<Told>,
}

impl Follower {
    async fn run(mut self) {
        let (mut wait, mut lost, mut resume) = (FIRST_WAIT, false, true);
        loop {
            let before = self.end;
            let ended = self.connection(resume, &mut lost).await;
            if self.told.is_closed() {
                return;
            }
            resume = true;
            match ended {
                // A new process knows nothing of what the old one had told: from a snapshot on.
                Err(Failure::Api(error))
                    if error.code == ErrorCode::BadRequest && resume && self.has_begun() =>
                {
                    resume = false;
                }
                Err(failure @ (Failure::Api(_) | Failure::Home(_) | Failure::NobodyReads)) => {
                    return self.say(Told::Over(failure)).await;
                }
                Ok(()) | Err(_) => {}
            }
            if !lost {
                lost = true;
                self.say(Told::Lost).await;
            }
            if self.end != before {
                wait = FIRST_WAIT;
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LAST_WAIT);
            if let Some(running) = Running::find(&self.home).await {
                self.running = running;
            }
        }
    }

    /// One connection, until it breaks.
    async fn connection(&mut self, resume: bool, lost: &mut bool) -> Result<(), Failure> {
        let session = percent_encode(self.session.as_str().as_bytes(), NON_ALPHANUMERIC);
        let how = match (self.has_begun(), resume) {
            (true, true) => format!("afterSeq={}", self.end.index() - 1),
            (true, false) => format!("maxMessages={MESSAGES_MISSED}"),
            (false, _) => format!("maxMessages={MESSAGES}"),
        };
        let path = format!("/api/session/follow?sessionId={session}&{how}");
        let mut events = self.running.events(&self.home, &path).await?;
        if std::mem::take(lost) {
            self.say(Told::Back).await;
        }
        while let Some(json) = events.next().await? {
            let strange = |error: &dyn std::fmt::Display| Failure::Strange(error.to_string());
            match serde_json::from_str(&json).map_err(|e| strange(&e))? {
                FollowItem::Snapshot(snapshot) => {
                    let first = snapshot.records.first().and_then(seq_of);
                    let begins = first.map_or(self.end, |seq| seq.offset_before());
                    if self.has_begun() && begins > self.end {
                        self.say(Told::Gap).await;
                    }
                    for record in snapshot.records {
                        // Packed rows are pieces of an answer whose whole follows.
                        if let HistoryRecord::Event(record) = record {
                            let event = Event::from_json(record.event.text());
                            self.pass(event.map_err(|e| strange(&e))?, Told::Past).await;
                        }
                    }
                    self.end = self.end.max(snapshot.cursor.offset());
                    self.say(Told::Caught).await;
                }
                FollowItem::Event(record) => {
                    let event = Event::from_json(record.event.text());
                    self.pass(event.map_err(|e| strange(&e))?, Told::Event)
                        .await;
                }
            }
        }
        Ok(())
    }

    /// Tells an event unless it was told before.
    async fn pass(&mut self, event: Event, kind: fn(Event) -> Told) {
        let seq = event.seq();
        if seq.offset_before() >= self.end {
            self.end = seq.offset_after();
            self.say(kind(event)).await;
        }
    }

    fn has_begun(&self) -> bool {
        self.end > SessionLogOffset::ZERO
    }

    async fn say(&self, told: Told) {
        // Whoever stopped listening is noticed by the loop.
        drop(self.told.send(told).await);
    }
}
