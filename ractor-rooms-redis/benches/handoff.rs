//! How long a planned move stops a room under steady traffic: of 1 KiB against PING, of 1 MiB against SET and
//! GET of the same bytes.
//!
//! Both hosts are in this process, each with connections of its own, as is the client, on a third host that
//! runs no rooms. It sends at a steady rate and waits for no answer. The pause is the one of
//! [`ractor_rooms::MigrationReport`], from the cut, before the state is encoded, until the source hears that
//! the adopter has caught up. The yardstick is taken between the moves, under the same traffic.
//!
//!     cargo bench -p ractor-rooms-redis --bench handoff
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark reports to its terminal")]

mod yardstick;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ractor::ActorProcessingErr;
use ractor_rooms::clock::Clock;
use ractor_rooms::{Delivery, MigrateTo, Reply, RoomActor, RoomContext, RoomHost, RoomRef};
use ractor_rooms_redis::RedisTransport;
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use yardstick::{connection, quantile, report_time, runtime, scaled, wanted};

const HOSTS: [&str; 2] = ["host-a", "host-b"];
const KEY: &str = "room";
/// Characters of a line of chat.
const LINE: usize = 64;
/// The pause between two messages of the client.
const EVERY: Duration = Duration::from_millis(2);
/// The moves with the longest pauses, whose times are printed: what makes the p99.
const SLOWEST: usize = 4;
/// Yardsticks taken between two moves.
const YARDSTICKS: usize = 5;

/// The state: lines of text, many as a chat room has them, or one as a document is.
#[derive(Clone, Serialize, Deserialize)]
struct Page {
    lines: Vec<String>,
    count: u64,
}

/// A room with a page of so many bytes, in lines of so many characters. What it costs to write many small
/// values down and to read them again is the app's, and part of the pause.
struct Paged<const DURABLE: bool> {
    bytes: usize,
    line: usize,
}

#[derive(Serialize, Deserialize)]
enum PageMsg {
    Add(u64),
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
        Ok(Page { lines: vec!["x".repeat(self.line); self.bytes / self.line], count: 0 })
    }

    async fn handle(
        &self,
        _: &mut RoomContext<Self>,
        message: PageMsg,
        page: &mut Page,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            PageMsg::Add(number) if number == page.count + 1 => page.count = number,
            PageMsg::Add(number) => {
                return Err(format!("{number} came after {}", page.count).into());
            }
            PageMsg::Count(reply) => reply.send(page.count),
        }
        Ok(())
    }
}

/// Sends until it is stopped; how many messages.
async fn traffic<const DURABLE: bool>(room: RoomRef<Paged<DURABLE>>, stop: Arc<AtomicBool>) -> u64 {
    let mut every = tokio::time::interval(EVERY);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut sent = 0;
    while !stop.load(Ordering::Relaxed) {
        every.tick().await;
        sent += 1;
        room.cast(PageMsg::Add(sent)).expect("a running host");
    }
    sent
}

async fn count<const DURABLE: bool>(room: &RoomRef<Paged<DURABLE>>) -> u64 {
    room.call(PageMsg::Count, None).await.expect("a room").expect("an answer")
}

async fn ping(connection: &mut MultiplexedConnection) {
    let _: String = redis::cmd("PING").query_async(connection).await.expect("an answer");
}

async fn set_and_get(connection: &mut MultiplexedConnection, bytes: &[u8]) {
    let mut set = redis::cmd("SET");
    set.arg("bare").arg(bytes);
    let _: String = set.query_async(connection).await.expect("an answer");
    let got: Vec<u8> =
        redis::cmd("GET").arg("bare").query_async(connection).await.expect("an answer");
    assert_eq!(got.len(), bytes.len());
}

