//! What the Autobahn suite asks in its groups 1 to 7, as tables.

use super::*;

/// An input, what is seen of it, and how it ends.
type Case = (String, Vec<u8>, Vec<Seen>, Option<Violation>);

fn case(name: &str, frames: &[Vec<u8>], seen: &[Seen], end: Option<Violation>) -> Case {
    (name.to_owned(), frames.concat(), seen.to_vec(), end)
}

fn check_all(cases: Vec<Case>) {
    assert!(!cases.is_empty());
    for (name, bytes, seen, end) in cases {
        check(&name, false, WIDE, &bytes, &(seen, end));
    }
}

/// Group 1: lengths around every change of the header's form.
#[test]
fn messages_of_all_length_forms_arrive() {
    let mut cases = Vec::new();
    for bytes in [0, 1, 7, 8, 9, 125, 126, 127, 128, 1000, 65_535, 65_536] {
        let payload = "*".repeat(bytes);
        let name = format!("{bytes} bytes");
        cases.push(case(&name, &[frame(TEXT, payload.as_bytes())], &[text(&payload)], None));
        let raw = vec![0xfe; bytes];
        cases.push(case(&name, &[frame(BINARY, &raw)], &[Seen::Binary(raw.clone())], None));
    }
    check_all(cases);
}

/// Group 2: pings and pongs, asked for or not, and the longest there may be.
#[test]
fn pings_and_pongs_arrive_with_their_payload() {
    let ping = |payload: &[u8]| Seen::Ping(payload.to_vec());
    let pong = |payload: &[u8]| Seen::Pong(payload.to_vec());
    let longest = [0xfe; 125];
    check_all(vec![
        case("empty", &[frame(PING, b"")], &[ping(b"")], None),
        case("text", &[frame(PING, b"Hello")], &[ping(b"Hello")], None),
        case("not UTF-8", &[frame(PING, b"\x00\xff\xfe")], &[ping(b"\x00\xff\xfe")], None),
        case("longest", &[frame(PING, &longest)], &[ping(&longest)], None),
        case("too long", &[frame(PING, &[0; 126])], &[], Some(Violation::ControlTooLong)),
        case("long pong", &[frame(PONG, &[0; 126])], &[], Some(Violation::ControlTooLong)),
        case("unasked", &[frame(PONG, b""), frame(PING, b"a")], &[pong(b""), ping(b"a")], None),
        case("unasked, filled", &[frame(PONG, b"x")], &[pong(b"x")], None),
        case("ten", &vec![frame(PING, b"p"); 10], &vec![ping(b"p"); 10], None),
    ]);
}

/// Group 3: every reserved bit on every kind of frame, after a good message.
#[test]
fn reserved_bits_are_refused() {
    let mut cases = Vec::new();
    for bits in 1..=7_u8 {
        for first in [TEXT, BINARY, CLOSE, PING, PONG, TEXT_BEGINS] {
            let end = if bits & 3 != 0 { Violation::ReservedBit } else { Violation::UnexpectedRsv1 };
            let frames = [frame(TEXT, b"ok"), frame(first | (bits << 4), b"")];
            cases.push(case(&format!("{bits} on {first:#x}"), &frames, &[text("ok")], Some(end)));
        }
    }
    check_all(cases);
}

/// Group 4: every opcode without a meaning, with and without payload.
#[test]
fn reserved_opcodes_are_refused() {
    let mut cases = Vec::new();
    for opcode in (3..=7).chain(11..=15) {
        for payload in [b"".as_slice(), b"payload"] {
            let frames = [frame(TEXT, b"ok"), frame(0x80 | opcode, payload), frame(PING, b"")];
            let end = Some(Violation::ReservedOpcode(opcode));
            cases.push(case(&format!("opcode {opcode}"), &frames, &[text("ok")], end));
        }
    }
    check_all(cases);
}

