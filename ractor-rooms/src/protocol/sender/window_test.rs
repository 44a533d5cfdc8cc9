//! What is held of accepted messages, and goes again.

use super::bench::{accepted, three_accepted};
use super::*;

/// A sender of which three messages were accepted and two are held.
fn sender() -> Sender {
    let mut sender = three_accepted();
    sender.keep(2);
    sender
}

fn append(first: u64, count: u64) -> SenderAction {
    SenderAction::Append { life: Some(Life(3)), epoch: 0, first: Number(first), count }
}

#[test]
fn what_is_held_goes_again_under_its_numbers() {
    let mut sender = sender();
    let actions = sender.step(SenderEvent::Forgotten).unwrap();
    assert_eq!(actions, [SenderAction::Recall { count: 2 }]);
    assert_eq!((sender.accepted(), sender.kept(), sender.numbered()), (Number(1), 0, 2));
    assert_eq!(sender.step(SenderEvent::Ready { waiting: 5 }).unwrap(), [append(2, 2)]);
    let answer = AppendAnswer::Duplicate {
        last: Number(3),
        seq: Seq(9),
        life: Life(3),
        standing: Standing::Running,
    };
    let actions = sender.step(SenderEvent::Answered(answer)).unwrap();
    assert_eq!(actions, [SenderAction::Accept { count: 2 }, SenderAction::Next]);
    assert_eq!(sender.step(SenderEvent::Ready { waiting: 3 }).unwrap(), [append(4, 3)]);
}

#[test]
fn a_store_that_takes_them_again_had_lost_them() {
    let mut lost = sender();
    lost.step(SenderEvent::Forgotten).unwrap();
    lost.step(SenderEvent::Ready { waiting: 2 }).unwrap();
    let actions = lost.step(accepted(3)).unwrap();
    let again =
        [SenderAction::ReportRegressed, SenderAction::Accept { count: 2 }, SenderAction::Next];
    assert_eq!(actions, again);
    lost.step(SenderEvent::Ready { waiting: 1 }).unwrap();
    let actions = lost.step(accepted(4)).unwrap();
    assert_eq!(actions, [SenderAction::Accept { count: 1 }, SenderAction::Next], "said once");
}

#[test]
fn it_is_given_up_by_a_withdrawal_alone() {
    let mut sender = sender();
    sender.step(SenderEvent::Forgotten).unwrap();
    let actions = sender.step(SenderEvent::Expired { count: 2 }).unwrap();
    let withdraw = SenderAction::Withdraw { life: Some(Life(3)), epoch: 1, first: Number(2) };
    assert_eq!(actions, [withdraw]);
}

#[test]
fn it_goes_before_what_is_sent_already() {
    let mut sender = sender();
    sender.step(SenderEvent::Ready { waiting: 1 }).unwrap();
    sender.step(SenderEvent::Unanswered).unwrap();
    sender.step(SenderEvent::Forgotten).unwrap();
    assert_eq!(sender.step(SenderEvent::Ready { waiting: 3 }).unwrap(), [append(2, 3)]);
}

#[test]
fn a_gap_recalls_what_is_held_and_reports_the_rest() {
    let gap = |last| SenderEvent::Answered(AppendAnswer::Gap { last: Number(last), seq: Seq(1) });
    let mut held = sender();
    held.step(SenderEvent::Ready { waiting: 1 }).unwrap();
    let actions = held.step(gap(2)).unwrap();
    let regressed = SenderAction::ReportRegressed;
    assert_eq!(actions, [SenderAction::Recall { count: 1 }, regressed.clone(), SenderAction::Next]);
    assert_eq!(held.kept(), 1, "the other is in the store");
    assert_eq!(held.step(SenderEvent::Ready { waiting: 2 }).unwrap(), [append(3, 2)]);

    // A number is given again only after a withdrawal: a late copy of the lost one may be on its way.
    let mut lost = sender();
    lost.step(SenderEvent::Ready { waiting: 1 }).unwrap();
    let actions = lost.step(gap(0)).unwrap();
    let withdraw = SenderAction::Withdraw { life: Some(Life(3)), epoch: 1, first: Number(2) };
    assert_eq!(actions, [SenderAction::Recall { count: 2 }, withdraw]);
    let mut came_after_all = lost.clone();
    let report = SenderAction::ReportLost { from: Number(1), to: Number(1) };
    assert_eq!(lost.step(accepted(0)).unwrap(), [regressed, report, SenderAction::Next]);
    let actions = lost.step(SenderEvent::Ready { waiting: 3 }).unwrap();
    let append = |first, count| SenderAction::Append {
        life: Some(Life(3)),
        epoch: 1,
        first: Number(first),
        count,
    };
    assert_eq!(actions, [append(1, 3)]);

    let actions = came_after_all.step(accepted(2)).unwrap();
    assert_eq!(actions, [SenderAction::Accept { count: 1 }, SenderAction::Next]);
    let actions = came_after_all.step(SenderEvent::Ready { waiting: 2 }).unwrap();
    assert_eq!(actions, [append(3, 2)]);
}

#[test]
fn nothing_is_recalled_into_another_life() {
    let mut sender = sender();
    sender.step(SenderEvent::Ready { waiting: 1 }).unwrap();
    sender.step(SenderEvent::Answered(AppendAnswer::OtherLife { life: Life(4) })).unwrap();
    assert_eq!(sender.step(SenderEvent::Forgotten).unwrap(), []);
}

#[test]
fn a_generation_waits_for_the_append_that_is_out() {
    let mut sender = sender();
    sender.step(SenderEvent::Ready { waiting: 1 }).unwrap();
    assert!(sender.step(SenderEvent::Forgotten).is_err());
}