async fn measure<const DURABLE: bool>(name: &'static str, bytes: usize, line: usize) {
    let small = bytes < 1 << 20;
    let server = yardstick::server().await;
    let start = async |id: &str, capacity: u32| {
        let transport = RedisTransport::connect(server.url()).await.expect("a connection");
        let builder = RoomHost::builder(id, transport).room(Paged::<DURABLE> { bytes, line });
        builder.capacity(capacity).start().await.expect("a host")
    };
    let hosts = [start(HOSTS[0], 100).await, start(HOSTS[1], 100).await];
    let client = start("client", 0).await;
    let room = client.room::<Paged<DURABLE>>(KEY);
    count(&room).await;
    let here = hosts[0].rooms().await.expect("a running host").len();
    // It runs where placement says: on the first host, or on the second.
    let mut next = if here == 1 { 1 } else { 0 };
    let stop = Arc::new(AtomicBool::new(false));
    let traffic = tokio::spawn(traffic(room.clone(), stop.clone()));

    let mut connection = connection(&server).await;
    let clock = Clock::system();
    let bare = vec![b'x'; bytes];
    let (mut pauses, mut wholes, mut yardsticks) = (Vec::new(), Vec::new(), Vec::new());
    let mut states: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    let mut slowest = Vec::new();
    for number in 0..scaled(400, 10) + 5 {
        for _ in 0..YARDSTICKS {
            let start = clock.mark();
            if small {
                ping(&mut connection).await
            } else {
                set_and_get(&mut connection, &bare).await
            }
            yardsticks.push(clock.elapsed_since(start));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let start = clock.mark();
        let request = MigrateTo::host("page", KEY, HOSTS[next]);
        let report = hosts[1 - next].migrate(request).await.expect("a move");
        next = 1 - next;
        if number >= 5 {
            pauses.push(report.pause);
            wholes.push(clock.elapsed_since(start));
            for state in &report.states {
                states.entry(state.state.clone()).or_default().push(state.after);
            }
            slowest.push((report.pause, report.states));
            slowest.sort_by_key(|(pause, _)| std::cmp::Reverse(*pause));
            slowest.truncate(SLOWEST);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.store(true, Ordering::Relaxed);
    let sent = traffic.await.expect("a client");
    let handled = count(&room).await;
    assert_eq!(handled, sent, "messages were lost or doubled");

    let at = |of| (quantile(&pauses, of), quantile(&wholes, of), quantile(&yardsticks, of));
    let ((pause, whole, yardstick), (late_pause, _, late_yardstick)) = (at(0.5), at(0.99));
    let (goal, late_goal) = if small { (8.0, Some(30.0)) } else { (2.0, None) };
    println!(
        "{name}: {} moves under {sent} messages, none lost or doubled; yardstick p50 {yardstick:?}, \
         p99 {late_yardstick:?}",
        pauses.len()
    );
    let mut states: Vec<_> =
        states.iter().map(|(state, times)| (quantile(times, 0.5), state)).collect();
    states.sort();
    println!("{name}, states of the source reached by p50: {states:?}");
    report_time(&format!("{name}, pause p50 / yardstick p50"), Some(goal), pause, yardstick);
    for (pause, states) in slowest {
        let states: Vec<_> = states.iter().map(|state| (state.after, &state.state)).collect();
        println!("{name}, a pause of {pause:?}: {states:?}");
    }
    let late = format!("{name}, pause p99 / yardstick p50");
    report_time(&late, late_goal, late_pause, yardstick);
    report_time(&format!("{name}, whole move p50 / yardstick p50"), None, whole, yardstick);
    for host in hosts.iter().chain([&client]) {
        host.shutdown().await.expect("a running host");
    }
}

fn main() {
    let runtime = runtime();
    let mib = 1 << 20;
    let cases = [
        ("1 KiB", 1 << 10, LINE),
        ("1 MiB, one text", mib, mib),
        ("1 MiB, lines of chat", mib, LINE),
    ];
    for (size, bytes, line) in cases {
        for durable in [false, true] {
            let class = if durable { "durable" } else { "live" };
            let name: &'static str = format!("planned move, {class}, {size}").leak();
            if !wanted(name) {
                continue;
            }
            // On a thread of the runtime, where an app's tasks are too.
            let run = if durable {
                runtime.spawn(measure::<true>(name, bytes, line))
            } else {
                runtime.spawn(measure::<false>(name, bytes, line))
            };
            runtime.block_on(run).expect("a benchmark");
        }
    }
}
