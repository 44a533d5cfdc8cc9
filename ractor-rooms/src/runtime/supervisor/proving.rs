//! A store that may have lost data: every room that runs here is proved in the new generation, or dropped.
//!
//! A room is frozen at a message boundary, re-asserted under a new activation, and goes on from the frozen
//! bytes, as a source does that nobody adopted from. Its members and senders notice a pause.

#[cfg(test)]
mod peer_test;

use std::time::Duration;

use super::super::core::{HostCore, RoomFault};
use super::super::report::MoveReason;
use super::Supervisor;
use super::message::{Inner, Responder};
use super::slot::{Adopting, Early, Slot};
use crate::id::{Activation, Epoch, HostId, RoomId};
use crate::protocol::Adopter;
use crate::protocol::adopter::{AdopterEvent, AdopterState};
use crate::protocol::record::{AcquireAnswer, Answer, Lease, Phase, Reassert, RecordView, Request};
use crate::protocol::source::{Goal, SourceEvent, SourceState};

/// Sweeps for which a source leaves it to the host that it gave a room to to prove that it runs it.
const PEERS_FIRST: u32 = 4;

impl Supervisor {
    /// The store is in another generation.
    pub(super) fn generation_began(&mut self) {
        self.proving = Some(self.core.clock.mark());
        self.core.doubt();
        // The store may have forgotten the session, and re-asserts need one.
        self.heartbeat_now();
        self.prove();
        let core = self.core.clone();
        self.core.spawn(async move { core.ask_again().await });
    }

    /// Sees to every lease of an earlier generation, and says so once there is none.
    pub(super) fn prove(&mut self) {
        let Some(since) = self.proving else { return };
        if self.reopening {
            return;
        }
        let newest = self.core.transport.newest_generation();
        let now = self.core.clock.mark();
        let rooms: Vec<RoomId> = self.slots.keys().cloned().collect();
        let mut waits = false;
        for room in rooms {
            waits |= self.prove_room(&room, now);
        }
        // A handler that does not return must not keep every other room from being started. Its room is
        // re-asserted when it does, and nobody takes it as long as this host's session lives.
        let late = now.saturating_sub(since) >= self.core.config.session_ttl;
        if waits && !late {
            return;
        }
        if !waits {
            self.proving = None;
            self.reconcile_at = None;
        }
        if std::mem::replace(&mut self.proved, newest) != newest {
            self.heartbeat_now();
        }
    }

    /// Whether a room is yet to be proved.
    fn prove_room(&mut self, room: &RoomId, now: Duration) -> bool {
        let generation = self.core.transport.generation(room);
        let Some(slot) = self.slots.get_mut(room) else { return false };
        let core = &self.core;
        let stale = slot.lease.as_ref().is_some_and(|lease| core.is_stale(room, lease));
        if let Some(giving) = &mut slot.giving {
            if *giving.machine.goal() == Goal::Retake {
                let me = core.incarnation();
                let taken = slot.lease.as_ref().is_some_and(|lease| lease.owner.by == me);
                if !taken || !stale {
                    return false; // it is taken back once every host has proved what it has
                }
                // It was taken back in this session, and the store may have forgotten that.
                let token = giving.token;
                let settles =
                    |a: &Adopting| !matches!(a.machine.state(), AdopterState::Live { .. });
                if slot.adopter.as_ref().is_some_and(settles) {
                    self.reassert(room, token);
                }
                return true;
            }
            let over = matches!(
                giving.machine.state(),
                SourceState::Adopted { .. } | SourceState::Ended(_)
            );
            // A room that is a peer's may come back, and is acquired then: not before this host is proved.
            if !stale || over || giving.conceded == Some(generation) {
                return false;
            }
            let alone = slot.lease.as_ref().filter(|lease| lease.generation == generation);
            let alone = alone.map(|lease| lease.epoch);
            let new = std::mem::replace(&mut giving.generation, generation) != generation;
            if std::mem::replace(&mut giving.forgotten, alone) != alone || new {
                self.source_now(room, SourceEvent::OtherGeneration);
            }
            return true;
        }
        if let Some(adopting) = &slot.adopter {
            // It has kept nothing back: whoever takes the room begins where it did. If the store still
            // names it, the next reconcile gives the room back.
            let holds = match adopting.machine.state() {
                AdopterState::Live { .. } => false,
                _ => adopting.machine.lease().is_some_and(|lease| core.is_stale(room, lease)),
            };
            if holds {
                if adopting.machine.lease().is_some_and(|lease| lease.generation == generation) {
                    let why = "its record was lost while it was started here".to_owned();
                    self.core.report(RoomFault::StartFailed { room: room.clone(), why });
                }
                self.adopter_now(room, AdopterEvent::Fenced);
            }
            return false;
        }
        if !stale || slot.runner.is_none() {
            return false;
        }
        let pause = self.core.config.sweep_interval * 4;
        if slot.asserted_at.is_none_or(|at| now.saturating_sub(at) >= pause) {
            slot.asserted_at = Some(now);
            self.give_up(room, Goal::Reassert, MoveReason::Reasserted, Responder::Nobody);
            if let Some(slot) = self.slots.get_mut(room)
                && let Some(giving) = &mut slot.giving
            {
                giving.generation = generation;
                let alone = slot.lease.as_ref().filter(|lease| lease.generation == generation);
                giving.forgotten = alone.map(|lease| lease.epoch);
            }
        }
        true
    }

