//! `cargo xtask test`: everything that must hold before a change is sent.
//!
//! Needs Rust and Node alone. Browser tests run where a browser is found; with
//! `ORRERY_REQUIRE_BROWSER=1` a missing one is a failure and not a skip.

use anyhow::bail;

use crate::house::{Steps, cargo, execute, find_program, program, root, tracked};
use crate::web::{self, npm};

/// Names of browsers that the browser tests can drive.
const BROWSERS: &[&str] = &[
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
/// The folder of the browser tests.
const END_TO_END: &str = "tests/e2e";

/// Runs every test, cheap ones first.
pub(crate) fn test(steps: &mut Steps) -> anyhow::Result<()> {
    steps.step("formatting");
    cargo_does(&["fmt", "--all", "--check"])?;

    steps.step("web: packages");
    web::install()?;
    steps.step("web: lints and types");
    execute(&mut npm(&["run", "check"])?)?;
    steps.step("web: tests");
    execute(&mut npm(&["test"])?)?;
    steps.step("web: build");
    web::rebuild()?;

    steps.step("clippy");
    cargo_does(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ])?;
    steps.step("tests");
    cargo_does(&["test", "--workspace"])?;

    browser_tests(steps)
}

fn browser_tests(steps: &mut Steps) -> anyhow::Result<()> {
    steps.step("browser tests");
    let required = std::env::var("ORRERY_REQUIRE_BROWSER").is_ok_and(|value| value == "1");
    let suites: Vec<String> = tracked()?
        .into_iter()
        .filter(|file| file.starts_with(END_TO_END) && file.ends_with(".test.mjs"))
        .collect();
    let missing = if suites.is_empty() {
        Some(format!("browser tests: there is none in {END_TO_END}"))
    } else if find_program(BROWSERS).is_none() {
        let names = BROWSERS.join(", ");
        Some(format!(
            "browser tests: no browser found (looked for {names})"
        ))
    } else {
        None
    };
    match missing {
        Some(why) if required => bail!("{why}, and ORRERY_REQUIRE_BROWSER=1 makes that a failure"),
        Some(why) => {
            steps.skip(why);
            return Ok(());
        }
        None => {}
    }
    // Tests have built the library; the programs that the suites start are binaries.
    cargo_does(&[
        "build",
        "--package",
        "orrery",
        "--package",
        "orrery-testkit",
    ])?;
    let browser = find_program(BROWSERS).unwrap_or_default();
    let mut arguments = vec!["--test"];
    arguments.extend(suites.iter().map(String::as_str));
    let target = crate::house::target()?;
    execute(
        program("node", &arguments)?
            .env("ORRERY_BROWSER", browser)
            .env("ORRERY_BIN", target.join("debug/orrery"))
            .env("ORRERY_MODEL_SERVER", target.join("debug/model-server"))
            .env("ORRERY_ROOT", root()?),
    )
}

fn cargo_does(arguments: &[&str]) -> anyhow::Result<()> {
    execute(&mut program(&cargo(), arguments)?)
}
