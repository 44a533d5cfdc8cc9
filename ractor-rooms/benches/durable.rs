//! Messages to durable rooms through the in-process store, against casts to plain actors.
//!
//! A plain actor keeps nothing, so the ratio is the price of a log and has no goal. Every batch is timed
//! from its first message until all are accepted and handled.
//!
//!     cargo bench -p ractor-rooms --bench durable
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark reports to its terminal")]

mod yardstick;

use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use futures::StreamExt;
use futures::stream;
use ractor::{Actor, ActorProcessingErr};
use ractor_rooms::clock::Clock;
use ractor_rooms::{Delivery, MemoryTransport, RoomActor, RoomContext, RoomHost, RoomRef};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use yardstick::{Note, Pair, Plain, Target, scaled, take};

/// Messages that wait for their acknowledgement at once.
const IN_FLIGHT: usize = 64;

/// A durable room that takes notes.
struct Notes {
    ended: Arc<Semaphore>,
}

impl RoomActor for Notes {
    const KIND: &'static str = "notes";
    const DELIVERY: Delivery = Delivery::Durable;
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
        self.cast(note).expect("a running host");
    }
}

/// So many notes, one target after the other; to each a last one.
fn notes<T: Target>(targets: &[T], total: u64) -> impl Iterator<Item = (T, Note)> + use<T> {
    let targets = targets.to_vec();
    let count = total / targets.len() as u64;
    (1..=count).flat_map(move |value| {
        let notes = targets.clone().into_iter();
        notes.map(move |target| (target, Note { value, last: value == count }))
    })
}

/// The time of one batch of casts.
fn casts<T: Target>(
    runtime: &Runtime,
    targets: &[T],
    ended: &Arc<Semaphore>,
    total: u64,
) -> Duration {
    let (ended, lasts) = (ended.clone(), targets.len() as u32);
    let notes: Vec<_> = notes(targets, total).collect();
    let task = async move {
        let clock = Clock::system();
        let start = clock.mark();
        for (target, note) in notes {
            target.note(note);
        }
        ended.acquire_many(lasts).await.expect("an open semaphore").forget();
        clock.elapsed_since(start)
    };
    runtime.block_on(runtime.spawn(task)).expect("a batch")
}

/// The time of one batch of acknowledged sends, of which some are under way at once.
fn sends(
    runtime: &Runtime,
    rooms: &[RoomRef<Notes>],
    ended: &Arc<Semaphore>,
    total: u64,
) -> Duration {
    let (ended, lasts) = (ended.clone(), rooms.len() as u32);
    let notes: Vec<_> = notes(rooms, total).collect();
    let task = async move {
        let clock = Clock::system();
        let start = clock.mark();
        stream::iter(notes)
            .map(|(room, note)| async move { room.send(note).await.expect("an acceptance") })
            .buffer_unordered(IN_FLIGHT)
            .for_each(async |()| {})
            .await;
        ended.acquire_many(lasts).await.expect("an open semaphore").forget();
        clock.elapsed_since(start)
    };
    runtime.block_on(runtime.spawn(task)).expect("a batch")
}

/// How messages are sent to rooms.
#[derive(Clone, Copy)]
enum Way {
    Send,
    Cast,
}

fn durable(c: &mut Criterion, way: Way, count: u64) {
    let total = scaled(20_000, 2_000);
    let runtime = yardstick::runtime(2);
    let ended = Arc::new(Semaphore::new(0));
    let (host, rooms, actors) = runtime.block_on(async {
        let host = RoomHost::builder("host-a", MemoryTransport::new())
            .room(Notes { ended: ended.clone() })
            .start()
            .await
            .expect("a host");
        let rooms: Vec<_> = (0..count).map(|n| host.room::<Notes>(n.to_string())).collect();
        let mut actors = Vec::new();
        for room in &rooms {
            room.send(Note { value: 0, last: true }).await.expect("a room");
            let plain = Plain { ended: ended.clone() };
            actors.push(Actor::spawn(None, plain, ()).await.expect("an actor").0);
        }
        ended.acquire_many(count as u32).await.expect("an open semaphore").forget();
        (host, rooms, actors)
    });
    let name = match way {
        Way::Send => format!("durable send, {IN_FLIGHT} in flight, rooms: {count}"),
        Way::Cast => format!("durable cast, rooms: {count}"),
    };
    let mut pair = Pair::new(
        || casts(&runtime, &actors, &ended, total),
        || match way {
            Way::Send => sends(&runtime, &rooms, &ended, total),
            Way::Cast => casts(&runtime, &rooms, &ended, total),
        },
    );
    let mut group = c.benchmark_group(&name);
    yardstick::set_time(&mut group);
    group.throughput(Throughput::Elements(total));
    pair.bench(&mut group, "actor", "room");
    group.finish();
    pair.report(&name, None);
    let (plain, room) = pair.medians();
    if !room.is_zero() {
        let rate = |took: Duration| total as f64 / took.as_secs_f64();
        println!("{name}: {:.0} messages/s, plain casts {:.0}/s", rate(room), rate(plain));
    }
    runtime.block_on(async { host.shutdown().await.expect("a running host") });
}

fn main() {
    let mut c = Criterion::default().configure_from_args();
    for way in [Way::Send, Way::Cast] {
        for count in [1, 100] {
            durable(&mut c, way, count);
        }
    }
    c.final_summary();
}
