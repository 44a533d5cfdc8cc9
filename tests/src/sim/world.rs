//! The cluster of a run.

use std::env;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ractor_rooms::id::HostId;
use ractor_rooms::testing::FaultyTransport;
use ractor_rooms::{DrainOptions, MemoryTransport, RoomHost};

use super::clock::{HostClock, SimTime};
use super::journal::Journal;
use super::plan::{Plan, SESSION};
use super::planted::{Bug, Planted};
use super::room::SimRoom;
use crate::cluster::host_name;
use crate::rooms::{Durable, Live};

/// Longer than this no host may take to start or stop, and no caller may wait.
pub const BOUND: Duration = Duration::from_secs(60);

/// A host's process.
#[derive(Debug)]
struct Process {
    /// Runs, unless it is down.
    host: Option<RoomHost>,
    /// How often it has started.
    starts: u32,
    clock: HostClock,
}

/// See the [module](self).
#[derive(Debug)]
pub struct World {
    /// What happens in it.
    pub plan: Plan,
    /// What happened in it.
    pub journal: Journal,
    /// The store, without the network.
    pub store: MemoryTransport,
    /// The way to the store.
    pub network: FaultyTransport<Planted>,
    time: SimTime,
    processes: Mutex<Vec<Process>>,
}

impl World {
    /// A world whose hosts are yet to start.
    pub fn new(plan: Plan, bug: Option<Bug>) -> Arc<Self> {
        let time = SimTime::begin();
        let store = MemoryTransport::with(plan.limits, time.clock());
        let journal = Journal::new(time);
        let trace = env::var_os("ROOMS_TRACE").is_some_and(|what| what == "store");
        let planted = Planted::new(store.clone(), bug, trace, journal.clone());
        let network = FaultyTransport::new(planted, plan.seed ^ 0x5eed, plan.faults.clone());
        let process = |_| Process { host: None, starts: 0, clock: HostClock::new(time) };
        let processes = Mutex::new((0..plan.hosts).map(process).collect());
        Arc::new(Self { plan, journal, store, network, time, processes })
    }

    /// Since the beginning.
    pub fn now(&self) -> Duration {
        self.time.now()
    }

    fn processes(&self) -> MutexGuard<'_, Vec<Process>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A host that runs, and how often it has started.
    pub fn host(&self, index: usize) -> Option<(RoomHost, u32)> {
        let processes = self.processes();
        let process = &processes[index];
        process.host.clone().map(|host| (host, process.starts))
    }

    /// The same, once it does.
    pub async fn running(&self, index: usize) -> (RoomHost, u32) {
        loop {
            if let Some(running) = self.host(index) {
                return running;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    /// Starts a host, as often as it takes.
    pub async fn start(&self, index: usize) {
        let name = host_name(index);
        let began = self.now();
        let clock = self.processes()[index].clock.clone();
        loop {
            let transport = self.network.for_host(HostId::new(name.clone()).expect("a name"));
            let (journal, heard_by) = (self.journal.clone(), name.clone());
            let started = RoomHost::builder(name.clone(), transport)
                .config(self.plan.config.clone())
                .clock(clock.clock())
                .room(SimRoom::<Live>::new(&name, &self.journal))
                .room(SimRoom::<Durable>::new(&name, &self.journal))
                .on_fault(move |fault| {
                    journal.say(format!("{heard_by} reports {fault:?}"));
                    journal.lock().faults.push((index, fault.clone()));
                })
                .start()
                .await;
            match started {
                Ok(host) => {
                    let mut processes = self.processes();
                    let process = &mut processes[index];
                    (process.host, process.starts) = (Some(host), process.starts + 1);
                    drop(processes);
                    return self.journal.say(format!("{name} starts"));
                }
                Err(error) => self.journal.say(format!("{name} does not start: {error}")),
            }
            if self.now().saturating_sub(began) > BOUND {
                return self.journal.broken(format!("I6: {name} does not start"));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Takes a host's process away; `None` when it is down.
    pub fn take(&self, index: usize) -> Option<RoomHost> {
        self.processes()[index].host.take()
    }

    /// Pauses a host's process, or lets it go on.
    pub fn pause(&self, index: usize, pause: bool) {
        self.processes()[index].clock.stop(pause);
        let host = HostId::new(host_name(index)).expect("a name");
        if pause {
            self.network.stall(&host);
        } else {
            self.network.resume(&host);
        }
    }

    /// Has a host's rooms moved out, and stops it.
    pub async fn drain(&self, host: &RoomHost) {
        self.journal.say(format!("{} drains", host.id()));
        let options = DrainOptions::default().deadline(Duration::from_millis(SESSION));
        let drained = async { host.drain(options)?.await };
        match tokio::time::timeout(BOUND, drained).await {
            Ok(drained) => self.journal.say(format!("{} drained: {drained:?}", host.id())),
            Err(_) => self.journal.broken(format!("I6: {} is not drained", host.id())),
        }
    }

    /// Stops a host as it should be stopped.
    pub async fn shut_down(&self, host: &RoomHost) {
        self.journal.say(format!("{} stops", host.id()));
        match tokio::time::timeout(BOUND, host.shutdown()).await {
            Ok(stopped) => self.journal.say(format!("{} stopped: {stopped:?}", host.id())),
            Err(_) => self.journal.broken(format!("I6: {} does not stop", host.id())),
        }
    }
}
