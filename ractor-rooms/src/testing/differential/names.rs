//! Numbers that come from a clock, by the order of their first appearance.

use std::collections::BTreeMap;

use super::rename::Rename;
use crate::id::{Generation, HostId, Incarnation, Millis, Position, RoomId};
use crate::protocol::record::SnapshotKey;

/// The numbers that one side has named so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    room: Option<RoomId>,
    epochs: BTreeMap<RoomId, Vec<u64>>,
    positions: BTreeMap<RoomId, Vec<Position>>,
    incarnations: BTreeMap<HostId, Vec<u64>>,
    generations: BTreeMap<RoomId, Vec<u64>>,
    /// New numbers that did not grow.
    pub(super) complaints: Vec<String>,
}

/// Names of numbers begin here, so that none is mistaken for a number.
const BASE: u64 = 1 << 60;

impl Names {
    /// Epochs and positions are those of this room from here on.
    pub(super) fn at(&mut self, room: &RoomId) {
        self.room = Some(room.clone());
    }

    pub(super) fn name_epoch(&mut self, epoch: u64) -> u64 {
        let Some(room) = self.room.clone().filter(|_| epoch != 0) else {
            return epoch;
        };
        let known = self.epochs.entry(room).or_default();
        let complaints = &mut self.complaints;
        BASE + named(known, epoch, complaints) as u64
    }

    pub(super) fn name_position(&mut self, position: Position) -> Position {
        let Some(room) = self.room.clone().filter(|_| position != Position::START) else {
            return position;
        };
        let known = self.positions.entry(room).or_default();
        let complaints = &mut self.complaints;
        Position { ms: BASE, n: named(known, position, complaints) as u64 }
    }

    pub(super) fn name_generation(&mut self, generation: Generation) -> Generation {
        let Some(room) = self.room.clone().filter(|_| generation.0 != 0) else {
            return generation;
        };
        let known = self.generations.entry(room).or_default();
        Generation(BASE + named(known, generation.0, &mut self.complaints) as u64)
    }

    /// Names the incarnations that were opened; the others stay as they are.
    pub(super) fn name_incarnation(&mut self, incarnation: Incarnation) -> Incarnation {
        let known = self.incarnations.entry(incarnation.host.clone()).or_default();
        let at = named(known, incarnation.number, &mut self.complaints);
        Incarnation { host: incarnation.host, number: BASE + at as u64 }
    }
}

fn named<T: Copy + Ord + std::fmt::Debug>(
    known: &mut Vec<T>,
    number: T,
    complaints: &mut Vec<String>,
) -> usize {
    if let Some(at) = known.iter().position(|n| *n == number) {
        return at;
    }
    if known.last().is_some_and(|last| *last > number) {
        complaints.push(format!("{number:?} is new and came after {:?}", known.last()));
    }
    known.push(number);
    known.len() - 1
}

/// From the numbers of one side to those of the other. What has no name stays as it is.
#[derive(Debug)]
pub(super) struct Translate<'a> {
    from: &'a Names,
    to: &'a Names,
    room: Option<&'a RoomId>,
}

impl<'a> Translate<'a> {
    pub(super) fn new(from: &'a Names, to: &'a Names, room: &'a RoomId) -> Self {
        Self { from, to, room: Some(room) }
    }

    /// For incarnations only.
    pub(super) fn anywhere(from: &'a Names, to: &'a Names) -> Self {
        Self { from, to, room: None }
    }

    pub(super) fn key(&mut self, key: SnapshotKey) -> SnapshotKey {
        super::rename::key(self, key)
    }
}

fn translated<T: Copy + PartialEq>(from: Option<&Vec<T>>, to: Option<&Vec<T>>, number: T) -> T {
    let at = from.and_then(|from| from.iter().position(|n| *n == number));
    at.zip(to).and_then(|(at, to)| to.get(at)).copied().unwrap_or(number)
}

impl Rename for Translate<'_> {
    fn epoch(&mut self, epoch: u64) -> u64 {
        let of = |names: &'_ Names| self.room.and_then(|room| names.epochs.get(room)).cloned();
        translated(of(self.from).as_ref(), of(self.to).as_ref(), epoch)
    }

    fn position(&mut self, position: Position) -> Position {
        let of = |names: &'_ Names| self.room.and_then(|room| names.positions.get(room)).cloned();
        translated(of(self.from).as_ref(), of(self.to).as_ref(), position)
    }

    fn incarnation(&mut self, incarnation: Incarnation) -> Incarnation {
        let of = |names: &'_ Names| names.incarnations.get(&incarnation.host).cloned();
        let number = translated(of(self.from).as_ref(), of(self.to).as_ref(), incarnation.number);
        Incarnation { number, ..incarnation }
    }

    fn generation(&mut self, generation: Generation) -> Generation {
        let of = |names: &'_ Names| self.room.and_then(|room| names.generations.get(room)).cloned();
        Generation(translated(of(self.from).as_ref(), of(self.to).as_ref(), generation.0))
    }

    fn time(&mut self, time: Millis) -> Millis {
        time
    }
}
