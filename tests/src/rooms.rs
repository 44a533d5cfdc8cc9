//! Rooms that the tests use: a ledger that writes down what it handles, in both delivery classes, and a
//! document for the recorded sessions.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use ractor::ActorProcessingErr;
use ractor_rooms::codec::body;
use ractor_rooms::{Answer, Delivery, MissedPolicy, Reply, RoomActor, RoomContext, TimerInfo};
use ropey::Rope;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::sync::watch;

use crate::oracle::SenderId;
use crate::trace::Edit;

/// A delivery class as a type.
pub trait Class: Send + Sync + 'static {
    /// The class.
    const DELIVERY: Delivery;
    /// The kind of its ledgers.
    const LEDGER: &'static str;
    /// The kind of its documents.
    const DOCUMENT: &'static str;
}

/// [`Delivery::Live`].
#[derive(Debug)]
pub struct Live;

impl Class for Live {
    const DELIVERY: Delivery = Delivery::Live;
    const LEDGER: &'static str = "live-ledger";
    const DOCUMENT: &'static str = "live-document";
}

/// [`Delivery::Durable`].
#[derive(Debug)]
pub struct Durable;

impl Class for Durable {
    const DELIVERY: Delivery = Delivery::Durable;
    const LEDGER: &'static str = "durable-ledger";
    const DOCUMENT: &'static str = "durable-document";
}

/// Another ledger, as a message names it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Address {
    /// Whether it is durable.
    pub durable: bool,
    /// Its key.
    pub key: String,
}

impl Address {
    /// The ledger of this class and key.
    pub fn of<C: Class>(key: &str) -> Self {
        Self { durable: C::DELIVERY == Delivery::Durable, key: key.to_owned() }
    }
}

/// The sender of what a ledger forwards.
pub const FORWARDED: SenderId = 1_000_000;

/// What a ledger is told and asked.
#[allow(missing_docs, reason = "fields that say what they are")]
#[derive(Debug, Serialize, Deserialize)]
pub enum LedgerMsg {
    /// Written down.
    Note { from: SenderId, number: u64 },
    /// Written down, with something heavy.
    Blob { from: SenderId, number: u64, bytes: Bytes },
    /// Written down; the handler returns once [`Knobs::let_go`] was called.
    Hang { from: SenderId, number: u64 },
    /// Written down and then panics, the first `fails` times that it is tried.
    Shaky { from: SenderId, number: u64, fails: u32 },
    /// The same with an error instead of a panic.
    Sour { from: SenderId, number: u64, fails: u32 },
    /// Written down and sent on to another ledger, as from [`FORWARDED`].
    Forward { from: SenderId, number: u64, to: Address },
    /// Calls another ledger, which keeps the call, or counts its notes.
    Ask { name: String, of: Address, kept: bool, timeout_ms: u64 },
    /// How many notes are there?
    Count(Reply<u64>),
    /// The reply is kept in the state.
    Keep(Reply<u64>),
    /// How many replies are kept?
    Kept(Reply<u64>),
    /// Kept replies are answered with their places.
    Answer,
    /// Kept replies are dropped.
    Forsake,
    /// Publishes so many events.
    Emit(u64),
    /// Sets a timer.
    Remind { name: String, after_ms: u64, repeat: Option<MissedPolicy> },
    /// Cancels a timer; whether there was one.
    Forget(String, Reply<bool>),
    /// The timers: name, when due, and period in milliseconds.
    Timers(Reply<Vec<(String, u64, Option<u64>)>>),
    /// A timer fired.
    Tick(String),
    /// Makes the encoded state so large.
    Grow(u64),
    /// The size and the sum of what makes it large.
    Digest(Reply<(u64, u64)>),
    /// The notes.
    Notes(Reply<Vec<(SenderId, u64)>>),
    /// The ticks.
    Ticks(Reply<Vec<Ticked>>),
    /// The answers to what was asked.
    Answers(Reply<Vec<(String, Result<u64, String>)>>),
    /// Where is it?
    Whereabouts(Reply<Whereabouts>),
    /// Asks for a checkpoint.
    Save,
    /// Ends the room.
    End(String),
}

