//! A store that may have lost data: what a lease of an earlier generation is worth, and who may go on.

use super::bench::*;
use crate::id::{Epoch, Generation, Incarnation, Life, Number, OutSeq, Position, RoomId, Seq};
use crate::protocol::record::{
    AcquireAnswer, Acquired, Answer, AppendAnswer, Lease, OfferAnswer, OwnerAnswer, Phase,
    Reassert, Request,
};
use crate::transport::Push;

impl Bench<'_> {
    /// Another generation, which both connections hear of when they ask; `None` where it cannot be done.
    async fn begin(&self, room: &RoomId) -> Option<Generation> {
        let before = self.here.generation(room);
        if !self.subject.begin_generation().await {
            return None;
        }
        self.view(room).await;
        self.ask_there(room, Request::Read).await;
        let now = self.here.generation(room);
        assert!(now > before, "{now} after {before}");
        assert_eq!(self.there.generation(room), now);
        Some(now)
    }

    /// Everything is gone, which both connections hear of when they ask.
    async fn forget(&self, room: &RoomId) -> Option<Generation> {
        let before = self.here.generation(room);
        if !self.subject.forget().await {
            return None;
        }
        given!(self.ask(room, Request::Read).await, Answer::View(None));
        given!(self.ask_there(room, Request::Read).await, Answer::View(None));
        let now = self.here.generation(room);
        assert!(now > before, "{now} after {before}");
        Some(now)
    }

    async fn renew(&self, by: &Incarnation, proved: Generation) -> bool {
        let spec = crate::protocol::session::SessionSpec { proved, ..spec(0) };
        self.here.renew_session(by, self.subject.ttl() * 1_000, spec).await.unwrap()
    }

    /// What an owner says of a room that it runs.
    async fn claim(&self, room: &RoomId, life: Life, lease: &Lease) -> Reassert {
        let snapshot = self.snapshot(room, lease, 70, Position { ms: 5, n: 5 }).await;
        let activation = self.activation(&lease.owner.by);
        let (lease, handled) = (lease.clone(), Vec::new());
        Reassert { lease, activation, life, snapshot, handled, seq: Seq(0), out_seq: OutSeq(0) }
    }

    async fn reassert(&self, room: &RoomId, claim: &Reassert) -> AcquireAnswer {
        let request = Request::Reassert(Box::new(claim.clone()));
        given!(self.ask(room, request).await, Answer::Acquire(answer) => answer)
    }

    async fn reasserted(&self, room: &RoomId, claim: &Reassert) -> Acquired {
        given!(self.reassert(room, claim).await, AcquireAnswer::Acquired(acquired) => *acquired)
    }
}

/// Nothing is done under it, though epoch and owner are those that are stored.
pub(super) async fn lease_of_another_generation_is_refused(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    b.accepted(&room, &producer("p", 1), 1, &["one"]).await;
    let snapshot = b.snapshot(&room, &lease, 1, Position { ms: u64::MAX >> 20, n: 0 }).await;
    let before = b.view(&room).await;
    let Some(generation) = b.begin(&room).await else { return };
    let other = Answer::OtherGeneration { generation };
    let l = || lease.clone();
    for request in [
        Request::Settle { lease: l() },
        Request::Checkpoint { lease: l(), snapshot: snapshot.clone() },
        Request::Ack { lease: l(), received: before.last },
        park(&lease, Some(snapshot)),
        Request::ReadLog { lease: l(), after: Position::START, max_bytes: 100 },
        Request::Emit { lease: l(), first: OutSeq(1), events: batch(&["e"]) },
        Request::Close { lease: l(), cursor: before.last, reason: String::new(), forced: true },
    ] {
        assert_eq!(b.ask(&room, request).await, other);
    }
    assert_eq!(b.view(&room).await, before);
}

