//! Where in Redis the hosts of one run meet.

use std::time::Duration;

use ractor_rooms_redis::{ConnectErr, RedisConfig, RedisTransport};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError,
};
use serde::{Deserialize, Serialize};

/// Longer than this neither a connection nor an answer takes.
const DEADLINE: Duration = Duration::from_secs(5);
/// How many keys the store looks at in one step of a scan.
const SCANNED_AT_ONCE: u32 = 1000;

/// The servers, which may be told with a password, and the namespace of the run. Not `Debug`.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Address {
    urls: Vec<String>,
    cluster: bool,
    namespace: String,
}

impl Address {
    /// A namespace of its own on these servers: those of a cluster, or one that stands alone.
    pub(crate) fn new(urls: Vec<String>, cluster: bool) -> Self {
        // By chance and not by the seed of the run: the same run may be made twice at a time.
        let namespace = format!("document-{:016x}", rand::random::<u64>());
        Self { urls, cluster, namespace }
    }

    /// The same namespace by another way to the server.
    pub(crate) fn by(&self, url: String) -> Self {
        Self { urls: vec![url], ..self.clone() }
    }

    /// A transport with connections of its own.
    pub(crate) async fn connect(&self) -> Result<RedisTransport, ConnectErr> {
        let config = if self.cluster {
            RedisConfig::cluster(&self.urls)
        } else {
            RedisConfig::new(self.urls.first().cloned().unwrap_or_default())
        };
        config.namespace(self.namespace.as_str()).connect().await
    }

    /// A plain connection, to one of the servers.
    pub(crate) async fn connection(&self) -> Result<MultiplexedConnection, RedisError> {
        open(self.first()?).await
    }

    /// Removes the namespace with all that is in it.
    pub(crate) async fn clear(&self) -> Result<(), RedisError> {
        for master in self.masters().await? {
            let mut connection = open(master).await?;
            let mut cursor = 0;
            loop {
                let (next, keys): (u64, Vec<Vec<u8>>) = redis::cmd("SCAN")
                    .arg(cursor)
                    .arg("MATCH")
                    .arg(format!("{}:*", self.namespace))
                    .arg("COUNT")
                    .arg(SCANNED_AT_ONCE)
                    .query_async(&mut connection)
                    .await?;
                if !keys.is_empty() {
                    // Each by itself: in a cluster the keys of one command must be of one slot.
                    let mut removal = redis::pipe();
                    for key in keys {
                        removal.cmd("UNLINK").arg(key).ignore();
                    }
                    removal.exec_async(&mut connection).await?;
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    fn first(&self) -> Result<ConnectionInfo, RedisError> {
        self.urls.first().map_or("", String::as_str).into_connection_info()
    }

    async fn masters(&self) -> Result<Vec<ConnectionInfo>, RedisError> {
        let first = self.first()?;
        if !self.cluster {
            return Ok(vec![first]);
        }
        let mut connection = open(first.clone()).await?;
        let nodes: String = redis::cmd("CLUSTER").arg("NODES").query_async(&mut connection).await?;
        Ok(masters(&nodes).map(|(host, port)| at(first.clone(), host, port)).collect())
    }
}

async fn open(info: ConnectionInfo) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(DEADLINE))
        .set_response_timeout(Some(DEADLINE));
    Client::open(info)?.get_multiplexed_async_connection_with_config(&config).await
}

/// The same way in, to another server.
fn at(info: ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let addr = match info.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host: host.into(), port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host.into(), port),
    };
    info.set_addr(addr)
}

/// Host and port of every master in the answer to `CLUSTER NODES`.
fn masters(nodes: &str) -> impl Iterator<Item = (&str, u16)> {
    nodes.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (place, flags) = (words.next()?, words.next()?);
        let is_master = flags.split(',').any(|flag| flag == "master");
        let is_there =
            flags.split(',').all(|flag| !matches!(flag, "fail" | "noaddr" | "handshake"));
        // `host:port@bus`, and since 7.0 more after a comma.
        let (host, port) = place.split(['@', ',']).next()?.rsplit_once(':')?;
        (is_master && is_there).then_some((host, port.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masters_are_read_from_what_a_cluster_says() {
        let nodes = "\
a1 127.0.0.1:7001@17001,, myself,master - 0 0 1 connected 0-5461
b2 127.0.0.1:7002@17002 master - 0 1 2 connected 5462-10922
c3 ::1:7003@17003,host.example master - 0 1 3 connected 10923-16383
d4 127.0.0.1:7004@17004 slave a1 0 1 1 connected
e5 127.0.0.1:7005@17005 master,fail - 1 1 4 disconnected
f6 :0@0 master,noaddr - 1 1 4 disconnected
nonsense
";
        let found: Vec<_> = masters(nodes).collect();
        assert_eq!(found, [("127.0.0.1", 7001), ("127.0.0.1", 7002), ("::1", 7003)]);
    }

    #[test]
    fn another_server_is_reached_the_same_way() {
        let one = ConnectionAddr::TcpTls {
            host: "one.example".into(),
            port: 6379,
            insecure: false,
            tls_params: None,
        };
        let plain = "redis://me:secret@one.example/2".into_connection_info().unwrap();
        let info = plain.clone().set_addr(one);
        let other = at(info, "two.example", 7002);
        assert!(matches!(
            other.addr(),
            ConnectionAddr::TcpTls { host, port: 7002, insecure: false, .. } if host == "two.example"
        ));
        assert_eq!(other.redis_settings().password(), Some("secret"));
        let other = at(plain, "two.example", 7002);
        assert_eq!(*other.addr(), ConnectionAddr::Tcp("two.example".into(), 7002));
    }

    #[test]
    fn two_runs_do_not_meet() {
        let [one, two] = [(); 2].map(|()| Address::new(vec!["redis://localhost".into()], false));
        assert_ne!(one.namespace, two.namespace);
    }
}
