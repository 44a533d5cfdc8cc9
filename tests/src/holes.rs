//! What the tests of the protocol's holes need: hosts over a store whose calls fail on purpose, and a room
//! that does what it is told and shows what it did.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use futures::stream::BoxStream;
use ractor::ActorProcessingErr;
use ractor::rpc::CallResult;
use ractor_rooms::clock::Clock;
use ractor_rooms::codec::body;
use ractor_rooms::id::{HostId, RoomId};
use ractor_rooms::protocol::placement::{evenly, place};
use ractor_rooms::protocol::record::{Record, RecordLimits};
use ractor_rooms::testing::{Aimed, Fault, FaultPlan, FaultyTransport, Operation};
use ractor_rooms::transport::{Push, Transport};
use ractor_rooms::{
    Answer, Delivery, HostConfig, MemoryTransport, MigrateTo, MigrationErr, MigrationReport,
    MissedPolicy, Reply, RoomActor, RoomContext, RoomFault, RoomHost, RoomHostBuilder, RoomRef,
};
use rand::Rng;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use crate::wait::{PATIENCE, in_time};

/// Looks again and again until it holds.
///
/// # Panics
/// When it does not within [`PATIENCE`].
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    in_time(what, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// A delivery class as a type.
pub trait Class: Send + Sync + 'static {
    /// The class.
    const DELIVERY: Delivery;
    /// The kind of its pads.
    const KIND: &'static str;
}

/// [`Delivery::Live`].
#[derive(Debug)]
pub struct Live;

impl Class for Live {
    const DELIVERY: Delivery = Delivery::Live;
    const KIND: &'static str = "live-pad";
}

/// [`Delivery::Durable`].
#[derive(Debug)]
pub struct Durable;

impl Class for Durable {
    const DELIVERY: Delivery = Delivery::Durable;
    const KIND: &'static str = "durable-pad";
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What happened in a room, as its hooks saw it. Unlike the state, it is never turned back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The host.
    pub host: String,
    /// The room's key.
    pub key: String,
    /// The epoch that the room had there.
    pub epoch: u64,
    /// What happened.
    pub what: What,
}

/// See [`Sight`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// `pre_start` ran.
    Started,
    /// `after_thaw` ran.
    Thawed,
    /// `before_freeze` ran.
    Freezing,
    /// A message was handled, or tried.
    Handled(u32, u64),
    /// A handler waits because the stage holds this message on this host.
    Stuck(u64),
    /// A handler waits for a gate.
    Holding,
    /// A roll gave this.
    Rolled(u64, u64),
}

/// How `upgrade` behaves on hosts of version 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Upgrade {
    /// It reads the state.
    #[default]
    Pass,
    /// It does not return, for as long as this is set.
    Hang,
    /// It reads the state and refuses it.
    Fail,
}

/// What a test does to the pads of all hosts, and what it sees of them. Clones are the same stage.
#[derive(Clone, Debug, Default)]
pub struct Stage(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    open: watch::Sender<BTreeSet<String>>,
    stuck: watch::Sender<BTreeSet<(String, u64)>>,
    sights: Mutex<Vec<Sight>>,
    upgrade: Mutex<Upgrade>,
    upgrades: Mutex<BTreeMap<String, u32>>,
    changed: Condvar,
}

impl Stage {
    /// Lets handlers of [`PadMsg::Hold`] with this gate return, now and later.
    pub fn open(&self, gate: &str) {
        self.0.open.send_modify(|open| {
            open.insert(gate.to_owned());
        });
    }

    /// Whether a gate was opened.
    pub fn is_open(&self, gate: &str) -> bool {
        self.0.open.borrow().contains(gate)
    }

    /// On this host, the handler of a note with this number does not return.
    pub fn stick(&self, host: &str, number: u64) {
        self.0.stuck.send_modify(|stuck| {
            stuck.insert((host.to_owned(), number));
        });
    }

    /// How `upgrade` behaves from now on; a hanging one goes on.
    pub fn upgrade(&self, upgrade: Upgrade) {
        *lock(&self.0.upgrade) = upgrade;
        self.0.changed.notify_all();
    }

