use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use tokio_util::sync::CancellationToken;

use tokio::time::sleep;

use super::*;

const LONG: Duration = Duration::from_secs(60);

fn running(folder: &Path, file: &str) -> bool {
    let Ok(text) = std::fs::read_to_string(folder.join(file)) else {
        return false;
    };
    let id: i32 = text.trim().parse().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let dead = stat.contains(") Z ");
    test_kill_process(Pid::from_raw(id).unwrap()).is_ok() && !dead
}

/// Waits until `file` has been written whole.
async fn written(folder: &Path, file: &str) {
    let ready = || std::fs::read_to_string(folder.join(file)).is_ok_and(|t| t.ends_with('\n'));
    while !ready() {
        sleep(Duration::from_millis(2)).await;
    }
}

async fn cancelled_once_written(line: &str, folder: &Path, file: &str) -> Finished {
    let cancel = CancellationToken::new();
    let run = run(line, folder, LONG, 100, &cancel);
    let stop = async {
        written(folder, file).await;
        cancel.cancel();
    };
    let (done, ()) = tokio::join!(run, stop);
    done.unwrap()
}

#[tokio::test]
async fn cancelling_ends_the_whole_group() {
    let dir = tempfile::tempdir().unwrap();
    let line = "sleep 300 & echo $! > child; wait";
    let done = cancelled_once_written(line, dir.path(), "child").await;
    assert_eq!(done.end, End::Cancelled);
    assert!(!running(dir.path(), "child"));
}

#[tokio::test]
async fn a_process_that_ignores_the_polite_signal_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let line = "trap '' TERM; echo $$ > shell; while true; do sleep 1; done";
    let done = cancelled_once_written(line, dir.path(), "shell").await;
    assert!(done.duration >= GRACE && done.duration < LONG / 2);
    assert!(!running(dir.path(), "shell"));
}

#[tokio::test]
async fn a_process_that_left_the_group_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let line = "setsid bash -c 'echo $$ > escaped; exec sleep 300' & wait";
    let done = cancelled_once_written(line, dir.path(), "escaped").await;
    assert_eq!(done.end, End::Cancelled);
    assert!(!running(dir.path(), "escaped"));
}

#[tokio::test]
async fn a_background_process_that_keeps_the_pipe_open_does_not_hang_the_call() {
    let dir = tempfile::tempdir().unwrap();
    let never = CancellationToken::new();
    let line = "sleep 300 & echo $! > child; echo done";
    let done = run(line, dir.path(), LONG, 100, &never).await.unwrap();
    assert_eq!(done.output, "done\n");
    assert!(done.stopped_leftovers);
    assert!(done.duration < LONG / 2);
    assert!(!running(dir.path(), "child"));
}

#[tokio::test]
async fn dropping_the_call_kills_the_group() {
    let dir = tempfile::tempdir().unwrap();
    let never = CancellationToken::new();
    {
        let call = run(
            "sleep 300 & echo $! > child; wait",
            dir.path(),
            LONG,
            100,
            &never,
        );
        tokio::select! {
            done = call => panic!("{done:?}"),
            () = written(dir.path(), "child") => {}
        }
    }
    while running(dir.path(), "child") {
        sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn an_endless_flood_ends_with_its_time_and_costs_no_memory() {
    let dir = tempfile::tempdir().unwrap();
    let never = CancellationToken::new();
    let time = Duration::from_millis(200);
    let done = run("yes", dir.path(), time, 1_000, &never).await.unwrap();
    assert_eq!(done.end, End::TimedOut);
    assert!(done.truncated && done.output.chars().count() < 1_100);
}

#[tokio::test]
async fn secrets_of_the_host_and_its_input_are_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let never = CancellationToken::new();
    // The variable that cargo sets stands for any harmless one.
    let line = "cat; test -n \"$CARGO_MANIFEST_DIR\" && env | grep -ciE '^[^=]*(token|secret)='";
    let done = run(line, dir.path(), LONG, 1_000, &never).await.unwrap();
    assert_eq!(done.output, "0\n");
}

#[test]
fn text_is_cut_between_characters_and_only_when_too_long() {
    let cut = |text: &str, most| {
        let mut kept = HeadTail::new(most);
        text.as_bytes().chunks(3).for_each(|piece| kept.push(piece));
        kept.into_text()
    };
    assert_eq!(cut("星空星空", 4), ("星空星空".to_owned(), false));
    let (text, truncated) = cut("星星abc空空", 4);
    assert!(
        truncated && text.starts_with("星星\n") && text.ends_with("\n空空"),
        "{text}"
    );
    let (text, truncated) = cut(&"星".repeat(1_000), 10);
    assert!(
        truncated && text.ends_with(&format!("\n{}", "星".repeat(5))),
        "{text}"
    );
    assert!(!text.contains('\u{fffd}') || text.chars().filter(|c| *c == '\u{fffd}').count() <= 2);
}
