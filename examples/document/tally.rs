//! How often which fault struck, and when hosts ended.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::progress::Progress;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Struck {
    /// A host was killed.
    Kill,
    /// A host was stopped in its tracks.
    Stop,
    /// The store was killed and started again.
    StoreRestart,
    /// The store was killed, its file cut off, and started again twice.
    StoreCut,
    /// All that the store held was deleted.
    StoreWipe,
    /// A link was cut.
    Cut,
    /// A link swallowed what it was given.
    BlackHole,
}

/// Counts while faults strike.
#[derive(Debug)]
pub(crate) struct Tally {
    counts: [AtomicU32; 7],
    in_typing: AtomicU32,
    progress: Arc<Progress>,
    ends: Mutex<Vec<(Duration, u32)>>,
}

impl Tally {
    /// Nothing struck so far.
    pub(crate) fn new(progress: Arc<Progress>) -> Self {
        Self {
            counts: Default::default(),
            in_typing: AtomicU32::new(0),
            progress,
            ends: Mutex::default(),
        }
    }

    /// A fault strikes now.
    pub(crate) fn struck(&self, kind: Struck) {
        self.counts[kind as usize].fetch_add(1, Ordering::Relaxed);
        let in_typing = u32::from(self.progress.is_under_way());
        self.in_typing.fetch_add(in_typing, Ordering::Relaxed);
    }

    /// A host is killed now.
    pub(crate) fn ended(&self, at: Duration, host: u32) {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).push((at, host));
    }

    /// How often it struck.
    pub(crate) fn count(&self, kind: Struck) -> u32 {
        self.counts[kind as usize].load(Ordering::Relaxed)
    }

    /// How many faults struck after the first edit was typed and before the last was.
    pub(crate) fn in_typing(&self) -> u32 {
        self.in_typing.load(Ordering::Relaxed)
    }

    /// When which host was killed, in order.
    pub(crate) fn ends(&self) -> Vec<(Duration, u32)> {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ends.sort_unstable();
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_before_and_after_the_typing_are_told_apart() {
        let progress = Arc::new(Progress::new(2, 1));
        let tally = Tally::new(Arc::clone(&progress));
        tally.struck(Struck::Cut);
        progress.typed();
        tally.struck(Struck::Cut);
        tally.struck(Struck::Kill);
        progress.typed();
        tally.struck(Struck::Kill);
        assert_eq!([Struck::Cut, Struck::Kill, Struck::Stop].map(|k| tally.count(k)), [2, 2, 0]);
        assert_eq!(tally.in_typing(), 2);
    }
}
