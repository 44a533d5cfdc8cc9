use super::bench::*;
use super::*;
use crate::id::Number;

impl Bench {
    /// A new generation begins, in which hosts may still have to re-assert.
    fn begin(&mut self) {
        self.generation = self.generation.next();
        self.unproved = true;
    }

    /// What `a` says of the room that it runs under a lease.
    fn claim(&mut self, lease: &Lease) -> Reassert {
        let key = SnapshotKey { by: lease.owner.clone(), attempt: 9 };
        self.snapshots.insert(key.clone());
        Reassert {
            lease: lease.clone(),
            activation: activation("a", 50),
            life: self.record.life,
            snapshot: SnapshotRef {
                key,
                number: SnapshotNumber(3),
                cursor: Position { ms: 77, n: 0 },
                cursor_seq: Seq(7),
                unread: 0,
                bytes: 1,
                schema: 1,
                next_timer: None,
            },
            handled: Vec::new(),
            seq: Seq(0),
            out_seq: OutSeq(0),
        }
    }

    fn reassert(&mut self, claim: Reassert) -> AcquireAnswer {
        let answer = self.ask(Request::Reassert(Box::new(claim))).0;
        let Answer::Acquire(answer) = answer else { panic!("{answer:?}") };
        answer
    }

    fn reasserted(&mut self, claim: Reassert) -> Acquired {
        let answer = self.reassert(claim);
        let AcquireAnswer::Acquired(acquired) = answer else { panic!("{answer:?}") };
        *acquired
    }
}

/// The same epoch and owner prove nothing: the log may hold other entries than those that the owner took.
#[test]
fn a_lease_of_another_generation_is_refused_though_it_is_equal() {
    let (mut bench, lease) = Bench::running();
    bench.begin();
    let other = Answer::OtherGeneration { generation: bench.generation };
    let before = bench.record.clone();
    for request in [
        Request::Settle { lease: lease.clone() },
        Request::Ack { lease: lease.clone(), received: Position { ms: 9, n: 9 } },
        Request::ReadLog { lease: lease.clone(), after: Position::START, max_bytes: 9 },
        Request::Emit { lease: lease.clone(), first: OutSeq(1), events: batch(&["e"]) },
        Request::Close {
            lease: lease.clone(),
            cursor: Position::START,
            reason: String::new(),
            forced: true,
        },
    ] {
        assert_eq!(bench.ask(request).0, other);
    }
    assert_eq!(bench.record, before);
    let claim = bench.claim(&lease);
    let acquired = bench.reasserted(claim);
    assert!(!acquired.regressed, "nothing was lost");
    assert!(acquired.lease.epoch > lease.epoch);
    let settle = Request::Settle { lease: acquired.lease };
    assert!(matches!(bench.owner(settle), OwnerAnswer::Settled { .. }));
}

#[test]
fn the_log_is_read_again_from_the_stored_cursor() {
    let (mut bench, lease) = Bench::running();
    bench.append(client(5), 1, &["m1"]);
    let key = SnapshotKey { by: lease.owner.clone(), attempt: 1 };
    bench.snapshots.insert(key.clone());
    let mut stored = bench.claim(&lease).snapshot;
    stored.key = key.clone();
    stored.number = SnapshotNumber(8);
    stored.cursor = Position { ms: 0, n: 1 };
    stored.cursor_seq = Seq(1);
    let checkpoint = Request::Checkpoint { lease: lease.clone(), snapshot: stored };
    assert_eq!(bench.owner(checkpoint), OwnerAnswer::Done);
    bench.append(client(5), 2, &["m2"]);
    bench.begin();
    let claim = bench.claim(&lease);
    let (answer, effects) = bench.ask(Request::Reassert(Box::new(claim.clone())));
    assert!(matches!(answer, Answer::Acquire(AcquireAnswer::Acquired(_))), "{answer:?}");
    assert_eq!(effects, [Effect::DropSnapshot(key)]);
    let pointer = bench.record.snapshot.clone().unwrap();
    assert_eq!(pointer.key, claim.snapshot.key, "the bytes are the host's");
    assert_eq!((pointer.cursor, pointer.cursor_seq), (Position { ms: 0, n: 1 }, Seq(1)));
    assert_eq!(pointer.number, SnapshotNumber(9), "above what was there");
    assert_eq!(bench.record.log.len(), 1, "m2 is still to be read");
}

#[test]
fn what_was_handled_is_not_accepted_again() {
    let (mut bench, lease) = Bench::running();
    let forgotten = bench.record.clone();
    bench.append(client(5), 1, &["m1", "m2"]);
    bench.record = forgotten;
    bench.begin();
    let claim = Reassert {
        handled: vec![(client(5), Number(1))],
        seq: Seq(2),
        out_seq: OutSeq(4),
        ..bench.claim(&lease)
    };
    let acquired = bench.reasserted(claim);
    assert!(acquired.regressed);
    assert_eq!(acquired.out_seq, OutSeq(4));
    assert!(matches!(bench.append(client(5), 1, &["m1"]), AppendAnswer::Duplicate { .. }));
    // m2 was received and not handled: it goes in again.
    let again = bench.append(client(5), 2, &["m2"]);
    assert!(matches!(again, AppendAnswer::Accepted { seq: Seq(3), .. }), "{again:?}");
}

