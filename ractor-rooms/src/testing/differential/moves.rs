//! Random operations that have a chance to mean something, chosen by what the pure store holds.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::super::dice::Dice;
use crate::id::{
    Activation, Epoch, Generation, HostId, Incarnation, Kind, Life, Millis, Number, OutSeq,
    Position, Producer, RoomId, Seq, SnapshotNumber,
};
use crate::protocol::Store;
use crate::protocol::record::{
    DeadLetter, DeclineReason, Lease, ParkReason, Phase, Reassert, Record, RecordLimits, Request,
    Seen, SnapshotKey, SnapshotRef,
};
use crate::protocol::session::{HostState, SessionSpec};
use crate::transport::Letter;

const PAST: Millis = Millis(1);
const FAR: Millis = Millis(4_102_444_800_000);

/// Whether a time is one that these sequences use themselves.
pub(super) fn is_callers(time: Millis) -> bool {
    time == PAST || time == FAR
}

/// One thing to do on both sides.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Ask {
        room: RoomId,
        request: Request,
        floor: Epoch,
    },
    Open(HostId),
    Renew(Incarnation),
    End(Incarnation),
    Lapse,
    /// The store is in another generation.
    Begin,
    Look,
    Put {
        room: RoomId,
        key: SnapshotKey,
        bytes: Bytes,
    },
    Get {
        room: RoomId,
        key: SnapshotKey,
    },
    Post {
        to: Incarnation,
        letter: Bytes,
    },
    ReadInbox {
        by: Incarnation,
        after: u64,
    },
}

pub(super) struct Moves {
    dice: Dice,
    next: VecDeque<Step>,
    /// Producers a room, and whether they withdraw. Not both many and withdrawing: which of two that
    /// were silent equally long is pruned, nothing says.
    producers: u64,
    withdraw: bool,
    count: u64,
    incarnations: Vec<Incarnation>,
    living: Vec<Incarnation>,
    large: usize,
    seen: BTreeMap<RoomId, Vec<Seen>>,
    lives: BTreeMap<RoomId, Vec<Life>>,
    inboxes: BTreeMap<Incarnation, (u64, Vec<Letter>)>,
    generation: Generation,
    /// Whether hosts say that they have proved it.
    proves: bool,
}

fn host(number: u64) -> HostId {
    HostId::new(format!("host-{number}")).unwrap()
}

impl Moves {
    pub(super) fn new(seed: u64, limits: RecordLimits, proves: bool) -> Self {
        let many = seed % 2 == 1;
        let bound = limits.producers.min(64) as u64;
        let producers = if many { bound + 4 } else { bound.clamp(1, 6) };
        Self {
            dice: Dice::new(seed),
            next: VecDeque::new(),
            producers,
            withdraw: !many,
            count: 0,
            incarnations: Vec::new(),
            living: Vec::new(),
            large: limits.log_bytes / 8,
            seen: BTreeMap::new(),
            lives: BTreeMap::new(),
            inboxes: BTreeMap::new(),
            generation: Generation(0),
            proves,
        }
    }

    pub(super) fn rooms() -> Vec<RoomId> {
        ["one", "}two\n", "three"].iter().map(|key| RoomId::new("diff", *key).unwrap()).collect()
    }

    pub(super) fn spec(&self) -> SessionSpec {
        let kinds = [(Kind::new("diff").unwrap(), 2)].into();
        let load = u32::try_from(self.count % 7).unwrap_or(0);
        let proved = if self.proves && !self.count.is_multiple_of(4) {
            self.generation
        } else {
            Generation(0)
        };
        SessionSpec {
            state: HostState::Ready,
            load,
            capacity: 9,
            weight: 1,
            kinds,
            proved,
            holds: None,
        }
    }

    pub(super) fn generation(&mut self, generation: Generation) {
        self.generation = generation;
    }

    pub(super) fn opened(&mut self, incarnation: Incarnation) {
        self.inboxes.retain(|old, _| old.host != incarnation.host);
        self.incarnations.push(incarnation);
    }

    pub(super) fn ended(&mut self, by: &Incarnation) {
        self.inboxes.remove(by);
    }

    pub(super) fn incarnations(&self) -> Vec<Incarnation> {
        self.incarnations.iter().rev().take(6).cloned().collect()
    }

    pub(super) fn posted(&mut self, to: &Incarnation, letter: Bytes) {
        let (last, letters) = self.inboxes.entry(to.clone()).or_default();
        *last += 1;
        letters.push(Letter { position: *last, letter });
    }

