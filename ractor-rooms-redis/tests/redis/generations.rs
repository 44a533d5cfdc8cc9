//! A server that restarts, forgets or is emptied while hosts live.

use ractor_rooms::RoomFault;
use ractor_rooms::id::RoomId;
use ractor_rooms_redis::testing::{PrivateServer, ServerOptions};

use crate::hosts::{Hosts, eventually, notes};
use crate::in_both_classes;
use crate::journal::Journal;
use crate::ledger::{Class, Durable, LedgerMsg, Note};
use crate::store::{config, operator, room_id, run};

const KEY: &[u8] = b"lobby";

in_both_classes! {
    a_clean_restart_loses_doubles_and_reorders_nothing;
    an_empty_restart_keeps_what_a_living_host_has;
    h09_an_emptied_server_has_the_rooms_again;
    the_cut_end_of_the_log_of_commands_is_brought_back;
}

/// What the hosts said about a store that lost something, by kind and room.
fn losses(hosts: &Hosts) -> Vec<(&'static str, RoomId)> {
    let faults = hosts.faults().into_iter().map(|fault| match fault {
        RoomFault::StoreRegressed { room } => ("regressed", room),
        RoomFault::Lost { room, .. } => ("lost", room),
        other => panic!("{other:?}"),
    });
    faults.collect()
}

