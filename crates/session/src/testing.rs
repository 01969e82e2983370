//! Small builders for this crate's own tests.

use crate::event::{Event, SharedEvent};

pub(crate) fn event(line: &str) -> SharedEvent {
    SharedEvent::new(Event::from_json(line).unwrap_or_else(|e| panic!("{e}: {line}")))
}

pub(crate) fn log_only(seq: u64, event_type: &str, data: &str) -> SharedEvent {
    event(&format!(
        r#"{{"type":"{event_type}","seq":{seq},"time":{},"data":{data}}}"#,
        1000 + seq
    ))
}

pub(crate) fn user_event(seq: u64, text: &str) -> SharedEvent {
    event(&format!(
        r#"{{"type":"user/message","seq":{seq},"time":{},"data":{{"content":[{{"type":"text","text":"{text}"}}],"source":{{"kind":"user"}},"role":"user","id":"m{seq}"}},"surfaceOp":"append"}}"#,
        1000 + seq
    ))
}

pub(crate) fn assistant_event(seq: u64, turn: u64, step: u64, calls: &[&str]) -> SharedEvent {
    let blocks: Vec<String> = calls
        .iter()
        .map(|c| format!(r#"{{"type":"tool-call","id":"{c}","name":"bash","arguments":"{{}}"}}"#))
        .collect();
    event(&format!(
        r#"{{"type":"assistant/message","seq":{seq},"time":{},"data":{{"turn":{turn},"step":{step},"message":{{"role":"assistant","content":[{}],"source":{{"kind":"model","provider":"p","model":"m"}},"id":"m{seq}"}}}},"sourceEventSeqs":[],"surfaceOp":"append"}}"#,
        1000 + seq,
        blocks.join(",")
    ))
}

pub(crate) fn result_event(seq: u64, call: &str, text: &str, more: &str, rest: &str) -> String {
    format!(
        r#"{{"type":"tool/result","seq":{seq},"time":0,"data":{{"turn":1,"step":1,"message":{{"source":{{"kind":"tool","callId":"{call}"}},"content":[{{"type":"tool-result","toolCallId":"{call}","content":[{{"type":"text","text":"{text}"}}],"isError":false}}],"role":"user","id":"r"}}{more}}},{rest}}}"#
    )
}
