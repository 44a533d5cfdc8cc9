//! Names of keys and channels. The document: `docs/layout.md`.

use bytes::Bytes;
use ractor_rooms::id::{HostId, Incarnation, RoomId};
use ractor_rooms::protocol::record::SnapshotKey;

use crate::text;
use crate::words::Words;

/// Names every key and channel.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    namespace: String,
    shards: u16,
    cluster: bool,
}

impl Layout {
    pub(crate) fn new(namespace: &str, shards: u16, cluster: bool) -> Self {
        Self { namespace: namespace.to_owned(), shards: shards.max(1), cluster }
    }

    pub(crate) fn shards(&self) -> u16 {
        self.shards
    }

    /// The shard of a room: FNV-1a of 64 bits over `length:kind:key`, its halves xored, modulo the
    /// count.
    pub(crate) fn shard(&self, room: &RoomId) -> u16 {
        self.shard_of(&text::room(room))
    }

    fn shard_of(&self, room: &[u8]) -> u16 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in room {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let folded = (hash ^ (hash >> 32)) & 0xffff_ffff;
        u16::try_from(folded % u64::from(self.shards)).unwrap_or(0) // below a u16
    }

    fn shard_prefix(&self, shard: u16) -> String {
        format!("{}:{{s{shard:04}}}:", self.namespace)
    }

    /// A key of a shard: `owned`, `unrest` or `generation`.
    pub(crate) fn of_shard(&self, shard: u16, field: &str) -> Bytes {
        (self.shard_prefix(shard) + field).into()
    }

    fn of_room(&self, room: &RoomId, field: &str) -> Bytes {
        let mut key = self.shard_prefix(self.shard(room)).into_bytes();
        key.extend_from_slice(field.as_bytes());
        key.push(b':');
        key.extend(text::room(room));
        key.into()
    }

    /// The record.
    pub(crate) fn meta(&self, room: &RoomId) -> Bytes {
        self.of_room(room, "meta")
    }

    /// The keys that an append needs, in the order of `append.lua`, of a room as text.
    pub(crate) fn append_keys(&self, room: &[u8]) -> Words {
        let prefix = self.shard_prefix(self.shard_of(room));
        let mut keys = Words::with_capacity(2, 2 * (prefix.len() + room.len() + 8));
        for field in ["meta:", "log:"] {
            keys.put(|key| {
                for part in [prefix.as_bytes(), field.as_bytes(), room] {
                    key.extend_from_slice(part);
                }
            });
        }
        keys
    }

    /// The keys that any other operation on a room needs, in the order of `room.lua`. A snapshot that
    /// is not named is a key that never exists.
    pub(crate) fn room_keys(
        &self,
        room: &RoomId,
        new: Option<&SnapshotKey>,
        old: Option<&SnapshotKey>,
    ) -> Vec<Bytes> {
        let shard = self.shard(room);
        let mut keys: Vec<_> = ["meta", "log", "prod", "prodage", "hist", "dead"]
            .map(|field| self.of_room(room, field))
            .into();
        keys.push(self.of_shard(shard, "unrest"));
        keys.push(self.of_shard(shard, "owned"));
        keys.push(self.of_room(room, "watch"));
        for snapshot in [new, old] {
            keys.push(match snapshot {
                Some(key) => self.snapshot(room, key),
                None => self.of_room(room, "snap"),
            });
        }
        keys
    }

    pub(crate) fn snapshot(&self, room: &RoomId, key: &SnapshotKey) -> Bytes {
        self.of_room(room, &format!("snap:{}:{}", text::activation(&key.by), key.attempt))
    }

    /// A snapshot that is being put up in pieces.
    pub(crate) fn upload(&self, room: &RoomId, key: &SnapshotKey, nonce: u64) -> Bytes {
        let by = text::activation(&key.by);
        self.of_room(room, &format!("upload:{by}:{}:{nonce}", key.attempt))
    }

    fn host_prefix(&self, host: &str) -> String {
        format!("{}:{{h-{host}}}:", self.namespace)
    }

    /// `session`, `last` and `inbox` of a host, whose id is given as text.
    pub(crate) fn host_keys(&self, host: &str) -> Vec<Bytes> {
        ["session", "last", "inbox"].map(|field| (self.host_prefix(host) + field).into()).into()
    }

    pub(crate) fn stream(&self, host: &str) -> Bytes {
        (self.host_prefix(host) + "stream").into()
    }

    /// All hosts that were seen lately.
    pub(crate) fn hosts(&self) -> Bytes {
        format!("{}:hosts", self.namespace).into()
    }

    /// What the channels begin with that a room's script publishes to; the room as text.
    pub(crate) fn room_channels(&self, room: &[u8]) -> String {
        if self.cluster {
            self.shard_prefix(self.shard_of(room))
        } else {
            format!("{}:", self.namespace)
        }
    }

    /// What the channel begins with that a host's own scripts publish to; its number follows.
    pub(crate) fn host_channel(&self, host: &HostId) -> Bytes {
        let name = text::host(host);
        let prefix =
            if self.cluster { self.host_prefix(&name) } else { format!("{}:", self.namespace) };
        format!("{prefix}to:{name}#").into()
    }

    /// Everything that one incarnation listens to.
    pub(crate) fn channels(&self, by: &Incarnation) -> Vec<Bytes> {
        let (to, host) = (text::incarnation(by), text::host(&by.host));
        let of = |prefix: String| {
            [format!("{prefix}to:{to}").into(), format!("{prefix}host:{host}").into()]
        };
        if !self.cluster {
            return of(format!("{}:", self.namespace)).into();
        }
        let mut all: Vec<Bytes> =
            (0..self.shards).flat_map(|shard| of(self.shard_prefix(shard))).collect();
        all.push(format!("{}to:{to}", self.host_prefix(&host)).into());
        all
    }

    pub(crate) fn publish(&self) -> &'static str {
        if self.cluster { "SPUBLISH" } else { "PUBLISH" }
    }
}
