//! Word lists on the wire: what they refuse, cover and hide, in which rooms, and how they are read again.

#[path = "support/exchange.rs"]
mod exchange;
#[path = "support/person.rs"]
mod person;
#[path = "support/raw_socket.rs"]
mod raw_socket;
mod support;

use std::fs::File;
use std::process::Command;

use exchange::{Answer, Exchange};
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

/// A request about a list by the key of the first start, or by a token.
fn ask(server: &Server, method: &str, path: &str, shown: &str, more: &str, body: &str) -> Answer {
    let authorization = format!("Authorization: Bearer {shown}");
    let request = format!(
        "{method} /api/v1/{path} HTTP/1.1\r\nHost: {}\r\n{authorization}\r\n{more}Content-Length: {}\r\n\r\n{body}",
        server.address,
        body.len()
    );
    Exchange::new(server.address).send(request).answer()
}

/// Every refusal is told, one by one.
const PATIENT: (&str, &str) = ("WEBSOCKET__ERRORS_PER_S", "1000");
const JSON: &str = "Content-Type: application/json\r\n";

/// A list that is written over HTTP holds with its answer: in all rooms, or in one, beside the lists of files. The process that
/// takes over has it, and who wrote it is in the audit.
#[test]
fn a_written_list_holds_at_once_and_for_the_next_process() {
    let scratch = Scratch::new();
    let list = scratch.file("words.txt", "scum\n");
    let lists = format!("[{list:?}]");
    let server = start(&[("WORDS__LISTS", &lists), PATIENT]);
    let key = server.staff_key();
    let (mut one, mut other) = (Person::guest(&server, "r1"), Person::guest(&server, "r2"));
    one.says_well("加V信 please");
    let written = ask(&server, "PUT", "words", &key, "", "# platform\n加V信\nspoiler mask\n");
    assert_eq!(
        (written.status, written.json()["text"].as_str()),
        (200, Some("# platform\n加V信\nspoiler mask\n"))
    );
    for text in ["加V信 now", "加\u{200b}V\u{200b}信 now", "加Ｖ信 now", "scum"] {
        is_filtered(&one.says(text));
        is_filtered(&other.says(text));
    }
    let edit = r#"{"add":["bet"],"remove":["spoiler"]}"#;
    let here = ask(&server, "PATCH", "rooms/r1/words", &key, JSON, r#"{"add":["bet"]}"#);
    assert_eq!((here.status, here.json()["text"].as_str()), (200, Some("bet\n")));
    is_filtered(&one.says("a bet"));
    is_filtered(&one.says("scum"));
    other.says_well("a bet");
    let all = ask(&server, "PATCH", "words", &key, JSON, edit);
    assert_eq!(all.json()["text"], "# platform\n加V信\nbet\n");
    is_filtered(&other.says("a bet"));
    let mut witness = Person::guest(&server, "r2");
    other.says_well("a spoiler");
    witness.hears("a spoiler");
    // The file is read again: what was written stays.
    scratch.file("words.txt", "scam\n");
    until("the file was read again", || server.metric("danmaku_word_lists_read_total") == 1);
    until("the rooms have the new list", || one.says("scam again")["code"] == "filtered_word");
    is_filtered(&one.says("加V信"));
    server.signal(Signal::HUP);
    let told = |server: &Server| server.log().matches("configuration reloaded").count();
    until("the hang-up was answered", || told(&server) == 1);
    is_filtered(&one.says("加V信"));
    let environment = person::environment(&[("WORDS__LISTS", &lists), PATIENT]);
    let environment: Vec<_> = environment.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let server = server.replace(&["--workers", "2"], &environment);
    let (mut one, mut other) = (Person::guest(&server, "r1"), Person::guest(&server, "r2"));
    for text in ["加V信", "bet", "scam"] {
        is_filtered(&one.says(text));
        is_filtered(&other.says(text));
    }
    let gone = ask(&server, "DELETE", "words", &key, "", "");
    assert_eq!((gone.status, gone.json()["text"].as_str()), (200, Some("")));
    other.says_well("加V信 bet");
    is_filtered(&one.says("bet"));
    let audit = ask(&server, "GET", "audit", &key, "", "").json();
    let record = &audit["items"][0];
    assert_eq!(
        (record["action"].as_str(), record["outcome"].as_str()),
        (Some("words"), Some("done")),
        "{audit}"
    );
}

/// Who may write which list; what is wrong is named by its line and changes nothing; a list that somebody else changed is
/// not written over.
#[test]
fn written_lists_are_for_who_may_and_refused_by_their_lines() {
    let server = start(&[]);
    let key = server.staff_key();
    let token = |user: &str, role: &str| person::token(user, &["--role", role, "--global"]);
    for (role, own, every) in
        [("viewer", 403, 403), ("moderator", 403, 403), ("streamer", 200, 403), ("staff", 200, 200)]
    {
        let shown = token(role, role);
        for (path, status) in [("rooms/r1/words", own), ("words", every)] {
            for (method, body) in [("GET", ""), ("PUT", "scum\n")] {
                let answer = ask(&server, method, path, &shown, "", body);
                assert_eq!(answer.status, status, "{role} {method} {path}: {answer:?}");
            }
        }
    }
    assert_eq!(ask(&server, "PUT", "words", "dk_no_key", "", "scum").status, 401);
    let wrong = ask(&server, "PUT", "words", &key, "", "fine\na*b\n");
    assert_eq!((wrong.status, wrong.code()), (400, "words_invalid".to_owned()));
    assert!(wrong.body.contains("line 2"), "{wrong:?}");
    assert_eq!(ask(&server, "PUT", "rooms/a%20b/words", &key, "", "scum").status, 400);
    assert_eq!(ask(&server, "PUT", "words", &key, JSON, "{}").status, 415);
    assert_eq!(ask(&server, "POST", "words", &key, "", "").status, 405);
    let seen = ask(&server, "GET", "words", &key, "", "");
    assert_eq!(seen.json()["text"], "scum\n");
    let tag = format!("If-Match: {}\r\n", seen.header("etag").expect("a tag"));
    assert_eq!(ask(&server, "PUT", "words", &key, &tag, "first\n").status, 200);
    let late = ask(&server, "PUT", "words", &key, &tag, "second\n");
    assert_eq!((late.status, late.code()), (412, "precondition_failed".to_owned()));
    assert_eq!(ask(&server, "GET", "words", &key, "", "").json()["text"], "first\n");
}

/// `words.written_bytes_max` and `words.written_rooms_max`: what is above them is refused, and counted.
#[test]
fn written_lists_are_bounded_in_all_and_by_room() {
    let server = start(&[("WORDS__WRITTEN_BYTES_MAX", "1KiB"), ("WORDS__WRITTEN_ROOMS_MAX", "1")]);
    let key = server.staff_key();
    let half = "word\n".repeat(120);
    assert_eq!(ask(&server, "PUT", "words", &key, "", &half).status, 200);
    for (path, body) in [("rooms/r1/words", half.clone()), ("words", half.repeat(2))] {
        let long = ask(&server, "PUT", path, &key, "", &body);
        assert_eq!((long.status, long.code()), (413, "too_long".to_owned()), "{path}");
        assert!(long.body.contains("words.written_bytes_max"), "{long:?}");
    }
    assert_eq!(ask(&server, "PUT", "rooms/r1/words", &key, "", "scum").status, 200);
    let many = ask(&server, "PUT", "rooms/r2/words", &key, "", "scum");
    assert_eq!((many.status, many.code()), (409, "too_many_rooms".to_owned()));
    let met = |limit: &str| server.metric(&format!("danmaku_limit_met_total{{limit=\"{limit}\"}}"));
    until("both are counted", || (met("written_word_bytes"), met("written_word_rooms")) == (2, 1));
}
