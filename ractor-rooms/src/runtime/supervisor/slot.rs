//! What a supervisor has of one room.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::AbortHandle;

use super::super::core::HostCore;
use super::super::report::{MoveReason, StateTime};
use super::super::runner_handle::{FrozenRoom, Runner};
use super::message::Responder;
use crate::id::{Activation, Epoch, Generation, HostId, Position, Seq};
use crate::protocol::adopter::{AdopterEvent, AdopterState, AdopterTimer};
use crate::protocol::record::{Lease, RecordView, SnapshotKey};
use crate::protocol::source::{SourceEvent, SourceState, SourceTimer};
use crate::protocol::{Adopter, Source};

/// One room at this host.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) adopter: Option<Adopting>,
    /// The runner of `lease`.
    pub(super) runner: Option<Arc<dyn Runner>>,
    /// The lease that the runner holds, or that is being taken.
    pub(super) lease: Option<Lease>,
    pub(super) giving: Option<Giving>,
    /// Moves that were asked for while the room was not ready yet.
    pub(super) moves: Vec<(HostId, Responder)>,
    /// The room was offered to this host again while it was still busy with it.
    pub(super) offered: bool,
    /// What the room had handled when it was last looked at, and since when it is that.
    pub(super) idle: (u64, Duration),
    /// When it was last frozen to be re-asserted.
    pub(super) asserted_at: Option<Duration>,
}

/// A machine that takes the room.
pub(super) struct Adopting {
    pub(super) token: u64,
    pub(super) machine: Adopter,
    pub(super) restore: Option<AbortHandle>,
    /// The snapshot's bytes, as far as they are here or on their way.
    pub(super) early: Early,
    /// Whether it began with a notice, which may be old, and not with a look at the record.
    pub(super) told: bool,
    /// What the room had taken when the deadline of its restore was set, once there is a room.
    pub(super) taken: Option<(Position, u64)>,
}

/// Bytes of a snapshot that are there before the room is acquired.
#[derive(Default)]
pub(super) enum Early {
    /// None are.
    #[default]
    Nothing,
    /// Frozen bytes that are still here, so that they need not be fetched.
    Frozen(SnapshotKey, Bytes),
    /// They are asked for while the room is acquired; with a place among the restores.
    Fetching(SnapshotKey, oneshot::Receiver<Bytes>, OwnedSemaphorePermit),
}

/// A machine that gives the room up.
pub(super) struct Giving {
    pub(super) token: u64,
    pub(super) machine: Source,
    /// The runner that was frozen; the slot's may be another one by the end.
    pub(super) runner: Arc<dyn Runner>,
    pub(super) lease: Lease,
    pub(super) frozen: Option<FrozenRoom>,
    pub(super) reason: MoveReason,
    pub(super) started: Duration,
    pub(super) froze_at: Option<Duration>,
    /// The adopter's epoch that the last notice named, and when it came.
    pub(super) told: Option<(Epoch, Duration)>,
    /// When a notice came that the record has borne out since.
    pub(super) settled_at: Option<Duration>,
    pub(super) states: Vec<StateTime>,
    pub(super) responders: Vec<Responder>,
    /// Lasts as long as the move; its events are the states and the report.
    pub(super) span: tracing::Span,
    /// The generation that the machine was told of.
    pub(super) generation: Generation,
    /// The epoch of the lease that the record had forgotten when the machine was told so.
    pub(super) forgotten: Option<Epoch>,
    /// The generation in which somebody else has re-asserted the room: nothing is to be proved here any more.
    pub(super) conceded: Option<Generation>,
    /// The activation that re-asserts the room.
    pub(super) asserting: Option<Activation>,
    /// The activation that acquires a room that was held, before it is re-asserted.
    pub(super) retaking: Option<Activation>,
    /// Under which epoch an adopter was seen to live that had not settled yet, since the deadline for it was set.
    pub(super) relays: Option<Epoch>,
    /// Whether a look at the record is under way.
    pub(super) watching: bool,
    /// The log's head when it froze, and as it was seen last.
    pub(super) heads: (Option<Seq>, Seq),
    /// Somebody took the room before it was given to him, and goes on from an older snapshot.
    pub(super) overtaken: bool,
}

