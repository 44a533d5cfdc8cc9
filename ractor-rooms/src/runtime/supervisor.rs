//! The supervisor of a host's rooms: the ractor actor that runs the migration states.
//!
//! ```text
//!   RoomSupervisor ── one Slot per room ──┬─ Adopter (while it takes the room)
//!        │                                ├─ runner  (the room itself, a child actor)
//!        │ heartbeats, sweeps,            └─ Source  (while it gives the room up)
//!        ▼ reconciles
//!     the store
//! ```
//!
//! It never waits for the store: each action of a machine becomes a task that casts the answer back as
//! the machine's next event, under the token of the machine that asked. A late answer of a machine that
//! has ended finds another token and is dropped.

mod adopting;
mod beats;
mod draining;
mod giving;
mod message;
mod moving;
mod proving;
mod retaking;
mod session;
mod slot;
mod sweeping;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::{Semaphore, oneshot};

use super::core::HostCore;
use super::kinds::Kinds;
use super::runner_handle::RunnerEvent;
use crate::id::{Generation, RoomId};
use crate::protocol::SessionKeeper;
use crate::protocol::adopter::AdopterEvent;
use crate::protocol::record::{DeclineReason, Lease, ParkReason, Request};
use crate::protocol::session::HostState;
use crate::protocol::source::{SourceEvent, SourceState};
use crate::protocol::store::Unrest;

use beats::Beats;
use message::Inner;
pub use message::RoomSupervisorMessage;
pub(crate) use message::{Responder, RoomsHere};
use slot::Slot;

/// The supervisor's actor; all it has is in [`Supervisor`].
#[derive(Debug)]
pub(crate) struct RoomSupervisor;

/// What the supervisor starts from.
pub(crate) struct SupervisorArgs {
    pub(crate) core: Arc<HostCore>,
    pub(crate) kinds: Kinds,
    pub(crate) keeper: SessionKeeper,
    pub(crate) proved: Generation,
}

/// The supervisor's state.
pub(crate) struct Supervisor {
    core: Arc<HostCore>,
    kinds: Kinds,
    me: ActorRef<RoomSupervisorMessage>,
    /// In order, so that what is done to all of them is done in the same one in each run of a simulation.
    slots: BTreeMap<RoomId, Slot>,
    keeper: SessionKeeper,
    /// The generation in which all that runs here is proved.
    proved: Generation,
    /// Since when there is a newer one.
    proving: Option<Duration>,
    started: Duration,
    state: HostState,
    restores: Arc<Semaphore>,
    next_activation: u64,
    next_token: u64,
    heartbeat: Option<Duration>,
    /// Heartbeats that are not answered yet, and what they say.
    beats: Beats,
    /// How many rooms the last one told of.
    said_load: u32,
    /// When a heartbeat was answered last.
    heard: Duration,
    reconcile_at: Option<Duration>,
    sweeping: bool,
    /// What a sweep found for this host and could not start yet.
    found: VecDeque<Unrest>,
    /// Rooms that could not be restored here since the sweep began that found those, and when: it did not know of that,
    /// and would have them asked for here again and not of the next host.
    failed: BTreeMap<RoomId, Duration>,
    /// A sweep that left rooms goes on soon.
    sweeping_on: bool,
    reopening: bool,
    shutdown: Option<oneshot::Sender<()>>,
}

#[cfg_attr(feature = "async-trait", ractor::async_trait)]
impl Actor for RoomSupervisor {
    type Msg = RoomSupervisorMessage;
    type State = Supervisor;
    type Arguments = SupervisorArgs;

    async fn pre_start(
        &self,
        me: ActorRef<Self::Msg>,
        args: SupervisorArgs,
    ) -> Result<Supervisor, ActorProcessingErr> {
        let SupervisorArgs { core, kinds, keeper, proved } = args;
        let restores = Arc::new(Semaphore::new(core.config.max_restores.max(1)));
        let heard = core.clock.mark();
        let settle_time = core.config.settle_time;
        let supervisor = Supervisor {
            core,
            kinds,
            me,
            slots: BTreeMap::new(),
            keeper,
            proved,
            // One may have begun before anybody listened.
            proving: Some(Duration::ZERO),
            started: heard,
            state: first_state(settle_time),
            restores,
            next_activation: 0,
            next_token: 0,
            heartbeat: None,
            beats: Beats::default(),
            said_load: 0,
            heard,
            reconcile_at: None,
            sweeping: false,
            found: VecDeque::new(),
            failed: BTreeMap::new(),
            sweeping_on: false,
            reopening: false,
            shutdown: None,
        };
        supervisor.tick_later();
        Ok(supervisor)
    }

