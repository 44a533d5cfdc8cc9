//! A store that may have lost data: every room that runs here is proved in the new generation, or dropped.
//!
//! A room is frozen at a message boundary, re-asserted under a new activation, and goes on from the frozen
//! bytes, as a source does that nobody adopted from. Its members and senders notice a pause.

use std::time::Duration;

use super::super::core::RoomFault;
use super::super::report::MoveReason;
use super::Supervisor;
use super::message::{Inner, Responder};
use super::slot::{Adopting, Early};
use crate::id::{Activation, RoomId};
use crate::protocol::Adopter;
use crate::protocol::adopter::{AdopterEvent, AdopterState};
use crate::protocol::record::{AcquireAnswer, Answer, Reassert, Request};
use crate::protocol::source::{Goal, SourceEvent, SourceState};

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
        let stale = slot.lease.as_ref().is_some_and(|lease| lease.generation != generation);
        if let Some(giving) = &mut slot.giving {
            let over = matches!(
                giving.machine.state(),
                SourceState::Adopted { .. } | SourceState::Ended(_)
            );
            if !stale || over {
                return false;
            }
            if std::mem::replace(&mut giving.generation, generation) != generation {
                self.source_now(room, SourceEvent::OtherGeneration);
            }
            return true;
        }
        if let Some(adopting) = &slot.adopter {
            // It has kept nothing back: whoever takes the room begins where it did. If the store still
            // names it, the next reconcile gives the room back.
            let holds = match adopting.machine.state() {
                AdopterState::Live { .. } => false,
                _ => adopting.machine.lease().is_some_and(|l| l.generation != generation),
            };
            if holds {
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
            if let Some(giving) = self.slots.get_mut(room).and_then(|slot| slot.giving.as_mut()) {
                giving.generation = generation;
            }
        }
        true
    }

    /// Puts the frozen bytes up, which the store may have lost, and re-asserts the room.
    pub(super) fn reassert(&mut self, room: &RoomId, token: u64) {
        let by = self.core.incarnation();
        let Some(slot) = self.slots.get_mut(room) else { return };
        let Some(giving) = slot.giving.as_mut().filter(|g| g.token == token) else { return };
        let Some(frozen) = giving.frozen.clone() else { return };
        // What was taking the room back has come too late: it read what may be lost.
        if let Some(adopting) = slot.adopter.take() {
            adopting.abort();
            if let Some(runner) = slot.runner.take_if(|runner| runner.id() != giving.runner.id()) {
                runner.discard();
                self.core.runners.remove(room);
            }
        }
        let number = &mut self.next_activation;
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
        let (core, me, room) = (self.core.clone(), self.me.clone(), room.clone());
        self.core.spawn(async move {
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
        let moves = *giving.machine.goal() != Goal::Reassert;
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
                slot.adopter =
                    Some(Adopting { token: next, machine, restore: None, early, told: false });
                self.drive_adopter(room, next, actions);
            }
            Some(AcquireAnswer::Refused { .. }) => {
                // Of a move somebody may have adopted it: the record tells.
                if !moves {
                    self.core.report(RoomFault::Diverged { room: room.clone() });
                }
                self.source_now(room, SourceEvent::ReacquireRefused);
            }
            _ => self.reassert(room, token),
        }
    }
}
