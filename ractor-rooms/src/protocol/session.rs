//! A host's session: who is there, and when a host must stop believing that it is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{Generation, HostId, Incarnation, Kind, Millis};

/// What a host is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HostState {
    /// It has just started and leaves rooms to others as long as there are any.
    Joining,
    /// It takes rooms.
    Ready,
    /// It keeps its rooms and takes no more.
    Cordoned,
    /// It moves its rooms out and takes no more.
    Draining,
}

impl HostState {
    /// Whether it takes a room that is offered to it.
    pub fn takes_rooms(self) -> bool {
        match self {
            Self::Joining | Self::Ready => true,
            Self::Cordoned | Self::Draining => false,
        }
    }
}

/// What a host says of itself with each heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionSpec {
    /// What it is ready for.
    pub state: HostState,
    /// How many rooms it runs.
    pub load: u32,
    /// How many rooms it may run; 0 for a host of senders and members only.
    pub capacity: u32,
    /// Its share of the rooms, relative to those of the other hosts.
    pub weight: u32,
    /// The kinds it runs, each with the highest snapshot schema version it reads.
    pub kinds: BTreeMap<Kind, u32>,
    /// The generation in which it has proved or dropped all that it ran before.
    pub proved: Generation,
    /// Rooms of earlier incarnations of the host, from this number on, are still in its memory, and it takes
    /// them back. Others leave such rooms to it: they would start from what is stored, which is older.
    pub holds: Option<u64>,
}

/// A session that is alive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// Whose it is.
    pub incarnation: Incarnation,
    /// What the host says of itself.
    pub spec: SessionSpec,
}

/// The host that has the rooms of an incarnation in memory although its session has ended, if there is one.
/// It is a preference: who takes such a room all the same takes it as any other.
pub fn holder<'a>(of: &Incarnation, sessions: &'a [SessionInfo]) -> Option<&'a HostId> {
    let holds = |s: &&SessionInfo| {
        s.incarnation.host == of.host
            && s.incarnation.number > of.number
            && s.spec.holds.is_some_and(|from| from <= of.number)
    };
    sessions.iter().find(holds).map(|s| &s.incarnation.host)
}

/// The answer to the opening of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenAnswer {
    /// It is open, under this incarnation.
    Opened(Incarnation),
    /// An older one under the same host id has not ended.
    Taken {
        /// When it ends if nobody renews it.
        until: Millis,
    },
}

/// Decides, on the host, whether its session may still be trusted.
///
/// Time is the host's own monotonic clock in milliseconds. The session counts from the *sending* of the
/// last heartbeat that was answered, so that the host gives up before the store does, whatever the
/// network did to the answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionKeeper {
    ttl_ms: u64,
    proved_at: u64,
    lapsed: bool,
}

impl SessionKeeper {
    /// A session whose opening was sent at `sent_at`.
    pub fn opened(ttl_ms: u64, sent_at: u64) -> Self {
        Self { ttl_ms, proved_at: sent_at, lapsed: false }
    }

    /// A heartbeat that was sent at `sent_at` was answered; `renewed` is what the store said.
    pub fn answered(&mut self, sent_at: u64, renewed: bool) {
        if renewed {
            self.proved_at = self.proved_at.max(sent_at);
        } else {
            self.lapsed = true;
        }
    }

    /// Whether the session may be trusted at `now`. Once it may not, it never may again.
    pub fn is_alive(&mut self, now: u64) -> bool {
        self.lapsed |= now.saturating_sub(self.proved_at) >= self.ttl_ms;
        !self.lapsed
    }
}
