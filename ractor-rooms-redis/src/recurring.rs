//! Warnings that would come again and again, as while a key is damaged: said when one begins, every ten
//! seconds with how often it came, and when it is over.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use ractor_rooms::clock::Clock;

/// Between two that are said.
const EVERY: Duration = Duration::from_secs(10);
/// Different ones that are counted; more than these are not said.
const MOST: usize = 1_024;

static ALL: LazyLock<Mutex<Recurring>> = LazyLock::new(Mutex::default);
static CLOCK: LazyLock<Clock> = LazyLock::new(Clock::system);

/// See the [module](self).
#[derive(Debug, Default)]
struct Recurring(HashMap<String, Seen>);

#[derive(Debug)]
struct Seen {
    said: Duration,
    last: Duration,
    unsaid: u64,
}

impl Recurring {
    /// How often it came since it was said, if it is to be said now.
    fn came(&mut self, what: &str, now: Duration) -> Option<u64> {
        if let Some(seen) = self.0.get_mut(what) {
            seen.last = now;
            if now.saturating_sub(seen.said) < EVERY {
                seen.unsaid += 1;
                return None;
            }
            seen.said = now;
            return Some(std::mem::take(&mut seen.unsaid));
        }
        if self.0.len() >= MOST {
            return None;
        }
        self.0.insert(what.to_owned(), Seen { said: now, last: now, unsaid: 0 });
        Some(0)
    }

    /// Those that have not come for a while, each with how often it came since it was said.
    fn ended(&mut self, now: Duration) -> Vec<(String, u64)> {
        let over = |seen: &Seen| now.saturating_sub(seen.last) >= EVERY;
        self.0.extract_if(|_, seen| over(seen)).map(|(what, seen)| (what, seen.unsaid)).collect()
    }
}

/// Whether a warning is to be said now, and how often it came since it was said last. It is told from others
/// by `what`.
pub(crate) fn came(what: &str) -> Option<u64> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner).came(what, CLOCK.mark())
}

/// Says what is over. Called as often as a host looks at the store.
pub(crate) fn tell_ended() {
    let ended = {
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if all.0.is_empty() { Vec::new() } else { all.ended(CLOCK.mark()) }
    };
    for (what, unsaid) in ended {
        tracing::info!(what, unsaid, "it has not come for ten seconds");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_begins_one_reminds_and_one_ends() {
        let mut all = Recurring::default();
        let at = Duration::from_millis;
        let said: Vec<_> =
            (0..12_000).filter_map(|ms| Some((ms, all.came("x", at(ms))?))).collect();
        assert_eq!(said, [(0, 0), (10_000, 9_999)]);
        assert_eq!(all.came("y", at(12_000)), Some(0), "another one");
        assert_eq!(all.ended(at(21_998)), []);
        assert_eq!(all.ended(at(21_999)), [("x".to_owned(), 1_999)]);
        assert_eq!(all.came("x", at(22_000)), Some(0), "it begins again");
    }

    #[test]
    fn a_flood_of_different_ones_is_bounded() {
        let (mut all, now) = (Recurring::default(), Duration::ZERO);
        let said = (0..10_000).filter(|i| all.came(&i.to_string(), now).is_some()).count();
        assert_eq!(said, MOST);
    }
}
