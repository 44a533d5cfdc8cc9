//! The same on a cluster of three masters.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;

use super::Link;
use super::fixture::{int, log_to, logged};
use crate::config::RedisConfig;
use crate::error::ConnectErr;
use crate::testing::PrivateCluster;

async fn cluster_and_link() -> (PrivateCluster, Link) {
    let cluster = PrivateCluster::start().await.expect("three servers become a cluster");
    let link = RedisConfig::cluster(cluster.urls()).open().await.expect("the cluster serves");
    (cluster, link)
}

fn key(shard: usize) -> String {
    format!("t:{{s{shard:04}}}:log")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_go_to_their_slots_merged_and_in_order() {
    let (_cluster, link) = cluster_and_link().await;
    assert!(link.is_cluster());
    let calls = (0..6_400).map(|number| link.call(log_to(&key(number % 64), number)));
    for (number, answer) in futures::future::join_all(calls).await.into_iter().enumerate() {
        let length = int(&answer.expect("an answer"));
        assert_eq!(usize::try_from(length), Ok(number / 64 + 1));
    }
    for shard in 0..64 {
        let expected: Vec<u64> = (0..100).map(|round| round * 64 + shard).collect();
        let shard = usize::try_from(shard).expect("small");
        assert_eq!(logged(&link, &key(shard)).await, expected);
    }
}

#[tokio::test]
async fn a_node_names_the_cluster_and_another_url_does_not() {
    let (cluster, _link) = cluster_and_link().await;
    let url = cluster.urls().remove(2);
    let one = url.replace("redis://", "redis+cluster://");
    RedisConfig::new(one).open().await.expect("one node is enough");
    let error = RedisConfig::new(url).open().await.expect_err("it is a cluster");
    assert!(matches!(error, ConnectErr::IsCluster { .. }), "{error:?}");
}

#[tokio::test]
async fn bulk_and_read_find_their_slot() {
    let (_cluster, link) = cluster_and_link().await;
    for shard in 0..16 {
        let mut put = redis::pipe();
        put.cmd("SET").arg(format!("t:{{s{shard:04}}}:a")).arg(shard);
        put.cmd("SET").arg(format!("t:{{s{shard:04}}}:b")).arg(shard);
        assert_eq!(link.bulk(put).await.expect("put").len(), 2);
        let mut get = redis::pipe();
        get.cmd("GET").arg(format!("t:{{s{shard:04}}}:a"));
        get.cmd("GET").arg(format!("t:{{s{shard:04}}}:b"));
        let values = link.read(get).await.expect("read");
        let found: Vec<i32> =
            values.into_iter().map(|value| redis::from_redis_value(value).expect("int")).collect();
        assert_eq!(found, [shard, shard]);
    }
}

#[tokio::test]
async fn sharded_channels_of_many_slots() {
    let (_cluster, link) = cluster_and_link().await;
    let channel = |shard: usize| Bytes::from(format!("t:{{s{shard:04}}}:to:1"));
    let mut subscription =
        link.subscribe((0..64).map(channel).collect()).await.expect("subscribed");
    for shard in 0..64 {
        let mut publish = redis::pipe();
        publish.cmd("SPUBLISH").arg(&*channel(shard)).arg(shard);
        assert_eq!(int(&link.read(publish).await.expect("published")[0]), 1);
        let received = tokio::time::timeout(Duration::from_secs(5), subscription.next()).await;
        let expected = (channel(shard), Bytes::from(shard.to_string()));
        assert_eq!(received.expect("within 5 s"), Some(expected));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_restarts_ends_the_streams_and_is_served_again() {
    let (mut cluster, link) = cluster_and_link().await;
    let channels = (0..64).map(|shard| Bytes::from(format!("t:{{s{shard:04}}}:to:1"))).collect();
    let mut subscription = link.subscribe(channels).await.expect("subscribed");
    cluster.servers_mut()[1].restart().await.expect("it comes back");
    let ended = tokio::time::timeout(Duration::from_secs(10), subscription.next()).await;
    assert_eq!(ended.expect("within 10 s"), None);
    let served = async {
        for shard in 0..64 {
            while link.call(log_to(&key(shard), 1)).await.is_err() {}
        }
    };
    tokio::time::timeout(Duration::from_secs(20), served).await.expect("served within 20 s");
}
