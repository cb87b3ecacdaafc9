//! Every bound of a connection is reached, and costs no more than it says.

use super::*;

const NARROW: Limits =
    Limits { frame_bytes_max: 200, message_bytes_max: 300, fragments_max: 3, stash_bytes_max: 100 };

/// `Decoder::next`: one byte or frame below each limit passes, one above is refused.
#[test]
fn the_last_allowed_passes_and_the_next_is_refused() {
    let narrow = Limits { stash_bytes_max: 1 << 20, ..NARROW };
    let frame_too_big = |bytes| Some(Violation::FrameTooBig { bytes, max: 200 });
    let message_too_big = Some(Violation::MessageTooBig { max: 300 });
    let too_many = Some(Violation::TooManyFragments { max: 3 });
    let bytes = |count| vec![7; count];
    type Row = (&'static str, Vec<Vec<u8>>, Vec<Seen>, Option<Violation>);
    let rows: Vec<Row> = vec![
        ("frame at the limit", vec![frame(BINARY, &bytes(200))], vec![Seen::Binary(bytes(200))], None),
        ("frame over it", vec![frame(BINARY, &bytes(201))], vec![], frame_too_big(201)),
        ("from the header alone", vec![b"\x82\xfe\x10\x00".to_vec()], vec![], frame_too_big(4096)),
        (
            "from a huge header",
            vec![b"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff".to_vec()],
            vec![],
            frame_too_big(i64::MAX as u64),
        ),
        (
            "message at the limit",
            vec![frame(BINARY_BEGINS, &bytes(200)), frame(ENDS, &bytes(100))],
            vec![Seen::Binary(bytes(300))],
            None,
        ),
        (
            "message over it",
            vec![frame(BINARY_BEGINS, &bytes(200)), frame(ENDS, &bytes(101))],
            vec![],
            message_too_big,
        ),
        (
            "fragments at the limit",
            vec![frame(BINARY_BEGINS, b""), frame(GOES_ON, b""), frame(ENDS, b"")],
            vec![Seen::Binary(vec![])],
            None,
        ),
        (
            "fragments over it, all empty",
            vec![frame(BINARY_BEGINS, b""), frame(GOES_ON, b""), frame(GOES_ON, b""), frame(GOES_ON, b"")],
            vec![],
            too_many,
        ),
        (
            "pings are no fragments",
            vec![
                frame(BINARY_BEGINS, b""),
                frame(PING, b""),
                frame(GOES_ON, b""),
                frame(PING, b""),
                frame(ENDS, b""),
            ],
            vec![Seen::Ping(vec![]), Seen::Ping(vec![]), Seen::Binary(vec![])],
            None,
        ),
    ];
    for (name, frames, seen, end) in rows {
        check(name, false, narrow, &frames.concat(), &(seen, end));
    }
    let deaf = Limits { frame_bytes_max: 0, message_bytes_max: 0, ..narrow };
    let pings = (vec![Seen::Ping(b"p".to_vec())], None);
    check("control frames have a limit of their own", false, deaf, &frame(PING, b"p"), &pings);
}

/// `Decoder::buffered_bytes`: an announced megabyte costs what has arrived of it.
#[test]
fn an_announcement_costs_no_memory() {
    let bytes = frame(BINARY, &vec![1; 1 << 20]);
    let mut connection = Connection::new(false, WIDE);
    let mut fed = 0;
    for piece in [14, 1, 100, 1000, 10_000] {
        connection.feed(&bytes[fed..fed + piece]);
        fed += piece;
        let held = connection.decoder.buffered_bytes();
        assert!(held <= 512 + 2 * fed, "{held} bytes held after {fed}");
        assert!(held >= fed - 14, "{held} bytes held after {fed}: they must be somewhere");
    }
}

/// `Decoder::buffered_bytes`: what was given out, refused or closed is free again.
#[test]
fn nothing_is_held_between_messages() {
    let half = frame(TEXT_BEGINS, b"half a message");
    for (name, last) in
        [("a message", frame(ENDS, b"")), ("a close", frame(CLOSE, b"")), ("a violation", frame(TEXT, b""))]
    {
        let mut connection = Connection::new(false, WIDE);
        assert_eq!(connection.decoder.buffered_bytes(), 0);
        connection.feed(&half);
        assert!(connection.decoder.buffered_bytes() > 14, "before {name}");
        for byte in last {
            connection.feed(&[byte]);
        }
        assert_eq!(connection.decoder.buffered_bytes(), 0, "after {name}");
    }
}

/// `Decoder::stash`: it comes before the next input, in order, and is bounded.
#[test]
fn stashed_bytes_come_first_and_are_bounded() {
    let limits = Limits { stash_bytes_max: 100, ..WIDE };
    let message = |n: u8| frame(TEXT, &[b'0' + n]);
    let bytes = message(1).len();
    let mut connection = Connection::new(false, limits);
    assert!(connection.decoder.stash(&[message(1), message(2)].concat(), &limits));
    assert!(connection.decoder.stash(&message(3)[..3], &limits));
    assert!(!connection.decoder.stash(&[0; 100], &limits), "more than the limit");
    let mut rest = message(3)[3..].to_vec();
    let mut input = Input::new(&mut rest);
    assert!(connection.step(&mut input));
    // One message has been taken: as much may come again, and not a byte more.
    let room = 100 - (bytes + 3);
    assert!(!connection.decoder.stash(&vec![0; room + 1], &limits));
    while connection.step(&mut input) {}
    assert_eq!(connection.outcome(), (vec![text("1"), text("2"), text("3")], None));
}

/// `Decoder::next` after its last event: whatever comes is taken and forgotten.
#[test]
fn a_connection_that_ended_takes_no_more() {
    let mut connection = Connection::new(false, WIDE);
    connection.feed(b"\x81\x00");
    assert_eq!(connection.violation, Some(Violation::Unmasked));
    connection.feed(&frame(TEXT, b"late"));
    assert!(connection.decoder.stash(&frame(TEXT, b"later"), &WIDE));
    connection.feed(b"\x81\x00");
    assert_eq!((connection.seen, connection.decoder.buffered_bytes()), (vec![], 0));
}
