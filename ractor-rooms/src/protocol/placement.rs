//! Which host runs a room: weighted rendezvous hashing, with a bound on the load.
//!
//! Each host gets a score for the room and the best wins, so a host that leaves moves its own rooms only, one
//! that comes takes its share of all the others, and the order of the list does not matter. A host of twice the
//! weight gets twice the rooms.
//!
//! The hash is 64-bit FNV-1a (Fowler, Noll, Vo; offset basis and prime of the published variant) over version,
//! host, kind and key, each behind its length, finished by the mixer of SplitMix64 (Steele, Lea, Flood 2014),
//! because FNV alone spreads similar names badly. Read as a number `u` between 0 and 1, the best host is the one
//! of the smallest `-log2(u) / weight`: an exponential race, in which each wins by the share of its weight
//! (Thaler, Ravishankar 1998; weights by the logarithm as in Schindelhauer, Schomaker 2005). The logarithm is
//! taken in integers, so that hosts of any make agree to the last bit.
//!
//! The bound is that of "Consistent Hashing with Bounded Loads" (Mirrokni, Thorup, Zadimoghaddam 2018): a host
//! that has its share and a tenth of it more (or [`LOAD_SLACK`] rooms, where that is more) is passed over, and the next
//! best gets the room.
//!
//! All of it is part of the contract between hosts of different releases: under one version number it never
//! changes.

#[cfg(test)]
mod placement_test;

use std::cmp::Ordering;

use crate::id::{HostId, RoomId};

/// The version of the scoring.
pub const PLACEMENT_VERSION: u8 = 1;

/// How much more than its share a host may have, in percent.
pub const LOAD_BOUND_PERCENT: u64 = 10;

/// How many rooms more than its share a host may have in any case. What is known of a load is as old as a heartbeat,
/// and a few rooms are not worth a detour.
pub const LOAD_SLACK: u64 = 16;

/// A host that may run the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    /// The host.
    pub host: &'a HostId,
    /// Its share, relative to those of the others; none of 0 is chosen.
    pub weight: u32,
    /// Rooms that it runs, as far as is known.
    pub load: u32,
}

/// Hosts of the same weight, whatever they run.
pub fn evenly<'a>(
    hosts: impl IntoIterator<Item = &'a HostId>,
) -> impl Iterator<Item = Candidate<'a>> {
    hosts.into_iter().map(|host| Candidate { host, weight: 1, load: 0 })
}

/// How good a host is for a room: a hash of both, of which all 64 bits are used.
pub fn hash(host: &HostId, room: &RoomId) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut eat = |bytes: &[u8]| {
        for byte in (bytes.len() as u32).to_be_bytes().iter().chain(bytes) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    eat(&[PLACEMENT_VERSION]);
    eat(host.as_str().as_bytes());
    eat(room.kind.as_str().as_bytes());
    eat(room.key.as_bytes());
    mix(hash)
}

/// The mixer of SplitMix64: each bit of a number decides about every bit of what comes out.
pub(crate) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The host that should run a room by the weights alone; none when none has a weight.
pub fn place<'a>(
    room: &RoomId,
    candidates: impl IntoIterator<Item = Candidate<'a>>,
) -> Option<&'a HostId> {
    best(room, candidates.into_iter()).map(|candidate| candidate.host)
}

/// The same, where a host that is [`LOAD_BOUND_PERCENT`] and [`LOAD_SLACK`] above its share is passed over. What is known of the
/// loads may be old: the bound spreads rooms, it promises nothing.
pub fn place_within_bound<'a>(
    room: &RoomId,
    candidates: impl IntoIterator<Item = Candidate<'a>> + Clone,
) -> Option<&'a HostId> {
    let all = || candidates.clone().into_iter().filter(|candidate| candidate.weight > 0);
    let weights: u64 = all().map(|candidate| u64::from(candidate.weight)).sum();
    let rooms = 1 + all().map(|candidate| u64::from(candidate.load)).sum::<u64>();
    let has_place = |candidate: &Candidate<'_>| {
        // load < rooms * weight / weights * 1.1, rounded up: so there is always one that has.
        let weights = u128::from(weights);
        let load = u128::from(candidate.load) * 100 * weights;
        let share = u128::from(rooms) * u128::from(candidate.weight);
        let slack = u128::from(LOAD_SLACK) * 100 * weights;
        load < (share * u128::from(100 + LOAD_BOUND_PERCENT)).max(share * 100 + slack)
    };
    best(room, all().filter(has_place)).map(|candidate| candidate.host)
}

fn best<'a>(
    room: &RoomId,
    candidates: impl Iterator<Item = Candidate<'a>>,
) -> Option<Candidate<'a>> {
    candidates
        .filter(|candidate| candidate.weight > 0)
        .map(|candidate| (waits(hash(candidate.host, room)), candidate))
        .min_by(|(a, left), (b, right)| race(*a, left, *b, right))
        .map(|(_, candidate)| candidate)
}

/// Who is first of two that wait for so long, each the shorter the more it weighs.
fn race(a: u64, left: &Candidate<'_>, b: u64, right: &Candidate<'_>) -> Ordering {
    let at = |waits: u64, other: &Candidate<'_>| u128::from(waits) * u128::from(other.weight);
    at(a, right).cmp(&at(b, left)).then_with(|| right.host.cmp(left.host))
}

/// `-log2((hash + 1) / 2^64)` in units of 2^-32, rounded up: 0 for the highest hash, 64 * 2^32 for the lowest.
fn waits(hash: u64) -> u64 {
    let Some(value) = hash.checked_add(1) else { return 0 };
    let whole = u64::from(value.ilog2());
    // The fraction bit by bit: of a number from 1 to 2 the square is at least 2 if its next bit is set.
    let mut mantissa = u128::from(value) << (63 - whole);
    let mut fraction = 0u64;
    for _ in 0..32 {
        mantissa = (mantissa * mantissa) >> 63;
        fraction <<= 1;
        if mantissa >> 64 != 0 {
            mantissa >>= 1;
            fraction |= 1;
        }
    }
    (64 << 32) - ((whole << 32) | fraction)
}
