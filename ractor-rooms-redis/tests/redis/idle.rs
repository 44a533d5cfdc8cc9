//! What hosts ask of the store while nothing happens.

use std::time::Duration;

use ractor_rooms_redis::testing::PrivateServer;
use redis::aio::MultiplexedConnection;

use crate::hosts::{Hosts, eventually, notes};
use crate::ledger::{Durable, LedgerMsg};
use crate::store::{config, operator, run};

const SHARDS: u16 = 32;

/// How often a command was run since the statistics were reset.
async fn calls(operator: &mut MultiplexedConnection, command: &str) -> u64 {
    let stats: String = run(operator, &["INFO", "commandstats"]).await;
    let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:")));
    let calls = line.and_then(|line| line.split_once("calls=")?.1.split_once(','));
    calls.map_or(0, |(calls, _)| calls.parse().unwrap())
}

/// Given three hosts with rooms in many shards. When nobody sends. Then a sweep asks for the counts of changes and
/// for no index. And when a room needs somebody after all, it is found as ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_at_rest_looks_at_no_index() {
    let server = PrivateServer::start().await.unwrap();
    let store = config(&server).shards(SHARDS);
    let mut hosts = Hosts::of(&store, &["a", "b", "c"]).await;
    for room in 0..60u8 {
        notes(&hosts.ledger::<Durable>(usize::from(room % 3), &[room])).await;
    }
    let mut operator = operator(&server.url()).await;
    // The sweeps that saw the starts are over once one has passed without a look.
    eventually("it is quiet", || async {
        let mut operator = operator.clone();
        let before = calls(&mut operator, "zrangebylex").await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        (calls(&mut operator, "zrangebylex").await == before).then_some(())
    })
    .await;
    let () = run(&mut operator, &["CONFIG", "RESETSTAT"]).await;
    tokio::time::sleep(Duration::from_millis(3_000)).await; // the passing of time is on trial
    let (indexes, counts) =
        (calls(&mut operator, "zrangebylex").await, calls(&mut operator, "mget").await);
    assert!(counts >= 3 * 10, "three hosts sweep ten times a second: {counts}");
    // Each host reads what it owns every third of its session's ten seconds.
    assert!(indexes <= 3 * u64::from(SHARDS), "{indexes}");

    let key = [7u8];
    let owner = hosts.runs_on::<Durable>(&key).await[0];
    hosts.hosts[owner].kill();
    let room = hosts.ledger::<Durable>((owner + 1) % 3, &key);
    eventually("another host runs it", || async { room.send(LedgerMsg::Note((1, 1))).await.ok() })
        .await;
    assert_eq!(notes(&room).await, [(1, 1)]);
    hosts.hosts.remove(owner);
    hosts.stop().await;
}
