//! All hosts of a run, and the ways to their rooms.

use std::fmt;
use std::sync::Arc;

use futures::future::join_all;
use ractor_rooms::{HostErr, RoomHost, RoomHostBuilder};
use ractor_rooms_redis::ConnectErr;
use tokio::time::timeout;

use super::client::PATIENCE;
use super::host::{Limits, with_documents};
use super::host_process::{HostProcess, ProcessErr};
use super::names;
use super::options::Options;
use super::order::Order;
use super::reports::Reports;
use super::room::{Beginning, DeliveryClass};
use super::store::Store;

/// A host did not start, so nothing was typed.
#[derive(Debug)]
pub(crate) struct StartErr {
    host: String,
    why: Why,
}

#[derive(Debug)]
enum Why {
    Connect(ConnectErr),
    Host(HostErr),
    Process(ProcessErr),
}

impl fmt::Display for StartErr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} did not start: ", self.host)?;
        match &self.why {
            Why::Connect(why) => write!(f, "{why}"),
            Why::Host(why) => write!(f, "{why}"),
            Why::Process(why) => write!(f, "{why}"),
        }
    }
}

/// All hosts of a run.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    /// The hosts in this process: all of them, or the one that runs no rooms.
    here: Vec<RoomHost>,
    /// The hosts in processes of their own.
    elsewhere: Vec<HostProcess>,
    /// What these were told to be, in the order of their numbers.
    orders: Vec<Order>,
    /// What the hosts reported.
    reports: Arc<Reports>,
}

impl Fleet {
    /// Starts as many hosts as the options say, in this process or in one for each. If that fails, or
    /// is given up, those that have started are to be stopped.
    pub(crate) async fn start<C: DeliveryClass>(
        &mut self,
        options: &Options,
        store: &Store,
        beginning: &Arc<Beginning>,
    ) -> Result<(), StartErr> {
        let limits = Limits::of(options);
        match store.address() {
            Some(_) if options.processes => {
                self.start_processes(options, store, beginning).await?;
                let client = store.host(names::WRITERS, options.hosts).await;
                let client = client.map(|client| limits.apply(client).capacity(0));
                self.start_host(names::WRITERS.into(), client).await
            }
            _ => {
                for index in 0..options.hosts {
                    let name = names::host(index);
                    let host = store.host(&name, index).await;
                    let host =
                        host.map(|host| with_documents::<C>(limits.apply(host), index, beginning));
                    self.start_host(name, host).await?;
                }
                Ok(())
            }
        }
    }

    async fn start_host(
        &mut self,
        host: String,
        builder: Result<RoomHostBuilder, ConnectErr>,
    ) -> Result<(), StartErr> {
        let started = match builder {
            Ok(builder) => {
                let reports = Arc::clone(&self.reports);
                let builder = builder.on_fault(move |fault| reports.take(fault));
                builder.start().await.map_err(Why::Host)
            }
            Err(why) => Err(Why::Connect(why)),
        };
        self.here.push(started.map_err(|why| StartErr { host, why })?);
        Ok(())
    }

    async fn start_processes(
        &mut self,
        options: &Options,
        store: &Store,
        beginning: &Arc<Beginning>,
    ) -> Result<(), StartErr> {
        for index in 0..options.hosts {
            let Some(address) = store.address_by(index) else { continue };
            let order = Order {
                host: index,
                address,
                delivery: options.delivery,
                text: beginning.text.clone(),
                state_bytes: options.state_bytes,
                seed: options.seed,
                limits: Limits::of(options),
            };
            let started = HostProcess::start(&order, &self.reports).await;
            let failed = |why| StartErr { host: names::host(index), why: Why::Process(why) };
            self.elsewhere.push(started.map_err(failed)?);
            self.orders.push(order);
        }
        Ok(())
    }

    /// For each host that runs rooms, the host in this process that is nearest to it: itself, or the
    /// one that runs none.
    pub(crate) fn ways(&self, hosts: u32) -> Vec<RoomHost> {
        self.here.iter().cycle().take(hosts as usize).cloned().collect()
    }

    /// Hands the processes over to somebody who kills them, with what they were told to be.
    pub(crate) fn release_processes(&mut self) -> Vec<(HostProcess, Order)> {
        self.elsewhere.drain(..).zip(self.orders.iter().cloned()).collect()
    }

    /// Takes a process back.
    pub(crate) fn take_process(&mut self, process: HostProcess) {
        self.elsewhere.push(process);
    }

    /// Takes hosts of this process over.
    pub(crate) fn take_hosts(&mut self, hosts: Vec<RoomHost>) {
        self.here.extend(hosts);
    }

    /// What the hosts report.
    pub(crate) fn reports(&self) -> &Arc<Reports> {
        &self.reports
    }

    /// Stops all hosts, those of the senders first, and says what was wrong.
    pub(crate) async fn stop(self) -> Vec<String> {
        let mut problems = Vec::new();
        for host in self.here {
            let name = host.id();
            match timeout(PATIENCE, host.shutdown()).await {
                Ok(Ok(())) => {}
                Ok(Err(why)) => problems.push(format!("{name} did not stop: {why}")),
                Err(_) => problems.push(format!("{name} did not stop within {PATIENCE:?}")),
            }
        }
        let ends = join_all(self.elsewhere.into_iter().map(HostProcess::stop)).await;
        problems.extend(ends.into_iter().flatten());
        problems
    }
}
