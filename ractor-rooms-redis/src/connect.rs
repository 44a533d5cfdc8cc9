//! Makes connections, and checks the server once at the start and its identity each time.

#[cfg(test)]
mod bad_input_test;
mod checks;
mod diagnose;
mod generations;
#[cfg(feature = "sentinel")]
mod sentinel;
#[cfg(test)]
#[cfg(feature = "sentinel")]
mod sentinel_test;
#[cfg(test)]
#[cfg(feature = "tls")]
mod tls_test;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use redis::aio::SendError;
use redis::{AsyncConnectionConfig, ConnectionInfo, ProtocolVersion, PushInfo, RedisError, Value};

use crate::config::{RedisConfig, Topology};
use crate::error::ConnectErr;
use crate::keys::Layout;
use crate::link::Conn;
use generations::Generations;

/// How long all checks at the start may take.
const OPEN: Duration = Duration::from_millis(2_800);
/// How long one connection may take to be made.
const CONNECT: Duration = Duration::from_millis(1_000);
/// How many shards of a cluster are looked at at once.
pub(crate) const LOOKS: usize = 64;
/// Requests that the client library queues for its writing task. Above what a line has in flight, so that
/// the first poll of a request always queues it.
const PIPELINE_BUFFER: usize = 1_024;

/// Takes pushes, without blocking.
pub(crate) type PushSender = Arc<dyn Fn(PushInfo) -> Result<(), SendError> + Send + Sync>;

/// Makes connections by one configuration.
pub(crate) struct Connector {
    config: RedisConfig,
    addresses: Vec<ConnectionInfo>,
    generations: Generations,
    /// Whether the start is over: only then it is known that the store may be written to.
    checked: AtomicBool,
}

impl Connector {
    /// Reads the configuration and checks the server. Takes at most 3 s.
    pub(crate) async fn open(config: RedisConfig) -> Result<Arc<Self>, ConnectErr> {
        let addresses = config.addresses()?;
        let cluster = config.is_cluster();
        let layout = Layout::new(&config.namespace, config.shards, cluster);
        let generations = Generations::new(layout, cluster);
        let checked = AtomicBool::new(false);
        let connector = Arc::new(Self { config, addresses, generations, checked });
        match tokio::time::timeout(OPEN, connector.check()).await {
            Ok(result) => {
                connector.checked.store(true, Ordering::SeqCst);
                result.map(|()| connector)
            }
            Err(_) => Err(ConnectErr::Silent { address: connector.address(), waited: OPEN }),
        }
    }

    pub(crate) fn config(&self) -> &RedisConfig {
        &self.config
    }

    pub(crate) fn generations(&self) -> &Generations {
        &self.generations
    }

    /// Where the store is, for messages.
    fn address(&self) -> String {
        let addresses: Vec<String> =
            self.addresses.iter().map(|info| info.addr().to_string()).collect();
        addresses.join(", ")
    }

    /// A new connection to whoever is the master now, with pushes to `push`.
    pub(crate) async fn connect(&self, push: Option<PushSender>) -> Result<Conn, ConnectErr> {
        let address = self.address();
        let made = tokio::time::timeout(CONNECT * 2, async {
            let mut conn = match self.config.topology() {
                Topology::Single => self.connect_node(&self.addresses[0], push).await?,
                Topology::Sentinel { master } => {
                    let info = self.ask_sentinels(master).await?;
                    self.connect_node(&info, push).await?
                }
                Topology::Cluster => self.connect_cluster(push).await?,
            };
            self.recognise(&mut conn).await?;
            if self.checked.load(Ordering::SeqCst) {
                // Before anything else is sent on it.
                self.look(&conn).await?;
            }
            Ok(conn)
        });
        made.await.unwrap_or(Err(ConnectErr::Silent { address, waited: CONNECT * 2 }))
    }

