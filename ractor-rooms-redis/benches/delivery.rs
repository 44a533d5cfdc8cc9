//! From the send on one host until the handler runs on another, at idle, against a bare PUBLISH until it is
//! received.
//!
//! Both hosts are in this process, each with connections of its own; one message is under way at a time,
//! with a pause after each. Until the sender hears that the store has accepted it is a figure of its own.
//!
//!     cargo bench -p ractor-rooms-redis --bench delivery
#![allow(clippy::expect_used, reason = "a benchmark reports to its terminal")]

mod yardstick;

use std::time::Duration;

use futures::StreamExt;
use ractor::ActorProcessingErr;
use ractor_rooms::clock::Clock;
use ractor_rooms::{Delivery, RoomActor, RoomContext, RoomHost};
use ractor_rooms_redis::RedisTransport;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use yardstick::{connection, quantile, report_time, runtime, scaled, wanted};

/// Bytes of a message.
const BYTES: usize = 100;
/// The pause after each message.
const PAUSE: Duration = Duration::from_millis(1);

/// A room that says when it handles something.
struct Bell<const DURABLE: bool> {
    clock: Clock,
    handled: mpsc::UnboundedSender<(u64, Duration)>,
}

#[derive(Serialize, Deserialize)]
struct Ring {
    number: u64,
    bytes: Vec<u8>,
}

impl<const DURABLE: bool> RoomActor for Bell<DURABLE> {
    const KIND: &'static str = "bell";
    const DELIVERY: Delivery = if DURABLE { Delivery::Durable } else { Delivery::Live };
    type Msg = Ring;
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
        ring: Ring,
        count: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        *count += 1;
        // The end of the benchmark may be faster than the last message.
        let _ = self.handled.send((ring.number, self.clock.mark()));
        Ok(())
    }
}

async fn measure<const DURABLE: bool>(name: &'static str) {
    let server = yardstick::server().await;
    let clock = Clock::system();
    let (handled, mut heard) = mpsc::unbounded_channel();
    let start = async |id: &str, capacity: u32| {
        let transport = RedisTransport::connect(server.url()).await.expect("a connection");
        let bell = Bell::<DURABLE> { clock: clock.clone(), handled: handled.clone() };
        let host = RoomHost::builder(id, transport).room(bell).capacity(capacity);
        host.start().await.expect("a host")
    };
    let owner = start("owner", 100).await;
    let sender = start("sender", 0).await;
    let room = sender.room::<Bell<DURABLE>>("room");

    let mut publisher = connection(&server).await;
    let client = redis::Client::open(server.url()).expect("a client");
    let mut listener = client.get_async_pubsub().await.expect("a connection");
    listener.subscribe("bare").await.expect("a subscription");
    let mut published = listener.on_message();
    let bytes = vec![b'x'; BYTES];

    let rounds = scaled(5_000, 50);
    let (mut sends, mut answers, mut publishes) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..rounds as u64 + 100 {
        let mut bare = async || {
            let start = clock.mark();
            let mut publish = redis::cmd("PUBLISH");
            publish.arg("bare").arg(&bytes);
            let answered = async {
                let _: i64 = publish.query_async(&mut publisher).await.expect("an answer");
            };
            let received = async {
                published.next().await.expect("a message");
                clock.elapsed_since(start)
            };
            let ((), took) = tokio::join!(answered, received);
            took
        };
        let mut through_room = async || {
            let start = clock.mark();
            let accepted = async {
                let ring = Ring { number, bytes: bytes.clone() };
                room.send(ring).await.expect("an acceptance");
                clock.elapsed_since(start)
            };
            let handled = async {
                loop {
                    let (which, at) = heard.recv().await.expect("a room");
                    if which == number {
                        return at.saturating_sub(start);
                    }
                }
            };
            tokio::join!(handled, accepted)
        };
        let (took, (handled, accepted)) = if number % 2 == 0 {
            let took = bare().await;
            tokio::time::sleep(PAUSE).await;
            (took, through_room().await)
        } else {
            let times = through_room().await;
            tokio::time::sleep(PAUSE).await;
            (bare().await, times)
        };
        tokio::time::sleep(PAUSE).await;
        // The first ones start the room.
        if number >= 100 {
            publishes.push(took);
            sends.push(handled);
            answers.push(accepted);
        }
    }
    let at = |samples: &[Duration]| (quantile(samples, 0.5), quantile(samples, 0.99));
    let (send, answer, publish) = (at(&sends), at(&answers), at(&publishes));
    report_time(&format!("{name}, p50"), Some(2.5), send.0, publish.0);
    report_time(&format!("{name}, p99"), None, send.1, publish.1);
    report_time(&format!("{name}, until accepted, p50"), None, answer.0, publish.0);
    sender.shutdown().await.expect("a running host");
    owner.shutdown().await.expect("a running host");
}

fn main() {
    let runtime = runtime();
    let (live, durable) = ("remote send to handled, live", "remote send to handled, durable");
    // On a thread of the runtime, where an app's tasks are too.
    if wanted(live) {
        runtime.block_on(runtime.spawn(measure::<false>(live))).expect("a benchmark");
    }
    if wanted(durable) {
        runtime.block_on(runtime.spawn(measure::<true>(durable))).expect("a benchmark");
    }
}
