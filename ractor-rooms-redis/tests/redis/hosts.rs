//! Hosts over one store, each with connections of its own, as between processes.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use ractor::rpc::CallResult;
use ractor_rooms::{
    HostConfig, MigrateTo, MigrationErr, MigrationReport, Reply, RoomFault, RoomHost, RoomRef,
};
use ractor_rooms_redis::RedisConfig;
use serde::de::DeserializeOwned;

use crate::ledger::{Class, Durable, Knobs, Ledger, LedgerMsg, Live, Note};

/// Longer than this nothing may take. Far above what anything does take, because machines are busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// Waits for a future that must end.
pub(crate) async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(value) => value,
        Err(_) => panic!("not within {PATIENCE:?}: {what}"),
    }
}

/// Looks again and again until there is something to see.
pub(crate) async fn eventually<T, F>(what: &str, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let search = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time(what, search).await
}

/// Retries are quick, and what ends in an error is slow.
pub(crate) fn test_config() -> HostConfig {
    HostConfig {
        session_ttl: Duration::from_secs(10),
        store_timeout: Duration::from_secs(5),
        retry_interval: Duration::from_millis(10),
        send_timeout: Duration::from_secs(30),
        call_timeout: Duration::from_secs(30),
        freeze_timeout: Duration::from_secs(20),
        offer_timeout: Duration::from_secs(20),
        restore_timeout: Duration::from_secs(20),
        sweep_interval: Duration::from_millis(100),
        idle_timeout: None,
        ..HostConfig::default()
    }
}

/// Hosts of one app. All run ledgers of both classes.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    pub(crate) hosts: Vec<RoomHost>,
    pub(crate) knobs: Knobs,
    faults: Arc<Mutex<Vec<RoomFault>>>,
}

impl Hosts {
    /// A host of each name.
    pub(crate) async fn of(store: &RedisConfig, names: &[&str]) -> Self {
        let mut hosts = Self::default();
        for name in names {
            hosts.add(name, store, |_| ()).await;
        }
        hosts
    }

    /// Starts another one; its place.
    pub(crate) async fn add(
        &mut self,
        name: &str,
        store: &RedisConfig,
        change: impl FnOnce(&mut HostConfig),
    ) -> usize {
        let transport = store.clone().connect().await.expect("the store is reached");
        let faults = self.faults.clone();
        let builder = RoomHost::builder(name, transport)
            .config(test_config())
            .configure(change)
            .room(Ledger::<Live>::new(name, &self.knobs))
            .room(Ledger::<Durable>::new(name, &self.knobs))
            .on_fault(move |fault| faults.lock().push(fault.clone()));
        let host = in_time("a host starts", builder.start()).await.expect("a host starts");
        self.hosts.push(host);
        self.hosts.len() - 1
    }

    /// What the error hooks heard.
    pub(crate) fn faults(&self) -> Vec<RoomFault> {
        self.faults.lock().clone()
    }

    /// A ledger, by way of a host.
    pub(crate) fn ledger<C: Class>(&self, via: usize, key: &[u8]) -> RoomRef<Ledger<C>> {
        self.hosts[via].room(key.to_vec())
    }

    /// Asks a host to move a ledger.
    pub(crate) async fn migrate<C: Class>(
        &self,
        via: usize,
        key: &[u8],
        to: usize,
    ) -> Result<MigrationReport, MigrationErr> {
        let target = self.hosts[to].id().as_str();
        let request = MigrateTo::host(C::KIND, key.to_vec(), target);
        in_time("a move ends", self.hosts[via].migrate(request)).await
    }

    /// Starts a ledger if need be, and sees to it that it runs on this host.
    pub(crate) async fn place<C: Class>(&self, key: &[u8], on: usize) {
        let found = place(&self.ledger::<C>(on, key)).await;
        if found != self.hosts[on].id().as_str() {
            self.migrate::<C>(on, key, on).await.expect("the room is moved to its place");
        }
        self.until_on::<C>(key, on).await;
    }

    /// Waits until a ledger runs on this host and on no other.
    pub(crate) async fn until_on<C: Class>(&self, key: &[u8], on: usize) {
        eventually("the room runs where it should", || async {
            (self.runs_on::<C>(key).await == [on]).then_some(())
        })
        .await;
    }

    /// The hosts that say that they run a ledger. A host that was killed runs none.
    pub(crate) async fn runs_on<C: Class>(&self, key: &[u8]) -> Vec<usize> {
        let mut runs = Vec::new();
        for (index, host) in self.hosts.iter().enumerate() {
            let rooms = host.rooms().await.unwrap_or_default();
            let named = |room: &ractor_rooms::id::RoomId| {
                room.kind.as_str() == C::KIND && room.key.as_bytes() == key
            };
            if rooms.iter().any(named) {
                runs.push(index);
            }
        }
        runs
    }

    /// Stops every host that still runs.
    pub(crate) async fn stop(self) {
        for host in self.hosts {
            in_time("a host stops", host.shutdown()).await.expect("a host stops");
        }
    }
}

/// Calls a ledger that must answer.
pub(crate) async fn ask<C: Class, T: DeserializeOwned + Send + 'static>(
    room: &RoomRef<Ledger<C>>,
    message: impl FnOnce(Reply<T>) -> LedgerMsg,
) -> T {
    match room.call(message, Some(PATIENCE)).await {
        Ok(CallResult::Success(answer)) => answer,
        Ok(CallResult::Timeout) => panic!("{room:?} did not answer within {PATIENCE:?}"),
        Ok(CallResult::SenderError) => panic!("{room:?} dropped the call"),
        Err(error) => panic!("{room:?} refused the call: {error}"),
    }
}

/// What a ledger wrote down.
pub(crate) async fn notes<C: Class>(room: &RoomRef<Ledger<C>>) -> Vec<Note> {
    ask(room, LedgerMsg::Notes).await
}

/// Where a ledger says that it is.
pub(crate) async fn place<C: Class>(room: &RoomRef<Ledger<C>>) -> String {
    ask(room, LedgerMsg::Place).await
}
