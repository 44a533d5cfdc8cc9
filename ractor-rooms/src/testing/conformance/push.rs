//! Pushes: hints, and on a calm store they come.

use super::bench::*;
use crate::id::{OutSeq, Position};
use crate::protocol::record::{CloseAnswer, OfferAnswer, OfferNotice, OwnerAnswer, Request};
use crate::transport::Push;

/// An entry goes to the owner, whole, under its epoch; to nobody else, and not after the room moved.
pub(super) async fn entries_go_to_the_owner(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    let (a, other) = (b.host("a").await, b.host("b").await);
    let (mut at_a, mut at_b) = (b.listen(&a).await, b.listen(&other).await);
    let lease = b.start(&room, &a).await;
    b.accepted(&room, &p, 1, &["one", "two"]).await;
    let is_entry = |push: &Push| matches!(push, Push::Entry { .. });
    let push = at_a.want("the entry", is_entry).await;
    let entry = b.log(&room, &lease).await.remove(0);
    assert_eq!(
        push,
        Push::Entry { room: room.clone(), epoch: lease.epoch, generation: lease.generation, entry }
    );
    b.done(&room, move_to(&lease, "b", FAR)).await;
    b.accepted(&room, &p, 3, &["while offered"]).await;
    let next = b.own(&room, &other).await.lease;
    b.accepted(&room, &p, 4, &["after"]).await;
    let push = at_b.want("the entry", is_entry).await;
    given!(
        push,
        Push::Entry { epoch, entry, .. } if epoch == next.epoch && entry.batch == batch(&["after"])
    );
    at_a.never(
        "an entry of another's room",
        |push| matches!(push, Push::Entry { entry, .. } if entry.first.0 > 1),
    )
    .await;
    // Nothing that was not written is pushed.
    b.append(&room, &p, 4, &["after"]).await;
    b.append(&room, &p, 9, &["gap"]).await;
    at_b.never(
        "what was not accepted",
        |push| matches!(push, Push::Entry { entry, .. } if entry.first.0 != 4),
    )
    .await;
}

/// A host is told of an offer, by an offer and by a park, and told again, with what it needs to acquire.
pub(super) async fn offers_are_told(b: &Bench<'_>) {
    let room = room("r");
    let (a, other) = (b.host("a").await, b.host("b").await);
    let (mut at_a, mut at_b) = (b.listen(&a).await, b.listen(&other).await);
    let notice = |push: &Push| matches!(push, Push::Offered { room: of, .. } if *of == room);
    let told = async |push: Push| {
        let view = b.view(&room).await;
        let (epoch, snapshot) = (view.seen.epoch, view.snapshot);
        let notice = Box::new(OfferNotice { epoch, snapshot });
        assert_eq!(push, Push::Offered { room: room.clone(), notice });
    };
    for _ in 0..2 {
        b.offered(&room, "a", FAR).await;
        told(at_a.want("the offer", notice).await).await;
    }
    given!(b.offer(&room, "b", FAR).await, OfferAnswer::Refused { .. });
    at_b.never("an offer that was refused", notice).await;
    let lease = b.own(&room, &a).await.lease;
    b.done(&room, move_to(&lease, "b", FAR)).await;
    told(at_b.want("the move's offer", notice).await).await;
}

/// The host that parked a room is told that its adopter settled.
pub(super) async fn source_is_told_of_the_adopter(b: &Bench<'_>) {
    let room = room("r");
    let (a, other) = (b.host("a").await, b.host("b").await);
    let mut at_a = b.listen(&a).await;
    let lease = b.start(&room, &a).await;
    b.done(&room, move_to(&lease, "b", FAR)).await;
    let next = b.own(&room, &other).await.lease;
    b.settle(&room, &next).await;
    let push = at_a.want("the adoption", |push| matches!(push, Push::Moved { .. })).await;
    assert_eq!(push, Push::Moved { room, settled: Some(next.epoch) });
}

/// The host that parked a room is told that the offered host declined, or gave it back.
pub(super) async fn source_is_told_of_a_decline(b: &Bench<'_>) {
    let (r, s) = (room("r"), room("s"));
    let (a, other) = (b.host("a").await, b.host("b").await);
    let mut at_a = b.listen(&a).await;
    for room in [&r, &s] {
        let lease = b.start(room, &a).await;
        b.done(room, move_to(&lease, "b", FAR)).await;
    }
    given!(b.decline(&r, "b").await, OfferAnswer::Done { .. });
    at_a.want("the decline", |push| *push == Push::Moved { room: r.clone(), settled: None }).await;
    let lease = b.own(&s, &other).await.lease;
    let given_back = Request::Park {
        lease,
        snapshot: None,
        offer: None,
        why: crate::protocol::record::ParkReason::GivenBack,
        failed: Some(crate::protocol::record::DeclineReason::DeadlineMissed),
    };
    b.done(&s, given_back).await;
    at_a.want("the giving back", |push| *push == Push::Moved { room: s.clone(), settled: None })
        .await;
}

