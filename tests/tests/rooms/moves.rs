//! Moves, with senders on every host: nothing lost, nothing doubled, each sender's order kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ractor_rooms::protocol::record::Request;
use ractor_rooms::{MigrateTo, MigrationErr, MoveReason, RoomEvent};
use ractor_rooms_tests::cluster::{Cluster, host_name, room_id, test_store};
use ractor_rooms_tests::meddler::Meddler;
use ractor_rooms_tests::rooms::{Class, Durable, Knobs, LedgerMsg, Seen};
use ractor_rooms_tests::wait::in_time;
use ractor_rooms_tests::{Oracle, eventually};

use crate::in_both_classes;

in_both_classes! {
    /// Thirty moves, six senders.
    senders_on_every_host_keep_their_order_over_many_moves;
    /// Pushes are hints.
    moves_lose_nothing_when_every_push_is_lost;
    /// What it says agrees with what was seen.
    a_report_says_what_the_move_did;
    /// As cluster code does it.
    the_supervisor_takes_migrate_to_as_a_message;
    /// And the next move succeeds.
    a_hook_that_refuses_the_freeze_keeps_the_room_where_it_is;
    /// Three hundred refusals while every host sends.
    refused_freezes_keep_the_order_of_every_sender;
    /// The same as for a hook that refuses.
    a_hook_that_panics_keeps_the_room_where_it_is;
    /// It is refused, and that is no news: the room has moved.
    a_checkpoint_that_arrives_after_the_room_has_moved_does_not_spoil_the_report;
    /// Each once, in order, on every host.
    members_see_every_event_once_while_the_room_moves;
}

async fn senders_on_every_host_keep_their_order_over_many_moves<C: Class>() {
    let cluster = Cluster::of(3).await;
    cluster.place::<C>("busy", 0).await;
    let mut nth = 0;
    under_traffic::<C>(&cluster, 30, async || {
        nth += 1;
        let report = cluster.migrate::<C>(nth % 3, "busy", nth % 3).await.unwrap();
        assert_eq!(report.error, None);
    })
    .await;
    assert_eq!(cluster.faults.all(), []);
    cluster.stop().await;
}

async fn refused_freezes_keep_the_order_of_every_sender<C: Class>() {
    let cluster = Cluster::of(3).await;
    cluster.place::<C>("busy", 0).await;
    cluster.knobs.refuse_freezes(300);
    under_traffic::<C>(&cluster, 300, async || match cluster.migrate::<C>(0, "busy", 1).await {
        Err(MigrationErr::FreezeFailed { .. }) => {}
        other => panic!("expected FreezeFailed, found {other:?}"),
    })
    .await;
    assert_eq!(cluster.host_of::<C>(1, "busy").await, host_name(0));
    assert_eq!(cluster.faults.all(), []);
    cluster.stop().await;
}

/// Two senders a host send while something is done so many times.
pub(crate) async fn under_traffic<C: Class>(
    cluster: &Cluster,
    times: usize,
    mut work: impl AsyncFnMut(),
) {
    let (oracle, over) = (Oracle::default(), Arc::new(AtomicBool::new(false)));
    let sent = Arc::new(AtomicU64::new(0));
    let senders: Vec<_> = (0..6)
        .map(|sender: u32| {
            let room = cluster.ledger::<C>(sender as usize % 3, "busy");
            let (oracle, over, sent) = (oracle.clone(), over.clone(), sent.clone());
            tokio::spawn(async move {
                for number in 1.. {
                    let message = LedgerMsg::Note { from: sender, number };
                    // Some are acknowledged, most are not, and now and then there is a pause.
                    if number % 16 == 0 {
                        room.send(message).await.unwrap();
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    } else {
                        room.cast(message).unwrap();
                    }
                    oracle.accepted(sender, number);
                    sent.fetch_add(1, Ordering::SeqCst);
                    if over.load(Ordering::SeqCst) {
                        return;
                    }
                }
            })
        })
        .collect();
    for nth in 1..=times as u64 {
        work().await;
        eventually("the senders do send", || async {
            (sent.load(Ordering::SeqCst) >= nth * 20).then_some(())
        })
        .await;
    }
    over.store(true, Ordering::SeqCst);
    for sender in senders {
        in_time("the senders are done", sender).await.unwrap();
    }
    for via in 0..3 {
        cluster.notes::<C>(via, "busy").await; // behind everything that was sent that way
    }
    let notes = cluster.notes::<C>(0, "busy").await;
    assert!(notes.len() >= times * 20, "the senders did send");
    oracle.assert_clean(&notes);
}

