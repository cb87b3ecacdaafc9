//! Lists as moderators write them: what a line means, which one is refused and why, what an audit sees.

use danmaku_words::{
    Action, HITS_MAX, ListOptions, Profile, Reason, Screen, Verdict, WORD_LETTERS_MAX, Watch, WordList,
};

fn compile(text: &str) -> WordList {
    WordList::compile(&ListOptions::default(), text).expect("a list")
}

fn refused(text: &str) -> (usize, Reason, String) {
    let error = match WordList::compile(&ListOptions { name: "room r1", ..ListOptions::default() }, text) {
        Err(error) => error,
        Ok(_) => panic!("{text:?} was taken"),
    };
    (error.line, error.reason, error.to_string())
}

/// `WordList::compile` and `WordList::rule`, over every form of a line.
#[test]
fn a_line_is_a_word_an_action_and_a_profile() {
    let list = compile(
        "\u{feff}# insults\n\nfuck\nshit mask\nscum hold marks\ncafé marks drop # remark\n\"gas mask\" hold\n\
         drop dead\nmask drop\n*tard\n!link hold\n  trimmed\tmask  \n\"#tag\"\nC# code\npyramid shadow\n",
    );
    let rules = [
        (3, "fuck", Action::Drop, Profile::Strict),
        (4, "shit", Action::Mask, Profile::Strict),
        (5, "scum", Action::Hold, Profile::Marks),
        (6, "café", Action::Drop, Profile::Marks),
        (7, "gas mask", Action::Hold, Profile::Strict),
        (8, "drop dead", Action::Drop, Profile::Strict),
        (9, "mask", Action::Drop, Profile::Strict),
        (10, "*tard", Action::Drop, Profile::Strict),
        (11, "!link", Action::Hold, Profile::Strict),
        (12, "trimmed", Action::Mask, Profile::Strict),
        (13, "#tag", Action::Drop, Profile::Strict),
        (14, "C# code", Action::Drop, Profile::Strict),
        (15, "pyramid", Action::Shadow, Profile::Strict),
    ];
    assert_eq!((list.len(), list.merged(), list.is_empty(), list.name()), (rules.len(), 0, false, "words"));
    let mut seen = Vec::new();
    let mut screen = Screen::default();
    let texts = ["fuck shit scum café", "gas mask drop dead", "libtard x.com trimmed tag", "c# code pyramid"];
    for text in texts {
        screen.screen(text, &[Watch::observe(&list)]).expect("short");
        for hit in screen.hits() {
            let rule = list.rule(hit.rule).expect("of this list");
            seen.push((rule.line, rule.word.to_owned(), rule.action, rule.profile));
        }
    }
    seen.sort_by_key(|rule| rule.0);
    let expected: Vec<_> =
        rules.map(|(line, word, action, profile)| (line, word.to_owned(), action, profile)).into();
    assert_eq!(seen, expected);
}

/// Every `Reason` with its line; the message names list, line, word and what would be right.
#[test]
fn a_line_that_cannot_be_taken_is_named() {
    let long = "x".repeat(WORD_LETTERS_MAX + 1);
    let cases = [
        ("fuck\n\n*a*", 3, Reason::TooShort(1), "at least 2"),
        ("...", 1, Reason::TooShort(0), "at least 2"),
        ("e\u{301}", 1, Reason::TooShort(1), "at least 2"),
        (&long, 1, Reason::TooLong(WORD_LETTERS_MAX + 1), "at most 64"),
        ("f*ck", 1, Reason::InnerStar, "beginning or the end"),
        ("\"open", 1, Reason::OpenQuotation, "not closed"),
        ("\"word\" dorp", 1, Reason::BehindQuotation, "drop, shadow, hold, mask"),
        ("!links", 1, Reason::UnknownPattern, "!link, !email"),
    ];
    for (text, line, reason, hint) in cases {
        let (at, why, message) = refused(text);
        assert_eq!((at, why), (line, reason), "{text}");
        let cut: String = text.lines().next_back().unwrap_or_default().chars().take(64).collect();
        assert!(message.contains(hint) && message.contains("\"room r1\""), "{message}");
        assert!(
            message.contains(&format!("line {line}")) && message.contains(&format!("{cut:?}")),
            "{message}"
        );
    }
}

/// `ListOptions::words_max`, at its bound.
#[test]
fn a_list_has_no_more_words_than_it_may() {
    let options = ListOptions { words_max: 2, ..ListOptions::default() };
    assert!(WordList::compile(&options, "one\ntwo\nOne\n").is_ok(), "what is merged counts once");
    let error =
        WordList::compile(&options, "one\ntwo\nthree\n").err().map(|error| (error.line, error.reason));
    assert_eq!(error, Some((3, Reason::TooManyWords(2))));
}

