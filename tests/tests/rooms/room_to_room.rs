//! What rooms send to rooms: each once, in order, while both move.

use std::time::Duration;

use ractor_rooms_tests::Cluster;
use ractor_rooms_tests::eventually;
use ractor_rooms_tests::rooms::{Address, Class, Durable, FORWARDED, LedgerMsg, Live};

use crate::in_both_classes;

in_both_classes! {
    /// To a live room.
    what_a_moving_room_sends_to_a_live_room_arrives_once_and_in_order;
    /// To a durable room.
    what_a_moving_room_sends_to_a_durable_room_arrives_once_and_in_order;
}

async fn what_a_moving_room_sends_to_a_live_room_arrives_once_and_in_order<C: Class>() {
    forward::<C, Live>().await;
}

async fn what_a_moving_room_sends_to_a_durable_room_arrives_once_and_in_order<C: Class>() {
    forward::<C, Durable>().await;
}

const COUNT: u64 = 600;

fn expected() -> Vec<(u32, u64)> {
    (1..=COUNT).map(|number| (FORWARDED, number)).collect()
}

async fn forward<A: Class, B: Class>() {
    let cluster = Cluster::of(3).await;
    cluster.place::<A>("a", 0).await;
    cluster.place::<B>("b", 0).await;
    let to = Address::of::<B>("b");
    let a = cluster.ledger::<A>(0, "a");
    let sends = async {
        for number in 1..=COUNT {
            a.send(LedgerMsg::Forward { from: 1, number, to: to.clone() }).await.unwrap();
            if number % 8 == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await; // so that the moves fall between
            }
        }
    };
    let moves = async {
        for nth in 1..=12 {
            cluster.migrate::<A>(nth % 2, "a", nth % 3).await.unwrap();
            if nth % 3 == 0 {
                cluster.migrate::<B>(nth % 2, "b", nth / 3 % 3).await.unwrap();
            }
        }
    };
    tokio::join!(sends, moves);
    // Also over a rest: what had not left goes on from the snapshot.
    cluster.unload::<A>(0, "a").await;
    assert_eq!(cluster.notes::<A>(0, "a").await.len() as u64, COUNT);
    let notes = eventually("everything arrives", || async {
        let notes = cluster.notes::<B>(1, "b").await;
        (notes.len() as u64 >= COUNT).then_some(notes)
    })
    .await;
    assert_eq!(notes, expected());
    assert_eq!(cluster.faults.all(), []);
    cluster.stop().await;
}

/// A durable room's outputs carry the same numbers in a replay, so its target drops what it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_durable_room_sent_before_its_host_died_is_not_sent_twice() {
    for durable in [true, false] {
        let mut cluster = Cluster::with(2, |_, builder| {
            builder.configure(|c| c.session_ttl = Duration::from_secs(3))
        })
        .await;
        cluster.place::<Durable>("a", 0).await;
        let to = Address { durable, key: "b".to_owned() };
        if durable {
            cluster.place::<Durable>("b", 1).await;
        } else {
            cluster.place::<Live>("b", 1).await;
        }
        let a = cluster.ledger::<Durable>(1, "a");
        for number in 1..=COUNT {
            a.send(LedgerMsg::Forward { from: 1, number, to: to.clone() }).await.unwrap();
            if number == COUNT / 2 {
                cluster.hosts[0].kill();
            }
        }
        cluster.hosts.remove(0);
        let notes = eventually("everything arrives", || async {
            let notes = match durable {
                true => cluster.notes::<Durable>(0, "b").await,
                false => cluster.notes::<Live>(0, "b").await,
            };
            (notes.len() as u64 >= COUNT).then_some(notes)
        })
        .await;
        assert_eq!(notes, expected());
        let kept: Vec<_> = (1..=COUNT).map(|number| (1, number)).collect();
        assert_eq!(cluster.notes::<Durable>(0, "a").await, kept);
        assert_eq!(cluster.host_of::<Durable>(0, "a").await, "host-1");
        cluster.stop().await;
    }
}
