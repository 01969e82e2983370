//! Subagents that are other programs, around a Host that is killed.

use std::time::{Duration, Instant};

use orrery_testkit::{ModelServer, Reply};
use serde_json::json;

use crate::fixture::{Place, signal};

const PATIENCE: Duration = Duration::from_secs(30);

fn runs(id: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').map(|(_, after)| after.trim_start());
    state.is_some_and(|state| !state.starts_with(['Z', 'X']))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_dies_with_a_host_that_is_killed_and_its_child_is_there_afterwards() {
    let server = ModelServer::start().await.unwrap();
    let call = json!({"description": "dig", "prompt": "dig deep", "agent": "digger",
        "run_in_background": false});
    server.push(Reply::new().tool_call("c1", "subagent", &call.to_string()));
    let place = Place::new();
    let pids = place.project().join("pids");
    // Neither the end of its input nor a polite signal ends it, and it leaves a process behind.
    let stubborn = format!(
        "trap '' TERM; (while :; do sleep 1; done) & echo $$ $! > {0}.part; mv {0}.part {0}; \
         while :; do sleep 1; done",
        pids.display()
    );
    place.configure(&format!(
        "default_model = \"local/small\"\n[providers.local]\nkind = \"openai-chat\"\n\
         base_url = \"{}\"\nmodels = [\"small\"]\n[permissions]\npreset = \"danger-full-access\"\n\
         [subagents.process.digger]\nkind = \"acp\"\ncommand = \"sh\"\nargs = [\"-c\", {}]\n",
        server.base_url(),
        json!(stubborn)
    ));
    let work = move || {
        let mut host = place.start(&["run", "delegate it"]);
        let begin = Instant::now();
        while !pids.exists() {
            assert!(begin.elapsed() < PATIENCE, "the program did not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        let text = std::fs::read_to_string(&pids).unwrap();
        let ids: Vec<&str> = text.split_whitespace().collect();
        assert!(ids.len() == 2 && ids.iter().all(|id| runs(id)), "{ids:?}");
        signal(&host, "KILL");
        host.wait().unwrap();
        let begin = Instant::now();
        while ids.iter().any(|id| runs(id)) {
            assert!(begin.elapsed() < PATIENCE, "it outlived its Host: {ids:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        let logs = place.logs();
        assert_eq!(logs.len(), 2, "{logs:?}");
        let listed = place.run(&["sessions", "list", "--json"]).exits(0).out;
        let session = listed.split("session-").nth(1).unwrap();
        let session: String = session.chars().take_while(|c| *c != '"').collect();
        let agents = place
            .run(&["agents", &format!("session-{session}")])
            .exits(0)
            .out;
        assert!(agents.contains("dig"), "{agents}");
    };
    tokio::task::spawn_blocking(work).await.unwrap();
}
