//! Sets of numbers that are mostly in a row.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of numbers. It takes memory by how often they are not in a row, not by how many they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intervals {
    /// From the first to the one after the last; they neither overlap nor touch.
    intervals: BTreeMap<u64, u64>,
}

impl Intervals {
    /// How many of these are not in it.
    pub(crate) fn missing(&self, range: Range<u64>) -> u64 {
        let count = range.end.saturating_sub(range.start);
        let inside = self
            .touching(&range)
            .map(|(start, end)| end.min(range.end).saturating_sub(start.max(range.start)));
        count - inside.sum::<u64>()
    }

    /// Adds these.
    pub(crate) fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let old: Vec<_> = self.touching(&range).collect();
        let mut all = range;
        for (start, end) in old {
            all = all.start.min(start)..all.end.max(end);
            self.intervals.remove(&start);
        }
        self.intervals.insert(all.start, all.end);
    }

    /// Those that overlap a range or touch it, the last first.
    fn touching(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, u64)> {
        let (first, last) = (range.start, range.end);
        let before = self.intervals.range(..=last).rev();
        before.map(|(start, end)| (*start, *end)).take_while(move |(_, end)| *end >= first)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn numbers_in_a_row_are_one_interval() {
        let mut set = Intervals::default();
        [1..4, 7..9, 4..7, 2..3].into_iter().for_each(|range| set.add(range));
        assert_eq!(set.intervals, BTreeMap::from([(1, 9)]));
    }

    #[test]
    fn it_counts_as_a_list_of_all_numbers_does() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..50 {
            let (mut set, mut list) = (Intervals::default(), [false; 40]);
            for _ in 0..20 {
                let start = rng.random_range(0..40);
                let end = rng.random_range(start..=40);
                let missing = list[start..end].iter().filter(|is_in| !**is_in).count();
                let range = start as u64..end as u64;
                assert_eq!(set.missing(range.clone()), missing as u64);
                if rng.random() {
                    set.add(range);
                    list[start..end].fill(true);
                }
            }
        }
    }
}
