//! Comments that are held: by a word list for a moderator, or by the room's delay. They have no number before they are
//! let out, and each is let out, refused or dropped once.

use std::collections::BTreeMap;
use std::sync::Arc;

use danmaku_room::Now;
use danmaku_room::admission::words::Words;
use danmaku_room::admission::worker_gate::WorkerGate;
use danmaku_room::admission::{Limits, Standing};
use danmaku_room::owner::held::{Bounds, Reason};
use danmaku_room::owner::{Config, Fate, Owner};
use danmaku_room::store::{Durability, Loaded};
use danmaku_wire::entry::{Author, Body, Mode, Role};
use danmaku_wire::id::{RoomId, UserId};
use danmaku_wire::native::{ErrorCode, Send};
use danmaku_wire::position::Epoch;
use danmaku_words::{ListOptions, WordList};
use proptest::prelude::*;

const MS: u64 = 1_000;

fn owner(held: Bounds) -> Owner<()> {
    let list = WordList::compile(&ListOptions::default(), "bet hold\npyramid shadow\n").expect("a list");
    let limits = Limits { user: None, room: None, words: Words::new([Arc::new(list)]), ..Limits::default() };
    let config = Config { limits, held, durability: Durability::Memory, ..Config::default() };
    let (room, epoch) = (RoomId::parse("r").expect("valid"), Epoch::parse("e1").expect("valid"));
    Owner::start(room, epoch, Loaded::default(), config, at(0))
}

fn at(us: u64) -> Now {
    Now { us: 1_000_000 + us, wall_ms: 1_700_000_000_000 + us / 1_000 }
}

fn say(owner: &mut Owner<()>, us: u64, role: Role, id: &str, text: &str) -> Fate {
    let user = UserId::parse("u").expect("valid");
    let user = Arc::new(Author { id: user, name: "".into(), role, level: 0, badges: Vec::new() });
    let send = Send { id, text, mode: Mode::Scroll, color: 0, size: 25, stream_ms: None, traceparent: "" };
    owner.publish(&mut WorkerGate::default(), at(us), &user, Standing::default(), &send, || ())
}

/// Texts with their numbers that were released since this was last asked.
fn released(owner: &mut Owner<()>) -> Vec<(u64, String)> {
    let text = |body: &Body| match body {
        Body::Comment(comment) => comment.text.to_string(),
        other => panic!("{other:?}"),
    };
    let append = owner.take_append();
    if let Some(last) = append.as_ref().and_then(|append| append.entries.last()) {
        owner.progress(last.seq, 0, &mut Vec::new());
    }
    append.iter().flat_map(|append| &append.entries).map(|entry| (entry.seq, text(&entry.body))).collect()
}

/// `publish`, `held`, `let_out`, `reject`, `age`: every way out of the queue, once each, and the answer to a retry.
#[test]
fn a_comment_for_review_is_let_out_refused_or_dropped_once() {
    let mut owner = owner(Bounds { review_us: 1_000 * MS, ..Bounds::default() });
    for id in ["a", "b", "c"] {
        assert_eq!(say(&mut owner, 0, Role::Viewer, id, &format!("bet {id}")), Fate::Held);
        assert_eq!(say(&mut owner, 1, Role::Viewer, id, &format!("bet {id}")), Fate::Held, "a retry");
    }
    assert_eq!(released(&mut owner), []);
    let news: Vec<_> = owner.take_held_news().iter().map(|held| (held.reason, held.number)).collect();
    let [a, b, c] = news[..] else { panic!("{news:?}") };
    assert_eq!((a.0, a.1 + 1, b.1 + 1), (Reason::Words, b.1, c.1));
    let queue: Vec<_> = owner.held(at(400 * MS)).map(|(held, left)| (held.number, left)).collect();
    assert_eq!(queue, [(a.1, 600), (b.1, 600), (c.1, 600)]);
    assert!(!owner.idle());
    assert_eq!(owner.let_out(at(500 * MS), b.1), Ok(Some(1)));
    assert_eq!(owner.let_out(at(500 * MS), b.1), Ok(None), "once");
    assert!(owner.reject(at(500 * MS), a.1) && !owner.reject(at(500 * MS), a.1));
    assert_eq!(owner.let_out(at(500 * MS), a.1), Ok(None));
    assert_eq!(owner.let_out(at(1_000 * MS), c.1), Ok(None), "its time is over");
    assert_eq!(released(&mut owner), [(1, "bet b".to_owned())]);
    assert_eq!(say(&mut owner, 1_000 * MS, Role::Viewer, "b", "bet b"), Fate::Held, "the same answer");
    let tally = owner.take_held_tally();
    assert_eq!((tally.held, tally.released, tally.rejected, tally.expired), (3, 1, 1, 1));
}

