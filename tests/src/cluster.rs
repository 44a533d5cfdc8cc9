//! Clusters of hosts in one process, over one store.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ractor::rpc::CallResult;
use ractor_rooms::clock::Clock;
use ractor_rooms::id::RoomId;
use ractor_rooms::protocol::record::{Record, RecordLimits};
use ractor_rooms::transport::Transport;
use ractor_rooms::{
    HostConfig, MemoryTransport, MigrateTo, MigrationErr, MigrationReport, Reply, RoomActor,
    RoomFault, RoomHost, RoomHostBuilder, RoomRef,
};
use serde::de::DeserializeOwned;

use crate::oracle::SenderId;
use crate::rooms::{Class, Durable, Knobs, Ledger, LedgerMsg, Live, Seen, Whereabouts};
use crate::wait::{PATIENCE, eventually, in_time};

/// The faults that the hosts of a cluster reported, and when.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<Vec<(Duration, RoomFault)>>>);

impl Faults {
    /// All so far.
    pub fn all(&self) -> Vec<RoomFault> {
        self.timed().into_iter().map(|(_, fault)| fault).collect()
    }

    /// All so far, with when each was reported.
    pub fn timed(&self) -> Vec<(Duration, RoomFault)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Hosts in this process. All run ledgers of both classes.
#[derive(Debug)]
pub struct Cluster {
    /// What they share.
    pub store: MemoryTransport,
    /// The hosts, named by [`host_name`].
    pub hosts: Vec<RoomHost>,
    /// What the tests do to the ledgers.
    pub knobs: Knobs,
    /// What the error hooks heard.
    pub faults: Faults,
}

/// The name of a host.
pub fn host_name(index: usize) -> String {
    format!("host-{index}")
}

/// Deadlines for tests: retries are quick, and what ends in an error is slow, because machines are busy.
pub fn test_config() -> HostConfig {
    HostConfig {
        session_ttl: Duration::from_secs(10),
        store_timeout: Duration::from_secs(10),
        retry_interval: Duration::from_millis(10),
        send_timeout: Duration::from_secs(30),
        call_timeout: Duration::from_secs(30),
        freeze_timeout: Duration::from_secs(20),
        offer_timeout: Duration::from_secs(20),
        restore_timeout: Duration::from_secs(20),
        sweep_interval: Duration::from_millis(50),
        idle_timeout: None,
        ..HostConfig::default()
    }
}

/// An empty store with the default bounds and a short rest after failed adoptions.
pub fn test_store() -> MemoryTransport {
    let limits = RecordLimits { blocked_ms: 500, ..RecordLimits::default() };
    MemoryTransport::with(limits, Clock::system())
}

impl Cluster {
    /// So many hosts.
    pub async fn of(hosts: usize) -> Self {
        Self::with(hosts, |_, builder| builder).await
    }

    /// So many hosts, each changed before it starts.
    pub async fn with(
        hosts: usize,
        change: impl Fn(usize, RoomHostBuilder) -> RoomHostBuilder,
    ) -> Self {
        let store = test_store();
        Self::over(store.clone(), store, hosts, Knobs::default(), change).await
    }

    /// The same over a transport that ends in `store`.
    ///
    /// # Panics
    /// When a host does not start.
    pub async fn over(
        store: MemoryTransport,
        transport: impl Transport + Clone,
        hosts: usize,
        knobs: Knobs,
        change: impl Fn(usize, RoomHostBuilder) -> RoomHostBuilder,
    ) -> Self {
        let mut cluster = Self { store, hosts: Vec::new(), knobs, faults: Faults::default() };
        for index in 0..hosts {
            let builder = cluster.builder(index, transport.clone());
            let started = in_time("a host starts", change(index, builder).start()).await;
            cluster.hosts.push(started.expect("a host starts"));
        }
        cluster
    }

    /// A host of this cluster, before it starts.
    pub fn builder(&self, index: usize, transport: impl Transport) -> RoomHostBuilder {
        let (name, clock, faults) = (host_name(index), Clock::system(), self.faults.clone());
        RoomHost::builder(name.clone(), transport)
            .config(test_config())
            .room(Ledger::<Live>::new(&name, &self.knobs))
            .room(Ledger::<Durable>::new(&name, &self.knobs))
            .on_fault(move |fault| {
                let mut faults = faults.0.lock().unwrap_or_else(PoisonError::into_inner);
                faults.push((clock.mark(), fault.clone()));
            })
    }

    /// A ledger, by way of a host.
    pub fn ledger<C: Class>(&self, via: usize, key: &str) -> RoomRef<Ledger<C>> {
        self.hosts[via].room(key.to_owned())
    }

    /// Asks a host to move a ledger.
    ///
    /// # Errors
    /// What the host says.
    pub async fn migrate<C: Class>(
        &self,
        via: usize,
        key: &str,
        to: usize,
    ) -> Result<MigrationReport, MigrationErr> {
        let request = MigrateTo::host(C::LEDGER, key.to_owned(), host_name(to));
        in_time("a move ends", self.hosts[via].migrate(request)).await
    }

