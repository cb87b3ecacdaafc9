//! The server's span in a trace that a client began.

use std::hash::Hasher;

use danmaku_wire::trace::TraceContext;
use siphasher::sip::SipHasher13;

/// A span below the one that a `traceparent` names; `None` where it names none. Whether it is marked to be recorded is
/// decided by a
/// keyed hash of the trace, for the share `sampled` of all (0 to 1): the same for all of a trace, and nothing that a client says or chooses counts.
pub fn span(secret: &[u8; 16], sampled: f64, traceparent: &[u8]) -> Option<TraceContext> {
    if traceparent.is_empty() {
        return None;
    }
    let parent = TraceContext::parse(traceparent)?;
    let mut hasher = SipHasher13::new_with_key(secret);
    hasher.write_u128(parent.trace_id());
    // 53 bits are a number below one, exactly.
    let lot = (hasher.finish() >> 11) as f64 / (1_u64 << 53) as f64;
    hasher.write_u64(parent.span_id());
    Some(parent.child(hasher.finish(), lot < sampled))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traceparent(trace: u128, span: u64, flags: u8) -> String {
        format!("00-{trace:032x}-{span:016x}-{flags:02x}")
    }

    /// `span`: in the client's trace, under a name of the server's own; what is no trace gives none.
    #[test]
    fn a_span_is_below_the_clients_own() {
        let of = |traceparent: &str| span(&[1; 16], 0.0, traceparent.as_bytes());
        let span = of(&traceparent(7, 9, 1)).expect("a trace");
        assert_eq!(span.trace_id(), 7);
        assert_ne!(span.span_id(), 9);
        for none in ["", "00-", &traceparent(0, 9, 1), &traceparent(7, 0, 1), "\u{1f600}"] {
            assert_eq!(of(none), None, "{none:?}");
        }
    }

    /// `span`: the share that was set is marked, whatever the clients' own flags are, and all of a trace alike.
    #[test]
    fn what_is_recorded_is_decided_here() {
        for (share, expected) in [(0.0, 0..=0), (0.25, 400..=600), (1.0, 2_000..=2_000)] {
            let sampled = |trace, below, flags| {
                span(&[1; 16], share, traceparent(trace, below, flags).as_bytes()).expect("a trace").sampled()
            };
            let marked = (1..=2_000).filter(|trace| {
                let marked = sampled(*trace, 1, 0);
                assert!((2..5).all(|below| sampled(*trace, below, (below % 2) as u8) == marked));
                marked
            });
            let marked = marked.count();
            assert!(expected.contains(&marked), "{marked} of 2,000 at {share}");
        }
    }
}
