//! Where the store is and how it is used.

#[cfg(feature = "tls")]
mod certificates;

use std::fmt;
use std::time::Duration;

use ractor_rooms::protocol::record::RecordLimits;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use crate::connect::Connector;
use crate::error::ConnectErr;
use crate::link::Link;

/// How the servers of a store belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    Single,
    Cluster,
    Sentinel { master: String },
}

/// How many replicas must have what was written, and how long they are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quorum {
    pub(crate) replicas: u8,
    pub(crate) within: Duration,
}

impl Quorum {
    /// The command whose answer tells how many have all that this connection saw written before.
    pub(crate) fn wait(self) -> redis::Cmd {
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.replicas).arg(u64::try_from(self.within.as_millis()).unwrap_or(u64::MAX));
        wait
    }

    /// What is lacking by the answer to it.
    pub(crate) fn lacks(self, answer: &redis::Value) -> Option<String> {
        let Self { replicas, within } = self;
        match answer {
            redis::Value::Int(found) if *found >= i64::from(replicas) => None,
            redis::Value::Int(found) => {
                Some(format!("{found} of {replicas} replicas have it after {within:?}"))
            }
            redis::Value::ServerError(error) => {
                let details = error.details().unwrap_or_default();
                Some(format!("the replicas cannot be waited for: {} {details}", error.code()))
            }
            _ => Some("the answer to WAIT cannot be read".to_owned()),
        }
    }
}

/// Where the store is and how it is used. All hosts of a cluster use the same namespace and shards.
#[derive(Clone)]
pub struct RedisConfig {
    urls: Vec<String>,
    topology: Topology,
    username: Option<String>,
    password: Option<String>,
    root_certificate: Option<Vec<u8>>,
    client_certificate: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) namespace: String,
    pub(crate) shards: u16,
    pub(crate) deadline: Duration,
    pub(crate) bulk_deadline: Duration,
    pub(crate) push_queue: usize,
    pub(crate) replicas: u8,
    pub(crate) limits: RecordLimits,
    pub(crate) session_facts_age: Duration,
}

impl RedisConfig {
    /// A single server, by `redis://[user:password@]host[:port][/database]`, or `rediss://` for TLS
    /// (feature `tls`). `redis+cluster://` is the same as [`RedisConfig::cluster`].
    pub fn new(url: impl Into<String>) -> Self {
        let url = url.into();
        let (url, topology) = match url.split_once("+cluster://") {
            Some((scheme, rest)) => (format!("{scheme}://{rest}"), Topology::Cluster),
            None => (url, Topology::Single),
        };
        Self::with(vec![url], topology)
    }

    /// A Redis Cluster (feature `cluster`), by the addresses of one or more of its nodes.
    pub fn cluster(urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::with(urls.into_iter().map(Into::into).collect(), Topology::Cluster)
    }

    /// The master of this name, by the addresses of Sentinels (feature `sentinel`). User, password,
    /// database and scheme of the first address are for the master too; Sentinels that have no password
    /// are asked without.
    pub fn sentinel(
        urls: impl IntoIterator<Item = impl Into<String>>,
        master: impl Into<String>,
    ) -> Self {
        let topology = Topology::Sentinel { master: master.into() };
        Self::with(urls.into_iter().map(Into::into).collect(), topology)
    }

    fn with(urls: Vec<String>, topology: Topology) -> Self {
        Self {
            urls,
            topology,
            username: None,
            password: None,
            root_certificate: None,
            client_certificate: None,
            namespace: "rooms".into(),
            shards: 64,
            deadline: Duration::from_secs(2),
            bulk_deadline: Duration::from_secs(10),
            push_queue: 8_192,
            replicas: 0,
            limits: RecordLimits::default(),
            session_facts_age: Duration::from_millis(200),
        }
    }

    /// The user, as it is: not percent-encoded. Goes before that of the URL.
    #[must_use]
    pub fn username(mut self, username: impl Into<String>) -> Self {
        self.username = Some(username.into());
        self
    }

