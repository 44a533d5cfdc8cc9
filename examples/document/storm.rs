//! Faults while documents are typed: hosts are killed and stopped, the store is restarted, links break.

use std::sync::Arc;
use std::time::Duration;

use ractor_rooms::clock::Clock;
use ractor_rooms_redis::testing::{PrivateServer, ServerErr};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::faults::{Fault, Faults};
use super::fleet::Fleet;
use super::room::DeliveryClass;
use super::store::Store;
use super::tally::{Struck, Tally};
use super::visits::Visits;
use super::warden::{Blow, Warden};

/// Every fault of a run.
#[derive(Debug)]
pub(crate) struct Storm {
    faults: Faults,
    clock: Clock,
    tally: Arc<Tally>,
    visits: Arc<Visits>,
}

impl Storm {
    /// These faults, counted there. Times are by this clock.
    pub(crate) fn new(
        faults: Faults,
        clock: Clock,
        tally: Arc<Tally>,
        visits: Arc<Visits>,
    ) -> Self {
        Self { faults, clock, tally, visits }
    }

    /// Strikes with one fault after the other until there is none left or `typed` becomes true, then waits
    /// until everything runs again. Returns what went wrong with that.
    pub(crate) async fn rage<C: DeliveryClass>(
        self,
        fleet: &mut Fleet,
        store: &Store,
        mut typed: watch::Receiver<bool>,
    ) -> Vec<String> {
        let begun = self.clock.mark();
        let room = self.faults.faults.len();
        let reports = Arc::clone(fleet.reports());
        let wardens: Vec<Warden> = fleet
            .release_processes()
            .into_iter()
            .map(|(process, order)| {
                let (clock, tally) = (self.clock.clone(), Arc::clone(&self.tally));
                Warden::of(process, order, room, clock, tally, Arc::clone(&reports))
            })
            .collect();
        let mut repairs = JoinSet::new();
        for &(at, fault) in &self.faults.faults {
            let wait = sleep(at.saturating_sub(self.clock.elapsed_since(begun)));
            tokio::select! {
                () = wait => {}
                // An error means that nobody types any more.
                _ = typed.wait_for(|typed| *typed) => break,
            }
            tracing::debug!(?fault, ?at, "a fault");
            self.strike::<C>(fault, &wardens, store, &mut repairs).await;
        }
        let mut problems = Vec::new();
        while let Some(repaired) = repairs.join_next().await {
            problems.extend(repaired.unwrap_or_else(|why| Some(why.to_string())));
        }
        store.links().iter().for_each(|link| link.heal());
        for warden in wardens {
            match warden.finish().await {
                Ok(process) => fleet.take_process(process),
                Err(why) => problems.push(why),
            }
        }
        problems
    }

    async fn strike<C: DeliveryClass>(
        &self,
        fault: Fault,
        wardens: &[Warden],
        store: &Store,
        repairs: &mut JoinSet<Option<String>>,
    ) {
        let link = |number: u32| store.links().get(number as usize);
        match fault {
            Fault::Kill { host } => strike_host(wardens, host, Blow::Kill).await,
            Fault::Stop { host, lasts } => strike_host(wardens, host, Blow::Stop(lasts)).await,
            Fault::RestartStore { down } => {
                if let Some(server) = store.server() {
                    let tally = Arc::clone(&self.tally);
                    repairs.spawn(async move {
                        let mut server = server.lock().await;
                        tally.struck(Struck::StoreRestart);
                        let killed = server.kill9();
                        sleep(down).await;
                        let up = match killed {
                            Ok(()) => server.restart().await,
                            failed => failed,
                        };
                        up.err().map(|why| format!("the store did not come back: {why}"))
                    });
                }
            }
            Fault::CutStore { written, lost_permille, down, runs } => {
                if let Some(server) = store.server() {
                    let tally = Arc::clone(&self.tally);
                    repairs.spawn(async move {
                        let mut server = server.lock().await;
                        tally.struck(Struck::StoreCut);
                        let cut = cut_store(&mut server, written, lost_permille, down, runs).await;
                        cut.err().map(|why| format!("the store did not come back: {why}"))
                    });
                }
            }
            Fault::WipeStore => {
                if let Some(server) = store.server() {
                    let (tally, visits) = (Arc::clone(&self.tally), Arc::clone(&self.visits));
                    let store = store.clone();
                    repairs.spawn(async move {
                        // Nobody can join a store that is down.
                        let server = server.lock().await;
                        let visitor = match visits.join::<C>(&store).await {
                            Ok(visitor) => visitor,
                            Err(why) => return Some(why),
                        };
                        tally.struck(Struck::StoreWipe);
                        if let Err(why) = server.wipe().await {
                            return Some(format!("the store was not emptied: {why}"));
                        }
                        drop(server);
                        visits.talk::<C>(visitor).await;
                        None
                    });
                }
            }
            Fault::Cut { link: number } | Fault::HalfCut { link: number } => {
                if let Some(link) = link(number) {
                    self.tally.struck(Struck::Cut);
                    if matches!(fault, Fault::Cut { .. }) { link.cut() } else { link.half_close() }
                }
            }
            Fault::BlackHole { link: number } => {
                if let Some(link) = link(number) {
                    self.tally.struck(Struck::BlackHole);
                    link.black_hole();
                }
            }
            Fault::Isolate { link: number, lasts } => {
                if let Some(link) = link(number).cloned() {
                    self.tally.struck(Struck::BlackHole);
                    link.swallow();
                    repairs.spawn(async move {
                        sleep(lasts).await;
                        link.heal();
                        None
                    });
                }
            }
        }
    }

    /// How long the faults go on.
    pub(crate) fn lasts(&self) -> Duration {
        self.faults.lasts
    }
}

/// What a loss of power does to a store whose file goes to the disk every second, and a second, clean restart.
async fn cut_store(
    server: &mut PrivateServer,
    written: Duration,
    lost_permille: u16,
    down: Duration,
    runs: Duration,
) -> Result<(), ServerErr> {
    let safe = server.log_bytes()?;
    sleep(written).await;
    server.kill9()?;
    server.tear_log(|log| {
        let last = (log.len() as u64).saturating_sub(safe);
        let lost = last * u64::from(lost_permille) / 1_000;
        tracing::debug!(lost, last, "bytes of the store's file");
        log.len() - lost as usize
    })?;
    sleep(down).await;
    server.restart().await?;
    sleep(runs).await;
    server.restart().await
}

async fn strike_host(wardens: &[Warden], host: u32, blow: Blow) {
    if let Some(warden) = wardens.get(host as usize)
        && !warden.strike(blow).await
    {
        tracing::debug!(host, "its warden has given up"); // which it tells in the end
    }
}