    /// The record of a room is older than the lease: it is re-asserted as in a new generation, which this is for
    /// this one room.
    pub(super) fn lease_forgotten(&mut self, room: &RoomId, lease: &Lease) {
        let Some(slot) = self.slots.get(room) else {
            return self.core.remember(room); // it was given back, or dropped
        };
        if slot.lease.as_ref() != Some(lease) {
            return;
        }
        tracing::warn!(%room, epoch = %lease.epoch, "the store has lost the record of a room that runs here");
        self.proving.get_or_insert(self.core.clock.mark());
        self.prove();
    }

    /// Looks for the record of a room that runs here and that the store does not name among this host's.
    pub(super) fn search(&self, room: RoomId, lease: Lease) {
        let (core, me) = (self.core.clone(), self.me.clone());
        self.core.spawn(async move {
            match core.view(&room).await {
                Ok(view) => {
                    let _ = me.cast(Inner::Searched { room, lease, view }.into()); // stopping
                }
                Err(error) => tracing::debug!(%room, %error, "reconcile"), // the next one looks again
            }
        });
    }

    pub(super) fn searched(&mut self, room: &RoomId, lease: &Lease, view: Option<&RecordView>) {
        let holds = |slot: &Slot| slot.is_live() && slot.lease.as_ref() == Some(lease);
        if !self.slots.get(room).is_some_and(holds) {
            return;
        }
        match view {
            Some(view) if view.seen.epoch > lease.epoch || diverged(lease, view) => {
                self.drop_room(room);
                self.taken(room.clone(), lease, Some(view));
            }
            // Lost, old, or not in the index, which a re-assert mends as well.
            Some(_) | None => self.core.forget_lease(room, lease),
        }
    }

    /// A room was taken from this host: looks at who has it, to report what is true.
    pub(super) fn look_at_taken(&self, room: &RoomId, lease: &Lease) {
        let (core, me) = (self.core.clone(), self.me.clone());
        let (room, lease) = (room.clone(), lease.clone());
        self.core.spawn(async move {
            let view = core.view(&room).await.unwrap_or_default();
            let _ = me.cast(Inner::Taken { room, lease, view }.into()); // the host is stopping
        });
    }

    pub(super) fn taken(&self, room: RoomId, lease: &Lease, view: Option<&RecordView>) {
        self.core.report(match view {
            Some(view) if diverged(lease, view) => RoomFault::Diverged { room },
            Some(_) | None => RoomFault::Fenced { room },
        });
    }

    /// Puts the frozen bytes up, which the store may have lost, and re-asserts the room.
    pub(super) fn reassert(&mut self, room: &RoomId, token: u64) {
        let by = self.core.incarnation();
        let Some(slot) = self.slots.get_mut(room) else { return };
        let Some(giving) = slot.giving.as_ref().filter(|g| g.token == token) else { return };
        let Some(frozen) = giving.frozen.clone() else { return };
        // What was taking the room back has come too late: it read what may be lost.
        slot.stop_adopting(&self.core);
        let Some(giving) = slot.giving.as_mut() else { return };
        let number = &mut self.next_activation;
        let first = giving.asserting.is_none();
        let activation = giving.asserting.get_or_insert_with(|| {
            *number += 1;
            Activation { by, number: *number }
        });
        let claim = Reassert {
            lease: slot.lease.clone().unwrap_or_else(|| giving.lease.clone()),
            activation: activation.clone(),
            life: giving.runner.shared().life,
            snapshot: frozen.snapshot.clone(),
            handled: frozen.handled,
            seq: frozen.snapshot.cursor_seq,
            out_seq: frozen.out_seq,
        };
        // Once it was parked, a peer may run it and have handled more than the frozen bytes know of.
        let peer = match giving.machine.goal() {
            Goal::Move { to }
                if first && giving.states.iter().any(|s| s.state == "Snapshotted") =>
            {
                Some(to.clone())
            }
            Goal::Move { .. } | Goal::Unload | Goal::Reassert | Goal::Retake => None,
        };
        let (core, me, room) = (self.core.clone(), self.me.clone(), room.clone());
        self.core.spawn(async move {
            if let Some(peer) = peer {
                let parted = claim.lease.epoch;
                let pause = core.config.sweep_interval * PEERS_FIRST;
                let waited = let_peer_prove(&core, &room, parted, &peer);
                let _ = tokio::time::timeout(pause, waited).await; // it may wait for a room of this host
            }
            let key = claim.snapshot.key.clone();
            let answer = match core.put_snapshot(&room, key, frozen.bytes).await {
                Ok(()) => core.execute(&room, Request::Reassert(Box::new(claim))).await,
                Err(error) => Err(error),
            };
            let answer = match answer {
                Ok(Answer::Acquire(
                    answer @ (AcquireAnswer::Acquired(_) | AcquireAnswer::Refused { .. }),
                )) => Some(answer),
                // The session or the bytes are gone again, or nobody answered: the same once more.
                other => {
                    tracing::debug!(%room, ?other, "re-assert");
                    tokio::time::sleep(core.config.retry_interval).await;
                    None
                }
            };
            let _ = me.cast(Inner::Reasserted { room, token, answer }.into()); // stopping
        });
    }

