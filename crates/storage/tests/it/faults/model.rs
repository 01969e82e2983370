//! Any sequence of appends, flushes, crashes and reads does what a list of events does.

use std::time::Duration;

use orrery_session::{SessionLogOffset, SharedEvent};
use orrery_storage::{Compression, Durability, LogWriter, SaveState, StorageError, Store};
use orrery_testkit::{Fault, FaultyDisk, Loss, Plan};
use proptest::prelude::*;

use super::{NEVER, check, id, start};
use crate::{header, log_only, prompt};

#[derive(Debug, Clone)]
enum Step {
    Append(usize),
    Flush,
    /// Waits until the window has written everything, or has failed to.
    Wait,
    Read,
    Crash(Loss),
    Fault(Plan),
}

fn step() -> impl Strategy<Value = Step> {
    let loss = prop_oneof![
        Just(Loss::Nothing),
        Just(Loss::Unsynced),
        any::<u64>().prop_map(Loss::Torn),
    ];
    let fault = prop_oneof![
        Just(Fault::Full),
        Just(Fault::Broken),
        any::<u8>().prop_map(Fault::Short),
        Just(Fault::PowerCut),
    ];
    let plan = (0usize..6, 1usize..4, fault).prop_map(|(first, count, fault)| {
        Step::Fault(Plan {
            first,
            count,
            fault,
        })
    });
    prop_oneof![
        4 => (1usize..12).prop_map(Step::Append),
        4 => Just(Step::Flush),
        2 => Just(Step::Wait),
        2 => Just(Step::Read),
        2 => loss.prop_map(Step::Crash),
        2 => plan,
    ]
}

/// The log as it should be.
struct Model {
    /// Everything appended, in order.
    appended: Vec<SharedEvent>,
    acked: usize,
    turn: u64,
}

impl Model {
    /// The next event: turns of six events with a stream of chunks in the middle.
    fn next(&mut self) -> SharedEvent {
        let seq = self.appended.len() as u64;
        let open = self
            .appended
            .iter()
            .rev()
            .find_map(|event| match event.event_type().as_str() {
                "turn/start" => Some(true),
                "turn/end" => Some(false),
                _ => None,
            });
        let turn = self.turn;
        let event = match (open.unwrap_or(false), seq % 7) {
            (false, _) => {
                self.turn += 1;
                log_only(seq, "turn/start", &format!(r#"{{"turn":{}}}"#, self.turn))
            }
            (true, 0) => log_only(
                seq,
                "turn/end",
                &format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#),
            ),
            (true, 1) => prompt(seq, "hello"),
            (true, _) => log_only(
                seq,
                "assistant/chunk",
                &format!(
                    r#"{{"turn":{turn},"step":1,"chunk":{{"type":"text-delta","index":0,"text":"w{seq}"}}}}"#
                ),
            ),
        };
        self.appended.push(event.clone());
        event
    }
}

async fn reopen(store: &Store, model: &mut Model, what: &str) -> LogWriter {
    match store.open(&id()).await {
        Ok(opened) => {
            check(&opened.log.events, &model.appended, model.acked, what);
            model.acked = opened.log.events.len();
            model.appended = opened.log.events;
            opened.writer
        }
        Err(StorageError::NotFound { .. }) if model.acked == 0 => {
            model.appended.clear();
            store
                .create(header("s"), SessionLogOffset::ZERO)
                .await
                .unwrap()
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

async fn play(steps: &[Step], compression: Compression, durability: Durability) {
    let home = tempfile::tempdir_in(crate::scratch()).unwrap();
    let disk = FaultyDisk::new(home.path()).unwrap();
    let window = if durability == Durability::Turn {
        Duration::from_millis(1)
    } else {
        NEVER
    };
    let mut store = start(home.path(), &disk, compression, durability, window);
    let mut model = Model {
        appended: Vec::new(),
        acked: 0,
        turn: 0,
    };
    let mut writer = reopen(&store, &mut model, "first").await;
    let mut steps = steps.to_vec();
    steps.push(Step::Crash(Loss::Unsynced));
    for (number, step) in steps.iter().enumerate() {
        let what = format!("step {number}, {step:?}");
        match step {
            Step::Append(count) => {
                let events = (0..*count).map(|_| model.next()).collect();
                writer.append(events).unwrap();
            }
            Step::Flush => {
                if writer.flush().await.is_ok() {
                    model.acked = model.appended.len();
                }
            }
            Step::Wait if window == NEVER => {}
            Step::Wait => {
                let all = model.appended.len() as u64;
                let mut saved = writer.saved();
                let settled = |s: &SaveState| s.saved.get() == all || s.degraded.is_some();
                saved.wait_for(settled).await.unwrap();
            }
            Step::Read if disk.is_dead() => {}
            Step::Read => match store.read(&id()).await {
                Ok(read) => check(&read.events, &model.appended, model.acked, &what),
                Err(StorageError::NotFound { .. }) if model.acked == 0 => {}
                // The writer's thread met the planned cut while this was reading.
                Err(_) if disk.is_dead() => {}
                Err(error) => panic!("{what}: {error}"),
            },
            Step::Fault(plan) => disk.arm(*plan),
            Step::Crash(loss) => {
                disk.cut_power();
                drop(writer);
                store.shutdown().await;
                disk.power_on(*loss).unwrap();
                store = start(home.path(), &disk, compression, durability, window);
                writer = reopen(&store, &mut model, &what).await;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    #[test]
    fn any_sequence_of_appends_flushes_crashes_and_reads_equals_a_list(
        steps in prop::collection::vec(step(), 1..40),
        zstd in any::<bool>(),
        turn in any::<bool>(),
    ) {
        let compression = if zstd { Compression::Zstd } else { Compression::None };
        let durability = if turn { Durability::Turn } else { Durability::Step };
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(play(&steps, compression, durability));
    }
}
