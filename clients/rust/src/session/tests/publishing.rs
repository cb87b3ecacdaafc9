//! The fate of comments.

use super::*;
use crate::outbox::AckState;

impl World {
    fn publish(&mut self, text: &str) -> Ticket {
        self.with(|session, now| session.send(now, text, &SendOptions::default())).expect("there is room")
    }

    /// Takes the one message that was sent, and gives it with its id.
    fn comment(&mut self) -> (String, String) {
        let [message] = &self.sent()[..] else { panic!("not one message") };
        let value: serde_json::Value = serde_json::from_str(message).expect("JSON");
        (message.clone(), value["send"]["id"].as_str().expect("an id").to_owned())
    }

    fn refuse(&mut self, id: &str, rest: &str) {
        self.say(&format!(r#"{{"error":{{"id":"{id}","message":"",{rest}}}}}"#));
    }

    fn come_back(&mut self) {
        self.drop_connection();
        self.pass(SECOND);
        self.connect();
        self.say(r#"{"joined":{"room":"r1","epoch":"7-k2","seq":41,"recovered":true}}"#);
    }
}

/// An unanswered comment goes out again, byte for byte, on the next connection, and is settled once.
#[test]
fn an_unanswered_comment_goes_out_again_with_the_same_id() {
    let mut world = World::joined(|_| {});
    let ticket = world.publish("hello");
    let first = world.comment();
    world.come_back();
    assert_eq!(world.comment(), first);
    for _ in 0..2 {
        world.say(&format!(r#"{{"ack":{{"id":"{}","seq":42}}}}"#, first.1));
    }
    let ack = Ack { id: first.1, state: AckState::Accepted, seq: Some(42), epoch: Some("7-k2".into()) };
    assert_eq!(world.fates, [(ticket, Ok(ack))]);
}

/// Comments wait for a joined room, and go out in their order.
#[test]
fn comments_wait_for_the_room() {
    let mut world = World::new(|_| {});
    for text in ["a", "b"] {
        world.publish(text);
    }
    world.connect();
    assert!(world.actions.is_empty());
    world.say(r#"{"joined":{"room":"r1","epoch":"7-k2","seq":41}}"#);
    let sent = world.sent();
    assert!(sent[0].contains(r#""text":"a""#) && sent[1].contains(r#""text":"b""#), "{sent:?}");
}

/// Held and folded comments, and one with a number of another epoch.
#[test]
fn an_ack_says_what_became_of_a_comment() {
    let mut world = World::joined(|_| {});
    for (fields, state, seq, epoch) in [
        (r#""state":"held""#, AckState::Held, None, None),
        (r#""state":"folded","seq":40"#, AckState::Folded, Some(40), Some("7-k2")),
        (r#""seq":12,"epoch":"6-k2""#, AckState::Accepted, Some(12), Some("6-k2")),
    ] {
        let ticket = world.publish("hello");
        let (_, id) = world.comment();
        world.say(&format!(r#"{{"ack":{{"id":"{id}",{fields}}}}}"#));
        let ack = Ack { id, state, seq, epoch: epoch.map(Into::into) };
        assert_eq!(world.fates.pop(), Some((ticket, Ok(ack))));
    }
}

/// A refusal that is about the comment reaches the caller, with the time after which another try makes sense.
#[test]
fn a_refusal_reaches_the_caller() {
    let mut world = World::joined(|_| {});
    world.publish("hello");
    let (_, id) = world.comment();
    world.refuse(&id, r#""code":"rate_limited","retryAfterMs":480"#);
    let Some((_, Err(PublishError::Refused(refusal)))) = world.fates.pop() else { panic!("no refusal") };
    assert!(refusal.is_retryable());
    assert_eq!(refusal.retry_after, Some(480 * MS));
    world.pass(10 * SECOND);
    assert!(world.sent().is_empty(), "nothing is tried again by itself");
}

/// A refusal that is about the moment is tried again after the server's time, and given up at the end.
#[test]
fn a_refusal_of_the_moment_is_tried_again() {
    let mut world = World::joined(|_| {});
    let ticket = world.publish("hello");
    let (message, id) = world.comment();
    world.refuse(&id, r#""code":"not_owner","retryAfterMs":700"#);
    world.pass(699 * MS);
    assert!(world.actions.is_empty());
    world.pass(MS);
    assert_eq!(world.sent().pop().as_ref(), Some(&message));
    world.refuse(&id, r#""code":"overloaded""#);
    world.pass(SECOND);
    assert_eq!(world.sent(), [message], "without a time of the server's, one is chosen here");
    world.refuse(&id, r#""code":"internal","retryAfterMs":60000"#);
    assert!(matches!(&world.fates[..], [(t, Err(PublishError::Refused(_)))] if *t == ticket));
}

/// Among errors that are only counted may be a comment's: it is asked about again with the same id.
#[test]
fn a_comment_whose_answer_may_be_among_many_is_asked_about_again() {
    let mut world = World::joined(|_| {});
    world.publish("hello");
    let (message, _) = world.comment();
    world.say(r#"{"error":{"code":"too_many_errors","message":"","count":3}}"#);
    assert!(world.actions.is_empty());
    world.pass(SECOND);
    assert_eq!(world.sent(), [message]);
    world.pass(10 * SECOND);
    assert!(world.sent().is_empty());
}

/// No answer in the time that an id is good for, with and without a connection.
#[test]
fn a_comment_without_an_answer_expires() {
    for connected in [true, false] {
        let mut world = World::joined(|options| options.ask_after = 1_000 * SECOND);
        let ticket = world.publish("hello");
        if !connected {
            world.drop_connection();
            // The attempt is never answered.
        }
        world.pass(60 * SECOND);
        let after = 60 * SECOND;
        assert_eq!(world.fates, [(ticket, Err(PublishError::Expired { after }))], "connected: {connected}");
    }
}

/// The queue has a bound, and an id stands for one comment at a time.
#[test]
fn what_waits_is_bounded_and_has_different_ids() {
    let mut world = World::joined(|options| options.resend_max = 2);
    let named = SendOptions { id: Some("k7-1".into()), ..SendOptions::default() };
    world.with(|session, now| session.send(now, "a", &named)).expect("there is room");
    let twice = world.with(|session, now| session.send(now, "b", &named));
    assert_eq!(twice, Err(PublishError::InUse { id: "k7-1".into() }));
    world.publish("c");
    let full = world.with(|session, now| session.send(now, "d", &SendOptions::default()));
    assert_eq!(full, Err(PublishError::Full { max: 2 }));
}

/// A comment of the room that was left is never tried again in another one.
#[test]
fn a_comment_does_not_follow_into_another_room() {
    let mut world = World::joined(|_| {});
    let ticket = world.publish("for r1");
    let (_, id) = world.comment();
    let unsure = world.publish("for r1 too");
    world.sent();
    world.with(|session, now| session.join(now, "r2", None)).expect("a good name");
    world.refuse(&id, r#""code":"not_owner","retryAfterMs":700"#);
    assert!(matches!(&world.fates[..], [(t, Err(PublishError::Refused(_)))] if *t == ticket));
    world.say(r#"{"error":{"code":"too_many_errors","message":"","count":3}}"#);
    world.sent();
    world.say(r#"{"joined":{"room":"r2","epoch":"1-k9","seq":3}}"#);
    world.pass(10 * SECOND);
    assert!(world.sent().is_empty());
    world.drop_connection();
    assert_eq!(world.fates[1], (unsure, Err(PublishError::Moved)));
}

/// Moving: what is in flight is still answered on this connection, and given up with it; the rest at once.
#[test]
fn a_move_settles_what_cannot_be_sent_any_more() {
    let mut world = World::joined(|_| {});
    let answered = world.publish("answered");
    let (_, id) = world.comment();
    let stranded = world.publish("stranded");
    let resting = world.publish("resting");
    let resting_id = world.sent().pop().and_then(|m| Some(m.split('"').nth(5)?.to_owned())).expect("an id");
    world.refuse(&resting_id, r#""code":"not_owner","retryAfterMs":700"#);
    world.with(|session, now| session.join(now, "r2", None)).expect("a good name");
    assert_eq!(world.fates, [(resting, Err(PublishError::Moved))]);
    world.fates.clear();
    let later = world.publish("for r2");
    assert_eq!(world.sent().len(), 1, "only the join: the comment waits for its room");
    world.say(&format!(r#"{{"ack":{{"id":"{id}","seq":42}}}}"#));
    assert!(matches!(&world.fates[..], [(ticket, Ok(_))] if *ticket == answered), "{:?}", world.fates);
    world.fates.clear();
    world.drop_connection();
    assert_eq!(world.fates, [(stranded, Err(PublishError::Moved))]);
    world.fates.clear();
    world.with(|session, _| session.close());
    assert_eq!(world.fates, [(later, Err(PublishError::Closed))]);
}
