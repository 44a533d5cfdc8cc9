//! Keys of a room that somebody deletes, or puts back as they were, while hosts live.

use ractor_rooms::RoomFault;
use ractor_rooms_redis::testing::PrivateServer;
use redis::aio::MultiplexedConnection;

use crate::hosts::{Hosts, eventually, notes};
use crate::in_both_classes;
use crate::journal::Journal;
use crate::ledger::{Class, Durable, LedgerMsg};
use crate::store::{config, keys, operator, room_id, run};

const KEY: &[u8] = b"lobby";

in_both_classes! {
    a_deleted_record_is_brought_back_under_traffic;
    a_deleted_record_of_an_idle_room_is_brought_back;
    an_old_record_of_another_host_is_overruled;
    a_record_of_somebody_else_in_the_same_epoch_ends_in_diverged;
}

async fn meta(operator: &mut MultiplexedConnection) -> Vec<u8> {
    let mut found = keys(operator, "*:meta:*").await;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

async fn field(operator: &mut MultiplexedConnection, key: &[u8], field: &str) -> String {
    redis::cmd("HGET").arg(key).arg(field).query_async(operator).await.unwrap()
}

async fn write<C: Class>(hosts: &Hosts, journal: &Journal, each: std::ops::RangeInclusive<u64>) {
    let writers: Vec<_> = (0..2)
        .map(|from| journal.write(hosts.ledger::<C>(from as usize, KEY), from, each.clone()))
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

/// Given a room with senders on its own host and on another. When its record is deleted by hand between their
/// messages. Then no fresh room is born in its place: its host brings it back, and nothing is missing.
async fn a_deleted_record_is_brought_back_under_traffic<C: Class>() {
    let server = PrivateServer::start().await.unwrap();
    let hosts = Hosts::of(&config(&server), &["a", "b"]).await;
    hosts.place::<C>(KEY, 0).await;
    let journal = Journal::default();
    write::<C>(&hosts, &journal, 1..=20).await;
    let mut operator = operator(&server.url()).await;
    for round in 1..=3 {
        let key = meta(&mut operator).await;
        let gone: usize = redis::cmd("DEL").arg(&key).query_async(&mut operator).await.unwrap();
        assert_eq!(gone, 1);
        write::<C>(&hosts, &journal, round * 20 + 1..=round * 20 + 20).await;
    }
    journal.assert_exact(160, &notes(&hosts.ledger::<C>(1, KEY)).await);
    hosts.until_on::<C>(KEY, 0).await;
    let regressed = RoomFault::StoreRegressed { room: room_id::<C>(KEY) };
    assert!(!hosts.faults().is_empty());
    assert!(hosts.faults().iter().all(|fault| *fault == regressed), "{:?}", hosts.faults());
    hosts.stop().await;
}

/// Given a room to which nobody sends. When its record is deleted by hand. Then its host notices by itself.
async fn a_deleted_record_of_an_idle_room_is_brought_back<C: Class>() {
    let server = PrivateServer::start().await.unwrap();
    let hosts = Hosts::of(&config(&server), &["a", "b"]).await;
    hosts.place::<C>(KEY, 0).await;
    let journal = Journal::default();
    write::<C>(&hosts, &journal, 1..=10).await;
    assert_eq!(notes(&hosts.ledger::<C>(1, KEY)).await.len(), 20);
    let mut operator = operator(&server.url()).await;
    let key = meta(&mut operator).await;
    let () = redis::cmd("DEL").arg(&key).query_async(&mut operator).await.unwrap();
    eventually("the record is there again", || async {
        let mut operator = operator.clone();
        (keys(&mut operator, "*:meta:*").await == [key.clone()]).then_some(())
    })
    .await;
    write::<C>(&hosts, &journal, 11..=20).await;
    journal.assert_exact(40, &notes(&hosts.ledger::<C>(1, KEY)).await);
    hosts.until_on::<C>(KEY, 0).await;
    hosts.stop().await;
}

/// Given a room that has moved. When its record is put back as it was before the move. Then the host that runs
/// it says again what is, and the room goes on with all that it had.
async fn an_old_record_of_another_host_is_overruled<C: Class>() {
    let server = PrivateServer::start().await.unwrap();
    let hosts = Hosts::of(&config(&server), &["a", "b"]).await;
    hosts.place::<C>(KEY, 0).await;
    let journal = Journal::default();
    write::<C>(&hosts, &journal, 1..=20).await;
    assert_eq!(notes(&hosts.ledger::<C>(1, KEY)).await.len(), 40);
    let mut operator = operator(&server.url()).await;
    let key = meta(&mut operator).await;
    let old: Vec<u8> = redis::cmd("DUMP").arg(&key).query_async(&mut operator).await.unwrap();
    hosts.migrate::<C>(0, KEY, 1).await.unwrap();
    write::<C>(&hosts, &journal, 21..=40).await;
    assert_eq!(notes(&hosts.ledger::<C>(0, KEY)).await.len(), 80);
    let mut restore = redis::cmd("RESTORE");
    let () =
        restore.arg(&key).arg(0).arg(old).arg("REPLACE").query_async(&mut operator).await.unwrap();
    write::<C>(&hosts, &journal, 41..=60).await;
    journal.assert_exact(120, &notes(&hosts.ledger::<C>(0, KEY)).await);
    hosts.until_on::<C>(KEY, 1).await;
    hosts.stop().await;
}

/// Given a room. When its record is made to name another activation in the same epoch. Then the host that ran it
/// drops it and says so, or the host that was named has given back what it never ran before anybody looked; and
/// no caller hangs.
async fn a_record_of_somebody_else_in_the_same_epoch_ends_in_diverged<C: Class>() {
    let server = PrivateServer::start().await.unwrap();
    let hosts = Hosts::of(&config(&server), &["a", "b"]).await;
    hosts.place::<C>(KEY, 0).await;
    let journal = Journal::default();
    write::<C>(&hosts, &journal, 1..=20).await;
    let mut operator = operator(&server.url()).await;
    let key = meta(&mut operator).await;
    let owner = field(&mut operator, &key, "owner").await;
    let sessions: Vec<String> = keys(&mut operator, "*{h-b}:session")
        .await
        .into_iter()
        .map(|k| String::from_utf8(k).unwrap())
        .collect();
    let b: String = run(&mut operator, &["GET", &sessions[0]]).await;
    let number = b.split(' ').next().unwrap();
    let theirs = format!("b#{number}/77");
    assert_ne!(owner, theirs);
    let () = redis::cmd("HSET")
        .arg(&key)
        .arg("owner")
        .arg(&theirs)
        .query_async(&mut operator)
        .await
        .unwrap();
    let diverged = RoomFault::Diverged { room: room_id::<C>(KEY) };
    eventually("one of them lets go", || async {
        let mut operator = operator.clone();
        let given_back = field(&mut operator, &key, "owner").await != theirs;
        (given_back || hosts.faults().contains(&diverged)).then_some(())
    })
    .await;
    // What the store has of it is all there is now, and somebody runs it.
    notes(&hosts.ledger::<C>(1, KEY)).await;
    hosts.stop().await;
}

/// Given a room whose host is gone. When its record is deleted by hand as well. Then it begins anew once no host
/// can have it any more, and what its log still held is among its dead letters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_record_that_nobody_has_begins_anew() {
    let server = PrivateServer::start().await.unwrap();
    let mut hosts = Hosts::default();
    for name in ["a", "b"] {
        hosts
            .add(name, &config(&server), |c| c.session_ttl = std::time::Duration::from_secs(2))
            .await;
    }
    hosts.place::<Durable>(KEY, 0).await;
    let journal = Journal::default();
    journal.write(hosts.ledger::<Durable>(1, KEY), 1, 1..=20).await.unwrap();
    hosts.hosts[0].kill();
    let mut operator = operator(&server.url()).await;
    let key = meta(&mut operator).await;
    let () = redis::cmd("DEL").arg(&key).query_async(&mut operator).await.unwrap();
    let room = hosts.ledger::<Durable>(1, KEY);
    // Nobody knows whether the room that was is this one: a sender is told so, and sends again.
    eventually("the room begins anew", || async { room.send(LedgerMsg::Note((1, 21))).await.ok() })
        .await;
    assert_eq!(notes(&room).await, [(1, 21)]);
    let dead = keys(&mut operator, "*:dead:*").await;
    let letters: usize = redis::cmd("LLEN").arg(&dead[0]).query_async(&mut operator).await.unwrap();
    assert!(letters >= 20, "{letters}");
    let host = hosts.hosts.remove(1);
    host.shutdown().await.unwrap();
}
