//! What a runner is told, and the handle through which it is told.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ractor::ActorRef;
use tokio::sync::oneshot;

use super::super::error::CloseErr;
use super::super::room_actor::RoomActor;
use super::super::route::Route;
use super::super::runner_handle::{Runner, RunnerShared};
use crate::id::{Epoch, Generation, Position, SnapshotNumber};
use crate::protocol::record::Entry;

/// The envelope of ractor's mailbox. Small, because ractor moves it several times.
pub(crate) enum RoomMessage {
    /// The app's messages wait in the room's [`Mailbox`](super::super::mailbox::Mailbox).
    Bell,
    /// Everything else.
    Host(Box<HostMessage>),
}

/// What reaches a runner from its host.
pub(crate) enum HostMessage {
    /// A new entry of the log.
    Entry(Entry),
    /// The position of the log's last entry.
    Head(Position),
    /// A timer is due.
    Alarm,
    /// Of the host or the runner itself.
    Control(Control),
}

impl From<HostMessage> for RoomMessage {
    fn from(message: HostMessage) -> Self {
        Self::Host(Box::new(message))
    }
}

impl From<Control> for RoomMessage {
    fn from(control: Control) -> Self {
        HostMessage::Control(control).into()
    }
}

#[cfg(feature = "cluster")]
impl ractor::Message for RoomMessage {}

/// What the host, or the runner itself, asks of a runner.
pub(crate) enum Control {
    Replay,
    /// Open to everybody, once what the log holds up to here is handled.
    GoLive(Position),
    /// Everything before this was admitted before the gate closed, and nothing comes after it.
    Cut(u64),
    Thaw,
    /// The last handler left something to do.
    Settle,
    /// The last handler failed: go back to the checkpoint.
    Repair,
    /// Close if the log is handled.
    TryClose,
    Checkpoint,
    Checkpointed {
        number: SnapshotNumber,
        done: Result<bool, String>,
    },
    Ack,
    Diverge,
    Close {
        reason: String,
        forced: bool,
        reply: oneshot::Sender<Result<u32, CloseErr>>,
    },
}

/// The handle of a runner, with its type.
pub(crate) struct TypedRunner<R: RoomActor> {
    pub(crate) actor: ActorRef<RoomMessage>,
    pub(crate) route: Option<Arc<Route<R>>>,
    pub(crate) shared: Arc<RunnerShared>,
}

impl<R: RoomActor> TypedRunner<R> {
    fn cast(&self, message: impl Into<RoomMessage>) {
        let _ = self.actor.cast(message.into()); // the actor has ended, as its supervisor will hear
    }

    fn close_gate(&self, cut: impl FnOnce()) {
        match &self.route {
            Some(route) => route.close(self.actor.get_id(), cut),
            None => cut(),
        }
    }
}

impl<R: RoomActor> Runner for TypedRunner<R> {
    fn shared(&self) -> &RunnerShared {
        &self.shared
    }

    fn push(&self, epoch: Epoch, generation: Generation, entry: Entry) {
        // In another generation the log may hold other entries than those that were taken from it.
        let lease = &self.shared.lease;
        if (epoch, generation) == (lease.epoch, lease.generation) {
            self.cast(HostMessage::Entry(entry));
        }
    }

    fn head(&self, last: Position) {
        self.cast(HostMessage::Head(last));
    }

    fn replay(&self) {
        self.cast(Control::Replay);
    }

    fn go_live(&self, last: Position) {
        self.cast(Control::GoLive(last));
    }

    fn freeze(&self, generation: u64) {
        // Seen before every message, so the freeze does not wait for the mailbox to be handled.
        self.shared.freeze.store(generation, Ordering::SeqCst);
        self.close_gate(|| self.cast(Control::Cut(generation)));
    }

    fn thaw(&self) {
        self.shared.freeze.store(0, Ordering::SeqCst);
        self.cast(Control::Thaw);
    }

    fn checkpoint(&self) {
        self.cast(Control::Checkpoint);
    }

    fn close(&self, reason: String, forced: bool, reply: oneshot::Sender<Result<u32, CloseErr>>) {
        // Behind the gate, so that every message that was admitted is handled before.
        self.close_gate(|| {
            self.cast(Control::Close { reason, forced, reply });
        });
    }

    fn release(&self) {
        self.shared.muted.store(true, Ordering::SeqCst);
        self.close_gate(|| {});
        self.actor.stop(None);
    }

    fn diverge(&self) {
        self.shared.muted.store(true, Ordering::SeqCst);
        self.close_gate(|| {});
        self.cast(Control::Diverge);
    }

    fn finish(&self) {
        self.close_gate(|| {});
        self.actor.stop(None);
    }

    fn id(&self) -> ractor::ActorId {
        self.actor.get_id()
    }

    fn discard(&self) {
        self.shared.muted.store(true, Ordering::SeqCst);
        self.close_gate(|| {});
        self.actor.kill();
    }
}
