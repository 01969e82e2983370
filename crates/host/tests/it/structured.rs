//! Delegated work whose answer has a shape, with a scripted model behind every agent.

use orrery_testkit::model_server::{ModelServer, Reply};
use serde_json::{Value, json};

use crate::delegation::{children, house, result_of};

fn schema(field: &str) -> Value {
    json!({"type": "object", "required": [field], "additionalProperties": false,
        "properties": {field: {"type": "integer"}}})
}

/// A call of the tool that delegates, for an answer with one whole number under that name.
fn wanted(id: &str, prompt: &str, field: &str) -> (String, &'static str, String) {
    let arguments = json!({"description": "count", "prompt": prompt,
        "output_schema": schema(field)});
    (id.to_owned(), "subagent", arguments.to_string())
}

fn call(reply: Reply, (id, tool, arguments): (String, &str, String)) -> Reply {
    reply.tool_call(&id, tool, &arguments)
}

fn answer(id: &str, answer: &Value) -> Reply {
    Reply::new().tool_call(id, "structured_output", &answer.to_string())
}

#[tokio::test]
async fn an_answer_that_fits_comes_back_as_data_and_ends_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    let (host, parent, mut socket) = house(folder.path(), &server, "").await;
    let asked = call(Reply::new(), wanted("c1", "THE-CHILD counts", "files"));
    server.push_for("THE-PARENT", asked);
    server.push_for("THE-PARENT", Reply::say("done"));
    server.push_for("THE-CHILD", answer("k1", &json!({"files": "many"})));
    let twice = answer("k2", &json!({"files": 7})).tool_call("k3", "write", r#"{"path":"x"}"#);
    server.push_for("THE-CHILD", twice);
    host.client.prompt(&parent, "r1", "THE-PARENT asks").await;
    let items = socket.turn("f").await;
    let result = result_of(&items);
    assert!(result.contains(r#"{\"files\":7}"#), "{result}");
    assert!(!folder.path().join("p/x").exists());
    let requests = server.received();
    let of_child: Vec<String> = requests
        .iter()
        .map(|request| request.body.to_string())
        .filter(|body| body.contains("THE-CHILD counts") && !body.contains("THE-PARENT"))
        .collect();
    assert_eq!(of_child.len(), 2, "nothing was asked behind the answer");
    assert!(of_child[0].contains("call structured_output once"));
    assert!(of_child[1].contains("/files"), "{}", of_child[1]);
    host.stop().await;
}

#[tokio::test]
async fn an_end_without_the_answer_is_a_failure_and_nobody_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    let (host, parent, mut socket) = house(folder.path(), &server, "").await;
    let asked = call(Reply::new(), wanted("c1", "THE-CHILD counts", "files"));
    server.push_for("THE-PARENT", asked);
    server.push_for("THE-PARENT", Reply::say("done"));
    server.push_for("THE-CHILD", Reply::say("there are seven"));
    host.client.prompt(&parent, "r1", "THE-PARENT asks").await;
    let result = result_of(&socket.turn("f").await);
    for said in [
        "the subagent failed",
        "it ended without calling structured_output",
        "there are seven",
    ] {
        assert!(result.contains(said), "{result}");
    }
    host.stop().await;
}

#[tokio::test]
async fn two_shapes_at_once_do_not_meet() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    let (host, parent, mut socket) = house(folder.path(), &server, "").await;
    let both = call(Reply::new(), wanted("c1", "CHILD-ONE counts", "files"));
    server.push_for(
        "THE-PARENT",
        call(both, wanted("c2", "CHILD-TWO counts", "tests")),
    );
    server.push_for("THE-PARENT", Reply::say("done"));
    server.push_for("CHILD-ONE", answer("k1", &json!({"files": 1})));
    server.push_for("CHILD-TWO", answer("k2", &json!({"tests": 2})));
    host.client.prompt(&parent, "r1", "THE-PARENT asks").await;
    let items = socket.turn("f").await;
    let results: Vec<String> = items
        .iter()
        .filter(|item| item["event"]["type"] == "tool/result")
        .map(|item| item["event"]["data"].to_string())
        .collect();
    assert!(results[0].contains(r#"{\"files\":1}"#), "{results:?}");
    assert!(results[1].contains(r#"{\"tests\":2}"#), "{results:?}");
    host.stop().await;
}

#[tokio::test]
async fn a_shape_that_is_none_is_refused_before_there_is_a_child() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start().await.unwrap();
    let (host, parent, mut socket) = house(folder.path(), &server, "").await;
    let call = |id: &str, more: Value| {
        let mut arguments = json!({"description": "count", "prompt": "p"});
        arguments
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        Reply::new().tool_call(id, "subagent", &arguments.to_string())
    };
    server.push_for(
        "THE-PARENT",
        call("c1", json!({"output_schema": {"type": "array"}})),
    );
    let background = json!({"output_schema": schema("a"), "run_in_background": true});
    server.push_for("THE-PARENT", call("c2", background));
    server.push_for("THE-PARENT", Reply::say("done"));
    host.client.prompt(&parent, "r1", "THE-PARENT asks").await;
    let items = json!(socket.turn("f").await).to_string();
    assert!(items.contains("INVALID_SCHEMA"), "{items}");
    assert!(items.contains("leave run_in_background out"), "{items}");
    assert_eq!(children(&host, &parent).await, Vec::<Value>::new());
    host.stop().await;
}