    pub(super) fn read_inbox(&mut self, by: &Incarnation, after: u64) -> Vec<Letter> {
        let Some((last, letters)) = self.inboxes.get_mut(by) else {
            return Vec::new();
        };
        // Who has read further than it goes has read another one, which is lost.
        letters.retain(|letter| after > *last || letter.position > after);
        letters.clone()
    }

    fn fresh(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Mostly one whose session is alive.
    fn some_incarnation(&mut self) -> Incarnation {
        if self.dice.chance(750)
            && let Some(living) = self.dice.pick(&self.living)
        {
            return living.clone();
        }
        let back = self.dice.below(5).min(self.incarnations.len() as u64);
        let at = self.incarnations.len().saturating_sub(1 + usize::try_from(back).unwrap_or(0));
        let none = Incarnation { host: host(9), number: 1 };
        self.incarnations.get(at).cloned().unwrap_or(none)
    }

    pub(super) fn next(&mut self, store: &Store) -> Step {
        if let Some(step) = self.next.pop_front() {
            return step;
        }
        self.fresh();
        self.living = store.sessions().into_iter().map(|s| s.incarnation).collect();
        if self.living.len() < 2 && self.dice.chance(200) {
            return Step::Open(host(self.dice.below(3)));
        }
        let room = self.dice.pick(&Self::rooms()).cloned().unwrap();
        match self.dice.below(1_000) {
            0..40 => Step::Open(host(self.dice.below(3))),
            40..60 => Step::Renew(self.some_incarnation()),
            60..72 => Step::End(self.some_incarnation()),
            72..78 => Step::Lapse,
            78..82 => Step::Begin,
            82..120 => Step::Look,
            120..140 => {
                let letter = Bytes::from(self.count.to_string());
                Step::Post { to: self.some_incarnation(), letter }
            }
            140..155 => {
                let after = self.dice.below(6);
                Step::ReadInbox { by: self.some_incarnation(), after }
            }
            _ => match store.record(&room) {
                None => self.offer(room),
                Some(record) => self.on_a_record(room, record),
            },
        }
    }

    fn ask(room: RoomId, request: Request) -> Step {
        Step::Ask { room, request, floor: Epoch(0) }
    }

    fn offer(&mut self, room: RoomId) -> Step {
        let until = if self.dice.chance(200) { PAST } else { FAR };
        let create = self.dice.chance(700);
        Self::ask(room, Request::Offer { to: host(self.dice.below(3)), until, create })
    }

    fn on_a_record(&mut self, room: RoomId, record: &Record) -> Step {
        let seen = Seen { epoch: record.epoch, owner: record.owner.clone() };
        let all = self.seen.entry(room.clone()).or_default();
        if all.last() != Some(&seen) {
            all.push(seen);
        }
        let lives = self.lives.entry(room.clone()).or_default();
        if lives.last() != Some(&record.life) {
            lives.push(record.life);
        }
        if let Some(snapshot) = record.snapshot.as_ref().filter(|_| self.dice.chance(20)) {
            return Step::Get { room, key: snapshot.key.clone() };
        }
        // A room that nobody runs is soon run again, else nothing much happens.
        let idle = record.owner.is_none() && !matches!(record.phase, Phase::Closed { .. });
        let closed = matches!(record.phase, Phase::Closed { .. });
        match self.dice.below(100) {
            _ if closed && self.dice.chance(300) => self.offer(room),
            _ if record.proved != self.generation && self.dice.chance(250) => {
                self.reassert(room, record)
            }
            98.. => self.reassert(room, record),
            _ if idle && self.dice.chance(300) => self.acquire(room, record),
            0..38 => self.append(room, record),
            38..48 => self.acquire(room, record),
            48..56 => self.offer(room),
            56..60 => {
                let by = match &record.phase {
                    Phase::Offered { to, .. } if self.dice.chance(700) => to.clone(),
                    _ => host(self.dice.below(3)),
                };
                let why = self.why();
                Self::ask(room, Request::Decline { by, why })
            }
            _ => self.as_owner(room, record),
        }
    }

    fn why(&mut self) -> DeclineReason {
        match self.dice.below(6) {
            0 => DeclineReason::Draining,
            1 => DeclineReason::OverCapacity,
            2 => DeclineReason::UnknownKind,
            3 => DeclineReason::DeadlineMissed,
            4 => DeclineReason::UnreadableVersion { found: 2, supported: 1 },
            _ => DeclineReason::RestoreFailed { error: format!("no {}", self.count) },
        }
    }

    fn acquire(&mut self, room: RoomId, record: &Record) -> Step {
        let by = match &record.phase {
            Phase::Offered { to, .. } if self.dice.chance(700) => {
                self.incarnations.iter().rfind(|i| i.host == *to).cloned()
            }
            _ => None,
        };
        let by = by.unwrap_or_else(|| self.some_incarnation());
        let repeated = record.owner.clone().filter(|_| self.dice.chance(100));
        let activation = repeated.unwrap_or_else(|| Activation { by, number: self.fresh() });
        let seen = self.seen.get(&room).map_or(&[][..], Vec::as_slice);
        let present = Seen { epoch: record.epoch, owner: record.owner.clone() };
        let stale = if self.dice.chance(120) { self.dice.pick(seen).cloned() } else { None };
        let floor = if self.dice.chance(50) { record.epoch } else { Epoch(0) };
        let request = Request::Acquire { activation, seen: stale.unwrap_or(present) };
        Step::Ask { room, request, floor }
    }

    /// Mostly by its owner, under its lease.
    fn reassert(&mut self, room: RoomId, record: &Record) -> Step {
        let lease = self.lease(&room, record);
        let by =
            if self.dice.chance(850) { lease.owner.by.clone() } else { self.some_incarnation() };
        let repeated = record.owner.clone().filter(|_| self.dice.chance(100));
        let activation = repeated.unwrap_or_else(|| Activation { by, number: self.fresh() });
        let snapshot = self.snapshot(&room, record, &lease);
        let lives = self.lives.get(&room).map_or(&[][..], Vec::as_slice);
        let other = if self.dice.chance(60) { self.dice.pick(lives).copied() } else { None };
        // No producer that is new, and no number of the log that is: when those are pruned or counted depends
        // on what a store keeps of them.
        let known: Vec<_> = record.producers.iter().map(|(p, e)| (p.clone(), e.last)).collect();
        let handled = self.dice.pick(&known).cloned().into_iter().map(|(producer, last)| {
            (producer, Number((last.0 + 1).saturating_sub(self.dice.below(3)).max(1)))
        });
        let handled = handled.collect();
        let out_seq = OutSeq((record.out_seq.0 + 1).saturating_sub(self.dice.below(3)));
        let life = other.unwrap_or(record.life);
        let claim =
            Reassert { lease, activation, life, snapshot, handled, seq: record.seq, out_seq };
        self.next.push_back(Self::ask(room, Request::Reassert(Box::new(claim))));
        self.next.pop_front().unwrap_or(Step::Look)
    }

    fn producer(&mut self, room: &RoomId, record: &Record) -> Producer {
        if self.dice.chance(100) {
            return Producer::Room(room.clone(), record.life);
        }
        let number = 1 + self.dice.below(self.producers);
        Producer::Host(Incarnation { host: host(100 + number), number })
    }

    fn append(&mut self, room: RoomId, record: &Record) -> Step {
        let producer = self.producer(&room, record);
        let known = record.producers.get(&producer);
        let (last, known_epoch) = known.map_or((0, 0), |p| (p.last.0, p.epoch));
        let first = match self.dice.below(20) {
            0..3 => last.saturating_sub(self.dice.below(4)).max(1),
            3 => last + 2 + self.dice.below(3),
            _ => last + 1,
        };
        let count = if self.withdraw && self.dice.chance(60) { 0 } else { 1 + self.dice.below(3) };
        let small = usize::try_from(self.dice.below(60)).unwrap_or(0);
        let size = if self.dice.chance(100) { self.large } else { small };
        let batch = (0..count)
            .map(|i| Bytes::from(vec![u8::try_from((first + i) % 251).unwrap_or(0); size]))
            .collect();
        let epoch = match self.dice.below(20) {
            0 => known_epoch.saturating_sub(1),
            1 if self.withdraw => known_epoch + 1,
            _ => known_epoch,
        };
        let lives = self.lives.get(&room).map_or(&[][..], Vec::as_slice);
        let life = match self.dice.below(10) {
            0 => self.dice.pick(lives).copied(),
            1..4 => Some(record.life),
            _ => None,
        };
        let first = Number(first);
        Self::ask(room, Request::Append { life, producer, epoch, first, batch })
    }

    /// Mostly the lease in force; else an old one, or one that was never given.
    fn lease(&mut self, room: &RoomId, record: &Record) -> Lease {
        if let Some(lease) = record.lease().filter(|_| self.dice.chance(900)) {
            return lease;
        }
        let seen = self.seen.get(room).map_or(&[][..], Vec::as_slice);
        let one = self.dice.pick(seen).cloned();
        let owner = self.dice.pick(seen).and_then(|seen| seen.owner.clone());
        let nobody = Activation { by: Incarnation { host: host(9), number: 1 }, number: 1 };
        let epoch = one.map_or(Epoch(0), |seen| seen.epoch);
        Lease { epoch, owner: owner.unwrap_or(nobody), generation: self.generation }
    }

    fn position(&mut self, record: &Record) -> Position {
        let log: Vec<_> = record.log.iter().map(|entry| entry.position).collect();
        match self.dice.below(10) {
            0 => Position::START,
            1 => record.cursor(),
            2..4 => record.last,
            _ => self.dice.pick(&log).copied().unwrap_or(record.last),
        }
    }

    fn snapshot(&mut self, room: &RoomId, record: &Record, lease: &Lease) -> SnapshotRef {
        let stored = record.snapshot.as_ref().map_or(0, |s| s.number.0);
        let number = match self.dice.below(10) {
            0 => stored.saturating_sub(1),
            1 => stored,
            _ => stored + 1,
        };
        let key = SnapshotKey { by: lease.owner.clone(), attempt: self.fresh() };
        if !self.dice.chance(80) {
            let bytes = Bytes::from(key.attempt.to_string());
            self.next.push_back(Step::Put { room: room.clone(), key: key.clone(), bytes });
        }
        SnapshotRef {
            key,
            number: SnapshotNumber(number),
            cursor: self.position(record),
            cursor_seq: Seq(self.dice.below(100)),
            unread: u32::from(self.dice.chance(100)),
            bytes: 3,
            schema: 1,
            next_timer: self.dice.chance(100).then_some(FAR),
        }
    }

    fn as_owner(&mut self, room: RoomId, record: &Record) -> Step {
        let lease = self.lease(&room, record);
        let request = match self.dice.below(40) {
            0..3 => Request::Settle { lease },
            3..12 => {
                let snapshot = self.snapshot(&room, record, &lease);
                Request::Checkpoint { lease, snapshot }
            }
            12..16 => Request::Ack { received: self.position(record), lease },
            16..25 => self.park(&room, record, lease),
            25..29 => {
                let max_bytes = usize::try_from(self.dice.below(400)).unwrap_or(0);
                Request::ReadLog { after: self.position(record), lease, max_bytes }
            }
            29..34 => {
                let first = (record.out_seq.0 + 2).saturating_sub(self.dice.below(4)).max(1);
                let events =
                    (0..1 + self.dice.below(4)).map(|n| Bytes::from((first + n).to_string()));
                Request::Emit { lease, first: OutSeq(first), events: events.collect() }
            }
            34 => {
                let cursor = self.position(record);
                let forced = self.dice.chance(500);
                Request::Close { lease, cursor, reason: format!("{}", self.count), forced }
            }
            35..38 => {
                let producer = self.producer(&room, record);
                let (number, attempt) = (Number(self.dice.below(2)), self.dice.below(3));
                Request::CountFailure { lease, producer, number, attempt }
            }
            _ => {
                let producer = self.producer(&room, record);
                let letter = DeadLetter {
                    producer,
                    number: Number(1 + self.dice.below(9)),
                    message: Bytes::from(self.count.to_string()),
                    attempts: 3,
                    error: "it failed".to_owned(),
                    at: FAR,
                };
                Request::GiveUp { lease, letter }
            }
        };
        self.next.push_back(Self::ask(room, request));
        self.next.pop_front().unwrap_or(Step::Look)
    }

    fn park(&mut self, room: &RoomId, record: &Record, lease: Lease) -> Request {
        let snapshot =
            if self.dice.chance(600) { Some(self.snapshot(room, record, &lease)) } else { None };
        let until = if self.dice.chance(200) { PAST } else { FAR };
        let offer = self.dice.chance(500).then(|| (host(self.dice.below(3)), until));
        let failed = if self.dice.chance(200) { Some(self.why()) } else { None };
        let why = if failed.is_some() { ParkReason::GivenBack } else { ParkReason::Idle };
        Request::Park { lease, snapshot, offer, why, failed }
    }
}
