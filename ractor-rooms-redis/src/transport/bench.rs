//! A private server for tests, and a store on it as a subject.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use ractor_rooms::id::RoomId;
use ractor_rooms::protocol::record::{RecordLimits, SnapshotKey};
use ractor_rooms::testing::{Subject, small_limits};
use ractor_rooms::transport::Transport;

use super::RedisTransport;
use crate::RedisConfig;
use crate::testing::PrivateServer;

/// A namespace of a server.
#[derive(Debug)]
pub(super) struct Store {
    server: Arc<PrivateServer>,
    namespace: String,
}

const TTL: Duration = Duration::from_millis(6_000);

/// A namespace of a server, whose sessions are looked up each time.
pub(super) fn config(server: &PrivateServer, namespace: &str, limits: RecordLimits) -> RedisConfig {
    let config = RedisConfig::new(server.url()).namespace(namespace).shards(4).limits(limits);
    config.session_facts_age(Duration::ZERO).deadline(Duration::from_secs(10))
}

impl Store {
    pub(super) async fn new() -> Self {
        Self::at(Arc::new(PrivateServer::start().await.unwrap()), "test".to_owned())
    }

    pub(super) fn at(server: Arc<PrivateServer>, namespace: String) -> Self {
        Self { server, namespace }
    }

    pub(super) async fn transport(&self) -> RedisTransport {
        config(&self.server, &self.namespace, self.limits()).connect().await.unwrap()
    }
}

impl Subject for Store {
    fn connect(&self) -> BoxFuture<'_, Arc<dyn Transport>> {
        async move { Arc::new(self.transport().await) as Arc<dyn Transport> }.boxed()
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    fn limits(&self) -> RecordLimits {
        small_limits(TTL)
    }

    fn let_sessions_lapse(&self) -> BoxFuture<'_, ()> {
        tokio::time::sleep(TTL + Duration::from_millis(50)).boxed()
    }

    fn lose_snapshot<'a>(&'a self, room: &'a RoomId, key: &'a SnapshotKey) -> BoxFuture<'a, bool> {
        async move {
            let transport = self.transport().await;
            let mut pipeline = redis::pipe();
            pipeline.cmd("DEL").arg(&transport.0.layout.snapshot(room, key)[..]);
            transport.0.link.bulk(pipeline).await.unwrap() == [redis::Value::Int(1)]
        }
        .boxed()
    }
}
