//! Reading the log, emitting, failing and closing.

use super::bench::*;
use crate::id::{Number, OutSeq, Position, Seq};
use crate::protocol::record::{
    AcquireAnswer, Answer, AppendAnswer, CloseAnswer, DeadLetter, OfferAnswer, OwnerAnswer, Phase,
    Request,
};

/// Pages are bounded in bytes, hold at least one entry, say whether there is more, and join without a
/// gap.
pub(super) async fn log_is_read_in_pages(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let text = "x".repeat(100);
    for number in 1..=10 {
        b.accepted(&room, &p, number, &[&text]).await;
    }
    let page = b.page(&room, &lease, Position::START, 350).await;
    assert_eq!((page.entries.len(), page.more, page.head), (3, true, Seq(10)));
    let page = b.page(&room, &lease, page.entries[2].position, 300).await;
    assert_eq!((page.entries.len(), page.entries[0].first), (3, Number(4)));
    let page = b.page(&room, &lease, page.entries[0].position, 1).await;
    assert_eq!((page.entries.len(), page.more), (1, true), "at least one entry");
    let page = b.page(&room, &lease, Position::START, 1_000_000).await;
    assert_eq!((page.entries.len(), page.more), (10, false));
    let page = b.page(&room, &lease, page.entries[9].position, 1_000).await;
    assert_eq!((page.entries.len(), page.more, page.head), (0, false, Seq(10)));
    let numbers: Vec<_> = b.log(&room, &lease).await.iter().map(|e| e.first.0).collect();
    assert_eq!(numbers, (1..=10).collect::<Vec<_>>());
}

/// Positions between entries, and ones that were trimmed, are places to read from like any other.
pub(super) async fn log_is_read_after_a_trim(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    for number in 1..=4 {
        b.accepted(&room, &p, number, &["x"]).await;
    }
    let log = b.log(&room, &lease).await;
    b.done(&room, Request::Ack { lease: lease.clone(), received: log[1].position }).await;
    let page = b.page(&room, &lease, log[0].position, 1_000).await;
    assert_eq!(page.entries, log[2..]);
    let beyond = Position { ms: log[3].position.ms + 1_000_000, n: 0 };
    assert_eq!(b.page(&room, &lease, beyond, 1_000).await.entries, []);
}

/// Emitted events are numbered; repeats and overlaps add only what is new.
pub(super) async fn emit_takes_each_number_once(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let emit = |first, events: &[&str]| {
        let request =
            Request::Emit { lease: lease.clone(), first: OutSeq(first), events: batch(events) };
        let room = &room;
        async move { b.done(room, request).await }
    };
    assert_eq!(b.history(&room, 0).await, (OutSeq(1), vec![]));
    emit(1, &["one", "two"]).await;
    emit(1, &["one", "two"]).await;
    emit(2, &["two", "three"]).await;
    emit(4, &["four"]).await;
    assert_eq!(b.view(&room).await.out_seq, OutSeq(4));
    assert_eq!(b.history(&room, 0).await, (OutSeq(1), batch(&["one", "two", "three", "four"])));
    assert_eq!(b.history(&room, 2).await, (OutSeq(3), batch(&["three", "four"])));
    assert_eq!(b.history(&room, 4).await.1, batch(&[]));
    b.done(&room, park(&lease, None)).await;
    assert_eq!(b.own(&room, &a).await.out_seq, OutSeq(4), "an heir goes on from there");
}

/// The history keeps the newest events only, and says which.
pub(super) async fn history_is_bounded(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let kept = b.limits.history as u64;
    let last = kept * 2 + 3;
    let events: Vec<_> = (1..=last).map(|n| bytes::Bytes::from(n.to_string())).collect();
    for (i, chunk) in events.chunks(5).enumerate() {
        let first = OutSeq(i as u64 * 5 + 1);
        let request = Request::Emit { lease: lease.clone(), first, events: chunk.to_vec() };
        b.done(&room, request).await;
    }
    let (first, tail) = b.history(&room, 0).await;
    assert_eq!((first, tail.len() as u64), (OutSeq(last - kept + 1), kept));
    assert_eq!(tail, events[(last - kept) as usize..]);
    let (first, tail) = b.history(&room, last - 2).await;
    assert_eq!((first, tail), (OutSeq(last - 1), events[last as usize - 2..].to_vec()));
}

