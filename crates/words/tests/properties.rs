//! What holds for every text: the normal form of a normal form, masks, verdicts, and that nothing panics.

use std::sync::LazyLock;

use danmaku_words::{
    Action, GROWTH_MAX, ListOptions, Normaliser, Profile, Screen, TEXT_BYTES_MAX, Verdict, Watch, WordList,
    mask,
};
use proptest::prelude::*;
use unicode_segmentation::GraphemeCursor;

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        max_global_rejects: 65_536,
        ..ProptestConfig::default()
    }
}

const PROFILES: [Profile; 2] = [Profile::Strict, Profile::Marks];

/// Characters that have to do with each other: parts of syllables, marks, joiners, letters that
/// decompose, grow, have odd capitals, are written for others.
const DIFFICULT: &str = "aAｆＦ１ⓐ🅰🇨🇳ǅßſẞİıſtﬁﷺéễọ\u{301}\u{302}\u{308}\u{323}\u{345}\u{327}ΐςΣᾳй\u{306}\
가각ᄀ\u{1161}\u{11a8}ﾡﾢ\u{ffc2}が\u{3099}ｶﾞ\u{ff9e}バ輪轮功乾薴㋿㍿①⑴½ก้าำ\u{e33}क्षि\u{94d}\u{93f}ا\u{64e}أﻼـא\u{5b0}שׁ\
\u{200b}\u{200d}\u{fe0f}\u{ad}\u{34f}\u{202e}\u{e0001}\u{3164}\u{115f}\u{2800} .-_*!@$|/:+，。\t\n\u{0}😀👨\u{1f3fd}𝐀𝔘\u{1d165}𠮷丽\
\u{20e3}\u{f71}\u{f72}\u{f80}\u{1100}\u{113c7}\u{11346}";

fn difficult() -> impl Strategy<Value = String> {
    let all: Vec<char> = DIFFICULT.chars().collect();
    prop::collection::vec(prop::sample::select(all), 0..24).prop_map(String::from_iter)
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![3 => difficult(), 1 => any::<String>(), 1 => "[a-c \\.]{0,24}", 1 => "[法轮功輪 。a]{0,16}"]
}

/// Every pattern, and a word that keeps its marks.
static PATTERNS: LazyLock<WordList> = LazyLock::new(|| {
    let lines = "!link\n!email\n!phone\n!contact\nab marks";
    WordList::compile(&ListOptions::default(), lines).expect("a list")
});

/// Words and patterns that overlap, all of which mask.
static MASKING: LazyLock<WordList> = LazyLock::new(|| {
    let options = ListOptions { action: Action::Mask, ..ListOptions::default() };
    WordList::compile(&options, "fuck\n法轮功\n*ab*\n!link\n!contact\n").expect("a list")
});

fn normal(text: &str, profile: Profile) -> Option<String> {
    Normaliser::default().normalise(text, profile).ok().map(str::to_owned)
}

/// `Normaliser::normalise`, over every character of Unicode alone.
#[test]
fn every_characters_normal_form_is_its_own() {
    let mut normaliser = Normaliser::default();
    for profile in PROFILES {
        for c in '\0'..=char::MAX {
            let once = normaliser.normalise(c.encode_utf8(&mut [0; 4]), profile).expect("short").to_owned();
            let twice = normaliser.normalise(&once, profile).expect("short");
            assert_eq!(twice, once, "{c:?} {profile:?}");
        }
    }
}

/// What was worked out by hand, with the profile that makes the difference.
#[test]
fn normal_forms_are_what_the_rules_say() {
    for (text, strict, marks) in [
        ("Ｆｕｃｋ", "fuck", "fuck"),
        ("Straße", "strasse", "strasse"),
        ("ΟΔΟΣ οδός", "οδοσ οδοσ", "οδοσ οδόσ"),
        ("Việt Nam", "viet nam", "việt nam"),
        ("Đụ", "du", "đụ"),
        ("a\u{323}\u{302}", "a", "ậ"),
        ("é \u{301}", "e", "é \u{301}"),
        ("法輪功", "法轮功", "法轮功"),
        ("ｶﾞｷﾞ", "ガギ", "ガギ"),
        ("하\u{11ab}글", "한글", "한글"),
        ("क\u{93c}लम \u{958}", "क\u{93c}लम क\u{93c}", "क\u{93c}लम क\u{93c}"),
        ("ก\u{200b}้า", "ก้า", "ก้า"),
        ("мой", "мой", "мой"),
        ("  a -- b  ", "a b", "a b"),
        ("①２三", "12三", "12三"),
        ("🇨🇳x", "cn x", "cn x"),
        ("ﷺ", "صلى الله عليه وسلم", "صلى الله عليه وسلم"),
        ("\u{200b}\u{202e}", "", ""),
    ] {
        assert_eq!(normal(text, Profile::Strict).as_deref(), Some(strict), "{text:?}");
        assert_eq!(normal(text, Profile::Marks).as_deref(), Some(marks), "{text:?}");
    }
}

