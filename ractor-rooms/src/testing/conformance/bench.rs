//! What the checks are written with: short names for the calls, and typed answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;

use super::super::Subject;
use crate::id::{
    Activation, Epoch, Generation, HostId, Incarnation, Life, Millis, Number, OutSeq, Position,
    Producer, RoomId, Seq, SnapshotNumber,
};
use crate::protocol::record::{
    AcquireAnswer, Acquired, Answer, AppendAnswer, CloseAnswer, DeclineReason, Entry, Lease,
    OfferAnswer, OwnerAnswer, Page, ParkReason, RecordLimits, RecordView, Request, Seen,
    SnapshotKey, SnapshotRef,
};
use crate::protocol::session::{HostState, OpenAnswer, SessionSpec};
use crate::transport::{Push, Transport};

/// A deadline that has passed.
pub(super) const PAST: Millis = Millis(1);
/// A deadline that is not reached: the year 2100.
pub(super) const FAR: Millis = Millis(4_102_444_800_000);

/// Takes a value apart, or says what it was instead.
macro_rules! given {
    ($value:expr, $pattern:pat $(if $guard:expr)? => $out:expr) => {
        match $value {
            $pattern $(if $guard)? => $out,
            other => panic!("expected {}, got {other:?}", stringify!($pattern $(if $guard)?)),
        }
    };
    ($value:expr, $pattern:pat $(if $guard:expr)?) => {
        $crate::testing::conformance::bench::given!($value, $pattern $(if $guard)? => ())
    };
}
pub(super) use given;

/// A store with two connections to it.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    pub(super) subject: &'a dyn Subject,
    /// Where owners call from.
    pub(super) here: Arc<dyn Transport>,
    /// Where everybody else does.
    pub(super) there: Arc<dyn Transport>,
    pub(super) limits: RecordLimits,
    count: AtomicU64,
}

pub(super) fn room(key: &str) -> RoomId {
    RoomId::new("conformance", key.to_owned()).unwrap()
}

pub(super) fn host_id(name: &str) -> HostId {
    HostId::new(name).unwrap()
}

/// A producer that only these checks know, born at a small number.
pub(super) fn producer(name: &str, birth: u64) -> Producer {
    Producer::Host(Incarnation { host: host_id(name), number: birth })
}

pub(super) fn batch(messages: &[&str]) -> Vec<Bytes> {
    messages.iter().map(|m| Bytes::copy_from_slice(m.as_bytes())).collect()
}

pub(super) fn spec(load: u32) -> SessionSpec {
    SessionSpec {
        state: HostState::Ready,
        load,
        capacity: 8,
        weight: 1,
        kinds: [(crate::id::Kind::new("conformance").unwrap(), 1)].into(),
        proved: Generation(0),
        holds: None,
    }
}

impl<'a> Bench<'a> {
    pub(super) async fn new(subject: &'a dyn Subject) -> Self {
        Self {
            subject,
            here: subject.connect().await,
            there: subject.connect().await,
            limits: subject.limits(),
            count: AtomicU64::new(0),
        }
    }

    /// A host whose session outlives the check.
    pub(super) async fn host(&self, name: &str) -> Incarnation {
        self.host_for(name, self.subject.ttl() * 1_000).await
    }

    /// A host whose session lapses with `let_sessions_lapse`.
    pub(super) async fn mortal(&self, name: &str) -> Incarnation {
        self.host_for(name, self.subject.ttl()).await
    }

    async fn host_for(&self, name: &str, ttl: Duration) -> Incarnation {
        let answer = self.here.open_session(&host_id(name), ttl, spec(0)).await.unwrap();
        given!(answer, OpenAnswer::Opened(incarnation) => incarnation)
    }

    /// A new acquisition of a host's.
    pub(super) fn activation(&self, by: &Incarnation) -> Activation {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        Activation { by: by.clone(), number }
    }

    /// From an owner.
    pub(super) async fn ask(&self, room: &RoomId, request: Request) -> Answer {
        self.here.execute(room, request, Epoch(0)).await.unwrap()
    }

    /// From anybody.
    pub(super) async fn ask_there(&self, room: &RoomId, request: Request) -> Answer {
        self.there.execute(room, request, Epoch(0)).await.unwrap()
    }

    pub(super) async fn view(&self, room: &RoomId) -> RecordView {
        given!(self.ask(room, Request::Read).await, Answer::View(Some(view)) => *view)
    }

    pub(super) async fn append(
        &self,
        room: &RoomId,
        producer: &Producer,
        first: u64,
        messages: &[&str],
    ) -> AppendAnswer {
        self.append_as(room, None, producer, 0, first, batch(messages)).await
    }

