//! What only the owner may do: fences, settle, checkpoint, ack and park.

use bytes::Bytes;

use super::bench::*;
use crate::id::{Activation, Epoch, Number, OutSeq, Position};
use crate::protocol::record::{
    Answer, CloseAnswer, DeadLetter, Lease, OwnerAnswer, ParkReason, Phase, Request, SnapshotRef,
};

/// Every operation of an owner's.
fn requests(lease: &Lease, snapshot: &SnapshotRef) -> Vec<Request> {
    let lease = || lease.clone();
    let letter = DeadLetter {
        producer: producer("p", 1),
        number: Number(1),
        message: Bytes::new(),
        attempts: 3,
        error: "no".to_owned(),
        at: PAST,
    };
    vec![
        Request::Settle { lease: lease() },
        Request::Checkpoint { lease: lease(), snapshot: snapshot.clone() },
        Request::Ack { lease: lease(), received: Position { ms: u64::from(u32::MAX) << 10, n: 0 } },
        Request::ReadLog { lease: lease(), after: Position::START, max_bytes: 1_000 },
        Request::Emit { lease: lease(), first: OutSeq(1), events: batch(&["event"]) },
        Request::CountFailure {
            lease: lease(),
            producer: producer("p", 1),
            number: Number(1),
            attempt: 1,
        },
        Request::GiveUp { lease: lease(), letter },
        Request::Close {
            lease: lease(),
            cursor: Position::START,
            reason: "no".to_owned(),
            forced: true,
        },
        park(&lease(), Some(snapshot.clone())),
        move_to(&lease(), "b", FAR),
    ]
}

/// Sends every owner's operation under a lease that is not in force: each is refused with the epoch
/// that is, and none changes anything.
async fn all_fenced(b: &Bench<'_>, room: &crate::id::RoomId, lease: &Lease, why: &str) {
    let before = b.view(room).await;
    let snapshot = b.snapshot(room, lease, 99, before.last).await;
    for request in requests(lease, &snapshot) {
        let epoch = match b.ask(room, request.clone()).await {
            Answer::Owner(OwnerAnswer::Fenced { epoch })
            | Answer::Close(CloseAnswer::Fenced { epoch })
            | Answer::Page(Err(epoch)) => epoch,
            other => panic!("{why}: expected fenced, got {other:?} to {request:?}"),
        };
        assert_eq!(epoch, before.seen.epoch, "{why}: {request:?}");
        assert_eq!(b.view(room).await, before, "{why}: {request:?}");
    }
}

/// A lease of another epoch is refused.
pub(super) async fn fences_compare_the_epoch(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    b.accepted(&room, &producer("p", 1), 1, &["one"]).await;
    for epoch in [lease.epoch.0 - 1, lease.epoch.0 + 1, 0] {
        let wrong = Lease { epoch: Epoch(epoch), ..lease.clone() };
        all_fenced(b, &room, &wrong, "another epoch").await;
    }
    assert_eq!(b.log(&room, &lease).await.len(), 1);
}

/// A lease of another owner is refused, also under the same epoch.
pub(super) async fn fences_compare_the_owner(b: &Bench<'_>) {
    let room = room("r");
    let (a, other) = (b.host("a").await, b.host("b").await);
    let lease = b.start(&room, &a).await;
    b.accepted(&room, &producer("p", 1), 1, &["one"]).await;
    let owners = [
        Activation { by: other, number: lease.owner.number },
        Activation { number: lease.owner.number + 1, ..lease.owner.clone() },
    ];
    for owner in owners {
        let wrong = Lease { owner, ..lease.clone() };
        all_fenced(b, &room, &wrong, "another owner").await;
    }
    assert_eq!(b.log(&room, &lease).await.len(), 1);
}

/// A lease that was given up, or taken over, is refused; so is one for a room that was never made.
pub(super) async fn fences_refuse_an_old_lease(b: &Bench<'_>) {
    let room = room("r");
    let (a, other) = (b.host("a").await, b.host("b").await);
    let old = b.start(&room, &a).await;
    b.done(&room, park(&old, None)).await;
    all_fenced(b, &room, &old, "parked").await;
    b.own(&room, &other).await;
    all_fenced(b, &room, &old, "taken over").await;
    let missing = crate::id::RoomId::new("conformance", "never made").unwrap();
    let old = Lease { generation: b.here.generation(&missing), ..old };
    for request in requests(&old, &unwritten_snapshot(&old, 1, Position::START)) {
        match b.ask(&missing, request.clone()).await {
            Answer::Owner(OwnerAnswer::Fenced { .. })
            | Answer::Close(CloseAnswer::Fenced { .. })
            | Answer::Page(Err(_)) => {}
            other => panic!("expected fenced, got {other:?} to {request:?}"),
        }
    }
}

