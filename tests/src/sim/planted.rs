//! The pure store with one bug of choice, so that the judge can be shown to find it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use ractor_rooms::MemoryTransport;
use ractor_rooms::id::{Epoch, Generation, HostId, Incarnation, Number, Position, RoomId};
use ractor_rooms::protocol::record::{Answer, AppendAnswer, OwnerAnswer, Request, SnapshotKey};
use ractor_rooms::protocol::session::{OpenAnswer, SessionInfo, SessionSpec};
use ractor_rooms::protocol::store::{Owned, Unrest};
use ractor_rooms::transport::{Letter, Push, Transport, TransportFuture};

use super::journal::Journal;

/// What the store does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A batch that is repeated is written again under new numbers (I2: handled once).
    AppendsRepeats,
    /// The last message of a batch is accepted and not written (I2: nothing accepted is lost).
    LosesMessages,
    /// The messages of a batch are written in reverse (I4: order of a sender).
    ReversesBatches,
    /// A checkpoint trims what came after its cursor, too (I2).
    TrimsTooMuch,
    /// What was emitted a while ago is pushed again under the next number (I5: events once).
    RepeatsEvents,
    /// A message that is given up leaves no dead letter (I10: nothing is dropped unreported).
    ForgetsDeadLetters,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::AppendsRepeats,
        Self::LosesMessages,
        Self::ReversesBatches,
        Self::TrimsTooMuch,
        Self::RepeatsEvents,
        Self::ForgetsDeadLetters,
    ];
}

/// Requests of one run, at most. A run has some thousands.
const REQUESTS: u64 = 100_000;

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Planted {
    /// The store, which has no bug of its own.
    pub inner: MemoryTransport,
    bug: Option<Bug>,
    /// Hears of every request, for whoever looks at one seed.
    trace: bool,
    journal: Journal,
    lost: Arc<AtomicBool>,
    requests: Arc<AtomicU64>,
}

impl Planted {
    /// The store, with a bug or without.
    pub fn new(inner: MemoryTransport, bug: Option<Bug>, trace: bool, journal: Journal) -> Self {
        Self { inner, bug, trace, journal, lost: Arc::default(), requests: Arc::default() }
    }

    /// So many requests are no work any more: somebody goes round in circles, and would for ever if time
    /// stood still. He is slowed down.
    fn circles(&self, room: &RoomId, request: &Request) -> bool {
        let requests = self.requests.fetch_add(1, Ordering::Relaxed);
        if requests == REQUESTS {
            self.journal
                .broken(format!("I6: {requests} requests; one of them: {room} {request:.200?}"));
        }
        requests >= REQUESTS
    }

    /// Changes what is asked; an answer instead of it where it is not carried out.
    fn before(&self, request: &mut Request) -> Option<Answer> {
        let bug = self.bug?;
        match (bug, &mut *request) {
            (Bug::ReversesBatches, Request::Append { batch, .. }) => batch.reverse(),
            (Bug::LosesMessages, Request::Append { batch, .. }) if batch.len() > 1 => {
                batch.pop();
                self.lost.store(true, Ordering::Relaxed);
            }
            (Bug::TrimsTooMuch, Request::Checkpoint { snapshot, .. }) => {
                snapshot.cursor = Position { ms: snapshot.cursor.ms + 200, n: 0 };
            }
            (Bug::ForgetsDeadLetters, Request::GiveUp { .. }) => {
                return Some(Answer::Owner(OwnerAnswer::Done));
            }
            _ => {}
        }
        None
    }
}

impl Transport for Planted {
    fn generation(&self, room: &RoomId) -> Generation {
        self.inner.generation(room)
    }

    fn newest_generation(&self) -> Generation {
        self.inner.newest_generation()
    }

