//! Method: tables of answers, each with its verdict or with the failure it is.

use super::*;

fn question(id: &str) -> Question {
    Question {
        id: id.to_owned(),
        room: "lobby".to_owned(),
        user: "u7".to_owned(),
        role: "viewer".to_owned(),
        text: "你好".to_owned(),
        traceparent: None,
    }
}

fn owned(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn questions_are_written_as_the_document_shows_them() {
    let message = |question: &Question| written(question).expect("short");
    let one = single("message", &message(&question("m1")));
    let expected = r#"{"type":"message","id":"m1","room":"lobby","user":"u7","role":"viewer","text":"你好"}"#;
    assert_eq!(one, expected.as_bytes());
    let traced = Question { traceparent: TraceContext::new(1, 2, false), ..question("m2") };
    let objects = [message(&question("m1")), message(&traced)];
    let two = batch(objects.iter().map(Vec::as_slice));
    let expected = r#"{"type":"messages","questions":[{"id":"m1","room":"lobby","user":"u7","role":"viewer","text":"你好"},{"id":"m2","room":"lobby","user":"u7","role":"viewer","text":"你好","traceparent":"00-00000000000000000000000000000001-0000000000000002-00"}]}"#;
    assert_eq!(two, expected.as_bytes());
    let caller = ConnectQuestion {
        id: "c1".to_owned(),
        address: IpAddr::from([203, 0, 113, 9]),
        room: owned("lobby"),
        user: None,
        origin: None,
        headers: BTreeMap::from([("cookie".to_owned(), "a=\"1\"".to_owned())]),
        traceparent: None,
    };
    let expected = r#"{"type":"connect","id":"c1","address":"203.0.113.9","room":"lobby","headers":{"cookie":"a=\"1\""}}"#;
    assert_eq!(single("connect", &written(&caller).expect("short")), expected.as_bytes());
}

#[test]
fn a_question_has_a_longest_length() {
    let rest = written(&Question { text: String::new(), ..question("m1") }).expect("short").len();
    let text = |bytes| Question { text: "a".repeat(bytes), ..question("m1") };
    assert!(written(&text(QUESTION_BYTES_MAX - rest)).is_ok());
    assert_eq!(written(&text(QUESTION_BYTES_MAX - rest + 1)), Err(Failure::QuestionTooLarge));
}

#[test]
fn every_documented_answer_is_read() {
    let why = || owned("spam");
    for (answer, verdict) in [
        (r#"{"verdict":"pass"}"#, Verdict::Pass),
        (r#"{"verdict":"pass","reason":"fine","text":null}"#, Verdict::Pass),
        (r#" {"later":[1,{"a":2}],"id":"m1","verdict":"pass"} "#, Verdict::Pass),
        (r#"{"verdict":"drop"}"#, Verdict::Drop { reason: None }),
        (r#"{"verdict":"drop","reason":"spam"}"#, Verdict::Drop { reason: why() }),
        (r#"{"verdict":"hold","reason":"spam"}"#, Verdict::Hold { reason: why() }),
        (r#"{"verdict":"mask"}"#, Verdict::Mask { text: None, reason: None }),
        (r#"{"verdict":"mask","text":"a***"}"#, Verdict::Mask { text: owned("a***"), reason: None }),
        (
            r#"{"verdict":"replace","text":"b","reason":"spam"}"#,
            Verdict::Replace { text: "b".to_owned(), reason: why() },
        ),
    ] {
        assert_eq!(read_verdict(answer.as_bytes(), "m1"), Ok(verdict), "{answer}");
    }
}

#[test]
fn any_other_answer_is_a_failure_and_no_pass() {
    let long = format!(r#"{{"verdict":"drop","reason":"{}"}}"#, "a".repeat(REASON_BYTES_MAX + 1));
    for answer in [
        "",
        "pass",
        "null",
        "[]",
        "{}",
        "true",
        "<html>pass</html>",
        "{\"verdict\":\"pass\"",
        "\"pass\"",
        r#"{"verdict":"PASS"}"#,
        r#"{"verdict":"ok"}"#,
        r#"{"verdict":null}"#,
        r#"{"verdict":["pass"]}"#,
        r#"{"verdict":"pass","verdict":"drop"}"#,
        r#"{"verdict":"pass"}{"verdict":"pass"}"#,
        r#"{"verdict":"pass","text":"x"}"#,
        r#"{"verdict":"drop","text":""}"#,
        r#"{"verdict":"hold","text":"x"}"#,
        r#"{"verdict":"replace"}"#,
        r#"{"verdict":"replace","text":1}"#,
        r#"{"verdict":"drop","reason":7}"#,
        r#"{"id":"m2","verdict":"pass"}"#,
        "{\"verdict\":\"drop\",\"reason\":\"\u{1}\"}",
        &long,
    ] {
        assert_eq!(read_verdict(answer.as_bytes(), "m1"), Err(Failure::Malformed), "{answer}");
    }
    assert_eq!(read_verdict(b"{\"verdict\":\"drop\",\"reason\":\"\xff\"}", "m1"), Err(Failure::Malformed));
    let deep = "[".repeat(100_000);
    assert_eq!(read_verdict(deep.as_bytes(), "m1"), Err(Failure::Malformed));
}

#[test]
fn a_batch_is_answered_one_for_one() {
    let read = |body: &str| read_verdicts(body.as_bytes(), &["a", "b"]);
    let good = r#"{"answers":[{"id":"a","verdict":"pass"},{"id":"b","verdict":"drop"}]}"#;
    assert_eq!(read(good), Ok(vec![Verdict::Pass, Verdict::Drop { reason: None }]));
    for wrong in [
        r#"{"answers":[{"id":"b","verdict":"drop"},{"id":"a","verdict":"pass"}]}"#,
        r#"{"answers":[{"id":"a","verdict":"pass"}]}"#,
        r#"{"answers":[{"id":"a","verdict":"pass"},{"id":"b","verdict":"pass"},{"id":"c","verdict":"pass"}]}"#,
        r#"{"answers":[{"verdict":"pass"},{"verdict":"pass"}]}"#,
        r#"{"answers":[{"id":"a","verdict":"pass"},{"id":"b","verdict":"replace"}]}"#,
        r#"[{"id":"a","verdict":"pass"},{"id":"b","verdict":"pass"}]"#,
        r#"{"verdict":"pass"}"#,
    ] {
        assert_eq!(read(wrong), Err(Failure::Malformed), "{wrong}");
    }
}

#[test]
fn a_connection_is_allowed_with_claims_or_denied() {
    let read = |body: &str| read_connect_verdict(body.as_bytes());
    assert_eq!(read(r#"{"verdict":"allow"}"#), Ok(ConnectVerdict::Allow { claims: None }));
    let claims = ConnectVerdict::Allow { claims: owned(r#"{"sub":"u7", "rooms":{}}"#) };
    assert_eq!(read(r#"{"verdict":"allow","claims": {"sub":"u7", "rooms":{}} }"#), Ok(claims));
    let deny = ConnectVerdict::Deny { reason: owned("banned") };
    assert_eq!(read(r#"{"verdict":"deny","reason":"banned"}"#), Ok(deny));
    let large = format!(r#"{{"verdict":"allow","claims":{{"a":"{}"}}}}"#, "a".repeat(CLAIMS_BYTES_MAX));
    for wrong in [
        "",
        "{}",
        r#"{"verdict":"pass"}"#,
        r#"{"verdict":"allow","claims":"u7"}"#,
        r#"{"verdict":"allow","claims":[]}"#,
        r#"{"verdict":"deny","claims":{}}"#,
        r#"{"verdict":"allow","claims":{"a":}}"#,
        &large,
    ] {
        assert_eq!(read(wrong), Err(Failure::Malformed), "{wrong}");
    }
}

#[test]
fn an_unanswered_question_is_settled_by_the_mode() {
    let failed = || Err(Failure::Deadline);
    assert_eq!(FailMode::Open.settle(failed()), Verdict::Pass);
    assert_eq!(FailMode::Closed.settle(failed()), Verdict::Drop { reason: owned(UNANSWERED) });
    assert_eq!(FailMode::Closed.settle(Ok(Verdict::Pass)), Verdict::Pass);
    let failed = || Err(Failure::BreakerOpen);
    assert_eq!(FailMode::Open.settle_connect(failed()), ConnectVerdict::Allow { claims: None });
    let denied = ConnectVerdict::Deny { reason: owned(UNANSWERED) };
    assert_eq!(FailMode::Closed.settle_connect(failed()), denied);
}
