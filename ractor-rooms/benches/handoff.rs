//! How long a planned move stops a room, against encoding and decoding its state and starting an actor anew.
//!
//! Two hosts share a [`MemoryTransport`], so this is the price of the protocol and of the state's bytes,
//! without a network. The pause is the one of [`ractor_rooms::MigrationReport`], from the cut, before the
//! state is encoded, until the source hears that the adopter has caught up. The whole move is printed too,
//! from the request to the report. Each room is moved to and fro twice: with nobody talking to it, which is
//! the ratio, and under a client on one of the hosts that sends a message, awaits its acceptance, asks,
//! awaits the answer, and so on.
//!
//!     cargo bench -p ractor-rooms --bench handoff
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark reports to its terminal")]

mod yardstick;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use criterion::Criterion;
use ractor::concurrency::JoinHandle;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use ractor_rooms::clock::Clock;
use ractor_rooms::codec::body;
use ractor_rooms::{
    Delivery, MemoryTransport, MigrateTo, Reply, RoomActor, RoomContext, RoomHost, RoomRef,
};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use yardstick::{Note, Pair, quantile, scaled};

const HOSTS: [&str; 2] = ["host-a", "host-b"];
const KEY: &str = "room";
/// Characters of a line.
const LINE: usize = 64;
/// More than any state here takes.
const LIMIT: usize = 4 << 20;

/// The state: lines of text, as a chat room or a document has them.
#[derive(Clone, Serialize, Deserialize)]
struct Page {
    lines: Vec<String>,
    count: u64,
}

impl Page {
    fn of(bytes: usize) -> Self {
        Self { lines: vec!["x".repeat(LINE); bytes / LINE], count: 0 }
    }
}

/// A room with a page of so many bytes.
struct Paged<const DURABLE: bool> {
    bytes: usize,
}

#[derive(Serialize, Deserialize)]
enum PageMsg {
    Add,
    Count(Reply<u64>),
}

impl<const DURABLE: bool> RoomActor for Paged<DURABLE> {
    const KIND: &'static str = "page";
    const DELIVERY: Delivery = if DURABLE { Delivery::Durable } else { Delivery::Live };
    type Msg = PageMsg;
    type State = Page;
    type Event = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _: &mut RoomContext<Self>,
        (): (),
    ) -> Result<Page, ActorProcessingErr> {
        Ok(Page::of(self.bytes))
    }

    async fn handle(
        &self,
        _: &mut RoomContext<Self>,
        message: PageMsg,
        page: &mut Page,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            PageMsg::Add => page.count += 1,
            PageMsg::Count(reply) => reply.send(page.count),
        }
        Ok(())
    }
}

/// A plain actor with a page.
struct Bare;

#[cfg_attr(feature = "async-trait", ractor::async_trait)]
impl Actor for Bare {
    type Msg = Note;
    type State = Page;
    type Arguments = Page;

    async fn pre_start(&self, _: ActorRef<Note>, page: Page) -> Result<Page, ActorProcessingErr> {
        Ok(page)
    }
}

/// A plain actor that is stopped and spawned again with a state that went through the codec.
struct Respawned {
    page: Page,
    actor: ActorRef<Note>,
    task: JoinHandle<()>,
}

impl Respawned {
    async fn new(bytes: usize) -> Self {
        let page = Page::of(bytes);
        let (actor, task) = Actor::spawn(None, Bare, page.clone()).await.expect("an actor");
        Self { page, actor, task }
    }

    async fn again(mut self) -> (Self, Duration) {
        let clock = Clock::system();
        let start = clock.mark();
        let bytes = body::encode(&self.page, LIMIT).expect("a page within the limit");
        self.actor.stop(None);
        self.task.await.expect("an actor that stops");
        let page = body::decode(&bytes, LIMIT).expect("what was encoded");
        (self.actor, self.task) = Actor::spawn(None, Bare, page).await.expect("an actor");
        let took = clock.elapsed_since(start);
        (self, took)
    }
}

/// Two hosts and a room that is moved between them.
struct Moving<const DURABLE: bool> {
    hosts: [RoomHost; 2],
    room: RoomRef<Paged<DURABLE>>,
    /// Which of the hosts is the next target.
    next: usize,
}

impl<const DURABLE: bool> Moving<DURABLE> {
    async fn new(bytes: usize) -> Self {
        let transport = MemoryTransport::new();
        let start = |name| {
            RoomHost::builder(name, transport.clone()).room(Paged::<DURABLE> { bytes }).start()
        };
        let hosts = [
            start(HOSTS[0]).await.expect("a host"), //
            start(HOSTS[1]).await.expect("a host"),
        ];
        let room = hosts[0].room(KEY);
        count(&room).await;
        let here = hosts[0].rooms().await.expect("a running host").len();
        // It runs where placement says: on the first host, or on the second.
        Self { hosts, room, next: if here == 1 { 1 } else { 0 } }
    }

    /// Moves the room to where it is not; the reported pause, and the time of the whole.
    async fn go(&mut self) -> (Duration, Duration) {
        let clock = Clock::system();
        let start = clock.mark();
        let request = MigrateTo::host("page", KEY, HOSTS[self.next]);
        let report = self.hosts[1 - self.next].migrate(request).await.expect("a move");
        self.next = 1 - self.next;
        (report.pause, clock.elapsed_since(start))
    }
}

