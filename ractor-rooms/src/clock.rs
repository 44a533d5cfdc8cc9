//! The only file that reads a clock. Everything else is given the time.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::id::Millis;

/// A source of wall-clock milliseconds that never goes back, and of a monotonic time for a host's own
/// deadlines. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Clock {
    /// The system's time, read once; from then on the monotonic clock moves it, so that a step of the
    /// system's clock is not seen.
    #[expect(clippy::disallowed_methods, reason = "this is the file that may")]
    pub fn system() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start = Instant::now();
        Self(Arc::new(move || wall + start.elapsed()))
    }

    /// A clock that a test or a simulation moves by itself: the time since the Unix epoch.
    pub fn manual(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Milliseconds since the Unix epoch.
    pub fn now(&self) -> Millis {
        Millis::of((self.0)())
    }

    /// The same in full precision, for measuring how long something took.
    pub fn elapsed_since(&self, earlier: Duration) -> Duration {
        (self.0)().saturating_sub(earlier)
    }

    /// A point to measure from with [`Clock::elapsed_since`].
    pub fn mark(&self) -> Duration {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}
