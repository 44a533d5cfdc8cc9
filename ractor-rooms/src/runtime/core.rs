//! What all parts of a host share: its store, its clock, its tables and its tasks.

#[cfg(test)]
mod ways_test;

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dashmap::DashMap;
use parking_lot::{Mutex, RwLock};
use ractor::ActorRef;
use tokio::sync::{OnceCell, watch};

use super::calls::CallTable;
use super::config::HostConfig;
use super::courier::Courier;
use super::courier::rests::Rests;
use super::events::Watches;
use super::letters::Letters;
use super::parked::Parked;
use super::reply::{Outcome, ReplyAddr, ReplySink};
use super::runner_handle::Runner;
use super::scope::Scope;
use super::supervisor::RoomSupervisorMessage;
use super::wire::{LetterBody, Payload, encode_letter, encode_payload};
use crate::clock::Clock;
use crate::id::{Epoch, HostId, Incarnation, Kind, Millis, Producer, RoomId};
use crate::protocol::placement::{Candidate, place_within_bound};
use crate::protocol::record::{
    Answer, CloseAnswer, Lease, OfferAnswer, OwnerAnswer, RecordView, Request, SnapshotKey,
};
use crate::protocol::session::{HostState, SessionInfo, holder};
use crate::transport::{Transport, TransportErr};

/// Told of what has no caller: a cast that failed, a room that was lost.
pub(crate) type ErrorHook = Arc<dyn Fn(&RoomFault) + Send + Sync>;

/// Something that went wrong and that no caller waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RoomFault {
    /// A message that was `cast` was not accepted.
    Undelivered {
        /// The room it was for.
        room: RoomId,
        /// Why.
        why: String,
    },
    /// The store lost messages that it had accepted from this host.
    Lost {
        /// The room they were for.
        room: RoomId,
        /// How many.
        count: u64,
    },
    /// A handler failed and its room went back to a checkpoint.
    HandlerFailed {
        /// The room.
        room: RoomId,
        /// The error or the panic's text.
        error: String,
    },
    /// A message was given up and is a dead letter now. Reported more than once if the room was lost meanwhile.
    DeadLetter {
        /// The room.
        room: RoomId,
        /// The last error.
        error: String,
    },
    /// A room that this host ran was taken from it, also while it was giving the room up.
    Fenced {
        /// The room.
        room: RoomId,
    },
    /// The host's session ended. What it ran is held, and taken back once there is another, if no other host
    /// has had it: see [`OnStoreLoss`](crate::OnStoreLoss).
    SessionLapsed {
        /// The host.
        host: HostId,
        /// How many rooms it had.
        rooms: usize,
    },
    /// A room that runs here could not be saved: a crash would go back further. It is tried again.
    CheckpointFailed {
        /// The room.
        room: RoomId,
        /// Why.
        error: String,
    },
    /// The store has lost the state in which this host had put a room to rest, and nobody else has it: the room goes on
    /// from an older one, or anew.
    StateLost {
        /// The room.
        room: RoomId,
    },
    /// The store had lost what this host knew of a room, and has it again. The host that runs the room says so, and
    /// each that sent to it and brought messages back.
    StoreRegressed {
        /// The room.
        room: RoomId,
    },
    /// The store had lost data, and somebody else has the room as well: this host dropped what it had of
    /// it.
    Diverged {
        /// The room.
        room: RoomId,
    },
    /// A room could not be started here.
    StartFailed {
        /// The room.
        room: RoomId,
        /// Why.
        why: String,
    },
}

/// Bytes of a snapshot that go to the store or come from it in a second, at least. A link that is slower
/// serves small rooms only.
const SLOWEST_LINK: f64 = (1 << 20) as f64;

/// Why no host was found for a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FindErr {
    UnknownKind,
    NoneReady,
    Store(TransportErr),
}

