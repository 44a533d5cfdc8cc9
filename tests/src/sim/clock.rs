//! The clocks of a simulation.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ractor_rooms::clock::Clock;
use tokio::time::Instant;

/// What all clocks show when a run begins, since the Unix epoch.
const BEGIN: Duration = Duration::from_secs(1_700_000_000);

/// The runtime's virtual time.
#[derive(Clone, Copy, Debug)]
pub struct SimTime(Instant);

impl SimTime {
    /// Begins now, within a runtime whose clock is paused.
    #[expect(clippy::disallowed_methods, reason = "the runtime's clock is the simulation's")]
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    /// Since the beginning.
    #[expect(clippy::disallowed_methods, reason = "the runtime's clock is the simulation's")]
    pub fn now(self) -> Duration {
        Instant::now().saturating_duration_since(self.0)
    }

    /// The store's clock.
    pub fn clock(self) -> Clock {
        Clock::manual(move || BEGIN + self.now())
    }
}

/// The clock of one host, which stands still while its process is paused.
#[derive(Clone, Debug)]
pub struct HostClock {
    time: SimTime,
    stopped_at: Arc<Mutex<Option<Duration>>>,
}

impl HostClock {
    /// A clock that goes.
    pub fn new(time: SimTime) -> Self {
        Self { time, stopped_at: Arc::default() }
    }

    /// Stops it, or has it jump to the present.
    pub fn stop(&self, stop: bool) {
        let now = stop.then(|| self.time.now());
        *self.stopped_at.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// As the host sees it.
    pub fn clock(&self) -> Clock {
        let this = self.clone();
        Clock::manual(move || {
            let stopped_at = *this.stopped_at.lock().unwrap_or_else(PoisonError::into_inner);
            BEGIN + stopped_at.unwrap_or_else(|| this.time.now())
        })
    }
}
