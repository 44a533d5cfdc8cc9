//! A host: a process, or a part of one, that runs rooms.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ractor::{Actor, ActorRef};
use tokio::sync::oneshot;

use super::config::HostConfig;
use super::core::{ErrorHook, HostCore, RoomFault};
use super::error::{CloseErr, HostErr, MigrationErr};
use super::kinds::{Kinds, RoomKind, TypedKind};
use super::migrate::MigrateTo;
use super::report::MigrationReport;
use super::room_actor::RoomActor;
use super::room_ref::RoomRef;
use super::supervisor::{
    Responder, RoomSupervisor, RoomSupervisorMessage, SupervisorArgs, first_state,
};
use crate::clock::Clock;
use crate::id::{HostId, IdErr, Incarnation, Kind, Millis, RoomId, RoomKey};
use crate::protocol::SessionKeeper;
use crate::protocol::record::{Answer, DeadLetter, Request};
use crate::protocol::session::{HostState, OpenAnswer, SessionSpec};
use crate::transport::{Transport, TransportErr};

/// A host of rooms. Cheap to clone; clones are the same host.
///
/// A host that is dropped goes on. [`RoomHost::shutdown`] ends it.
#[derive(Clone)]
pub struct RoomHost {
    pub(super) core: Arc<HostCore>,
    pub(super) supervisor: ActorRef<RoomSupervisorMessage>,
}

/// Configures a host before it starts.
pub struct RoomHostBuilder {
    id: String,
    transport: Arc<dyn Transport>,
    config: HostConfig,
    clock: Clock,
    kinds: BTreeMap<String, Arc<dyn RoomKind>>,
    duplicate: Option<String>,
    error_hook: Option<ErrorHook>,
}

impl RoomHostBuilder {
    /// Runs rooms of a kind whose first start needs nothing.
    #[must_use]
    pub fn room<R: RoomActor>(self, actor: R) -> Self
    where
        R::Arguments: Default,
    {
        self.room_with(actor, |_| R::Arguments::default())
    }

    /// Runs rooms of a kind; `args` makes what a room's first start needs, from its key.
    #[must_use]
    pub fn room_with<R: RoomActor>(
        mut self,
        actor: R,
        args: impl Fn(&RoomKey) -> R::Arguments + Send + Sync + 'static,
    ) -> Self {
        let kind = TypedKind { actor: Arc::new(actor), args: Arc::new(args) };
        if self.kinds.insert(R::KIND.to_owned(), Arc::new(kind)).is_some() {
            self.duplicate = Some(R::KIND.to_owned());
        }
        self
    }

    /// Replaces all limits and deadlines.
    #[must_use]
    pub fn config(mut self, config: HostConfig) -> Self {
        self.config = config;
        self
    }

    /// Changes some limits and deadlines.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut HostConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Sets the largest state, in bytes.
    #[must_use]
    pub fn max_snapshot_bytes(self, bytes: usize) -> Self {
        self.configure(|c| c.max_snapshot_bytes = bytes)
    }

    /// Sets how many rooms the host may run; 0 for a host of senders and members only.
    #[must_use]
    pub fn capacity(self, rooms: u32) -> Self {
        self.configure(|c| c.capacity = rooms)
    }

    /// Sets who hears of what has no caller.
    #[must_use]
    pub fn on_fault(mut self, hook: impl Fn(&RoomFault) + Send + Sync + 'static) -> Self {
        self.error_hook = Some(Arc::new(hook));
        self
    }

    /// Sets the clock, for tests and simulations.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Opens the host's session, starts its supervisor and listens for what the store pushes. Waits for an
    /// older session under the same id to end, for as long as nobody renews it.
    ///
    /// # Errors
    /// [`HostErr`] when a name is none, a kind is registered twice, the id is taken, or the store does
    /// not answer.
    pub async fn start(self) -> Result<RoomHost, HostErr> {
        let id = HostId::new(self.id)?;
        if let Some(kind) = self.duplicate {
            return Err(HostErr::DuplicateKind { kind });
        }
        let kinds: Kinds = self
            .kinds
            .into_iter()
            .map(|(name, kind)| Ok((Kind::new(name)?, kind)))
            .collect::<Result<_, IdErr>>()?;
        let spec = SessionSpec {
            state: first_state(self.config.settle_time),
            load: 0,
            capacity: self.config.capacity,
            weight: self.config.weight,
            kinds: kinds.iter().map(|(name, kind)| (name.clone(), kind.reads())).collect(),
            // It runs nothing.
            proved: self.transport.newest_generation(),
            holds: None,
        };
        let proved = spec.proved;
        let (incarnation, sent_at) =
            open_session(&*self.transport, &self.config, &self.clock, &id, spec).await?;
        let core = HostCore::new(
            id,
            incarnation,
            self.transport,
            self.config,
            self.clock,
            self.error_hook,
        );
        let keeper =
            SessionKeeper::opened(Millis::of(core.config.session_ttl).0, Millis::of(sent_at).0);
        let args = SupervisorArgs { core: core.clone(), kinds, keeper, proved };
        let (supervisor, _) = RoomSupervisor::spawn(None, RoomSupervisor, args)
            .await
            .map_err(|e| HostErr::Spawn(e.to_string()))?;
        if core.supervisor.set(supervisor.clone()).is_err() {
            return Err(HostErr::Spawn("the host has a supervisor already".to_owned()));
        }
        core.follow_generations(proved);
        // Who is told of a host may offer it a room at once. A store that does not answer now will later.
        let _ = core.listen().await;
        Ok(RoomHost { core, supervisor })
    }
}

