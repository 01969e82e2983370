//! From chunks to blocks, whatever order a provider sends them in (`session.md` 3.9, Assembler).
//!
//! Owns the tolerant reading of a stream: what is missing gets a default, what comes too late is
//! ignored, nothing here fails. Leaves to the loop what is logged and which tools run.

use orrery_session::chunk::BlockType;
use orrery_session::{CallId, ContentBlock, FinishReason, Json, StreamChunk, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What one stream amounts to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled {
    /// The blocks, by first appearance of their index.
    pub content: Vec<ContentBlock>,
    /// What it cost, where the provider said so.
    pub usage: Option<Usage>,
    /// Why it ended; a stream without a finish counts as `stop`.
    pub reason: FinishReason,
    /// What the adapter wants back with the next request, pruned like `content`.
    pub replay_state: Option<Json>,
}

impl Assembled {
    /// The tool calls among the blocks, in the model's order: id, name, raw arguments.
    pub fn tool_calls(&self) -> impl Iterator<Item = (&CallId, &str, &str)> {
        self.content.iter().filter_map(|block| match block {
            ContentBlock::ToolCall {
                id,
                name,
                arguments,
            } => Some((id, name.as_str(), arguments.as_str())),
            _ => None,
        })
    }
}

/// Collects the chunks of one answer.
#[derive(Debug, Clone, Default)]
pub struct Assembler {
    slots: Vec<Slot>,
    usage: Option<Usage>,
    finish: Option<(FinishReason, Option<Json>)>,
}

#[derive(Debug, Clone)]
struct Slot {
    index: u64,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    /// Opened, or only heard of.
    Open(Draft),
    /// Complete: later chunks of this index are stragglers.
    Done(ContentBlock),
}

#[derive(Debug, Clone)]
enum Draft {
    Text(String),
    Reasoning(String),
    Call {
        id: Option<CallId>,
        name: String,
        arguments: String,
    },
}

impl Draft {
    const fn new(kind: BlockType) -> Self {
        match kind {
            BlockType::Text => Self::Text(String::new()),
            BlockType::Reasoning => Self::Reasoning(String::new()),
            BlockType::ToolCall => Self::Call {
                id: None,
                name: String::new(),
                arguments: String::new(),
            },
        }
    }

    const fn kind(&self) -> BlockType {
        match self {
            Self::Text(_) => BlockType::Text,
            Self::Reasoning(_) => BlockType::Reasoning,
            Self::Call { .. } => BlockType::ToolCall,
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) | Self::Reasoning(text) => text.is_empty(),
            Self::Call {
                id,
                name,
                arguments,
            } => id.is_none() && name.is_empty() && arguments.is_empty(),
        }
    }

    fn into_block(self, index: u64) -> ContentBlock {
        match self {
            Self::Text(text) => ContentBlock::Text { text },
            Self::Reasoning(text) => ContentBlock::Reasoning { text },
            Self::Call {
                id,
                name,
                arguments,
            } => ContentBlock::ToolCall {
                id: id.unwrap_or_else(|| CallId::for_block(index)),
                name,
                arguments,
            },
        }
    }
}

impl Assembler {
    /// Nothing heard yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next chunk.
    pub fn push(&mut self, chunk: &StreamChunk) {
        match chunk {
            StreamChunk::BlockStart { index, block_type } => {
                self.draft(*index, *block_type);
            }
            StreamChunk::TextDelta { index, text } => {
                if let Some(Draft::Text(so_far)) = self.draft(*index, BlockType::Text) {
                    so_far.push_str(text);
                }
            }
            StreamChunk::ReasoningDelta { index, text } => {
                if let Some(Draft::Reasoning(so_far)) = self.draft(*index, BlockType::Reasoning) {
                    so_far.push_str(text);
                }
            }
            StreamChunk::ToolCallDelta {
                index,
                id,
                name,
                arguments_delta,
            } => self.push_call(*index, id, name.as_deref(), arguments_delta),
            StreamChunk::BlockEnd { index, block } => self.end(*index, block),
            StreamChunk::Usage { usage } => self.usage = Some(*usage),
            StreamChunk::Finish {
                reason,
                replay_state,
            } => {
                if self.finish.is_none() {
                    self.finish = Some((reason.clone(), replay_state.clone()));
                }
            }
        }
    }

