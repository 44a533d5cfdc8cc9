//! Which producer is forgotten when there are too many.

use bytes::Bytes;
use ractor_rooms::id::{Epoch, HostId, Incarnation, Millis, Number, Producer, RoomId};
use ractor_rooms::protocol::record::{Answer, AppendAnswer, RecordLimits, Request};
use ractor_rooms::transport::Transport;

use super::RedisTransport;
use super::bench::config;
use crate::testing::PrivateServer;

async fn append(store: &RedisTransport, number: u64, epoch: u64, first: u64, count: usize) -> bool {
    let host = HostId::new("client").unwrap();
    let request = Request::Append {
        life: None,
        producer: Producer::Host(Incarnation { host, number }),
        epoch,
        first: Number(first),
        batch: vec![Bytes::from_static(b"message"); count],
    };
    let room = RoomId::new("room", "r").unwrap();
    match store.execute(&room, request, Epoch(0)).await.unwrap() {
        Answer::Append(AppendAnswer::Accepted { .. }) => true,
        Answer::Append(AppendAnswer::Fenced { .. }) => false,
        other => panic!("producer {number}, {count} from {first}: {other:?}"),
    }
}

/// The index says when a producer began; that it went on is with its number only.
#[tokio::test]
async fn the_producer_that_is_silent_longest_is_forgotten() {
    let server = PrivateServer::start().await.unwrap();
    let limits = RecordLimits { producers: 3, ..RecordLimits::default() };
    let store = config(&server, "test", limits).connect().await.unwrap();
    let room = RoomId::new("room", "r").unwrap();
    let (to, until) = (HostId::new("a").unwrap(), Millis(u64::MAX >> 12));
    store.execute(&room, Request::Offer { to, until, create: true }, Epoch(0)).await.unwrap();

    for number in 1..=3 {
        assert!(append(&store, number, 0, 1, 1).await);
    }
    assert!(append(&store, 1, 0, 2, 1).await);
    assert!(append(&store, 4, 0, 1, 1).await, "in the place of the second");
    assert!(append(&store, 1, 0, 3, 1).await, "the first was not silent");
    assert!(append(&store, 3, 0, 2, 1).await, "the third was not silent longest");
    assert!(!append(&store, 2, 0, 2, 1).await, "the second was");

    assert!(append(&store, 3, 1, 3, 0).await, "a withdrawal");
    assert!(append(&store, 5, 0, 1, 2).await, "in the place of the fourth");
    assert!(append(&store, 1, 0, 4, 1).await);
    assert!(append(&store, 3, 1, 3, 1).await);
    assert!(!append(&store, 4, 0, 2, 1).await, "the fourth was silent longest");
}