    fn generations(&self) -> BoxStream<'static, ()> {
        self.inner.generations()
    }

    fn execute(
        &self,
        room: &RoomId,
        mut request: Request,
        floor: Epoch,
    ) -> TransportFuture<'_, Answer> {
        if let Some(answer) = self.before(&mut request) {
            return std::future::ready(Ok(answer)).boxed();
        }
        if self.circles(room, &request) {
            let room = room.clone();
            return async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.inner.execute(&room, request, floor).await
            }
            .boxed();
        }
        if self.trace && request != Request::Read {
            let asked = format!("{request:?}");
            let answer = self.inner.execute(room, request, floor).now_or_never();
            let Some(answer) = answer else { return std::future::pending().boxed() };
            self.journal.say(format!("  store: {room}: {asked:.300} -> {answer:?}"));
            return std::future::ready(answer).boxed();
        }
        let appended = match &request {
            Request::Append { .. } => self.bug.zip(Some(request.clone())),
            _ => None,
        };
        let answer = self.inner.execute(room, request, floor);
        let Some((bug, Request::Append { life, producer, epoch, first, batch })) = appended else {
            return answer;
        };
        // The pure store answers at once.
        let answer = match (bug, answer.now_or_never()) {
            (
                Bug::AppendsRepeats,
                Some(Ok(Answer::Append(AppendAnswer::Duplicate { last, .. }))),
            ) if !batch.is_empty() => {
                let first = last.next();
                let request = Request::Append { life, producer, epoch, first, batch };
                return self.inner.execute(room, request, floor);
            }
            (
                Bug::LosesMessages,
                Some(Ok(Answer::Append(AppendAnswer::Accepted { last, seq, life, standing }))),
            ) if !batch.is_empty() && last == Number(first.0 + batch.len() as u64 - 1) => {
                // What was taken off, see `before`.
                let last =
                    if self.lost.swap(false, Ordering::Relaxed) { last.next() } else { last };
                Ok(Answer::Append(AppendAnswer::Accepted { last, seq, life, standing }))
            }
            (_, Some(answer)) => answer,
            (_, None) => return std::future::pending().boxed(),
        };
        std::future::ready(answer).boxed()
    }

    fn put_snapshot(
        &self,
        room: &RoomId,
        key: SnapshotKey,
        bytes: Bytes,
    ) -> TransportFuture<'_, ()> {
        self.inner.put_snapshot(room, key, bytes)
    }

    fn get_snapshot(&self, room: &RoomId, key: &SnapshotKey) -> TransportFuture<'_, Option<Bytes>> {
        self.inner.get_snapshot(room, key)
    }

    fn open_session(
        &self,
        host: &HostId,
        ttl: Duration,
        spec: SessionSpec,
    ) -> TransportFuture<'_, OpenAnswer> {
        self.inner.open_session(host, ttl, spec)
    }

    fn renew_session(
        &self,
        by: &Incarnation,
        ttl: Duration,
        spec: SessionSpec,
    ) -> TransportFuture<'_, bool> {
        self.inner.renew_session(by, ttl, spec)
    }

    fn close_session(&self, by: &Incarnation) -> TransportFuture<'_, ()> {
        self.inner.close_session(by)
    }

    fn sessions(&self) -> TransportFuture<'_, Vec<SessionInfo>> {
        self.inner.sessions()
    }

    fn owned(&self, by: &Incarnation) -> TransportFuture<'_, Vec<Owned>> {
        self.inner.owned(by)
    }

    fn unrest(&self, after: Option<&RoomId>, limit: usize) -> TransportFuture<'_, Vec<Unrest>> {
        self.inner.unrest(after, limit)
    }

    fn post(&self, to: &Incarnation, letter: Bytes) -> TransportFuture<'_, bool> {
        self.inner.post(to, letter)
    }

    fn read_inbox(&self, by: &Incarnation, after: u64) -> TransportFuture<'_, Vec<Letter>> {
        self.inner.read_inbox(by, after)
    }

    fn subscribe(&self, by: &Incarnation) -> TransportFuture<'_, BoxStream<'static, Push>> {
        let pushes = self.inner.subscribe(by);
        if self.bug != Some(Bug::RepeatsEvents) {
            return pushes;
        }
        let repeated = |push| match push {
            Push::Events { room, life, first, mut events } => {
                if let Some(last) = events.last().cloned().filter(|_| first.0 % 5 == 0) {
                    events.push(last);
                }
                Push::Events { room, life, first, events }
            }
            push => push,
        };
        pushes.map(move |pushes| pushes.map(|pushes| pushes.map(repeated).boxed())).boxed()
    }

    fn watch(&self, by: &Incarnation, room: &RoomId, on: bool) -> TransportFuture<'_, ()> {
        self.inner.watch(by, room, on)
    }
}
