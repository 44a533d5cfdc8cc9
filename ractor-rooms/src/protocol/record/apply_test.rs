use super::bench::{Bench, activation, client, host};
use super::*;
use crate::id::Number;

fn fenced(epoch: u64) -> OwnerAnswer {
    OwnerAnswer::Fenced { epoch: Epoch(epoch) }
}

/// Every operation of the owner, under a lease.
fn owner_requests(bench: &mut Bench, lease: &Lease) -> Vec<Request> {
    let snapshot = bench.snapshot(lease, 99);
    let lease = || lease.clone();
    let letter = DeadLetter {
        producer: client(5),
        number: Number(1),
        message: Bytes::new(),
        attempts: 3,
        error: String::new(),
        at: Millis(0),
    };
    vec![
        Request::Settle { lease: lease() },
        Request::Checkpoint { lease: lease(), snapshot: snapshot.clone() },
        Request::Ack { lease: lease(), received: Position { ms: 9, n: 9 } },
        Request::Emit { lease: lease(), first: OutSeq(1), events: vec![Bytes::new()] },
        Request::CountFailure {
            lease: lease(),
            producer: client(5),
            number: Number(1),
            attempt: 1,
        },
        Request::GiveUp { lease: lease(), letter },
        Request::Park {
            lease: lease(),
            snapshot: Some(snapshot),
            offer: None,
            why: ParkReason::Idle,
            failed: None,
        },
    ]
}

#[test]
fn a_fence_compares_epoch_and_owner() {
    let (mut bench, lease) = Bench::running();
    bench.append(client(5), 1, &["x"]);
    let other_epoch = Lease { epoch: Epoch(1), ..lease.clone() };
    let other_owner = Lease { owner: activation("a", 2), ..lease };
    for stale in [other_epoch, other_owner] {
        let requests = owner_requests(&mut bench, &stale);
        let before = bench.record.clone();
        for request in requests {
            assert_eq!(bench.owner(request.clone()), fenced(2), "{request:?}");
        }
        let page = Request::ReadLog { lease: stale.clone(), after: Position::START, max_bytes: 9 };
        assert_eq!(bench.ask(page).0, Answer::Page(Err(Epoch(2))));
        let cursor = Position { ms: 9, n: 9 };
        let reason = String::new();
        let close = Request::Close { lease: stale, cursor, reason, forced: true };
        assert_eq!(bench.ask(close).0, Answer::Close(CloseAnswer::Fenced { epoch: Epoch(2) }));
        assert_eq!(bench.record, before, "nothing changed");
    }
}

#[test]
fn an_acquire_needs_a_free_room_what_was_seen_and_a_session() {
    let (mut bench, lease) = Bench::running();
    let refused = AcquireAnswer::Refused { seen: bench.seen(), phase: Phase::Running };
    assert_eq!(bench.acquire("b", 1, bench.seen()), refused, "its owner lives");
    bench.alive.remove(&host("a"));
    let stale = Seen { epoch: Epoch(1), owner: None };
    assert_eq!(bench.acquire("b", 1, stale), refused, "it is not what was seen");
    assert_eq!(bench.acquire("a", 2, bench.seen()), AcquireAnswer::NoSession, "H-45");
    let AcquireAnswer::Acquired(taken) = bench.acquire("b", 1, bench.seen()) else {
        panic!("its owner is dead")
    };
    assert!(taken.recovered);
    assert_eq!((taken.lease.epoch, bench.record.crashes), (Epoch(3), 1));
    assert_eq!(bench.park(&lease, None), fenced(3), "the dead owner's write comes late");
}

#[test]
fn a_repeated_acquire_gets_the_same_answer() {
    let mut bench = Bench::new();
    let seen = bench.seen();
    let first = bench.acquire("a", 1, seen.clone());
    let before = bench.record.clone();
    assert_eq!(bench.acquire("a", 1, seen), first);
    assert_eq!(bench.record, before);
}

#[test]
fn an_epoch_is_above_the_stored_one_the_floor_and_the_clock() {
    let mut bench = Bench::new();
    assert_eq!(bench.acquired("a", 1).epoch, Epoch(2));
    for (floor, now, expected) in [(40, 0, 40), (0, 70, 70), (0, 0, 71)] {
        let lease = bench.record.lease().unwrap();
        assert_eq!(bench.park(&lease, None), OwnerAnswer::Done);
        (bench.floor, bench.now) = (Epoch(floor), Millis(now));
        assert_eq!(bench.acquired("a", expected).epoch, Epoch(expected));
    }
}

#[test]
fn a_snapshot_that_is_named_and_missing_is_not_a_fresh_room() {
    let (mut bench, lease) = Bench::running();
    let snapshot = bench.snapshot(&lease, 1);
    bench.checkpoint(&lease, snapshot.clone());
    bench.park(&lease, None);
    bench.snapshots.clear();
    let before = bench.record.clone();
    let lost = AcquireAnswer::SnapshotLost { snapshot: Box::new(snapshot) };
    assert_eq!(bench.acquire("b", 1, bench.seen()), lost);
    assert_eq!(bench.record, before);
}

