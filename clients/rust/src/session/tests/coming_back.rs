//! When connections end, and what comes after.

use super::*;
use crate::event::Ending;
use crate::options::Identity;

/// Attempts that fail wait longer each time; a connection that lasts starts anew, one that does not does not.
#[test]
fn waiting_grows_until_a_connection_lasts() {
    let mut world = World::joined(|_| {});
    let refused = ConnectFailure { status: Some(503), ..ConnectFailure::default() };
    world.drop_connection();
    assert_eq!(world.chosen(), 250 * MS, "half of 500 ms");
    for half_bound in [500, 1_000, 2_000] {
        world.pass(world.chosen());
        world.attempt();
        world.with(|session, now| session.handle_connect_failed(now, refused.clone()));
        assert_eq!(world.chosen(), half_bound * MS);
    }
    for (lasts, expected) in [(9 * SECOND, 4_000 * MS), (10 * SECOND, 250 * MS)] {
        world.pass(world.chosen());
        world.connect();
        world.say(r#"{"joined":{"room":"r1","epoch":"7-k2","seq":41,"recovered":true}}"#);
        world.pass(lasts);
        world.drop_connection();
        assert_eq!(world.chosen(), expected, "after {lasts:?}");
    }
}

/// A server that says how long to wait is given at least that.
#[test]
fn the_servers_retry_after_is_obeyed() {
    let mut world = World::new(|_| {});
    world.attempt();
    let retry_after = Some(7 * SECOND);
    let busy = ConnectFailure { status: Some(429), retry_after, reason: "busy".into() };
    world.with(|session, now| session.handle_connect_failed(now, busy));
    assert_eq!(world.chosen(), 7 * SECOND + 250 * MS);
}

/// `reconnect`: the connection is used until then; its time replaces the session's own choice, even if the server
/// closes earlier; the address is given up when nobody is there.
#[test]
fn a_planned_move_happens_when_and_where_the_server_says() {
    let mut world = World::joined(|_| {});
    world.say(r#"{"reconnect":{"afterMs":3120,"reason":"draining","url":"ws://b/ws"}}"#);
    world.pass(1_000 * MS);
    world.say(r#"{"batch":{"from":42,"to":42,"items":[{"seq":42,"text":"a"}]}}"#);
    assert_eq!(world.items(), ["Live42"]);
    world.close(Some(1012));
    assert_eq!(world.chosen(), 2_120 * MS);
    world.pass(2_119 * MS);
    assert!(world.actions.is_empty());
    world.pass(MS);
    assert_eq!(world.attempt().0, "ws://b/ws?room=r1&since=7-k2%3A42");
    world.with(|session, now| session.handle_connect_failed(now, ConnectFailure::default()));
    world.pass(SECOND);
    assert_eq!(world.connect(), "ws://a/ws?room=r1&since=7-k2%3A42");
    world.say(r#"{"joined":{"room":"r1","epoch":"7-k2","seq":42,"recovered":true}}"#);
    world.say(r#"{"reconnect":{"afterMs":500}}"#);
    world.pass(500 * MS);
    assert_eq!(world.actions[0], Action::Disconnect { code: 1000 });
    assert!(matches!(world.actions[1], Action::Connect { .. }), "{:?}", world.actions);
}

/// Codes and statuses after which there is no use in coming back end the session; all others do not.
#[test]
fn some_endings_are_final() {
    for code in [1000, 1001, 1011, 1012, 1013, 4008, 4999] {
        let mut world = World::joined(|_| {});
        world.close(Some(code));
        world.chosen();
    }
    for code in [1002, 1003, 1007, 1008, 1009, 4001, 4003, 4004, 4009] {
        let mut world = World::joined(|_| {});
        world.close(Some(code));
        let why = Ending::new(Some(code), "");
        assert_eq!(world.events, [Event::State(State::Closed { why })]);
        assert!(world.session.is_closed());
        world.pass(100 * SECOND);
        assert!(world.actions.is_empty());
    }
    for (status, is_final) in
        [(400, true), (401, true), (404, true), (429, false), (500, false), (503, false)]
    {
        let mut world = World::new(|_| {});
        world.attempt();
        let failure = ConnectFailure { status: Some(status), ..ConnectFailure::default() };
        world.with(|session, now| session.handle_connect_failed(now, failure));
        assert_eq!(world.session.is_closed(), is_final, "{status}");
    }
}

/// A guest's signed id is presented on the next connection, and so is one of an earlier session.
#[test]
fn a_guest_keeps_its_id() {
    let mut world = World::new(|options| options.guest = Some("old.c2ln".into()));
    assert_eq!(world.attempt().1, ["danmaku.v1.json", "danmaku.auth.b2xkLmMybG4"]);
    world.with(Session::handle_connected);
    world.say(r#"{"joined":{"room":"r1","epoch":"7-k2","seq":41,"you":{"id":"g1","guest":"g1.c2ln"}}}"#);
    world.drop_connection();
    world.pass(SECOND);
    assert_eq!(world.attempt().1, ["danmaku.v1.json", "danmaku.auth.ZzEuYzJsbg"]);
}

/// Tokens: one for each attempt, another when the server reminds; the answer to `auth` is no reminder.
#[test]
fn a_token_is_asked_for_when_it_is_needed() {
    let mut world = World::new(|options| options.identity = Identity::Asked);
    assert_eq!(world.actions.pop(), Some(Action::Token));
    world.with(|session, now| session.handle_token(now, Ok("t1".into())));
    assert_eq!(world.attempt().1, ["danmaku.v1.json", "danmaku.auth.dDE"]);
    world.with(Session::handle_connected);
    world.say(r#"{"joined":{"room":"r1","epoch":"7-k2","seq":41,"you":{"id":"u1"}}}"#);
    world.say(r#"{"auth":{"expiresInMs":60000}}"#);
    world.say(r#"{"auth":{"expiresInMs":59000}}"#);
    assert_eq!(world.actions, [Action::Token], "asked once");
    world.actions.clear();
    world.with(|session, now| session.handle_token(now, Ok("t2".into())));
    assert_eq!(world.sent(), [r#"{"auth":{"token":"t2"}}"#]);
    world.say(r#"{"auth":{"expiresInMs":3600000}}"#);
    assert!(world.actions.is_empty());
    world.say(r#"{"auth":{"expiresInMs":60000}}"#);
    world.actions.clear();
    world.with(|session, now| session.handle_token(now, Err("no network".into())));
    assert_eq!(world.events.pop(), Some(Event::TokenFailed { reason: "no network".into() }));
    world.close(Some(4001));
    world.pass(SECOND);
    assert_eq!(world.actions, [Action::Token], "with another token there is a use in coming back");
}

/// Where there is nobody to ask, the application hears that the token runs out.
#[test]
fn a_token_that_runs_out_is_told() {
    let mut world = World::joined(|options| options.identity = Identity::Token("t".into()));
    world.say(r#"{"auth":{"expiresInMs":60000}}"#);
    assert_eq!(world.events, [Event::TokenExpires { after: Some(60 * SECOND) }]);
}

/// A silent server is asked, and left when it does not answer; anything that comes is an answer.
#[test]
fn a_silent_server_is_left() {
    let mut world = World::joined(|_| {});
    world.pass(45 * SECOND);
    assert_eq!(world.sent(), [r#"{"ping":{"t":0}}"#]);
    world.pass(9 * SECOND);
    world.with(Session::handle_activity);
    world.pass(44 * SECOND);
    assert!(world.actions.is_empty());
    world.pass(SECOND);
    assert_eq!(world.sent(), [r#"{"ping":{"t":0}}"#]);
    world.pass(10 * SECOND);
    assert_eq!(world.actions[0], Action::Disconnect { code: 1000 });
}

/// An attempt that hangs, and a join that is never answered, are given up.
#[test]
fn what_hangs_is_given_up() {
    let mut world = World::new(|_| {});
    world.attempt();
    world.pass(15 * SECOND);
    assert_eq!(world.actions.remove(0), Action::Disconnect { code: 1000 });
    world.pass(SECOND);
    world.connect();
    world.pass(15 * SECOND);
    assert_eq!(world.actions.remove(0), Action::Disconnect { code: 1000 });
}

/// The application's end: said to the server, told once, and nothing comes after.
#[test]
fn a_closed_session_stays_closed() {
    let mut world = World::joined(|_| {});
    world.with(|session, _| session.close());
    assert_eq!(world.actions, [Action::Disconnect { code: 1000 }]);
    world.actions.clear();
    world.with(|session, _| session.close());
    assert_eq!(world.events.len(), 1, "{:?}", world.events);
    world.say(r#"{"batch":{"from":42,"to":42,"items":[{"seq":42}]}}"#);
    world.pass(100 * SECOND);
    assert!(world.actions.is_empty());
    let sent = world.with(|session, now| session.send(now, "a", &SendOptions::default()));
    assert_eq!(sent, Err(PublishError::Closed));
    assert_eq!(world.wake, None);
}
