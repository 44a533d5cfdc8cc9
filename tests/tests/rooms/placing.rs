//! Where rooms start: by weight, by load, and not at once on a host that has just started.

use std::time::Duration;

use ractor_rooms::RoomHost;
use ractor_rooms::protocol::placement::{Candidate, LOAD_SLACK, place};
use ractor_rooms::protocol::session::HostState;
use ractor_rooms_tests::holes::{
    Durable, Lab, eventually, host_id, key_placed, migrate, pad, room_id, show, stop,
};

async fn started_on(via: &RoomHost, key: &str) -> String {
    show(&pad::<Durable>(via, key)).await.host
}

/// Given: hosts of different weights. When: rooms start.
/// Then: each starts where weighted hashing says.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rooms_start_by_the_weights_of_hosts() {
    let lab = Lab::default();
    let a = lab.host("a").await;
    let b = lab.host_with("b", |c| c.weight = 3).await;
    let none = lab.host_with("none", |c| c.weight = 0).await;
    let hosts = [host_id("a"), host_id("b")];
    let mut on_b = 0;
    for number in 0..LOAD_SLACK {
        let key = format!("pad-{number}");
        let candidates = hosts.iter().zip([1, 3]);
        let candidates = candidates.map(|(host, weight)| Candidate { host, weight, load: 0 });
        let placed = place(&room_id::<Durable>(&key), candidates).unwrap();
        assert_eq!(started_on(&a, &key).await, placed.as_str());
        on_b += u64::from(placed.as_str() == "b");
    }
    assert!(on_b > LOAD_SLACK / 2, "{on_b}");
    stop(&[&a, &b, &none]).await;
}

/// Given: a host that runs far more than its share. When: rooms start that hashing gives it.
/// Then: they start on the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rooms_start_elsewhere_while_a_host_has_too_many() {
    let lab = Lab::default();
    // Its next heartbeat by time comes too late to tell.
    let a = lab.host_with("a", |c| c.session_ttl = Duration::from_secs(3_600)).await;
    let key = key_placed::<Durable>("a", &["a", "b"]);
    // Half of them is its share of two hosts.
    let many = 4 * LOAD_SLACK;
    for number in 0..many {
        started_on(&a, &format!("early-{number}")).await;
    }
    let b = lab.host("b").await;
    eventually("its load is known", async || {
        let sessions = lab.store.inspect(|store| store.sessions());
        sessions.iter().any(|s| u64::from(s.spec.load) > many - LOAD_SLACK)
    })
    .await;
    // It has not looked at the sessions before.
    let client = lab.host_with("client", |c| c.capacity = 0).await;
    assert_eq!(started_on(&client, &key).await, "b");
    stop(&[&a, &b, &client]).await;
}

/// Given: a host that has just started and is to settle first. When: rooms start.
/// Then: they start on the others, or on it when there is none; rooms can be moved to it all the while; and once it
/// has settled it takes its part.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_host_that_settles_leaves_rooms_to_the_others() {
    let lab = Lab::default();
    let b = lab.host_with("b", |c| c.settle_time = Duration::from_secs(3_600)).await;
    assert_eq!(started_on(&b, "alone").await, "b", "there is nobody else");
    let a = lab.host("a").await;
    let key = key_placed::<Durable>("b", &["a", "b"]);
    assert_eq!(started_on(&a, &key).await, "a");
    migrate::<Durable>(&a, &key, "b").await.unwrap();
    assert_eq!(started_on(&b, &key).await, "b");
    stop(&[&b]).await;

    let c = lab.host_with("c", |c| c.settle_time = Duration::from_millis(100)).await;
    eventually("it has settled", async || {
        let sessions = lab.store.inspect(|store| store.sessions());
        sessions.iter().all(|session| session.spec.state == HostState::Ready)
    })
    .await;
    let key = key_placed::<Durable>("c", &["a", "c"]);
    assert_eq!(started_on(&a, &key).await, "c");
    stop(&[&a, &c]).await;
}
