//! The consumer: which entries of the log a room takes, and what it has taken.
//!
//! A push is a hint: it may be lost, late or repeated. Whatever is missing is read from the log, by
//! position. Repeats are dropped by identity, which is producer and number; `seq` only reveals gaps.

#[cfg(test)]
mod intake_test;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::record::Entry;
use crate::id::{Millis, Number, Position, Producer, Seq};

/// What a room has received. Travels in the snapshot. See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Consumer {
    received: BTreeMap<Producer, Taken>,
    position: Position,
    seq: Seq,
    pruned: Option<Millis>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Taken {
    last: Number,
    used: Position,
}

/// What to do with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intake {
    /// Handle its messages, but for the first `skip`, which were taken before.
    Take {
        /// How many messages at its front are known.
        skip: usize,
    },
    /// All of it was taken before.
    Known,
    /// Something before it is missing: read the log after [`Consumer::position`].
    Behind,
}

impl Consumer {
    /// The log is read again from here: what was taken above it counts by its producers' numbers alone.
    pub fn read_again_from(&mut self, position: Position, seq: Seq) {
        self.position = position;
        self.seq = seq;
    }

    /// The last number taken from each producer.
    pub fn handled(&self) -> Vec<(Producer, Number)> {
        self.received.iter().map(|(producer, taken)| (producer.clone(), taken.last)).collect()
    }

    /// Producers that are remembered. At least twice what a record keeps, so that no producer is
    /// forgotten here whose number the record would still accept as a repeat.
    pub const MAX_PRODUCERS: usize = 8_192;

    /// Everything up to here was taken.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Everything up to this `seq` was taken.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// The last number taken from a producer.
    pub fn last(&self, producer: &Producer) -> Number {
        self.received.get(producer).map_or(Number(0), |t| t.last)
    }

    /// An entry that was pushed.
    pub fn pushed(&self, entry: &Entry) -> Intake {
        let next = entry.first_seq <= self.seq.next();
        if entry.position > self.position && !next {
            return Intake::Behind;
        }
        self.intake(entry)
    }

    /// An entry that was read from the log after [`Consumer::position`]: nothing before it is missing.
    pub fn read(&self, entry: &Entry) -> Intake {
        self.intake(entry)
    }

    /// Whether the log has entries that were not taken, given the position of its last.
    pub fn is_behind(&self, last: Position) -> bool {
        last > self.position
    }

    fn intake(&self, entry: &Entry) -> Intake {
        let count = entry.batch.len();
        let known = match self.received.get(&entry.producer) {
            Some(taken) => taken.last.next().0.saturating_sub(entry.first.0) as usize,
            // Forgotten producers: everything of theirs was taken long ago.
            None if self.pruned.is_some_and(|p| entry.producer.birth() <= p) => count,
            None => 0,
        };
        if known >= count { Intake::Known } else { Intake::Take { skip: known } }
    }

    /// The message at `index` of an entry was taken.
    pub fn took(&mut self, entry: &Entry, index: usize) {
        let number = Number(entry.first.0.saturating_add(index as u64));
        let taken = self
            .received
            .entry(entry.producer.clone())
            .or_insert(Taken { last: Number(0), used: Position::START });
        taken.last = taken.last.max(number);
        taken.used = taken.used.max(entry.position);
        if self.received.len() > Self::MAX_PRODUCERS {
            self.forget_oldest();
        }
    }

    /// Every message of an entry was taken, now or before.
    pub fn finished(&mut self, entry: &Entry) {
        self.position = self.position.max(entry.position);
        self.seq = self.seq.max(entry.last_seq());
    }

    /// The log was read to its end when the room's `seq` was `head`: whatever is not in it any more was
    /// trimmed by an owner that had taken it. Without this, a live room that went back to a checkpoint
    /// would wait for numbers that nobody will ever push.
    pub fn caught_up(&mut self, head: Seq) {
        self.seq = self.seq.max(head);
    }

    fn forget_oldest(&mut self) {
        let oldest = self.received.iter().min_by_key(|(_, t)| t.used).map(|(p, _)| p.clone());
        if let Some(oldest) = oldest {
            self.pruned = self.pruned.max(Some(oldest.birth()));
            self.received.remove(&oldest);
        }
    }
}