    /// The whole answer. After `max-tokens` the tool calls are gone: they may be cut anywhere.
    pub fn finish(self) -> Assembled {
        let (reason, replay_state) = self.finish.unwrap_or((FinishReason::Stop, None));
        let keeps_calls = !matches!(reason, FinishReason::MaxTokens);
        let mut content = Vec::new();
        let mut kept = Vec::new();
        for slot in self.slots {
            let block = match slot.state {
                State::Done(block) => Some(block),
                // An opened block that never said anything is no block; a call without anything
                // but its place is one, because a finish may promise it.
                State::Open(draft) if draft.is_empty() && draft.kind() != BlockType::ToolCall => {
                    None
                }
                State::Open(draft) => Some(draft.into_block(slot.index)),
            };
            let block = block
                .filter(|block| keeps_calls || !matches!(block, ContentBlock::ToolCall { .. }));
            kept.push(block.is_some());
            content.extend(block);
        }
        Assembled {
            content,
            usage: self.usage,
            reason,
            replay_state: replay_state.and_then(|state| prune_replay(state, &kept)),
        }
    }

    /// What a cancelled stream leaves behind: the text and reasoning blocks that say anything,
    /// finished or not (`session.md` 3.5). No calls, no replay state.
    pub fn partial(&self) -> Vec<ContentBlock> {
        let blocks = self.slots.iter().map(|slot| match &slot.state {
            State::Done(block) => block.clone(),
            State::Open(draft) => draft.clone().into_block(slot.index),
        });
        blocks
            .filter(|block| match block {
                ContentBlock::Text { text } | ContentBlock::Reasoning { text } => {
                    !text.trim().is_empty()
                }
                _ => false,
            })
            .collect()
    }

    /// What it cost so far: a cancelled message logs it too.
    pub const fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The open block at `index`, made if need be; `None` when it is done.
    fn draft(&mut self, index: u64, kind: BlockType) -> Option<&mut Draft> {
        let at = match self.slots.iter().position(|slot| slot.index == index) {
            Some(at) => at,
            None => {
                self.slots.push(Slot {
                    index,
                    state: State::Open(Draft::new(kind)),
                });
                self.slots.len() - 1
            }
        };
        match &mut self.slots.get_mut(at)?.state {
            State::Done(_) => None,
            State::Open(draft) => {
                // Some servers announce one kind and then send another: the words decide.
                if draft.kind() != kind && draft.is_empty() {
                    *draft = Draft::new(kind);
                }
                Some(draft)
            }
        }
    }

    fn push_call(&mut self, index: u64, new_id: &CallId, new_name: Option<&str>, delta: &str) {
        if let Some(Draft::Call {
            id,
            name,
            arguments,
        }) = self.draft(index, BlockType::ToolCall)
        {
            id.get_or_insert_with(|| new_id.clone());
            // The name comes once or is repeated with every delta; it never comes in pieces.
            if let Some(new_name) = new_name
                && name.is_empty()
            {
                new_name.clone_into(name);
            }
            arguments.push_str(delta);
        }
    }

    fn end(&mut self, index: u64, block: &ContentBlock) {
        let done = State::Done(named(block, index));
        match self.slots.iter_mut().find(|slot| slot.index == index) {
            None => self.slots.push(Slot { index, state: done }),
            Some(slot) => {
                if matches!(slot.state, State::Open(_)) {
                    slot.state = done;
                }
            }
        }
    }
}

/// Gives a call block that came without an id its place as its id.
fn named(block: &ContentBlock, index: u64) -> ContentBlock {
    #[derive(Deserialize)]
    struct Nameless {
        r#type: String,
        name: String,
        arguments: String,
    }
    if let ContentBlock::Other(raw) = block
        && let Ok(call) = raw.parse::<Nameless>()
        && call.r#type == "tool-call"
    {
        return ContentBlock::ToolCall {
            id: CallId::for_block(index),
            name: call.name,
            arguments: call.arguments,
        };
    }
    block.clone()
}

/// Drops the replay entries of blocks that were dropped; drops all of it when the counts differ.
fn prune_replay(state: Json, kept: &[bool]) -> Option<Json> {
    #[derive(Serialize, Deserialize)]
    struct Replay {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response: Option<Box<RawValue>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blocks: Option<Vec<Box<RawValue>>>,
    }
    let Ok(replay) = state.parse::<Replay>() else {
        return None;
    };
    let Some(blocks) = replay.blocks else {
        return Some(state);
    };
    if blocks.len() != kept.len() {
        return None;
    }
    if kept.iter().all(|kept| *kept) {
        return Some(state);
    }
    let pairs = blocks.into_iter().zip(kept);
    let blocks = pairs.filter_map(|(block, kept)| kept.then_some(block));
    let pruned = Replay {
        response: replay.response,
        blocks: Some(blocks.collect()),
    };
    Json::from_value(&pruned).ok()
}

#[cfg(test)]
mod tests;
