//! `cargo xtask bench`: what starting, idling and the first token cost.

use anyhow::bail;

use crate::house::Steps;

/// Measures, and with `write` puts the figures into `docs/performance.md`.
pub(crate) fn bench(_steps: &mut Steps, _write: bool) -> anyhow::Result<()> {
    bail!("there is no Host to measure yet")
}
