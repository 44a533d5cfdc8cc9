//! Handlers that fail: one message is counted, tried again and given up, and the room goes on.

use std::time::Duration;

use ractor_rooms::protocol::record::{Answer, OwnerAnswer, Request};
use ractor_rooms::{RoomEvent, RoomFault};
use ractor_rooms_tests::Cluster;
use ractor_rooms_tests::cluster::{ask, room_id, test_store};
use ractor_rooms_tests::eventually;
use ractor_rooms_tests::meddler::Meddler;
use ractor_rooms_tests::rooms::{Durable, Knobs, Ledger, LedgerMsg, Live, Seen};
use ractor_rooms_tests::wait::in_time;
use tokio::sync::watch;

const ALWAYS: u32 = u32::MAX;

/// What is left of 1..=10 when 7 is given up.
fn without_7() -> Vec<(u32, u64)> {
    (1..=10).filter(|number| *number != 7).map(|number| (1, number)).collect()
}

async fn send_1_to_10(cluster: &Cluster, via: usize, key: &str, sour: bool) {
    let room = cluster.ledger::<Durable>(via, key);
    for number in 1..=10 {
        let message = match number {
            4 if sour => LedgerMsg::Sour { from: 1, number, fails: 1 },
            4 => LedgerMsg::Shaky { from: 1, number, fails: 1 },
            7 if sour => LedgerMsg::Sour { from: 1, number, fails: ALWAYS },
            7 => LedgerMsg::Shaky { from: 1, number, fails: ALWAYS },
            _ => LedgerMsg::Note { from: 1, number },
        };
        room.send(message).await.unwrap();
    }
}

async fn assert_7_is_given_up(cluster: &Cluster, via: usize, key: &str, text: &str) {
    assert_eq!(cluster.notes::<Durable>(via, key).await, without_7());
    let host = &cluster.hosts[via];
    let letters = host.dead_letters::<Ledger<Durable>>(key.to_owned()).await.unwrap();
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0].attempts, 3);
    assert!(letters[0].error.contains(text), "{:?}", letters[0].error);
    assert_eq!(cluster.knobs.attempts(1, 7), 3);
    // The clean stop hook is not for failures.
    assert_eq!(cluster.knobs.count(&Seen::Stopped), 0);
    let room = room_id::<Durable>(key);
    let faults = cluster.faults.all();
    let failed =
        |f: &&RoomFault| matches!(f, RoomFault::HandlerFailed { room: r, .. } if *r == room);
    assert_eq!(faults.iter().filter(failed).count(), 4, "{faults:?}");
    let given_up = |f: &RoomFault| matches!(f, RoomFault::DeadLetter { room: r, error } if *r == room && error.contains(text));
    assert!(faults.iter().any(given_up), "{faults:?}");
}

/// BR-25 without a kill.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn br_25_a_message_that_panics_every_time_is_given_up_after_three_attempts() {
    let cluster = Cluster::of(1).await;
    send_1_to_10(&cluster, 0, "poison", false).await;
    assert_7_is_given_up(&cluster, 0, "poison", "message 7 is poison").await;
    cluster.stop().await;
}

/// BR-25 with errors instead of panics, sent from another host.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn br_25_a_message_that_fails_every_time_is_given_up_after_three_attempts() {
    let cluster = Cluster::of(1).await;
    send_1_to_10(&cluster, 0, "sour", true).await;
    assert_7_is_given_up(&cluster, 0, "sour", "message 7 is sour").await;
    cluster.stop().await;
}

