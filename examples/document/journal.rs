//! What the room has handled, in a form that stays small and hides nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Who sent a message, within one room.
pub(crate) type SenderId = u32;

/// `count` messages of one sender, handled one after the other with ascending numbers, and the epochs of
/// the room in which the first and the last of them were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) sender: SenderId,
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) begun: u64,
    pub(crate) ended: u64,
}

/// Every handled message, as runs per sender in handling order.
///
/// A message that is missing, that comes twice or out of order ends a run, so nothing of it can get
/// lost in the packing; while all is well there is one run per sender.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Journal {
    runs: BTreeMap<SenderId, Vec<Run>>,
}

impl Journal {
    /// Notes that message `number` of `sender` was handled in this epoch of the room.
    pub(crate) fn note(&mut self, sender: SenderId, number: u64, epoch: u64) {
        let runs = self.runs.entry(sender).or_default();
        match runs.last_mut() {
            Some(run) if run.first.checked_add(run.count) == Some(number) => {
                run.count += 1;
                run.ended = epoch;
            }
            _ => runs.push(Run { sender, first: number, count: 1, begun: epoch, ended: epoch }),
        }
    }

    /// Up to `limit` runs after the first `from`, sender by sender.
    pub(crate) fn page(&self, from: usize, limit: usize) -> Vec<Run> {
        self.runs.values().flatten().skip(from).take(limit).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(sender: SenderId, first: u64, count: u64) -> Run {
        Run { sender, first, count, begun: 1, ended: 1 }
    }

    #[test]
    fn interleaved_senders_stay_one_run_each() {
        let mut journal = Journal::default();
        for number in 1..=1000 {
            journal.note(1, number, 1);
            journal.note(0, number, 1);
        }
        assert_eq!(journal.page(0, 10), [run(0, 1, 1000), run(1, 1, 1000)]);
    }

    #[test]
    fn gaps_repeats_and_swaps_are_kept() {
        let mut journal = Journal::default();
        [1, 2, 4, 4, 6, 5].into_iter().for_each(|number| journal.note(0, number, 1));
        let runs = [run(0, 1, 2), run(0, 4, 1), run(0, 4, 1), run(0, 6, 1), run(0, 5, 1)];
        assert_eq!(journal.page(0, 10), runs);
    }

    #[test]
    fn pages_join_without_gap() {
        let mut journal = Journal::default();
        (0..10).for_each(|n| journal.note(n % 3, u64::from(100 - n), 1));
        let pages: Vec<Run> = (0..5).flat_map(|page| journal.page(page * 3, 3)).collect();
        assert_eq!(pages, journal.page(0, 10));
        assert_eq!(pages.len(), 10);
    }

    #[test]
    fn a_run_says_in_which_epochs_it_was_handled() {
        let mut journal = Journal::default();
        [(1, 3), (2, 3), (3, 9), (5, 9)]
            .into_iter()
            .for_each(|(n, epoch)| journal.note(0, n, epoch));
        let first = Run { begun: 3, ended: 9, ..run(0, 1, 3) };
        assert_eq!(journal.page(0, 9), [first, Run { begun: 9, ended: 9, ..run(0, 5, 1) }]);
    }

    #[test]
    fn the_last_number_has_no_successor() {
        let mut journal = Journal::default();
        [u64::MAX, 0].into_iter().for_each(|number| journal.note(0, number, 1));
        assert_eq!(journal.page(0, 10), [run(0, u64::MAX, 1), run(0, 0, 1)]);
    }
}
