//! A server that restarts, forgets or is emptied while hosts live.

use ractor_rooms::RoomFault;
use ractor_rooms::id::{Epoch, RoomId};
use ractor_rooms::protocol::record::Request;
use ractor_rooms::transport::Transport;
use ractor_rooms_redis::testing::{PrivateServer, ServerOptions};

use crate::hosts::{Hosts, eventually, in_time, notes};
use crate::in_both_classes;
use crate::journal::Journal;
use crate::ledger::{Class, Durable, LedgerMsg, Note};
use crate::store::{config, keys, operator, room_id, run};

const KEY: &[u8] = b"lobby";

in_both_classes! {
    a_clean_restart_loses_doubles_and_reorders_nothing;
    a_server_that_is_away_for_longer_than_a_session_costs_nothing;
    an_empty_restart_keeps_what_a_living_host_has;
    h09_an_emptied_server_has_the_rooms_again;
    the_cut_end_of_the_log_of_commands_is_brought_back;
    a_generation_that_cannot_be_raised_is_begun_anew;
    an_epoch_that_no_host_wrote_is_named_and_mended;
}

/// Given a room that has handled what no checkpoint has. When the server is killed, and starts again with all it
/// had once every session has lapsed. Then the room goes on where it was, as it was.
async fn a_server_that_is_away_for_longer_than_a_session_costs_nothing<C: Class>() {
    let options = ServerOptions::default().append_only();
    let mut server = PrivateServer::start_with(options).await.unwrap();
    let mut hosts = Hosts::default();
    for name in ["a", "b"] {
        hosts
            .add(name, &config(&server), |c| {
                // Long enough that no session lapses again because the machine is busy.
                c.session_ttl = std::time::Duration::from_secs(4);
                c.checkpoint_interval = std::time::Duration::from_secs(3600);
            })
            .await;
    }
    hosts.place::<C>(KEY, 0).await;
    let journal = Journal::default();
    write::<C>(&hosts, &journal, 1..=50).await;
    until_handled::<C>(&hosts, "a", 100).await;
    server.kill9().unwrap();
    let lapsed = |fault: &&RoomFault| matches!(fault, RoomFault::SessionLapsed { .. });
    eventually("both sessions lapse", || async {
        (hosts.faults().iter().filter(lapsed).count() == 2).then_some(())
    })
    .await;
    server.restart().await.unwrap();
    eventually("both are ready again", || async {
        hosts.hosts.iter().all(ractor_rooms::RoomHost::is_ready).then_some(())
    })
    .await;
    write::<C>(&hosts, &journal, 51..=100).await;
    journal.assert_exact(200, &notes(&hosts.ledger::<C>(1, KEY)).await);
    hosts.until_on::<C>(KEY, 0).await;
    let others: Vec<_> = hosts.faults().into_iter().filter(|fault| !lapsed(&fault)).collect();
    assert_eq!(others, []);
    hosts.stop().await;
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
    hosts.until_on::<C>(KEY, 0).await;
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
    hosts.until_on::<C>(KEY, 0).await;
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
    hosts.until_on::<C>(KEY, 0).await;
    hosts.stop().await;
}

/// Given a durable room whose host is not the sender's. When the server forgets messages that it said yes to
/// and that were not handled, among them a call. Then the sender's host sends them again, and they are handled
/// once and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_has_is_sent_again() {
    let server = PrivateServer::start().await.unwrap();
    let hosts = Hosts::of(&config(&server), &["a", "b"]).await;
    hosts.place::<Durable>(KEY, 0).await;
    let room = hosts.ledger::<Durable>(1, KEY);
    room.send(LedgerMsg::Note((1, 1))).await.unwrap();
    room.send(LedgerMsg::Hang((1, 2))).await.unwrap();
    eventually("the room hangs", || async {
        (hosts.knobs.handled_on("a").len() == 2).then_some(())
    })
    .await;
    let mut operator = operator(&server.url()).await;
    for number in 3..=30 {
        room.send(LedgerMsg::Note((1, number))).await.unwrap();
    }
    let asked = tokio::spawn({
        let room = room.clone();
        async move { notes(&room).await }
    });
    let log = keys(&mut operator, "*:log:*").await;
    eventually("the call is in the log", || async {
        let mut operator = operator.clone();
        let entry: Vec<redis::Value> = redis::cmd("XREVRANGE")
            .arg(&log[0])
            .arg("+")
            .arg("-")
            .arg("COUNT")
            .arg(1)
            .query_async(&mut operator)
            .await
            .unwrap();
        // One message, with the number after the notes'.
        format!("{entry:?}").contains(" 1 31 0 ").then_some(())
    })
    .await;
    let () = run(&mut operator, &["FLUSHALL"]).await;
    // The host tells of its session again when it knows, and has the room freeze.
    eventually("the host knows", || async {
        let mut operator = operator.clone();
        let sessions = keys(&mut operator, "*{h-a}:session").await;
        let generations = keys(&mut operator, "*:generation").await;
        (!sessions.is_empty() && !generations.is_empty()).then_some(())
    })
    .await;
    hosts.knobs.open_gate();
    let found = in_time("the call is answered", asked).await.unwrap();
    let expected: Vec<Note> = (1..=30).map(|number| (1, number)).collect();
    assert_eq!(found, expected);
    assert!(!losses(&hosts).iter().any(|(what, _)| *what == "lost"), "{:?}", losses(&hosts));
    hosts.stop().await;
}

