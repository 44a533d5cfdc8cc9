//! What a room's handler can do.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use parking_lot::Mutex;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::core::HostCore;
use super::emitter::Emitter;
use super::error::RoomErr;
use super::reply::{Outcome, Reply, ReplyAddr, ReplySink};
use super::room_actor::RoomActor;
use super::runner_handle::RunnerShared;
use super::scope::Scope;
use super::timers::{MAX_TIMERS, MissedPolicy, TimerInfo, TimerTable};
use super::wire::{EventPayload, PendingCall, encode_event, encode_message};
use crate::codec::CodecErr;
use crate::delivery::Delivery;
use crate::id::{Epoch, HostId, Life, Millis, Position, RoomId};
use crate::protocol::placement::mix;

/// Why a room could not emit or set a timer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ContextErr {
    /// The room has too many timers.
    #[error("expected at most {limit} timers")]
    TooManyTimers {
        /// The limit.
        limit: usize,
    },
    /// The name begins with a zero byte.
    #[error("expected a name that does not begin with a zero byte, found {name:?}")]
    ReservedName {
        /// The name.
        name: String,
    },
    /// It cannot be encoded, or is too large.
    #[error(transparent)]
    Codec(#[from] CodecErr),
}

/// The room as its handler sees it: who and where it is, what time it is, and what it can send.
///
/// What a handler sends, emits or answers through the context leaves once the handler returned `Ok`. A
/// handler that fails leaves nothing.
pub struct RoomContext<R: RoomActor> {
    pub(crate) core: Arc<HostCore>,
    pub(crate) shared: Arc<RunnerShared>,
    pub(crate) sink: Arc<RoomSink>,
    pub(crate) emitter: Arc<Emitter>,
    pub(crate) timers: TimerTable,
    pub(crate) calls: BTreeMap<u64, PendingCall>,
    pub(crate) next_call: u64,
    pub(crate) rng_count: u64,
    /// The entry that is handled, for a durable room's clock and randomness.
    pub(crate) input: (Position, u64),
    pub(crate) exits: Exits,
    pub(crate) kind: PhantomData<fn() -> R>,
}

/// What a handler wants to leave the room.
#[derive(Default)]
pub(crate) struct Exits {
    pub(crate) events: Vec<Bytes>,
    pub(crate) sends: Vec<(RoomId, Bytes)>,
    pub(crate) checkpoint: bool,
    pub(crate) close: Option<String>,
}

impl<R: RoomActor> RoomContext<R> {
    /// The room.
    pub fn room(&self) -> &RoomId {
        &self.shared.room
    }

    /// The host it runs on.
    pub fn host(&self) -> &HostId {
        &self.core.id
    }

    /// The fencing token: grows with every acquisition of the room. An app that keeps state in a
    /// database of its own writes it along and refuses lower ones.
    pub fn epoch(&self) -> Epoch {
        self.shared.lease.epoch
    }

    /// The number of the room's birth.
    pub fn life(&self) -> Life {
        self.shared.life
    }

