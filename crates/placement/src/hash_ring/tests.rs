use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn seed(number: u64) -> RingSeed {
    let mut secret = [0; 16];
    secret[..8].copy_from_slice(&number.to_le_bytes());
    RingSeed::new(secret)
}

fn ring(seed: RingSeed, members: &BTreeMap<u16, u16>) -> HashRing<u16> {
    let weighed = members.iter().map(|(member, weight)| (*member, Weight::new(*weight).expect("0..=1000")));
    HashRing::build(seed, weighed).expect("distinct members, one with a weight")
}

fn keys(count: u32) -> impl Iterator<Item = [u8; 4]> {
    (0..count).map(u32::to_le_bytes)
}

/// One to eight members, each with some weight.
fn member_lists() -> impl Strategy<Value = BTreeMap<u16, u16>> {
    prop::collection::btree_map(any::<u16>(), 1..=300_u16, 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// `HashRing::build` with one member more, and so, read backwards, with one less.
    #[test]
    fn a_member_that_comes_or_goes_moves_only_its_own_keys(
        number: u64, members in member_lists(), other: u16, weight in 1..=300_u16,
    ) {
        prop_assume!(!members.contains_key(&other));
        let without = ring(seed(number), &members);
        let mut more = members.clone();
        more.insert(other, weight);
        let with = ring(seed(number), &more);
        for key in keys(500) {
            let (before, after) = (without.owner(&key), with.owner(&key));
            prop_assert!(before == after || *after == other, "{before} -> {after} at the coming of {other}");
        }
    }

    /// `HashRing::build` with one weight raised, and so, read backwards, lowered.
    #[test]
    fn a_weight_that_rises_only_brings_keys_to_its_member(
        number: u64, members in member_lists(), pick: prop::sample::Index, more in 1..=700_u16,
    ) {
        let risen = *members.keys().nth(pick.index(members.len())).expect("not empty");
        let low = ring(seed(number), &members);
        let mut heavier = members.clone();
        *heavier.get_mut(&risen).expect("picked from it") += more;
        let high = ring(seed(number), &heavier);
        for key in keys(500) {
            let (before, after) = (low.owner(&key), high.owner(&key));
            prop_assert!(before == after || *after == risen, "{before} -> {after}, but {risen} rose");
        }
    }

    /// `HashRing::build`: the answer depends on the set alone.
    #[test]
    fn the_order_of_the_members_does_not_matter(
        number: u64,
        shuffled in member_lists().prop_flat_map(|m| Just(m.into_iter().collect::<Vec<_>>()).prop_shuffle()),
    ) {
        let sorted = ring(seed(number), &shuffled.iter().copied().collect());
        let weighed = shuffled.iter().map(|(m, w)| (*m, Weight::new(*w).expect("0..=1000")));
        let built = HashRing::build(seed(number), weighed).expect("distinct members");
        prop_assert_eq!(&built.points, &sorted.points);
        for key in keys(100) {
            prop_assert_eq!(built.owner(&key), sorted.owner(&key));
        }
    }

    /// `HashRing::owners`: the second in line is who owns the key once the first is gone.
    #[test]
    fn the_owners_in_line_are_distinct_and_take_over_in_that_order(
        number: u64, members in member_lists(), key: [u8; 8], n in 0..12_usize,
    ) {
        let full = ring(seed(number), &members);
        let line: Vec<u16> = full.owners(&key, n).copied().collect();
        prop_assert_eq!(line.len(), n.min(members.len()));
        prop_assert_eq!(line.iter().collect::<BTreeSet<_>>().len(), line.len());
        let mut left = members;
        for owner in line {
            prop_assert_eq!(*ring(seed(number), &left).owner(&key), owner);
            left.remove(&owner);
        }
    }

    /// `HashRing::share`: nothing of the space is without an owner or has two.
    #[test]
    fn the_shares_add_up_to_the_whole_space(number: u64, members in member_lists()) {
        let ring = ring(seed(number), &members);
        let sum: f64 = members.keys().map(|member| ring.share(member)).sum();
        prop_assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    }
}

/// `HashRing::share` and `HashRing::owner` against the weights, over 40 fixed seeds.
#[test]
fn members_own_what_their_weights_say() {
    let tables: [&[(u16, u16)]; 4] = [
        &[(0, 100), (1, 100)],
        &[(0, 100), (1, 100), (2, 100), (3, 100), (4, 100), (5, 100), (6, 100), (7, 100)],
        &[(0, 50), (1, 100), (2, 200)],
        &[(0, 100), (1, 1000), (2, 300), (3, 0)],
    ];
    for table in tables {
        let members: BTreeMap<u16, u16> = table.iter().copied().collect();
        let total: f64 = members.values().map(|w| f64::from(*w)).sum();
        for (member, weight) in &members {
            let fair = f64::from(*weight) / total;
            let shares: Vec<f64> = (0..40).map(|n| ring(seed(n), &members).share(member)).collect();
            // A share strays by 1/√points of itself; five of these in one of 40 seeds would be a fault.
            let points = f64::from(Weight::new(*weight).expect("0..=1000").virtual_nodes()).max(1.0);
            let stray = 5.0 * fair / points.sqrt();
            for share in &shares {
                assert!((share - fair).abs() <= stray, "member {member} of {table:?}: {share}, fair {fair}");
            }
            let mean = shares.iter().sum::<f64>() / 40.0;
            assert!(
                (mean - fair).abs() <= stray / 5.0,
                "member {member} of {table:?}: mean {mean}, fair {fair}"
            );
        }
    }
}

/// `HashRing::owner` counted over many keys is what `HashRing::share` says.
#[test]
fn keys_fall_to_a_member_as_its_share_says() {
    let members = BTreeMap::from([(0, 50), (1, 100), (2, 200), (3, 0)]);
    let ring = ring(seed(7), &members);
    let mut owned = BTreeMap::<u16, u32>::new();
    for key in keys(100_000) {
        *owned.entry(*ring.owner(&key)).or_default() += 1;
    }
    for member in members.keys() {
        let counted = f64::from(owned.get(member).copied().unwrap_or(0)) / 100_000.0;
        // Five standard deviations of a binomial count are below 0.8 % of the keys.
        assert!((counted - ring.share(member)).abs() < 0.008, "member {member}: {counted}");
    }
    assert_eq!(ring.share(&9), 0.0, "a stranger owns nothing");
    assert_eq!(ring.members(), [0, 1, 2, 3]);
}

/// `HashRing::build`: each list that cannot be a ring.
#[test]
fn a_list_that_cannot_be_a_ring_is_refused() {
    let check = |members: &[(u16, u16)], expected: RingError| {
        let weighed = members.iter().map(|(m, w)| (*m, Weight::new(*w).expect("0..=1000")));
        assert_eq!(HashRing::build(seed(1), weighed).map(|_| ()), Err(expected), "{members:?}");
    };
    check(&[], RingError::Empty);
    check(&[(1, 0), (2, 0)], RingError::AllWeightsZero { members: 2 });
    check(&[(3, 100), (9, 5), (1, 100), (9, 0)], RingError::Duplicate { first: 1, second: 3 });
    let crowd: Vec<(u16, u16)> = (0..=1024).map(|m| (m, 1)).collect();
    check(&crowd, RingError::TooManyMembers);
    let full = crowd[..MEMBERS_MAX].iter().copied().collect();
    assert_eq!(ring(seed(1), &full).members().len(), MEMBERS_MAX);
}

/// `HashRing::owner` around the end of the space and exactly on a point.
#[test]
fn a_key_belongs_to_the_first_point_at_or_after_it() {
    let ring = HashRing {
        seed: seed(0),
        members: vec!["a", "b"],
        points: vec![10, 20, 20, u64::MAX - 1],
        point_owners: vec![0, 0, 1, 1],
    };
    let table = [(0, "a"), (10, "a"), (11, "a"), (20, "a"), (21, "b"), (u64::MAX - 1, "b"), (u64::MAX, "a")];
    for (place, owner) in table {
        assert_eq!(*ring.member_at(ring.first_point_from(place)), owner, "at {place}");
    }
}

/// `RingSeed`: another seed is another placement, and a seed is never printed.
#[test]
fn seeds_part_rings_and_stay_secret() {
    let members = BTreeMap::from([(0, 100), (1, 100), (2, 100), (3, 100)]);
    let upper = ring(seed(1), &members);
    for other in [seed(2), seed(1).derive(b"workers"), seed(1).derive(b"")] {
        let lower = ring(other, &members);
        let same = keys(4_000).filter(|key| upper.owner(key) == lower.owner(key)).count();
        assert!((800..1_200).contains(&same), "{same} of 4,000 keys have the same of four owners");
    }
    assert_eq!(format!("{:?}", RingSeed::new([7; 16])), "RingSeed(..)");
}
