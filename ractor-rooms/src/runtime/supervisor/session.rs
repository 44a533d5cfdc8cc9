//! The host's session: heartbeats, its end, and a new start; and the graceful stop.

use std::time::Duration;

use tokio::sync::oneshot;

use super::super::reply::Outcome;
use super::super::report::MoveReason;
use super::Supervisor;
use super::message::{Inner, Responder};
use crate::id::{Incarnation, Millis, RoomId};
use crate::protocol::SessionKeeper;
use crate::protocol::placement::{LOAD_BOUND_PERCENT, LOAD_SLACK};
use crate::protocol::session::{HostState, OpenAnswer, SessionSpec};
use crate::protocol::source::Goal;

impl Supervisor {
    pub(super) fn tick(&mut self) {
        self.tick_later();
        let now = self.core.clock.mark();
        if !self.keeper.is_alive(Millis::of(now).0) {
            return self.lapsed();
        }
        let every = self.core.config.session_ttl / 3;
        let due = self.heartbeat.is_none_or(|sent| now.saturating_sub(sent) >= every);
        if due || self.is_misjudged() {
            self.heartbeat_now();
        }
        if self.reconcile_at.is_none_or(|at| now.saturating_sub(at) >= every) {
            self.reconcile_at = Some(now);
            self.read_owned();
            self.core.forget_unused_ways();
        }
        self.prove();
        self.settle(now);
        if !self.sweeping_on {
            self.read_unrest();
        }
        self.look_after_rooms(now);
    }

    /// Takes its part of the rooms once it has been there for a while.
    fn settle(&mut self, now: Duration) {
        let since = now.saturating_sub(self.started);
        if self.state == HostState::Joining && since >= self.core.config.settle_time {
            self.state = HostState::Ready;
            self.heartbeat_now();
        }
    }

    /// Pushes arrive from now on: reads what came before.
    pub(super) fn listening(&mut self) {
        self.reconcile_at = Some(self.core.clock.mark());
        self.read_owned();
    }

    fn load(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// Whether the others place rooms by a load that is far from what it is: a host that fills up in a deploy, or after
    /// a crash, would get twice its share before its next heartbeat is due.
    fn is_misjudged(&self) -> bool {
        let slack = u64::from(self.said_load) * LOAD_BOUND_PERCENT / 100;
        u64::from(self.load().abs_diff(self.said_load)) > slack.max(LOAD_SLACK)
    }

    pub(super) fn spec(&self) -> SessionSpec {
        SessionSpec {
            state: self.state,
            load: self.load(),
            capacity: self.core.config.capacity,
            weight: self.core.config.weight,
            kinds: self.kinds.iter().map(|(name, kind)| (name.clone(), kind.reads())).collect(),
            proved: self.proved,
            holds: self.holds(),
        }
    }

    /// Sends a heartbeat. It counts from now, not from its answer.
    pub(super) fn heartbeat_now(&mut self) {
        if self.reopening {
            return;
        }
        let sent_at = self.core.clock.mark();
        self.heartbeat = Some(sent_at);
        let (core, me, spec) = (self.core.clone(), self.me.clone(), self.spec());
        self.said_load = spec.load;
        self.beats.sent(&spec);
        self.core.spawn(async move {
            let (by, ttl) = (core.incarnation(), core.config.session_ttl);
            match core.deadline(core.transport.renew_session(&by, ttl, spec)).await {
                Ok(renewed) => {
                    let message = Inner::HeartbeatAnswered { sent_at, renewed };
                    let _ = me.cast(message.into()); // the host is stopping
                }
                Err(error) => {
                    tracing::debug!(%error, "heartbeat");
                    let _ = me.cast(Inner::HeartbeatFailed { sent_at }.into()); // the host is stopping
                }
            }
        });
    }

    pub(super) fn heartbeat_answered(&mut self, sent_at: Duration, renewed: bool) {
        let again = self.beats.ended();
        if self.reopening {
            return; // an answer of the session that has ended
        }
        self.keeper.answered(Millis::of(sent_at).0, renewed);
        let now = self.core.clock.mark();
        let silence = now.saturating_sub(std::mem::replace(&mut self.heard, now));
        if silence >= self.core.config.session_ttl / 2 {
            self.core.await_holders(); // hosts that were heard a little earlier have lapsed
        }
        self.core.set_ready(true);
        if !self.keeper.is_alive(Millis::of(self.core.clock.mark()).0) {
            return self.lapsed();
        }
        if again {
            self.heartbeat_now();
        }
    }

    /// Has the next tick send another one: what is left of the session may be shorter than the time
    /// between two, so a store that is back in time would not be told.
    pub(super) fn heartbeat_failed(&mut self, sent_at: Duration) {
        self.core.set_ready(false);
        // One that overtook it may have been undone by it.
        if self.beats.ended() || self.heartbeat == Some(sent_at) {
            self.heartbeat = None;
        }
    }

    /// Opens another session, for as long as it takes.
    pub(super) fn open_again(&self) {
        let (core, me, spec) = (self.core.clone(), self.me.clone(), self.spec());
        self.core.spawn(async move {
            while !core.is_leaving() {
                let sent_at = core.clock.mark();
                let ttl = core.config.session_ttl;
                let open = core.transport.open_session(&core.id, ttl, spec.clone());
                match core.deadline(open).await {
                    Ok(OpenAnswer::Opened(incarnation)) => {
                        let message = Inner::Reopened { incarnation, sent_at };
                        let _ = me.cast(message.into()); // the host is stopping
                        return;
                    }
                    Ok(OpenAnswer::Taken { .. }) => {} // the old one has yet to end at the store
                    Err(error) => tracing::debug!(%error, "session"),
                }
                tokio::time::sleep(core.config.retry_interval).await;
            }
        });
    }

    pub(super) fn reopened(&mut self, incarnation: Incarnation, sent_at: Duration) {
        let lost = self.core.calls.pending();
        self.core.set_incarnation(incarnation);
        // Their answers go to the inbox of the old incarnation, which nobody reads.
        for call in lost {
            self.core.calls.complete(call, Outcome::Unknown);
        }
        self.keeper = SessionKeeper::opened(
            Millis::of(self.core.config.session_ttl).0,
            Millis::of(sent_at).0,
        );
        self.reopening = false;
        self.proving.get_or_insert(self.core.clock.mark());
        self.heartbeat = None;
        self.heard = self.core.clock.mark();
        self.core.await_holders();
        self.core.set_ready(true);
        drop(self.core.listen()); // it goes on by itself
        self.take_back();
    }

    /// Unloads every room, then ends the session.
    pub(super) fn shut_down(&mut self, reply: oneshot::Sender<()>) {
        self.state = HostState::Draining;
        self.shutdown = Some(reply);
        self.heartbeat_now();
        let rooms: Vec<RoomId> = self.slots.keys().cloned().collect();
        for room in rooms {
            self.unload_for_shutdown(&room);
        }
        self.maybe_shut_down();
    }

    pub(super) fn unload_for_shutdown(&mut self, room: &RoomId) {
        if self.shutdown.is_some() {
            self.give_up(room, Goal::Unload, MoveReason::Shutdown, Responder::Nobody);
        }
    }

    pub(super) fn maybe_shut_down(&mut self) {
        if !self.slots.is_empty() {
            return;
        }
        if let Some(reply) = self.shutdown.take() {
            let _ = reply.send(()); // the host gave up waiting
        }
    }
}