/// A full queue refuses with a true wait, and has cost its author nothing.
#[test]
fn a_full_queue_refuses_until_there_is_room() {
    let mut owner = owner(Bounds { review_max: 2, review_us: 900 * MS, delay_us: 100 * MS, delayed_max: 1 });
    let refusal = |fate: Fate| match fate {
        Fate::Refused(refusal) => (refusal.code, refusal.retry_after_ms),
        other => panic!("{other:?}"),
    };
    for id in ["a", "b"] {
        assert_eq!(say(&mut owner, 0, Role::Viewer, id, "bet"), Fate::Held);
    }
    let full = say(&mut owner, 100 * MS, Role::Viewer, "c", "bet");
    assert_eq!(refusal(full), (ErrorCode::Overloaded, Some(800)));
    assert_eq!(say(&mut owner, 100 * MS, Role::Viewer, "d", "fine"), Fate::Held);
    let full = say(&mut owner, 150 * MS, Role::Viewer, "e", "fine");
    assert_eq!(refusal(full), (ErrorCode::Overloaded, Some(50)));
    owner.age(at(900 * MS));
    assert_eq!(say(&mut owner, 900 * MS, Role::Viewer, "c", "bet"), Fate::Held);
}

/// The delay is the crowd's: VIPs and those who keep order are shown at once, and nobody's order changes among the rest.
#[test]
fn the_crowd_is_delayed_and_nobody_else() {
    let mut owner = owner(Bounds { delay_us: 200 * MS, ..Bounds::default() });
    assert_eq!(say(&mut owner, 0, Role::Viewer, "a", "one"), Fate::Held);
    assert_eq!(say(&mut owner, 50 * MS, Role::Viewer, "b", "my pyramid"), Fate::Held, "a shadow too");
    assert_eq!(say(&mut owner, 60 * MS, Role::Vip, "c", "vip"), Fate::Accepted { seq: 1 });
    assert_eq!(say(&mut owner, 60 * MS, Role::Moderator, "d", "mod"), Fate::Accepted { seq: 2 });
    assert_eq!(owner.release_due_us(), Some(at(200 * MS).us));
    owner.release_due(at(199 * MS), false);
    assert_eq!(released(&mut owner).len(), 2);
    owner.release_due(at(200 * MS), false);
    assert_eq!(released(&mut owner), [(3, "one".to_owned())]);
    let told: Vec<_> = owner.take_held_news().iter().map(|held| (held.reason, held.release_in_ms)).collect();
    assert_eq!(told, [(Reason::Delay, Some(200)); 2]);
    owner.release_due(at(201 * MS), true);
    assert_eq!(released(&mut owner), [(4, "my pyramid".to_owned())], "at once, where the owner ends");
    assert!(owner.release_due_us().is_none());
}