/// Group 5: fragments, what may stand between them, and what may not.
#[test]
fn fragments_make_one_message() {
    let ping = Seen::Ping(b"p".to_vec());
    let begins = || frame(TEXT_BEGINS, b"one ");
    let goes_on = || frame(GOES_ON, b"two ");
    let ends = || frame(ENDS, b"three");
    let whole = text("one two three");
    let ping_frame = || frame(PING, b"p");
    check_all(vec![
        case(
            "fragmented ping",
            &[frame(0x09, b"a"), frame(ENDS, b"b")],
            &[],
            Some(Violation::ControlFragmented),
        ),
        case(
            "fragmented pong",
            &[frame(0x0a, b"a"), frame(ENDS, b"b")],
            &[],
            Some(Violation::ControlFragmented),
        ),
        case("fragmented close", &[frame(0x08, b"")], &[], Some(Violation::ControlFragmented)),
        case("two", &[begins(), ends()], &[text("one three")], None),
        case("three", &[begins(), goes_on(), ends()], std::slice::from_ref(&whole), None),
        case(
            "pings between",
            &[begins(), ping_frame(), goes_on(), ping_frame(), ends()],
            &[ping.clone(), ping.clone(), whole.clone()],
            None,
        ),
        case("nothing to end", &[ends()], &[], Some(Violation::NothingToContinue)),
        case("nothing to continue", &[goes_on()], &[], Some(Violation::NothingToContinue)),
        case(
            "continued after its end",
            &[begins(), ends(), frame(ENDS, b"x")],
            &[text("one three")],
            Some(Violation::NothingToContinue),
        ),
        case("text in text", &[begins(), frame(TEXT, b"x")], &[], Some(Violation::MessageInterrupted)),
        case("bytes in text", &[begins(), frame(BINARY, b"x")], &[], Some(Violation::MessageInterrupted)),
        case("begun twice", &[begins(), begins()], &[], Some(Violation::MessageInterrupted)),
        case(
            "empty fragments",
            &[frame(TEXT_BEGINS, b""), frame(GOES_ON, b""), frame(ENDS, b"")],
            &[text("")],
            None,
        ),
        case(
            "filled in the middle",
            &[frame(BINARY_BEGINS, b""), frame(GOES_ON, b"\xff\xfe"), frame(ENDS, b"")],
            &[Seen::Binary(b"\xff\xfe".to_vec())],
            None,
        ),
        case(
            "close between",
            &[begins(), frame(CLOSE, &close_payload(1000, b"")), ends()],
            &[Seen::Close(Some((1000, String::new())))],
            None,
        ),
        case("RSV1 on a continuation", &[begins(), frame(0xc0, b"x")], &[], Some(Violation::UnexpectedRsv1)),
    ]);
}

/// Byte sequences of group 6 (Markus Kuhn's decoder test) that are UTF-8.
const UTF8: [&str; 17] = [
    "",
    "Hello-µ@ßöäüàá-UTF-8!!",
    "κόσμε",
    "\0",
    "\u{80}",
    "\u{800}",
    "\u{10000}",
    "\u{7f}",
    "\u{7ff}",
    "\u{ffff}",
    "\u{10ffff}",
    "\u{d7ff}",
    "\u{e000}",
    "\u{fffd}",
    "\u{fffe}",
    "\u{fdd0}",
    "弹幕 😀",
];

/// Sequences of group 6 that are not: strays, overlong forms, surrogates, too large, cut short.
const NOT_UTF8: [&[u8]; 33] = [
    b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited",
    b"\x80",
    b"\xbf",
    b"\x80\xbf",
    b"\x80\xbf\x80\xbf\x80\xbf",
    b"\xc0 \xc1 ",
    b"\xe0 \xef ",
    b"\xf0 \xf7 ",
    b"\xf8 ",
    b"\xfc ",
    b"\xc0",
    b"\xe0\x80",
    b"\xf0\x80\x80",
    b"\xdf",
    b"\xef\xbf",
    b"\xf4\x8f\xbf",
    b"\xfe",
    b"\xff",
    b"\xfe\xfe\xff\xff",
    b"\xc0\xaf",
    b"\xe0\x80\xaf",
    b"\xf0\x80\x80\xaf",
    b"\xf8\x80\x80\x80\xaf",
    b"\xc1\xbf",
    b"\xe0\x9f\xbf",
    b"\xf0\x8f\xbf\xbf",
    b"\xf4\x90\x80\x80",
    b"\xf7\xbf\xbf\xbf",
    b"\xed\xa0\x80",
    b"\xed\xaf\xbf",
    b"\xed\xbf\xbf",
    b"\xed\xa0\x80\xed\xb0\x80",
    b"ok until \xe2\x82",
];

/// Group 6: whole and in fragments of one byte, which no character keeps to.
#[test]
fn text_must_be_utf8_however_it_is_fragmented() {
    let fragments = |payload: &[u8]| {
        let mut frames = vec![frame(TEXT_BEGINS, b"")];
        frames.extend(payload.iter().map(|byte| frame(GOES_ON, &[*byte])));
        frames.push(frame(ENDS, b""));
        frames
    };
    let mut cases = Vec::new();
    for good in UTF8 {
        cases.push(case(good, &[frame(TEXT, good.as_bytes())], &[text(good)], None));
        cases.push(case(good, &fragments(good.as_bytes()), &[text(good)], None));
    }
    for bad in NOT_UTF8 {
        let name = format!("{bad:x?}");
        let end = Some(Violation::TextNotUtf8);
        cases.push(case(&name, &[frame(TEXT, bad)], &[], end));
        cases.push(case(&name, &fragments(bad), &[], end));
        cases.push(case(&name, &[frame(BINARY, bad)], &[Seen::Binary(bad.to_vec())], None));
    }
    check_all(cases);
}

