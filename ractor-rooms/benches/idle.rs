//! The memory of an idle room, against that of an idle plain actor. Linux only.
//!
//! Each kind is measured in a process of its own, so that neither reuses what the other has freed: how much
//! the resident set grows by a number of them that have handled one message each. The rooms are live and on
//! one host. The store is in the same process, so what it keeps of a room (its record and its first
//! checkpoint) counts as the room's, which with a store elsewhere it would not.
//!
//!     cargo bench -p ractor-rooms --bench idle
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark reports to its terminal")]

mod yardstick;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr};
use ractor_rooms::{Delivery, MemoryTransport, RoomActor, RoomContext, RoomHost};
use tokio::sync::Semaphore;
use yardstick::{Note, Plain, scaled, take};

/// Says to a child what it measures.
const MEASURE: &str = "ROOMS_IDLE_MEASURE";
const ACTORS: &str = "actors";
const ROOMS: &str = "rooms";
/// How many are started at once, so that little memory is needed in passing.
const GROUP: u64 = 50;

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

/// The bytes of this process that are in memory.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("proc");
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("a number of pages") * page_bytes()
}

/// The bytes of a page.
fn page_bytes() -> u64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps").expect("proc");
    let line = smaps.lines().find_map(|line| line.strip_prefix("KernelPageSize:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.expect("the size of a page") * 1024
}

/// How many are measured.
fn total() -> u64 {
    scaled(10_000, 1_000)
}

/// The growth in bytes from before `start` until all groups are started and have come to rest. One
/// group comes first and does not count: with it comes what is needed once.
async fn growth(ended: &Semaphore, mut start: impl AsyncFnMut(u64)) -> u64 {
    let mut before = 0;
    for group in 0..=total() / GROUP {
        if group == 1 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            before = resident();
        }
        for number in group * GROUP..(group + 1) * GROUP {
            start(number).await;
        }
        ended.acquire_many(GROUP as u32).await.expect("an open semaphore").forget();
    }
    // Acknowledgements and checkpoints may still be on their way to the store.
    tokio::time::sleep(Duration::from_secs(1)).await;
    resident().saturating_sub(before)
}

const NOTE: Note = Note { value: 1, last: true };

async fn actors() -> u64 {
    let ended = Arc::new(Semaphore::new(0));
    // Nothing else keeps them, where a host keeps its rooms.
    let mut kept = Vec::new();
    growth(&ended, async |_| {
        let plain = Plain { ended: ended.clone() };
        let (actor, _) = Actor::spawn(None, plain, ()).await.expect("an actor");
        actor.cast(NOTE).expect("a running actor");
        kept.push(actor);
    })
    .await
}

async fn rooms() -> u64 {
    let ended = Arc::new(Semaphore::new(0));
    let host = RoomHost::builder("host-a", MemoryTransport::new())
        .room(Notes { ended: ended.clone() })
        .start()
        .await
        .expect("a host");
    let bytes = growth(&ended, async |number| {
        host.room::<Notes>(number.to_string()).cast(NOTE).expect("a running host");
    })
    .await;
    let running = host.rooms().await.expect("a running host").len() as u64;
    assert_eq!(running, total() + GROUP, "every room runs");
    bytes
}

/// What a child measures, each: the median of some children.
fn measure(what: &str) -> f64 {
    let this = std::env::current_exe().expect("this program");
    let mut grown: Vec<_> = (0..scaled(3, 1))
        .map(|_| {
            let mut child = Command::new(&this);
            // With the same arguments, which decide how many are measured.
            child.args(std::env::args_os().skip(1)).env(MEASURE, what).stderr(Stdio::inherit());
            let output = child.output().expect("a child");
            assert!(output.status.success(), "a child failed: {}", output.status);
            let bytes = String::from_utf8(output.stdout).expect("a number");
            bytes.trim().parse::<u64>().expect("a number")
        })
        .collect();
    grown.sort_unstable();
    grown.get(grown.len() / 2).copied().unwrap_or_default() as f64 / total() as f64
}

fn main() {
    if !cfg!(target_os = "linux") {
        println!("idle memory: not measured, which needs Linux");
        return;
    }
    if let Ok(what) = std::env::var(MEASURE) {
        let runtime = yardstick::runtime(2);
        let bytes =
            if what == ACTORS { runtime.block_on(actors()) } else { runtime.block_on(rooms()) };
        println!("{bytes}");
        return;
    }
    let (actor, room) = (measure(ACTORS), measure(ROOMS));
    let total = total();
    println!("idle memory, {total} of each: {actor:.0} bytes per plain actor");
    println!("idle memory, {total} of each: {room:.0} bytes per idle room, with its record");
    println!("ratio idle memory: {:.3} (no goal); room / actor", room / actor);
}
