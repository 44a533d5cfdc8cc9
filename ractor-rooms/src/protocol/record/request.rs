//! What may be asked of a record.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{DeadLetter, DeclineReason, ParkReason, RecordLimits, SnapshotKey, SnapshotRef};
use crate::id::{
    Activation, Epoch, Generation, HostId, Incarnation, Life, Millis, Number, OutSeq, Position,
    Producer, Seq,
};

/// The right to write: the epoch and the activation that got it. A fence compares both for equality,
/// because after a rolled-back store two activations may hold the same epoch. And it was proved in one
/// generation: in another the same epoch and owner prove nothing, because the store may have forgotten what
/// was written under them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Lease {
    /// The fencing token.
    pub epoch: Epoch,
    /// Who holds it.
    pub owner: Activation,
    /// The generation in which it was given or re-asserted.
    pub generation: Generation,
}

impl Lease {
    /// Whether a record in this epoch is older than the lease. Epochs only grow, so the store has lost what came
    /// after: the record was deleted (which reads as epoch 0) or an old copy of it was put back. It is the same
    /// fault as a new generation, of this one room.
    pub fn is_ahead_of(&self, epoch: Epoch) -> bool {
        epoch < self.epoch
    }

    /// Whether a record can not have become what it is by what was done since the lease was given: it is older,
    /// or names somebody else in the same epoch, which is given out once.
    pub fn is_forgotten_by(&self, seen: &Seen) -> bool {
        let theirs = seen.owner.as_ref().is_some_and(|owner| *owner != self.owner);
        self.is_ahead_of(seen.epoch) || (seen.epoch == self.epoch && theirs)
    }
}

/// The epoch and owner that a caller saw before it asked to acquire.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Seen {
    /// The epoch it saw.
    pub epoch: Epoch,
    /// The owner it saw.
    pub owner: Option<Activation>,
}

/// What a host knows of a room that it runs, for a store that may have lost data.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Reassert {
    /// The lease of an earlier generation.
    pub lease: Lease,
    /// The activation that goes on; a repeat gets the same answer.
    pub activation: Activation,
    /// The room's life.
    pub life: Life,
    /// The room as the host has it. The cursor becomes the one that is stored: the log is read again.
    pub snapshot: SnapshotRef,
    /// The last number **handled** of each producer. Not of what was only received: that may be lost, and
    /// its sender must be let in with it again.
    pub handled: Vec<(Producer, Number)>,
    /// The last `seq` that was taken.
    pub seq: Seq,
    /// The number of the last event published.
    pub out_seq: OutSeq,
}