#[test]
fn h35_a_late_copy_of_an_older_checkpoint_changes_nothing() {
    let (mut bench, lease) = Bench::running();
    let first = bench.snapshot(&lease, 1);
    bench.append(client(5), 1, &["x"]);
    let second = bench.snapshot(&lease, 2);
    assert_eq!(bench.checkpoint(&lease, second.clone()), OwnerAnswer::Done);
    assert!(bench.record.log.is_empty(), "what is inside is trimmed");
    assert_eq!(bench.checkpoint(&lease, first), OwnerAnswer::Done);
    assert_eq!(bench.record.snapshot, Some(second));
}

#[test]
fn a_checkpoint_without_its_bytes_is_refused() {
    let (mut bench, lease) = Bench::running();
    let snapshot = bench.snapshot(&lease, 1);
    bench.snapshots.clear();
    assert_eq!(bench.checkpoint(&lease, snapshot), OwnerAnswer::NoSnapshot);
    assert_eq!(bench.record.snapshot, None);
}

#[test]
fn a_newer_snapshot_drops_the_older_ones_bytes_and_forgets_crashes() {
    let (mut bench, lease) = Bench::running();
    bench.record.crashes = 2;
    let (first, second) = (bench.snapshot(&lease, 1), bench.snapshot(&lease, 2));
    bench.checkpoint(&lease, first.clone());
    assert_eq!(bench.record.crashes, 0);
    let (_, effects) = bench.ask(Request::Checkpoint { lease, snapshot: second });
    assert_eq!(effects, [Effect::DropSnapshot(first.key)]);
}

#[test]
fn a_park_is_the_commit_and_its_repeat_is_fenced() {
    let (mut bench, lease) = Bench::running();
    bench.append(client(5), 1, &["x"]);
    let snapshot = bench.snapshot(&lease, 1);
    let request = Request::Park {
        lease,
        snapshot: Some(snapshot.clone()),
        offer: Some((host("b"), Millis(9))),
        why: ParkReason::Idle,
        failed: None,
    };
    let (answer, effects) = bench.ask(request.clone());
    assert_eq!(answer, Answer::Owner(OwnerAnswer::Done));
    let notice = Box::new(OfferNotice { epoch: Epoch(2), snapshot: Some(snapshot.clone()) });
    assert_eq!(effects, [Effect::Offered { to: host("b"), notice }]);
    let offered = Phase::Offered { to: host("b"), until: Millis(9) };
    assert_eq!((&bench.record.owner, &bench.record.phase), (&None, &offered));
    assert_eq!(bench.record.snapshot, Some(snapshot));
    assert_eq!(bench.owner(request), fenced(2), "committed or overtaken: read the record");
}

#[test]
fn h37_a_room_with_backlog_can_be_given_back_and_keeps_its_cut() {
    let (mut bench, lease) = Bench::running();
    bench.append(client(5), 1, &["x"]);
    assert_eq!(bench.park(&lease, None), OwnerAnswer::Done);
    assert_eq!((bench.logged(), bench.record.unrest()), (vec!["x".to_owned()], true));
}

#[test]
fn h38_unread_messages_and_timers_keep_a_parked_room_in_unrest() {
    let (mut bench, lease) = Bench::running();
    let mut snapshot = bench.snapshot(&lease, 1);
    snapshot.unread = 2;
    bench.checkpoint(&lease, snapshot);
    assert!(bench.record.backlog());
    bench.park(&lease, None);
    assert!(bench.record.unrest());

    let (mut bench, lease) = Bench::running();
    let mut snapshot = bench.snapshot(&lease, 1);
    snapshot.next_timer = Some(Millis(5));
    bench.checkpoint(&lease, snapshot);
    bench.park(&lease, None);
    assert_eq!((bench.record.backlog(), bench.record.unrest()), (false, true));
}

#[test]
fn an_open_offer_to_a_living_host_is_not_overwritten() {
    let mut bench = Bench::new();
    let done = OfferAnswer::Done { life: Life(1) };
    assert_eq!(bench.offer("a", 9), done);
    let refused = OfferAnswer::Refused { phase: bench.record.phase.clone(), life: Life(1) };
    assert_eq!(bench.offer("b", 9), refused);
    assert_eq!(bench.offer("a", 9), done, "the same host is told again");
    bench.alive.remove(&host("a"));
    assert_eq!(bench.offer("b", 9), done, "its host is dead");
    bench.now = Millis(9);
    assert_eq!(bench.offer("c", 19), done, "it is over");
}

#[test]
fn an_offer_clears_a_dead_owner_and_no_living_one() {
    let (mut bench, lease) = Bench::running();
    assert!(matches!(bench.offer("b", 9), OfferAnswer::Refused { .. }));
    bench.alive.remove(&host("a"));
    assert!(matches!(bench.offer("b", 9), OfferAnswer::Done { .. }));
    assert_eq!((&bench.record.owner, bench.record.crashes), (&None, 1));
    assert_eq!(bench.park(&lease, None), fenced(2));
}