/// Settling is noted once and can be repeated; it says each time what was logged last, also of what is trimmed.
pub(super) async fn settle_is_noted(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    assert!(!b.view(&room).await.settled);
    assert_eq!(b.settle(&room, &lease).await, Position::START, "nothing was logged");
    assert!(b.view(&room).await.settled);
    b.accepted(&room, &p, 1, &["one"]).await;
    let one = b.settle(&room, &lease).await;
    assert_eq!(one, b.log(&room, &lease).await[0].position);
    b.done(&room, Request::Ack { lease: lease.clone(), received: one }).await;
    assert_eq!(b.settle(&room, &lease).await, one);
    assert!(b.view(&room).await.settled);
    b.done(&room, park(&lease, None)).await;
    assert!(!b.view(&room).await.settled);
}

/// A checkpoint flips the pointer, keeps the lease and trims what is inside.
pub(super) async fn checkpoint_flips_and_trims(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    for number in 1..=3 {
        b.accepted(&room, &p, number, &["x"]).await;
    }
    let log = b.log(&room, &lease).await;
    let snapshot = b.snapshot(&room, &lease, 1, log[1].position).await;
    for _ in 0..2 {
        let request = Request::Checkpoint { lease: lease.clone(), snapshot: snapshot.clone() };
        b.done(&room, request).await;
        assert_eq!(b.log(&room, &lease).await, log[2..]);
    }
    let view = b.view(&room).await;
    assert_eq!(view.snapshot, Some(snapshot));
    assert_eq!((view.phase, view.seen.epoch), (Phase::Running, lease.epoch));
    assert!(view.backlog);
    let all = b.snapshot(&room, &lease, 2, log[2].position).await;
    b.done(&room, Request::Checkpoint { lease: lease.clone(), snapshot: all }).await;
    assert!(!b.view(&room).await.backlog);
    assert_eq!(b.log(&room, &lease).await, []);
    assert_eq!(b.view(&room).await.last, log[2].position, "positions go on after a trim");
    b.accepted(&room, &p, 4, &["x"]).await;
    assert!(b.log(&room, &lease).await[0].position > log[2].position);
}

/// A late checkpoint with a number that is not above the stored one changes nothing.
pub(super) async fn late_checkpoint_changes_nothing(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    b.accepted(&room, &p, 1, &["x"]).await;
    let first = b.view(&room).await.last;
    b.accepted(&room, &p, 2, &["x"]).await;
    let newer = b.snapshot(&room, &lease, 5, first).await;
    b.done(&room, Request::Checkpoint { lease: lease.clone(), snapshot: newer }).await;
    let before = b.view(&room).await;
    for number in [4, 5] {
        let mut late = b.snapshot(&room, &lease, number, before.last).await;
        late.key.attempt += 100;
        b.here.put_snapshot(&room, late.key.clone(), "late".into()).await.unwrap();
        b.done(&room, Request::Checkpoint { lease: lease.clone(), snapshot: late }).await;
        assert_eq!(b.view(&room).await, before);
        assert_eq!(b.log(&room, &lease).await.len(), 1);
    }
    // A late copy whose bytes were dropped long ago is no different.
    let gone = unwritten_snapshot(&lease, 3, before.last);
    b.done(&room, Request::Checkpoint { lease, snapshot: gone }).await;
    assert_eq!(b.view(&room).await, before);
}

/// A pointer to bytes that are not there is refused and changes nothing, in a park too.
pub(super) async fn pointer_needs_its_bytes(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    b.accepted(&room, &producer("p", 1), 1, &["x"]).await;
    let before = b.view(&room).await;
    let snapshot = unwritten_snapshot(&lease, 1, before.last);
    let requests = [
        Request::Checkpoint { lease: lease.clone(), snapshot: snapshot.clone() },
        park(&lease, Some(snapshot)),
    ];
    for request in requests {
        assert_eq!(b.owner(&room, request).await, OwnerAnswer::NoSnapshot);
        assert_eq!(b.view(&room).await, before);
    }
    assert_eq!(b.log(&room, &lease).await.len(), 1);
}

