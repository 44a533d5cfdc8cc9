//! Servers that die, fall silent and forget, and connections that break.

use std::time::Duration;

use ractor_rooms::clock::Clock;
use ractor_rooms::transport::TransportErr;

use super::Link;
use super::fixture::{int, log_to, logged, meddler, open, server_and_link};
use crate::config::RedisConfig;
use crate::testing::{PrivateServer, Proxy, ServerOptions};

const KEY: &str = "t:{s1}:log";

/// Calls in order, several under way, each repeated by its caller until it is answered, as a sender does.
async fn append(link: &Link, from: u64, to: u64) {
    for start in (from..to).step_by(50) {
        let calls = (start..(start + 50).min(to)).map(|number| async move {
            loop {
                match link.call(log_to(KEY, number)).await {
                    Ok(_) => return,
                    Err(error) => tracing::debug!(%error, "again"),
                }
            }
        });
        futures::future::join_all(calls).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_holds_while_connections_are_killed() {
    let (server, link) = server_and_link().await;
    let mut meddler = meddler(&server.url()).await;
    let appending = tokio::spawn({
        let link = link.clone();
        async move { append(&link, 0, 20_000).await }
    });
    let mut killed = 0;
    while !appending.is_finished() {
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg("normal").arg("SKIPME").arg("yes");
        let count: u32 = kill.query_async(&mut meddler).await.expect("kills");
        killed += count;
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    appending.await.expect("no panic");
    assert!(killed > 10, "only {killed} connections were killed");
    assert_eq!(logged(&link, KEY).await, (0..20_000).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_holds_while_the_scripts_are_flushed() {
    let (server, link) = server_and_link().await;
    let mut meddler = meddler(&server.url()).await;
    let appending = tokio::spawn({
        let link = link.clone();
        async move { append(&link, 0, 20_000).await }
    });
    let mut flushed = 0;
    while !appending.is_finished() {
        redis::cmd("SCRIPT").arg("FLUSH").exec_async(&mut meddler).await.expect("flushes");
        flushed += 1;
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    appending.await.expect("no panic");
    assert!(flushed > 10, "only {flushed} flushes");
    assert_eq!(logged(&link, KEY).await, (0..20_000).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_holds_over_kills_of_the_server() {
    let options = ServerOptions::default().append_only();
    let mut server = PrivateServer::start_with(options).await.expect("redis-server starts");
    let link = open(server.url()).await;
    let mut generation = link.generations();
    let mut before = *generation.borrow_and_update();
    for round in 0..4 {
        let appending = tokio::spawn({
            let link = link.clone();
            async move { append(&link, round * 1_000, (round + 1) * 1_000).await }
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        server.restart().await.expect("it comes back");
        tokio::time::timeout(Duration::from_secs(10), appending)
            .await
            .expect("the calls end")
            .expect("no panic");
        // Two restarts that no connection was opened between cannot be told apart.
        let risen = generation.wait_for(|now| *now > before);
        before = *tokio::time::timeout(Duration::from_secs(10), risen)
            .await
            .expect("each restart is another generation")
            .expect("the link lives");
    }
    assert_eq!(logged(&link, KEY).await, (0..4_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_black_hole_is_left_within_the_deadline_of_a_call() {
    let server = PrivateServer::start().await.expect("redis-server starts");
    let proxy = Proxy::start(server.port()).await.expect("a proxy");
    let link = open(proxy.url()).await;
    link.call(log_to(KEY, 0)).await.expect("an answer");
    for number in 1..4 {
        proxy.black_hole();
        link.call(log_to(KEY, number)).await.expect("an answer over another connection");
    }
    assert_eq!(logged(&link, KEY).await, vec![0, 1, 2, 3]);
}

#[tokio::test]
async fn a_black_hole_is_left_while_nobody_calls() {
    let server = PrivateServer::start().await.expect("redis-server starts");
    let proxy = Proxy::start(server.port()).await.expect("a proxy");
    let _link = open(proxy.url()).await;
    let before = proxy.connections();
    proxy.black_hole();
    let reconnected = async {
        // All three lines.
        while proxy.connections() < before + 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // The bulk line waits longest: half of its deadline of 10 s, after an idle moment.
    tokio::time::timeout(Duration::from_secs(8), reconnected).await.expect("new connections");
}

#[tokio::test]
async fn reads_and_bulk_bytes_survive_cuts_and_black_holes() {
    let server = PrivateServer::start().await.expect("redis-server starts");
    let proxy = Proxy::start(server.port()).await.expect("a proxy");
    let link = open(proxy.url()).await;
    let bytes = vec![7_u8; 3 << 20];
    for round in 0..4 {
        if round % 2 == 0 {
            proxy.cut()
        } else {
            proxy.black_hole()
        }
        let mut put = redis::pipe();
        put.cmd("SET").arg("t:{s1}:snap").arg(&bytes);
        link.bulk(put).await.expect("it is put");
        let mut get = redis::pipe();
        get.cmd("STRLEN").arg("t:{s1}:snap");
        let length = link.read(get).await.expect("it is read");
        assert_eq!(int(&length[0]), 3 << 20);
    }
}

#[tokio::test]
async fn a_server_that_stands_still_is_answered_for_in_time() {
    let server = PrivateServer::start().await.expect("redis-server starts");
    let config = RedisConfig::new(server.url()).deadline(Duration::from_millis(500));
    let link = config.open().await.expect("the server serves");
    link.call(log_to(KEY, 0)).await.expect("an answer");
    server.pause().expect("paused");
    let clock = Clock::system();
    let start = clock.mark();
    let answers =
        futures::future::join_all((1..100).map(|number| link.call(log_to(KEY, number)))).await;
    let waited = clock.elapsed_since(start);
    assert!(waited < Duration::from_millis(900), "{waited:?}");
    for answer in answers {
        assert!(matches!(answer, Err(TransportErr::Unanswered { .. })), "{answer:?}");
    }
    // By now there is no connection, and nothing is sent.
    let answer = link.call(log_to(KEY, 100)).await;
    assert!(matches!(answer, Err(TransportErr::Unavailable { .. })), "{answer:?}");
    server.resume().expect("resumed");
    link.call(log_to(KEY, 101)).await.expect("an answer");
}

#[tokio::test]
async fn a_server_that_is_gone_is_unavailable_and_then_served_again() {
    let (mut server, link) = server_and_link().await;
    link.call(log_to(KEY, 0)).await.expect("an answer");
    server.kill9().expect("killed");
    // The first may have been sent into the connection that just broke.
    let _ = link.call(log_to(KEY, 1)).await;
    let answer = link.call(log_to(KEY, 2)).await;
    let Err(TransportErr::Unavailable { reason }) = &answer else { panic!("{answer:?}") };
    assert!(reason.contains("refused"), "{reason}");
    server.restart().await.expect("it comes back");
    link.call(log_to(KEY, 3)).await.expect("an answer");
}
