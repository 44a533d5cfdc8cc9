//! The generation of each shard, as this process knows it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use ractor_rooms::id::Generation;
use redis::{Pipeline, Value};
use tokio::sync::watch;

use crate::keys::Layout;

const LOOK: &str = include_str!("look.lua");
/// What is waited for hosts of which nothing is known, not even how long their sessions last: as long as one
/// does by default.
const DEFAULT_TTL_MS: u64 = 10_000;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Generations {
    layout: Layout,
    cluster: bool,
    numbers: Mutex<Vec<u64>>,
    newest: watch::Sender<Generation>,
    /// Whether hosts may still have to re-assert, when it was last looked at.
    doubtful: AtomicBool,
    longest_ttl_ms: AtomicU64,
}

impl Generations {
    pub(super) fn new(layout: Layout, cluster: bool) -> Self {
        let shards = usize::from(layout.shards());
        Self {
            layout,
            cluster,
            numbers: Mutex::new(vec![0; shards]),
            newest: watch::Sender::new(Generation(0)),
            doubtful: AtomicBool::new(false),
            longest_ttl_ms: AtomicU64::new(0),
        }
    }

    pub(crate) fn of(&self, shard: u16) -> Generation {
        Generation(self.numbers.lock().get(usize::from(shard)).copied().unwrap_or(0))
    }

    pub(crate) fn newest(&self) -> watch::Receiver<Generation> {
        self.newest.subscribe()
    }

    pub(crate) fn is_doubtful(&self) -> bool {
        self.doubtful.load(Ordering::SeqCst)
    }

    /// Every host has proved or dropped what it ran.
    pub(crate) fn settled(&self, generation: Generation) {
        if *self.newest.borrow() == generation {
            self.doubtful.store(false, Ordering::SeqCst);
        }
    }

    /// Whether no session here was as long.
    pub(crate) fn note_ttl(&self, ttl_ms: u64) -> bool {
        self.longest_ttl_ms.fetch_max(ttl_ms, Ordering::SeqCst) < ttl_ms
    }

    /// The questions, each of one slot, with the shards that they are about.
    pub(crate) fn questions(&self) -> Vec<(Vec<u16>, Pipeline)> {
        let all: Vec<u16> = (0..self.layout.shards()).collect();
        let size = if self.cluster { 1 } else { all.len() };
        let ttl = self.longest_ttl_ms.load(Ordering::SeqCst);
        all.chunks(size)
            .map(|shards| {
                let mut pipeline = Pipeline::new();
                let ask = pipeline.cmd("EVAL").arg(LOOK).arg(shards.len());
                for shard in shards {
                    ask.arg(&self.layout.of_shard(*shard, "generation")[..]);
                }
                ask.arg(ttl).arg(DEFAULT_TTL_MS);
                for shard in shards {
                    ask.arg(self.of(*shard).0);
                }
                (shards.to_vec(), pipeline)
            })
            .collect()
    }

    /// Takes the answers in; `false` if they are none. Who follows is told of what has begun.
    pub(crate) fn learn(&self, answers: &[(Vec<u16>, Value)]) -> bool {
        let mut learnt = Vec::new();
        for (shards, answer) in answers {
            let Value::Array(parts) = answer else { return false };
            let numbers: Vec<u64> = parts.iter().filter_map(number).collect();
            if numbers.len() != shards.len() * 2 {
                return false;
            }
            learnt.extend(shards.iter().zip(numbers.chunks(2)).map(|(s, n)| (*s, n[0], n[1])));
        }
        let (mut began, mut doubtful) = (false, false);
        {
            let mut known = self.numbers.lock();
            for (shard, number, until) in learnt {
                doubtful |= until > 0;
                if let Some(known) = known.get_mut(usize::from(shard))
                    && *known < number
                {
                    began = true;
                    *known = number;
                }
            }
            self.doubtful.store(doubtful, Ordering::SeqCst);
            if began {
                let newest = known.iter().copied().max().unwrap_or(0);
                tracing::info!(newest, "the store is in another generation");
                self.newest.send_replace(Generation(newest));
            }
        }
        true
    }
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    }
}
