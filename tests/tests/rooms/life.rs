//! Starting, resting, waking, ending, and the death of a host.

use std::collections::BTreeSet;
use std::time::Duration;

use ractor_rooms::clock::Clock;
use ractor_rooms::id::HostId;
use ractor_rooms::protocol::placement::{evenly, place};
use ractor_rooms::protocol::record::{ParkReason, Phase};
use ractor_rooms::{CloseErr, RoomEvent, RoomFault};
use ractor_rooms_tests::cluster::{Cluster, ask, host_name, room_id};
use ractor_rooms_tests::eventually;
use ractor_rooms_tests::rooms::{Class, Durable, Ledger, LedgerMsg, Live, Seen};
use ractor_rooms_tests::wait::in_time;

use crate::in_both_classes;

in_both_classes! {
    /// However many hosts ask at once, the room starts once.
    a_room_starts_on_demand_where_placement_says;
    /// A host of senders and members.
    a_host_without_capacity_runs_no_rooms;
    /// By a message from another host.
    an_idle_room_rests_and_a_message_wakes_it;
    /// All of them, with what they hold.
    a_host_that_shuts_down_leaves_its_rooms_to_the_others;
    /// Its events say so, and a second close finds nothing.
    a_room_that_ends_says_so_to_its_members;
}

fn note(number: u64) -> LedgerMsg {
    LedgerMsg::Note { from: 1, number }
}

async fn a_room_starts_on_demand_where_placement_says<C: Class>() {
    let cluster = Cluster::of(5).await;
    let hosts: Vec<_> = (0..5).map(|i| HostId::new(host_name(i)).unwrap()).collect();
    let mut used = BTreeSet::new();
    for n in 0..20 {
        let key = format!("room-{n}");
        let expected = place(&room_id::<C>(&key), evenly(&hosts)).unwrap().as_str().to_owned();
        let asked = (0..5).map(|via| {
            let room = cluster.ledger::<C>(via, &key);
            async move { ask(&room, LedgerMsg::Whereabouts).await.host }
        });
        for found in futures::future::join_all(asked).await {
            assert_eq!(found, expected, "{key}");
        }
        used.insert(expected);
    }
    assert_eq!(cluster.knobs.count(&Seen::Started), 20, "each started once");
    assert!(used.len() > 1, "placement spreads the rooms");
    cluster.stop().await;
}

async fn a_host_without_capacity_runs_no_rooms<C: Class>() {
    let cluster = Cluster::with(2, |index, builder| match index {
        0 => builder.capacity(0),
        _ => builder,
    })
    .await;
    for n in 0..10 {
        let key = format!("room-{n}");
        assert_eq!(cluster.host_of::<C>(0, &key).await, host_name(1));
    }
    assert_eq!(cluster.hosts[0].rooms().await.unwrap(), []);
    cluster.stop().await;
}

async fn an_idle_room_rests_and_a_message_wakes_it<C: Class>() {
    let cluster = Cluster::with(2, |_, builder| {
        builder.configure(|c| c.idle_timeout = Some(Duration::from_millis(300)))
    })
    .await;
    let mut events = cluster.ledger::<C>(0, "sleepy").events().await.unwrap();
    for round in 1..=3 {
        let via = round as usize % 2;
        let room = cluster.ledger::<C>(via, "sleepy");
        room.send(note(round)).await.unwrap();
        room.send(LedgerMsg::Emit(1)).await.unwrap();
        eventually("it rests", || async {
            let record = cluster.record::<C>("sleepy").unwrap();
            let rests = matches!(record.phase, Phase::Parked { why: ParkReason::Idle });
            (rests && !record.backlog()).then_some(())
        })
        .await;
        assert_eq!(cluster.runs_on::<C>("sleepy").await, [] as [usize; 0]);
        // The stream is up while the room rests and wakes.
        match in_time("an event", events.next()).await.unwrap() {
            RoomEvent::Event { event, .. } => assert_eq!(event, round),
            other => panic!("expected event {round}, found {other:?}"),
        }
    }
    let expected: Vec<_> = (1..=3).map(|number| (1, number)).collect();
    assert_eq!(cluster.notes::<C>(0, "sleepy").await, expected);
    assert_eq!(cluster.knobs.count(&Seen::Started), 1, "it woke with its state");
    assert_eq!(cluster.faults.all(), []);
    cluster.stop().await;
}

async fn a_host_that_shuts_down_leaves_its_rooms_to_the_others<C: Class>() {
    let mut cluster = Cluster::of(2).await;
    for n in 0..10 {
        let key = format!("room-{n}");
        cluster.place::<C>(&key, 0).await;
        let room = cluster.ledger::<C>(0, &key);
        for number in 1..=n + 1 {
            room.send(note(number)).await.unwrap();
        }
    }
    let leaving = cluster.hosts.remove(0);
    in_time("the host stops", leaving.shutdown()).await.unwrap();
    let sessions = cluster.store.inspect(|store| store.sessions());
    assert_eq!(sessions.len(), 1, "its session is over: {sessions:?}");
    for n in 0..10 {
        let key = format!("room-{n}");
        let expected: Vec<_> = (1..=n + 1).map(|number| (1, number)).collect();
        assert_eq!(cluster.notes::<C>(0, &key).await, expected);
        assert_eq!(cluster.host_of::<C>(0, &key).await, host_name(1));
    }
    assert_eq!(cluster.knobs.count(&Seen::Started), 10);
    // What is stopped says so, and hands the message back.
    let room = leaving.room::<Ledger<C>>("room-0");
    let refused = in_time("an answer", room.send(note(99))).await.unwrap_err();
    assert!(matches!(refused.into_message(), Some(LedgerMsg::Note { number: 99, .. })));
    assert!(leaving.shutdown().await.is_err(), "it is stopped already");
    cluster.stop().await;
}

