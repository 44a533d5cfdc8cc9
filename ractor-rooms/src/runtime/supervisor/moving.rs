//! `MigrateTo`: who may move where, and what the caller is told.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::super::core::HostCore;
use super::super::error::{CloseErr, MigrationErr};
use super::super::migrate::MigrateTo;
use super::super::not_running::WhyNotRunning;
use super::super::reply::{MAX_ANSWER_BYTES, Outcome as CallOutcome, ReplyAddr};
use super::super::report::{MigrationReport, MoveReason};
use super::super::wire::{LetterBody, MigrateOutcome};
use super::Supervisor;
use super::message::{Inner, Responder};
use super::slot::Giving;
use crate::codec::body;
use crate::id::{HostId, Incarnation, Kind, RoomId};
use crate::protocol::record::{DeclineReason, Phase, RecordView};
use crate::protocol::source::{AbortReason, Goal, Outcome};
use crate::transport::TransportErr;

impl Supervisor {
    pub(super) fn migrate(&mut self, request: MigrateTo, responder: Responder) {
        let parsed = RoomId::new(request.kind, request.key)
            .and_then(|room| Ok((room, HostId::new(request.host)?)));
        let (room, to) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => {
                let error = MigrationErr::Address { error: error.to_string() };
                return responder.answer(&self.core, Err(error));
            }
        };
        let busy = |slot: &super::slot::Slot| {
            let stays = |goal: &Goal| matches!(goal, Goal::Reassert | Goal::Retake);
            let stays = slot.giving.as_ref().is_some_and(|g| stays(g.machine.goal()));
            stays || (slot.adopter.is_some() && slot.giving.is_none())
        };
        let refusal = match self.slots.get_mut(&room) {
            None => return self.forward(room, to, responder),
            Some(slot) if busy(slot) => {
                slot.moves.push((to, responder));
                return;
            }
            Some(slot) => match slot.giving.as_mut().map(|g| (g.machine.goal().clone(), g)) {
                Some((Goal::Move { to: moving }, giving)) if moving == to => {
                    giving.responders.push(responder);
                    return;
                }
                Some((Goal::Move { to: moving }, _)) => {
                    MigrationErr::AlreadyMoving { room, to: moving }
                }
                Some((Goal::Unload | Goal::Reassert | Goal::Retake, _)) => {
                    MigrationErr::NotRunning { room, why: WhyNotRunning::Unloading }
                }
                None if to == self.core.id => MigrationErr::AlreadyThere { room, host: to },
                None => return self.check_target(room, to, responder),
            },
        };
        responder.answer(&self.core, Err(refusal));
    }

    /// Asks the sessions whether the target can take the room.
    fn check_target(&self, room: RoomId, to: HostId, responder: Responder) {
        let reads = self.kinds.get(&room.kind).map_or(0, |kind| kind.reads());
        let (core, me) = (self.core.clone(), self.me.clone());
        self.core.errand(async move {
            let checked = check_target(&core, &room, &to, reads).await;
            let _ = me.cast(Inner::MoveChecked { room, to, checked, responder }.into()); // stopping
        });
    }

    pub(super) fn move_checked(
        &mut self,
        room: &RoomId,
        to: HostId,
        checked: Result<(), MigrationErr>,
        responder: Responder,
    ) {
        if let Err(error) = checked {
            return responder.answer(&self.core, Err(error));
        }
        let live = self.slots.get(room).is_some_and(super::slot::Slot::is_live);
        if live {
            self.give_up(room, Goal::Move { to }, MoveReason::Requested, responder);
        } else {
            // Something else began while the target was checked: asks again from the start.
            let request = MigrateTo::parsed(room, &to);
            self.migrate(request, responder);
        }
    }

    /// The room does not run here: hands the request to the host that runs it.
    fn forward(&self, room: RoomId, to: HostId, responder: Responder) {
        let core = self.core.clone();
        self.core.errand(async move {
            let view = match view_on_offer(&core, &room).await {
                Ok(view) => view,
                Err(error) => {
                    let error = MigrationErr::Store { error: error.to_string() };
                    return responder.answer(&core, Err(error));
                }
            };
            let owner = view.as_ref().filter(|v| v.owner_alive).and_then(|v| v.seen.owner.clone());
            match owner {
                Some(owner) if owner.by.host != core.id => {
                    let reply = await_elsewhere(&core, responder, &room, &owner.by);
                    core.post(owner.by, LetterBody::Migrate { room, to, reply });
                }
                Some(_) => {
                    // Taken by this host a moment ago, or dropped by it: either passes.
                    let why = WhyNotRunning::Starting;
                    responder.answer(&core, Err(MigrationErr::NotRunning { room, why }));
                }
                None => {
                    let error = not_running(&core, room, view.as_deref()).await;
                    responder.answer(&core, Err(error));
                }
            }
        });
    }

    pub(super) fn start_waiting_moves(&mut self, room: &RoomId) {
        let Some(slot) = self.slots.get_mut(room) else { return };
        let moves = std::mem::take(&mut slot.moves);
        for (to, responder) in moves {
            let request = MigrateTo::parsed(room, &to);
            self.migrate(request, responder);
        }
        self.unload_for_shutdown(room);
    }

    pub(super) fn refuse_moves(&self, room: &RoomId, moves: Vec<(HostId, Responder)>) {
        for (_, responder) in moves {
            let (room, why) = (room.clone(), WhyNotRunning::Left);
            responder.answer(&self.core, Err(MigrationErr::NotRunning { room, why }));
        }
    }

    /// Unloads a live room; `false` when it is not live here.
    pub(super) fn unload(&mut self, room: &RoomId) -> bool {
        self.give_up(room, Goal::Unload, MoveReason::Idle, Responder::Nobody)
    }

    pub(super) fn close(
        &mut self,
        room: &RoomId,
        reason: String,
        forced: bool,
        reply: oneshot::Sender<Result<u32, CloseErr>>,
    ) {
        let slot = self.slots.get(room);
        match slot.and_then(|slot| slot.runner.as_ref().map(|runner| (slot, runner))) {
            Some((slot, runner)) if slot.is_live() => runner.close(reason, forced, reply),
            Some(_) => {
                let _ = reply.send(Err(CloseErr::Fenced { room: room.clone() })); // nobody waits
            }
            None => {
                let _ = reply.send(Err(CloseErr::NotHere { room: room.clone() })); // nobody waits
            }
        }
    }

    pub(super) fn report(
        &self,
        room: &RoomId,
        giving: &Giving,
        outcome: &Outcome,
    ) -> MigrationReport {
        let ended = giving.settled_at.unwrap_or_else(|| self.core.clock.mark());
        let config = &self.core.config;
        let from = self.core.id.clone();
        let (to, error) = match outcome {
            Outcome::Migrated { to } => (to.clone(), None),
            Outcome::Parked => (from.clone(), None),
            Outcome::Resumed { .. }
                if matches!(giving.reason, MoveReason::Reasserted | MoveReason::Retaken) =>
            {
                (from.clone(), None)
            }
            Outcome::Resumed { why } => {
                let (room, why) = (room.clone(), why.clone());
                (from.clone(), Some(MigrationErr::NotAdopted { room, why }))
            }
            Outcome::Thawed { why } => {
                (from.clone(), Some(aborted(room, why, config.freeze_timeout)))
            }
            Outcome::Abandoned { by } => {
                let (room, by) = (room.clone(), by.clone());
                (by.clone(), Some(MigrationErr::Abandoned { room, by }))
            }
            Outcome::Gone => (from.clone(), Some(MigrationErr::Gone { room: room.clone() })),
        };
        MigrationReport {
            room: room.clone(),
            from,
            to,
            reason: giving.reason.clone(),
            states: giving.states.clone(),
            pause: giving.froze_at.map_or(Duration::ZERO, |at| ended.saturating_sub(at)),
            logged: giving.heads.0.map_or(0, |first| giving.heads.1.0.saturating_sub(first.0)),
            unread: giving.frozen.as_ref().map_or(0, |f| f.snapshot.unread),
            snapshot_bytes: giving.frozen.as_ref().map_or(0, |f| f.snapshot.bytes),
            error,
        }
    }
}

