//! How fast a writer types while faults strike: so that all of them strike while there is typing.

use std::time::Duration;

use ractor_rooms::clock::Clock;
use tokio::sync::watch;
use tokio::time::sleep;

/// Spreads a writer's edits over the time that the faults take, and holds the last edit back until they are
/// over.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    clock: Clock,
    begun: Duration,
    lasts: Duration,
    over: watch::Receiver<bool>,
}

impl Pace {
    /// From now on for so long. `over` becomes true, or its sender goes, when no more faults come.
    pub(crate) fn new(lasts: Duration, over: watch::Receiver<bool>) -> Self {
        let clock = Clock::system();
        Self { begun: clock.mark(), clock, lasts, over }
    }

    /// Waits until the next edit is due after `typed` of so many.
    pub(crate) async fn due(&mut self, typed: u64, edits: u64) {
        if typed + 1 >= edits {
            // An error means that nobody makes faults any more.
            let _ = self.over.wait_for(|over| *over).await;
            return;
        }
        let due = self.lasts.mul_f64(typed as f64 / edits as f64);
        sleep(due.saturating_sub(self.clock.elapsed_since(self.begun))).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_edit_waits_for_the_end_of_the_faults() {
        let (over, seen) = watch::channel(false);
        let mut pace = Pace::new(Duration::ZERO, seen);
        pace.due(0, 2).await;
        let mut last = std::pin::pin!(pace.due(1, 2));
        assert!(futures::poll!(&mut last).is_pending());
        over.send_replace(true);
        last.await;
    }

    #[tokio::test]
    async fn edits_wait_for_their_time() {
        let (_over, seen) = watch::channel(false);
        let mut pace = Pace::new(Duration::from_millis(40), seen);
        pace.due(2, 4).await;
        assert!(pace.clock.elapsed_since(pace.begun) >= Duration::from_millis(20));
    }
}