#[test]
fn a_newer_owner_keeps_the_room() {
    let (mut bench, lease) = Bench::running();
    bench.alive.remove(&host("a"));
    let other = bench.acquired("b", 1);
    bench.alive.insert(host("a"));
    bench.begin();
    let claim = bench.claim(&lease);
    assert!(matches!(bench.reassert(claim.clone()), AcquireAnswer::Refused { .. }));
    // Also at the host's own epoch, which a store that went back gave out twice.
    bench.record.epoch = lease.epoch;
    assert!(matches!(bench.reassert(claim.clone()), AcquireAnswer::Refused { .. }));
    bench.record.epoch = Epoch(lease.epoch.0 - 1);
    assert_eq!(bench.record.owner, Some(other.owner), "an older epoch is of an older owner");
    assert!(bench.reasserted(claim).regressed);
}

#[test]
fn a_closed_room_is_not_brought_back() {
    let (mut bench, lease) = Bench::running();
    let cursor = Position::START;
    let close = Request::Close { lease: lease.clone(), cursor, reason: "x".into(), forced: false };
    assert!(matches!(bench.ask(close).0, Answer::Close(CloseAnswer::Done { .. })));
    bench.begin();
    let claim = bench.claim(&lease);
    assert!(matches!(bench.reassert(claim), AcquireAnswer::Refused { .. }));
}

#[test]
fn a_parked_room_goes_on_at_its_source() {
    let (mut bench, lease) = Bench::running();
    let park = Request::Park {
        lease: lease.clone(),
        snapshot: None,
        offer: Some((host("b"), Millis(1_000))),
        why: ParkReason::GivenBack,
        failed: None,
    };
    assert_eq!(bench.owner(park), OwnerAnswer::Done);
    bench.begin();
    let claim = bench.claim(&lease);
    assert!(!bench.reasserted(claim).regressed);
    assert_eq!(bench.record.phase, Phase::Running);
}

#[test]
fn a_repeat_gets_the_same_lease() {
    let (mut bench, lease) = Bench::running();
    bench.begin();
    let claim = bench.claim(&lease);
    let first = bench.reasserted(claim.clone());
    let after = bench.record.clone();
    assert_eq!(bench.reasserted(claim).lease, first.lease);
    assert_eq!(bench.record, after);
}

#[test]
fn the_bytes_and_the_session_must_be_there() {
    let (mut bench, lease) = Bench::running();
    bench.begin();
    let claim = bench.claim(&lease);
    bench.snapshots.clear();
    assert!(matches!(bench.reassert(claim.clone()), AcquireAnswer::SnapshotLost { .. }));
    bench.alive.clear();
    assert_eq!(bench.reassert(claim), AcquireAnswer::NoSession);
    assert_eq!(bench.record.lease(), Some(lease));
}

/// The state of the room may be in a host that has not come to re-assert it.
#[test]
fn nobody_takes_an_old_record_before_the_reasserts() {
    let (mut bench, lease) = Bench::running();
    bench.begin();
    bench.alive.remove(&host("a"));
    let seen = bench.seen();
    assert_eq!(bench.acquire("b", 1, seen.clone()), AcquireAnswer::Unproved);
    let offer = Request::Offer { to: host("b"), until: Millis(9), create: true };
    assert_eq!(bench.ask(offer).0, Answer::Offer(OfferAnswer::Unproved));
    bench.alive.insert(host("a"));
    let claim = bench.claim(&lease);
    bench.reasserted(claim);
    // Others may still have to re-assert, but not this room.
    bench.alive.remove(&host("a"));
    let seen = bench.seen();
    assert!(matches!(bench.acquire("b", 1, seen), AcquireAnswer::Acquired(_)));
}

/// A sender that learnt a number from an old record would give it to another message.
#[test]
fn an_unproved_record_tells_no_number() {
    let (mut bench, lease) = Bench::running();
    bench.append(client(5), 1, &["m1"]);
    bench.begin();
    let unproved = AppendAnswer::Unproved { seq: Seq(1) };
    assert_eq!(bench.append(client(5), 3, &["m3"]), unproved);
    assert_eq!(bench.append_as(None, client(5), 1, 2, &[]), unproved, "a withdrawal");
    assert!(matches!(bench.append(client(5), 2, &["m2"]), AppendAnswer::Accepted { .. }));
    assert!(matches!(bench.append_as(None, client(6), 0, 1, &[]), AppendAnswer::Accepted { .. }));
    let claim = Reassert { handled: vec![(client(5), Number(4))], ..bench.claim(&lease) };
    bench.reasserted(claim);
    let gap = bench.append(client(5), 7, &["m7"]);
    assert!(matches!(gap, AppendAnswer::Gap { last: Number(4), .. }), "{gap:?}");
}
