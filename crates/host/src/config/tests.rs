use std::path::Path;

use orrery_session::payload::SandboxMode;

use super::*;

fn parse(text: &str) -> Config {
    Config::parse(Path::new("/c/config.toml"), text).unwrap()
}

/// Checks that a text is refused, and that the message is exactly this one.
#[track_caller]
fn refused(text: &str, expected: &str) {
    let error = Config::parse(Path::new("c.toml"), text).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

const LOCAL: &str = r#"
[providers.local]
kind = "openai-chat"
base_url = "http://127.0.0.1:9000/v1"
"#;

#[test]
fn no_file_and_an_empty_file_give_the_defaults() {
    let config = Config::load(Path::new("/nowhere/at/all/config.toml")).unwrap();
    assert_eq!(config, Config::default());
    assert_eq!(parse(""), config);
    assert_eq!(config.default_model().to_string(), "offline/demo");
    assert_eq!(config.session.cold_read_concurrency, 4);
    assert_eq!(config.session.idle_detach().as_secs(), 300);
    assert!(config.server.host.is_loopback());
    assert_eq!(config.permissions.preset, SandboxMode::WorkspaceWrite);
}

#[test]
fn every_key_is_understood() {
    let config = parse(
        r#"
default_model = "far/vendor/large"
[providers.local]
kind = "openai-chat"
base_url = "http://127.0.0.1:9000/v1"
api_key_env = "LOCAL_API_KEY"
models = ["small"]
[providers.far]
kind = "openai-chat"
base_url = "https://far.example/v1"
echo_reasoning = true
idle_timeout_seconds = 30
[session]
root = "/logs"
compression = "none"
durability = "event"
idle_detach_seconds = 1
cold_blank_probe_max_bytes = 0
cold_read_concurrency = 64
[server]
trusted_hosts = ["box.example", "box.example:8443", "[::1]:80"]
host = "localhost"
port = 0
[permissions]
preset = "read-only"
approval = "never"
[log]
filter = "debug"
"#,
    );
    assert_eq!(config.default_model().provider(), "far");
    assert_eq!(config.default_model().model(), "vendor/large");
    assert_eq!(config.providers["far"].idle_timeout().as_secs(), 30);
    assert_eq!(
        config.providers["local"].api_key_env.as_deref(),
        Some("LOCAL_API_KEY")
    );
    assert_eq!(config.session.compression, Compression::None);
    assert_eq!(config.permissions.approval, Approval::Never);
    let back = toml::to_string(&config).unwrap();
    assert_eq!(parse(&back).providers, config.providers);
}

#[test]
fn the_default_model_is_the_first_that_the_file_lists() {
    let two = r#"
[providers.z]
kind = "openai-chat"
base_url = "http://z/v1"
models = ["one", "two"]
[providers.a]
kind = "openai-chat"
base_url = "http://a/v1"
models = ["three"]
"#;
    assert_eq!(parse(two).default_model().to_string(), "z/one");
    assert_eq!(parse(LOCAL).default_model().to_string(), "offline/demo");
}

#[test]
fn a_relative_root_lies_beside_the_file() {
    let config = parse("[session]\nroot = \"logs\"");
    let home = Home::at("/h");
    assert_eq!(config.sessions_root(&home), Path::new("/c/logs"));
    assert_eq!(parse("").sessions_root(&home), home.sessions());
}

#[test]
fn a_wrong_key_is_named_with_its_line_and_the_keys_that_exist() {
    refused(
        "\n[session]\ncompresion = \"zstd\"\n",
        "c.toml:3: session.compresion: unknown field `compresion`, expected one of `root`, \
         `compression`, `durability`, `idle_detach_seconds`, `cold_blank_probe_max_bytes`, \
         `cold_read_concurrency`, `checkpoint_every_events`, `checkpoint_interval_ms`",
    );
    refused(
        "[sesion]\n",
        "c.toml:1: sesion: unknown field `sesion`, expected one of `default_model`, `providers`, \
         `session`, `server`, `permissions`, `subagents`, `search`, `log`",
    );
}

#[test]
fn a_wrong_value_is_named_with_its_line_and_what_was_expected() {
    refused(
        "[session]\ncold_read_concurrency = 65\n",
        "c.toml:2: session.cold_read_concurrency: invalid value: integer `65`, expected a whole \
         number from 1 to 64",
    );
    refused(
        "[session]\ncold_read_concurrency = 0\n",
        "c.toml:2: session.cold_read_concurrency: invalid value: integer `0`, expected a whole \
         number from 1 to 64",
    );
    refused(
        "[session]\n\nidle_detach_seconds = \"5m\"\n",
        "c.toml:3: session.idle_detach_seconds: invalid type: string \"5m\", expected a whole \
         number from 1 to 31536000",
    );
    refused(
        "[session]\ncompression = \"gzip\"\n",
        "c.toml:2: session.compression: unknown variant `gzip`, expected `zstd` or `none`",
    );
    refused(
        "[session]\ndurability = 1\n",
        "c.toml:2: session.durability: expected a text in quotes",
    );
    refused(
        "[session]\nroot = \"~/logs\"\n",
        "c.toml:2: session.root: expected the path of a folder, absolute or beside this file; `~` \
         is not understood",
    );
    refused(
        "[server]\nport = 70000\n",
        "c.toml:2: server.port: invalid value: integer `70000`, expected a whole number \
         from 0 to 65535",
    );
    refused(
        "[server]\nhost = \"everywhere\"\n",
        "c.toml:2: server.host: `everywhere` is no address, expected one such as `127.0.0.1` or \
         `::1`",
    );
    refused(
        "[permissions]\napproval = \"always\"\n",
        "c.toml:2: permissions.approval: unknown variant `always`, expected `ask` or `never`",
    );
    refused(
        "[permissions]\npreset = \"yolo\"\n",
        "c.toml:2: permissions.preset: unknown variant `yolo`, expected one of `read-only`, \
         `workspace-write`, `danger-full-access`",
    );
}

#[test]
fn a_file_that_is_no_toml_is_refused_with_its_line() {
    let error = Config::parse(Path::new("c.toml"), "a = 1\nb = [").unwrap_err();
    assert!(error.to_string().starts_with("c.toml:2: "), "{error}");
    let error =
        Config::parse(Path::new("c.toml"), "[log]\nfilter=\"a\"\nfilter=\"b\"").unwrap_err();
    assert!(error.to_string().starts_with("c.toml:3: "), "{error}");
}

#[test]
fn trusted_hosts_are_bare_canonical_authorities() {
    for wrong in [
        "http://box",
        "box/",
        " box",
        "Box",
        "user@box",
        "box:0",
        "box:080",
        "box:+8",
        "box:99999",
        "box:",
        "",
        "-box",
        "a..b",
        "::1",
        "[::0001]",
        "127.1",
        "0x7f.1",
        "bücher.example",
        "*",
    ] {
        let text = format!("[server]\ntrusted_hosts = [\"ok\", \"{wrong}\"]");
        let error = Config::parse(Path::new("c.toml"), &text).unwrap_err();
        let message = error.to_string();
        let key = "c.toml:2: server.trusted_hosts[1]: ";
        assert!(message.starts_with(key), "{wrong}: {message}");
        assert!(
            message.contains("expected `host` or `host:port`"),
            "{message}"
        );
    }
}

#[test]
fn an_entry_without_a_port_is_for_every_port_and_one_with_a_port_for_that_one() {
    let any = Authority::try_from("box".to_owned()).unwrap();
    assert!(any.matches("BOX", 1) && !any.matches("box.example", 1));
    let one = Authority::try_from("box:8443".to_owned()).unwrap();
    assert!(one.matches("box", 8443) && !one.matches("box", 80));
}

#[test]
fn providers_are_checked_and_keys_are_never_shown() {
    refused(
        "[providers.p]\nkind = \"openai-chat\"\n",
        "c.toml:1: providers.p: missing field `base_url`",
    );
    refused(
        "[providers.p]\nkind = \"telepathy\"\nbase_url = \"http://x\"\n",
        "c.toml:2: providers.p.kind: unknown variant `telepathy`, expected `openai-chat`",
    );
    let key = "c.toml:4: providers.p.api_key_env: expected the name of an environment variable, such \
               as `EXAMPLE_API_KEY`, and never the key itself";
    refused(
        "[providers.p]\nkind = \"openai-chat\"\nbase_url = \"http://x\"\napi_key_env = \"sk-abc-1\"\n",
        key,
    );
    for wrong in ["x", "ftp://x", "http://", "http://x y/", "http://x?k=1"] {
        let text = format!("[providers.p]\nkind = \"openai-chat\"\nbase_url = \"{wrong}\"\n");
        let error = Config::parse(Path::new("c.toml"), &text).unwrap_err();
        let start = "c.toml:3: providers.p.base_url: expected an address such as";
        assert!(error.to_string().starts_with(start), "{wrong}: {error}");
    }
    let secret = "[providers.p]\nkind = \"openai-chat\"\nbase_url = \"http://u:hunter2@x/\"\n";
    let error = Config::parse(Path::new("c.toml"), secret).unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
    let misplaced = format!("{LOCAL}api_key = \"hunter2\"");
    let error = Config::parse(Path::new("c.toml"), &misplaced).unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
    assert!(error.to_string().contains("`api_key_env`"), "{error}");
}

#[test]
fn names_that_do_not_fit_together_are_refused_at_their_line() {
    refused(
        "\ndefault_model = \"nobody/small\"\n",
        "c.toml:2: default_model: no provider is called `nobody`, expected one of: offline",
    );
    refused(
        "default_model = \"small\"\n",
        "c.toml:1: default_model: `small` is no model, expected `provider/model`",
    );
    refused(
        "default_model = \"offline/large\"\n",
        "c.toml:1: default_model: expected `offline/demo`, the only built-in model",
    );
    refused(
        &format!("default_model = \"local/big\"{LOCAL}models = [\"small\"]"),
        "c.toml:1: default_model: the provider `local` does not list `big`, expected one of: small",
    );
    refused(
        &LOCAL.replace("local", "offline"),
        "c.toml:2: providers.offline: this name belongs to the built-in model; choose another one",
    );
    refused(
        &LOCAL.replace("local", "\"a/b\""),
        "c.toml:2: providers.a/b: expected a name without `/` and without spaces",
    );
    refused(
        &format!("{LOCAL}models = [\"a\", \"a\"]"),
        "c.toml:5: providers.local.models: `a` is listed twice",
    );
}

#[test]
fn no_text_makes_the_reader_panic() {
    for text in [
        "\u{0}",
        "=",
        "[",
        "[[",
        "[providers]\nx=1",
        "providers=[]",
        "[providers.a.b]",
        "a.b.c=1",
        "\"\"=1",
        "[session]\n[session]",
        "default_model={}",
        "[server]\ntrusted_hosts={}",
        "\u{feff}x",
    ] {
        let error = Config::parse(Path::new("c.toml"), text).unwrap_err();
        assert!(
            error.to_string().starts_with("c.toml:"),
            "{text:?}: {error}"
        );
    }
}

#[test]
fn the_reference_page_names_every_key() {
    let page = reference();
    for key in [
        "default_model",
        "[providers.NAME]",
        "base_url",
        "idle_timeout_seconds",
        "cold_read_concurrency",
        "trusted_hosts",
        "approval",
        "filter",
    ] {
        assert!(page.contains(key), "{key}\n{page}");
    }
    assert!(!page.contains("|  |"), "{page}");
}

#[test]
fn programs_have_the_defaults_of_their_kind() {
    use orrery_subagent::process::{ClaudePermission, CodexPermission, Patience, Protocol};
    let folder = tempfile::tempdir().unwrap();
    let text = "[subagents.process.codex]\nkind = \"codex\"\n\
                [subagents.process.off]\nkind = \"codex\"\nenabled = false\n\
                [subagents.process.wolf]\nkind = \"claude-code\"\ncommand = \"./bin/claude\"\n\
                permission = \"acceptEdits\"\ncwd = \".\"\neof_grace_ms = 1\n\
                env = { TOKEN = \"t-12345\" }\n";
    let config = Config::parse(&folder.path().join("c.toml"), text).unwrap();
    let [codex, wolf] = config.programs() else {
        panic!("{:?}", config.programs());
    };
    assert_eq!(codex.command_line(), "codex app-server --stdio");
    assert_eq!(codex.protocol, Protocol::Codex(CodexPermission::Never));
    assert_eq!((codex.patience, &codex.cwd), (Patience::default(), &None));
    assert_eq!(
        wolf.protocol,
        Protocol::ClaudeCode(ClaudePermission::AcceptEdits)
    );
    let program = folder.path().join("bin/claude");
    assert_eq!(
        Path::new(&wolf.command),
        std::path::absolute(program).unwrap()
    );
    assert_eq!(wolf.patience.eof.as_millis(), 1);
    assert!(wolf.cwd.as_ref().unwrap().is_dir());
    assert_eq!(wolf.env["TOKEN"].expose(), "t-12345");
    assert!(!format!("{config:?}").contains("t-12345"));
}

#[test]
fn a_wrong_program_is_named_with_its_key_and_what_was_expected() {
    let head = "[subagents.process.x]\nkind = \"acp\"\n";
    let refused_with = |more: &str, expected: &str| refused(&format!("{head}{more}"), expected);
    refused_with(
        "",
        "c.toml:1: subagents.process.x.command: expected the program to start",
    );
    refused_with(
        "command = \" \"\n",
        "c.toml:3: subagents.process.x.command: expected the program to start, this is blank",
    );
    refused_with(
        "command = \"a\"\npermission = \"dontAsk\"\n",
        "c.toml:4: subagents.process.x.permission: `dontAsk` is no permission of this kind, \
         expected one of: reject, allow",
    );
    refused_with(
        "command = \"a\"\ncwd = \"\"\n",
        "c.toml:4: subagents.process.x.cwd: expected the path of a folder, absolute or beside this \
         file; `~` is not understood",
    );
    refused_with(
        "command = \"a\"\ncwd = \"/dev/null\"\n",
        "c.toml:4: subagents.process.x.cwd: expected a folder that is there: /dev/null is no folder",
    );
    refused_with(
        "command = \"a\"\nenv = { \"A=B\" = \"c\" }\n",
        "c.toml:4: subagents.process.x.env: expected names of environment variables, with texts",
    );
    refused_with(
        "command = \"a\"\neof_grace_ms = 60001\n",
        "c.toml:4: subagents.process.x.eof_grace_ms: invalid value: integer `60001`, expected a \
         whole number from 0 to 60000",
    );
    refused(
        "[subagents.process.spawn]\nkind = \"codex\"\n",
        "c.toml:1: subagents.process.spawn: this name belongs to the agents of the Host; choose \
         another one",
    );
    refused(
        "[subagents.process.\"a b\"]\nkind = \"codex\"\n",
        "c.toml:1: subagents.process.a b: expected a name of letters, digits, `-` and `_`, at most \
         64",
    );
    refused(
        "[subagents.process.x]\nkind = \"sdk\"\n",
        "c.toml:2: subagents.process.x.kind: unknown variant `sdk`, expected one of `acp`, \
         `codex`, `claude-code`",
    );
}