/// After numbers that were left out the history begins anew: what it names is what was published.
pub(super) async fn history_has_no_holes(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    for (first, event) in [(1, "one"), (10, "ten"), (11, "eleven")] {
        let events = batch(&[event]);
        let request = Request::Emit { lease: lease.clone(), first: OutSeq(first), events };
        b.done(&room, request).await;
    }
    assert_eq!(b.history(&room, 0).await, (OutSeq(10), batch(&["ten", "eleven"])));
}

/// A room with unhandled messages is not closed, and how many there are is said.
pub(super) async fn close_waits_for_the_log(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    b.accepted(&room, &p, 1, &["one"]).await;
    let handled = b.view(&room).await.last;
    b.accepted(&room, &p, 2, &["two", "three"]).await;
    given!(b.close(&room, &lease, handled, false).await, CloseAnswer::NotDrained { unhandled: 2 });
    assert_eq!(b.view(&room).await.phase, Phase::Running);
    let handled = b.view(&room).await.last;
    given!(b.close(&room, &lease, handled, false).await, CloseAnswer::Done { dead_letters: 0 });
    given!(b.view(&room).await.phase, Phase::Closed { reason } if reason == "enough");
    given!(b.close(&room, &lease, handled, false).await, CloseAnswer::Fenced { .. });
}

/// A forced close makes dead letters of what was not handled.
pub(super) async fn forced_close_keeps_dead_letters(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    b.accepted(&room, &p, 1, &["one"]).await;
    let handled = b.view(&room).await.last;
    b.accepted(&room, &p, 2, &["two", "three"]).await;
    given!(b.close(&room, &lease, handled, true).await, CloseAnswer::Done { dead_letters: 2 });
    let letters = given!(b.ask(&room, Request::ReadDeadLetters).await, Answer::DeadLetters(letters) => letters);
    let told: Vec<_> =
        letters.iter().map(|l| (l.producer.clone(), l.number.0, l.message.clone())).collect();
    assert_eq!(told, [(p.clone(), 2, "two".into()), (p, 3, "three".into())]);
    assert_eq!(b.view(&room).await.dead_letters, 2);
}

/// A closed room leaves a tombstone: nobody appends to it, acquires it, or declines it.
pub(super) async fn closed_room_leaves_a_tombstone(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let snapshot = b.snapshot(&room, &lease, 1, Position::START).await;
    b.done(&room, Request::Checkpoint { lease: lease.clone(), snapshot: snapshot.clone() }).await;
    given!(b.close(&room, &lease, Position::START, false).await, CloseAnswer::Done { .. });
    given!(
        b.append(&room, &p, 1, &["x"]).await,
        AppendAnswer::Closed { reason } if reason == "enough"
    );
    given!(b.acquire(&room, &a).await, AcquireAnswer::Refused { phase: Phase::Closed { .. }, .. });
    given!(b.decline(&room, "a").await, OfferAnswer::Refused { phase: Phase::Closed { .. }, .. });
    let only = Request::Offer { to: host_id("a"), until: FAR, create: false };
    given!(
        b.ask(&room, only).await,
        Answer::Offer(OfferAnswer::Refused { phase: Phase::Closed { .. }, .. })
    );
    assert_eq!(b.view(&room).await.snapshot, None);
    assert_eq!(b.bytes(&room, &snapshot).await, None, "the bytes went with the pointer");
    assert!(!b.is_restless(&room).await);
    assert!(b.here.owned(&a).await.unwrap().is_empty());
}

