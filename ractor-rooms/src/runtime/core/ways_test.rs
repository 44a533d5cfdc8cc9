//! A host that has addressed many rooms keeps the ways to those that are in use.

use std::time::Duration;

use bytes::Bytes;
use ractor::ActorProcessingErr;
use serde::{Deserialize, Serialize};

use super::super::courier::Courier;
use crate::{Delivery, HostConfig, MemoryTransport, Reply, RoomActor, RoomContext, RoomHost};

#[derive(Debug, Serialize, Deserialize)]
enum Note {
    Take(u64),
    Show(Reply<Vec<u64>>),
}

struct Notes;

impl RoomActor for Notes {
    const KIND: &'static str = "notes";
    const DELIVERY: Delivery = Delivery::Durable;
    type Msg = Note;
    type State = Vec<u64>;
    type Event = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _: &mut RoomContext<Self>,
        (): (),
    ) -> Result<Vec<u64>, ActorProcessingErr> {
        Ok(Vec::new())
    }

    async fn handle(
        &self,
        _: &mut RoomContext<Self>,
        note: Note,
        notes: &mut Vec<u64>,
    ) -> Result<(), ActorProcessingErr> {
        match note {
            Note::Take(number) => notes.push(number),
            Note::Show(reply) => reply.send(notes.clone()),
        }
        Ok(())
    }
}

async fn host(name: &str, capacity: u32, store: &MemoryTransport) -> RoomHost {
    let config = HostConfig {
        capacity,
        session_ttl: Duration::from_secs(3), // every third of it
        sweep_interval: Duration::from_millis(20),
        idle_timeout: Some(Duration::from_millis(100)),
        ..HostConfig::default()
    };
    let host = RoomHost::builder(name, store.clone()).config(config).room(Notes);
    host.start().await.expect("a host starts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ways_that_nobody_uses_are_forgotten_and_their_numbers_are_not() {
    let store = MemoryTransport::new();
    let (runs, sends) = (host("runs", 10_000, &store).await, host("sends", 0, &store).await);
    let kept = sends.room::<Notes>("room-0");
    let rooms = 200;
    for round in 1..=2 {
        for room in 0..rooms {
            let room = sends.room::<Notes>(format!("room-{room}"));
            room.send(Note::Take(round)).await.expect("it is accepted");
        }
        let few = async {
            // A route and a courier to the room that is in use.
            while sends.core.ways() > 2 || runs.core.ways() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let ways = || (sends.core.ways(), runs.core.ways());
        tokio::time::timeout(Duration::from_secs(60), few)
            .await
            .unwrap_or_else(|_| panic!("ways to rooms at rest are kept: {:?}", ways()));
    }
    for room in [0, 1, rooms - 1] {
        let room = sends.room::<Notes>(format!("room-{room}"));
        let shown = ractor::call!(room, Note::Show).expect("it answers");
        assert_eq!(shown, [1, 2]);
    }
    kept.send(Note::Take(3)).await.expect("it is accepted");
    assert_eq!(ractor::call!(kept, Note::Show).expect("it answers"), [1, 2, 3]);
    for host in [sends, runs] {
        host.shutdown().await.expect("it stops");
    }
}

/// An activation that lost the room must not ask for ever to go on with its numbers.
#[tokio::test]
async fn numbers_that_another_activation_took_over_are_let_go() {
    let store = MemoryTransport::new();
    let host = host("runs", 10, &store).await;
    let room = host.room::<Notes>("room");
    room.send(Note::Take(1)).await.expect("it is accepted");
    let id = room.room().expect("a name").clone();
    let life = store.inspect(|store| store.record(&id).map(|record| record.life)).expect("a life");
    for epoch in [u64::MAX - 1, 5] {
        let own = Courier::own(&host.core, id.clone(), life, epoch);
        own.send_for_room(Bytes::from_static(b"no message"));
        let done = async {
            while own.is_busy() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(10), done).await;
        in_time.unwrap_or_else(|_| panic!("under epoch {epoch} it still asks"));
    }
    host.shutdown().await.expect("it stops");
}
