//! What was sent and what the writers were told, held against what the rooms wrote down.

use std::collections::BTreeSet;

/// What the writer of one room knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// Numbers whose message was accepted.
    pub(crate) accepted: BTreeSet<u64>,
    /// Numbers of which it knows no more than that they were sent.
    pub(crate) unknown: BTreeSet<u64>,
}

/// What is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Accepted and not there.
    pub(crate) lost: u64,
    /// There more than once.
    pub(crate) doubled: u64,
    /// Behind a number that was sent later.
    pub(crate) reordered: u64,
    /// Never sent.
    pub(crate) foreign: u64,
}

impl Told {
    /// Judges a room's list.
    pub(crate) fn judge(&self, numbers: &[u64]) -> Verdict {
        let mut verdict = Verdict::default();
        let mut seen = BTreeSet::new();
        for number in numbers {
            if !seen.insert(*number) {
                verdict.doubled += 1;
            } else if seen.last() != Some(number) {
                verdict.reordered += 1;
            }
            if !self.accepted.contains(number) && !self.unknown.contains(number) {
                verdict.foreign += 1;
            }
        }
        verdict.lost = self.accepted.difference(&seen).count() as u64;
        verdict
    }
}

impl std::ops::AddAssign for Verdict {
    fn add_assign(&mut self, other: Self) {
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.reordered += other.reordered;
        self.foreign += other.foreign;
    }
}

#[cfg(test)]
mod tests {
    use super::{Told, Verdict};

    fn told() -> Told {
        Told { accepted: [1, 2, 4, 5].into(), unknown: [3].into() }
    }

    #[test]
    fn a_list_with_everything_that_was_accepted_is_right() {
        assert_eq!(told().judge(&[1, 2, 3, 4, 5]), Verdict::default());
        assert_eq!(told().judge(&[1, 2, 4, 5]), Verdict::default(), "3 may be there or not");
    }

    #[test]
    fn every_fault_is_counted() {
        let of = |numbers: &[u64]| told().judge(numbers);
        assert_eq!(of(&[1, 2, 5]), Verdict { lost: 1, ..Verdict::default() });
        assert_eq!(of(&[1, 2, 2, 4, 5]), Verdict { doubled: 1, ..Verdict::default() });
        assert_eq!(of(&[2, 1, 4, 5]), Verdict { reordered: 1, ..Verdict::default() });
        assert_eq!(of(&[1, 2, 4, 5, 6]), Verdict { foreign: 1, ..Verdict::default() });
    }
}
