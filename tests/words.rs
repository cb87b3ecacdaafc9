//! Word lists on the wire: what they refuse, cover and hide, in which rooms, and how they are read again.

#[path = "support/person.rs"]
mod person;
#[path = "support/raw_socket.rs"]
mod raw_socket;
mod support;

use std::fs::File;
use std::process::Command;

use person::{Person, start};
use rustix::process::Signal;
use serde_json::Value;
use support::{Scratch, Server, until};

const LIST: &str = "# words of the platform\nscum\nspoiler mask\nbet hold\npyramid shadow\n!link drop\n";

fn counted(server: &Server, family: &str) -> u64 {
    let rule = "words";
    server.metric(&format!("danmaku_rule_{family}_total{{rule=\"{rule}\"}}"))
}

fn is_filtered(fate: &Value) {
    assert_eq!(fate["code"], "filtered_word", "{fate}");
    assert!(fate["message"].as_str().unwrap_or_default().ends_with("Rule: words."), "{fate}");
    assert!(fate["retryAfterMs"].is_null(), "{fate}");
}

/// `drop` refuses by name, whatever the disguise, and nobody hears of it; `mask` covers; `shadow` is taken like any
/// other and shown to nobody else. Everything else passes.
#[test]
fn lists_refuse_cover_and_hide() {
    let scratch = Scratch::new();
    let list = scratch.file("words.txt", LIST);
    let server = start(&[("WORDS__LISTS", &format!("[{list:?}]"))]);
    let (mut guest, mut witness) = (Person::guest(&server, "r1"), Person::guest(&server, "r1"));
    for text in ["scum", "you S.C.U.M", "ｓｃｕｍ!", "see www.example.com"] {
        is_filtered(&guest.says(text));
    }
    let covered = guest.says_well("a spoiler here");
    let shadowed = guest.says_well("join my pyramid");
    let shown = guest.says_well("scummy Essex is fine");
    assert_eq!((shadowed, shown), (covered + 1, covered + 2), "a shadow has a number like any other");
    witness.hears("Essex");
    assert!(witness.has_heard("\"a ******* here\""), "{:?}", witness.heard);
    for hidden in ["scum\"", "S.C.U.M", "example.com", "spoiler", "pyramid"] {
        assert!(!witness.has_heard(hidden), "{hidden}: {:?}", witness.heard);
    }
    let mut late = Person::guest(&server, "r1");
    late.says_well("late");
    assert!(late.has_heard("Essex") && !late.has_heard("pyramid"), "{:?}", late.heard);
    until("what they did is counted", || {
        let done = |what| server.metric(&format!("danmaku_{what}_total"));
        (counted(&server, "refused"), done("texts_masked"), done("texts_shadowed")) == (4, 1, 1)
    });
    assert_eq!(server.metric("danmaku_published_total"), 4);
    until("the lists are measured", || server.metric("danmaku_word_rules") == 5);
    assert!(server.metric("danmaku_word_bytes") > 0);
}

/// The modes of the rule: what it would do is counted, or not even looked for.
#[test]
fn lists_that_observe_or_are_off_refuse_nothing() {
    let scratch = Scratch::new();
    let list = scratch.file("words.txt", LIST);
    for (mode, observed) in [("observe", 3), ("off", 0)] {
        let server = start(&[("WORDS__LISTS", &format!("[{list:?}]")), ("WORDS__WORD_MODE", mode)]);
        let (mut guest, mut witness) = (Person::guest(&server, "r1"), Person::guest(&server, "r1"));
        for text in ["scum", "a spoiler", "a pyramid"] {
            guest.says_well(text);
            witness.hears(text);
        }
        until("it is counted", || {
            counted(&server, "observed") == observed && counted(&server, "refused") == 0
        });
    }
}

/// Lists of all rooms and of a class of rooms, each with an action and a profile of its own.
#[test]
fn a_class_of_rooms_has_further_lists() {
    let scratch = Scratch::new();
    let (all, shop) = (scratch.file("all.txt", "scum\n"), scratch.file("shop.txt", "cheaper\nlồn\n"));
    let rooms = format!(
        "[{{match = \"shop-*\", room_words = [{{path = {shop:?}, action = \"mask\", profile = \"marks\"}}]}}]"
    );
    let server = start(&[("WORDS__LISTS", &format!("[{all:?}]")), ("ROOMS", &rooms)]);
    let (mut shop, mut hall) = (Person::guest(&server, "shop-1"), Person::guest(&server, "hall"));
    is_filtered(&shop.says("scum"));
    is_filtered(&hall.says("scum"));
    shop.says_well("cheaper lồn lon");
    shop.hears("\"******* *** lon\"");
    hall.says_well("cheaper lồn");
    hall.hears("\"cheaper lồn\"");
}

