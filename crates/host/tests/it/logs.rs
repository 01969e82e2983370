//! Logs on disk: where they lie, logs that others wrote, and what is derived beside them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use orrery_testkit::dice::Dice;
use orrery_testkit::log_layout::Container;
use orrery_testkit::log_writer::{Fixture, LogWriter};

/// What lies below the data folder and can be made again.
pub(crate) const DATABASE: [&str; 3] = ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"];

/// A log whose text no compression makes small, so that it has an index beside it: turns that each
/// name themselves, with a title in the first.
pub(crate) fn long(name: &str, turns: u64) -> Fixture {
    let mut dice = Dice::new(turns);
    let mut writer = LogWriter::new(name, Container::Zstd, r#","delegationDepth":0"#);
    for turn in 0..turns {
        writer.event("turn/start", &format!(r#"{{"turn":{turn}}}"#));
        writer.prompt(&format!("turn{turn}"));
        if turn == 0 {
            let title = r#"{"title":"A long one","messageSeqs":[],"source":{"kind":"user"}}"#;
            writer.event("session/title", title);
        }
        let noise: Vec<String> = (0..1_000)
            .map(|_| format!("{:016x}", dice.roll()))
            .collect();
        writer.answer(turn, &noise.join(" "), &[], false);
        let end = format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#);
        writer.event("turn/end", &end);
        writer.end_frame();
    }
    writer.finish()
}

/// All logs below a home, in order.
pub(crate) fn all(home: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for project in fs::read_dir(home.join("data/sessions")).unwrap() {
        for session in fs::read_dir(project.unwrap().path()).unwrap() {
            let folder = session.unwrap().path();
            let names = ["session.jsonl", "session.jsonl.zstd"];
            let logs = names.map(|name| folder.join(name));
            found.extend(logs.into_iter().filter(|log| log.exists()));
        }
    }
    found.sort();
    found
}

/// The log of a session.
pub(crate) fn find(home: &Path, id: &str) -> PathBuf {
    let logs = all(home).into_iter();
    let mut of = logs.filter(|log| log.parent().is_some_and(|folder| folder.ends_with(id)));
    of.next().unwrap_or_else(|| panic!("no log of {id}"))
}

/// Puts a log there as another program would: in place of the old one, as a whole.
pub(crate) fn put(home: &Path, log: &Fixture) -> PathBuf {
    let folder = home.join("data/sessions").join(log.project).join(&log.id);
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(log.container.file_name());
    let fresh = folder.join("fresh");
    fs::write(&fresh, &log.bytes).unwrap();
    fs::rename(&fresh, &path).unwrap();
    path
}

/// Gives every log another revision, with the same bytes: whoever knew it has to look again.
pub(crate) fn touch(home: &Path) {
    for log in all(home) {
        let file = File::options().append(true).open(log).unwrap();
        file.set_modified(SystemTime::now()).unwrap();
    }
}

/// Removes files that may not be there.
pub(crate) fn remove<'a>(folder: &Path, names: impl IntoIterator<Item = &'a str>) {
    for name in names {
        // What is gone already is as gone as it should be.
        drop(fs::remove_file(folder.join(name)));
    }
}
