//! Moves a document room from host to host while it is typed into.

use std::time::Duration;

use ractor_rooms::{MigrateTo, RoomHost};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::client::{Client, PATIENCE};
use super::names;
use super::progress::Progress;
use super::room::{DeliveryClass, KIND};
use super::schedule::Schedule;
use super::summary::Move;

/// How often one move is tried.
const TRIES: u32 = 3;
/// How often one move is tried when hosts die, and how long after the last try.
const TRIES_WITH_FAULTS: u32 = 200;
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// The moves of one room.
pub(crate) struct Mover<'a, C: DeliveryClass> {
    /// The number of the room.
    pub(crate) room: u32,
    /// The way to each host that runs rooms, in their order.
    pub(crate) hosts: &'a [RoomHost],
    /// A way to the room from each host.
    pub(crate) clients: Vec<Client<C>>,
    /// Whether hosts die and links break.
    pub(crate) has_faults: bool,
    /// Where to show the room's place.
    pub(crate) progress: &'a Progress,
}

/// What came of the moves of one room.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// The moves that were made.
    pub(crate) moves: Vec<Move>,
    /// How often a move had to be tried again.
    pub(crate) retries: u64,
    /// Why not all moves were made.
    pub(crate) problem: Option<String>,
}

impl<C: DeliveryClass> Mover<'_, C> {
    /// Makes the moves of the schedule, each when enough was typed; ends at the first that fails.
    pub(crate) async fn keep_moving(
        &self,
        schedule: Schedule,
        mut typed: watch::Receiver<u64>,
        over: watch::Sender<u32>,
    ) -> Moved {
        let mut moved = Moved::default();
        for (nth, threshold) in (1..).zip(schedule.thresholds()) {
            if typed.wait_for(|typed| *typed >= threshold).await.is_err() {
                moved.problem = Some(format!("the writer stopped before move {nth}"));
                break;
            }
            match self.move_on(&mut moved.retries).await {
                Ok(made) => moved.moves.push(made),
                Err(why) => {
                    moved.problem = Some(format!("move {nth} failed: {why}"));
                    break;
                }
            }
            over.send_replace(nth);
        }
        moved
    }

    /// Moves the room to the host after its present one. It counts only if the room itself then
    /// answers from there.
    async fn move_on(&self, retries: &mut u64) -> Result<Move, String> {
        let mut tries = 0;
        loop {
            let from = self.find(0).await?;
            let to = (from + 1) % self.hosts.len() as u32;
            let failure = match self.migrate(from, to).await {
                Ok(made) => match self.find(from).await? {
                    found if found == to => return Ok(made),
                    found => {
                        let (there, here) = (names::host(to), names::host(found));
                        format!("it should be on {there} now and is on {here}")
                    }
                },
                Err(why) => why,
            };
            tries += 1;
            let most = if self.has_faults { TRIES_WITH_FAULTS } else { TRIES };
            if tries == most {
                return Err(failure);
            }
            *retries += 1;
            if self.has_faults {
                sleep(AFTER_FAILURE).await;
            }
            tracing::warn!(room = self.room, from, to, failure, "a move is tried again");
        }
    }

    /// Asks the room where it is, by way of host number `via`.
    async fn find(&self, via: u32) -> Result<u32, String> {
        let client =
            self.clients.get(via as usize % self.clients.len().max(1)).ok_or("no such host")?;
        let seen = client.whereabouts().await.map_err(|why| format!("where is it? {why}"))?;
        let host = seen.host;
        self.progress.seen(self.room, host);
        Ok(host)
    }

    async fn migrate(&self, from: u32, to: u32) -> Result<Move, String> {
        // A visitor has no way of its own: whoever is asked hands the order on.
        let source =
            self.hosts.get(from as usize % self.hosts.len().max(1)).ok_or("no such host")?;
        let order = MigrateTo::host(KIND, names::document(self.room), names::host(to));
        let report = timeout(PATIENCE, source.migrate(order))
            .await
            .map_err(|_| format!("it took longer than {PATIENCE:?}"))?
            .map_err(|why| why.to_string())?;
        tracing::debug!(room = self.room, from, to, pause = ?report.pause, "moved");
        Ok(Move { pause: report.pause, snapshot_bytes: report.snapshot_bytes })
    }
}
