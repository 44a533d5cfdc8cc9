//! The in-process transport: the pure [`Store`] behind a lock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::StreamExt;
use futures::channel::mpsc;
use futures::stream::BoxStream;

use super::{Letter, Push, Transport, TransportFuture};
use crate::clock::Clock;
use crate::id::{Epoch, Generation, HostId, Incarnation, Millis, RoomId};
use crate::protocol::Store;
use crate::protocol::record::{Answer, Effect, RecordLimits, Request, SnapshotKey};
use crate::protocol::session::{OpenAnswer, SessionInfo, SessionSpec};
use crate::protocol::store::{Owned, Unrest};

/// A store in this process, for hosts in this process. Cheap to clone; clones share the store.
///
/// It is the embedded default and the reference that other transports are checked against. What it holds
/// ends with the process.
///
/// ```
/// use ractor_rooms::MemoryTransport;
///
/// let transport = MemoryTransport::new();
/// let shared = transport.clone(); // give one to each host
/// # let _ = shared;
/// ```
#[derive(Clone, Debug)]
pub struct MemoryTransport(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Clock,
    generation: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    store: Store,
    inboxes: BTreeMap<Incarnation, Inbox>,
    subscribers: BTreeMap<Incarnation, mpsc::Sender<Push>>,
    watchers: BTreeMap<RoomId, BTreeSet<Incarnation>>,
    /// Told of generations. What is not heard yet stands for all that follow.
    told: Vec<mpsc::Sender<()>>,
}

#[derive(Debug, Default)]
struct Inbox {
    last: u64,
    letters: VecDeque<Letter>,
}

/// Pushes that wait for one host. A push is a hint, so the ones that find no space are dropped.
const PUSH_QUEUE: usize = 16_384;
/// Letters that wait for one host.
const INBOX: usize = 65_536;

impl Default for MemoryTransport {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryTransport {
    /// An empty store with the default bounds and the system's clock.
    pub fn new() -> Self {
        Self::with(RecordLimits::default(), Clock::system())
    }

    /// An empty store with bounds and a clock of the caller's.
    pub fn with(limits: RecordLimits, clock: Clock) -> Self {
        Self(Arc::new(Shared {
            clock,
            generation: AtomicU64::new(1),
            state: Mutex::new(State {
                store: Store::new(limits),
                inboxes: BTreeMap::new(),
                subscribers: BTreeMap::new(),
                watchers: BTreeMap::new(),
                told: Vec::new(),
            }),
        }))
    }

    /// Looks at the store as it is, for tests and tools.
    pub fn inspect<T>(&self, look: impl FnOnce(&Store) -> T) -> T {
        look(&self.lock().store)
    }

    /// Loses snapshot bytes, for tests of what follows; whether they were there.
    pub fn lose_snapshot(&self, room: &RoomId, key: &SnapshotKey) -> bool {
        self.lock().store.lose_snapshot(room, key)
    }

    /// Loses a room's record, for tests of what follows; whether it was there.
    pub fn lose_record(&self, room: &RoomId) -> bool {
        self.lock().store.lose_record(room)
    }

    /// Has the store start again, for tests of what follows: every stream of pushes ends, and a new
    /// generation begins. With `earlier`, which [`MemoryTransport::inspect`] may have cloned, it comes back
    /// as it was then.
    pub fn restart(&self, earlier: Option<Store>) {
        self.begin(|state| match earlier {
            Some(earlier) => state.store.restart_from(earlier),
            None => state.store.restart(),
        });
    }

    /// Has the store forget everything while it is used, for tests of what follows.
    pub fn forget(&self) {
        self.begin(|state| {
            state.store.forget();
            state.inboxes.clear();
            state.watchers.clear();
        });
    }

    fn begin(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.subscribers.clear();
        self.0.generation.store(state.store.generation().0, Ordering::SeqCst);
        for told in &mut state.told {
            let _ = told.try_send(()); // full, or gone
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock is held would have to come from the store itself, whose steps leave it
        // consistent at every return.
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.store.advance(self.0.clock.now());
        state
    }
}

impl State {
    fn push(&mut self, to: &Incarnation, push: Push) {
        let gone = match self.subscribers.get_mut(to) {
            Some(subscriber) => subscriber.try_send(push).is_err_and(|e| e.is_disconnected()),
            None => false,
        };
        if gone {
            self.subscribers.remove(to);
        }
    }

    fn perform(&mut self, room: &RoomId, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Push { to, epoch, generation, entry } => {
                    self.push(&to, Push::Entry { room: room.clone(), epoch, generation, entry });
                }
                Effect::Offered { to, notice } => {
                    if let Some(to) = self.subscribers.keys().rfind(|i| i.host == to).cloned() {
                        self.push(&to, Push::Offered { room: room.clone(), notice });
                    }
                }
                Effect::Moved { to, settled } => {
                    self.push(&to, Push::Moved { room: room.clone(), settled });
                }
                Effect::Events { life, first, events } => self.tell_watchers(room, || {
                    Push::Events { room: room.clone(), life, first, events: events.clone() }
                }),
                Effect::Closed { life, reason } => self.tell_watchers(room, || Push::Closed {
                    room: room.clone(),
                    life,
                    reason: reason.clone(),
                }),
                Effect::DropSnapshot(_) => {} // the store did
            }
        }
    }

    fn tell_watchers(&mut self, room: &RoomId, push: impl Fn() -> Push) {
        for watcher in self.watchers.get(room).cloned().into_iter().flatten() {
            self.push(&watcher, push());
        }
    }

