//! The room runner: the ractor actor that wraps one room.
//!
//! A single local message of a live room takes the short way: `handle` is not an `async fn` but returns a
//! hand-made future that polls the app's own, because a nested async state machine per message costs a
//! tenth of the throughput. A burst is handled in batches, and everything else in [`RunnerState::control`], boxed.
//!
//! The log is handled inside the runner, entry by entry, so what the consumer has taken is what was
//! handled, and a snapshot can be cut between any two messages.

mod failure;
mod handling;
mod log;
mod message;
mod snapshot;
mod start;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use super::context::RoomContext;
use super::core::{HostCore, RoomFault};
use super::courier::Courier;
use super::mailbox::{KEPT, Mailbox};
use super::room_actor::RoomActor;
use super::route::Route;
use super::runner_handle::{RunnerEvent, RunnerShared};
use super::supervisor::RoomSupervisorMessage;
use crate::id::{Millis, Number, Position, Producer, RoomId, SnapshotNumber};
use crate::protocol::Consumer;
use crate::protocol::record::{Acquired, SnapshotRef};

pub(crate) use handling::Handling;
pub(crate) use message::{Control, HostMessage, RoomMessage, TypedRunner};
pub(crate) use start::{StartArgs, StartErr};

/// The actor. Its state is in [`RunnerState`]; this holds the app's actor, shared by all rooms of a kind.
pub(crate) struct RoomRunner<R: RoomActor>(pub(crate) Arc<R>);

/// All that a running room has.
pub(crate) struct RunnerState<R: RoomActor> {
    pub(crate) ctx: RoomContext<R>,
    pub(crate) inner: R::State,
    pub(crate) meta: Meta<R>,
}

/// The part of a runner's state that the app does not see.
pub(crate) struct Meta<R: RoomActor> {
    core: Arc<HostCore>,
    shared: Arc<RunnerShared>,
    route: Option<Arc<Route<R>>>,
    /// From senders on this host; a live room's only.
    mailbox: Option<Arc<Mailbox<R>>>,
    me: ActorRef<RoomMessage>,
    acquired: Acquired,
    phase: Phase,
    consumer: Consumer,
    /// Messages that were taken out of the mailbox, or travelled here unread, in order. All of them are
    /// older than what is in the mailbox.
    unread: VecDeque<Waiting<R::Msg>>,
    failure: Option<String>,
    /// The state is older than what was handled, until the log is read to its end again.
    went_back: bool,
    /// Failures of logged messages under this lease.
    failures: u64,
    outputs: BTreeMap<RoomId, Vec<Arc<Courier>>>,
    /// The queue of a durable room's own appends.
    own: Option<Arc<Courier>>,
    /// Ticks that were appended and have not come out of the log yet, by name.
    ticking: BTreeMap<String, Millis>,
    alarm: Option<(Millis, tokio::task::AbortHandle)>,
    snapshot_number: SnapshotNumber,
    attempt: u64,
    checkpointing: bool,
    /// A checkpoint was asked for when none could be made.
    checkpoint_due: bool,
    /// The checkpoint that is on its way.
    pending: Option<SnapshotRef>,
    /// Messages and bytes of the log that were handled since the last checkpoint.
    since_checkpoint: (u32, usize),
    /// Messages that were given up, so that a replay does not try them again.
    given_up: BTreeSet<(Producer, Number)>,
    /// The newest entry that was pushed while the room took none.
    passed_over: Position,
    acked: Position,
    unacked: u32,
    ack_planned: bool,
    closing: Option<Closing>,
}

/// Where a runner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It reads its log and is not open yet.
    Replaying,
    /// It handles messages.
    Live,
    /// The cut is made: nothing is handled or taken.
    Frozen,
    /// It is not this host's any more.
    Gone,
}

/// A message that waits inside the runner.
pub(crate) enum Waiting<M> {
    Local(M),
    /// From a log; kept as it was.
    Frame(Bytes),
}

/// A close that was asked for and waits until the log is handled.
struct Closing {
    reason: String,
    forced: bool,
    reply: Option<tokio::sync::oneshot::Sender<Result<u32, super::error::CloseErr>>>,
}

