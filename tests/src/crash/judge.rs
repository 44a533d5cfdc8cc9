//! What must be true after a crash.

use std::time::Duration;

use ractor_rooms::Delivery;

use crate::holes::{Class, DOOMED, Shown, Sight, What};

/// Longer than the session of the dead host and this a room does not take to answer, on a busy machine.
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);

/// What one sender did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Who.
    pub from: u32,
    /// The last number that was acknowledged; all before it were too.
    pub acked: u64,
    /// The last number that was sent.
    pub tried: u64,
    /// Why it stopped, if it was not told to.
    pub refused: Option<String>,
    /// Whether its host was killed.
    pub killed: bool,
    /// The last number that was acknowledged before the room was seen after the crash.
    pub acked_before: u64,
}

/// What was seen of one crash.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Whether the move came to the point. If not, the host died when the move was over.
    pub reached: bool,
    /// Whether the host that died had the lease.
    pub owned: bool,
    /// From the death until the room answered.
    pub answered_after: Duration,
    /// What the room shows in the end.
    pub shown: Shown,
    /// What the senders did.
    pub sent: Vec<Sent>,
    /// How often members were told of a roll-back.
    pub roll_backs: usize,
    /// Other things that members were told and should not have been.
    pub told: Vec<String>,
    /// What happened in the room, on all hosts.
    pub sights: Vec<Sight>,
    /// The name of the host that died.
    pub dead: &'static str,
}

impl Verdict {
    /// Says what is wrong, if something is.
    ///
    /// # Errors
    /// In words.
    pub fn check<C: Class>(&self) -> Result<(), String> {
        let bound = DOOMED + ANSWERS_WITHIN;
        expect(self.answered_after < bound, || {
            format!("expected an answer within {bound:?}, found {:?}", self.answered_after)
        })?;
        expect(self.shown.host != self.dead, || format!("it answers from {}", self.dead))?;
        expect(self.told.is_empty(), || format!("members were told {:?}", self.told))?;
        // Only who held the lease can take anything with it, and only of a live room.
        let may_go_back = self.owned && C::DELIVERY == Delivery::Live;
        let most = usize::from(may_go_back);
        expect(self.roll_backs <= most, || {
            format!("expected at most {most} roll-backs, found {}", self.roll_backs)
        })?;
        for sent in &self.sent {
            self.check_sender(sent).map_err(|why| format!("sender {}: {why}", sent.from))?;
        }
        self.check_owners()
    }

    fn check_sender(&self, sent: &Sent) -> Result<(), String> {
        if !sent.killed {
            expect(sent.refused.is_none(), || format!("refused: {:?}", sent.refused))?;
        }
        let numbers: Vec<u64> =
            self.shown.of(sent.from).into_iter().map(|(_, number)| number).collect();
        expect(numbers.is_sorted_by(|one, next| one < next), || {
            format!("not once and in order: {numbers:?}")
        })?;
        expect(numbers.last().is_none_or(|last| *last <= sent.tried), || {
            format!("{numbers:?}, of {} that were sent", sent.tried)
        })?;
        let missing: Vec<u64> =
            (1..=sent.acked).filter(|number| numbers.binary_search(number).is_err()).collect();
        if self.roll_backs == 0 {
            expect(missing.is_empty(), || format!("acknowledged and not handled: {missing:?}"))?;
            // What was not acknowledged comes without gaps too.
            let first = numbers.iter().zip(1..).all(|(number, expected)| *number == expected);
            return expect(first, || format!("with gaps: {numbers:?}"));
        }
        // A crash takes the end of what was acknowledged before it, and nothing after it.
        expect(missing.iter().all(|number| *number <= sent.acked_before), || {
            format!("acknowledged after the roll-back and not handled: {missing:?}")
        })
    }

