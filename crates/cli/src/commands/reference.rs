//! `orrery reference`: the pages of `docs/` that are made from the program itself.

use clap::{Command, CommandFactory as _};

use crate::args::{Arguments, Page};
use crate::output;
use crate::report::Failure;

const HEAD: &str = "\
# Command line

This page is generated from the program; `cargo xtask generate` writes it. `orrery COMMAND --help` \
says the same.

Data goes to standard output, everything else to standard error.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | failed |
| 2 | the command line or the configuration is wrong |
| 3 | interrupted |
| 4 | refused: something needed approval and nobody gave it |
| 5 | no model, or no key for it |

| variable | meaning |
| --- | --- |
| `ORRERY_HOME` | the folder of configuration, data and state, as `--home` |
| `ORRERY_LOG` | diagnostics on standard error, as `log.filter` of the [configuration](config.md) |
| `BROWSER` | the program that opens the page |
";

pub(super) fn reference(page: Page) -> Result<(), Failure> {
    match page {
        Page::Config => output::data(&orrery_host::config::reference()),
        Page::Cli => output::data(&cli()),
    }
}

fn cli() -> String {
    let mut page = HEAD.to_owned();
    let mut root = Arguments::command();
    root.build();
    for command in visible(&root) {
        describe(command, &mut page);
    }
    page
}

fn describe(command: &Command, page: &mut String) {
    let inner: Vec<&Command> = visible(command).collect();
    if !inner.is_empty() {
        for command in inner {
            describe(command, page);
        }
        return;
    }
    let mut command = command.clone();
    let name = command.get_bin_name().unwrap_or_default().to_owned();
    page.push_str(&format!("\n## {name}\n\n"));
    // The width is fixed, so that the page does not depend on who makes it.
    let help = command.render_long_help().to_string();
    page.push_str(&format!("```text\n{}\n```\n", trim_lines(&help)));
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    let all = command.get_subcommands();
    all.filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

fn trim_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().map(str::trim_end).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_command_line_holds_together() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_page_has_every_command_and_no_hidden_one() {
        let page = cli();
        for name in [
            "web",
            "serve",
            "run",
            "sessions list",
            "sessions show",
            "doctor",
            "open",
            "completions",
            "config show",
            "config path",
        ] {
            assert!(page.contains(&format!("\n## orrery {name}\n")), "{name}");
        }
        assert!(!page.contains("## orrery reference"));
        assert!(page.lines().all(|line| line == line.trim_end()));
    }
}
