//! Three masters of one's own.

use std::time::Duration;

use super::error::ServerErr;
use super::server::{PrivateServer, ServerOptions};

const MASTERS: u16 = 3;
const SLOTS: u16 = 16_384;
/// How often and how many times the servers are asked whether they are one cluster: 20 s in all.
const POLL: Duration = Duration::from_millis(50);
const POLLS: usize = 400;

/// A Redis Cluster of three masters on the loopback, which ends when this is dropped.
#[derive(Debug)]
pub struct PrivateCluster {
    servers: Vec<PrivateServer>,
}

impl PrivateCluster {
    /// Starts three servers, gives each a third of the slots and waits until all agree.
    ///
    /// # Errors
    /// [`ServerErr`] when they do not come up or do not become one cluster within 20 s.
    pub async fn start() -> Result<Self, ServerErr> {
        let mut servers = Vec::new();
        for _ in 0..MASTERS {
            servers.push(PrivateServer::start_with(ServerOptions::default().cluster()).await?);
        }
        let cluster = Self { servers };
        cluster.form().await?;
        Ok(cluster)
    }

    /// Where its nodes are.
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(PrivateServer::url).collect()
    }

    /// Its servers.
    pub fn servers_mut(&mut self) -> &mut [PrivateServer] {
        &mut self.servers
    }

    async fn form(&self) -> Result<(), ServerErr> {
        let mut conns = Vec::new();
        for server in &self.servers {
            conns.push(server.connect(None).await.map_err(no_cluster)?);
        }
        let third = SLOTS / MASTERS;
        let mut first = 0;
        for (index, conn) in (1..=MASTERS).zip(&mut conns) {
            let last = if index == MASTERS { SLOTS - 1 } else { first + third };
            let mut command = redis::cmd("CLUSTER");
            command.arg("ADDSLOTSRANGE").arg(first).arg(last);
            command.exec_async(conn).await.map_err(no_cluster)?;
            first = last + 1;
        }
        let bus_port: u16 = {
            let mut command = redis::cmd("CONFIG");
            command.arg("GET").arg("cluster-port");
            let answer: (String, u16) =
                command.query_async(&mut conns[0]).await.map_err(no_cluster)?;
            answer.1
        };
        let met = self.servers[0].port();
        for conn in &mut conns[1..] {
            let mut command = redis::cmd("CLUSTER");
            command.arg("MEET").arg("127.0.0.1").arg(met).arg(bus_port);
            command.exec_async(conn).await.map_err(no_cluster)?;
        }
        let mut reason = String::new();
        for _ in 0..POLLS {
            let mut agreed = 0;
            for conn in &mut conns {
                let mut command = redis::cmd("CLUSTER");
                command.arg("INFO");
                let info: String = command.query_async(conn).await.map_err(no_cluster)?;
                let known = format!("cluster_known_nodes:{MASTERS}");
                if info.contains("cluster_state:ok")
                    && info.contains(&known)
                    && info.contains("cluster_slots_ok:16384")
                {
                    agreed += 1;
                } else {
                    reason = info;
                }
            }
            if agreed == MASTERS {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        Err(ServerErr::NoCluster { reason })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn no_cluster(error: redis::RedisError) -> ServerErr {
    ServerErr::NoCluster { reason: error.to_string() }
}
