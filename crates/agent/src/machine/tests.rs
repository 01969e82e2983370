use std::sync::atomic::{AtomicU64, Ordering};

use orrery_llm::PreparedCall;
use orrery_session::payload::{SandboxMode, SandboxModeRecord, TurnEnd};
use orrery_session::{
    ContentBlock, FinishReason, SessionHeader, SessionId, StreamChunk, Vocabulary,
};

mod concluding;

use super::*;

#[derive(Debug, Default)]
struct CountedIds(AtomicU64);
impl IdSource for CountedIds {
    fn uuid(&self) -> String {
        format!("id-{}", self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// A machine and what it asked for last.
struct Harness {
    _units: Vec<orrery_projection::Registration>,
    machine: Machine,
    effects: Vec<Effect>,
}

const NOW: Timestamp = Timestamp::saturating(1_000);

fn settings() -> MachineSettings {
    let tool = |name: &str| ToolDefinition {
        name: name.to_owned(),
        description: String::new(),
        parameters: Json::empty_object(),
    };
    MachineSettings {
        system: "You are a test.".into(),
        tools: vec![tool("bash"), tool("read")].into(),
        retry: RetryPolicy {
            max_retries: 2,
            ..RetryPolicy::default()
        },
        max_parallel_tool_calls: 2,
    }
}

fn takeover(log: SessionLog) -> Harness {
    let model = ModelSelection {
        provider: "p".to_owned(),
        model: "m".to_owned(),
        reasoning_effort: None,
    };
    let ids = Arc::new(CountedIds(AtomicU64::new(log.events().len() as u64 * 1000)));
    let registry = Registry::default();
    let units = crate::units::register(&registry).unwrap();
    let (machine, output) = Machine::new(log, &registry, settings(), model, ids, NOW).unwrap();
    assert!(output.faults.is_empty());
    Harness {
        _units: units,
        machine,
        effects: output.effects,
    }
}

fn harness() -> Harness {
    let header = SessionHeader::root(SessionId::new("s").unwrap(), NOW);
    let mut h = takeover(SessionLog::fresh(header, Vocabulary::default()).unwrap());
    let mode = SandboxModeRecord {
        mode: SandboxMode::WorkspaceWrite,
        source: None,
    };
    h.step(Input::Record(
        EventDraft::new(EventType::SandboxMode, &mode).unwrap(),
    ));
    h
}

impl Harness {
    fn step(&mut self, input: Input) -> Output {
        let mut output = self.machine.step(input, NOW);
        assert!(output.faults.is_empty(), "{:?}", output.faults);
        self.effects.append(&mut output.effects);
        output
    }

    fn say(&mut self, id: &str, target: InboxTarget) {
        let text = format!(
            r#"{{"content":[{{"type":"text","text":"say {id}"}}],"source":{{"kind":"user","rpcId":"r-{id}"}},"role":"user","id":"{id}"}}"#
        );
        let message = Waiting::read(&Json::from_text(&text).unwrap()).unwrap();
        let wake = true;
        self.step(Input::Deliver {
            message,
            target,
            wake,
        });
    }

    fn prompt(&mut self, id: &str) {
        self.say(id, InboxTarget::NextTurn);
    }

    fn take(&mut self, wanted: fn(&Effect) -> bool) -> Effect {
        let at = self.effects.iter().position(wanted);
        let at = at.unwrap_or_else(|| panic!("not among {:?}", self.effects));
        self.effects.remove(at)
    }

    /// Runs from an open turn to the running stream; gives the attempt and its request.
    fn until_streaming(&mut self) -> (u64, orrery_llm::LlmRequest) {
        if self
            .effects
            .iter()
            .any(|e| matches!(e, Effect::GatherContext))
        {
            self.take(|e| matches!(e, Effect::GatherContext));
            let surroundings = vec![("Workspace".to_owned(), "/w".to_owned())];
            self.step(Input::Context(TurnContext {
                instructions: None,
                surroundings,
            }));
        }
        let Effect::Prepare { attempt, config } =
            self.take(|e| matches!(e, Effect::Prepare { .. }))
        else {
            unreachable!()
        };
        let call = PreparedCall {
            config,
            defaults: orrery_session::payload::AdapterDefaults::default(),
            context_window: Some(1000),
        };
        self.step(Input::Prepared {
            attempt,
            result: Ok(call),
        });
        match self.take(|e| matches!(e, Effect::Stream { .. })) {
            Effect::Stream { attempt, request } => (attempt, *request),
            _ => unreachable!(),
        }
    }

    fn chunk(&mut self, attempt: u64, chunk: StreamChunk) {
        self.step(Input::Chunk { attempt, chunk });
    }

    fn text(&mut self, attempt: u64, text: &str) {
        self.chunk(
            attempt,
            StreamChunk::TextDelta {
                index: 0,
                text: text.to_owned(),
            },
        );
    }

    fn finish(&mut self, attempt: u64, reason: FinishReason) {
        self.chunk(
            attempt,
            StreamChunk::Finish {
                reason,
                replay_state: None,
            },
        );
    }

    fn answer(&mut self, text: &str) {
        let (attempt, _) = self.until_streaming();
        self.text(attempt, text);
        self.finish(attempt, FinishReason::Stop);
    }

    fn call_tools(&mut self, calls: &[(&str, &str)]) {
        let (attempt, _) = self.until_streaming();
        for (index, (id, name)) in calls.iter().enumerate() {
            self.chunk(
                attempt,
                StreamChunk::ToolCallDelta {
                    index: index as u64,
                    id: CallId::new(id).unwrap(),
                    name: Some((*name).to_owned()),
                    arguments_delta: "{}".to_owned(),
                },
            );
        }
        self.finish(attempt, FinishReason::ToolCalls);
    }

    fn inspect(&mut self, parallel: bool, access: Access) -> String {
        match self.take(|e| matches!(e, Effect::Inspect { .. })) {
            Effect::Inspect { call_id, .. } => {
                let id = call_id.to_string();
                self.step(Input::Inspected {
                    call_id,
                    parallel,
                    access: Ok(access),
                });
                id
            }
            _ => unreachable!(),
        }
    }

    fn running(&self) -> Vec<String> {
        let runs = |e: &Effect| match e {
            Effect::RunTool { call_id, .. } => Some(call_id.to_string()),
            _ => None,
        };
        self.effects.iter().filter_map(runs).collect()
    }

    fn done(&mut self, id: &str) {
        let outcome = ToolOutcome {
            content: vec![ContentBlock::text(format!("result of {id}"))],
            is_error: false,
            error: None,
            meta: None,
            concludes: false,
        };
        self.step(Input::ToolDone {
            call_id: CallId::new(id).unwrap(),
            outcome,
        });
    }

    fn types(&self) -> Vec<&str> {
        self.machine
            .log()
            .events()
            .iter()
            .map(|e| e.event_type().as_str())
            .collect()
    }

    fn count(&self, event_type: &str) -> usize {
        self.types().iter().filter(|t| **t == event_type).count()
    }

    fn last_end(&self) -> TurnEndReason {
        let events = self.machine.log().events();
        let end = events
            .iter()
            .rev()
            .find(|e| *e.event_type() == EventType::TurnEnd)
            .unwrap();
        end.payload::<TurnEnd>().unwrap().reason
    }

    fn data_of(&self, event_type: &str) -> Vec<String> {
        let of = |e: &&SharedEvent| e.event_type().as_str() == event_type;
        self.machine
            .log()
            .events()
            .iter()
            .filter(of)
            .map(|e| e.text().to_owned())
            .collect()
    }
}

#[test]
fn a_prompt_becomes_a_turn_in_the_order_of_the_format() {
    let mut h = harness();
    h.prompt("a");
    h.answer("hello");
    assert_eq!(
        h.types(),
        [
            "sandbox/mode",
            "agent/inbox/spliced",
            "turn/start",
            "agent/inbox/spliced",
            "step/start",
            "user/message",
            "user/message",
            "session/title",
            "request/header",
            "request/context",
            "assistant/chunk",
            "assistant/chunk",
            "assistant/message",
            "step/end",
            "turn/end",
        ]
    );
    assert_eq!(h.last_end(), TurnEndReason::Completed);
    assert!(h.data_of("assistant/message")[0].contains("\"sourceEventSeqs\":[10,11]"));
}

#[test]
fn each_request_extends_the_one_before() {
    let mut h = harness();
    h.prompt("a");
    let (attempt, first) = h.until_streaming();
    h.text(attempt, "one");
    h.finish(attempt, FinishReason::Stop);
    h.prompt("b");
    let (_, second) = h.until_streaming();
    assert_eq!(second.messages[..first.messages.len()], first.messages[..]);
    assert_eq!(
        (h.count("request/header"), h.count("request/context")),
        (1, 1)
    );
    assert_eq!(h.machine.log().messages(), second.messages);
}

#[test]
fn twenty_messages_during_a_turn_become_twenty_turns_in_order() {
    let mut h = harness();
    h.prompt("first");
    let (attempt, _) = h.until_streaming();
    for n in 0..20 {
        h.prompt(&format!("q{n}"));
    }
    h.finish(attempt, FinishReason::Stop);
    for _ in 0..20 {
        h.answer("ok");
    }
    let prompts: Vec<String> = h
        .data_of("user/message")
        .into_iter()
        .filter(|text| text.contains("\"rpcId\":\"r-q"))
        .collect();
    assert_eq!(prompts.len(), 20);
    assert!(
        prompts
            .iter()
            .enumerate()
            .all(|(n, text)| text.contains(&format!("\"q{n}\"")))
    );
    assert_eq!(h.count("turn/start"), 21);
}

#[test]
fn a_steered_message_joins_the_running_turn_after_the_tool_result() {
    let mut h = harness();
    h.prompt("a");
    h.call_tools(&[("c1", "read")]);
    h.inspect(true, Access::Read);
    h.say("s", InboxTarget::NextStep);
    h.done("c1");
    let (_, request) = h.until_streaming();
    assert_eq!(request.messages.last().unwrap().visible_text(), "say s");
    assert_eq!(h.count("turn/start"), 1);
    assert_eq!(h.count("step/start"), 2);
}

#[test]
fn a_message_steered_at_a_finished_answer_still_joins_the_turn() {
    let mut h = harness();
    h.prompt("a");
    let (attempt, _) = h.until_streaming();
    h.say("s", InboxTarget::NextStep);
    h.finish(attempt, FinishReason::Stop);
    let (_, request) = h.until_streaming();
    assert_eq!(request.messages.last().unwrap().visible_text(), "say s");
}

#[test]
fn readers_run_side_by_side_and_answer_in_the_order_of_the_model() {
    let mut h = harness();
    h.prompt("a");
    h.call_tools(&[
        ("c1", "read"),
        ("c2", "read"),
        ("c3", "read"),
        ("c4", "bash"),
    ]);
    h.inspect(true, Access::Read);
    h.inspect(true, Access::Read);
    h.inspect(true, Access::Read);
    assert_eq!(h.running(), ["c1", "c2"], "the pool holds two");
    h.done("c2");
    assert_eq!(h.running(), ["c1", "c2", "c3"]);
    assert_eq!(h.count("tool/result"), 0, "c1 has not answered");
    h.done("c1");
    h.inspect(false, Access::Read);
    assert_eq!(h.running().len(), 3, "the exclusive call waits for c3");
    h.done("c3");
    h.done("c4");
    let order: Vec<bool> = h
        .data_of("tool/result")
        .iter()
        .zip(["c1", "c2", "c3", "c4"])
        .map(|(text, id)| text.contains(&format!("\"callId\":\"{id}\"")))
        .collect();
    assert_eq!(order, [true; 4]);
}

#[test]
fn a_command_asks_and_runs_only_when_allowed() {
    for (outcome, runs) in [
        (ApprovalOutcome::AllowedOnce, true),
        (ApprovalOutcome::Rejected, false),
    ] {
        let mut h = harness();
        h.prompt("a");
        h.call_tools(&[("c1", "bash")]);
        h.inspect(false, Access::Command("rm -rf /".to_owned()));
        assert!(h.running().is_empty());
        let asking = h.machine.phase().turn().unwrap().asking();
        let approval_id = asking[0].approval_id.clone();
        h.step(Input::Decide {
            approval_id,
            outcome,
            message: Some("not that".to_owned()),
        });
        assert_eq!(!h.running().is_empty(), runs);
        assert_eq!(h.count("approval/decided"), 1);
        if !runs {
            assert!(h.data_of("tool/result")[0].contains("not that"));
            h.answer("fine");
            assert_eq!(h.last_end(), TurnEndReason::Completed);
        }
    }
}

#[test]
fn a_stop_in_the_middle_of_an_answer_keeps_its_text_and_the_queue() {
    let mut h = harness();
    h.prompt("a");
    let (attempt, _) = h.until_streaming();
    h.text(attempt, "half an answer");
    h.prompt("next");
    h.step(Input::Cancel(AbortCause::User));
    h.text(attempt, "too late");
    let kept = &h.data_of("assistant/message")[0];
    assert!(kept.contains("half an answer") && kept.contains("\"interrupted\":true"));
    assert_eq!(
        h.last_end(),
        TurnEndReason::Aborted {
            reason: AbortCause::User
        }
    );
    assert!(h.machine.parked());
    h.step(Input::Wake);
    assert!(!h.machine.parked());
    h.answer("now");
    assert_eq!(h.count("turn/start"), 2);
}

#[test]
fn a_stop_with_nothing_visible_leaves_no_message() {
    let mut h = harness();
    h.prompt("a");
    let (attempt, _) = h.until_streaming();
    h.text(attempt, "  ");
    h.step(Input::Cancel(AbortCause::User));
    assert_eq!(h.count("assistant/message"), 0);
    assert_eq!(h.types().last(), Some(&"turn/end"));
}

#[test]
fn a_stop_while_tools_run_waits_for_them_and_answers_every_call() {
    let mut h = harness();
    h.prompt("a");
    h.call_tools(&[("c1", "read"), ("c2", "bash"), ("c3", "bash")]);
    h.inspect(true, Access::Read);
    h.step(Input::Cancel(AbortCause::User));
    assert!(!h.machine.phase().is_idle(), "c1 still runs");
    h.prompt("later");
    h.done("c1");
    let results = h.data_of("tool/result");
    assert!(results[0].contains("\"ABORTED\""));
    assert!(results[1].contains("ABORTED_BEFORE_DISPATCH"));
    assert_eq!((results.len(), h.count("tool/call")), (3, 3));
    assert_eq!(h.data_of("turn/end").len(), 1);
    // It came while the turn was being stopped, so it is replayed once the turn is at rest.
    h.answer("hi");
    assert_eq!(h.count("turn/start"), 2);
}

#[test]
fn a_stop_settles_an_open_question_as_cancelled() {
    let mut h = harness();
    h.prompt("a");
    h.call_tools(&[("c1", "bash")]);
    h.inspect(false, Access::Command("ls".to_owned()));
    h.step(Input::Cancel(AbortCause::User));
    assert!(h.data_of("approval/decided")[0].contains("cancelled"));
    assert!(h.machine.phase().is_idle());
}

#[test]
fn a_failed_call_is_repeated_and_only_the_good_attempt_is_cited() {
    let mut h = harness();
    h.prompt("a");
    let (attempt, _) = h.until_streaming();
    h.text(attempt, "bad");
    let failure = LlmFailure::new("SERVER", "down");
    h.finish(attempt, FinishReason::Error { failure });
    let Effect::Wait { attempt, delay } = h.take(|e| matches!(e, Effect::Wait { .. })) else {
        unreachable!()
    };
    assert!((450..=550).contains(&delay.0));
    h.step(Input::RetryDue { attempt });
    h.answer("good");
    let message = &h.data_of("assistant/message")[0];
    let first_good = h
        .machine
        .log()
        .events()
        .iter()
        .find(|e| e.text().contains("good"))
        .unwrap();
    assert!(message.contains(&format!("\"sourceEventSeqs\":[{}", first_good.seq())));
    assert_eq!((h.count("llm/retry"), h.count("llm/retry-started")), (1, 1));
    assert_eq!(h.last_end(), TurnEndReason::Completed);
}

#[test]
fn failures_that_no_retry_mends_end_the_turn_and_park_the_queue() {
    for (code, retries) in [("AUTH", 0), ("RATE_LIMIT", 2)] {
        let mut h = harness();
        h.prompt("a");
        for _ in 0..=retries {
            let (attempt, _) = h.until_streaming();
            h.finish(
                attempt,
                FinishReason::Error {
                    failure: LlmFailure::new(code, "no"),
                },
            );
            if h.effects.iter().any(|e| matches!(e, Effect::Wait { .. }))
                && let Effect::Wait { attempt, .. } = h.take(|e| matches!(e, Effect::Wait { .. }))
            {
                h.step(Input::RetryDue { attempt });
            }
        }
        assert!(
            matches!(h.last_end(), TurnEndReason::Error { .. }),
            "{code}"
        );
        h.prompt("b");
        assert_eq!(h.count("turn/start"), 2, "a new prompt goes on");
    }
}

#[test]
fn an_answer_cut_by_its_limit_runs_no_tools() {
    let mut h = harness();
    h.prompt("a");
    let (attempt, _) = h.until_streaming();
    h.text(attempt, "so far");
    h.finish(attempt, FinishReason::MaxTokens);
    assert_eq!(h.last_end(), TurnEndReason::MaxTokens);
}

#[test]
fn an_empty_answer_still_leaves_its_anchor() {
    let mut h = harness();
    h.prompt("a");
    let (attempt, _) = h.until_streaming();
    h.finish(attempt, FinishReason::Stop);
    assert!(h.data_of("assistant/message")[0].contains("\"content\":[]"));
}

#[test]
fn the_queue_is_edited_moved_and_emptied() {
    let mut h = harness();
    h.prompt("a");
    let (attempt, _) = h.until_streaming();
    for id in ["q1", "q2", "q3"] {
        h.prompt(id);
    }
    let id = |text: &str| MessageId::new(text).unwrap();
    let act = |h: &mut Harness, item: &str, action| {
        h.step(Input::Queue {
            item: id(item),
            action,
        })
        .refused
    };
    let order = |h: &Harness| -> Vec<String> {
        h.machine
            .inbox()
            .list(InboxTarget::NextTurn)
            .iter()
            .map(|w| w.id.to_string())
            .collect()
    };
    assert_eq!(
        act(
            &mut h,
            "q3",
            QueueAction::Move {
                before: Some(id("q1"))
            }
        ),
        None
    );
    assert_eq!(order(&h), ["q3", "q1", "q2"]);
    assert_eq!(act(&mut h, "q3", QueueAction::Move { before: None }), None);
    assert_eq!(order(&h), ["q1", "q2", "q3"]);
    assert_eq!(act(&mut h, "q2", QueueAction::Remove), None);
    let content = Json::from_text(r#"[{"type":"text","text":"edited"}]"#).unwrap();
    assert_eq!(act(&mut h, "q3", QueueAction::Edit(content)), None);
    assert_eq!(act(&mut h, "q1", QueueAction::Steer), None);
    assert_eq!(
        act(&mut h, "gone", QueueAction::Remove),
        Some(QueueRefusal::NotFound)
    );
    assert_eq!(order(&h), ["q3"]);
    h.finish(attempt, FinishReason::Stop);
    let (_, request) = h.until_streaming();
    assert_eq!(request.messages.last().unwrap().visible_text(), "say q1");
    let edited = &h.machine.inbox().list(InboxTarget::NextTurn)[0].message;
    assert!(edited.text().contains("edited") && edited.text().contains("r-q3"));
}

#[test]
fn a_resumed_log_says_so_and_counts_its_turns_on() {
    let mut h = harness();
    h.prompt("a");
    h.answer("one");
    let events = h.machine.log().events().to_vec();
    let header = h.machine.log().header().clone();
    let log = SessionLog::from_seed(
        header,
        events,
        SessionLogOffset::ZERO,
        Vocabulary::default(),
        NOW,
    )
    .unwrap();
    let mut h = takeover(log);
    assert_eq!(
        h.machine
            .accepted_prompt("r-a")
            .unwrap()
            .message_id
            .as_str(),
        "a"
    );
    h.prompt("b");
    h.answer("two");
    assert!(h.data_of("request/header")[1].contains("\"reason\":\"resume\""));
    assert!(h.data_of("turn/start")[1].contains("\"turn\":2"));
}

#[test]
fn a_chosen_model_answers_the_next_prompt() {
    let mut h = harness();
    h.prompt("a");
    h.answer("one");
    let choice = ModelSelection {
        provider: "other".to_owned(),
        model: "big".to_owned(),
        reasoning_effort: Some("high".to_owned()),
    };
    h.step(Input::Record(
        EventDraft::new(EventType::ModelSelection, &choice).unwrap(),
    ));
    h.prompt("b");
    let (_, request) = h.until_streaming();
    assert_eq!(
        (
            request.config.provider.as_str(),
            request.config.model.as_str()
        ),
        ("other", "big")
    );
    assert!(h.data_of("request/header")[1].contains("\"reason\":\"change\""));
}
