//! What a record answers, and what follows from it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{DeadLetter, DeclineReason, Entry, Lease, Phase, SnapshotRef};
use crate::id::{
    Epoch, Generation, HostId, Incarnation, Life, Millis, Number, OutSeq, Position, Seq,
};

/// Whether anybody will handle what is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Standing {
    /// Somebody leases the room.
    Running,
    /// Nobody runs it and it is not on offer to a living host: the sender's host offers it.
    NeedsHost,
}

/// The answer to an append. Each carries what the sender needs to open its gate: the room's present
/// `seq`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AppendAnswer {
    /// The batch is in the log, or it was a withdrawal that took effect.
    Accepted {
        /// The producer's last accepted number.
        last: Number,
        /// The room's present `seq`.
        seq: Seq,
        /// The room's life.
        life: Life,
        /// Whether anybody will handle it.
        standing: Standing,
    },
    /// All of it was accepted before.
    Duplicate {
        /// The producer's last accepted number.
        last: Number,
        /// The room's present `seq`.
        seq: Seq,
        /// The room's life.
        life: Life,
        /// Whether anybody will handle it.
        standing: Standing,
    },
    /// A part was accepted before: send again from `last + 1`.
    Partial {
        /// The producer's last accepted number.
        last: Number,
        /// The room's present `seq`.
        seq: Seq,
    },
    /// Numbers are missing: send again from `last + 1`.
    Gap {
        /// The producer's last accepted number.
        last: Number,
        /// The room's present `seq`.
        seq: Seq,
    },
    /// A higher producer epoch is known, or the producer was pruned.
    Fenced {
        /// The producer epoch that is known.
        epoch: u64,
        /// The producer's last accepted number, if it is known.
        last: Option<Number>,
        /// The store's clock: the birth of a new producer must not be before it.
        now: Millis,
    },
    /// There is no space; nothing was written.
    Full {
        /// The room's present `seq`.
        seq: Seq,
    },
    /// The room ended.
    Closed {
        /// Why.
        reason: String,
    },
    /// The room was closed and born again since.
    OtherLife {
        /// The life that is now.
        life: Life,
    },
    /// There is no such record: it must be offered to a host first.
    Missing,
    /// What the record knows of the producer may be less than what a host has handled of it, and that host
    /// may still re-assert: nothing was written, and the same goes again after a moment.
    Unproved {
        /// The room's present `seq`.
        seq: Seq,
    },
}

/// What an acquirer gets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Acquired {
    /// The lease.
    pub lease: Lease,
    /// The room's life.
    pub life: Life,
    /// The snapshot to start from; none for a room that never had one.
    pub snapshot: Option<SnapshotRef>,
    /// The number of the last event published.
    pub out_seq: OutSeq,
    /// The room's present `seq`.
    pub head: Seq,
    /// The newest birth among pruned producers.
    pub pruned: Option<Millis>,
    /// Whether the owner before died instead of parking.
    pub recovered: bool,
    /// After a re-assert: whether the store had lost something that the host knew.
    pub regressed: bool,
    /// How many dead letters are kept: messages that a replay does not try again.
    pub dead_letters: u32,
    /// What the log has above the snapshot's cursor, up to [`FIRST_PAGE_BYTES`].
    pub page: Page,
}

/// Payload bytes of the page that an acquire brings along. What is beyond them is read by
/// [`Request::ReadLog`](super::Request::ReadLog).
pub const FIRST_PAGE_BYTES: usize = 32 << 10;

/// The answer to an acquire.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AcquireAnswer {
    /// The lease is the caller's.
    Acquired(Box<Acquired>),
    /// It is not free, or was changed since it was seen.
    Refused {
        /// The epoch and owner that are now.
        seen: super::Seen,
        /// Where it stands.
        phase: Phase,
    },
    /// The caller's own session is not alive.
    NoSession,
    /// The snapshot that the record names is gone.
    SnapshotLost {
        /// The pointer.
        snapshot: Box<SnapshotRef>,
    },
    /// There is no such record.
    Missing,
    /// The store may have lost data, and a host may still re-assert the room: nobody else takes it before.
    Unproved,
}

/// The answer to an operation that only the owner may do.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OwnerAnswer {
    /// It took effect, or had before.
    Done,
    /// To a settle that took effect, or had before.
    Settled {
        /// The position of the last entry that was ever logged. An owner that has not taken it has missed a
        /// push since it read its log, and reads on.
        last: Position,
    },
    /// The lease is not the one in force.
    Fenced {
        /// The epoch that is.
        epoch: Epoch,
    },
    /// The bytes that the pointer names are not there; nothing changed.
    NoSnapshot,
    /// A count that was asked for.
    Count(u32),
}

/// The answer to an offer or a decline.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OfferAnswer {
    /// It took effect.
    Done {
        /// The room's life.
        life: Life,
    },
    /// Somebody runs it, or it is on offer to a living host.
    Refused {
        /// Where it stands.
        phase: Phase,
        /// The room's life.
        life: Life,
    },
    /// There is no such record.
    Missing,
    /// The store may have lost data, and a host may still re-assert the room: nobody else starts it before.
    Unproved,
}

