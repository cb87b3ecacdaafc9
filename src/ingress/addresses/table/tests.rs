//! Counts by address and prefix against a plain model, and what a full table does.

use std::collections::BTreeMap;

use super::*;

const LIMITS: Limits = Limits {
    per_ipv4: 8,
    per_ipv6_64: 4,
    per_ipv6_48: 10,
    overflow_max: 20,
    addresses_max: 1_000,
    rooms_per_min: 30,
};

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

/// Takes as many as it gets: how many were within, and how many over.
fn fill(
    table: &mut Table,
    limits: &Limits,
    addresses: impl Iterator<Item = IpAddr>,
) -> (Vec<u32>, usize, usize) {
    let (mut ids, mut within, mut over) = (Vec::new(), 0, 0);
    for address in addresses {
        match table.take(address, limits, 1) {
            Ok((id, None)) => (ids.push(id), within += 1).1,
            Ok((id, Some(_))) => (ids.push(id), over += 1).1,
            Err(_) => {}
        }
    }
    (ids, within, over)
}

/// `take`: by IPv4 address, by /64, and by /48 over its /64s; a few more are heard and no more than these.
#[test]
fn an_address_has_its_connections_and_no_more() {
    let many = |text: &'static str| (0..100).map(move |_| ip(text));
    let (_, within, over) = fill(&mut Table::default(), &LIMITS, many("192.0.2.7"));
    assert_eq!((within, over), (8, 4));
    let hosts = (0..100).map(|n| ip(&format!("2001:db8::{n:x}")));
    let (_, within, over) = fill(&mut Table::default(), &LIMITS, hosts);
    assert_eq!((within, over), (4, 4));
    let nets = (0..100).map(|n| ip(&format!("2001:db8:0:{n:x}::1")));
    let (_, within, over) = fill(&mut Table::default(), &LIMITS, nets);
    assert_eq!((within, over), (10, 4));
    // Neighbours have their own.
    let mut table = Table::default();
    for text in ["192.0.2.7", "192.0.2.8", "2001:db8::1", "2001:db8:1::1"] {
        assert!(fill(&mut table, &LIMITS, many(text)).1 >= 4, "{text}");
    }
}

/// `fits`: who came as one too many is within as soon as another has gone.
#[test]
fn one_too_many_fits_once_another_has_gone() {
    let mut table = Table::default();
    let (ids, _, _) = fill(&mut table, &LIMITS, (0..8).map(|_| ip("192.0.2.7")));
    let (id, beyond) = table.take(ip("192.0.2.7"), &LIMITS, 1).expect("heard");
    assert_eq!((beyond, table.fits(id, &LIMITS)), (Some(Bound::Ipv4), false));
    table.release(ids[0], 1);
    assert!(table.fits(id, &LIMITS));
}

/// A full table: those who are in it are as before, all others share one bound, and nobody is shut out for good.
#[test]
fn addresses_that_find_the_table_full_share_one_bound() {
    let limits = Limits { addresses_max: 50, ..LIMITS };
    let mut table = Table::default();
    let known = |n: u32| IpAddr::from(std::net::Ipv4Addr::from_bits(0x0a00_0000 + n));
    let (ids, within, _) = fill(&mut table, &limits, (0..50).map(known));
    assert_eq!((within, table.len()), (50, 50));
    let (strays, within, over) = fill(&mut table, &limits, (1_000..2_000).map(known));
    assert_eq!((within, over), (20, 5));
    assert_eq!((table.len(), table.overflowing()), (50, 25));
    assert_eq!(table.take(known(0), &limits, 1).map(|(_, beyond)| beyond), Ok(None));
    table.release(ids[1], 1);
    let (newcomer, beyond) = table.take(known(5_000), &limits, 1).expect("there is a place");
    assert!(newcomer != OVERFLOW && beyond.is_none());
    for id in strays {
        assert_eq!(id, OVERFLOW);
        table.release(id, 1);
    }
    assert_eq!(table.overflowing(), 0);
}

/// `create_room`: so many at once, then one at a time; by address, and by /48 over all its /64s.
#[test]
fn rooms_are_created_at_a_pace() {
    let mut table = Table::default();
    let created = |table: &mut Table, id, now_us| {
        (0..1_000).take_while(|_| table.create_room(id, &LIMITS, now_us).is_ok()).count()
    };
    let (id, _) = table.take(ip("192.0.2.7"), &LIMITS, 1).expect("taken");
    assert_eq!(created(&mut table, id, 1), 30);
    assert_eq!(table.create_room(id, &LIMITS, 1), Err(2_000_000));
    assert_eq!(created(&mut table, id, 2_000_001), 1);
    assert_eq!(created(&mut table, id, 300_000_000), 30);
    // Going and coming back changes nothing.
    table.release(id, 300_000_000);
    let (id, _) = table.take(ip("192.0.2.7"), &LIMITS, 300_000_001).expect("taken");
    assert_eq!(created(&mut table, id, 300_000_001), 0);
    let mut all = 0;
    for n in 0..40 {
        let (id, _) = table.take(ip(&format!("2001:db8:0:{n:x}::1")), &LIMITS, 400_000_000).expect("taken");
        all += created(&mut table, id, 400_000_000);
        table.release(id, 400_000_000);
    }
    assert_eq!(all, 30 * 16);
    assert_eq!(created(&mut table, NOBODY, 1), 1_000);
}

