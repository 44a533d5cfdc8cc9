use std::collections::BTreeMap;
use std::time::Duration;

use ractor_rooms::id::{Epoch, HostId, Millis, RoomId};
use ractor_rooms::protocol::record::{RecordLimits, Request};
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
