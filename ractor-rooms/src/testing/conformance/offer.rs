//! Offering and declining.

use super::bench::*;
use crate::id::{Incarnation, RoomId};
use crate::protocol::record::{
    AcquireAnswer, AppendAnswer, DeclineReason, Lease, OfferAnswer, OwnerAnswer, ParkReason, Phase,
    Request, Standing,
};

/// An offer makes the record of a new room, unless it is told not to.
pub(super) async fn offer_makes_a_room(b: &Bench<'_>) {
    let room = room("r");
    let only = Request::Offer { to: host_id("a"), until: FAR, create: false };
    given!(b.ask(&room, only).await, crate::protocol::record::Answer::Offer(OfferAnswer::Missing));
    given!(b.decline(&room, "a").await, OfferAnswer::Missing);
    let life = b.offered(&room, "a", FAR).await;
    let view = b.view(&room).await;
    assert_eq!(view.life, life);
    assert_eq!((view.seen.epoch.0, view.seen.owner), (life.0, None));
    assert_eq!(view.phase, Phase::Offered { to: host_id("a"), until: FAR });
    assert!(life.0 > 0);
}

/// An open offer to a living host is not overwritten.
pub(super) async fn offer_is_not_overwritten(b: &Bench<'_>) {
    let room = room("r");
    b.host("a").await;
    let life = b.offered(&room, "a", FAR).await;
    given!(
        b.offer(&room, "b", FAR).await,
        OfferAnswer::Refused { phase: Phase::Offered { to, until: FAR }, life: l }
            if to == host_id("a") && l == life
    );
    given!(b.view(&room).await.phase, Phase::Offered { to, .. } if to == host_id("a"));
}

/// The offered host may be told again, with another deadline.
pub(super) async fn offer_to_the_same_host_is_renewed(b: &Bench<'_>) {
    let room = room("r");
    b.host("a").await;
    b.offered(&room, "a", FAR).await;
    let later = crate::id::Millis(FAR.0 + 1);
    b.offered(&room, "a", later).await;
    given!(b.view(&room).await.phase, Phase::Offered { until, .. } if until == later);
}

/// An offer that is over, and one to a host that is dead, give way to another.
pub(super) async fn offer_gives_way_when_over_or_to_the_dead(b: &Bench<'_>) {
    let (over, dead) = (room("over"), room("dead"));
    let a = b.host("a").await;
    b.offered(&over, "a", PAST).await;
    b.offered(&over, "b", FAR).await;
    given!(b.view(&over).await.phase, Phase::Offered { to, .. } if to == host_id("b"));
    b.offered(&dead, "a", FAR).await;
    b.here.close_session(&a).await.unwrap();
    b.offered(&dead, "b", FAR).await;
    given!(b.view(&dead).await.phase, Phase::Offered { to, .. } if to == host_id("b"));
}

/// A room that a living host runs is not offered; a dead owner counts as nobody and is cleared.
pub(super) async fn offer_clears_a_dead_owner_only(b: &Bench<'_>) {
    let room = room("r");
    let a = b.mortal("a").await;
    let lease = b.start(&room, &a).await;
    given!(b.offer(&room, "b", FAR).await, OfferAnswer::Refused { phase: Phase::Running, .. });
    b.settle(&room, &lease).await;
    b.subject.let_sessions_lapse().await;
    b.offered(&room, "b", FAR).await;
    let view = b.view(&room).await;
    assert_eq!((view.seen.owner, view.crashes, view.settled), (None, 1, false));
    given!(view.phase, Phase::Offered { to, .. } if to == host_id("b"));
    given!(b.owner(&room, Request::Settle { lease }).await, OwnerAnswer::Fenced { .. });
    assert!(b.here.owned(&a).await.unwrap().is_empty());
}

/// A decline by the offered host parks the room at once; one by another host changes nothing.
pub(super) async fn decline_parks_the_room(b: &Bench<'_>) {
    let room = room("r");
    let other = b.host("b").await;
    b.host("a").await;
    b.offered(&room, "a", FAR).await;
    given!(b.decline(&room, "b").await, OfferAnswer::Refused { phase: Phase::Offered { .. }, .. });
    given!(b.decline(&room, "a").await, OfferAnswer::Done { .. });
    let view = b.view(&room).await;
    let why = ParkReason::Declined { why: DeclineReason::OverCapacity };
    assert_eq!(view.phase, Phase::Parked { why });
    assert_eq!(view.declined, [host_id("a")]);
    given!(b.decline(&room, "a").await, OfferAnswer::Refused { phase: Phase::Parked { .. }, .. });
    // The next host is tried without waiting.
    b.offered(&room, "b", FAR).await;
    let lease = b.own(&room, &other).await.lease;
    given!(b.decline(&room, "b").await, OfferAnswer::Refused { phase: Phase::Running, .. });
    b.settle(&room, &lease).await;
    assert!(b.view(&room).await.declined.is_empty(), "it has settled");
}

