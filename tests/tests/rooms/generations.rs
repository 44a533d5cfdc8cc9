//! A store that restarts, goes back in time or is emptied while hosts live.

use std::ops::RangeInclusive;
use std::time::Duration;

use ractor_rooms::protocol::record::RecordLimits;
use ractor_rooms::testing::{Fault, Operation};
use ractor_rooms::{MigrationErr, RoomEvent, RoomFault, RoomHost, WhyNotRunning};
use ractor_rooms_tests::cluster::{Cluster, room_id};
use ractor_rooms_tests::eventually;
use ractor_rooms_tests::holes::{self, Lab, stop};
use ractor_rooms_tests::rooms::{Class, LedgerMsg};
use ractor_rooms_tests::wait::in_time;

use crate::in_both_classes;
use crate::moves::under_traffic;

in_both_classes! {
    /// Twenty of them, six senders.
    restarts_lose_double_and_reorder_nothing;
    /// And the move ends one way or the other.
    restarts_in_the_middle_of_moves_lose_nothing;
    /// H-09.
    an_emptied_store_has_the_room_again;
    /// H-07, H-41, H-42.
    a_store_that_went_back_has_what_was_handled_since;
    /// Each once, in order, on every host.
    members_see_every_event_once_over_restarts;
    /// H-43. Nobody takes a room of the old generation while one that may have it lives.
    a_room_that_only_the_dead_ran_is_taken_up_after_a_restart;
}

/// Waits until a room is proved in the store's generation.
async fn proved<C: Class>(cluster: &Cluster, key: &str) {
    eventually("the room is proved", || async {
        let generation = cluster.store.inspect(|store| store.generation());
        let record = cluster.record::<C>(key)?;
        (record.proved == generation && record.settled).then_some(())
    })
    .await;
}

async fn restarts_lose_double_and_reorder_nothing<C: Class>() {
    let cluster = Cluster::of(3).await;
    cluster.place::<C>("busy", 0).await;
    under_traffic::<C>(&cluster, 20, async || {
        cluster.store.restart(None);
        proved::<C>(&cluster, "busy").await;
    })
    .await;
    cluster.until_on::<C>(0, "busy").await;
    assert_eq!(cluster.faults.all(), []);
    cluster.stop().await;
}

/// A host says that it has proved what it runs right after another heartbeat, which says that it has not. The store
/// takes them in the other order, and must not hear of it only with the next one, a third of a session on: nobody may
/// take a room up before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_that_is_overtaken_keeps_no_generation_in_doubt() {
    let lab = Lab::default();
    // A third of it is far beyond what anything here waits for.
    let host = lab.host_with("a", |c| c.session_ttl = Duration::from_secs(1_800)).await;
    let overtaken = lab.next_of("a", Operation::RenewSession, Fault::HoldRequest);
    lab.store.restart(None);
    in_time("the first heartbeat is sent", overtaken.hit()).await;
    eventually("the host is proved", || async {
        (!lab.store.inspect(|store| store.is_unproved())).then_some(())
    })
    .await;
    let again = lab.next_of("a", Operation::RenewSession, Fault::HoldRequest);
    overtaken.release();
    in_time("it is said again", again.hit()).await;
    again.release();
    eventually("the session says so", || async {
        let proves = |store: &ractor_rooms::protocol::store::Store| {
            store.sessions().iter().all(|s| s.spec.proved == store.generation())
        };
        lab.store.inspect(proves).then_some(())
    })
    .await;
    stop(&[&host]).await;
}

async fn restarts_in_the_middle_of_moves_lose_nothing<C: Class>() {
    let cluster = Cluster::of(3).await;
    cluster.place::<C>("busy", 0).await;
    let mut nth = 0_u32;
    under_traffic::<C>(&cluster, 12, async || {
        nth += 1;
        let restart = async {
            // A little later each time, so that each state of the move is met.
            for _ in 0..nth * 3 {
                tokio::task::yield_now().await;
            }
            tokio::time::sleep(Duration::from_micros(u64::from(nth) * 100)).await;
            cluster.store.restart(None);
        };
        // Adopted, or back at its source, or on its way: the room answers all the same.
        let (_, ()) = tokio::join!(cluster.migrate::<C>(0, "busy", nth as usize % 3), restart);
        proved::<C>(&cluster, "busy").await;
    })
    .await;
    eventually("one host runs it", || async {
        (cluster.runs_on::<C>("busy").await.len() == 1).then_some(())
    })
    .await;
    cluster.stop().await;
}