pub(crate) struct HostCore {
    pub(crate) id: HostId,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) config: HostConfig,
    pub(crate) clock: Clock,
    pub(crate) calls: Arc<CallTable>,
    pub(crate) runners: DashMap<RoomId, Arc<dyn Runner>>,
    pub(crate) watches: Watches,
    pub(crate) supervisor: OnceCell<ActorRef<RoomSupervisorMessage>>,
    /// The place of the last letter that was read.
    pub(crate) inbox: Mutex<u64>,
    /// Letters that were sent lately.
    pub(crate) letters: Letters,
    /// Bytes that all ways hold in case the store forgets them.
    pub(crate) windows: Arc<AtomicUsize>,
    incarnation: RwLock<Incarnation>,
    /// The number of the first incarnation of this process: calls of an earlier one waited in another.
    born: u64,
    couriers: DashMap<RoomId, Arc<Courier>>,
    /// Where the numbers of ways stand that were forgotten.
    rests: Mutex<Rests>,
    /// Rooms that rest since this host parked them.
    pub(crate) parked: Mutex<Parked>,
    /// Rooms that this host is about to have placed.
    finding: DashMap<RoomId, ()>,
    routes: DashMap<RoomId, Arc<dyn Any + Send + Sync>>,
    sessions: RwLock<SessionCache>,
    /// One look at the sessions at a time serves all that ask.
    looking: tokio::sync::Mutex<()>,
    /// By the host's clock, in milliseconds: until then sessions that the store has forgotten may be missing
    /// from it.
    doubt_until: AtomicU64,
    /// Until when the host of a dead owner is awaited.
    holders_until: AtomicU64,
    /// Rooms whose records are older than the leases that were given of them, each with the lease's epoch.
    forgotten: DashMap<RoomId, Epoch>,
    error_hook: Option<ErrorHook>,
    stop: watch::Sender<bool>,
    leaving: AtomicBool,
    /// Whether a drain is under way.
    pub(crate) draining: AtomicBool,
    /// Whether the store answered the last heartbeat.
    ready: AtomicBool,
    stopped: AtomicBool,
    /// Tasks that must end before a graceful stop, such as answers on their way.
    errands: Arc<AtomicU64>,
}

#[derive(Default)]
struct SessionCache {
    list: Arc<Vec<SessionInfo>>,
    read_at: Option<Duration>,
}

