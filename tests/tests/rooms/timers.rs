//! Timers: named, listed, cancelled, kept over moves and rests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ractor_rooms::clock::Clock;
use ractor_rooms::protocol::record::RecordLimits;
use ractor_rooms::{MemoryTransport, MissedPolicy};
use ractor_rooms_tests::cluster::{Cluster, ask, host_name};
use ractor_rooms_tests::eventually;
use ractor_rooms_tests::rooms::{Class, Knobs, LedgerMsg, Seen, Ticked};

use crate::in_both_classes;

in_both_classes! {
    /// A cancelled one does not fire.
    timers_are_listed_replaced_and_cancelled;
    /// With their deadlines; a one-shot fires once, on the new host.
    timers_go_with_a_room_that_moves;
    /// Nobody sends anything.
    a_timer_wakes_a_room_that_rests;
    /// Every missed tick comes.
    missed_ticks_are_caught_up(MissedPolicy::CatchUp, 3, 4_000);
    /// One tick for all that were missed.
    missed_ticks_are_folded_into_one(MissedPolicy::FireOnce, 1, 4_500);
    /// None of those that were missed.
    missed_ticks_are_skipped(MissedPolicy::Skip, 0, 4_000);
}
use missed_ticks as missed_ticks_are_caught_up;
use missed_ticks as missed_ticks_are_folded_into_one;
use missed_ticks as missed_ticks_are_skipped;

fn remind(name: &str, after_ms: u64, repeat: Option<MissedPolicy>) -> LedgerMsg {
    LedgerMsg::Remind { name: name.to_owned(), after_ms, repeat }
}

type Listed = Vec<(String, u64, Option<u64>)>;

async fn timers<C: Class>(cluster: &Cluster, key: &str) -> Listed {
    ask(&cluster.ledger::<C>(0, key), LedgerMsg::Timers).await
}

async fn ticks<C: Class>(cluster: &Cluster, key: &str) -> Vec<Ticked> {
    ask(&cluster.ledger::<C>(0, key), LedgerMsg::Ticks).await
}

async fn timers_are_listed_replaced_and_cancelled<C: Class>() {
    const HOUR: u64 = 3_600_000;
    let cluster = Cluster::of(1).await;
    let room = cluster.ledger::<C>(0, "clock");
    assert_eq!(timers::<C>(&cluster, "clock").await, []);
    room.send(remind("b", HOUR, Some(MissedPolicy::Skip))).await.unwrap();
    room.send(remind("a", 2 * HOUR, None)).await.unwrap();
    room.send(remind("soon", 50, None)).await.unwrap();
    let listed = timers::<C>(&cluster, "clock").await;
    let plain: Vec<_> = listed.iter().map(|(name, _, every)| (&**name, *every)).collect();
    assert_eq!(plain[..2], [("a", None), ("b", Some(HOUR))], "{listed:?}");
    assert!(listed[0].1 > listed[1].1, "a is due after b");

    // Replaced, an hour becomes a moment; cancelled, it never comes.
    room.send(remind("never", 150, None)).await.unwrap();
    assert!(ask(&room, |reply| LedgerMsg::Forget("never".to_owned(), reply)).await);
    assert!(!ask(&room, |reply| LedgerMsg::Forget("never".to_owned(), reply)).await);
    assert!(ask(&room, |reply| LedgerMsg::Forget("b".to_owned(), reply)).await);
    room.send(remind("a", 300, None)).await.unwrap();
    let ticks = eventually("a fires", || async {
        let ticks = ticks::<C>(&cluster, "clock").await;
        ticks.iter().any(|t| t.name == "a").then_some(ticks)
    })
    .await;
    let names: Vec<_> = ticks.iter().map(|t| &*t.name).collect();
    assert_eq!(names, ["soon", "a"]);
    assert_eq!(timers::<C>(&cluster, "clock").await, []);
    cluster.stop().await;
}

