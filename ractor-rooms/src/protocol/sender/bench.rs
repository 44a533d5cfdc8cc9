//! What the tests of a sender share.

use super::*;

pub(super) const LIFE: Life = Life(3);

pub(super) fn accepted(last: u64) -> SenderEvent {
    SenderEvent::Answered(AppendAnswer::Accepted {
        last: Number(last),
        seq: Seq(last),
        life: LIFE,
        standing: Standing::Running,
    })
}

/// A sender of which three messages were accepted, and none is held.
pub(super) fn three_accepted() -> Sender {
    let mut sender = Sender::new();
    sender.step(SenderEvent::Ready { waiting: 3 }).unwrap();
    sender.step(accepted(0)).unwrap();
    sender.step(SenderEvent::Ready { waiting: 3 }).unwrap();
    sender.step(accepted(3)).unwrap();
    sender
}
