//! The in-memory log of one session: construction from a seed, the append pipeline, its folds.
//!
//! Holds every event until somebody says which ones need no longer be held (decision D30); what the
//! surface needs stays either way. Appending takes `&mut self`, so an append from inside an observer does not compile:
//! the re-entrancy that `session.md` 1.11 refuses at run time is refused by the type here.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::enclosure::{Enclosure, EnclosureError};
use crate::event::{EventDraft, SharedEvent};
use crate::event_type::{EventType, Vocabulary};
use crate::header::{HeaderError, SessionHeader};
use crate::json::Json;
use crate::message::Message;
use crate::payload::{RequestContext, RequestHeaderRecord};
use crate::seq::{NotSafeInteger, SessionLogOffset, SessionSeq};
use crate::shape::{self, ShapeError};
use crate::surface::{Surface, SurfaceError};
use crate::time::Timestamp;

/// Why a log cannot be built from a seed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConstructError {
    /// The header is not legal.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A seeded header without a seed.
    #[error("a seeded session needs its seed and its inherited cut")]
    MissingSeed,
    /// An unseeded header with an inherited cut.
    #[error("an unseeded session inherits nothing, not {0} events")]
    UnseededCut(SessionLogOffset),
    /// A cut behind the end of the seed.
    #[error("the inherited cut {cut} lies behind the end of the log, {len}")]
    CutBeyondSeed {
        /// The cut.
        cut: SessionLogOffset,
        /// The seed's length.
        len: SessionLogOffset,
    },
    /// Seqs with a gap or a repetition.
    #[error("expected seq {expected}, found {found}")]
    NotContiguous {
        /// The next seq.
        expected: SessionSeq,
        /// The seq that stood there.
        found: SessionSeq,
    },
    /// A type or payload that the core refuses.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A surface operation that does not fit.
    #[error(transparent)]
    Surface(#[from] SurfaceError),
    /// More events than seqs.
    #[error(transparent)]
    Full(#[from] NotSafeInteger),
}

/// Why an event was not appended. Nothing was committed and no seq was consumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// A type or payload that the core refuses.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A surface operation that does not fit.
    #[error(transparent)]
    Surface(#[from] SurfaceError),
    /// It breaks the nesting of turns, steps and calls.
    #[error(transparent)]
    Enclosure(#[from] EnclosureError),
    /// A validator vetoed it.
    #[error("vetoed: {0}")]
    Vetoed(String),
    /// More events than seqs.
    #[error(transparent)]
    Full(#[from] NotSafeInteger),
}

/// May veto an event before it is committed.
pub type Validator = Box<dyn FnMut(&SharedEvent) -> Result<(), String> + Send>;
/// Hears of each committed event; its failures are contained.
pub type Observer = Box<dyn FnMut(&SharedEvent) -> Result<(), String> + Send>;

/// The log of one session.
pub struct SessionLog {
    header: SessionHeader,
    inherited: SessionLogOffset,
    first_live: SessionLogOffset,
    /// The boundary before the first event that is held.
    base: SessionLogOffset,
    events: Vec<SharedEvent>,
    snapshot: Option<Arc<[SharedEvent]>>,
    surface: Surface,
    enclosure: Enclosure,
    request_header: Option<SharedEvent>,
    request_context: Option<SharedEvent>,
    vocabulary: Vocabulary,
    validators: Vec<Validator>,
    observers: Vec<Observer>,
    contained: Vec<String>,
}

impl std::fmt::Debug for SessionLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionLog")
            .field("id", &self.header.id)
            .field("inherited", &self.inherited)
            .field("len", &self.end())
            .finish_non_exhaustive()
    }
}

impl SessionLog {
    /// A log that begins with nothing: no seed, and so no end-of-seed mark.
    pub fn fresh(header: SessionHeader, vocabulary: Vocabulary) -> Result<Self, ConstructError> {
        header.validate()?;
        if header.is_seeded {
            return Err(ConstructError::MissingSeed);
        }
        Ok(Self {
            header,
            inherited: SessionLogOffset::ZERO,
            first_live: SessionLogOffset::ZERO,
            base: SessionLogOffset::ZERO,
            events: Vec::new(),
            snapshot: None,
            surface: Surface::default(),
            enclosure: Enclosure::default(),
            request_header: None,
            request_context: None,
            vocabulary,
            validators: Vec::new(),
            observers: Vec::new(),
            contained: Vec::new(),
        })
    }

    /// A log that begins with `seed`, the first `inherited` events of which belong to a parent.
    ///
    /// Every event is checked; then, unless the seed ends with one, a `session/end-seed` is added
    /// at `now` as the first event of this process (`session.md` 1.12).
    pub fn from_seed(
        header: SessionHeader,
        seed: Vec<SharedEvent>,
        inherited: SessionLogOffset,
        vocabulary: Vocabulary,
        now: Timestamp,
    ) -> Result<Self, ConstructError> {
        let mut log = Self::read(header, seed, inherited, vocabulary)?;
        log.first_live = log.end();
        let marked = log
            .events
            .last()
            .is_some_and(|e| *e.event_type() == EventType::SessionEndSeed);
        if !marked {
            let empty = Json::from_value(&serde_json::Map::new())
                .map_err(|e| HeaderError::Shape(e).into_construct())?;
            let mark =
                EventDraft::raw(EventType::SessionEndSeed, empty).seal(log.end().next_seq(), now);
            log.adopt(SharedEvent::new(mark))?;
        }
        Ok(log)
    }

    /// A log for reading: checked like [`SessionLog::from_seed`], with nothing added.
    pub fn read(
        header: SessionHeader,
        events: Vec<SharedEvent>,
        inherited: SessionLogOffset,
        vocabulary: Vocabulary,
    ) -> Result<Self, ConstructError> {
        let seeded = header.is_seeded;
        let mut log = Self::fresh(
            SessionHeader {
                is_seeded: false,
                ..header
            },
            vocabulary,
        )?;
        log.header.is_seeded = seeded;
        let len = SessionLogOffset::of_len(events.len());
        if !seeded && inherited != SessionLogOffset::ZERO {
            return Err(ConstructError::UnseededCut(inherited));
        }
        if inherited > len {
            return Err(ConstructError::CutBeyondSeed {
                cut: inherited,
                len,
            });
        }
        log.inherited = inherited;
        log.events.reserve(events.len());
        for event in events {
            log.adopt(event)?;
        }
        log.first_live = log.end();
        Ok(log)
    }

    /// Checks and takes an event that was logged before.
    fn adopt(&mut self, event: SharedEvent) -> Result<(), ConstructError> {
        let expected = SessionSeq::new(self.end().get())?;
        if event.seq() != expected {
            return Err(ConstructError::NotContiguous {
                expected,
                found: event.seq(),
            });
        }
        shape::check(&event, &self.vocabulary)?;
        let plan = self.surface.plan(&event)?;
        self.surface.apply(plan, &event);
        self.enclosure.follow(&event);
        self.note(&event);
        self.events.push(event);
        Ok(())
    }

    /// Appends one event at `now` (`session.md` 1.11): checked, planned, submitted to the
    /// validators, committed, then shown to the observers.
    pub fn append(
        &mut self,
        draft: EventDraft,
        now: Timestamp,
    ) -> Result<SharedEvent, AppendError> {
        let seq = SessionSeq::new(self.end().get())?;
        let event = SharedEvent::new(draft.seal(seq, now));
        shape::check(&event, &self.vocabulary)?;
        let plan = self.surface.plan(&event)?;
        let enclosure = self.enclosure.check(&event)?;
        for validator in &mut self.validators {
            validator(&event).map_err(AppendError::Vetoed)?;
        }
        self.enclosure.advance(enclosure);
        self.surface.apply(plan, &event);
        self.note(&event);
        self.events.push(SharedEvent::clone(&event));
        self.snapshot = None;
        for observer in &mut self.observers {
            match catch_unwind(AssertUnwindSafe(|| observer(&event))) {
                Ok(Ok(())) => {}
                Ok(Err(why)) => self.contained.push(why),
                Err(_panic) => self.contained.push("an observer panicked".to_owned()),
            }
        }
        Ok(event)
    }

    fn note(&mut self, event: &SharedEvent) {
        match event.event_type() {
            EventType::RequestHeader => self.request_header = Some(SharedEvent::clone(event)),
            EventType::RequestContext => self.request_context = Some(SharedEvent::clone(event)),
            _ => {}
        }
    }

    /// Adds a validator, asked after the core's own checks and before the commit.
    pub fn add_validator(&mut self, validator: Validator) {
        self.validators.push(validator);
    }

    /// Adds an observer, told after the commit.
    pub fn add_observer(&mut self, observer: Observer) {
        self.observers.push(observer);
    }

    /// What observers failed with since the last call; the appends they watched stand.
    pub fn take_contained_failures(&mut self) -> Vec<String> {
        std::mem::take(&mut self.contained)
    }

    /// The header.
    pub const fn header(&self) -> &SessionHeader {
        &self.header
    }

    /// How many leading events were copied from the parent.
    pub const fn inherited_event_count(&self) -> SessionLogOffset {
        self.inherited
    }

    /// Whether the event lies behind the inherited prefix.
    pub fn is_own_seq(&self, seq: SessionSeq) -> bool {
        seq.offset_before() >= self.inherited && seq.offset_after() <= self.end()
    }

    /// The first boundary behind what this log was constructed from.
    pub const fn first_live(&self) -> SessionLogOffset {
        self.first_live
    }

    /// The boundary behind the last event.
    pub fn end(&self) -> SessionLogOffset {
        self.base.advance(self.events.len())
    }

    /// The boundary before the first event that is held.
    pub const fn held_from(&self) -> SessionLogOffset {
        self.base
    }

    /// Lets go of the events before a boundary. Surface, folds and seqs stay as they are.
    pub fn forget_before(&mut self, boundary: SessionLogOffset) {
        let count = boundary
            .index()
            .saturating_sub(self.base.index())
            .min(self.events.len());
        self.events.drain(..count);
        self.base = self.base.advance(count);
        self.snapshot = None;
    }

    /// The event at `seq`, while it is held.
    pub fn event_at(&self, seq: SessionSeq) -> Option<&SharedEvent> {
        self.events.get(seq.index().checked_sub(self.base.index())?)
    }

    /// All events that are held.
    pub fn events(&self) -> &[SharedEvent] {
        &self.events
    }

    /// The held events behind the inherited prefix.
    pub fn own_events(&self) -> &[SharedEvent] {
        let from = self.inherited.index().saturating_sub(self.base.index());
        self.events.get(from..).unwrap_or_default()
    }

    /// All held events, shared: the same list until the next append, and never growing.
    pub fn snapshot(&mut self) -> Arc<[SharedEvent]> {
        let events = &self.events;
        Arc::clone(
            self.snapshot
                .get_or_insert_with(|| events.as_slice().into()),
        )
    }

    /// What the model sees.
    pub const fn surface(&self) -> &Surface {
        &self.surface
    }

    /// Where in turns and steps the log stands.
    pub const fn enclosure(&self) -> &Enclosure {
        &self.enclosure
    }

    /// The messages that the model reads.
    pub fn messages(&self) -> Vec<Message> {
        self.surface.messages()
    }

    /// The last logged request header, inherited ones included.
    pub fn request_header(&self) -> Option<RequestHeaderRecord> {
        self.request_header.as_ref()?.payload().ok()
    }

    /// The last logged request context, inherited ones included.
    pub fn request_context(&self) -> Option<RequestContext> {
        self.request_context.as_ref()?.payload().ok()
    }
}

impl HeaderError {
    fn into_construct(self) -> ConstructError {
        ConstructError::Header(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SessionId;
    use crate::testing::{log_only, user_event};

    const NOW: Timestamp = Timestamp::saturating(7);

    fn header(seeded: bool) -> SessionHeader {
        let mut header = SessionHeader::root(SessionId::new("s").unwrap(), NOW);
        header.is_seeded = seeded;
        header
    }

    fn seeded(events: Vec<SharedEvent>, cut: usize) -> Result<SessionLog, ConstructError> {
        let cut = SessionLogOffset::of_len(cut);
        SessionLog::from_seed(header(true), events, cut, Vocabulary::default(), NOW)
    }

    fn fresh() -> SessionLog {
        SessionLog::fresh(header(false), Vocabulary::default()).unwrap()
    }

    fn title(text: &str) -> EventDraft {
        let data = format!(r#"{{"title":"{text}","messageSeqs":[],"source":{{"kind":"user"}}}}"#);
        EventDraft::raw(EventType::SessionTitle, Json::from_text(&data).unwrap())
    }

    #[test]
    fn an_empty_seed_gets_one_end_mark_and_no_seed_gets_none() {
        let log = seeded(vec![], 0).unwrap();
        assert_eq!(log.events().len(), 1);
        assert_eq!(log.first_live(), SessionLogOffset::ZERO);
        assert!(fresh().events().is_empty());
    }

    #[test]
    fn a_seed_that_ends_with_its_mark_gets_no_second_one() {
        let log = seeded(
            vec![user_event(0, "hi"), log_only(1, "session/end-seed", "{}")],
            1,
        );
        assert_eq!(log.unwrap().events().len(), 2);
    }

    #[test]
    fn seeds_and_cuts_that_do_not_fit_the_header_are_refused() {
        let fresh_seeded = SessionLog::fresh(header(true), Vocabulary::default());
        assert!(matches!(fresh_seeded, Err(ConstructError::MissingSeed)));
        assert!(matches!(
            seeded(vec![], 1),
            Err(ConstructError::CutBeyondSeed { .. })
        ));
        let cut = SessionLogOffset::of_len(1);
        let events = vec![user_event(0, "hi")];
        let unseeded =
            SessionLog::from_seed(header(false), events, cut, Vocabulary::default(), NOW);
        assert!(matches!(unseeded, Err(ConstructError::UnseededCut(_))));
        let gap = seeded(vec![user_event(1, "hi")], 0);
        assert!(matches!(gap, Err(ConstructError::NotContiguous { .. })));
    }

    #[test]
    fn a_veto_consumes_no_seq_and_leaves_the_surface() {
        let mut log = fresh();
        let mut first = true;
        log.add_validator(Box::new(move |_| {
            if std::mem::take(&mut first) {
                Err("not yet".to_owned())
            } else {
                Ok(())
            }
        }));
        assert!(matches!(
            log.append(title("a"), NOW),
            Err(AppendError::Vetoed(_))
        ));
        assert_eq!(log.append(title("b"), NOW).unwrap().seq(), SessionSeq::ZERO);
    }

    #[test]
    fn a_failing_observer_neither_undoes_an_append_nor_starves_the_next() {
        let mut log = fresh();
        let seen = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        log.add_observer(Box::new(|_| panic!("observer")));
        log.add_observer(Box::new(|_| Err("refused".to_owned())));
        let counter = Arc::clone(&seen);
        log.add_observer(Box::new(move |_| {
            counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        }));
        log.append(title("a"), NOW).unwrap();
        assert_eq!(log.events().len(), 1);
        assert_eq!(seen.load(std::sync::atomic::Ordering::Relaxed), 1);
        assert_eq!(log.take_contained_failures().len(), 2);
    }

    #[test]
    fn a_held_snapshot_never_grows_and_is_shared_until_the_next_append() {
        let mut log = fresh();
        log.append(title("a"), NOW).unwrap();
        let held = log.snapshot();
        assert!(Arc::ptr_eq(&held, &log.snapshot()));
        log.append(title("b"), NOW).unwrap();
        assert_eq!((held.len(), log.snapshot().len()), (1, 2));
    }

    #[test]
    fn a_log_that_forgets_keeps_its_seqs_its_surface_and_its_end() {
        let mut log = seeded(vec![user_event(0, "a"), user_event(1, "b")], 1).unwrap();
        log.forget_before(SessionLogOffset::of_len(2));
        assert_eq!((log.held_from().get(), log.end().get()), (2, 3));
        assert_eq!(log.messages().len(), 2);
        assert!(log.event_at(SessionSeq::ZERO).is_none());
        assert_eq!(log.append(title("t"), NOW).unwrap().seq().get(), 3);
        assert_eq!(log.own_events().len(), 2);
        log.forget_before(SessionLogOffset::of_len(1));
        assert_eq!(log.held_from().get(), 2, "what is gone stays gone");
    }

    #[test]
    fn unknown_types_are_refused_on_append_unless_ignorable() {
        let mut log = fresh();
        let unknown = EventType::from_name("weather/changed");
        let mut draft = EventDraft::raw(unknown, Json::from_text("1").unwrap());
        assert!(log.append(draft.clone(), NOW).is_err());
        draft.ignorable = true;
        assert!(log.append(draft, NOW).is_ok());
    }

    #[test]
    fn own_events_start_at_the_cut_not_at_the_end_mark() {
        let log = seeded(vec![user_event(0, "a"), user_event(1, "b")], 1).unwrap();
        assert_eq!(log.own_events().len(), 2);
        assert!(!log.is_own_seq(SessionSeq::ZERO));
        assert!(log.is_own_seq(SessionSeq::new(1).unwrap()));
    }
}
