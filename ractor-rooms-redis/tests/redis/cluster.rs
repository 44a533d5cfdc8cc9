//! The same over a Redis Cluster of three masters.

use std::collections::{BTreeMap, BTreeSet};

use ractor_rooms_redis::RedisConfig;
use ractor_rooms_redis::testing::PrivateCluster;

use crate::field_reports::{documented_rights, odd_keys, rooms_of_odd_keys, smoke};
use crate::hosts::{Hosts, in_time, notes};
use crate::in_both_classes;
use crate::journal::Journal;
use crate::ledger::{Class, Durable};
use crate::store::{keys, operator, run};

in_both_classes! {
    the_ledgers_are_exact_on_a_cluster;
}

/// Given rooms in every part of a cluster, under traffic from two hosts. When each moves, while the
/// connections to all nodes are cut again and again. Then every ledger is exact.
async fn the_ledgers_are_exact_on_a_cluster<C: Class>() {
    const ROOMS: u32 = 6;
    const EACH: u64 = 60;
    let cluster = PrivateCluster::start().await.unwrap();
    let hosts = Hosts::of(&RedisConfig::cluster(cluster.urls()), &["a", "b"]).await;
    let mut operators = Vec::new();
    for url in cluster.urls() {
        operators.push(operator(&url).await);
    }
    let key = |room: u32| format!("room-{room}").into_bytes();
    let mut writers = Vec::new();
    let mut journals = Vec::new();
    for room in 0..ROOMS {
        hosts.place::<C>(&key(room), 0).await;
        let journal = Journal::default();
        writers.push(journal.write(hosts.ledger::<C>(0, &key(room)), 1, 1..=EACH));
        writers.push(journal.write(hosts.ledger::<C>(1, &key(room)), 2, 1..=EACH));
        journals.push(journal);
    }
    let mut cut = 0;
    for (room, journal) in (0..ROOMS).zip(&journals) {
        journal.until_accepted(10 * (room as usize + 1)).await;
        if room % 3 == 1 {
            for operator in &mut operators {
                for kind in ["normal", "pubsub"] {
                    cut += run::<usize>(operator, &["CLIENT", "KILL", "TYPE", kind]).await;
                }
            }
        }
        hosts.migrate::<C>(1, &key(room), 1).await.expect("the room moves");
    }
    assert!(cut >= 10, "only {cut} connections were cut");
    for writer in writers {
        in_time("all is written", writer).await.unwrap();
    }
    for (room, journal) in (0..ROOMS).zip(&journals) {
        journal.assert_exact(2 * EACH as usize, &notes(&hosts.ledger::<C>(0, &key(room))).await);
    }
    hosts.stop().await;
}

/// BR-26 and H-14. Given rooms with odd keys on a cluster, each moved once and its host started anew.
/// Then everything of a room is in one slot and the counters are right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h14_odd_keys_keep_a_room_in_one_slot() {
    let cluster = PrivateCluster::start().await.unwrap();
    rooms_of_odd_keys::<Durable>(&RedisConfig::cluster(cluster.urls())).await;
    let mut slots: BTreeMap<Vec<u8>, BTreeSet<i64>> = BTreeMap::new();
    for url in cluster.urls() {
        let mut operator = operator(&url).await;
        for key in keys(&mut operator, "rooms:{s*").await {
            let slot: i64 = redis::cmd("CLUSTER")
                .arg("KEYSLOT")
                .arg(&key)
                .query_async(&mut operator)
                .await
                .unwrap();
            for room in odd_keys() {
                let name = [format!(":7:{}:", Durable::KIND).as_bytes(), &room].concat();
                if key.ends_with(&name) {
                    slots.entry(room).or_default().insert(slot);
                }
            }
        }
    }
    assert_eq!(slots.len(), odd_keys().len(), "each room is in the store");
    for (room, slots) in &slots {
        assert_eq!(slots.len(), 1, "{room:?} is in {slots:?}");
    }
    assert!(slots.values().flatten().collect::<BTreeSet<_>>().len() > 3, "rooms are spread");
}

/// BR-29 on a cluster: with no more than what is documented, everything works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn br29_the_documented_rights_are_enough_on_a_cluster() {
    let cluster = PrivateCluster::start().await.unwrap();
    let mut rule = vec!["ACL", "SETUSER", "rooms", "on", ">hunter2"];
    rule.extend(documented_rights());
    let layout = include_str!("../../docs/layout.md");
    let more = layout.lines().find_map(|line| line.strip_prefix("In a Cluster also `"));
    let (more, _) = more.and_then(|line| line.split_once('`')).expect("they are documented");
    rule.extend(more.split_whitespace());
    for url in cluster.urls() {
        run::<()>(&mut operator(&url).await, &rule).await;
    }
    let store = RedisConfig::cluster(cluster.urls()).username("rooms").password("hunter2");
    let hosts = Hosts::of(&store, &["a", "b"]).await;
    smoke::<Durable>(&hosts).await;
    hosts.stop().await;
}
