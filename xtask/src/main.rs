//! Chores of this repository: `cargo xtask <chore>`.
//!
//! Owns nothing of the product; each chore has a module of its own. What several chores share
//! (where the repository is, running programs, telling steps apart) is in [`house`] and [`web`].

mod bench;
mod check;
mod generate;
mod house;
mod run;
mod test;
mod web;

use std::process::ExitCode;

use house::Steps;

const USAGE: &str = "\
usage: cargo xtask <chore>

  run [ARGS]           build everything, start the Host and open its page; ARGS go to `orrery web`
  test                 every check of code and behaviour that needs Rust and Node alone, and the
                       browser tests where a browser is found
  check                what the compiler cannot see: arrows, licences, duplicates, lengths, links,
                       words, stale generated files
  generate [--check]   write the generated files, or say which are stale
  bench [--write]      measure; with --write into docs/performance.md";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut steps = Steps::start();
    let result = match words.as_slice() {
        // As with `cargo run`, a `--` may stand before what is for the program.
        ["run", "--", rest @ ..] | ["run", rest @ ..] => run::run(&mut steps, rest),
        ["test"] => test::test(&mut steps),
        ["check"] => check::check(&mut steps),
        ["generate"] => generate::generate(false),
        ["generate", "--check"] => generate::generate(true),
        ["bench"] => bench::bench(&mut steps, false),
        ["bench", "--write"] => bench::bench(&mut steps, true),
        _ => {
            house::say(USAGE);
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => {
            steps.finish();
            ExitCode::SUCCESS
        }
        Err(error) => {
            steps.fail(&error);
            ExitCode::FAILURE
        }
    }
}
