//! `serve`, `web`, `open`: a Host as a process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Child;

use serde_json::Value;

use crate::fixture::{Place, signal};

pub(crate) struct Server {
    child: Child,
    url: String,
    out: BufReader<std::process::ChildStdout>,
}

impl Server {
    pub(crate) fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut child = place.start(arguments);
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let url = match serde_json::from_str::<Value>(&line) {
            Ok(json) => json["url"].as_str().unwrap().to_owned(),
            Err(_) => line
                .trim()
                .strip_prefix("listening on ")
                .unwrap()
                .to_owned(),
        };
        Self { child, url, out }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn get(&self, path: &str) -> String {
        let authority = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(authority).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Ends it as a power cut does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end; gives the exit code and what it still printed.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        signal(&self.child, "TERM");
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

#[test]
fn it_says_where_it_listens_answers_and_ends_with_a_signal() {
    let place = Place::new();
    let server = Server::start(&place, &["serve", "--port", "0"]);
    assert!(server.get("/healthz").starts_with("HTTP/1.1 200"));
    assert!(server.get("/api/host/hello").starts_with("HTTP/1.1 401"));
    let record = place.home().join("state/host.json");
    let mode = std::fs::metadata(&record).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (code, rest) = server.end();
    assert_eq!((code, rest.as_str()), (Some(0), ""));
    assert!(!record.exists());
}

#[test]
fn its_page_can_be_opened_as_often_as_wanted() {
    let place = Place::new();
    let server = Server::start(&place, &["serve", "--json", "--port", "0"]);
    for arguments in [["open", "--no-open"], ["web", "--no-open"]] {
        let done = place.run(&arguments).exits(0);
        let link = done.out.trim();
        let path = link.strip_prefix(&server.url).unwrap();
        assert!(path.starts_with("/?token="), "{link}");
        assert!(server.get(path).starts_with("HTTP/1.1 303"));
        // A link works once.
        assert!(server.get(path).starts_with("HTTP/1.1 401"));
    }
    let done = place.run(&["doctor"]).exits(0);
    assert!(done.out.contains(&server.url), "{done:?}");
    assert_eq!(server.end().0, Some(0));
    let done = place.run(&["open"]).exits(1);
    assert!(done.err.contains("no Host is running"), "{done:?}");
}

#[test]
fn a_second_one_on_the_same_home_does_not_hide_the_first() {
    let place = Place::new();
    let first = Server::start(&place, &["serve", "--port", "0"]);
    let second = Server::start(&place, &["serve", "--port", "0"]);
    let opens_the_first = || {
        let link = place.run(&["open", "--no-open"]).exits(0).out;
        assert!(link.starts_with(&first.url), "{link}");
    };
    opens_the_first();
    assert_eq!(second.end().0, Some(0));
    opens_the_first();
    assert_eq!(first.end().0, Some(0));
    place.run(&["open", "--no-open"]).exits(1);
}

#[test]
fn a_port_that_is_taken_is_told_with_what_to_do() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let done = place.run(&["serve", "--port", &port]).exits(1);
    assert!(done.err.contains("cannot listen on"), "{done:?}");
    assert!(done.err.contains("hint: "), "{done:?}");
    assert_eq!(done.out, "");
}