async fn a_room_that_ends_says_so_to_its_members<C: Class>() {
    let cluster = Cluster::of(2).await;
    cluster.place::<C>("short", 0).await;
    let mut members = Vec::new();
    for via in 0..2 {
        members.push(cluster.ledger::<C>(via, "short").events().await.unwrap());
    }
    cluster.ledger::<C>(1, "short").send(LedgerMsg::Emit(2)).await.unwrap();
    ask(&cluster.ledger::<C>(1, "short"), LedgerMsg::Count).await;
    let close = cluster.hosts[0].close::<Ledger<C>>("short", "enough", false);
    assert_eq!(in_time("it closes", close).await, Ok(0));
    for member in &mut members {
        for number in 1..=2 {
            match in_time("an event", member.next()).await.unwrap() {
                RoomEvent::Event { event, .. } => assert_eq!(event, number),
                other => panic!("expected event {number}, found {other:?}"),
            }
        }
        let closed = in_time("the end", member.next()).await.unwrap();
        assert_eq!(closed, RoomEvent::Closed { reason: "enough".to_owned() });
    }
    let again = cluster.hosts[0].close::<Ledger<C>>("short", "again", false).await;
    assert_eq!(again, Err(CloseErr::NotHere { room: room_id::<C>("short") }));
    // Once for each move to its place, and once for its end.
    let expected = cluster.knobs.count(&Seen::Thawed) + 1;
    eventually("the stop hook runs", || async {
        (cluster.knobs.count(&Seen::Stopped) == expected).then_some(())
    })
    .await;
    cluster.stop().await;
}

async fn cluster_of_mortals() -> Cluster {
    Cluster::with(2, |_, builder| builder.configure(|c| c.session_ttl = Duration::from_secs(3)))
        .await
}

/// Nothing that was acknowledged is lost, and each is handled as if once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_durable_room_whose_host_dies_goes_on_with_every_acknowledged_message() {
    let mut cluster = cluster_of_mortals().await;
    cluster.place::<Durable>("ledger", 0).await;
    let room = cluster.ledger::<Durable>(1, "ledger");
    for number in 1..=500 {
        room.send(note(number)).await.unwrap();
        if number == 100 {
            room.send(LedgerMsg::Save).await.unwrap();
        }
        if number == 300 {
            cluster.hosts[0].kill();
        }
    }
    cluster.hosts.remove(0);
    let expected: Vec<_> = (1..=500).map(|number| (1, number)).collect();
    assert_eq!(cluster.notes::<Durable>(0, "ledger").await, expected);
    assert_eq!(cluster.host_of::<Durable>(0, "ledger").await, host_name(1));
    cluster.stop().await;
}

/// More than one sweep starts. The rest is not left to the next sweeps, which would take twenty seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_rooms_of_a_dead_host_are_taken_up_one_after_the_other_without_a_pause() {
    const ROOMS: usize = 40;
    let mut cluster = Cluster::with(2, |_, builder| {
        builder.configure(|c| {
            c.session_ttl = Duration::from_secs(3);
            c.sweep_interval = Duration::from_secs(1);
            c.max_restores = 1; // so that a sweep starts two
        })
    })
    .await;
    for number in 0..ROOMS {
        cluster.place::<Durable>(&format!("ledger-{number}"), 0).await;
    }
    cluster.hosts[0].kill();
    cluster.hosts.remove(0);
    let clock = Clock::system();
    let taken_up = async |least: usize| {
        eventually("rooms run on the host that is left", || async {
            (cluster.hosts[0].rooms().await.unwrap().len() >= least).then_some(())
        })
        .await;
        clock.mark()
    };
    let first = taken_up(1).await;
    let all = taken_up(ROOMS).await;
    assert!(all - first < Duration::from_secs(10), "{:?}", all - first);
    cluster.stop().await;
}

/// Back to the last checkpoint; the members are told once, and the order goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_live_room_whose_host_dies_goes_back_to_its_checkpoint_and_says_so() {
    let mut cluster = cluster_of_mortals().await;
    cluster.place::<Live>("game", 0).await;
    let local = cluster.ledger::<Live>(0, "game");
    let remote = cluster.ledger::<Live>(1, "game");
    let mut events = remote.events().await.unwrap();
    for number in 1..=3 {
        local.send(note(number)).await.unwrap();
    }
    let before = cluster.record::<Live>("game").unwrap().snapshot.unwrap().number;
    local.send(LedgerMsg::Save).await.unwrap();
    eventually("a checkpoint", || async {
        let number = cluster.record::<Live>("game").unwrap().snapshot.unwrap().number;
        (number > before).then_some(())
    })
    .await;
    local.send(note(4)).await.unwrap();
    ask(&local, LedgerMsg::Count).await;
    cluster.hosts[0].kill();
    cluster.hosts.remove(0);
    remote.send(note(5)).await.unwrap();
    let told = in_time("the members are told", events.next()).await.unwrap();
    assert!(matches!(told, RoomEvent::RolledBack { .. }), "{told:?}");
    assert_eq!(cluster.notes::<Live>(0, "game").await, [(1, 1), (1, 2), (1, 3), (1, 5)]);
    remote.send(LedgerMsg::Emit(1)).await.unwrap();
    match in_time("an event", events.next()).await.unwrap() {
        RoomEvent::Event { event: 1, .. } => {}
        other => panic!("expected event 1, found {other:?}"),
    }
    assert_eq!(cluster.host_of::<Live>(0, "game").await, host_name(1));
    let lapsed = |f: &RoomFault| matches!(f, RoomFault::SessionLapsed { .. });
    assert!(!cluster.faults.all().iter().any(lapsed), "the survivor was never in doubt");
    cluster.stop().await;
}
