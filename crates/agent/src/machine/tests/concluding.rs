//! A call whose answer is what the turn was for ends it (`subagent.md` 4.6).

use super::*;

impl Harness {
    fn concludes(&mut self, id: &str, is_error: bool) -> Option<Json> {
        let outcome = ToolOutcome {
            content: vec![ContentBlock::text("taken")],
            is_error,
            error: None,
            meta: None,
            concludes: true,
        };
        let call_id = CallId::new(id).unwrap();
        self.step(Input::ToolDone { call_id, outcome }).concluded
    }
}

#[test]
fn a_logged_success_ends_the_turn_and_calls_behind_it_are_not_started() {
    let mut h = harness();
    h.prompt("a");
    h.call_tools(&[("c1", "answer"), ("c2", "bash")]);
    h.inspect(false, Access::Read);
    let taken = h.concludes("c1", false);
    assert_eq!(taken, Some(Json::from_text("{}").unwrap()));
    assert_eq!(h.running(), ["c1"], "the second one never ran");
    let results = h.data_of("tool/result");
    assert_eq!(results.len(), 2);
    assert!(results[1].contains("ALREADY_CONCLUDED"), "{}", results[1]);
    assert_eq!(h.last_end(), TurnEndReason::Completed);
    assert_eq!(h.count("step/start"), 1);
    assert!(h.machine.phase().is_idle());
}

#[test]
fn an_answer_that_failed_concludes_nothing() {
    let mut h = harness();
    h.prompt("a");
    h.call_tools(&[("c1", "answer")]);
    h.inspect(false, Access::Read);
    assert_eq!(h.concludes("c1", true), None);
    h.answer("then in words");
    assert_eq!(h.count("step/start"), 2);
}

#[test]
fn an_answer_that_comes_after_the_stop_concludes_nothing() {
    let mut h = harness();
    h.prompt("a");
    h.call_tools(&[("c1", "answer")]);
    h.inspect(false, Access::Read);
    h.step(Input::Cancel(AbortCause::User));
    assert_eq!(h.concludes("c1", false), None);
    let aborted = TurnEndReason::Aborted {
        reason: AbortCause::User,
    };
    assert_eq!(h.last_end(), aborted);
}

#[test]
fn what_waits_for_the_next_step_opens_a_turn_of_its_own() {
    let mut h = harness();
    h.prompt("a");
    h.call_tools(&[("c1", "answer")]);
    h.inspect(false, Access::Read);
    h.say("b", InboxTarget::NextStep);
    assert!(h.concludes("c1", false).is_some());
    h.answer("to b");
    assert_eq!(h.count("turn/start"), 2);
}

#[test]
fn what_could_be_read_of_an_answer_that_failed_for_good_is_told() {
    let mut h = harness();
    h.prompt("a");
    let (attempt, _) = h.until_streaming();
    h.text(attempt, "half of");
    let failure = LlmFailure::new("INVALID_REQUEST", "no");
    let chunk = StreamChunk::Finish {
        reason: FinishReason::Error { failure },
        replay_state: None,
    };
    let output = h.step(Input::Chunk { attempt, chunk });
    assert_eq!(output.streamed, [ContentBlock::text("half of")]);
    assert_eq!(h.count("turn/end"), 1);
}