    async fn connect_node(
        &self,
        info: &ConnectionInfo,
        push: Option<PushSender>,
    ) -> Result<Conn, ConnectErr> {
        let mut settings = info.redis_settings().clone();
        let mut options = AsyncConnectionConfig::new()
            // The lines watch for silence themselves: a time limit in the library would leave the
            // connection in use.
            .set_response_timeout(None)
            .set_connection_timeout(Some(CONNECT))
            .set_pipeline_buffer_size(PIPELINE_BUFFER)
            .set_write_backpressure_boundary(256 << 10);
        if let Some(push) = push {
            settings = settings.set_protocol(ProtocolVersion::RESP3);
            options = options.set_push_sender(push_sender(push));
        }
        let target = info.clone().set_redis_settings(settings);
        let made = async {
            self.client(target)?.get_multiplexed_async_connection_with_config(&options).await
        };
        match made.await {
            Ok(conn) => Ok(Conn::Node(conn)),
            Err(error) => Err(diagnose::connect_error(&error, info).await),
        }
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_self, reason = "with the feature it reads the configuration")]
    fn client(&self, info: ConnectionInfo) -> redis::RedisResult<redis::Client> {
        redis::Client::open(info)
    }

    #[cfg(feature = "tls")]
    fn client(&self, info: ConnectionInfo) -> redis::RedisResult<redis::Client> {
        if !matches!(info.addr(), redis::ConnectionAddr::TcpTls { .. }) {
            return redis::Client::open(info);
        }
        ensure_crypto();
        match self.config.certificates() {
            Some(certificates) => redis::Client::build_with_tls(info, certificates),
            None => redis::Client::open(info),
        }
    }

    #[cfg(feature = "cluster")]
    async fn connect_cluster(&self, push: Option<PushSender>) -> Result<Conn, ConnectErr> {
        let deadline = self.config.deadline;
        #[cfg(feature = "tls")]
        ensure_crypto();
        let tcp = self.addresses[0].tcp_settings().clone();
        let mut builder = redis::cluster::ClusterClient::builder(self.addresses.clone())
            .tcp_settings(tcp)
            .connection_timeout(CONNECT)
            .response_timeout(deadline / 2)
            .overall_response_timeout(Some(deadline / 2))
            // Every write may be repeated, so the library may do so too; the deadline bounds it.
            .retries(8)
            .min_retry_wait(5)
            .max_retry_wait(200);
        #[cfg(feature = "tls")]
        if let Some(certificates) = self.config.certificates() {
            builder = builder.certs(certificates);
        }
        if let Some(push) = push {
            builder = builder.use_protocol(ProtocolVersion::RESP3).push_sender(push_sender(push));
        }
        let made = async { builder.build()?.get_async_connection().await };
        match made.await {
            Ok(conn) => Ok(Conn::Cluster(conn)),
            Err(error) => Err(diagnose::connect_error(&error, &self.addresses[0]).await),
        }
    }

    #[cfg(not(feature = "cluster"))]
    #[expect(clippy::unused_async, reason = "as with the feature")]
    async fn connect_cluster(&self, _push: Option<PushSender>) -> Result<Conn, ConnectErr> {
        Err(ConnectErr::MissingFeature { feature: "cluster" })
    }

    #[cfg(not(feature = "sentinel"))]
    #[expect(clippy::unused_async, reason = "as with the feature")]
    async fn ask_sentinels(&self, _master: &str) -> Result<ConnectionInfo, ConnectErr> {
        Err(ConnectErr::MissingFeature { feature: "sentinel" })
    }

    /// Whether the servers are masters, or no store at all.
    async fn recognise(&self, conn: &mut Conn) -> Result<(), ConnectErr> {
        let infos = match conn.info().await {
            Ok(infos) => infos,
            // Without a password nothing was said before this: what answers may be anything.
            Err(error) if error.code().is_none() => {
                return Err(diagnose::connect_error(&error, &self.addresses[0]).await);
            }
            Err(error) => return Err(diagnose::refusal(&error, &self.address())),
        };
        if infos.iter().any(|info| checks::field(info, "role") == Some("slave")) {
            return Err(ConnectErr::Replica { address: self.address() });
        }
        Ok(())
    }

    /// Learns the generation of each shard, or begins another one if the server is not the one that wrote it.
    async fn look(&self, conn: &Conn) -> Result<(), ConnectErr> {
        let address = self.address();
        let asked = stream::iter(self.generations.questions()).map(|(shards, pipeline)| {
            let mut conn = conn.clone();
            async move {
                let value = conn.send(&pipeline).await?.into_iter().next().unwrap_or(Value::Nil);
                Ok::<_, RedisError>((shards, value.extract_error()?))
            }
        });
        let answers: Vec<_> = asked
            .buffer_unordered(LOOKS)
            .try_collect()
            .await
            .map_err(|error| diagnose::refusal(&error, &address))?;
        if self.generations.learn(&answers) {
            Ok(())
        } else {
            let reason = "its generation cannot be read".to_owned();
            Err(ConnectErr::Refused { address, reason })
        }
    }
}

fn push_sender(push: PushSender) -> impl redis::aio::AsyncPushSender {
    move |info: PushInfo| push(info)
}

/// The client library needs one cryptography provider for the process: the app's, or else this one.
#[cfg(feature = "tls")]
fn ensure_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails only when another thread was faster, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
