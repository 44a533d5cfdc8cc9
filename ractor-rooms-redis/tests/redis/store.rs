//! The store as an operator and a bare transport see it.

use std::time::Duration;

use bytes::Bytes;
use ractor_rooms::id::{
    Activation, Epoch, HostId, Incarnation, Millis, Number, Position, Producer, RoomId,
};
use ractor_rooms::protocol::record::{
    AcquireAnswer, Answer, AppendAnswer, Entry, Lease, RecordView, Request, SnapshotKey,
};
use ractor_rooms::protocol::session::{HostState, OpenAnswer, SessionSpec};
use ractor_rooms::transport::Transport;
use ractor_rooms_redis::testing::PrivateServer;
use ractor_rooms_redis::{RedisConfig, RedisTransport};
use redis::aio::MultiplexedConnection;

use crate::ledger::Class;

pub(crate) fn config(server: &PrivateServer) -> RedisConfig {
    RedisConfig::new(server.url()).shards(4)
}

/// A connection beside those of the library.
pub(crate) async fn operator(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).expect("an address");
    let timeouts = redis::AsyncConnectionConfig::new()
        .set_response_timeout(Some(Duration::from_secs(10)))
        .set_connection_timeout(Some(Duration::from_secs(10)));
    let conn = client.get_multiplexed_async_connection_with_config(&timeouts).await;
    conn.expect("the server is reached")
}

/// Runs a command that the server must take.
pub(crate) async fn run<T: redis::FromRedisValue>(
    conn: &mut MultiplexedConnection,
    words: &[&str],
) -> T {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query_async(conn).await.expect("the server takes the command")
}

/// All keys that match.
pub(crate) async fn keys(conn: &mut MultiplexedConnection, pattern: &str) -> Vec<Vec<u8>> {
    run(conn, &["KEYS", pattern]).await
}

/// How many connections others have to the server.
pub(crate) async fn connections(conn: &mut MultiplexedConnection) -> usize {
    let list: String = run(conn, &["CLIENT", "LIST"]).await;
    list.lines().count() - 1
}

pub(crate) fn room_id<C: Class>(key: &[u8]) -> RoomId {
    RoomId::new(C::KIND, key.to_vec()).expect("a key")
}

/// A producer that no host is; its number says which of two is the younger.
pub(crate) fn producer(name: &str, number: u64) -> Producer {
    Producer::Host(Incarnation { host: HostId::new(name).expect("a name"), number })
}

/// A room's record; none before it was ever asked for.
pub(crate) async fn view(store: &RedisTransport, room: &RoomId) -> Option<RecordView> {
    match store.execute(room, Request::Read, Epoch(0)).await.expect("the store answers") {
        Answer::View(view) => view.map(|view| *view),
        other => panic!("{other:?}"),
    }
}

/// A producer's batch, its first message with this number.
pub(crate) async fn append(
    store: &RedisTransport,
    room: &RoomId,
    producer: &Producer,
    first: u64,
    batch: &[Bytes],
) -> AppendAnswer {
    let (producer, batch) = (producer.clone(), batch.to_vec());
    let request = Request::Append { life: None, producer, epoch: 0, first: Number(first), batch };
    match store.execute(room, request, Epoch(0)).await.expect("the store answers") {
        Answer::Append(answer) => answer,
        other => panic!("{other:?}"),
    }
}

/// Brings a room into being for a host that never comes.
pub(crate) async fn create(store: &RedisTransport, room: &RoomId) {
    let to = HostId::new("nobody").expect("a name");
    let request = Request::Offer { to, until: Millis(0), create: true };
    let answer = store.execute(room, request, Epoch(0)).await.expect("the store answers");
    assert!(matches!(answer, Answer::Offer(_)), "{answer:?}");
}

/// Ends the doubts of a generation as a host does that comes and runs nothing, and goes at once.
pub(crate) async fn settle(store: &RedisTransport) {
    store.sessions().await.expect("an answer"); // over a connection that has looked
    let spec = SessionSpec { proved: store.newest_generation(), ..spec() };
    let host = HostId::new("witness").expect("a name");
    let opened = store.open_session(&host, Duration::from_millis(1), spec).await;
    assert!(matches!(opened, Ok(OpenAnswer::Opened(_))), "{opened:?}");
}

fn spec() -> SessionSpec {
    SessionSpec {
        state: HostState::Ready,
        load: 0,
        capacity: 0,
        weight: 1,
        kinds: std::collections::BTreeMap::new(),
        proved: ractor_rooms::id::Generation::default(),
        holds: None,
    }
}

/// A bare owner of rooms, which reads their logs and does nothing else.
pub(crate) struct Owner {
    store: RedisTransport,
    by: Incarnation,
}

impl Owner {
    pub(crate) async fn new(store: &RedisTransport) -> Self {
        let host = HostId::new("bare-owner").expect("a name");
        let opened = store.open_session(&host, Duration::from_secs(60), spec()).await;
        match opened.expect("the store answers") {
            OpenAnswer::Opened(by) => Self { store: store.clone(), by },
            taken @ OpenAnswer::Taken { .. } => panic!("{taken:?}"),
        }
    }

    pub(crate) fn by(&self) -> &Incarnation {
        &self.by
    }

    /// Whether the session could be renewed.
    pub(crate) async fn renew(&self) -> bool {
        let renewed = self.store.renew_session(&self.by, Duration::from_secs(60), spec()).await;
        renewed.expect("the store answers")
    }

    /// Creates a room and owns it.
    pub(crate) async fn take(&self, room: &RoomId, number: u64) -> Lease {
        create(&self.store, room).await;
        let seen = view(&self.store, room).await.expect("it was created").seen;
        let activation = Activation { by: self.by.clone(), number };
        let request = Request::Acquire { activation, seen };
        match self.store.execute(room, request, Epoch(0)).await.expect("the store answers") {
            Answer::Acquire(AcquireAnswer::Acquired(acquired)) => acquired.lease,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn log(&self, room: &RoomId, lease: &Lease) -> Vec<Entry> {
        let (lease, after) = (lease.clone(), Position::START);
        let request = Request::ReadLog { lease, after, max_bytes: 1 << 24 };
        match self.store.execute(room, request, Epoch(0)).await.expect("the store answers") {
            Answer::Page(Ok(page)) => page.entries,
            other => panic!("{other:?}"),
        }
    }

    /// Ends the session: its rooms are free.
    pub(crate) async fn leave(self) {
        self.store.close_session(&self.by).await.expect("the store answers");
    }
}

/// Puts the bytes of a snapshot up, as often as it takes.
pub(crate) async fn upload(
    store: &RedisTransport,
    room: &RoomId,
    key: &SnapshotKey,
    bytes: &Bytes,
) -> usize {
    for attempt in 1..100 {
        if store.put_snapshot(room, key.clone(), bytes.clone()).await.is_ok() {
            return attempt;
        }
    }
    panic!("the bytes do not go up");
}
