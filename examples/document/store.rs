//! What the hosts of one run meet in.

use std::fmt;
use std::sync::Arc;

use ractor_rooms::{MemoryTransport, RoomHost, RoomHostBuilder};
use ractor_rooms_redis::ConnectErr;
use ractor_rooms_redis::testing::{PrivateCluster, PrivateServer, Proxy, ServerErr, ServerOptions};
use redis::RedisError;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::address::Address;
use super::client::PATIENCE;
use super::options::Options;
use super::transport::Transport;

/// Why there is no store.
#[derive(Debug)]
pub(crate) enum StoreErr {
    /// No server could be started.
    Server(ServerErr),
    /// The store cannot be used.
    Connect(ConnectErr),
}

impl fmt::Display for StoreErr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(why) => write!(f, "no redis-server could be started: {why}"),
            Self::Connect(why) => write!(f, "the store cannot be used: {why}"),
        }
    }
}

impl From<ServerErr> for StoreErr {
    fn from(why: ServerErr) -> Self {
        Self::Server(why)
    }
}

impl From<ConnectErr> for StoreErr {
    fn from(why: ConnectErr) -> Self {
        Self::Connect(why)
    }
}

/// The servers that were started for this run, which end with it.
#[derive(Clone, Debug)]
enum Servers {
    None,
    One(Arc<Mutex<PrivateServer>>),
    Cluster(#[expect(dead_code, reason = "held")] Arc<PrivateCluster>),
}

/// What the hosts of one run meet in. Clones are the same.
#[derive(Clone)]
pub(crate) enum Store {
    /// The memory of this process.
    Memory(MemoryTransport),
    /// A namespace in Redis.
    Redis(RedisStore),
}

/// A namespace in Redis, and the servers if they are ours.
#[derive(Clone)]
pub(crate) struct RedisStore {
    address: Address,
    servers: Servers,
    /// A way to the server for every process, if they are to break.
    links: Vec<Arc<Proxy>>,
}

impl Store {
    /// Opens the one that the options name, and starts it if they say so.
    pub(crate) async fn open(options: &Options) -> Result<Self, StoreErr> {
        let mut links = Vec::new();
        let (urls, cluster, servers) = match &options.transport {
            Transport::Memory => return Ok(Self::Memory(MemoryTransport::new())),
            Transport::PrivateRedis if options.cluster => {
                let cluster = PrivateCluster::start().await?;
                (cluster.urls(), true, Servers::Cluster(Arc::new(cluster)))
            }
            Transport::PrivateRedis => {
                let how = ServerOptions::default();
                let how = match options {
                    Options { store_cuts: 1.., .. } => how.append_every_second(),
                    Options { store_restarts: 1.., .. } => how.append_only(),
                    _ => how,
                };
                let server = PrivateServer::start_with(how).await?;
                if options.breaks_links() {
                    for _ in 0..=options.hosts {
                        links.push(Arc::new(Proxy::start(server.port()).await?));
                    }
                }
                (vec![server.url()], false, Servers::One(Arc::new(Mutex::new(server))))
            }
            Transport::Redis(url) => {
                let (url, cluster) = plain(url);
                (vec![url], cluster || options.cluster, Servers::None)
            }
        };
        let address = Address::new(urls, cluster);
        // So that a store that cannot be used is found before anything is started on it.
        address.connect().await?;
        Ok(Self::Redis(RedisStore { address, servers, links }))
    }

    /// A host on this store, with connections of its own over this link.
    pub(crate) async fn host(&self, name: &str, link: u32) -> Result<RoomHostBuilder, ConnectErr> {
        match self {
            Self::Memory(transport) => Ok(RoomHost::builder(name, transport.clone())),
            Self::Redis(store) => {
                Ok(RoomHost::builder(name, store.address_by(link).connect().await?))
            }
        }
    }

    /// The links that can be broken.
    pub(crate) fn links(&self) -> &[Arc<Proxy>] {
        match self {
            Self::Memory(_) => &[],
            Self::Redis(store) => &store.links,
        }
    }

    /// The server that was started for this run, if it is one.
    pub(crate) fn server(&self) -> Option<Arc<Mutex<PrivateServer>>> {
        match self {
            Self::Redis(RedisStore { servers: Servers::One(server), .. }) => {
                Some(Arc::clone(server))
            }
            _ => None,
        }
    }

    /// Where other processes find it, over this link.
    pub(crate) fn address_by(&self, link: u32) -> Option<Address> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(store) => Some(store.address_by(link)),
        }
    }

    /// Where it is, whatever becomes of the links.
    pub(crate) fn address(&self) -> Option<&Address> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(store) => Some(&store.address),
        }
    }

    /// Removes all that the run left in it, once its hosts have stopped.
    pub(crate) async fn clear(&self) -> Result<(), ClearErr> {
        let Some(address) = self.address() else { return Ok(()) };
        match timeout(PATIENCE, address.clear()).await {
            Ok(cleared) => cleared.map_err(|why| ClearErr(Some(why))),
            Err(_) => Err(ClearErr(None)),
        }
    }
}

impl RedisStore {
    fn address_by(&self, link: u32) -> Address {
        match self.links.get(link as usize) {
            Some(link) => self.address.by(link.url()),
            None => self.address.clone(),
        }
    }
}

/// The namespace could not be removed: why, or it took too long.
#[derive(Debug)]
pub(crate) struct ClearErr(Option<RedisError>);

impl fmt::Display for ClearErr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the namespace of the run could not be removed: ")?;
        match &self.0 {
            Some(why) => write!(f, "{why}"),
            None => write!(f, "it took longer than {PATIENCE:?}"),
        }
    }
}

/// The address without the word that marks a cluster's, and whether it had it.
fn plain(url: &str) -> (String, bool) {
    match url.split_once("+cluster://") {
        Some((scheme, rest)) => (format!("{scheme}://{rest}"), true),
        None => (url.to_owned(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_known_by_its_scheme() {
        assert_eq!(plain("redis+cluster://h:1"), ("redis://h:1".into(), true));
        assert_eq!(plain("rediss://h:1"), ("rediss://h:1".into(), false));
        assert_eq!(plain("redis://:a+cluster@h"), ("redis://:a+cluster@h".into(), false));
    }
}
