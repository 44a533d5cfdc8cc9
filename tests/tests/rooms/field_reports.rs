//! Faults that other systems had in the field, each as given, when and then.

use std::time::Duration;

use ractor_rooms::id::{Epoch, HostId};
use ractor_rooms::protocol::record::OfferNotice;
use ractor_rooms::transport::Push;
use ractor_rooms::{MigrationErr, MissedPolicy, RoomEvent};
use ractor_rooms_tests::cluster::{Cluster, ask, host_name, room_id, test_store};
use ractor_rooms_tests::meddler::Meddler;
use ractor_rooms_tests::rooms::{Class, Knobs, LedgerMsg, Seen, Ticked};
use ractor_rooms_tests::wait::in_time;
use ractor_rooms_tests::{Oracle, eventually};
use tokio::sync::oneshot;

use crate::in_both_classes;

in_both_classes! {
    /// BR-01.
    br_01_messages_sent_into_a_stopping_room_are_handled_once;
    /// BR-01, the variant with a producer on a third host, whose route still names the old one.
    br_01_messages_from_a_third_host_into_a_stopping_room_are_handled_once;
    /// BR-02.
    br_02_a_move_that_times_out_ends_and_the_next_one_succeeds;
    /// BR-02, the variant with notices that come twice, late, or from a host that is not the owner.
    br_02_repeated_and_stale_notices_are_harmless;
    /// BR-10.
    br_10_a_burst_of_events_is_seen_or_counted;
    /// BR-17.
    br_17_a_state_within_the_limit_moves_whole;
    /// BR-17.
    br_17_a_state_over_the_limit_is_refused_and_stays;
    /// BR-24.
    br_24_timers_do_not_double_over_a_panic_and_a_move;
}

async fn br_01_messages_sent_into_a_stopping_room_are_handled_once<C: Class>() {
    br_01::<C>(0).await;
}

async fn br_01_messages_from_a_third_host_into_a_stopping_room_are_handled_once<C: Class>() {
    br_01::<C>(2).await;
}

