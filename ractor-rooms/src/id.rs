//! The names and numbers that travel: parsed once, then carried as types.
//!
//! Nothing here does IO or reads a clock. Every type is ordered and hashable, because the protocol's
//! states are compared and hashed by the model check.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The longest key of a room, in bytes.
pub const MAX_KEY_BYTES: usize = 512;
/// The longest kind or host name, in bytes.
pub const MAX_NAME_BYTES: usize = 128;

/// Why a name or a key was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdErr {
    /// It was empty.
    #[error("the {what} is empty; expected 1 to {limit} bytes")]
    Empty {
        /// Which name it was: `key`, `kind` or `host id`.
        what: &'static str,
        /// The most bytes it may have.
        limit: usize,
    },
    /// It was too long.
    #[error("the {what} has {found} bytes; expected 1 to {limit}")]
    TooLong {
        /// Which name it was: `key`, `kind` or `host id`.
        what: &'static str,
        /// How many bytes it has.
        found: usize,
        /// The most bytes it may have.
        limit: usize,
    },
}

fn check(what: &'static str, found: usize, limit: usize) -> Result<(), IdErr> {
    match found {
        0 => Err(IdErr::Empty { what, limit }),
        n if n > limit => Err(IdErr::TooLong { what, found, limit }),
        _ => Ok(()),
    }
}

/// The key of a room within its kind: 1 to 512 bytes of any value.
///
/// Keys need not be text; [`fmt::Display`] escapes what is not.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RoomKey(Bytes);

impl RoomKey {
    /// Takes a key as it is.
    ///
    /// # Errors
    /// [`IdErr`] when it is empty or over [`MAX_KEY_BYTES`].
    pub fn new(key: impl Into<Bytes>) -> Result<Self, IdErr> {
        let key = key.into();
        check("key", key.len(), MAX_KEY_BYTES)?;
        Ok(Self(key))
    }

    /// The bytes of the key, unchanged.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for RoomKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for RoomKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes a name of 1 to 128 bytes.
            ///
            /// # Errors
            /// [`IdErr`] when it is empty or over [`MAX_NAME_BYTES`].
            pub fn new(name: impl Into<Arc<str>>) -> Result<Self, IdErr> {
                let name = name.into();
                check($what, name.len(), MAX_NAME_BYTES)?;
                Ok(Self(name))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

name!(
    /// The kind of a room, as its `RoomActor::KIND` names it.
    Kind, "kind"
);
name!(
    /// The stable name of a host; it stays the same over restarts.
    HostId, "host id"
);

/// A room: its kind and its key.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RoomId {
    /// The kind of the room.
    pub kind: Kind,
    /// The key of the room within its kind.
    pub key: RoomKey,
}

impl RoomId {
    /// Names a room by kind and key.
    ///
    /// # Errors
    /// [`IdErr`] when either is empty or too long.
    pub fn new(kind: impl Into<Arc<str>>, key: impl Into<Bytes>) -> Result<Self, IdErr> {
        Ok(Self { kind: Kind::new(kind)?, key: RoomKey::new(key)? })
    }
}

impl fmt::Display for RoomId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.key)
    }
}

impl fmt::Debug for RoomId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One start of a host: the host and a number that no other start of it has.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Incarnation {
    /// The host.
    pub host: HostId,
    /// Which start of it.
    pub number: u64,
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.host, self.number)
    }
}

/// One acquisition of a room by one incarnation. A repeat of the same acquire reuses it; a new acquire
/// never does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Activation {
    /// The incarnation that acquires.
    pub by: Incarnation,
    /// Its own number of this acquisition.
    pub number: u64,
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.by, self.number)
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
        )]
        pub struct $name(pub u64);

        impl $name {
            /// The number after this one.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number!(
    /// The fencing token of a room: grows with every acquisition and never repeats.
    Epoch
);
number!(
    /// How often a store may have lost data: grows with each restart, failover or emptying of the part of
    /// the store that holds a room, and never repeats.
    Generation
);
number!(
    /// The number of one birth of a room. Sequence numbers and member positions belong to a life.
    Life
);
number!(
    /// The number of an inbound message in its room's log. It only reveals gaps; it is not an identity.
    Seq
);
number!(
    /// A producer's own number of a message to one room; the first is 1.
    Number
);
number!(
    /// The number of a snapshot within a room; it only grows.
    SnapshotNumber
);
number!(
    /// The number of an event that a room published to its members; the first is 1.
    OutSeq
);
number!(
    /// Milliseconds since the Unix epoch by the store's clock. Decides deadlines, never safety.
    Millis
);

impl Millis {
    /// A duration in whole milliseconds; one that does not fit is the longest that does.
    pub fn of(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    /// The time that is a duration after this one.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(Self::of(duration).0))
    }
}

/// A place in a room's log that never repeats, also after trimming: the store's clock and a count
/// within that millisecond, like a stream id.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Position {
    /// Milliseconds of the store's clock when the entry was written (never going back).
    pub ms: u64,
    /// Count within that millisecond.
    pub n: u64,
}

impl Position {
    /// Before every entry.
    pub const START: Self = Self { ms: 0, n: 0 };

    /// The position of an entry written at `now` after this one.
    #[must_use]
    pub fn following(self, now: Millis) -> Self {
        if now.0 > self.ms {
            Self { ms: now.0, n: 0 }
        } else {
            Self { ms: self.ms, n: self.n.saturating_add(1) }
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.n)
    }
}

/// Who numbers the messages: the identity of a message is its producer and its number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Producer {
    /// The senders of one host incarnation, which share one queue per room.
    Host(Incarnation),
    /// A durable room, over all its activations: a replay repeats the numbers.
    Room(RoomId, Life),
    /// One activation of a live room: what it sends is not repeated by another.
    Activation(RoomId, Activation),
}
