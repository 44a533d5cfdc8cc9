//! The search: every state that can be reached, breadth first, then backwards from the good ones.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::configs::Config;
use super::steps::steps;
use super::world::World;
use crate::protocol::invariants::Broken;

/// A fast hash of 64 bits: a state is known by it. With a million states the chance of a clash is under
/// one in ten million.
#[derive(Clone, Copy, Default)]
pub(super) struct Fingerprint(u64);

impl Hasher for Fingerprint {
    fn finish(&self) -> u64 {
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word) ^ (chunk.len() as u64) << 56);
        }
    }

    fn write_u8(&mut self, x: u8) {
        self.write_u64(u64::from(x) + 0x100);
    }

    fn write_usize(&mut self, x: usize) {
        self.write_u64(x as u64 + 0x10000);
    }

    fn write_u64(&mut self, x: u64) {
        self.0 = (self.0.rotate_left(5) ^ x)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(0xd1b5_4a32_d192_ed03);
        self.0 ^= self.0 >> 29;
    }
}

fn fingerprint(world: &World) -> u64 {
    let mut hasher = Fingerprint::default();
    world.hash(&mut hasher);
    hasher.finish()
}

/// What the search found.
pub(super) enum Outcome {
    /// Every invariant holds in every state, and from every state a good one can be reached without
    /// further faults.
    Green,
    /// The first state, by the shortest way, that breaks one.
    Red { broken: Broken, trace: Vec<String> },
    /// There are more states than the search may hold.
    TooMany,
}

pub(super) struct Found {
    pub(super) states: usize,
    pub(super) steps: usize,
    pub(super) outcome: Outcome,
}

#[derive(Default)]
struct Graph {
    seen: HashMap<u64, u32, BuildHasherDefault<Fingerprint>>,
    /// From which state, by which of its steps.
    from: Vec<(u32, u16)>,
    good: Vec<bool>,
    /// Steps that are no faults.
    edges: Vec<(u32, u32)>,
    steps: usize,
}

impl Graph {
    fn add(&mut self, config: &Config, world: &World, from: (u32, u16)) -> (u32, bool) {
        let next = self.from.len() as u32;
        let id = *self.seen.entry(fingerprint(world)).or_insert(next);
        if id == next {
            self.from.push(from);
            self.good.push(world.is_good(config));
        }
        (id, id == next)
    }

    fn found(self, outcome: Outcome) -> Found {
        Found { states: self.from.len(), steps: self.steps, outcome }
    }

    /// The way to a state, by doing it again.
    fn trace(&self, config: &Config, mut id: u32) -> (Vec<String>, World) {
        let mut way = Vec::new();
        while id != 0 {
            let (from, step) = self.from[id as usize];
            way.push(step);
            id = from;
        }
        let mut world = World::new(config);
        let mut labels = Vec::new();
        for step in way.into_iter().rev() {
            let step = steps(config, &world, true).swap_remove(step as usize);
            labels.push(step.label);
            world = step.world;
        }
        (labels, world)
    }

    /// A state from which no good one can be reached without faults.
    fn stuck(&self) -> Option<u32> {
        let count = self.from.len();
        let mut starts = vec![0u32; count + 1];
        for (_, to) in &self.edges {
            starts[*to as usize + 1] += 1;
        }
        for i in 0..count {
            starts[i + 1] += starts[i];
        }
        let mut back = vec![0u32; self.edges.len()];
        let mut at = starts.clone();
        for (from, to) in &self.edges {
            back[at[*to as usize] as usize] = *from;
            at[*to as usize] += 1;
        }
        let mut can = self.good.clone();
        let mut todo: Vec<u32> = (0..count as u32).filter(|i| can[*i as usize]).collect();
        while let Some(to) = todo.pop() {
            for from in &back[starts[to as usize] as usize..starts[to as usize + 1] as usize] {
                if !std::mem::replace(&mut can[*from as usize], true) {
                    todo.push(*from);
                }
            }
        }
        can.iter().position(|can| !can).map(|id| id as u32)
    }
}

pub(super) fn explore(config: &Config) -> Found {
    let mut graph = Graph::default();
    let first = World::new(config);
    graph.add(config, &first, (0, 0));
    let mut todo = VecDeque::from([(0, first)]);
    while let Some((id, world)) = todo.pop_front() {
        for (k, step) in steps(config, &world, false).into_iter().enumerate() {
            graph.steps += 1;
            let (next, new) = graph.add(config, &step.world, (id, k as u16));
            if !step.fault && next != id {
                graph.edges.push((id, next));
            }
            if !new {
                continue;
            }
            if let Err(broken) = step.world.check(config) {
                let (trace, _) = graph.trace(config, next);
                return graph.found(Outcome::Red { broken, trace });
            }
            todo.push_back((next, step.world));
        }
        if graph.from.len() > config.cap {
            return graph.found(Outcome::TooMany);
        }
    }
    match graph.stuck() {
        None => graph.found(Outcome::Green),
        Some(id) => {
            let (mut trace, mut world) = graph.trace(config, id);
            // Goes on without faults for a while, to show where it is stuck.
            for _ in 0..12 {
                let all = steps(config, &world, true).into_iter();
                let Some(step) = all.into_iter().find(|s| !s.fault && s.world != world) else {
                    break;
                };
                trace.push(format!("   then {}", step.label));
                world = step.world;
            }
            let what = "no good state can be reached from here without further faults".to_owned();
            let broken = Broken { invariant: "I6", what };
            graph.found(Outcome::Red { broken, trace })
        }
    }
}
