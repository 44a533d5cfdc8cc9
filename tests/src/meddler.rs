//! A transport that meddles: the in-process one, with what a test does to it in between.

use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::stream::{self, BoxStream, StreamExt};
use futures::{FutureExt, TryFutureExt};
use ractor_rooms::MemoryTransport;
use ractor_rooms::id::{Epoch, Generation, HostId, Incarnation, RoomId};
use ractor_rooms::protocol::record::{Answer, Request, SnapshotKey};
use ractor_rooms::protocol::session::{OpenAnswer, SessionInfo, SessionSpec};
use ractor_rooms::protocol::store::{Owned, Unrest};
use ractor_rooms::transport::{Letter, Push, Transport, TransportFuture};
use tokio::sync::watch;

use crate::wait::in_time;

type Alter = Box<dyn Fn(Bytes) -> Bytes + Send>;
type Pick = Box<dyn Fn(&Request) -> bool + Send>;
type Swallow = Box<dyn Fn(&Request, &Answer) -> bool + Send>;

/// See the [module](self). Clones meddle with the same.
#[derive(Clone)]
pub struct Meddler(Arc<Inner>);

struct Inner {
    store: MemoryTransport,
    alter: Mutex<Option<Alter>>,
    swallow: Mutex<Option<Swallow>>,
    held: Mutex<Vec<(Pick, Held)>>,
    letters: AtomicU64,
    snapshot_reads: AtomicU64,
    doubled: AtomicBool,
    muted: AtomicBool,
    ports: Mutex<BTreeMap<HostId, mpsc::UnboundedSender<Push>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Meddler {
    /// Does nothing yet to this store.
    pub fn new(store: MemoryTransport) -> Self {
        Self(Arc::new(Inner {
            store,
            alter: Mutex::default(),
            swallow: Mutex::default(),
            held: Mutex::default(),
            letters: AtomicU64::new(0),
            snapshot_reads: AtomicU64::new(0),
            doubled: AtomicBool::new(false),
            muted: AtomicBool::new(false),
            ports: Mutex::default(),
        }))
    }

    /// Who reads a snapshot gets other bytes than those that are stored.
    pub fn alter_snapshots(&self, alter: impl Fn(Bytes) -> Bytes + Send + 'static) {
        *lock(&self.0.alter) = Some(Box::new(alter));
    }

    /// Who reads a snapshot gets it as it is stored.
    pub fn heal_snapshots(&self) {
        *lock(&self.0.alter) = None;
    }

    /// How often a snapshot was read.
    pub fn snapshot_reads(&self) -> u64 {
        self.0.snapshot_reads.load(Ordering::SeqCst)
    }

    /// Requests whose answers this picks are carried out, and their answers never come.
    pub fn swallow(&self, pick: impl Fn(&Request, &Answer) -> bool + Send + 'static) {
        *lock(&self.0.swallow) = Some(Box::new(pick));
    }

    /// Every answer comes again.
    pub fn swallow_nothing(&self) {
        *lock(&self.0.swallow) = None;
    }

    /// Requests that this picks wait on their way, until they are released.
    pub fn hold(&self, pick: impl Fn(&Request) -> bool + Send + 'static) -> Held {
        let held = Held::default();
        lock(&self.0.held).push((Box::new(pick), held.clone()));
        held
    }

    /// How many letters were posted.
    pub fn letters(&self) -> u64 {
        self.0.letters.load(Ordering::SeqCst)
    }

    /// Whether every push comes twice.
    pub fn double_pushes(&self, doubled: bool) {
        self.0.doubled.store(doubled, Ordering::SeqCst);
    }

    /// Whether every push is lost.
    pub fn mute_pushes(&self, muted: bool) {
        self.0.muted.store(muted, Ordering::SeqCst);
    }

    /// Gives a host a push that the store never sent.
    ///
    /// # Panics
    /// When the host does not listen.
    pub fn push(&self, host: &HostId, push: Push) {
        lock(&self.0.ports)[host].unbounded_send(push).expect("the host listens");
    }
}

/// Requests that are held on their way.
#[derive(Clone, Debug, Default)]
pub struct Held {
    met: watch::Sender<bool>,
    released: watch::Sender<bool>,
}

impl Held {
    /// Waits until there is one.
    ///
    /// # Panics
    /// When there is none in time.
    pub async fn met(&self) {
        let mut met = self.met.subscribe();
        let _ = in_time("a request is held", met.wait_for(|met| *met)).await;
    }

