use proptest::prelude::*;

use super::*;

fn words(text: &str) -> String {
    of_document(text).words
}

fn joined(text: &str) -> String {
    of_document(text).joined
}

fn part(text: &str, range: std::ops::Range<usize>) -> &str {
    text.get(range).unwrap()
}

/// What of the text is found, each place in brackets; empty when a phrase is missing.
fn shown(text: &str, query: &str) -> String {
    let phrases = of_query(query);
    if count(text, &phrases).is_none() {
        return String::new();
    }
    let mut shown = String::new();
    let mut at = 0;
    for range in find(text, &phrases) {
        shown.push_str(part(text, at..range.start));
        shown.push_str(&format!("[{}]", part(text, range.clone())));
        at = range.end;
    }
    shown + part(text, at..text.len())
}

#[test]
fn a_run_of_cjk_becomes_its_pairs_and_its_last_character() {
    assert_eq!(words("会话列表"), "会话 话列 列表 表");
    assert_eq!(words("读"), "读");
    assert_eq!(words("重跑gen-itgc后"), "重跑 跑 gen itgc 后");
    assert_eq!(
        words("ひらがな、カタカナ"),
        "ひら らか かな な カタ タカ カナ ナ"
    );
    assert_eq!(words("𠀀𪛕豈"), "𠀀𪛕 𪛕豈 豈");
    assert_eq!(words("한국어"), "한국 국어 어");
}

#[test]
fn an_identifier_becomes_its_parts_and_is_kept_joined() {
    assert_eq!(
        words("getUserName HTTPServer list_children"),
        "get user name http server list children"
    );
    assert_eq!(
        joined("getUserName HTTPServer list_children"),
        "getusername httpserver listchildren"
    );
    assert_eq!(words("__init__ foo.bar-baz"), "init foo bar baz");
    assert_eq!(joined("__init__ foo.bar-baz"), "");
}

#[test]
fn digits_leave_their_letters_only_behind_a_plain_word() {
    assert_eq!(words("utf8 sha256 v2 0xff"), "utf 8 sha 256 v 2 0xff");
    assert_eq!(
        words("3f2a9bc SHA256SUM h2o 42"),
        "3f2a9bc sha256sum h2o 42"
    );
    assert_eq!(words("utf8Name getV2"), "utf 8 name get v 2");
}

#[test]
fn text_is_lower_case_without_accents_and_in_compatibility_form() {
    assert_eq!(
        words("Ärger ÉCOLE ﬁne Ⅷ ｶﾞ Straße"),
        "arger ecole fine viii カ straße"
    );
    assert_eq!(words("e\u{301}cole so\u{ad}ft"), "ecole soft");
    assert_eq!(words("ὈΔΥΣΣΕΎΣ οδυσσεύς"), "οδυσσευσ οδυσσευσ");
    assert_eq!(
        words("\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}"),
        words("한국")
    );
    assert_eq!(words("½"), "1 2");
}

#[test]
fn encoded_bytes_are_one_bounded_word() {
    let blob = "aGVsbG8".repeat(100);
    assert_eq!(words(&blob).len(), MAX_IDENTIFIER);
    assert_eq!(joined(&blob), "");
    assert_eq!(words(&"_".repeat(500)), "");
    assert_eq!(
        shown(&blob, part(&blob, 0..20)),
        format!("[{}]{}", part(&blob, 0..20), part(&blob, 20..blob.len()))
    );
}

#[test]
fn a_query_is_phrases_and_operators_are_separators() {
    let phrase = |words: &[&str], prefix, joined: Option<&str>| Phrase {
        words: words.iter().map(|word| (*word).to_owned()).collect(),
        prefix,
        joined: joined.map(str::to_owned),
    };
    assert_eq!(of_query("foo.bar"), [phrase(&["foo", "bar"], true, None)]);
    assert_eq!(
        of_query("\"getUser\""),
        [phrase(&["get", "user"], true, Some("getuser"))]
    );
    assert_eq!(
        of_query("会话列表 读"),
        [
            phrase(&["会话", "话列", "列表"], false, None),
            phrase(&["读"], true, None),
        ]
    );
    assert_eq!(
        of_query("重跑gen"),
        [
            phrase(&["重跑"], false, None),
            phrase(&["gen"], true, Some("gen")),
        ]
    );
    assert_eq!(
        of_query("a OR a"),
        [
            phrase(&["a"], true, None),
            phrase(&["or"], true, Some("or")),
        ]
    );
    assert_eq!(of_query(" \"* ( -^ : "), []);
    assert_eq!(of_query(&"x y z ".repeat(100)).len(), 3);
    assert_eq!(of_query(&"会".repeat(100))[0].words.len(), MAX_PHRASE_WORDS);
}

