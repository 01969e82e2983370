//! `cargo xtask bench`: what starting, idling, the binary and a token's way cost.
//!
//! The measuring is done by `crates/cli/benches/house.rs`; this chore builds what it measures and
//! makes a table. Figures are shown beside their goals, and gate nothing: a busy machine would.

use std::fs;

use anyhow::Context;
use serde::Deserialize;

use crate::house::{Steps, cargo, output, root, say};
use crate::web;

/// The page with the figures.
const PAGE: &str = "docs/performance.md";
const BEGIN: &str = "<!-- figures -->\n";
const END: &str = "<!-- /figures -->\n";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    binary_bytes: u64,
    resident_bytes: u64,
    start_ms: Spread,
    accepted_ms: Spread,
    token_ms: Spread,
    burst_ms: Spread,
}

#[derive(Debug, Deserialize)]
struct Spread {
    median: f64,
    p95: f64,
    runs: usize,
}

impl Spread {
    fn show(&self) -> String {
        format!(
            "{:.1} ms (95 %: {:.1} ms, {} runs)",
            self.median, self.p95, self.runs
        )
    }
}

/// Measures, and with `write` puts the figures into the page.
pub(crate) fn bench(steps: &mut Steps, write: bool) -> anyhow::Result<()> {
    steps.step("the page");
    web::install()?;
    web::build()?;
    steps.step("the release build, and measuring it");
    let arguments = ["bench", "--package", "orrery", "--bench", "house"];
    let text = output(&cargo(), &arguments)?;
    let line = text.lines().rfind(|line| line.starts_with('{'));
    let figures: Figures = serde_json::from_str(line.context("the bench printed no figures")?)?;
    let table = table(&figures)?;
    say(&table);
    if write {
        let path = root()?.join(PAGE);
        let page = fs::read_to_string(&path).with_context(|| format!("reading {PAGE}"))?;
        let (head, rest) = page.split_once(BEGIN).context("the page has no figures")?;
        let (_, tail) = rest.split_once(END).context("the figures have no end")?;
        fs::write(&path, format!("{head}{BEGIN}{table}{END}{tail}"))
            .with_context(|| format!("writing {PAGE}"))?;
    }
    Ok(())
}

fn table(figures: &Figures) -> anyhow::Result<String> {
    let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    let rows = [
        (
            "start until requests are accepted",
            figures.start_ms.show(),
            "60 ms",
        ),
        (
            "resident when idle",
            megabytes(figures.resident_bytes),
            "30 MB",
        ),
        (
            "stripped release binary, page included",
            megabytes(figures.binary_bytes),
            "30 MB",
        ),
        (
            "a token from the model server to a client's socket",
            figures.token_ms.show(),
            "5 ms",
        ),
        (
            "the last of 20 tokens that arrive at once",
            figures.burst_ms.show(),
            "",
        ),
        (
            "a prompt until it is on disk and accepted",
            figures.accepted_ms.show(),
            "",
        ),
    ];
    let mut table = String::from("| what | measured | goal, below |\n| --- | --- | --- |\n");
    for (what, measured, goal) in rows {
        table.push_str(&format!("| {what} | {measured} | {goal} |\n"));
    }
    let cores = std::thread::available_parallelism()?;
    table.push_str(&format!(
        "\nMeasured on {cores} cores, {} {}, with {}.\n",
        std::env::consts::OS,
        std::env::consts::ARCH,
        output("rustc", &["--version"])?.trim()
    ));
    Ok(table)
}
