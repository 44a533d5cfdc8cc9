//! A host's own session, which is known without asking, and snapshots that are one value or pieces.

use std::time::Duration;

use bytes::Bytes;
use ractor_rooms::id::{Activation, Epoch, Generation, HostId, Incarnation, RoomId};
use ractor_rooms::protocol::record::{
    AcquireAnswer, Answer, OfferAnswer, Request, Seen, SnapshotKey,
};
use ractor_rooms::protocol::session::{HostState, OpenAnswer, SessionSpec};
use ractor_rooms::transport::Transport;

use super::RedisTransport;
use super::snapshot::WHOLE;
use crate::testing::PrivateServer;

fn spec() -> SessionSpec {
    let (state, proved) = (HostState::Ready, Generation(0));
    SessionSpec { state, load: 0, capacity: 9, weight: 1, kinds: [].into(), proved, holds: None }
}

async fn open(store: &RedisTransport, host: &HostId, lasts: Duration) -> Incarnation {
    match store.open_session(host, lasts, spec()).await.unwrap() {
        OpenAnswer::Opened(by) => by,
        OpenAnswer::Taken { until } => panic!("taken until {until}"),
    }
}

/// A room that is on offer to a host, and what an acquire is told of it.
async fn offered(store: &RedisTransport, to: &HostId, key: &str) -> (RoomId, Seen) {
    let room = RoomId::new("test", key.to_owned()).unwrap();
    let until = ractor_rooms::id::Millis(4_102_444_800_000);
    let request = Request::Offer { to: to.clone(), until, create: true };
    let answer = store.execute(&room, request, Epoch(0)).await.unwrap();
    assert!(matches!(answer, Answer::Offer(OfferAnswer::Done { .. })), "{answer:?}");
    let Answer::View(Some(view)) = store.execute(&room, Request::Read, Epoch(0)).await.unwrap()
    else {
        panic!("it was created");
    };
    (room, view.seen)
}

async fn acquire(store: &RedisTransport, by: &Incarnation, key: &str) -> AcquireAnswer {
    let (room, seen) = offered(store, &by.host, key).await;
    let request = Request::Acquire { activation: Activation { by: by.clone(), number: 1 }, seen };
    match store.execute(&room, request, Epoch(0)).await.unwrap() {
        Answer::Acquire(answer) => answer,
        other => panic!("{other:?}"),
    }
}

/// While a session has half of its time left, its host acquires without a look at it. It looks once that
/// is over, after an end, and for a session that another opened.
#[tokio::test]
async fn own_session_is_known_for_half_of_its_time() {
    let server = PrivateServer::start().await.unwrap();
    let store = RedisTransport::connect(server.url()).await.unwrap();
    let host = HostId::new("a").unwrap();
    let lasts = Duration::from_secs(4);
    let by = open(&store, &host, lasts).await;
    // As if it had lapsed, behind the back of who knows better.
    let lapse = async || {
        let mut drop_it = redis::pipe();
        drop_it.cmd("DEL").arg(&store.0.layout.host_keys("a")[0][..]);
        store.0.link.bulk(drop_it).await.unwrap();
    };
    lapse().await;
    assert!(matches!(acquire(&store, &by, "1").await, AcquireAnswer::Acquired(_)));
    let other = RedisTransport::connect(server.url()).await.unwrap();
    assert!(matches!(acquire(&other, &by, "2").await, AcquireAnswer::NoSession));
    tokio::time::sleep(lasts / 2 + Duration::from_millis(20)).await;
    assert!(matches!(acquire(&store, &by, "3").await, AcquireAnswer::NoSession));

    let next = open(&store, &host, lasts).await;
    assert!(matches!(acquire(&store, &by, "4").await, AcquireAnswer::NoSession));
    assert!(matches!(acquire(&store, &next, "5").await, AcquireAnswer::Acquired(_)));
    store.close_session(&next).await.unwrap();
    assert!(matches!(acquire(&store, &next, "6").await, AcquireAnswer::NoSession));

    let last = open(&store, &host, lasts).await;
    lapse().await;
    assert!(!store.renew_session(&last, lasts, spec()).await.unwrap());
    assert!(matches!(acquire(&store, &last, "7").await, AcquireAnswer::NoSession));
}

/// What is put up comes back, whole or in pieces, and the first copy stays.
#[tokio::test]
async fn snapshots_of_any_size_come_back() {
    let server = PrivateServer::start().await.unwrap();
    let store = RedisTransport::connect(server.url()).await.unwrap();
    let room = RoomId::new("test", "room").unwrap();
    let by = Incarnation { host: HostId::new("a").unwrap(), number: 1 };
    for (attempt, size) in (1..).zip([0, 1, WHOLE, WHOLE + 1, 2 * WHOLE + 7]) {
        let key = SnapshotKey { by: Activation { by: by.clone(), number: 1 }, attempt };
        assert_eq!(store.get_snapshot(&room, &key).await.unwrap(), None);
        let bytes: Bytes = (0..size).map(|i| (i % 251) as u8).collect();
        for copy in [bytes.clone(), Bytes::from(vec![0; size])] {
            store.put_snapshot(&room, key.clone(), copy).await.unwrap();
            let found = store.get_snapshot(&room, &key).await.unwrap();
            assert!(found.is_some_and(|found| found == bytes), "of {size} bytes");
        }
    }
}
