//! A master that Sentinels watch over.

use std::time::Duration;

use ractor_rooms::id::Generation;

use crate::config::RedisConfig;
use crate::error::ConnectErr;
use crate::link::Link;
use crate::link::fixture::{int, log_to, logged, meddler};
use crate::testing::PrivateSentinel;

const KEY: &str = "t:{s1}:log";
const SECRET: &str = "p@:/?#%é w0rd";

fn config(set: &PrivateSentinel) -> RedisConfig {
    RedisConfig::sentinel(set.urls(), PrivateSentinel::MASTER)
}

/// Ten numbers that the replica has too.
async fn ten(link: &Link) {
    for number in 0..10 {
        link.call(log_to(KEY, number)).await.expect("an answer");
    }
    let mut wait = redis::pipe();
    wait.cmd("WAIT").arg(1).arg(1_900);
    assert_eq!(int(&link.read(wait).await.expect("an answer")[0]), 1);
}

/// Goes on with the same call until it is answered by the master after the failover.
async fn goes_on(link: &Link, generation: &mut tokio::sync::watch::Receiver<Generation>) {
    let changed = async {
        generation.changed().await.expect("the link lives");
        while link.call(log_to(KEY, 10)).await.is_err() {}
    };
    tokio::time::timeout(Duration::from_secs(20), changed).await.expect("served within 20 s");
    assert_eq!(logged(link, KEY).await, (0..=10).collect::<Vec<u64>>());
}

async fn count(url: &str) -> i64 {
    let mut conn = meddler(url).await;
    redis::cmd("LLEN").arg(KEY).query_async(&mut conn).await.expect("a number")
}

#[tokio::test]
async fn link_follows_a_failover() {
    let mut set = PrivateSentinel::start().await.expect("five servers start");
    let link = config(&set).open().await.expect("the master serves");
    let mut generation = link.generations();
    generation.mark_unchanged();
    ten(&link).await;
    let before = *generation.borrow();
    set.fail_over().await.expect("the replica takes over");
    goes_on(&link, &mut generation).await;
    assert!(*generation.borrow() > before);
    assert_eq!(count(&set.servers_mut()[1].url()).await, 11);
    // A host that comes now finds the new master too.
    let second = config(&set).open().await.expect("the new master serves");
    assert_eq!(logged(&second, KEY).await.len(), 11);
}

#[tokio::test]
async fn link_goes_on_when_the_master_dies() {
    let mut set = PrivateSentinel::start().await.expect("five servers start");
    let link = config(&set).open().await.expect("the master serves");
    let mut generation = link.generations();
    generation.mark_unchanged();
    ten(&link).await;
    set.servers_mut()[0].kill9().expect("killed");
    goes_on(&link, &mut generation).await;
    assert_eq!(count(&set.servers_mut()[1].url()).await, 11);
}

#[tokio::test]
async fn names_passwords_and_sentinels_that_are_away() {
    let mut set = PrivateSentinel::start_with_password(SECRET).await.expect("five servers start");
    let secret = || config(&set).password(SECRET);
    secret().open().await.expect("the Sentinels need no password");

    let error = config(&set).open().await.expect_err("without a password");
    assert!(matches!(error, ConnectErr::Authentication { .. }), "{error:?}");
    let error = config(&set).password("hunter2").open().await.expect_err("the wrong password");
    assert!(matches!(error, ConnectErr::Authentication { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("hunter2"));

    let other = RedisConfig::sentinel(set.urls(), "other").password(SECRET);
    let error = other.open().await.expect_err("there is no such master");
    let ConnectErr::Sentinel { master, reason } = &error else { panic!("{error:?}") };
    assert_eq!(master, "other");
    assert!(reason.contains("No such master"), "{reason}");

    let server = set.servers_mut()[0].url();
    let error = RedisConfig::sentinel([server], PrivateSentinel::MASTER).password(SECRET).open();
    let error = error.await.expect_err("it is no Sentinel");
    assert!(matches!(error, ConnectErr::Sentinel { .. }), "{error:?}");

    set.sentinels_mut()[0].kill9().expect("killed");
    set.sentinels_mut()[1].pause().expect("paused");
    config(&set).password(SECRET).open().await.expect("one Sentinel is enough");

    let gone = set.urls().remove(0);
    let error = RedisConfig::sentinel([gone], PrivateSentinel::MASTER).open().await;
    let error = error.expect_err("nobody is there");
    assert!(matches!(error, ConnectErr::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn what_was_answered_outlives_the_master_when_its_replica_is_waited_for() {
    let mut set = PrivateSentinel::start().await.expect("five servers start");
    let waiting = config(&set).replicas(1).deadline(Duration::from_secs(4));
    let link = waiting.clone().open().await.expect("the master serves");
    link.call(log_to(KEY, 0)).await.expect("both have it");

    set.servers_mut()[1].pause().expect("paused");
    let error = link.call(log_to(KEY, 1)).await.expect_err("the replica has it not");
    assert!(error.may_have_executed(), "the master has it: {error}");
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    let error = waiting.open().await.expect_err("no replica is in reach");
    assert!(
        matches!(error, ConnectErr::TooFewReplicas { found: 0, configured: 1, .. }),
        "{error:?}"
    );

    set.servers_mut()[1].resume().expect("resumed");
    for number in 1..=50 {
        link.call(log_to(KEY, number)).await.expect("both have it");
    }
    set.servers_mut()[0].kill9().expect("killed");
    let mut replica = meddler(&set.servers_mut()[1].url()).await;
    let kept: Vec<u64> = redis::cmd("LRANGE")
        .arg(KEY)
        .arg(0)
        .arg(-1)
        .query_async(&mut replica)
        .await
        .expect("a list");
    assert_eq!(kept, (0..=50).collect::<Vec<_>>());
}

#[tokio::test]
async fn replicas_that_are_not_there_are_not_waited_for_in_vain() {
    let server = crate::testing::PrivateServer::start().await.expect("a server");
    let error = RedisConfig::new(server.url()).replicas(2).open().await.expect_err("it has none");
    assert!(
        matches!(error, ConnectErr::TooFewReplicas { found: 0, configured: 2, .. }),
        "{error:?}"
    );
    let error = RedisConfig::cluster([server.url()]).replicas(1).open().await;
    let error = error.expect_err("not in a Cluster");
    assert!(matches!(error, ConnectErr::InvalidOption { option: "replicas", .. }), "{error:?}");
}
