//! Driving the source: each action becomes a call, each answer an event.

use std::time::Duration;

use super::super::core::RoomFault;
use super::super::report::{MoveReason, StateTime};
use super::super::runner_handle::FrozenRoom;
use super::Supervisor;
use super::adopting::{log_unexpected, view_until};
use super::message::{Inner, Responder};
use super::slot::{Early, Giving};
use crate::id::{Epoch, HostId, RoomId, Seq};
use crate::protocol::Source;
use crate::protocol::record::{Answer, OwnerAnswer, ParkReason, RecordView, Request};
use crate::protocol::source::{Goal, Outcome, SourceAction, SourceEvent, SourceState, SourceTimer};

/// How often an upload is tried.
const UPLOADS: u32 = 3;

impl Supervisor {
    /// Starts to give a live room up; `false` when it is not live.
    pub(super) fn give_up(
        &mut self,
        room: &RoomId,
        goal: Goal,
        reason: MoveReason,
        responder: Responder,
    ) -> bool {
        let (me, token) = (self.core.id.clone(), self.token());
        let started = self.core.clock.mark();
        let Some(slot) = self.slots.get_mut(room).filter(|s| s.is_live()) else { return false };
        let (Some(runner), Some(lease)) = (slot.runner.clone(), slot.lease.clone()) else {
            return false;
        };
        let (machine, actions) = Source::start(me, lease.epoch, goal);
        let state = StateTime { state: machine.state_name().to_owned(), after: Duration::ZERO };
        let span = tracing::info_span!(
            target: "ractor_rooms::migration",
            "migration",
            %room,
            from = %self.core.id,
            epoch = %lease.epoch,
            ?reason,
        );
        let generation = lease.generation;
        slot.giving = Some(Giving {
            token,
            machine,
            runner,
            lease,
            frozen: None,
            reason,
            started,
            froze_at: None,
            told: None,
            settled_at: None,
            states: vec![state],
            responders: vec![responder],
            span,
            generation,
            forgotten: None,
            conceded: None,
            asserting: None,
            retaking: None,
            relays: None,
            watching: false,
            heads: (None, Seq(0)),
            overtaken: false,
        });
        self.drive_source(room, token, actions);
        true
    }

    /// An event for whatever machine gives the room up now.
    pub(super) fn source_now(&mut self, room: &RoomId, event: SourceEvent) {
        let token = self.slots.get(room).and_then(|s| s.giving.as_ref()).map(|g| g.token);
        if let Some(token) = token {
            self.source_event(room, token, event, false);
        }
    }

    pub(super) fn froze(&mut self, room: &RoomId, frozen: FrozenRoom) {
        if let Some(giving) = self.slots.get_mut(room).and_then(|s| s.giving.as_mut()) {
            giving.froze_at = Some(frozen.cut_at);
            giving.frozen = Some(frozen);
        }
        self.source_now(room, SourceEvent::Froze);
        self.say_reopened(room);
    }

    pub(super) fn source_event(
        &mut self,
        room: &RoomId,
        token: u64,
        event: SourceEvent,
        watched: bool,
    ) {
        let now = self.core.clock.mark();
        let Some(slot) = self.slots.get_mut(room) else { return };
        let Some(giving) = slot.giving.as_mut().filter(|g| g.token == token) else { return };
        if watched {
            giving.watching = false;
        }
        let event = match event {
            SourceEvent::Fired(timer) => giving.fired(timer),
            event => event,
        };
        if let SourceEvent::Saw(view) = &event {
            giving.relays = (view.owner_alive && !view.settled).then_some(view.seen.epoch);
            if let Some((epoch, at)) = giving.told
                && view.settled
                && view.seen.epoch == epoch
            {
                giving.settled_at.get_or_insert(at);
            }
            giving.overtaken |= giving.is_overtaken(view);
            giving.heads.0.get_or_insert(view.seq);
            giving.heads.1 = giving.heads.1.max(view.seq);
        }
        match giving.machine.step(event) {
            Ok(actions) => {
                let name = giving.machine.state_name();
                if giving.states.last().is_none_or(|s| s.state != name) {
                    let after = now.saturating_sub(giving.started);
                    giving.span.in_scope(|| {
                        tracing::debug!(target: "ractor_rooms::migration", state = name);
                    });
                    giving.states.push(StateTime { state: name.to_owned(), after });
                }
                self.drive_source(room, token, actions);
            }
            Err(rejection) => tracing::debug!(%room, %rejection, "source"),
        }
    }

