//! The oracle: what was sent and what the sender was told, kept by the test itself. It asks no counter of
//! the library, because that is what is on trial.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;
use ractor_rooms::RoomRef;
use tokio::task::JoinHandle;

use crate::hosts::{eventually, in_time};
use crate::ledger::{Class, Ledger, LedgerMsg, Note};

/// What a sender was told of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It must be handled once.
    Accepted,
    /// It must not be handled.
    HandedBack,
    /// It may be handled once or never.
    Unknown,
}

/// What each sender sent, in order, and what it was told of it.
type Sent = BTreeMap<u32, Vec<(u64, Told)>>;

/// What was sent into one room. Clones share one list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal(Arc<Mutex<Sent>>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Verdict {
    lost: Vec<Note>,
    doubled: Vec<Note>,
    reordered: Vec<Note>,
    /// Handled, although it was handed back or never sent.
    foreign: Vec<Note>,
}

impl Journal {
    pub(crate) fn note(&self, (from, number): Note, told: Told) {
        self.0.lock().entry(from).or_default().push((number, told));
    }

    /// How many messages were accepted so far.
    pub(crate) fn accepted(&self) -> usize {
        self.0.lock().values().flatten().filter(|(_, told)| *told == Told::Accepted).count()
    }

    /// Waits until so many were accepted.
    pub(crate) async fn until_accepted(&self, count: usize) {
        let what = format!("{count} messages are accepted");
        eventually(&what, || async { (self.accepted() >= count).then_some(()) }).await;
    }

    /// Sends numbered notes one after the other, each once the one before was answered.
    pub(crate) fn write<C: Class>(
        &self,
        room: RoomRef<Ledger<C>>,
        from: u32,
        numbers: RangeInclusive<u64>,
    ) -> JoinHandle<()> {
        let journal = self.clone();
        tokio::spawn(async move {
            for number in numbers {
                let note = (from, number);
                let told = match in_time("a send ends", room.send(LedgerMsg::Note(note))).await {
                    Ok(()) => Told::Accepted,
                    Err(error) => match error.into_message() {
                        Some(_) => Told::HandedBack,
                        None => Told::Unknown,
                    },
                };
                journal.note(note, told);
            }
        })
    }

    fn judge(&self, handled: &[Note]) -> Verdict {
        let mut verdict = Verdict::default();
        let sent = self.0.lock();
        let mut places = BTreeMap::new();
        for (from, numbers) in &*sent {
            for (place, (number, told)) in numbers.iter().enumerate() {
                places.insert((*from, *number), (place, *told, 0_u32));
            }
        }
        let mut highest: BTreeMap<u32, usize> = BTreeMap::new();
        for note in handled {
            let Some((place, told, times)) = places.get_mut(note) else {
                verdict.foreign.push(*note);
                continue;
            };
            *times += 1;
            let last = highest.entry(note.0).or_default();
            if *told == Told::HandedBack {
                verdict.foreign.push(*note);
            } else if *times > 1 {
                verdict.doubled.push(*note);
            } else if *place < *last {
                verdict.reordered.push(*note);
            }
            *last = (*last).max(*place);
        }
        let missing = places.iter().filter(|(_, (_, t, n))| *t == Told::Accepted && *n == 0);
        verdict.lost = missing.map(|(note, _)| *note).collect();
        verdict
    }

    /// # Panics
    /// When anything was lost, doubled, reordered or invented.
    #[track_caller]
    pub(crate) fn assert_clean(&self, handled: &[Note]) {
        assert_eq!(self.judge(handled), Verdict::default());
    }

    /// The same, and that every one of `count` messages was accepted: no fault that a test makes is long
    /// enough to be felt by a sender.
    #[track_caller]
    pub(crate) fn assert_exact(&self, count: usize, handled: &[Note]) {
        assert_eq!(self.accepted(), count, "messages accepted");
        assert_eq!(handled.len(), count, "messages handled");
        self.assert_clean(handled);
    }
}

#[test]
fn the_journal_finds_planted_faults() {
    let journal = Journal::default();
    for number in 1..=3 {
        journal.note((1, number), Told::Accepted);
    }
    journal.note((1, 4), Told::HandedBack);
    journal.note((1, 5), Told::Unknown);
    let verdict =
        |notes: &[u64]| journal.judge(&notes.iter().map(|number| (1, *number)).collect::<Vec<_>>());
    assert_eq!(verdict(&[1, 2, 3]), Verdict::default());
    assert_eq!(verdict(&[1, 2, 3, 5]), Verdict::default());
    assert_eq!(verdict(&[1, 3]).lost, [(1, 2)]);
    assert_eq!(verdict(&[1, 2, 3, 2]).doubled, [(1, 2)]);
    assert_eq!(verdict(&[2, 1, 3]).reordered, [(1, 1)]);
    assert_eq!(verdict(&[1, 2, 3, 4, 9]).foreign, [(1, 4), (1, 9)]);
}
