//! Messages to a live room on its own host, against a plain ractor actor. See `docs/adr/0004-hot-path.md`.
//!
//!     cargo bench -p ractor-rooms --bench local
#![allow(clippy::expect_used, reason = "a benchmark that cannot run ends")]

mod yardstick;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use ractor_rooms::clock::Clock;
use ractor_rooms::{Delivery, MemoryTransport, Reply, RoomActor, RoomContext, RoomHost, RoomRef};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use yardstick::{Note, Pair, Plain, Target, batch, scaled, take};

/// A live room that takes notes.
struct Notes {
    ended: Arc<Semaphore>,
}

impl RoomActor for Notes {
    const KIND: &'static str = "notes";
    const DELIVERY: Delivery = Delivery::Live;
    type Msg = Note;
    type State = u64;
    type Event = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _: &mut RoomContext<Self>,
        (): (),
    ) -> Result<u64, ActorProcessingErr> {
        Ok(0)
    }

    async fn handle(
        &self,
        _: &mut RoomContext<Self>,
        note: Note,
        sum: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        take(sum, &note, &self.ended);
        Ok(())
    }
}

impl Target for RoomRef<Notes> {
    fn note(&self, note: Note) {
        self.cast(note).expect("a live room");
    }
}

/// A live room that is asked.
struct Counter;

#[derive(Serialize, Deserialize)]
enum CounterMsg {
    Next(Reply<u64>),
}

impl RoomActor for Counter {
    const KIND: &'static str = "counter";
    const DELIVERY: Delivery = Delivery::Live;
    type Msg = CounterMsg;
    type State = u64;
    type Event = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _: &mut RoomContext<Self>,
        (): (),
    ) -> Result<u64, ActorProcessingErr> {
        Ok(0)
    }

    async fn handle(
        &self,
        _: &mut RoomContext<Self>,
        message: CounterMsg,
        count: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        let CounterMsg::Next(reply) = message;
        *count += 1;
        reply.send(*count);
        Ok(())
    }
}

/// A plain actor that is asked.
struct PlainCounter;

enum PlainCounterMsg {
    Next(RpcReplyPort<u64>),
}

#[cfg(feature = "cluster")]
impl ractor::Message for PlainCounterMsg {}

#[cfg_attr(feature = "async-trait", ractor::async_trait)]
impl Actor for PlainCounter {
    type Msg = PlainCounterMsg;
    type State = u64;
    type Arguments = ();

    async fn pre_start(
        &self,
        _: ActorRef<PlainCounterMsg>,
        (): (),
    ) -> Result<u64, ActorProcessingErr> {
        Ok(0)
    }

    async fn handle(
        &self,
        _: ActorRef<PlainCounterMsg>,
        message: PlainCounterMsg,
        count: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        let PlainCounterMsg::Next(reply) = message;
        *count += 1;
        let _ = reply.send(*count); // nobody waits any more
        Ok(())
    }
}

/// A host of its own, with a live room of either kind.
struct Setup {
    transport: MemoryTransport,
    host: RoomHost,
    ended: Arc<Semaphore>,
}

impl Setup {
    async fn new() -> Self {
        let (transport, ended) = (MemoryTransport::new(), Arc::new(Semaphore::new(0)));
        let host = RoomHost::builder("host-a", transport.clone())
            .room(Notes { ended: ended.clone() })
            .room(Counter)
            .start()
            .await
            .expect("a host");
        Self { transport, host, ended }
    }

    async fn notes(&self) -> RoomRef<Notes> {
        let room = self.host.room::<Notes>("room");
        room.send(Note { value: 0, last: true }).await.expect("a room");
        self.ended.acquire().await.expect("an open semaphore").forget();
        self.until_open(|| async {
            room.send(Note { value: 0, last: false }).await.expect("a live room");
        })
        .await;
        room
    }

    async fn counter(&self) -> RoomRef<Counter> {
        let room = self.host.room::<Counter>("room");
        let ask = || async {
            let _ = room.call(CounterMsg::Next, None).await.expect("a live room");
        };
        ask().await;
        self.until_open(ask).await;
        room
    }

