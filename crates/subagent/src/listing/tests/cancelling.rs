//! A list that is taken back before, while and after logs are read (`subagent.md` 5.2 and 5.5,
//! decision D15), how many logs are read at once, and what was read at all.

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

/// Cold forks `c00`, `c01`, … behind a gate that is still open.
async fn forks(count: usize) -> (House, Shut) {
    let disk = Arc::new(GatedDisk::default());
    let house = House::on(Arc::clone(&disk) as _);
    for number in 0..count {
        let header = seeded(child(&format!("c{number:02}"), "parent", 1));
        house.cold(header, 2, log(&[OTHER, WHOLE])).await;
    }
    (house, Shut(disk))
}

fn begin(
    house: &House,
    tree: bool,
) -> (
    CancellationToken,
    tokio::task::JoinHandle<Result<usize, ListError>>,
) {
    let (lister, signal) = (house.lister.clone(), CancellationToken::new());
    let token = signal.clone();
    let listing = tokio::spawn(async move {
        let parent = id("parent");
        Ok(if tree {
            lister.descendants(&parent, &token).await?.rows.len()
        } else {
            lister.children(&parent, &token).await?.rows.len()
        })
    });
    (signal, listing)
}

async fn stays_unfinished<T>(task: &tokio::task::JoinHandle<T>) {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!task.is_finished(), "what was started is waited for");
}

#[tokio::test]
async fn at_most_four_logs_are_read_at_once_and_the_rows_stand_in_their_order() {
    let (house, disk) = forks(11).await;
    house.list().await;
    disk.shut();
    let (_signal, listing) = begin(&house, false);
    disk.until_within(4).await;
    stays_unfinished(&listing).await;
    assert_eq!((disk.within(), disk.asked()), (4, 4));
    disk.open();
    assert_eq!(listing.await.unwrap().unwrap(), 11);
    let rows = house.list().await;
    let expected = (0..11).map(|n| format!("c{n:02} Inactive continuable look"));
    assert_eq!(rows, expected.collect::<Vec<_>>());
}

#[tokio::test]
async fn as_many_logs_are_read_at_once_as_the_services_say() {
    let (mut house, disk) = forks(5).await;
    house.list().await;
    let mut services = house.lister.services.clone();
    services.cold_reads = NonZeroUsize::MIN;
    house.lister = Lister::new(services);
    disk.shut();
    let (_signal, listing) = begin(&house, true);
    disk.until_within(1).await;
    stays_unfinished(&listing).await;
    assert_eq!((disk.within(), disk.asked()), (1, 1));
    disk.open();
    assert_eq!(listing.await.unwrap().unwrap(), 5);
}

#[tokio::test]
async fn a_list_that_is_taken_back_while_logs_are_read_waits_for_them_and_reads_no_more() {
    for tree in [false, true] {
        let (house, disk) = forks(9).await;
        house.list().await;
        let before = house.lister.cost().observations;
        disk.shut();
        let (signal, listing) = begin(&house, tree);
        disk.until_within(4).await;
        signal.cancel();
        stays_unfinished(&listing).await;
        disk.open();
        assert_eq!(listing.await.unwrap().unwrap_err().code(), "CANCELLED");
        assert_eq!(disk.within(), 0, "nothing goes on behind the answer");
        assert_eq!(disk.asked(), 4, "nothing was started after it");
        assert_eq!(house.lister.cost().observations - before, 4);
    }
}

#[tokio::test]
async fn a_read_that_fails_once_the_list_was_taken_back_makes_no_row() {
    let (house, disk) = forks(1).await;
    house.list().await;
    disk.shut();
    let (signal, listing) = begin(&house, false);
    disk.until_within(1).await;
    let path = house.store.find(&id("c00")).await.unwrap().path;
    std::fs::remove_file(path).unwrap();
    signal.cancel();
    disk.open();
    assert_eq!(listing.await.unwrap().unwrap_err().code(), "CANCELLED");
}

#[tokio::test]
async fn a_list_that_is_taken_back_while_the_sessions_are_enumerated_reads_no_log() {
    for gone in [false, true] {
        let (house, disk) = forks(3).await;
        disk.shut_folders();
        let (signal, listing) = begin(&house, false);
        disk.until_listing().await;
        if gone {
            // The enumeration itself fails too; what was asked for counts.
            let root = house.store.root().to_owned();
            std::fs::remove_dir_all(&root).unwrap();
            std::fs::write(&root, "no folder").unwrap();
        }
        let opened = disk.opened();
        signal.cancel();
        disk.open();
        assert_eq!(listing.await.unwrap().unwrap_err().code(), "CANCELLED");
        assert_eq!(
            disk.opened(),
            opened,
            "no header was to be read, and no log"
        );
        let cost = house.lister.cost();
        assert_eq!((cost.observations, cost.from_live), (0, 0));
        if gone {
            std::fs::remove_file(house.store.root()).unwrap();
            std::fs::create_dir(house.store.root()).unwrap();
        }
    }
}