    /// The time. A durable room gets the time at which the message that it handles was logged, so that a
    /// replay sees the same.
    pub fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.now_ms().0)
    }

    pub(crate) fn now_ms(&self) -> Millis {
        match R::DELIVERY {
            Delivery::Durable if self.input.0 != Position::START => Millis(self.input.0.ms),
            Delivery::Durable | Delivery::Live => self.core.clock.now(),
        }
    }

    /// Random numbers. A durable room gets the same ones for the same message when it is replayed.
    pub fn rng(&mut self) -> impl rand::Rng + use<R> {
        self.rng_count += 1;
        let mut seed = [0u8; 32];
        let (position, index) = self.input;
        let parts = match R::DELIVERY {
            Delivery::Durable => {
                [self.life().0, position.ms, position.n ^ (index << 32), self.rng_count]
            }
            Delivery::Live => {
                [self.life().0, self.epoch().0, self.core.clock.now().0, self.rng_count]
            }
        };
        for (chunk, part) in seed.chunks_exact_mut(8).zip(parts) {
            chunk.copy_from_slice(&part.to_be_bytes());
        }
        ChaCha8Rng::from_seed(seed)
    }

    /// Publishes an event to the room's members. While very many wait to be published, the room handles
    /// no further message.
    ///
    /// # Errors
    /// [`ContextErr::Codec`] when it cannot be encoded or is over the limit of a message.
    pub fn emit(&mut self, event: R::Event) -> Result<(), ContextErr> {
        let limit = self.core.config.max_message_bytes;
        self.exits.events.push(encode_event(&EventPayload::App(event), limit)?);
        self.mark();
        Ok(())
    }

    /// Sends a message to another room, at most once per handled message of this one however often it is
    /// replayed. Messages to one room arrive in the order in which they were sent. While very many wait to
    /// be accepted, this room handles no further message.
    ///
    /// # Errors
    /// [`RoomErr`] with the message, when the key is none or the message is too large.
    pub fn send_to<T: RoomActor>(
        &mut self,
        key: impl Into<Bytes>,
        message: T::Msg,
    ) -> Result<(), RoomErr<T::Msg>> {
        let room = match RoomId::new(T::KIND, key) {
            Ok(room) => room,
            Err(error) => return Err(RoomErr::Address { error, message }),
        };
        let limit = self.core.config.max_message_bytes;
        let scope = self.scope();
        match scope.run(|| encode_message(&message, T::MESSAGE_VERSION, limit)) {
            Ok(frame) => {
                self.exits.sends.push((room, frame));
                self.mark();
                Ok(())
            }
            Err(CodecErr::TooLarge { size, limit }) => {
                Err(RoomErr::TooLarge { size, limit, message })
            }
            Err(error) => Err(RoomErr::Encode { error, message }),
        }
    }

    /// Calls another room without waiting: the answer, or its absence after `timeout`, comes to
    /// [`RoomActor::answered`] under `name`, wherever this room then runs.
    ///
    /// # Errors
    /// [`RoomErr`] with the message, as [`RoomContext::send_to`].
    pub fn call_then<T: RoomActor, A: DeserializeOwned + Send + 'static>(
        &mut self,
        key: impl Into<Bytes>,
        name: impl Into<String>,
        message: impl FnOnce(Reply<A>) -> T::Msg,
        timeout: Duration,
    ) -> Result<(), RoomErr<T::Msg>> {
        let count = self.next_call + 1;
        let call = self.call_number(count);
        let addr = ReplyAddr::Room { room: self.room().clone(), life: self.life(), call };
        let reply = Reply::addressed(addr, Arc::new(NoSink));
        self.send_to::<T>(key, message(reply))?;
        self.next_call = count;
        let deadline = self.now_ms().after(timeout);
        self.mark();
        self.calls.insert(call, PendingCall { name: name.into(), deadline });
        Ok(())
    }

    /// The number of the next call, which its answer names. A replay gives it the same one. In a durable room it is that of
    /// the message that makes it: had the store lost messages, and were they handled in another order since, a mere count
    /// would take the answer to one call for that to another.
    fn call_number(&self, count: u64) -> u64 {
        let (position, index) = self.input;
        if position == Position::START {
            return count;
        }
        // From nothing, so that the count is mixed before it meets the time: neighbours would meet otherwise.
        let parts = [count, position.ms, position.n, index];
        parts.into_iter().fold(0u64, |number, part| mix(number.wrapping_add(part)))
    }

    /// Sets a timer that sends `message` to this room once, `after` from [`RoomContext::now`]. A timer
    /// of the same name is replaced.
    ///
    /// # Errors
    /// [`ContextErr`] when the message cannot be encoded or there are too many timers.
    pub fn set_timer(
        &mut self,
        name: &str,
        after: Duration,
        message: R::Msg,
    ) -> Result<(), ContextErr> {
        self.set(name, after, None, MissedPolicy::FireOnce, message)
    }

    /// Sets a timer that sends `message` to this room every `every`, first after that time. A timer of
    /// the same name is replaced. `missed` says what happens to ticks that came due while nobody ran the
    /// room.
    ///
    /// # Errors
    /// [`ContextErr`] when the message cannot be encoded or there are too many timers.
    pub fn set_interval(
        &mut self,
        name: &str,
        every: Duration,
        message: R::Msg,
        missed: MissedPolicy,
    ) -> Result<(), ContextErr> {
        self.set(name, every, Some(every), missed, message)
    }

    fn set(
        &mut self,
        name: &str,
        after: Duration,
        every: Option<Duration>,
        missed: MissedPolicy,
        message: R::Msg,
    ) -> Result<(), ContextErr> {
        if name.starts_with('\0') {
            return Err(ContextErr::ReservedName { name: name.to_owned() });
        }
        let limit = self.core.config.max_message_bytes;
        let scope = self.scope();
        let frame = scope.run(|| encode_message(&message, R::MESSAGE_VERSION, limit))?;
        let due = self.now_ms().after(after);
        if !self.timers.set(name, due, every, missed, frame) {
            return Err(ContextErr::TooManyTimers { limit: MAX_TIMERS });
        }
        self.mark();
        Ok(())
    }

    /// Cancels a timer; whether there was one. It does not fire any more, also if it is due already.
    pub fn cancel_timer(&mut self, name: &str) -> bool {
        self.mark();
        self.timers.cancel(name)
    }

    /// The timers that are set, by name.
    pub fn timers(&self) -> Vec<TimerInfo> {
        self.timers.list()
    }

    /// Asks for a checkpoint once the handler has returned.
    pub fn checkpoint(&mut self) {
        self.exits.checkpoint = true;
        self.mark();
    }

    /// Ends the room once the handler has returned and everything before in its log is handled. Later
    /// messages are refused with the reason.
    pub fn close(&mut self, reason: impl Into<String>) {
        self.exits.close = Some(reason.into());
        self.mark();
    }

    /// Something has to be done after the handler.
    fn mark(&self) {
        self.shared.dirty.store(true, Ordering::Relaxed);
    }

    pub(crate) fn scope(&self) -> Scope {
        Scope {
            calls: self.core.calls.clone(),
            incarnation: self.core.incarnation(),
            sink: self.sink.clone(),
        }
    }

    /// When something is due next: a timer, or the end of a call.
    pub(crate) fn next_deadline(&self) -> Option<Millis> {
        self.next_deadline_except(|_, _| false)
    }

    /// The same without what `skip` names.
    pub(crate) fn next_deadline_except(
        &self,
        skip: impl Fn(&str, Millis) -> bool,
    ) -> Option<Millis> {
        let calls = self.calls.iter().map(|(call, c)| (call_timer(*call), c.deadline));
        let call = calls.filter(|(name, at)| !skip(name, *at)).map(|(_, at)| at).min();
        match (self.timers.next_except(&skip), call) {
            (Some(timer), Some(call)) => Some(timer.min(call)),
            (timer, call) => timer.or(call),
        }
    }
}

