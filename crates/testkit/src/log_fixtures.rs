//! The project's own sample logs: both containers, every header, row, list, dialect and frame.

use crate::dice::Dice;
use crate::log_layout::Container;
pub use crate::log_writer::Fixture;
use crate::log_writer::{LogWriter, Row};
use crate::zstd_frames::Framing;

const ROOT: &str = r#","delegationDepth":0"#;

/// All of them.
pub fn all() -> Vec<Fixture> {
    let mut found = Vec::new();
    for container in [Container::Zstd, Container::Plain] {
        found.push(packed(container));
        found.push(unpacked(container));
        found.push(seeded(container, 0));
        found.push(seeded(container, 5));
        found.push(child(container));
        found.push(homeless(container));
        found.push(dialects(container));
        found.push(header_only(container));
        found.push(raw_text(container));
    }
    for framing in Framing::ALL {
        found.push(framed(framing));
    }
    found.push(one_giant_frame());
    found.push(one_event_frames());
    found
}

/// A log that is long enough for an index; too long to be among [`all`].
pub fn long(container: Container) -> Fixture {
    let (mut log, mut dice) = (LogWriter::new("long", container, ROOT), Dice::new(5));
    for turn in 1..=420 {
        log.event("turn/start", &format!(r#"{{"turn":{turn}}}"#));
        log.event("step/start", &format!(r#"{{"turn":{turn},"step":1}}"#));
        log.prompt(&format!("{:x} and {:x}", dice.roll(), dice.roll()));
        end(&mut log, turn);
    }
    log.finish()
}

/// A turn up to the model's stream, in the batches of a live writer.
fn begin(log: &mut LogWriter, turn: u64) {
    log.event("turn/start", &format!(r#"{{"turn":{turn}}}"#));
    log.event("step/start", &format!(r#"{{"turn":{turn},"step":1}}"#));
    log.prompt("say something");
    log.end_frame();
}

fn end(log: &mut LogWriter, turn: u64) {
    log.event("step/end", &format!(r#"{{"turn":{turn},"step":1}}"#));
    let reason = format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#);
    log.event("turn/end", &reason);
    log.end_frame();
}

/// Rows of all three kinds with one, two and many members, then an open turn.
fn packed(container: Container) -> Fixture {
    let mut log = LogWriter::new("packed", container, ROOT);
    begin(&mut log, 1);
    let first = log.next();
    log.row(Row::Reasoning, 1, 0, &["hm", " so", ", well"]);
    log.row(Row::Text, 1, 1, &["one"]);
    log.end_frame();
    log.row(Row::Text, 1, 1, &[" two", " three"]);
    log.row(
        Row::Call("c1", Some("bash")),
        1,
        2,
        &["{", "\\\"a", "\\\":1", "}"],
    );
    log.row(Row::Call("c2", None), 1, 3, &["{", "}", ""]);
    log.end_frame();
    let all: Vec<usize> = (first..log.next()).collect();
    log.answer(1, "one two three", &all, true);
    end(&mut log, 1);
    begin(&mut log, 2);
    log.row(Row::Text, 2, 0, &["a", "b", "c", "d", "e", "f", "g", "h"]);
    log.finish()
}

/// One event a line, provenance as plain lists and in ranges.
fn unpacked(container: Container) -> Fixture {
    let mut log = LogWriter::new("unpacked", container, ROOT);
    for turn in 1..=2 {
        begin(&mut log, turn);
        let mut cited = Vec::new();
        for i in 0..6 {
            let data = format!(
                r#"{{"turn":{turn},"step":1,"chunk":{{"type":"text-delta","index":0,"text":"w{i}"}}}}"#
            );
            let seq = log.event("assistant/chunk", &data);
            if i != 4 {
                cited.push(seq);
            }
        }
        log.end_frame();
        log.answer(turn, "w", &cited, turn == 2);
        end(&mut log, turn);
    }
    log.finish()
}

fn seeded(container: Container, cut: usize) -> Fixture {
    let more = format!(
        r#","parentSession":"session-parent","seedLength":{cut},"delegationDepth":0,"agentPreset":"default""#
    );
    let mut log = LogWriter::new(&format!("seeded-{cut}"), container, &more);
    if cut > 0 {
        begin(&mut log, 1);
        end(&mut log, 1);
    }
    log.event("session/end-seed", "{}");
    log.end_frame();
    begin(&mut log, 2);
    end(&mut log, 2);
    log.finish()
}

fn child(container: Container) -> Fixture {
    let more = r#","parentSession":"session-parent","origin":"subagent","delegationDepth":1,"unknownKey":[1]"#;
    let mut log = LogWriter::new("child", container, more);
    begin(&mut log, 1);
    end(&mut log, 1);
    log.finish()
}

fn homeless(container: Container) -> Fixture {
    let mut log = LogWriter::homeless("homeless", container);
    begin(&mut log, 1);
    log.finish()
}

fn header_only(container: Container) -> Fixture {
    LogWriter::new("header-only", container, ROOT).finish()
}

/// Messages without ids, steering messages, turn marks of three ages.
fn dialects(container: Container) -> Fixture {
    let mut log = LogWriter::new("dialects", container, ROOT);
    let append = r#","surfaceOp":"append""#;
    let id = |log: &LogWriter| format!("legacy-message:session-dialects:{}", log.next());
    for turn in 1..=6 {
        let plain = format!(r#"{{"turn":{turn}}}"#);
        let triggered = format!(r#"{{"turn":{turn},"trigger":{{"kind":"user"}}}}"#);
        log.legacy(("turn/start", &triggered, ""), ("turn/start", &plain, ""));
        log.event("step/start", &format!(r#"{{"turn":{turn},"step":1}}"#));
        let message =
            r#"{"content":[{"type":"text","text":"old"}],"source":{"kind":"user"},"role":"user"}"#;
        let named = |id: &str| {
            message
                .replace(r#""user"}"#, &format!(r#""user","id":"{id}"}}"#))
                .replacen(
                    &format!(r#""kind":"user","id":"{id}"}}"#),
                    r#""kind":"user"}"#,
                    1,
                )
        };
        let data = named(&id(&log));
        log.legacy(
            ("user/message", message, append),
            ("user/message", &data, append),
        );
        log.end_frame();
        let data = named(&id(&log));
        log.legacy(
            ("steering/message", message, ""),
            ("user/message", &data, append),
        );
        log.event("step/end", &format!(r#"{{"turn":{turn},"step":1}}"#));
        let (old, new) = match turn {
            1 => (r#""completed""#, Some(r#"{"kind":"completed"}"#)),
            2 => (
                r#"{"kind":"aborted"}"#,
                Some(r#"{"kind":"aborted","reason":{"kind":"legacy"}}"#),
            ),
            3 => (
                r#"{"kind":"disposed"}"#,
                Some(r#"{"kind":"aborted","reason":{"kind":"disposed"}}"#),
            ),
            4 => (
                r#"{"kind":"error","step":1,"message":"m","code":"AUTH"}"#,
                Some(r#"{"kind":"error","error":{"message":"m","code":"AUTH"}}"#),
            ),
            5 => (
                r#"{"kind":"error","step":1,"failure":{"message":"m","code":"X"}}"#,
                Some(r#"{"kind":"error","error":{"message":"m","code":"X"}}"#),
            ),
            _ => (r#"{"kind":"of-a-plugin","x":1}"#, None),
        };
        let data = |reason: &str| format!(r#"{{"turn":{turn},"reason":{reason}}}"#);
        let read = data(new.unwrap_or(old));
        log.legacy(("turn/end", &data(old), ""), ("turn/end", &read, ""));
        log.end_frame();
    }
    log.finish()
}

/// What only raw text can hold: lone surrogates, odd numbers, unknown keys, long text.
fn raw_text(container: Container) -> Fixture {
    let mut log = LogWriter::new("raw-text", container, ROOT);
    begin(&mut log, 1);
    log.row(
        Row::Text,
        1,
        0,
        &["\\ud83d", "\\ude00", "\\ud800", "é\\n\\u0000", "漢字"],
    );
    let odd = r#"{"z":1e3,"a":0.10,"deep":[[[{}]]],"__proto__":null,"text":"\ud800\\"}"#;
    let rest = r#","ignorable":true"#;
    log.legacy(("plugin/odd", odd, rest), ("plugin/odd", odd, rest));
    log.end_frame();
    end(&mut log, 1);
    log.finish()
}

/// The same log in frames of one shape.
fn framed(framing: Framing) -> Fixture {
    let name = format!("{framing:?}")
        .to_lowercase()
        .replace(['(', ')'], "-");
    let mut log = LogWriter::new(&name, Container::Zstd, ROOT).framed(framing);
    for turn in 1..=2 {
        begin(&mut log, turn);
        log.row(Row::Text, turn, 0, &["x", "yy", &"z".repeat(400), "!"]);
        log.prompt(&"-".repeat(300));
        log.row(Row::Text, turn, 0, &["again", " and", " again"]);
        log.end_frame();
        if turn == 1 {
            end(&mut log, turn);
        }
    }
    log.finish()
}

fn one_giant_frame() -> Fixture {
    let mut log = LogWriter::new("giant", Container::Zstd, ROOT).framed(Framing::Blocks(2000));
    for turn in 1..=30 {
        log.event("turn/start", &format!(r#"{{"turn":{turn}}}"#));
        log.event("step/start", &format!(r#"{{"turn":{turn},"step":1}}"#));
        log.prompt(&format!("number {turn} of many"));
        log.row(Row::Text, turn, 0, &["a", "b", "c", "d"]);
        log.event("step/end", &format!(r#"{{"turn":{turn},"step":1}}"#));
        let reason = format!(r#"{{"turn":{turn},"reason":{{"kind":"completed"}}}}"#);
        log.event("turn/end", &reason);
    }
    log.finish()
}

fn one_event_frames() -> Fixture {
    let mut log = LogWriter::new("single", Container::Zstd, ROOT);
    for turn in 1..=3 {
        for (kind, data) in [
            ("turn/start", format!(r#"{{"turn":{turn}}}"#)),
            ("step/start", format!(r#"{{"turn":{turn},"step":1}}"#)),
            ("step/end", format!(r#"{{"turn":{turn},"step":1}}"#)),
            (
                "turn/end",
                format!(r#"{{"turn":{turn},"reason":{{"kind":"blocked"}}}}"#),
            ),
        ] {
            log.event(kind, &data);
            log.end_frame();
        }
    }
    log.finish()
}

#[cfg(test)]
mod tests {
    use crate::log_layout::Layout;

    #[test]
    fn every_fixture_holds_the_events_that_it_says() {
        for fixture in super::all() {
            let layout = Layout::of(&fixture.bytes, fixture.container)
                .unwrap_or_else(|e| panic!("{}: {e}", fixture.name));
            assert_eq!(layout.events(), fixture.events.len(), "{}", fixture.name);
            assert_eq!(layout.inherited, fixture.inherited, "{}", fixture.name);
        }
    }
}