    /// Sends until nothing of it reaches the store any more: the short way is open.
    async fn until_open<F: Future<Output = ()>>(&self, send: impl Fn() -> F) {
        loop {
            let before = self.logged();
            send().await;
            if self.logged() == before {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// How many messages the logs of this host's rooms ever got.
    fn logged(&self) -> u64 {
        let names = [
            self.host.room::<Notes>("room").room().cloned(),
            self.host.room::<Counter>("room").room().cloned(),
        ];
        self.transport.inspect(|store| {
            let records = names.iter().flatten().filter_map(|room| store.record(room));
            records.map(|record| record.seq.0).sum()
        })
    }
}

fn cast(c: &mut Criterion, threads: usize, senders: u32) {
    let total = scaled(20_000, 2_000);
    let runtime = yardstick::runtime(threads);
    let (setup, room, plain) = runtime.block_on(async {
        let setup = Setup::new().await;
        let room = setup.notes().await;
        let plain = Plain { ended: setup.ended.clone() };
        let (plain, _) = Actor::spawn(None, plain, ()).await.expect("an actor");
        (setup, room, plain)
    });
    let logged = setup.logged();
    let name = format!("local cast, {threads} threads, {senders} senders");
    let mut pair = Pair::new(
        || batch(&runtime, &plain, &setup.ended, senders, total),
        || batch(&runtime, &room, &setup.ended, senders, total),
    );
    let mut group = c.benchmark_group(&name);
    yardstick::set_time(&mut group);
    group.throughput(Throughput::Elements(total));
    pair.bench(&mut group, "actor", "room");
    group.finish();
    pair.report(&name, Some(0.95));
    assert_eq!(setup.logged(), logged, "the room left the short way");
    runtime.block_on(async { setup.host.shutdown().await.expect("a running host") });
}

/// The time of calls that are made one after the other.
fn calls<T: Asked>(
    runtime: &Runtime,
    target: &T,
    total: u64,
    deadline: Option<Duration>,
) -> Duration {
    let target = target.clone();
    let task = async move {
        let clock = Clock::system();
        let start = clock.mark();
        for _ in 0..total {
            target.ask(deadline).await;
        }
        clock.elapsed_since(start)
    };
    runtime.block_on(runtime.spawn(task)).expect("a batch")
}

trait Asked: Clone + Send + Sync + 'static {
    fn ask(&self, deadline: Option<Duration>) -> impl Future<Output = u64> + Send;
}

impl Asked for ActorRef<PlainCounterMsg> {
    async fn ask(&self, deadline: Option<Duration>) -> u64 {
        let answer = self.call(PlainCounterMsg::Next, deadline).await;
        answer.expect("a running actor").expect("an answer")
    }
}

impl Asked for RoomRef<Counter> {
    async fn ask(&self, deadline: Option<Duration>) -> u64 {
        let answer = self.call(CounterMsg::Next, deadline).await;
        answer.expect("a live room").expect("an answer")
    }
}

fn call(c: &mut Criterion, threads: usize, deadline: Option<Duration>) {
    let total = scaled(4_000, 400);
    let runtime = yardstick::runtime(threads);
    let (setup, room, plain) = runtime.block_on(async {
        let setup = Setup::new().await;
        let room = setup.counter().await;
        let (plain, _) = Actor::spawn(None, PlainCounter, ()).await.expect("an actor");
        (setup, room, plain)
    });
    let logged = setup.logged();
    let (name, goal) = match deadline {
        Some(_) => (format!("local call, {threads} threads"), Some(0.9)),
        // A room's call always has a deadline, an actor's has none by default.
        None => (format!("local call, {threads} threads, actor without a deadline"), None),
    };
    let mut pair = Pair::new(
        || calls(&runtime, &plain, total, deadline),
        || calls(&runtime, &room, total, deadline),
    );
    let mut group = c.benchmark_group(&name);
    yardstick::set_time(&mut group);
    group.throughput(Throughput::Elements(total));
    pair.bench(&mut group, "actor", "room");
    group.finish();
    pair.report(&name, goal);
    assert_eq!(setup.logged(), logged, "the room left the short way");
    runtime.block_on(async { setup.host.shutdown().await.expect("a running host") });
}

fn main() {
    let mut c = Criterion::default().configure_from_args();
    for threads in [1, 2] {
        for senders in [1, 4] {
            cast(&mut c, threads, senders);
        }
    }
    for threads in [1, 2] {
        call(&mut c, threads, Some(Duration::from_secs(60)));
    }
    call(&mut c, 1, None);
    c.final_summary();
}