/// Lets adoptions fail until the room is blocked, by hosts in turn; the last way is a park.
async fn block(b: &Bench<'_>, room: &RoomId, hosts: &[&Incarnation]) {
    let failures = [
        DeclineReason::RestoreFailed { error: "no".to_owned() },
        DeclineReason::UnreadableVersion { found: 2, supported: 1 },
        DeclineReason::DeadlineMissed,
    ];
    let count = b.limits.failed_adoptions as usize;
    for i in 0..count {
        let (host, why) = (hosts[i % hosts.len()], failures[i % failures.len()].clone());
        b.offered(room, host.host.as_str(), FAR).await;
        if i + 1 == count {
            let lease = b.own(room, host).await.lease;
            b.done(room, give_back(&lease, why.clone())).await;
        } else {
            given!(
                b.decline_for(room, host.host.as_str(), why.clone()).await,
                OfferAnswer::Done { .. }
            );
        }
        let phase = b.view(room).await.phase;
        if i + 1 == count {
            given!(phase, Phase::Parked { why: ParkReason::Blocked { why: w, .. } } if w == why);
        } else {
            assert_eq!(phase, Phase::Parked { why: ParkReason::Declined { why } });
        }
    }
}

fn give_back(lease: &Lease, why: DeclineReason) -> Request {
    Request::Park {
        lease: lease.clone(),
        snapshot: None,
        offer: None,
        why: ParkReason::GivenBack,
        failed: Some(why),
    }
}

/// After so many failed adoptions the room rests: neither offered nor acquired until it may be.
pub(super) async fn failed_adoptions_block_the_room(b: &Bench<'_>) {
    let room = room("r");
    let (a, other) = (b.host("a").await, b.host("b").await);
    block(b, &room, &[&a, &other]).await;
    given!(
        b.offer(&room, "a", FAR).await,
        OfferAnswer::Refused { phase: Phase::Parked { why: ParkReason::Blocked { .. } }, .. }
    );
    given!(b.acquire(&room, &a).await, AcquireAnswer::Refused { .. });
    // Asking again before it may be tried would only make noise.
    given!(
        b.append(&room, &producer("p", 1), 1, &["x"]).await,
        AppendAnswer::Accepted { standing: Standing::Running, .. }
    );
    assert!(b.is_restless(&room).await);
    b.subject.let_sessions_lapse().await;
    given!(
        b.append(&room, &producer("p", 1), 2, &["x"]).await,
        AppendAnswer::Accepted { standing: Standing::NeedsHost, .. }
    );
    b.offered(&room, "a", FAR).await;
    given!(b.acquire(&room, &a).await, AcquireAnswer::Acquired(_));
}

/// The source of a move that nobody could adopt need not wait: it goes on at once.
pub(super) async fn source_of_a_blocked_room_goes_on(b: &Bench<'_>) {
    let room = room("r");
    let (a, other) = (b.host("a").await, b.host("b").await);
    let lease = b.start(&room, &a).await;
    b.done(&room, park(&lease, None)).await;
    block(b, &room, &[&other]).await;
    given!(b.acquire(&room, &other).await, AcquireAnswer::Refused { .. });
    let lease = b.own(&room, &a).await.lease;
    b.settle(&room, &lease).await;
}

/// Hosts that are only too busy, or draining, do not block a room, however many.
pub(super) async fn busy_hosts_do_not_block_a_room(b: &Bench<'_>) {
    let room = room("r");
    let count = b.limits.failed_adoptions as usize + 2;
    let busy = [DeclineReason::OverCapacity, DeclineReason::Draining, DeclineReason::UnknownKind];
    for (i, why) in busy.iter().cycle().take(count).enumerate() {
        let host = format!("h{i}");
        b.offered(&room, &host, FAR).await;
        let answer = b.decline_for(&room, &host, why.clone()).await;
        given!(answer, OfferAnswer::Done { .. });
        let why = ParkReason::Declined { why: why.clone() };
        assert_eq!(b.view(&room).await.phase, Phase::Parked { why });
    }
    assert_eq!(b.view(&room).await.declined.len(), count);
}

/// A room that settled begins its count of failures anew.
pub(super) async fn settled_room_forgets_failures(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    for _ in 0..b.limits.failed_adoptions * 2 {
        b.offered(&room, "a", FAR).await;
        let answer = b.decline_for(&room, "a", DeclineReason::DeadlineMissed).await;
        given!(answer, OfferAnswer::Done { .. });
        let lease = b.own(&room, &a).await.lease;
        b.settle(&room, &lease).await;
        b.done(&room, park(&lease, None)).await;
    }
    assert_eq!(b.view(&room).await.phase, Phase::Parked { why: ParkReason::Idle });
}

/// An adopter that gives the room back with a failure counts as one that declined.
pub(super) async fn failed_park_counts_as_a_decline(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    b.done(&room, give_back(&lease, DeclineReason::DeadlineMissed)).await;
    let view = b.view(&room).await;
    assert_eq!(view.declined, [host_id("a")]);
    let why = ParkReason::Declined { why: DeclineReason::DeadlineMissed };
    assert_eq!(view.phase, Phase::Parked { why });
    assert_eq!(view.seen.owner, None);
}