async fn moves_lose_nothing_when_every_push_is_lost<C: Class>() {
    let store = test_store();
    let meddler = Meddler::new(store.clone());
    let cluster = Cluster::over(store, meddler.clone(), 3, Knobs::default(), |_, builder| {
        // What no push brings is found by comparing heads, once in a third of this.
        builder.configure(|c| c.session_ttl = Duration::from_secs(3))
    })
    .await;
    cluster.place::<C>("busy", 0).await;
    meddler.mute_pushes(true);
    let (oracle, rooms) =
        (Oracle::default(), [0, 1, 2].map(|via| cluster.ledger::<C>(via, "busy")));
    let mut number = 0;
    // The host that runs the room is asked, so that no letter with a lost push is in the way.
    for (on, to) in [(0, 1), (1, 2), (2, 0)] {
        for _ in 0..20 {
            number += 1;
            for (from, room) in (0..).zip(&rooms) {
                room.cast(LedgerMsg::Note { from, number }).unwrap();
                oracle.accepted(from, number);
            }
        }
        let report = cluster.migrate::<C>(on, "busy", to).await.unwrap();
        assert_eq!(report.error, None);
    }
    for via in 0..3 {
        cluster.notes::<C>(via, "busy").await;
    }
    oracle.assert_clean(&cluster.notes::<C>(0, "busy").await);
    cluster.stop().await;
}

async fn a_report_says_what_the_move_did<C: Class>() {
    let cluster = Cluster::of(2).await;
    cluster.place::<C>("seen", 0).await;
    let room = cluster.ledger::<C>(0, "seen");
    for number in 1..=5 {
        room.send(LedgerMsg::Note { from: 1, number }).await.unwrap();
    }
    cluster.notes::<C>(0, "seen").await;
    let epoch = cluster.whereabouts::<C>(0, "seen").await.epoch;
    // Asked of the source, and then of a host that passes it on.
    for (via, from, to) in [(0, 0, 1), (0, 1, 0)] {
        let report = cluster.migrate::<C>(via, "seen", to).await.unwrap();
        assert_eq!(report.room, room_id::<C>("seen"));
        assert_eq!(report.from.as_str(), host_name(from));
        assert_eq!(report.to.as_str(), host_name(to));
        assert_eq!(report.reason, MoveReason::Requested);
        assert_eq!(report.error, None);
        assert_eq!(report.unread, 0);
        let stored = cluster.stored_snapshot::<C>("seen").unwrap();
        assert_eq!(report.snapshot_bytes, stored.len() as u64);
        let states: Vec<_> = report.states.iter().map(|s| &*s.state).collect();
        assert_eq!(states[..3], ["Pending", "Frozen", "Snapshotted"], "{states:?}");
        assert_eq!(states.last(), Some(&"Migrated"));
        assert!(report.states.is_sorted_by_key(|s| s.after), "{:?}", report.states);
        assert_eq!(report.states[0].after, Duration::ZERO);
        let frozen = report.states[1].after;
        let whole = report.states.last().unwrap().after;
        assert!(report.pause > Duration::ZERO, "{report:?}");
        assert!(
            report.pause <= whole.saturating_sub(frozen) + Duration::from_secs(1),
            "{report:?}"
        );
    }
    assert!(cluster.whereabouts::<C>(0, "seen").await.epoch > epoch);
    cluster.stop().await;
}

async fn the_supervisor_takes_migrate_to_as_a_message<C: Class>() {
    let cluster = Cluster::of(3).await;
    cluster.place::<C>("told", 0).await;
    // By way of the source, and of a host that has nothing to do with it yet.
    for (via, to) in [(0, 1), (2, 2)] {
        let request = MigrateTo::host(C::LEDGER, "told", host_name(to));
        cluster.hosts[via].supervisor().cast(request.into()).unwrap();
        eventually("it moves", || async {
            (cluster.host_of::<C>(0, "told").await == host_name(to)).then_some(())
        })
        .await;
    }
    cluster.stop().await;
}

async fn a_hook_that_refuses_the_freeze_keeps_the_room_where_it_is<C: Class>() {
    let cluster = Cluster::of(2).await;
    cluster.place::<C>("stubborn", 0).await;
    cluster.knobs.refuse_freezes(2);
    kept_by_its_hook::<C>(&cluster, "the hook refuses").await;
    cluster.stop().await;
}

async fn a_hook_that_panics_keeps_the_room_where_it_is<C: Class>() {
    let cluster = Cluster::of(2).await;
    cluster.place::<C>("stubborn", 0).await;
    cluster.knobs.panic_in_freezes(2);
    kept_by_its_hook::<C>(&cluster, "the hook panics").await;
    cluster.stop().await;
}

