//! Acquiring: compare-and-set, who may, and what an acquirer gets.

use super::bench::*;
use crate::id::{Epoch, OutSeq, Seq};
use crate::protocol::record::{
    AcquireAnswer, Answer, FIRST_PAGE_BYTES, Lease, Phase, Request, Seen,
};

/// A room without a record cannot be acquired.
pub(super) async fn acquire_needs_a_record(b: &Bench<'_>) {
    let a = b.host("a").await;
    let seen = Seen { epoch: Epoch(0), owner: None };
    let answer = b.acquire_seen(&room("r"), &b.activation(&a), &seen).await;
    given!(answer, AcquireAnswer::Missing);
}

/// A host whose session is not alive gets nothing, also not a repeat.
pub(super) async fn acquire_needs_an_own_session(b: &Bench<'_>) {
    let room = room("r");
    b.offered(&room, "a", FAR).await;
    let a = b.host("a").await;
    let (seen, activation) = (b.view(&room).await.seen, b.activation(&a));
    given!(b.acquire_seen(&room, &activation, &seen).await, AcquireAnswer::Acquired(_));
    b.here.close_session(&a).await.unwrap();
    given!(b.acquire_seen(&room, &activation, &seen).await, AcquireAnswer::NoSession);
    given!(b.acquire(&room, &a).await, AcquireAnswer::NoSession);
    let again = b.host("a").await;
    given!(b.acquire(&room, &a).await, AcquireAnswer::NoSession);
    given!(b.acquire(&room, &again).await, AcquireAnswer::Acquired(_));
}

/// The lease is a new epoch for this activation, and the record shows it.
pub(super) async fn acquire_gives_a_lease(b: &Bench<'_>) {
    let room = room("r");
    let life = b.offered(&room, "a", FAR).await;
    b.accepted(&room, &producer("p", 1), 1, &["one", "two"]).await;
    let a = b.host("a").await;
    let (seen, activation) = (b.view(&room).await.seen, b.activation(&a));
    let answer = b.acquire_seen(&room, &activation, &seen).await;
    let acquired = given!(answer, AcquireAnswer::Acquired(acquired) => *acquired);
    assert!(acquired.lease.epoch > seen.epoch, "{acquired:?} after {seen:?}");
    assert_eq!(acquired.lease.owner, activation);
    assert_eq!((acquired.life, acquired.head, acquired.out_seq), (life, Seq(2), OutSeq(0)));
    assert_eq!((acquired.snapshot, acquired.recovered), (None, false));
    let view = b.view(&room).await;
    assert_eq!(view.seen, Seen { epoch: acquired.lease.epoch, owner: Some(activation) });
    assert_eq!((view.phase, view.settled, view.owner_alive), (Phase::Running, false, true));
}

/// A repeat by the same activation gets the same answer, whatever it says it saw.
pub(super) async fn acquire_repeats_by_activation(b: &Bench<'_>) {
    let room = room("r");
    b.offered(&room, "a", FAR).await;
    let a = b.host("a").await;
    let (seen, activation) = (b.view(&room).await.seen, b.activation(&a));
    let first = b.acquire_seen(&room, &activation, &seen).await;
    given!(&first, AcquireAnswer::Acquired(_));
    assert_eq!(b.acquire_seen(&room, &activation, &seen).await, first);
    let now = b.view(&room).await.seen;
    assert_eq!(b.acquire_seen(&room, &activation, &now).await, first);
    // Another activation of the same host is somebody else.
    given!(b.acquire(&room, &a).await, AcquireAnswer::Refused { .. });
}

/// What was seen must still be so, in epoch and in owner.
pub(super) async fn acquire_compares_what_was_seen(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    b.done(&room, park(&lease, None)).await;
    let now = Seen { epoch: lease.epoch, owner: None };
    let stale = [
        Seen { epoch: lease.epoch, owner: Some(lease.owner.clone()) },
        Seen { epoch: Epoch(lease.epoch.0 - 1), owner: None },
        Seen { epoch: Epoch(lease.epoch.0 + 1), owner: None },
        Seen { epoch: Epoch(0), owner: None },
    ];
    for seen in stale {
        given!(
            b.acquire_seen(&room, &b.activation(&a), &seen).await,
            AcquireAnswer::Refused { seen, .. } if seen == now
        );
    }
    given!(b.acquire_seen(&room, &b.activation(&a), &now).await, AcquireAnswer::Acquired(_));
}

/// A running room is not taken from a living owner.
pub(super) async fn acquire_is_refused_while_the_owner_lives(b: &Bench<'_>) {
    let room = room("r");
    let (a, other) = (b.host("a").await, b.host("b").await);
    let lease = b.start(&room, &a).await;
    let seen = Seen { epoch: lease.epoch, owner: Some(lease.owner.clone()) };
    given!(
        b.acquire(&room, &other).await,
        AcquireAnswer::Refused { seen: s, phase: Phase::Running } if s == seen
    );
    b.settle(&room, &lease).await;
}

