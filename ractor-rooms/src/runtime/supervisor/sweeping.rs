//! What the host looks after by itself: rooms that nobody runs, rooms that it should or should not run,
//! idle rooms, checkpoints.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::core::{HostCore, place_among};
use super::Supervisor;
use super::message::Inner;
use crate::id::{HostId, RoomId};
use crate::protocol::record::{Answer, Lease, OfferAnswer, ParkReason, Phase, Request};
use crate::protocol::session::SessionInfo;
use crate::protocol::store::{Owned, Unrest};

/// Rooms of one page of the sweep.
const SWEEP_PAGE: usize = 512;
/// How many times as many rooms as may start at once one sweep finds at most.
const STARTS_FOUND: usize = 4;
/// How many times in one interval a sweep that left rooms looks for a place for them.
const SWEEPS_ON: u32 = 10;

impl Supervisor {
    pub(super) fn read_owned(&self) {
        let (core, me) = (self.core.clone(), self.me.clone());
        let live = self.slots.iter().filter(|(_, slot)| slot.is_live());
        let held = live.filter_map(|(room, slot)| Some((room.clone(), slot.lease.clone()?)));
        let held: Vec<_> = held.collect();
        self.core.spawn(async move {
            let by = core.incarnation();
            match core.deadline(core.transport.owned(&by)).await {
                Ok(owned) => {
                    let _ = me.cast(Inner::OwnedRead { owned, held }.into()); // the host is stopping
                }
                Err(error) => tracing::debug!(%error, "reconcile"),
            }
            core.read_inbox().await;
            for room in core.watches.rooms() {
                core.heal_events(&room).await;
            }
        });
    }

    /// Compares what the records say with what runs: reads the log where something is missing, and gives
    /// back what does not run here.
    pub(super) fn reconcile(&mut self, owned: Vec<Owned>, held: Vec<(RoomId, Lease)>) {
        if self.proved != self.core.transport.newest_generation() {
            return; // what the store says may be older than what runs here
        }
        let named: HashSet<_> = owned.iter().map(|owned| owned.room.clone()).collect();
        for (room, lease) in held {
            if !named.contains(&room) {
                self.search(room, lease);
            }
        }
        for Owned { room, activation, epoch, last, .. } in owned {
            if activation.by != self.core.incarnation() {
                continue; // of a session that has ended since
            }
            let Some(slot) = self.slots.get(&room).filter(|slot| slot.knows(&activation)) else {
                let generation = self.core.transport.generation(&room);
                let lease = Lease { epoch, owner: activation, generation };
                self.give_back(&room, lease, None);
                continue;
            };
            if let Some(runner) = &slot.runner
                && runner.shared().lease.owner == activation
                && runner.shared().received.lock().0 < last
            {
                runner.head(last);
            }
        }
    }

    pub(super) fn read_unrest(&mut self) {
        if self.core.config.capacity == 0 || self.reopening || self.shutdown.is_some() {
            return;
        }
        if std::mem::replace(&mut self.sweeping, true) {
            return;
        }
        let (core, me) = (self.core.clone(), self.me.clone());
        let most = self.most_starts().saturating_mul(STARTS_FOUND);
        let at = self.core.clock.mark();
        self.core.spawn(async move {
            let mut found = Vec::new();
            let mut more = false;
            let mut after: Option<RoomId> = None;
            loop {
                let page = core.transport.unrest(after.as_ref(), SWEEP_PAGE);
                match core.deadline(page).await {
                    Ok(page) => {
                        after = page.last().map(|u| u.room.clone());
                        let last = page.len() < SWEEP_PAGE;
                        let sessions = if page.is_empty() {
                            Arc::default()
                        } else {
                            let max_age = core.config.sweep_interval;
                            core.sessions(max_age).await.unwrap_or_default()
                        };
                        found.extend(page.into_iter().filter(|u| is_for(&core, u, &sessions)));
                        // What is beyond could not be started for a while, and may be another by then.
                        more = !last && found.len() >= most;
                        if last || more {
                            break;
                        }
                    }
                    Err(error) => {
                        tracing::debug!(%error, "sweep");
                        break;
                    }
                }
            }
            let _ = me.cast(Inner::UnrestRead { found, more, at }.into()); // the host is stopping
        });
    }

    /// Takes up rooms that were found for this host, as many as may start at once. Where that leaves some, it
    /// goes on as soon as there is a place: the rooms of a dead host are more than one sweep starts.
    pub(super) fn sweep(&mut self, found: Vec<Unrest>, more: bool, at: Duration) {
        self.sweeping = false;
        self.found = found.into();
        self.failed.retain(|_, failed| *failed >= at);
        self.take_found();
        if more || !self.found.is_empty() {
            self.sweep_later();
        }
    }

