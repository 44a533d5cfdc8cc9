//! The two indexes, and keys of any bytes.

use std::collections::BTreeSet;

use super::bench::*;
use crate::id::{Number, Position, RoomId, Seq};
use crate::protocol::record::{AppendAnswer, Phase, Request};
use crate::transport::Push;

/// The index of owned rooms follows the leases, with the heads.
pub(super) async fn owned_follows_the_leases(b: &Bench<'_>) {
    let (r, s) = (room("r"), room("s"));
    let (a, other) = (b.host("a").await, b.host("b").await);
    assert!(b.there.owned(&a).await.unwrap().is_empty());
    let lease = b.start(&r, &a).await;
    b.start(&s, &a).await;
    b.accepted(&r, &producer("p", 1), 1, &["one", "two"]).await;
    let mut owned = b.there.owned(&a).await.unwrap();
    owned.sort_by(|x, y| x.room.cmp(&y.room));
    let rooms: Vec<_> = owned.iter().map(|o| o.room.clone()).collect();
    assert_eq!(rooms, [r.clone(), s.clone()]);
    assert_eq!((owned[0].epoch, &owned[0].activation), (lease.epoch, &lease.owner));
    assert_eq!((owned[0].head, owned[0].last), (Seq(2), b.view(&r).await.last));
    b.done(&r, move_to(&lease, "b", FAR)).await;
    assert_eq!(b.there.owned(&a).await.unwrap().len(), 1);
    assert!(b.there.owned(&other).await.unwrap().is_empty());
    b.own(&r, &other).await;
    assert_eq!(b.there.owned(&other).await.unwrap()[0].room, r);
    // A dead owner's room moves to its heir.
    b.here.close_session(&a).await.unwrap();
    assert_eq!(b.there.owned(&a).await.unwrap()[0].room, s);
    b.own(&s, &other).await;
    assert!(b.there.owned(&a).await.unwrap().is_empty());
    assert_eq!(b.there.owned(&other).await.unwrap().len(), 2);
}

/// Unrest names the rooms that nobody runs and that have work, an offer or a timer.
pub(super) async fn unrest_names_what_needs_somebody(b: &Bench<'_>) {
    let a = b.host("a").await;
    let offered = room("offered");
    b.offered(&offered, "a", FAR).await;
    let running = room("running");
    b.start(&running, &a).await;
    b.accepted(&running, &producer("p", 1), 1, &["x"]).await;
    let idle = room("idle");
    let lease = b.start(&idle, &a).await;
    b.done(&idle, park(&lease, None)).await;
    let backlog = room("backlog");
    let lease = b.start(&backlog, &a).await;
    b.accepted(&backlog, &producer("p", 1), 1, &["x"]).await;
    b.done(&backlog, park(&lease, None)).await;
    let unread = room("unread");
    let lease = b.start(&unread, &a).await;
    let mut snapshot = b.snapshot(&unread, &lease, 1, Position::START).await;
    snapshot.unread = 1;
    b.done(&unread, park(&lease, Some(snapshot))).await;
    let timer = room("timer");
    let lease = b.start(&timer, &a).await;
    let mut snapshot = b.snapshot(&timer, &lease, 1, Position::START).await;
    snapshot.next_timer = Some(FAR);
    b.done(&timer, park(&lease, Some(snapshot))).await;

    let seen = b.unrest(100).await;
    let names: BTreeSet<_> = seen.iter().map(|u| u.room.clone()).collect();
    let expected = [&offered, &backlog, &unread, &timer].map(Clone::clone);
    assert_eq!(names, BTreeSet::from(expected));
    let find = |room: &RoomId| seen.iter().find(|u| u.room == *room).unwrap();
    given!(&find(&offered).phase, Phase::Offered { .. });
    assert!(!find(&offered).backlog && find(&backlog).backlog && find(&unread).backlog);
    assert_eq!((find(&timer).backlog, find(&timer).next_timer), (false, Some(FAR)));
    // A message wakes an idle room's entry; an acquire takes one away.
    b.accepted(&idle, &producer("p", 1), 1, &["x"]).await;
    assert!(b.is_restless(&idle).await);
    b.own(&idle, &a).await;
    assert!(!b.is_restless(&idle).await);
}

