//! The record of a room: what the store knows of it, and every atomic operation on it.
//!
//! This is the specification of a transport. The in-process transport *is* this code behind a lock; a
//! transport with a server is checked against it, operation by operation.
//!
//! Who calls what: anyone may append, offer, read; only the owner may checkpoint, ack, park, settle,
//! emit, close. Owner operations carry a [`Lease`] and are refused when it is not equal, in epoch **and**
//! owner, to the one stored.

mod answer;
mod append;
#[cfg(test)]
mod append_test;
mod apply;
#[cfg(test)]
mod apply_test;
#[cfg(test)]
mod bench;
#[cfg(test)]
mod close_test;
mod limits;
mod reassert;
#[cfg(test)]
mod reassert_test;
mod request;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use answer::{
    AcquireAnswer, Acquired, Answer, AppendAnswer, CloseAnswer, Effect, FIRST_PAGE_BYTES,
    OfferAnswer, OfferNotice, OwnerAnswer, Page, RecordView, Standing,
};
pub use limits::RecordLimits;
pub use request::{Env, Lease, Reassert, Request, Seen};

use crate::id::{
    Activation, Epoch, Generation, HostId, Incarnation, Life, Millis, Number, OutSeq, Position,
    Producer, Seq, SnapshotNumber,
};

/// Where a room stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// Somebody leases it.
    Running,
    /// Nobody runs it; it is reserved for a host until a deadline.
    Offered {
        /// The host it is reserved for.
        to: HostId,
        /// When anybody else may take it.
        until: Millis,
    },
    /// Nobody runs it.
    Parked {
        /// Why it rests.
        why: ParkReason,
    },
    /// It ended. The tombstone stays, so that late copies of old messages are recognised.
    Closed {
        /// What the app gave as the reason.
        reason: String,
    },
}

/// Why a room is parked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ParkReason {
    /// It has not been started yet.
    New,
    /// It was idle.
    Idle,
    /// The host that it was offered to declined.
    Declined {
        /// What that host said.
        why: DeclineReason,
    },
    /// An adopter gave it back.
    GivenBack,
    /// Several hosts failed to adopt it; tried again from `retry_after`.
    Blocked {
        /// When it may be offered again.
        retry_after: Millis,
        /// What the last host said.
        why: DeclineReason,
    },
}

/// Why a host would not adopt a room.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DeclineReason {
    /// It does not know the kind.
    UnknownKind,
    /// It does not read the snapshot's schema version.
    UnreadableVersion {
        /// The version of the snapshot.
        found: u32,
        /// The highest version that the host reads.
        supported: u32,
    },
    /// It has no room for one more.
    OverCapacity,
    /// It is draining or cordoned.
    Draining,
    /// The snapshot could not be decoded, or the app's hook failed.
    RestoreFailed {
        /// What went wrong, as text.
        error: String,
    },
    /// It was not ready in time.
    DeadlineMissed,
}

impl DeclineReason {
    /// Whether the host tried and failed, or cannot ever; as opposed to not now.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::UnreadableVersion { .. } | Self::RestoreFailed { .. } | Self::DeadlineMissed => {
                true
            }
            Self::UnknownKind | Self::OverCapacity | Self::Draining => false,
        }
    }
}

/// One entry of the log: one producer's batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// Where it is in the log. Never repeats, also after trimming.
    pub position: Position,
    /// The `seq` of its first message; it has as many as the batch has messages.
    pub first_seq: Seq,
    /// Who sent the batch.
    pub producer: Producer,
    /// The producer's number of the first message.
    pub first: Number,
    /// The messages, each a frame.
    pub batch: Vec<Bytes>,
}

impl Entry {
    /// The `seq` of its last message.
    pub fn last_seq(&self) -> Seq {
        Seq(self.first_seq.0 + (self.batch.len() as u64).saturating_sub(1))
    }

    /// The payload's size in bytes.
    pub fn bytes(&self) -> usize {
        self.batch.iter().map(Bytes::len).sum()
    }
}

/// What the record knows of a producer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProducerEntry {
    /// Its epoch: a higher one fences late copies of what an older one sent.
    pub epoch: u64,
    /// The last of its own numbers that was accepted.
    pub last: Number,
    /// Where its newest entry is, for pruning the ones that are silent longest.
    pub used: Position,
}

/// Names the bytes of one snapshot attempt; they are never changed once written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SnapshotKey {
    /// The activation that wrote it.
    pub by: Activation,
    /// Its own count of attempts.
    pub attempt: u64,
}

/// The pointer to a room's snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SnapshotRef {
    /// Where the bytes are.
    pub key: SnapshotKey,
    /// Grows with each snapshot of the room, so that a late copy cannot turn the room back.
    pub number: SnapshotNumber,
    /// The log position that is inside: everything up to it is part of the snapshot.
    pub cursor: Position,
    /// The highest `seq` at or below the cursor.
    pub cursor_seq: Seq,
    /// Messages that were received and not handled, and travel inside the snapshot.
    pub unread: u32,
    /// Size in bytes.
    pub bytes: u64,
    /// The app's schema version of the state inside.
    pub schema: u32,
    /// The earliest timer inside, so that a parked room is woken for it.
    pub next_timer: Option<Millis>,
}

