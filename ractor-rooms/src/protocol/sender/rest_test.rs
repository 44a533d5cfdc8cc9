//! What a sender knows of messages that are not held any more, and how it finds out what became of them.

use super::bench::{LIFE, accepted, three_accepted};
use super::*;

fn other_life() -> SenderEvent {
    SenderEvent::Answered(AppendAnswer::OtherLife { life: Life(4) })
}

fn rested() -> Sender {
    three_accepted().rest().unwrap()
}

fn ask() -> [SenderAction; 1] {
    [SenderAction::Withdraw { life: Some(LIFE), epoch: 0, first: Number(4) }]
}

fn withdraw() -> [SenderAction; 1] {
    [SenderAction::Withdraw { life: Some(LIFE), epoch: 1, first: Number(4) }]
}

fn lost(from: u64, to: u64) -> SenderAction {
    SenderAction::ReportLost { from: Number(from), to: Number(to) }
}

#[test]
fn one_that_rested_asks_before_it_sends() {
    let mut sender = rested();
    assert_eq!(sender.step(SenderEvent::Ready { waiting: 2 }).unwrap(), ask());
    assert_eq!(sender.step(accepted(3)).unwrap(), [SenderAction::Next]);
    let append = SenderAction::Append { life: Some(LIFE), epoch: 0, first: Number(4), count: 2 };
    assert_eq!(sender.step(SenderEvent::Ready { waiting: 2 }).unwrap(), [append]);
}

#[test]
fn what_the_store_does_not_know_any_more_is_lost() {
    let mut sender = rested();
    sender.step(SenderEvent::Ready { waiting: 1 }).unwrap();
    assert_eq!(sender.step(accepted(1)).unwrap(), withdraw());
    let actions = sender.step(accepted(1)).unwrap();
    assert_eq!(actions, [SenderAction::ReportRegressed, lost(2, 3), SenderAction::Next]);
    let append = SenderAction::Append { life: Some(LIFE), epoch: 1, first: Number(2), count: 1 };
    assert_eq!(sender.step(SenderEvent::Ready { waiting: 1 }).unwrap(), [append]);
}

#[test]
fn a_life_that_ended_has_lost_nothing_unless_the_store_has_forgotten_it() {
    let mut ended = rested();
    ended.step(SenderEvent::Ready { waiting: 1 }).unwrap();
    assert_eq!(ended.step(other_life()).unwrap(), [SenderAction::Next]);
    assert_eq!((ended.accepted(), ended.life()), (Number(0), Some(Life(4))));
    let mut forgotten = rested();
    forgotten.step(SenderEvent::Forgotten).unwrap();
    forgotten.step(SenderEvent::Ready { waiting: 1 }).unwrap();
    assert_eq!(forgotten.step(other_life()).unwrap(), [lost(1, 3), SenderAction::Next]);
    // There is no record, though a record is never deleted.
    let mut missing = rested();
    missing.step(SenderEvent::Ready { waiting: 1 }).unwrap();
    missing.step(SenderEvent::Answered(AppendAnswer::Missing)).unwrap();
    assert_eq!(missing.step(other_life()).unwrap(), [lost(1, 3), SenderAction::Next]);
}

#[test]
fn in_another_generation_it_asks_although_nothing_waits() {
    let mut sender = three_accepted();
    assert_eq!(sender.step(SenderEvent::Forgotten).unwrap(), []);
    assert!(sender.in_flight());
    assert_eq!(sender.step(SenderEvent::Ready { waiting: 0 }).unwrap(), ask());
    let unproved = SenderEvent::Answered(AppendAnswer::Unproved { seq: Seq(1) });
    assert_eq!(sender.step(unproved).unwrap(), [SenderAction::Backoff]);
    assert_eq!(sender.step(SenderEvent::Ready { waiting: 0 }).unwrap(), ask());
    assert_eq!(sender.step(accepted(2)).unwrap(), withdraw());
    assert_eq!(sender.step(accepted(2)).unwrap()[1], lost(3, 3));
    assert!(!sender.in_flight());
}

#[test]
fn a_room_is_born_for_a_message_and_not_for_the_question() {
    let mut sender = three_accepted();
    let missing = || SenderEvent::Answered(AppendAnswer::Missing);
    sender.step(SenderEvent::Forgotten).unwrap();
    sender.step(SenderEvent::Ready { waiting: 0 }).unwrap();
    assert_eq!(sender.step(missing()).unwrap(), [SenderAction::Backoff]);
    let mut gone = sender.clone();
    assert_eq!(gone.step(SenderEvent::Gone).unwrap(), [lost(1, 3)]);
    assert_eq!((gone.in_flight(), gone.accepted()), (false, Number(0)), "said once");
    sender.step(SenderEvent::Ready { waiting: 1 }).unwrap();
    let find = SenderAction::FindHost { create: true };
    assert_eq!(sender.step(missing()).unwrap(), [find, SenderAction::Backoff]);
    assert_eq!(sender.step(SenderEvent::Gone).unwrap(), [], "it is born in a moment");
}

#[test]
fn only_what_is_at_rest_and_has_had_something_accepted_is_kept() {
    assert_eq!(Sender::new().rest(), None);
    let mut out = three_accepted();
    out.step(SenderEvent::Ready { waiting: 1 }).unwrap();
    assert_eq!(out.rest(), None);
    // A room's numbers are in its snapshot.
    let mut of_room = Sender::resuming(Number(0), Some(LIFE));
    of_room.step(SenderEvent::Ready { waiting: 1 }).unwrap();
    of_room.step(accepted(1)).unwrap();
    assert_eq!(of_room.rest(), None);
    assert_eq!(of_room.step(SenderEvent::Forgotten).unwrap(), []);
    assert!(!of_room.in_flight());
}