/// `TooMuch`, at its bounds.
#[test]
fn a_text_that_is_long_or_grows_is_not_looked_at() {
    let too_much = |text: &str| Normaliser::default().normalise(text, Profile::Strict).is_err();
    assert!(!too_much("ﷺ"), "one blessing is a comment");
    assert!(too_much(&"ﷺ".repeat(12)));
    assert!(!too_much(&"a".repeat(TEXT_BYTES_MAX)));
    assert!(too_much(&"a".repeat(TEXT_BYTES_MAX + 1)));
    // 33 bytes from 3: padded until it is just within four times.
    let padded = |spaces: usize| "ﷺ".repeat(12) + &" ".repeat(spaces);
    let bound = (0..).find(|spaces| 12 * 33 + spaces <= GROWTH_MAX * (12 * 3 + spaces)).expect("some");
    assert!(too_much(&padded(bound - 1)) && !too_much(&padded(bound)));
    // A list has the last word over no text it could not look at.
    let list = WordList::compile(&ListOptions::default(), "fuck\n").expect("a list");
    let error = Screen::default().screen(&"ﷺ".repeat(12), &[Watch::enforce(&list)]).expect_err("grows");
    assert!(error.to_string().contains("4096"), "{error}");
}

/// Marks beyond what Unicode calls sane are dropped, and ordering them takes no time that grows.
#[test]
fn a_tower_of_marks_settles() {
    let tower = format!("f{}uck", "\u{301}\u{323}".repeat(900));
    assert_eq!(normal(&tower, Profile::Strict).as_deref(), Some("fuck"));
    let kept = normal(&tower, Profile::Marks).expect("short enough");
    assert_eq!(normal(&kept, Profile::Marks).as_deref(), Some(&*kept));
}

/// A verdict as the reference sees it: whether a word stands in the text whole.
///
/// Texts and words of the small alphabet only: no case, no width, no repeats of three, no separators but
/// spaces between words, so that the definition fits into three lines.
fn reference(words: &[String], text: &str) -> bool {
    text.split(' ').any(|token| words.iter().any(|word| word == token))
}

fn compile(words: &[String], suffix: &str, options: &ListOptions<'_>) -> WordList {
    let lines: Vec<String> = words.iter().map(|word| format!("{word}{suffix}")).collect();
    WordList::compile(options, &lines.join("\n")).expect("a list")
}

