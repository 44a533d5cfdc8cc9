use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use ractor_rooms::id::{Epoch, HostId, Incarnation, Millis, Number, Producer, RoomId};
use ractor_rooms::protocol::record::{Answer, AppendAnswer, RecordLimits, Request};
use ractor_rooms::protocol::session::{HostState, SessionSpec};
use ractor_rooms::transport::Transport;

use super::bench::config;
use crate::testing::PrivateServer;

/// More senders than may look up a session at once.
const SENDERS: u64 = 1_000;

/// An append is in the log before anybody asks whether its room is tended: that question must not turn the
/// answer into an error, least of all into one that says "never sent".
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_are_answered_when_sessions_cannot_be_looked_up() {
    let server = PrivateServer::start().await.unwrap();
    // With an age of zero, each append asks for itself.
    let store = config(&server, "crowd", RecordLimits::default()).connect().await.unwrap();
    let to = HostId::new("a").unwrap();
    let kinds = BTreeMap::new();
    let spec = SessionSpec {
        state: HostState::Ready,
        load: 0,
        capacity: 1,
        weight: 1,
        kinds,
        proved: Default::default(),
        holds: None,
    };
    store.open_session(&to, Duration::from_secs(60), spec).await.unwrap();
    let room = RoomId::new("pad", "crowd").unwrap();
    let offer = Request::Offer { to, until: Millis(u64::MAX >> 12), create: true };
    store.execute(&room, offer, Epoch(0)).await.unwrap();

    let append = |number| {
        let host = HostId::new(format!("sender-{number}")).unwrap();
        let request = Request::Append {
            life: None,
            producer: Producer::Host(Incarnation { host, number }),
            epoch: 0,
            first: Number(1),
            batch: vec![Bytes::from_static(b"hello")],
        };
        store.execute(&room, request, Epoch(0))
    };
    for answer in join_all((1..=SENDERS).map(append)).await {
        let answer = answer.unwrap();
        assert!(matches!(answer, Answer::Append(AppendAnswer::Accepted { .. })), "{answer:?}");
    }
}
