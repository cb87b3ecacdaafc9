//! The inflater against another implementation, on any payload and after any other; and what the deflater
//! writes, read by both.
//!
//! Input: a byte that chooses the limit, a byte that says how long the message before is, and the payloads.

#![no_main]

use std::cell::RefCell;

use danmaku_fuzz::deflated;
use danmaku_wire::websocket::deflate::InflateError;
use danmaku_wire::websocket::{Deflater, Inflater};
use libfuzzer_sys::fuzz_target;

const LIMITS: [usize; 4] = [8192, 0, 100, 70_000];

thread_local! {
    // Kept, as a worker keeps them: what one input leaves in them must not show in the next.
    static CODEC: RefCell<(Inflater, Deflater)> = RefCell::new((Inflater::new(), Deflater::new(1)));
}

fuzz_target!(|data: &[u8]| {
    let [limit, before, data @ ..] = data else { return };
    let bytes_max = LIMITS[usize::from(*limit) % LIMITS.len()];
    let (before, payload) = data.split_at(usize::from(*before).min(data.len()));
    CODEC.with_borrow_mut(|(inflater, deflater)| {
        let _ = inflater.inflate(before, bytes_max);
        let counted = inflater.inflated_bytes();
        let inflated = inflater.inflate(payload, bytes_max).map(<[u8]>::to_vec);
        assert_eq!(inflated, deflated::inflate_at_once(payload, bytes_max));
        check_other_opinion(payload, bytes_max, &inflated);
        let cost = inflater.inflated_bytes() - counted;
        assert!(cost <= bytes_max as u64 + 1 && inflater.buffered_bytes() <= 70_001);
        if let Ok(inflated) = &inflated {
            assert_eq!(cost, inflated.len() as u64);
        }

        let mut wire = Vec::new();
        deflater.compress(payload, &mut wire);
        let bytes_max = payload.len();
        assert_eq!(inflater.inflate(&wire, bytes_max), Ok(payload));
        assert_eq!(deflated::inflate(&wire, bytes_max), (payload.to_vec(), Ok(())));
        let first = wire.len();
        deflater.compress(payload, &mut wire);
        assert_eq!(wire[..first], wire[first..], "the same payload gives the same bytes");
    });
});

/// Where the two disagree it is about when a fault shows, never about a byte that came out.
fn check_other_opinion(payload: &[u8], bytes_max: usize, inflated: &Result<Vec<u8>, InflateError>) {
    let (other, end) = deflated::inflate(payload, bytes_max);
    match (inflated, end) {
        (Ok(inflated), Ok(())) => assert_eq!(*inflated, other),
        (Ok(inflated), Err(InflateError::Corrupt)) => assert!(inflated.starts_with(&other)),
        (Err(InflateError::TooBig { .. }), Err(InflateError::TooBig { .. })) => {}
        (Err(InflateError::Corrupt), _) | (_, Err(InflateError::Corrupt)) => {}
        (inflated, end) => panic!("{inflated:?}, but {end:?} after {} bytes", other.len()),
    }
}