    /// How often `upgrade` was called on a host.
    pub fn upgrades(&self, host: &str) -> u32 {
        lock(&self.0.upgrades).get(host).copied().unwrap_or_default()
    }

    /// Everything that happened in a room.
    pub fn of(&self, key: &str) -> Vec<Sight> {
        lock(&self.0.sights).iter().filter(|s| s.key == key).cloned().collect()
    }

    /// The hosts on which this happened in a room, in order.
    pub fn hosts_of(&self, key: &str, what: What) -> Vec<String> {
        let sights = lock(&self.0.sights);
        let found = sights.iter().filter(|s| s.key == key && s.what == what);
        found.map(|s| s.host.clone()).collect()
    }

    /// Waits until this has happened in a room.
    pub async fn seen(&self, key: &str, what: What) {
        let text = format!("{what:?} in {key}");
        eventually(&text, async || !self.hosts_of(key, what).is_empty()).await;
    }

    /// What a room handled after its cut and under the same epoch: nothing, if the cut holds.
    pub fn handled_after_a_cut(&self, key: &str) -> Vec<Sight> {
        let mut cut = BTreeSet::new();
        let mut late = Vec::new();
        for sight in self.of(key) {
            match sight.what {
                What::Freezing => {
                    cut.insert(sight.epoch);
                }
                What::Handled(..) if cut.contains(&sight.epoch) => late.push(sight),
                _ => {}
            }
        }
        late
    }

    fn see(&self, sight: Sight) {
        lock(&self.0.sights).push(sight);
    }
}

/// What a pad is told and asked.
#[allow(missing_docs, reason = "fields that say what they are")]
#[derive(Debug, Serialize, Deserialize)]
pub enum PadMsg {
    /// Written down.
    Note { from: u32, number: u64 },
    /// The handler returns once the gate was opened.
    Hold { gate: String },
    /// A note, sent on to a durable pad as one from [`RELAYED`].
    Relay { from: u32, number: u64, to: String },
    /// Publishes so many events.
    Emit(u64),
    /// A note that publishes two events and fails.
    Poison { from: u32, number: u64 },
    /// A timer that rolls, or only ticks.
    Every { ms: u64, roll_to: Option<String> },
    /// Counted; asks for a checkpoint once the gate `save` was opened.
    Tick,
    /// Writes down time and a random number, and sends them to a durable pad.
    Roll { to: String },
    /// What another pad rolled.
    Rolled { at: u64, dice: u64 },
    /// No more timers.
    Rest,
    /// Calls a pad of the same class, which keeps the call.
    Ask { of: String, timeout_ms: u64 },
    /// The reply is kept in the state.
    Keep(Reply<u64>),
    /// Kept replies get this answer.
    Answer(u64),
    /// The handler takes so long.
    Linger { ms: u64 },
    /// Asks for a checkpoint.
    Save,
    /// Asks for the room's end.
    End(String),
    /// Shows everything.
    Show(Reply<Shown>),
}

/// The sender of what a pad relays.
pub const RELAYED: u32 = 1_000_000;

/// A note.
pub fn note(from: u32, number: u64) -> PadMsg {
    PadMsg::Note { from, number }
}

/// Notes of one sender with consecutive numbers.
pub fn notes(from: u32, numbers: std::ops::RangeInclusive<u64>) -> Vec<(u32, u64)> {
    numbers.map(|number| (from, number)).collect()
}

/// What a pad shows of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// Where it runs.
    pub host: String,
    /// Under which epoch.
    pub epoch: u64,
    /// In which life.
    pub life: u64,
    /// Who sent what, in order.
    pub notes: Vec<(u32, u64)>,
    /// What it rolled: when and what.
    pub rolls: Vec<(u64, u64)>,
    /// What others rolled.
    pub rolled: Vec<(u64, u64)>,
    /// What became of its calls.
    pub answers: Vec<Result<u64, String>>,
    /// How many replies it keeps.
    pub kept: usize,
    /// How often its timer ticked.
    pub ticks: u64,
}

impl Shown {
    /// The notes of one sender.
    pub fn of(&self, from: u32) -> Vec<(u32, u64)> {
        self.notes.iter().copied().filter(|(sender, _)| *sender == from).collect()
    }
}

