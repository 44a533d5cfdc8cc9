//! Driving the adopter: each action becomes a call, each answer an event.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::super::core::{HostCore, RoomFault, unexpected};
use super::super::kinds::RoomKind;
use super::super::migrate::MigrateTo;
use super::super::runner_handle::Runner;
use super::Supervisor;
use super::message::Inner;
use super::slot::{Adopting, Early, Slot};
use crate::id::{Activation, RoomId};
use crate::protocol::Adopter;
use crate::protocol::adopter::{AdopterAction, AdopterEvent, AdopterState, AdopterTimer};
use crate::protocol::record::{
    AcquireAnswer, Acquired, Answer, DeclineReason, OfferNotice, OwnerAnswer, ParkReason, Phase,
    RecordView, Request, Seen, SnapshotKey, SnapshotRef,
};
use crate::protocol::source::SourceEvent;
use crate::transport::TransportErr;

/// Snapshots up to this size are asked for while the room is acquired: were it refused, they would have
/// been for nothing.
const EARLY_BYTES: u64 = 8 << 20;

impl Supervisor {
    /// A room is said to be reserved for this host: takes it by what the notice says of its record, and
    /// looks for itself where there is none, or where it would decline.
    pub(super) fn offered(&mut self, room: RoomId, notice: Option<OfferNotice>) {
        if let Some(slot) = self.slots.get_mut(&room) {
            slot.offered = true;
            return;
        }
        let Some(OfferNotice { epoch, snapshot }) = notice else { return self.look_at(room) };
        if self.reopening || self.acceptable(&room, snapshot.as_ref()).is_err() {
            return self.look_at(room);
        }
        self.slots.insert(room.clone(), Slot::default());
        let early = snapshot.map_or(Early::Nothing, |snapshot| self.fetch_early(&room, snapshot));
        self.adopt(&room, Seen { epoch, owner: None }, Ok(()), early, true);
    }

    /// Asks for the bytes of a room that is about to be acquired, where there is a place for its restore.
    fn fetch_early(&self, room: &RoomId, snapshot: SnapshotRef) -> Early {
        if snapshot.bytes > EARLY_BYTES {
            return Early::Nothing;
        }
        let Ok(permit) = self.restores.clone().try_acquire_owned() else { return Early::Nothing };
        let (sender, receiver) = oneshot::channel();
        let (core, room, key) = (self.core.clone(), room.clone(), snapshot.key.clone());
        self.core.spawn(async move {
            if let Ok(Some(bytes)) = core.snapshot(&room, &key).await {
                let _ = sender.send(bytes); // the room was not to be had
            }
        });
        Early::Fetching(snapshot.key, receiver, permit)
    }

    /// A room is said to be reserved for this host: looks at its record.
    pub(super) fn look_at(&mut self, room: RoomId) {
        if let Some(slot) = self.slots.get_mut(&room) {
            slot.offered = true;
            return;
        }
        let (core, me) = (self.core.clone(), self.me.clone());
        self.core.spawn(async move {
            match core.view(&room).await {
                Ok(Some(view)) => {
                    let _ = me.cast(Inner::OfferSeen { room, view }.into()); // stopping
                }
                Ok(None) => {}
                Err(error) => tracing::debug!(%room, %error, "offer"), // the sweep repeats it
            }
        });
    }

    pub(super) fn offer_seen(&mut self, room: RoomId, view: RecordView) {
        let mine = matches!(&view.phase, Phase::Offered { to, .. } if *to == self.core.id);
        if !mine || self.reopening {
            return;
        }
        if let Some(slot) = self.slots.get_mut(&room) {
            slot.offered = true; // it came to be while the record was read
            return;
        }
        let acceptable = self.acceptable(&room, view.snapshot.as_ref());
        self.slots.insert(room.clone(), Slot::default());
        self.adopt(&room, view.seen, acceptable, Early::Nothing, false);
    }