    fn forget(&mut self, by: &Incarnation) {
        self.inboxes.remove(by);
        self.subscribers.remove(by);
        self.watchers.retain(|_, watchers| {
            watchers.remove(by);
            !watchers.is_empty()
        });
    }
}

/// The operations are done when they are called, not when they are awaited.
fn done<'a, T: Send + 'a>(value: T) -> TransportFuture<'a, T> {
    std::future::ready(Ok(value)).boxed()
}

impl Transport for MemoryTransport {
    fn generation(&self, _: &RoomId) -> Generation {
        self.newest_generation()
    }

    fn newest_generation(&self) -> Generation {
        Generation(self.0.generation.load(Ordering::SeqCst))
    }

    fn generations(&self) -> BoxStream<'static, ()> {
        let (told, generations) = mpsc::channel(0); // each sender has a place of its own
        let mut state = self.lock();
        state.told.retain(|told| !told.is_closed());
        state.told.push(told);
        generations.boxed()
    }

    fn execute(
        &self,
        room: &RoomId,
        request: Request,
        floor: Epoch,
    ) -> TransportFuture<'_, Answer> {
        let mut state = self.lock();
        let (answer, effects) = state.store.step(room, request, floor);
        state.perform(room, effects);
        done(answer)
    }

    fn put_snapshot(
        &self,
        room: &RoomId,
        key: SnapshotKey,
        bytes: Bytes,
    ) -> TransportFuture<'_, ()> {
        self.lock().store.put_snapshot(room, key, bytes);
        done(())
    }

    fn get_snapshot(&self, room: &RoomId, key: &SnapshotKey) -> TransportFuture<'_, Option<Bytes>> {
        done(self.lock().store.snapshot(room, key))
    }

    fn open_session(
        &self,
        host: &HostId,
        ttl: Duration,
        spec: SessionSpec,
    ) -> TransportFuture<'_, OpenAnswer> {
        let mut state = self.lock();
        let answer = state.store.open_session(host, Millis::of(ttl).0, spec);
        if let OpenAnswer::Opened(_) = answer {
            // An incarnation that never ended its session is over now; so is what was kept for it.
            let old: Vec<_> = state.inboxes.keys().filter(|i| i.host == *host).cloned().collect();
            let subscribed: Vec<_> =
                state.subscribers.keys().filter(|i| i.host == *host).cloned().collect();
            for incarnation in old.iter().chain(&subscribed) {
                state.forget(incarnation);
            }
            state.store.drop_orphans();
        }
        done(answer)
    }

    fn renew_session(
        &self,
        by: &Incarnation,
        ttl: Duration,
        spec: SessionSpec,
    ) -> TransportFuture<'_, bool> {
        done(self.lock().store.renew_session(by, Millis::of(ttl).0, spec))
    }

    fn close_session(&self, by: &Incarnation) -> TransportFuture<'_, ()> {
        let mut state = self.lock();
        state.store.close_session(by);
        state.forget(by);
        state.store.drop_orphans();
        done(())
    }

    fn sessions(&self) -> TransportFuture<'_, Vec<SessionInfo>> {
        done(self.lock().store.sessions())
    }

    fn owned(&self, by: &Incarnation) -> TransportFuture<'_, Vec<Owned>> {
        done(self.lock().store.owned(by))
    }

    fn unrest(&self, after: Option<&RoomId>, limit: usize) -> TransportFuture<'_, Vec<Unrest>> {
        done(self.lock().store.unrest(after, limit))
    }

    fn post(&self, to: &Incarnation, letter: Bytes) -> TransportFuture<'_, bool> {
        let mut state = self.lock();
        if !state.store.sessions().iter().any(|s| s.incarnation == *to) {
            return done(false);
        }
        let inbox = state.inboxes.entry(to.clone()).or_default();
        if inbox.letters.len() >= INBOX {
            return done(false);
        }
        inbox.last += 1;
        let position = inbox.last;
        inbox.letters.push_back(Letter { position, letter: letter.clone() });
        state.push(to, Push::Letter { position, letter });
        done(true)
    }

    fn read_inbox(&self, by: &Incarnation, after: u64) -> TransportFuture<'_, Vec<Letter>> {
        let mut state = self.lock();
        let Some(inbox) = state.inboxes.get_mut(by) else {
            return done(Vec::new());
        };
        // Who has read further than it goes has read another one, which is lost.
        let other = inbox.last < after;
        while !other && inbox.letters.front().is_some_and(|l| l.position <= after) {
            inbox.letters.pop_front();
        }
        let letters = inbox.letters.iter().cloned().collect();
        done(letters)
    }

    fn subscribe(&self, by: &Incarnation) -> TransportFuture<'_, BoxStream<'static, Push>> {
        let (sender, receiver) = mpsc::channel(PUSH_QUEUE);
        self.lock().subscribers.insert(by.clone(), sender);
        done(receiver.boxed())
    }

    fn watch(&self, by: &Incarnation, room: &RoomId, on: bool) -> TransportFuture<'_, ()> {
        let mut state = self.lock();
        if on {
            state.watchers.entry(room.clone()).or_default().insert(by.clone());
        } else if let Some(watchers) = state.watchers.get_mut(room) {
            watchers.remove(by);
            if watchers.is_empty() {
                state.watchers.remove(room);
            }
        }
        done(())
    }
}
