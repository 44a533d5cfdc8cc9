//! A room runner as the rest of the host sees it, without its type.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::error::CloseErr;
use crate::id::Epoch;
use crate::id::{Generation, Life, Number, OutSeq, Position, Producer, RoomId, Seq};
use crate::on_store_loss::OnStoreLoss;
use crate::protocol::record::{Entry, Lease, SnapshotRef};
use crate::protocol::source::AbortReason;

/// What the runner and the host both look at.
#[derive(Debug)]
pub(crate) struct RunnerShared {
    pub(crate) room: RoomId,
    pub(crate) lease: Lease,
    pub(crate) life: Life,
    /// The freeze that is asked for; 0 for none. Read before every message.
    pub(crate) freeze: AtomicU64,
    /// Set once the room is not this host's any more: its replies are dropped in silence, because
    /// another copy of the room answers.
    pub(crate) muted: AtomicBool,
    /// What it does while the host has no session.
    pub(crate) on_store_loss: OnStoreLoss,
    /// Whether the last handler left something to do: exits, timers, a checkpoint.
    pub(crate) dirty: AtomicBool,
    /// Messages handled. Written by the runner only.
    pub(crate) handled: AtomicU64,
    /// `handled` at the last checkpoint.
    pub(crate) checkpointed: AtomicU64,
    /// The size of the last snapshot in bytes; 0 before there is one.
    pub(crate) bytes: AtomicU64,
    /// When the last checkpoint was asked for.
    pub(crate) checkpoint_at: Mutex<Duration>,
    /// What has been taken from the log.
    pub(crate) received: Mutex<(Position, Seq)>,
}

/// The result of a freeze.
#[derive(Clone, Debug)]
pub(crate) struct FrozenRoom {
    /// The pointer to commit.
    pub(crate) snapshot: SnapshotRef,
    /// The bytes it points to.
    pub(crate) bytes: Bytes,
    /// The last number handled of each producer.
    pub(crate) handled: Vec<(Producer, Number)>,
    /// The number of the last event that is published.
    pub(crate) out_seq: OutSeq,
    /// When the room handled its last message, or shortly after: before the state was encoded.
    pub(crate) cut_at: Duration,
}

/// What a runner tells its supervisor.
#[derive(Debug)]
pub(crate) enum RunnerEvent {
    /// It has taken everything in its log.
    CaughtUp,
    /// It could not be made ready.
    Failed { error: String },
    /// It is frozen.
    Froze { generation: u64, frozen: Box<FrozenRoom> },
    /// It could not be frozen, and goes on.
    NotFrozen { generation: u64, why: AbortReason },
    /// A write was fenced.
    Fenced,
    /// It was closed and has nothing left to do.
    Closed,
}

/// The controls of a runner.
pub(crate) trait Runner: Send + Sync {
    fn shared(&self) -> &RunnerShared;
    /// A new entry of the log.
    fn push(&self, epoch: Epoch, generation: Generation, entry: Entry);
    /// The position of the log's last entry.
    fn head(&self, last: Position);
    /// Read the log and catch up.
    fn replay(&self);
    /// The room runs here: read the log up to its last entry, open the gate, start the timers.
    fn go_live(&self, last: Position);
    /// Freeze at the next message boundary.
    fn freeze(&self, generation: u64);
    /// Go on after a freeze that came to nothing.
    fn thaw(&self);
    /// Save a checkpoint.
    fn checkpoint(&self);
    /// End the room.
    fn close(&self, reason: String, forced: bool, reply: oneshot::Sender<Result<u32, CloseErr>>);
    /// Stop after a move or an unload, with the app's `post_stop`.
    fn release(&self);
    /// Stop a copy of a room that another host has had, with the app's `on_diverged`.
    fn diverge(&self);
    /// Stop after a close, with the app's `post_stop`; replies that are dropped by it say so.
    fn finish(&self);
    /// The actor's id.
    fn id(&self) -> ractor::ActorId;
    /// Stop at once, without hooks.
    fn discard(&self);
}
