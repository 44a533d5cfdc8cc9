//! Private servers for tests, and a store on them as a subject.

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
#[cfg(feature = "cluster")]
use crate::testing::PrivateCluster;
use crate::testing::PrivateServer;

/// Where stores are, each in a namespace of its own.
#[derive(Debug)]
pub(super) enum Place {
    Server(PrivateServer),
    #[cfg(feature = "cluster")]
    Cluster(PrivateCluster),
}

/// A namespace of a place.
#[derive(Debug)]
pub(super) struct Store {
    place: Arc<Place>,
    namespace: String,
}

const TTL: Duration = Duration::from_millis(6_000);

/// A namespace of a server, whose sessions are looked up each time.
pub(super) fn config(server: &PrivateServer, namespace: &str, limits: RecordLimits) -> RedisConfig {
    exact(RedisConfig::new(server.url()).namespace(namespace).shards(4).limits(limits))
}

fn exact(config: RedisConfig) -> RedisConfig {
    config.session_facts_age(Duration::ZERO).deadline(Duration::from_secs(10))
}

impl Place {
    pub(super) async fn server() -> Arc<Self> {
        Arc::new(Self::Server(PrivateServer::start().await.unwrap()))
    }

    #[cfg(feature = "cluster")]
    pub(super) async fn cluster() -> Arc<Self> {
        Arc::new(Self::Cluster(PrivateCluster::start().await.unwrap()))
    }

    fn config(&self, namespace: &str, limits: RecordLimits) -> RedisConfig {
        match self {
            Self::Server(server) => config(server, namespace, limits),
            // Enough shards that each master has some.
            #[cfg(feature = "cluster")]
            Self::Cluster(cluster) => exact(
                RedisConfig::cluster(cluster.urls()).namespace(namespace).shards(16).limits(limits),
            ),
        }
    }
}

impl Store {
    pub(super) async fn new() -> Self {
        Self::at(Place::server().await, "test".to_owned())
    }

    pub(super) fn at(place: Arc<Place>, namespace: String) -> Self {
        Self { place, namespace }
    }

    pub(super) async fn transport(&self) -> RedisTransport {
        self.place.config(&self.namespace, self.limits()).connect().await.unwrap()
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

    /// As if another server had written what is there. A connection that is new looks, and the others hear of
    /// it when they ask.
    fn begin_generation(&self) -> BoxFuture<'_, bool> {
        async move {
            let transport = self.transport().await;
            for shard in 0..transport.0.layout.shards() {
                let mut pipeline = redis::pipe();
                let key = transport.0.layout.of_shard(shard, "generation");
                pipeline.cmd("HSET").arg(&key[..]).arg("identity").arg("another");
                transport.0.link.bulk(pipeline).await.unwrap();
            }
            self.transport().await;
            true
        }
        .boxed()
    }

    fn forget(&self) -> BoxFuture<'_, bool> {
        async move {
            let Place::Server(server) = &*self.place else { return false };
            let mut meddler = crate::link::fixture::meddler(&server.url()).await;
            let pattern = format!("{}:*", self.namespace);
            let keys: Vec<String> =
                redis::cmd("KEYS").arg(pattern).query_async(&mut meddler).await.unwrap();
            redis::cmd("DEL").arg(keys).exec_async(&mut meddler).await.unwrap();
            true
        }
        .boxed()
    }

    fn ends_doubts_early(&self) -> bool {
        matches!(*self.place, Place::Server(_))
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

    fn lose_record<'a>(&'a self, room: &'a RoomId) -> BoxFuture<'a, bool> {
        async move {
            let transport = self.transport().await;
            let mut pipeline = redis::pipe();
            pipeline.cmd("DEL").arg(&transport.0.layout.room_keys(room, None, None)[0][..]);
            transport.0.link.bulk(pipeline).await.unwrap() == [redis::Value::Int(1)]
        }
        .boxed()
    }
}
