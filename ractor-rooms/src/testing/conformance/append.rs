//! Appending: identity, order, bounds, and what each answer carries.

use bytes::Bytes;

use super::bench::*;
use crate::id::{Life, Number, Position, Producer, Seq};
use crate::protocol::record::{AppendAnswer, Request, Standing};

/// The next number is accepted, and the answer carries the producer's last number, the room's `seq`
/// and its life.
pub(super) async fn append_takes_the_next_number(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    let life = b.offered(&room, "a", FAR).await;
    given!(
        b.append(&room, &p, 1, &["one", "two"]).await,
        AppendAnswer::Accepted { last: Number(2), seq: Seq(2), life: l, .. } if l == life
    );
    given!(
        b.append(&room, &p, 3, &["three"]).await,
        AppendAnswer::Accepted { last: Number(3), seq: Seq(3), .. }
    );
    assert_eq!(b.view(&room).await.seq, Seq(3));
}

/// A batch that was accepted before is named a duplicate and not written, with the present `seq`.
pub(super) async fn append_again_is_a_duplicate(b: &Bench<'_>) {
    let (room, p, q) = (room("r"), producer("p", 1), producer("q", 1));
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    b.accepted(&room, &p, 1, &["one", "two"]).await;
    b.accepted(&room, &q, 1, &["other"]).await;
    for (first, messages) in [(1, vec!["one", "two"]), (1, vec!["one"]), (2, vec!["two"])] {
        given!(
            b.append(&room, &p, first, &messages).await,
            AppendAnswer::Duplicate {
                last: Number(2),
                seq: Seq(3),
                standing: Standing::Running,
                ..
            }
        );
    }
    assert_eq!(b.log(&room, &lease).await.len(), 2);
}

/// A batch of which a part was accepted before is refused whole.
pub(super) async fn append_of_old_and_new_is_partial(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    b.accepted(&room, &p, 1, &["one", "two"]).await;
    given!(
        b.append(&room, &p, 2, &["two", "three"]).await,
        AppendAnswer::Partial { last: Number(2), seq: Seq(2) }
    );
    assert_eq!(b.log(&room, &lease).await.len(), 1);
    b.accepted(&room, &p, 3, &["three"]).await;
}

/// A batch beyond the next number is refused, and one of a producer that is not known likewise.
pub(super) async fn append_beyond_the_next_number_is_a_gap(b: &Bench<'_>) {
    let (room, p, q) = (room("r"), producer("p", 1), producer("q", 1));
    b.offered(&room, "a", FAR).await;
    b.accepted(&room, &p, 1, &["one"]).await;
    given!(
        b.append(&room, &p, 3, &["three"]).await,
        AppendAnswer::Gap { last: Number(1), seq: Seq(1) }
    );
    given!(
        b.append(&room, &q, 2, &["two"]).await,
        AppendAnswer::Gap { last: Number(0), seq: Seq(1) }
    );
    assert_eq!(b.view(&room).await.seq, Seq(1));
}

/// A higher producer epoch goes on with the numbers and fences what the older one sent.
pub(super) async fn append_under_an_old_producer_epoch_is_fenced(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    b.offered(&room, "a", FAR).await;
    b.accepted(&room, &p, 1, &["one"]).await;
    given!(
        b.append_as(&room, None, &p, 3, 2, batch(&["two"])).await,
        AppendAnswer::Accepted { last: Number(2), .. }
    );
    for first in [1, 2, 3, 9] {
        given!(
            b.append_as(&room, None, &p, 2, first, batch(&["late"])).await,
            AppendAnswer::Fenced { epoch: 3, last: Some(Number(2)), .. }
        );
    }
    assert_eq!(b.view(&room).await.seq, Seq(2));
}

/// An empty batch writes nothing, answers the last number and fences what an older epoch sent.
pub(super) async fn append_of_nothing_is_a_withdrawal(b: &Bench<'_>) {
    let (room, p, q) = (room("r"), producer("p", 1), producer("q", 1));
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    b.accepted(&room, &p, 1, &["one", "two"]).await;
    for _ in 0..2 {
        given!(
            b.append_as(&room, None, &p, 1, 3, vec![]).await,
            AppendAnswer::Accepted { last: Number(2), seq: Seq(2), .. }
        );
    }
    given!(
        b.append_as(&room, None, &p, 0, 3, batch(&["late"])).await,
        AppendAnswer::Fenced { epoch: 1, last: Some(Number(2)), .. }
    );
    // Also before the first message: the late copy of that is fenced like any other.
    given!(
        b.append_as(&room, None, &q, 1, 1, vec![]).await,
        AppendAnswer::Accepted { last: Number(0), .. }
    );
    given!(b.append(&room, &q, 1, &["late"]).await, AppendAnswer::Fenced { epoch: 1, .. });
    assert_eq!(b.log(&room, &lease).await.len(), 1);
    given!(
        b.append_as(&room, None, &p, 1, 3, batch(&["three"])).await,
        AppendAnswer::Accepted { last: Number(3), seq: Seq(3), .. }
    );
}

