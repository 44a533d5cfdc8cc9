//! How long to wait before the next attempt.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(1_000);

/// Doubling waits, each between half and all of its length, so that hosts do not come back together.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    pub(super) fn next(&mut self) -> Duration {
        let full = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let random = RandomState::new().build_hasher().finish() % 512;
        full / 2 + full * u32::try_from(random).unwrap_or(0) / 1_024
    }

    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}