/// A checkpoint forgets the deaths of owners before it.
pub(super) async fn checkpoint_forgets_crashes(b: &Bench<'_>) {
    let room = room("r");
    let (a, heir) = (b.host("a").await, b.host("b").await);
    b.start(&room, &a).await;
    b.here.close_session(&a).await.unwrap();
    let lease = b.own(&room, &heir).await.lease;
    assert_eq!(b.view(&room).await.crashes, 1);
    let snapshot = b.snapshot(&room, &lease, 1, Position::START).await;
    b.done(&room, Request::Checkpoint { lease, snapshot }).await;
    assert_eq!(b.view(&room).await.crashes, 0);
}

/// Bytes stay as they were put first; those that a pointer names stay, and go when it names others.
pub(super) async fn snapshot_bytes_live_as_long_as_their_pointer(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let first = b.snapshot(&room, &lease, 1, Position::START).await;
    b.there.put_snapshot(&room, first.key.clone(), "other bytes".into()).await.unwrap();
    assert_eq!(b.bytes(&room, &first).await.as_deref(), Some(&b"snapshot 1"[..]));
    b.done(&room, Request::Checkpoint { lease: lease.clone(), snapshot: first.clone() }).await;
    let second = b.snapshot(&room, &lease, 2, Position::START).await;
    assert!(b.bytes(&room, &first).await.is_some(), "the pointer still names it");
    b.done(&room, park(&lease, Some(second.clone()))).await;
    assert_eq!(b.bytes(&room, &first).await, None, "no pointer names it");
    b.here.close_session(&a).await.unwrap();
    b.subject.let_sessions_lapse().await;
    assert_eq!(b.bytes(&room, &second).await.as_deref(), Some(&b"snapshot 2"[..]));
    let other = crate::id::RoomId::new("conformance", "other").unwrap();
    assert_eq!(b.bytes(&other, &second).await, None, "keys belong to a room");
}

/// A later number that names the same bytes keeps them.
pub(super) async fn snapshot_bytes_may_be_named_again(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let mut snapshot = b.snapshot(&room, &lease, 1, Position::START).await;
    b.done(&room, Request::Checkpoint { lease: lease.clone(), snapshot: snapshot.clone() }).await;
    snapshot.number = snapshot.number.next();
    b.done(&room, Request::Checkpoint { lease, snapshot: snapshot.clone() }).await;
    assert!(b.bytes(&room, &snapshot).await.is_some());
}

/// A commit takes no bytes of a newer attempt with it, nor does the late copy of an older one.
pub(super) async fn newer_attempts_outlive_a_commit(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let older = b.snapshot(&room, &lease, 1, Position::START).await;
    let committed = b.snapshot(&room, &lease, 2, Position::START).await;
    let next = b.snapshot(&room, &lease, 3, Position::START).await;
    for snapshot in [&committed, &older] {
        let request = Request::Checkpoint { lease: lease.clone(), snapshot: snapshot.clone() };
        b.done(&room, request).await;
    }
    assert!(b.bytes(&room, &committed).await.is_some());
    assert!(b.bytes(&room, &next).await.is_some(), "it may still be committed");
    b.done(&room, park(&lease, Some(next))).await;
}

/// An ack trims what was received, and no more.
pub(super) async fn ack_trims(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    for number in 1..=3 {
        b.accepted(&room, &p, number, &["x"]).await;
    }
    let log = b.log(&room, &lease).await;
    let ack = |received| Request::Ack { lease: lease.clone(), received };
    b.done(&room, ack(log[1].position)).await;
    assert_eq!(b.log(&room, &lease).await, log[2..]);
    b.done(&room, ack(log[0].position)).await;
    assert_eq!(b.log(&room, &lease).await, log[2..], "a late ack changes nothing");
    given!(
        b.append(&room, &p, 1, &["x"]).await,
        crate::protocol::record::AppendAnswer::Duplicate { .. }
    );
    b.done(&room, ack(log[2].position)).await;
    assert!(!b.view(&room).await.backlog);
}