impl Giving {
    /// A deadline that passed, as the machine is told of it. An adopter that takes nothing of the log gives the
    /// room back by itself, sooner than this one passes.
    pub(super) fn fired(&mut self, timer: SourceTimer) -> SourceEvent {
        let seen = self.relays.take();
        match (timer, self.machine.state()) {
            (SourceTimer::Relay, SourceState::Relaying { epoch, .. }) if seen == Some(*epoch) => {
                SourceEvent::Progressed
            }
            _ => SourceEvent::Fired(timer),
        }
    }

    /// Whether a record shows that somebody holds the room and that no park from here took effect. Numbers of
    /// snapshots only grow, so where ours was in the record, what is there now is ours or has a higher one.
    pub(super) fn is_overtaken(&self, view: &RecordView) -> bool {
        let Some(frozen) = &self.frozen else { return false };
        let ours = view.snapshot.as_ref().is_some_and(|stored| {
            stored.key == frozen.snapshot.key || stored.number > frozen.snapshot.number
        });
        view.seen.epoch > self.lease.epoch && !ours
    }
}

impl Slot {
    /// Whether the room runs here and nothing else is going on.
    pub(super) fn is_live(&self) -> bool {
        self.runner.is_some() && self.adopter.is_none() && self.giving.is_none()
    }

    /// Whether an activation is one that this slot acquired with, or is acquiring with.
    pub(super) fn knows(&self, activation: &Activation) -> bool {
        let holds = |lease: &Lease| lease.owner == *activation;
        self.lease.as_ref().is_some_and(holds)
            || self.giving.as_ref().is_some_and(|g| holds(&g.lease))
            || self.giving.as_ref().is_some_and(|g| g.asserting.as_ref() == Some(activation))
            || self.giving.as_ref().is_some_and(|g| g.retaking.as_ref() == Some(activation))
            || self.adopter.as_ref().is_some_and(|a| a.machine.activation() == activation)
    }

    /// Gives up what takes the room, beside the frozen copy of it that is here.
    pub(super) fn stop_adopting(&mut self, core: &HostCore) {
        let Some(adopting) = self.adopter.take() else { return };
        adopting.abort();
        let Some(giving) = &self.giving else { return };
        if let Some(runner) = self.runner.take_if(|runner| runner.id() != giving.runner.id()) {
            core.runners.remove(&runner.shared().room);
            runner.discard();
        }
    }

    /// Forgets the frozen runner where it is still the slot's.
    pub(super) fn part_with_frozen(&mut self, core: &HostCore) {
        let Some(giving) = &self.giving else { return };
        if self.runner.take_if(|runner| runner.id() == giving.runner.id()).is_some() {
            core.runners.remove(&giving.runner.shared().room);
        }
    }

    /// Stops everything, without a snapshot.
    pub(super) fn discard(self) {
        if let Some(adopting) = self.adopter {
            adopting.abort();
        }
        if let Some(giving) = self.giving {
            giving.runner.discard();
        }
        if let Some(runner) = self.runner {
            runner.discard();
        }
    }
}

impl Adopting {
    /// A deadline that passed, as the machine is told of it.
    pub(super) fn fired(
        &mut self,
        timer: AdopterTimer,
        runner: Option<&dyn Runner>,
    ) -> AdopterEvent {
        let taken = runner.map(|runner| {
            let shared = runner.shared();
            (shared.received.lock().0, shared.handled.load(Ordering::Relaxed))
        });
        let replays = matches!(self.machine.state(), AdopterState::Replaying { .. });
        match timer {
            AdopterTimer::Restore if replays && taken != self.taken => {
                self.taken = taken;
                AdopterEvent::Progressed
            }
            AdopterTimer::Restore | AdopterTimer::Claim => AdopterEvent::Fired(timer),
        }
    }

    pub(super) fn abort(&self) {
        if let Some(restore) = &self.restore {
            restore.abort();
        }
    }
}