/// Lines that are the same word once folded.
#[test]
fn the_same_word_twice_is_one_rule_with_the_severer_action() {
    let list = compile("Fuck mask\nｆｕｃｋ hold\nfück\nfuck*\nfuck marks\n");
    assert_eq!((list.len(), list.merged()), (3, 2));
    let mut screen = Screen::default();
    let Ok(Verdict::Drop(hit)) = screen.screen("fuck", &[Watch::enforce(&list)]) else { panic!("drops") };
    let rule = list.rule(hit.rule).expect("of this list");
    assert_eq!((rule.line, rule.word, rule.action), (1, "Fuck", Action::Drop));
}

/// Several lists and actions in one text.
#[test]
fn the_most_severe_finding_of_all_lists_decides() {
    let global = WordList::compile(
        &ListOptions { name: "global", ..ListOptions::default() },
        "bad mask\nawful hold\n",
    )
    .expect("a list");
    let room =
        WordList::compile(&ListOptions { name: "room", ..ListOptions::default() }, "worst drop\nugly mask\n")
            .expect("a list");
    let mut screen = Screen::default();
    let watches = [Watch::enforce(&global), Watch::enforce(&room)];
    assert_eq!(screen.screen("fine", &watches), Ok(Verdict::Pass));
    assert_eq!(screen.screen("bad and UGLY é", &watches), Ok(Verdict::Mask(&[0..3, 8..12])));
    let Ok(Verdict::Hold(hit)) = screen.screen("bad, awful", &watches) else { panic!("holds") };
    assert_eq!((hit.list, hit.range.clone(), hit.observed), (0, 5..10, false));
    let Ok(Verdict::Drop(hit)) = screen.screen("awful, the worst", &watches) else { panic!("drops") };
    assert_eq!((hit.list, room.rule(hit.rule).map(|rule| (rule.list, rule.line))), (1, Some(("room", 1))));
    assert_eq!(screen.hits().len(), 2);
}

/// `Watch::observe`.
#[test]
fn a_list_that_observes_is_heard_and_not_obeyed() {
    let list = compile("worst\n");
    let mut screen = Screen::default();
    assert_eq!(screen.screen("the worst", &[Watch::observe(&list)]), Ok(Verdict::Pass));
    assert!(matches!(screen.hits(), [hit] if hit.observed && hit.range == (4..9)));
    assert_eq!(screen.screen("fine", &[Watch::observe(&list)]), Ok(Verdict::Pass));
    assert_eq!(screen.hits(), []);
}

/// `HITS_MAX`: findings beyond it are not kept, and still covered.
#[test]
fn masks_and_verdicts_reach_beyond_the_findings_that_are_kept() {
    let options = ListOptions { action: Action::Mask, ..ListOptions::default() };
    let list = WordList::compile(&options, "bad\nworst drop\n").expect("a list");
    let mut screen = Screen::default();
    let many = "bad ".repeat(HITS_MAX + 6);
    match screen.screen(&many, &[Watch::enforce(&list)]) {
        Ok(Verdict::Mask(ranges)) => assert_eq!(ranges.len(), HITS_MAX + 6),
        other => panic!("{other:?}"),
    }
    assert_eq!(screen.hits().len(), HITS_MAX);
    let verdict = screen.screen(&(many + "worst"), &[Watch::enforce(&list)]);
    assert!(matches!(verdict, Ok(Verdict::Drop(_))), "{verdict:?}");
}

/// Patterns of two lists, with an action each.
#[test]
fn patterns_have_actions_and_ranges_like_words() {
    let options = ListOptions { action: Action::Mask, ..ListOptions::default() };
    let list = WordList::compile(&options, "!link\n!phone\n!link hold\n").expect("a list");
    assert_eq!((list.len(), list.merged()), (2, 1));
    let mut screen = Screen::default();
    let text = "ring 138 0013 8000, now";
    assert_eq!(
        screen.screen(text, &[Watch::enforce(&list)]),
        Ok(Verdict::Mask(std::slice::from_ref(&(5..18))))
    );
    let Ok(Verdict::Hold(hit)) = screen.screen("see a.b.com/c/d, ok", &[Watch::enforce(&list)]) else {
        panic!("holds")
    };
    assert_eq!(hit.range, 6..15);
}

/// A list without lines, and no list.
#[test]
fn an_empty_list_says_nothing() {
    let list = compile("# nothing\n\n");
    assert!(list.is_empty() && list.heap_bytes() == 0);
    let mut screen = Screen::default();
    assert_eq!(screen.screen("anything", &[Watch::enforce(&list)]), Ok(Verdict::Pass));
    assert_eq!(screen.screen("anything", &[]), Ok(Verdict::Pass));
}