/// A withdrawal goes through when the log is full.
pub(super) async fn withdrawal_needs_no_space(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    b.offered(&room, "a", FAR).await;
    let sent = fill(b, &room, &p).await;
    given!(
        b.append_as(&room, None, &p, 1, sent + 1, vec![]).await,
        AppendAnswer::Accepted { last: Number(last), .. } if last == sent
    );
}

/// Appends one message an entry until the log is full; how many went in.
async fn fill(b: &Bench<'_>, room: &crate::id::RoomId, p: &Producer) -> u64 {
    let mut sent = 0;
    loop {
        match b.append(room, p, sent + 1, &["x"]).await {
            AppendAnswer::Accepted { .. } => {
                sent += 1;
                assert!(sent <= b.limits.log_entries as u64, "the log has no bound");
            }
            AppendAnswer::Full { seq } => {
                assert_eq!(seq, b.view(room).await.seq);
                return sent;
            }
            other => panic!("expected accepted or full, got {other:?}"),
        }
    }
}

/// A full log refuses by entries; an eighth is kept for the room itself; a trim makes space.
pub(super) async fn full_log_refuses_entries(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let limit = b.limits.log_entries as u64;
    let sent = fill(b, &room, &p).await;
    assert_eq!(sent, limit - limit / 8);
    let view = b.view(&room).await;
    let own = Producer::Room(room.clone(), view.life);
    assert_eq!(fill(b, &room, &own).await, limit / 8);
    given!(b.append(&room, &p, sent + 1, &["x"]).await, AppendAnswer::Full { .. });
    given!(b.append(&room, &p, sent, &["x"]).await, AppendAnswer::Duplicate { .. });
    let received = b.view(&room).await.last;
    b.done(&room, Request::Ack { lease, received }).await;
    b.accepted(&room, &p, sent + 1, &["x"]).await;
}

/// A full log refuses by bytes, whole batches only, and a smaller one may still go in.
pub(super) async fn full_log_refuses_bytes(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let share = b.limits.log_bytes - b.limits.log_bytes / 8;
    let put = |first, bytes: usize| {
        let batch = vec![Bytes::from(vec![7; bytes / 2]), Bytes::from(vec![8; bytes - bytes / 2])];
        b.append_as(&room, None, &p, 0, first, batch)
    };
    given!(put(1, share + 1).await, AppendAnswer::Full { .. });
    given!(put(1, share - 10).await, AppendAnswer::Accepted { .. });
    given!(put(3, 11).await, AppendAnswer::Full { seq: Seq(2) });
    given!(put(3, 10).await, AppendAnswer::Accepted { .. });
    let own = Producer::Room(room.clone(), b.view(&room).await.life);
    b.accepted(&room, &own, 1, &["own"]).await;
    let received = b.view(&room).await.last;
    b.done(&room, Request::Ack { lease, received }).await;
    given!(put(5, share).await, AppendAnswer::Accepted { .. });
}

/// A sender that believes in another life is told the one that is.
pub(super) async fn append_to_another_life_is_refused(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    let life = b.offered(&room, "a", FAR).await;
    for wrong in [Life(life.0 + 1), Life(life.0 - 1)] {
        given!(
            b.append_as(&room, Some(wrong), &p, 0, 1, batch(&["one"])).await,
            AppendAnswer::OtherLife { life: l } if l == life
        );
    }
    given!(
        b.append_as(&room, Some(life), &p, 0, 1, batch(&["one"])).await,
        AppendAnswer::Accepted { seq: Seq(1), .. }
    );
}

/// A room without a record is not made by an append.
pub(super) async fn append_to_a_missing_room(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    given!(b.append(&room, &p, 1, &["one"]).await, AppendAnswer::Missing);
    given!(b.append_as(&room, None, &p, 1, 1, vec![]).await, AppendAnswer::Missing);
    given!(b.ask(&room, Request::Read).await, crate::protocol::record::Answer::View(None));
}

/// One batch is one entry; entries keep the order of their acceptance, bytes are not touched, and
/// positions grow.
pub(super) async fn batches_keep_their_order_and_bytes(b: &Bench<'_>) {
    let (room, p, q) = (room("r"), producer("p", 1), producer("q", 1));
    let a = b.host("a").await;
    let lease = b.start(&room, &a).await;
    let every_byte = Bytes::from((0..=255u8).collect::<Vec<_>>());
    let odd = vec![Bytes::new(), every_byte, Bytes::from_static(b"\r\n\0}{*1")];
    given!(
        b.append_as(&room, None, &p, 0, 1, odd.clone()).await,
        AppendAnswer::Accepted { seq: Seq(3), .. }
    );
    b.accepted(&room, &q, 1, &["q1"]).await;
    b.accepted(&room, &p, 4, &["p4", "p5"]).await;
    let log = b.log(&room, &lease).await;
    let seen: Vec<_> =
        log.iter().map(|e| (e.producer.clone(), e.first, e.first_seq, e.batch.clone())).collect();
    assert_eq!(
        seen,
        [
            (p.clone(), Number(1), Seq(1), odd),
            (q, Number(1), Seq(4), batch(&["q1"])),
            (p, Number(4), Seq(5), batch(&["p4", "p5"])),
        ]
    );
    assert!(Position::START < log[0].position);
    assert!(log.windows(2).all(|w| w[0].position < w[1].position), "{log:?}");
    assert_eq!(b.view(&room).await.last, log[2].position);
}

