//! A record on a bench: who is alive and which snapshots are there is set by hand.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::*;
use crate::id::Number;

pub(super) struct Bench {
    pub(super) record: Record,
    pub(super) now: Millis,
    pub(super) floor: Epoch,
    pub(super) generation: Generation,
    pub(super) unproved: bool,
    /// Hosts whose session, number 1, is alive.
    pub(super) alive: BTreeSet<HostId>,
    pub(super) snapshots: BTreeSet<SnapshotKey>,
    pub(super) limits: RecordLimits,
}

pub(super) fn room() -> crate::id::RoomId {
    crate::id::RoomId::new("chat", "r").unwrap()
}

pub(super) fn host(name: &str) -> HostId {
    HostId::new(name).unwrap()
}

pub(super) fn activation(name: &str, number: u64) -> Activation {
    Activation { by: Incarnation { host: host(name), number: 1 }, number }
}

pub(super) fn client(number: u64) -> Producer {
    Producer::Host(Incarnation { host: host("client"), number })
}

pub(super) fn batch(messages: &[&'static str]) -> Vec<Bytes> {
    messages.iter().map(|m| Bytes::from_static(m.as_bytes())).collect()
}

impl Bench {
    /// A room that was born at epoch 1 and has not run.
    pub(super) fn new() -> Self {
        Self {
            record: Record::born(Epoch(1), Generation(1)),
            generation: Generation(1),
            unproved: false,
            now: Millis(0),
            floor: Epoch(0),
            alive: ["a", "b", "c"].map(host).into(),
            snapshots: BTreeSet::new(),
            limits: RecordLimits::default(),
        }
    }

    /// A room that `a` runs under epoch 2, settled.
    pub(super) fn running() -> (Self, Lease) {
        let mut bench = Self::new();
        let lease = bench.acquired("a", 1);
        let settled = OwnerAnswer::Settled { last: Position::START };
        assert_eq!(bench.owner(Request::Settle { lease: lease.clone() }), settled);
        (bench, lease)
    }

    pub(super) fn ask(&mut self, request: Request) -> (Answer, Vec<Effect>) {
        let alive = |i: &Incarnation| i.number == 1 && self.alive.contains(&i.host);
        let session = |host: &HostId| {
            self.alive.contains(host).then(|| Incarnation { host: host.clone(), number: 1 })
        };
        let env = Env {
            now: self.now,
            floor: self.floor,
            generation: self.generation,
            unproved: self.unproved,
            alive: &alive,
            session: &session,
            has_snapshot: &|key| self.snapshots.contains(key),
            limits: &self.limits,
        };
        self.record.apply(&room(), request, &env)
    }

    pub(super) fn owner(&mut self, request: Request) -> OwnerAnswer {
        let Answer::Owner(answer) = self.ask(request).0 else { panic!("another answer") };
        answer
    }

    pub(super) fn acquire(&mut self, name: &str, number: u64, seen: Seen) -> AcquireAnswer {
        let Answer::Acquire(answer) =
            self.ask(Request::Acquire { activation: activation(name, number), seen }).0
        else {
            panic!("another answer")
        };
        answer
    }

    pub(super) fn acquired(&mut self, name: &str, number: u64) -> Lease {
        let AcquireAnswer::Acquired(acquired) = self.acquire(name, number, self.seen()) else {
            panic!("it is not to be had")
        };
        acquired.lease
    }

    pub(super) fn seen(&self) -> Seen {
        Seen { epoch: self.record.epoch, owner: self.record.owner.clone() }
    }

    pub(super) fn append(
        &mut self,
        by: Producer,
        first: u64,
        messages: &[&'static str],
    ) -> AppendAnswer {
        self.append_as(None, by, 0, first, messages)
    }

    pub(super) fn append_as(
        &mut self,
        life: Option<Life>,
        producer: Producer,
        epoch: u64,
        first: u64,
        messages: &[&'static str],
    ) -> AppendAnswer {
        let first = Number(first);
        let batch = batch(messages);
        let Answer::Append(answer) =
            self.ask(Request::Append { life, producer, epoch, first, batch }).0
        else {
            panic!("another answer")
        };
        answer
    }

    /// A pointer to bytes that are there: everything in the log is inside.
    pub(super) fn snapshot(&mut self, lease: &Lease, number: u64) -> SnapshotRef {
        let key = SnapshotKey { by: lease.owner.clone(), attempt: number };
        self.snapshots.insert(key.clone());
        SnapshotRef {
            key,
            number: SnapshotNumber(number),
            cursor: self.record.last,
            cursor_seq: self.record.seq,
            unread: 0,
            bytes: 0,
            schema: 1,
            next_timer: None,
        }
    }

    pub(super) fn checkpoint(&mut self, lease: &Lease, snapshot: SnapshotRef) -> OwnerAnswer {
        self.owner(Request::Checkpoint { lease: lease.clone(), snapshot })
    }

    pub(super) fn park(&mut self, lease: &Lease, offer: Option<(&str, u64)>) -> OwnerAnswer {
        self.owner(Request::Park {
            lease: lease.clone(),
            snapshot: None,
            offer: offer.map(|(to, until)| (host(to), Millis(until))),
            why: ParkReason::Idle,
            failed: None,
        })
    }

    pub(super) fn give_back(&mut self, lease: &Lease, why: DeclineReason) -> OwnerAnswer {
        self.owner(Request::Park {
            lease: lease.clone(),
            snapshot: None,
            offer: None,
            why: ParkReason::GivenBack,
            failed: Some(why),
        })
    }

    pub(super) fn offer(&mut self, to: &str, until: u64) -> OfferAnswer {
        let request = Request::Offer { to: host(to), until: Millis(until), create: false };
        let Answer::Offer(answer) = self.ask(request).0 else { panic!("another answer") };
        answer
    }

    pub(super) fn logged(&self) -> Vec<String> {
        let messages = self.record.log.iter().flat_map(|e| &e.batch);
        messages.map(|m| String::from_utf8_lossy(m).into_owned()).collect()
    }
}