    // Never an error: a supervisor that fails takes its rooms with it.
    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: RoomSupervisorMessage,
        state: &mut Supervisor,
    ) -> Result<(), ActorProcessingErr> {
        state.take(message.0);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        state: &mut Supervisor,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(cell, error) = event {
            let id = cell.get_id();
            let room = state
                .slots
                .iter()
                .find(|(_, slot)| slot.runner.as_ref().is_some_and(|r| r.id() == id))
                .map(|(room, _)| room.clone());
            if let Some(room) = room {
                state.runner_failed(&room, error.to_string());
            }
        }
        Ok(())
    }
}

/// The state in which a host starts.
pub(crate) fn first_state(settle_time: Duration) -> HostState {
    if settle_time.is_zero() { HostState::Ready } else { HostState::Joining }
}

impl Supervisor {
    fn take(&mut self, message: Inner) {
        match message {
            Inner::Tick => self.tick(),
            Inner::Migrate { request, responder } => self.migrate(request, responder),
            Inner::MoveChecked { room, to, checked, responder } => {
                self.move_checked(&room, to, checked, responder);
            }
            Inner::Offered { room, notice } => self.offered(room, notice.map(|n| *n)),
            Inner::OfferSeen { room, view } => self.offer_seen(room, *view),
            Inner::Moved { room, settled } => self.look_at_moved(room, settled),
            Inner::Adopter { room, token, event } => self.adopter_event(&room, token, *event),
            Inner::Spawned { room, token, runner } => self.spawned(&room, token, runner),
            Inner::ReacquireFrom { room, token, view } => {
                self.reacquire_from(&room, token, view.map(|v| *v));
            }
            Inner::Source { room, token, event, watched } => {
                self.source_event(&room, token, *event, watched);
            }
            Inner::Runner { room, lease, event } => self.runner_event(&room, &lease, event),
            Inner::HeartbeatAnswered { sent_at, renewed } => {
                self.heartbeat_answered(sent_at, renewed);
            }
            Inner::Generation => self.generation_began(),
            Inner::Forgotten { room, lease } => self.lease_forgotten(&room, &lease),
            Inner::Searched { room, lease, view } => self.searched(&room, &lease, view.as_deref()),
            Inner::Taken { room, lease, view } => self.taken(room, &lease, view.as_deref()),
            Inner::Reasserted { room, token, answer } => self.reasserted(&room, token, answer),
            Inner::Retaken { room, token, by, taken } => {
                self.retaken(&room, token, &by, taken);
            }
            Inner::Listening => self.listening(),
            Inner::HeartbeatFailed { sent_at } => self.heartbeat_failed(sent_at),
            Inner::Reopened { incarnation, sent_at } => self.reopened(incarnation, sent_at),
            Inner::OwnedRead { owned, held } => self.reconcile(owned, held),
            Inner::UnrestRead { found, more, at } => self.sweep(found, more, at),
            Inner::SweepOn => self.sweep_on(),
            Inner::SetState { state } => {
                self.state = state;
                self.heartbeat_now();
            }
            Inner::Close { room, reason, forced, reply } => {
                self.close(&room, reason, forced, reply);
            }
            Inner::Rooms { reply } => {
                let live = self.slots.iter().filter(|(_, s)| s.is_live());
                let _ = reply.send(live.map(|(room, _)| room.clone()).collect()); // nobody waits
            }
            Inner::Unload { room, reply } => {
                let _ = reply.send(self.unload(&room)); // nobody waits any more
            }
            Inner::Here { reply } => {
                let _ = reply.send(self.here()); // nobody waits
            }
            Inner::Leave { room, to, reply } => self.leave(&room, to, reply),
            Inner::Kill { room, reply } => {
                let _ = reply.send(self.kill(&room)); // nobody waits
            }
            Inner::Shutdown { reply } => self.shut_down(reply),
        }
    }