/// A dead owner's room is free, by lapse and by the end of its session, and its death is counted.
pub(super) async fn acquire_after_the_owner_died(b: &Bench<'_>) {
    let room = room("r");
    let (heir, a) = (b.host("b").await, b.mortal("a").await);
    let dead = b.start(&room, &a).await;
    b.subject.let_sessions_lapse().await;
    assert!(!b.view(&room).await.owner_alive);
    let next = b.own(&room, &heir).await;
    assert!(next.recovered);
    assert!(next.lease.epoch > dead.epoch);
    assert_eq!(b.view(&room).await.crashes, 1);
    b.here.close_session(&heir).await.unwrap();
    let third = b.host("c").await;
    let last = b.own(&room, &third).await;
    assert!(last.recovered && last.lease.epoch > next.lease.epoch);
    assert_eq!(b.view(&room).await.crashes, 2);
    for stale in [dead, next.lease] {
        given!(
            b.owner(&room, Request::Settle { lease: stale }).await,
            crate::protocol::record::OwnerAnswer::Fenced { .. }
        );
    }
}

/// A new incarnation of a host is not the old one: it takes over what the old one owned.
pub(super) async fn acquire_by_the_next_incarnation(b: &Bench<'_>) {
    let room = room("r");
    let a = b.mortal("a").await;
    let dead = b.start(&room, &a).await;
    b.subject.let_sessions_lapse().await;
    let again = b.host("a").await;
    let next = b.own(&room, &again).await;
    assert!(next.recovered && next.lease.epoch > dead.epoch);
}

/// A parked room is free for anybody, and nobody died.
pub(super) async fn acquire_after_a_park(b: &Bench<'_>) {
    let room = room("r");
    let (a, other) = (b.host("a").await, b.host("b").await);
    let lease = b.start(&room, &a).await;
    b.done(&room, park(&lease, None)).await;
    let next = b.own(&room, &other).await;
    assert!(!next.recovered);
    assert!(next.lease.epoch > lease.epoch);
}

/// An offered room is for the offered host, until that is dead or the offer over.
pub(super) async fn acquire_respects_an_offer(b: &Bench<'_>) {
    let (a, other) = (b.host("a").await, b.host("b").await);
    let (to_b, to_dead, over) = (room("to b"), room("to dead"), room("over"));
    b.offered(&to_b, "b", FAR).await;
    given!(
        b.acquire(&to_b, &a).await,
        AcquireAnswer::Refused { phase: Phase::Offered { to, until: FAR }, .. } if to == other.host
    );
    given!(b.acquire(&to_b, &other).await, AcquireAnswer::Acquired(_));
    b.offered(&to_dead, "dead", FAR).await;
    given!(b.acquire(&to_dead, &a).await, AcquireAnswer::Acquired(_));
    b.offered(&over, "b", PAST).await;
    given!(b.acquire(&over, &a).await, AcquireAnswer::Acquired(_));
}

/// A snapshot that the record names and that is gone is said so; the room is not begun afresh, and not
/// changed.
pub(super) async fn acquire_says_that_the_snapshot_is_lost(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let snapshot = b.snapshot(&room, &lease, 1, b.view(&room).await.last).await;
    b.done(&room, park(&lease, Some(snapshot.clone()))).await;
    if !b.subject.lose_snapshot(&room, &snapshot.key).await {
        return;
    }
    let before = b.view(&room).await;
    given!(
        b.acquire(&room, &a).await,
        AcquireAnswer::SnapshotLost { snapshot: lost } if *lost == snapshot
    );
    assert_eq!(b.view(&room).await, before);
}

/// An acquirer gets the snapshot pointer, and its bytes are there.
pub(super) async fn acquire_gives_the_snapshot(b: &Bench<'_>) {
    let room = room("r");
    let (a, other) = (b.host("a").await, b.host("b").await);
    let lease = b.start(&room, &a).await;
    b.accepted(&room, &producer("p", 1), 1, &["one"]).await;
    let mut snapshot = b.snapshot(&room, &lease, 7, b.view(&room).await.last).await;
    snapshot.cursor_seq = Seq(1);
    snapshot.unread = 3;
    snapshot.schema = 4;
    snapshot.next_timer = Some(FAR);
    b.done(&room, park(&lease, Some(snapshot.clone()))).await;
    b.here.close_session(&a).await.unwrap();
    let acquired = b.own(&room, &other).await;
    assert_eq!(acquired.snapshot, Some(snapshot.clone()));
    assert_eq!(b.bytes(&room, &snapshot).await.as_deref(), Some(&b"snapshot 7"[..]));
}