/// A tick as the room saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticked {
    /// The timer.
    pub name: String,
    /// When, in milliseconds.
    pub at: u64,
    /// On which host.
    pub host: String,
}

/// Where a room is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whereabouts {
    /// The host.
    pub host: String,
    /// Its epoch there.
    pub epoch: u64,
    /// Its life.
    pub life: u64,
}

/// What a ledger's members see: 1, 2, 3 and so on.
pub type LedgerEvent = u64;

/// What a ledger holds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct LedgerState {
    notes: Vec<(SenderId, u64)>,
    kept: Vec<Reply<u64>>,
    answers: Vec<(String, Result<u64, String>)>,
    ticks: Vec<Ticked>,
    emitted: u64,
    ballast: Bytes,
}

/// What happened to a room, as its hooks saw it. Unlike the state, it is never turned back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The host.
    pub host: String,
    /// What happened there.
    pub what: Seen,
}

/// See [`Sight`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// `pre_start` ran.
    Started,
    /// A message was handled, or tried.
    Handled(SenderId, u64),
    /// A timer fired.
    Ticked(String),
    /// `before_freeze` began.
    Freezing,
    /// `before_freeze` returned `Ok`.
    Frozen,
    /// `after_thaw` ran.
    Thawed,
    /// `post_stop` ran.
    Stopped,
}

