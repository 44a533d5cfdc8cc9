use std::collections::BTreeMap;

use super::{Candidate, evenly, hash, place, place_within_bound, waits};
use crate::id::{HostId, RoomId};

const ROOMS: u64 = 10_000;

fn hosts(count: usize) -> Vec<HostId> {
    (0..count).map(|n| HostId::new(format!("host-{n}")).unwrap()).collect()
}

fn room(number: u64) -> RoomId {
    RoomId::new("chat", format!("room-{number}")).unwrap()
}

fn counts(hosts: &[HostId], weight: impl Fn(usize) -> u32) -> Vec<u64> {
    let mut counts = vec![0; hosts.len()];
    for number in 0..ROOMS {
        let of = |(n, host)| Candidate { host, weight: weight(n), load: 0 };
        let placed = place(&room(number), hosts.iter().enumerate().map(of)).unwrap();
        counts[hosts.iter().position(|host| host == placed).unwrap()] += 1;
    }
    counts
}

/// Hosts of other releases place by these.
#[test]
fn golden_places() {
    let host = HostId::new("host-a").unwrap();
    let lobby = RoomId::new("chat", "lobby").unwrap();
    assert_eq!(hash(&host, &lobby), 13_410_850_894_180_569_008);
    let hosts = hosts(5);
    let placed = |weight: &dyn Fn(usize) -> u32| {
        let of = |(n, host)| Candidate { host, weight: weight(n), load: 0 };
        let place = |number| place(&room(number), hosts.iter().enumerate().map(of)).unwrap();
        (0..8).map(place).map(|host| host.as_str().replace("host-", "")).collect::<String>()
    };
    // Of another implementation, with logarithms of fifty digits.
    assert_eq!(placed(&|_| 1), "23244011");
    assert_eq!(placed(&|n| n as u32 + 1), "43244311");
    assert_eq!(waits(u64::MAX), 0);
    assert_eq!(waits(0), 64 << 32);
    assert_eq!(waits((1 << 63) - 1), 1 << 32);
    // 2^64 / 3: log2(3), which is 1.584962500721156 to sixteen digits, or 6,807,362,105.98, rounded up.
    assert_eq!(waits(u64::MAX / 3 - 1), 6_807_362_106);
}

#[test]
fn the_logarithm_is_right_and_falls() {
    let mut last = u64::MAX;
    for step in 0..4096u64 {
        let value = step << 52 | 0xf_ffff_ffff_ffff;
        let exact = -((value as f64 + 1.0) / 2f64.powi(64)).log2() * 2f64.powi(32);
        let found = waits(value);
        assert!((found as f64 - exact).abs() < 2.0, "{value}: {found} {exact}");
        assert!(found < last, "{value}");
        last = found;
    }
}

#[test]
fn a_host_gets_rooms_by_its_weight() {
    let hosts = hosts(4);
    let counts = counts(&hosts, |n| [1, 2, 3, 4][n]);
    for (n, count) in counts.iter().enumerate() {
        let share = ROOMS * (n as u64 + 1) / 10;
        assert!(count.abs_diff(share) * 20 < share, "{counts:?}"); // five in a hundred
    }
    assert_eq!(place(&room(1), [Candidate { host: &hosts[0], weight: 0, load: 0 }]), None);
    assert_eq!(place(&room(1), []), None);
}

#[test]
fn who_leaves_moves_its_own_rooms_only_whatever_the_weights() {
    let hosts = hosts(7);
    let of = |n: usize| Candidate { host: &hosts[n], weight: 1 + n as u32 * 3, load: 0 };
    for number in 0..ROOMS {
        let room = room(number);
        let before = place(&room, (0..7).map(of)).unwrap();
        let after = place(&room, (0..7).filter(|n| *n != 3).rev().map(of)).unwrap();
        assert!(*before == hosts[3] || before == after, "{room}");
    }
}

#[test]
fn a_host_of_more_weight_takes_and_gives_nothing_else() {
    let hosts = hosts(5);
    for number in 0..2_000 {
        let room = room(number);
        let of = |heavy: u32| {
            let weight = move |n| if n == 2 { heavy } else { 4 };
            let hosts = hosts.iter().enumerate();
            place(&room, hosts.map(|(n, host)| Candidate { host, weight: weight(n), load: 0 }))
                .unwrap()
        };
        let (before, after) = (of(4), of(6));
        assert!(before == after || *after == hosts[2], "{room}");
    }
}

/// Rooms one after the other, each with what is known of the loads.
#[test]
fn no_host_gets_more_than_a_tenth_above_its_share() {
    for count in [3, 10, 50] {
        let hosts = hosts(count);
        let mut loads: BTreeMap<&HostId, u32> = hosts.iter().map(|host| (host, 0)).collect();
        for number in 0..ROOMS {
            let candidates =
                hosts.iter().map(|host| Candidate { host, weight: 1, load: loads[host] });
            let placed = place_within_bound(&room(number), candidates).unwrap();
            *loads.get_mut(placed).unwrap() += 1;
        }
        let most = u64::from(*loads.values().max().unwrap());
        let bound = (ROOMS * 11).div_ceil(10 * count as u64);
        assert!(most <= bound, "{count} hosts: {most} above {bound}");
    }
}

#[test]
fn one_that_is_full_is_passed_over_and_nobody_else_is() {
    let hosts = hosts(4);
    let loads = [500, 100, 100, 100];
    for number in 0..1_000 {
        let room = room(number);
        let all = hosts.iter().zip(loads);
        let placed =
            place_within_bound(&room, all.map(|(host, load)| Candidate { host, weight: 1, load }));
        assert_eq!(placed, place(&room, evenly(&hosts[1..])), "{room}");
    }
    let one = [Candidate { host: &hosts[0], weight: 1, load: u32::MAX }];
    assert_eq!(place_within_bound(&room(0), one), Some(&hosts[0]));
}
