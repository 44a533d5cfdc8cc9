//! Who keeps one host's process going: kills it, stops it in its tracks, and starts it again.

use std::sync::Arc;
use std::time::Duration;

use ractor_rooms::clock::Clock;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::client::PATIENCE;
use super::host_process::HostProcess;
use super::names;
use super::order::Order;
use super::reports::Reports;
use super::tally::{Struck, Tally};

/// How long after a failure to start a host it is tried again.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// What a warden is told to do, one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Blow {
    /// SIGKILL, and a new process at once.
    Kill,
    /// SIGSTOP, and SIGCONT after this.
    Stop(Duration),
}

/// The warden of one host.
#[derive(Debug)]
pub(crate) struct Warden {
    blows: mpsc::Sender<Blow>,
    task: JoinHandle<Result<HostProcess, String>>,
}

impl Warden {
    /// Takes charge of a process that was started by this order. `blows` is how many may wait.
    pub(crate) fn of(
        process: HostProcess,
        order: Order,
        blows: usize,
        clock: Clock,
        tally: Arc<Tally>,
        reports: Arc<Reports>,
    ) -> Self {
        let (blows, told) = mpsc::channel(blows.max(1));
        Self { blows, task: tokio::spawn(keep(process, order, told, clock, tally, reports)) }
    }

    /// Strikes when what it was told before is done. `false` if it has given up.
    pub(crate) async fn strike(&self, blow: Blow) -> bool {
        self.blows.send(blow).await.is_ok()
    }

    /// Waits until all it was told is done and the host runs. Gives the process back, or says what is wrong.
    pub(crate) async fn finish(self) -> Result<HostProcess, String> {
        drop(self.blows);
        self.task.await.unwrap_or_else(|why| Err(why.to_string()))
    }
}

async fn keep(
    mut process: HostProcess,
    order: Order,
    mut told: mpsc::Receiver<Blow>,
    clock: Clock,
    tally: Arc<Tally>,
    reports: Arc<Reports>,
) -> Result<HostProcess, String> {
    while let Some(blow) = told.recv().await {
        match blow {
            Blow::Kill => {
                if process.has_ended() {
                    // Of itself: that is for its stop to tell.
                    return Ok(process);
                }
                tally.struck(Struck::Kill);
                tally.ended(clock.mark(), order.host);
                process.kill().await.map_err(|why| told_of(&order, "was not killed", &why))?;
                process = start_again(&order, &clock, &reports).await?;
            }
            Blow::Stop(lasts) => {
                tally.struck(Struck::Stop);
                process.pause().await.map_err(|why| told_of(&order, "did not pause", &why))?;
                sleep(lasts).await;
                process.resume().await.map_err(|why| told_of(&order, "did not go on", &why))?;
            }
        }
    }
    Ok(process)
}

async fn start_again(
    order: &Order,
    clock: &Clock,
    reports: &Arc<Reports>,
) -> Result<HostProcess, String> {
    let begun = clock.mark();
    loop {
        // While the store is down there is nothing to connect to, and a host ends with that.
        match HostProcess::start(order, reports).await {
            Ok(process) => return Ok(process),
            Err(why) if clock.elapsed_since(begun) > PATIENCE => {
                return Err(told_of(order, "did not start again", &why));
            }
            Err(why) => tracing::debug!(%why, host = order.host, "it is started again"),
        }
        sleep(AFTER_FAILURE).await;
    }
}

fn told_of(order: &Order, what: &str, why: &dyn std::fmt::Display) -> String {
    format!("{} {what}: {why}", names::host(order.host))
}
