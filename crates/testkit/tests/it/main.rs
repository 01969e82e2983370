//! The kit's programs as programs, and its readers over the committed corpus.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which the lint configuration does not see as such"
)]

mod corpus;
mod kill;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

#[test]
fn the_program_prints_its_address_and_follows_its_script() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script.json");
    let text = r#"{"models": ["one"], "replies": [
        {"reasoning": "hm", "text": "Hello there", "usage": {"prompt": 1, "completion": 2}},
        {"status": 429, "headers": {"retry-after": "1"}, "body": {"error": {"message": "slow"}}}
    ], "fallback": {"toolCalls": [{"id": "c", "name": "read", "arguments": {"path": "a"}}]}}"#;
    std::fs::write(&script, text).unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_model-server"))
        .arg(&script)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line
        .trim()
        .strip_prefix("http://")
        .unwrap()
        .strip_suffix("/v1")
        .unwrap();
    let ask = |head: &str, body: &str| {
        let mut socket = TcpStream::connect(address).unwrap();
        let length = body.len();
        write!(socket, "{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer
    };
    let models = ask("GET /v1/models", "");
    assert!(models.contains(r#""id":"one""#), "{models}");
    let chat = || ask("POST /v1/chat/completions", r#"{"model":"one"}"#);
    let first = chat();
    for part in [
        r#""reasoning_content":"hm""#,
        r#""content":"Hello ""#,
        "[DONE]",
        r#""prompt_tokens":1"#,
    ] {
        assert!(first.contains(part), "{part} is not in {first}");
    }
    let second = chat();
    assert!(second.starts_with("HTTP/1.1 429") && second.contains("retry-after: 1"));
    assert!(chat().contains(r#""name":"read""#));
    server.kill().unwrap();
    server.wait().unwrap();
}
