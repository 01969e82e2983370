//! `doctor`, `config`, `completions`.

use serde_json::Value;

use crate::fixture::Place;

#[test]
fn a_fresh_home_is_healthy_and_is_left_untouched() {
    let place = Place::new();
    place.run(&["doctor"]).exits(0);
    assert!(!place.home().exists());
}

#[test]
fn a_damaged_log_is_named_and_hides_no_other() {
    let place = Place::new();
    place.run(&["run", "hello"]).exits(0);
    place.run(&["run", "list ."]).exits(0);
    let logs = place.logs();
    let bytes = std::fs::read(&logs[0]).unwrap();
    let mut damaged = bytes.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    std::fs::write(&logs[0], damaged).unwrap();
    let done = place.run(&["doctor", "--json"]).exits(1);
    let found: Value = serde_json::from_str(&done.out).unwrap();
    let problems: Vec<&str> = found["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["level"] == "problem")
        .map(|finding| finding["message"].as_str().unwrap())
        .collect();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].contains(logs[0].to_str().unwrap()),
        "{problems:?}"
    );

    std::fs::write(&logs[0], &bytes[..bytes.len() - 3]).unwrap();
    let done = place.run(&["doctor"]).exits(0);
    assert!(done.out.contains("the last write was cut off"), "{done:?}");
    assert!(done.out.contains("2 sessions with"), "{done:?}");
}

#[test]
fn a_torn_tail_is_repaired_when_told_to_and_a_damaged_log_is_left_alone() {
    let place = Place::new();
    place.run(&["run", "hello"]).exits(0);
    place.run(&["run", "list ."]).exits(0);
    let logs = place.logs();
    let torn = std::fs::read(&logs[0]).unwrap();
    std::fs::write(&logs[0], &torn[..torn.len() - 3]).unwrap();
    let mut damaged = std::fs::read(&logs[1]).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0xff;
    std::fs::write(&logs[1], &damaged).unwrap();
    let done = place.run(&["doctor", "--repair"]).exits(1);
    assert!(done.out.contains("1 logs were repaired"), "{done:?}");
    assert_eq!(std::fs::read(&logs[1]).unwrap(), damaged);
    let again = place.run(&["doctor", "--repair"]).exits(1);
    assert!(again.out.contains("0 logs were repaired"), "{again:?}");
    assert!(!again.out.contains("was cut off"), "{again:?}");
}

#[test]
fn derived_files_are_made_anew_when_told_to() {
    let place = Place::new();
    place.run(&["run", "hello"]).exits(0);
    let index = place.logs()[0].with_file_name("session.index");
    assert!(!index.exists(), "a small log is not worth one");
    std::fs::write(&index, "nonsense").unwrap();
    let done = place.run(&["doctor", "--rebuild"]).exits(0);
    assert!(
        done.out.contains("1 frame indexes were made anew"),
        "{done:?}"
    );
    assert!(!index.exists(), "{done:?}");
}

#[test]
fn a_wrong_configuration_and_a_missing_key_are_problems() {
    let place = Place::new();
    place.configure("[sesion]\n");
    let done = place.run(&["doctor"]).exits(1);
    assert!(done.out.contains("config.toml:1: sesion: "), "{done:?}");
    place.configure(
        "[providers.p]\nkind = \"openai-chat\"\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key_env = \"NOT_SET\"\n",
    );
    let done = place.run(&["doctor"]).exits(1);
    assert!(done.out.contains("NOT_SET is not set"), "{done:?}");
}

#[test]
fn a_secret_that_others_can_read_is_a_problem() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    place.run(&["sessions", "list"]).exits(0);
    let token = place.home().join("state/token");
    std::fs::write(&token, "x").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    let done = place.run(&["doctor"]).exits(1);
    assert!(done.out.contains("can be read by others"), "{done:?}");
    assert!(done.out.contains("does not hold a token"), "{done:?}");
}

#[test]
fn the_configuration_is_shown_with_its_defaults_and_reads_back() {
    let place = Place::new();
    let path = place.run(&["config", "path"]).exits(0).out;
    assert_eq!(
        path.trim(),
        place.home().join("config.toml").to_str().unwrap()
    );
    let shown = place.run(&["config", "show"]).exits(0).out;
    assert!(shown.contains("cold_read_concurrency = 4"), "{shown}");
    place.configure(&shown);
    assert_eq!(place.run(&["config", "show"]).exits(0).out, shown);
    let other = place.home().join("other");
    let arguments = ["--home", other.to_str().unwrap(), "config", "path"];
    let path = place.run(&arguments).exits(0).out;
    assert_eq!(path.trim(), other.join("config.toml").to_str().unwrap());
}

#[test]
fn every_shell_gets_completions_for_every_command() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.run(&["completions", shell]).exits(0).out;
        for word in ["serve", "sessions", "doctor", "no-open"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn everything_derived_is_made_anew_also_where_search_is_turned_off() {
    let place = Place::new();
    place.run(&["run", "hello"]).exits(0);
    place.configure("[search]\nenabled = false\n");
    place.run(&["doctor", "--rebuild"]).exits(0);
    let done = place.run(&["sessions", "search", "hello"]).exits(1);
    assert!(done.err.contains("search is turned off"), "{done:?}");
    place.configure("");
    let done = place.run(&["sessions", "search", "hello"]).exits(0);
    assert!(done.out.contains("hello"), "{done:?}");
}