proptest! {
    #![proptest_config(cases(512))]

    #[test]
    fn a_normal_form_is_its_own_normal_form(text in texts()) {
        for profile in PROFILES {
            if let Some(once) = normal(&text, profile) {
                prop_assert_eq!(normal(&once, profile), Some(once.clone()), "{:?}", profile);
            }
        }
    }

    #[test]
    fn invisible_characters_and_case_never_change_a_verdict(text in "[a-e ]{0,16}", at in 0_usize..16) {
        let list = compile(&["abc".into(), "ade".into()], "", &ListOptions::default());
        let mut screen = Screen::default();
        let plain = matches!(screen.screen(&text, &[Watch::enforce(&list)]), Ok(Verdict::Drop(_)));
        let (left, right) = text.split_at(at.min(text.len()));
        let hidden = format!("{}\u{200b}\u{2060}{right}", left.to_uppercase());
        let disguised = matches!(screen.screen(&hidden, &[Watch::enforce(&list)]), Ok(Verdict::Drop(_)));
        prop_assert_eq!(plain, disguised);
    }

    #[test]
    fn whole_words_are_found_as_a_naive_matcher_finds_them(
        // Tokens of two letters and more, so that nothing is spelled out.
        words in prop::collection::vec("[abcd]{2,3}", 1..30),
        text in "[abcd]{2,4}( [abcd]{2,4}){0,3}",
    ) {
        let drawn_out = |text: &str| {
            let letters: Vec<char> = text.chars().collect();
            letters.windows(2).filter(|pair| pair[0] == pair[1]).count() > 1
        };
        prop_assume!(!drawn_out(&text.replace(' ', "")));
        let list = compile(&words, "", &ListOptions::default());
        let mut screen = Screen::default();
        let found = screen.screen(&text, &[Watch::enforce(&list)]).expect("short") != Verdict::Pass;
        prop_assert_eq!(found, reference(&words, &text));
    }

    #[test]
    fn open_and_chinese_words_are_found_wherever_they_stand(
        words in prop::collection::vec("[天地人]{2,4}", 1..5),
        text in "[天地人]{0,10}",
    ) {
        let doubled = |text: &str| {
            let letters: Vec<char> = text.chars().collect();
            letters.windows(2).any(|pair| pair[0] == pair[1])
        };
        prop_assume!(!doubled(&text));
        let latin = |text: &str| text.replace('天', "x").replace('地', "y").replace('人', "z");
        let expected = words.iter().any(|word| text.contains(word.as_str()));
        let open: Vec<String> = words.iter().map(|word| format!("*{}*", latin(word))).collect();
        let mut screen = Screen::default();
        for (words, text) in [(&words, text.clone()), (&open, latin(&text))] {
            let list = compile(words, "", &ListOptions::default());
            let found = screen.screen(&text, &[Watch::enforce(&list)]).expect("short") != Verdict::Pass;
            prop_assert_eq!(found, expected, "{} {:?}", text, words);
        }
    }

    #[test]
    fn masks_are_whole_characters_in_order_and_leave_the_rest_alone(
        before in texts(), word in "[fF]\u{301}{0,2}[\u{200b}.*]?u[cсｃ]\u{200d}?k", after in texts(),
    ) {
        let text = format!("{before} {word}\u{301} {after}");
        let mut screen = Screen::default();
        match screen.screen(&text, &[Watch::enforce(&MASKING)]) {
            Ok(Verdict::Mask(ranges)) => {
                prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start), "{:?}", ranges);
                for bound in ranges.iter().flat_map(|range| [range.start, range.end]) {
                    let mut cursor = GraphemeCursor::new(bound, text.len(), true);
                    prop_assert_eq!(cursor.is_boundary(&text, 0), Ok(true), "{:?} {}", text, bound);
                }
                let masked = mask(&text, ranges, '*');
                let mut rest = &*masked;
                let mut from = 0;
                for range in ranges {
                    rest = rest.strip_prefix(&text[from..range.start]).expect("untouched");
                    rest = rest.trim_start_matches('*');
                    from = range.end;
                    // A star of the text itself may have gone with those of the mask.
                    from += text[from..].len() - text[from..].trim_start_matches('*').len();
                }
                prop_assert_eq!(rest, &text[from..]);
            }
            Ok(other) => prop_assert!(false, "{:?} {:?}", text, other),
            Err(_) => prop_assert!(text.chars().count() > 4),
        }
    }
}

proptest! {
    // Three lists are compiled in every case.
    #![proptest_config(cases(64))]

    #[test]
    fn no_list_and_no_text_panics(list in texts(), more in texts(), text in texts()) {
        let lines = format!("{list}\n*{more}*\n{list} hold marks\nab\nfuck\n!link\n!email\n!phone\n!contact mask");
        let options = ListOptions { action: Action::Mask, ..ListOptions::default() };
        let compiled = WordList::compile(&options, &lines).or_else(|_| WordList::compile(&options, &list));
        let mut screen = Screen::default();
        for text in [&text, &format!("{text} w w w . x . c o m 加v {more}1 @{text}"), &list] {
            let mut watches = vec![Watch::observe(&PATTERNS)];
            watches.extend(compiled.as_ref().ok().map(Watch::enforce));
            if let Ok(Verdict::Mask(ranges)) = screen.screen(text, &watches) {
                let ranges = ranges.to_vec();
                prop_assert!(ranges.iter().all(|range| text.get(range.clone()).is_some()));
                mask(text, &ranges, '＊');
            }
            for hit in screen.hits() {
                prop_assert!(text.get(hit.range.clone()).is_some());
            }
        }
    }
}
