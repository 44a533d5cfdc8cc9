//! How fast the store answers when nothing is asked of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ractor_rooms::clock::Clock;
use redis::aio::MultiplexedConnection;
use serde::Serialize;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::address::Address;
use super::percentile::percentile;

/// How often the store is pinged.
const EVERY: Duration = Duration::from_millis(20);
/// How long after a failure it is tried again.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// The pings that are remembered: the last 20 minutes.
const REMEMBERED: usize = 1 << 16;

/// How long the store took to answer a PING, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PingMicros {
    /// The median.
    pub(crate) p50: u64,
}

impl PingMicros {
    fn of(pings: impl IntoIterator<Item = u64>) -> Option<Self> {
        let mut pings: Vec<u64> = pings.into_iter().collect();
        pings.sort_unstable();
        (!pings.is_empty()).then(|| Self { p50: percentile(&pings, 50) })
    }
}

/// Pings a store on a connection of its own until it is finished or dropped.
#[derive(Debug)]
pub(crate) struct Pinger {
    pings: Arc<Mutex<VecDeque<u64>>>,
    task: JoinHandle<()>,
}

impl Pinger {
    /// Begins.
    pub(crate) fn start(address: Address) -> Self {
        let pings = Arc::default();
        let task = tokio::spawn(ping(address, Arc::clone(&pings)));
        Self { pings, task }
    }

    /// What was measured; nothing if the store never answered.
    pub(crate) fn finish(self) -> Option<PingMicros> {
        let pings = std::mem::take(&mut *self.pings.lock().unwrap_or_else(PoisonError::into_inner));
        PingMicros::of(pings)
    }
}

impl Drop for Pinger {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn ping(address: Address, pings: Arc<Mutex<VecDeque<u64>>>) {
    loop {
        let failure = match address.connection().await {
            Ok(connection) => keep_pinging(connection, &pings).await,
            Err(failure) => failure,
        };
        tracing::debug!(%failure, "a ping was not answered");
        sleep(AFTER_FAILURE).await;
    }
}

/// Returns only with a failure.
async fn keep_pinging(
    mut connection: MultiplexedConnection,
    pings: &Mutex<VecDeque<u64>>,
) -> redis::RedisError {
    let clock = Clock::system();
    loop {
        let sent = clock.mark();
        if let Err(failure) = redis::cmd("PING").exec_async(&mut connection).await {
            return failure;
        }
        let took = clock.elapsed_since(sent).as_micros().try_into().unwrap_or(u64::MAX);
        {
            let mut pings = pings.lock().unwrap_or_else(PoisonError::into_inner);
            if pings.len() == REMEMBERED {
                pings.pop_front();
            }
            pings.push_back(took);
        }
        sleep(EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_what_was_measured() {
        assert_eq!(PingMicros::of([9, 1, 5]), Some(PingMicros { p50: 5 }));
        assert_eq!(PingMicros::of([]), None);
    }
}
