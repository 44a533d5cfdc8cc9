//! Percentiles of small sets.

/// The nearest rank: the smallest of the ascending values that this share of all does not exceed. 0 of
/// none.
pub(crate) fn percentile(ascending: &[u64], percent: usize) -> u64 {
    let rank = (ascending.len() * percent).div_ceil(100);
    rank.checked_sub(1).and_then(|rank| ascending.get(rank)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_nearest_ranks() {
        let values: Vec<u64> = (1..=200).collect();
        assert_eq!(
            [0, 50, 99, 100].map(|percent| percentile(&values, percent)),
            [0, 100, 198, 200]
        );
        assert_eq!(percentile(&[7], 1), 7);
        assert_eq!(percentile(&[], 50), 0);
    }
}