/// BR-25: the host dies after the second attempt, and the count goes on where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn br_25_attempts_are_counted_across_the_death_of_a_host() {
    let store = test_store();
    let meddler = Meddler::new(store.clone());
    let knobs = Knobs::default();
    let mut cluster = Cluster::over(store, meddler.clone(), 2, knobs, |_, builder| {
        // The answer that never comes must not be waited out before the kill.
        builder.configure(|c| {
            c.store_timeout = Duration::from_secs(120);
            c.session_ttl = Duration::from_secs(3);
        })
    })
    .await;
    cluster.place::<Durable>("poison", 0).await;
    let stopped_by_placing = cluster.knobs.count(&Seen::Stopped);
    let counted_twice = watch::Sender::new(false);
    let mut twice = counted_twice.subscribe();
    meddler.swallow(move |request, answer| {
        let second = matches!(request, Request::CountFailure { .. })
            && *answer == Answer::Owner(OwnerAnswer::Count(2));
        if second {
            counted_twice.send_replace(true);
        }
        second
    });
    send_1_to_10(&cluster, 1, "poison", false).await;
    in_time("two attempts are counted", twice.wait_for(|twice| *twice)).await.unwrap();
    cluster.hosts[0].kill();
    meddler.swallow_nothing();
    assert_eq!(cluster.knobs.attempts(1, 7), 2);

    cluster.hosts.remove(0);
    assert_eq!(cluster.notes::<Durable>(0, "poison").await, without_7());
    assert_eq!(cluster.knobs.attempts(1, 7), 3, "tried once more after the kill");
    let letters = cluster.hosts[0].dead_letters::<Ledger<Durable>>("poison").await.unwrap();
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!(letters[0].attempts, 3);
    assert!(letters[0].error.contains("message 7 is poison"), "{:?}", letters[0].error);
    assert_eq!(cluster.knobs.count(&Seen::Stopped), stopped_by_placing);
    assert_eq!(cluster.host_of::<Durable>(0, "poison").await, "host-1");
    cluster.stop().await;
}

/// A live room goes back to its checkpoint, says so to its members, and goes on under the same name.
/// `via` is where the sender is: a message from its own host never was bytes and is tried once.
async fn live_poison(via: usize, attempts: u32) {
    let cluster = Cluster::of(2).await;
    cluster.place::<Live>("game", 0).await;
    let room = cluster.ledger::<Live>(via, "game");
    let mut events = room.events().await.unwrap();
    for number in 1..=3 {
        room.send(LedgerMsg::Note { from: 1, number }).await.unwrap();
    }
    ask(&room, LedgerMsg::Count).await;
    let before = cluster.record::<Live>("game").unwrap().snapshot.unwrap().number;
    room.send(LedgerMsg::Save).await.unwrap();
    eventually("a checkpoint", || async {
        let number = cluster.record::<Live>("game").unwrap().snapshot.unwrap().number;
        (number > before).then_some(())
    })
    .await;
    room.send(LedgerMsg::Note { from: 1, number: 4 }).await.unwrap();
    room.send(LedgerMsg::Shaky { from: 1, number: 5, fails: ALWAYS }).await.unwrap();
    room.send(LedgerMsg::Note { from: 1, number: 6 }).await.unwrap();

    let notes = cluster.notes::<Live>(via, "game").await;
    assert_eq!(notes, [(1, 1), (1, 2), (1, 3), (1, 6)], "4 was after the checkpoint");
    let event = in_time("the members are told", events.next()).await.unwrap();
    assert!(matches!(event, RoomEvent::RolledBack { .. }), "{event:?}");
    let letters = cluster.hosts[1].dead_letters::<Ledger<Live>>("game").await.unwrap();
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!((letters[0].attempts, cluster.knobs.attempts(1, 5)), (attempts, attempts));
    assert!(letters[0].error.contains("message 5 is poison"), "{:?}", letters[0].error);
    assert_eq!(cluster.host_of::<Live>(1, "game").await, "host-0");
    cluster.stop().await;
}

/// BR-25 in the live class.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn br_25_a_live_room_goes_on_after_a_poisonous_message_of_its_own_host() {
    live_poison(0, 1).await;
}

/// BR-25 in the live class.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn br_25_a_live_room_goes_on_after_a_poisonous_message_of_another_host() {
    live_poison(1, 3).await;
}