async fn kept_by_its_hook<C: Class>(cluster: &Cluster, text: &str) {
    let (oracle, rooms) =
        (Oracle::default(), [0, 1].map(|via| cluster.ledger::<C>(via, "stubborn")));
    let mut number = 0;
    let mut send_some = || {
        for _ in 0..20 {
            number += 1;
            for (from, room) in (0..).zip(&rooms) {
                room.cast(LedgerMsg::Note { from, number }).unwrap();
                oracle.accepted(from, number);
            }
        }
    };
    let epoch = cluster.whereabouts::<C>(0, "stubborn").await.epoch;
    for _ in 0..2 {
        send_some();
        match cluster.migrate::<C>(0, "stubborn", 1).await.unwrap_err() {
            MigrationErr::FreezeFailed { room, error } => {
                assert_eq!(room, room_id::<C>("stubborn"));
                assert!(error.contains(text), "{error}");
            }
            other => panic!("expected FreezeFailed, found {other:?}"),
        }
    }
    send_some();
    let found = cluster.whereabouts::<C>(0, "stubborn").await;
    assert_eq!((found.host, found.epoch), (host_name(0), epoch));
    cluster.migrate::<C>(0, "stubborn", 1).await.unwrap();
    send_some();
    for via in 0..2 {
        cluster.notes::<C>(via, "stubborn").await;
    }
    oracle.assert_clean(&cluster.notes::<C>(0, "stubborn").await);
    assert_eq!(cluster.knobs.count(&Seen::Started), 1);
}

async fn a_checkpoint_that_arrives_after_the_room_has_moved_does_not_spoil_the_report<C: Class>() {
    let store = test_store();
    let meddler = Meddler::new(store.clone());
    let cluster = Cluster::over(store, meddler.clone(), 2, Knobs::default(), |_, b| b).await;
    cluster.place::<C>("late", 0).await;
    let checkpoint = meddler.hold(|request| matches!(request, Request::Checkpoint { .. }));
    let settle = meddler.hold(|request| matches!(request, Request::Settle { .. }));
    cluster.ledger::<C>(0, "late").send(LedgerMsg::Save).await.unwrap();
    checkpoint.met().await;
    let (report, ()) = tokio::join!(cluster.migrate::<C>(0, "late", 1), async {
        settle.met().await; // the room is parked, and the target has it
        checkpoint.release();
        // The refusal gets time to do harm before the move ends.
        tokio::time::sleep(Duration::from_millis(200)).await;
        settle.release();
    });
    assert_eq!(report.unwrap().to.as_str(), host_name(1));
    assert_eq!(cluster.host_of::<C>(0, "late").await, host_name(1));
    assert_eq!(cluster.faults.all(), []);
    cluster.stop().await;
}

async fn members_see_every_event_once_while_the_room_moves<C: Class>() {
    let cluster = Cluster::with(3, |_, b| b.configure(|c| c.max_member_events = 100_000)).await;
    cluster.place::<C>("stage", 0).await;
    let mut members = Vec::new();
    for via in 0..3 {
        members.push(cluster.ledger::<C>(via, "stage").events().await.unwrap());
    }
    const EVENTS: u64 = 600;
    let emits = async {
        for via in (0..EVENTS / 3).map(|n| n as usize % 3) {
            cluster.ledger::<C>(via, "stage").send(LedgerMsg::Emit(3)).await.unwrap();
        }
    };
    let moves = async {
        for to in [1, 2, 0, 1, 2, 0] {
            cluster.migrate::<C>(0, "stage", to).await.unwrap();
        }
    };
    tokio::join!(emits, moves);
    for (via, member) in members.iter_mut().enumerate() {
        for expected in 1..=EVENTS {
            match in_time("an event", member.next()).await.unwrap() {
                RoomEvent::Event { number, event } => {
                    assert_eq!((number.0, event), (expected, expected), "on host {via}");
                }
                other => panic!("expected event {expected} on host {via}, found {other:?}"),
            }
        }
    }
    cluster.stop().await;
}

/// The host that runs the room dies with the request to move it: the caller hears so within the session's
/// time, not at the end of a call's.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_move_asked_of_a_host_that_dies_is_not_waited_for() {
    let mut cluster = Cluster::with(3, |_, builder| {
        builder.configure(|config| {
            config.call_timeout = Duration::from_secs(3_600);
            config.freeze_timeout = Duration::from_secs(3_600);
        })
    })
    .await;
    cluster.place::<Durable>("doomed", 0).await;
    cluster.hang::<Durable>(1, "doomed").await; // so that the move cannot end before the host does
    let asked = cluster.hosts[1].clone();
    let request = MigrateTo::host(Durable::LEDGER, "doomed", host_name(2));
    let moved = tokio::spawn(async move { asked.migrate(request).await });
    eventually("the move has begun", || async {
        let running = cluster.hosts[0].rooms().await.expect("the host runs");
        running.is_empty().then_some(())
    })
    .await;
    cluster.hosts.remove(0).kill();
    cluster.knobs.let_go();
    let outcome = in_time("the caller hears", moved).await.expect("the task ends");
    assert!(matches!(outcome, Err(MigrationErr::OutcomeUnknown { .. })), "{outcome:?}");
    cluster.stop().await;
}
