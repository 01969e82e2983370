//! The index beside a model that looks at every text: the same hits, in the same order.

use std::collections::{BTreeMap, BTreeSet};

use orrery_catalog::Catalog;
use orrery_query::search::words::{count, of_query};
use orrery_query::search::{
    Document, IndexHit, IndexQuery, SearchIndex as _, SessionUpdate, Standing,
};
use orrery_session::{EventType, SessionId, Timestamp};
use proptest::prelude::*;

use crate::make::{id, seq, update};

#[derive(Default)]
struct Model(BTreeMap<SessionId, Vec<Document>>);

impl Model {
    fn update(&mut self, update: &SessionUpdate) {
        let known = self.0.entry(update.session.id.clone()).or_default();
        if update.from_scratch {
            known.clear();
        }
        for document in known.iter_mut() {
            let hidden = update
                .shadowed
                .iter()
                .any(|range| range.contains(&document.seq));
            if hidden && document.standing == Standing::Current {
                document.standing = Standing::Shadowed;
            }
        }
        for document in &update.documents {
            let title = document.event_type == EventType::SessionTitle;
            known.retain(|other| {
                other.seq != document.seq && !(title && other.event_type == EventType::SessionTitle)
            });
            known.push(document.clone());
        }
    }

    fn search(&self, query: &IndexQuery) -> Vec<IndexHit> {
        let mut hits = Vec::new();
        let sessions = self.0.iter();
        for (session, documents) in
            sessions.filter(|(id, _)| query.sessions.as_ref().is_none_or(|ids| ids.contains(id)))
        {
            for document in documents {
                let holds = query
                    .types
                    .as_ref()
                    .is_none_or(|t| t.contains(&document.event_type))
                    && query
                        .standings
                        .as_ref()
                        .is_none_or(|s| s.contains(&document.standing))
                    && query
                        .seqs
                        .as_ref()
                        .is_none_or(|range| range.contains(&document.seq))
                    && query
                        .times
                        .as_ref()
                        .is_none_or(|range| range.contains(&document.time));
                let matches = count(&document.text, &query.phrases);
                if let (true, Some(matches)) = (holds && !query.phrases.is_empty(), matches) {
                    let hit = IndexHit {
                        session: session.clone(),
                        seq: document.seq,
                        event_type: document.event_type.clone(),
                        time: document.time,
                        standing: document.standing,
                        matches,
                    };
                    hits.push((document.text.chars().count(), hit));
                }
            }
        }
        hits.sort_by(|(a_length, a), (b_length, b)| {
            b.matches
                .cmp(&a.matches)
                .then(a_length.cmp(b_length))
                .then(b.time.cmp(&a.time))
                .then(a.session.cmp(&b.session))
                .then(b.seq.cmp(&a.seq))
        });
        let mut seen = BTreeSet::new();
        hits.retain(|(_, hit)| !query.one_per_session || seen.insert(hit.session.clone()));
        let wanted = hits.into_iter().skip(query.offset).take(query.limit);
        wanted.map(|(_, hit)| hit).collect()
    }
}

#[derive(Debug, Clone)]
enum Step {
    Update(SessionUpdate),
    Remove(SessionId),
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "get",
        "User",
        "_",
        "-",
        " ",
        " ",
        ".",
        "name",
        "a",
        "ab",
        "utf8",
        "8",
        "读",
        "取",
        "身份",
        "会话列表",
        "É",
        "HTTPServer",
        "\"",
        "OR",
        "\n",
    ]);
    prop::collection::vec(piece, 1..12).prop_map(|pieces| pieces.concat())
}

fn document() -> impl Strategy<Value = Document> {
    let types = prop::sample::select(vec![
        EventType::UserMessage,
        EventType::ToolCall,
        EventType::SessionTitle,
    ]);
    let standing = prop::sample::select(Standing::ALL.to_vec());
    (0..12_u64, types, 0..4_i64, standing, text()).prop_map(
        |(number, event_type, time, standing, text)| Document {
            seq: seq(number),
            event_type,
            time: Timestamp::saturating(time),
            standing,
            text,
        },
    )
}

fn session() -> impl Strategy<Value = SessionId> {
    prop::sample::select(vec!["a", "b", "c"]).prop_map(id)
}

fn step() -> impl Strategy<Value = Step> {
    let documents = prop::collection::vec(document(), 0..6).prop_map(|documents| {
        // By seq, each once, and one title at most: what the port demands.
        let mut by_seq: BTreeMap<_, _> = documents.into_iter().map(|d| (d.seq, d)).collect();
        let mut titled = false;
        by_seq.retain(|_, d| {
            d.event_type != EventType::SessionTitle || !std::mem::replace(&mut titled, true)
        });
        by_seq.into_values().collect::<Vec<_>>()
    });
    let shadowed = prop::collection::vec((0..12_u64, 0..4_u64), 0..2);
    let changed = (session(), documents, shadowed, prop::bool::weighted(0.2)).prop_map(
        |(session, documents, shadowed, from_scratch)| {
            let ranges = shadowed
                .iter()
                .map(|(start, more)| seq(*start)..=seq(start + more));
            Step::Update(SessionUpdate {
                from_scratch,
                shadowed: ranges.collect(),
                ..update(session.as_str(), documents)
            })
        },
    );
    prop_oneof![8 => changed, 1 => session().prop_map(Step::Remove)]
}

fn query() -> impl Strategy<Value = IndexQuery> {
    let options = (
        prop::option::weighted(
            0.2,
            prop::sample::subsequence(Standing::ALL.to_vec(), 0..=3),
        ),
        prop::option::weighted(0.2, prop::collection::btree_set(session(), 0..3)),
        prop::option::weighted(0.2, (0..12_u64, 0..6_u64)),
        prop::option::weighted(0.2, (0..4_i64, 0..2_i64)),
    );
    (text(), options, any::<bool>(), 0..3_usize, 1..9_usize).prop_map(
        |(text, (standings, sessions, seqs, times), one_per_session, offset, limit)| IndexQuery {
            phrases: of_query(&text),
            types: None,
            standings,
            sessions,
            seqs: seqs.map(|(start, more)| seq(start)..=seq(start + more)),
            times: times.map(|(start, more)| {
                Timestamp::saturating(start)..=Timestamp::saturating(start + more)
            }),
            one_per_session,
            offset,
            limit,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn an_index_finds_what_looking_at_every_text_finds(
        steps in prop::collection::vec(step(), 1..10),
        queries in prop::collection::vec(query(), 1..24),
    ) {
        let catalog = Catalog::in_memory().unwrap();
        let mut model = Model::default();
        for step in &steps {
            match step {
                Step::Update(update) => {
                    catalog.update(std::slice::from_ref(update)).unwrap();
                    model.update(update);
                }
                Step::Remove(id) => {
                    catalog.remove(std::slice::from_ref(id)).unwrap();
                    model.0.remove(id);
                }
            }
        }
        for query in &queries {
            prop_assert_eq!(catalog.search(query).unwrap(), model.search(query), "{:?}", query);
        }
    }
}
