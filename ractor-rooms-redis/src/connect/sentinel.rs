//! Asks Sentinels where the master is.

use std::collections::HashMap;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use redis::{ConnectionAddr, ConnectionInfo, RedisConnectionInfo};

use super::{CONNECT, Connector, diagnose};
use crate::error::ConnectErr;
use crate::link::Conn;

/// How long the other Sentinels have after the first one answered.
const OTHERS: Duration = Duration::from_millis(100);

/// What a Sentinel says of the master.
struct Named {
    host: String,
    port: u16,
    /// Rises with each failover.
    config_epoch: u64,
}

impl Connector {
    /// Where the master is now. All Sentinels are asked and the newest answer counts: one that was cut
    /// off from the others may still name the master before.
    pub(super) async fn ask_sentinels(&self, master: &str) -> Result<ConnectionInfo, ConnectErr> {
        let mut asked: FuturesUnordered<_> =
            self.addresses.iter().map(|sentinel| self.ask_sentinel(sentinel, master)).collect();
        let mut failures = Vec::new();
        let mut newest = loop {
            match asked.next().await {
                Some(Ok(named)) => break named,
                Some(Err(error)) => failures.push(error),
                None => return Err(no_master(master, failures)),
            }
        };
        let others = async {
            while let Some(answer) = asked.next().await {
                match answer {
                    Ok(named) if named.config_epoch > newest.config_epoch => newest = named,
                    Ok(_) | Err(_) => {}
                }
            }
        };
        // One that does not answer must not delay what another knows.
        let _ = tokio::time::timeout(OTHERS, others).await;
        let Named { host, port, .. } = newest;
        let first = &self.addresses[0];
        let addr = match first.addr() {
            ConnectionAddr::TcpTls { insecure, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: None }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        Ok(first.clone().set_addr(addr))
    }

    async fn ask_sentinel(
        &self,
        sentinel: &ConnectionInfo,
        master: &str,
    ) -> Result<Named, ConnectErr> {
        let mut conn = self.connect_sentinel(sentinel).await?;
        let address = sentinel.addr().to_string();
        let failed = |reason| ConnectErr::Sentinel { master: master.to_owned(), reason };
        let mut command = redis::cmd("SENTINEL");
        command.arg("MASTER").arg(master);
        let answer = match tokio::time::timeout(CONNECT, conn.ask(&command)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                return Err(failed(format!("{address} says {}", diagnose::words(&error))));
            }
            Err(_) => return Err(ConnectErr::Silent { address, waited: CONNECT }),
        };
        let fields: HashMap<String, String> = redis::from_redis_value(answer).unwrap_or_default();
        let port = fields.get("port").and_then(|port| port.parse().ok());
        let (Some(host), Some(port)) = (fields.get("ip"), port) else {
            return Err(failed(format!("{address} names no address")));
        };
        let config_epoch = fields.get("config-epoch").and_then(|epoch| epoch.parse().ok());
        Ok(Named { host: host.clone(), port, config_epoch: config_epoch.unwrap_or(0) })
    }

    /// User and password are often the master's alone, and a Sentinel without any refuses them.
    async fn connect_sentinel(&self, sentinel: &ConnectionInfo) -> Result<Conn, ConnectErr> {
        let settings = sentinel.redis_settings().clone().set_db(0);
        let has_password = settings.password().is_some();
        let target = sentinel.clone().set_redis_settings(settings);
        match self.connect_node(&target, None).await {
            Err(refused @ ConnectErr::Authentication { .. }) if has_password => {
                let open = RedisConnectionInfo::default().set_skip_set_lib_name();
                let mut conn =
                    self.connect_node(&sentinel.clone().set_redis_settings(open), None).await?;
                // Without a password a connection is refused at its first command only.
                match tokio::time::timeout(CONNECT, conn.ask(&redis::cmd("PING"))).await {
                    Ok(Ok(_)) => Ok(conn),
                    Ok(Err(_)) | Err(_) => Err(refused),
                }
            }
            connected => connected,
        }
    }
}

/// Why no Sentinel named a master. An error that all have in common says the remedy better.
fn no_master(master: &str, mut failures: Vec<ConnectErr>) -> ConnectErr {
    let reasons: Vec<String> = failures
        .iter()
        .map(|failure| match failure {
            ConnectErr::Sentinel { reason, .. } => reason.clone(),
            other => other.to_string(),
        })
        .collect();
    match failures.pop() {
        Some(only) if failures.is_empty() && !matches!(only, ConnectErr::Sentinel { .. }) => only,
        Some(_) | None => {
            ConnectErr::Sentinel { master: master.to_owned(), reason: reasons.join("; ") }
        }
    }
}