    fn drive_source(&mut self, room: &RoomId, token: u64, actions: Vec<SourceAction>) {
        for action in actions {
            let Some(slot) = self.slots.get_mut(room) else { return };
            let Some(giving) = slot.giving.as_mut().filter(|g| g.token == token) else { return };
            match action {
                SourceAction::Freeze => giving.runner.freeze(token),
                SourceAction::Upload => self.upload(room, token),
                SourceAction::Park { to } => self.park(room, token, to),
                SourceAction::Watch => {
                    // A doubt is resolved at once; for the rest a notice comes, and this is the net.
                    let state = giving.machine.state();
                    let pause = !matches!(state, SourceState::Doubtful { .. });
                    if !std::mem::replace(&mut giving.watching, true) {
                        self.watch(room, token, pause);
                    }
                }
                SourceAction::Thaw => giving.runner.thaw(),
                SourceAction::Reassert => self.reassert(room, token),
                SourceAction::Reacquire => {
                    giving.asserting = None; // it came to nothing
                    self.reacquire(room, token);
                }
                SourceAction::Retake => self.retake(room, token),
                SourceAction::Release => {
                    giving.runner.release();
                    slot.part_with_frozen(&self.core);
                    self.source_event(room, token, SourceEvent::Released, false);
                }
                SourceAction::Diverge => {
                    giving.runner.diverge();
                    slot.part_with_frozen(&self.core);
                }
                SourceAction::Arm(timer) => {
                    let config = &self.core.config;
                    let after = match timer {
                        SourceTimer::Freeze => config.freeze_timeout,
                        // A little after the store lets anybody in.
                        SourceTimer::Offer => config.offer_timeout + config.sweep_interval,
                        // Twice is what an adopter may go without taking anything.
                        SourceTimer::Relay => {
                            (config.restore_timeout * 2).saturating_add(config.offer_timeout)
                        }
                        // Nobody may acquire anything before every host has proved what it has.
                        SourceTimer::Retake => {
                            config.restore_timeout.saturating_add(config.session_ttl * 2)
                        }
                    };
                    self.source_later(room, token, after, SourceEvent::Fired(timer));
                }
                SourceAction::Report(outcome) => self.source_ended(room, &outcome),
            }
        }
    }

    fn source_later(&self, room: &RoomId, token: u64, after: Duration, event: SourceEvent) {
        let (me, room) = (self.me.clone(), room.clone());
        self.core.spawn(async move {
            tokio::time::sleep(after).await;
            cast_source(&me, room, token, event, false);
        });
    }

    fn upload(&mut self, room: &RoomId, token: u64) {
        let Some(giving) = self.slots.get(room).and_then(|s| s.giving.as_ref()) else { return };
        let Some(frozen) = giving.frozen.clone() else { return };
        if frozen.bytes.len() <= self.core.transport.carries() {
            // They go along with the park, and with each copy of it.
            return self.source_event(room, token, SourceEvent::Uploaded, false);
        }
        let (core, me, room) = (self.core.clone(), self.me.clone(), room.clone());
        self.core.spawn(async move {
            let mut event = SourceEvent::Uploaded;
            for attempt in 1..=UPLOADS {
                let key = frozen.snapshot.key.clone();
                match core.put_snapshot(&room, key, frozen.bytes.clone()).await {
                    Ok(()) => {
                        event = SourceEvent::Uploaded;
                        break;
                    }
                    Err(error) => event = SourceEvent::UploadFailed { error: error.to_string() },
                }
                if attempt < UPLOADS {
                    tokio::time::sleep(core.config.retry_interval).await;
                }
            }
            cast_source(&me, room, token, event, false);
        });
    }

    fn park(&mut self, room: &RoomId, token: u64, to: Option<HostId>) {
        let Some(giving) = self.slots.get(room).and_then(|s| s.giving.as_ref()) else { return };
        let why = match giving.machine.goal() {
            Goal::Unload => ParkReason::Idle,
            Goal::Move { .. } | Goal::Reassert | Goal::Retake => ParkReason::GivenBack,
        };
        let request = Request::Park {
            lease: giving.lease.clone(),
            snapshot: giving.frozen.as_ref().map(|f| f.snapshot.clone()),
            offer: to.map(|to| (to, self.core.offer_deadline())),
            why,
            failed: None,
        };
        let frozen = giving.frozen.clone();
        let (core, me, room) = (self.core.clone(), self.me.clone(), room.clone());
        self.core.spawn(async move {
            let carried = frozen.filter(|f| f.bytes.len() <= core.transport.carries());
            let answer = match carried {
                Some(f) => core.execute_with(&room, request, (f.snapshot.key, f.bytes)).await,
                None => core.execute(&room, request).await,
            };
            let event = match answer {
                Ok(Answer::Owner(OwnerAnswer::Done)) => SourceEvent::Parked,
                Ok(Answer::Owner(OwnerAnswer::Fenced { .. })) => SourceEvent::ParkFenced,
                Ok(Answer::Owner(OwnerAnswer::NoSnapshot)) => SourceEvent::ParkRefused,
                Ok(other) => {
                    log_unexpected(&room, &other);
                    SourceEvent::ParkUnanswered
                }
                Err(error) => {
                    tracing::debug!(%room, %error, "park");
                    // The machine looks at the record at once and parks again: the pause is here.
                    tokio::time::sleep(core.config.retry_interval).await;
                    SourceEvent::ParkUnanswered
                }
            };
            cast_source(&me, room, token, event, false);
        });
    }

