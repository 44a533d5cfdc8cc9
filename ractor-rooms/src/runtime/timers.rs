//! A room's timers: named, with absolute deadlines, part of the snapshot.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::id::Millis;

/// What an interval does with ticks that came due while nobody ran the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MissedPolicy {
    /// One tick for all that were missed, then on from now.
    FireOnce,
    /// None for those that were missed; the next is the next on the grid.
    Skip,
    /// Each of them, one after the other.
    CatchUp,
}

/// A timer as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerInfo {
    /// Its name.
    pub name: String,
    /// When it is due next, by the store's clock.
    pub due: Millis,
    /// Its period, if it repeats.
    pub every: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Timer {
    due: Millis,
    every_ms: Option<u64>,
    missed: MissedPolicy,
    message: Bytes,
}

/// The timers of one room. Pure: it is told the time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TimerTable(BTreeMap<String, Timer>);

/// The most timers of one room.
pub(crate) const MAX_TIMERS: usize = 4_096;

impl TimerTable {
    /// Sets or replaces a timer; `false` when there are too many.
    pub(crate) fn set(
        &mut self,
        name: &str,
        due: Millis,
        every: Option<Duration>,
        missed: MissedPolicy,
        message: Bytes,
    ) -> bool {
        if self.0.len() >= MAX_TIMERS && !self.0.contains_key(name) {
            return false;
        }
        // A period of 0 would fire for ever at one instant.
        let every_ms = every.map(|e| Millis::of(e).0.max(1));
        self.0.insert(name.to_owned(), Timer { due, every_ms, missed, message });
        true
    }

    pub(crate) fn cancel(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    pub(crate) fn list(&self) -> Vec<TimerInfo> {
        self.0
            .iter()
            .map(|(name, timer)| TimerInfo {
                name: name.clone(),
                due: timer.due,
                every: timer.every_ms.map(Duration::from_millis),
            })
            .collect()
    }

    /// The earliest deadline.
    #[cfg(test)]
    fn next(&self) -> Option<Millis> {
        self.next_except(|_, _| false)
    }

    /// The earliest deadline of those that `skip` does not name.
    pub(crate) fn next_except(&self, skip: impl Fn(&str, Millis) -> bool) -> Option<Millis> {
        self.0.iter().filter(|(name, t)| !skip(name, t.due)).map(|(_, t)| t.due).min()
    }

    /// Timers that are due, earliest first.
    pub(crate) fn due(&self, now: Millis) -> Vec<(String, Millis)> {
        let mut due: Vec<_> = self
            .0
            .iter()
            .filter(|(_, t)| t.due <= now)
            .map(|(name, t)| (t.due, name.clone()))
            .collect();
        due.sort();
        due.into_iter().map(|(at, name)| (name, at)).collect()
    }

    /// A tick that was due at `due` is handled at `now`: its message, and the timer moves on. `None`
    /// when the timer was cancelled, replaced or has fired for that deadline already, or skips it.
    pub(crate) fn fire(&mut self, name: &str, due: Millis, now: Millis) -> Option<Bytes> {
        let timer = self.0.get_mut(name)?;
        if timer.due != due {
            return None;
        }
        let Some(every) = timer.every_ms else {
            return self.0.remove(name).map(|t| t.message);
        };
        let behind = now.0.saturating_sub(due.0);
        let missed = behind >= every;
        timer.due = match timer.missed {
            MissedPolicy::CatchUp => Millis(due.0.saturating_add(every)),
            MissedPolicy::FireOnce if missed => Millis(now.0.saturating_add(every)),
            MissedPolicy::Skip if missed => {
                Millis(due.0.saturating_add((behind / every + 1).saturating_mul(every)))
            }
            MissedPolicy::FireOnce | MissedPolicy::Skip => Millis(due.0.saturating_add(every)),
        };
        (!(missed && timer.missed == MissedPolicy::Skip)).then(|| timer.message.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(missed: MissedPolicy) -> TimerTable {
        let mut table = TimerTable::default();
        let every = Some(Duration::from_millis(100));
        assert!(table.set("t", Millis(1_000), every, missed, Bytes::from_static(b"m")));
        table
    }

    #[test]
    fn one_shot_fires_once() {
        let mut table = TimerTable::default();
        table.set("t", Millis(5), None, MissedPolicy::FireOnce, Bytes::from_static(b"m"));
        assert_eq!(table.due(Millis(4)), vec![]);
        assert_eq!(table.due(Millis(5)), vec![("t".to_owned(), Millis(5))]);
        assert!(table.fire("t", Millis(5), Millis(5)).is_some());
        assert!(table.fire("t", Millis(5), Millis(5)).is_none());
        assert_eq!(table.next(), None);
    }

    #[test]
    fn interval_keeps_its_grid_when_a_tick_is_a_little_late() {
        let mut table = table(MissedPolicy::FireOnce);
        assert!(table.fire("t", Millis(1_000), Millis(1_030)).is_some());
        assert_eq!(table.next(), Some(Millis(1_100)));
    }

    #[test]
    fn missed_ticks_follow_the_policy() {
        let mut once = table(MissedPolicy::FireOnce);
        assert!(once.fire("t", Millis(1_000), Millis(1_350)).is_some());
        assert_eq!(once.next(), Some(Millis(1_450)));

        let mut skip = table(MissedPolicy::Skip);
        assert!(skip.fire("t", Millis(1_000), Millis(1_350)).is_none());
        assert_eq!(skip.next(), Some(Millis(1_400)));

        let mut all = table(MissedPolicy::CatchUp);
        for (due, next) in [(1_000, 1_100), (1_100, 1_200), (1_200, 1_300)] {
            assert!(all.fire("t", Millis(due), Millis(1_350)).is_some());
            assert_eq!(all.next(), Some(Millis(next)));
        }
    }

    #[test]
    fn tick_of_another_deadline_is_stale() {
        let mut table = table(MissedPolicy::FireOnce);
        assert!(table.fire("t", Millis(1_000), Millis(1_000)).is_some());
        assert!(table.fire("t", Millis(1_000), Millis(1_000)).is_none());
        assert!(table.cancel("t"));
        assert!(table.fire("t", Millis(1_100), Millis(1_100)).is_none());
    }

    #[test]
    fn too_many_timers_are_refused() {
        let mut table = TimerTable::default();
        for i in 0..MAX_TIMERS {
            let name = i.to_string();
            assert!(table.set(&name, Millis(1), None, MissedPolicy::Skip, Bytes::new()));
        }
        assert!(!table.set("one more", Millis(1), None, MissedPolicy::Skip, Bytes::new()));
        assert!(table.set("7", Millis(2), None, MissedPolicy::Skip, Bytes::new()));
    }
}