impl HostCore {
    pub(crate) fn new(
        id: HostId,
        incarnation: Incarnation,
        transport: Arc<dyn Transport>,
        config: HostConfig,
        clock: Clock,
        error_hook: Option<ErrorHook>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            transport,
            config,
            clock,
            calls: Arc::default(),
            runners: DashMap::new(),
            watches: Watches::default(),
            supervisor: OnceCell::new(),
            inbox: Mutex::new(0),
            letters: Letters::default(),
            windows: Arc::default(),
            born: incarnation.number,
            incarnation: RwLock::new(incarnation),
            couriers: DashMap::new(),
            rests: Mutex::default(),
            parked: Mutex::default(),
            finding: DashMap::new(),
            routes: DashMap::new(),
            sessions: RwLock::default(),
            looking: tokio::sync::Mutex::default(),
            doubt_until: AtomicU64::new(0),
            holders_until: AtomicU64::new(0),
            forgotten: DashMap::new(),
            error_hook,
            stop: watch::Sender::new(false),
            leaving: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            ready: AtomicBool::new(true),
            stopped: AtomicBool::new(false),
            errands: Arc::default(),
        })
    }

    pub(crate) fn incarnation(&self) -> Incarnation {
        self.incarnation.read().clone()
    }

    pub(crate) fn set_incarnation(&self, incarnation: Incarnation) {
        *self.incarnation.write() = incarnation;
    }

    /// From here on the end of the session is meant, and no reason to open another.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }

    pub(crate) fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed) && !self.is_leaving() && !self.is_stopped()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Ends every task of the host at its next await, and lets go of what it holds.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.stop.send_replace(true);
        // In order: who waits is woken by it, and a simulation replays the order.
        for courier in self.couriers_in_order() {
            courier.stop();
        }
        for call in self.calls.pending() {
            self.calls.complete(call, Outcome::Unknown);
        }
        self.couriers.clear();
        self.routes.clear();
        self.runners.clear();
        self.watches.clear();
    }

    /// Runs a task until it ends or the host stops.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut stop = self.stop.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => {}
                () = task => {}
            }
        });
    }

    /// Runs a task that a graceful stop waits for.
    pub(crate) fn errand(&self, task: impl Future<Output = ()> + Send + 'static) {
        struct Done(Arc<AtomicU64>);
        impl Drop for Done {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.errands.fetch_add(1, Ordering::SeqCst);
        let done = Done(self.errands.clone());
        self.spawn(async move {
            let _done = done;
            task.await;
        });
    }

    /// How many errands are under way.
    pub(crate) fn errands(&self) -> u64 {
        self.errands.load(Ordering::SeqCst)
    }

    pub(crate) fn report(&self, fault: RoomFault) {
        tracing::warn!(host = %self.id, ?fault, "room fault");
        if let Some(hook) = &self.error_hook {
            hook(&fault);
        }
    }

    /// Carries a request out, with a deadline. What comes under a lease of another generation, or one that the
    /// record has forgotten, was not carried out, and the supervisor sees to the lease.
    pub(crate) async fn execute(
        &self,
        room: &RoomId,
        request: Request,
    ) -> Result<Answer, TransportErr> {
        let lease = request.lease().cloned();
        let call = self.transport.execute(room, request, Epoch(0));
        let answer = self.deadline(call).await.and_then(in_generation)?;
        self.remembered(room, lease.as_ref(), answer)
    }

    /// Whether a lease proves nothing: it is of another generation of the store, or the record has forgotten it.
    pub(crate) fn is_stale(&self, room: &RoomId, lease: &Lease) -> bool {
        self.transport.generation(room) != lease.generation
            || (!self.forgotten.is_empty()
                && self.forgotten.get(room).is_some_and(|epoch| *epoch == lease.epoch))
    }

    /// What is refused by a record that is older than the lease has changed nothing.
    fn remembered(
        &self,
        room: &RoomId,
        lease: Option<&Lease>,
        answer: Answer,
    ) -> Result<Answer, TransportErr> {
        let found = match &answer {
            Answer::Owner(OwnerAnswer::Fenced { epoch })
            | Answer::Close(CloseAnswer::Fenced { epoch })
            | Answer::Page(Err(epoch)) => *epoch,
            _ => return Ok(answer),
        };
        match lease {
            Some(lease) if lease.is_ahead_of(found) => {
                self.forget_lease(room, lease);
                let held = lease.epoch;
                let reason = format!(
                    "the record of {room} is in epoch {found} (0 is none), and the lease in {held}"
                );
                Err(TransportErr::Unavailable { reason })
            }
            Some(_) | None => Ok(answer),
        }
    }

    /// The store has lost what a lease stands on, of this room alone: the supervisor has it re-asserted.
    pub(crate) fn forget_lease(&self, room: &RoomId, lease: &Lease) {
        if self.forgotten.insert(room.clone(), lease.epoch) != Some(lease.epoch)
            && let Some(supervisor) = self.supervisor.get()
        {
            let message = RoomSupervisorMessage::forgotten(room.clone(), lease.clone());
            let _ = supervisor.cast(message); // the host is stopping
        }
    }

    /// The room is held under another lease, or not at all.
    pub(crate) fn remember(&self, room: &RoomId) {
        self.forgotten.remove(room);
    }

    /// Carries a request out that points to a snapshot which comes along, with a deadline.
    pub(crate) async fn execute_with(
        &self,
        room: &RoomId,
        request: Request,
        snapshot: (SnapshotKey, Bytes),
    ) -> Result<Answer, TransportErr> {
        let lease = request.lease().cloned();
        let call = self.transport.execute_with(room, request, Epoch(0), snapshot);
        let answer = self.deadline(call).await.and_then(in_generation)?;
        self.remembered(room, lease.as_ref(), answer)
    }

    /// Waits for the store no longer than it may take.
    pub(crate) async fn deadline<T>(
        &self,
        call: impl Future<Output = Result<T, TransportErr>>,
    ) -> Result<T, TransportErr> {
        within(self.config.store_timeout, call).await
    }

    pub(crate) async fn view(
        &self,
        room: &RoomId,
    ) -> Result<Option<Box<RecordView>>, TransportErr> {
        match self.execute(room, Request::Read).await? {
            Answer::View(view) => Ok(view),
            other => Err(unexpected(&other)),
        }
    }

    /// Fetches the bytes of a snapshot.
    pub(crate) async fn snapshot(
        &self,
        room: &RoomId,
        key: &SnapshotKey,
    ) -> Result<Option<Bytes>, TransportErr> {
        let waited = self.bulk_timeout(self.config.max_snapshot_bytes);
        within(waited, self.transport.get_snapshot(room, key)).await
    }

    /// Puts the bytes of a snapshot into the store.
    pub(crate) async fn put_snapshot(
        &self,
        room: &RoomId,
        key: SnapshotKey,
        bytes: Bytes,
    ) -> Result<(), TransportErr> {
        let waited = self.bulk_timeout(bytes.len());
        within(waited, self.transport.put_snapshot(room, key, bytes)).await
    }

    /// How long the store may take for so many bytes.
    fn bulk_timeout(&self, bytes: usize) -> Duration {
        let transfer = Duration::from_secs_f64(bytes as f64 / SLOWEST_LINK);
        self.config.store_timeout.saturating_add(transfer)
    }

    /// The scope in which this host writes and reads messages.
    pub(crate) fn scope(self: &Arc<Self>) -> Scope {
        Scope {
            calls: self.calls.clone(),
            incarnation: self.incarnation(),
            sink: Arc::new(HostSink(self.clone())),
        }
    }

    /// This host's queue of messages to a room.
    pub(crate) fn courier(self: &Arc<Self>, room: &RoomId) -> Arc<Courier> {
        if let Some(courier) = self.couriers.get(room) {
            return courier.clone();
        }
        self.couriers
            .entry(room.clone())
            .or_insert_with(|| match self.rests.lock().take(room) {
                Some(rest) => Courier::resting(self, room.clone(), rest),
                None => {
                    let producer = Producer::Host(self.incarnation());
                    Courier::of_host(self.clone(), room.clone(), producer)
                }
            })
            .clone()
    }

    /// The typed route to a room, made once per host.
    pub(crate) fn route<T: Any + Send + Sync>(
        &self,
        room: &RoomId,
        make: impl FnOnce() -> Arc<T>,
    ) -> Option<Arc<T>> {
        if let Some(route) = self.routes.get(room) {
            return route.clone().downcast().ok();
        }
        let entry = self.routes.entry(room.clone()).or_insert_with(|| make());
        entry.clone().downcast().ok()
    }

    /// Forgets the ways to rooms that no handle and no runner here uses and on which nothing is.
    ///
    /// What was sent on such a way is in the log, and where its numbers stand is kept for the next one, so that
    /// what the store loses of it is noticed. A way of which that is not known any more learns from the store which
    /// numbers are taken, and a room that comes here later reads its log to the end before its gate opens; the runner
    /// of one that is here holds its way.
    pub(crate) fn forget_unused_ways(&self) {
        // Whoever takes one out of a table does so under its lock, and so does this.
        self.routes.retain(|_, route| Arc::strong_count(route) > 1);
        let old = self.clock.mark().checked_sub(self.config.session_ttl.saturating_mul(2));
        self.couriers.retain(|room, courier| {
            if let Some(old) = old {
                courier.let_go(old);
            }
            if Arc::strong_count(courier) > 1 || courier.is_busy() || courier.holds() {
                return true;
            }
            if let Some(rest) = courier.rest() {
                self.rests.lock().keep(room.clone(), rest);
            }
            false
        });
        self.letters.let_go(self.clock.mark(), self.config.call_timeout);
    }

    /// The store may have lost what it had accepted from this host: sends again what is held of it, and asks what
    /// became of the rest.
    pub(crate) fn send_again(self: &Arc<Self>) {
        let resting = self.rests.lock().rooms();
        for room in resting {
            self.courier(&room);
        }
        for courier in self.couriers_in_order() {
            courier.forgotten();
        }
        for (to, letter) in self.letters.take(self.clock.mark(), self.config.call_timeout) {
            self.post_bytes(to, letter);
        }
    }

    fn couriers_in_order(&self) -> Vec<Arc<Courier>> {
        let mut couriers: Vec<_> = self.couriers.iter().map(|c| c.value().clone()).collect();
        couriers.sort_unstable_by(|a, b| a.target().cmp(b.target()));
        couriers
    }

    /// How many ways to rooms are kept.
    #[cfg(test)]
    pub(crate) fn ways(&self) -> usize {
        self.routes.len() + self.couriers.len()
    }

    /// The sessions of the cluster, not older than `max_age`.
    pub(crate) async fn sessions(
        &self,
        max_age: Duration,
    ) -> Result<Arc<Vec<SessionInfo>>, TransportErr> {
        let asked = self.clock.mark();
        let oldest = asked.checked_sub(max_age);
        let known = || {
            let cache = self.sessions.read();
            let fresh =
                cache.read_at.is_some_and(|at| oldest.is_none_or(|o| at > o) || at >= asked);
            fresh.then(|| cache.list.clone())
        };
        if let Some(list) = known() {
            return Ok(list);
        }
        let _one = self.looking.lock().await;
        if let Some(list) = known() {
            return Ok(list); // read by somebody else, after this was asked
        }
        let read_at = self.clock.mark();
        let list = Arc::new(self.deadline(self.transport.sessions()).await?);
        let mut cache = self.sessions.write();
        cache.list = list.clone();
        cache.read_at = Some(read_at);
        Ok(list)
    }

    /// Has a room placed that nobody runs, unless this host is about that already: each of several looks at the
    /// record would offer it again to a host that has meanwhile tried and failed.
    pub(crate) fn find_host_soon(self: &Arc<Self>, room: &RoomId) {
        if self.finding.insert(room.clone(), ()).is_some() {
            return;
        }
        let (core, room) = (self.clone(), room.clone());
        self.spawn(async move {
            if let Err(error) = core.find_host(&room, false).await {
                tracing::debug!(%room, ?error, "no host was found"); // the sweep finds one
            }
            core.finding.remove(&room);
        });
    }

    /// Offers a room that nobody runs to the host that placement names.
    pub(crate) async fn find_host(&self, room: &RoomId, create: bool) -> Result<(), FindErr> {
        // Who has declined would do so again, and so often that the room rests while others could take it.
        let declined = match create {
            true => Vec::new(),
            false => {
                let view = self.view(room).await.map_err(FindErr::Store)?;
                let former = view.as_ref().filter(|view| !view.owner_alive);
                if let Some(owner) = former.and_then(|view| view.seen.owner.as_ref()) {
                    let sessions = self.sessions(self.config.sweep_interval).await;
                    if self.is_held(Some(&owner.by), &sessions.map_err(FindErr::Store)?) {
                        return Ok(()); // its host takes it back
                    }
                }
                view.map(|view| view.declined).unwrap_or_default()
            }
        };
        // A host that just joined must be found at once, so the list is read anew when it has none.
        let mut target = self.placement(room, &declined, self.config.sweep_interval).await;
        if target.is_err() {
            target = self.placement(room, &declined, Duration::ZERO).await;
        }
        if target.is_err() && !declined.is_empty() {
            // When every host has declined, the first one is asked again.
            target = self.placement(room, &[], Duration::ZERO).await;
        }
        let until = self.offer_deadline();
        let request = Request::Offer { to: target?, until, create };
        match self.execute(room, request).await.map_err(FindErr::Store)? {
            Answer::Offer(OfferAnswer::Done { .. } | OfferAnswer::Refused { .. }) => Ok(()),
            Answer::Offer(OfferAnswer::Missing) => Ok(()), // asked again with `create`
            Answer::Offer(OfferAnswer::Unproved) => Err(FindErr::NoneReady),
            other => Err(FindErr::Store(unexpected(&other))),
        }
    }

    /// The store is in another generation: who has no session there now may have one in a moment.
    pub(crate) fn doubt(&self) {
        let until = self.clock.mark().saturating_add(self.config.session_ttl);
        self.doubt_until.store(Millis::of(until).0, Ordering::SeqCst);
    }

    /// The store answers after it has been away: other hosts may be about to open their next sessions, and to
    /// take back what they hold.
    pub(crate) fn await_holders(&self) {
        let until = self.clock.mark().saturating_add(self.config.session_ttl / 2);
        self.holders_until.store(Millis::of(until).0, Ordering::SeqCst);
    }

    /// Whether a room whose owner's session has ended is left to that owner's host.
    pub(crate) fn is_held(&self, owner: Option<&Incarnation>, sessions: &[SessionInfo]) -> bool {
        let Some(owner) = owner else { return false };
        let returns = |s: &SessionInfo| s.incarnation.host == owner.host;
        let awaited = Millis::of(self.clock.mark()).0 < self.holders_until.load(Ordering::SeqCst);
        (awaited && !sessions.iter().any(returns)) || holder(owner, sessions).is_some()
    }

    /// Whether a session that is not there says nothing.
    pub(crate) fn is_doubtful(&self) -> bool {
        Millis::of(self.clock.mark()).0 < self.doubt_until.load(Ordering::SeqCst)
    }

    /// When an offer that is made now ends.
    pub(crate) fn offer_deadline(&self) -> Millis {
        self.clock.now().after(self.config.offer_timeout)
    }

    /// The host that should run a room.
    pub(crate) async fn placement(
        &self,
        room: &RoomId,
        declined: &[HostId],
        max_age: Duration,
    ) -> Result<HostId, FindErr> {
        let sessions = self.sessions(max_age).await.map_err(FindErr::Store)?;
        let me = self.incarnation();
        if sessions.iter().all(|session| session.incarnation != me) {
            // This session has lapsed, or the store forgot it, and others with it: that none of them runs a
            // kind is not known.
            return Err(FindErr::NoneReady);
        }
        match place_among(room, declined, &sessions) {
            Err(FindErr::UnknownKind) if self.is_doubtful() => Err(FindErr::NoneReady),
            placed => placed,
        }
    }

    /// Sends an outcome to whoever waits for it.
    pub(crate) fn deliver(self: &Arc<Self>, addr: ReplyAddr, outcome: Outcome) {
        match addr {
            ReplyAddr::Host { incarnation, call }
                if incarnation.host == self.id && incarnation.number >= self.born =>
            {
                // Also for an earlier incarnation of this process, whose callers still wait here. A process
                // before this one counted its calls from the same number.
                self.calls.complete(call, outcome);
            }
            ReplyAddr::Host { incarnation, call } => {
                self.post(incarnation, LetterBody::Outcome { call, outcome });
            }
            ReplyAddr::Room { room, life: _, call } => {
                match encode_payload(&Payload::Answer { call, outcome }, usize::MAX) {
                    Ok(frame) => self.courier(&room).send_errand(frame),
                    Err(error) => tracing::warn!(%error, %room, "an answer cannot be encoded"),
                }
            }
        }
    }

    /// Puts a letter into a host's inbox, and keeps trying for as long as a caller may wait.
    pub(crate) fn post(self: &Arc<Self>, to: Incarnation, letter: LetterBody) {
        let bytes = match encode_letter(&letter) {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::warn!(%error, "a letter cannot be encoded");
                return;
            }
        };
        self.post_bytes(to, bytes);
    }

    fn post_bytes(self: &Arc<Self>, to: Incarnation, bytes: Bytes) {
        let core = self.clone();
        self.errand(async move {
            let start = core.clock.mark();
            loop {
                match core.deadline(core.transport.post(&to, bytes.clone())).await {
                    Ok(true) => return core.letters.hold(core.clock.mark(), to, bytes),
                    // With its data the store may have forgotten the session that the letter is for.
                    Ok(false) if core.is_doubtful() => {}
                    Ok(false) => {
                        core.letters.hold(core.clock.mark(), to.clone(), bytes);
                        tracing::debug!(%to, "the host that waited for a letter is gone");
                        return;
                    }
                    Err(error) => {
                        if core.clock.elapsed_since(start) > core.config.call_timeout {
                            tracing::warn!(%to, %error, "a letter was not delivered");
                            return;
                        }
                    }
                }
                tokio::time::sleep(core.config.retry_interval).await;
            }
        });
    }
}

