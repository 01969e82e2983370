//! `orrery doctor --stats`: what lists of subagents cost, counted.

use orrery_api::content::Empty;
use orrery_api::host::ListingStats;
use orrery_api::operations::HostStats;
use orrery_host::config::Config;
use orrery_host::home::Home;
use orrery_host::listing_stats;
use serde::Serialize;

use crate::output;
use crate::report::Failure;
use crate::running::Running;

/// The counters, and whose they are.
#[derive(Debug, Serialize)]
struct Shown {
    /// The process of the Host; `None` of a list that was made for this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(flatten)]
    listing: ListingStats,
}

pub(super) async fn stats(home: &Home, json: bool) -> Result<(), Failure> {
    let shown = match Running::find(home).await {
        Some(running) => Shown {
            pid: Some(running.pid),
            listing: running.call::<HostStats>(home, &Empty {}).await?.listing,
        },
        None => Shown {
            pid: None,
            listing: listing_stats::measure(home, &Config::load(&home.config_file())?).await?,
        },
    };
    if json {
        return output::json(&shown);
    }
    output::say(&match shown.pid {
        Some(pid) => format!("since the Host, process {pid}, began:"),
        None => "no Host runs here; one list for every session that has subagents:".to_owned(),
    });
    let ListingStats {
        lists,
        from_live,
        from_checkpoints,
        observations,
        enumerations,
        log_reads,
        frames_decoded,
    } = shown.listing;
    let rows = [
        ("lists of subagents", lists),
        ("children answered by their live state", from_live),
        ("children answered from a checkpoint", from_checkpoints),
        ("children whose log was observed", observations),
        ("looks at the whole sessions root", enumerations),
        ("logs opened to be read", log_reads),
        ("frames decoded", frames_decoded),
    ];
    let rows: Vec<Vec<String>> = rows
        .iter()
        .map(|(what, count)| vec![(*what).to_owned(), count.to_string()])
        .collect();
    output::data(&output::table(&rows))
}
