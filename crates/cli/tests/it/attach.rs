//! `attach`: a session live in the terminal, beside others and over kills of the Host.

use std::io::{Read, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::fixture::Place;
use crate::serve::Server;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A command that somebody types into and reads from.
struct Terminal {
    child: Child,
    keys: Option<ChildStdin>,
    pieces: Receiver<String>,
    seen: String,
}

impl Terminal {
    fn attach(place: &Place, more: &[&str]) -> Self {
        let mut command = place.command(&["attach", "session"]);
        let mut child = command.args(more).stdin(Stdio::piped()).spawn().unwrap();
        let (sender, pieces) = channel();
        let out = child.stdout.take().unwrap();
        let err = child.stderr.take().unwrap();
        for mut reader in [Box::new(out) as Box<dyn Read + Send>, Box::new(err)] {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut piece = [0; 4096];
                while let Ok(length @ 1..) = reader.read(&mut piece) {
                    let text = String::from_utf8_lossy(&piece[..length]).into_owned();
                    drop(sender.send(text));
                }
            });
        }
        Self {
            keys: child.stdin.take(),
            child,
            pieces,
            seen: String::new(),
        }
    }

    fn types(&mut self, line: &str) {
        writeln!(self.keys.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Reads until it shows that text; forgets everything up to there.
    fn shows(&mut self, text: &str) {
        let begin = Instant::now();
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            let left = PATIENCE.saturating_sub(begin.elapsed());
            let piece = self.pieces.recv_timeout(left);
            let piece = piece.unwrap_or_else(|_| unreachable!("no {text:?} in: {}", self.seen));
            self.seen.push_str(&piece);
        }
    }

    /// The code it ends with, and all that it still shows.
    fn ends(mut self) -> (Option<i32>, String) {
        drop(self.keys.take());
        let code = self.child.wait().unwrap().code();
        let rest: String = self.pieces.iter().collect();
        (code, self.seen + &rest)
    }
}

#[test]
fn what_is_typed_is_said_and_what_happens_is_shown_also_what_others_say() {
    let place = Place::new();
    place.run(&["run", "hello"]).exits(0);
    let server = Server::start(&place, &["serve", "--port", "0"]);
    let mut one = Terminal::attach(&place, &[]);
    one.shows("> hello");
    one.shows("attached to session-");
    let mut other = Terminal::attach(&place, &["--json"]);
    one.types("list .");
    one.shows("> list .");
    one.shows("· list .");
    other.shows(r#""type":"turn/end""#);
    other.shows(r#""list .""#);
    // What needs a person is asked, and answered here.
    one.types("run `echo done > made.txt`");
    one.shows("allow it once?");
    one.types("y");
    one.shows("It ran.");
    one.types("count slowly to 50");
    one.shows("2");
    one.types("/stop");
    one.shows("(stopped)");
    one.types("/quit");
    assert_eq!(one.ends().0, Some(0));
    assert!(place.project().join("made.txt").exists());
    assert_eq!(other.ends().0, Some(0));
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_host_that_is_killed_and_started_again_is_found_and_nothing_is_told_twice() {
    let place = Place::new();
    place.run(&["run", "hello"]).exits(0);
    let server = Server::start(&place, &["serve", "--port", "0"]);
    let mut one = Terminal::attach(&place, &[]);
    one.shows("attached to session-");
    one.types("list .");
    one.shows("· list");
    one.types("count slowly to 200");
    one.shows("3");
    server.kill();
    one.shows("the connection is lost");
    let server = Server::start(&place, &["serve", "--port", "0"]);
    one.shows("connected again");
    one.shows("(interrupted)");
    one.types("read nothing.txt");
    one.shows("> read nothing.txt");
    one.types("/quit");
    let (code, rest) = one.ends();
    assert_eq!(code, Some(0));
    assert!(
        !rest.contains("> hello") && !rest.contains("> list"),
        "{rest}"
    );
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn without_a_host_one_is_started_for_the_while() {
    let place = Place::new();
    place.run(&["run", "hello"]).exits(0);
    let mut one = Terminal::attach(&place, &[]);
    one.shows("attached to session-");
    one.types("list .");
    one.shows("· list");
    // Nobody types any more: it ends with the turn.
    let (code, _) = one.ends();
    assert_eq!(code, Some(0));
    let shown = place.run(&["sessions", "show", "session"]).exits(0);
    assert!(shown.out.contains("> list ."), "{shown:?}");

    let missing = place.run(&["attach", "nothing"]).exits(1);
    assert!(missing.err.contains("nothing"), "{missing:?}");
}