/// A closed room that is offered again is born again: another life, higher epochs, nothing in it, and
/// copies from the old life are recognised.
pub(super) async fn closed_room_is_born_again(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let old = b.view(&room).await.life;
    b.accepted(&room, &p, 1, &["one"]).await;
    let event = Request::Emit { lease: lease.clone(), first: OutSeq(1), events: batch(&["e"]) };
    b.done(&room, event).await;
    let last = b.view(&room).await.last;
    given!(b.close(&room, &lease, Position::START, true).await, CloseAnswer::Done { .. });
    let life = b.offered(&room, "a", FAR).await;
    assert!(life > old);
    given!(
        b.append_as(&room, Some(old), &p, 0, 1, batch(&["one"])).await,
        AppendAnswer::OtherLife { life: l } if l == life
    );
    let next = b.own(&room, &a).await;
    assert!(next.lease.epoch > lease.epoch);
    assert_eq!((next.life, next.head, next.out_seq), (life, Seq(0), OutSeq(0)));
    given!(
        b.append_as(&room, Some(life), &p, 0, 1, batch(&["first"])).await,
        AppendAnswer::Accepted { last: Number(1), seq: Seq(1), .. }
    );
    let log = b.log(&room, &next.lease).await;
    assert_eq!((log.len(), log[0].batch.clone()), (1, batch(&["first"])));
    assert!(log[0].position > last, "a position never repeats");
    assert_eq!(b.history(&room, 0).await.1, batch(&[]));
    assert_eq!(b.view(&room).await.dead_letters, 1, "dead letters outlive a life");
    given!(b.owner(&room, Request::Settle { lease }).await, OwnerAnswer::Fenced { .. });
}

/// Failures of the message that failed last are counted once each, over owners and checkpoints.
pub(super) async fn failures_are_counted(b: &Bench<'_>) {
    let room = room("r");
    let (a, other) = (b.host("a").await, b.host("b").await);
    let lease = b.start(&room, &a).await;
    let count = |lease: &crate::protocol::record::Lease, number, attempt| {
        let request = Request::CountFailure {
            lease: lease.clone(),
            producer: producer("p", 1),
            number: Number(number),
            attempt,
        };
        let room = &room;
        async move { given!(b.owner(room, request).await, OwnerAnswer::Count(count) => count) }
    };
    assert_eq!((count(&lease, 1, 1).await, count(&lease, 1, 2).await), (1, 2));
    assert_eq!(count(&lease, 1, 2).await, 2, "a repeat counts once");
    b.here.close_session(&a).await.unwrap();
    let lease = b.own(&room, &other).await.lease;
    assert_eq!(count(&lease, 1, 1).await, 3, "it survives the owner");
    assert_eq!((count(&lease, 2, 2).await, count(&lease, 2, 3).await), (1, 2));
    let snapshot = b.snapshot(&room, &lease, 1, Position::START).await;
    b.done(&room, Request::Checkpoint { lease: lease.clone(), snapshot }).await;
    assert_eq!(count(&lease, 2, 4).await, 3, "it survives a checkpoint");
}

/// Dead letters are kept once each, oldest first, up to their bound.
pub(super) async fn dead_letters_are_kept(b: &Bench<'_>) {
    let room = room("r");
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let letter = |number| DeadLetter {
        producer: producer("p", 1),
        number: Number(number),
        message: bytes::Bytes::from(format!("\0{number}")),
        attempts: 3,
        error: "it failed".to_owned(),
        at: FAR,
    };
    let give_up = |letter| Request::GiveUp { lease: lease.clone(), letter };
    b.done(&room, give_up(letter(1))).await;
    b.done(&room, give_up(letter(1))).await;
    b.done(&room, give_up(letter(2))).await;
    let read =
        async || given!(b.ask(&room, Request::ReadDeadLetters).await, Answer::DeadLetters(l) => l);
    assert_eq!(read().await, [letter(1), letter(2)]);
    let bound = b.limits.dead_letters as u64;
    for number in 3..=bound + 2 {
        b.done(&room, give_up(letter(number))).await;
    }
    assert_eq!(read().await, (3..=bound + 2).map(letter).collect::<Vec<_>>());
    given!(b.ask(&room, Request::Read).await, Answer::View(Some(view)) if u64::from(view.dead_letters) == bound);
    b.done(&room, park(&lease, None)).await;
    assert_eq!(u64::from(b.own(&room, &a).await.dead_letters), bound, "an heir is told of them");
}