/// It gets a new epoch under a new activation, with what is stored, and nothing had been lost.
pub(super) async fn reassert_proves_a_lease(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    b.accepted(&room, &producer("p", 1), 1, &["one"]).await;
    let life = b.view(&room).await.life;
    let Some(generation) = b.begin(&room).await else { return };
    let claim = b.claim(&room, life, &lease).await;
    let acquired = b.reasserted(&room, &claim).await;
    assert!(acquired.lease.epoch > lease.epoch);
    assert_eq!(acquired.lease.owner, claim.activation);
    assert_eq!(acquired.lease.generation, generation);
    assert_eq!((acquired.life, acquired.head, acquired.regressed), (life, Seq(1), false));
    let view = b.view(&room).await;
    assert_eq!(view.seen.owner, Some(claim.activation.clone()));
    assert_eq!((view.phase, view.settled), (Phase::Running, false));
    assert_eq!(b.log(&room, &acquired.lease).await.len(), 1);
    assert_eq!(b.here.owned(&a).await.unwrap().len(), 1);
    assert_eq!(b.settle(&room, &acquired.lease).await, view.last);
}

/// A repeat by the same activation gets the same lease.
pub(super) async fn reassert_repeats_by_activation(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let life = b.view(&room).await.life;
    if b.begin(&room).await.is_none() {
        return;
    }
    let claim = b.claim(&room, life, &lease).await;
    let first = b.reasserted(&room, &claim).await;
    let before = b.view(&room).await;
    assert_eq!(b.reasserted(&room, &claim).await.lease, first.lease);
    assert_eq!(b.view(&room).await, before);
    // In a later generation it proves the same again.
    if let Some(generation) = b.begin(&room).await {
        let again = b.reasserted(&room, &claim).await;
        assert_eq!(again.lease, Lease { generation, ..first.lease });
    }
}

/// A room of which the store knows nothing is as its owner has it, and its senders go on.
pub(super) async fn reassert_brings_back_what_was_lost(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let (p, q) = (producer("p", 1), producer("q", 1));
    b.accepted(&room, &p, 1, &["one", "two"]).await;
    let life = b.view(&room).await.life;
    let Some(generation) = b.forget(&room).await else { return };
    given!(b.append(&room, &p, 3, &["three"]).await, AppendAnswer::Missing);
    given!(b.offer(&room, "a", FAR).await, OfferAnswer::Unproved);
    let claim = Reassert {
        handled: vec![(p.clone(), Number(2)), (q.clone(), Number(4))],
        seq: Seq(6),
        out_seq: OutSeq(3),
        ..b.claim(&room, life, &lease).await
    };
    given!(b.reassert(&room, &claim).await, AcquireAnswer::NoSession);
    assert!(b.renew(&a, Generation(0)).await);
    let acquired = b.reasserted(&room, &claim).await;
    assert!(acquired.regressed);
    assert_eq!(acquired.lease.generation, generation);
    assert!(acquired.lease.epoch > lease.epoch);
    assert_eq!((acquired.life, acquired.out_seq), (life, OutSeq(3)));
    let pointer = acquired.snapshot.unwrap();
    assert_eq!((pointer.key, pointer.cursor), (claim.snapshot.key.clone(), Position::START));
    assert!(b.bytes(&room, &claim.snapshot).await.is_some());
    given!(b.append(&room, &p, 2, &["two"]).await, AppendAnswer::Duplicate { .. });
    given!(
        b.append(&room, &p, 3, &["three"]).await,
        AppendAnswer::Accepted { seq: Seq(7), life: of, .. } if of == life
    );
    given!(b.append(&room, &q, 6, &["six"]).await, AppendAnswer::Gap { last: Number(4), .. });
    assert_eq!(b.log(&room, &acquired.lease).await.len(), 1);
    let emit = Request::Emit { lease: acquired.lease, first: OutSeq(4), events: batch(&["e"]) };
    b.ask(&room, emit).await;
    assert_eq!(b.history(&room, 0).await, (OutSeq(4), batch(&["e"])));
}

/// A higher epoch is somebody else's, and so is the same one with another owner.
pub(super) async fn reassert_gives_way_to_a_newer_owner(b: &Bench<'_>) {
    let room = room("r");
    let (a, other) = (b.host("a").await, b.host("b").await);
    let old = b.start(&room, &a).await;
    b.ask(&room, move_to(&old, "b", FAR)).await;
    let newer = b.own(&room, &other).await;
    let life = newer.life;
    if b.begin(&room).await.is_none() {
        return;
    }
    let before = b.view(&room).await;
    let claim = b.claim(&room, life, &old).await;
    let refused = b.reassert(&room, &claim).await;
    given!(refused, AcquireAnswer::Refused { seen, .. } if seen == before.seen);
    let epoch = newer.lease.epoch;
    let same = Reassert { lease: Lease { epoch, ..old.clone() }, ..claim };
    given!(b.reassert(&room, &same).await, AcquireAnswer::Refused { .. });
    assert_eq!(b.view(&room).await, before);
}