async fn timers_go_with_a_room_that_moves<C: Class>() {
    let cluster = Cluster::of(3).await;
    cluster.place::<C>("clock", 0).await;
    let room = cluster.ledger::<C>(0, "clock");
    room.send(remind("far", 3_600_000, Some(MissedPolicy::FireOnce))).await.unwrap();
    room.send(remind("near", 1_500, None)).await.unwrap();
    let before = timers::<C>(&cluster, "clock").await;
    assert_eq!(before.len(), 2);
    for to in [1, 2, 1, 2] {
        cluster.migrate::<C>(0, "clock", to).await.unwrap();
        let after = timers::<C>(&cluster, "clock").await;
        assert_eq!(after.first(), before.first());
    }
    let due = before.iter().find(|(name, ..)| name == "near").unwrap().1;
    let ticked = eventually("the one-shot fires", || async {
        let ticks = ticks::<C>(&cluster, "clock").await;
        (!ticks.is_empty()).then_some(ticks)
    })
    .await;
    assert!(ticked[0].at >= due, "{ticked:?} before {due}");
    for to in [0, 1, 0] {
        cluster.migrate::<C>(2, "clock", to).await.unwrap();
    }
    assert_eq!(ticks::<C>(&cluster, "clock").await, ticked, "it fired once");
    assert_eq!(cluster.knobs.count(&Seen::Ticked("near".to_owned())), 1);
    cluster.stop().await;
}

async fn a_timer_wakes_a_room_that_rests<C: Class>() {
    let cluster = Cluster::of(2).await;
    cluster.place::<C>("alarm", 0).await;
    let stopped = cluster.knobs.count(&Seen::Stopped);
    let room = cluster.ledger::<C>(0, "alarm");
    room.send(remind("wake", 700, None)).await.unwrap();
    let due = timers::<C>(&cluster, "alarm").await[0].1;
    cluster.unload::<C>(0, "alarm").await;
    eventually("the timer wakes it", || async {
        (cluster.knobs.count(&Seen::Ticked("wake".to_owned())) > 0).then_some(())
    })
    .await;
    assert_eq!(cluster.knobs.count(&Seen::Stopped), stopped + 1, "it did rest");
    let ticks = ticks::<C>(&cluster, "alarm").await;
    assert_eq!(ticks.len(), 1);
    assert!(ticks[0].at >= due, "{ticks:?} before {due}");
    assert_eq!(timers::<C>(&cluster, "alarm").await, []);
    cluster.stop().await;
}

/// An interval of a second, and three and a half seconds during which no host runs. The clock is the
/// test's own.
async fn missed_ticks<C: Class>(missed: MissedPolicy, expected: usize, next_due: u64) {
    const START: u64 = 1_700_000_000_000;
    let now = Arc::new(AtomicU64::new(START));
    let shown = now.clone();
    let clock = Clock::manual(move || Duration::from_millis(shown.load(Ordering::SeqCst)));
    let store = MemoryTransport::with(RecordLimits::default(), clock.clone());
    let knobs = Knobs::default();
    let start = async || {
        let hosts = Cluster::over(store.clone(), store.clone(), 1, knobs.clone(), |_, b| {
            b.clock(clock.clone())
        });
        hosts.await
    };
    let cluster = start().await;
    cluster.ledger::<C>(0, "clock").send(remind("beat", 1_000, Some(missed))).await.unwrap();
    assert_eq!(timers::<C>(&cluster, "clock").await[0].1, START + 1_000);
    cluster.stop().await;

    now.fetch_add(3_500, Ordering::SeqCst);
    let cluster = start().await;
    let listed = eventually("the missed ticks are dealt with", || async {
        let listed = timers::<C>(&cluster, "clock").await;
        (listed[0].1 > START + 3_500).then_some(listed)
    })
    .await;
    assert_eq!(listed, [("beat".to_owned(), START + next_due, Some(1_000))]);
    assert_eq!(ticks::<C>(&cluster, "clock").await.len(), expected);

    // And on from there.
    now.fetch_add(next_due - 3_500, Ordering::SeqCst);
    let ticks = eventually("the next tick", || async {
        let ticks = ticks::<C>(&cluster, "clock").await;
        (ticks.len() > expected).then_some(ticks)
    })
    .await;
    assert_eq!(ticks.len(), expected + 1);
    assert_eq!(ticks[expected].host, host_name(0));
    assert_eq!(cluster.knobs.count(&Seen::Ticked("beat".to_owned())), expected + 1);
    cluster.stop().await;
}