    pub(super) async fn append_as(
        &self,
        room: &RoomId,
        life: Option<Life>,
        producer: &Producer,
        epoch: u64,
        first: u64,
        batch: Vec<Bytes>,
    ) -> AppendAnswer {
        let producer = producer.clone();
        let request = Request::Append { life, producer, epoch, first: Number(first), batch };
        given!(self.ask_there(room, request).await, Answer::Append(answer) => answer)
    }

    /// Appends what must be accepted; the room's `seq` after it.
    pub(super) async fn accepted(
        &self,
        room: &RoomId,
        producer: &Producer,
        first: u64,
        messages: &[&str],
    ) -> Seq {
        let answer = self.append(room, producer, first, messages).await;
        given!(answer, AppendAnswer::Accepted { seq, .. } => seq)
    }

    pub(super) async fn offer(&self, room: &RoomId, to: &str, until: Millis) -> OfferAnswer {
        let request = Request::Offer { to: host_id(to), until, create: true };
        given!(self.ask_there(room, request).await, Answer::Offer(answer) => answer)
    }

    /// An offer that must take effect; the room's life.
    pub(super) async fn offered(&self, room: &RoomId, to: &str, until: Millis) -> Life {
        given!(self.offer(room, to, until).await, OfferAnswer::Done { life } => life)
    }

    /// A decline of a host that is only too busy.
    pub(super) async fn decline(&self, room: &RoomId, by: &str) -> OfferAnswer {
        self.decline_for(room, by, DeclineReason::OverCapacity).await
    }

    pub(super) async fn decline_for(
        &self,
        room: &RoomId,
        by: &str,
        why: DeclineReason,
    ) -> OfferAnswer {
        let request = Request::Decline { by: host_id(by), why };
        given!(self.ask_there(room, request).await, Answer::Offer(answer) => answer)
    }

    pub(super) async fn acquire_seen(
        &self,
        room: &RoomId,
        activation: &Activation,
        seen: &Seen,
    ) -> AcquireAnswer {
        let request = Request::Acquire { activation: activation.clone(), seen: seen.clone() };
        given!(self.ask(room, request).await, Answer::Acquire(answer) => answer)
    }

    /// An acquire that looked first.
    pub(super) async fn acquire(&self, room: &RoomId, by: &Incarnation) -> AcquireAnswer {
        let seen = self.view(room).await.seen;
        self.acquire_seen(room, &self.activation(by), &seen).await
    }

    /// An acquire that must succeed.
    pub(super) async fn own(&self, room: &RoomId, by: &Incarnation) -> Acquired {
        given!(self.acquire(room, by).await, AcquireAnswer::Acquired(acquired) => *acquired)
    }

    /// A new room, run by a host.
    pub(super) async fn start(&self, room: &RoomId, by: &Incarnation) -> Lease {
        self.offered(room, by.host.as_str(), FAR).await;
        self.own(room, by).await.lease
    }

    pub(super) async fn owner(&self, room: &RoomId, request: Request) -> OwnerAnswer {
        given!(self.ask(room, request).await, Answer::Owner(answer) => answer)
    }

    /// An owner's operation that must take effect.
    pub(super) async fn done(&self, room: &RoomId, request: Request) {
        assert_eq!(self.owner(room, request.clone()).await, OwnerAnswer::Done, "{request:?}");
    }

    /// The owner tells that it has caught up; the position of the last entry.
    pub(super) async fn settle(&self, room: &RoomId, lease: &Lease) -> Position {
        let request = Request::Settle { lease: lease.clone() };
        given!(self.owner(room, request).await, OwnerAnswer::Settled { last } => last)
    }

    pub(super) async fn close(
        &self,
        room: &RoomId,
        lease: &Lease,
        cursor: Position,
        forced: bool,
    ) -> CloseAnswer {
        let request =
            Request::Close { lease: lease.clone(), cursor, reason: "enough".to_owned(), forced };
        given!(self.ask(room, request).await, Answer::Close(answer) => answer)
    }

    /// Puts bytes and names them, with everything up to a position inside.
    pub(super) async fn snapshot(
        &self,
        room: &RoomId,
        lease: &Lease,
        number: u64,
        cursor: Position,
    ) -> SnapshotRef {
        let snapshot = unwritten_snapshot(lease, number, cursor);
        let bytes = Bytes::from(format!("snapshot {number}"));
        self.here.put_snapshot(room, snapshot.key.clone(), bytes).await.unwrap();
        snapshot
    }

