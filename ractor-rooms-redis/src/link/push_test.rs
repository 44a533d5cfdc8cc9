//! Subscriptions.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;

use super::Subscription;
use super::fixture::{meddler, open, server_and_link};
use crate::config::RedisConfig;
use crate::testing::{PrivateServer, Proxy};

fn channel(number: usize) -> Bytes {
    Bytes::from(format!("t:{{s1}}:to:{number}"))
}

async fn publish(conn: &mut redis::aio::MultiplexedConnection, channel: &Bytes, text: &str) -> u32 {
    let mut publish = redis::cmd("PUBLISH");
    publish.arg(&**channel).arg(text);
    publish.query_async(conn).await.expect("published")
}

async fn next(subscription: &mut Subscription) -> Option<(Bytes, Bytes)> {
    tokio::time::timeout(Duration::from_secs(5), subscription.next()).await.expect("within 5 s")
}

/// Waits until nobody on the server listens to a channel.
async fn until_unheard(conn: &mut redis::aio::MultiplexedConnection, channel: &Bytes) {
    let unheard = async {
        while publish(conn, channel, "anybody?").await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), unheard).await.expect("unsubscribed within 5 s");
}

#[tokio::test]
async fn what_is_published_after_subscribing_is_received_in_order() {
    let (server, link) = server_and_link().await;
    let mut meddler = meddler(&server.url()).await;
    let mut all = link.subscribe(vec![channel(1), channel(2)]).await.expect("subscribed");
    let mut one = link.subscribe(vec![channel(1)]).await.expect("subscribed");
    for number in 0..100 {
        publish(&mut meddler, &channel(1 + number % 2), &number.to_string()).await;
    }
    for number in 0..100 {
        let expected = (channel(1 + number % 2), Bytes::from(number.to_string()));
        assert_eq!(next(&mut all).await, Some(expected.clone()));
        if number % 2 == 0 {
            assert_eq!(next(&mut one).await, Some(expected));
        }
    }
}

#[tokio::test]
async fn dropping_a_subscription_unsubscribes_what_nobody_else_has() {
    let (server, link) = server_and_link().await;
    let mut meddler = meddler(&server.url()).await;
    let both = link.subscribe(vec![channel(1), channel(2)]).await.expect("subscribed");
    let mut one = link.subscribe(vec![channel(1)]).await.expect("subscribed");
    drop(both);
    until_unheard(&mut meddler, &channel(2)).await;
    assert_eq!(publish(&mut meddler, &channel(1), "still").await, 1);
    assert_eq!(next(&mut one).await, Some((channel(1), Bytes::from_static(b"still"))));
}

#[tokio::test]
async fn ten_thousand_channels_come_and_go() {
    let (server, link) = server_and_link().await;
    let mut meddler = meddler(&server.url()).await;
    let many: Vec<Bytes> = (0..10_000).map(channel).collect();
    let asked = many.chunks(100).map(|some| link.subscribe(some.to_vec()));
    let mut subscriptions = Vec::new();
    for subscribed in futures::future::join_all(asked).await {
        subscriptions.push(subscribed.expect("subscribed"));
    }
    for number in [0, 4_711, 9_999] {
        assert_eq!(publish(&mut meddler, &channel(number), "x").await, 1);
        let received = next(&mut subscriptions[number / 100]).await;
        assert_eq!(received, Some((channel(number), Bytes::from_static(b"x"))));
    }
    // One that has them all keeps them when the others go.
    let all = link.subscribe(many.clone()).await.expect("subscribed");
    drop(subscriptions);
    link.subscribe(vec![channel(0)]).await.expect("subscribed behind what was dropped");
    for number in [0, 4_711, 9_999] {
        assert_eq!(publish(&mut meddler, &channel(number), "x").await, 1);
    }
    drop(all);
    for number in [0, 4_711, 9_999] {
        until_unheard(&mut meddler, &channel(number)).await;
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_connection_and_another_follows() {
    let (server, link) = server_and_link().await;
    let mut meddler = meddler(&server.url()).await;
    for _ in 0..5 {
        let mut subscription = link.subscribe(vec![channel(1)]).await.expect("subscribed");
        publish(&mut meddler, &channel(1), "before").await;
        assert!(next(&mut subscription).await.is_some());
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg("pubsub");
        kill.exec_async(&mut meddler).await.expect("killed");
        assert_eq!(next(&mut subscription).await, None);
    }
}

#[tokio::test]
async fn a_stream_ends_in_a_black_hole() {
    let server = PrivateServer::start().await.expect("redis-server starts");
    let proxy = Proxy::start(server.port()).await.expect("a proxy");
    let link = open(proxy.url()).await;
    let mut subscription = link.subscribe(vec![channel(1)]).await.expect("subscribed");
    proxy.black_hole();
    assert_eq!(next(&mut subscription).await, None);
    link.subscribe(vec![channel(1)]).await.expect("subscribed over another connection");
}

#[tokio::test]
async fn a_full_queue_ends_the_stream_and_no_other() {
    let server = PrivateServer::start().await.expect("redis-server starts");
    let config = RedisConfig::new(server.url()).push_queue(16);
    let link = config.open().await.expect("the server serves");
    let mut meddler = meddler(&server.url()).await;
    let mut slow = link.subscribe(vec![channel(1)]).await.expect("subscribed");
    let mut other = link.subscribe(vec![channel(2)]).await.expect("subscribed");
    for number in 0..100 {
        publish(&mut meddler, &channel(1), &number.to_string()).await;
    }
    until_unheard(&mut meddler, &channel(1)).await;
    let mut received = 0;
    while next(&mut slow).await.is_some() {
        received += 1;
    }
    assert_eq!(received, 16);
    publish(&mut meddler, &channel(2), "x").await;
    assert_eq!(next(&mut other).await, Some((channel(2), Bytes::from_static(b"x"))));
    let mut again = link.subscribe(vec![channel(1)]).await.expect("subscribed");
    publish(&mut meddler, &channel(1), "y").await;
    assert_eq!(next(&mut again).await, Some((channel(1), Bytes::from_static(b"y"))));
}
