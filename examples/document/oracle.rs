//! Judges loss, doubling and order from the outside.
//!
//! The oracle keeps its own list of what was sent and holds the room's journal against it. It asks no
//! counter of the library, because that is what is on trial.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use super::journal::{Run, SenderId};

/// What was sent into one room: sender by sender, the numbers 1 up to the last that was accepted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Oracle {
    sent: BTreeMap<SenderId, u64>,
}

/// What became of the messages of one room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Sent, never handled.
    pub(crate) lost: u64,
    /// Handled again after the first time.
    pub(crate) doubled: u64,
    /// Handled for the first time after a later one of the same sender.
    pub(crate) reordered: u64,
    /// Handled, but never sent.
    pub(crate) foreign: u64,
}

impl Oracle {
    /// Notes that `sender` was told of its messages up to `last` that they were accepted.
    pub(crate) fn accepted(&mut self, sender: SenderId, last: u64) {
        self.sent.insert(sender, last);
    }

    /// Compares what was sent with what the room says that it handled.
    pub(crate) fn judge(&self, journal: &[Run]) -> Verdict {
        let mut verdict = Verdict::default();
        for (&sender, &last) in &self.sent {
            verdict += judge_sender(last, journal.iter().filter(|run| run.sender == sender));
        }
        let strangers = journal.iter().filter(|run| !self.sent.contains_key(&run.sender));
        verdict.foreign += strangers.map(|run| run.count).sum::<u64>();
        verdict
    }
}

fn judge_sender<'a>(last: u64, runs: impl Iterator<Item = &'a Run>) -> Verdict {
    let mut verdict = Verdict { lost: last, ..Verdict::default() };
    let mut handled = vec![false; last as usize];
    let mut highest = 0;
    for run in runs {
        // The end is exclusive. What lies outside 1..=last was never sent.
        let end = run.first.saturating_add(run.count).min(last + 1);
        let sent = run.first.max(1)..end;
        verdict.foreign += run.count - sent.end.saturating_sub(sent.start);
        for number in sent {
            if std::mem::replace(&mut handled[number as usize - 1], true) {
                verdict.doubled += 1;
            } else {
                verdict.lost -= 1;
                verdict.reordered += u64::from(number < highest);
            }
            highest = highest.max(number);
        }
    }
    verdict
}

impl Verdict {
    /// Whether every message was handled once, in its sender's order.
    pub(crate) fn is_clean(&self) -> bool {
        *self == Self::default()
    }
}

impl AddAssign for Verdict {
    fn add_assign(&mut self, other: Self) {
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.reordered += other.reordered;
        self.foreign += other.foreign;
    }
}

#[cfg(test)]
mod tests {
    use super::super::journal::Journal;
    use super::*;

    /// Sender 0 sent 1..=6 and sender 7 sent 1..=3; the room handled these.
    fn verdict(handled: &[(SenderId, u64)]) -> Verdict {
        let mut oracle = Oracle::default();
        oracle.accepted(0, 6);
        oracle.accepted(7, 3);
        let mut journal = Journal::default();
        handled.iter().for_each(|(sender, number)| journal.note(*sender, *number));
        oracle.judge(&journal.page(0, usize::MAX))
    }

    const ALL: [(SenderId, u64); 9] =
        [(0, 1), (7, 1), (0, 2), (0, 3), (7, 2), (0, 4), (0, 5), (7, 3), (0, 6)];

    #[test]
    fn a_clean_run_is_clean() {
        assert!(verdict(&ALL).is_clean());
    }

    #[test]
    fn a_planted_loss_is_found_wherever_it_is() {
        for missing in 0..ALL.len() {
            let mut handled = ALL.to_vec();
            handled.remove(missing);
            assert_eq!(verdict(&handled), Verdict { lost: 1, ..Verdict::default() });
        }
        assert_eq!(verdict(&[]), Verdict { lost: 9, ..Verdict::default() });
    }

    #[test]
    fn a_planted_double_is_found_wherever_it_is() {
        for (from, to) in (0..ALL.len()).flat_map(|i| (i + 1..=ALL.len()).map(move |to| (i, to))) {
            let mut handled = ALL.to_vec();
            handled.insert(to, ALL[from]);
            let double = Verdict { doubled: 1, ..Verdict::default() };
            assert_eq!(verdict(&handled), double, "{from} again at {to}");
        }
    }

    #[test]
    fn a_planted_reorder_is_found() {
        let mut handled = ALL.to_vec();
        handled.swap(2, 3);
        assert_eq!(verdict(&handled), Verdict { reordered: 1, ..Verdict::default() });
        // One that comes last has been overtaken, the others were in order among themselves.
        handled = ALL.to_vec();
        let late = handled.remove(0);
        handled.push(late);
        assert_eq!(verdict(&handled), Verdict { reordered: 1, ..Verdict::default() });
    }

    #[test]
    fn order_between_senders_is_nobodys_promise() {
        let mut handled = ALL.to_vec();
        handled.sort();
        assert!(verdict(&handled).is_clean());
    }

    #[test]
    fn a_loss_and_a_double_do_not_cancel_out() {
        let mut handled = ALL.to_vec();
        handled[3] = handled[2];
        let both = Verdict { lost: 1, doubled: 1, ..Verdict::default() };
        assert_eq!(verdict(&handled), both);
    }

    #[test]
    fn what_nobody_sent_is_foreign() {
        for stranger in [(0, 7), (0, 0), (0, u64::MAX), (9, 1)] {
            let mut handled = ALL.to_vec();
            handled.push(stranger);
            let foreign = Verdict { foreign: 1, ..Verdict::default() };
            assert_eq!(verdict(&handled), foreign, "{stranger:?}");
        }
    }

    #[test]
    fn a_sender_that_sent_nothing_has_lost_nothing() {
        let mut oracle = Oracle::default();
        oracle.accepted(0, 0);
        assert!(oracle.judge(&[]).is_clean());
    }
}
