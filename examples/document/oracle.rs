//! Judges loss, doubling and order from the outside.
//!
//! The oracle keeps its own list of what was sent and holds the room's journal against it. It asks no
//! counter of the library, because that is what is on trial.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{AddAssign, Bound};

use ropey::Rope;

use super::intervals::Intervals;

use super::journal::{Run, SenderId};
use super::script::Script;

/// What was sent into one room: sender by sender, the numbers 1 up to the last that was accepted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Oracle {
    sent: BTreeMap<SenderId, u64>,
    roll_backs: BTreeSet<u64>,
}

/// What became of the messages of one room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Sent and never handled, and no roll-back tells why.
    pub(crate) lost: u64,
    /// Sent and not in the room any more, because it went back to a checkpoint and said so. These are no
    /// fault in a room that promises no more.
    pub(crate) rolled_back: u64,
    /// Sent and never handled, and a host said that the store lost as many as these. These are no fault where
    /// the store is made to forget.
    pub(crate) reported: u64,
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

    /// Notes that the room said, before anything else in this epoch, that it went back to a checkpoint.
    pub(crate) fn rolled_back(&mut self, epoch: u64) {
        self.roll_backs.insert(epoch);
    }

    /// Compares what was sent with what the room says that it handled.
    pub(crate) fn judge(&self, journal: &[Run]) -> Verdict {
        let mut verdict = Verdict::default();
        for (&sender, &last) in &self.sent {
            let runs = journal.iter().filter(|run| run.sender == sender);
            verdict += judge_sender(last, runs, &self.roll_backs);
        }
        let strangers = journal.iter().filter(|run| !self.sent.contains_key(&run.sender));
        verdict.foreign += strangers.map(|run| run.count).sum::<u64>();
        verdict
    }
}

fn judge_sender<'a>(
    last: u64,
    runs: impl Iterator<Item = &'a Run>,
    roll_backs: &BTreeSet<u64>,
) -> Verdict {
    let mut verdict = Verdict { lost: last, ..Verdict::default() };
    let mut handled = Intervals::default();
    let mut highest = 0;
    // Numbers that were passed over in an epoch that began with a roll-back.
    let mut undone = Vec::new();
    let mut ended = 0;
    let went_back = |after: u64, until: Bound<u64>| {
        roll_backs.range((Bound::Excluded(after), until)).next().is_some()
    };
    for run in runs {
        // Under one epoch and the same, nothing can have gone back in between.
        if run.first > highest + 1
            && run.begun > ended
            && went_back(ended, Bound::Included(run.begun))
        {
            undone.push(highest + 1..run.first.min(last + 1));
        }
        ended = run.ended;
        // The end is exclusive. What lies outside 1..=last was never sent.
        let end = run.first.saturating_add(run.count).min(last + 1);
        let sent = run.first.max(1)..end;
        let count = sent.end.saturating_sub(sent.start);
        verdict.foreign += run.count - count;
        if count == 0 {
            continue;
        }
        verdict.reordered += handled.missing(sent.start..sent.end.min(highest));
        let new = handled.missing(sent.clone());
        verdict.doubled += count - new;
        verdict.lost -= new;
        highest = highest.max(sent.end - 1);
        handled.add(sent);
    }
    if went_back(ended, Bound::Unbounded) {
        undone.push(highest + 1..last + 1);
    }
    for gap in undone {
        let new = handled.missing(gap.clone());
        verdict.lost -= new;
        verdict.rolled_back += new;
        handled.add(gap);
    }
    verdict
}

/// What the text must be if the writer's edits were handled as the journal says, and how many of them did not
/// fit.
pub(crate) fn typed(script: &Script, writer: SenderId, journal: &[Run]) -> (String, u64) {
    let mut text = Rope::from_str(&script.start);
    let mut misfits = 0;
    for run in journal.iter().filter(|run| run.sender == writer) {
        for number in run.first.max(1)..run.first.saturating_add(run.count) {
            let Some(edit) = script.edits.get(number as usize - 1) else { break };
            misfits += u64::from(edit.apply(&mut text).is_err());
        }
    }
    (text.to_string(), misfits)
}

impl Verdict {
    /// Takes out what hosts reported of messages to the room that the store has lost: so many at the most.
    pub(crate) fn excuse(&mut self, told: u64) {
        let reported = told.min(self.lost);
        self.lost -= reported;
        self.reported += reported;
    }

    /// Whether every message was handled once, in its sender's order, but for those of which the room said
    /// that it went back before them, or a host that the store has lost them.
    pub(crate) fn is_clean(&self) -> bool {
        Self { rolled_back: 0, reported: 0, ..*self } == Self::default()
    }
}