/// What a pad holds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct PadState {
    notes: Vec<(u32, u64)>,
    rolls: Vec<(u64, u64)>,
    rolled: Vec<(u64, u64)>,
    kept: Vec<Reply<u64>>,
    answers: Vec<Result<u64, String>>,
    ticks: u64,
    emitted: u64,
}

/// The pads of one host. `V` is the version of their state; the versions differ in nothing but that.
#[derive(Debug)]
pub struct Pad<C, const V: u32 = 1> {
    host: String,
    stage: Stage,
    class: PhantomData<fn() -> C>,
}

impl<C: Class, const V: u32> Pad<C, V> {
    /// The pads of this host.
    pub fn new(host: &str, stage: &Stage) -> Self {
        Self { host: host.to_owned(), stage: stage.clone(), class: PhantomData }
    }

    fn see(&self, ctx: &RoomContext<Self>, what: What) {
        let (host, epoch) = (self.host.clone(), ctx.epoch().0);
        let key = String::from_utf8_lossy(ctx.room().key.as_bytes()).into_owned();
        self.stage.see(Sight { host, key, epoch, what });
    }

    async fn note(&self, ctx: &RoomContext<Self>, from: u32, number: u64, state: &mut PadState) {
        let place = (self.host.clone(), number);
        let mut stuck = self.stage.0.stuck.subscribe();
        if stuck.borrow().contains(&place) {
            self.see(ctx, What::Stuck(number));
            let _ = stuck.wait_for(|stuck| !stuck.contains(&place)).await; // the stage is here
        }
        self.see(ctx, What::Handled(from, number));
        state.notes.push((from, number));
    }
}

impl<C: Class, const V: u32> RoomActor for Pad<C, V> {
    const KIND: &'static str = C::KIND;
    const DELIVERY: Delivery = C::DELIVERY;
    const STATE_VERSION: u32 = V;
    type Msg = PadMsg;
    type State = PadState;
    type Event = u64;
    type Arguments = ();

    async fn pre_start(
        &self,
        ctx: &mut RoomContext<Self>,
        (): (),
    ) -> Result<PadState, ActorProcessingErr> {
        self.see(ctx, What::Started);
        Ok(PadState::default())
    }