/// Names: what is to be covered is covered, and one that is worse is left out.
#[test]
fn names_are_held_against_the_lists_too() {
    let scratch = Scratch::new();
    let list = scratch.file("words.txt", LIST);
    let server = start(&[("WORDS__LISTS", &format!("[{list:?}]"))]);
    let mut witness = Person::guest(&server, "r1");
    for (user, name, shown) in
        [("u1", "Ann", Some("Ann")), ("u2", "Spoiler Bob", Some("******* Bob")), ("u3", "s c u m", None)]
    {
        let mut person = Person::user(&server, "r1", user, &["--name", name]);
        person.says_well(&format!("I am {user}"));
        let batch = witness.hears(&format!("I am {user}"));
        let author = &batch["batch"]["items"][0]["user"];
        assert_eq!((author["id"].as_str(), author["name"].as_str()), (Some(user), shown), "{batch}");
    }
    until("it is counted", || server.metric("danmaku_names_hidden_total") == 2);
}

/// A list that changes is read again, for rooms there are; one that is wrong is told once, by its line, and the old one
/// stays. SIGHUP does the same, and takes other lists.
#[test]
fn a_changed_list_is_read_again_and_a_wrong_one_is_named_by_its_line() {
    let scratch = Scratch::new();
    let list = scratch.file("words.txt", "scum\n");
    let server = start(&[("WORDS__LISTS", &format!("[{list:?}]"))]);
    let mut guest = Person::guest(&server, "r1");
    is_filtered(&guest.says("scum"));
    guest.says_well("a bet");
    scratch.file("words.txt", "scum\nbet\n");
    until("the file was read again", || server.metric("danmaku_word_lists_read_total") == 1);
    until("the room has the new list", || guest.says("a bet")["code"] == "filtered_word");
    scratch.file("words.txt", "scum\n\nx\n");
    until("the wrong file was looked at", || server.metric("danmaku_word_lists_refused_total") == 1);
    let told = |words: &str| server.log().lines().filter(|line| line.contains(words)).count();
    assert_eq!(told("line 3"), 1, "{}", server.log());
    assert_eq!(told("the old ones stay"), 1, "{}", server.log());
    is_filtered(&guest.says("a bet"));
    server.signal(Signal::HUP);
    until("the hang-up was answered", || told("the running one stays") == 1);
    is_filtered(&guest.says("a bet"));
    scratch.file("words.txt", "other\n");
    until("the file was read again", || server.metric("danmaku_word_lists_read_total") == 2);
    until("the room has the new list", || guest.says("a bet")["code"].is_null());
    assert_eq!(told("the old ones stay"), 1, "told once: {}", server.log());
}

/// A server whose list cannot be used does not start, and says why.
#[test]
fn a_server_does_not_start_with_a_wrong_list() {
    let scratch = Scratch::new();
    let (list, log) = (scratch.file("words.txt", "fine\na*b\n"), scratch.0.join("log"));
    for (lists, words) in [
        (format!("[{list:?}]"), &["words.txt", "line 2", "a*b", "star"][..]),
        ("[\"no-such-file.txt\"]".to_owned(), &["no-such-file.txt", "No such file"]),
        ("[{path = \"x\", action = \"ban\"}]".to_owned(), &["words.lists.0", "\"ban\"", "\"shadow\""]),
        (format!("[{}]", ["\"a\""; 9].join(", ")), &["words.lists", "at most 8"]),
    ] {
        let status = Command::new(env!("CARGO_BIN_EXE_danmaku"))
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--data-dir"])
            .arg(scratch.0.join("data"))
            .env("DANMAKU__WORDS__LISTS", &lists)
            .stdout(File::create(scratch.0.join("out")).expect("a file"))
            .stderr(File::create(&log).expect("a file"))
            .status();
        assert!(!status.expect("it runs").success(), "{lists}");
        let told = std::fs::read_to_string(&log).expect("readable");
        let line = told.lines().find(|line| words.iter().all(|word| line.contains(word)));
        assert!(line.is_some(), "{lists}: {told}");
    }
}
