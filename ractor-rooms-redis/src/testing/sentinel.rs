//! A master, its replica and three Sentinels of one's own.

use std::collections::HashMap;
use std::time::Duration;

use redis::aio::MultiplexedConnection;

use super::error::ServerErr;
use super::server::{PrivateServer, ServerOptions, quoted};

const SENTINELS: usize = 3;
/// How often and how many times the servers are asked whether they know each other: 20 s in all.
const POLL: Duration = Duration::from_millis(50);
const POLLS: usize = 400;

/// A master, its replica and three Sentinels on the loopback, which end when this is dropped.
#[derive(Debug)]
pub struct PrivateSentinel {
    servers: Vec<PrivateServer>,
    sentinels: Vec<PrivateServer>,
}

impl PrivateSentinel {
    /// The name of the master.
    pub const MASTER: &'static str = "main";

    /// Starts all five and waits until the Sentinels agree that a failover is possible.
    ///
    /// # Errors
    /// [`ServerErr`] when they do not come up or do not find each other within 20 s.
    pub async fn start() -> Result<Self, ServerErr> {
        Self::start_with(None).await
    }

    /// The same; master and replica ask for a password and the Sentinels do not.
    ///
    /// # Errors
    /// [`ServerErr`] when they do not come up or do not find each other within 20 s.
    pub async fn start_with_password(password: &str) -> Result<Self, ServerErr> {
        Self::start_with(Some(password)).await
    }

    async fn start_with(password: Option<&str>) -> Result<Self, ServerErr> {
        let options = || match password {
            Some(password) => ServerOptions::default()
                .password(password)
                .line(format!("masterauth {}", quoted(password))),
            None => ServerOptions::default(),
        };
        // Without a pause before a replica gets the data.
        let master =
            PrivateServer::start_with(options().line("repl-diskless-sync-delay 0")).await?;
        let replica_of = format!("replicaof 127.0.0.1 {}", master.port());
        let replica = PrivateServer::start_with(
            options().line(replica_of).line("repl-diskless-sync-delay 0"),
        )
        .await?;
        let mut this = Self { servers: vec![master, replica], sentinels: Vec::new() };
        // Before the Sentinels come: they ask the master for its replicas at once, and then seldom.
        this.until_in_sync(password).await?;
        let name = Self::MASTER;
        for _ in 0..SENTINELS {
            let mut sentinel = ServerOptions::default()
                .sentinel()
                .line(format!("sentinel monitor {name} 127.0.0.1 {} 2", this.servers[0].port()))
                .line(format!("sentinel down-after-milliseconds {name} 1000"))
                .line(format!("sentinel failover-timeout {name} 6000"));
            if let Some(password) = password {
                sentinel = sentinel.line(format!("sentinel auth-pass {name} {}", quoted(password)));
            }
            this.sentinels.push(PrivateServer::start_with(sentinel).await?);
        }
        this.until_known().await?;
        Ok(this)
    }

    /// Where the Sentinels are.
    pub fn urls(&self) -> Vec<String> {
        self.sentinels.iter().map(PrivateServer::url).collect()
    }

    /// The server that was the master at the start, and the one that was its replica.
    pub fn servers_mut(&mut self) -> &mut [PrivateServer] {
        &mut self.servers
    }

    /// The Sentinels.
    pub fn sentinels_mut(&mut self) -> &mut [PrivateServer] {
        &mut self.sentinels
    }

    /// Asks the first Sentinel to make the replica the master. Answers before it is done.
    ///
    /// # Errors
    /// [`ServerErr::NoSentinel`] when it refuses, as it does while another one goes on.
    pub async fn fail_over(&self) -> Result<(), ServerErr> {
        let mut conn = connect(&self.sentinels[0], None).await?;
        let mut command = redis::cmd("SENTINEL");
        command.arg("FAILOVER").arg(Self::MASTER);
        command.exec_async(&mut conn).await.map_err(no_sentinel)
    }

    async fn until_in_sync(&self, password: Option<&str>) -> Result<(), ServerErr> {
        let mut conn = connect(&self.servers[1], password).await?;
        let mut reason = String::new();
        for _ in 0..POLLS {
            let mut command = redis::cmd("INFO");
            command.arg("replication");
            reason = command.query_async(&mut conn).await.map_err(no_sentinel)?;
            if reason.contains("master_link_status:up") {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        Err(ServerErr::NoSentinel { reason })
    }

    async fn until_known(&self) -> Result<(), ServerErr> {
        let mut conns = Vec::new();
        for sentinel in &self.sentinels {
            conns.push(connect(sentinel, None).await?);
        }
        let mut reason = String::new();
        for _ in 0..POLLS {
            let mut ready = 0;
            for conn in &mut conns {
                let master = state(conn).await.map_err(no_sentinel)?;
                let is = |field: &str, value: &str| master.get(field).is_some_and(|is| is == value);
                if is("flags", "master")
                    && is("num-slaves", "1")
                    && is("num-other-sentinels", &(SENTINELS - 1).to_string())
                {
                    ready += 1;
                } else {
                    reason = format!("{master:?}");
                }
            }
            if ready == SENTINELS {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        Err(ServerErr::NoSentinel { reason })
    }
}

async fn state(conn: &mut MultiplexedConnection) -> redis::RedisResult<HashMap<String, String>> {
    let mut command = redis::cmd("SENTINEL");
    command.arg("MASTER").arg(PrivateSentinel::MASTER).query_async(conn).await
}

async fn connect(
    server: &PrivateServer,
    password: Option<&str>,
) -> Result<MultiplexedConnection, ServerErr> {
    use redis::IntoConnectionInfo as _;

    let mut info = server.url().into_connection_info().map_err(no_sentinel)?;
    if let Some(password) = password {
        let settings = info.redis_settings().clone().set_password(password);
        info = info.set_redis_settings(settings);
    }
    let client = redis::Client::open(info).map_err(no_sentinel)?;
    client.get_multiplexed_async_connection().await.map_err(no_sentinel)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn no_sentinel(error: redis::RedisError) -> ServerErr {
    ServerErr::NoSentinel { reason: error.to_string() }
}