/// What a test does to the ledgers of a cluster, and what it sees of them.
#[derive(Clone, Debug, Default)]
pub struct Knobs(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    freeze_takes: Mutex<Duration>,
    freeze_refusals: Mutex<u32>,
    freeze_panics: Mutex<u32>,
    freeze_held: watch::Sender<bool>,
    let_go: watch::Sender<bool>,
    timers: Mutex<Vec<(String, u64, Option<MissedPolicy>)>>,
    attempts: Mutex<BTreeMap<(SenderId, u64), u32>>,
    sights: Mutex<Vec<Sight>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Knobs {
    /// `before_freeze` takes so long from now on.
    pub fn freeze_takes(&self, time: Duration) {
        *lock(&self.0.freeze_takes) = time;
    }

    /// `before_freeze` fails so many times.
    pub fn refuse_freezes(&self, times: u32) {
        *lock(&self.0.freeze_refusals) = times;
    }

    /// `before_freeze` panics so many times.
    pub fn panic_in_freezes(&self, times: u32) {
        *lock(&self.0.freeze_panics) = times;
    }

    /// Whether `before_freeze` waits, for as long as this is set.
    pub fn hold_freezes(&self, held: bool) {
        self.0.freeze_held.send_replace(held);
    }

    /// Handlers that hang return, now and from now on.
    pub fn let_go(&self) {
        self.0.let_go.send_replace(true);
    }

    /// `pre_start` sets this timer.
    pub fn start_with_timer(&self, name: &str, after_ms: u64, repeat: Option<MissedPolicy>) {
        lock(&self.0.timers).push((name.to_owned(), after_ms, repeat));
    }

    /// How often a message was tried.
    pub fn attempts(&self, from: SenderId, number: u64) -> u32 {
        lock(&self.0.attempts).get(&(from, number)).copied().unwrap_or_default()
    }

    /// Everything that happened.
    pub fn sights(&self) -> Vec<Sight> {
        lock(&self.0.sights).clone()
    }

    /// How often this happened, on whatever host.
    pub fn count(&self, what: &Seen) -> usize {
        lock(&self.0.sights).iter().filter(|sight| sight.what == *what).count()
    }

    fn see(&self, host: &str, what: Seen) {
        lock(&self.0.sights).push(Sight { host: host.to_owned(), what });
    }

    fn attempt(&self, from: SenderId, number: u64) -> u32 {
        let mut attempts = lock(&self.0.attempts);
        let attempt = attempts.entry((from, number)).or_default();
        *attempt += 1;
        *attempt
    }
}

/// Takes one of what is left.
fn take_one(left: &Mutex<u32>) -> bool {
    let mut left = lock(left);
    let some = *left > 0;
    *left = left.saturating_sub(1);
    some
}

/// The ledgers of one host.
pub struct Ledger<C> {
    host: String,
    knobs: Knobs,
    class: PhantomData<fn() -> C>,
}

impl<C> Ledger<C> {
    /// The ledgers of a host.
    pub fn new(host: &str, knobs: &Knobs) -> Self {
        Self { host: host.to_owned(), knobs: knobs.clone(), class: PhantomData }
    }
}

impl<C: Class> RoomActor for Ledger<C> {
    const KIND: &'static str = C::LEDGER;
    const DELIVERY: Delivery = C::DELIVERY;
    type Msg = LedgerMsg;
    type State = LedgerState;
    type Event = LedgerEvent;
    type Arguments = ();

    async fn pre_start(
        &self,
        ctx: &mut RoomContext<Self>,
        (): (),
    ) -> Result<LedgerState, ActorProcessingErr> {
        self.knobs.see(&self.host, Seen::Started);
        let timers = lock(&self.knobs.0.timers).clone();
        for (name, after_ms, repeat) in timers {
            remind(ctx, name, after_ms, repeat)?;
        }
        Ok(LedgerState::default())
    }

    async fn handle(
        &self,
        ctx: &mut RoomContext<Self>,
        msg: LedgerMsg,
        state: &mut LedgerState,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            LedgerMsg::Note { from, number } | LedgerMsg::Blob { from, number, bytes: _ } => {
                self.note(from, number, state);
            }
            LedgerMsg::Hang { from, number } => {
                self.note(from, number, state);
                // Fails only without a sender, and this holds one.
                let _ = self.knobs.0.let_go.subscribe().wait_for(|go| *go).await;
            }
            LedgerMsg::Shaky { from, number, fails } => {
                self.note(from, number, state);
                assert!(self.knobs.attempt(from, number) > fails, "message {number} is poison");
            }
            LedgerMsg::Sour { from, number, fails } => {
                self.note(from, number, state);
                if self.knobs.attempt(from, number) <= fails {
                    return Err(format!("message {number} is sour").into());
                }
            }
            LedgerMsg::Forward { from, number, to } => {
                self.note(from, number, state);
                send_to(ctx, &to, LedgerMsg::Note { from: FORWARDED, number })?;
            }
            LedgerMsg::Ask { name, of, kept, timeout_ms } => {
                let make = if kept { LedgerMsg::Keep } else { LedgerMsg::Count };
                ask(ctx, &of, name, make, Duration::from_millis(timeout_ms))?;
            }
            LedgerMsg::Count(reply) => reply.send(state.notes.len() as u64),
            LedgerMsg::Keep(reply) => state.kept.push(reply),
            LedgerMsg::Kept(reply) => reply.send(state.kept.len() as u64),
            LedgerMsg::Answer => {
                for (place, reply) in (0..).zip(state.kept.drain(..)) {
                    reply.send(place);
                }
            }
            LedgerMsg::Forsake => state.kept.clear(),
            LedgerMsg::Emit(count) => {
                for _ in 0..count {
                    state.emitted += 1;
                    ctx.emit(state.emitted)?;
                }
            }
            LedgerMsg::Remind { name, after_ms, repeat } => remind(ctx, name, after_ms, repeat)?,
            LedgerMsg::Forget(name, reply) => reply.send(ctx.cancel_timer(&name)),
            LedgerMsg::Timers(reply) => {
                let plain =
                    |t: TimerInfo| (t.name, t.due.0, t.every.map(|every| every.as_millis() as u64));
                reply.send(ctx.timers().into_iter().map(plain).collect());
            }
            LedgerMsg::Tick(name) => {
                self.knobs.see(&self.host, Seen::Ticked(name.clone()));
                let at = ctx.now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
                state.ticks.push(Ticked { name, at, host: self.host.clone() });
            }
            LedgerMsg::Grow(size) => grow(state, size as usize)?,
            LedgerMsg::Digest(reply) => {
                reply.send((state.ballast.len() as u64, digest(&state.ballast)));
            }
            LedgerMsg::Notes(reply) => reply.send(state.notes.clone()),
            LedgerMsg::Ticks(reply) => reply.send(state.ticks.clone()),
            LedgerMsg::Answers(reply) => reply.send(state.answers.clone()),
            LedgerMsg::Whereabouts(reply) => {
                let host = ctx.host().as_str().to_owned();
                reply.send(Whereabouts { host, epoch: ctx.epoch().0, life: ctx.life().0 });
            }
            LedgerMsg::Save => ctx.checkpoint(),
            LedgerMsg::End(reason) => ctx.close(reason),
        }
        Ok(())
    }

    async fn answered(
        &self,
        _ctx: &mut RoomContext<Self>,
        name: &str,
        answer: Answer,
        state: &mut LedgerState,
    ) -> Result<(), ActorProcessingErr> {
        let answer = answer.decode::<u64>().map_err(|error| error.to_string());
        state.answers.push((name.to_owned(), answer));
        Ok(())
    }

    async fn before_freeze(
        &self,
        _ctx: &mut RoomContext<Self>,
        _state: &mut LedgerState,
    ) -> Result<(), ActorProcessingErr> {
        self.knobs.see(&self.host, Seen::Freezing);
        let takes = *lock(&self.knobs.0.freeze_takes);
        if !takes.is_zero() {
            tokio::time::sleep(takes).await; // the hook is slow, as the test wants it
        }
        let _ = self.knobs.0.freeze_held.subscribe().wait_for(|held| !*held).await;
        assert!(!take_one(&self.knobs.0.freeze_panics), "the hook panics");
        if take_one(&self.knobs.0.freeze_refusals) {
            return Err("the hook refuses".into());
        }
        self.knobs.see(&self.host, Seen::Frozen);
        Ok(())
    }

    async fn after_thaw(
        &self,
        _ctx: &mut RoomContext<Self>,
        _state: &mut LedgerState,
    ) -> Result<(), ActorProcessingErr> {
        self.knobs.see(&self.host, Seen::Thawed);
        Ok(())
    }

    async fn post_stop(&self, _state: &mut LedgerState) {
        self.knobs.see(&self.host, Seen::Stopped);
    }
}