fn aborted(room: &RoomId, why: &AbortReason, waited: Duration) -> MigrationErr {
    let room = room.clone();
    match why {
        AbortReason::FreezeTimedOut => MigrationErr::FreezeTimedOut { room, waited },
        AbortReason::SnapshotTooLarge { size, limit } => {
            MigrationErr::SnapshotTooLarge { size: *size, limit: *limit }
        }
        AbortReason::FreezeFailed { error } => {
            MigrationErr::FreezeFailed { room, error: error.clone() }
        }
        AbortReason::UploadFailed { error } => {
            MigrationErr::UploadFailed { room, error: error.clone() }
        }
    }
}

/// Looks at a record, and again while the room is on offer: it is about to run.
async fn view_on_offer(
    core: &HostCore,
    room: &RoomId,
) -> Result<Option<Box<RecordView>>, TransportErr> {
    let start = core.clock.mark();
    loop {
        let view = core.view(room).await?;
        let offered = view.as_ref().is_some_and(|v| matches!(v.phase, Phase::Offered { .. }));
        if !offered || core.clock.elapsed_since(start) > core.config.offer_timeout {
            return Ok(view);
        }
        tokio::time::sleep(core.config.retry_interval).await;
    }
}

async fn check_target(
    core: &HostCore,
    room: &RoomId,
    to: &HostId,
    schema: u32,
) -> Result<(), MigrationErr> {
    let sessions = core
        .sessions(Duration::ZERO)
        .await
        .map_err(|e| MigrationErr::Store { error: e.to_string() })?;
    let Some(session) = sessions.iter().find(|s| s.incarnation.host == *to) else {
        if core.is_doubtful() {
            let error = "it may have lost data, and not every host is known to it again".to_owned();
            return Err(MigrationErr::Store { error });
        }
        return Err(MigrationErr::UnknownHost { host: to.clone() });
    };
    let cannot = |why| MigrationErr::TargetCannotRead { host: to.clone(), room: room.clone(), why };
    match session.spec.kinds.get(&room.kind) {
        None => return Err(cannot(DeclineReason::UnknownKind)),
        Some(reads) if *reads < schema => {
            let (found, supported) = (schema, *reads);
            return Err(cannot(DeclineReason::UnreadableVersion { found, supported }));
        }
        Some(_) => {}
    }
    match session.spec.state {
        state if state.takes_rooms() => Ok(()),
        state => Err(MigrationErr::HostNotReady { host: to.clone(), state }),
    }
}

