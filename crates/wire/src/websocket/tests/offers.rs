//! Offers of permessage-deflate, legal and not (RFC 7692 §5 to §7.1).

use crate::websocket::extension::{DeflateAnswer, Malformed, answer};

const PLAIN: Result<Option<DeflateAnswer>, Malformed> =
    Ok(Some(DeflateAnswer { repeats_window_bits: false }));
const FIFTEEN: Result<Option<DeflateAnswer>, Malformed> =
    Ok(Some(DeflateAnswer { repeats_window_bits: true }));
const DECLINED: Result<Option<DeflateAnswer>, Malformed> = Ok(None);
const MALFORMED: Result<Option<DeflateAnswer>, Malformed> = Err(Malformed);

/// `p` stands for `permessage-deflate`, `s` and `c` for the two sides' `…_max_window_bits`.
fn check(offers: &[&str], expected: Result<Option<DeflateAnswer>, Malformed>) {
    let written: Vec<String> = offers
        .iter()
        .map(|offer| {
            offer
                .replace("{p}", "permessage-deflate")
                .replace("{s}", "server_max_window_bits")
                .replace("{c}", "client_max_window_bits")
                .replace("{sn}", "server_no_context_takeover")
                .replace("{cn}", "client_no_context_takeover")
        })
        .collect();
    assert_eq!(answer(written.iter().map(String::as_bytes)), expected, "{written:?}");
}

/// `answer`: every offer that can be met is, whatever its order, spacing and quoting.
#[test]
fn offers_that_can_be_met_are_taken() {
    for (offers, expected) in [
        (["{p}"].as_slice(), PLAIN),
        (&["{p}; {c}"], PLAIN),
        (&["{p}; {c}=8"], PLAIN),
        (&["{p}; {c}=9"], PLAIN),
        (&["{p}; {c}=15"], PLAIN),
        (&["{p}; {c}=\"10\""], PLAIN),
        (&["{p}; {sn}"], PLAIN),
        (&["{p}; {cn}"], PLAIN),
        (&["{p}; {sn}; {cn}"], PLAIN),
        (&["{p};{cn};{sn};{c}"], PLAIN),
        (&["  {p} ;\t{sn} ;  {c} = 12  "], PLAIN),
        (&["{p}; {s}=15"], FIFTEEN),
        (&["{p}; {s}=\"15\""], FIFTEEN),
        (&["{p}; {s}=\"1\\5\""], FIFTEEN),
        (&["{p}; {c}; {s}=15; {cn}; {sn}"], FIFTEEN),
        (&["{p}; {s}=10, {p}"], PLAIN),
        (&["{p}; {s}=10", "{p}"], PLAIN),
        (&["{p}; {s}=10, {p}; {s}=15"], FIFTEEN),
        (&["{p}, {p}; {s}=15"], PLAIN),
        (&["{p}; nonsense, {p}; {c}"], PLAIN),
        (&["x-webkit-deflate-frame, {p}"], PLAIN),
        (&["permessage-bzip2; level=9, {p}; {c}"], PLAIN),
        (&["mux; max-channels=\"4\", {p}"], PLAIN),
        (&[", ,{p},"], PLAIN),
        (&["", "{p}"], PLAIN),
    ] {
        check(offers, expected);
    }
}

/// `answer`: what cannot be met exactly is declined, never met halfway.
#[test]
fn offers_that_cannot_be_met_are_declined() {
    for offers in [
        [].as_slice(),
        &[""],
        &[", ,"],
        &["x-webkit-deflate-frame"],
        &["permessage-deflate2"],
        &["Permessage-Deflate"],
        &["{p}; {s}"],
        &["{p}; {s}=14"],
        &["{p}; {s}=9"],
        &["{p}; {s}=8"],
        &["{p}; {s}=7"],
        &["{p}; {s}=16"],
        &["{p}; {s}=015"],
        &["{p}; {s}=1500000000000000000000"],
        &["{p}; {s}=-15"],
        &["{p}; {s}=+15"],
        &["{p}; {s}=fifteen"],
        &["{p}; {c}=7"],
        &["{p}; {c}=0"],
        &["{p}; {c}=16"],
        &["{p}; {c}=08"],
        &["{p}; {c}=1"],
        &["{p}; {c}=x"],
        &["{p}; {sn}=1"],
        &["{p}; {sn}=true"],
        &["{p}; {cn}=\"\\1\""],
        &["{p}; {sn}; {sn}"],
        &["{p}; {cn}; {cn}"],
        &["{p}; {c}; {c}"],
        &["{p}; {c}=10; {c}=10"],
        &["{p}; {s}=15; {s}=15"],
        &["{p}; {s}=10; {s}=15"],
        &["{p}; unknown"],
        &["{p}; unknown=1; {sn}"],
        &["{p}; Server_No_Context_Takeover"],
        &["{p}; {s}=10, {p}; {s}=11", "{p}; {s}=12"],
    ] {
        check(offers, DECLINED);
    }
}

/// `answer`: what is no list at all fails the handshake (RFC 6455 §9.1), even behind a good offer.
#[test]
fn lists_that_are_none_are_refused() {
    for offers in [
        ["{p};"].as_slice(),
        &["{p}; ;{sn}"],
        &["; {sn}"],
        &["{p} {sn}"],
        &["{p}; {c}="],
        &["{p}; {c}=, {p}"],
        &["{p}; =15"],
        &["{p}; {c}=\"15"],
        &["{p}; {c}=\"15\\"],
        &["{p}; {c}=\"\""],
        &["{p}; {c}=\"1 5\""],
        &["{p}; {c}=\"15\" 1"],
        &["{p}; {c}=10=11"],
        &["{p}, \u{e9}"],
        &["{p}", "@"],
        &["{p}: {sn}"],
    ] {
        check(offers, MALFORMED);
    }
}

/// `DeflateAnswer::header_value`: both sides always start anew, and only what was offered is repeated.
#[test]
fn the_answer_always_forbids_context_takeover() {
    for (answer, tail) in [(PLAIN, ""), (FIFTEEN, "; server_max_window_bits=15")] {
        let value = answer.ok().flatten().map(DeflateAnswer::header_value);
        let base = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        assert_eq!(value, Some(format!("{base}{tail}").as_str()));
    }
}