async fn write<C: Class>(hosts: &Hosts, journal: &Journal, each: std::ops::RangeInclusive<u64>) {
    let writers: Vec<_> = (0..2)
        .map(|from| journal.write(hosts.ledger::<C>(from as usize, KEY), from, each.clone()))
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

/// Waits until the room has handled so many.
async fn until_handled<C: Class>(hosts: &Hosts, host: &str, count: usize) {
    eventually("they are handled", || async {
        (hosts.knobs.handled_on(host).len() >= count).then_some(())
    })
    .await;
}

/// Given a server that keeps what it said yes to, and a room under traffic from its own host and another.
/// When it is killed and starts again, twice. Then the room goes on where it was, and nobody reports a loss.
async fn a_clean_restart_loses_doubles_and_reorders_nothing<C: Class>() {
    let options = ServerOptions::default().append_only();
    let mut server = PrivateServer::start_with(options).await.unwrap();
    let hosts = Hosts::of(&config(&server), &["a", "b"]).await;
    hosts.place::<C>(KEY, 0).await;
    let journal = Journal::default();
    let writers: Vec<_> = (0..2)
        .map(|from| journal.write(hosts.ledger::<C>(from as usize, KEY), from, 1..=300))
        .collect();
    for round in 1..=2 {
        journal.until_accepted(round * 150).await;
        server.kill9().unwrap();
        server.restart().await.unwrap();
        journal.until_accepted(round * 150 + 100).await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    journal.assert_exact(600, &notes(&hosts.ledger::<C>(1, KEY)).await);
    assert_eq!(hosts.runs_on::<C>(KEY).await, [0], "it stayed");
    assert_eq!(losses(&hosts), []);
    hosts.stop().await;
}

/// Given a server that keeps nothing over a restart. When it restarts under a room that a host runs. Then
/// the store has the room again as the host had it, its senders go on, and the loss is reported.
async fn an_empty_restart_keeps_what_a_living_host_has<C: Class>() {
    let mut server = PrivateServer::start().await.unwrap();
    let hosts = Hosts::of(&config(&server), &["a", "b"]).await;
    hosts.place::<C>(KEY, 0).await;
    let journal = Journal::default();
    write::<C>(&hosts, &journal, 1..=50).await;
    until_handled::<C>(&hosts, "a", 100).await;
    server.kill9().unwrap();
    server.restart().await.unwrap();
    write::<C>(&hosts, &journal, 51..=100).await;
    journal.assert_exact(200, &notes(&hosts.ledger::<C>(1, KEY)).await);
    assert_eq!(losses(&hosts), [("regressed", room_id::<C>(KEY))]);
    hosts.stop().await;
}

/// Given a room on a host, and another host that has just joined. When the server is emptied, and the one
/// that joined sends. Then it is the room that was, and no fresh one.
async fn h09_an_emptied_server_has_the_rooms_again<C: Class>() {
    let server = PrivateServer::start().await.unwrap();
    let mut hosts = Hosts::of(&config(&server), &["a", "b"]).await;
    hosts.place::<C>(KEY, 0).await;
    let journal = Journal::default();
    write::<C>(&hosts, &journal, 1..=20).await;
    until_handled::<C>(&hosts, "a", 40).await;
    let joined = hosts.add("c", &config(&server), |_| ()).await;
    let mut operator = operator(&server.url()).await;
    let () = run(&mut operator, &["FLUSHALL"]).await;
    let late = journal.write(hosts.ledger::<C>(joined, KEY), 9, 1..=20);
    write::<C>(&hosts, &journal, 21..=40).await;
    late.await.unwrap();
    journal.assert_exact(100, &notes(&hosts.ledger::<C>(joined, KEY)).await);
    assert_eq!(hosts.runs_on::<C>(KEY).await, [0]);
    assert_eq!(losses(&hosts), [("regressed", room_id::<C>(KEY))]);
    hosts.stop().await;
}

/// Given a server whose log of commands loses its end at a power cut. When the room's host lives through it,
/// and a second, clean restart. Then everything that was handled is still there, once and in order.
async fn the_cut_end_of_the_log_of_commands_is_brought_back<C: Class>() {
    let options = ServerOptions::default().append_only();
    let mut server = PrivateServer::start_with(options).await.unwrap();
    let hosts = Hosts::of(&config(&server), &["a", "b"]).await;
    hosts.place::<C>(KEY, 0).await;
    let journal = Journal::default();
    write::<C>(&hosts, &journal, 1..=30).await;
    until_handled::<C>(&hosts, "a", 60).await;
    let mut kept = 0;
    server
        .tear_log(|log| {
            kept = log.len();
            kept
        })
        .unwrap();
    write::<C>(&hosts, &journal, 31..=60).await;
    until_handled::<C>(&hosts, "a", 120).await;
    server.kill9().unwrap();
    server.tear_log(|_| kept).unwrap();
    server.restart().await.unwrap();
    write::<C>(&hosts, &journal, 61..=90).await;
    server.restart().await.unwrap();
    write::<C>(&hosts, &journal, 91..=120).await;
    journal.assert_exact(240, &notes(&hosts.ledger::<C>(1, KEY)).await);
    assert_eq!(hosts.runs_on::<C>(KEY).await, [0]);
    hosts.stop().await;
}

/// Given a durable room whose host is not the sender's. When the server forgets messages that it said yes to
/// and that were not handled. Then the sender's host reports how many, and the others are handled in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_has_is_reported() {
    let mut server = PrivateServer::start().await.unwrap();
    let hosts = Hosts::of(&config(&server), &["a", "b"]).await;
    hosts.place::<Durable>(KEY, 0).await;
    let room = hosts.ledger::<Durable>(1, KEY);
    room.send(LedgerMsg::Note((1, 1))).await.unwrap();
    room.send(LedgerMsg::Hang((1, 2))).await.unwrap();
    eventually("the room hangs", || async {
        (hosts.knobs.handled_on("a").len() == 2).then_some(())
    })
    .await;
    room.send(LedgerMsg::Note((1, 3))).await.unwrap();
    server.kill9().unwrap();
    server.restart().await.unwrap();
    hosts.knobs.open_gate();
    room.send(LedgerMsg::Note((1, 4))).await.unwrap();
    let found: Vec<Note> = notes(&room).await;
    let id = room_id::<Durable>(KEY);
    let lost = losses(&hosts).contains(&("lost", id.clone()));
    // The push of the third may have been in the room's hands when the server died.
    assert_ne!(lost, found.contains(&(1, 3)), "{found:?}");
    assert_eq!(found.first_chunk(), Some(&[(1, 1), (1, 2)]));
    assert_eq!(found.last(), Some(&(1, 4)));
    assert!(losses(&hosts).contains(&("regressed", id)));
    hosts.stop().await;
}
