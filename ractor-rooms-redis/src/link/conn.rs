//! One connection of the client library: to a server, or to a cluster.

use bytes::Bytes;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Pipeline, RedisResult, Value};

/// A connection. Clones share it; it ends with the last one.
#[derive(Clone)]
pub(crate) enum Conn {
    Node(MultiplexedConnection),
    #[cfg(feature = "cluster")]
    Cluster(redis::cluster_async::ClusterConnection),
}

impl Conn {
    /// Sends commands and gives their answers, errors of the server among them. On a single server the
    /// bytes are on their way once this was polled for the first time, so that the order of first polls
    /// is the order of sending.
    pub(crate) async fn send(&mut self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let count = pipeline.len();
        match self {
            Self::Node(conn) => conn.req_packed_commands(pipeline, 0, count).await,
            #[cfg(feature = "cluster")]
            Self::Cluster(conn) => conn.req_packed_commands(pipeline, 0, count).await,
        }
    }

    /// Subscribes; in a cluster by sharded channels, which must all be in one slot.
    pub(crate) async fn subscribe(&mut self, channels: &[Bytes]) -> RedisResult<()> {
        let names: Vec<&[u8]> = channels.iter().map(AsRef::as_ref).collect();
        match self {
            Self::Node(conn) => conn.subscribe(names).await,
            #[cfg(feature = "cluster")]
            Self::Cluster(conn) => conn.ssubscribe(names).await,
        }
    }

    /// The reverse of [`Conn::subscribe`].
    pub(crate) async fn unsubscribe(&mut self, channels: &[Bytes]) -> RedisResult<()> {
        let names: Vec<&[u8]> = channels.iter().map(AsRef::as_ref).collect();
        match self {
            Self::Node(conn) => conn.unsubscribe(names).await,
            #[cfg(feature = "cluster")]
            Self::Cluster(conn) => conn.sunsubscribe(names).await,
        }
    }

    /// What a command answers, also when that is an error.
    pub(crate) async fn ask(&mut self, command: &redis::Cmd) -> RedisResult<Value> {
        let value = match self {
            Self::Node(conn) => conn.req_packed_command(command).await?,
            #[cfg(feature = "cluster")]
            Self::Cluster(conn) => conn.req_packed_command(command).await?,
        };
        value.extract_error()
    }

    /// What `INFO` says: of the server, or of each master of the cluster.
    pub(crate) async fn info(&mut self) -> RedisResult<Vec<String>> {
        let info = redis::cmd("INFO");
        match self {
            Self::Node(conn) => Ok(vec![info.query_async(conn).await?]),
            #[cfg(feature = "cluster")]
            Self::Cluster(conn) => {
                use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo};
                let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
                let answer = conn.route_command(info, all).await?;
                let by_node: std::collections::BTreeMap<String, String> =
                    redis::from_redis_value(answer)?;
                Ok(by_node.into_values().collect())
            }
        }
    }
}