/// The answer to a close.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CloseAnswer {
    /// The room ended. What was not handled became dead letters.
    Done {
        /// How many did.
        dead_letters: u32,
    },
    /// The lease is not the one in force.
    Fenced {
        /// The epoch that is.
        epoch: Epoch,
    },
    /// Messages are unhandled.
    NotDrained {
        /// How many.
        unhandled: u64,
    },
}

/// The record as it was when a room was reserved for a host: what the host needs to acquire it without
/// another look. Nobody owns a room that is on offer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OfferNotice {
    /// The epoch to acquire from.
    pub epoch: Epoch,
    /// The snapshot that the room starts from, if it has one.
    pub snapshot: Option<SnapshotRef>,
}

/// A page of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Page {
    /// Entries, by position.
    pub entries: Vec<Entry>,
    /// Whether there are more above the last.
    pub more: bool,
    /// The room's present `seq`.
    pub head: Seq,
}

/// What anybody may see of a record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RecordView {
    /// The life.
    pub life: Life,
    /// The epoch and the owner.
    pub seen: super::Seen,
    /// Whether the owner's session is unlapsed.
    pub owner_alive: bool,
    /// Whether the owner has caught up.
    pub settled: bool,
    /// Where it stands.
    pub phase: Phase,
    /// The last `seq`.
    pub seq: Seq,
    /// The position of the last entry.
    pub last: Position,
    /// The snapshot pointer.
    pub snapshot: Option<SnapshotRef>,
    /// Whether there is work.
    pub backlog: bool,
    /// The number of the last event.
    pub out_seq: OutSeq,
    /// Hosts that would not adopt since it last settled.
    pub declined: Vec<HostId>,
    /// How often owners died since the last checkpoint.
    pub crashes: u32,
    /// How many dead letters are kept.
    pub dead_letters: u32,
}

/// The answer to a [`Request`](super::Request).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Answer {
    /// To anything under a lease of another generation: nothing changed, and only a re-assert may follow.
    OtherGeneration {
        /// The store's.
        generation: Generation,
    },
    /// To an append.
    Append(AppendAnswer),
    /// To an acquire or a re-assert; the latter is `Refused` when somebody else has the room.
    Acquire(AcquireAnswer),
    /// To a settle, checkpoint, ack, park, emit, count or give-up.
    Owner(OwnerAnswer),
    /// To an offer or a decline.
    Offer(OfferAnswer),
    /// To a close.
    Close(CloseAnswer),
    /// To a read of the log; `Err` is the epoch in force.
    Page(Result<Page, Epoch>),
    /// To a read; `None` when there is no record.
    View(Option<Box<RecordView>>),
    /// To a read of the history: the number of the first event, and the events.
    History {
        /// The number of the first event in `events`.
        first: OutSeq,
        /// The events that are still kept.
        events: Vec<Bytes>,
        /// The room's life.
        life: Life,
    },
    /// To a read of the dead letters.
    DeadLetters(Vec<DeadLetter>),
}

/// What the store does besides answering. All of them are hints: a lost one costs time, not safety.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Gives the owner a new entry.
    Push {
        /// The owner's incarnation.
        to: Incarnation,
        /// The epoch it holds the room under.
        epoch: Epoch,
        /// The store's generation.
        generation: Generation,
        /// The entry.
        entry: Entry,
    },
    /// Tells a host that a room is reserved for it.
    Offered {
        /// The host.
        to: HostId,
        /// What it needs to take the room.
        notice: Box<OfferNotice>,
    },
    /// Tells the host that parked the room how it went on.
    Moved {
        /// The incarnation that parked it.
        to: Incarnation,
        /// The epoch that settled, or none when it was declined.
        settled: Option<Epoch>,
    },
    /// Gives events to members.
    Events {
        /// The room's life.
        life: Life,
        /// The number of the first.
        first: OutSeq,
        /// The events.
        events: Vec<Bytes>,
    },
    /// Tells members that the room ended.
    Closed {
        /// The room's life.
        life: Life,
        /// Why.
        reason: String,
    },
    /// Bytes that no pointer names any more.
    DropSnapshot(super::SnapshotKey),
}

/// What a host says of a decline, for errors.
impl std::fmt::Display for DeclineReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::UnknownKind => f.write_str("it does not know the kind"),
            Self::UnreadableVersion { found, supported } => {
                write!(f, "the snapshot has schema version {found}; it reads up to {supported}")
            }
            Self::OverCapacity => f.write_str("it is at its capacity"),
            Self::Draining => f.write_str("it is draining"),
            Self::RestoreFailed { error } => write!(f, "it could not restore the room: {error}"),
            Self::DeadlineMissed => f.write_str("it was not ready in time"),
        }
    }
}