async fn not_running(core: &HostCore, room: RoomId, view: Option<&RecordView>) -> MigrationErr {
    let known = |kind: &Kind, sessions: &[crate::protocol::session::SessionInfo]| {
        sessions.iter().any(|s| s.spec.kinds.contains_key(kind))
    };
    match core.sessions(Duration::ZERO).await {
        Ok(sessions) if !known(&room.kind, &sessions) && !core.is_doubtful() => {
            MigrationErr::UnknownKind { kind: room.kind.as_str().to_owned() }
        }
        Ok(_) | Err(_) => MigrationErr::NotRunning { room, why: WhyNotRunning::of(view) },
    }
}

/// Registers a caller's answer in the table of calls, for a report that comes as a letter.
fn await_elsewhere(
    core: &Arc<HostCore>,
    responder: Responder,
    room: &RoomId,
    asked: &Incarnation,
) -> ReplyAddr {
    let (room, host) = (room.clone(), asked.host.clone());
    let responder = parking_lot::Mutex::new(Some(responder)); // `Sync` for the table; used once
    let answerer = core.clone();
    let call = core.calls.add(Box::new(move |outcome| {
        let Some(responder) = responder.lock().take() else { return };
        let outcome: MigrateOutcome = match outcome {
            CallOutcome::Answer(bytes) => body::decode(&bytes, MAX_ANSWER_BYTES)
                .unwrap_or_else(|e| Err(MigrationErr::Store { error: e.to_string() })),
            CallOutcome::Dropped | CallOutcome::Closed { .. } | CallOutcome::Unknown => {
                Err(MigrationErr::OutcomeUnknown { room, host })
            }
        };
        responder.answer(&answerer, outcome);
    }));
    let (watcher, asked) = (core.clone(), asked.clone());
    core.spawn(async move {
        // The host that was asked may be gone with the request. What the store loses of either letter is sent
        // again.
        let start = watcher.clock.mark();
        while watcher.calls.waits(call) {
            tokio::time::sleep(watcher.config.session_ttl / 4).await;
            let late = watcher.clock.elapsed_since(start) > watcher.config.call_timeout;
            let sessions = watcher.sessions(watcher.config.session_ttl / 4).await;
            let gone = !watcher.is_doubtful()
                && sessions.is_ok_and(|sessions| sessions.iter().all(|s| s.incarnation != asked));
            if late || gone {
                watcher.calls.complete(call, CallOutcome::Unknown);
            }
        }
    });
    ReplyAddr::Host { incarnation: core.incarnation(), call }
}