    async fn handle(
        &self,
        ctx: &mut RoomContext<Self>,
        msg: PadMsg,
        state: &mut PadState,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            PadMsg::Note { from, number } => self.note(ctx, from, number, state).await,
            PadMsg::Hold { gate } => {
                self.see(ctx, What::Holding);
                let mut open = self.stage.0.open.subscribe();
                let _ = open.wait_for(|open| open.contains(&gate)).await; // the stage is here
            }
            PadMsg::Linger { ms } => tokio::time::sleep(Duration::from_millis(ms)).await,
            PadMsg::Relay { from, number, to } => {
                self.note(ctx, from, number, state).await;
                ctx.send_to::<Pad<Durable>>(to, note(RELAYED, number))
                    .map_err(|e| e.to_string())?;
            }
            PadMsg::Emit(count) => emit(ctx, count, state)?,
            PadMsg::Poison { from, number } => {
                self.note(ctx, from, number, state).await;
                emit(ctx, 2, state)?;
                return Err("poison".into());
            }
            PadMsg::Every { ms, roll_to } => {
                let message = roll_to.map_or(PadMsg::Tick, |to| PadMsg::Roll { to });
                let every = Duration::from_millis(ms);
                ctx.set_interval("every", every, message, MissedPolicy::FireOnce)?;
            }
            PadMsg::Tick => {
                state.ticks += 1;
                if self.stage.is_open("save") {
                    ctx.checkpoint();
                }
            }
            PadMsg::Roll { to } => {
                let at = ctx.now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
                let dice = ctx.rng().next_u64();
                self.see(ctx, What::Rolled(at, dice));
                state.rolls.push((at, dice));
                ctx.send_to::<Pad<Durable>>(to, PadMsg::Rolled { at, dice })
                    .map_err(|e| e.to_string())?;
            }
            PadMsg::Rolled { at, dice } => state.rolled.push((at, dice)),
            PadMsg::Rest => {
                ctx.cancel_timer("every");
            }
            PadMsg::Ask { of, timeout_ms } => {
                let timeout = Duration::from_millis(timeout_ms);
                ctx.call_then::<Pad<C>, u64>(of, "ask", PadMsg::Keep, timeout)
                    .map_err(|e| e.to_string())?;
            }
            PadMsg::Keep(reply) => state.kept.push(reply),
            PadMsg::Answer(answer) => {
                for reply in state.kept.drain(..) {
                    reply.send(answer);
                }
            }
            PadMsg::Save => ctx.checkpoint(),
            PadMsg::End(reason) => ctx.close(reason),
            PadMsg::Show(reply) => reply.send(Shown {
                host: self.host.clone(),
                epoch: ctx.epoch().0,
                life: ctx.life().0,
                notes: state.notes.clone(),
                rolls: state.rolls.clone(),
                rolled: state.rolled.clone(),
                answers: state.answers.clone(),
                kept: state.kept.len(),
                ticks: state.ticks,
            }),
        }
        Ok(())
    }

    async fn answered(
        &self,
        _: &mut RoomContext<Self>,
        _: &str,
        answer: Answer,
        state: &mut PadState,
    ) -> Result<(), ActorProcessingErr> {
        state.answers.push(answer.decode::<u64>().map_err(|error| error.to_string()));
        Ok(())
    }

    async fn before_freeze(
        &self,
        ctx: &mut RoomContext<Self>,
        _: &mut PadState,
    ) -> Result<(), ActorProcessingErr> {
        self.see(ctx, What::Freezing);
        Ok(())
    }

    async fn after_thaw(
        &self,
        ctx: &mut RoomContext<Self>,
        _: &mut PadState,
    ) -> Result<(), ActorProcessingErr> {
        self.see(ctx, What::Thawed);
        Ok(())
    }

    fn upgrade(&self, _: u32, bytes: &[u8]) -> Result<PadState, ActorProcessingErr> {
        let stage = &self.stage.0;
        *lock(&stage.upgrades).entry(self.host.clone()).or_default() += 1;
        // Not for ever: a runtime with a thread that hangs cannot end, and the test would not fail.
        let upgrade = stage
            .changed
            .wait_timeout_while(lock(&stage.upgrade), PATIENCE * 2, |u| *u == Upgrade::Hang)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
        let state = body::decode(bytes, usize::MAX)?;
        match *upgrade {
            Upgrade::Fail => Err("it refuses".into()),
            Upgrade::Pass | Upgrade::Hang => Ok(state),
        }
    }
}

fn emit<R: RoomActor<Event = u64>>(
    ctx: &mut RoomContext<R>,
    count: u64,
    state: &mut PadState,
) -> Result<(), ActorProcessingErr> {
    for _ in 0..count {
        state.emitted += 1;
        ctx.emit(state.emitted)?;
    }
    Ok(())
}

/// One store, one stage, and the hosts that a test starts.
#[derive(Debug)]
pub struct Lab {
    /// The store itself.
    pub store: MemoryTransport,
    /// The same with faults; each host has a view of it.
    pub net: FaultyTransport<MemoryTransport>,
    /// What the test does to the pads.
    pub stage: Stage,
    faults: Arc<Mutex<Vec<RoomFault>>>,
}

/// How long the session lasts of a host that a test kills.
pub const DOOMED: Duration = Duration::from_secs(3);

/// Deadlines for tests: retries are quick, what ends in an error is slow, because machines are busy, and
/// checkpoints are made when a test asks for them.
pub fn config() -> HostConfig {
    HostConfig {
        session_ttl: Duration::from_secs(30),
        store_timeout: Duration::from_secs(30),
        retry_interval: Duration::from_millis(10),
        send_timeout: Duration::from_secs(30),
        call_timeout: Duration::from_secs(30),
        freeze_timeout: Duration::from_secs(20),
        offer_timeout: Duration::from_secs(20),
        restore_timeout: Duration::from_secs(20),
        sweep_interval: Duration::from_millis(50),
        idle_timeout: None,
        checkpoint_messages: 0,
        checkpoint_interval: Duration::from_secs(3600),
        ..HostConfig::default()
    }
}