async fn br_01<C: Class>(producer_on: usize) {
    let cluster = Cluster::of(3).await;
    cluster.place::<C>("alpha", 0).await;
    cluster.knobs.freeze_takes(Duration::from_millis(300));
    let (oracle, room) = (Oracle::default(), cluster.ledger::<C>(producer_on, "alpha"));
    let (half_way, ordered) = oneshot::channel();
    let producer = tokio::spawn({
        let oracle = oracle.clone();
        async move {
            let mut half_way = Some(half_way);
            for number in 1..=2000 {
                if number == 500 {
                    half_way.take().unwrap().send(()).unwrap();
                }
                room.cast(LedgerMsg::Note { from: 1, number }).unwrap();
                oracle.accepted(1, number);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    ordered.await.unwrap();
    cluster.migrate::<C>(0, "alpha", 1).await.unwrap();
    in_time("everything is sent", producer).await.unwrap();

    let notes = cluster.notes::<C>(producer_on, "alpha").await;
    oracle.assert_clean(&notes);
    assert_eq!(notes, (1..=2000).map(|number| (1, number)).collect::<Vec<_>>());
    cluster.until_on::<C>(1, "alpha").await;
    let sights = cluster.knobs.sights();
    let frozen = sights.iter().rposition(|s| s.what == Seen::Frozen).unwrap();
    let late: Vec<_> = sights[frozen..]
        .iter()
        .filter(|s| s.host == host_name(0) && matches!(s.what, Seen::Handled(..)))
        .collect();
    assert!(late.is_empty(), "handled where it was frozen: {late:?}");
    assert_eq!(cluster.record::<C>("alpha").unwrap().dead_letters, []);
    assert_eq!(cluster.faults.all(), []);
    cluster.stop().await;
}

async fn br_02_a_move_that_times_out_ends_and_the_next_one_succeeds<C: Class>() {
    let cluster = Cluster::with(2, |_, builder| {
        builder.configure(|c| c.freeze_timeout = Duration::from_secs(1))
    })
    .await;
    cluster.place::<C>("slow", 0).await;
    cluster.knobs.freeze_takes(Duration::from_secs(3));
    let (oracle, stop) = (Oracle::default(), tokio::sync::watch::Sender::new(false));
    let producer = tokio::spawn({
        let (oracle, room) = (oracle.clone(), cluster.ledger::<C>(0, "slow"));
        let stop = stop.subscribe();
        async move {
            for number in 1.. {
                if *stop.borrow() {
                    return;
                }
                room.cast(LedgerMsg::Note { from: 1, number }).unwrap();
                oracle.accepted(1, number);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    });

    match cluster.migrate::<C>(0, "slow", 1).await {
        Err(MigrationErr::FreezeTimedOut { room, waited }) => {
            assert_eq!((room, waited), (room_id::<C>("slow"), Duration::from_secs(1)));
        }
        other => panic!("expected FreezeTimedOut, found {other:?}"),
    }
    // It answers, on one host, and no move is under way: another target is not `AlreadyMoving`.
    assert_eq!(cluster.host_of::<C>(1, "slow").await, host_name(0));
    cluster.until_on::<C>(0, "slow").await;
    let elsewhere = cluster.migrate::<C>(0, "slow", 9).await;
    let nowhere = HostId::new(host_name(9)).unwrap();
    assert_eq!(elsewhere.unwrap_err(), MigrationErr::UnknownHost { host: nowhere });

    cluster.knobs.freeze_takes(Duration::from_millis(10));
    let report = eventually("the second move succeeds", || async {
        cluster.migrate::<C>(0, "slow", 1).await.ok()
    })
    .await;
    assert_eq!(report.error, None);
    stop.send_replace(true);
    in_time("everything is sent", producer).await.unwrap();
    oracle.assert_clean(&cluster.notes::<C>(0, "slow").await);
    cluster.until_on::<C>(1, "slow").await;
    cluster.stop().await;
}

async fn br_02_repeated_and_stale_notices_are_harmless<C: Class>() {
    let store = test_store();
    let meddler = Meddler::new(store.clone());
    meddler.double_pushes(true);
    let cluster = Cluster::over(store, meddler.clone(), 3, Knobs::default(), |_, b| b).await;
    cluster.place::<C>("noisy", 0).await;
    let oracle = Oracle::default();
    let mut number = 0;
    for round in 0..9 {
        let to = (round + 1) % 3;
        for _ in 0..20 {
            number += 1;
            for (from, via) in [(0, 0), (1, 1), (2, 2)] {
                let room = cluster.ledger::<C>(via, "noisy");
                room.cast(LedgerMsg::Note { from, number }).unwrap();
                oracle.accepted(from, number);
            }
        }
        // Notices of hosts and epochs that are over, to everybody, before the move, in it and after it.
        let stale = || {
            let room = room_id::<C>("noisy");
            for index in 0..3 {
                let host = HostId::new(host_name(index)).unwrap();
                for settled in [None, Some(Epoch(1)), Some(Epoch(u64::MAX))] {
                    meddler.push(&host, Push::Moved { room: room.clone(), settled });
                }
                for epoch in [Epoch(1), Epoch(u64::MAX)] {
                    let notice = Box::new(OfferNotice { epoch, snapshot: None });
                    meddler.push(&host, Push::Offered { room: room.clone(), notice });
                }
            }
        };
        stale();
        let ((), report) = tokio::join!(async { stale() }, cluster.migrate::<C>(0, "noisy", to));
        let report = report.unwrap();
        assert_eq!((report.error, report.to.as_str()), (None, &*host_name(to)));
        stale();
    }
    // Each sender's own way is in order behind what it sent.
    for via in 0..3 {
        cluster.notes::<C>(via, "noisy").await;
    }
    oracle.assert_clean(&cluster.notes::<C>(0, "noisy").await);
    cluster.until_on::<C>(0, "noisy").await;
    assert_eq!(cluster.faults.all(), []);
    cluster.stop().await;
}

async fn br_10_a_burst_of_events_is_seen_or_counted<C: Class>() {
    let cluster = Cluster::with(2, |_, b| b.configure(|c| c.max_member_events = 16)).await;
    cluster.place::<C>("port", 0).await;
    let mut members = Vec::new();
    for (via, pause) in [(0, 0), (1, 0), (0, 20), (1, 20)] {
        let stream = cluster.ledger::<C>(via, "port").events().await.unwrap();
        members.push((stream, Duration::from_millis(pause)));
    }
    let room = cluster.ledger::<C>(0, "port");
    room.send(LedgerMsg::Emit(500)).await.unwrap();
    // The handler does not wait for the slow ones: it answers before they can have read what they have.
    ask(&room, LedgerMsg::Count).await;

    for (mut stream, pause) in members {
        let (mut received, mut lagged, mut last) = (0, 0, 0);
        while received + lagged < 500 {
            match in_time("an event or a marker", stream.next()).await.unwrap() {
                RoomEvent::Event { number, event } => {
                    assert_eq!(number.0, event);
                    assert!(event > last, "{event} after {last}");
                    // What is missing was announced before.
                    assert_eq!(event, received + lagged + 1);
                    (received, last) = (received + 1, event);
                    tokio::time::sleep(pause).await; // the slow member
                }
                RoomEvent::Lagged(count) => lagged += count,
                other => panic!("expected an event or a lag, found {other:?}"),
            }
        }
        assert_eq!(received + lagged, 500);
        assert!(received >= 16, "the queue holds 16, the member got {received}");
    }
    cluster.stop().await;
}

const MIB: u64 = 1 << 20;

async fn br_17_a_state_within_the_limit_moves_whole<C: Class>() {
    let cluster = Cluster::with(2, |_, b| b.max_snapshot_bytes(8 << 20)).await;
    cluster.place::<C>("big", 0).await;
    let room = cluster.ledger::<C>(1, "big");
    room.send(LedgerMsg::Grow(8 * MIB - 1)).await.unwrap();
    let before = ask(&room, LedgerMsg::Digest).await;
    assert!(before.0 > 8 * MIB - 100);
    let report = cluster.migrate::<C>(0, "big", 1).await.unwrap();
    assert!(report.snapshot_bytes >= 8 * MIB - 1, "{report:?}");
    assert_eq!(ask(&room, LedgerMsg::Digest).await, before);
    assert_eq!(cluster.host_of::<C>(0, "big").await, host_name(1));
    cluster.stop().await;
}

async fn br_17_a_state_over_the_limit_is_refused_and_stays<C: Class>() {
    let cluster = Cluster::with(2, |_, b| b.max_snapshot_bytes(8 << 20)).await;
    for (key, size) in [("one more", 8 * MIB + 1), ("far more", 64 * MIB)] {
        cluster.place::<C>(key, 0).await;
        let room = cluster.ledger::<C>(0, key);
        room.send(LedgerMsg::Grow(size)).await.unwrap();
        let before = ask(&room, LedgerMsg::Digest).await;
        let refused = cluster.migrate::<C>(0, key, 1).await.unwrap_err();
        assert_eq!(refused, MigrationErr::SnapshotTooLarge { size, limit: 8 * MIB });
        assert_eq!(cluster.host_of::<C>(1, key).await, host_name(0));
        assert_eq!(ask(&room, LedgerMsg::Digest).await, before);
        // It goes on, and once it is small enough it moves.
        room.send(LedgerMsg::Note { from: 1, number: 1 }).await.unwrap();
        room.send(LedgerMsg::Grow(MIB)).await.unwrap();
        ask(&room, LedgerMsg::Digest).await; // accepted is not handled
        cluster.migrate::<C>(0, key, 1).await.unwrap();
        assert_eq!(cluster.notes::<C>(0, key).await, [(1, 1)]);
        assert_eq!(cluster.host_of::<C>(0, key).await, host_name(1));
    }
    cluster.stop().await;
}

async fn br_24_timers_do_not_double_over_a_panic_and_a_move<C: Class>() {
    let knobs = Knobs::default();
    knobs.start_with_timer("beat", 100, Some(MissedPolicy::FireOnce));
    knobs.start_with_timer("once", 1500, None);
    let store = test_store();
    let cluster = Cluster::over(store.clone(), store, 2, knobs, |_, b| b).await;
    cluster.place::<C>("clock", 0).await;
    let room = cluster.ledger::<C>(0, "clock");
    let beats = |ticks: &[Ticked]| ticks.iter().filter(|t| t.name == "beat").count();
    let beaten = async |count: usize| {
        eventually("the interval goes on", || async {
            let ticks = ask(&room, LedgerMsg::Ticks).await;
            (beats(&ticks) >= count).then_some(())
        })
        .await;
    };

    beaten(2).await;
    room.cast(LedgerMsg::Shaky { from: 1, number: 1, fails: 1 }).unwrap();
    eventually("it has panicked", || async { (!cluster.faults.all().is_empty()).then_some(()) })
        .await;
    beaten(5).await;
    cluster.migrate::<C>(0, "clock", 1).await.unwrap();
    let frozen = {
        let sights = cluster.knobs.sights();
        sights.iter().rposition(|s| s.what == Seen::Frozen).unwrap()
    };
    let moved_with = beats(&ask(&room, LedgerMsg::Ticks).await);
    eventually("the one-shot fires", || async {
        let ticks = ask(&room, LedgerMsg::Ticks).await;
        ticks.iter().any(|t| t.name == "once").then_some(())
    })
    .await;
    beaten(moved_with + 25).await;

    let ticks = ask(&room, LedgerMsg::Ticks).await;
    assert_eq!(ticks.iter().filter(|t| t.name == "once").count(), 1);
    // A doubled interval would put 20 into a second. A busy machine may put fewer than 10.
    let at: Vec<u64> = ticks.iter().filter(|t| t.name == "beat").map(|t| t.at).collect();
    for (i, start) in at.iter().enumerate() {
        let within = at[i..].iter().filter(|at| **at < start + 1000).count();
        assert!(within <= 12, "{within} ticks in the second after {start}: {at:?}");
    }
    let late = cluster.knobs.sights()[frozen..]
        .iter()
        .filter(|s| s.host == host_name(0) && matches!(s.what, Seen::Ticked(_)))
        .count();
    assert_eq!(late, 0, "ticks on the host that the room has left");
    cluster.stop().await;
}