/// Given a move that a host was asked for which does not run the room. When the server is emptied before the room
/// has come to rest. Then who asked hears how it ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forwarded_move_is_answered_over_an_emptied_server() {
    let server = PrivateServer::start().await.unwrap();
    let hosts = Hosts::of(&config(&server), &["a", "b"]).await;
    hosts.place::<Durable>(KEY, 0).await;
    let room = hosts.ledger::<Durable>(1, KEY);
    room.send(LedgerMsg::Hang((1, 1))).await.unwrap();
    eventually("the room hangs", || async {
        (hosts.knobs.handled_on("a").len() == 1).then_some(())
    })
    .await;
    let mut operator = operator(&server.url()).await;
    let moved = hosts.migrate::<Durable>(1, KEY, 1);
    let meddling = async {
        eventually("the request is read", || async {
            let mut operator = operator.clone();
            let inboxes = keys(&mut operator, "*{h-a}:inbox").await;
            (!inboxes.is_empty()).then_some(())
        })
        .await;
        let () = run(&mut operator, &["FLUSHALL"]).await;
        hosts.knobs.open_gate();
    };
    let both = async { tokio::join!(moved, meddling) };
    let (moved, ()) = in_time("who asked hears how it ended", both).await;
    assert!(!matches!(moved, Err(ractor_rooms::MigrationErr::OutcomeUnknown { .. })), "{moved:?}");
    assert_eq!(notes(&room).await, [(1, 1)]);
    hosts.stop().await;
}

/// Given a room. When the number of its shard's generation is made one that no script can count with. Then another
/// one begins, and everything goes on.
async fn a_generation_that_cannot_be_raised_is_begun_anew<C: Class>() {
    let server = PrivateServer::start().await.unwrap();
    let hosts = Hosts::of(&config(&server), &["a", "b"]).await;
    hosts.place::<C>(KEY, 0).await;
    let journal = Journal::default();
    write::<C>(&hosts, &journal, 1..=10).await;
    let mut operator = operator(&server.url()).await;
    let mut from = 11;
    for number in ["18446744073709551615", "9007199254740993", "abc", "-1", "99999999999999"] {
        for key in keys(&mut operator, "*:generation").await {
            let key = String::from_utf8(key).unwrap();
            let _: usize = run(&mut operator, &["HSET", &key, "number", number]).await;
            let _: usize = run(&mut operator, &["HSET", &key, "until", "99999999999999"]).await;
        }
        write::<C>(&hosts, &journal, from..=from + 9).await;
        from += 10;
    }
    journal.assert_exact(120, &notes(&hosts.ledger::<C>(1, KEY)).await);
    hosts.until_on::<C>(KEY, 0).await;
    hosts.stop().await;
}

/// Given a room. When its epoch is made one that no script can count with. Then who asks is told what to do; and
/// when that is done, the room goes on.
async fn an_epoch_that_no_host_wrote_is_named_and_mended<C: Class>() {
    let server = PrivateServer::start().await.unwrap();
    let hosts = Hosts::of(&config(&server), &["a", "b"]).await;
    hosts.place::<C>(KEY, 0).await;
    let journal = Journal::default();
    write::<C>(&hosts, &journal, 1..=10).await;
    assert_eq!(notes(&hosts.ledger::<C>(1, KEY)).await.len(), 20);
    let mut operator = operator(&server.url()).await;
    let found = keys(&mut operator, "*:meta:*").await;
    let key = String::from_utf8(found[0].clone()).unwrap();
    let _: usize = run(&mut operator, &["HSET", &key, "epoch", "18446744073709551615"]).await;
    let transport = config(&server).connect().await.unwrap();
    let read = transport.execute(&room_id::<C>(KEY), Request::Read, Epoch(0)).await;
    let error = read.unwrap_err().to_string();
    assert!(error.contains("epoch is 18446744073709551615"), "{error}");
    assert!(error.contains("delete the key"), "{error}");
    let _: usize = run(&mut operator, &["DEL", &key]).await;
    write::<C>(&hosts, &journal, 11..=20).await;
    journal.assert_exact(40, &notes(&hosts.ledger::<C>(1, KEY)).await);
    hosts.until_on::<C>(KEY, 0).await;
    hosts.stop().await;
}
