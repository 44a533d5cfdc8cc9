use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use ractor_rooms::id::{Epoch, HostId, Incarnation, Millis, Number, Producer, RoomId};
use ractor_rooms::protocol::record::{Answer, AppendAnswer, RecordLimits, Request};
use ractor_rooms::protocol::session::{HostState, SessionSpec};
use ractor_rooms::transport::Transport;

use super::bench::config;
use crate::testing::PrivateServer;

/// One room, one member of an index or one session that cannot be read must not keep a host from the others:
/// it would end every failover and every timer.
#[tokio::test]
async fn what_is_damaged_does_not_hide_the_rest() {
    let server = PrivateServer::start().await.unwrap();
    let store = config(&server, "test", RecordLimits::default()).connect().await.unwrap();
    let host = HostId::new("a").unwrap();
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
    store.open_session(&host, Duration::from_secs(60), spec).await.unwrap();
    let rooms = ["a", "b", "c"].map(|key| RoomId::new("pad", key).unwrap());
    for room in &rooms {
        let offer =
            Request::Offer { to: host.clone(), until: Millis(u64::MAX >> 12), create: true };
        store.execute(room, offer, Epoch(0)).await.unwrap();
    }

    let client = redis::Client::open(server.url()).unwrap();
    let mut meddler = client.get_multiplexed_async_connection().await.unwrap();
    let mut damage = redis::pipe();
    let found: Vec<String> =
        redis::cmd("KEYS").arg("test:*:meta:3:pad:b").query_async(&mut meddler).await.unwrap();
    assert_eq!(found.len(), 1);
    damage.cmd("DEL").arg(&found[0]).cmd("SET").arg(&found[0]).arg("not a record");
    for shard in 0..4 {
        damage.cmd("ZADD").arg(format!("test:{{s{shard:04}}}:owned")).arg(0).arg("junk");
    }
    damage.cmd("HSET").arg("test:{h-ghost}:session").arg("not").arg("a session");
    damage.cmd("ZADD").arg("test:hosts").arg(u64::MAX >> 12).arg("ghost");
    let _: redis::Value = damage.query_async(&mut meddler).await.unwrap();

    let unrest = store.unrest(None, 10).await.unwrap();
    let named: Vec<_> = unrest.into_iter().map(|unrest| unrest.room).collect();
    assert_eq!(named, [rooms[0].clone(), rooms[2].clone()]);
    let sessions = store.sessions().await.unwrap();
    let hosts: Vec<_> = sessions.into_iter().map(|session| session.incarnation.host).collect();
    assert_eq!(hosts, [host]);
}

/// A script that fails after its first write is no torn log, so that no restart tells of it. Repeated, it must
/// neither add to the log each time nor lose what it left there.
#[tokio::test]
async fn an_append_that_fails_halfway_is_counted_by_the_next() {
    let server = PrivateServer::start().await.unwrap();
    let store = config(&server, "test", RecordLimits::default()).connect().await.unwrap();
    let room = RoomId::new("pad", "a").unwrap();
    let host = HostId::new("a").unwrap();
    let offer = Request::Offer { to: host.clone(), until: Millis(u64::MAX >> 12), create: true };
    store.execute(&room, offer, Epoch(0)).await.unwrap();
    let append = async |host: &str, first: u64| {
        let producer = Producer::Host(Incarnation { host: HostId::new(host).unwrap(), number: 1 });
        let batch = vec![Bytes::from_static(b"once")];
        let first = Number(first);
        let append = Request::Append { life: None, producer, epoch: 0, first, batch };
        store.execute(&room, append, Epoch(0)).await
    };
    let accepted = append("a", 1).await.unwrap();
    assert!(matches!(accepted, Answer::Append(AppendAnswer::Accepted { .. })), "{accepted:?}");

    let client = redis::Client::open(server.url()).unwrap();
    let mut meddler = client.get_multiplexed_async_connection().await.unwrap();
    let found: Vec<String> =
        redis::cmd("KEYS").arg("test:*:prodage:3:pad:a").query_async(&mut meddler).await.unwrap();
    let [index] = found.as_slice() else { panic!("{found:?}") };
    let log = index.replace(":prodage:", ":log:");
    let mut damage = redis::pipe();
    damage.cmd("DEL").arg(index).cmd("SET").arg(index).arg("no index");
    let _: redis::Value = damage.query_async(&mut meddler).await.unwrap();
    for _ in 0..3 {
        append("b", 1).await.expect_err("its index cannot be written");
        let length: u64 = redis::cmd("XLEN").arg(&log).query_async(&mut meddler).await.unwrap();
        assert_eq!(length, 2);
    }

    let _: u64 = redis::cmd("DEL").arg(index).query_async(&mut meddler).await.unwrap();
    let repeated = append("b", 1).await.unwrap();
    assert!(matches!(repeated, Answer::Append(AppendAnswer::Duplicate { .. })), "{repeated:?}");
    let Answer::View(Some(view)) = store.execute(&room, Request::Read, Epoch(0)).await.unwrap()
    else {
        panic!("no record");
    };
    assert_eq!(view.seq.0, 2);
    // What the newest producer had is known to it and to the next.
    for (host, first) in [("b", 1), ("a", 1)] {
        let again = append(host, first).await.unwrap();
        assert!(matches!(again, Answer::Append(AppendAnswer::Duplicate { .. })), "{again:?}");
    }
}
