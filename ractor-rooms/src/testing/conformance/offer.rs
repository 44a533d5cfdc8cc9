//! Offering and declining.

use super::bench::*;
use crate::protocol::record::{
    AcquireAnswer, AppendAnswer, DeclineReason, OfferAnswer, OwnerAnswer, ParkReason, Phase,
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
    b.done(&room, Request::Settle { lease: lease.clone() }).await;
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
    b.done(&room, Request::Settle { lease }).await;
    assert!(b.view(&room).await.declined.is_empty(), "it has settled");
}

/// After so many failed adoptions the room rests: neither offered nor acquired until it may be.
pub(super) async fn failed_adoptions_block_the_room(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let count = b.limits.failed_adoptions;
    for i in 0..count {
        b.offered(&room, &format!("h{i}"), FAR).await;
        given!(b.decline(&room, &format!("h{i}")).await, OfferAnswer::Done { .. });
        let phase = b.view(&room).await.phase;
        let is_blocked = matches!(phase, Phase::Parked { why: ParkReason::Blocked { .. } });
        assert_eq!(is_blocked, i + 1 == count, "after {} declines", i + 1);
    }
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

/// The same host failing again counts once.
pub(super) async fn one_host_does_not_block_a_room(b: &Bench<'_>) {
    let room = room("r");
    for _ in 0..=b.limits.failed_adoptions {
        b.offered(&room, "a", FAR).await;
        given!(b.decline(&room, "a").await, OfferAnswer::Done { .. });
    }
    given!(b.view(&room).await.phase, Phase::Parked { why: ParkReason::Declined { .. } });
}

/// An adopter that gives the room back with a failure counts as one that declined.
pub(super) async fn failed_park_counts_as_a_decline(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let failed = Some(DeclineReason::DeadlineMissed);
    let request =
        Request::Park { lease, snapshot: None, offer: None, why: ParkReason::GivenBack, failed };
    b.done(&room, request).await;
    let view = b.view(&room).await;
    assert_eq!(view.declined, [host_id("a")]);
    assert_eq!(view.phase, Phase::Parked { why: ParkReason::GivenBack });
}