    /// The password, as it is: not percent-encoded. Goes before that of the URL.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// The certificates of the authorities that may have signed the server's, in PEM, instead of those of
    /// the Mozilla store (feature `tls`, addresses with `rediss://`).
    #[must_use]
    pub fn root_certificate(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificate = Some(pem.into());
        self
    }

    /// The certificate, with those between it and its authority, and the private key by which this host
    /// shows who it is, in PEM: a server asks for them unless its `tls-auth-clients` is `no` (feature
    /// `tls`, addresses with `rediss://`).
    #[must_use]
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.client_certificate = Some((certificate.into(), key.into()));
        self
    }

    /// What every key and channel begins with: 1 to 64 bytes without braces and control characters. By
    /// default `rooms`.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// How many shards the rooms are spread over, 1 to 16384; recorded in the store by the first host.
    /// By default 64.
    #[must_use]
    pub fn shards(mut self, shards: u16) -> Self {
        self.shards = shards;
        self
    }

    /// How long a call waits for its answer, through reconnects. By default 2 s.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long the bytes of a snapshot may take. By default 10 s.
    #[must_use]
    pub fn bulk_deadline(mut self, deadline: Duration) -> Self {
        self.bulk_deadline = deadline;
        self
    }

    /// How many pushes wait for a subscriber before its stream ends. By default 8192.
    #[must_use]
    pub fn push_queue(mut self, pushes: usize) -> Self {
        self.push_queue = pushes;
        self
    }

    /// How many replicas must have what was written before it is answered, by `WAIT`. By default 0: the
    /// master's word is enough, and a failover may take back what it said last. While fewer than this are in
    /// reach within a quarter of the [`deadline`](Self::deadline), the store counts as failing. Not for a
    /// Cluster, where it is refused. What it buys and costs: `docs/durability.md`.
    #[must_use]
    pub fn replicas(mut self, replicas: u8) -> Self {
        self.replicas = replicas;
        self
    }

    /// The bounds of the records. All hosts should use the same.
    #[must_use]
    pub fn limits(mut self, limits: RecordLimits) -> Self {
        self.limits = limits;
        self
    }

    /// How old a host's knowledge of the other hosts' sessions may be when it says whether a room has a
    /// host. By default 200 ms.
    #[must_use]
    pub fn session_facts_age(mut self, age: Duration) -> Self {
        self.session_facts_age = age;
        self
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// How many replicas are waited for, and how long; `None` for no wait.
    pub(crate) fn quorum(&self) -> Option<Quorum> {
        let within = (self.deadline / 4).max(Duration::from_millis(1));
        (self.replicas > 0).then_some(Quorum { replicas: self.replicas, within })
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.topology == Topology::Cluster
    }

    /// Checks the options and reads the addresses.
    pub(crate) fn addresses(&self) -> Result<Vec<ConnectionInfo>, ConnectErr> {
        self.check()?;
        let addresses: Vec<ConnectionInfo> =
            self.urls.iter().map(|url| self.address(url)).collect::<Result<_, _>>()?;
        let option = match (&self.root_certificate, &self.client_certificate) {
            (Some(_), _) => "root_certificate",
            (None, Some(_)) => "client_certificate",
            (None, None) => return Ok(addresses),
        };
        // Who gives certificates does not expect that passwords go over the network as they are.
        let plain = |info: &ConnectionInfo| !matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        if addresses.iter().any(plain) {
            let reason = "it needs addresses with rediss://".to_owned();
            return Err(ConnectErr::InvalidOption { option, reason });
        }
        Ok(addresses)
    }

    fn check(&self) -> Result<(), ConnectErr> {
        let wrong = |option, reason: &str| {
            Err(ConnectErr::InvalidOption { option, reason: reason.to_owned() })
        };
        let braces = |c: char| c.is_control() || matches!(c, '{' | '}');
        if self.namespace.is_empty() || self.namespace.len() > 64 || self.namespace.contains(braces)
        {
            return wrong(
                "namespace",
                "it must have 1 to 64 bytes, no brace, no control character",
            );
        }
        if self.shards == 0 || self.shards > 16_384 {
            return wrong("shards", "it must be 1 to 16384");
        }
        let short = Duration::from_millis(10);
        if self.deadline < short || self.bulk_deadline < short {
            return wrong("deadline", "it must be at least 10 ms");
        }
        if self.push_queue == 0 || self.push_queue > 1 << 20 {
            return wrong("push_queue", "it must be 1 to 1048576");
        }
        if self.replicas > 0 && self.is_cluster() {
            return wrong(
                "replicas",
                "a Cluster's masters are not waited for one by one: leave it 0",
            );
        }
        if self.urls.is_empty() {
            return wrong("url", "at least one address is needed");
        }
        #[cfg(feature = "tls")]
        self.check_certificates()?;
        match &self.topology {
            _ if !cfg!(feature = "tls")
                && (self.root_certificate.is_some() || self.client_certificate.is_some()) =>
            {
                Err(ConnectErr::MissingFeature { feature: "tls" })
            }
            Topology::Cluster if !cfg!(feature = "cluster") => {
                Err(ConnectErr::MissingFeature { feature: "cluster" })
            }
            Topology::Sentinel { .. } if !cfg!(feature = "sentinel") => {
                Err(ConnectErr::MissingFeature { feature: "sentinel" })
            }
            _ => Ok(()),
        }
    }

    fn address(&self, url: &str) -> Result<ConnectionInfo, ConnectErr> {
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        let tls = matches!(scheme, "rediss" | "valkeys");
        if tls && !cfg!(feature = "tls") {
            return Err(ConnectErr::MissingFeature { feature: "tls" });
        }
        let invalid = |reason: &str| ConnectErr::InvalidUrl { reason: reason.to_owned() };
        if redis::parse_redis_url(url).is_none() {
            return Err(invalid("the scheme, host or port cannot be read"));
        }
        // The library's own words name the part that is wrong and never quote it.
        let info = url.into_connection_info().map_err(|error| {
            invalid(error.detail().map_or("it cannot be read", |_| "a part of it cannot be read"))
        })?;
        if info.redis_settings().db() < 0 {
            return Err(invalid("the database is below 0"));
        }
        let mut settings = info.redis_settings().clone().set_skip_set_lib_name();
        if let Some(username) = &self.username {
            settings = settings.set_username(username);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true).set_keepalive(
            redis::io::tcp::socket2::TcpKeepalive::new().with_time(Duration::from_secs(10)),
        );
        #[cfg(target_os = "linux")]
        let tcp = tcp.set_user_timeout(Duration::from_secs(10));
        Ok(info.set_tcp_settings(tcp).set_redis_settings(settings))
    }

    /// Connects and checks the server: version, rights, eviction policy and what the namespace holds.
    /// Takes at most 3 s.
    ///
    /// # Errors
    /// [`ConnectErr`] names what is wrong and what to change.
    pub(crate) async fn open(self) -> Result<Link, ConnectErr> {
        let connector = Connector::open(self).await?;
        Link::start(connector).await
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The addresses may hold a password anywhere, also where it does not belong, so only what could
        // be read is shown.
        let addresses: Vec<String> = self
            .urls
            .iter()
            .map(|url| match url.as_str().into_connection_info() {
                Ok(info) => info.addr().to_string(),
                Err(_) => "unreadable".into(),
            })
            .collect();
        f.debug_struct("RedisConfig")
            .field("addresses", &addresses)
            .field("topology", &self.topology)
            .field("username", &self.username.as_ref().map(|_| "***"))
            .field("password", &self.password.as_ref().map(|_| "***"))
            .field("root_certificate", &self.root_certificate.is_some())
            .field("client_certificate", &self.client_certificate.is_some())
            .field("namespace", &self.namespace)
            .field("shards", &self.shards)
            .field("deadline", &self.deadline)
            .field("bulk_deadline", &self.bulk_deadline)
            .field("push_queue", &self.push_queue)
            .field("replicas", &self.replicas)
            .field("limits", &self.limits)
            .field("session_facts_age", &self.session_facts_age)
            .finish()
    }
}