/// Group 6.4: the first wrong byte ends the connection, though the frame and the message go on.
#[test]
fn wrong_text_is_refused_before_its_frame_is_complete() {
    let mut payload = b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5".to_vec();
    let good_bytes = payload.len();
    payload.extend_from_slice(b"\xf4\x90\x80\x80edited");
    let bytes = frame(TEXT, &payload);
    let header_bytes = bytes.len() - payload.len();
    let mut connection = Connection::new(false, WIDE);
    for (at, byte) in bytes.iter().enumerate() {
        connection.feed(&[*byte]);
        // The lead byte alone may begin a character; the one after it cannot go on with it.
        let expected = (at > header_bytes + good_bytes).then_some(Violation::TextNotUtf8);
        assert_eq!(connection.violation, expected, "after byte {at}");
    }
    assert_eq!(connection.seen, []);
}

/// Group 7: codes and reasons of a close, and silence after it.
#[test]
fn a_close_is_checked_and_nothing_follows_it() {
    let closed = |code, reason: &str| Seen::Close(Some((code, reason.to_owned())));
    let longest = "*".repeat(123);
    let mut cases = vec![
        case("empty", &[frame(CLOSE, b"")], &[Seen::Close(None)], None),
        case("one byte", &[frame(CLOSE, b"a")], &[], Some(Violation::CloseTooShort)),
        case(
            "longest reason",
            &[frame(CLOSE, &close_payload(1000, longest.as_bytes()))],
            &[closed(1000, &longest)],
            None,
        ),
        case(
            "reason too long",
            &[frame(CLOSE, &close_payload(1000, &[b'*'; 124]))],
            &[],
            Some(Violation::ControlTooLong),
        ),
        case(
            "reason not UTF-8",
            &[frame(CLOSE, &close_payload(1000, b"\xce\xba\xed\xa0\x80"))],
            &[],
            Some(Violation::ReasonNotUtf8),
        ),
        case(
            "code before reason",
            &[frame(CLOSE, &close_payload(1005, b"\xff"))],
            &[],
            Some(Violation::CloseCode(1005)),
        ),
        case(
            "everything after it",
            &[
                frame(TEXT, b"last"),
                frame(CLOSE, &close_payload(1001, b"bye")),
                frame(PING, b""),
                frame(TEXT, b"late"),
                frame(0xff, b"wrong"),
                frame(CLOSE, b""),
            ],
            &[text("last"), closed(1001, "bye")],
            None,
        ),
    ];
    for code in (1000..=1003).chain(1007..=1014).chain([3000, 3999, 4000, 4999]) {
        let frames = [frame(CLOSE, &close_payload(code, b"reason"))];
        cases.push(case(&format!("code {code}"), &frames, &[closed(code, "reason")], None));
    }
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535] {
        let frames = [frame(CLOSE, &close_payload(code, b"")), frame(PING, b"")];
        cases.push(case(&format!("code {code}"), &frames, &[], Some(Violation::CloseCode(code))));
    }
    check_all(cases);
}

/// RFC 6455 §5.1 and §5.2: what no frame of a client may look like.
#[test]
fn headers_that_break_the_framing_are_refused() {
    let mut ok = frame(TEXT, b"ok");
    let raw = |bytes: &[u8]| [ok.as_slice(), bytes].concat();
    let seen = vec![text("ok")];
    let row = |name: &str, bytes: &[u8], end| (name.to_owned(), raw(bytes), seen.clone(), Some(end));
    let cases = vec![
        row("unmasked", b"\x81\x02hi", Violation::Unmasked),
        row("unmasked and empty", b"\x81\x00", Violation::Unmasked),
        row("unmasked ping", b"\x89\x00", Violation::Unmasked),
        row("5 in 16 bits", b"\x81\xfe\x00\x05keyyhello", Violation::LengthNotMinimal),
        row("125 in 16 bits", b"\x82\xfe\x00\x7d", Violation::LengthNotMinimal),
        row("126 in 64 bits", b"\x82\xff\0\0\0\0\0\0\0\x7e", Violation::LengthNotMinimal),
        row("65535 in 64 bits", b"\x82\xff\0\0\0\0\0\0\xff\xff", Violation::LengthNotMinimal),
        row("bit 63", b"\x82\xff\x80\0\0\0\0\0\0\x01", Violation::LengthOutOfRange),
        row("all bits", b"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff", Violation::LengthOutOfRange),
        row("ping in 16 bits", b"\x89\xfe\x00\x05", Violation::ControlTooLong),
    ];
    check_all(cases);
    ok.truncate(5);
    check("an incomplete frame is no fault", false, WIDE, &ok, &(Vec::new(), None));
}

/// `Violation::disconnect`: each fault is told by the code of RFC 6455 §7.4.1.
#[test]
fn faults_have_the_close_code_of_their_kind() {
    for (violation, code) in [
        (Violation::ReservedBit, 1002),
        (Violation::CloseCode(5), 1002),
        (Violation::Corrupt, 1002),
        (Violation::TextNotUtf8, 1007),
        (Violation::ReasonNotUtf8, 1007),
        (Violation::FrameTooBig { bytes: 2, max: 1 }, 1009),
        (Violation::MessageTooBig { max: 1 }, 1009),
        (Violation::TooManyFragments { max: 1 }, 1009),
    ] {
        assert_eq!(violation.disconnect().code(), code, "{violation}");
    }
}
