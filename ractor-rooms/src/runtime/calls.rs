//! Calls that wait for an answer at this host, by number.

use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;

use super::reply::Outcome;

type Waiter = Box<dyn FnOnce(Outcome) + Send + Sync>;

/// Tells the tables of this process from each other.
static TABLES: AtomicU64 = AtomicU64::new(0);

/// The pending calls of a host. A call is in here only once its reply address has left the process as
/// bytes; one that is answered in memory never is.
pub(crate) struct CallTable {
    id: u64,
    next: AtomicU64,
    waiting: DashMap<u64, Waiter>,
}

/// The number that a call has in its host's table, in which it may never be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallNumber {
    table: u64,
    number: u64,
}

impl Default for CallTable {
    fn default() -> Self {
        let id = TABLES.fetch_add(1, Ordering::Relaxed);
        Self { id, next: AtomicU64::new(0), waiting: DashMap::new() }
    }
}

impl CallTable {
    /// A number for a call. Numbers are not used again within an incarnation.
    pub(crate) fn number(&self) -> CallNumber {
        let number = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        CallNumber { table: self.id, number }
    }

    /// Adds a waiter and gives it a number.
    pub(crate) fn add(&self, waiter: Waiter) -> u64 {
        self.add_as(self.number(), waiter)
    }

    /// Adds a waiter under the number that it was given, or under another if that was another table's.
    pub(crate) fn add_as(&self, call: CallNumber, waiter: Waiter) -> u64 {
        let number = if call.table == self.id { call.number } else { self.number().number };
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

    /// The calls that wait now, oldest first.
    pub(crate) fn pending(&self) -> Vec<u64> {
        let mut pending: Vec<u64> = self.waiting.iter().map(|entry| *entry.key()).collect();
        pending.sort_unstable();
        pending
    }

    /// Nobody waits for a call any more.
    pub(crate) fn give_up(&self, call: CallNumber) {
        self.waiting.remove(&call.number);
    }
}
