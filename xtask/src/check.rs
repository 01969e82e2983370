//! `cargo xtask check`: what the compiler cannot see.
//!
//! Each check is a module that gives complaints, one a line; all of them run before the chore
//! fails, so that one look shows everything.

mod arrows;
mod dependencies;
mod graph;
mod lengths;
mod links;
mod words;

use anyhow::bail;

use crate::generate;
use crate::house::{Steps, say};

/// What a check found wrong.
type Complaints = Vec<String>;

/// Runs every check.
pub(crate) fn check(steps: &mut Steps) -> anyhow::Result<()> {
    let graph = graph::Graph::load()?;
    let mut wrong = 0;
    let mut look = |name: &str, check: &dyn Fn() -> anyhow::Result<Complaints>| {
        steps.step(name);
        let complaints = check()?;
        for complaint in &complaints {
            say(&format!("  {complaint}"));
        }
        wrong += complaints.len();
        anyhow::Ok(())
    };
    look("arrows between crates", &|| Ok(arrows::check(&graph)))?;
    look("licences", &|| dependencies::licences(&graph))?;
    look("duplicate dependencies", &|| {
        dependencies::duplicates(&graph)
    })?;
    look("file lengths", &lengths::check)?;
    look("links in documents", &links::check)?;
    look("words", &words::check)?;
    look("generated files", &|| {
        let stale = generate::generate(true).err();
        Ok(stale.iter().map(|error| format!("{error:#}")).collect())
    })?;
    steps.step("the verdict");
    if wrong > 0 {
        bail!("{wrong} complaints, see above");
    }
    Ok(())
}