/// One atomic operation on a room's record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Request {
    /// Adds one producer's batch to the log. An empty batch under a higher producer epoch is a
    /// *withdrawal*: it fences late copies of older attempts and answers the last accepted number.
    Append {
        /// The life the sender believes in; `None` before it heard of one.
        life: Option<Life>,
        /// Who sends.
        producer: Producer,
        /// The producer's epoch.
        epoch: u64,
        /// The producer's number of the first message.
        first: Number,
        /// The messages.
        batch: Vec<Bytes>,
    },
    /// Takes the lease.
    Acquire {
        /// The activation that wants it; a repeat gets the same answer.
        activation: Activation,
        /// What the caller saw before.
        seen: Seen,
    },
    /// Proves a lease of an earlier generation, or brings back what the store lost; see [`Reassert`].
    Reassert(Box<Reassert>),
    /// The owner has caught up with the log and handles messages.
    Settle {
        /// The owner's lease.
        lease: Lease,
    },
    /// Flips the snapshot pointer and trims the log below its cursor; the lease stays.
    Checkpoint {
        /// The owner's lease.
        lease: Lease,
        /// The new snapshot.
        snapshot: SnapshotRef,
    },
    /// Trims what a live room has received.
    Ack {
        /// The owner's lease.
        lease: Lease,
        /// Everything up to here is in the mailbox.
        received: Position,
    },
    /// Gives the lease up: the commit point of a move.
    Park {
        /// The owner's lease.
        lease: Lease,
        /// The new snapshot, or none to keep pointer and cursor as they are.
        snapshot: Option<SnapshotRef>,
        /// Reserves the room for a host until a deadline.
        offer: Option<(HostId, Millis)>,
        /// Why, when nobody is named.
        why: ParkReason,
        /// Set by an adopter that could not restore the room: counts as its decline.
        failed: Option<DeclineReason>,
    },
    /// Reserves a room that nobody runs for a host; creates the record of a new room.
    Offer {
        /// The host.
        to: HostId,
        /// Until when.
        until: Millis,
        /// Whether a room that has no record is born by this.
        create: bool,
    },
    /// The offered host does not want it.
    Decline {
        /// Who declines.
        by: HostId,
        /// Why.
        why: DeclineReason,
    },
    /// Reads a page of the log.
    ReadLog {
        /// The owner's lease.
        lease: Lease,
        /// Entries above this position.
        after: Position,
        /// At most this many payload bytes, but at least one entry.
        max_bytes: usize,
    },
    /// Publishes events to members.
    Emit {
        /// The owner's lease.
        lease: Lease,
        /// The number of the first event.
        first: OutSeq,
        /// The events, each a frame.
        events: Vec<Bytes>,
    },
    /// Ends the room.
    Close {
        /// The owner's lease.
        lease: Lease,
        /// Everything up to here is handled.
        cursor: Position,
        /// What the app gave as the reason.
        reason: String,
        /// Whether unhandled messages become dead letters instead of refusing the close.
        forced: bool,
    },
    /// Counts a failed attempt at a message, before it is tried again.
    CountFailure {
        /// The owner's lease.
        lease: Lease,
        /// Whose message.
        producer: Producer,
        /// Which one.
        number: Number,
        /// The activation's own count of failures, so that a repeat counts once.
        attempt: u64,
    },
    /// Sets a message aside that was given up.
    GiveUp {
        /// The owner's lease.
        lease: Lease,
        /// The message and why.
        letter: DeadLetter,
    },
    /// Reads what is not a payload.
    Read,
    /// Reads events after a number.
    ReadHistory {
        /// Events above this number.
        after: OutSeq,
    },
    /// Reads the dead letters.
    ReadDeadLetters,
}

/// What an operation may look at besides the record.
pub struct Env<'a> {
    /// The store's clock.
    pub now: Millis,
    /// No epoch below this is given out: the caller's floor, after a store that went back in time.
    pub floor: Epoch,
    /// The store's generation.
    pub generation: Generation,
    /// Whether a host may still have to re-assert what it runs: until then a record of an earlier
    /// generation may be older than what that host has.
    pub unproved: bool,
    /// Whether an incarnation's session is unlapsed.
    pub alive: &'a dyn Fn(&Incarnation) -> bool,
    /// The incarnation that a host's unlapsed session names, if it has one.
    pub session: &'a dyn Fn(&HostId) -> Option<Incarnation>,
    /// Whether the bytes of a snapshot are there.
    pub has_snapshot: &'a dyn Fn(&SnapshotKey) -> bool,
    /// The bounds.
    pub limits: &'a RecordLimits,
}

impl Request {
    /// The lease that it is made under, if it is an owner's. A re-assert is not: its lease is one that is
    /// not in force any more.
    pub fn lease(&self) -> Option<&Lease> {
        match self {
            Self::Settle { lease }
            | Self::Checkpoint { lease, .. }
            | Self::Ack { lease, .. }
            | Self::Park { lease, .. }
            | Self::ReadLog { lease, .. }
            | Self::Emit { lease, .. }
            | Self::Close { lease, .. }
            | Self::CountFailure { lease, .. }
            | Self::GiveUp { lease, .. } => Some(lease),
            Self::Append { .. }
            | Self::Acquire { .. }
            | Self::Reassert(_)
            | Self::Offer { .. }
            | Self::Decline { .. }
            | Self::Read
            | Self::ReadHistory { .. }
            | Self::ReadDeadLetters => None,
        }
    }
}

impl std::fmt::Debug for Env<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Env").field("now", &self.now).field("floor", &self.floor).finish()
    }
}
