//! What is checked of a server at the start.

use std::time::Duration;

use redis::{ServerError, Value};

use super::{Connector, diagnose};
use crate::error::ConnectErr;
use crate::link::Conn;

/// The version of the protocol: what the keys and scripts mean.
pub(crate) const PROTOCOL: u32 = 1;

/// Runs every command that the scripts use on a key of its own and answers the first refusal.
const RIGHTS: &str = include_str!("rights.lua");
/// Records the version and the shards, unless they are, and answers what is recorded.
const CONFIG: &str = "redis.call('HSETNX', KEYS[1], 'protocol', ARGV[1]) \
    redis.call('HSETNX', KEYS[1], 'shards', ARGV[2]) \
    return redis.call('HMGET', KEYS[1], 'protocol', 'shards')";

/// The value of a field of `INFO`.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_end)
}

impl Connector {
    /// Everything that is checked before a host starts.
    pub(super) async fn check(&self) -> Result<(), ConnectErr> {
        if self.config.is_cluster() {
            self.check_seeds().await?;
        }
        let mut conn = self.connect(None).await?;
        self.check_server(&mut conn).await?;
        self.check_eviction(&mut conn).await?;
        self.check_rights(&mut conn).await?;
        self.check_config(&mut conn).await?;
        self.check_replicas(&mut conn).await?;
        self.look(&conn).await?;
        self.check_pushes().await
    }

    /// A cluster's client library fails with little to say, so the first address that answers is asked
    /// by itself.
    async fn check_seeds(&self) -> Result<(), ConnectErr> {
        let mut failure = None;
        for address in &self.addresses {
            match self.connect_node(address, None).await {
                Ok(mut conn) => return self.check_server(&mut conn).await,
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    async fn check_server(&self, conn: &mut Conn) -> Result<(), ConnectErr> {
        let address = self.address();
        let infos = conn.info().await.map_err(|error| diagnose::refusal(&error, &address))?;
        for info in &infos {
            let Some(version) = field(info, "redis_version") else {
                return Err(ConnectErr::NotRedis { address });
            };
            let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
            if major.is_none_or(|major| major < 7) {
                return Err(ConnectErr::ServerTooOld { found: version.to_owned() });
            }
            let cluster = field(info, "cluster_enabled") == Some("1");
            match (cluster, self.config.is_cluster()) {
                (true, false) => return Err(ConnectErr::IsCluster { address }),
                (false, true) => return Err(ConnectErr::NotCluster { address }),
                (true, true) | (false, false) => {}
            }
        }
        Ok(())
    }

    async fn check_eviction(&self, conn: &mut Conn) -> Result<(), ConnectErr> {
        let mut command = redis::cmd("CONFIG");
        command.arg("GET").arg("maxmemory-policy");
        let policies = match conn.ask(&command).await {
            Ok(value) => texts(&value),
            Err(error) => {
                tracing::warn!(
                    error = diagnose::words(&error),
                    "the server does not tell its maxmemory-policy: make sure that it is noeviction"
                );
                return Ok(());
            }
        };
        match policies.iter().find(|text| *text != "maxmemory-policy" && *text != "noeviction") {
            Some(found) => Err(ConnectErr::EvictionPolicy { found: found.clone() }),
            None => Ok(()),
        }
    }

    async fn check_rights(&self, conn: &mut Conn) -> Result<(), ConnectErr> {
        let address = self.address();
        let probe = format!("{}:{{s0000}}:probe", self.config.namespace);
        let publish = if self.config.is_cluster() { "SPUBLISH" } else { "PUBLISH" };
        let mut command = redis::cmd("EVAL");
        command.arg(RIGHTS).arg(1).arg(&probe).arg(publish);
        let refused =
            conn.ask(&command).await.map_err(|error| diagnose::refusal(&error, &address))?;
        let refused = texts(&refused);
        if !refused.is_empty() {
            return Err(ConnectErr::MissingRight { right: refused.join(": ") });
        }
        // EVALSHA is a right of its own; a script that is not there is the answer hoped for.
        let mut command = redis::cmd("EVALSHA");
        command.arg("0".repeat(40)).arg(1).arg(&probe);
        match conn.ask(&command).await {
            Err(error) if error.code() != Some("NOSCRIPT") => {
                Err(diagnose::refusal(&error, &address))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn check_config(&self, conn: &mut Conn) -> Result<(), ConnectErr> {
        let key = format!("{}:config", self.config.namespace);
        let mut command = redis::cmd("EVAL");
        command.arg(CONFIG).arg(1).arg(&key).arg(PROTOCOL).arg(self.config.shards);
        let stored = conn.ask(&command).await.map_err(|error| match error.code() {
            Some("WRONGTYPE") => ConnectErr::WrongType { key: key.clone(), expected: "hash" },
            _ => diagnose::refusal(&error, &self.address()),
        })?;
        let stored = texts(&stored);
        let [protocol, shards] = stored.as_slice() else {
            return Err(ConnectErr::WrongType { key, expected: "hash" });
        };
        if *protocol != PROTOCOL.to_string() {
            return Err(ConnectErr::ProtocolVersion { stored: protocol.clone(), spoken: PROTOCOL });
        }
        if *shards != self.config.shards.to_string() {
            let configured = self.config.shards;
            return Err(ConnectErr::ShardCount { stored: shards.clone(), configured });
        }
        self.check_hosts(conn).await
    }

    async fn check_replicas(&self, conn: &mut Conn) -> Result<(), ConnectErr> {
        let Some(mut quorum) = self.config.quorum() else { return Ok(()) };
        quorum.within = quorum.within.min(Duration::from_secs(1));
        let address = self.address();
        match conn.ask(&quorum.wait()).await {
            Ok(answer) if quorum.lacks(&answer).is_none() => Ok(()),
            Ok(Value::Int(found)) => {
                Err(ConnectErr::TooFewReplicas { address, found, configured: quorum.replicas })
            }
            Ok(_) => Err(ConnectErr::NotRedis { address }),
            Err(error) => Err(diagnose::refusal(&error, &address)),
        }
    }

    /// The one other key that all hosts share and no room owns.
    async fn check_hosts(&self, conn: &mut Conn) -> Result<(), ConnectErr> {
        let key = format!("{}:hosts", self.config.namespace);
        let mut command = redis::cmd("TYPE");
        command.arg(&key);
        let found =
            conn.ask(&command).await.map_err(|error| diagnose::refusal(&error, &self.address()))?;
        match texts(&found).first().map(String::as_str) {
            Some("none" | "zset") => Ok(()),
            Some(_) | None => Err(ConnectErr::WrongType { key, expected: "sorted set" }),
        }
    }

    async fn check_pushes(&self) -> Result<(), ConnectErr> {
        let mut conn = self.connect(Some(std::sync::Arc::new(|_| Ok(())))).await?;
        let probe = format!("{}:{{s0000}}:probe", self.config.namespace).into();
        conn.subscribe(&[probe]).await.map_err(|error| diagnose::refusal(&error, &self.address()))
    }
}

/// The texts in an answer, however nested.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::BulkString(bytes) => vec![String::from_utf8_lossy(bytes).into_owned()],
        Value::SimpleString(text) => vec![text.clone()],
        Value::Array(items) | Value::Set(items) => items.iter().flat_map(texts).collect(),
        Value::Map(pairs) => {
            pairs.iter().flat_map(|(key, value)| [texts(key), texts(value)]).flatten().collect()
        }
        Value::ServerError(error) => vec![server_words(error)],
        _ => Vec::new(),
    }
}

fn server_words(error: &ServerError) -> String {
    format!("{} {}", error.code(), error.details().unwrap_or_default())
}