#[tokio::test]
async fn a_list_that_was_taken_back_before_touches_no_disk() {
    let (house, disk) = forks(2).await;
    disk.shut();
    disk.shut_folders();
    let signal = CancellationToken::new();
    signal.cancel();
    let parent = id("parent");
    let children = house.lister.children(&parent, &signal).await;
    assert_eq!(children.unwrap_err().code(), "CANCELLED");
    let tree = house.lister.descendants(&parent, &signal).await;
    assert_eq!(tree.unwrap_err().code(), "CANCELLED");
    assert_eq!((disk.asked(), house.store.reads().enumerations), (0, 0));
    assert_eq!(house.lister.cost(), ListingCost::default());
}

/// Takes a list back the moment that records are asked for.
#[derive(Debug)]
struct TakesBack {
    signal: CancellationToken,
    records: Arc<Kept>,
}

impl CheckpointStore for TakesBack {
    fn load(&self, _: &SessionId) -> Result<Option<CheckpointRecord>, CheckpointError> {
        panic!("a list asks for all records at once")
    }
    fn load_these(
        &self,
        ids: &[SessionId],
    ) -> Result<BTreeMap<SessionId, CheckpointRecord>, CheckpointError> {
        self.signal.cancel();
        self.records.load_these(ids)
    }
    fn load_all(&self) -> Result<BTreeMap<SessionId, CheckpointRecord>, CheckpointError> {
        panic!("a list asks for the records of its candidates only")
    }
    fn put(&self, _: &[(SessionId, CheckpointRecord)]) -> Result<(), CheckpointError> {
        panic!("a list writes nothing")
    }
    fn remove(&self, _: &[SessionId]) -> Result<(), CheckpointError> {
        panic!("a list writes nothing")
    }
}

#[tokio::test]
async fn a_list_that_is_taken_back_while_checkpoints_are_read_is_no_list() {
    // Also when every child is answered for by then.
    for answered in [false, true] {
        let house = House::new();
        let header = child("a", "parent", 1);
        house.cold(header.clone(), 0, log(&[WHOLE])).await;
        if answered {
            let kept = r#"{"identity":{"mode":"one-shot","label":"kept","seq":1}}"#;
            house.keep(&header, 0, kept);
        }
        let signal = CancellationToken::new();
        let mut services = house.lister.services.clone();
        services.checkpoints = Some(Arc::new(TakesBack {
            signal: signal.clone(),
            records: Arc::clone(&house.kept),
        }));
        let lister = Lister::new(services);
        let listed = lister.children(&id("parent"), &signal).await;
        assert_eq!(listed.unwrap_err().code(), "CANCELLED");
        assert_eq!(lister.cost().observations, 0);
        assert_eq!(house.store.reads().logs, 0);
    }
}

#[tokio::test]
async fn live_children_cost_no_read_whatever_and_are_answered_while_no_log_can_be_opened() {
    let disk = Arc::new(GatedDisk::default());
    let house = House::on(Arc::clone(&disk) as _);
    let disk = Shut(disk);
    for number in 0..50 {
        let header = child(&format!("c{number:02}"), "parent", 1);
        // They lie on disk too, as those of a Host do.
        house.cold(header.clone(), 0, log(&[WHOLE])).await;
        house.live(header, 0, Some(&log(&[OTHER])));
    }
    house.children_of("parent").await;
    let (opened, before) = (disk.opened(), house.store.reads());
    disk.shut();
    let rows = house.list().await;
    assert_eq!(rows.len(), 50);
    assert!(
        rows.iter()
            .all(|row| row.ends_with("Running one-shot kept"))
    );
    assert_eq!((disk.opened(), house.store.reads()), (opened, before));
    let cost = house.lister.cost();
    assert_eq!((cost.lists, cost.from_live), (2, 100));
    assert_eq!((cost.from_checkpoints, cost.observations), (0, 0));
}

#[tokio::test]
async fn a_seeded_child_is_observed_once_for_each_list_and_one_look_serves_a_list() {
    let (house, disk) = forks(6).await;
    for round in 1..4 {
        let before = disk.opened();
        let lists = if round % 2 == 0 {
            house.tree().await.len()
        } else {
            house.list().await.len()
        };
        assert_eq!(lists, 6);
        let reads = house.store.reads();
        assert_eq!(reads.logs, 6 * round, "nothing is remembered");
        assert_eq!(reads.enumerations, 1, "a look is believed");
        assert_eq!(house.lister.cost().observations, 6 * round);
        assert!(disk.opened() > before);
    }
}

#[tokio::test]
async fn a_list_looks_at_the_root_at_most_once() {
    let disk = Arc::new(GatedDisk::default());
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        believed_for: Duration::ZERO,
        ..StoreOptions::new(folder.path())
    };
    let mut house = House::on(Arc::clone(&disk) as _);
    house.store = Store::start(disk, options).unwrap();
    let corpus = Corpus::new(
        house.store.clone(),
        Arc::clone(&house.registry),
        None,
        Arc::clone(&house.awake) as _,
    );
    let mut services = house.lister.services.clone();
    services.corpus = Some(corpus);
    house.lister = Lister::new(services);
    for number in 0..5 {
        let header = seeded(child(&format!("c{number}"), "parent", 1));
        house.cold(header, 2, log(&[OTHER, WHOLE])).await;
    }
    for looks in 1..4 {
        // The root changes, so that nothing stands for the logs.
        let project = house.store.root().join(format!("project-{looks}"));
        std::fs::create_dir(project).unwrap();
        assert_eq!(house.tree().await.len(), 5);
        assert_eq!(house.store.reads().enumerations, looks);
    }
}
