//! What hosts report of a store that lost something.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ractor_rooms::RoomFault;

/// So many reasons are enough to see what went wrong.
const REASONS_KEPT: usize = 100;

/// What a host process tells of a store that had lost a room which it ran, and of one that somebody else had.
pub(crate) const REGRESSED: &str = "regressed";
pub(crate) const DIVERGED: &str = "diverged";

/// What all hosts of a run reported.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// By the key of the room, how many messages the store had accepted and lost.
    lost: BTreeMap<String, u64>,
    /// By the key of the room, how many messages were given up.
    undelivered: BTreeMap<String, u64>,
    /// Why, and how often.
    reasons: BTreeMap<String, u64>,
    regressed: u64,
    diverged: u64,
}

impl Reports {
    /// Takes what a host of this process reports.
    pub(crate) fn take(&self, fault: &RoomFault) {
        let mut told = self.lock();
        match fault {
            RoomFault::Lost { room, count } => {
                tracing::debug!(%room, count, "lost by the store");
                *told.lost.entry(room.key.to_string()).or_default() += count;
            }
            RoomFault::Undelivered { room, why } => {
                *told.undelivered.entry(room.key.to_string()).or_default() += 1;
                let reason = format!("a message to {room} was not delivered: {why}");
                if told.reasons.len() < REASONS_KEPT || told.reasons.contains_key(&reason) {
                    *told.reasons.entry(reason).or_default() += 1;
                }
            }
            other => {
                if let Some(word) = word(other) {
                    told.count(word);
                }
            }
        }
    }

    /// Takes a word of a host process.
    pub(crate) fn take_word(&self, word: &str) {
        self.lock().count(word);
    }

    /// How many messages to the room with this key were reported as lost by the store, or as given up: what it
    /// forgot is sent again, and may be given up then.
    pub(crate) fn gone(&self, key: &str) -> u64 {
        let told = self.lock();
        let of = |counts: &BTreeMap<String, u64>| counts.get(key).copied().unwrap_or_default();
        of(&told.lost) + of(&told.undelivered)
    }

    /// How often a host gave the store back what it had lost of a room.
    pub(crate) fn regressed(&self) -> u64 {
        self.lock().regressed
    }

    /// How often a host dropped a room that somebody else had.
    pub(crate) fn diverged(&self) -> u64 {
        self.lock().diverged
    }

    /// What the senders were not told in any other way: that messages of theirs were lost or given up.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let told = self.lock();
        let reasons = told.reasons.iter().map(|(why, count)| format!("{why} ({count} times)"));
        let lost = told.lost.iter();
        let lost = lost.map(|(key, count)| format!("the store lost {count} messages to {key}"));
        reasons.chain(lost).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn count(&mut self, word: &str) {
        match word {
            REGRESSED => self.regressed += 1,
            DIVERGED => self.diverged += 1,
            _ => tracing::debug!(word, "said by a host"),
        }
    }
}

/// What a host process says of a fault on its stdout.
pub(crate) fn word(fault: &RoomFault) -> Option<&'static str> {
    match fault {
        RoomFault::StoreRegressed { .. } => Some(REGRESSED),
        RoomFault::Diverged { .. } => Some(DIVERGED),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use ractor_rooms::id::RoomId;

    use super::*;

    fn room(key: &str) -> RoomId {
        RoomId::new("document", key.to_owned()).unwrap()
    }

    #[test]
    fn what_was_lost_is_summed_up_by_room() {
        let reports = Reports::default();
        for (key, count) in [("doc-0", 2), ("doc-1", 5), ("doc-0", 3)] {
            reports.take(&RoomFault::Lost { room: room(key), count });
        }
        reports.take(&RoomFault::Undelivered { room: room("doc-1"), why: "rain".into() });
        assert_eq!(["doc-0", "doc-1", "doc-2"].map(|key| reports.gone(key)), [5, 6, 0]);
        assert_eq!(reports.complaints().len(), 3);
    }

    #[test]
    fn words_of_processes_count_like_faults_of_hosts_here() {
        let reports = Reports::default();
        let fault = RoomFault::StoreRegressed { room: room("doc-0") };
        reports.take(&fault);
        reports.take_word(word(&fault).unwrap());
        reports.take_word(DIVERGED);
        reports.take_word("nonsense");
        assert_eq!((reports.regressed(), reports.diverged()), (2, 1));
    }

    #[test]
    fn complaints_do_not_grow_without_a_bound() {
        let reports = Reports::default();
        for number in 0..1_000 {
            let why = format!("rain {number}");
            reports.take(&RoomFault::Undelivered { room: room("doc-0"), why });
        }
        assert_eq!(reports.complaints().len(), REASONS_KEPT);
        assert_eq!(reports.gone("doc-0"), 1_000);
    }
}