/// Names the end of a call among the ticks. No timer of an app has such a name: its first byte is zero.
pub(crate) const CALL_TIMER: &str = "\0call:";

pub(crate) fn call_timer(call: u64) -> String {
    format!("{CALL_TIMER}{call}")
}

impl<R: RoomActor> std::fmt::Debug for RoomContext<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoomContext")
            .field("room", self.room())
            .field("epoch", &self.epoch())
            .finish_non_exhaustive()
    }
}

/// Takes the answers of one room. While a durable room's handler runs they are kept, because they leave
/// only if it returns `Ok`.
pub(crate) struct RoomSink {
    core: Arc<HostCore>,
    shared: Arc<RunnerShared>,
    keeping: AtomicBool,
    kept: Mutex<Vec<(ReplyAddr, Outcome)>>,
    ended: Mutex<Option<String>>,
}

impl RoomSink {
    pub(crate) fn new(core: Arc<HostCore>, shared: Arc<RunnerShared>) -> Arc<Self> {
        Arc::new(Self {
            core,
            shared,
            keeping: AtomicBool::new(false),
            kept: Mutex::default(),
            ended: Mutex::default(),
        })
    }

    /// The room ends: a reply that is dropped from now on says so.
    pub(crate) fn end(&self, reason: &str) {
        *self.ended.lock() = Some(reason.to_owned());
    }

    /// A durable room's handler starts.
    pub(crate) fn keep(&self) {
        self.keeping.store(true, Ordering::SeqCst);
    }

    /// It returned; `leave` when it returned `Ok`.
    pub(crate) fn settle(&self, leave: bool) {
        if !self.keeping.load(Ordering::SeqCst) {
            return; // nothing was kept since
        }
        let kept = {
            let mut kept = self.kept.lock();
            self.keeping.store(false, Ordering::SeqCst);
            std::mem::take(&mut *kept)
        };
        if leave {
            for (addr, outcome) in kept {
                self.core.deliver(addr, outcome);
            }
        }
    }
}

impl ReplySink for RoomSink {
    fn reply(&self, addr: ReplyAddr, outcome: Outcome) {
        if self.shared.muted.load(Ordering::SeqCst) {
            return;
        }
        let outcome = match (outcome, &*self.ended.lock()) {
            (Outcome::Dropped, Some(reason)) => Outcome::Closed { reason: reason.clone() },
            (outcome, _) => outcome,
        };
        {
            // Under the lock, so that nothing is kept after the last look at it.
            let mut kept = self.kept.lock();
            if self.keeping.load(Ordering::SeqCst) {
                return kept.push((addr, outcome));
            }
        }
        self.core.deliver(addr, outcome);
    }
}

/// For a reply that is only written: dropping it says nothing.
struct NoSink;

impl ReplySink for NoSink {
    fn reply(&self, _: ReplyAddr, _: Outcome) {}
}