impl Default for Lab {
    fn default() -> Self {
        Self::with(RecordLimits::default())
    }
}

impl Lab {
    /// A store with these bounds.
    pub fn with(limits: RecordLimits) -> Self {
        let store = MemoryTransport::with(limits, Clock::system());
        let net = FaultyTransport::new(store.clone(), 0, FaultPlan::calm());
        Self { store, net, stage: Stage::default(), faults: Arc::default() }
    }

    fn builder<const V: u32>(&self, name: &str) -> RoomHostBuilder {
        let faults = self.faults.clone();
        RoomHost::builder(name, self.net.for_host(host_id(name)))
            .config(config())
            .room(Pad::<Live, V>::new(name, &self.stage))
            .room(Pad::<Durable, V>::new(name, &self.stage))
            .on_fault(move |fault| lock(&faults).push(fault.clone()))
    }

    /// A host.
    pub async fn host(&self, name: &str) -> RoomHost {
        self.host_with(name, |_| {}).await
    }

    /// A host with other limits.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn host_with(&self, name: &str, change: impl FnOnce(&mut HostConfig)) -> RoomHost {
        let start = self.builder::<1>(name).configure(change).start();
        in_time("a host starts", start).await.expect("a host starts")
    }

    /// A host that the test kills.
    pub async fn doomed(&self, name: &str) -> RoomHost {
        self.host_with(name, |c| c.session_ttl = DOOMED).await
    }

    /// A host of version 2.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn newer(&self, name: &str, change: impl FnOnce(&mut HostConfig)) -> RoomHost {
        let start = self.builder::<2>(name).configure(change).start();
        in_time("a host starts", start).await.expect("a host starts")
    }

    /// The next such call of a host goes wrong.
    pub fn next_of(&self, host: &str, operation: Operation, fault: Fault) -> Aimed {
        self.net.next_of(host_id(host), operation, fault)
    }

    /// From now on every push is lost, or none.
    pub fn lose_pushes(&self, lost: bool) {
        let drop_push = if lost { 1_000 } else { 0 };
        self.net.set_plan(FaultPlan { drop_push, ..FaultPlan::calm() });
    }

    /// From now on nobody hears of what is appended: pushes are lost, and heads are not compared. Until
    /// [`Lab::lose_pushes`] ends both.
    ///
    /// A room looks at its log once more when it goes live, which may be after its host says that it runs;
    /// so it answers first.
    pub async fn go_unheard<C: Class>(&self, room: &RoomRef<Pad<C>>) {
        show(room).await;
        self.net.set_plan(FaultPlan {
            drop_push: 1_000,
            refuse: 1_000,
            only: [Operation::Owned].into(),
            ..FaultPlan::calm()
        });
    }

    /// From now on this host gets no pushes, until the stream that this gives is dropped and the request
    /// that this gives is released.
    ///
    /// # Panics
    /// When the host has no session.
    pub async fn deafen(&self, host: &str) -> (Aimed, BoxStream<'static, Push>) {
        let sessions = self.store.inspect(|store| store.sessions());
        let session = sessions.into_iter().find(|s| s.incarnation.host.as_str() == host);
        let again = self.next_of(host, Operation::Subscribe, Fault::HoldRequest);
        let by = session.expect("a session").incarnation;
        let pushes = self.store.subscribe(&by).await.expect("the store answers");
        in_time("its stream has ended", again.hit()).await;
        (again, pushes)
    }

    /// What the error hooks heard.
    pub fn faults(&self) -> Vec<RoomFault> {
        lock(&self.faults).clone()
    }

    /// A pad's record.
    pub fn find<C: Class>(&self, key: &str) -> Option<Record> {
        self.store.inspect(|store| store.record(&room_id::<C>(key)).cloned())
    }

    /// A pad's record.
    ///
    /// # Panics
    /// When there is none.
    pub fn record<C: Class>(&self, key: &str) -> Record {
        self.find::<C>(key).expect("a record")
    }

    /// A pad's record, once it is so.
    pub async fn record_when<C: Class>(
        &self,
        key: &str,
        what: &str,
        is_so: impl Fn(&Record) -> bool,
    ) -> Record {
        eventually(what, async || self.find::<C>(key).is_some_and(|record| is_so(&record))).await;
        self.record::<C>(key)
    }

    /// Who leases a pad.
    pub fn owner<C: Class>(&self, key: &str) -> Option<String> {
        self.find::<C>(key)?.owner.map(|owner| owner.by.host.as_str().to_owned())
    }

    /// Starts a pad, if need be, and sees to it that it runs on a host.
    ///
    /// # Panics
    /// When it does not come there.
    pub async fn bring<C: Class>(&self, key: &str, via: &RoomHost, to: &str) {
        if show(&pad::<C>(via, key)).await.host != to {
            migrate::<C>(via, key, to).await.expect("the room is moved to its place");
        }
        // Not before the host itself knows that it runs there.
        let room = room_id::<C>(key);
        eventually("the room has settled", async || {
            self.owner::<C>(key).as_deref() == Some(to) && self.record::<C>(key).settled
        })
        .await;
        if via.id().as_str() == to {
            eventually("the host runs the room", async || {
                via.rooms().await.expect("the host runs").contains(&room)
            })
            .await;
        }
    }
}