#[test]
fn an_offer_is_for_its_host_until_it_is_over() {
    let (mut bench, lease) = Bench::running();
    bench.park(&lease, Some(("b", 9)));
    assert!(matches!(bench.acquire("c", 1, bench.seen()), AcquireAnswer::Refused { .. }));
    let mut later = Bench { record: bench.record.clone(), now: Millis(9), ..Bench::new() };
    later.acquired("c", 1);
    let mut dead = Bench { record: bench.record.clone(), ..Bench::new() };
    dead.alive.remove(&host("b"));
    dead.acquired("c", 1);
    bench.acquired("b", 1);
}

#[test]
fn only_the_offered_host_declines_and_the_parted_one_is_told() {
    let (mut bench, lease) = Bench::running();
    bench.park(&lease, Some(("b", 9)));
    let decline = |by| Request::Decline { by: host(by), why: DeclineReason::Draining };
    assert!(matches!(bench.ask(decline("c")).0, Answer::Offer(OfferAnswer::Refused { .. })));
    let (answer, effects) = bench.ask(decline("b"));
    assert!(matches!(answer, Answer::Offer(OfferAnswer::Done { .. })));
    assert_eq!(effects, [Effect::Moved { to: lease.owner.by, settled: None }]);
    let why = ParkReason::Declined { why: DeclineReason::Draining };
    assert_eq!(bench.record.phase, Phase::Parked { why });
    assert!(matches!(bench.ask(decline("b")).0, Answer::Offer(OfferAnswer::Refused { .. })));
}

#[test]
fn three_failed_adoptions_block_the_room_for_all_but_its_source() {
    let (mut bench, lease) = Bench::running();
    bench.park(&lease, None);
    for (name, number) in [("b", 1), ("c", 1), ("b", 2)] {
        assert!(!matches!(bench.record.phase, Phase::Parked { why: ParkReason::Blocked { .. } }));
        let lease = bench.acquired(name, number);
        bench.give_back(&lease, DeclineReason::DeadlineMissed);
    }
    let retry_after = Millis(bench.limits.blocked_ms);
    let why = ParkReason::Blocked { retry_after, why: DeclineReason::DeadlineMissed };
    assert_eq!(bench.record.phase, Phase::Parked { why });
    // Whoever failed last is asked last when it is tried again, and `c` may be asked once more.
    assert_eq!(bench.record.declined, [host("b")].into());
    assert!(matches!(bench.acquire("b", 3, bench.seen()), AcquireAnswer::Refused { .. }));
    assert!(matches!(bench.offer("b", 99_999), OfferAnswer::Refused { .. }));
    let record = bench.record.clone();
    Bench { record, now: retry_after, ..Bench::new() }.acquired("b", 3);
    let lease = bench.acquired("a", 2);
    bench.owner(Request::Settle { lease });
    assert_eq!((bench.record.failures, bench.record.declined.len()), (0, 0), "it runs again");
}

#[test]
fn hosts_that_are_only_busy_do_not_block_a_room() {
    let mut bench = Bench::new();
    for _ in 0..4 {
        bench.offer("b", 9);
        bench.ask(Request::Decline { by: host("b"), why: DeclineReason::OverCapacity });
    }
    let why = ParkReason::Declined { why: DeclineReason::OverCapacity };
    assert_eq!(bench.record.phase, Phase::Parked { why });
}

#[test]
fn a_settle_tells_the_one_who_parked_it_once() {
    let (mut bench, lease) = Bench::running();
    bench.park(&lease, Some(("b", 9)));
    let next = bench.acquired("b", 1);
    let settle = Request::Settle { lease: next.clone() };
    let told = Effect::Moved { to: lease.owner.by, settled: Some(next.epoch) };
    assert_eq!(bench.ask(settle.clone()).1, [told]);
    let settled = OwnerAnswer::Settled { last: bench.record.last };
    assert_eq!(bench.ask(settle), (Answer::Owner(settled), Vec::new()));
}

#[test]
fn a_page_is_bounded_in_bytes_and_never_empty_while_there_is_more() {
    let (mut bench, lease) = Bench::running();
    for number in 1..=3 {
        bench.append(client(5), number, &["1234"]);
    }
    let mut read = |after, max_bytes| {
        let request = Request::ReadLog { lease: lease.clone(), after, max_bytes };
        let Answer::Page(Ok(page)) = bench.ask(request).0 else { panic!("another answer") };
        page
    };
    let page = read(Position::START, 1);
    assert_eq!((page.entries.len(), page.more, page.head), (1, true, Seq(3)));
    let page = read(page.entries[0].position, 8);
    assert_eq!((page.entries.len(), page.more), (2, false));
    assert_eq!(read(page.entries[1].position, 8).entries, []);
}