    /// Starts a ledger, if need be, and sees to it that it runs on this host.
    ///
    /// # Panics
    /// When it does not come there.
    pub async fn place<C: Class>(&self, key: &str, on: usize) {
        let found = self.whereabouts::<C>(on, key).await;
        if found.host != host_name(on) {
            self.migrate::<C>(on, key, on).await.expect("the room is moved to its place");
        }
        self.until_on::<C>(on, key).await;
    }

    /// Waits until a ledger runs on this host and on no other, ready to be moved. It answers a little
    /// before.
    pub async fn until_on<C: Class>(&self, on: usize, key: &str) {
        eventually("the room runs where it should", || async {
            (self.runs_on::<C>(key).await == [on]).then_some(())
        })
        .await;
    }

    /// Where a ledger says that it is.
    pub async fn whereabouts<C: Class>(&self, via: usize, key: &str) -> Whereabouts {
        ask(&self.ledger::<C>(via, key), LedgerMsg::Whereabouts).await
    }

    /// The host on which a ledger says that it is.
    pub async fn host_of<C: Class>(&self, via: usize, key: &str) -> String {
        self.whereabouts::<C>(via, key).await.host
    }

    /// What a ledger wrote down.
    pub async fn notes<C: Class>(&self, via: usize, key: &str) -> Vec<(SenderId, u64)> {
        ask(&self.ledger::<C>(via, key), LedgerMsg::Notes).await
    }

    /// A ledger's record in the store; none before it was ever asked for.
    pub fn record<C: Class>(&self, key: &str) -> Option<Record> {
        let room = room_id::<C>(key);
        self.store.inspect(|store| store.record(&room).cloned())
    }

    /// The stored bytes of a ledger's snapshot.
    pub fn stored_snapshot<C: Class>(&self, key: &str) -> Option<Bytes> {
        let room = room_id::<C>(key);
        self.store.inspect(|store| {
            let pointer = store.record(&room)?.snapshot.clone()?;
            store.snapshot(&room, &pointer.key)
        })
    }

    /// The hosts that say that they run a ledger.
    ///
    /// # Panics
    /// When a host is stopped.
    pub async fn runs_on<C: Class>(&self, key: &str) -> Vec<usize> {
        let room = room_id::<C>(key);
        let mut runs = Vec::new();
        for (index, host) in self.hosts.iter().enumerate() {
            if host.rooms().await.expect("the host runs").contains(&room) {
                runs.push(index);
            }
        }
        runs
    }

    /// Sends a ledger a message whose handler hangs until [`Knobs::let_go`], as number 1 of sender 1, and
    /// waits until it does.
    ///
    /// # Panics
    /// When the message is refused.
    pub async fn hang<C: Class>(&self, via: usize, key: &str) {
        let room = self.ledger::<C>(via, key);
        room.send(LedgerMsg::Hang { from: 1, number: 1 }).await.expect("the message is accepted");
        eventually("the handler hangs", || async {
            (self.knobs.count(&Seen::Handled(1, 1)) > 0).then_some(())
        })
        .await;
    }

    /// Unloads a ledger that runs on a host, and waits until it rests.
    ///
    /// # Panics
    /// When it does not come to run there.
    pub async fn unload<C: Class>(&self, on: usize, key: &str) {
        self.until_on::<C>(on, key).await;
        let unloaded = self.hosts[on].unload::<Ledger<C>>(key.to_owned()).await;
        assert!(unloaded.expect("the host runs"), "the room runs on the host that shall unload it");
        eventually("the room rests", || async {
            self.record::<C>(key).filter(|record| record.owner.is_none()).map(|_| ())
        })
        .await;
    }

    /// Stops every host.
    ///
    /// # Panics
    /// When one does not stop.
    pub async fn stop(self) {
        for host in self.hosts {
            in_time("a host stops", host.shutdown()).await.expect("a host stops");
        }
    }
}

/// The id of a ledger.
///
/// # Panics
/// When the key is none.
pub fn room_id<C: Class>(key: &str) -> RoomId {
    RoomId::new(C::LEDGER, key.to_owned()).expect("a key")
}

/// Calls a room that must answer.
///
/// # Panics
/// When it does not.
pub async fn ask<R: RoomActor, T: DeserializeOwned + Send + 'static>(
    room: &RoomRef<R>,
    message: impl FnOnce(Reply<T>) -> R::Msg,
) -> T {
    match room.call(message, Some(PATIENCE)).await {
        Ok(CallResult::Success(answer)) => answer,
        Ok(CallResult::Timeout) => panic!("{room:?} did not answer within {PATIENCE:?}"),
        Ok(CallResult::SenderError) => panic!("{room:?} dropped the call"),
        Err(error) => panic!("{room:?} refused the call: {error}"),
    }
}
