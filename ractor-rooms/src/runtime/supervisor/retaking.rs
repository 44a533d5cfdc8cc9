//! A session that has ended while its host goes on: what runs here is kept, and taken back if nobody else has
//! had it.
//!
//! A store that does not answer for longer than a session ends every session, and nobody can take a room
//! meanwhile. Dropping all rooms would turn each of them back to what was stored last. They are frozen instead,
//! or go on where their kind says so, and when the host has a session again each is acquired as any host
//! would, but only in the epoch that it ran under: an epoch is given out once, so nobody has had it since. In
//! a new generation the acquire waits until every other host has proved what it has.
//!
//! Others leave such rooms to this host for as long as its session says that it holds them.

use super::super::core::RoomFault;
use super::super::report::MoveReason;
use super::Supervisor;
use super::message::{Inner, Responder};
use super::slot::Slot;
use crate::id::{Activation, RoomId};
use crate::on_store_loss::OnStoreLoss;
use crate::protocol::record::{AcquireAnswer, Answer, Lease, Phase, Request, Seen};
use crate::protocol::source::{Goal, SourceEvent, SourceState};

impl Supervisor {
    /// The session has ended: nothing here may be trusted until it is proved. Starts another.
    pub(super) fn lapsed(&mut self) {
        if self.core.is_leaving() || std::mem::replace(&mut self.reopening, true) {
            return;
        }
        self.core.set_ready(false);
        let count = self.slots.len();
        let rooms: Vec<RoomId> = self.slots.keys().cloned().collect();
        for room in &rooms {
            self.hold(room);
        }
        self.core.report(RoomFault::SessionLapsed { host: self.core.id.clone(), rooms: count });
        self.open_again();
    }

    /// Keeps a room whose session has ended, or drops it where it was on its way.
    fn hold(&mut self, room: &RoomId) {
        let Some(slot) = self.slots.get_mut(room) else { return };
        if slot.is_live() {
            let goes_on = slot
                .runner
                .as_ref()
                .is_some_and(|runner| runner.shared().on_store_loss == OnStoreLoss::Continue);
            if !goes_on {
                self.give_up(room, Goal::Retake, MoveReason::Retaken, Responder::Nobody);
            }
            return;
        }
        // It was being taken back already: the frozen bytes are what they were.
        let held = slot.giving.as_ref().is_some_and(|giving| {
            *giving.machine.goal() == Goal::Retake && giving.frozen.is_some()
        });
        if held {
            slot.stop_adopting(&self.core);
            if let Some(giving) = &mut slot.giving {
                giving.asserting = None;
            }
            return;
        }
        self.source_now(room, SourceEvent::Lost);
        self.drop_room(room);
    }

    /// The first incarnation whose rooms are held here; none once each is taken back or dropped.
    pub(super) fn holds(&self) -> Option<u64> {
        let me = self.core.incarnation();
        let of = |slot: &Slot| slot.lease.as_ref().map(|lease| lease.owner.by.number);
        let former = self.slots.values().filter_map(of);
        former.filter(|number| self.reopening || *number < me.number).min()
    }

    /// There is a session again.
    pub(super) fn take_back(&mut self) {
        let me = self.core.incarnation();
        let rooms: Vec<RoomId> = self.slots.keys().cloned().collect();
        for room in rooms {
            let Some(slot) = self.slots.get(&room) else { continue };
            let former = slot.lease.as_ref().is_some_and(|lease| lease.owner.by != me);
            if slot.is_live() && former {
                self.give_up(&room, Goal::Retake, MoveReason::Retaken, Responder::Nobody);
            } else {
                self.say_reopened(&room);
            }
        }
    }

    /// Tells a machine that waits for a session that there is one.
    pub(super) fn say_reopened(&mut self, room: &RoomId) {
        let waits = self.slots.get(room).and_then(|slot| slot.giving.as_ref()).is_some_and(|g| {
            *g.machine.goal() == Goal::Retake
                && matches!(g.machine.state(), SourceState::Resuming { .. })
        });
        if waits && !self.reopening {
            self.source_now(room, SourceEvent::Reopened);
        }
    }

