//! Why a store cannot be used.

use std::time::Duration;

use thiserror::Error;

/// Why a store cannot be used. Each says what to change; none holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectErr {
    /// The address cannot be read.
    #[error(
        "the address is no Redis URL: {reason}; write redis://[user:password@]host[:port][/database], with special characters of the password percent-encoded or given to `RedisConfig::password`"
    )]
    InvalidUrl {
        /// What is wrong with it.
        reason: String,
    },
    /// An option has a value that cannot be.
    #[error("the option `{option}` cannot be used: {reason}")]
    InvalidOption {
        /// The option.
        option: &'static str,
        /// What it must be.
        reason: String,
    },
    /// The address asks for what this build does not have.
    #[error("this needs the feature `{feature}` of ractor-rooms-redis, which is not enabled")]
    MissingFeature {
        /// The feature.
        feature: &'static str,
    },
    /// Nothing answers there.
    #[error(
        "no server can be reached at {address}: {reason}; check host, port and firewall, and that the server runs"
    )]
    Unreachable {
        /// Where was looked.
        address: String,
        /// What the operating system or resolver said.
        reason: String,
    },
    /// Something is there and does not answer.
    #[error(
        "the server at {address} did not answer within {waited:?}; check that it is a Redis server and not overloaded"
    )]
    Silent {
        /// Where was looked.
        address: String,
        /// How long was waited.
        waited: Duration,
    },
    /// Something is there and ends every connection.
    #[error(
        "the server at {address} closed the connection without an answer; check that it is a Redis server, its `maxclients` and `protected-mode`, and what lies between"
    )]
    HungUp {
        /// Where was looked.
        address: String,
    },
    /// User or password are wrong or missing.
    #[error(
        "the server at {address} refused the user or password ({code}); check `RedisConfig::username` and `RedisConfig::password`, or the part before `@` in the URL, where special characters must be percent-encoded"
    )]
    Authentication {
        /// Where.
        address: String,
        /// The server's error code.
        code: String,
    },
    /// The database does not exist.
    #[error(
        "the server at {address} has no database {database}; use a lower number, or raise `databases` in its configuration"
    )]
    Database {
        /// Where.
        address: String,
        /// The number that was asked for.
        database: i64,
    },
    /// The server speaks TLS.
    #[error("the server at {address} speaks TLS: use rediss:// (feature `tls`)")]
    TlsRequired {
        /// Where.
        address: String,
    },
    /// The server does not speak TLS.
    #[error("the server at {address} does not speak TLS: use redis://, or its TLS port")]
    TlsUnsupported {
        /// Where.
        address: String,
    },
    /// The TLS handshake failed.
    #[error("the TLS handshake with {address} failed: {reason}; check the certificates")]
    TlsHandshake {
        /// Where.
        address: String,
        /// What the TLS library said.
        reason: String,
    },
    /// What answers there is no Redis.
    #[error("what answers at {address} is no Redis server")]
    NotRedis {
        /// Where.
        address: String,
    },
    /// The server is too old.
    #[error("the server is version {found}; 7.0 or newer is needed (or Valkey)")]
    ServerTooOld {
        /// Its version.
        found: String,
    },
    /// The server may throw keys away.
    #[error(
        "the server's maxmemory-policy is {found}, which may evict rooms: set it to noeviction"
    )]
    EvictionPolicy {
        /// The policy.
        found: String,
    },
    /// Fewer replicas are in reach than are to be waited for.
    #[error(
        "the server at {address} reached {found} of {configured} replicas: start more of them, or lower `RedisConfig::replicas`"
    )]
    TooFewReplicas {
        /// The master.
        address: String,
        /// How many had all that was written, within 1 s.
        found: i64,
        /// How many are configured.
        configured: u8,
    },
    /// The user lacks a right.
    #[error("the user lacks a right: {right}; grant it with ACL SETUSER")]
    MissingRight {
        /// What was refused.
        right: String,
    },
    /// The store was made with another number of shards.
    #[error(
        "the store has {stored} shards and this host is configured for {configured}: set `RedisConfig::shards` to {stored}, or use another namespace"
    )]
    ShardCount {
        /// In the store.
        stored: String,
        /// Here.
        configured: u16,
    },
    /// The store is kept by another version of the protocol.
    #[error(
        "the store is kept by protocol version {stored} and this host speaks {spoken}: run hosts of one version, or use another namespace"
    )]
    ProtocolVersion {
        /// In the store.
        stored: String,
        /// Here.
        spoken: u32,
    },
    /// A key of the namespace is held by something else.
    #[error(
        "the key `{key}` is not a {expected}: something else uses this namespace; choose another with `RedisConfig::namespace`, or delete the key"
    )]
    WrongType {
        /// The key.
        key: String,
        /// What it must be.
        expected: &'static str,
    },
    /// The server belongs to a cluster.
    #[error(
        "the server at {address} runs in Cluster mode: use `RedisConfig::cluster`, or redis+cluster://"
    )]
    IsCluster {
        /// Where.
        address: String,
    },
    /// The server belongs to no cluster.
    #[error(
        "the server at {address} does not run in Cluster mode: use `RedisConfig::new`, or redis://"
    )]
    NotCluster {
        /// Where.
        address: String,
    },
    /// The server is a replica.
    #[error(
        "the server at {address} is a replica and takes no writes: use the address of its master, or Sentinel"
    )]
    Replica {
        /// Where.
        address: String,
    },
    /// Sentinel does not know the master.
    #[error(
        "no Sentinel named a reachable master `{master}`: {reason}; check the name and the addresses"
    )]
    Sentinel {
        /// The name of the group.
        master: String,
        /// What was said.
        reason: String,
    },
    /// Something else that the server refused.
    #[error("the server at {address} refused to serve: {reason}")]
    Refused {
        /// Where.
        address: String,
        /// What it said.
        reason: String,
    },
}