/// A message that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeadLetter {
    /// Who sent it.
    pub producer: Producer,
    /// The producer's number of it.
    pub number: Number,
    /// The message's frame; empty for a message that never was bytes (a live room's local one).
    pub message: Bytes,
    /// How often it was tried.
    pub attempts: u32,
    /// The last error or panic text, or why it was given up.
    pub error: String,
    /// When, by the store's clock.
    pub at: Millis,
}

/// How often a message failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Failing {
    /// Who sent it.
    pub producer: Producer,
    /// The producer's number of it.
    pub number: Number,
    /// How often.
    pub count: u32,
    /// The attempt that was counted last: under which epoch, and which of its owner's.
    pub attempt: (Epoch, u64),
}

/// What the store knows of one room. See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The number of this birth: the epoch at which the record was created.
    pub life: Life,
    /// The generation in which it was born, acquired or re-asserted last. In a later one it may be older
    /// than what its owner has.
    pub proved: Generation,
    /// The fencing token; never goes back.
    pub epoch: Epoch,
    /// Who leases it.
    pub owner: Option<Activation>,
    /// Whether the owner has caught up and handles messages.
    pub settled: bool,
    /// The incarnation that parked it last: told when an adopter has settled or declined.
    pub parted: Option<Incarnation>,
    /// Where it stands.
    pub phase: Phase,
    /// The `seq` of the last message accepted.
    pub seq: Seq,
    /// The position of the last entry written.
    pub last: Position,
    /// Entries that are not trimmed, by position.
    pub log: VecDeque<Entry>,
    /// Payload bytes in the log.
    pub log_bytes: usize,
    /// What was accepted, per producer.
    pub producers: BTreeMap<Producer, ProducerEntry>,
    /// The newest birth among pruned producers: one without an entry that is not newer is fenced.
    pub pruned: Option<Millis>,
    /// The room's snapshot.
    pub snapshot: Option<SnapshotRef>,
    /// The number of the last event published.
    pub out_seq: OutSeq,
    /// The newest events, the last of which has number `out_seq`.
    pub history: VecDeque<Bytes>,
    /// How often an owner died since the last checkpoint.
    pub crashes: u32,
    /// The message that failed last and how often. A checkpoint does not forget it: the room may be
    /// saved, right before the message, between two attempts.
    pub failing: Option<Failing>,
    /// Messages that were given up, oldest first.
    pub dead_letters: VecDeque<DeadLetter>,
    /// Hosts that would not or could not adopt since the room last settled.
    pub declined: BTreeSet<HostId>,
    /// How often an adoption failed since then.
    pub failures: u32,
}

impl Record {
    /// A room that has never run, born at `epoch` in a generation.
    pub fn born(epoch: Epoch, generation: Generation) -> Self {
        Self {
            life: Life(epoch.0),
            proved: generation,
            epoch,
            owner: None,
            settled: false,
            parted: None,
            phase: Phase::Parked { why: ParkReason::New },
            seq: Seq(0),
            last: Position::START,
            log: VecDeque::new(),
            log_bytes: 0,
            producers: BTreeMap::new(),
            pruned: None,
            snapshot: None,
            out_seq: OutSeq(0),
            history: VecDeque::new(),
            crashes: 0,
            failing: None,
            dead_letters: VecDeque::new(),
            declined: BTreeSet::new(),
            failures: 0,
        }
    }

    /// The lease that is in force.
    pub fn lease(&self) -> Option<Lease> {
        let (epoch, generation) = (self.epoch, self.proved);
        self.owner.clone().map(|owner| Lease { epoch, owner, generation })
    }

    /// The position up to which everything is inside the snapshot.
    pub fn cursor(&self) -> Position {
        self.snapshot.as_ref().map_or(Position::START, |s| s.cursor)
    }

    /// Whether there is work for an owner: entries above the cursor, or unread messages inside the
    /// snapshot.
    pub fn backlog(&self) -> bool {
        let cursor = self.cursor();
        self.log.back().is_some_and(|e| e.position > cursor)
            || self.snapshot.as_ref().is_some_and(|s| s.unread > 0)
    }

    /// Whether a sweep must look at it: nobody runs it and it has work, an open offer or a timer.
    pub fn unrest(&self) -> bool {
        self.owner.is_none()
            && match &self.phase {
                Phase::Running => false,
                Phase::Offered { .. } => true,
                Phase::Parked { .. } => {
                    self.backlog() || self.snapshot.as_ref().is_some_and(|s| s.next_timer.is_some())
                }
                Phase::Closed { .. } => false,
            }
    }
}