    pub(super) async fn bytes(&self, room: &RoomId, snapshot: &SnapshotRef) -> Option<Bytes> {
        self.there.get_snapshot(room, &snapshot.key).await.unwrap()
    }

    pub(super) async fn page(
        &self,
        room: &RoomId,
        lease: &Lease,
        after: Position,
        max_bytes: usize,
    ) -> Page {
        let request = Request::ReadLog { lease: lease.clone(), after, max_bytes };
        given!(self.ask(room, request).await, Answer::Page(Ok(page)) => page)
    }

    /// The whole log, in small pages.
    pub(super) async fn log(&self, room: &RoomId, lease: &Lease) -> Vec<Entry> {
        let (mut entries, mut after) = (Vec::<Entry>::new(), Position::START);
        loop {
            let page = self.page(room, lease, after, 256).await;
            entries.extend(page.entries);
            after = entries.last().map_or(after, |e| e.position);
            if !page.more {
                return entries;
            }
            assert!(entries.len() <= self.limits.log_entries, "the pages do not end");
        }
    }

    pub(super) async fn history(&self, room: &RoomId, after: u64) -> (OutSeq, Vec<Bytes>) {
        let answer = self.ask_there(room, Request::ReadHistory { after: OutSeq(after) }).await;
        given!(answer, Answer::History { first, events, .. } => (first, events))
    }

    /// All of the unrest index, by pages.
    pub(super) async fn unrest(&self, limit: usize) -> Vec<crate::protocol::store::Unrest> {
        let mut all = Vec::<crate::protocol::store::Unrest>::new();
        loop {
            let after = all.last().map(|u| u.room.clone());
            let page = self.there.unrest(after.as_ref(), limit).await.unwrap();
            assert!(page.len() <= limit, "a page of {} with limit {limit}", page.len());
            if page.is_empty() {
                return all;
            }
            all.extend(page);
            assert!(all.len() < 10_000, "the pages do not end");
        }
    }

    pub(super) async fn is_restless(&self, room: &RoomId) -> bool {
        self.unrest(100).await.iter().any(|u| u.room == *room)
    }

    pub(super) async fn listen(&self, by: &Incarnation) -> Pushes {
        let stream = self.here.subscribe(by).await.unwrap();
        Pushes { stream, patience: self.subject.patience(), quiet: self.subject.quiet() }
    }
}

/// A snapshot pointer whose bytes are not there.
pub(super) fn unwritten_snapshot(lease: &Lease, number: u64, cursor: Position) -> SnapshotRef {
    SnapshotRef {
        key: SnapshotKey { by: lease.owner.clone(), attempt: number },
        number: SnapshotNumber(number),
        cursor,
        cursor_seq: Seq(0),
        unread: 0,
        bytes: 10,
        schema: 1,
        next_timer: None,
    }
}

/// A park that names nobody.
pub(super) fn park(lease: &Lease, snapshot: Option<SnapshotRef>) -> Request {
    Request::Park {
        lease: lease.clone(),
        snapshot,
        offer: None,
        why: ParkReason::Idle,
        failed: None,
    }
}

/// A park that is a move.
pub(super) fn move_to(lease: &Lease, to: &str, until: Millis) -> Request {
    Request::Park {
        lease: lease.clone(),
        snapshot: None,
        offer: Some((host_id(to), until)),
        why: ParkReason::Idle,
        failed: None,
    }
}

/// What a host is pushed.
pub(super) struct Pushes {
    stream: BoxStream<'static, Push>,
    patience: Duration,
    quiet: Duration,
}

impl Pushes {
    /// The next push that is wanted; others are passed over.
    pub(super) async fn want(&mut self, what: &str, wanted: impl Fn(&Push) -> bool) -> Push {
        let next = async {
            while let Some(push) = self.stream.next().await {
                if wanted(&push) {
                    return push;
                }
            }
            panic!("the pushes ended before {what}")
        };
        tokio::time::timeout(self.patience, next)
            .await
            .unwrap_or_else(|_| panic!("{what} was not pushed"))
    }

    /// Listens for a while that nothing of the kind comes.
    pub(super) async fn never(&mut self, what: &str, unwanted: impl Fn(&Push) -> bool) {
        let listen = async {
            while let Some(push) = self.stream.next().await {
                assert!(!unwanted(&push), "{what} was pushed: {push:?}");
            }
        };
        tokio::time::timeout(self.quiet, listen).await.unwrap_or(());
    }

    /// Waits for the end of the stream.
    pub(super) async fn end(&mut self) {
        let drain = async { while self.stream.next().await.is_some() {} };
        tokio::time::timeout(self.patience, drain).await.expect("the pushes should have ended");
    }
}