#[test]
fn the_table_of_the_measured_cases_holds() {
    assert_eq!(shown("读取身份", "身份"), "读取[身份]");
    assert_eq!(shown("投影单元", "投影"), "[投影]单元");
    assert_eq!(shown("看会话列表吧", "会话列表"), "看[会话列表]吧");
    assert_eq!(shown("读取", "读"), "[读]取");
    assert_eq!(shown("重读", "读"), "重[读]");
    assert_eq!(shown("重跑gen-itgc后", "gen"), "重跑[gen]-itgc后");
    assert_eq!(shown("list_children", "list children"), "[list]_[children]");
    assert_eq!(shown("list children", "list_children"), "[list children]");
    assert_eq!(shown("a projection", "project"), "a [project]ion");
    assert_eq!(shown("身份 和 投影", "身份 投影"), "[身份] 和 [投影]");
}

#[test]
fn identifiers_are_found_by_parts_joined_and_begun() {
    assert_eq!(shown("getUserName()", "getuser"), "[getUser]Name()");
    assert_eq!(shown("getuser()", "getUser"), "[getuser]()");
    assert_eq!(shown("get_user_name", "getUserN"), "[get_user_n]ame");
    assert_eq!(shown("getUserName", "username"), "");
    assert_eq!(shown("the https port", "HTTPs"), "the [https] port");
    for text in ["utf8", "UTF-8", "utf_8", "Utf8"] {
        for query in ["utf8", "utf-8", "UTF_8", "utf"] {
            assert!(count(text, &of_query(query)).is_some(), "{query} in {text}");
        }
    }
    for query in ["0xff", "0xFF", "0xf"] {
        for text in ["0xff", "0xFF"] {
            assert!(count(text, &of_query(query)).is_some(), "{query} in {text}");
        }
    }
    assert_eq!(shown("SHA256", "256"), "SHA[256]");
    assert_eq!(shown("api v2", "v2"), "api [v2]");
}

#[test]
fn a_place_that_words_and_joined_form_share_counts_once() {
    assert_eq!(count("getUserName", &of_query("getUser")), Some(1));
    assert_eq!(count("getUserName getuser", &of_query("getUser")), Some(2));
    assert_eq!(count("getUserName get", &of_query("get")), Some(2));
    assert_eq!(count("a b a", &of_query("a b")), Some(3));
    assert_eq!(count("a a", &of_query("a b")), None);
}

fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-zA-Z0-9_]{0,8}",
        "[ \\-./:\"'(),]{1,2}",
        "[一-龥ぁ-んァ-ヶ가-힣]{1,4}",
        "\\PC{0,4}",
        any::<String>().prop_map(|text| text.chars().take(6).collect()),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_text_is_too_strange_and_every_range_is_of_the_text(text in any_text(), query in any_text()) {
        let phrases = of_query(&query);
        prop_assert!(phrases.iter().all(|phrase| !phrase.words.is_empty()));
        let mut end = None;
        for range in find(&text, &phrases) {
            prop_assert!(range.start < range.end && Some(range.start) > end);
            prop_assert!(text.get(range.clone()).is_some());
            end = Some(range.end);
        }
        if count(&text, &phrases).is_some() && !phrases.is_empty() {
            prop_assert!(end.is_some());
        }
    }

    #[test]
    fn what_stands_in_a_text_as_whole_words_is_found(before in any_text(), query in any_text(), after in any_text()) {
        let phrases = of_query(&query);
        let text = format!("{before} {query} {after}");
        prop_assert!(count(&text, &phrases).is_some(), "{phrases:?}");
        let found = find(&text, &phrases);
        let place = before.len() + 1..before.len() + 1 + query.len();
        let inside = found.iter().any(|range| range.start < place.end && range.end > place.start);
        prop_assert!(phrases.is_empty() || inside);
    }

    #[test]
    fn words_become_themselves(text in "([a-zA-Z0-9_]{0,8}|[ \\-./]|[À-ɏΑ-ωА-я]{1,4}){0,8}") {
        let once = of_document(&text).words;
        prop_assert_eq!(of_document(&once).words, once);
    }
}