async fn count<const DURABLE: bool>(room: &RoomRef<Paged<DURABLE>>) {
    let _ = room.call(PageMsg::Count, None).await.expect("a room").expect("an answer");
}

/// What a client saw while the room moved.
#[derive(Default)]
struct Seen {
    /// Rounds of one message and one question.
    rounds: u64,
    /// The longest wait until a message was accepted.
    accepted: Duration,
    /// The longest time between two answers.
    answered: Duration,
}

/// Sends and awaits until it is stopped.
async fn client<const DURABLE: bool>(room: RoomRef<Paged<DURABLE>>, stop: Arc<AtomicBool>) -> Seen {
    let (clock, mut seen) = (Clock::system(), Seen::default());
    let mut last = clock.mark();
    while !stop.load(Ordering::Relaxed) {
        let sent = clock.mark();
        room.send(PageMsg::Add).await.expect("a room");
        seen.accepted = seen.accepted.max(clock.elapsed_since(sent));
        count(&room).await;
        seen.answered = seen.answered.max(clock.elapsed_since(last));
        last = clock.mark();
        seen.rounds += 1;
    }
    seen
}

fn print_pauses(name: &str, pauses: &[Duration]) {
    let (p50, p99) = (quantile(pauses, 0.5), quantile(pauses, 0.99));
    let (max, moves) = (quantile(pauses, 1.0), pauses.len());
    println!("{name}: pause p50 {p50:?}, p99 {p99:?}, max {max:?} of {moves} moves");
}

fn on_a_worker<T: Send + 'static>(
    runtime: &Runtime,
    task: impl Future<Output = T> + Send + 'static,
) -> T {
    runtime.block_on(runtime.spawn(task)).expect("a task that ends well")
}

fn handoff<const DURABLE: bool>(c: &mut Criterion, size: &str, bytes: usize) {
    let class = if DURABLE { "durable" } else { "live" };
    let name = format!("handoff, {class}, {size}");
    let runtime = yardstick::runtime(2);
    let moving = on_a_worker(&runtime, Moving::<DURABLE>::new(bytes));
    let mut bare = Some(on_a_worker(&runtime, Respawned::new(bytes)));

    let (moving, pauses) = (RefCell::new(Some(moving)), RefCell::new(Vec::new()));
    let wholes = RefCell::new(Vec::new());
    let respawn = || {
        let actor = bare.take().expect("put back below");
        let (actor, took) = on_a_worker(&runtime, actor.again());
        bare = Some(actor);
        took
    };
    let go = || {
        let mut room = moving.take().expect("put back below");
        let (room, (pause, whole)) = on_a_worker(&runtime, async move {
            let times = room.go().await;
            (room, times)
        });
        moving.replace(Some(room));
        pauses.borrow_mut().push(pause);
        wholes.borrow_mut().push(whole);
        pause
    };
    let mut pair = Pair::new(respawn, go);
    let mut group = c.benchmark_group(&name);
    yardstick::set_time(&mut group);
    pair.bench(&mut group, "yardstick", "pause");
    group.finish();
    let (plain, pause) = pair.medians();
    drop(pair);
    let pauses = pauses.into_inner();
    let mut moving = moving.take().expect("put back above");
    if !pauses.is_empty() {
        print_pauses(&format!("{name}, quiet"), &pauses);
        let ratio = pause.as_secs_f64() / plain.as_secs_f64();
        println!(
            "ratio handoff pause {size} / yardstick: {ratio:.3} ({class}; no goal); {} pairs, \
             medians {pause:?} and {plain:?}",
            pauses.len()
        );
        let whole = quantile(&wholes.borrow(), 0.5);
        let ratio = whole.as_secs_f64() / plain.as_secs_f64();
        println!(
            "ratio handoff whole move {size} / yardstick: {ratio:.3} ({class}; no goal); median {whole:?}"
        );
        let moves = scaled(200, 20);
        let (pauses, seen) = on_a_worker(&runtime, async move {
            let stop = Arc::new(AtomicBool::new(false));
            let client = tokio::spawn(client(moving.room.clone(), stop.clone()));
            let mut pauses = Vec::new();
            for _ in 0..moves {
                pauses.push(moving.go().await.0);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            stop.store(true, Ordering::Relaxed);
            let seen = client.await.expect("a client");
            for host in &moving.hosts {
                host.shutdown().await.expect("a running host");
            }
            (pauses, seen)
        });
        print_pauses(&format!("{name}, with a client"), &pauses);
        println!(
            "{name}, with a client: longest wait for an acceptance {:?}, longest gap between two \
             answers {:?}, of {} rounds",
            seen.accepted, seen.answered, seen.rounds
        );
    }
}

fn main() {
    let mut c = Criterion::default().configure_from_args();
    for (size, bytes) in [("1 KiB", 1 << 10), ("1 MiB", 1 << 20)] {
        handoff::<false>(&mut c, size, bytes);
        handoff::<true>(&mut c, size, bytes);
    }
    c.final_summary();
}
