//! Reading holds what it gives and one frame more, also where one line is a whole log.
//!
//! Measured as the system sees it, so in a process of its own: the peak of resident memory.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use orrery_session::SessionLogOffset;
use orrery_storage::disk::{Disk, RealDisk};
use orrery_storage::index::INDEX_FILE;
use orrery_storage::log_file::LogFile;
use orrery_storage::read::read_log;
use orrery_storage::{Compression, LogView};
use orrery_testkit::Dice;

use crate::{header, log_only, prompt};

/// How long the one line is.
const LINE: usize = 24 * 1024 * 1024;
/// What a process takes anyway, and what an allocator keeps.
const SLACK: usize = 16 * 1024 * 1024;
const PATH: &str = "ORRERY_TEST_MEMORY_PATH";
const HOW: &str = "ORRERY_TEST_MEMORY_HOW";

/// A log whose one answer is a line as long as many frames.
fn write(root: &Path, compression: Compression) -> std::path::PathBuf {
    let mut dice = Dice::new(9);
    let mut text = String::with_capacity(LINE + 16);
    while text.len() < LINE {
        text.push_str(&format!("{:x} ", dice.roll()));
    }
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let events = [
        log_only(0, "turn/start", r#"{"turn":1}"#),
        prompt(1, "hello"),
        prompt(2, &text),
        log_only(3, "turn/end", r#"{"turn":1,"reason":{"kind":"completed"}}"#),
    ];
    let zero = SessionLogOffset::ZERO;
    let log = LogFile::create(&disk, root, compression, &header("s"), zero, &events).unwrap();
    log.path().to_owned()
}

#[test]
#[ignore = "runs in a process of its own, started by the test below"]
fn one_reading() {
    let Some(path) = std::env::var_os(PATH) else {
        return;
    };
    let path = Path::new(&path);
    let compression = Compression::ALL
        .into_iter()
        .find(|compression| path.ends_with(compression.file_name()))
        .unwrap();
    match std::env::var(HOW).unwrap().as_str() {
        "whole" => {
            let read = read_log(&RealDisk, path, compression).unwrap();
            assert_eq!(read.events.len(), 4);
        }
        "index" => drop(LogView::open(&RealDisk, path, compression).unwrap()),
        _ => {
            let view = LogView::open(&RealDisk, path, compression).unwrap();
            let events = view.events(SessionLogOffset::ZERO..view.end()).unwrap();
            assert_eq!(events.len(), 4);
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM:"));
    println!("{}", peak.unwrap());
}

#[test]
#[cfg(target_os = "linux")]
fn reading_a_line_as_long_as_many_frames_holds_it_and_one_frame() {
    for compression in Compression::ALL {
        let home = tempfile::tempdir_in(crate::scratch()).unwrap();
        let path = write(home.path(), compression);
        let index = path.with_file_name(INDEX_FILE);
        let stored = std::fs::metadata(&path).unwrap().len() as usize;
        for how in ["whole", "index", "view"] {
            if how == "index" {
                std::fs::remove_file(&index).ok();
            }
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "memory::one_reading", "--ignored", "--nocapture"])
                .env(PATH, &path)
                .env(HOW, how)
                .output()
                .unwrap();
            let said = String::from_utf8(child.stdout).unwrap();
            assert!(child.status.success(), "{compression:?}, {how}: {said}");
            let line = said.lines().find(|line| line.contains("VmHWM:")).unwrap();
            let number = |word: &str| word.parse::<usize>().ok();
            let peak = line.split_whitespace().find_map(number).unwrap() * 1024;
            // The event, and the text that it is read from; of a frame also what lay on disk.
            let packed = if compression == Compression::Zstd {
                stored
            } else {
                0
            };
            let most = 2 * LINE + packed + SLACK;
            println!(
                "{compression:?}, {how}: {} of {} KiB",
                peak / 1024,
                most / 1024
            );
            assert!(
                peak < most,
                "{compression:?}, {how}: {peak} bytes, at most {most}"
            );
        }
    }
}