/// How far apart two looks may see the end of a session that nobody renewed: a store that adds what is left
/// to its clock rounds twice. A renewal moves it by far more, at the latest after a few of them.
const ROUNDING: Duration = Duration::from_millis(50);

/// Opens a session, waiting for an older one that nobody renews.
async fn open_session(
    transport: &dyn Transport,
    config: &HostConfig,
    clock: &Clock,
    id: &HostId,
    spec: SessionSpec,
) -> Result<(Incarnation, Duration), HostErr> {
    let mut first = None;
    loop {
        let sent_at = clock.mark();
        let open = transport.open_session(id, config.session_ttl, spec.clone());
        let waited = config.store_timeout;
        let answer = tokio::time::timeout(waited, open)
            .await
            .unwrap_or(Err(TransportErr::Unanswered { waited }))?;
        match answer {
            OpenAnswer::Opened(incarnation) => return Ok((incarnation, sent_at)),
            OpenAnswer::Taken { until } => {
                if until > first.get_or_insert(until).after(ROUNDING) {
                    return Err(HostErr::SessionTaken { host: id.clone() });
                }
            }
        }
        tokio::time::sleep(config.retry_interval).await;
    }
}

impl RoomHost {
    /// Configures a host with a stable name, 1 to 128 bytes, over a transport.
    pub fn builder(id: impl Into<String>, transport: impl Transport) -> RoomHostBuilder {
        RoomHostBuilder {
            id: id.into(),
            transport: Arc::new(transport),
            config: HostConfig::default(),
            clock: Clock::system(),
            kinds: BTreeMap::new(),
            duplicate: None,
            error_hook: None,
        }
    }

    /// The host's name.
    pub fn id(&self) -> &HostId {
        &self.core.id
    }

    /// A handle to a room, wherever it runs. The room starts with the first message. A key that is none
    /// (empty, or over 512 bytes) is reported by the first use of the handle.
    pub fn room<R: RoomActor>(&self, key: impl Into<Bytes>) -> RoomRef<R> {
        RoomRef::new(&self.core, RoomId::new(R::KIND, key))
    }

    /// The supervisor, which takes [`MigrateTo`].
    pub fn supervisor(&self) -> &ActorRef<RoomSupervisorMessage> {
        &self.supervisor
    }

    /// Moves a room and waits until it runs on the target. May be asked of any host: it is handed to the
    /// one that runs the room.
    ///
    /// # Errors
    /// [`MigrationErr`]; the room then goes on where it was, unless the error says otherwise.
    ///
    /// # Cancel safety
    /// A dropped future does not stop the move.
    pub async fn migrate(&self, request: MigrateTo) -> Result<MigrationReport, MigrationErr> {
        let (reply, report) = oneshot::channel();
        let message = RoomSupervisorMessage::migrate(request, Responder::Here(reply));
        self.supervisor.cast(message).map_err(|_| MigrationErr::HostStopped)?;
        report.await.unwrap_or(Err(MigrationErr::HostStopped))
    }

    /// Unloads a room that runs here: it rests in the store and wakes with the next message or timer.
    /// Whether it ran here and was not moving.
    ///
    /// # Errors
    /// [`HostErr::Stopped`].
    pub async fn unload<R: RoomActor>(&self, key: impl Into<Bytes>) -> Result<bool, HostErr> {
        let room = RoomId::new(R::KIND, key)?;
        let (reply, unloaded) = oneshot::channel();
        let message = RoomSupervisorMessage::unload(room, reply);
        self.supervisor.cast(message).map_err(|_| HostErr::Stopped)?;
        unloaded.await.map_err(|_| HostErr::Stopped)
    }

