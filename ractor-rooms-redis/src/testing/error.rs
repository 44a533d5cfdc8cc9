//! Why a private server did not come up.

use std::io;

use thiserror::Error;

/// Why a private server did not come up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerErr {
    /// There is no `redis-server`.
    #[error(
        "redis-server is not installed: install it with your package manager (redis-server, redis), or give the address of a server that runs"
    )]
    NotInstalled,
    /// The operating system refused something.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// It ended, or did not answer in time.
    #[error("redis-server did not come up; the end of its log: {log}")]
    DidNotStart {
        /// The end of its log.
        log: String,
    },
    /// The Sentinels did not find each other, the master and its replica in time.
    #[error("the Sentinels do not know each other and both servers: {reason}")]
    NoSentinel {
        /// What the last of them said.
        reason: String,
    },
    /// The servers did not become a cluster in time.
    #[error("the servers did not become a cluster: {reason}")]
    NoCluster {
        /// What the last of them said.
        reason: String,
    },
}

/// Names what was tried.
pub(super) fn io(what: &'static str) -> impl FnOnce(io::Error) -> ServerErr {
    move |source| ServerErr::Io { what, source }
}
