//! A store that forgets a room when its source does not know yet that it runs elsewhere.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ractor::ActorProcessingErr;
use serde::{Deserialize, Serialize};

use crate::id::HostId;
use crate::transport::Transport;
use crate::{
    Delivery, HostConfig, MemoryTransport, MigrateTo, Reply, RoomActor, RoomContext, RoomFault,
    RoomHost,
};

#[derive(Debug, Serialize, Deserialize)]
enum Count {
    Up,
    Show(Reply<u64>),
}

struct Counter;

impl RoomActor for Counter {
    const KIND: &'static str = "counter";
    const DELIVERY: Delivery = Delivery::Durable;
    type Msg = Count;
    type State = u64;
    type Event = ();
    type Arguments = ();

    async fn pre_start(
        &self,
        _: &mut RoomContext<Self>,
        (): (),
    ) -> Result<u64, ActorProcessingErr> {
        Ok(0)
    }

    async fn handle(
        &self,
        _: &mut RoomContext<Self>,
        message: Count,
        count: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Count::Up => *count += 1,
            Count::Show(reply) => reply.send(*count),
        }
        Ok(())
    }
}

type Faults = Arc<Mutex<Vec<RoomFault>>>;

async fn host(name: &str, sweep: Duration, store: &MemoryTransport, faults: &Faults) -> RoomHost {
    let config = HostConfig {
        session_ttl: Duration::from_secs(30),
        sweep_interval: sweep,
        retry_interval: Duration::from_millis(500),
        idle_timeout: None,
        ..HostConfig::default()
    };
    let faults = faults.clone();
    let builder = RoomHost::builder(name, store.clone()).config(config).room(Counter);
    let builder = builder.on_fault(move |fault| faults.lock().push(fault.clone()));
    builder.start().await.expect("a host starts")
}

async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("{what}"));
}

/// Given a room that was moved, and its source that was not told that it has arrived. When the store forgets
/// everything. Then the host that runs the room keeps it, the move has succeeded, and nobody says `Diverged`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_leaves_the_room_to_the_host_that_runs_it() {
    let (store, faults) = (MemoryTransport::new(), Faults::default());
    let a = host("a", Duration::from_secs(2), &store, &faults).await;
    let room = a.room::<Counter>("r");
    room.send(Count::Up).await.expect("it is accepted");
    assert_eq!(ractor::call!(room, Count::Show).expect("it answers"), 1);
    let b = host("b", Duration::from_millis(20), &store, &faults).await;
    // Its pushes go elsewhere for a while, so that it only looks at the record, once a sweep.
    let _deaf = store.subscribe(&a.core.incarnation()).await.expect("a stream");
    let target = HostId::new("b").expect("a name");
    let to = MigrateTo::host("counter", "r", target.as_str());
    let (moved, ()) = tokio::join!(a.migrate(to), async {
        until("it runs on b", async || !b.rooms().await.expect("it runs").is_empty()).await;
        let seen = b.room::<Counter>("r");
        seen.send(Count::Up).await.expect("it is accepted");
        until("it is handled", async || {
            store.inspect(|store| {
                store
                    .record(&crate::id::RoomId::new("counter", "r").unwrap())
                    .is_some_and(|r| r.settled)
            })
        })
        .await;
        store.forget();
    });
    let report = moved.expect("it has moved");
    assert_eq!(report.to, target);
    assert_eq!(b.rooms().await.expect("it runs").len(), 1);
    assert!(a.rooms().await.expect("it runs").is_empty());
    let faults = faults.lock().clone();
    let diverged = faults.iter().any(|fault| matches!(fault, RoomFault::Diverged { .. }));
    assert!(!diverged, "{faults:?}");
    let count = ractor::call!(b.room::<Counter>("r"), Count::Show).expect("it answers");
    assert_eq!(count, 2);
    for host in [a, b] {
        host.shutdown().await.expect("it stops");
    }
}