    fn runner_event(&mut self, room: &RoomId, lease: &Lease, event: RunnerEvent) {
        let Some(slot) = self.slots.get_mut(room) else { return };
        // A runner of an earlier acquisition has nothing to say any more.
        if slot.lease.as_ref() != Some(lease) {
            return;
        }
        let (adopting, giving) = (slot.adopter.is_some(), slot.giving.as_ref().map(|g| g.token));
        match event {
            RunnerEvent::CaughtUp => self.adopter_now(room, AdopterEvent::CaughtUp),
            RunnerEvent::Failed { error } if adopting => {
                let why = DeclineReason::RestoreFailed { error };
                self.adopter_now(room, AdopterEvent::RestoreFailed(why));
            }
            RunnerEvent::Failed { error } => self.runner_failed(room, error),
            RunnerEvent::Froze { generation, frozen } => {
                if giving == Some(generation) {
                    self.froze(room, *frozen);
                }
            }
            RunnerEvent::NotFrozen { generation, why } => {
                if giving == Some(generation) {
                    self.source_now(room, SourceEvent::FreezeFailed(why));
                }
            }
            RunnerEvent::Fenced if adopting => self.adopter_now(room, AdopterEvent::Fenced),
            RunnerEvent::Fenced if giving.is_some() => {
                // Before its park was sent, nobody had the room from here.
                let pending = slot
                    .giving
                    .as_ref()
                    .is_some_and(|g| *g.machine.state() == SourceState::Pending);
                self.source_now(room, SourceEvent::Lost);
                if pending {
                    self.look_at_taken(room, lease);
                }
            }
            RunnerEvent::Fenced => {
                // It went on without a session.
                if let Some(runner) = &slot.runner
                    && lease.owner.by != self.core.incarnation()
                {
                    runner.diverge();
                    slot.runner = None;
                }
                self.drop_room(room);
                self.look_at_taken(room, lease);
            }
            RunnerEvent::Closed => {
                if let Some(slot) = self.slots.remove(room) {
                    self.core.runners.remove(room);
                    self.core.remember(room);
                    if let Some(runner) = slot.runner {
                        runner.finish();
                    }
                }
                self.maybe_shut_down();
            }
        }
    }

    /// A runner that cannot go on: the room is given back as its last checkpoint has it.
    fn runner_failed(&mut self, room: &RoomId, error: String) {
        let Some(slot) = self.slots.get(room) else { return };
        if slot.adopter.is_some() {
            let why = DeclineReason::RestoreFailed { error };
            return self.adopter_now(room, AdopterEvent::RestoreFailed(why));
        }
        let lease = slot.lease.clone();
        if slot.giving.is_some() {
            self.source_now(room, SourceEvent::Lost);
        }
        self.drop_room(room);
        let why = error.clone();
        self.core.report(super::core::RoomFault::StartFailed { room: room.clone(), why });
        if let Some(lease) = lease {
            self.give_back(room, lease, Some(DeclineReason::RestoreFailed { error }));
        }
    }

    /// Parks a room that does not run here, with pointer and cursor as they are.
    fn give_back(&self, room: &RoomId, lease: Lease, failed: Option<DeclineReason>) {
        let (core, room) = (self.core.clone(), room.clone());
        self.core.spawn(async move {
            let why = ParkReason::GivenBack;
            let request = Request::Park { lease, snapshot: None, offer: None, why, failed };
            if let Err(error) = core.execute(&room, request).await {
                tracing::debug!(%room, %error, "give back"); // the next reconcile does
            }
        });
    }

    /// Forgets a room that is not this host's any more, and looks at it again if it was offered anew.
    fn forget(&mut self, room: &RoomId) {
        let Some(mut slot) = self.slots.remove(room) else { return };
        self.core.remember(room);
        let (moves, offered) = (std::mem::take(&mut slot.moves), slot.offered);
        if slot.runner.is_some() {
            self.core.runners.remove(room);
        }
        slot.discard();
        self.refuse_moves(room, moves);
        if offered {
            self.look_at(room.clone());
        }
        self.maybe_shut_down();
    }

    /// Forgets a room and stops what runs of it, without a snapshot.
    fn drop_room(&mut self, room: &RoomId) {
        if let Some(slot) = self.slots.remove(room) {
            slot.discard();
            self.core.runners.remove(room);
            self.core.remember(room);
        }
    }

    fn tick_later(&self) {
        let (me, after) = (self.me.clone(), self.core.config.sweep_interval);
        self.core.spawn(async move {
            tokio::time::sleep(after).await;
            let _ = me.cast(Inner::Tick.into()); // the host is stopping
        });
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }
}

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervisor").field("rooms", &self.slots.len()).finish_non_exhaustive()
    }
}