/// Every host sends numbers, and the room handles them.
async fn send<C: Class>(cluster: &Cluster, numbers: RangeInclusive<u64>) {
    for number in numbers {
        for via in 0..cluster.hosts.len() {
            let message = LedgerMsg::Note { from: via as u32, number };
            cluster.ledger::<C>(via, "busy").send(message).await.unwrap();
        }
    }
    for via in 0..cluster.hosts.len() {
        cluster.notes::<C>(via, "busy").await; // behind everything that was sent that way
    }
}

async fn assert_exact<C: Class>(cluster: &Cluster, last: u64) {
    let notes = cluster.notes::<C>(0, "busy").await;
    for via in 0..cluster.hosts.len() as u32 {
        let of: Vec<u64> = notes.iter().filter(|(from, _)| *from == via).map(|(_, n)| *n).collect();
        assert_eq!(of, (1..=last).collect::<Vec<_>>(), "from host {via}");
    }
}

fn regressed<C: Class>() -> [RoomFault; 1] {
    [RoomFault::StoreRegressed { room: room_id::<C>("busy") }]
}

async fn an_emptied_store_has_the_room_again<C: Class>() {
    let cluster = Cluster::of(3).await;
    cluster.place::<C>("busy", 0).await;
    send::<C>(&cluster, 1..=20).await;
    cluster.store.forget();
    send::<C>(&cluster, 21..=40).await;
    assert_exact::<C>(&cluster, 40).await;
    cluster.until_on::<C>(0, "busy").await;
    assert_eq!(cluster.faults.all(), regressed::<C>());
    // It moves as ever, and what is stored is enough to go on elsewhere.
    cluster.migrate::<C>(0, "busy", 1).await.unwrap();
    send::<C>(&cluster, 41..=50).await;
    assert_exact::<C>(&cluster, 50).await;
    cluster.stop().await;
}

async fn a_store_that_went_back_has_what_was_handled_since<C: Class>() {
    let cluster = Cluster::of(3).await;
    cluster.place::<C>("busy", 0).await;
    send::<C>(&cluster, 1..=20).await;
    let earlier = cluster.store.inspect(Clone::clone);
    send::<C>(&cluster, 21..=40).await;
    cluster.store.restart(Some(earlier));
    send::<C>(&cluster, 41..=60).await;
    assert_exact::<C>(&cluster, 60).await;
    // Whoever comes first finds that something is missing: the owner, or senders that bring it back.
    let (faults, [regressed]) = (cluster.faults.all(), regressed::<C>());
    assert!(!faults.is_empty() && faults.iter().all(|fault| *fault == regressed), "{faults:?}");
    cluster.stop().await;
}