/// What is refused for its generation has changed nothing.
fn in_generation(answer: Answer) -> Result<Answer, TransportErr> {
    match answer {
        Answer::OtherGeneration { generation } => {
            let reason = format!("it is in generation {generation}, and the lease is not");
            Err(TransportErr::Unavailable { reason })
        }
        answer => Ok(answer),
    }
}

async fn within<T>(
    waited: Duration,
    call: impl Future<Output = Result<T, TransportErr>>,
) -> Result<T, TransportErr> {
    tokio::time::timeout(waited, call).await.unwrap_or(Err(TransportErr::Unanswered { waited }))
}

/// The placement rule: rendezvous over hosts that are ready, read the kind and have capacity left.
pub(crate) fn place_among(
    room: &RoomId,
    declined: &[HostId],
    sessions: &[SessionInfo],
) -> Result<HostId, FindErr> {
    let reads = |s: &&SessionInfo, kind: &Kind| s.spec.kinds.contains_key(kind);
    if !sessions.iter().any(|s| reads(&s, &room.kind)) {
        return Err(FindErr::UnknownKind);
    }
    let of = |state: HostState| {
        let candidates = sessions.iter().filter(move |s| {
            reads(s, &room.kind)
                && s.spec.state == state
                && s.spec.load < s.spec.capacity
                && !declined.contains(&s.incarnation.host)
        });
        let candidates = candidates.map(|s| {
            let (weight, load) = (s.spec.weight, s.spec.load);
            Candidate { host: &s.incarnation.host, weight, load }
        });
        place_within_bound(room, candidates)
    };
    of(HostState::Ready).or_else(|| of(HostState::Joining)).cloned().ok_or(FindErr::NoneReady)
}

/// An answer of another kind than the request asks for.
pub(crate) fn unexpected(answer: &Answer) -> TransportErr {
    let reason = format!("the answer is of another kind than the request: {answer:?}");
    TransportErr::Unavailable { reason }
}

/// Forwards answers at once.
struct HostSink(Arc<HostCore>);

impl ReplySink for HostSink {
    fn reply(&self, addr: ReplyAddr, outcome: Outcome) {
        self.0.deliver(addr, outcome);
    }
}

impl std::fmt::Debug for HostCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostCore").field("id", &self.id).finish_non_exhaustive()
    }
}
