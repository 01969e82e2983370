//! Chores of this repository: `cargo xtask <chore>`.
//!
//! Owns nothing of the product; each chore has a module of its own.

mod generate;

use anyhow::bail;

const USAGE: &str = "usage: cargo xtask generate [--check]";

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["generate"] => generate::generate(false),
        ["generate", "--check"] => generate::generate(true),
        _ => bail!("{USAGE}"),
    }
}