    /// Epochs take turns and never come back.
    fn check_owners(&self) -> Result<(), String> {
        let handled: Vec<&Sight> =
            self.sights.iter().filter(|s| matches!(s.what, What::Handled(..))).collect();
        expect(handled.is_sorted_by_key(|sight| sight.epoch), || {
            format!("two owners at a time: {handled:?}")
        })?;
        let one_host = handled
            .windows(2)
            .all(|pair| pair[0].epoch != pair[1].epoch || pair[0].host == pair[1].host);
        expect(one_host, || format!("two hosts in one epoch: {handled:?}"))
    }
}

fn expect(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holes::{Durable, Live};

    const FAR: u32 = 2;

    /// Six messages of one sender, of which four were acknowledged before the room was seen again.
    fn verdict(handled: &[(u64, u64)]) -> Verdict {
        let sight = |&(number, epoch): &(u64, u64)| Sight {
            host: if epoch < 5 { "a" } else { "b" }.to_owned(),
            key: "pad".to_owned(),
            epoch,
            what: What::Handled(FAR, number),
        };
        Verdict {
            reached: true,
            owned: true,
            answered_after: DOOMED,
            shown: Shown {
                host: "b".to_owned(),
                epoch: 5,
                life: 1,
                notes: handled.iter().map(|(number, _)| (FAR, *number)).collect(),
                rolls: Vec::new(),
                rolled: Vec::new(),
                answers: Vec::new(),
                kept: 0,
                ticks: 0,
            },
            sent: vec![Sent {
                from: FAR,
                acked: 6,
                tried: 7,
                refused: None,
                killed: false,
                acked_before: 4,
            }],
            roll_backs: 0,
            told: Vec::new(),
            sights: handled.iter().map(sight).collect(),
            dead: "a",
        }
    }

    const ALL: [(u64, u64); 6] = [(1, 3), (2, 3), (3, 3), (4, 5), (5, 5), (6, 5)];

    #[test]
    fn what_is_right_passes() {
        assert_eq!(verdict(&ALL).check::<Durable>(), Ok(()));
        let mut unacknowledged = ALL.to_vec();
        unacknowledged.push((7, 5));
        assert_eq!(verdict(&unacknowledged).check::<Live>(), Ok(()));
    }

    #[test]
    fn only_a_roll_back_that_was_told_excuses_a_loss_and_only_before_it() {
        let handled = [(1, 3), (2, 3), (5, 5), (6, 5)];
        verdict(&handled).check::<Live>().unwrap_err();
        let told = Verdict { roll_backs: 1, ..verdict(&handled) };
        assert_eq!(told.check::<Live>(), Ok(()));
        told.check::<Durable>().unwrap_err();
        Verdict { owned: false, ..told.clone() }.check::<Live>().unwrap_err();
        Verdict { roll_backs: 2, ..told }.check::<Live>().unwrap_err();
        let later = Verdict { roll_backs: 1, ..verdict(&[(1, 3), (2, 3), (6, 5)]) };
        later.check::<Live>().unwrap_err();
    }

    #[test]
    fn whatever_is_wrong_is_found() {
        let wrongs: [fn(&mut Verdict); 10] = [
            |v| v.shown.notes.swap(1, 2),
            |v| v.shown.notes.insert(1, (FAR, 1)),
            |v| v.shown.notes.push((FAR, 8)),
            |v| v.shown.notes.truncate(5),
            |v| v.sights.swap(2, 3),
            |v| v.sights[1].host = "c".to_owned(),
            |v| v.shown.host = "a".to_owned(),
            |v| v.sent[0].refused = Some("full".to_owned()),
            |v| v.told.push("closed".to_owned()),
            |v| v.answered_after = DOOMED + ANSWERS_WITHIN,
        ];
        for (nth, wrong) in wrongs.into_iter().enumerate() {
            let mut verdict = verdict(&ALL);
            wrong(&mut verdict);
            assert!(verdict.check::<Durable>().is_err(), "wrong {nth}");
        }
    }
}
