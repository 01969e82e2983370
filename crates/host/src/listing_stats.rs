//! What lists of subagents cost, in the words of the contract: of a Host that runs, and of a list of
//! everything that a command makes itself where none runs. Owns no counter: those are of storage and
//! of the list.

use std::collections::BTreeSet;
use std::sync::Arc;

use orrery_api::error::ApiError;
use orrery_api::host::ListingStats;
use orrery_catalog::Catalog;
use orrery_projection::Registry;
use orrery_projection::checkpoint::CheckpointStore;
use orrery_query::{Corpus, NobodyLive};
use orrery_session::SessionId;
use orrery_storage::disk::RealDisk;
use orrery_storage::{Reads, Store, StoreOptions};
use orrery_subagent::listing::ListingCost;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::controller::{failures, subagents};
use crate::home::Home;

/// The counters of a list and of what was read beneath it.
pub(crate) const fn stats(cost: ListingCost, reads: Reads) -> ListingStats {
    ListingStats {
        lists: cost.lists,
        from_live: cost.from_live,
        from_checkpoints: cost.from_checkpoints,
        observations: cost.observations,
        enumerations: reads.enumerations,
        log_reads: reads.logs,
        frames_decoded: reads.frames,
    }
}

/// Lists the children of every session that has subagents, as a Host that has just been started
/// would, and says what that cost. Writes nothing but indexes beside logs that lack one.
///
/// # Errors
/// When the sessions root cannot be read, or a list fails.
pub async fn measure(home: &Home, config: &Config) -> Result<ListingStats, ApiError> {
    let internal = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "the counters cannot be had");
        ApiError::internal()
    };
    let options = StoreOptions::new(config.sessions_root(home));
    let store = Store::start(Arc::new(RealDisk), options);
    let store = store.map_err(|error| failures::of_storage(&error))?;
    let registry = Arc::new(Registry::default());
    let _units = orrery_subagent::units::register(&registry).map_err(|e| internal(&e))?;
    let path = home.index();
    let checkpoints = path.exists().then(|| Catalog::open(&path).ok()).flatten();
    let checkpoints = checkpoints.map(|catalog| Arc::new(catalog) as Arc<dyn CheckpointStore>);
    let nobody = Arc::new(NobodyLive);
    let corpus = Corpus::new(
        store.clone(),
        Arc::clone(&registry),
        checkpoints.clone(),
        Arc::clone(&nobody) as _,
    );
    let signal = CancellationToken::new();
    let records = corpus.list_sessions(&signal).await;
    let records = records.map_err(|error| failures::of_query(&error))?;
    let subagents = records.into_iter().filter(|r| r.header.is_subagent());
    let parents: BTreeSet<SessionId> = subagents.filter_map(|r| r.header.parent_session).collect();
    let cold_reads = config.session.cold_read_concurrency;
    let lister = subagents::lister(store.clone(), &registry, checkpoints, nobody, cold_reads);
    for parent in &parents {
        let listed = lister.children(parent, &signal).await;
        listed.map_err(subagents::failed)?;
    }
    let measured = stats(lister.cost(), store.reads());
    store.shutdown().await;
    Ok(measured)
}