/// Unrest names the rooms of dead owners, without anybody's doing, and who declined a room.
pub(super) async fn unrest_names_the_rooms_of_the_dead(b: &Bench<'_>) {
    let (r, s) = (room("r"), room("s"));
    let (a, other) = (b.mortal("a").await, b.host("b").await);
    b.start(&r, &a).await;
    b.start(&s, &other).await;
    assert!(b.unrest(100).await.is_empty());
    b.subject.let_sessions_lapse().await;
    let seen = b.unrest(100).await;
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert!(seen[0].room == r && seen[0].backlog);
    // A new start of the host does not run what the old one did.
    b.host("a").await;
    assert!(b.is_restless(&r).await);
    b.offered(&r, "c", FAR).await;
    given!(b.decline(&r, "c").await, crate::protocol::record::OfferAnswer::Done { .. });
    b.accepted(&r, &producer("p", 1), 1, &["x"]).await;
    let seen = b.unrest(100).await;
    assert_eq!(seen[0].declined, [host_id("c")]);
}

/// Unrest is read in pages; together they name every room once.
pub(super) async fn unrest_has_pages(b: &Bench<'_>) {
    let rooms: BTreeSet<_> = (0..25).map(|i| room(&format!("room {i}"))).collect();
    for room in &rooms {
        b.offered(room, "a", FAR).await;
    }
    for limit in [1, 7, 25, 100] {
        let seen = b.unrest(limit).await;
        assert_eq!(seen.len(), rooms.len(), "by pages of {limit}");
        let seen: BTreeSet<_> = seen.into_iter().map(|u| u.room).collect();
        assert_eq!(seen, rooms, "by pages of {limit}");
    }
}

/// Keys of any bytes stay apart, in records, snapshots, indexes and pushes.
pub(super) async fn odd_keys_stay_apart(b: &Bench<'_>) {
    let keys: Vec<Vec<u8>> = vec![
        b"a".to_vec(),
        b"A".to_vec(),
        b"a\n".to_vec(),
        b"a\0".to_vec(),
        b"a\0b".to_vec(),
        b"a b".to_vec(),
        b"}x".to_vec(),
        b"{x}".to_vec(),
        b"{s0001}".to_vec(),
        b"a:b".to_vec(),
        b"a*?[]\\".to_vec(),
        b"\xff\xfe".to_vec(),
        b"\xc3\x28".to_vec(),
        b"%61".to_vec(),
        (0..=255).collect(),
        vec![b'k'; 512],
        [vec![b'k'; 511], vec![b'l']].concat(),
        vec![0; 512],
    ];
    let mut rooms: Vec<_> =
        keys.into_iter().map(|key| RoomId::new("conformance", key).unwrap()).collect();
    // Kind and key are not run together either.
    rooms.push(RoomId::new("conformance:a", "b").unwrap());
    rooms.push(RoomId::new("conformance/a", "b").unwrap());
    rooms.push(RoomId::new("conformance", "/a/b").unwrap());
    rooms.push(RoomId::new("c", "onformance").unwrap());
    let a = b.host("a").await;
    let mut pushes = b.listen(&a).await;
    let p = producer("p", 1);
    let mut kept = Vec::new();
    for (i, room) in rooms.iter().enumerate() {
        let lease = b.start(room, &a).await;
        let answer = b.append(room, &p, 1, &[&i.to_string()]).await;
        given!(answer, AppendAnswer::Accepted { last: Number(1), seq: Seq(1), .. });
        let snapshot = b.snapshot(room, &lease, i as u64 + 1, Position::START).await;
        b.done(room, Request::Checkpoint { lease: lease.clone(), snapshot: snapshot.clone() })
            .await;
        kept.push((lease, snapshot));
        pushes
            .want("an entry", |push| matches!(push, Push::Entry { room: r, .. } if r == room))
            .await;
    }
    let owned: BTreeSet<_> = b.there.owned(&a).await.unwrap().into_iter().map(|o| o.room).collect();
    assert_eq!(owned, rooms.iter().cloned().collect());
    for (i, (room, (lease, snapshot))) in rooms.iter().zip(&kept).enumerate() {
        let log = b.log(room, lease).await;
        assert_eq!(log.len(), 1, "{room}");
        assert_eq!(log[0].batch, batch(&[&i.to_string()]), "{room}");
        let bytes = b.bytes(room, snapshot).await.unwrap();
        assert_eq!(bytes, format!("snapshot {}", i + 1), "{room}");
        b.done(room, park(lease, None)).await;
    }
    let restless: BTreeSet<_> = b.unrest(3).await.into_iter().map(|u| u.room).collect();
    assert_eq!(restless, rooms.into_iter().collect());
}