    /// Lets them go on, and all that come later.
    pub fn release(&self) {
        self.released.send_replace(true);
    }
}

impl Transport for Meddler {
    fn generation(&self, room: &RoomId) -> Generation {
        self.0.store.generation(room)
    }

    fn newest_generation(&self) -> Generation {
        self.0.store.newest_generation()
    }

    fn generations(&self) -> BoxStream<'static, ()> {
        self.0.store.generations()
    }

    fn execute(
        &self,
        room: &RoomId,
        request: Request,
        floor: Epoch,
    ) -> TransportFuture<'_, Answer> {
        let room = room.clone();
        async move {
            let held = {
                let held = lock(&self.0.held);
                held.iter().find(|(pick, _)| pick(&request)).map(|(_, held)| held.clone())
            };
            if let Some(held) = held {
                held.met.send_replace(true);
                // Fails only without a sender, and this holds one.
                let _ = held.released.subscribe().wait_for(|released| *released).await;
            }
            let answer = self.0.store.execute(&room, request.clone(), floor).await?;
            let swallowed = lock(&self.0.swallow).as_ref().is_some_and(|s| s(&request, &answer));
            if swallowed {
                pending::<()>().await;
            }
            Ok(answer)
        }
        .boxed()
    }

    fn put_snapshot(
        &self,
        room: &RoomId,
        key: SnapshotKey,
        bytes: Bytes,
    ) -> TransportFuture<'_, ()> {
        self.0.store.put_snapshot(room, key, bytes)
    }

    fn get_snapshot(&self, room: &RoomId, key: &SnapshotKey) -> TransportFuture<'_, Option<Bytes>> {
        self.0.snapshot_reads.fetch_add(1, Ordering::SeqCst);
        let bytes = self.0.store.get_snapshot(room, key);
        bytes
            .map_ok(|bytes| {
                let alter = lock(&self.0.alter);
                bytes
                    .map(|bytes| alter.as_ref().map_or_else(|| bytes.clone(), |a| a(bytes.clone())))
            })
            .boxed()
    }

    fn open_session(
        &self,
        host: &HostId,
        ttl: Duration,
        spec: SessionSpec,
    ) -> TransportFuture<'_, OpenAnswer> {
        self.0.store.open_session(host, ttl, spec)
    }

    fn renew_session(
        &self,
        by: &Incarnation,
        ttl: Duration,
        spec: SessionSpec,
    ) -> TransportFuture<'_, bool> {
        self.0.store.renew_session(by, ttl, spec)
    }

    fn close_session(&self, by: &Incarnation) -> TransportFuture<'_, ()> {
        self.0.store.close_session(by)
    }

    fn sessions(&self) -> TransportFuture<'_, Vec<SessionInfo>> {
        self.0.store.sessions()
    }

    fn owned(&self, by: &Incarnation) -> TransportFuture<'_, Vec<Owned>> {
        self.0.store.owned(by)
    }

    fn unrest(&self, after: Option<&RoomId>, limit: usize) -> TransportFuture<'_, Vec<Unrest>> {
        self.0.store.unrest(after, limit)
    }

    fn post(&self, to: &Incarnation, letter: Bytes) -> TransportFuture<'_, bool> {
        let posted = self.0.store.post(to, letter);
        self.0.letters.fetch_add(1, Ordering::SeqCst);
        posted
    }

    fn read_inbox(&self, by: &Incarnation, after: u64) -> TransportFuture<'_, Vec<Letter>> {
        self.0.store.read_inbox(by, after)
    }

    fn subscribe(&self, by: &Incarnation) -> TransportFuture<'_, BoxStream<'static, Push>> {
        let (port, injected) = mpsc::unbounded();
        lock(&self.0.ports).insert(by.host.clone(), port);
        let inner = self.0.clone();
        let pushes = self.0.store.subscribe(by);
        pushes
            .map_ok(move |pushes| {
                let meddled = pushes.flat_map(move |push| {
                    let times = match &inner {
                        inner if inner.muted.load(Ordering::SeqCst) => 0,
                        inner if inner.doubled.load(Ordering::SeqCst) => 2,
                        _ => 1,
                    };
                    stream::iter(std::iter::repeat_n(push, times))
                });
                stream::select(meddled, injected).boxed()
            })
            .boxed()
    }

    fn watch(&self, by: &Incarnation, room: &RoomId, on: bool) -> TransportFuture<'_, ()> {
        self.0.store.watch(by, room, on)
    }
}

impl fmt::Debug for Meddler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meddler").finish_non_exhaustive()
    }
}
