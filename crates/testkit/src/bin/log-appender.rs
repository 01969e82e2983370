//! Appends to one log for ever and says after each flush how much is saved: a process to be killed.
//!
//! `log-appender <root> zstd|none <seed>`. The text of each chunk is a function of its seq, so that
//! whoever reads the log can check it.

use std::io::Write as _;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use orrery_session::{
    Event, EventType, SessionHeader, SessionId, SessionLogOffset, SharedEvent, Timestamp,
};
use orrery_storage::disk::RealDisk;
use orrery_storage::{Compression, StorageError, Store, StoreOptions};
use orrery_testkit::Dice;

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let root = args.next().context("the root is missing")?;
    let compression = match args.next().as_deref() {
        Some("zstd") => Compression::Zstd,
        Some("none") => Compression::None,
        other => bail!("a container, not {other:?}"),
    };
    let seed = args.next().context("the seed is missing")?.parse()?;
    tokio::runtime::Builder::new_current_thread()
        .build()?
        .block_on(append(&root, compression, Dice::new(seed)))
}

async fn append(root: &str, compression: Compression, mut dice: Dice) -> anyhow::Result<()> {
    let options = StoreOptions {
        compression,
        write_window: std::time::Duration::from_millis(1),
        ..StoreOptions::new(root)
    };
    let store = Store::start(Arc::new(RealDisk), options)?;
    let id = SessionId::new("s")?;
    let (writer, mut log) = match store.open(&id).await {
        Ok(opened) => (opened.writer, opened.log.events),
        Err(StorageError::NotFound { .. }) => {
            let header = SessionHeader::root(id, Timestamp::saturating(1));
            (store.create(header, SessionLogOffset::ZERO).await?, vec![])
        }
        Err(error) => return Err(error.into()),
    };
    let mut out = std::io::stdout();
    if !log.is_empty() {
        writeln!(out, "acked {}", log.len())?;
    }
    loop {
        let batch: Vec<SharedEvent> = (0..=dice.below(12))
            .map(|_| next(&mut log, &mut dice))
            .collect::<anyhow::Result<_>>()?;
        writer.append(batch)?;
        if dice.below(3) == 0 {
            writer.flush().await?;
            writeln!(out, "acked {}", log.len())?;
            out.flush()?;
        }
    }
}

fn next(log: &mut Vec<SharedEvent>, dice: &mut Dice) -> anyhow::Result<SharedEvent> {
    let seq = log.len();
    let mark = log.iter().rev().find(|event| {
        let kind = event.event_type();
        *kind == EventType::TurnStart || *kind == EventType::TurnEnd
    });
    let open = mark.is_some_and(|event| *event.event_type() == EventType::TurnStart);
    let turns = log
        .iter()
        .filter(|e| *e.event_type() == EventType::TurnStart);
    let turn = turns.count() + usize::from(!open);
    let (kind, data) = if !open {
        ("turn/start", format!(r#"{{"turn":{turn}}}"#))
    } else if dice.below(30) == 0 {
        let reason = r#"{"kind":"completed"}"#;
        (
            "turn/end",
            format!(r#"{{"turn":{turn},"reason":{reason}}}"#),
        )
    } else {
        let text = orrery_testkit::text_of(seq);
        let chunk = format!(r#"{{"type":"text-delta","index":0,"text":"{text}"}}"#);
        let data = format!(r#"{{"turn":{turn},"step":1,"chunk":{chunk}}}"#);
        ("assistant/chunk", data)
    };
    let text = format!(r#"{{"type":"{kind}","seq":{seq},"time":{seq},"data":{data}}}"#);
    let event = SharedEvent::new(Event::from_json(&text)?);
    log.push(SharedEvent::clone(&event));
    Ok(event)
}
