//! Judges loss, doubling and order from the outside.
//!
//! The oracle keeps its own list of what was sent and what the sender was told, and holds the room's
//! list against it. It asks no counter of the library, because that is what is on trial.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Who sent a message.
pub type SenderId = u32;

/// What a sender was told of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing bad: it was taken. It must be handled once.
    Accepted,
    /// It came back. It must not be handled.
    HandedBack,
    /// Nobody can tell. It may be handled once or never.
    Unknown,
}

/// What each sender sent, in order, and what it was told of it.
type Sent = BTreeMap<SenderId, Vec<(u64, Told)>>;

/// What was sent into one room. Clones share one list.
#[derive(Clone, Debug, Default)]
pub struct Oracle(Arc<Mutex<Sent>>);

/// What became of the messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Accepted and never handled.
    pub lost: Vec<(SenderId, u64)>,
    /// Handled again after the first time.
    pub doubled: Vec<(SenderId, u64)>,
    /// Handled after one that the same sender sent later.
    pub reordered: Vec<(SenderId, u64)>,
    /// Handled, although it was handed back or never sent.
    pub foreign: Vec<(SenderId, u64)>,
}

impl Oracle {
    /// Notes that `from` sent `number`, after everything that it noted before, and what it was told.
    pub fn note(&self, from: SenderId, number: u64, told: Told) {
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sent.entry(from).or_default().push((number, told));
    }

    /// Notes a message that was taken.
    pub fn accepted(&self, from: SenderId, number: u64) {
        self.note(from, number, Told::Accepted);
    }

    /// Compares what was sent with what the room says that it handled.
    pub fn judge(&self, handled: &[(SenderId, u64)]) -> Verdict {
        let sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut verdict = Verdict::default();
        let mut places: BTreeMap<(SenderId, u64), (usize, Told, u32)> = BTreeMap::new();
        for (from, numbers) in &*sent {
            for (place, (number, told)) in numbers.iter().enumerate() {
                places.insert((*from, *number), (place, *told, 0));
            }
        }
        let mut highest: BTreeMap<SenderId, usize> = BTreeMap::new();
        for message in handled {
            let Some((place, told, times)) = places.get_mut(message) else {
                verdict.foreign.push(*message);
                continue;
            };
            *times += 1;
            if *told == Told::HandedBack {
                verdict.foreign.push(*message);
            } else if *times > 1 {
                verdict.doubled.push(*message);
            } else {
                let last = highest.entry(message.0).or_default();
                if *place < *last {
                    verdict.reordered.push(*message);
                }
                *last = (*last).max(*place);
            }
        }
        let missing = places.iter().filter(|(_, (_, t, n))| *t == Told::Accepted && *n == 0);
        verdict.lost = missing.map(|(message, _)| *message).collect();
        verdict
    }

    /// # Panics
    /// When anything was lost, doubled, reordered or invented.
    #[track_caller]
    pub fn assert_clean(&self, handled: &[(SenderId, u64)]) {
        assert_eq!(self.judge(handled), Verdict::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sender 0 sent 1..=4 and sender 7 sent 1..=2.
    fn oracle() -> Oracle {
        let oracle = Oracle::default();
        for (from, number) in ALL {
            oracle.accepted(from, number);
        }
        oracle
    }

    const ALL: [(SenderId, u64); 6] = [(0, 1), (7, 1), (0, 2), (0, 3), (7, 2), (0, 4)];

    #[test]
    fn a_clean_run_is_clean_whatever_the_order_between_senders() {
        let mut handled = ALL.to_vec();
        assert_eq!(oracle().judge(&handled), Verdict::default());
        handled.sort_unstable();
        assert_eq!(oracle().judge(&handled), Verdict::default());
    }

    #[test]
    fn planted_faults_are_found() {
        for (i, message) in ALL.into_iter().enumerate() {
            let mut handled = ALL.to_vec();
            let missing = handled.remove(i);
            assert_eq!(oracle().judge(&handled).lost, [missing]);
            let mut handled = ALL.to_vec();
            handled.push(message);
            assert_eq!(oracle().judge(&handled).doubled, [message]);
        }
        let mut handled = ALL.to_vec();
        handled.swap(2, 3);
        assert_eq!(oracle().judge(&handled).reordered, [(0, 2)]);
        handled.push((9, 1));
        assert_eq!(oracle().judge(&handled).foreign, [(9, 1)]);
    }

    #[test]
    fn what_the_sender_was_told_counts() {
        let oracle = Oracle::default();
        oracle.note(0, 1, Told::HandedBack);
        oracle.note(0, 2, Told::Unknown);
        assert_eq!(oracle.judge(&[]), Verdict::default());
        assert_eq!(oracle.judge(&[(0, 2)]), Verdict::default());
        assert_eq!(oracle.judge(&[(0, 1)]).foreign, [(0, 1)]);
        assert_eq!(oracle.judge(&[(0, 2), (0, 2)]).doubled, [(0, 2)]);
    }
}