impl AddAssign for Verdict {
    fn add_assign(&mut self, other: Self) {
        self.lost += other.lost;
        self.rolled_back += other.rolled_back;
        self.reported += other.reported;
        self.doubled += other.doubled;
        self.reordered += other.reordered;
        self.foreign += other.foreign;
    }
}

#[cfg(test)]
mod tests {
    use super::super::journal::Journal;
    use super::super::script::Edit;
    use super::*;

    /// Sender 0 sent 1..=6 and sender 7 sent 1..=3; the room handled these.
    fn verdict(handled: &[(SenderId, u64)]) -> Verdict {
        let mut oracle = Oracle::default();
        oracle.accepted(0, 6);
        oracle.accepted(7, 3);
        let mut journal = Journal::default();
        handled.iter().for_each(|(sender, number)| journal.note(*sender, *number, 1));
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

    /// Sender 0 sent 1..=6; the room handled these in these epochs and told of these roll-backs.
    fn after_roll_backs(handled: &[(u64, u64)], epochs: &[u64]) -> Verdict {
        let mut oracle = Oracle::default();
        oracle.accepted(0, 6);
        epochs.iter().for_each(|epoch| oracle.rolled_back(*epoch));
        let mut journal = Journal::default();
        handled.iter().for_each(|(number, epoch)| journal.note(0, *number, *epoch));
        oracle.judge(&journal.page(0, usize::MAX))
    }

    #[test]
    fn what_a_roll_back_undid_is_not_lost() {
        let undone = |rolled_back| Verdict { rolled_back, ..Verdict::default() };
        let all = [(1, 3), (2, 3), (5, 7), (6, 7)];
        assert_eq!(after_roll_backs(&all, &[7]), undone(2));
        assert_eq!(after_roll_backs(&all, &[5]), undone(2), "an epoch in which nothing came");
        assert_eq!(after_roll_backs(&[(3, 4), (4, 4), (5, 4), (6, 4)], &[4]), undone(2));
        assert_eq!(after_roll_backs(&[(1, 3), (2, 3)], &[8]), undone(4), "the end is undone");
        assert_eq!(after_roll_backs(&[], &[8]), undone(6));
        assert!(undone(2).is_clean());
    }

    #[test]
    fn what_no_roll_back_undid_is_lost() {
        let lost = |lost| Verdict { lost, ..Verdict::default() };
        let all = [(1, 3), (2, 3), (5, 7), (6, 7)];
        assert_eq!(after_roll_backs(&all, &[]), lost(2));
        assert_eq!(after_roll_backs(&all, &[3]), lost(2), "before it, not after it");
        // The gap is within epoch 7, after its roll-back.
        let within = [(1, 3), (2, 7), (5, 7), (6, 7)];
        assert_eq!(after_roll_backs(&within, &[7]), lost(2));
        assert_eq!(after_roll_backs(&all, &[9]), lost(2), "later than all that was handled");
    }

    #[test]
    fn only_as_many_are_excused_as_were_reported() {
        let lost = |told| {
            let mut verdict = verdict(&[(0, 1), (0, 4), (0, 5), (0, 6), (7, 1), (7, 2)]);
            verdict.excuse(told);
            (verdict.lost, verdict.reported, verdict.is_clean())
        };
        assert_eq!(lost(0), (3, 0, false));
        assert_eq!(lost(2), (1, 2, false));
        assert_eq!(lost(3), (0, 3, true));
        assert_eq!(lost(9), (0, 3, true));
    }

    #[test]
    fn what_comes_after_a_roll_back_must_still_be_in_order_and_once() {
        let verdict = after_roll_backs(&[(1, 3), (4, 7), (2, 7), (4, 7), (5, 7), (6, 7)], &[7]);
        assert_eq!((verdict.rolled_back, verdict.reordered, verdict.doubled), (1, 1, 1));
        assert!(!verdict.is_clean());
    }

    #[test]
    fn the_text_is_that_of_the_edits_that_were_handled() {
        let edits = vec![Edit::insert(0, "a"), Edit::insert(1, "b"), Edit::insert(2, "c")];
        let script = Script { start: String::new(), edits, end: "abc".into() };
        let typed = |numbers: &[u64]| {
            let mut journal = Journal::default();
            numbers.iter().for_each(|number| journal.note(4, *number, 1));
            typed(&script, 4, &journal.page(0, 9))
        };
        assert_eq!(typed(&[1, 2, 3]), ("abc".into(), 0));
        assert_eq!(typed(&[1, 3]), ("a".into(), 1));
        assert_eq!(typed(&[]), (String::new(), 0));
        assert_eq!(typed(&[1, 0, 9]), ("a".into(), 0), "nobody wrote these");
    }

    #[test]
    fn a_sender_that_sent_nothing_has_lost_nothing() {
        let mut oracle = Oracle::default();
        oracle.accepted(0, 0);
        assert!(oracle.judge(&[]).is_clean());
    }
}