    fn acceptable(
        &self,
        room: &RoomId,
        snapshot: Option<&SnapshotRef>,
    ) -> Result<(), DeclineReason> {
        let Some(kind) = self.kinds.get(&room.kind) else {
            return Err(DeclineReason::UnknownKind);
        };
        if let Some(snapshot) = snapshot
            && snapshot.schema > kind.reads()
        {
            let (found, supported) = (snapshot.schema, kind.reads());
            return Err(DeclineReason::UnreadableVersion { found, supported });
        }
        if !self.state.takes_rooms() || self.shutdown.is_some() {
            return Err(DeclineReason::Draining);
        }
        if self.slots.len() >= self.core.config.capacity as usize {
            return Err(DeclineReason::OverCapacity);
        }
        Ok(())
    }

    /// Starts a machine that takes the room.
    pub(super) fn adopt(
        &mut self,
        room: &RoomId,
        seen: Seen,
        acceptable: Result<(), DeclineReason>,
        early: Early,
        told: bool,
    ) {
        self.next_activation += 1;
        let activation = Activation { by: self.core.incarnation(), number: self.next_activation };
        let token = self.token();
        let (machine, actions) = Adopter::start(activation, seen, acceptable);
        if let Some(slot) = self.slots.get_mut(room) {
            slot.adopter =
                Some(Adopting { token, machine, restore: None, early, told, taken: None });
            self.drive_adopter(room, token, actions);
        }
    }

    /// An event for whatever machine takes the room now.
    pub(super) fn adopter_now(&mut self, room: &RoomId, event: AdopterEvent) {
        let token = self.slots.get(room).and_then(|s| s.adopter.as_ref()).map(|a| a.token);
        if let Some(token) = token {
            self.adopter_event(room, token, event);
        }
    }

    pub(super) fn adopter_event(&mut self, room: &RoomId, token: u64, event: AdopterEvent) {
        let Some(slot) = self.slots.get_mut(room) else { return };
        let Some(adopting) = slot.adopter.as_mut().filter(|a| a.token == token) else { return };
        let event = match event {
            AdopterEvent::Fired(timer) => adopting.fired(timer, slot.runner.as_deref()),
            event => event,
        };
        match adopting.machine.step(event) {
            Ok(actions) => self.drive_adopter(room, token, actions),
            Err(rejection) => tracing::debug!(%room, %rejection, "adopter"),
        }
    }

    pub(super) fn drive_adopter(&mut self, room: &RoomId, token: u64, actions: Vec<AdopterAction>) {
        for action in actions {
            match action {
                AdopterAction::Acquire { activation, seen } => {
                    self.ask(room, token, Request::Acquire { activation, seen }, |answer| {
                        match answer {
                            Ok(Answer::Acquire(answer)) => AdopterEvent::ClaimAnswered(answer),
                            _ => AdopterEvent::ClaimUnanswered,
                        }
                    });
                }
                AdopterAction::Restore(acquired) => self.restore(room, token, *acquired),
                AdopterAction::Settle { lease } => {
                    self.ask(room, token, Request::Settle { lease }, |answer| match answer {
                        Ok(Answer::Owner(answer)) => AdopterEvent::SettleAnswered(answer),
                        _ => AdopterEvent::SettleUnanswered,
                    });
                }
                AdopterAction::GoLive { lease: _, last } => {
                    if let Some(runner) = self.slots.get(room).and_then(|s| s.runner.as_ref()) {
                        runner.go_live(last);
                    }
                }
                AdopterAction::Discard => {
                    if let Some(slot) = self.slots.get_mut(room) {
                        if let Some(adopting) = &slot.adopter {
                            adopting.abort();
                        }
                        if let Some(runner) = slot.runner.take() {
                            runner.discard();
                            self.core.runners.remove(room);
                        }
                    }
                }
                AdopterAction::GiveBack { lease, why } => {
                    self.core.report(RoomFault::StartFailed {
                        room: room.clone(),
                        why: why.to_string(),
                    });
                    let request = Request::Park {
                        lease,
                        snapshot: None,
                        offer: None,
                        why: ParkReason::GivenBack,
                        failed: Some(why),
                    };
                    self.ask(room, token, request, |answer| match answer {
                        Ok(Answer::Owner(OwnerAnswer::Done | OwnerAnswer::Fenced { .. })) => {
                            AdopterEvent::GaveBack
                        }
                        _ => AdopterEvent::GiveBackUnanswered,
                    });
                }
                AdopterAction::Decline { why } => {
                    let by = self.core.id.clone();
                    self.ask(room, token, Request::Decline { by, why }, |_| {
                        AdopterEvent::DeclineAnswered // without an answer the offer ends by itself
                    });
                }
                AdopterAction::Arm(timer) => {
                    let after = match timer {
                        AdopterTimer::Claim => self.core.config.offer_timeout,
                        AdopterTimer::Restore => self.core.config.restore_timeout,
                    };
                    self.adopter_later(room, token, after, AdopterEvent::Fired(timer));
                }
            }
        }
        self.adopter_done(room, token);
    }