impl<C> Ledger<C> {
    fn note(&self, from: SenderId, number: u64, state: &mut LedgerState) {
        self.knobs.see(&self.host, Seen::Handled(from, number));
        state.notes.push((from, number));
    }
}

fn remind<C: Class>(
    ctx: &mut RoomContext<Ledger<C>>,
    name: String,
    after_ms: u64,
    repeat: Option<MissedPolicy>,
) -> Result<(), ActorProcessingErr> {
    let (after, message) = (Duration::from_millis(after_ms), LedgerMsg::Tick(name.clone()));
    match repeat {
        Some(missed) => ctx.set_interval(&name, after, message, missed)?,
        None => ctx.set_timer(&name, after, message)?,
    }
    Ok(())
}

fn send_to<C: Class>(
    ctx: &mut RoomContext<Ledger<C>>,
    to: &Address,
    message: LedgerMsg,
) -> Result<(), ActorProcessingErr> {
    let sent = if to.durable {
        ctx.send_to::<Ledger<Durable>>(to.key.clone(), message)
    } else {
        ctx.send_to::<Ledger<Live>>(to.key.clone(), message)
    };
    sent.map_err(|error| error.to_string().into())
}

fn ask<C: Class>(
    ctx: &mut RoomContext<Ledger<C>>,
    of: &Address,
    name: String,
    make: fn(Reply<u64>) -> LedgerMsg,
    timeout: Duration,
) -> Result<(), ActorProcessingErr> {
    let asked = if of.durable {
        ctx.call_then::<Ledger<Durable>, u64>(of.key.clone(), name, make, timeout)
    } else {
        ctx.call_then::<Ledger<Live>, u64>(of.key.clone(), name, make, timeout)
    };
    asked.map_err(|error| error.to_string().into())
}