    /// Looks at the record.
    fn watch(&self, room: &RoomId, token: u64, pause: bool) {
        let (core, me, room) = (self.core.clone(), self.me.clone(), room.clone());
        let Some(lease) = self.slots.get(&room).and_then(|s| s.giving.as_ref()).map(|g| &g.lease)
        else {
            return;
        };
        let lease = lease.clone();
        self.core.spawn(async move {
            if pause {
                tokio::time::sleep(core.config.sweep_interval).await;
            }
            let event = match view_until(&core, &room).await {
                Some(view) if !lease.is_forgotten_by(&view.seen) => SourceEvent::Saw(view),
                // A record is never deleted, nor turned back: the store has lost what it was, and here is
                // what was in it.
                Some(_) | None => SourceEvent::OtherGeneration,
            };
            cast_source(&me, room, token, event, true);
        });
    }

    /// A notice says that a parked room was adopted or declined.
    pub(super) fn look_at_moved(&mut self, room: RoomId, settled: Option<Epoch>) {
        let now = self.core.clock.mark();
        let Some(giving) = self.slots.get_mut(&room).and_then(|s| s.giving.as_mut()) else {
            return;
        };
        let (token, lease) = (giving.token, giving.lease.clone());
        giving.told = settled.map(|epoch| (epoch, now)).or(giving.told);
        let (core, me) = (self.core.clone(), self.me.clone());
        self.core.spawn(async move {
            if let Ok(Some(view)) = core.view(&room).await
                && !lease.is_forgotten_by(&view.seen)
            {
                cast_source(&me, room, token, SourceEvent::Saw(view), false);
            }
        });
    }

    fn reacquire(&self, room: &RoomId, token: u64) {
        let (core, me, room) = (self.core.clone(), self.me.clone(), room.clone());
        self.core.spawn(async move {
            let view = view_until(&core, &room).await;
            let _ = me.cast(Inner::ReacquireFrom { room, token, view }.into()); // stopping
        });
    }

    pub(super) fn reacquire_from(&mut self, room: &RoomId, token: u64, view: Option<RecordView>) {
        let Some(slot) = self.slots.get(room) else { return };
        let Some(giving) = slot.giving.as_ref().filter(|g| g.token == token) else { return };
        if giving.asserting.is_some() {
            return; // the store has lost data since the record was asked for: it is re-asserted instead
        }
        let early = giving
            .frozen
            .as_ref()
            .map_or(Early::Nothing, |f| Early::Frozen(f.snapshot.key.clone(), f.bytes.clone()));
        let forgotten = |view: &RecordView| giving.lease.is_forgotten_by(&view.seen);
        match view.filter(|view| !forgotten(view)) {
            Some(view) if slot.adopter.is_none() => {
                self.adopt(room, view.seen, Ok(()), early, false);
            }
            Some(_) => {}
            None => self.source_now(room, SourceEvent::OtherGeneration), // as in `watch`
        }
    }

    fn source_ended(&mut self, room: &RoomId, outcome: &Outcome) {
        let Some(slot) = self.slots.get_mut(room) else { return };
        let Some(giving) = slot.giving.take() else { return };
        slot.idle = (0, self.core.clock.mark());
        let held = *giving.machine.goal() == Goal::Retake;
        if giving.overtaken && !matches!(outcome, Outcome::Resumed { .. } | Outcome::Thawed { .. })
        {
            self.core.report(RoomFault::Fenced { room: room.clone() });
        }
        let report = self.report(room, &giving, outcome);
        giving.span.in_scope(|| report.log());
        for responder in giving.responders {
            responder.answer(&self.core, report.clone().into_outcome());
        }
        if let (Outcome::Parked, Some(frozen)) = (outcome, &giving.frozen) {
            let life = giving.runner.shared().life;
            self.core.parked.lock().note(room.clone(), life, &frozen.snapshot);
        }
        match outcome {
            Outcome::Thawed { .. } | Outcome::Resumed { .. } => self.start_waiting_moves(room),
            Outcome::Migrated { .. }
            | Outcome::Parked
            | Outcome::Abandoned { .. }
            | Outcome::Gone => self.forget(room),
        }
        if held {
            self.held_one_less();
        }
        self.maybe_shut_down();
    }
}

fn cast_source(
    me: &ractor::ActorRef<super::RoomSupervisorMessage>,
    room: RoomId,
    token: u64,
    event: SourceEvent,
    watched: bool,
) {
    let event = Box::new(event);
    let _ = me.cast(Inner::Source { room, token, event, watched }.into()); // stopping
}