impl<R: RoomActor> Meta<R> {
    /// Whether the next local message can be handled at once.
    fn is_clear(&self) -> bool {
        self.phase == Phase::Live
            && self.failure.is_none()
            && self.unread.is_empty()
            && !self.shared.dirty.load(Ordering::Relaxed)
            && self.shared.freeze.load(Ordering::Relaxed) == 0
    }

    /// Whether what is left is to stay in the log, because the room freezes. Not before a state that went back
    /// has everything again: it must not be saved as it is.
    fn stops(&self) -> bool {
        self.freezing() && !self.went_back
    }

    /// Whether messages are taken now.
    fn takes(&self) -> bool {
        self.phase == Phase::Live && !self.freezing()
    }

    /// The next of what waits inside.
    fn next_unread(&mut self) -> Option<Waiting<R::Msg>> {
        let waiting = self.unread.pop_front();
        match (&waiting, &self.mailbox) {
            (Some(Waiting::Local(_)), Some(mailbox)) => mailbox.begun(),
            (Some(_), _) => {}
            (None, _) => self.unread.shrink_to(KEPT),
        }
        waiting
    }

    fn freezing(&self) -> bool {
        self.shared.freeze.load(Ordering::Relaxed) != 0
    }

    fn not_saved(&self, error: String) {
        self.core.report(RoomFault::CheckpointFailed { room: self.shared.room.clone(), error });
    }

    fn tell(&self, event: RunnerEvent) {
        if let Some(supervisor) = self.core.supervisor.get() {
            let message = RoomSupervisorMessage::from_runner(
                self.shared.room.clone(),
                self.shared.lease.clone(),
                event,
            );
            let _ = supervisor.cast(message); // the host is stopping
        }
    }

    fn control(&self, control: Control) {
        let _ = self.me.cast(control.into()); // this actor is stopping
    }

    fn control_after(&self, after: Duration, control: Control) {
        let me = self.me.clone();
        self.core.spawn(async move {
            tokio::time::sleep(after).await;
            let _ = me.cast(control.into()); // the room is gone by now
        });
    }

    /// Publishes what the log's progress means to others.
    fn note_received(&self) {
        let (position, seq) = (self.consumer.position(), self.consumer.seq());
        *self.shared.received.lock() = (position, seq);
        if let Some(route) = &self.route {
            route.received(seq);
        }
    }

    /// Moves everything out of the mailbox to what waits inside.
    fn take_all(&mut self) {
        if let Some(mailbox) = &self.mailbox {
            mailbox.take_all(&mut self.unread);
        }
    }

    fn note_handled(&self) {
        // Only the runner writes it, so it need not be one atomic step, which costs twenty times as much.
        let handled = self.shared.handled.load(Ordering::Relaxed);
        self.shared.handled.store(handled.wrapping_add(1), Ordering::Relaxed);
    }
}

#[cfg_attr(feature = "async-trait", ractor::async_trait)]
impl<R: RoomActor> Actor for RoomRunner<R> {
    type Msg = RoomMessage;
    type State = RunnerState<R>;
    type Arguments = StartArgs<R>;

    async fn pre_start(
        &self,
        me: ActorRef<Self::Msg>,
        args: StartArgs<R>,
    ) -> Result<Self::State, ActorProcessingErr> {
        RunnerState::start(&*self.0, me, args).await.map_err(ActorProcessingErr::from)
    }

    #[cfg(not(feature = "async-trait"))]
    fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send {
        Handling::of(&self.0, message, state)
    }

    #[cfg(feature = "async-trait")]
    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        Handling::of(&self.0, message, state).await
    }

    async fn post_stop(
        &self,
        _: ActorRef<Self::Msg>,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        state.disarm();
        self.0.post_stop(&mut state.inner).await;
        Ok(())
    }
}

impl<R: RoomActor> Drop for RunnerState<R> {
    fn drop(&mut self) {
        self.disarm();
        if let Some(mailbox) = &self.meta.mailbox {
            mailbox.end(); // the route may hold it still
        }
    }
}