/// Makes the encoded state exactly `size` bytes.
fn grow(state: &mut LedgerState, size: usize) -> Result<(), ActorProcessingErr> {
    let size_with = |state: &mut LedgerState, length: usize| {
        state.ballast = (0..length).map(|i| (i % 251) as u8).collect::<Vec<_>>().into();
        body::encode(state, usize::MAX).map(|bytes| bytes.len())
    };
    let first = size_with(state, size)?;
    let second = size_with(state, size.saturating_sub(first - size))?;
    if second != size {
        return Err(format!("expected a state of {size} bytes, found {second}").into());
    }
    Ok(())
}

/// FNV-1a.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// What a document is told and asked.
#[allow(missing_docs, reason = "fields that say what they are")]
#[derive(Debug, Serialize, Deserialize)]
pub enum DocumentMsg {
    /// The writer changes the text.
    Edit { number: u64, edit: Edit },
    /// Somebody says something, only to be counted.
    Note { from: SenderId, number: u64 },
    /// The text and how many edits did not fit.
    Text(Reply<(String, u64)>),
    /// Who sent what, in order.
    Notes(Reply<Vec<(SenderId, u64)>>),
}

/// The sender of a document's edits.
pub const WRITER: SenderId = 0;

/// What a document holds.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct DocumentState {
    text: Text,
    notes: Vec<(SenderId, u64)>,
    misfits: u64,
}

#[derive(Debug, Default)]
struct Text(Rope);

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_string())
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Rope::from_str(&text)))
    }
}

/// The documents of one host; all begin with the same text.
pub struct Document<C> {
    start: String,
    class: PhantomData<fn() -> C>,
}

impl<C> Document<C> {
    /// Documents that begin so.
    pub fn new(start: &str) -> Self {
        Self { start: start.to_owned(), class: PhantomData }
    }
}

impl<C: Class> RoomActor for Document<C> {
    const KIND: &'static str = C::DOCUMENT;
    const DELIVERY: Delivery = C::DELIVERY;
    type Msg = DocumentMsg;
    type State = DocumentState;
    type Event = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _ctx: &mut RoomContext<Self>,
        (): (),
    ) -> Result<DocumentState, ActorProcessingErr> {
        Ok(DocumentState { text: Text(Rope::from_str(&self.start)), ..DocumentState::default() })
    }

    async fn handle(
        &self,
        _ctx: &mut RoomContext<Self>,
        msg: DocumentMsg,
        state: &mut DocumentState,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            DocumentMsg::Edit { number, edit } => {
                state.notes.push((WRITER, number));
                state.misfits += u64::from(!edit.apply(&mut state.text.0));
            }
            DocumentMsg::Note { from, number } => state.notes.push((from, number)),
            DocumentMsg::Text(reply) => reply.send((state.text.0.to_string(), state.misfits)),
            DocumentMsg::Notes(reply) => reply.send(state.notes.clone()),
        }
        Ok(())
    }
}

impl<C: Class> fmt::Debug for Ledger<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(C::LEDGER).field("host", &self.host).finish_non_exhaustive()
    }
}

impl<C: Class> fmt::Debug for Document<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(C::DOCUMENT).finish_non_exhaustive()
    }
}