    /// What follows once the machine has ended.
    fn adopter_done(&mut self, room: &RoomId, token: u64) {
        let Some(slot) = self.slots.get_mut(room) else { return };
        let Some(adopting) = slot.adopter.as_ref().filter(|a| a.token == token) else { return };
        let resuming = slot.giving.is_some();
        match adopting.machine.state() {
            AdopterState::Live { .. } => {
                slot.adopter = None;
                slot.asserted_at = None; // only what failed is tried again after a pause
                slot.idle = (0, self.core.clock.mark());
                if resuming {
                    self.source_now(room, SourceEvent::Reacquired);
                }
                self.start_waiting_moves(room);
            }
            AdopterState::Declined { .. } | AdopterState::Lost => {
                if let AdopterState::Declined { why } = adopting.machine.state()
                    && why.is_failure()
                {
                    self.failed.insert(room.clone(), self.core.clock.mark());
                }
                // The notice was old, perhaps: the record says what is, also to who wants the room moved.
                let never_here = adopting.told && slot.lease.is_none();
                slot.offered |= never_here;
                slot.adopter = None;
                if resuming {
                    return self.source_now(room, SourceEvent::ReacquireRefused);
                }
                let moves = if never_here { std::mem::take(&mut slot.moves) } else { Vec::new() };
                self.forget(room);
                for (to, responder) in moves {
                    self.migrate(MigrateTo::parsed(room, &to), responder);
                }
            }
            AdopterState::Claiming
            | AdopterState::Restoring { .. }
            | AdopterState::Replaying { .. }
            | AdopterState::Settling { .. }
            | AdopterState::GivingBack { .. }
            | AdopterState::Declining { .. } => {}
        }
    }

    /// Carries a request out and casts what it means back.
    fn ask(
        &self,
        room: &RoomId,
        token: u64,
        request: Request,
        event: impl FnOnce(Result<Answer, TransportErr>) -> AdopterEvent + Send + 'static,
    ) {
        let (core, me, room) = (self.core.clone(), self.me.clone(), room.clone());
        self.core.spawn(async move {
            let answer = core.execute(&room, request).await;
            let unproved = matches!(&answer, Ok(Answer::Acquire(AcquireAnswer::Unproved)));
            if answer.is_err() || unproved {
                // The machine asks again at once; the pause is here.
                tokio::time::sleep(core.config.retry_interval).await;
            }
            let event = Box::new(event(answer));
            let _ = me.cast(Inner::Adopter { room, token, event }.into()); // stopping
        });
    }

    fn adopter_later(&self, room: &RoomId, token: u64, after: Duration, event: AdopterEvent) {
        let (me, room) = (self.me.clone(), room.clone());
        self.core.spawn(async move {
            tokio::time::sleep(after).await;
            let event = Box::new(event);
            let _ = me.cast(Inner::Adopter { room, token, event }.into()); // stopping
        });
    }

