//! A host that has addressed many rooms keeps the ways to those that are in use.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use ractor::ActorProcessingErr;
use serde::{Deserialize, Serialize};

use super::super::courier::Courier;
use crate::id::RoomId;
use crate::{
    Delivery, HostConfig, MemoryTransport, Reply, RoomActor, RoomContext, RoomErr, RoomFault,
    RoomHost,
};

#[derive(Debug, Serialize, Deserialize)]
enum Note {
    Take(u64),
    /// The reply is kept.
    Keep(Reply<u64>),
    Show(Reply<Vec<u64>>),
}

#[derive(Default, Serialize, Deserialize)]
struct Taken {
    notes: Vec<u64>,
    kept: Vec<Reply<u64>>,
}

struct Notes;

impl RoomActor for Notes {
    const KIND: &'static str = "notes";
    const DELIVERY: Delivery = Delivery::Durable;
    type Msg = Note;
    type State = Taken;
    type Event = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _: &mut RoomContext<Self>,
        (): (),
    ) -> Result<Taken, ActorProcessingErr> {
        Ok(Taken::default())
    }

    async fn handle(
        &self,
        _: &mut RoomContext<Self>,
        note: Note,
        state: &mut Taken,
    ) -> Result<(), ActorProcessingErr> {
        match note {
            Note::Take(number) => state.notes.push(number),
            Note::Keep(reply) => state.kept.push(reply),
            Note::Show(reply) => reply.send(state.notes.clone()),
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

/// A host that sends, and what it says that the store has lost.
async fn sender(store: &MemoryTransport) -> (RoomHost, Arc<Mutex<Vec<(RoomId, u64)>>>) {
    let lost = Arc::<Mutex<Vec<_>>>::default();
    let told = lost.clone();
    let config = HostConfig {
        capacity: 0,
        session_ttl: Duration::from_secs(3),
        call_timeout: Duration::from_secs(6),
        ..HostConfig::default()
    };
    let host = RoomHost::builder("sends", store.clone()).config(config).room(Notes);
    let host = host.on_fault(move |fault| {
        if let RoomFault::Lost { room, count } = fault {
            told.lock().push((room.clone(), *count));
        }
    });
    (host.start().await.expect("a host starts"), lost)
}

/// Sends to a room and lets go of what is held of that, and of the way.
async fn send_and_forget(sends: &RoomHost, key: &str, count: u64) -> RoomId {
    let room = sends.room::<Notes>(key.to_owned());
    let id = room.room().expect("a name").clone();
    for number in 1..=count {
        room.send(Note::Take(number)).await.expect("it is accepted");
    }
    drop(room);
    let forgotten = async {
        while sends.core.ways() > 0 {
            if let Some(courier) = sends.core.couriers.get(&id) {
                courier.let_go(Duration::MAX);
            }
            sends.core.forget_unused_ways();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), forgotten).await.expect("the way is forgotten");
    id
}

async fn until_told(lost: &Mutex<Vec<(RoomId, u64)>>, expected: &[(RoomId, u64)]) {
    let told = async {
        while lost.lock().len() < expected.len() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(60), told).await;
    assert!(in_time.is_ok(), "expected {expected:?}, found {:?}", lost.lock());
    let mut lost = lost.lock().clone();
    lost.sort_unstable();
    assert_eq!(lost, expected);
}

/// Also when nobody sends that way again: one room is born again by somebody else, the other by nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_store_loses_of_a_forgotten_way_is_reported() {
    let store = MemoryTransport::new();
    let (runs, (sends, lost)) = (host("runs", 10, &store).await, sender(&store).await);
    let born = send_and_forget(&sends, "born-again", 5).await;
    let gone = send_and_forget(&sends, "gone", 3).await;
    runs.shutdown().await.expect("it stops");
    store.forget();
    let runs = host("runs-now", 10, &store).await;
    let room = runs.room::<Notes>("born-again");
    room.send(Note::Take(1)).await.expect("it is accepted");
    until_told(&lost, &[(born, 5), (gone.clone(), 3)]).await;
    assert!(
        store.inspect(|store| store.record(&gone).is_none()),
        "it is not born for the question"
    );
    for host in [sends, runs] {
        host.shutdown().await.expect("it stops");
    }
}

/// Who waits for the answer to a question that is lost is told, and does not wait for the rest of his time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_whose_question_the_store_lost_is_told() {
    let store = MemoryTransport::new();
    let (runs, (sends, _)) = (host("runs", 10, &store).await, sender(&store).await);
    let room = sends.room::<Notes>("room");
    let asks = room.clone();
    let hour = Some(Duration::from_secs(3_600));
    let call = tokio::spawn(async move { asks.call(Note::Keep, hour).await });
    let handled = async {
        while !matches!(ractor::call!(room, Note::Show).as_deref(), Ok([]))
            || sends.core.calls.pending().len() != 1
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), handled).await.expect("it is asked");
    sends.core.courier(room.room().expect("a name")).let_go(Duration::MAX);
    runs.shutdown().await.expect("it stops");
    store.forget();
    let runs = host("runs-now", 10, &store).await;
    runs.room::<Notes>("room").send(Note::Take(1)).await.expect("it is accepted");
    let told = tokio::time::timeout(Duration::from_secs(60), call).await.expect("he is told");
    let told = told.expect("the task ends");
    assert!(matches!(told, Err(RoomErr::OutcomeUnknown)), "{told:?}");
    for host in [sends, runs] {
        host.shutdown().await.expect("it stops");
    }
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
