//! A question that is taken back while logs are being read, and a session that comes to life then.

use orrery_testkit::GatedDisk;

use super::*;

/// A gate that opens when a test ends, failed or not: the runtime waits for whoever stands there.
struct Shut(Arc<GatedDisk>);

impl std::ops::Deref for Shut {
    type Target = GatedDisk;

    fn deref(&self) -> &GatedDisk {
        &self.0
    }
}

impl Drop for Shut {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// A house whose logs lie behind a gate, with the catalogue read already.
async fn gated(sessions: usize) -> (House, Shut, Vec<SessionId>) {
    let disk = Arc::new(GatedDisk::default());
    let house = House::on(Arc::clone(&disk) as _);
    let mut ids = Vec::new();
    for number in 0..sessions {
        let header = header(&format!("s{number}"), 1);
        ids.push(header.id.clone());
        house.cold(header, replaced()).await;
    }
    house.corpus.list_sessions(&house.open).await.unwrap();
    disk.shut();
    (house, Shut(disk), ids)
}

#[tokio::test]
async fn a_question_that_is_taken_back_waits_for_what_it_started_and_starts_no_more() {
    let (house, disk, ids) = gated(3 * READ_AT_ONCE).await;
    let (corpus, signal) = (house.corpus.clone(), CancellationToken::new());
    let taken_back = signal.clone();
    let asking = tokio::spawn(async move { corpus.read_titles(&ids, &signal).await });
    disk.until_within(READ_AT_ONCE).await;
    taken_back.cancel();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!asking.is_finished(), "what was started is waited for");
    disk.open();
    let error = asking.await.unwrap().unwrap_err();
    assert_eq!(error.code(), "SESSION_QUERY_ABORTED");
    assert_eq!(disk.within(), 0, "nothing goes on behind the answer");
    assert_eq!(disk.asked(), READ_AT_ONCE, "nothing was started after it");
}

#[tokio::test]
async fn one_look_that_is_taken_back_waits_for_its_read() {
    let (house, disk, ids) = gated(1).await;
    let (corpus, signal) = (house.corpus.clone(), CancellationToken::new());
    let taken_back = signal.clone();
    let looking = tokio::spawn(async move { corpus.read_session(&ids[0], &signal).await });
    disk.until_within(1).await;
    taken_back.cancel();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!looking.is_finished());
    disk.open();
    let error = looking.await.unwrap().unwrap_err();
    assert_eq!(error.code(), "SESSION_QUERY_ABORTED");
    assert_eq!(disk.within(), 0);
}

#[tokio::test]
async fn a_session_that_comes_to_life_while_its_log_is_read_is_the_one_that_is_seen() {
    for damaged in [false, true] {
        let (house, disk, ids) = gated(1).await;
        if damaged {
            house.damage("s0").await;
        }
        let (corpus, open) = (house.corpus.clone(), house.open.clone());
        let log = ids[0].clone();
        let looking =
            tokio::spawn(async move { corpus.observe(&log, Projections::All, &open).await });
        disk.until_within(1).await;
        house.live(header("s0", 1), titled("live"), "live");
        disk.open();
        let lease = looking.await.unwrap().unwrap();
        assert_eq!(lease.source(), LeaseSource::Live, "damaged: {damaged}");
        assert_eq!(lease.end(), SessionLogOffset::of_len(1));
    }
}

#[tokio::test]
async fn a_live_session_is_answered_for_while_no_log_can_be_opened() {
    let (house, disk, _) = gated(2).await;
    house.live(header("s0", 1), titled("live"), "live");
    let whole = house.corpus.read_session(&id("s0"), &house.open).await;
    assert_eq!(whole.unwrap().events.len(), 1);
    let titles = house.corpus.read_titles(&[id("s0")], &house.open).await;
    assert_eq!(
        titles.unwrap()[0].title.as_ref().unwrap().as_deref(),
        Some("live")
    );
    // A look at who is there costs no log either.
    let sessions = house.corpus.list_sessions(&house.open).await.unwrap();
    assert_eq!((sessions.len(), disk.asked()), (2, 0));
}
