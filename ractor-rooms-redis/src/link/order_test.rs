//! Order, merging, bounds and dropped futures.

use std::time::Duration;

use futures::FutureExt;
use futures::stream::{FuturesOrdered, StreamExt};
use ractor_rooms::transport::TransportErr;
use redis::Value;

use super::fixture::{count, int, log_to, logged, meddler, server_and_patient_link};
use super::queue::{Next, Pump, Queue, Taken, tag};
use crate::testing::PrivateServer;
use crate::words::Words;

#[test]
fn the_tag_is_what_the_braces_hold() {
    for (key, expected) in
        [("a{b}c", "b"), ("{b}{c}", "b"), ("a{}b", "a{}b"), ("a{b", "a{b"), ("ab", "ab"), ("", "")]
    {
        assert_eq!(tag(key.as_bytes()), expected.as_bytes(), "{key}");
    }
}

#[tokio::test]
async fn calls_are_carried_out_in_the_order_in_which_they_were_made() {
    let (_server, link) = server_and_patient_link().await;
    let calls: FuturesOrdered<_> =
        (0..5_000).map(|number| link.call(log_to("t:{s1}:log", number))).collect();
    let lengths: Vec<i64> = calls.map(|answer| int(&answer.expect("an answer"))).collect().await;
    assert_eq!(lengths, (1..=5_000).collect::<Vec<_>>());
    assert_eq!(logged(&link, "t:{s1}:log").await, (0..5_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_call_that_is_not_merged_has_no_count_and_keeps_its_place() {
    let (_server, link) = server_and_patient_link().await;
    let first = link.call(log_to("t:{s1}:log", 1));
    let second = link.call(count("t:{s1}:log"));
    let third = link.call(log_to("t:{s1}:log", 2));
    let (first, second, third) = futures::join!(first, second, third);
    assert_eq!(int(&first.expect("an answer")), 1);
    assert_eq!(second, Ok(Value::Array(vec![Value::Int(1), Value::Int(1)])));
    assert_eq!(int(&third.expect("an answer")), 2);
}

#[tokio::test]
async fn calls_that_wait_together_go_as_one() {
    let (server, link) = server_and_patient_link().await;
    let mut meddler = meddler(&server.url()).await;
    link.call(log_to("t:{s1}:log", "first")).await.expect("an answer");
    redis::cmd("CONFIG").arg("RESETSTAT").exec_async(&mut meddler).await.expect("allowed");
    let calls: FuturesOrdered<_> =
        (0..1_000).map(|number| link.call(log_to("t:{s1}:log", number))).collect();
    let answers: Vec<_> = calls.collect().await;
    assert!(answers.iter().all(Result::is_ok));
    let stats: String =
        redis::cmd("INFO").arg("commandstats").query_async(&mut meddler).await.expect("stats");
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).expect("calls");
    let calls: u32 = line
        .split(['=', ','])
        .nth(1)
        .and_then(|calls| calls.parse().ok())
        .expect("a number of calls");
    assert!(calls <= 10, "{calls} scripts for 1000 calls");
}

#[tokio::test]
async fn a_full_queue_refuses_and_says_so() {
    let (server, link) = server_and_patient_link().await;
    link.call(log_to("t:{s1}:log", "first")).await.expect("an answer");
    server.pause().expect("paused");
    let mut waiting = Vec::new();
    let refused = loop {
        let mut call = Box::pin(link.call(log_to("t:{s1}:log", waiting.len())));
        match call.as_mut().now_or_never() {
            Some(answer) => break answer,
            None => waiting.push(call),
        }
        assert!(waiting.len() < 100_000, "the queue has no bound");
    };
    assert!(matches!(refused, Err(TransportErr::Unavailable { .. })), "{refused:?}");
    server.resume().expect("resumed");
    let answers = futures::future::join_all(waiting).await;
    assert!(answers.iter().all(Result::is_ok), "what was taken in is answered");
}

#[tokio::test]
async fn a_dropped_call_takes_no_other_with_it_and_leaves_no_place_taken() {
    let (server, link) = server_and_patient_link().await;
    link.call(log_to("t:{s1}:log", "first")).await.expect("an answer");
    server.pause().expect("paused");
    for number in 0..40_000 {
        let dropped = link.call(log_to("t:{s1}:dropped", number)).now_or_never();
        assert!(dropped.is_none(), "{dropped:?}");
    }
    let kept = link.call(log_to("t:{s1}:log", "kept"));
    server.resume().expect("resumed");
    assert_eq!(int(&kept.await.expect("an answer")), 2);
}

#[test]
fn a_call_without_a_key_is_refused() {
    let mut call = log_to("k", 1);
    call.keys = Words::default();
    assert!(matches!(Queue::new(false, None).push(call), Err(TransportErr::Unavailable { .. })));
}

#[test]
fn another_number_of_answers_than_commands_breaks_the_connection() {
    let mut queue = Queue::new(false, None);
    let Taken { fate: _fate, mut answer, pump } =
        queue.push(log_to("k", 1)).expect("there is room");
    assert_eq!(pump, Some(Pump::Caller), "nothing else is under way");
    let sending = queue.pump(Duration::ZERO);
    assert_eq!(sending.len(), 1);
    let mut out = Vec::new();
    let next = queue.finish(sending[0].id, Vec::new(), &mut out);
    assert!(matches!(next, Next::Reconnect(_)), "{next:?}");
    assert!(out.is_empty());
    assert!(answer.try_recv().is_err(), "the call still waits");
    queue.disconnected();
    assert_eq!(queue.pump(Duration::ZERO).len(), 1, "and goes again");
}

#[tokio::test]
async fn an_error_of_a_script_is_an_error_of_its_calls_alone() {
    let (server, link) = server_and_patient_link().await;
    let mut meddler = meddler(&server.url()).await;
    redis::cmd("SET").arg("t:{s1}:text").arg(1).exec_async(&mut meddler).await.expect("set");
    let (bad, good) =
        futures::join!(link.call(log_to("t:{s1}:text", 1)), link.call(log_to("t:{s2}:log", 1)));
    assert!(matches!(bad, Err(TransportErr::Failed { .. })), "{bad:?}");
    assert_eq!(int(&good.expect("an answer")), 1);
}

#[tokio::test]
async fn a_stopped_link_answers_its_callers_in_time() {
    let server = PrivateServer::start().await.expect("redis-server starts");
    let link = super::fixture::open(server.url()).await;
    link.call(log_to("t:{s1}:log", 0)).await.expect("an answer");
    server.pause().expect("paused");
    let calling = link.clone();
    let call = tokio::spawn(async move { calling.call(log_to("t:{s1}:log", 1)).await });
    let answer = tokio::time::timeout(Duration::from_secs(4), call).await;
    drop(link);
    let answer = answer.expect("an answer in time").expect("no panic");
    assert!(matches!(answer, Err(TransportErr::Unanswered { .. })), "{answer:?}");
    server.resume().expect("resumed");
}