#[derive(Debug, Clone)]
enum Op {
    Say(bool),
    LetOut(usize),
    Reject(usize),
    Wait(u64),
    Delay(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => any::<bool>().prop_map(Op::Say),
        1 => (0usize..8).prop_map(Op::LetOut),
        1 => (0usize..8).prop_map(Op::Reject),
        3 => (0u64..400).prop_map(Op::Wait),
        1 => (0u64..300).prop_map(Op::Delay),
    ];
    prop::collection::vec(op, 1..80)
}

proptest! {
    /// Whatever happens in whatever order: every comment that was held comes out at most once, the delayed ones all and in
    /// their order, the bounds are kept, and what is in the queue is what was neither let out, refused nor too old.
    #[test]
    fn every_held_comment_has_one_end(ops in ops()) {
        let mut bounds = Bounds { delay_us: 100 * MS, delayed_max: 5, review_us: 600 * MS, review_max: 4 };
        let mut owner = owner(bounds);
        let (mut us, mut said) = (0, 0u32);
        // By number: the text and when it is dropped.
        let mut review: BTreeMap<u64, (String, u64)> = BTreeMap::new();
        let (mut delayed, mut out): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        let mut come = Vec::new();
        for op in ops {
            match op {
                Op::Say(word) => {
                    said += 1;
                    let text = if word { format!("bet {said}") } else { format!("fine {said}") };
                    let fate = say(&mut owner, us, Role::Viewer, &said.to_string(), &text);
                    for news in owner.take_held_news() {
                        let text = news.comment.text.to_string();
                        match news.reason {
                            Reason::Words => drop(review.insert(news.number, (text, us + bounds.review_us))),
                            _ => delayed.push(text),
                        }
                    }
                    match fate {
                        Fate::Accepted { .. } => prop_assert_eq!(bounds.delay_us, 0),
                        Fate::Held => {}
                        Fate::Refused(refusal) => prop_assert_eq!(refusal.code, ErrorCode::Overloaded),
                        Fate::Pending => prop_assert!(false, "nothing waits for this store"),
                    }
                }
                Op::LetOut(n) | Op::Reject(n) => {
                    let number = review.keys().nth(n).copied();
                    let known = number.and_then(|number| review.remove(&number));
                    let lives = known.as_ref().is_some_and(|(_, ends)| us < *ends);
                    let number = number.unwrap_or(7);
                    if matches!(op, Op::LetOut(_)) {
                        prop_assert_eq!(owner.let_out(at(us), number).expect("room").is_some(), lives);
                        out.extend(known.filter(|_| lives).map(|(text, _)| text));
                    } else {
                        prop_assert_eq!(owner.reject(at(us), number), lives);
                    }
                }
                Op::Wait(ms) => us += ms * MS,
                Op::Delay(ms) => {
                    bounds.delay_us = ms * MS;
                    let config = owner.config().clone();
                    owner.reconfigure(Config { held: bounds, ..config });
                }
            }
            owner.release_due(at(us), false);
            owner.age(at(us));
            review.retain(|_, (_, ends)| us < *ends);
            come.extend(released(&mut owner).into_iter().map(|(_, text)| text));
            let held: Vec<_> = owner.held(at(us)).map(|(held, _)| held.number).collect();
            prop_assert_eq!(&held, &review.keys().copied().collect::<Vec<_>>());
            prop_assert!(held.len() <= 4 && owner.held_count().1 <= 5);
        }
        owner.release_due(at(us), true);
        come.extend(released(&mut owner).into_iter().map(|(_, text)| text));
        let of = |list: &[String], word: &str| -> Vec<String> {
            list.iter().filter(|text| text.starts_with(word)).cloned().collect()
        };
        prop_assert_eq!(of(&come, "bet"), out, "let out, in that order");
        let shown = of(&come, "fine");
        let mut wait = delayed.iter();
        prop_assert!(delayed.iter().all(|text| shown.iter().filter(|s| *s == text).count() == 1));
        prop_assert!(shown.iter().filter(|text| delayed.contains(text)).all(|text| wait.next() == Some(text)));
    }
}