/// An answer says whether anybody will handle the message.
pub(super) async fn append_answers_the_standing(b: &Bench<'_>) {
    let (room, p) = (room("r"), producer("p", 1));
    let mut sent = 0;
    let mut standing = async || {
        sent += 1;
        let first = b.append(&room, &p, sent, &["x"]).await;
        let again = b.append(&room, &p, sent, &["x"]).await;
        let first = given!(first, AppendAnswer::Accepted { standing, .. } => standing);
        let again = given!(again, AppendAnswer::Duplicate { standing, .. } => standing);
        assert_eq!(first, again);
        first
    };
    b.offered(&room, "a", FAR).await;
    assert_eq!(standing().await, Standing::NeedsHost, "offered to a host that is not there");
    let a = b.host("a").await;
    assert_eq!(standing().await, Standing::Running, "offered to a living host");
    let lease = b.own(&room, &a).await.lease;
    assert_eq!(standing().await, Standing::Running, "leased");
    b.done(&room, park(&lease, None)).await;
    assert_eq!(standing().await, Standing::NeedsHost, "parked");
    b.offered(&room, "a", PAST).await;
    assert_eq!(standing().await, Standing::NeedsHost, "the offer is over");
    b.own(&room, &a).await;
    b.here.close_session(&a).await.unwrap();
    assert_eq!(standing().await, Standing::NeedsHost, "the owner is dead");
}

/// Producers are forgotten when there are too many, the ones silent longest first; what a forgotten one
/// sent cannot pass for a first message.
pub(super) async fn pruned_producers_are_fenced(b: &Bench<'_>) {
    let room = room("r");
    b.offered(&room, "a", FAR).await;
    let count = b.limits.producers as u64;
    for birth in 1..=count {
        b.accepted(&room, &producer("p", birth), 1, &["one"]).await;
    }
    b.accepted(&room, &producer("p", 1), 2, &["two"]).await;
    b.accepted(&room, &producer("p", count + 1), 1, &["one"]).await;
    // The second was silent longest.
    let fenced = b.append(&room, &producer("p", 2), 1, &["late"]).await;
    given!(fenced, AppendAnswer::Fenced { last: None, .. });
    let older = b.append(&room, &producer("never seen", 2), 1, &["late"]).await;
    given!(older, AppendAnswer::Fenced { last: None, .. });
    given!(
        b.append(&room, &producer("p", 1), 2, &["two"]).await,
        AppendAnswer::Duplicate { last: Number(2), .. }
    );
    b.accepted(&room, &producer("p", count + 2), 1, &["one"]).await;
}

/// The room itself and other rooms are not forgotten, and not fenced because of younger producers.
pub(super) async fn rooms_are_not_pruned(b: &Bench<'_>) {
    let room = room("r");
    let life = b.offered(&room, "a", FAR).await;
    let other = crate::id::RoomId::new("conformance", "other").unwrap();
    let rooms = [Producer::Room(room.clone(), life), Producer::Room(other, life)];
    let younger = life.0 + 1_000_000;
    for birth in 0..=b.limits.producers as u64 {
        b.accepted(&room, &producer("p", younger + birth), 1, &["one"]).await;
    }
    for from in &rooms {
        b.accepted(&room, from, 1, &["tick"]).await;
    }
    for birth in 0..=b.limits.producers as u64 {
        b.accepted(&room, &producer("p", 2 * younger + birth), 1, &["one"]).await;
    }
    for from in &rooms {
        given!(b.append(&room, from, 1, &["tick"]).await, AppendAnswer::Duplicate { .. });
        b.accepted(&room, from, 2, &["tick"]).await;
    }
}

/// Where no producer can be forgotten, a new one finds the record full, and the known ones go on.
pub(super) async fn record_full_of_rooms_refuses_producers(b: &Bench<'_>) {
    let room = room("r");
    let life = b.offered(&room, "a", FAR).await;
    let other = |i: usize| {
        let id = crate::id::RoomId::new("conformance", format!("other {i}")).unwrap();
        Producer::Room(id, life)
    };
    for i in 0..b.limits.producers {
        b.accepted(&room, &other(i), 1, &["one"]).await;
    }
    let more = [other(b.limits.producers), producer("p", life.0 + 1)];
    for new in &more {
        given!(b.append(&room, new, 1, &["one"]).await, AppendAnswer::Full { .. });
    }
    b.accepted(&room, &other(0), 2, &["two"]).await;
    given!(b.append(&room, &other(0), 1, &["one"]).await, AppendAnswer::Duplicate { .. });
}
