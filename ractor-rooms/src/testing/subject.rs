//! What is tested: a store that is empty, and the few things that only its author knows how to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::clock::Clock;
use crate::id::{Millis, RoomId};
use crate::protocol::record::{RecordLimits, SnapshotKey};
use crate::transport::{MemoryTransport, Transport};

/// One empty store, or one fresh namespace of a shared one, for one check.
pub trait Subject: Send + Sync + std::fmt::Debug {
    /// A transport onto the store. A check asks more than once: each is one more connection to the same
    /// store, as another host would have, or a clone where there are no connections.
    fn connect(&self) -> BoxFuture<'_, Arc<dyn Transport>>;

    /// How long a session lasts that a check lets lapse. It must be longer than a check takes until
    /// then: a second or two for a store with a real clock.
    fn ttl(&self) -> Duration;

    /// The bounds that the store has been given. They should be small, and `blocked_ms` not above
    /// [`Subject::ttl`].
    fn limits(&self) -> RecordLimits {
        small_limits(self.ttl())
    }

    /// Lets so much time pass that every session which was opened or renewed for [`Subject::ttl`] has
    /// lapsed.
    fn let_sessions_lapse(&self) -> BoxFuture<'_, ()>;

    /// Begins another generation, with everything as it is; `false` if it cannot be done here, and what
    /// depends on it is then not checked.
    fn begin_generation(&self) -> BoxFuture<'_, bool> {
        std::future::ready(false).boxed()
    }

    /// Loses everything that the store holds, while it is used; `false` if it cannot be done here.
    fn forget(&self) -> BoxFuture<'_, bool> {
        std::future::ready(false).boxed()
    }

    /// Whether the doubts of a new generation end once every session says that it has proved it, and not
    /// only after a time.
    fn ends_doubts_early(&self) -> bool {
        true
    }

    /// How long a push may take that must come.
    fn patience(&self) -> Duration {
        Duration::from_secs(5)
    }

    /// How long to listen for a push that must not come.
    fn quiet(&self) -> Duration {
        Duration::from_millis(100)
    }

    /// Loses the bytes of a snapshot, as a store does that went back in time; `false` if it cannot be
    /// done here, and what depends on it is then not checked.
    fn lose_snapshot<'a>(
        &'a self,
        _room: &'a RoomId,
        _key: &'a SnapshotKey,
    ) -> BoxFuture<'a, bool> {
        std::future::ready(false).boxed()
    }

    /// Loses a room's record and nothing else, as when its key is deleted by hand; `false` if it cannot be done
    /// here, and what depends on it is then not checked.
    fn lose_record<'a>(&'a self, _room: &'a RoomId) -> BoxFuture<'a, bool> {
        std::future::ready(false).boxed()
    }
}

/// Bounds that a check reaches in a moment.
pub fn small_limits(ttl: Duration) -> RecordLimits {
    RecordLimits {
        log_entries: 128,
        log_bytes: 64 << 10,
        producers: 16,
        history: 16,
        dead_letters: 8,
        failed_adoptions: 3,
        blocked_ms: Millis::of(ttl).0,
    }
}

/// The in-process transport as a subject. Its time stands still, or ticks with each call, and jumps
/// where sessions shall lapse.
#[derive(Clone, Debug)]
pub struct MemorySubject {
    transport: MemoryTransport,
    now: Arc<AtomicU64>,
}

impl Default for MemorySubject {
    fn default() -> Self {
        Self::new()
    }
}

impl MemorySubject {
    const TTL: Duration = Duration::from_secs(60);

    /// An empty store whose time stands still.
    pub fn new() -> Self {
        Self::with_tick(0)
    }

    /// An empty store whose time goes on by a millisecond with each look at it.
    pub fn ticking() -> Self {
        Self::with_tick(1)
    }

    fn with_tick(tick: u64) -> Self {
        let now = Arc::new(AtomicU64::new(1_000_000));
        let read = Arc::clone(&now);
        let clock =
            Clock::manual(move || Duration::from_millis(read.fetch_add(tick, Ordering::SeqCst)));
        Self { transport: MemoryTransport::with(small_limits(Self::TTL), clock), now }
    }

    /// The transport itself.
    pub fn transport(&self) -> &MemoryTransport {
        &self.transport
    }
}

impl Subject for MemorySubject {
    fn connect(&self) -> BoxFuture<'_, Arc<dyn Transport>> {
        let transport: Arc<dyn Transport> = Arc::new(self.transport.clone());
        std::future::ready(transport).boxed()
    }

    fn ttl(&self) -> Duration {
        Self::TTL
    }

    fn let_sessions_lapse(&self) -> BoxFuture<'_, ()> {
        let ttl = Millis::of(Self::TTL).0;
        self.now.fetch_add(ttl + 1, Ordering::SeqCst);
        std::future::ready(()).boxed()
    }

    fn quiet(&self) -> Duration {
        Duration::from_millis(5)
    }

    fn begin_generation(&self) -> BoxFuture<'_, bool> {
        self.transport.restart(None);
        std::future::ready(true).boxed()
    }

    fn forget(&self) -> BoxFuture<'_, bool> {
        self.transport.forget();
        std::future::ready(true).boxed()
    }

    fn lose_snapshot<'a>(&'a self, room: &'a RoomId, key: &'a SnapshotKey) -> BoxFuture<'a, bool> {
        std::future::ready(self.transport.lose_snapshot(room, key)).boxed()
    }

    fn lose_record<'a>(&'a self, room: &'a RoomId) -> BoxFuture<'a, bool> {
        std::future::ready(self.transport.lose_record(room)).boxed()
    }
}