/// The pointer is the owner's bytes with the stored cursor, and nothing of the log is trimmed.
pub(super) async fn reassert_reads_the_log_again(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    b.accepted(&room, &producer("p", 1), 1, &["one"]).await;
    let view = b.view(&room).await;
    let stored = b.snapshot(&room, &lease, 80, view.last).await;
    let request = Request::Checkpoint { lease: lease.clone(), snapshot: stored.clone() };
    b.ask(&room, request).await;
    b.accepted(&room, &producer("p", 1), 2, &["two"]).await;
    if b.begin(&room).await.is_none() {
        return;
    }
    let claim = b.claim(&room, view.life, &lease).await;
    let pointer = b.reasserted(&room, &claim).await.snapshot.unwrap();
    assert_eq!(pointer.key, claim.snapshot.key);
    assert_eq!((pointer.cursor, pointer.cursor_seq), (stored.cursor, stored.cursor_seq));
    assert_eq!(pointer.number, stored.number.next());
    let lease = b.view(&room).await.seen;
    let generation = b.here.generation(&room);
    let lease = Lease { epoch: lease.epoch, owner: lease.owner.unwrap(), generation };
    assert_eq!(b.log(&room, &lease).await.len(), 1);
    assert_eq!(b.bytes(&room, &stored).await, None, "nobody can name them any more");
}

/// A session that the store has forgotten did not lapse; one that ended did, and one that is newer wins.
pub(super) async fn forgotten_session_is_renewed(b: &Bench<'_>) {
    let (a, ended) = (b.host("a").await, b.host("b").await);
    if b.forget(&room("r")).await.is_none() {
        return;
    }
    assert!(b.renew(&a, Generation(0)).await);
    let sessions = b.there.sessions().await.unwrap();
    assert_eq!(sessions.iter().map(|s| &s.incarnation).collect::<Vec<_>>(), [&a]);
    let newer = b.host("b").await;
    assert!(newer.number > ended.number, "{newer} after {ended}");
    assert!(!b.renew(&ended, Generation(0)).await);
    b.here.close_session(&a).await.unwrap();
    assert!(!b.renew(&a, Generation(0)).await);
}

/// Nobody acquires or starts a room of an earlier generation while a session has not proved the new one.
pub(super) async fn nobody_takes_a_room_before_the_reasserts(b: &Bench<'_>) {
    let (dead, kept, new) = (room("dead"), room("kept"), room("new"));
    let (a, c) = (b.host("a").await, b.host("c").await);
    let d = b.host("d").await;
    b.start(&dead, &d).await;
    let lease = b.start(&kept, &a).await;
    let life = b.view(&kept).await.life;
    b.here.close_session(&d).await.unwrap();
    let Some(generation) = b.begin(&kept).await else { return };
    b.view(&dead).await;
    b.ask(&new, Request::Read).await;
    given!(b.acquire(&dead, &c).await, AcquireAnswer::Unproved);
    given!(b.offer(&dead, "c", FAR).await, OfferAnswer::Unproved);
    given!(b.offer(&new, "c", FAR).await, OfferAnswer::Unproved);
    given!(b.ask(&new, Request::Read).await, Answer::View(None));
    // What was re-asserted moves as ever.
    let claim = b.claim(&kept, life, &lease).await;
    let acquired = b.reasserted(&kept, &claim).await;
    b.ask(&kept, move_to(&acquired.lease, "c", FAR)).await;
    b.own(&kept, &c).await;
    assert!(b.renew(&c, generation).await);
    given!(b.acquire(&dead, &c).await, AcquireAnswer::Unproved);
    assert!(b.renew(&a, generation).await);
    if b.subject.ends_doubts_early() {
        b.own(&dead, &c).await;
        b.offered(&new, "c", FAR).await;
    }
}

