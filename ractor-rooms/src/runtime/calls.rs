//! Calls that wait for an answer at this host, by number.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;

use super::reply::Outcome;

type Waiter = Box<dyn FnOnce(Outcome) + Send + Sync>;

/// The pending calls of a host. A call is in here only once its reply address has left the process as
/// bytes; one that is answered in memory never is.
#[derive(Default)]
pub(crate) struct CallTable {
    next: AtomicU64,
    waiting: DashMap<u64, Waiter>,
}

impl CallTable {
    /// Adds a waiter and gives it a number. Numbers are not used again within an incarnation.
    pub(crate) fn add(&self, waiter: Waiter) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.waiting.insert(number, waiter);
        number
    }

    /// Whether a call still waits.
    pub(crate) fn waits(&self, number: u64) -> bool {
        self.waiting.contains_key(&number)
    }

    /// Gives a call its outcome. The first wins; a repeated answer finds nobody.
    pub(crate) fn complete(&self, number: u64, outcome: Outcome) {
        if let Some((_, waiter)) = self.waiting.remove(&number) {
            waiter(outcome);
        }
    }
}

/// The place of one call in the table, if it got one. Given up when the caller stops waiting, so that
/// the table does not grow with calls that timed out.
#[derive(Default)]
pub(crate) struct CallPlace {
    number: AtomicU64,
}

impl CallPlace {
    pub(crate) fn set(&self, number: u64) {
        self.number.store(number, Ordering::Release);
    }

    /// Removes the call from the table.
    pub(crate) fn give_up(self: &Arc<Self>, table: &CallTable) {
        let number = self.number.load(Ordering::Acquire);
        if number != 0 {
            table.waiting.remove(&number);
        }
    }
}
