//! Which host runs a room: rendezvous hashing.
//!
//! Each host gets a score for the room and the highest wins, so a host that leaves moves its own rooms
//! only and the order of the list does not matter. The score is the first eight bytes of a 64-bit
//! FNV-1a hash (Fowler, Noll, Vo; offset basis and prime of the published 64-bit variant) over version,
//! host, kind and key, each behind its length, finished by the mixer of SplitMix64 (Steele, Lea, Flood
//! 2014), because FNV alone spreads similar names badly. The result is part of the wire contract between
//! hosts of different releases: it never changes under the same version number.

use crate::id::{HostId, RoomId};

/// The version of the scoring.
pub const PLACEMENT_VERSION: u8 = 1;

/// The score of a host for a room.
pub fn score(host: &HostId, room: &RoomId) -> u64 {
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
    let mut z = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The host that should run a room, out of those given; none when there are none.
pub fn place<'a>(room: &RoomId, hosts: impl IntoIterator<Item = &'a HostId>) -> Option<&'a HostId> {
    hosts.into_iter().max_by_key(|host| (score(host, room), *host))
}