    /// Acquires a room that is held, if nobody has had it since.
    pub(super) fn retake(&mut self, room: &RoomId, token: u64) {
        self.next_activation += 1;
        let activation = Activation { by: self.core.incarnation(), number: self.next_activation };
        let Some(slot) = self.slots.get_mut(room) else { return };
        let Some(held) = slot.lease.clone() else { return };
        if let Some(giving) = &mut slot.giving {
            giving.retaking = Some(activation.clone());
        }
        let (core, me, room) = (self.core.clone(), self.me.clone(), room.clone());
        self.core.spawn(async move {
            let mut claim = None;
            let taken = loop {
                match try_to_take(&core, &room, &held, &activation, &mut claim).await {
                    Attempt::Taken(lease) => break Some(lease),
                    Attempt::Refused => break None,
                    Attempt::Later => tokio::time::sleep(core.config.retry_interval).await,
                }
                if core.incarnation() != activation.by {
                    return; // that session has lapsed as well
                }
            };
            let by = activation.by;
            let _ = me.cast(Inner::Retaken { room, token, by, taken }.into()); // stopping
        });
    }

    pub(super) fn retaken(
        &mut self,
        room: &RoomId,
        token: u64,
        by: &crate::id::Incarnation,
        taken: Option<Lease>,
    ) {
        if self.reopening || *by != self.core.incarnation() {
            return; // a later session takes it back, if it can
        }
        let Some(slot) = self.slots.get_mut(room) else { return };
        if slot.giving.as_ref().is_none_or(|giving| giving.token != token) {
            return;
        }
        match taken {
            Some(lease) => {
                slot.lease = Some(lease);
                self.reassert(room, token);
            }
            None => {
                if let Some(lease) = slot.lease.clone() {
                    self.look_at_taken(room, &lease);
                }
                self.source_now(room, SourceEvent::ReacquireRefused);
            }
        }
    }

    /// Tells the other hosts as soon as nothing is held any more.
    pub(super) fn held_one_less(&mut self) {
        if self.holds().is_none() {
            self.heartbeat_now();
        }
    }
}

enum Attempt {
    Taken(Lease),
    /// Somebody has had it, or it has ended.
    Refused,
    /// The store did not say, or nobody may take anything yet.
    Later,
}

/// One look at the record, and one acquire. `claim` is what the first acquire saw that may have been carried
/// out: a repeat names the same.
async fn try_to_take(
    core: &super::HostCore,
    room: &RoomId,
    held: &Lease,
    activation: &Activation,
    claim: &mut Option<Seen>,
) -> Attempt {
    let view = match core.view(room).await {
        Ok(Some(view)) => view,
        Ok(None) => return Attempt::Refused,
        Err(error) => {
            tracing::debug!(%room, %error, "retake");
            return Attempt::Later;
        }
    };
    let ours = view.seen.owner.as_ref() == Some(activation); // acquired, and not answered
    let ended = matches!(view.phase, Phase::Closed { .. });
    if !ours && (view.seen.epoch != held.epoch || ended) {
        return Attempt::Refused;
    }
    if !ours {
        *claim = Some(view.seen);
    }
    let Some(seen) = claim.clone() else { return Attempt::Refused };
    let request = Request::Acquire { activation: activation.clone(), seen };
    match core.execute(room, request).await {
        Ok(Answer::Acquire(AcquireAnswer::Acquired(acquired))) => Attempt::Taken(acquired.lease),
        Ok(Answer::Acquire(AcquireAnswer::SnapshotLost { .. } | AcquireAnswer::Missing)) => {
            Attempt::Refused
        }
        Ok(other) => {
            tracing::debug!(%room, ?other, "retake");
            Attempt::Later
        }
        Err(error) => {
            tracing::debug!(%room, %error, "retake");
            Attempt::Later
        }
    }
}