/// A record that may be behind its owner answers no number that a sender might give away again.
pub(super) async fn unproved_record_tells_no_number(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let p = producer("p", 1);
    b.accepted(&room, &p, 1, &["one"]).await;
    let life = b.view(&room).await.life;
    if b.begin(&room).await.is_none() {
        return;
    }
    given!(b.append(&room, &p, 3, &["three"]).await, AppendAnswer::Unproved { .. });
    let withdrawal = b.append_as(&room, None, &p, 1, 2, Vec::new()).await;
    given!(withdrawal, AppendAnswer::Unproved { .. });
    given!(b.append(&room, &p, 1, &["one"]).await, AppendAnswer::Duplicate { .. });
    b.accepted(&room, &p, 2, &["two"]).await;
    let claim = b.claim(&room, life, &lease).await;
    let claim = Reassert { handled: vec![(p.clone(), Number(5))], ..claim };
    b.reasserted(&room, &claim).await;
    given!(b.append(&room, &p, 7, &["x"]).await, AppendAnswer::Gap { last: Number(5), .. });
    let withdrawal = b.append_as(&room, None, &p, 1, 6, Vec::new()).await;
    given!(withdrawal, AppendAnswer::Accepted { last: Number(5), .. });
}

/// A session that does not come to prove its rooms is waited for no longer than it lasts.
pub(super) async fn time_ends_the_doubts(b: &Bench<'_>) {
    let room = room("r");
    let a = b.mortal("a").await;
    b.start(&room, &a).await;
    if b.begin(&room).await.is_none() {
        return;
    }
    b.subject.let_sessions_lapse().await;
    let c = b.mortal("c").await;
    b.own(&room, &c).await;
}

/// So that an owner of an earlier one does not take what a store that went back in time numbers anew.
pub(super) async fn pushes_name_their_generation(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    b.start(&room, &a).await;
    let Some(now) = b.begin(&room).await else { return };
    let mut pushes = b.listen(&a).await;
    b.accepted(&room, &producer("p", 1), 1, &["one"]).await;
    let push = pushes.want("the entry", |push| matches!(push, Push::Entry { .. })).await;
    given!(push, Push::Entry { generation, .. } if generation == now);
}

/// A record that is lost alone is brought back by its owner, with what was kept beside it; until a session's time
/// has passed nobody begins the room anew.
pub(super) async fn lost_record_is_for_its_owner(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    b.accepted(&room, &producer("p", 1), 1, &["one", "two"]).await;
    let life = b.view(&room).await.life;
    if !b.subject.lose_record(&room).await {
        return;
    }
    let anew = Request::Offer { to: a.host.clone(), until: FAR, create: true };
    assert_eq!(b.ask(&room, anew).await, Answer::Offer(OfferAnswer::Unproved));
    let request = Request::Settle { lease: lease.clone() };
    let refused = given!(b.ask(&room, request).await, Answer::Owner(answer) => answer);
    assert_eq!(refused, OwnerAnswer::Fenced { epoch: Epoch(0) });
    assert!(lease.is_ahead_of(Epoch(0)));
    let claim = b.claim(&room, life, &lease).await;
    let acquired = b.reasserted(&room, &claim).await;
    assert_eq!((acquired.life, acquired.head, acquired.regressed), (life, Seq(2), true));
    assert_eq!(b.log(&room, &acquired.lease).await.len(), 1);
    let again = b.append(&room, &producer("p", 1), 1, &["one", "two"]).await;
    assert!(matches!(again, AppendAnswer::Duplicate { last: Number(2), .. }), "{again:?}");
}

/// When nobody has had the room for as long, it begins anew, and the messages that were left are dead letters.
pub(super) async fn lost_record_without_an_owner_begins_anew(b: &Bench<'_>) {
    let room = room("r");
    let a = b.mortal("a").await;
    b.start(&room, &a).await;
    b.accepted(&room, &producer("p", 1), 1, &["one", "two"]).await;
    let life = b.view(&room).await.life;
    if !b.subject.lose_record(&room).await {
        return;
    }
    let anew = || Request::Offer { to: a.host.clone(), until: FAR, create: true };
    assert_eq!(b.ask(&room, anew()).await, Answer::Offer(OfferAnswer::Unproved));
    b.subject.let_sessions_lapse().await;
    let born =
        given!(b.ask(&room, anew()).await, Answer::Offer(OfferAnswer::Done { life }) => life);
    assert!(born > life);
    let view = b.view(&room).await;
    assert_eq!((view.seq, view.dead_letters, view.backlog), (Seq(0), 2, false));
}
