use serde_json::json;

use crate::{TestHost, session};

#[tokio::test]
async fn nothing_below_api_answers_without_a_credential() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "").await;
    let c = &host.client;
    let post = |path: &str| c.http.post(format!("{}{path}", c.base)).json(&json!({}));
    assert_eq!(
        post("/api/session/list").send().await.unwrap().status(),
        401
    );
    let wrong = post("/api/session/list")
        .bearer_auth("wrong")
        .send()
        .await
        .unwrap();
    assert_eq!(wrong.status(), 401);
    for path in ["/api/session/control", "/api/streams"] {
        let got = c
            .http
            .get(format!("{}{path}", c.base))
            .send()
            .await
            .unwrap();
        assert_eq!(got.status(), 401, "{path}");
    }
    for path in ["/healthz", "/api/openapi.json"] {
        assert_eq!(
            c.http
                .get(format!("{}{path}", c.base))
                .send()
                .await
                .unwrap()
                .status(),
            200
        );
    }
    host.stop().await;
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused_also_with_a_credential() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "").await;
    let c = &host.client;
    for (name, value) in [
        ("host", "evil.example"),
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let request = c
            .http
            .post(format!("{}/api/session/list", c.base))
            .json(&json!({}));
        let request = request.bearer_auth(&c.token).header(name, value);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 403, "{name}: {value}");
        let body: serde_json::Value = response.json().await.unwrap();
        assert_eq!(body["error"]["code"], "gateway/untrusted-origin");
    }
    host.stop().await;
}

#[tokio::test]
async fn a_launch_link_signs_in_once_and_its_cookie_works() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "").await;
    let c = &host.client;
    let first = c.http.get(&host.launch_url).send().await.unwrap();
    assert_eq!(first.status(), 303);
    let cookie = first.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"));
    let pair = cookie.split(';').next().unwrap().to_owned();
    assert_eq!(
        c.http.get(&host.launch_url).send().await.unwrap().status(),
        401
    );
    let again = c
        .http
        .get(&host.launch_url)
        .header("cookie", &pair)
        .send()
        .await
        .unwrap();
    assert_eq!(
        again.status(),
        303,
        "a stale link with a good cookie just goes on"
    );
    let with_cookie = |path: &str| {
        c.http
            .post(format!("{}{path}", c.base))
            .header("cookie", &pair)
            .json(&json!({}))
    };
    assert_eq!(
        with_cookie("/api/session/list")
            .send()
            .await
            .unwrap()
            .status(),
        200
    );
    let link = with_cookie("/api/host/launchLink").send().await.unwrap();
    assert_eq!(link.status(), 401, "a page cannot mint links");
    let fresh = c.ok("host/launchLink", json!({})).await;
    let fresh = fresh["url"].as_str().unwrap();
    assert_eq!(c.http.get(fresh).send().await.unwrap().status(), 303);
    host.stop().await;
}

#[tokio::test]
async fn malformed_calls_are_refused_by_name_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "").await;
    let c = &host.client;
    let (status, body) = c.call("session/list", json!({"limits": 3})).await;
    assert_eq!(
        (status, body["error"]["code"].as_str()),
        (400, Some("gateway/bad-request"))
    );
    assert_eq!(body["error"]["details"]["field"], "limits");
    assert_eq!(c.code("session/list", json!({"limit": 0})).await.0, 400);
    assert_eq!(
        c.code("session/nothing", json!({})).await.1,
        "gateway/unknown-method"
    );
    assert_eq!(
        c.code("session/attachment", json!({})).await.1,
        "gateway/unknown-method"
    );
    let text = c
        .http
        .post(format!("{}/api/session/list", c.base))
        .bearer_auth(&c.token);
    let text = text
        .header("content-type", "text/plain")
        .body("{}")
        .send()
        .await
        .unwrap();
    assert_eq!(text.status(), 415);
    let id = session(&host, &folder.path().join("p")).await;
    let blank = json!({"requestId": "r", "sessionId": id, "mode": "queue",
        "content": [{"type": "text", "text": " "}]});
    assert_eq!(
        c.code("session/prompt", blank).await.1,
        "gateway/bad-request"
    );
    let zone = json!({"requestId": "r", "sessionId": id, "mode": "queue",
        "clientTimeZone": "CET", "content": [{"type": "text", "text": "hi"}]});
    assert_eq!(
        c.code("session/prompt", zone).await.1,
        "session/invalid-time-zone"
    );
    let nobody = json!({"sessionId": "nobody", "title": "x"});
    assert_eq!(
        c.code("session/rename", nobody).await,
        (404, "session/not-found".to_owned())
    );
    host.stop().await;
}

