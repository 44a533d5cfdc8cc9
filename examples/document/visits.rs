//! Hosts that join just before the store forgets everything, and then send.

use std::sync::{Arc, Mutex, PoisonError};

use ractor_rooms::{RoomHost, RoomHostBuilder};
use tokio::time::timeout;

use super::client::{Calls, Client, PATIENCE};
use super::host::{Limits, with_documents};
use super::journal::SenderId;
use super::names;
use super::options::Options;
use super::reports::Reports;
use super::room::{Beginning, DeliveryClass, Document};
use super::senders::{self, Sent};
use super::store::Store;

/// What the visitors of a run share.
#[derive(Debug)]
pub(crate) struct Visits {
    hosts: u32,
    rooms: u32,
    limits: Limits,
    beginning: Arc<Beginning>,
    reports: Arc<Reports>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    count: u32,
    here: Vec<RoomHost>,
    sent: Vec<(u32, Sent)>,
}

/// A host that has joined: it knows of no room.
#[derive(Debug)]
pub(crate) struct Visitor {
    host: RoomHost,
    sender: SenderId,
}

impl Visits {
    /// Nobody came so far.
    pub(crate) fn new(
        options: &Options,
        beginning: &Arc<Beginning>,
        reports: &Arc<Reports>,
    ) -> Self {
        Self {
            hosts: options.hosts,
            rooms: options.writers,
            limits: Limits::of(options),
            beginning: Arc::clone(beginning),
            reports: Arc::clone(reports),
            seen: Mutex::default(),
        }
    }

    /// A host that runs rooms as the others do joins. It stays to the end of the run.
    ///
    /// # Errors
    /// In words.
    pub(crate) async fn join<C: DeliveryClass>(&self, store: &Store) -> Result<Visitor, String> {
        let nth = {
            let mut seen = self.lock();
            seen.count += 1;
            seen.count
        };
        // After the hosts, and after the writer and the chatters.
        let (index, sender) = (self.hosts + nth - 1, self.hosts + nth);
        let name = format!("{}-{nth}", names::VISITOR);
        let failed = |why: &dyn std::fmt::Display| format!("{name} did not join: {why}");
        let started = async {
            let builder = store.host(&name, self.hosts).await.map_err(|why| failed(&why))?;
            let builder = with_documents::<C>(self.limits.apply(builder), index, &self.beginning);
            self.start(builder).await.map_err(|why| failed(&why))
        };
        let host = timeout(PATIENCE, started).await.unwrap_or_else(|_| Err(failed(&"too slow")))?;
        self.lock().here.push(host.clone());
        Ok(Visitor { host, sender })
    }

    async fn start(&self, builder: RoomHostBuilder) -> Result<RoomHost, ractor_rooms::HostErr> {
        let reports = Arc::clone(&self.reports);
        builder.on_fault(move |fault| reports.take(fault)).start().await
    }

    /// It sends notes to every room.
    pub(crate) async fn talk<C: DeliveryClass>(&self, visitor: Visitor) {
        for room in 0..self.rooms {
            let there = visitor.host.room::<Document<C>>(names::document(room));
            let sent = senders::call_in(Client::new(there, Calls::Once), visitor.sender).await;
            self.lock().sent.push((room, sent));
        }
    }

    /// What was sent to this room, once nobody sends any more.
    pub(crate) fn take_sent(&self, room: u32) -> Vec<Sent> {
        let sent = &mut self.lock().sent;
        sent.extract_if(.., |(to, _)| *to == room).map(|(_, sent)| sent).collect()
    }

    /// The hosts that came.
    pub(crate) fn take_hosts(&self) -> Vec<RoomHost> {
        std::mem::take(&mut self.lock().here)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