    pub(super) fn reasserted(&mut self, room: &RoomId, token: u64, answer: Option<AcquireAnswer>) {
        let next = self.token();
        let Some(slot) = self.slots.get_mut(room).filter(|slot| slot.adopter.is_none()) else {
            return;
        };
        let Some(giving) = slot.giving.as_ref().filter(|g| g.token == token) else { return };
        if !matches!(giving.machine.state(), SourceState::Resuming { .. }) {
            return;
        }
        let moves = !matches!(giving.machine.goal(), Goal::Reassert | Goal::Retake);
        let me = self.core.incarnation();
        if giving.asserting.as_ref().is_none_or(|by| by.by != me) || self.reopening {
            return; // of a session that has lapsed since
        }
        match answer {
            Some(AcquireAnswer::Acquired(acquired))
                if !self.core.is_stale(room, &acquired.lease) =>
            {
                let frozen = giving.frozen.as_ref();
                let early = frozen.map_or(Early::Nothing, |f| {
                    Early::Frozen(f.snapshot.key.clone(), f.bytes.clone())
                });
                if acquired.regressed {
                    self.core.report(RoomFault::StoreRegressed { room: room.clone() });
                }
                let (machine, actions) = Adopter::holding(acquired);
                slot.adopter = Some(Adopting {
                    token: next,
                    machine,
                    restore: None,
                    early,
                    told: false,
                    taken: None,
                });
                self.drive_adopter(room, next, actions);
            }
            // Somebody may have adopted it: the record tells.
            Some(AcquireAnswer::Refused { seen, phase })
                if moves
                    && seen.epoch > giving.lease.epoch
                    && !matches!(phase, Phase::Closed { .. }) =>
            {
                if let Some(slot) = self.slots.get_mut(room)
                    && let Some(giving) = &mut slot.giving
                {
                    giving.conceded = Some(self.core.transport.generation(room));
                }
                self.source_now(room, SourceEvent::ReacquireRefused);
            }
            Some(AcquireAnswer::Refused { .. }) => {
                self.core.report(RoomFault::Diverged { room: room.clone() });
                self.source_now(room, SourceEvent::Lost);
            }
            _ => self.reassert(room, token),
        }
    }
}

/// Waits until the host that a room was given to has said what it has of it: it runs the room under a later
/// epoch than `parted`, or has proved all that it runs and this room is not among it.
async fn let_peer_prove(core: &HostCore, room: &RoomId, parted: Epoch, peer: &HostId) {
    let generation = core.transport.generation(room);
    loop {
        // Not the record before the session: what the session proves is in the record then.
        let sessions = core.sessions(Duration::ZERO).await;
        let proved = sessions.is_ok_and(|sessions| {
            let mut of_peer = sessions.iter().filter(|s| s.incarnation.host == *peer);
            of_peer.any(|s| s.spec.proved >= generation)
        });
        let taken = match core.view(room).await {
            Ok(Some(view)) => view.seen.epoch > parted,
            Ok(None) | Err(_) => false,
        };
        if proved || taken {
            return;
        }
        tokio::time::sleep(core.config.retry_interval).await;
    }
}

/// Whether a record names somebody else in the epoch of a lease, which was given out once.
fn diverged(lease: &Lease, view: &RecordView) -> bool {
    view.seen.epoch == lease.epoch
        && view.seen.owner.as_ref().is_some_and(|owner| *owner != lease.owner)
}