/// Who has gone and only created rooms is forgotten after a minute, or when the place is needed.
#[test]
fn an_address_at_rest_gives_way() {
    let limits = Limits { addresses_max: 1, ..LIMITS };
    let mut table = Table::default();
    let (id, _) = table.take(ip("192.0.2.7"), &limits, 1).expect("taken");
    assert_eq!(table.create_room(id, &limits, 1), Ok(()));
    table.release(id, 2);
    assert_eq!(table.len(), 1);
    let (other, _) = table.take(ip("192.0.2.8"), &limits, 3).expect("taken");
    assert!(other != OVERFLOW && table.len() == 1);
    assert_eq!(table.create_room(other, &limits, 3), Ok(()));
    table.release(other, 4);
    table.forget_rested(3_000_000);
    assert_eq!((table.len(), table.resting.len()), (0, 0));
}

/// A list of operations against a plain model: counts, bounds, and an empty table when all have gone.
#[test]
fn the_table_counts_as_a_plain_model_does() {
    for seed in 0..300_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = move |n: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % n
        };
        let limits = Limits { addresses_max: 4 + random(30) as usize, ..LIMITS };
        let (mut table, mut held, mut now_us) = (Table::default(), Vec::<(u32, IpAddr)>::new(), 1);
        for _ in 0..400 {
            now_us += random(3_000_000);
            match random(10) {
                0..5 => {
                    let address = match random(2) {
                        0 => ip(&format!("192.0.2.{}", random(12))),
                        _ => ip(&format!("2001:db8:{:x}:{:x}::{}", random(3), random(5), random(9))),
                    };
                    if let Ok((id, _)) = table.take(address, &limits, now_us) {
                        held.push((id, address));
                    }
                }
                5..9 if !held.is_empty() => {
                    let (id, _) = held.swap_remove(random(held.len() as u64) as usize);
                    table.release(id, now_us);
                }
                _ => {
                    if let Some((id, _)) = held.first() {
                        let _ = table.create_room(*id, &limits, now_us);
                    }
                }
            }
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            for (id, _) in &held {
                for at in table.chain(*id) {
                    *model.entry(at).or_default() += 1;
                }
            }
            for (id, count) in &model {
                let (_, max) = table.max(*id, &limits);
                assert_eq!(table.entries[*id as usize].count, *count, "seed {seed}");
                assert!(*count <= max + (max / 4).max(GRACE_MIN), "seed {seed}");
            }
            for (id, address) in held.iter().filter(|(id, _)| *id != OVERFLOW) {
                assert_eq!(table.entries[*id as usize].prefix, prefixes(*address).0, "seed {seed}");
            }
            assert!(table.len() <= limits.addresses_max && table.resting.len() <= table.len(), "seed {seed}");
            assert_eq!(table.len() + table.free.len() + 2, table.entries.len(), "seed {seed}");
        }
        for (id, _) in held {
            table.release(id, now_us);
        }
        table.forget_rested(u64::MAX);
        assert_eq!((table.len(), table.overflowing()), (0, 0), "seed {seed}");
    }
}

/// `Table::take_in`, `Table::address`: who was counted at another process is counted here by the same prefix, whatever
/// the bounds say, and out again like everybody else.
#[test]
fn who_was_counted_elsewhere_is_counted_by_the_same_prefix() {
    for (text, told) in [("192.0.2.7", Some("192.0.2.7")), ("2001:db8:1:2:3:4:5:6", Some("2001:db8:1:2::"))] {
        let (mut there, mut here) = (Table::default(), Table::default());
        let (id, _) = there.take(ip(text), &LIMITS, 1).expect("the first");
        let address = there.address(id);
        assert_eq!(address, told.map(ip), "{text}");
        let ids: Vec<u32> = (0..50).map(|_| here.take_in(address, &LIMITS)).collect();
        assert!(here.take(ip(text), &LIMITS, 1).is_err(), "{text}: fifty are counted");
        for id in ids {
            here.release(id, 1);
        }
        assert_eq!(here.len(), 0, "{text}");
    }
    let mut here = Table::default();
    let id = here.take_in(None, &LIMITS);
    assert_eq!((here.address(id), here.overflowing()), (None, 1));
    here.release(id, 1);
    assert_eq!(here.overflowing(), 0);
}