async fn members_see_every_event_once_over_restarts<C: Class>() {
    // As many as the record keeps, so that nobody who listens late has missed one.
    const EVENTS: u64 = 255;
    assert!(EVENTS <= RecordLimits::default().history as u64);
    let cluster = Cluster::with(3, |_, b| b.configure(|c| c.max_member_events = 100_000)).await;
    cluster.place::<C>("busy", 0).await;
    let mut members = Vec::new();
    for via in 0..3 {
        members.push(cluster.ledger::<C>(via, "busy").events().await.unwrap());
    }
    for n in 0..EVENTS / 3 {
        cluster.ledger::<C>(n as usize % 3, "busy").send(LedgerMsg::Emit(3)).await.unwrap();
        if n % 20 == 10 {
            cluster.store.restart(None);
        }
    }
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

async fn a_room_that_only_the_dead_ran_is_taken_up_after_a_restart<C: Class>() {
    let mut cluster = Cluster::with(3, |_, builder| {
        builder.configure(|config| config.session_ttl = Duration::from_secs(2))
    })
    .await;
    cluster.place::<C>("busy", 0).await;
    cluster.ledger::<C>(1, "busy").send(LedgerMsg::Note { from: 1, number: 1 }).await.unwrap();
    cluster.notes::<C>(1, "busy").await;
    cluster.hosts.remove(0).kill();
    cluster.store.restart(None);
    // The room's checkpoint is older than its last message, which a durable room reads from the log.
    let notes = cluster.notes::<C>(0, "busy").await;
    if C::DELIVERY == ractor_rooms::Delivery::Durable {
        assert_eq!(notes, [(1, 1)]);
    }
    cluster.stop().await;
}

/// Waits until a host knows that a room rests: until its park was answered it has the state still.
async fn rests<C: holes::Class>(host: &RoomHost, key: &str) {
    let itself = host.id().as_str();
    eventually("the room rests", || async {
        let moved = holes::migrate::<C>(host, key, itself).await;
        let Err(MigrationErr::NotRunning { why, .. }) = moved else { return None };
        (why != WhyNotRunning::Unloading).then_some(())
    })
    .await;
}

/// Given: a room that rests since its host parked it. When: the store goes back to before that.
/// Then: the host says so; nobody else knows of it, and it has no bytes to bring back.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_state_at_rest_that_the_store_loses_is_reported() {
    let lab = Lab::default();
    let a = lab.host_with("a", |c| c.session_ttl = Duration::from_secs(2)).await;
    lab.bring::<holes::Live>("pad", &a, "a").await;
    let room = holes::pad::<holes::Live>(&a, "pad");
    let earlier = lab.store.inspect(Clone::clone);
    room.send(holes::note(1, 1)).await.unwrap();
    assert!(a.unload::<holes::Pad<holes::Live>>("pad").await.unwrap());
    rests::<holes::Live>(&a, "pad").await;
    lab.store.restart(Some(earlier));
    let lost = RoomFault::StateLost { room: holes::room_id::<holes::Live>("pad") };
    eventually("it is reported", || async { lab.faults().contains(&lost).then_some(()) }).await;
    assert_eq!(holes::show(&room).await.notes, [], "it goes on from what is there");
    lab.store.restart(None);
    assert_eq!(lab.faults().iter().filter(|fault| **fault == lost).count(), 1, "once");
    stop(&[&a]).await;
}

/// Given: a room that its host parked, and that another host has taken up since. When: the store goes back to before
/// that. Then: the other brings it back, and nothing is reported as lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_state_that_another_host_has_is_not_reported_as_lost() {
    let lab = Lab::default();
    let ttl = Duration::from_secs(2);
    let a = lab.host_with("a", |c| c.session_ttl = ttl).await;
    let b = lab.host_with("b", |c| c.session_ttl = ttl).await;
    lab.bring::<holes::Durable>("pad", &a, "a").await;
    let room = holes::pad::<holes::Durable>(&b, "pad");
    let earlier = lab.store.inspect(Clone::clone);
    room.send(holes::note(1, 1)).await.unwrap();
    assert!(a.unload::<holes::Pad<holes::Durable>>("pad").await.unwrap());
    a.cordon().unwrap();
    rests::<holes::Durable>(&a, "pad").await;
    // Until it is live there it is whoever parked it that has it.
    lab.bring::<holes::Durable>("pad", &b, "b").await;
    lab.store.restart(Some(earlier));
    lab.record_when::<holes::Durable>("pad", "b has proved it", |record| {
        record.settled && record.owner.as_ref().is_some_and(|o| o.by.host.as_str() == "b")
    })
    .await;
    // As long as the host that parked it looks for it.
    tokio::time::sleep(ttl).await;
    let regressed = RoomFault::StoreRegressed { room: holes::room_id::<holes::Durable>("pad") };
    assert!(lab.faults().iter().all(|fault| *fault == regressed), "{:?}", lab.faults());
    assert_eq!(holes::show(&room).await.notes, [(1, 1)]);
    stop(&[&a, &b]).await;
}
