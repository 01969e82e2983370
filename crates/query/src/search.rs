//! Search over the text of sessions (`subagent.md` 3.6 and 3.7, decision D27).
//!
//! Owns what an event is searchable by, how text becomes words, the one way in which documents and
//! queries are split, snippets, and the port to whatever keeps the index. Leaves storing and ranking
//! to the implementation of [`SearchIndex`].
//!
//! Start reading at [`index`], the port; then [`words`], [`text`] and [`searcher`].

pub mod filling;
pub mod index;
pub mod searcher;
pub mod snippet;
pub mod text;
pub mod words;

pub use filling::{Backlog, Filling};
pub use index::{
    Document, Generation, IndexError, IndexHit, IndexQuery, IndexedSession, Phrase, SearchIndex,
    SessionUpdate, Standing,
};
pub use searcher::{Found, FoundPage, Search, SearchRequest, Searcher};