/// An acquirer gets what is in the log above the cursor, as a reading of it would give, and no more than
/// a page.
pub(super) async fn acquire_brings_a_page(b: &Bench<'_>) {
    let room = room("r");
    let p = producer("p", 1);
    let (a, other) = (b.host("a").await, b.host("b").await);
    let lease = b.start(&room, &a).await;
    b.accepted(&room, &p, 1, &["handled"]).await;
    let cursor = b.view(&room).await.last;
    let snapshot = b.snapshot(&room, &lease, 1, cursor).await;
    b.done(&room, park(&lease, Some(snapshot))).await;
    b.accepted(&room, &p, 2, &["unread", "more"]).await;
    b.accepted(&room, &p, 4, &["last"]).await;
    let (seen, activation) = (b.view(&room).await.seen, b.activation(&other));
    let acquire = async || {
        let answer = b.acquire_seen(&room, &activation, &seen).await;
        given!(answer, AcquireAnswer::Acquired(acquired) => *acquired)
    };
    let acquired = acquire().await;
    let page = &acquired.page;
    assert_eq!(*page, b.page(&room, &acquired.lease, cursor, FIRST_PAGE_BYTES).await);
    let read: Vec<_> = page.entries.iter().flat_map(|entry| entry.batch.clone()).collect();
    assert_eq!((read, page.more, page.head), (batch(&["unread", "more", "last"]), false, Seq(4)));
    let large = "x".repeat(FIRST_PAGE_BYTES * 3 / 4);
    b.accepted(&room, &p, 5, &[&large]).await;
    b.accepted(&room, &p, 6, &[&large]).await;
    let again = acquire().await;
    assert_eq!((again.page.entries.len(), again.page.more), (3, true));
    assert_eq!(again.page, b.page(&room, &again.lease, cursor, FIRST_PAGE_BYTES).await);
}

/// Epochs only grow, and none is below the caller's floor.
pub(super) async fn epochs_grow_above_the_floor(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let mut lease = b.start(&room, &a).await;
    for _ in 0..5 {
        b.done(&room, park(&lease, None)).await;
        let next = b.own(&room, &a).await.lease;
        assert!(next.epoch > lease.epoch);
        lease = next;
    }
    b.done(&room, park(&lease, None)).await;
    let floor = Epoch(lease.epoch.0 + 1_000_000);
    let request = Request::Acquire { activation: b.activation(&a), seen: b.view(&room).await.seen };
    let answer = b.here.execute(&room, request, floor).await.unwrap();
    let high = given!(answer, Answer::Acquire(AcquireAnswer::Acquired(acquired)) => acquired.lease);
    assert!(high.epoch >= floor);
    b.done(&room, park(&high, None)).await;
    assert!(b.own(&room, &a).await.lease.epoch > high.epoch, "a floor is not forgotten");
}

/// A new room is born above the caller's floor too.
pub(super) async fn births_respect_the_floor(b: &Bench<'_>) {
    let (first, second) = (room("first"), room("second"));
    let life = b.offered(&first, "a", FAR).await;
    let floor = Epoch(life.0 + 1_000_000_000);
    let request = Request::Offer { to: host_id("a"), until: FAR, create: true };
    given!(
        b.here.execute(&second, request, floor).await.unwrap(),
        Answer::Offer(crate::protocol::record::OfferAnswer::Done { life }) if life.0 >= floor.0
    );
    assert!(b.view(&second).await.seen.epoch >= floor);
}

/// Of many that acquire at once, one gets the lease.
pub(super) async fn acquire_has_one_winner(b: &Bench<'_>) {
    let room = room("r");
    b.offered(&room, "nobody", PAST).await;
    let seen = b.view(&room).await.seen;
    let mut racers = Vec::new();
    for i in 0..8 {
        let activation = b.activation(&b.host(&format!("h{i}")).await);
        let transport = if i % 2 == 0 { b.here.clone() } else { b.there.clone() };
        let (room, seen) = (room.clone(), seen.clone());
        racers.push(tokio::spawn(async move {
            let request = Request::Acquire { activation, seen };
            transport.execute(&room, request, Epoch(0)).await.unwrap()
        }));
    }
    let mut winners: Vec<Lease> = Vec::new();
    for racer in racers {
        match racer.await.unwrap() {
            Answer::Acquire(AcquireAnswer::Acquired(acquired)) => winners.push(acquired.lease),
            Answer::Acquire(AcquireAnswer::Refused { .. }) => {}
            other => panic!("expected acquired or refused, got {other:?}"),
        }
    }
    assert_eq!(winners.len(), 1, "{winners:?}");
    b.settle(&room, &winners.remove(0)).await;
}