/// The name of a host.
///
/// # Panics
/// When it is none.
pub fn host_id(name: &str) -> HostId {
    HostId::new(name).expect("a name")
}

/// The id of a pad.
///
/// # Panics
/// When the key is none.
pub fn room_id<C: Class>(key: &str) -> RoomId {
    RoomId::new(C::KIND, key.to_owned()).expect("a key")
}

/// A key whose room is placed on `first`, out of these hosts.
///
/// # Panics
/// When there is none.
pub fn key_placed<C: Class>(first: &str, among: &[&str]) -> String {
    let hosts: Vec<_> = among.iter().map(|name| host_id(name)).collect();
    (0..10_000)
        .map(|i| format!("pad-{i}"))
        .find(|key| place(&room_id::<C>(key), evenly(&hosts)) == Some(&host_id(first)))
        .expect("a key that is placed there")
}

/// A handle to a pad.
pub fn pad<C: Class>(via: &RoomHost, key: &str) -> RoomRef<Pad<C>> {
    via.room(key.to_owned())
}

/// What a pad shows.
///
/// # Panics
/// When it does not answer.
pub async fn show<C: Class>(pad: &RoomRef<Pad<C>>) -> Shown {
    match pad.call(PadMsg::Show, Some(PATIENCE)).await {
        Ok(CallResult::Success(shown)) => shown,
        other => panic!("{pad:?} does not show itself: {:?}", other.map(|_| "no answer")),
    }
}

/// Asks a host to move a pad.
///
/// # Errors
/// What the host says.
pub async fn migrate<C: Class>(
    via: &RoomHost,
    key: &str,
    to: &str,
) -> Result<MigrationReport, MigrationErr> {
    let request = MigrateTo::host(C::KIND, key.to_owned(), to);
    in_time("a move ends", via.migrate(request)).await
}

/// The same, beside the test.
pub fn migrating<C: Class>(
    via: &RoomHost,
    key: &str,
    to: &str,
) -> JoinHandle<Result<MigrationReport, MigrationErr>> {
    let (via, key, to) = (via.clone(), key.to_owned(), to.to_owned());
    tokio::spawn(async move { migrate::<C>(&via, &key, &to).await })
}

/// Waits until a host has begun to give a pad up, or has lost it.
pub async fn leaving<C: Class>(host: &RoomHost, key: &str) {
    let room = room_id::<C>(key);
    eventually("the room leaves", async || {
        host.rooms().await.is_ok_and(|rooms| !rooms.contains(&room))
    })
    .await;
}

/// Stops hosts.
///
/// # Panics
/// When one does not stop.
pub async fn stop(hosts: &[&RoomHost]) {
    for host in hosts {
        in_time("a host stops", host.shutdown()).await.expect("a host stops");
    }
}