/// A park gives the lease up and keeps the pointer and the log; it commits once, and a repeat is fenced.
pub(super) async fn park_commits_once(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    b.accepted(&room, &producer("p", 1), 1, &["x"]).await;
    let first = b.snapshot(&room, &lease, 1, Position::START).await;
    b.done(&room, Request::Checkpoint { lease: lease.clone(), snapshot: first.clone() }).await;
    b.done(&room, park(&lease, None)).await;
    let view = b.view(&room).await;
    assert_eq!((view.seen.owner.clone(), view.seen.epoch), (None, lease.epoch));
    assert_eq!(view.phase, Phase::Parked { why: ParkReason::Idle });
    assert_eq!((view.snapshot.clone(), view.backlog), (Some(first), true));
    let epoch = lease.epoch;
    assert_eq!(b.owner(&room, park(&lease, None)).await, OwnerAnswer::Fenced { epoch });
    assert_eq!(b.view(&room).await, view);
    let next = b.own(&room, &a).await.lease;
    assert_eq!(b.log(&room, &next).await.len(), 1, "a park keeps the log");
}

/// A park with a snapshot flips the pointer, trims, and may reserve the room in the same step.
pub(super) async fn park_with_an_offer_is_a_move(b: &Bench<'_>) {
    let room = room("r");
    let (a, other) = (b.host("a").await, b.host("b").await);
    let lease = b.start(&room, &a).await;
    b.accepted(&room, &producer("p", 1), 1, &["x"]).await;
    let snapshot = b.snapshot(&room, &lease, 1, b.view(&room).await.last).await;
    let request = Request::Park {
        lease,
        snapshot: Some(snapshot.clone()),
        offer: Some((other.host.clone(), FAR)),
        why: ParkReason::Idle,
        failed: None,
    };
    b.done(&room, request).await;
    let view = b.view(&room).await;
    assert_eq!(view.phase, Phase::Offered { to: other.host.clone(), until: FAR });
    assert_eq!((view.snapshot, view.backlog), (Some(snapshot.clone()), false));
    let acquired = b.own(&room, &other).await;
    assert_eq!(acquired.snapshot, Some(snapshot));
    assert_eq!(b.log(&room, &acquired.lease).await, []);
}

/// A park with an older snapshot keeps the newer pointer and still gives the lease up.
pub(super) async fn park_with_an_old_snapshot_keeps_the_newer(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let newer = b.snapshot(&room, &lease, 5, Position::START).await;
    b.done(&room, Request::Checkpoint { lease: lease.clone(), snapshot: newer.clone() }).await;
    let older = b.snapshot(&room, &lease, 4, Position::START).await;
    b.done(&room, park(&lease, Some(older))).await;
    let view = b.view(&room).await;
    assert_eq!((view.snapshot, view.seen.owner), (Some(newer), None));
}

/// Bytes that come along with the request that points to them are there once it took effect, and a request
/// that is refused does not take those away that are.
pub(super) async fn snapshot_may_come_along(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let with = async |request: Request, snapshot: &SnapshotRef, bytes: &'static [u8]| {
        let carried = (snapshot.key.clone(), Bytes::from_static(bytes));
        let answer = b.here.execute_with(&room, request, Epoch(0), carried).await.unwrap();
        given!(answer, Answer::Owner(answer) => answer)
    };
    let first = unwritten_snapshot(&lease, 1, Position::START);
    let checkpoint = Request::Checkpoint { lease: lease.clone(), snapshot: first.clone() };
    for bytes in [b"bytes", b"other"] {
        assert_eq!(with(checkpoint.clone(), &first, bytes).await, OwnerAnswer::Done);
        assert_eq!(b.view(&room).await.snapshot.as_ref(), Some(&first));
        assert_eq!(b.bytes(&room, &first).await.as_deref(), Some(&b"bytes"[..]));
    }
    let second = unwritten_snapshot(&lease, 2, Position::START);
    let moved = Request::Park {
        lease: lease.clone(),
        snapshot: Some(second.clone()),
        offer: Some((host_id("b"), FAR)),
        why: ParkReason::Idle,
        failed: None,
    };
    assert_eq!(with(moved.clone(), &second, b"").await, OwnerAnswer::Done);
    given!(with(moved, &second, b"").await, OwnerAnswer::Fenced { .. });
    let view = b.view(&room).await;
    given!(view.phase, Phase::Offered { .. });
    assert_eq!(view.snapshot.as_ref(), Some(&second));
    assert_eq!(b.bytes(&room, &second).await.as_deref(), Some(&b""[..]));
}
