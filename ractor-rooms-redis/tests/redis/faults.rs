//! Faults of the server and of the connections to it, under traffic.

use std::time::Duration;

use ractor_rooms_redis::testing::{PrivateServer, ServerOptions};

use crate::hosts::{Hosts, in_time, notes};
use crate::in_both_classes;
use crate::journal::Journal;
use crate::ledger::{Class, Durable};
use crate::store::{config, operator, run};

const KEY: &[u8] = b"lobby";
const WRITERS: u32 = 4;

/// Writers on every host, so that some share the host with the room and some do not.
fn traffic<C: Class>(
    hosts: &Hosts,
    journal: &Journal,
    each: u64,
) -> Vec<tokio::task::JoinHandle<()>> {
    (0..WRITERS)
        .map(|from| {
            let via = from as usize % hosts.hosts.len();
            journal.write(hosts.ledger::<C>(via, KEY), from, 1..=each)
        })
        .collect()
}

/// Given a server that keeps what it said yes to, and a durable room under traffic. When the server is
/// killed three times and started again, once while the room moves. Then the ledger is exact.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledger_is_exact_over_kills_of_the_server() {
    let mut server =
        PrivateServer::start_with(ServerOptions::default().append_only()).await.unwrap();
    let hosts = Hosts::of(&config(&server), &["a", "b"]).await;
    hosts.place::<Durable>(KEY, 0).await;
    let journal = Journal::default();
    let writers = traffic::<Durable>(&hosts, &journal, 300);
    for (round, to) in [(1, 1), (2, 0), (3, 1)] {
        journal.until_accepted(round * 250).await;
        if round == 2 {
            let (moved, ()) = tokio::join!(hosts.migrate::<Durable>(0, KEY, to), async {
                server.kill9().unwrap();
                server.restart().await.unwrap();
            });
            // Whether it was under way when the server died or came after, it ends and says how.
            if let Ok(report) = moved {
                assert_eq!(report.to.as_str(), hosts.hosts[to].id().as_str());
            }
        } else {
            server.kill9().unwrap();
            server.restart().await.unwrap();
            journal.until_accepted(round * 250 + 20).await;
            hosts.migrate::<Durable>(0, KEY, to).await.expect("it moves after the server is back");
        }
    }
    for writer in writers {
        in_time("all is written", writer).await.unwrap();
    }
    journal.assert_exact(1_200, &notes(&hosts.ledger::<Durable>(0, KEY)).await);
    hosts.stop().await;
}

in_both_classes! {
    the_ledger_is_exact_while_connections_are_cut;
}

/// Given a room under traffic from its own host and another. When all connections for commands, and all
/// for pushes, are cut ten times, and the room moves in between. Then the ledger is exact.
async fn the_ledger_is_exact_while_connections_are_cut<C: Class>() {
    let server = PrivateServer::start().await.unwrap();
    let hosts = Hosts::of(&config(&server), &["a", "b", "c"]).await;
    hosts.place::<C>(KEY, 0).await;
    let journal = Journal::default();
    let mut operator = operator(&server.url()).await;
    let writers = traffic::<C>(&hosts, &journal, 200);
    let mut cut = 0;
    for round in 1..=10 {
        journal.until_accepted(round * 70).await;
        for kind in ["normal", "pubsub"] {
            cut += run::<usize>(&mut operator, &["CLIENT", "KILL", "TYPE", kind]).await;
        }
        if round % 5 == 0 {
            let moved = hosts.migrate::<C>(2, KEY, (round / 5) % 2).await;
            moved.expect("it moves over connections that were just cut");
        }
    }
    assert!(cut >= 10, "only {cut} connections were cut");
    for writer in writers {
        in_time("all is written", writer).await.unwrap();
    }
    journal.assert_exact(800, &notes(&hosts.ledger::<C>(2, KEY)).await);
    hosts.stop().await;
}

/// Given a durable room under traffic. When the server stands still for longer than a call waits, and goes
/// on. Then no host lost its session and the ledger is exact.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ledger_is_exact_over_a_server_that_stands_still() {
    let server = PrivateServer::start().await.unwrap();
    let quick = config(&server).deadline(Duration::from_millis(400));
    let hosts = Hosts::of(&quick, &["a", "b"]).await;
    hosts.place::<Durable>(KEY, 0).await;
    let journal = Journal::default();
    let writers = traffic::<Durable>(&hosts, &journal, 150);
    for round in 1..=2 {
        journal.until_accepted(round * 150).await;
        server.pause().unwrap();
        // What is on trial is the passing of time itself.
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        server.resume().unwrap();
    }
    for writer in writers {
        in_time("all is written", writer).await.unwrap();
    }
    journal.assert_exact(600, &notes(&hosts.ledger::<Durable>(1, KEY)).await);
    assert_eq!(hosts.faults(), []);
    hosts.stop().await;
}
