//! What hosts ask of the store while nothing happens.

use std::time::Duration;

use ractor_rooms::id::{Epoch, HostId, Millis, RoomId};
use ractor_rooms::protocol::record::Request;
use ractor_rooms::transport::Transport;
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

/// Given many rooms that somebody has to look at. When a sweep asks for a few of them. Then it does not look at
/// all that are left, for each page again; and page by page it is told of each once.
#[tokio::test]
async fn a_page_of_a_sweep_looks_at_no_more_than_it_names() {
    const ROOMS: usize = 300;
    const PAGE: usize = 20;
    let server = PrivateServer::start().await.unwrap();
    let store = config(&server).shards(SHARDS).connect().await.unwrap();
    for room in 0..ROOMS {
        // Nobody has this name: the offer waits for ever.
        let (to, until) = (HostId::new("nobody").unwrap(), Millis(u64::MAX >> 12));
        let request = Request::Offer { to, until, create: true };
        store.execute(&restless(room), request, Epoch(0)).await.unwrap();
    }
    let mut operator = operator(&server.url()).await;
    let (mut found, mut most) = (Vec::new(), 0);
    loop {
        let () = run(&mut operator, &["CONFIG", "RESETSTAT"]).await;
        let page = store.unrest(found.last(), PAGE).await.unwrap();
        // The scripts are asked for the owners of the shards too.
        most =
            most.max(calls(&mut operator, "evalsha").await + calls(&mut operator, "fcall").await);
        if page.is_empty() {
            break;
        }
        found.extend(page.into_iter().map(|unrest| unrest.room));
    }
    let mut all: Vec<_> = (0..ROOMS).map(restless).collect();
    all.sort();
    assert_eq!(found, all);
    assert!(most > 0 && most < ROOMS as u64 / 2, "{most} scripts for a page of {PAGE}");
}

fn restless(number: usize) -> RoomId {
    RoomId::new("ledger", format!("room-{number}")).unwrap()
}
