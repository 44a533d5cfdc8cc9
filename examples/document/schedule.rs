//! When to move: moves are spread evenly over the edits of a document.

/// A number of moves over a number of edits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    edits: u64,
    moves: u32,
}

impl Schedule {
    /// Spreads `moves` over `edits`.
    pub(crate) fn new(edits: usize, moves: u32) -> Self {
        Self { edits: edits as u64, moves }
    }

    /// How many edits are typed before each move, in order.
    pub(crate) fn thresholds(self) -> impl Iterator<Item = u64> {
        (1..=self.moves).map(move |nth| self.threshold(nth))
    }

    /// How many moves must be over before the writer may go on after `typed` edits.
    ///
    /// Typing goes on during a move, or the move would prove little; but only up to the next one,
    /// or a fast writer would be done before the document has moved much.
    pub(crate) fn over_after(self, typed: u64) -> u32 {
        let gaps = u64::from(self.moves) + 1;
        // The largest `nth` with `threshold(nth) <= typed`.
        let due = ((typed + 1) * gaps).div_ceil(self.edits.max(1)).saturating_sub(1);
        due.min(u64::from(self.moves)).saturating_sub(1) as u32
    }

    fn threshold(self, nth: u32) -> u64 {
        self.edits * u64::from(nth) / (u64::from(self.moves) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_are_spread_evenly() {
        assert_eq!(Schedule::new(100, 3).thresholds().collect::<Vec<_>>(), [25, 50, 75]);
        assert_eq!(Schedule::new(100, 0).thresholds().count(), 0);
    }

    #[test]
    fn every_move_has_its_place_even_if_there_are_more_moves_than_edits() {
        for (edits, moves) in [(0, 5), (1, 5), (2, 50), (26_078, 50), (10, 9), (10, 10)] {
            let thresholds: Vec<u64> = Schedule::new(edits, moves).thresholds().collect();
            assert_eq!(thresholds.len(), moves as usize);
            assert!(thresholds.is_sorted());
            assert!(thresholds.iter().all(|threshold| *threshold <= edits as u64));
        }
    }

    #[test]
    fn the_writer_is_never_more_than_one_move_ahead() {
        for (edits, moves) in
            [(0, 5), (1, 5), (2, 50), (97, 13), (100, 3), (10, 9), (10, 10), (9, 0)]
        {
            let schedule = Schedule::new(edits, moves);
            for typed in 0..=edits as u64 {
                let due = schedule.thresholds().filter(|threshold| *threshold <= typed).count();
                assert_eq!(
                    schedule.over_after(typed) as usize,
                    due.saturating_sub(1),
                    "{typed} of {edits} edits, {moves} moves"
                );
            }
        }
    }
}
