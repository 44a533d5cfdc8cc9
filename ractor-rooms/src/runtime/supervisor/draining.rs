//! What a drain asks of the supervisor: see [`Drain`](crate::protocol::drain::Drain), which decides.

use std::sync::atomic::Ordering;

use tokio::sync::oneshot;

use super::super::error::MigrationErr;
use super::super::not_running::WhyNotRunning;
use super::super::report::MoveReason;
use super::super::wire::MigrateOutcome;
use super::Supervisor;
use super::message::{Responder, RoomsHere};
use crate::id::{HostId, RoomId};
use crate::protocol::source::Goal;

impl Supervisor {
    /// The rooms that are here.
    pub(super) fn here(&self) -> RoomsHere {
        let mut here = RoomsHere::default();
        for (room, slot) in &self.slots {
            match slot.runner.as_ref().filter(|_| slot.is_live()) {
                Some(runner) => {
                    let bytes = runner.shared().bytes.load(Ordering::Relaxed);
                    here.live.push((room.clone(), bytes));
                }
                None => here.busy.push(room.clone()),
            }
        }
        here
    }

    /// A room goes to another host, or to the store.
    pub(super) fn leave(
        &mut self,
        room: &RoomId,
        to: Option<HostId>,
        reply: oneshot::Sender<MigrateOutcome>,
    ) {
        if !self.slots.get(room).is_some_and(super::slot::Slot::is_live) {
            let why = WhyNotRunning::Left;
            let error = MigrationErr::NotRunning { room: room.clone(), why };
            let _ = reply.send(Err(error)); // nobody waits any more
            return;
        }
        let goal = to.map_or(Goal::Unload, |to| Goal::Move { to });
        self.give_up(room, goal, MoveReason::Drained, Responder::Here(reply));
    }

    /// Stops a room that does not come to a message boundary, and gives its lease back: whoever takes it next
    /// recovers it from its checkpoint and its log, as if this host had died. Whether it was there.
    pub(super) fn kill(&mut self, room: &RoomId) -> bool {
        let Some(slot) = self.slots.get(room).filter(|slot| slot.is_live()) else { return false };
        let lease = slot.lease.clone();
        self.drop_room(room);
        if let Some(lease) = lease {
            self.give_back(room, lease, None);
        }
        true
    }
}
