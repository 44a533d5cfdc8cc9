//! What the benchmarks share: two things measured in turns, and a plain actor to measure against.
//!
//! On a shared machine the ratio of two criterion groups that ran minutes apart is noise. So every sample
//! here is a pair, measured back to back in alternating order, and a ratio is that of the medians.
#![allow(dead_code, reason = "each benchmark uses a part")]
#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark reports to its terminal")]

use std::sync::Arc;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, SamplingMode};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

/// Whether this run only has to show that the benchmarks work.
pub(crate) fn brief() -> bool {
    let tests = std::env::args().any(|arg| arg == "--test");
    tests || std::env::var_os("CI").is_some_and(|ci| ci == "true" || ci == "1")
}

/// `full`, or `short` in a brief run.
pub(crate) fn scaled(full: u64, short: u64) -> u64 {
    if brief() { short } else { full }
}

/// A runtime with so many threads.
pub(crate) fn runtime(threads: usize) -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Sets how long criterion measures.
pub(crate) fn set_time(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.sampling_mode(SamplingMode::Flat);
    if brief() {
        group.sample_size(10);
        group.warm_up_time(Duration::from_millis(20));
        group.measurement_time(Duration::from_millis(100));
    } else {
        group.sample_size(50);
        group.warm_up_time(Duration::from_millis(500));
        group.measurement_time(Duration::from_secs(4));
    }
}

/// Two things that are measured in turns.
pub(crate) struct Pair<P, R> {
    plain: P,
    room: R,
    samples: (Vec<Duration>, Vec<Duration>),
}

impl<P: FnMut() -> Duration, R: FnMut() -> Duration> Pair<P, R> {
    pub(crate) fn new(plain: P, room: R) -> Self {
        Self { plain, room, samples: (Vec::new(), Vec::new()) }
    }

    fn round(&mut self) -> (Duration, Duration) {
        let (plain, room) = if self.samples.0.len().is_multiple_of(2) {
            let plain = (self.plain)();
            (plain, (self.room)())
        } else {
            let room = (self.room)();
            ((self.plain)(), room)
        };
        self.samples.0.push(plain);
        self.samples.1.push(room);
        (plain, room)
    }

    /// Measures both for criterion. Each of its iterations is a pair, of which it is told one half.
    pub(crate) fn bench(
        &mut self,
        group: &mut BenchmarkGroup<'_, WallTime>,
        plain: &str,
        room: &str,
    ) {
        group.bench_function(plain, |b| {
            b.iter_custom(|iters| (0..iters).map(|_| self.round().0).sum());
        });
        group.bench_function(room, |b| {
            b.iter_custom(|iters| (0..iters).map(|_| self.round().1).sum());
        });
    }

    /// The medians of all samples.
    pub(crate) fn medians(&self) -> (Duration, Duration) {
        (quantile(&self.samples.0, 0.5), quantile(&self.samples.1, 0.5))
    }

    /// Prints how fast the room is by the yardstick: the ratio of the medians, over 1 when it is faster.
    pub(crate) fn report(&self, name: &str, goal: Option<f64>) {
        if self.samples.0.is_empty() {
            return; // left out by criterion's filter
        }
        let (plain, room) = self.medians();
        let ratio = plain.as_secs_f64() / room.as_secs_f64();
        let goal = goal.map_or("no goal".to_owned(), |goal| format!("goal >= {goal}"));
        let pairs = self.samples.0.len();
        println!(
            "ratio {name}: {ratio:.3} ({goal}); {pairs} pairs, medians {plain:?} and {room:?}"
        );
    }
}

/// A quantile of samples, or zero of none.
pub(crate) fn quantile(samples: &[Duration], quantile: f64) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * quantile).round() as usize).copied().unwrap_or_default()
}

/// The message of plain actors and rooms alike.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) value: u64,
    /// Whether the sender sends no more: its end is counted.
    pub(crate) last: bool,
}

#[cfg(feature = "cluster")]
impl ractor::Message for Note {}

/// What handling a note is, in plain actors and rooms alike.
pub(crate) fn take(sum: &mut u64, note: &Note, ended: &Semaphore) {
    *sum = sum.wrapping_add(note.value);
    if note.last {
        ended.add_permits(1);
    }
}

/// An actor of ractor that takes notes.
pub(crate) struct Plain {
    pub(crate) ended: Arc<Semaphore>,
}

#[cfg_attr(feature = "async-trait", ractor::async_trait)]
impl Actor for Plain {
    type Msg = Note;
    type State = u64;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Note>, (): ()) -> Result<u64, ActorProcessingErr> {
        Ok(0)
    }

    async fn handle(
        &self,
        _: ActorRef<Note>,
        note: Note,
        sum: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        take(sum, &note, &self.ended);
        Ok(())
    }
}

/// Where notes are sent.
pub(crate) trait Target: Clone + Send + Sync + 'static {
    fn note(&self, note: Note);
}

impl Target for ActorRef<Note> {
    fn note(&self, note: Note) {
        self.cast(note).expect("a running actor");
    }
}

/// The time from the first of `total` notes, by so many senders, until all are handled.
pub(crate) fn batch<T: Target>(
    runtime: &Runtime,
    target: &T,
    ended: &Arc<Semaphore>,
    senders: u32,
    total: u64,
) -> Duration {
    let (target, ended) = (target.clone(), ended.clone());
    let task = async move {
        let clock = ractor_rooms::clock::Clock::system();
        let start = clock.mark();
        for _ in 0..senders {
            let target = target.clone();
            let count = total / u64::from(senders);
            tokio::spawn(async move {
                for value in 1..=count {
                    target.note(Note { value, last: value == count });
                }
            });
        }
        ended.acquire_many(senders).await.expect("an open semaphore").forget();
        clock.elapsed_since(start)
    };
    // On a thread of the runtime, where an app's tasks are too.
    runtime.block_on(runtime.spawn(task)).expect("a batch")
}