    /// Goes on with a sweep if there is a place by now.
    pub(super) fn sweep_on(&mut self) {
        self.sweeping_on = false;
        if self.starts() >= self.most_starts() {
            return self.sweep_later();
        }
        if self.found.is_empty() {
            return self.read_unrest();
        }
        self.take_found();
        self.sweep_later();
    }

    /// Offers are refused for a room that somebody else has taken up since it was found.
    fn take_found(&mut self) {
        if self.reopening || self.shutdown.is_some() {
            return self.found.clear();
        }
        let mut places = self.most_starts().saturating_sub(self.starts());
        while places > 0
            && let Some(unrest) = self.found.pop_front()
        {
            if self.failed.contains_key(&unrest.room) || self.slots.contains_key(&unrest.room) {
                continue;
            }
            places -= 1;
            if is_offered(&self.core, &unrest) {
                self.look_at(unrest.room);
            } else {
                self.offer_to_self(unrest.room);
            }
        }
    }

    fn sweep_later(&mut self) {
        if std::mem::replace(&mut self.sweeping_on, true) {
            return;
        }
        let (me, after) = (self.me.clone(), self.core.config.sweep_interval / SWEEPS_ON);
        self.core.spawn(async move {
            tokio::time::sleep(after).await;
            let _ = me.cast(Inner::SweepOn.into()); // the host is stopping
        });
    }

    /// Rooms that are being started.
    fn starts(&self) -> usize {
        self.slots.values().filter(|slot| slot.adopter.is_some()).count()
    }

    /// Rooms that may be started at once.
    fn most_starts(&self) -> usize {
        self.core.config.max_restores.max(1).saturating_mul(2)
    }

    fn offer_to_self(&self, room: RoomId) {
        let (core, me) = (self.core.clone(), self.me.clone());
        self.core.spawn(async move {
            let (to, until) = (core.id.clone(), core.offer_deadline());
            let request = Request::Offer { to, until, create: false };
            match core.execute(&room, request).await {
                Ok(Answer::Offer(OfferAnswer::Done { .. })) => {
                    let _ = me.cast(Inner::Offered { room, notice: None }.into()); // the host is stopping
                }
                Ok(_) => {} // somebody else was faster
                Err(error) => tracing::debug!(%room, %error, "offer"),
            }
        });
    }

    /// Checkpoints rooms that are busy, and unloads rooms that are not.
    pub(super) fn look_after_rooms(&mut self, now: Duration) {
        let config = &self.core.config;
        let (checkpoint, idle) = (config.checkpoint_interval, config.idle_timeout);
        let mut rest = Vec::new();
        for (room, slot) in &mut self.slots {
            if !slot.is_live() {
                continue;
            }
            let Some(runner) = &slot.runner else { continue };
            let shared = runner.shared();
            let handled = shared.handled.load(Ordering::Relaxed);
            let saved = shared.checkpointed.load(Ordering::Relaxed);
            let since = now.saturating_sub(*shared.checkpoint_at.lock());
            if handled != saved && since >= checkpoint {
                runner.checkpoint();
            }
            if slot.idle.0 != handled {
                slot.idle = (handled, now);
            } else if idle.is_some_and(|idle| now.saturating_sub(slot.idle.1) >= idle) {
                rest.push(room.clone());
            }
        }
        for room in rest {
            self.unload(&room);
        }
    }
}

/// Whether this host is to look at a room: it is offered to it, or due, and placement gives it to this host.
fn is_for(core: &HostCore, unrest: &Unrest, sessions: &[SessionInfo]) -> bool {
    is_offered(core, unrest)
        || is_due(core, unrest, sessions) && is_placed_here(core, unrest, sessions)
}

fn is_placed_here(core: &HostCore, unrest: &Unrest, sessions: &[SessionInfo]) -> bool {
    // When every host has declined, the first one is asked again.
    let placed = place_among(&unrest.room, &unrest.declined, sessions)
        .or_else(|_| place_among(&unrest.room, &[], sessions));
    placed.as_ref() == Ok(&core.id)
}

fn is_offered(core: &HostCore, unrest: &Unrest) -> bool {
    matches!(&unrest.phase, Phase::Offered { to, .. } if *to == core.id)
}

fn is_due(core: &HostCore, unrest: &Unrest, sessions: &[SessionInfo]) -> bool {
    let now = core.clock.now();
    let alive = |host: &HostId| sessions.iter().any(|s| s.incarnation.host == *host);
    let work = unrest.backlog || unrest.next_timer.is_some_and(|at| at <= now);
    match &unrest.phase {
        // Its owner's session has ended.
        Phase::Running => !core.is_held(unrest.owner.as_ref(), sessions),
        Phase::Offered { to, until } => now >= *until || !alive(to),
        Phase::Parked { why: ParkReason::Blocked { retry_after, .. } } => {
            work && now >= *retry_after
        }
        Phase::Parked { .. } => work,
        Phase::Closed { .. } => false,
    }
}