    /// Ends a room that runs here. Unless it is `forced`, it is refused while messages are unhandled; if
    /// it is, they become dead letters, whose number is returned, and their callers are told.
    ///
    /// # Errors
    /// [`CloseErr`]; the room then goes on.
    pub async fn close<R: RoomActor>(
        &self,
        key: impl Into<Bytes>,
        reason: impl Into<String>,
        forced: bool,
    ) -> Result<u32, CloseErr> {
        let room = match RoomId::new(R::KIND, key) {
            Ok(room) => room,
            Err(error) => return Err(CloseErr::Store { error: error.to_string() }),
        };
        let (reply, closed) = oneshot::channel();
        let message = RoomSupervisorMessage::close(room, reason.into(), forced, reply);
        self.supervisor.cast(message).map_err(|_| CloseErr::HostStopped)?;
        closed.await.unwrap_or(Err(CloseErr::HostStopped))
    }

    /// The messages of a room that were given up, oldest first.
    ///
    /// # Errors
    /// [`HostErr`] when the store does not answer or the key is none.
    pub async fn dead_letters<R: RoomActor>(
        &self,
        key: impl Into<Bytes>,
    ) -> Result<Vec<DeadLetter>, HostErr> {
        let room = RoomId::new(R::KIND, key)?;
        match self.core.execute(&room, Request::ReadDeadLetters).await? {
            Answer::DeadLetters(letters) => Ok(letters),
            other => Err(HostErr::Store(super::core::unexpected(&other))),
        }
    }

    /// The rooms that run here and are not moving.
    ///
    /// # Errors
    /// [`HostErr::Stopped`].
    pub async fn rooms(&self) -> Result<Vec<RoomId>, HostErr> {
        let (reply, rooms) = oneshot::channel();
        let message = RoomSupervisorMessage::rooms(reply);
        self.supervisor.cast(message).map_err(|_| HostErr::Stopped)?;
        rooms.await.map_err(|_| HostErr::Stopped)
    }

    /// Whether the store answered the host's last heartbeat and the host is not about to stop: what a
    /// readiness probe should say. A host that is not ready is alive, and does not want to be restarted: it
    /// keeps its rooms until the store answers.
    pub fn is_ready(&self) -> bool {
        self.core.is_ready()
    }

    /// Takes no more rooms, and keeps those it has.
    ///
    /// # Errors
    /// [`HostErr::Stopped`].
    pub fn cordon(&self) -> Result<(), HostErr> {
        self.set_state(HostState::Cordoned)
    }

    /// Takes rooms again.
    ///
    /// # Errors
    /// [`HostErr::Stopped`].
    pub fn uncordon(&self) -> Result<(), HostErr> {
        self.set_state(HostState::Ready)
    }

    fn set_state(&self, state: HostState) -> Result<(), HostErr> {
        let message = RoomSupervisorMessage::set_state(state);
        self.supervisor.cast(message).map_err(|_| HostErr::Stopped)
    }

    /// Unloads every room, delivers what is on its way, and ends the session. A room whose handler does
    /// not return within `freeze_timeout` is left as its last checkpoint has it.
    ///
    /// # Errors
    /// [`HostErr::Stopped`] when it was stopped before.
    pub async fn shutdown(&self) -> Result<(), HostErr> {
        if self.core.is_stopped() {
            return Err(HostErr::Stopped);
        }
        let (reply, unloaded) = oneshot::channel();
        let message = RoomSupervisorMessage::shutdown(reply);
        self.supervisor.cast(message).map_err(|_| HostErr::Stopped)?;
        let config = &self.core.config;
        let patience = config.freeze_timeout + config.store_timeout * 4;
        let _ = tokio::time::timeout(patience, unloaded).await; // what is left is recovered elsewhere
        let start = self.core.clock.mark();
        while self.core.errands() > 0 && self.core.clock.elapsed_since(start) < config.send_timeout
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.core.leave();
        let by = self.core.incarnation();
        let closed = self.core.deadline(self.core.transport.close_session(&by)).await;
        self.core.stop();
        self.supervisor.stop(None);
        Ok(closed?)
    }

    /// Stops at once, as if the process had died: nothing is saved and the session is left to lapse.
    /// For tests of what the others then do.
    #[cfg(feature = "testing")]
    pub fn kill(&self) {
        for runner in &self.core.runners {
            runner.discard();
        }
        self.core.stop();
        self.supervisor.kill();
    }
}

impl std::fmt::Debug for RoomHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoomHost").field("id", &self.core.id).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RoomHostBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoomHostBuilder").field("id", &self.id).finish_non_exhaustive()
    }
}