    /// Fetches the snapshot and makes the runner, in a task that can be given up.
    fn restore(&mut self, room: &RoomId, token: u64, acquired: Acquired) {
        let Some(slot) = self.slots.get_mut(room) else { return };
        slot.lease = Some(acquired.lease.clone());
        if !self.core.is_stale(room, &acquired.lease) {
            self.core.remember(room);
            let snapshot = acquired.snapshot.as_ref();
            if self.core.parked.lock().taken_up(room, acquired.life, snapshot) {
                self.core.report(RoomFault::StateLost { room: room.clone() });
            }
        }
        if self.core.is_stale(room, &acquired.lease) {
            self.proving.get_or_insert(self.core.clock.mark()); // acquired just before it began
        }
        let Some(adopting) = slot.adopter.as_mut() else { return };
        let early = std::mem::take(&mut adopting.early);
        let kind = self.kinds.get(&room.kind).cloned();
        let (core, me, room) = (self.core.clone(), self.me.clone(), room.clone());
        let permits = self.restores.clone();
        let supervisor = self.me.get_cell();
        let restore = tokio::spawn(async move {
            let (early, _permit) = match early {
                Early::Fetching(key, bytes, permit) => {
                    let right = acquired.snapshot.as_ref().is_some_and(|s| s.key == key);
                    let bytes = if right { bytes.await.ok() } else { None };
                    (bytes.map(|bytes| (key, bytes)), Ok(permit))
                }
                Early::Frozen(key, bytes) => (Some((key, bytes)), permits.acquire_owned().await),
                Early::Nothing => (None, permits.acquire_owned().await),
            };
            let made = match kind {
                Some(kind) => make(&core, &*kind, supervisor, &room, acquired, early).await,
                None => Err(DeclineReason::UnknownKind),
            };
            let message = match made {
                Ok(runner) => Inner::Spawned { room, token, runner },
                Err(why) => {
                    let event = Box::new(AdopterEvent::RestoreFailed(why));
                    Inner::Adopter { room, token, event }
                }
            };
            let _ = me.cast(message.into()); // the host is stopping
        });
        adopting.restore = Some(restore.abort_handle());
    }

    /// The runner exists.
    pub(super) fn spawned(&mut self, room: &RoomId, token: u64, runner: Arc<dyn Runner>) {
        let current = self.slots.get_mut(room).filter(|slot| {
            slot.adopter.as_ref().is_some_and(|a| {
                a.token == token && matches!(a.machine.state(), AdopterState::Restoring { .. })
            })
        });
        let Some(slot) = current else { return runner.discard() };
        slot.runner = Some(runner.clone());
        self.core.runners.insert(room.clone(), runner.clone());
        self.adopter_event(room, token, AdopterEvent::Restored);
        runner.replay();
    }
}

async fn make(
    core: &Arc<HostCore>,
    kind: &dyn RoomKind,
    supervisor: ractor::ActorCell,
    room: &RoomId,
    acquired: Acquired,
    early: Option<(SnapshotKey, bytes::Bytes)>,
) -> Result<Arc<dyn Runner>, DeclineReason> {
    let bytes = match &acquired.snapshot {
        None => None,
        Some(pointer) => match early {
            Some((key, bytes)) if key == pointer.key => Some(bytes),
            Some(_) | None => Some(fetch(core, room, &pointer.key).await?),
        },
    };
    kind.spawn(core.clone(), supervisor, room.clone(), acquired, bytes).await
}

/// The bytes of a snapshot, asked for until the restore's deadline.
async fn fetch(
    core: &HostCore,
    room: &RoomId,
    key: &SnapshotKey,
) -> Result<bytes::Bytes, DeclineReason> {
    loop {
        match core.snapshot(room, key).await {
            Ok(Some(bytes)) => return Ok(bytes),
            Ok(None) => {
                let error = "the store lost the bytes of the snapshot".to_owned();
                return Err(DeclineReason::RestoreFailed { error });
            }
            Err(error) => {
                tracing::debug!(%room, %error, "snapshot");
                tokio::time::sleep(core.config.retry_interval).await;
            }
        }
    }
}

/// Looks at a record until there is an answer.
pub(super) async fn view_until(core: &HostCore, room: &RoomId) -> Option<Box<RecordView>> {
    loop {
        match core.view(room).await {
            Ok(view) => return view,
            Err(error) => {
                tracing::debug!(%room, error = %error, "view");
                tokio::time::sleep(core.config.retry_interval).await;
            }
        }
    }
}

/// So that an answer of another kind is logged as what it is.
pub(super) fn log_unexpected(room: &RoomId, answer: &Answer) {
    tracing::error!(%room, error = %unexpected(answer), "transport");
}