/// Watchers get the events of a room, the new ones only, wherever it is; others do not.
pub(super) async fn events_go_to_watchers(b: &Bench<'_>) {
    let room = room("r");
    let (a, other) = (b.host("a").await, b.host("b").await);
    let (mut at_a, mut at_b) = (b.listen(&a).await, b.listen(&other).await);
    let lease = b.start(&room, &a).await;
    let life = b.view(&room).await.life;
    b.there.watch(&other, &room, true).await.unwrap();
    let emit = |first, events: &[&str]| Request::Emit {
        lease: lease.clone(),
        first: OutSeq(first),
        events: batch(events),
    };
    let is_events = |push: &Push| matches!(push, Push::Events { .. });
    b.done(&room, emit(1, &["one", "two"])).await;
    b.done(&room, emit(2, &["two", "three"])).await;
    for (first, events) in [(1, &["one", "two"][..]), (3, &["three"])] {
        let wanted =
            Push::Events { room: room.clone(), life, first: OutSeq(first), events: batch(events) };
        at_b.want("the events", |push| *push == wanted).await;
    }
    let fenced = Request::Emit {
        lease: crate::protocol::record::Lease { epoch: lease.epoch.next(), ..lease.clone() },
        first: OutSeq(4),
        events: batch(&["stale"]),
    };
    given!(b.owner(&room, fenced).await, OwnerAnswer::Fenced { .. });
    // A push may come again; what must not come is a new one.
    let is_new = |push: &Push| matches!(push, Push::Events { first, .. } if first.0 > 3);
    at_b.never("an event of a stale owner", is_new).await;
    at_a.never("an event to one who does not watch", is_events).await;
    b.there.watch(&other, &room, false).await.unwrap();
    b.done(&room, emit(4, &["four"])).await;
    at_b.never("an event after the watch ended", is_new).await;
}

/// Watchers are told that a room ended.
pub(super) async fn closing_is_told_to_watchers(b: &Bench<'_>) {
    let room = room("r");
    let (a, other) = (b.host("a").await, b.host("b").await);
    let mut at_b = b.listen(&other).await;
    let lease = b.start(&room, &a).await;
    let life = b.view(&room).await.life;
    b.there.watch(&other, &room, true).await.unwrap();
    given!(b.close(&room, &lease, Position::START, true).await, CloseAnswer::Done { .. });
    let push = at_b.want("the end", |push| matches!(push, Push::Closed { .. })).await;
    assert_eq!(push, Push::Closed { room, life, reason: "enough".to_owned() });
}

/// A letter is pushed with its place.
pub(super) async fn letters_are_pushed(b: &Bench<'_>) {
    let a = b.host("a").await;
    let mut at_a = b.listen(&a).await;
    for (position, letter) in [(1, "one"), (2, "two")] {
        assert!(b.there.post(&a, letter.into()).await.unwrap());
        let push = at_a.want(
            "the letter",
            |push| matches!(push, Push::Letter { position: p, .. } if *p == position),
        );
        assert_eq!(push.await, Push::Letter { position, letter: letter.into() });
    }
}

/// A second stream replaces the first, which ends; watches stay.
pub(super) async fn second_stream_replaces_the_first(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    let a = b.host("a").await;
    let mut old = b.listen(&a).await;
    let lease = b.start(&room, &a).await;
    b.here.watch(&a, &room, true).await.unwrap();
    let mut new = b.listen(&a).await;
    old.end().await;
    b.accepted(&room, &p, 1, &["one"]).await;
    new.want("the entry", |push| matches!(push, Push::Entry { .. })).await;
    let emit = Request::Emit { lease, first: OutSeq(1), events: batch(&["event"]) };
    b.done(&room, emit).await;
    new.want("the event", |push| matches!(push, Push::Events { .. })).await;
}

/// The end of a session ends its stream.
pub(super) async fn closed_session_ends_its_stream(b: &Bench<'_>) {
    let a = b.host("a").await;
    let mut at_a = b.listen(&a).await;
    b.here.close_session(&a).await.unwrap();
    at_a.end().await;
}
