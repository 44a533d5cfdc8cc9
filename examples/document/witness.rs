//! Somebody who notes where a document room says that it runs, and when it says that it went back.
//!
//! Of a live room it is a member. A durable room is asked again and again, also while it has not answered: what it emits follows from its log
//! and does not depend on who runs it, and its calls survive its hosts.

use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ractor_rooms::clock::Clock;
use ractor_rooms::{Delivery, EventStream, RoomEvent, RoomRef};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::client::{Calls, Client, PATIENCE};
use super::room::{DeliveryClass, Document, Sighting};

/// How long after a failure it is tried again to become a member.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// How often one of all durable rooms is asked where it is.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(20);
/// So many questions may wait for one room's answer. A question may be lost with its store, and must not keep the
/// next from being asked: it is the room that is timed, and not its caller's patience.
const MOST_QUESTIONS: usize = 64;

/// What a room said of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    /// Where it ran, and when it said so by the witness's clock.
    pub(crate) sightings: Vec<(Duration, Sighting)>,
    /// The epochs that began with a roll-back.
    pub(crate) roll_backs: Vec<u64>,
    /// What the witness was not told.
    pub(crate) missed: u64,
    /// A roll-back was told, and no epoch yet that begins with it.
    went_back: bool,
}

impl Account {
    fn note(&mut self, at: Duration, event: RoomEvent<Sighting>) {
        match event {
            RoomEvent::Event { event, .. } => {
                self.see(at, event);
                if std::mem::take(&mut self.went_back) {
                    self.roll_backs.push(event.epoch);
                }
            }
            RoomEvent::RolledBack { .. } => self.went_back = true,
            // What is missing then shows in its journal.
            RoomEvent::BornAgain => {}
            RoomEvent::Lagged(count) => self.missed += count,
            RoomEvent::Missed { from, to } => self.missed += (to.0 + 1).saturating_sub(from.0),
            _ => self.missed += 1,
        }
    }

    /// The room runs there.
    fn see(&mut self, at: Duration, sighting: Sighting) {
        if self.sightings.last().is_none_or(|(_, last)| last.epoch < sighting.epoch) {
            self.sightings.push((at, sighting));
        }
    }

    /// For each of these ends of a host, in the order of time, how long it took until the room said that it
    /// runs again; of those ends that met the room's host.
    pub(crate) fn recoveries(&self, ends: &[(Duration, u32)]) -> Vec<Duration> {
        let mut recoveries = Vec::new();
        for &(end, host) in ends {
            let next = self.sightings.partition_point(|(at, _)| *at <= end);
            let before = next.checked_sub(1).and_then(|index| self.sightings.get(index));
            let was_there = before.is_some_and(|(_, sighting)| sighting.host == host);
            if let Some((at, _)) = self.sightings.get(next).filter(|_| was_there) {
                recoveries.push(*at - end);
            }
        }
        recoveries
    }
}

/// Watches one room until it is finished or dropped.
#[derive(Debug)]
pub(crate) struct Witness {
    account: Arc<Mutex<Account>>,
    task: JoinHandle<()>,
}

impl Witness {
    /// Asks a durable room where it is, one of so many, or becomes a member of a live one and waits until it is one.
    ///
    /// # Errors
    /// In words, when the store does not let it within [`PATIENCE`].
    pub(crate) async fn listen<C: DeliveryClass>(
        room: RoomRef<Document<C>>,
        clock: Clock,
        rooms: u32,
    ) -> Result<Self, String> {
        let account = Arc::default();
        if C::DELIVERY == Delivery::Durable {
            let client = Client::new(room, Calls::Once);
            let pause = BETWEEN_QUESTIONS * rooms;
            let task = tokio::spawn(ask(client, Arc::clone(&account), clock, pause));
            return Ok(Self { account, task });
        }
        let join = async {
            loop {
                match room.events().await {
                    Ok(events) => return events,
                    Err(why) => tracing::debug!(%why, "no member yet"),
                }
                sleep(AFTER_FAILURE).await;
            }
        };
        let events = timeout(PATIENCE, join)
            .await
            .map_err(|_| format!("nobody became a member within {PATIENCE:?}"))?;
        let task = tokio::spawn(listen(events, Arc::clone(&account), clock));
        Ok(Self { account, task })
    }

    /// What it has heard, once that goes up to this epoch; or as much as comes.
    pub(crate) async fn account(&self, until: u64) -> Account {
        let heard = async {
            loop {
                let account = self.lock().clone();
                let newest = account.sightings.last().map_or(0, |(_, sighting)| sighting.epoch);
                if newest >= until {
                    return account;
                }
                sleep(AFTER_FAILURE).await;
            }
        };
        match timeout(PATIENCE, heard).await {
            Ok(account) => account,
            Err(_) => self.lock().clone(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn ask<C: DeliveryClass>(
    client: Client<C>,
    account: Arc<Mutex<Account>>,
    clock: Clock,
    pause: Duration,
) {
    let client = Arc::new(client);
    let mut asked = JoinSet::new();
    loop {
        let (client, account, clock) = (Arc::clone(&client), Arc::clone(&account), clock.clone());
        asked.spawn(async move {
            match client.glimpse().await {
                Ok(seen) => {
                    account.lock().unwrap_or_else(PoisonError::into_inner).see(clock.mark(), seen);
                }
                Err(why) => tracing::debug!(%why, "not told where the room is"),
            }
        });
        sleep(pause).await;
        while asked.try_join_next().is_some() {}
        if asked.len() >= MOST_QUESTIONS {
            asked.join_next().await;
        }
    }
}

async fn listen<C: DeliveryClass>(
    mut events: EventStream<Document<C>>,
    account: Arc<Mutex<Account>>,
    clock: Clock,
) {
    while let Some(event) = events.next().await {
        let at = clock.mark();
        tracing::debug!(?event, "told");
        account.lock().unwrap_or_else(PoisonError::into_inner).note(at, event);
    }
}

#[cfg(test)]
mod tests {
    use ractor_rooms::id::{Millis, OutSeq};

    use super::*;

    fn account(events: &[(u64, RoomEvent<Sighting>)]) -> Account {
        let mut account = Account::default();
        for (at, event) in events {
            account.note(Duration::from_millis(*at), event.clone());
        }
        account
    }

    fn runs(host: u32, epoch: u64) -> RoomEvent<Sighting> {
        RoomEvent::Event { number: OutSeq(epoch), event: Sighting { host, epoch } }
    }

    #[test]
    fn a_roll_back_belongs_to_the_epoch_that_is_told_next() {
        let back = || RoomEvent::RolledBack { since: Millis(0) };
        let told = [(1, runs(0, 1)), (2, back()), (3, back()), (4, runs(1, 5)), (5, runs(0, 6))];
        assert_eq!(account(&told).roll_backs, [5]);
    }

    #[test]
    fn what_was_not_told_is_counted() {
        let missed = RoomEvent::Missed { from: OutSeq(2), to: OutSeq(4) };
        assert_eq!(account(&[(1, missed), (2, RoomEvent::Lagged(2))]).missed, 5);
    }

    #[test]
    fn a_recovery_is_from_an_end_of_the_rooms_host_to_the_next_word() {
        let account = account(&[(10, runs(0, 1)), (50, runs(1, 2)), (90, runs(0, 3))]);
        let ends = [(20, 0), (60, 2), (70, 1), (95, 0)];
        let ends = ends.map(|(at, host)| (Duration::from_millis(at), host));
        assert_eq!(account.recoveries(&ends), [30, 20].map(Duration::from_millis));
    }
}