#[tokio::test]
async fn the_socket_demands_hello_first_and_closes_on_nonsense() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "").await;
    let mut early = host.client.bare_socket().await;
    early.open("c", "session/control", json!({})).await;
    assert_eq!(
        early.frame("c").await["error"]["code"],
        "gateway/bad-request"
    );
    let mut twice = host.client.socket().await;
    twice.open("hello", "host/hello", json!({})).await;
    assert_eq!(twice.close_code().await, Some(1008));
    let mut malformed = host.client.socket().await;
    malformed.send(json!({"type": "shout"})).await;
    assert_eq!(malformed.close_code().await, Some(1008));
    let mut binary = host.client.socket().await;
    binary.send_binary().await;
    assert_eq!(binary.close_code().await, Some(1003));
    let mut unknown = host.client.socket().await;
    unknown.open("x", "session/nothing", json!({})).await;
    assert_eq!(
        unknown.frame("x").await["error"]["code"],
        "gateway/unknown-method"
    );
    let mut leaving = host.client.socket().await;
    let closing = tokio::spawn(host.stop());
    assert_eq!(leaving.close_code().await, Some(1012));
    closing.await.unwrap();
}

#[tokio::test]
async fn server_sent_events_continue_after_the_last_id() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "").await;
    let id = session(&host, &folder.path().join("p")).await;
    let c = &host.client;
    let url = format!("{}/api/session/follow?sessionId={id}", c.base);
    let mut opening = c.http.get(&url).bearer_auth(&c.token).send().await.unwrap();
    let first = opening.chunk().await.unwrap().unwrap();
    let first = String::from_utf8(first.to_vec()).unwrap();
    assert!(
        first.contains("\"type\":\"snapshot\"") && first.contains("id: 2"),
        "{first}"
    );
    drop(opening);
    let again = c
        .http
        .get(&url)
        .bearer_auth(&c.token)
        .header("last-event-id", "1");
    let mut again = again.send().await.unwrap();
    let next = again.chunk().await.unwrap().unwrap();
    let next = String::from_utf8(next.to_vec()).unwrap();
    assert!(
        next.contains("\"seq\":2") && next.contains("id: 2"),
        "{next}"
    );
    drop(again);
    let both = format!("{url}&parentSessionId=x");
    let refused = c.http.get(both).bearer_auth(&c.token).send().await.unwrap();
    assert_eq!(refused.status(), 400);
    host.stop().await;
}

#[tokio::test]
async fn workspaces_are_kept_and_folders_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let host = TestHost::start(folder.path(), "").await;
    let path = folder.path().canonicalize().unwrap().join("here");
    std::fs::create_dir_all(path.join("inner/.hidden")).unwrap();
    let added = host.client.ok("workspace/add", json!({"path": path})).await;
    assert_eq!(added["created"], true);
    let again = host.client.ok("workspace/add", json!({"path": path})).await;
    assert_eq!(
        (&again["created"], &again["workspace"]),
        (&json!(false), &added["workspace"])
    );
    let missing = json!({"path": path.join("nowhere")});
    assert_eq!(
        host.client.code("workspace/add", missing).await.1,
        "workspace/invalid-path"
    );
    let listed = host
        .client
        .ok("workspace/listDirectory", json!({"path": path}))
        .await;
    assert_eq!(listed["entries"][0]["name"], "inner");
    let id = session(&host, &path).await;
    let workspace = added["workspace"]["workspaceId"].clone();
    let rows = host.client.ok("session/list", json!({})).await;
    assert_eq!(rows["items"][0]["workspaceId"], workspace);
    host.stop().await;
    let host = TestHost::start(folder.path(), "").await;
    let kept = host.client.ok("workspace/list", json!({})).await;
    assert_eq!(kept["items"][0]["workspaceId"], workspace);
    let removed = json!({"workspaceId": workspace});
    assert_eq!(
        host.client.ok("workspace/remove", removed.clone()).await["removed"],
        true
    );
    assert_eq!(
        host.client.code("workspace/remove", removed).await.1,
        "workspace/not-found"
    );
    let rows = host.client.ok("session/list", json!({})).await;
    assert_eq!(
        rows["items"][0]["sessionId"],
        json!(id),
        "its sessions stay"
    );
    host.stop().await;
}
